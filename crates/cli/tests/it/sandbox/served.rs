//! Daemons of their own processes, and files that are read and written while something happens to them.

use super::Sandbox;
use rustix::process::{Pid, Signal};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A daemon of its own process, ended when dropped.
pub struct Served {
    pub process: Child,
    pub address: String,
    pub url: String,
}

impl Served {
    /// Without a key, or with one and TLS.
    pub fn start(sandbox: &Sandbox, folder: &str, listen: &str, key: Option<&str>) -> Self {
        Self::with(sandbox, folder, listen, key, &[])
    }

    /// The same, with short-circuit reads for users on this machine who ask for them.
    pub fn with_short_circuit(sandbox: &Sandbox, folder: &str, listen: &str, key: Option<&str>) -> Self {
        Self::with(sandbox, folder, listen, key, &["--short-circuit"])
    }

    fn with(sandbox: &Sandbox, folder: &str, listen: &str, key: Option<&str>, more: &[&str]) -> Self {
        let key: Vec<&str> = key.into_iter().flat_map(|file| ["--key", file, "--tls"]).collect();
        let arguments = [&["node", "serve", folder, "--listen", listen][..], &key, more].concat();
        Self::of(sandbox.command(arguments))
    }

    /// By a command that says where it is in its first line.
    pub fn of(mut command: Command) -> Self {
        let mut process = command.stdout(Stdio::piped()).spawn().expect("weft runs");
        let mut line = String::new();
        BufReader::new(process.stdout.take().expect("piped")).read_line(&mut line).expect("it says where it is");
        let url =
            line.split(" at ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap_or_else(|| panic!("`{line}`"));
        let authority = url.split("://").nth(1).and_then(|rest| rest.split('/').next()).expect("an address");
        Self { address: authority.to_owned(), url: url.to_owned(), process }
    }

    pub fn signal(&self, signal: Signal) {
        let id = Pid::from_child(&self.process);
        rustix::process::kill_process(id, signal).expect("sent");
    }

    pub fn kill(&mut self) {
        self.process.kill().expect("killed");
        self.process.wait().expect("ended");
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Reads the file anew in pieces of 64 KiB, with `midway` called once in the middle; how long the longest piece took.
pub fn read_with(path: &Path, right: &[u8], midway: impl FnOnce()) -> Duration {
    let half = right.len() / 2;
    let file = File::open(path).expect("opened");
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).expect("dropped");
    let mut midway = Some(midway);
    let mut longest = Duration::ZERO;
    for (number, right) in right.chunks(64 << 10).enumerate() {
        let at = number * (64 << 10);
        if at >= half
            && let Some(midway) = midway.take()
        {
            midway();
        }
        let mut bytes = vec![0; right.len()];
        let began = Instant::now();
        file.read_exact_at(&mut bytes, at as u64).expect("read without an error");
        longest = longest.max(began.elapsed());
        assert!(bytes == right, "piece {number} differs");
    }
    longest
}

/// Writes the file, with `midway` called once in the middle; how long the longest call took.
pub fn write_with(path: &Path, content: &[u8], midway: impl FnOnce()) -> Duration {
    let mut file = File::create(path).expect("made");
    let (first, second) = content.split_at(content.len() / 2);
    let mut longest = Duration::ZERO;
    let mut write = |pieces: &[u8]| {
        for piece in pieces.chunks(1 << 20) {
            let began = Instant::now();
            file.write_all(piece).expect("written without an error");
            longest = longest.max(began.elapsed());
        }
    };
    write(first);
    midway();
    write(second);
    let began = Instant::now();
    file.sync_all().expect("synced without an error");
    longest.max(began.elapsed())
}
