//! What strikes a world between two steps.

pub mod http;

use crate::ambush::{Ambush, ProcessId, Step, Stroke};
use crate::commands::Command;
use crate::metadata::MetadataDisk;
use crate::node::{LONGEST_CALL, LOOKS_AGAIN};
use crate::place::Condition;
use crate::scheduler::running;
use crate::sequences::Sequence;
use crate::weights::chosen;
use crate::world::World;
use http::{HttpFault, WEIGHTS as HTTP_WEIGHTS};
use std::time::Duration;
use weft_meta::engines::MemoryKv;

/// Before a place loses something nothing else has been wrong for so long, longer than an upload can be under way that found nodes
/// away (a node that stores other shards is waited for 300 s); more steps than these are not taken for it.
const CALM: Duration = Duration::from_secs(320);
const STEPS_OF_CALM: u64 = 400_000;

/// A stop is long from this on: the others have time to do much meanwhile.
const LONG_STOP: Duration = Duration::from_secs(60);

const LONGER_THAN_A_LEASE: Duration = Duration::from_secs(200);
const LONGER_THAN_A_GRACE_TIME: Duration = Duration::from_secs(2400);

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The process with the mount is killed.
    KillMount,
    /// All machines lose their power at once.
    CutPower,
    /// One machine loses its power: a place, and the mount or a worker beside it.
    CutPowerOfOne,
    /// A worker or a command is killed.
    KillWorker,
    /// A place is down, silent, slow, full, or its disk fails.
    TroublePlace,
    /// Messages are lost and come twice.
    Noise,
    /// Between a place and a process nothing goes through in one direction.
    Part,
    /// A process stops for a while and goes on.
    Pause,
    /// A process is killed or stops at a certain step.
    Ambush,
    /// The network fails when a worker stores or removes a shard, or somebody lists them.
    Silence,
    /// There is no room for the record of a segment, and the next one is committed.
    RefuseCommit,
    /// The clock of a process jumps.
    Jump,
    /// A place loses or damages what it has, or is as it was some time ago.
    Lose,
    /// The metadata's disk is full.
    FillMetadata,
    /// The metadata's disk is lost, and the volume continues from what its nodes have.
    LoseMetadata,
    /// Another machine cares for the volume by an older copy of its metadata.
    OlderCopy,
    /// People give a command.
    Command,
    /// Nothing, for a while.
    Calm,
    /// A whole sequence of events.
    Sequence(Sequence),
    /// What strikes where nodes are reached over HTTP only.
    Http(HttpFault),
}

/// How often each strikes beside the others.
const WEIGHTS: [(Fault, u64); 18] = [
    (Fault::KillMount, 16),
    (Fault::CutPower, 6),
    (Fault::KillWorker, 6),
    (Fault::TroublePlace, 20),
    (Fault::Noise, 10),
    (Fault::Part, 8),
    (Fault::Pause, 8),
    (Fault::Ambush, 20),
    (Fault::RefuseCommit, 10),
    (Fault::Jump, 4),
    (Fault::Lose, 8),
    (Fault::FillMetadata, 4),
    (Fault::OlderCopy, 6),
    (Fault::Command, 24),
    (Fault::Calm, 8),
    (Fault::LoseMetadata, 12),
    (Fault::Silence, 30),
    (Fault::CutPowerOfOne, 20),
];

/// Those that strike in one history, with their weights: some kinds are left out, so that the others meet more often.
#[derive(Clone, Debug)]
pub struct Mixture {
    faults: Vec<(Fault, u64)>,
    /// A place is never away, but it may be full.
    is_never_away: bool,
}

/// How many of a thousand pauses are long.
const LONG_PAUSE_PER_MILLE: u64 = 120;
/// Where an ambush is.
const STEPS: [(Step, u64); 5] =
    [(Step::Commit, 1), (Step::SegmentCommit, 4), (Step::JournalCommit, 4), (Step::Put, 2), (Step::Remove, 2)];
