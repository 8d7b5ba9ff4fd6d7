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
//! late:     (P blocks of progress, or longer than the node ever takes) another plan without it, up to R at one time
//! ```
//!
//! Start reading at `Scheduler::dispatch`.

mod arrived;
mod estimate;
mod profile;

pub(crate) use arrived::Arrived;
pub use estimate::Estimate;
pub use profile::{Hedging, Order, Preference, Profile, ProfileError, Selection};

use crate::read::plan::{AVOIDED, Get, ReadPlan, ShardOffer, ShardOffers};
use arrived::subtract;
use std::collections::VecDeque;
use std::ops::Range;
use weft_format::shard::FRAME_PAYLOAD_BYTES;

/// A request whose node is silent for so long is in trouble: others are asked whatever it costs.
const STALLED_US: u64 = 1_000_000;

/// A node is slow if it takes this many times as long as the middle one, and so much longer that anybody would notice.
const SLOW_FACTOR: u64 = 3;
const SLOW_US: u64 = 5_000;

/// What a slow node is asked for comes in parts of about this time, so that little is lost if it fails on the way: ...
const PART_US: u64 = 300_000;
/// ... parts of no fewer bytes, ...
const PART_BYTES_MIN: u64 = 64 << 10;
/// ... so many of them at one time that the line is never idle.
const PARTS_UNDER_WAY: usize = 2;

/// A time that nothing is known of, for prices: as of a node nearby, so that it is tried.
const UNKNOWN_US: u64 = 1_000;

/// What would do for a set.
pub(crate) trait Plans {
    /// What to fetch for `set`, and what to make of it; `None`: the offers do not suffice.
    fn plan(&self, set: usize, offers: &ShardOffers, arrived: &Arrived) -> Option<ReadPlan>;
}

/// What is known of a node when a download begins, and whenever it changes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NodeView {
    pub(crate) estimate: Estimate,
    /// Requests of other downloads under way to it.
    pub(crate) load: u32,
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
    /// Nothing that is left suffices for some set.
    Stuck,
}

/// Why a request brought nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setback {
    /// The shard cannot be used.
    Lost,
    /// The node has too much to do: to be asked again from then on.
    Busy { until_us: u64 },
}

