//! What strikes where nodes are reached over HTTP, beside what strikes everywhere.

use crate::ambush::{Ambush, ProcessId, Step, Stroke};
use crate::place::Place;
use crate::place::http::Machine;
use crate::weights::chosen;
use crate::world::World;
use std::sync::Arc;
use std::time::Duration;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpFault {
    /// A daemon is killed, and started again.
    KillDaemon,
    /// A daemon stops for a while, and goes on with old requests.
    StopDaemon,
    /// A daemon is killed or stops when its disk stores or removes a shard.
    AmbushDaemon,
    /// Connections break in the middle of what they carry.
    CutConnections,
    /// Two machines have each other's addresses for a while.
    SwapAddresses,
    /// One of a daemon's two addresses leads nowhere.
    SilentLink,
    /// Somebody else answers at a daemon's addresses for a while, with old answers of it.
    Impostor,
    /// A daemon goes on at other addresses, for good.
    MoveDaemon,
}

/// How often each strikes beside the others of a history.
pub const WEIGHTS: [(HttpFault, u64); 8] = [
    (HttpFault::KillDaemon, 12),
    (HttpFault::StopDaemon, 10),
    (HttpFault::AmbushDaemon, 24),
    (HttpFault::CutConnections, 14),
    (HttpFault::SwapAddresses, 10),
    (HttpFault::SilentLink, 6),
    (HttpFault::Impostor, 10),
    (HttpFault::MoveDaemon, 30),
];

/// A daemon is dead for so long at most, ...
const DEAD_MS_MAX: u64 = 15_000;
/// ... stops for so long, much longer than users wait for an answer, ...
const STOPPED_MS_MAX: u64 = 60_000;
/// ... and an address leads elsewhere, or nowhere, for so long.
const MISLED_MS_MAX: u64 = 20_000;
/// Two of four or five machines move at most, as often as they like: who has been away hears of them from one that is where it was.
const MOVED_MAX: usize = 2;
/// The most steps that an ambush lets pass.
const PASSED_BY_MAX: u64 = 3;

impl World {
    /// This one strikes.
    pub(crate) fn strike_http(&mut self, fault: HttpFault) {
        let scheduler = self.scheduler.clone();
        let places = self.places.all();
        let place = places[self.below(places.len() as u64) as usize].clone();
        let Some(machine) = place.machine() else { return };
        match fault {
            HttpFault::KillDaemon => {
                scheduler.tell(|| format!("the daemon of {} is killed", place.name()));
                machine.kill_daemon(&place, Duration::from_millis(self.below(DEAD_MS_MAX)));
            }
            HttpFault::StopDaemon => {
                let time = Duration::from_millis(self.below(STOPPED_MS_MAX));
                scheduler.tell(|| format!("the daemon of {} stops for {} ms", place.name(), time.as_millis()));
                machine.stop_daemon(&place, time);
            }
            HttpFault::AmbushDaemon => {
                let time = Duration::from_millis(self.below(STOPPED_MS_MAX));
                let ambush = Ambush {
                    processes: places.iter().filter_map(|place| place.machine()?.daemon()).collect(),
                    step: chosen(&[(Step::Put, 3), (Step::Remove, 2)], |end| self.below(end)),
                    is_behind: self.chance(500),
                    passed_by: self.below(PASSED_BY_MAX + 1),
                    stroke: if self.chance(500) { Stroke::Kill } else { Stroke::Stop(time) },
                };
                scheduler.tell(|| format!("{ambush:?} waits"));
                scheduler.lay(Some(ambush));
            }
            HttpFault::CutConnections => {
                let client = self.chance(500).then(|| self.a_process());
                scheduler.tell(|| format!("connections of {} to {client:?} break", place.name()));
                machine.cut(|connection| client.is_none_or(|client| connection.client() == client));
            }
            HttpFault::MoveDaemon => self.move_daemon(&place),
            HttpFault::SwapAddresses => self.swap_addresses(&place),
            HttpFault::Impostor => {
                scheduler.tell(|| format!("somebody else answers for {}", place.name()));
                machine.set_impostor(&place, true);
                let time = Duration::from_millis(self.below(MISLED_MS_MAX));
                scheduler.after(time, move || {
                    place.machine().iter().for_each(|machine| machine.set_impostor(&place, false));
                });
            }
            HttpFault::SilentLink => {
                let link = self.below(2) as usize;
                scheduler.tell(|| format!("the address {link} of {} leads nowhere", place.name()));
                machine.set_silent_link(&place, Some(link));
                let time = Duration::from_millis(self.below(MISLED_MS_MAX));
                scheduler.after(time, move || {
                    place.machine().iter().for_each(|machine| machine.set_silent_link(&place, None));
                });
            }
        }
    }

    /// The daemons are killed with their machines, and start again at once.
    pub(crate) fn cut_power_of_daemons(&self) {
        for place in self.places.all() {
            place.machine().iter().for_each(|machine| machine.kill_daemon(&place, Duration::ZERO));
        }
    }

    fn move_daemon(&self, place: &Arc<Place>) {
        let Some(machine) = place.machine() else { return };
        let has_moved = |place: &&Arc<Place>| place.machine().is_some_and(|machine| machine.moves() > 0);
        if machine.moves() == 0 && self.places.all().iter().filter(has_moved).count() >= MOVED_MAX {
            return;
        }
        let (time, is_silent) = (Duration::from_millis(self.below(DEAD_MS_MAX)), self.chance(500));
        self.scheduler.tell(|| format!("the daemon of {} moves", place.name()));
        machine.move_daemon(place, time, is_silent);
    }

    fn swap_addresses(&self, one: &Arc<Place>) {
        let places = self.places.all();
        let other = places[self.below(places.len() as u64) as usize].clone();
        if Arc::ptr_eq(one, &other) {
            return;
        }
        let Some(network) = self.places.network() else { return };
        self.scheduler.tell(|| format!("{} and {} have each other's addresses", one.name(), other.name()));
        network.swap(one, &other);
        self.scheduler.after(Duration::from_millis(self.below(MISLED_MS_MAX)), move || network.swap_back());
    }

    /// An ambush has met a daemon. False: it has met another process.
    pub(crate) fn spring_on_daemon(&mut self, process: ProcessId, stroke: Stroke) -> bool {
        let places = self.places.all();
        let is_of = |place: &&Arc<Place>| place.machine().and_then(Machine::daemon) == Some(process);
        let Some(place) = places.iter().find(is_of) else { return false };
        let machine = place.machine().expect("it has a daemon");
        match stroke {
            Stroke::Stop(time) => {
                self.scheduler
                    .tell(|| format!("the daemon of {} stops for {} ms there", place.name(), time.as_millis()));
                machine.stop_daemon(place, time);
            }
            _ => {
                self.scheduler.tell(|| format!("the daemon of {} is killed there", place.name()));
                machine.kill_daemon(place, Duration::from_millis(self.below(DEAD_MS_MAX)));
            }
        }
        true
    }
}
