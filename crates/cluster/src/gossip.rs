//! Membership of daemons by gossip: a state machine without sockets or a clock.
//!
//! SWIM (Das, Gupta and Motivala, DSN 2002) by the crate foca: each member probes another from time to time, and through others if it
//! does not answer. A suspicion that is not refuted turns into *dead*. Updates are piggybacked on these messages, and so are
//! [`Facts`]: what each member says of itself. Facts double as heartbeats: from their arrival times an accrual detector
//! (`gossip/arrivals.rs`) tells how unusual a member's silence is, before any member has declared it dead.
//!
//! Gossip tells which daemons answer and how busy they are. It never tells which belong to a volume or what is lost: a dead member may
//! still have everything it ever had.
//!
//! The driver calls [`Gossip::receive`] with packets and [`Gossip::tick`] at [`Gossip::due_ms`], and sends what
//! [`Gossip::take_outgoing`] has.

mod arrivals;
mod facts;

pub use facts::Facts;

use arrivals::PHI_SUSPECT;
use bytes::Bytes;
use facts::{Listener, Rumours};
use foca::{AccumulatingRuntime, Config, Foca, Identity, Member, PeriodicParams, PostcardCodec, State, Timer};
use parking_lot::Mutex;
use rand_small::SeedableRng;
use rand_small::rngs::SmallRng;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::fmt;
use std::num::{NonZeroU8, NonZeroU32, NonZeroUsize};
use std::sync::Arc;
use std::time::Duration;

/// The longest packet: a body of one request.
pub const PACKET_BYTES_MAX: usize = 16 << 10;

/// Facts are told anew so often, ...
pub const HEARTBEAT_MS: u64 = 2_000;
/// ... and more seldom in large clusters, so that no more than this many a second come to anybody.
const HEARTBEATS_PER_SECOND_MAX: u64 = 100;

/// Members that are announced to when joining: if one of them is ill, others answer.
const ANNOUNCED_MAX: usize = 3;

/// While nobody is heard, the well-known members are asked for the others again so often, ...
const JOIN_AGAIN_MS: u64 = 2_000;
/// ... and otherwise, if they are not among those who are heard, so often: clusters that were begun apart become one.
const JOIN_APART_MS: u64 = 30_000;

/// A member sends each piece of news so often, to members that it draws: with less, one of three misses every fifth heartbeat.
const TRANSMISSIONS_MIN: NonZeroU8 = NonZeroU8::new(10).unwrap();

/// Somebody who knows a later life of a member denies it again within this time.
const DENIALS_APART_MS: u64 = 3_000;
/// The longest step of a member that outruns such a life: 2^41 ms are 70 years.
const OUTRUN_EXPONENT_MAX: u32 = 41;

/// A member of the cluster as foca knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peer {
    /// Where its daemon is, as it says it; no two members have the same.
    address: String,
    /// When it was started, milliseconds since the Unix epoch, or more: the latest counts.
    started_ms: u64,
}

impl Identity for Peer {
    type Addr = String;

    /// Another member declared it dead by mistake.
    fn renew(&self) -> Option<Self> {
        Some(Self { address: self.address.clone(), started_ms: self.started_ms.checked_add(1)? })
    }

    fn addr(&self) -> String {
        self.address.clone()
    }

    fn win_addr_conflict(&self, other: &Self) -> bool {
        self.started_ms > other.started_ms
    }
}

/// Is a member there?
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Liveness {
    /// Nothing speaks against it.
    Alive,
    /// It is suspected, or unusually silent.
    Suspect,
    /// It did not answer, nobody could reach it, and it did not object. It may still have all it had.
    Dead,
}

impl fmt::Display for Liveness {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Alive => "alive",
            Self::Suspect => "suspect",
            Self::Dead => "dead",
        })
    }
}

/// What is known of a member.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Heard {
    /// What it said of itself last.
    #[serde(flatten)]
    pub facts: Facts,
    /// Is it there?
    pub liveness: Liveness,
    /// How unusual its silence is: the chance to hear nothing for so long from one that is there is `10^-phi`.
    pub phi: f64,
}

/// Whom to ask for the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joining {
    /// Addresses. What these tell is for [`Gossip::join`].
    pub ask: Vec<String>,
    /// When to look again.
    pub again_after_ms: u64,
}

/// A packet that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is no packet of gossip ({0}): see that all daemons of the cluster are of one version")]
pub struct GossipError(String);

/// One member's side of the conversation.
pub struct Gossip {
    foca: Foca<Peer, PostcardCodec, SmallRng, Listener>,
    runtime: AccumulatingRuntime<Peer>,
    rumours: Arc<Mutex<Rumours>>,
    timers: BinaryHeap<Timed>,
    timer_count: u64,
    own: Facts,
    heartbeat_due_ms: u64,
    /// When somebody said last that this member is down, and how often before that, each time soon after the other.
    denied_ms: u64,
    denials: u32,
}

/// Something to do later, the earliest first and of those the oldest.
struct Timed {
    due_ms: u64,
    number: u64,
    timer: Timer<Peer>,
}

