//! Ends a mount whose process was killed and cannot end.
//!
//! A thread of the process may wait in the kernel for pages or a directory that a program's request holds, and the request for an answer of the
//! process. If the process is killed then, the thread waits for ever, the connection stays open with it, and so programs wait for ever, too. So
//! another process, which has nothing of the connection, looks after it: if the process is dead and the mount goes on, it ends the connection.

use super::mounts::{self, Mount};
use rustix::mount::UnmountFlags;
use std::path::Path;
use std::time::Duration;

/// How often the process is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// A process that was killed may end by itself within this time, as most do.
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
/// The process is dead, and the connection cannot be ended.
pub fn guard(process: u32, device: &str, mountpoint: &Path) -> std::io::Result<()> {
    let status = || std::fs::read_to_string(format!("/proc/{process}/stat")).ok();
    let Some(began) = status().as_deref().and_then(began_if_living) else { return Ok(()) };
    while status().as_deref().and_then(began_if_living).is_some_and(|now| now == began) {
        std::thread::sleep(LOOK);
    }
    std::thread::sleep(GRACE);
    match ours(mountpoint)? {
        Some(mount) if mount.device == device => end(device, mountpoint),
        _ => Ok(()),
    }
}

fn ours(mountpoint: &Path) -> std::io::Result<Option<Mount>> {
    Ok(mounts::at(mountpoint)?.filter(Mount::is_ours))
}

/// Every request that is under way fails, and the mount is dead. Of one that has ended already nothing changes.
fn end(device: &str, mountpoint: &Path) -> std::io::Result<()> {
    // It is the minor number by which the kernel knows the connection. Who mounted may write here; only root may do the other.
    let minor = device.rsplit(':').next().unwrap_or_default();
    match std::fs::write(format!("/sys/fs/fuse/connections/{minor}/abort"), "1") {
        Ok(()) => Ok(()),
        Err(_) => {
            let flags = UnmountFlags::NOFOLLOW | UnmountFlags::DETACH | UnmountFlags::FORCE;
            Ok(rustix::mount::unmount(mountpoint, flags)?)
        }
    }
}

/// Of `/proc/PID/stat`: when the process began, in the machine's own count; `None` if it is dead, though threads of it may be left.
fn began_if_living(status: &str) -> Option<String> {
    // The second field is the program's name in brackets, and may have brackets in it; the third is the state, the 22nd the time.
    let mut after_name = status.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = after_name.next()?;
    let began = after_name.nth(18)?;
    (!matches!(state, "Z" | "X")).then(|| began.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_lives_until_its_first_thread_is_dead() {
        let status = |state: &str| {
            let rest: Vec<String> = (4..=52).map(|field| field.to_string()).collect();
            format!("17 (a (name) S) {state} {}\n", rest.join(" "))
        };
        assert_eq!(began_if_living(&status("S")).as_deref(), Some("22"));
        assert_eq!(began_if_living(&status("D")).as_deref(), Some("22"));
        assert_eq!(began_if_living(&status("Z")), None);
        assert_eq!(began_if_living("17 (cut"), None);
        let own = std::fs::read_to_string("/proc/self/stat").expect("read");
        assert!(began_if_living(&own).is_some_and(|began| began.parse::<u64>().is_ok()));
    }
}
