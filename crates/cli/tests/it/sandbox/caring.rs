//! A worker of its own process.

use rustix::process::{Pid, Signal};
use std::process::{Child, Command, Stdio};

/// Killed when dropped.
pub struct Caring(Child);

impl Caring {
    /// By `weft care META ...`.
    pub fn of(mut command: Command) -> Self {
        Self(command.stderr(Stdio::null()).spawn().expect("weft runs"))
    }

    /// Asks it to end, and waits.
    pub fn end(mut self) {
        rustix::process::kill_process(Pid::from_child(&self.0), Signal::TERM).expect("sent");
        assert!(self.0.wait().expect("ended").success());
    }
}

impl Drop for Caring {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