impl Gossip {
    /// A member that knows nobody yet. `seed` is random, or fixed in tests; times are milliseconds of one clock that never
    /// goes back, whatever it began with.
    pub fn new(own: Facts, seed: u64, now_ms: u64) -> Self {
        let peer = Peer { address: own.address.clone(), started_ms: own.started_ms };
        let rumours = Arc::new(Mutex::new(Rumours::new(&own.address, now_ms)));
        let (generator, listener) = (SmallRng::seed_from_u64(seed), Listener(rumours.clone()));
        let foca = Foca::with_custom_broadcast(peer, config(1), generator, PostcardCodec, listener);
        let runtime = AccumulatingRuntime::new();
        Self {
            foca,
            runtime,
            rumours,
            timers: BinaryHeap::new(),
            timer_count: 0,
            own,
            heartbeat_due_ms: now_ms,
            denied_ms: 0,
            denials: 0,
        }
    }

    /// What this member says of itself from its next heartbeat on.
    pub fn say(&mut self, change: impl FnOnce(&mut Facts)) {
        let (address, started_ms, sequence) = (self.own.address.clone(), self.own.started_ms, self.own.sequence);
        change(&mut self.own);
        self.own = Facts { address, started_ms, sequence, ..std::mem::take(&mut self.own) };
    }

    /// Takes in what a member told of all, itself first, and announces itself to it and some others.
    pub fn join(&mut self, members: Vec<Facts>, now_ms: u64) {
        let others = members.iter().map(|facts| &facts.address).filter(|address| **address != self.own.address);
        for address in others.take(ANNOUNCED_MAX) {
            // Whoever is there now.
            let peer = Peer { address: address.clone(), started_ms: 0 };
            ignore_refusal(self.foca.announce(peer, &mut self.runtime));
        }
        let mut rumours = self.rumours.lock();
        rumours.now_ms = now_ms;
        for facts in members {
            rumours.hear(facts);
        }
        drop(rumours);
        self.settle(now_ms);
    }

    /// Whom of the well-known members to ask for the others.
    pub fn whom_to_join(&self, well_known: &[String], now_ms: u64) -> Joining {
        let members = self.members(now_ms);
        let others = members.iter().skip(1).filter(|heard| heard.liveness == Liveness::Alive);
        let alive: BTreeSet<&String> = others.map(|heard| &heard.facts.address).collect();
        let is_absent = |address: &&String| **address != self.own.address && !alive.contains(address);
        let again_after_ms = if alive.is_empty() { JOIN_AGAIN_MS } else { JOIN_APART_MS };
        Joining { ask: well_known.iter().filter(is_absent).cloned().collect(), again_after_ms }
    }

    /// Takes in a packet of another member.
    ///
    /// # Errors
    /// It is none; nothing has changed.
    pub fn receive(&mut self, packet: &[u8], now_ms: u64) -> Result<(), GossipError> {
        self.rumours.lock().now_ms = now_ms;
        let handled = self.foca.handle_data(packet, &mut self.runtime);
        self.settle(now_ms);
        handled.map_err(|error| GossipError(error.to_string()))
    }

    /// When [`Self::tick`] is to be called next, if not earlier.
    pub fn due_ms(&self) -> u64 {
        self.timers.peek().map_or(u64::MAX, |timed| timed.due_ms).min(self.heartbeat_due_ms)
    }

    /// Does what is due.
    pub fn tick(&mut self, now_ms: u64) {
        self.rumours.lock().now_ms = now_ms;
        if self.heartbeat_due_ms <= now_ms {
            self.heartbeat(now_ms);
        }
        let is_due = |timed: &Timed| timed.due_ms <= now_ms;
        while self.timers.peek().is_some_and(is_due) {
            let Some(Timed { timer, .. }) = self.timers.pop() else { break };
            ignore_refusal(self.foca.handle_timer(timer, &mut self.runtime));
            self.settle(now_ms);
        }
        self.settle(now_ms);
    }

    /// Says goodbye, so that nobody has to find out.
    pub fn leave(&mut self, now_ms: u64) {
        ignore_refusal(self.foca.leave_cluster(&mut self.runtime));
        self.settle(now_ms);
    }

    /// Packets to send, each to the daemon at an address.
    pub fn take_outgoing(&mut self) -> Vec<(String, Bytes)> {
        std::iter::from_fn(|| self.runtime.to_send()).map(|(peer, packet)| (peer.address, packet)).collect()
    }

    /// The further addresses of the member at an address, as far as is known.
    pub fn further(&self, address: &str) -> Vec<String> {
        self.rumours.lock().known.get(address).map_or_else(Vec::new, |known| known.facts.further.clone())
    }

    /// All that are known, itself first, the others by address. Those that have been down for a day are forgotten.
    pub fn members(&self, now_ms: u64) -> Vec<Heard> {
        let states: BTreeMap<&str, State> =
            (self.foca.iter_membership_state()).map(|member| (member.id().address.as_str(), member.state())).collect();
        let own = Heard { facts: self.own.clone(), liveness: Liveness::Alive, phi: 0.0 };
        let rumours = self.rumours.lock();
        let others = rumours.known.values().map(|known| {
            let phi = known.arrivals.phi(now_ms, self.heartbeat_ms());
            let liveness = match states.get(known.facts.address.as_str()) {
                Some(State::Alive) if phi < PHI_SUSPECT => Liveness::Alive,
                Some(State::Alive | State::Suspect) => Liveness::Suspect,
                // Heard of, and not met.
                None if phi < PHI_SUSPECT => Liveness::Suspect,
                Some(State::Down) | None => Liveness::Dead,
            };
            Heard { facts: known.facts.clone(), liveness, phi }
        });
        std::iter::once(own).chain(others).collect()
    }