/// The most steps that an ambush lets pass.
const PASSED_BY_MAX: u64 = 3;
/// How many of a thousand long stops see a command.
const COMMAND_WHILE_STOPPED_PER_MILLE: u64 = 500;
/// How many of a thousand calm times are long enough for conversions, scrubs and collections.
const LONG_CALM_PER_MILLE: u64 = 250;
/// How many of a thousand histories have a kind of fault, ...
const KIND_PER_MILLE: u64 = 700;
/// ... and how many have no place that is away: a full one is not taken for such a place.
const NEVER_AWAY_PER_MILLE: u64 = 200;
/// The clocks of users of signed nodes are off by so much at most.
const CLOCK_OFF_MS_MAX: u64 = 20_000;
/// Who has something to do begins within this number of steps.
const STEPS_TO_BEGIN: u64 = 3_000;
/// How many of a thousand power cuts wait for a put.
const MEETS_PUT_PER_MILLE: u64 = 500;
/// A machine starts again within this time.
const REBOOT_MS_MAX: u64 = 30_000;
/// The network fails for so long at most.
const SILENCE_MS_MAX: u64 = 5_000;
/// How many of a thousand older copies are of a moment ago: these have most of what files need.
const COPY_NOW_PER_MILLE: u64 = 700;
/// Nodes are told of an opening within this time, ...
const TIME_TO_TELL: Duration = Duration::from_secs(60);
/// ... and a worker does everything that it does by itself at least once.
const TIME_TO_CARE: Duration = Duration::from_secs(1500);

impl Mixture {
    /// Of a history.
    #[must_use]
    pub fn of(world: &World) -> Self {
        let is_possible = |fault: Fault| match fault {
            Fault::Command => world.plan.has_commands,
            Fault::Lose | Fault::Calm | Fault::OlderCopy => !world.plan.is_brief,
            _ => true,
        };
        let is_never_away = world.chance(NEVER_AWAY_PER_MILLE);
        let chosen: Vec<_> = WEIGHTS
            .into_iter()
            .filter(|(fault, _)| {
                // No number is drawn for these: the other histories are what they would be without these faults.
                match fault {
                    Fault::LoseMetadata => return world.plan.replica.is_some(),
                    Fault::Silence => return world.plan.has_silence,
                    Fault::CutPowerOfOne => return world.plan.shares_machines,
                    _ => {}
                }
                let is_chosen = world.chance(KIND_PER_MILLE);
                let is_away = is_never_away && matches!(fault, Fault::Noise | Fault::Part | Fault::Pause);
                is_possible(*fault) && !is_away && (is_chosen || matches!(fault, Fault::KillMount | Fault::Command))
            })
            .collect();
        let sequences: Vec<_> = Sequence::WEIGHTS
            .into_iter()
            .filter(|(sequence, _)| world.chance(KIND_PER_MILLE) && !(world.plan.is_brief && sequence.is_long()))
            .map(|(sequence, weight)| (Fault::Sequence(sequence), weight))
            .collect();
        let of_http = HTTP_WEIGHTS.iter().map(|(fault, weight)| (Fault::Http(*fault), *weight));
        let of_http = of_http.filter(|_| world.plan.http.is_some() && !is_never_away);
        let gossips = world.plan.http.is_some_and(|http| http.gossips);
        let of_http = of_http.filter(|(fault, _)| gossips || *fault != Fault::Http(HttpFault::MoveDaemon));
        Self { faults: chosen.into_iter().chain(sequences).chain(of_http).collect(), is_never_away }
    }

    /// The next.
    #[must_use]
    pub fn choose(&self, world: &World) -> Fault {
        chosen(&self.faults, |end| world.below(end))
    }
}

impl World {
    /// One fault strikes.
    pub fn strike(&mut self, mixture: &Mixture) {
        let fault = mixture.choose(self);
        self.strike_with(fault, mixture);
    }

