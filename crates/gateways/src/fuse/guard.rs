//! Ends a mount whose process was killed and cannot end.
//!
//! A thread of the process may wait in the kernel for pages or a directory that a program's request holds, and the request for an answer of the
//! process. If the process is killed then, the thread waits for ever, the connection stays open with it, and so programs wait for ever, too. So
//! another process, which has nothing of the connection, looks after it: if the process is dead and the mount goes on, it ends the connection.

use super::mounts::{self, Mount};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use std::path::Path;
use std::time::Duration;

/// How often the process is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// A process that was killed ends by itself within this time, if it can.
const GRACE: Duration = Duration::from_secs(1);

/// The mount at a mountpoint, to be guarded.
///
/// # Errors
/// `/proc` is not there.
pub fn device(mountpoint: &Path) -> std::io::Result<Option<String>> {
    Ok(ours(mountpoint)?.map(|mount| mount.device))
}

/// Looks after the mount that `process` has at `mountpoint`, as `device`, until the process has ended.
///
/// # Errors
/// The process is dead and cannot end, nor can the connection be ended.
pub fn guard(process: u32, device: &str, mountpoint: &Path) -> std::io::Result<()> {
    let status = || Status::of(process);
    let Some(Status { began, .. }) = status() else { return Ok(()) };
    while status().is_some_and(|now| now.began == began && !now.is_dead) {
        std::thread::sleep(LOOK);
    }
    std::thread::sleep(GRACE);
    // If it has ended by itself, so has its connection, and what is mounted there now is another's, of the same number perhaps.
    let is_stuck = status().is_some_and(|now| now.began == began && now.is_dead && now.has_threads);
    match ours(mountpoint)? {
        Some(mount) if is_stuck && mount.device == device => end(device, mountpoint),
        _ => Ok(()),
    }
}

fn ours(mountpoint: &Path) -> std::io::Result<Option<Mount>> {
    Ok(mounts::at(mountpoint)?.filter(Mount::is_ours))
}

/// Every request that is under way fails, and the mount is dead.
fn end(device: &str, mountpoint: &Path) -> std::io::Result<()> {
    // It is the minor number by which the kernel knows the connection. Who mounted may write here; only root may do the other.
    let minor = device.rsplit(':').next().unwrap_or_default();
    if std::fs::write(format!("/sys/fs/fuse/connections/{minor}/abort"), "1").is_ok() {
        return Ok(());
    }
    match rustix::mount::unmount(mountpoint, UnmountFlags::NOFOLLOW | UnmountFlags::FORCE) {
        // The connection is ended before it is found that the mount is in use.
        Ok(()) | Err(Errno::BUSY) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// What `/proc/PID/stat` says of a process.
#[derive(Debug, PartialEq, Eq)]
struct Status {
    /// When it began, in the machine's own count: another process may have its number later.
    began: String,
    /// Its first thread has ended.
    is_dead: bool,
    /// Others have not.
    has_threads: bool,
}

impl Status {
    /// `None`: nothing is left of it, or that cannot be told.
    fn of(process: u32) -> Option<Self> {
        Self::parse(&std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?)
    }

    fn parse(line: &str) -> Option<Self> {
        // The second field is the program's name in brackets, and may have brackets in it; the third is the state, the 20th the number of
        // threads, the 22nd the time.
        let mut after_name = line.rsplit_once(')')?.1.split_ascii_whitespace();
        let is_dead = matches!(after_name.next()?, "Z" | "X");
        let has_threads = !matches!(after_name.nth(16)?, "0" | "1");
        Some(Self { began: after_name.nth(1)?.to_owned(), is_dead, has_threads })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_stuck_when_its_first_thread_is_dead_and_others_are_not() {
        let line = |state: &str, threads: u32| {
            let rest: Vec<String> = (4..20).map(|field| field.to_string()).collect();
            format!("17 (a (name) S) {state} {} {threads} 0 1234 0\n", rest.join(" "))
        };
        let status = |is_dead, has_threads| Some(Status { began: "1234".into(), is_dead, has_threads });
        assert_eq!(Status::parse(&line("S", 20)), status(false, true));
        assert_eq!(Status::parse(&line("D", 1)), status(false, false));
        assert_eq!(Status::parse(&line("Z", 2)), status(true, true));
        assert_eq!(Status::parse(&line("Z", 1)), status(true, false));
        assert_eq!(Status::parse("17 (cut"), None);
        let own = Status::of(std::process::id()).expect("it lives");
        assert!(!own.is_dead && own.began.parse::<u64>().is_ok(), "{own:?}");
    }
}
