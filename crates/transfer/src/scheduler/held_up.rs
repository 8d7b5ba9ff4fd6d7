//! Who is late because this client's own uplink has much to carry: no node is at fault for that, and asking others makes it worse.

use super::estimate::{LATE_FLOOR_US, UNKNOWN_BYTES_PER_US};
use super::{Plans, Request, Scheduler};

/// Calls that share an uplink end at about the same time. So a request may wait until the uplink has carried all that was under way
/// with it, and as much again that was asked for meanwhile.
const SHARE_FACTOR: u64 = 2;

impl<P: Plans> Scheduler<P> {
    /// Requests that this client's uplink holds up are not late yet; they are looked at again soon.
    pub(super) fn excuse(&mut self, now_us: u64) {
        let is_excused = |request: &Request| request.late_us <= now_us && self.is_held_up(request, now_us);
        let excused: Vec<usize> =
            (0..self.requests.len()).filter(|position| is_excused(&self.requests[*position])).collect();
        for position in excused {
            self.requests[position].late_us = now_us + LATE_FLOOR_US;
        }
    }

    /// Is its share of the uplink still to come? Not when the uplink has carried more than that since it was asked, and not when
    /// the uplink has been idle for longer than its node and all that is under way could take.
    pub(super) fn is_held_up(&self, request: &Request, now_us: u64) -> bool {
        let under_way_bytes = request.line_under_way_bytes.max(self.line_under_way_bytes());
        let carried_bytes = self.uplink.moved_bytes.saturating_sub(request.uplink_moved_bytes);
        if carried_bytes >= SHARE_FACTOR * under_way_bytes {
            return false;
        }
        let carrying_us = match self.uplink.bytes_per_ms {
            Some(bytes_per_ms) => under_way_bytes * 1000 / bytes_per_ms.max(1),
            None => under_way_bytes / UNKNOWN_BYTES_PER_US,
        };
        let quiet_us = now_us.saturating_sub(self.moved_at_us().max(request.asked_us));
        quiet_us < request.late_after_us.max(carrying_us)
    }

    /// What this client's uplink is to carry: what it was told of, or what this download alone has under way.
    pub(super) fn line_under_way_bytes(&self) -> u64 {
        self.uplink.under_way_bytes.max(self.requests.iter().map(Request::bytes).sum())
    }

    /// When the uplink has carried something last.
    fn moved_at_us(&self) -> u64 {
        self.uplink.quiet_ms.map_or(0, |quiet_ms| self.uplink_seen_us.saturating_sub(quiet_ms * 1000))
    }
}
