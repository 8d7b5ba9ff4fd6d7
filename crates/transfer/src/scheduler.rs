//! Who is asked for what, and when: the wide-area study's framework as a state machine. Pure: what happened and the time come in,
//! what to do goes out; nothing here waits, sends, or looks at a clock.
//!
//! A *download* is a list of *sets*, the stripes that are computed together. What a set needs is what a plan reads, and a
//! plan depends on what shards are offered at what price: so choosing servers is setting prices, preferring data is offering
//! it first, skipping what no longer helps is planning with what has come as free, and a failure is an offer less.
//!
//! ```text
//! dispatch: while fewer than T blocks are under way: the next get of the next set that lacks one
//! arrived:  the set is ready as soon as some plan of it has all it reads; the rest of it is dropped
//! failed:   the shard is an erasure from now on; what has come of it stays
//! late:     (P blocks of progress, or longer than the node ever takes and this client's uplink excuses) another plan without
//!           it, up to R at one time
//! ```
//!
//! Start reading at `Scheduler::dispatch`; then `asking.rs` and `planning.rs`.

mod asking;
mod estimate;
mod held_up;
mod planning;
mod profile;

pub use estimate::Estimate;
pub use profile::{Hedging, Order, Preference, Profile, ProfileError, Selection};

use crate::arrived::Arrived;
use crate::read_plan::{Get, ReadPlan, ShardOffers};
use crate::uplink::UplinkView;
use std::collections::VecDeque;
use std::ops::Range;

/// Times are compared where the slowest takes as long as this, and half as long again as the fastest: then who is soonest
/// done is asked, be it for data or not. Below, data is read plainly, and nobody notices.
const NOTICED_US: u64 = 20_000;

/// A node that is too busy is asked again after this time, twice as long after every further refusal, ...
const BUSY_US: u64 = 50_000;
/// ... so often, ...
const BUSY_DOUBLINGS_MAX: u32 = 4;
/// ... and counts as failed after so many: some thirty seconds.
const REFUSALS_MAX: u32 = 40;

/// What would do for a set.
pub(crate) trait Plans {
    /// What to fetch for `set`, and what to make of it; `None`: the offers do not suffice.
    fn plan(&self, set: usize, offers: &ShardOffers, arrived: &Arrived) -> Option<ReadPlan>;
}

/// What is known of a node when a download begins, and whenever it changes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NodeView {
    pub(crate) estimate: Estimate,
    /// Requests of other downloads under way to it, ...
    pub(crate) load: u32,
    /// ... and their bytes.
    pub(crate) load_bytes: u64,
    /// How much longer it is busy, by rumour; what its own answers say counts before that.
    pub(crate) rumoured_us: u64,
    pub(crate) request_price: u64,
    pub(crate) kib_price: u64,
    pub(crate) suspected: bool,
}

/// One of the sets of a download.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SetShape {
    /// Whose shards: an index of the download's segments.
    pub(crate) segment: usize,
    /// How much data it is.
    pub(crate) data_bytes: u64,
    /// Payload bytes of a whole shard of its segment.
    pub(crate) payload_bytes: u64,
    /// About how many bytes of a shard it reads.
    pub(crate) block_bytes: u64,
}

/// How long a request may take: a start, and its bytes at a rate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    pub(crate) base_us: u64,
    pub(crate) bytes_per_ms: u64,
}

impl Deadline {
    fn us(&self, bytes: u64) -> u64 {
        self.base_us + bytes * 1000 / self.bytes_per_ms.max(1)
    }
}

/// Tells requests of one download apart.
pub(crate) type RequestId = u64;

/// A get to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ask {
    pub(crate) request: RequestId,
    pub(crate) set: usize,
    pub(crate) shard: usize,
    pub(crate) payload: Range<u64>,
    /// Somebody else is late with what this is for.
    pub(crate) instead: bool,
}

/// What is to be done.
pub(crate) enum Effect {
    /// Send it.
    Ask(Ask),
    /// Its answer is no longer wanted; `late`: it should have been there long ago.
    Drop { request: RequestId, late: bool },
    /// It takes longer than it should.
    Late { request: RequestId },
    /// It took too long, and counts as failed.
    Expired { request: RequestId },
    /// All that the plan reads has come.
    Ready { set: usize, plan: ReadPlan },
    /// Nothing that is left suffices for the set.
    Stuck { set: usize },
}

/// Why a request brought nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setback {
    /// The shard cannot be used.
    Lost,
    /// The node has too much to do: to be asked again later.
    Busy,
}

struct Node {
    view: NodeView,
    under_way: u32,
    under_way_bytes: u64,
    late: u32,
    busy_until_us: u64,
    /// How often in a row it was too busy.
    refusals: u32,
}

