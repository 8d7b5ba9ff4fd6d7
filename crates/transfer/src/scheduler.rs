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
use estimate::LATE_FLOOR_US;
use std::collections::VecDeque;
use std::ops::Range;
use weft_format::shard::FRAME_PAYLOAD_BYTES;

/// A request whose node is silent for so long is in trouble: others are asked whatever it costs.
const STALLED_US: u64 = 1_000_000;

/// A node is slow if it takes this many times as long as the middle one, and so much longer that anybody would notice.
const SLOW_FACTOR: u64 = 3;
const SLOW_US: u64 = 5_000;

/// Times are compared where the slowest takes as long as this, and half as long again as the fastest: then who is soonest
/// done is asked, be it for data or not. Below, data is read plainly, and nobody notices.
const NOTICED_US: u64 = 20_000;

/// A set is planned anew no sooner after this time because loads are others: planning takes time itself, for some codes as long as
/// what it plans, and shorter times are not compared anyway.
const REPLAN_US: u64 = NOTICED_US / 4;

/// Of nodes that cost the same the soonest done are chosen: a unit of price is worth more than any time (in units of 16 us).
const MONEY: u64 = 1 << 26;

/// Requests of one download under way to one node: what is to come is asked of whoever is free first.
const NODE_REQUESTS_MAX: u32 = 2;

/// What a slow node is asked for comes in parts of about this time, so that little is lost if it fails on the way: ...
const PART_US: u64 = 300_000;
/// ... parts of no fewer bytes, ...
const PART_BYTES_MIN: u64 = 64 << 10;
/// ... so many of them at one time that the line is never idle.
const PARTS_UNDER_WAY: usize = 2;

