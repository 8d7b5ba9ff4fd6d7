//! One history: a volume is made, programs work on it, faults strike between any two steps, and at the end all must be well.

use crate::checks::STEPS_TO_HEAL;
use crate::commands::Command;
use crate::faults::Mixture;
use crate::length::{BRIEF_FAULTS_MAX, FAULTS_MAX, Length};
use crate::scheduler::{Ended, Scheduler};
use crate::world::World;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The scheduler's steps between two faults, of a history and of a brief one.
const STEPS_BETWEEN: u64 = 1_500;
const BRIEF_STEPS_BETWEEN: u64 = 500;
/// For how long programs go on after the last fault.
const AFTER_FAULTS: Duration = Duration::from_secs(10);
const BRIEF_AFTER_FAULTS: Duration = Duration::from_millis(500);

/// What a history came to.
#[derive(Debug)]
pub struct Outcome {
    /// Which it was.
    pub seed: u64,
    /// What is not as promised; empty: nothing.
    pub complaints: Vec<String>,
    /// Steps of the scheduler.
    pub steps: u64,
    /// Operations of programs that succeeded, and fsyncs among them.
    pub operations: u64,
    /// See there.
    pub fsyncs: u64,
    /// Faults that struck.
    pub faults: u64,
    /// All that was told, if it was kept.
    pub lines: Vec<String>,
    /// The same for two runs of one seed.
    pub digest: String,
}

/// Runs the history of `seed`.
#[must_use]
pub fn run(seed: u64, length: &Length, is_told: bool) -> Outcome {
    let scheduler = Scheduler::begin(seed, is_told);
    let mut world = World::new(&scheduler, seed, length);
    match world.live(length) {
        // It may have ended by one.
        Err(complaint) if !world.has_complaints() => world.programs.complain(complaint),
        _ => {}
    }
    let mut complaints = std::mem::take(&mut *world.programs.complaints.lock());
    complaints.extend(scheduler.take_complaints());
    complaints.iter().for_each(|complaint| scheduler.tell(|| format!("COMPLAINT {complaint}")));
    let (lines, digest) = scheduler.told();
    let outcome = Outcome {
        seed,
        complaints,
        steps: scheduler.steps(),
        operations: world.programs.operations.load(Ordering::Relaxed),
        fsyncs: world.programs.fsyncs.load(Ordering::Relaxed),
        faults: world.faults,
        lines,
        digest,
    };
    scheduler.end();
    // Whatever is left of processes must not run.
    std::mem::forget(world);
    outcome
}

impl World {
    fn live(&mut self, length: &Length) -> Result<(), String> {
        self.format()?;
        let mixture = Mixture::of(self);
        let (faults, between) = match length.is_brief {
            true => (1 + self.below(BRIEF_FAULTS_MAX), BRIEF_STEPS_BETWEEN),
            false => (self.below(FAULTS_MAX + 1), STEPS_BETWEEN),
        };
        (0..self.plan.workers).for_each(|_| self.start_worker());
        self.start_mount();
        for number in 0..faults.min(length.faults) {
            self.choose_as(number);
            let steps = 50 + self.below(between);
            self.go_on(steps)?;
            if !length.without.contains(&number) {
                self.scheduler.tell(|| format!("fault {number}:"));
                self.strike(&mixture);
                self.faults += 1;
            }
        }
        if self.has_complaints() {
            return Ok(());
        }
        self.end_well(if length.is_brief { BRIEF_AFTER_FAULTS } else { AFTER_FAULTS })
    }

    /// Takes `steps` steps, and does what a fault that waited does.
    pub(crate) fn go_on(&mut self, steps: u64) -> Result<(), String> {
        let (scheduler, end) = (self.scheduler.clone(), self.scheduler.steps() + steps);
        loop {
            match scheduler
                .run(end.saturating_sub(scheduler.steps()), || scheduler.is_sprung() || self.has_complaints())
            {
                _ if self.has_complaints() => return Err("it ends with a complaint".into()),
                Ended::Stuck => return Err(format!("nothing goes on: {:?}", scheduler.waiting())),
                Ended::Done => self.spring(),
                Ended::TooLong => return Ok(()),
            }
        }
    }

    /// Faults stop: the programs go on for a while and end, everything is there, and whole again.
    fn end_well(&mut self, programs_time: Duration) -> Result<(), String> {
        let scheduler = self.scheduler.clone();
        scheduler.tell(|| "the faults end".into());
        self.programs.count_syncs();
        self.call_off_ambush();
        self.places.all().iter().for_each(|place| place.heal());
        self.disk.set_full(false);
        for process in self.mount.iter().map(|mount| mount.process).chain(self.workers.iter().map(|worker| worker.0)) {
            scheduler.pause(process, false);
        }
        // One that was stopped could ask for a pause after this.
        self.commands.drain(..).for_each(|command| scheduler.kill(command));
        let resume = self.command(Command::Resume);
        self.wait("resuming", STEPS_TO_HEAL, || !scheduler.is_alive(resume))?;
        self.replace_what_was_wiped();
        self.wait_for_programs(programs_time)?;
        // In a brief history they have not the time.
        if let Some(refused) = self.programs.refused_for_good().filter(|_| !self.plan.is_brief) {
            return Err(refused);
        }
        let is_on_nodes = self.unmount(STEPS_TO_HEAL)?;
        self.programs.models.iter().for_each(|model| model.lock().synced_all());
        if is_on_nodes {
            self.recover()?;
            (0..self.plan.workers).for_each(|_| self.start_worker());
        }
        self.start_mount();
        self.wait_for_programs(programs_time)?;
        self.wait_until_whole()?;
        if self.plan.has_commands {
            self.command(Command::Convert);
            self.wait_until_converted()?;
        }
        if self.plan.looks_for_orphans {
            self.wait_until_collected()?;
        }
        self.check_metadata()?;
        self.check_last()
    }

    /// The programs go on for `time`, and end.
    fn wait_for_programs(&mut self, time: Duration) -> Result<(), String> {
        let scheduler = self.scheduler.clone();
        let Some(mount) = &self.mount else { return Err("there is no mount".into()) };
        let (is_up, programs_running) = (mount.is_up.clone(), mount.programs_running.clone());
        self.programs.is_stopping.store(false, Ordering::Relaxed);
        self.wait("mounting", STEPS_TO_HEAL, || is_up.load(Ordering::Relaxed))?;
        let until = scheduler.now() + time;
        let _ = scheduler.run(20_000, || scheduler.now() >= until);
        self.programs.is_stopping.store(true, Ordering::Relaxed);
        self.wait("programs end", STEPS_TO_HEAL, || programs_running.load(Ordering::Relaxed) == 0)
    }
}

#[cfg(test)]
#[path = "history_tests.rs"]
mod tests;
