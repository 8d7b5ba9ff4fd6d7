//! A process that is measured: how long it runs, and the most memory that it has.

use std::fs;
use std::io;
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

/// Between two looks at a process. The kernel keeps the most that it ever had, so only what it takes in its last moments is missed.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// What a process took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Taken {
    /// From its start to its end.
    pub seconds: f64,
    /// Resident memory at its highest; 0: it ended before it was looked at.
    pub peak_bytes: u64,
}

/// Runs a command to its end, however it ends.
///
/// # Errors
/// It cannot be started or waited for.
pub fn measure(command: &mut Command) -> io::Result<(ExitStatus, Taken)> {
    let began = Instant::now();
    let mut child: Child = command.spawn()?;
    let mut highest = 0;
    loop {
        highest = peak_bytes(child.id()).unwrap_or(0).max(highest);
        if let Some(status) = child.try_wait()? {
            return Ok((status, Taken { seconds: began.elapsed().as_secs_f64(), peak_bytes: highest }));
        }
        thread::sleep(LOOK_EVERY);
    }
}

/// The most resident memory that a process has had so far; `None`: there is none of this number.
#[must_use]
pub fn peak_bytes(process: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let kilobytes = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    kilobytes.trim().strip_suffix(" kB")?.trim().parse().ok().map(|kilobytes: u64| kilobytes * 1024)
}

/// Processes that ran or wanted to in the last minute, on average; `None`: this system does not say.
#[must_use]
pub fn load_average() -> Option<f64> {
    fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().next()?.parse().ok()
}
