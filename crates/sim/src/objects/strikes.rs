//! What strikes members and clients.

use super::line::Noise;
use super::plan::Trouble;
use super::promise::Kind;
use super::removals::{beside_a_copy, holders_of_needed, other_of_two};
use super::{SETTINGS, VOLUME, World};
use crate::ambush::{Ambush, ProcessId, Step, Stroke};
use crate::scheduler::running;
use crate::weights::chosen;
use std::time::Duration;

/// An operation takes some messages, one after the other.
const BEGINS_US_MAX: u64 = 20_000;
/// After a member's trouble the others restore what it had: after `rebuild_after`, and some rounds.
const CALM: Duration = Duration::from_secs(900);
/// A member is in trouble for up to so long.
const TROUBLE_MS_MAX: u64 = 900_000;
/// A client that is paused for the longest time has been given up long ago.
const PAUSE_MAX: Duration = Duration::from_secs(2 * 3600);
const SHORT_PAUSE_MAX: Duration = Duration::from_secs(60);
/// The most steps that an ambush lets pass.
const PASSED_BY_MAX: u64 = 6;
/// An ambush lies in wait for this many of the next clients.
const CLIENTS_AWAITED: u32 = 50;
const LOST_PER_MILLE_MAX: u64 = 60;
const DOUBLED_PER_MILLE_MAX: u64 = 100;
/// An operation that nothing strikes takes less.
const OPERATION: Duration = Duration::from_secs(10);
/// Calls to a place end after 60 s.
const DISK_MS_MAX: u64 = 50_000;
/// What is read all the time is copied within this time.
const TIME_TO_COPY: Duration = Duration::from_secs(120);
const BETWEEN_RUSHES: Duration = Duration::from_secs(30);

impl World {
    /// A process that is struck loses an answer, or what it had.
    pub(super) fn strike_member(&mut self) {
        if !self.may_strike_member() {
            return;
        }
        // One that waits would be a second trouble.
        self.call_off_ambush();
        let trouble = chosen(&self.plan.troubles, |end| self.scheduler.below(end));
        let position = self.a_member();
        self.begin_trouble(position, trouble);
    }

    pub(super) fn a_member(&self) -> usize {
        let present = self.machines.present();
        present[self.scheduler.below(present.len() as u64) as usize]
    }

    pub(super) fn may_strike_member(&self) -> bool {
        self.trouble.is_none() && self.scheduler.now() >= self.calm_since + CALM
    }

    fn begin_trouble(&mut self, position: usize, trouble: Trouble) {
        self.faults += 1;
        let machine = self.machines.at(position);
        self.scheduler.tell(|| format!("m{}: {trouble:?}", machine.id.0));
        match trouble {
            Trouble::Stop => self.scheduler.pause(machine.hold(), true),
            Trouble::Hang => self.scheduler.pause(machine.process(), true),
            _ => self.scheduler.kill(machine.stop()),
        }
        match trouble {
            Trouble::Kill | Trouble::Stop | Trouble::Hang => {}
            Trouble::Empty => machine.empty(),
            Trouble::RollBack => machine.roll_back(),
            Trouble::Rot => machine.rot(|| self.scheduler.below(4) == 0, |bytes| self.scheduler.below(bytes)),
        }
        let lasts = Duration::from_millis(self.scheduler.below(TROUBLE_MS_MAX));
        self.trouble = Some((position, self.scheduler.now() + lasts));
    }

    pub(super) fn end_trouble(&mut self, position: usize) {
        let machine = self.machines.at(position);
        self.scheduler.tell(|| format!("m{} is back", machine.id.0));
        let hangs = || Some(machine.process()).filter(|process| self.scheduler.is_paused(*process));
        match machine.go_on().or_else(hangs) {
            Some(process) => self.scheduler.pause(process, false),
            None => self.start_member(position),
        }
        self.trouble = None;
        self.calm_since = self.scheduler.now();
    }

    /// Up to a minute, about as long as it takes to give an upload up, or up to the longest.
    fn time_to_pause(&self) -> Duration {
        let below = |time: Duration| Duration::from_millis(self.scheduler.below(time.as_millis() as u64));
        match self.scheduler.below(3) {
            0 => below(SHORT_PAUSE_MAX),
            1 => SETTINGS.leftover_grace + below(SETTINGS.leftover_grace / 2),
            _ => below(PAUSE_MAX),
        }
    }

