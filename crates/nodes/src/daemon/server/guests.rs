//! Who is connected, and who makes way where all places are taken: whoever connects and says nothing keeps nobody out.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use tokio::sync::Notify;

/// How many connections there may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// At once.
    pub(super) connections: usize,
    /// Of them, from one address.
    pub(super) of_address: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { connections: 1024, of_address: 512 }
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
    goodbyes: BTreeMap<u64, Arc<Notify>>,
}

impl State {
    fn tick(&mut self) -> u64 {
        self.next += 1;
        self.next
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

    /// A place for a connection from there, perhaps another's; `None`: all are at work.
    pub(super) fn admit(self: &Arc<Self>, address: IpAddr) -> Option<Guest> {
        let address = address.to_canonical();
        let mut state = self.state.lock();
        match admission(self.limits, &state.connections, address) {
            Admission::Free => {}
            Admission::InPlaceOf(id) => {
                if let Some(goodbye) = state.remove(id) {
                    goodbye.notify_one();
                }
            }
            Admission::Refused => return None,
        }
        let (id, goodbye) = (state.tick(), Arc::new(Notify::new()));
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
    /// Until its place is another's.
    pub(super) async fn is_sent_away(&self) {
        self.goodbye.notified().await;
    }

    /// It asks something.
    pub(super) fn begins(&self) {
        self.note(|facts| facts.under_way += 1);
    }

    /// That was answered: with what was asked?
    pub(super) fn ends(&self, is_given: bool) {
        self.note(|facts| {
            facts.under_way = facts.under_way.saturating_sub(1);
            facts.is_proven |= is_given;
        });
    }

    fn note(&self, change: impl FnOnce(&mut Facts)) {
        let mut state = self.of.state.lock();
        let now = state.tick();
        if let Some(facts) = state.connections.get_mut(&self.id) {
            facts.last_used = now;
            change(facts);
        }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.of.state.lock().remove(self.id);
    }
}

#[cfg(test)]
#[path = "guests_tests.rs"]
mod tests;