    /// This one strikes.
    pub fn strike_with(&mut self, fault: Fault, mixture: &Mixture) {
        let scheduler = self.scheduler.clone();
        match fault {
            Fault::KillMount => {
                scheduler.tell(|| "the mount is killed".into());
                self.kill_mount();
                self.start_mount();
            }
            Fault::CutPower => {
                self.wait_for_put(|world| world.places.all().iter().any(|place| place.is_storing(&world.scheduler)));
                scheduler.tell(|| "the power fails".into());
                self.kill_mount();
                while !self.workers.is_empty() {
                    self.kill_worker(0);
                }
                self.commands.drain(..).for_each(|process| scheduler.kill(process));
                self.places.all().iter().for_each(|place| place.cut_power(&scheduler));
                self.cut_power_of_daemons();
                self.start_mount();
                (0..self.plan.workers).for_each(|_| self.start_worker());
            }
            Fault::CutPowerOfOne => self.cut_power_of_one(),
            Fault::KillWorker => {
                if self.chance(500) && !self.commands.is_empty() {
                    scheduler.tell(|| "a command is killed".into());
                    scheduler.kill(self.commands.swap_remove(self.below(self.commands.len() as u64) as usize));
                    return;
                }
                scheduler.tell(|| "a worker is killed".into());
                self.kill_worker(self.below(self.workers.len() as u64) as usize);
                self.start_worker();
            }
            Fault::TroublePlace => self.trouble_a_place(mixture.is_never_away),
            Fault::Noise => {
                let (lost, doubled) = (self.below(100), self.below(300));
                scheduler.tell(|| format!("the network loses {lost} and doubles {doubled} per mille"));
                self.places.all().iter().for_each(|place| place.set_noise(lost, doubled));
            }
            Fault::Part => {
                let place = self.places.all().swap_remove(self.a_place());
                let (process, is_answer) = (self.a_process(), self.chance(500));
                scheduler.tell(|| format!("{} is cut off from {process:?}, answers: {is_answer}", place.name()));
                place.part(process, is_answer);
            }
            Fault::Pause => {
                let time = self.time_to_stop(LONG_PAUSE_PER_MILLE);
                let process = self.a_process();
                self.stop(process, time);
            }
            Fault::Ambush => {
                let ambush = Ambush {
                    processes: self.mount_workers_or_command(),
                    step: chosen(&STEPS, |end| self.below(end)),
                    is_behind: self.chance(500),
                    passed_by: self.below(PASSED_BY_MAX + 1),
                    stroke: if self.chance(500) { Stroke::Kill } else { Stroke::Stop(self.time_to_stop(700)) },
                };
                scheduler.tell(|| format!("{ambush:?} waits"));
                scheduler.lay(Some(ambush));
            }
            Fault::Silence => self.silence(),
            Fault::RefuseCommit => self.refuse_commit(),
            Fault::Jump => {
                let far_ms = match self.plan.http {
                    // Whose clock is further off is refused.
                    Some(http) if http.is_signed => CLOCK_OFF_MS_MAX,
                    _ => 86_400_000,
                };
                let offset_ms = self.below(2 * far_ms) as i64 - far_ms as i64;
                let process = self.a_process();
                scheduler.tell(|| format!("the clock of {process:?} is off by {offset_ms} ms"));
                scheduler.set_clock(process, offset_ms);
            }
            Fault::Lose => self.lose_something(mixture.is_never_away),
            Fault::FillMetadata => {
                let disk = self.disk.clone();
                scheduler.tell(|| "the metadata's disk is full".into());
                disk.set_full(true);
                scheduler.after(Duration::from_millis(self.below(5_000)), move || disk.set_full(false));
            }
            Fault::LoseMetadata => self.lose_metadata(),
            Fault::OlderCopy => self.care_by_older_copy(),
            Fault::Sequence(sequence) => self.happen(sequence),
            Fault::Http(fault) => self.strike_http(fault),
            Fault::Command => self.give_command(),
            Fault::Calm => {
                scheduler.tell(|| "all is well for a while".into());
                self.places.all().iter().for_each(|place| place.heal());
                let is_long = self.chance(LONG_CALM_PER_MILLE);
                self.idle(Duration::from_secs(self.below(if is_long { 900 } else { 30 })), STEPS_OF_CALM);
            }
        }
    }

