//! Which segments a round of compaction takes. Pure.

use super::Demand;
use std::collections::HashSet;
use std::sync::Arc;
use weft_format::SegmentId;
use weft_transfer::worth::{Small, by_live_share, is_thin};

/// By itself a volume compacts thin segments only while at least one byte in this many is dead, ...
const DEAD_ONE_IN: u64 = 4;
/// ... and at least this many are: fewer are not worth waking disks for, however small the volume.
const DEAD_BYTES_MIN: u64 = 64 << 20;
/// Living bytes that one round moves: a few segments, well under a second of six disks, so that users do not wait long.
pub(super) const ROUND_BYTES: u64 = 32 << 20;
/// Segments of one round; bounds its memory where each has only a few bytes left.
pub(super) const ROUND_SEGMENTS: usize = 1024;

/// The known facts of a living segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Living {
    pub segment: SegmentId,
    pub live_bytes: u64,
    pub data_bytes: u64,
    /// Bytes of its shards on nodes.
    pub stored_bytes: u64,
    pub code: Arc<str>,
    /// Its files want unlike codes.
    pub is_divided: bool,
}

/// Why a segment is rewritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reason {
    /// Less than half of it lives, or its files want unlike codes.
    Thin,
    /// It is small, and there are many like it.
    Small,
}

/// A segment to be rewritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub segment: SegmentId,
    pub live_bytes: u64,
    /// Bytes of its shards on nodes.
    pub stored_bytes: u64,
    pub reason: Reason,
}

/// The segments to compact or divide, thinnest first, then those to merge, similar ones together.
pub(super) fn choose(mut living: Vec<Living>, demand: Demand, tried: &HashSet<SegmentId>) -> Vec<Candidate> {
    let data_bytes: u64 = living.iter().map(|segment| segment.data_bytes).sum();
    let live_bytes: u64 = living.iter().map(|segment| segment.live_bytes).sum();
    let dead_bytes = data_bytes.saturating_sub(live_bytes);
    let is_worthwhile = dead_bytes >= DEAD_BYTES_MIN && dead_bytes >= data_bytes / DEAD_ONE_IN;
    let takes_thin = demand == Demand::Any || is_worthwhile;
    living.retain(|segment| !tried.contains(&segment.segment));
    let mut small = Small::default();
    living.iter().for_each(|segment| small.count(&segment.code, segment.data_bytes));
    let reason = |segment: &Living| {
        if segment.is_divided || takes_thin && is_thin(segment.live_bytes, segment.data_bytes) {
            return Some(Reason::Thin);
        }
        small.is_worthwhile(&segment.code, segment.data_bytes).then_some(Reason::Small)
    };
    let mut chosen: Vec<(Reason, Living)> =
        living.into_iter().filter_map(|segment| reason(&segment).map(|reason| (reason, segment))).collect();
    chosen.sort_by(|(reason, a), (other, b)| {
        let order = match reason {
            Reason::Thin => by_live_share((a.live_bytes, a.data_bytes), (b.live_bytes, b.data_bytes)),
            Reason::Small => a.code.cmp(&b.code).then(a.data_bytes.cmp(&b.data_bytes)),
        };
        reason.cmp(other).then(order).then(a.segment.cmp(&b.segment))
    });
    let candidate = |(reason, Living { segment, live_bytes, stored_bytes, .. })| Candidate {
        segment,
        live_bytes,
        stored_bytes,
        reason,
    };
    chosen.into_iter().map(candidate).collect()
}

/// The first of them: as many as one round takes and as fit into `room_bytes`.
///
/// # Errors
/// The bytes that the first one needs, if there is no room for them.
pub(super) fn one_round(mut chosen: Vec<Candidate>, room_bytes: u64) -> Result<Vec<Candidate>, u64> {
    let mut left = ROUND_BYTES.min(room_bytes);
    let fits = |candidate: &&Candidate| {
        let rest = left.checked_sub(candidate.live_bytes);
        left = rest.unwrap_or(0);
        rest.is_some()
    };
    let count = chosen.iter().take(ROUND_SEGMENTS).take_while(fits).count();
    match chosen.first() {
        // No segment lives with more than a round moves but one of a foreign size, which is a round of its own.
        Some(first) if count == 0 && first.live_bytes > room_bytes => Err(first.live_bytes),
        _ => {
            chosen.truncate(count.max(1));
            Ok(chosen)
        }
    }
}