/// A shard of a segment as a source.
struct Lane {
    node: usize,
    lost: bool,
}

struct Set {
    shape: SetShape,
    arrived: Arrived,
    /// Any of them would do.
    plans: Vec<ReadPlan>,
    /// What the newest plan reads and was not asked for yet.
    unsent: Vec<Get>,
    /// The load version when it was planned, ...
    planned_at: u64,
    /// ... and the time.
    planned_us: u64,
    /// Was it planned by who is soonest done?
    by_time: bool,
    /// How often work of it was given to others.
    attempt: u32,
    is_ready: bool,
}

struct Request {
    id: RequestId,
    set: usize,
    shard: usize,
    node: usize,
    payload: Range<u64>,
    asked_us: u64,
    /// When it is expected.
    due_us: u64,
    late_us: u64,
    /// How long after it was asked it was late, were it for its node alone.
    late_after_us: u64,
    expires_us: u64,
    late: bool,
    attempt: u32,
    /// Bytes that this client's uplink had carried when it was asked, ...
    uplink_moved_bytes: u64,
    /// ... and those that it was to carry then.
    line_under_way_bytes: u64,
    /// Blocks that had come when it was asked.
    arrivals: u64,
}

impl Request {
    fn bytes(&self) -> u64 {
        self.payload.end - self.payload.start
    }
}

/// The state of a download.
pub(crate) struct Scheduler<P> {
    plans: P,
    profile: Profile,
    deadline: Deadline,
    /// This client's own uplink, as it was seen last, and when.
    uplink: UplinkView,
    uplink_seen_us: u64,
    nodes: Vec<Node>,
    /// By segment, by shard; `None`: there is no such shard.
    lanes: Vec<Vec<Option<Lane>>>,
    sets: Vec<Set>,
    /// Begun and not delivered, in order.
    open: Vec<usize>,
    open_bytes: u64,
    next_set: usize,
    requests: Vec<Request>,
    next_request: RequestId,
    arrivals: u64,
    effects: VecDeque<Effect>,
    /// Extra bytes that hedging may still cost.
    allowance_bytes: u64,
}

impl<P> Scheduler<P> {
    /// What hedging may still cost.
    pub(crate) fn allowance_bytes(&self) -> u64 {
        self.allowance_bytes
    }
}

impl<P: Plans> Scheduler<P> {
    /// A download of `sets`. `lanes` says by segment and shard which of `nodes` has it; `allowance_bytes` what hedging may cost.
    pub(crate) fn new(
        plans: P,
        profile: Profile,
        deadline: Deadline,
        nodes: Vec<NodeView>,
        lanes: Vec<Vec<Option<usize>>>,
        sets: Vec<SetShape>,
        allowance_bytes: u64,
    ) -> Self {
        let node = |view| Node { view, under_way: 0, under_way_bytes: 0, late: 0, busy_until_us: 0, refusals: 0 };
        let set = |shape: SetShape| {
            let arrived = Arrived::nothing(lanes[shape.segment].len(), shape.payload_bytes);
            Set {
                shape,
                arrived,
                plans: Vec::new(),
                unsent: Vec::new(),
                planned_at: 0,
                planned_us: 0,
                by_time: false,
                attempt: 0,
                is_ready: false,
            }
        };
        Self {
            plans,
            profile,
            deadline,
            uplink: UplinkView::default(),
            uplink_seen_us: 0,
            nodes: nodes.into_iter().map(node).collect(),
            sets: sets.into_iter().map(set).collect(),
            lanes: (lanes.into_iter())
                .map(|lanes| lanes.into_iter().map(|node| node.map(|node| Lane { node, lost: false })).collect())
                .collect(),
            open: Vec::new(),
            open_bytes: 0,
            next_set: 0,
            requests: Vec::new(),
            next_request: 0,
            arrivals: 0,
            effects: VecDeque::new(),
            allowance_bytes,
        }
    }

    /// What to do next; after every call of another method, until there is nothing.
    pub(crate) fn effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// When `wake` wants to be called, if nothing happens before.
    pub(crate) fn wake_at_us(&self) -> Option<u64> {
        let of_request = |request: &Request| match request.late {
            true => request.expires_us,
            false => request.late_us.min(request.expires_us),
        };
        let waiting = self.open.iter().flat_map(|&set| {
            let lanes = &self.lanes[self.sets[set].shape.segment];
            let node = move |get: &Get| lanes[get.shard].as_ref().map(|lane| lane.node);
            self.sets[set].unsent.iter().filter_map(node)
        });
        let busy_until = waiting.map(|node| self.nodes[node].busy_until_us).filter(|until_us| *until_us > 0);
        self.requests.iter().map(of_request).chain(busy_until).min()
    }

