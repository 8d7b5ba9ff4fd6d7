//! Signals that ask a command to end: SIGTERM, SIGINT (Ctrl-C) and SIGHUP (its terminal was closed).

use anyhow::{Context, Result};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals, caught from when this is made until the process ends.
pub struct Ending {
    terminate: Signal,
    interrupt: Signal,
    /// Missing where whoever started us said that it means nothing, as nohup(1) does.
    hang_up: Option<Signal>,
}

impl Ending {
    /// Catches them. To be called within a runtime.
    pub fn catch() -> Result<Self> {
        let catch = |kind| signal(kind).context("signals cannot be caught");
        let hang_up = (!is_hang_up_ignored()).then(|| catch(SignalKind::hangup())).transpose()?;
        Ok(Self { terminate: catch(SignalKind::terminate())?, interrupt: catch(SignalKind::interrupt())?, hang_up })
    }

    /// Returns when one has come; each counts once.
    pub async fn asked(&mut self) {
        let hang_up = async {
            match &mut self.hang_up {
                Some(hang_up) => hang_up.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            _ = hang_up => {}
        }
    }
}

/// The kernel says which signals a process ignores, as a mask in which SIGHUP is the lowest bit.
fn is_hang_up_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 != 0)
}
