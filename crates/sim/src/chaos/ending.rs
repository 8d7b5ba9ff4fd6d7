//! How chaos ends: faults end, everything recovers, is read and compared, and the volume is unmounted, checked and mounted again.

use super::cluster::Target;
use super::programs::read_and_compare;
use super::{Chaos, HEAL_DEADLINE, Phase};
use anyhow::Result;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

/// How long programs go on after the last fault.
const LAST_WORK: Duration = Duration::from_secs(5);

impl Chaos {
    /// A scrub reads everything, and repairs what it finds.
    pub fn scrub_until_whole(&mut self) -> Result<bool> {
        let is_whole = self.wait_until("a scrub finds all whole", |chaos| {
            let output = chaos.cluster.ask(&["scrub"], HEAL_DEADLINE)?;
            chaos.log.tell(&format!("scrub: {}: {}", output.status, said(&output)));
            Ok(output.status.success())
        })?;
        if is_whole {
            self.victim = None;
        }
        Ok(is_whole)
    }

    /// Programs end, and the volume is unmounted. Did that return 0?
    pub fn unmount_well(&mut self, is_calm: bool) -> Result<bool> {
        // It would wait for that. A start that is due comes while there is a mount, and does nothing.
        self.cure_all()?;
        if !self.stop_programs()? {
            return Ok(false);
        }
        let unmounted = self.cluster.unmount(HEAL_DEADLINE);
        let is_ended = unmounted.is_ok();
        match unmounted {
            Ok(()) => self.log.tell("unmounted"),
            Err(error) if is_calm => self.complain(format!("unmounting: {error:#}")),
            Err(error) => self.log.tell(&format!("unmounting: {error:#}")),
        }
        self.cluster.kill(Target::Mount);
        Ok(is_ended)
    }

    /// Has programs end on a mount that goes on. Did they?
    fn stop_programs(&mut self) -> Result<bool> {
        self.programs.is_stopping.store(true, Ordering::Relaxed);
        let have_ended = self.wait_until("programs end", |chaos| {
            Ok(matches!(&chaos.phase, Phase::Working(threads) if threads.iter().all(JoinHandle::is_finished)))
        })?;
        if have_ended {
            self.programs_end();
        }
        Ok(have_ended)
    }

    /// Faults end: everything recovers, is read and compared, and is there after the volume was unmounted and mounted again.
    pub fn end_well(&mut self) -> Result<()> {
        self.log.tell("the faults end");
        self.cure_all()?;
        self.wait_for_programs()?;
        self.wait(LAST_WORK)?;
        if !self.wait_until_whole()? {
            return Ok(());
        }
        for is_first in [true, false] {
            if !is_first {
                self.start_mount()?;
                self.wait_for_programs()?;
            }
            if !self.is_well() || !self.unmount_after_reading()? {
                return Ok(());
            }
        }
        self.cluster.end_worker()?;
        for command in [&["scrub"][..], &["fsck"], &["status"], &["gc", "--grace", "0s"], &["fsck"]] {
            let output = self.cluster.ask(command, HEAL_DEADLINE)?;
            let words = command.join(" ");
            self.log.tell(&format!("{words}: {}: {}", output.status, said(&output)));
            if !output.status.success() {
                self.complain(format!("weft {words} ended with {}: {}", output.status, said(&output)));
            }
        }
        // Nothing that is needed was removed.
        self.start_mount()?;
        self.wait_for_programs()?;
        self.unmount_after_reading().map(drop)
    }

    /// Everything is as the models have it, and the unmount succeeds.
    fn unmount_after_reading(&mut self) -> Result<bool> {
        if !self.stop_programs()? {
            return Ok(false);
        }
        let readers = self.start_threads(read_and_compare);
        self.phase = Phase::Working(readers);
        if !self.unmount_well(true)? {
            return Ok(false);
        }
        self.programs.models.iter().for_each(|model| model.lock().synced_all());
        Ok(true)
    }
}

fn said(output: &std::process::Output) -> String {
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&text).trim().replace('\n', "; ")
}
