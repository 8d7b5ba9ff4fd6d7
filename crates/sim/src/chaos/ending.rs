//! How chaos ends: faults end, everything recovers, is read and compared, and the volume is unmounted, checked and mounted again.

use super::cluster::Target;
use super::contenders::Contender;
use super::phases::MountPhase;
use super::programs::read_and_compare;
use super::{Chaos, HEAL_DEADLINE};
use anyhow::Result;
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

    /// The programs of a mount end, and it is unmounted. Did that return 0?
    ///
    /// # Errors
    /// Chaos itself cannot go on.
    pub fn unmount_well(&mut self, number: usize, is_calm: bool) -> Result<bool> {
        // It would wait for that. A start that is due comes while there is a mount, and does nothing.
        self.cure_all()?;
        if !self.stop_programs(|_, program| program.mount == number)? {
            return Ok(false);
        }
        Ok(self.unmount(number, is_calm))
    }

    /// Unmounts what no program uses any more. Did that return 0?
    fn unmount(&mut self, number: usize, is_calm: bool) -> bool {
        self.contender_ends(number);
        let unmounted = self.cluster.unmount(number, HEAL_DEADLINE);
        let is_ended = unmounted.is_ok();
        match unmounted {
            Ok(()) => self.log.tell(&format!("mount{number} is unmounted")),
            Err(error) if is_calm => self.complain(format!("unmounting: {error:#}")),
            Err(error) => self.log.tell(&format!("unmounting: {error:#}")),
        }
        self.note_end_of_mount(number);
        self.cluster.kill(Target::Mount(number));
        self.programs_end(number);
        self.mounts[number].phase = MountPhase::Down;
        is_ended
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
                self.start_mounts()?;
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
        self.start_mounts()?;
        self.unmount_after_reading().map(drop)
    }

    /// Everything is as the models have it, on each mount, and the unmounts succeed.
    fn unmount_after_reading(&mut self) -> Result<bool> {
        if !self.stop_programs(|_, _| true)? {
            return Ok(false);
        }
        for mount in 0..self.mounts.len() {
            let readers: Vec<_> =
                (0..self.assignments.len()).map(|number| self.start_thread(number, mount, read_and_compare)).collect();
            let have_read = |_: &mut Self| Ok(readers.iter().all(JoinHandle::is_finished));
            if !self.wait_until("programs read everything", have_read)? {
                return Ok(false);
            }
        }
        (0..self.mounts.len()).for_each(|mount| self.contender_ends(mount));
        let last_look = Contender::start_last_look(&self.mounts[0].point, &self.told, &self.log);
        if !self.wait_until("a program looks at the contended names", |_| Ok(last_look.has_ended()))? {
            return Ok(false);
        }
        self.told.complaints().into_iter().for_each(|complaint| self.complain(complaint));
        for mount in 0..self.mounts.len() {
            if !self.unmount(mount, true) {
                return Ok(false);
            }
        }
        self.programs.models.iter().for_each(|model| model.lock().synced_all());
        Ok(true)
    }
}

fn said(output: &std::process::Output) -> String {
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&text).trim().replace('\n', "; ")
}
