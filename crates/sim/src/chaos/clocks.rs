//! Wall clocks of machines, which may be wrong: each goes by a file that says by how much, which libfaketime reads.

use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where Debian, and others, have it.
const LIBRARIES: [&str; 3] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/faketime/libfaketimeMT.so.1",
];

/// The clocks of all machines.
pub struct Clocks {
    folder: PathBuf,
    library: Option<&'static str>,
    machines: usize,
    /// By how much all are ahead of the true time.
    ahead_s: i64,
}

impl Clocks {
    /// Right ones, for this number of machines. Without libfaketime they stay so.
    ///
    /// # Errors
    /// `folder` cannot be made.
    pub fn new(folder: PathBuf, machines: usize) -> Result<Self> {
        fs::create_dir(&folder)?;
        let library = LIBRARIES.into_iter().find(|library| Path::new(library).exists());
        let clocks = Self { folder, library, machines, ahead_s: 0 };
        (0..machines).try_for_each(|machine| clocks.set(machine, 0))?;
        Ok(clocks)
    }

    /// Can they be wrong?
    pub fn can_be_wrong(&self) -> bool {
        self.library.is_some()
    }

    /// Has a program go by the clock of its machine, within a second of each change. Only the wall clock jumps, as on a real machine, and times of
    /// files are what the file system says.
    pub fn give(&self, machine: usize, command: &mut Command) {
        let Some(library) = self.library else { return };
        command.env("LD_PRELOAD", library).env("FAKETIME_TIMESTAMP_FILE", self.file(machine));
        command.envs([("FAKETIME_DONT_FAKE_MONOTONIC", "1"), ("NO_FAKE_STAT", "1"), ("FAKETIME_CACHE_DURATION", "1")]);
    }

    /// From now on a machine's clock is off by this much, beside all others.
    ///
    /// # Errors
    /// Its file cannot be written.
    pub fn set(&self, machine: usize, off_s: i64) -> Result<()> {
        let (file, new) = (self.file(machine), self.folder.join("new"));
        fs::write(&new, format!("{:+}s\n", self.ahead_s + off_s))?;
        // Who reads meanwhile finds one or the other.
        fs::rename(new, &file).with_context(|| format!("{} cannot be written", file.display()))
    }

    /// This much time passes at once, for all machines. All go by the same time then.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn pass(&mut self, time_s: i64) -> Result<()> {
        self.ahead_s += time_s;
        (0..self.machines).try_for_each(|machine| self.set(machine, 0))
    }

    fn file(&self, machine: usize) -> PathBuf {
        self.folder.join(format!("machine{machine}"))
    }
}
