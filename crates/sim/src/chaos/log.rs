//! What happened when: a file in the work folder, and stdout on demand.

use anyhow::Result;
use parking_lot::Mutex;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::Instant;

/// See the module's head.
pub struct Log {
    began: Instant,
    file: Mutex<File>,
    is_verbose: bool,
}

impl Log {
    /// A new one in the folder.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn new(folder: &Path, is_verbose: bool) -> Result<Self> {
        Ok(Self { began: Instant::now(), file: Mutex::new(File::create(folder.join("chaos.log"))?), is_verbose })
    }

    /// Adds a line.
    pub fn tell(&self, line: &str) {
        let line = format!("{:9.3} {line}", self.began.elapsed().as_secs_f64());
        if self.is_verbose {
            println!("{line}");
        }
        // A log that cannot be written ends nothing.
        let _ = writeln!(self.file.lock(), "{line}");
    }
}