struct Node {
    view: NodeView,
    under_way: u32,
    under_way_bytes: u64,
    late: u32,
    busy_until_us: u64,
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
    late_us: u64,
    expires_us: u64,
    late: bool,
    attempt: u32,
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
        let node = |view| Node { view, under_way: 0, under_way_bytes: 0, late: 0, busy_until_us: 0 };
        let set = |shape: SetShape| {
            let arrived = Arrived::nothing(lanes[shape.segment].len(), shape.payload_bytes);
            Set { shape, arrived, plans: Vec::new(), unsent: Vec::new(), attempt: 0, is_ready: false }
        };
        Self {
            plans,
            profile,
            deadline,
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

    /// What hedging may still cost.
    pub(crate) fn allowance_bytes(&self) -> u64 {
        self.allowance_bytes
    }

    /// Is everything delivered?
    pub(crate) fn is_done(&self) -> bool {
        self.open.is_empty() && self.next_set == self.sets.len()
    }

    /// More is known of a node.
    pub(crate) fn set_view(&mut self, node: usize, view: NodeView) {
        self.nodes[node].view = view;
    }

    /// Sends what may be sent now; also the beginning.
    pub(crate) fn dispatch(&mut self, now_us: u64) {
        while self.requests.len() < self.profile.transfers {
            let Some((set, position)) = self.next_get(now_us) else { break };
            self.ask(set, position, now_us);
        }
    }

    /// A request has brought what was asked for, and it is sound.
    pub(crate) fn arrived(&mut self, request: RequestId, now_us: u64) {
        let Some(request) = self.take(request) else { return };
        self.arrivals += 1;
        self.sets[request.set].arrived.insert(request.shard, request.payload);
        self.complete(request.set);
        if let Hedging::Progress { blocks } = self.profile.hedging {
            let is_late = |other: &Request| self.arrivals - other.arrivals >= blocks;
            let late: Vec<RequestId> = self.hedgeable().filter(|other| is_late(other)).map(|other| other.id).collect();
            late.into_iter().for_each(|late| self.hedge(late, now_us));
        }
        self.dispatch(now_us);
    }

    /// A request has failed.
    pub(crate) fn failed(&mut self, request: RequestId, setback: Setback, now_us: u64) {
        let Some(request) = self.take(request) else { return };
        let (segment, shard) = (self.sets[request.set].shape.segment, request.shard);
        match setback {
            Setback::Busy { until_us } => {
                self.nodes[request.node].busy_until_us = until_us;
                self.plan_anew(request.set, now_us);
                self.complete(request.set);
            }
            Setback::Lost => self.lose(segment, shard, now_us),
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
            self.effects.push_back(Effect::Expired { request: id });
            self.failed(id, Setback::Lost, now_us);
        }
        if let Hedging::Late { .. } = self.profile.hedging {
            let late: Vec<RequestId> =
                self.hedgeable().filter(|request| request.late_us <= now_us).map(|request| request.id).collect();
            late.into_iter().for_each(|late| self.hedge(late, now_us));
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
                of_shard.all(|get| arrived.covers(shard, get.payload.clone()))
            });
            unsent.retain(|get| get.shard != shard);
            if !*is_ready && (plans.is_empty() || plans.len() < count) {
                self.plan_anew(set, now_us);
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
                let by_load = matches!(self.profile.selection, Selection::SoonestDone | Selection::Lightest);
                if by_load && !self.sets[set].unsent.is_empty() && self.requests.iter().any(|r| r.set == set) {
                    // Loads have changed: another choice may be better now.
                    self.sets[set].plans.pop();
                    self.plan_anew(set, now_us);
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
        self.plan_anew(set, now_us);
        // What is held of a set that wants nothing is complete.
        self.complete(set);
        true
    }

    /// Of a set's unsent gets that may be sent now: the one expected soonest, and when.
    fn soonest_get(&self, set: usize, now_us: u64) -> Option<(u64, usize)> {
        let Set { unsent, shape, .. } = &self.sets[set];
        let candidates = unsent.iter().enumerate().filter_map(|(position, get)| {
            let node = &self.nodes[self.lanes[shape.segment][get.shard].as_ref()?.node];
            let of_lane = self.requests.iter().filter(|request| request.set == set && request.shard == get.shard);
            let may = node.busy_until_us <= now_us && of_lane.count() < PARTS_UNDER_WAY;
            may.then(|| (self.price_us(node, get.payload.end - get.payload.start, now_us), position))
        });
        candidates.min()
    }

    fn ask(&mut self, set: usize, position: usize, now_us: u64) {
        let get = self.sets[set].unsent[position].clone();
        let node_index = self.node_of(set, get.shard);
        let payload = self.part(&self.nodes[node_index], &get.payload, now_us);
        match payload.end < get.payload.end {
            true => self.sets[set].unsent[position].payload.start = payload.end,
            false => drop(self.sets[set].unsent.remove(position)),
        }
        let bytes = payload.end - payload.start;
        let attempt = self.sets[set].attempt;
        let node = &mut self.nodes[node_index];
        node.under_way += 1;
        node.under_way_bytes += bytes;
        let late_after_us = match self.profile.hedging {
            Hedging::Late { .. } => node.view.estimate.late_after_us(node.under_way_bytes),
            Hedging::Progress { .. } => u64::MAX,
        };
        let expires_after_us = match self.profile.timeout_ms {
            Some(timeout_ms) => timeout_ms * 1000,
            None => self.deadline.base_us + bytes * 1000 / self.deadline.bytes_per_ms.max(1),
        };
        let id = self.next_request;
        self.next_request += 1;
        self.requests.push(Request {
            id,
            set,
            shard: get.shard,
            node: node_index,
            payload: payload.clone(),
            asked_us: now_us,
            late_us: now_us.saturating_add(late_after_us),
            expires_us: now_us + expires_after_us,
            late: false,
            attempt,
            arrivals: self.arrivals,
        });
        let ask = Ask { request: id, set, shard: get.shard, payload, instead: attempt > 0 };
        self.effects.push_back(Effect::Ask(ask));
    }

    /// The beginning of `payload` that is asked for at one time.
    fn part(&self, node: &Node, payload: &Range<u64>, now_us: u64) -> Range<u64> {
        let bytes = payload.end - payload.start;
        let expected_us = node.view.estimate.expected_us(bytes, now_us).unwrap_or(0);
        if !self.profile.learns() || expected_us <= PART_US {
            return payload.clone();
        }
        let part_bytes = ((bytes as u128 * u128::from(PART_US) / u128::from(expected_us)) as u64).max(PART_BYTES_MIN);
        let end = (payload.start + part_bytes).next_multiple_of(FRAME_PAYLOAD_BYTES as u64);
        // A short rest is not worth a request.
        let end = if end + PART_BYTES_MIN >= payload.end { payload.end } else { end };
        payload.start..end
    }

    /// Requests that may still be given to others.
    fn hedgeable(&self) -> impl Iterator<Item = &Request> {
        self.requests.iter().filter(|request| !request.late && request.attempt + 1 < self.profile.copies)
    }

    /// Gives the work of a late request to others too.
    fn hedge(&mut self, request: RequestId, now_us: u64) {
        let Some(position) = self.requests.iter().position(|other| other.id == request) else { return };
        let (set, attempt) = (self.requests[position].set, self.requests[position].attempt);
        let is_stalled = now_us.saturating_sub(self.requests[position].asked_us) >= STALLED_US;
        self.requests[position].late = true;
        self.nodes[self.requests[position].node].late += 1;
        let before = (self.sets[set].plans.len(), self.sets[set].unsent.clone());
        if self.plan_anew(set, now_us) {
            let unsent = &self.sets[set].unsent;
            let extra_bytes: u64 = unsent.iter().map(|get| get.payload.end - get.payload.start).sum();
            let is_budgeted = matches!(self.profile.hedging, Hedging::Late { .. }) && !is_stalled;
            if is_budgeted && extra_bytes > self.allowance_bytes {
                // Too dear for now: once it is certain that something is wrong, it is done all the same.
                self.sets[set].plans.truncate(before.0);
                self.sets[set].unsent = before.1;
                self.nodes[self.requests[position].node].late -= 1;
                let request = &mut self.requests[position];
                (request.late, request.late_us) = (false, request.asked_us + STALLED_US);
                return;
            }
            self.allowance_bytes = self.allowance_bytes.saturating_sub(extra_bytes);
            self.sets[set].attempt = self.sets[set].attempt.max(attempt + 1);
        }
        self.effects.push_back(Effect::Late { request });
        self.complete(set);
    }

    /// Adds a plan for what is offered now; was there one?
    fn plan_anew(&mut self, set: usize, now_us: u64) -> bool {
        let offers = self.offers(set, now_us, true);
        let mut coming = self.sets[set].arrived.clone();
        for request in self.requests.iter().filter(|request| request.set == set && !request.late) {
            coming.insert(request.shard, request.payload.clone());
        }
        let mut plan = self.plans.plan(set, &offers, &coming);
        // Going round nodes that are merely slow may not cost more than hedging may.
        if offers.goes_round_slow_ones
            && let Some(round) = &plan
        {
            let extra_bytes = Self::lacking_bytes(round, &coming).saturating_sub(self.sets[set].shape.data_bytes);
            match extra_bytes <= self.allowance_bytes {
                true => self.allowance_bytes -= extra_bytes,
                false => plan = self.plans.plan(set, &self.offers(set, now_us, false), &coming),
            }
        }
        let Some(plan) = plan else {
            if self.sets[set].plans.is_empty() {
                self.effects.push_back(Effect::Stuck);
            }
            return false;
        };
        let mut unsent = Vec::new();
        for get in &plan.gets {
            for part in self.sets[set].arrived.lacks(get.shard, get.payload.clone()) {
                let under_way = self.requests.iter().filter(|other| other.set == set && other.shard == get.shard);
                let parts = subtract(part, under_way.map(|other| other.payload.clone()));
                unsent.extend(parts.into_iter().map(|payload| Get { shard: get.shard, payload }));
            }
        }
        self.sets[set].unsent = unsent;
        self.sets[set].plans.push(plan);
        true
    }

    fn lacking_bytes(plan: &ReadPlan, coming: &Arrived) -> u64 {
        let lacking = plan.gets.iter().flat_map(|get| coming.lacks(get.shard, get.payload.clone()));
        lacking.map(|part| part.end - part.start).sum()
    }

    /// What the set's shards are offered for now.
    fn offers(&self, set: usize, now_us: u64, go_round: bool) -> ShardOffers {
        let SetShape { segment, block_bytes, .. } = self.sets[set].shape;
        let lanes = &self.lanes[segment];
        let usable = |lane: &&Lane| !lane.lost;
        let expected_us = |lane: &Lane| self.nodes[lane.node].view.estimate.expected_us(block_bytes, now_us);
        let slow_from_us = if self.profile.learns() && go_round {
            let mut known: Vec<u64> = lanes.iter().flatten().filter(usable).filter_map(expected_us).collect();
            known.sort_unstable();
            known.get(known.len() / 2).map_or(u64::MAX, |middle_us| (middle_us * SLOW_FACTOR).max(middle_us + SLOW_US))
        } else {
            u64::MAX
        };
        let mut goes_round_slow_ones = false;
        let offer = |(shard, lane): (usize, &Option<Lane>)| {
            let lane = lane.as_ref().filter(usable)?;
            let node = &self.nodes[lane.node];
            let is_late =
                self.requests.iter().any(|request| request.late && request.set == set && request.shard == shard);
            let (request_price, kib_price, mut reluctance) = match self.profile.selection {
                Selection::Cheapest => {
                    let expected_us = expected_us(lane).unwrap_or(0);
                    let is_slow = expected_us > slow_from_us;
                    goes_round_slow_ones |= is_slow;
                    // In steps of two, so that few different prices are planned with.
                    let slow = if is_slow { AVOIDED + expected_us.next_power_of_two() } else { 0 };
                    let avoided = if node.view.suspected || node.late > 0 { 2 * AVOIDED } else { 0 };
                    (node.view.request_price, node.view.kib_price, slow.max(avoided))
                }
                _ => (self.price_us(node, block_bytes, now_us), 0, 0),
            };
            if is_late || node.busy_until_us > now_us {
                reluctance = reluctance.max(2 * AVOIDED);
            }
            Some(ShardOffer { request_price, kib_price, reluctance })
        };
        let shards = lanes.iter().enumerate().map(offer).collect();
        let data_first = self.profile.preference == Preference::DataFirst;
        ShardOffers { shards, data_first, goes_round_slow_ones }
    }

    /// What the selection compares nodes by.
    fn price_us(&self, node: &Node, bytes: u64, now_us: u64) -> u64 {
        let expected_us = node.view.estimate.expected_us(bytes, now_us).unwrap_or(UNKNOWN_US);
        let load = u64::from(node.view.load + node.under_way);
        match self.profile.selection {
            Selection::Fastest | Selection::Cheapest => expected_us,
            Selection::SoonestDone => expected_us.saturating_mul(load + 1),
            // Among equals the faster; loads are far from a second's microseconds.
            Selection::Lightest => load * 1_000_000 + expected_us.min(999_999),
        }
    }

    /// Follows whichever plan has all it reads.
    fn complete(&mut self, set: usize) {
        let Set { arrived, plans, is_ready, .. } = &mut self.sets[set];
        if *is_ready {
            return;
        }
        let has_all = |plan: &ReadPlan| plan.gets.iter().all(|get| arrived.covers(get.shard, get.payload.clone()));
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