    /// A machine loses its power, and starts again some time later. The first has the mount with the metadata's disk, the next ones a worker each.
    fn cut_power_of_one(&mut self) {
        let scheduler = self.scheduler.clone();
        let number = self.a_place();
        let place = self.places.all().swap_remove(number);
        self.wait_for_put(|world| place.is_storing(&world.scheduler));
        let time = Duration::from_millis(self.below(REBOOT_MS_MAX));
        scheduler.tell(|| format!("the power of {}'s machine fails for {} ms", place.name(), time.as_millis()));
        place.cut_power(&scheduler);
        place.set_condition(Condition::Down);
        place.machine().iter().for_each(|machine| machine.kill_daemon(&place, time));
        scheduler.after(time, move || place.heal());
        if number == 0 {
            self.kill_mount();
            self.start_mount();
        } else if number <= self.workers.len() {
            self.kill_worker(number - 1);
            self.start_worker();
        }
    }

    /// Half of the power cuts come while something is being stored, if that is soon.
    fn wait_for_put(&mut self, is_storing: impl Fn(&Self) -> bool) {
        if self.chance(MEETS_PUT_PER_MILLE) {
            self.scheduler.run(STEPS_TO_BEGIN, || is_storing(self) || self.has_complaints());
        }
    }

    /// The next commit of a whole segment, or the one after it, finds no room.
    pub(crate) fn refuse_commit(&mut self) {
        let ambush = Ambush {
            processes: self.mounted(),
            step: Step::WholeSegmentCommit,
            is_behind: false,
            passed_by: self.below(2),
            stroke: Stroke::Refuse,
        };
        self.scheduler.tell(|| format!("{ambush:?} waits"));
        self.scheduler.lay(Some(ambush));
    }

    /// No node answers for some seconds from when somebody stores, removes or lists something.
    fn silence(&mut self) {
        let is_collection = self.chance(500);
        // So there is something to do.
        let command = self.command(if is_collection { Command::Collect } else { Command::Replace });
        let (processes, step) = match is_collection {
            true => (vec![command], Step::List),
            false => {
                let workers = self.workers.iter().map(|(process, _)| *process).collect();
                (workers, chosen(&[(Step::ShardPut, 3), (Step::Remove, 1)], |end| self.below(end)))
            }
        };
        let ambush = Ambush {
            processes,
            step,
            is_behind: false,
            passed_by: self.below(PASSED_BY_MAX + 1),
            stroke: Stroke::Silence(Duration::from_millis(self.below(SILENCE_MS_MAX))),
        };
        self.scheduler.tell(|| format!("{ambush:?} waits"));
        self.scheduler.lay(Some(ambush));
        // What is stuck is said by what comes next.
        let _ = self.go_on(STEPS_TO_BEGIN);
        if is_collection && self.chance(500) {
            self.idle(LONGEST_CALL + LOOKS_AGAIN, STEPS_OF_CALM);
        }
    }

    /// A process has come to where a fault waited for it.
    pub fn spring(&mut self) {
        let Some((process, ambush)) = self.scheduler.take_sprung() else { return };
        if self.spring_on_daemon(process, ambush.stroke) {
            return;
        }
        match ambush.stroke {
            Stroke::Stop(time) => self.stop(process, time),
            Stroke::Silence(time) => {
                self.scheduler.tell(|| format!("no node answers for {} ms at a {:?}", time.as_millis(), ambush.step));
                for place in self.places.all() {
                    place.set_condition(Condition::Silent);
                    self.scheduler.after(time, move || place.heal());
                }
                self.scheduler.pause(process, false);
            }
            Stroke::Refuse => {
                self.scheduler.tell(|| format!("{process:?} finds no room at its {:?}", ambush.step));
                self.disk.refuse_next();
                let next =
                    Ambush { step: Step::SegmentCommit, is_behind: true, passed_by: 0, stroke: Stroke::Kill, ..ambush };
                self.scheduler.lay(Some(next));
                self.scheduler.pause(process, false);
            }
            Stroke::Kill => {
                self.scheduler.tell(|| format!("{process:?} is killed at its {:?}", ambush.step));
                if self.mount.as_ref().is_some_and(|mount| mount.process == process) {
                    self.kill_mount();
                    self.start_mount();
                } else if let Some(at) = self.workers.iter().position(|(worker, _)| *worker == process) {
                    self.kill_worker(at);
                    self.start_worker();
                } else {
                    self.scheduler.kill(process);
                }
            }
        }
    }

