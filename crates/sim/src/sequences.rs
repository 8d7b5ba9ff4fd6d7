//! Whole sequences of events, which chance alone hardly makes: a process comes to a certain step and stops there, and something else happens
//! until it goes on. A history's other faults come before and behind them.

use crate::ambush::{Ambush, ProcessId, Step, Stroke};
use crate::commands::Command;
use crate::place::Condition;
use crate::scheduler::running;
use crate::world::World;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// No process takes longer than these to come to its step. If it does not, nothing happens.
const STEPS_TO_COME: u64 = 6_000;
const STEPS_OF_CALM: u64 = 400_000;
/// Longer than a lease and what its next holder does first.
const LEASE_AND_MORE: Duration = Duration::from_secs(400);
/// Longer than a grace time and the collections before and behind it.
const GRACE_AND_MORE: Duration = Duration::from_secs(1_500);
/// A process whose session ends by silence is still there after this.
const SHORT_STOP_MS_MAX: u64 = 15_000;
/// A conversion begins and ends within this time.
const TIME_TO_CONVERT: Duration = Duration::from_secs(40);
/// After a process went on, what it had begun ends within this time.
const TIME_TO_END: Duration = Duration::from_secs(20);
/// Programs write this long while places are full, or while a commit is refused.
const STEPS_OF_WRITING: u64 = 4_000;
/// More would be refused: a mount may have only so much in memory.
const LARGE_WRITES: u64 = 5;

/// A sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sequence {
    /// A worker that moves or rebuilds a shard has stored it and stops. Another takes its place, repairs what has rotted, and does the same.
    WorkerStops,
    /// Who writes has stored a segment's shards and stops before it commits them, while others collect what nothing needs.
    WriterStops,
    /// Who writes stores shards and stops, while people replace or empty a node.
    NodeLeaves,
    /// Files get other codes, one after the other.
    Conversions,
    /// Nothing was wrong for long. Then some places are full.
    FullPlaces,
    /// Programs append much, and of two segments the first has no room for its record.
    Appends,
}

impl Sequence {
    /// How often each happens beside the faults.
    pub(crate) const WEIGHTS: [(Self, u64); 6] = [
        (Self::WorkerStops, 6),
        (Self::WriterStops, 6),
        (Self::NodeLeaves, 4),
        (Self::Conversions, 6),
        (Self::FullPlaces, 4),
        (Self::Appends, 8),
    ];

    /// Does it take minutes?
    pub(crate) fn is_long(self) -> bool {
        !matches!(self, Self::NodeLeaves | Self::Appends)
    }
}

impl World {
    /// It happens.
    pub(crate) fn happen(&mut self, sequence: Sequence) {
        self.scheduler.tell(|| format!("{sequence:?}"));
        match sequence {
            Sequence::WorkerStops => self.worker_stops(),
            Sequence::WriterStops => self.writer_stops(),
            Sequence::NodeLeaves => self.node_leaves(),
            Sequence::Conversions => {
                for _ in 0..2 + self.below(2) {
                    self.set_policy();
                    self.idle(TIME_TO_CONVERT, STEPS_OF_CALM);
                }
            }
            Sequence::FullPlaces => self.fill_places(),
            Sequence::Appends => self.append_much(),
        }
    }

    fn worker_stops(&mut self) {
        if !self.is_whole_but_for_one() {
            return;
        }
        if self.workers.len() < 2 {
            self.start_worker();
        }
        self.command(Command::Replace);
        let workers = self.workers.iter().map(|(process, _)| *process).collect();
        let Some(worker) = self.come(workers, Step::ShardPut, true) else { return };
        let victim = self.victim.unwrap_or_else(|| self.a_place());
        self.victim = Some(victim);
        let place = self.places.all().swap_remove(victim);
        let rotten = place.rot_all(&self.scheduler);
        self.scheduler.tell(|| format!("{worker:?} stops, and all {rotten} shards on {} rot", place.name()));
        self.command(Command::Scrub);
        self.go_on_after(worker, LEASE_AND_MORE);
    }

    fn writer_stops(&mut self) {
        let Some(writer) = self.come(self.mounted(), Step::SegmentCommit, false) else { return };
        self.command(Command::Collect);
        // One with a session would lose it, and with it the right to commit.
        let is_long = !self.disk.is_shared() && self.chance(500);
        self.go_on_after(writer, if is_long { GRACE_AND_MORE } else { self.short_stop() });
    }

    fn node_leaves(&mut self) {
        let Some(writer) = self.come(self.mounted(), Step::ShardPut, false) else { return };
        self.command(if self.chance(500) { Command::Replace } else { Command::Drain });
        self.go_on_after(writer, self.short_stop());
    }

    fn fill_places(&mut self) {
        if !self.is_whole_but_for_one() {
            return;
        }
        let mut places = self.places.all();
        for _ in 0..=self.below(places.len() as u64 - 1) {
            let place = places.swap_remove(self.below(places.len() as u64) as usize);
            self.scheduler.tell(|| format!("{} is full", place.name()));
            place.set_condition(Condition::Full);
        }
        self.write_much();
        self.places.all().iter().for_each(|place| place.heal());
    }

    fn append_much(&mut self) {
        self.refuse_commit();
        self.write_much();
    }

    /// Programs do large writes, among other things, for a while.
    fn write_much(&mut self) {
        self.programs.large_writes_left.store(LARGE_WRITES, Ordering::Relaxed);
        // What is stuck is said by what comes next.
        let _ = self.go_on(STEPS_OF_WRITING);
        self.programs.large_writes_left.store(0, Ordering::Relaxed);
    }

    fn short_stop(&self) -> Duration {
        Duration::from_millis(self.below(SHORT_STOP_MS_MAX))
    }

    /// Waits until one of these is at a step. It stops there.
    fn come(&mut self, processes: Vec<ProcessId>, step: Step, is_behind: bool) -> Option<ProcessId> {
        self.call_off_ambush();
        let scheduler = self.scheduler.clone();
        let passed_by = self.below(3);
        // It is taken from where it waits at once: the stroke is what this sequence does.
        scheduler.lay(Some(Ambush { processes, step, is_behind, passed_by, stroke: Stroke::Stop(Duration::ZERO) }));
        scheduler.run(STEPS_TO_COME, || scheduler.is_sprung() || self.has_complaints());
        scheduler.lay(None);
        let (process, _) = scheduler.take_sprung()?;
        scheduler.tell(|| format!("{process:?} is at its {step:?}"));
        Some(process)
    }

    /// A process that stopped goes on after `time`, and ends what it had begun.
    fn go_on_after(&mut self, process: ProcessId, time: Duration) {
        self.scheduler.after(time, move || running().pause(process, false));
        self.idle(time + TIME_TO_END, STEPS_OF_CALM);
        // The time may not have passed.
        self.scheduler.pause(process, false);
    }
}