    /// A client is paused in the middle of what it does, maybe for longer than it takes to give its upload up.
    pub(super) fn pause_soon(&mut self, number: usize, process: ProcessId) {
        self.faults += 1;
        let (begins, lasts) = (self.scheduler.below(BEGINS_US_MAX), self.time_to_pause());
        self.scheduler.tell(|| format!("{number} is paused after {begins} us for {} s", lasts.as_secs()));
        let scheduler = self.scheduler.clone();
        self.scheduler.after(Duration::from_micros(begins), move || {
            scheduler.pause(process, true);
            scheduler.after(lasts, move || running().pause(process, false));
        });
    }

    pub(super) fn strike_client(&mut self) {
        let clients: Vec<(usize, ProcessId)> =
            self.clients.iter().map(|(number, process)| (*number, *process)).collect();
        let Some((number, process)) = clients.get(self.scheduler.below(clients.len() as u64) as usize).copied() else {
            return;
        };
        self.faults += 1;
        let stroke = if self.scheduler.chance(500) { Stroke::Kill } else { Stroke::Stop(self.time_to_pause()) };
        self.strike_one(number, process, stroke);
    }

    fn strike_one(&mut self, number: usize, process: ProcessId, stroke: Stroke) {
        self.scheduler.tell(|| format!("{number}: {stroke:?}"));
        if let Stroke::Stop(lasts) = stroke {
            self.scheduler.pause(process, true);
            self.scheduler.after(lasts, move || running().pause(process, false));
        } else {
            self.scheduler.kill(process);
            self.clients.remove(&number);
        }
    }

    fn processes_of_members(&self) -> Vec<ProcessId> {
        self.machines.all().iter().map(|machine| machine.process()).collect()
    }

    /// A fault waits for the next client, or for a member, at a step.
    pub(super) fn lay_ambush(&mut self) {
        let of_members = self.may_strike_member() && self.scheduler.chance(300);
        let (processes, steps) = match of_members {
            true => (self.processes_of_members(), &[(Step::Put, 1), (Step::Record, 1), (Step::Remove, 2)][..]),
            // Those that begin until another ambush is laid.
            false => (
                (self.next_process..self.next_process + CLIENTS_AWAITED).map(ProcessId).collect(),
                &[(Step::Put, 1), (Step::Record, 3)][..],
            ),
        };
        let ambush = Ambush {
            processes,
            step: chosen(steps, |end| self.scheduler.below(end)),
            is_behind: self.scheduler.chance(500),
            passed_by: self.scheduler.below(PASSED_BY_MAX),
            stroke: if self.scheduler.chance(300) { Stroke::Kill } else { Stroke::Stop(self.time_to_pause()) },
        };
        self.scheduler.tell(|| format!("an ambush waits at a {:?}", ambush.step));
        self.scheduler.lay(Some(ambush));
    }

    /// A process has come to where a fault waited for it.
    pub(super) fn spring(&mut self) {
        let Some((process, ambush)) = self.scheduler.take_sprung() else { return };
        if let Some(position) = self.machines.all().iter().position(|machine| machine.process() == process) {
            if !self.may_strike_member() {
                // It was laid for clients, and this member has come since.
                return self.scheduler.pause(process, false);
            }
            let trouble = match (ambush.stroke, ambush.step) {
                (Stroke::Kill, _) => Trouble::Kill,
                // Who is silent has no copy that others count on.
                (_, Step::RemoveCopy) => Trouble::Hang,
                _ => Trouble::Stop,
            };
            return self.begin_trouble(position, trouble);
        }
        self.faults += 1;
        let number = self.clients.iter().find(|(_, client)| **client == process).map(|(number, _)| *number);
        self.strike_one(number.unwrap_or(usize::MAX), process, ambush.stroke);
    }

    pub(super) fn call_off_ambush(&mut self) {
        self.spring();
        self.scheduler.lay(None);
    }

