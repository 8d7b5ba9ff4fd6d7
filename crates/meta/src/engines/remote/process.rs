//! Whether a process that another record names still runs.

use rustix::process::Pid;

/// Processes of one machine, and of one space of process numbers on it, have the same; `None`: that cannot be told.
pub(in crate::engines) fn this_machine() -> Option<String> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let space = std::fs::read_link("/proc/self/ns/pid").ok()?;
    Some(format!("{} {}", boot.trim(), space.display()))
}

/// Has a process of this machine ended? A machine may hide the processes of others: what cannot be told has not.
pub(in crate::engines) fn has_ended(process: u32, process_began: &str) -> bool {
    let Some(pid) = Pid::from_raw(process.cast_signed()) else { return false };
    if rustix::process::test_kill_process(pid) == Err(rustix::io::Errno::SRCH) {
        return true;
    }
    // Another may have its number now.
    began(process).is_some_and(|began| began != process_began)
}

/// When a process began, in the machine's own count; empty: nothing but its exit status is left of it. `None`: that cannot be told.
pub(in crate::engines) fn began(process: u32) -> Option<String> {
    let status = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The second field is the program's name in brackets, and may have brackets in it; the third is the state, the 22nd the time.
    let mut after_name = status.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = after_name.next()?;
    // The 20th is the number of threads: one that is being killed has its exit status before all of them have ended.
    let threads = after_name.nth(16)?;
    match state {
        "Z" | "X" if matches!(threads, "0" | "1") => Some(String::new()),
        _ => after_name.nth(1).map(str::to_owned),
    }
}
