//! Whom to ask next, for how much at one time, and when to ask others for the same.

use super::estimate::LATE_FLOOR_US;
use super::{Ask, Effect, Hedging, NOTICED_US, Node, Plans, Request, RequestId, Scheduler, Set};
use std::ops::Range;
use weft_format::shard::FRAME_PAYLOAD_BYTES;

/// A request whose node is silent for so long is in trouble: others are asked whatever it costs.
pub(super) const STALLED_US: u64 = 1_000_000;

/// Requests of one download under way to one node: what is to come is asked of whoever is free first.
const NODE_REQUESTS_MAX: u32 = 2;

/// What a slow node is asked for comes in parts of about this time, so that little is lost if it fails on the way: ...
const PART_US: u64 = 300_000;
/// ... parts of no fewer bytes, ...
const PART_BYTES_MIN: u64 = 64 << 10;
/// ... so many of them at one time that the uplink is never idle.
pub(super) const PARTS_UNDER_WAY: usize = 2;

impl<P: Plans> Scheduler<P> {
    /// A request that another node of its set, which has nothing of it to do, would be done with in less than half the time
    /// that is left.
    pub(super) fn overtaken(&self, now_us: u64) -> Option<RequestId> {
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

    /// Of a set's unsent gets that may be sent now: the one expected soonest, and when.
    pub(super) fn soonest_get(&self, set: usize, now_us: u64) -> Option<(u64, usize)> {
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

    pub(super) fn ask(&mut self, set: usize, position: usize, now_us: u64) {
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
            late_after_us,
            expires_us: now_us + expires_after_us,
            late: false,
            attempt,
            uplink_moved_bytes: self.uplink.moved_bytes,
            line_under_way_bytes: self.line_under_way_bytes() + bytes,
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
    pub(super) fn hedgeable(&self) -> impl Iterator<Item = &Request> {
        self.requests.iter().filter(|request| !request.late && request.attempt + 1 < self.profile.copies)
    }

    /// Gives the work of a late request to others too; is there anybody?
    pub(super) fn hedge(&mut self, request: RequestId, now_us: u64) -> bool {
        let Some(position) = self.requests.iter().position(|other| other.id == request) else { return false };
        let (set, attempt) = (self.requests[position].set, self.requests[position].attempt);
        let is_stalled = now_us.saturating_sub(self.requests[position].asked_us) >= STALLED_US
            && !self.is_held_up(&self.requests[position], now_us);
        let is_budgeted = matches!(self.profile.hedging, Hedging::Late { .. }) && !is_stalled;
        // One that the uplink holds up is older than that, and is looked at again soon.
        let again_us = (self.requests[position].asked_us + STALLED_US).max(now_us + LATE_FLOOR_US);
        if is_budgeted && self.allowance_bytes == 0 {
            self.requests[position].late_us = again_us;
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
                (request.late, request.late_us) = (false, again_us);
                return false;
            }
            self.allowance_bytes = self.allowance_bytes.saturating_sub(extra_bytes);
            self.sets[set].attempt = self.sets[set].attempt.max(attempt + 1);
        }
        self.effects.push_back(Effect::Late { request });
        self.complete(set);
        true
    }
}