    /// Is everything delivered?
    pub(crate) fn is_done(&self) -> bool {
        self.open.is_empty() && self.next_set == self.sets.len()
    }

    /// Requests under way may take so much longer: this client's uplink has much else to do. A time-out of the profile stays.
    pub(crate) fn wait_longer(&mut self, wait_us: u64) {
        if self.profile.timeout_ms.is_some() {
            return;
        }
        let deadline = self.deadline;
        for request in &mut self.requests {
            request.expires_us = request.expires_us.max(request.asked_us + deadline.us(request.bytes()) + wait_us);
        }
    }

    /// This client's uplink is as busy as that.
    pub(crate) fn set_uplink(&mut self, uplink: UplinkView, now_us: u64) {
        (self.uplink, self.uplink_seen_us) = (uplink, now_us);
    }

    /// More is known of a node.
    pub(crate) fn set_view(&mut self, node: usize, view: NodeView) {
        self.nodes[node].view = view;
    }

    /// Sends what may be sent now; also the beginning.
    pub(crate) fn dispatch(&mut self, now_us: u64) {
        while self.requests.len() < self.profile.transfers {
            let Some((set, position)) = self.next_get(now_us) else {
                // Nothing is left to ask for: whoever is idle may take over from the slow.
                match self.overtaken(now_us) {
                    Some(request) if self.hedge(request, now_us) => continue,
                    _ => break,
                }
            };
            self.ask(set, position, now_us);
        }
    }

    /// A request has brought what was asked for, and it is sound.
    pub(crate) fn arrived(&mut self, request: RequestId, now_us: u64) {
        let Some(request) = self.take(request) else { return };
        self.arrivals += 1;
        self.nodes[request.node].refusals = 0;
        self.sets[request.set].arrived.insert(request.shard, request.payload);
        self.complete(request.set);
        if let Hedging::Progress { blocks } = self.profile.hedging {
            let is_late = |other: &Request| self.arrivals - other.arrivals >= blocks;
            let late: Vec<RequestId> = self.hedgeable().filter(|other| is_late(other)).map(|other| other.id).collect();
            for late in late {
                self.hedge(late, now_us);
            }
        }
        self.dispatch(now_us);
    }

    /// A request has failed. Does its shard count as lost now?
    pub(crate) fn failed(&mut self, request: RequestId, setback: Setback, now_us: u64) -> bool {
        let Some(request) = self.take(request) else { return false };
        let (segment, shard) = (self.sets[request.set].shape.segment, request.shard);
        match setback {
            Setback::Busy if self.nodes[request.node].refusals < REFUSALS_MAX => {
                let node = &mut self.nodes[request.node];
                node.busy_until_us = now_us + (BUSY_US << node.refusals.min(BUSY_DOUBLINGS_MAX));
                node.refusals += 1;
                self.plan_anew(request.set, None, now_us);
                self.complete(request.set);
            }
            Setback::Busy | Setback::Lost => self.lose(segment, shard, now_us),
        }
        self.dispatch(now_us);
        self.lanes[segment][shard].as_ref().is_some_and(|lane| lane.lost)
    }

    /// These nodes are not there: what they have counts as lost, all of it at once.
    pub(crate) fn silent(&mut self, nodes: &[usize], now_us: u64) {
        for segment in 0..self.lanes.len() {
            for shard in 0..self.lanes[segment].len() {
                if self.lanes[segment][shard].as_ref().is_some_and(|lane| !lane.lost && nodes.contains(&lane.node)) {
                    self.lose(segment, shard, now_us);
                }
            }
        }
        self.dispatch(now_us);
    }

    /// What a set brought is no longer held: another may begin.
    pub(crate) fn delivered(&mut self, set: usize, now_us: u64) {
        self.open.retain(|open| *open != set);
        self.open_bytes -= self.sets[set].shape.data_bytes;
        self.dispatch(now_us);
    }

    /// Time has passed.
    pub(crate) fn wake(&mut self, now_us: u64) {
        let expired: Vec<RequestId> =
            self.requests.iter().filter(|request| request.expires_us <= now_us).map(|request| request.id).collect();
        for id in expired {
            // The first of a shard takes the others with it.
            if self.requests.iter().all(|request| request.id != id) {
                continue;
            }
            self.effects.push_back(Effect::Expired { request: id });
            self.failed(id, Setback::Lost, now_us);
        }
        if let Hedging::Late { .. } = self.profile.hedging {
            self.excuse(now_us);
            let late: Vec<RequestId> =
                self.hedgeable().filter(|request| request.late_us <= now_us).map(|request| request.id).collect();
            for late in late {
                self.hedge(late, now_us);
            }
        }
        for node in &mut self.nodes {
            if node.busy_until_us <= now_us {
                node.busy_until_us = 0;
            }
        }
        self.dispatch(now_us);
    }

