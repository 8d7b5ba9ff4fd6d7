//! What a set reads: plans by what is offered at what price, and prices by what is known of nodes.

use super::{
    Effect, Lane, NOTICED_US, Node, NodeView, Plans, Preference, Request, Scheduler, Selection, Set, SetShape,
};
use crate::arrived::{Arrived, subtract};
use crate::read_plan::{AVOIDED, Get, ReadPlan, ShardOffer, ShardOffers};

/// A node is slow if it takes this many times as long as the middle one, and so much longer that anybody would notice.
const SLOW_FACTOR: u64 = 3;
const SLOW_US: u64 = 5_000;

/// A set is planned anew no sooner after this time because loads are others: planning takes time itself, for some codes as long as
/// what it plans, and shorter times are not compared anyway.
const REPLAN_US: u64 = NOTICED_US / 4;

/// Of nodes that cost the same the soonest done are chosen: a unit of price is worth more than any time (in units of 16 us).
const MONEY: u64 = 1 << 26;

/// A time that nothing is known of, for prices: as of a node nearby, so that it is tried.
const UNKNOWN_US: u64 = 1_000;

/// How long a node takes of which only a rumour is known. All clients hear the same rumour, and it is old. So only a time that somebody would
/// notice counts, and it counts in steps of two: clients do not all leave one node for another that has a little less to do.
fn unknown_us(rumoured_us: u64) -> u64 {
    match rumoured_us < NOTICED_US {
        true => UNKNOWN_US,
        false => UNKNOWN_US + rumoured_us.next_power_of_two(),
    }
}

impl<P: Plans> Scheduler<P> {
    /// Was the set planned when loads were others, so that another choice may be better now?
    pub(super) fn is_stale(&self, set: usize, now_us: u64) -> bool {
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

    /// Adds a plan for what is offered now, instead of the `current` one; was there one?
    pub(super) fn plan_anew(&mut self, set: usize, current: Option<ReadPlan>, now_us: u64) -> bool {
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

    /// What the middle one of the set's nodes takes for so many bytes, of those that anything is known of.
    pub(super) fn middle_us(&self, set: usize, bytes: u64, now_us: u64) -> Option<u64> {
        let lanes = self.lanes[self.sets[set].shape.segment].iter().flatten().filter(|lane| !lane.lost);
        let mut known: Vec<u64> =
            lanes.filter_map(|lane| self.nodes[lane.node].view.estimate.expected_us(bytes, now_us)).collect();
        known.sort_unstable();
        known.get(known.len() / 2).copied()
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
    pub(super) fn price_us(&self, node: &Node, bytes: u64, queued_bytes: u64, now_us: u64) -> u64 {
        let NodeView { estimate, rumoured_us, .. } = node.view;
        let expected = |bytes| estimate.expected_us(bytes, now_us).unwrap_or_else(|| unknown_us(rumoured_us));
        let (expected_us, load) = (expected(bytes), u64::from(node.view.load + node.under_way));
        match self.profile.selection {
            Selection::Fastest => expected_us,
            Selection::Cheapest => expected(bytes + node.view.load_bytes + queued_bytes),
            Selection::SoonestDone => expected_us.saturating_mul(load + 1),
            // Among equals the faster; loads are far from a second's microseconds.
            Selection::Lightest => load * 1_000_000 + expected_us.min(999_999),
        }
    }
}
