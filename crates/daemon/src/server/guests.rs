//! Who is connected, and who makes way where all places are taken: an idle connection keeps nobody out. A connection without a place is
//! turned away: what it asks is answered with "ask later". One that is closed without a word looks like a daemon that ends, and a request
//! may be on its way on one that seems idle.

use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// One that is turned away must have asked in so long.
const TURNED_AWAY_DEADLINE: Duration = Duration::from_secs(2);

/// How many connections there may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// At once.
    pub(super) connections: usize,
    /// Of them, from one address.
    pub(super) of_address: usize,
    /// Beside them, those that are turned away with an answer. With more, a new one is closed.
    pub(super) turned_away: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { connections: 1024, of_address: 512, turned_away: 256 }
    }
}

/// What counts of a connection.
#[derive(Clone, Copy, Debug)]
struct Facts {
    address: IpAddr,
    /// Larger, the later it was made or last began or ended a request.
    last_used: u64,
    /// Has a request of it been answered with what was asked?
    is_proven: bool,
    /// Requests that are being answered.
    under_way: u32,
}

/// What becomes of a new connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Admission {
    Free,
    InPlaceOf(u64),
    Refused,
}

/// Where there is no place left, of the connections that ask nothing now the one goes that was used longest ago; those that have never
/// asked what they may ask go first.
fn admission(limits: Limits, connections: &BTreeMap<u64, Facts>, address: IpAddr) -> Admission {
    let of_address = connections.values().filter(|facts| facts.address == address).count();
    let is_candidate = |facts: &Facts| match of_address >= limits.of_address {
        true => facts.address == address,
        false => true,
    };
    if of_address < limits.of_address && connections.len() < limits.connections {
        return Admission::Free;
    }
    let idle = connections.iter().filter(|(_, facts)| facts.under_way == 0 && is_candidate(facts));
    let chosen = idle.min_by_key(|(_, facts)| (facts.is_proven, facts.last_used));
    chosen.map_or(Admission::Refused, |(id, _)| Admission::InPlaceOf(*id))
}

/// All connections.
#[derive(Default)]
pub(super) struct Guests {
    limits: Limits,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    next: u64,
    connections: BTreeMap<u64, Facts>,
    turned_away: BTreeSet<u64>,
    goodbyes: BTreeMap<u64, Arc<Notify>>,
}

impl State {
    fn tick(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Is there still one who turns it away?
    fn turn_away(&mut self, id: u64, limits: Limits) -> bool {
        self.turned_away.len() < limits.turned_away && self.turned_away.insert(id)
    }

    fn remove(&mut self, id: u64) -> Option<Arc<Notify>> {
        self.connections.remove(&id);
        self.goodbyes.remove(&id)
    }
}

impl Guests {
    pub(super) fn new(limits: Limits) -> Arc<Self> {
        Arc::new(Self { limits, state: Mutex::default() })
    }

    /// A place for a connection from there, perhaps another's, or none if all are at work. `None`: too many are turned away already.
    pub(super) fn admit(self: &Arc<Self>, address: IpAddr) -> Option<Guest> {
        let address = address.to_canonical();
        let mut state = self.state.lock();
        let (id, goodbye) = (state.tick(), Arc::new(Notify::new()));
        let admission = admission(self.limits, &state.connections, address);
        if admission == Admission::Refused {
            return state.turn_away(id, self.limits).then(|| Guest { id, of: Arc::clone(self), goodbye });
        }
        if let Admission::InPlaceOf(idle) = admission
            && let Some(goodbye) = state.remove(idle)
        {
            state.turn_away(idle, self.limits);
            goodbye.notify_one();
        }
        state.connections.insert(id, Facts { address, last_used: id, is_proven: false, under_way: 0 });
        state.goodbyes.insert(id, Arc::clone(&goodbye));
        Some(Guest { id, of: Arc::clone(self), goodbye })
    }
}

/// One connection, until it is dropped.
pub(super) struct Guest {
    id: u64,
    of: Arc<Guests>,
    goodbye: Arc<Notify>,
}

impl Guest {
    /// Until it has no place, and is not turned away any longer.
    pub(super) async fn is_sent_away(&self) {
        if self.of.state.lock().connections.contains_key(&self.id) {
            self.goodbye.notified().await;
        }
        if self.of.state.lock().turned_away.contains(&self.id) {
            tokio::time::sleep(TURNED_AWAY_DEADLINE).await;
        }
    }

    /// It asks something. Has it a place, and gets what it asks for?
    #[must_use]
    pub(super) fn begins(&self) -> bool {
        self.note(|facts| facts.under_way += 1)
    }

    /// That was answered: with what was asked?
    pub(super) fn ends(&self, is_given: bool) {
        self.note(|facts| {
            facts.under_way = facts.under_way.saturating_sub(1);
            facts.is_proven |= is_given;
        });
    }

    fn note(&self, change: impl FnOnce(&mut Facts)) -> bool {
        let mut state = self.of.state.lock();
        let now = state.tick();
        let Some(facts) = state.connections.get_mut(&self.id) else { return false };
        facts.last_used = now;
        change(facts);
        true
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let mut state = self.of.state.lock();
        state.remove(self.id);
        state.turned_away.remove(&self.id);
    }
}

#[cfg(test)]
#[path = "guests_tests.rs"]
mod tests;