    /// The shard is an erasure; sets that counted on it are planned anew.
    fn lose(&mut self, segment: usize, shard: usize, now_us: u64) {
        if let Some(lane) = &mut self.lanes[segment][shard] {
            lane.lost = true;
        }
        let is_of_shard =
            |request: &Request, sets: &[Set]| sets[request.set].shape.segment == segment && request.shard == shard;
        let dropped: Vec<RequestId> =
            self.requests.iter().filter(|request| is_of_shard(request, &self.sets)).map(|request| request.id).collect();
        for id in dropped {
            self.take(id);
            self.effects.push_back(Effect::Drop { request: id, late: false });
        }
        for set in self.open.clone() {
            if self.sets[set].shape.segment != segment {
                continue;
            }
            let Set { arrived, plans, unsent, is_ready, .. } = &mut self.sets[set];
            let count = plans.len();
            plans.retain(|plan| {
                let mut of_shard = plan.gets.iter().filter(|get| get.shard == shard);
                of_shard.all(|get| arrived.covers(shard, &get.payload))
            });
            unsent.retain(|get| get.shard != shard);
            if !*is_ready && (plans.is_empty() || plans.len() < count) {
                self.plan_anew(set, None, now_us);
                // What has come of other plans may be all that the new one reads.
                self.complete(set);
            }
        }
    }

    /// The set and the position among its unsent gets.
    fn next_get(&mut self, now_us: u64) -> Option<(usize, usize)> {
        loop {
            let mut best: Option<(u64, usize, usize)> = None;
            for position in 0..self.open.len() {
                let set = self.open[position];
                if self.is_stale(set, now_us) {
                    let current = self.sets[set].plans.pop();
                    self.plan_anew(set, current, now_us);
                    self.complete(set);
                }
                let soonest = self.soonest_get(set, now_us);
                match self.profile.order {
                    Order::Streaming if soonest.is_some() => return soonest.map(|(_, get)| (set, get)),
                    Order::Streaming => {}
                    Order::Whole => {
                        let candidate = soonest.map(|(us, get)| (us, set, get));
                        best = best.into_iter().chain(candidate).min();
                    }
                }
            }
            // A whole file's sets are all candidates, as far as memory goes.
            let opened = (best.is_none() || self.profile.order == Order::Whole) && self.open_next(now_us);
            if !opened {
                return best.map(|(_, set, get)| (set, get));
            }
        }
    }

    fn open_next(&mut self, now_us: u64) -> bool {
        let Some(set) = self.sets.get(self.next_set) else { return false };
        let bytes = set.shape.data_bytes;
        if !self.open.is_empty() && self.open_bytes + bytes > self.profile.window_bytes {
            return false;
        }
        let set = self.next_set;
        self.next_set += 1;
        self.open.push(set);
        self.open_bytes += bytes;
        self.plan_anew(set, None, now_us);
        // What is held of a set that wants nothing is complete.
        self.complete(set);
        true
    }

    /// Follows whichever plan has all it reads.
    fn complete(&mut self, set: usize) {
        let Set { arrived, plans, is_ready, .. } = &mut self.sets[set];
        if *is_ready {
            return;
        }
        let has_all = |plan: &ReadPlan| plan.gets.iter().all(|get| arrived.covers(get.shard, &get.payload));
        let Some(position) = plans.iter().position(has_all) else { return };
        let plan = plans.swap_remove(position);
        *is_ready = true;
        plans.clear();
        self.sets[set].unsent.clear();
        let of_set: Vec<(RequestId, bool)> = self
            .requests
            .iter()
            .filter(|request| request.set == set)
            .map(|request| (request.id, request.late))
            .collect();
        for (request, late) in of_set {
            self.take(request);
            self.effects.push_back(Effect::Drop { request, late });
        }
        self.effects.push_back(Effect::Ready { set, plan });
    }

    fn take(&mut self, request: RequestId) -> Option<Request> {
        let position = self.requests.iter().position(|other| other.id == request)?;
        let request = self.requests.swap_remove(position);
        let node = &mut self.nodes[request.node];
        node.under_way -= 1;
        node.under_way_bytes -= request.bytes();
        node.late -= u32::from(request.late);
        Some(request)
    }

    fn node_of(&self, set: usize, shard: usize) -> usize {
        let lane = self.lanes[self.sets[set].shape.segment][shard].as_ref();
        lane.expect("only shards that are offered are planned with").node
    }
}

#[cfg(test)]
#[path = "scheduler_tests.rs"]
mod tests;