    fn heartbeat(&mut self, now_ms: u64) {
        self.heartbeat_due_ms = now_ms + self.heartbeat_ms();
        self.own.sequence += 1;
        if let Some(item) = self.own.encode() {
            ignore_refusal(self.foca.add_broadcast(&item));
        }
        self.rumours.lock().forget_old();
    }

    fn heartbeat_ms(&self) -> u64 {
        HEARTBEAT_MS.max(self.foca.num_members() as u64 * 1000 / HEARTBEATS_PER_SECOND_MAX)
    }

    /// Keeps what foca wants to be reminded of, and fits its settings to the number of members.
    fn settle(&mut self, now_ms: u64) {
        // Who speaks is there, though news of its coming have passed by this member, as some do.
        let speakers = std::mem::take(&mut self.rumours.lock().speakers);
        let speakers = speakers.into_iter().map(Member::alive);
        ignore_refusal(self.foca.apply_many(speakers, true, &mut self.runtime));
        let mut sizes_changed = false;
        while let Some(notification) = self.runtime.to_notify() {
            use foca::OwnedNotification::{MemberDown, MemberUp, Rejoin};
            match notification {
                MemberUp(_) | MemberDown(_) => sizes_changed = true,
                Rejoin(_) => self.outrun(now_ms),
                _ => {}
            }
        }
        while let Some((after, timer)) = self.runtime.to_schedule() {
            self.timer_count += 1;
            let due_ms = now_ms + after.as_millis() as u64;
            self.timers.push(Timed { due_ms, number: self.timer_count, timer });
        }
        if sizes_changed {
            let count = u32::try_from(self.foca.num_members() + 1).unwrap_or(u32::MAX);
            ignore_refusal(self.foca.set_config(config(count)));
        }
    }

    /// Somebody said that this member is down, and it has come back as its next life. Who says it again and again knows a life of it that
    /// began much later, by a clock that was ahead: then the steps double.
    fn outrun(&mut self, now_ms: u64) {
        let is_again = now_ms < self.denied_ms + DENIALS_APART_MS;
        self.denials = if is_again { self.denials + 1 } else { 0 };
        self.denied_ms = now_ms;
        let step_ms = (1 << self.denials.min(OUTRUN_EXPONENT_MAX)) - 1;
        self.go_on_as(self.foca.identity().started_ms.saturating_add(step_ms));
    }

    /// From now on this member has been started at `started_ms`.
    fn go_on_as(&mut self, started_ms: u64) {
        self.own.started_ms = started_ms;
        let peer = Peer { address: self.own.address.clone(), started_ms };
        ignore_refusal(self.foca.change_identity(peer, &mut self.runtime));
        // With its identity foca forgets the timers that end suspicions. Who is not there will be suspected again.
        let suspects = self.foca.iter_membership_state().filter(|member| member.state() == State::Suspect);
        let believed = suspects.filter_map(|member| {
            Some(Member::new(member.id().clone(), member.incarnation().checked_add(1)?, State::Alive))
        });
        let believed: Vec<_> = believed.collect();
        ignore_refusal(self.foca.apply_many(believed.into_iter(), false, &mut self.runtime));
    }
}

/// Foca refuses what makes no sense just now: a timer of an earlier life, a farewell among nobody. There is nothing to do.
fn ignore_refusal<T>(result: Result<T, foca::Error>) {
    drop(result);
}

/// For a cluster of this many members in one machine room: probes every second, answers within half a second, suspicion for
/// 4 s (8 s among 100, 12 s among 1,000).
fn config(members: u32) -> Config {
    let seconds = |seconds: u64, members: usize| {
        NonZeroUsize::new(members)
            .map(|num_members| PeriodicParams { frequency: Duration::from_secs(seconds), num_members })
    };
    let lan = Config::new_lan(NonZeroU32::new(members).unwrap_or(NonZeroU32::MIN));
    Config {
        max_transmissions: lan.max_transmissions.max(TRANSMISSIONS_MIN),
        max_packet_size: NonZeroUsize::new(PACKET_BYTES_MAX).unwrap_or(lan.max_packet_size),
        // A member that was cut off from all is found again by those that hold it for dead.
        periodic_announce_to_down_members: seconds(15, 2),
        ..lan
    }
}

impl PartialEq for Timed {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Timed {}

impl PartialOrd for Timed {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timed {
    fn cmp(&self, other: &Self) -> Ordering {
        // The heap gives the greatest first.
        (other.due_ms, other.number).cmp(&(self.due_ms, self.number))
    }
}

#[cfg(test)]
#[path = "gossip_tests.rs"]
mod tests;