    /// See [`super::plan::Turn::LatePut`].
    pub(super) fn put_late(&mut self) {
        if !self.may_strike_member() {
            return;
        }
        self.call_off_ambush();
        let name = self.a_name();
        self.begin(Kind::Put, name);
        self.wait(OPERATION);
        let lasts = SETTINGS.leftover_grace + SETTINGS.superseded_grace;
        // Before its last shard, or before all records.
        let (step, passed_by) =
            if self.scheduler.chance(500) { (Step::Put, self.plan.shard_count - 1) } else { (Step::Record, 0) };
        let processes = vec![ProcessId(self.next_process)];
        self.scheduler.lay(Some(Ambush { processes, step, is_behind: false, passed_by, stroke: Stroke::Stop(lasts) }));
        self.begin(Kind::Put, name);
        let goes_on = self.scheduler.now() + lasts;
        self.wait(OPERATION);
        if self.scheduler.chance(500) {
            // Some have not given up yet when the client goes on: they lost their disk, or count from their new start on.
            for trouble in [Trouble::Empty, Trouble::Kill] {
                self.wait(CALM);
                self.strike_briefly(trouble);
            }
        }
        self.wait(goes_on.saturating_sub(self.scheduler.now()) + OPERATION);
        self.call_off_ambush();
        self.begin(Kind::Get, name);
        self.wait(OPERATION);
        self.strike(&[Trouble::Kill, Trouble::Stop]);
        self.wait(SETTINGS.superseded_grace * 3);
    }

    /// See [`super::plan::Turn::Return`].
    pub(super) fn leave_and_return(&mut self, may_change: bool) {
        if !self.may_strike_member() {
            return;
        }
        self.call_off_ambush();
        if may_change {
            let name = self.a_name();
            self.begin(Kind::Put, name);
            self.wait(OPERATION);
        }
        let holders = holders_of_needed(VOLUME, &self.machines.stored());
        if holders.is_empty() {
            return;
        }
        let position = holders[self.scheduler.below(holders.len() as u64) as usize];
        self.begin_trouble(position, if self.scheduler.chance(500) { Trouble::Kill } else { Trouble::Stop });
        self.wait(SETTINGS.rebuild_after * 5);
        self.end_trouble(position);
        let processes = self.processes_of_members();
        let stroke = Stroke::Stop(Duration::ZERO);
        self.scheduler.lay(Some(Ambush { processes, step: Step::RemoveCopy, is_behind: false, passed_by: 0, stroke }));
        self.wait(SETTINGS.superseded_grace * 4);
        self.call_off_ambush();
    }

    /// See [`super::plan::Turn::Crowd`].
    pub(super) fn crowd(&mut self) {
        if !self.may_strike_member() {
            return;
        }
        self.call_off_ambush();
        let name = self.a_name();
        self.read_for(name, TIME_TO_COPY);
        let Some(position) = beside_a_copy(&self.machines.stored()) else { return };
        self.lose_disk(position, name);
        // Copies stay as long as they are read.
        self.read_for(name, CALM);
        let other = other_of_two(&self.machines.stored());
        if let Some(position) = other.filter(|_| self.may_strike_member()) {
            self.lose_disk(position, name);
        }
    }

    /// A member loses its disk, and comes back when others have what it had.
    fn lose_disk(&mut self, position: usize, name: &'static str) {
        self.begin_trouble(position, Trouble::Empty);
        self.read_for(name, SETTINGS.rebuild_after * 5);
        self.end_trouble(position);
    }

    /// Many read one object again and again for this time.
    fn read_for(&mut self, name: &'static str, time: Duration) {
        let until = self.scheduler.now() + time;
        while self.scheduler.now() < until {
            self.rush(name);
            self.wait(BETWEEN_RUSHES);
        }
    }

    /// One of these troubles for a member; which one.
    fn strike(&mut self, troubles: &[Trouble]) -> usize {
        let trouble = troubles[self.scheduler.below(troubles.len() as u64) as usize];
        let position = self.a_member();
        self.begin_trouble(position, trouble);
        position
    }

    fn strike_briefly(&mut self, trouble: Trouble) {
        let position = self.strike(&[trouble]);
        self.wait(OPERATION);
        self.end_trouble(position);
    }

    /// What the network and disks are like from now on.
    pub(super) fn change_noise(&mut self) {
        self.faults += 1;
        let below = |end| self.scheduler.below(end);
        let noise = match below(4) {
            0 => Noise {
                lost_per_mille: below(LOST_PER_MILLE_MAX),
                doubled_per_mille: below(DOUBLED_PER_MILLE_MAX),
                disk_ms_max: 0,
            },
            1 => Noise { disk_ms_max: below(DISK_MS_MAX), ..Noise::default() },
            _ => Noise::default(),
        };
        self.scheduler.tell(|| format!("{noise:?}"));
        *self.noise.lock() = noise;
    }
}