    /// No fault waits any more. One whose process has come strikes.
    pub fn call_off_ambush(&mut self) {
        self.spring();
        self.scheduler.lay(None);
    }

    /// Up to a minute. In `long_per_mille` of a thousand cases longer than every lease, or than every grace time.
    fn time_to_stop(&self, long_per_mille: u64) -> Duration {
        let longest = match self.chance(long_per_mille) {
            true if self.plan.is_brief => LONGER_THAN_A_LEASE,
            true => [LONGER_THAN_A_LEASE, LONGER_THAN_A_GRACE_TIME][self.below(2) as usize],
            false => LONG_STOP,
        };
        Duration::from_millis(self.below(longest.as_millis() as u64))
    }

    /// A process stops for a while. If that is long, the others go on, and people may do something.
    fn stop(&mut self, process: ProcessId, time: Duration) {
        let scheduler = self.scheduler.clone();
        scheduler.tell(|| format!("{process:?} stops for {} ms", time.as_millis()));
        scheduler.pause(process, true);
        scheduler.after(time, move || running().pause(process, false));
        if time >= LONG_STOP {
            self.places.all().iter().for_each(|place| place.heal());
            if self.plan.has_commands && self.chance(COMMAND_WHILE_STOPPED_PER_MILLE) {
                self.give_command();
            }
            self.idle(time, STEPS_OF_CALM);
        }
    }

    /// The mount, or all workers, of whom one works, or the last command.
    fn mount_workers_or_command(&self) -> Vec<ProcessId> {
        let command = self.commands.last().copied().filter(|command| self.scheduler.is_alive(*command));
        match self.below(10) {
            0..4 => self.mounted(),
            4..6 if command.is_some() => command.into_iter().collect(),
            _ => self.workers.iter().map(|(process, _)| *process).collect(),
        }
    }

    /// A worker with an older copy of the metadata must change nothing: each node knows a newer opening than the copy. A place complains where
    /// a shard that is needed is removed.
    fn care_by_older_copy(&mut self) {
        self.places.all().iter().for_each(|place| place.heal());
        if self.chance(COPY_NOW_PER_MILLE) {
            // The next mount makes it an older one.
            self.older_copy = Some(self.disk.durable());
            self.kill_mount();
            self.start_mount();
        }
        self.idle(TIME_TO_TELL, STEPS_OF_CALM);
        let Some(copy) = self.older_copy.as_ref().map(MemoryKv::fork) else { return };
        if !self.is_known_to_be_older(&copy) {
            return;
        }
        let disk = MetadataDisk::of(copy);
        let (process, stop) = self.worker_of(&disk);
        self.scheduler
            .tell(|| format!("{process:?} has an older copy of the metadata, and there a node is to be emptied"));
        let commander = self.command_on(&disk, Command::DrainOneOfFew);
        self.idle(TIME_TO_CARE, STEPS_OF_CALM);
        self.scheduler.kill(commander);
        self.scheduler.kill(process);
        std::mem::forget(stop);
    }

    /// The processes that have the volume mounted.
    pub(crate) fn mounted(&self) -> Vec<ProcessId> {
        self.mount.iter().map(|mount| mount.process).chain(self.members.iter().copied()).collect()
    }