/// A node that is too busy is asked again after this time, twice as long after every further refusal, ...
const BUSY_US: u64 = 50_000;
/// ... and counts as failed after so many: some six seconds.
const REFUSALS_MAX: u32 = 7;

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
    /// Requests of other downloads under way to it, ...
    pub(crate) load: u32,
    /// ... and their bytes.
    pub(crate) load_bytes: u64,
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

    /// Requests under way may take so much longer: this client's line has much else to do. A time-out of the profile stays.
    pub(crate) fn wait_longer(&mut self, wait_us: u64) {
        if self.profile.timeout_ms.is_some() {
            return;
        }
        let deadline = self.deadline;
        for request in &mut self.requests {
            request.expires_us = request.expires_us.max(request.asked_us + deadline.us(request.bytes()) + wait_us);
        }
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

    /// A request that another node of its set, which has nothing of it to do, would be done with in less than half the time
    /// that is left.
    fn overtaken(&self, now_us: u64) -> Option<RequestId> {
        if !self.profile.learns() || self.next_set < self.sets.len() {
            return None;
        }
        let is_overtaken = |request: &&Request| {
            let left_us = request.due_us.saturating_sub(now_us);
            left_us > NOTICED_US && self.idle_us(request, now_us).is_some_and(|us| us < left_us / 2)
        };
        self.hedgeable().filter(is_overtaken).max_by_key(|request| request.due_us).map(|request| request.id)
    }

    /// How long the soonest of the set's nodes that are not asked for anything of it would take for a request.
    fn idle_us(&self, request: &Request, now_us: u64) -> Option<u64> {
        let is_asked = |shard| self.requests.iter().any(|other| other.set == request.set && other.shard == shard);
        let lanes = self.lanes[self.sets[request.set].shape.segment].iter().enumerate();
        let idle = lanes.filter_map(|(shard, lane)| lane.as_ref().filter(|lane| !lane.lost && !is_asked(shard)));
        let us = idle.map(|lane| {
            let node = &self.nodes[lane.node];
            self.price_us(node, request.bytes(), node.under_way_bytes, now_us)
        });
        us.min()
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

    /// A request has failed.
    pub(crate) fn failed(&mut self, request: RequestId, setback: Setback, now_us: u64) {
        let Some(request) = self.take(request) else { return };
        let (segment, shard) = (self.sets[request.set].shape.segment, request.shard);
        match setback {
            Setback::Busy if self.nodes[request.node].refusals < REFUSALS_MAX => {
                let node = &mut self.nodes[request.node];
                node.busy_until_us = now_us + (BUSY_US << node.refusals);
                node.refusals += 1;
                self.plan_anew(request.set, None, now_us);
                self.complete(request.set);
            }
            Setback::Busy | Setback::Lost => self.lose(segment, shard, now_us),
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

    /// Was the set planned when loads were others, so that another choice may be better now?
    fn is_stale(&self, set: usize, now_us: u64) -> bool {
        let Set { unsent, planned_at, planned_us, by_time, .. } = &self.sets[set];
        let is_by_load = match self.profile.selection {
            Selection::SoonestDone | Selection::Lightest => true,
            Selection::Fastest => false,
            // Only where times are compared at all.
            Selection::Cheapest => *by_time && now_us - planned_us >= REPLAN_US,
        };
        is_by_load && !unsent.is_empty() && *planned_at < self.load_version()
    }

    /// Rises whenever loads change enough to plan anew.
    fn load_version(&self) -> u64 {
        match self.profile.selection {
            // What is going to be asked counts as load already: only what comes back changes it.
            Selection::Cheapest => self.arrivals,
            _ => self.arrivals + self.next_request,
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

    /// Of a set's unsent gets that may be sent now: the one expected soonest, and when.
    fn soonest_get(&self, set: usize, now_us: u64) -> Option<(u64, usize)> {
        let Set { unsent, shape, .. } = &self.sets[set];
        let mut of_shard = None;
        // The gets come by shard, and of one shard in order.
        let firsts = unsent.iter().enumerate().filter(|(_, get)| of_shard.replace(get.shard) != Some(get.shard));
        let candidates = firsts.filter_map(|(position, get)| {
            let node = &self.nodes[self.lanes[shape.segment][get.shard].as_ref()?.node];
            let of_lane = self.requests.iter().filter(|request| request.set == set && request.shard == get.shard);
            let is_free = !self.profile.learns() || node.under_way < NODE_REQUESTS_MAX;
            let may = node.busy_until_us <= now_us && of_lane.count() < PARTS_UNDER_WAY && is_free;
            may.then(|| {
                (self.price_us(node, get.payload.end - get.payload.start, node.under_way_bytes, now_us), position)
            })
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
        let queued_bytes = node.under_way_bytes + node.view.load_bytes;
        let due_after_us = node.view.estimate.expected_us(queued_bytes, now_us).unwrap_or(0);
        let late_after_us = match self.profile.hedging {
            Hedging::Late { .. } => {
                let own_us = node.view.estimate.late_after_us(queued_bytes);
                // Nothing is late sooner than the floor: others need not be asked about.
                match own_us > LATE_FLOOR_US {
                    true => own_us.min(self.late_for_others_us(set, bytes, now_us)),
                    false => own_us,
                }
            }
            Hedging::Progress { .. } => u64::MAX,
        };
        let expires_after_us = match self.profile.timeout_ms {
            Some(timeout_ms) => timeout_ms * 1000,
            None => self.deadline.us(bytes),
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
            due_us: now_us + due_after_us,
            late_us: now_us.saturating_add(late_after_us),
            expires_us: now_us + expires_after_us,
            late: false,
            attempt,
            arrivals: self.arrivals,
        });
        let ask = Ask { request: id, set, shard: get.shard, payload, instead: attempt > 0 };
        self.effects.push_back(Effect::Ask(ask));
    }

    /// What takes longer than this is late whatever its node is used to: the others would long have been done.
    fn late_for_others_us(&self, set: usize, bytes: u64, now_us: u64) -> u64 {
        match self.middle_us(set, bytes, now_us) {
            Some(middle_us) => (middle_us * 2).max(LATE_FLOOR_US),
            None => u64::MAX,
        }
    }

    /// What the middle one of the set's nodes takes for so many bytes, of those that anything is known of.
    fn middle_us(&self, set: usize, bytes: u64, now_us: u64) -> Option<u64> {
        let lanes = self.lanes[self.sets[set].shape.segment].iter().flatten().filter(|lane| !lane.lost);
        let mut known: Vec<u64> =
            lanes.filter_map(|lane| self.nodes[lane.node].view.estimate.expected_us(bytes, now_us)).collect();
        known.sort_unstable();
        known.get(known.len() / 2).copied()
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

    /// Gives the work of a late request to others too; is there anybody?
    fn hedge(&mut self, request: RequestId, now_us: u64) -> bool {
        let Some(position) = self.requests.iter().position(|other| other.id == request) else { return false };
        let (set, attempt) = (self.requests[position].set, self.requests[position].attempt);
        let is_stalled = now_us.saturating_sub(self.requests[position].asked_us) >= STALLED_US;
        let is_budgeted = matches!(self.profile.hedging, Hedging::Late { .. }) && !is_stalled;
        if is_budgeted && self.allowance_bytes == 0 {
            self.requests[position].late_us = self.requests[position].asked_us + STALLED_US;
            return false;
        }
        self.requests[position].late = true;
        self.nodes[self.requests[position].node].late += 1;
        let before = (self.sets[set].plans.len(), self.sets[set].unsent.clone());
        if self.plan_anew(set, None, now_us) {
            let unsent = &self.sets[set].unsent;
            let extra_bytes: u64 = unsent.iter().map(|get| get.payload.end - get.payload.start).sum();
            if is_budgeted && extra_bytes > self.allowance_bytes {
                // Too dear for now: once it is certain that something is wrong, it is done all the same.
                self.sets[set].plans.truncate(before.0);
                self.sets[set].unsent = before.1;
                self.nodes[self.requests[position].node].late -= 1;
                let request = &mut self.requests[position];
                (request.late, request.late_us) = (false, request.asked_us + STALLED_US);
                return false;
            }
            self.allowance_bytes = self.allowance_bytes.saturating_sub(extra_bytes);
            self.sets[set].attempt = self.sets[set].attempt.max(attempt + 1);
        }
        self.effects.push_back(Effect::Late { request });
        self.complete(set);
        true
    }

    /// Adds a plan for what is offered now, instead of the `current` one; was there one?
    fn plan_anew(&mut self, set: usize, current: Option<ReadPlan>, now_us: u64) -> bool {
        let mut coming = self.sets[set].arrived.clone();
        for request in self.requests.iter().filter(|request| request.set == set && !request.late) {
            coming.insert(request.shard, request.payload.clone());
        }
        let (plan, by_time) = self.planned(set, current, &coming, now_us);
        let Some(plan) = plan else {
            if self.sets[set].plans.is_empty() {
                self.effects.push_back(Effect::Stuck { set });
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
        let planned_at = self.load_version();
        let planned = &mut self.sets[set];
        (planned.unsent, planned.by_time) = (unsent, by_time);
        (planned.planned_at, planned.planned_us) = (planned_at, now_us);
        planned.plans.push(plan);
        true
    }

    /// The plan for what is offered now, and whether it follows times that another moment may find changed.
    fn planned(
        &mut self,
        set: usize,
        current: Option<ReadPlan>,
        coming: &Arrived,
        now_us: u64,
    ) -> (Option<ReadPlan>, bool) {
        let offers = self.offers(set, now_us, true);
        if !offers.goes_round_slow_ones {
            return (self.plans.plan(set, &offers, coming), false);
        }
        let plain = current.or_else(|| self.plans.plan(set, &self.offers(set, now_us, false), coming));
        // Who asks everybody can only ask others for more: what may cost nothing, as a repair by all others, is planned once.
        if self.allowance_bytes == 0 && plain.as_ref().is_some_and(|plain| self.asks_all(set, plain)) {
            return (plain, false);
        }
        let mut plan = self.plans.plan(set, &offers, coming);
        // Going round nodes that are merely slow may not cost more than hedging may: a repair that reads little is left so.
        if let (Some(round), Some(plain)) = (&plan, plain) {
            let [round_bytes, plain_bytes] = [round, &plain].map(|plan| Self::lacking_bytes(plan, coming));
            let extra_bytes = round_bytes.saturating_sub(plain_bytes);
            match extra_bytes <= self.allowance_bytes {
                true => self.allowance_bytes -= extra_bytes,
                false => plan = Some(plain),
            }
        }
        (plan, true)
    }

    /// Does the plan read something of every shard of the set that is there?
    fn asks_all(&self, set: usize, plan: &ReadPlan) -> bool {
        let lanes = self.lanes[self.sets[set].shape.segment].iter().enumerate();
        let mut there = lanes.filter(|(_, lane)| lane.as_ref().is_some_and(|lane| !lane.lost));
        // The gets come by shard.
        there.all(|(shard, _)| plan.gets.binary_search_by_key(&shard, |get| get.shard).is_ok())
    }

    fn lacking_bytes(plan: &ReadPlan, coming: &Arrived) -> u64 {
        let lacking = plan.gets.iter().flat_map(|get| coming.lacks(get.shard, get.payload.clone()));
        lacking.map(|part| part.end - part.start).sum()
    }

    /// What the set's shards are offered for now.
    fn offers(&self, set: usize, now_us: u64, go_round: bool) -> ShardOffers {
        let SetShape { segment, block_bytes, .. } = self.sets[set].shape;
        let lanes = &self.lanes[segment];
        let learns = self.profile.learns();
        // A fixed profile knows nothing of what is queued.
        let queued_bytes = if learns { self.queued_bytes(set) } else { vec![0; self.nodes.len()] };
        let by_time = learns && go_round && self.is_noticed(set, &queued_bytes, now_us);
        let slow_from_us = match by_time {
            true => self.middle_us(set, block_bytes, now_us).map(|us| (us * SLOW_FACTOR).max(us + SLOW_US)),
            false => None,
        };
        let offer = |(shard, lane): (usize, &Option<Lane>)| {
            let lane = lane.as_ref().filter(|lane| !lane.lost)?;
            let node = &self.nodes[lane.node];
            let NodeView { estimate, suspected, request_price, kib_price, .. } = node.view;
            let time = || self.price_us(node, block_bytes, queued_bytes[lane.node], now_us);
            let (request_price, kib_price) = match (learns, by_time) {
                (false, _) => (time(), 0),
                (true, true) => (request_price * MONEY + (time() / 16).min(MONEY - 1), kib_price * MONEY),
                (true, false) => (request_price, kib_price),
            };
            let of_shard = |request: &&Request| request.late && request.set == set && request.shard == shard;
            // The later the less is hoped for.
            let late_us = self.requests.iter().filter(of_shard).map(|request| now_us - request.asked_us).max();
            let late = late_us.map_or(0, |us| 3 * AVOIDED + us.next_power_of_two().min(AVOIDED));
            let busy = if node.busy_until_us > now_us { 2 * AVOIDED } else { 0 };
            let slow =
                slow_from_us.and_then(|from_us| estimate.expected_us(block_bytes, now_us).filter(|us| *us > from_us));
            // In steps of two, so that few different prices are planned with.
            let slow = slow.map_or(0, |us| AVOIDED + us.next_power_of_two().min(AVOIDED / 2));
            let in_doubt = if learns && (suspected || node.late > 0) { 2 * AVOIDED } else { 0 };
            Some(ShardOffer { request_price, kib_price, reluctance: late.max(busy).max(slow).max(in_doubt) })
        };
        let shards = lanes.iter().enumerate().map(offer).collect();
        let data_first = self.profile.preference == Preference::DataFirst && !by_time;
        ShardOffers { shards, data_first, goes_round_slow_ones: by_time }
    }

    /// Would anybody notice which of the set's nodes are asked?
    fn is_noticed(&self, set: usize, queued_bytes: &[u64], now_us: u64) -> bool {
        let SetShape { segment, block_bytes, .. } = self.sets[set].shape;
        let lanes = self.lanes[segment].iter().flatten().filter(|lane| !lane.lost);
        let (mut least_us, mut most_us) = (u64::MAX, 0);
        for lane in lanes {
            let us = self.price_us(&self.nodes[lane.node], block_bytes, queued_bytes[lane.node], now_us);
            (least_us, most_us) = (least_us.min(us), most_us.max(us));
        }
        most_us >= NOTICED_US && most_us > least_us + least_us / 2
    }

    /// By node: bytes that it was asked for, and that it is going to be asked for by plans of other sets.
    fn queued_bytes(&self, set: usize) -> Vec<u64> {
        let mut queued_bytes: Vec<u64> = self.nodes.iter().map(|node| node.under_way_bytes).collect();
        for other in self.open.iter().filter(|other| **other != set) {
            for get in &self.sets[*other].unsent {
                queued_bytes[self.node_of(*other, get.shard)] += get.payload.end - get.payload.start;
            }
        }
        queued_bytes
    }

    /// What the selection compares nodes by; `queued_bytes` come first.
    fn price_us(&self, node: &Node, bytes: u64, queued_bytes: u64, now_us: u64) -> u64 {
        let expected = |bytes| node.view.estimate.expected_us(bytes, now_us).unwrap_or(UNKNOWN_US);
        let (expected_us, load) = (expected(bytes), u64::from(node.view.load + node.under_way));
        match self.profile.selection {
            Selection::Fastest => expected_us,
            Selection::Cheapest => expected(bytes + node.view.load_bytes + queued_bytes),
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
