//! How many more shards a segment can lose, and what a repair of some would read. Pure.

use std::collections::HashMap;
use std::sync::Arc;
use weft_codes::{Code, Offer, Offers, Wanted};
use weft_format::records::SegmentRecord;

/// Patterns of loss tried beyond the guaranteed tolerance before the answer is settled for: a fraction of a second of
/// algebra. Codes that need more have more shards than there are margins to care about.
const PATTERNS_TRIED: usize = 20_000;

/// Codes by spec, and margins already worked out: a volume has few codes and few patterns of loss.
#[derive(Default)]
pub struct Margins {
    codes: HashMap<String, Option<Arc<dyn Code>>>,
    margins: HashMap<String, HashMap<Vec<bool>, Option<usize>>>,
}

impl Margins {
    /// Further losses of shards that every part of the segment's data survives, given which shards are there; `None` when
    /// the data cannot be had from these.
    pub fn margin(&mut self, record: &SegmentRecord, there: &[bool]) -> Option<usize> {
        let code = self.code(&record.code)?;
        let known = self.margins.entry(record.code.clone()).or_default();
        if let Some(margin) = known.get(there) {
            return *margin;
        }
        let margin = code_margin(&*code, there);
        known.insert(there.to_vec(), margin);
        margin
    }

    /// Bytes of payload that nodes send to rebuild `lost` from the shards that are there; `None` when they cannot be.
    pub fn repair_bytes(&mut self, record: &SegmentRecord, there: &[bool], lost: &[usize]) -> Option<u64> {
        let code = self.code(&record.code)?;
        let plan = code.plan(&Wanted::Shards(lost.to_vec()), &offers(there)).ok()?;
        let alpha = u64::from(record.geometry.alpha.max(1));
        // Every read brings one symbol of every stripe, 1/alpha of a payload.
        Some(plan.reads.len() as u64 * record.geometry.payload_bytes().div_ceil(alpha))
    }

    fn code(&mut self, spec: &str) -> Option<Arc<dyn Code>> {
        if let Some(code) = self.codes.get(spec) {
            return code.clone();
        }
        let code = weft_codes::parse(spec).ok();
        self.codes.insert(spec.into(), code.clone());
        code
    }
}

fn offers(there: &[bool]) -> Offers {
    let offer = Offer { combines: false, request_price: 0, symbol_price: 1 };
    Offers(there.iter().map(|there| there.then_some(offer)).collect())
}

fn code_margin(code: &dyn Code, there: &[bool]) -> Option<usize> {
    let shape = code.shape();
    if there.len() != shape.n {
        return None;
    }
    let all = Wanted::Natives((0..shape.native_count).collect());
    margin(shape.tolerance, there, &|there| code.plan(&all, &offers(there)).is_ok())
}

/// The largest count such that the loss of *any* that many of the shards that are there leaves the data whole; `None`
/// when the data cannot be had from what is there. Any `tolerance` lost shards of all can be decoded. Exact, but for wide
/// codes that promise nothing near their redundancy: there it may be too small, never too large.
fn margin(tolerance: usize, there: &[bool], decodes: &dyn Fn(&[bool]) -> bool) -> Option<usize> {
    if !decodes(there) {
        return None;
    }
    let present: Vec<usize> = (0..there.len()).filter(|index| there[*index]).collect();
    let lost = there.len() - present.len();
    // The promised tolerance is a floor; what lies above it is tried out, pattern by pattern.
    let mut sure = tolerance.saturating_sub(lost);
    while sure < present.len() && patterns(present.len(), sure + 1) <= PATTERNS_TRIED {
        if !survives_all(there, &present, sure + 1, decodes) {
            break;
        }
        sure += 1;
    }
    Some(sure)
}

/// `count` out of `from`, or as good as endless.
fn patterns(from: usize, count: usize) -> usize {
    let step = |total: usize, i: usize| Some(total.checked_mul(from - i)? / (i + 1));
    (0..count).try_fold(1, step).unwrap_or(usize::MAX)
}

/// Does every loss of `count` of the shards `present` leave enough?
fn survives_all(there: &[bool], present: &[usize], count: usize, decodes: &dyn Fn(&[bool]) -> bool) -> bool {
    let mut chosen: Vec<usize> = (0..count).collect();
    loop {
        let mut rest = there.to_vec();
        for position in &chosen {
            rest[present[*position]] = false;
        }
        if !decodes(&rest) {
            return false;
        }
        // The next combination, in the usual order: move the last position that has room, put the others behind it.
        let has_room = |i: &usize| chosen[*i] < present.len() - (count - i);
        let Some(moving) = (0..count).rev().find(has_room) else { return true };
        chosen[moving] += 1;
        for i in moving + 1..count {
            chosen[i] = chosen[i - 1] + 1;
        }
    }
}

#[cfg(test)]
#[path = "margin_tests.rs"]
mod tests;