    pub(crate) fn a_place(&self) -> usize {
        self.below(self.places.all().len() as u64) as usize
    }

    /// The mount or a worker.
    pub(crate) fn a_process(&self) -> ProcessId {
        let worker = self.workers.get(self.below(self.workers.len() as u64) as usize).map(|(process, _)| *process);
        let mounted = self.mounted();
        // No number is drawn where there is no choice.
        let mount = if mounted.len() > 1 {
            Some(mounted[self.below(mounted.len() as u64) as usize])
        } else {
            mounted.first().copied()
        };
        let (one, other) = if self.chance(600) { (mount, worker) } else { (worker, mount) };
        one.or(other).unwrap_or(ProcessId(0))
    }

    fn trouble_a_place(&self, is_never_away: bool) {
        let scheduler = &self.scheduler;
        let place = self.places.all().swap_remove(self.a_place());
        let condition = match self.below(5) {
            _ if is_never_away => Condition::Full,
            0 => Condition::Down,
            1 => Condition::Silent,
            2 => Condition::Slow(self.below(5_000)),
            3 => Condition::Full,
            _ => Condition::Failing,
        };
        scheduler.tell(|| format!("{} is {condition:?}", place.name()));
        place.set_condition(condition);
        let for_ms = self.below(20_000);
        scheduler.after(Duration::from_millis(for_ms), move || place.heal());
    }

    /// Lets everybody recover for a while. May a place lose something then? Every code survives one loss, and a shard that could not be
    /// stored is one.
    pub(crate) fn is_whole_but_for_one(&mut self) -> bool {
        // A mount that stops before a commit may commit later what was stored while nodes were away.
        self.call_off_ambush();
        self.replace_what_was_wiped();
        self.places.all().iter().for_each(|place| place.heal());
        let until = self.scheduler.now() + CALM;
        self.idle(CALM, STEPS_OF_CALM);
        let lacks = self.lacks(&self.disk.latest());
        if lacks.is_empty() {
            self.victim = None;
        }
        let is_of_victim = |(_, place): &(String, Option<usize>)| place.is_some() && *place == self.victim;
        let is_paused = self.mounted().into_iter().any(|process| self.scheduler.is_paused(process));
        self.scheduler.now() >= until && !is_paused && lacks.iter().all(is_of_victim)
    }

    fn lose_something(&mut self, is_never_away: bool) {
        let scheduler = self.scheduler.clone();
        if !self.is_whole_but_for_one() || !self.has_replica_twice() {
            return;
        }
        let victim = self.victim.unwrap_or_else(|| self.a_place());
        self.victim = Some(victim);
        let place = self.places.all().swap_remove(victim);
        match self.below(5) {
            _ if place.is_wiped() => {}
            0 if self.chance(500) => {
                let has_rotted = place.rot(&scheduler);
                scheduler.tell(|| format!("{} rots: {has_rotted}", place.name()));
            }
            0 => {
                let is_lost = place.lose_sector(&scheduler);
                scheduler.tell(|| format!("{} cannot read a sector: {is_lost}", place.name()));
            }
            1 => {
                let gone = place.forget_some(&scheduler, 300);
                scheduler.tell(|| format!("{} forgets {gone} shards", place.name()));
            }
            2 => {
                let gone = place.forget_some(&scheduler, 1000);
                scheduler.tell(|| format!("{} forgets all {gone} shards", place.name()));
            }
            3 if is_never_away => {}
            3 => {
                let gone = place.wipe();
                scheduler.tell(|| format!("the disk of {} is lost with {gone} shards", place.name()));
                if self.chance(500) {
                    self.command(Command::ReplaceWiped);
                }
            }
            _ => {
                let (gone, back) = place.roll_back();
                scheduler.tell(|| format!("{} is as it was: {gone} shards gone, {back} back", place.name()));
            }
        }
        // What a place is rolled back to is of some moment since.
        self.places.all().iter().for_each(|place| place.take_snapshot());
    }
}
