//! Several mounts together with workers, commands and faults of nodes and the network, in one history: what `many.rs` looks at, and at the
//! end everything is read whole, every shard is in its place, metadata agrees with itself and nothing is left that nothing needs.

use crate::checks::STEPS_TO_HEAL;
use crate::commands::Command;
use crate::faults::{Fault, Mixture};
use crate::length::Length;
use crate::many::{MOUNTS, Many, Mount};
use crate::metadata::SILENCE;
use crate::scheduler::{Scheduler, running};
use crate::sequences::Sequence;
use crate::weights::chosen;
use crate::world::CODES;
use std::sync::atomic::Ordering;
use std::time::Duration;
use weft_care::record::Requests;
use weft_engine::StoreCatalogue;
use weft_format::Ino;

const PROGRAMS: usize = 2;
/// The most faults of a history.
pub const FAULTS_MAX: u64 = 16;
const STEPS_BETWEEN: u64 = 3_000;
/// How many of a thousand faults are ambushes, and whole sequences, beside those of the mixture. Of these one is chosen for a history.
const AMBUSH_AND_SEQUENCE_PER_MILLE: [(u64, u64); 4] = [(0, 0), (0, 0), (600, 0), (0, 600)];
/// Between two looks at who is there.
const STEPS_OF_LOOK: u64 = 500;
/// How many of a thousand commands set a policy.
const POLICY_PER_MILLE: u64 = 350;
/// A mount that comes back when its session is over goes on for so long.
const TIME_TO_LEARN: Duration = Duration::from_secs(5);
/// For how long programs go on after the last fault.
const AFTER_FAULTS: Duration = Duration::from_secs(30);

/// What a history came to.
#[derive(Debug)]
pub struct Outcome {
    /// What is not as promised; empty: nothing.
    pub complaints: Vec<String>,
    /// Steps of the scheduler.
    pub steps: u64,
    /// Operations of programs that succeeded.
    pub operations: u64,
    /// Mounts that began.
    pub mounts: u64,
    /// Faults that struck.
    pub faults: u64,
    /// All that was told, if it was kept.
    pub lines: Vec<String>,
    /// The same for two runs of one seed.
    pub digest: String,
}

/// How much of a history happens: all of it, with nodes that are reached over HTTP or by messages.
#[must_use]
pub fn whole(is_over_http: bool) -> Length {
    Length { is_over_http, ..Length::of(FAULTS_MAX) }
}

/// Runs the history of `seed`, which is never brief.
#[must_use]
pub fn run(seed: u64, length: &Length, is_told: bool) -> Outcome {
    let scheduler = Scheduler::begin(seed, is_told);
    let mut cared = Cared {
        many: Many::new(&scheduler, seed, length, true),
        mounts: Vec::new(),
        begun: 0,
        ambush_and_sequence_per_mille: (0, 0),
    };
    let ended = cared.live(length);
    let mut complaints = scheduler.take_complaints();
    complaints.extend(std::mem::take(&mut *cared.many.world.programs.complaints.lock()));
    complaints.extend(std::mem::take(&mut cared.many.told.lock().versions.complaints));
    // It may have ended by one.
    complaints.extend(ended.err().filter(|_| complaints.is_empty()));
    complaints.iter().for_each(|complaint| scheduler.tell(|| format!("COMPLAINT {complaint}")));
    let (lines, digest) = scheduler.told();
    let outcome = Outcome {
        complaints,
        steps: scheduler.steps(),
        operations: cared.many.told.lock().operations,
        mounts: cared.begun,
        faults: cared.many.world.faults,
        lines,
        digest,
    };
    scheduler.end();
    // What is left of processes must not run.
    std::mem::forget(cared);
    outcome
}

struct Cared {
    many: Many,
    /// By machine.
    mounts: Vec<Mount>,
    begun: u64,
    /// How many of a thousand faults are ambushes, and whole sequences, beside those of the mixture.
    ambush_and_sequence_per_mille: (u64, u64),
}

impl Cared {
    fn live(&mut self, length: &Length) -> Result<(), String> {
        self.many.format()?;
        let mixture = Mixture::of(&self.many.world);
        let faults = self.many.world.below(FAULTS_MAX + 1).min(length.faults);
        let kinds = AMBUSH_AND_SEQUENCE_PER_MILLE;
        self.ambush_and_sequence_per_mille = kinds[self.many.world.below(kinds.len() as u64) as usize];
        (0..self.many.world.plan.workers).for_each(|_| self.many.world.start_worker());
        for machine in 0..MOUNTS {
            let mount = self.mount(machine);
            self.mounts.push(mount);
        }
        self.note_members();
        for number in 0..faults {
            self.many.world.choose_as(number);
            let steps = 50 + self.many.world.below(STEPS_BETWEEN);
            self.go_on(steps)?;
            if self.has_complaints() {
                return Ok(());
            }
            if !length.without.contains(&number) {
                self.many.world.scheduler.tell(|| format!("fault {number}:"));
                self.strike(&mixture);
                self.many.world.faults += 1;
            }
        }
        self.end_well()
    }

    fn has_complaints(&self) -> bool {
        self.many.world.has_complaints() || !self.many.told.lock().versions.complaints.is_empty()
    }

    fn mount(&mut self, machine: usize) -> Mount {
        self.begun += 1;
        self.many.mount(machine, PROGRAMS)
    }

    fn note_members(&mut self) {
        self.many.world.members = self.mounts.iter().map(|mount| mount.process).collect();
    }

    /// Takes `steps` steps; who has lost the session begins again meanwhile.
    fn go_on(&mut self, steps: u64) -> Result<(), String> {
        let end = self.many.world.scheduler.steps() + steps;
        while self.many.world.scheduler.steps() < end {
            self.many.world.go_on(STEPS_OF_LOOK)?;
            self.replace_ended();
        }
        Ok(())
    }

