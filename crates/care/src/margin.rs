//! How many more shards a segment can lose, and what a repair of some would read. Pure.
//!
//! What is left of a segment decodes when the rows of the code's generator matrix that belong to it have full rank. So what
//! a loss costs is decided by rank, for every code alike; a pattern of losses is judged once. MDS codes need no matrix: they
//! decode from any k.

use std::collections::HashMap;
use std::sync::Arc;
use weft_codes::{Code, Matrix, Offer, Offers, Shape, Wanted, linear};
use weft_format::records::SegmentRecord;

/// Multiplications in GF(2^8) spent on patterns of loss beyond the promised tolerance: a second or so, once for a pattern.
const WORK_MAX: usize = 4 << 30;

/// Pairs of native symbols looked at for a light codeword; all of them for codes of up to 500.
const PAIRS_MAX: usize = 125_000;

/// Codes by spec, and answers already worked out: a volume has few codes and few patterns of loss.
#[derive(Default)]
pub struct Margins {
    codes: HashMap<String, Option<Known>>,
}

/// A code and what is known of it.
struct Known {
    code: Arc<dyn Code>,
    /// A row per stored symbol; none for a code that is MDS.
    generator: Option<Matrix>,
    margins: HashMap<Vec<bool>, Option<usize>>,
    /// Symbols of a stripe that a repair reads: by what is there and what is lost.
    repairs: HashMap<(Vec<bool>, Vec<usize>), Option<u64>>,
}

impl Margins {
    /// Further losses of shards that every part of the segment's data survives, given which shards are there; `None` when
    /// the data cannot be had from these.
    pub fn margin(&mut self, record: &SegmentRecord, there: &[bool]) -> Option<usize> {
        let known = self.known(&record.code)?;
        if let Some(margin) = known.margins.get(there) {
            return *margin;
        }
        let margin = known.margin(there);
        known.margins.insert(there.to_vec(), margin);
        margin
    }

    /// Bytes of payload that nodes send to rebuild `lost` from the shards that are there; `None` when they cannot be.
    pub fn repair_bytes(&mut self, record: &SegmentRecord, there: &[bool], lost: &[usize]) -> Option<u64> {
        let known = self.known(&record.code)?;
        let pattern = (there.to_vec(), lost.to_vec());
        let symbols = match known.repairs.get(&pattern) {
            Some(symbols) => *symbols,
            None => {
                let plan = known.code.plan(&Wanted::Shards(lost.to_vec()), &offers(there)).ok();
                let symbols = plan.map(|plan| plan.reads.len() as u64);
                known.repairs.insert(pattern, symbols);
                symbols
            }
        };
        // Each is 1/alpha of a payload.
        let alpha = u64::from(record.geometry.alpha.max(1));
        Some(symbols? * record.geometry.payload_bytes().div_ceil(alpha))
    }

    /// Native symbols that cannot be had from the shards that are there.
    pub fn lost_natives(&mut self, record: &SegmentRecord, there: &[bool]) -> Vec<u32> {
        if self.margin(record, there).is_some() {
            return Vec::new();
        }
        let natives = 0..record.geometry.native_count;
        // Of a code that this program does not know nothing can be had.
        let Some(known) = self.known(&record.code) else { return natives.collect() };
        let is_lost = |native: &u32| known.code.plan(&Wanted::Natives(vec![*native as usize]), &offers(there)).is_err();
        natives.filter(is_lost).collect()
    }

    fn known(&mut self, spec: &str) -> Option<&mut Known> {
        if !self.codes.contains_key(spec) {
            let known = weft_codes::parse(spec).ok().and_then(Known::new);
            self.codes.insert(spec.into(), known);
        }
        self.codes.get_mut(spec)?.as_mut()
    }
}

fn offers(there: &[bool]) -> Offers {
    let offer = Offer { combines: false, request_price: 0, symbol_price: 1 };
    Offers(there.iter().map(|there| there.then_some(offer)).collect())
}

fn is_mds(shape: &Shape) -> bool {
    shape.native_count == shape.k * shape.alpha && shape.tolerance + shape.k == shape.n
}

impl Known {
    fn new(code: Arc<dyn Code>) -> Option<Self> {
        let generator = if is_mds(code.shape()) { None } else { Some(linear::generator(&*code).ok()?) };
        Some(Self { code, generator, margins: HashMap::new(), repairs: HashMap::new() })
    }

    fn margin(&self, there: &[bool]) -> Option<usize> {
        let shape = self.code.shape();
        if there.len() != shape.n {
            return None;
        }
        match &self.generator {
            None => there.iter().filter(|there| **there).count().checked_sub(shape.k),
            Some(generator) => linear_margin(generator, shape.alpha, shape.tolerance, there),
        }
    }
}

/// The largest count such that the loss of *any* that many of the shards that are there leaves the data whole; `None`
/// when the data cannot be had from what is there. Any `tolerance` lost shards of all can be decoded. Exact, but where
/// neither a light codeword nor [`WORK_MAX`] settles it: there it may be too small, never too large.
fn linear_margin(generator: &Matrix, alpha: usize, tolerance: usize, there: &[bool]) -> Option<usize> {
    if !decodes(generator, alpha, there) {
        return None;
    }
    let present: Vec<usize> = (0..there.len()).filter(|shard| there[*shard]).collect();
    // The promise is a floor, and what is known to be fatal a ceiling; between them patterns are tried out.
    let mut sure = tolerance.saturating_sub(there.len() - present.len());
    let fatal = lightest_known(generator, alpha, there);
    let work = (present.len() * alpha).saturating_mul(generator.columns()).saturating_mul(generator.columns());
    while sure + 1 < fatal && patterns(present.len(), sure + 1).saturating_mul(work) <= WORK_MAX {
        if !survives_all(there, &present, sure + 1, &|there| decodes(generator, alpha, there)) {
            break;
        }
        sure += 1;
    }
    Some(sure)
}

/// Is everything determined by these shards?
fn decodes(generator: &Matrix, alpha: usize, there: &[bool]) -> bool {
    let rows: Vec<usize> = (0..generator.rows()).filter(|row| there[row / alpha]).collect();
    rows.len() >= generator.columns() && generator.select_rows(&rows).rank() == generator.columns()
}

/// Losing every shard in which some codeword is not zero makes it look like no data at all: so many of the shards that are
/// there does the lightest codeword touch that one or two native symbols make.
fn lightest_known(generator: &Matrix, alpha: usize, there: &[bool]) -> usize {
    let stored = generator.rows();
    let native_count = generator.columns();
    let codewords: Vec<Vec<u8>> =
        (0..native_count).map(|native| (0..stored).map(|row| generator.at(row, native)).collect()).collect();
    let weight = |differs: &dyn Fn(usize) -> bool| {
        (0..there.len()).filter(|shard| there[*shard] && (shard * alpha..(shard + 1) * alpha).any(differs)).count()
    };
    let single = codewords.iter().map(|word| weight(&|row| word[row] != 0));
    let pairs = (0..native_count).flat_map(|a| (0..a).map(move |b| (a, b))).take(PAIRS_MAX);
    let double = pairs.map(|(a, b)| weight(&|row| codewords[a][row] != codewords[b][row]));
    single.chain(double).min().unwrap_or(there.len())
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
