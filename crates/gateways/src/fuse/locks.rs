//! Locks of programs that hold on other machines, too. Waiting for one is done here: the kernel has asked once, and cannot say that the program
//! was interrupted meanwhile, so its state is looked at.

use fuser::LockOwner;
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use std::ops::RangeInclusive;
use std::time::Duration;
use weft_format::Ino;
use weft_vfs::{Handle, LockRequest, VfsError, Volume};

/// A lock that is held is asked for again after this, and twice as long each time, ...
const FIRST_PAUSE: Duration = Duration::from_millis(5);
/// ... up to this.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// A part of a file, as its owner has locked it or not.
pub(super) fn part(owner: LockOwner, handle: Handle, bytes: RangeInclusive<u64>) -> LockRequest {
    // The kernel's last offset stands for the end.
    let last = if *bytes.end() >= i64::MAX as u64 { u64::MAX } else { *bytes.end() };
    LockRequest { owner: owner.0, handle, pid: 0, first: *bytes.start(), last, is_exclusive: false }
}

/// What a lock request asks for; `None`: to unlock.
pub(super) fn request(part: LockRequest, kind: i32, pid: u32) -> Option<LockRequest> {
    let is_exclusive = match kind {
        libc::F_WRLCK => true,
        libc::F_RDLCK => false,
        _ => return None,
    };
    Some(LockRequest { pid, is_exclusive, ..part })
}

/// Waits until the lock is given. `Err(None)`: the thread that waits for it was interrupted.
pub(super) fn wait(volume: &Volume, ino: Ino, wanted: LockRequest, thread: u32) -> Result<(), Option<VfsError>> {
    let clock = volume.store().env().clock.clone();
    let mut pause = FIRST_PAUSE;
    loop {
        clock.block(pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
        if is_interrupted(thread) {
            return Err(None);
        }
        if volume.lock(ino, wanted).map_err(Some)?.is_none() {
            return Ok(());
        }
    }
}

/// Has the thread a signal that it will act on, or ended? What cannot be told is no.
fn is_interrupted(thread: u32) -> bool {
    let status_of = |thread: &str| std::fs::read_to_string(format!("/proc/{thread}/status"));
    match status_of(&thread.to_string()) {
        Ok(status) => {
            let leader = field(&status, "Tgid:").filter(|leader| *leader != thread.to_string());
            has_signal(&status, leader.and_then(|leader| status_of(leader).ok()).as_deref())
        }
        Err(error) => error.kind() == std::io::ErrorKind::NotFound && has_ended(thread),
    }
}

/// Threads of others may be hidden, which do not take signals from us either.
fn has_ended(thread: u32) -> bool {
    let thread = i32::try_from(thread).ok().and_then(Pid::from_raw);
    thread.is_some_and(|thread| test_kill_process(thread) == Err(Errno::SRCH))
}

fn field<'s>(status: &'s str, name: &str) -> Option<&'s str> {
    status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

/// Of `/proc/PID/status`: is a signal pending that is neither blocked nor ignored? One that is for all threads of the process the kernel gives
/// to its first thread, whose status is `leader` if this is another, unless it is blocked there.
fn has_signal(status: &str, leader: Option<&str>) -> bool {
    let mask = |status: &str, name: &str| field(status, name).and_then(|value| u64::from_str_radix(value, 16).ok());
    let elsewhere = leader.map_or(0, |leader| !mask(leader, "SigBlk:").unwrap_or(0));
    let shared = mask(status, "ShdPnd:").unwrap_or(0) & !elsewhere;
    let pending = mask(status, "SigPnd:").unwrap_or(0) | shared;
    pending & !(mask(status, "SigBlk:").unwrap_or(0) | mask(status, "SigIgn:").unwrap_or(0)) != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_that_is_neither_blocked_nor_ignored_interrupts() {
        let status = |pending: u64, shared: u64, blocked: u64, ignored: u64| {
            format!(
                "Name:\tx\nSigPnd:\t{pending:016x}\nShdPnd:\t{shared:016x}\nSigBlk:\t{blocked:016x}\nSigIgn:\t{ignored:016x}\n"
            )
        };
        let alone = |status: String| has_signal(&status, None);
        assert!(!alone(status(0, 0, 0, 0)));
        assert!(alone(status(4, 0, 2, 1)) && alone(status(0, 8, 0, 0)));
        assert!(!alone(status(4, 0, 4, 0)) && !alone(status(0, 4, 0, 4)));
        assert!(!alone("nothing of it".into()));
        // One for all threads is the first one's, unless that has it blocked; one of a thread's own is its own.
        let second = |status: String, leader: String| has_signal(&status, Some(&leader));
        assert!(!second(status(0, 8, 0, 0), status(0, 8, 0, 0)));
        assert!(second(status(0, 8, 0, 0), status(0, 8, 8, 0)));
        assert!(second(status(8, 0, 0, 0), status(0, 0, 0, 0)));
    }

    #[test]
    fn a_request_reaches_to_the_end_or_to_its_last_byte() {
        let (owner, handle) = (LockOwner(7), Handle(2));
        let whole = request(part(owner, handle, 0..=i64::MAX as u64), libc::F_WRLCK, 3);
        let expected = LockRequest { owner: 7, handle, pid: 3, first: 0, last: u64::MAX, is_exclusive: true };
        assert_eq!(whole, Some(expected));
        let some = part(owner, handle, 5..=9);
        assert_eq!(request(some, libc::F_RDLCK, 3).map(|lock| (lock.last, lock.is_exclusive)), Some((9, false)));
        assert_eq!(request(some, libc::F_UNLCK, 3), None);
    }
}