    /// Processes without a session end, and others take their place.
    fn replace_ended(&mut self) {
        let scheduler = self.many.world.scheduler.clone();
        for machine in 0..self.mounts.len() {
            let gone = self.mounts[machine].process;
            if self.many.world.disk.has_session(gone) {
                continue;
            }
            self.many.end_session(gone);
            if scheduler.is_alive(gone) {
                scheduler.pause(gone, false);
                // It learns that it is too late, while another has taken its place.
                scheduler.after(TIME_TO_LEARN, move || running().kill(gone));
            }
            self.mounts[machine] = self.mount(machine);
        }
        self.note_members();
        let disk = self.many.world.disk.clone();
        while let Some(at) = self.many.world.workers.iter().position(|(worker, _)| {
            // One that has not begun yet has none either.
            scheduler.is_alive(*worker) && disk.has_lost_session(*worker)
        }) {
            self.many.world.kill_worker(at);
            self.many.world.start_worker();
        }
    }

    fn strike(&mut self, mixture: &Mixture) {
        let world = &mut self.many.world;
        let scheduler = world.scheduler.clone();
        let (ambush_per_mille, sequence_per_mille) = self.ambush_and_sequence_per_mille;
        let fault = match world.below(1000) {
            number if number < ambush_per_mille => Fault::Ambush,
            number if number < sequence_per_mille => {
                Fault::Sequence(chosen(&Sequence::WEIGHTS, |end| world.below(end)))
            }
            _ => mixture.choose(world),
        };
        match fault {
            Fault::KillMount => {
                let process = self.mounts[world.below(MOUNTS as u64) as usize].process;
                scheduler.tell(|| format!("{process:?}, a mount, is killed"));
                scheduler.kill(process);
            }
            Fault::CutPower => {
                scheduler.tell(|| "the power fails".into());
                self.mounts.iter().for_each(|mount| scheduler.kill(mount.process));
                while !world.workers.is_empty() {
                    world.kill_worker(0);
                }
                world.commands.drain(..).for_each(|process| scheduler.kill(process));
                world.places.all().iter().for_each(|place| place.cut_power(&scheduler));
                world.cut_power_of_daemons();
                (0..world.plan.workers).for_each(|_| world.start_worker());
            }
            Fault::Command if world.chance(POLICY_PER_MILLE) => self.set_policy(),
            Fault::Sequence(Sequence::Conversions) => self.set_policy(),
            // An engine that many share has no older copy: it is a service of its own.
            Fault::OlderCopy | Fault::LoseMetadata => {}
            other => world.strike_with(other, mixture),
        }
    }

    /// A mount sets the policy of the root, as `weft policy set` has it do.
    fn set_policy(&self) {
        let world = &self.many.world;
        let mount = &self.mounts[world.below(MOUNTS as u64) as usize];
        let Some(volume) = mount.volume.lock().clone() else { return };
        let code = CODES[world.below(CODES.len() as u64) as usize];
        world.scheduler.tell(|| format!("people: the policy of the root is {code}"));
        world.scheduler.start(mount.process, "policy", move || {
            let set = || -> Result<(), String> {
                volume.set_policy(Ino::ROOT, &format!("{code} segment 1MiB")).map_err(|error| error.to_string())?;
                let catalogue = StoreCatalogue::new(volume.store().clone());
                Requests::change(&catalogue, |requests| requests.convert_count += 1).map_err(|error| error.to_string())
            };
            if let Err(why) = set() {
                running().tell(|| format!("the policy {code}: {why}"));
            }
        });
    }

    fn end_well(&mut self) -> Result<(), String> {
        let scheduler = self.many.world.scheduler.clone();
        scheduler.tell(|| "the faults end".into());
        let world = &mut self.many.world;
        world.call_off_ambush();
        world.places.all().iter().for_each(|place| place.heal());
        world.disk.set_full(false);
        let workers: Vec<_> = world.workers.iter().map(|worker| worker.0).collect();
        workers.iter().chain(&world.members).for_each(|process| scheduler.pause(*process, false));
        world.commands.drain(..).for_each(|command| scheduler.kill(command));
        let resume = world.command(Command::Resume);
        world.wait("resuming", STEPS_TO_HEAL, || !scheduler.is_alive(resume))?;
        world.replace_what_was_wiped();
        // Who is gone is known to be gone after this.
        self.pass(2 * SILENCE)?;
        self.pass(AFTER_FAULTS)?;
        self.many.told.lock().is_over = true;
        for mount in &self.mounts {
            let (volume, programs) = (mount.volume.clone(), mount.programs.clone());
            let is_over = || volume.lock().is_some() && programs.load(Ordering::Relaxed) == 0;
            self.many.world.wait("programs end", STEPS_TO_HEAL, is_over)?;
        }
        if self.has_complaints() {
            return Ok(());
        }
        self.many.world.wait_until_whole()?;
        if self.many.world.plan.has_commands {
            self.many.world.command(Command::Convert);
            self.many.world.wait_until_converted()?;
        }
        if self.many.world.plan.looks_for_orphans {
            self.many.world.wait_until_collected()?;
        }
        let mounts = std::mem::take(&mut self.mounts);
        self.many.end(mounts)?;
        self.many.world.check_shards()?;
        self.many.check()
    }

    fn pass(&mut self, time: Duration) -> Result<(), String> {
        let until = self.many.world.scheduler.now() + time;
        while self.many.world.scheduler.now() < until {
            self.go_on(STEPS_OF_LOOK)?;
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "many_care_tests.rs"]
mod tests;
