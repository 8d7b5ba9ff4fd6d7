//! How many more shards a segment can lose, and how much a repair would read. Pure.
//!
//! A segment's data are lost when some codeword lies on lost shards alone. So the parity checks of the code decide what a loss
//! costs, for every code in the same way; each pattern of losses is judged once. If a code decodes from the fewest shards that can
//! hold the data, there is nothing to judge.

use std::collections::HashMap;
use std::sync::Arc;
use weft_codes::{Code, Erasures, Matrix, Offer, Offers, PlanError, Shape, Wanted, linear};
use weft_format::records::SegmentRecord;

/// Element operations spent on patterns of loss beyond the promised tolerance: about half a second, once for each pattern.
const WORK_MAX: usize = 1 << 28;

/// Element operations that a pattern takes besides its elimination.
const PATTERN_WORK: usize = 1 << 10;

/// Limit of element operations for finding a code's parity checks; over bits, 64 count as one.
const ELIMINATION_MAX: usize = 1 << 32;

/// Pairs of native symbols looked at for a light codeword; all of them for codes of up to 500.
const PAIRS_MAX: usize = 125_000;

/// Sets of groups that are tried for one pattern of groups: some milliseconds.
const GROUP_PATTERNS_MAX: usize = 1000;

/// Further losses that something survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Survives {
    /// Of failure units, each with all its nodes.
    pub units: usize,
    /// Of nodes.
    pub nodes: usize,
    /// Of shards.
    pub shards: usize,
}

impl Survives {
    /// What two parts of the data survive together.
    pub(crate) fn least(self, other: Self) -> Self {
        let (units, nodes) = (self.units.min(other.units), self.nodes.min(other.nodes));
        Self { units, nodes, shards: self.shards.min(other.shards) }
    }
}

/// Codes by spec, and answers already worked out: a volume has few codes and few patterns of loss.
#[derive(Default)]
pub struct Margins {
    codes: HashMap<String, Option<Known>>,
}

/// A code, and facts about it.
struct Known {
    code: Arc<dyn Code>,
    judge: Judge,
    margins: HashMap<Vec<bool>, Option<usize>>,
    /// Losses of whole groups, by the groups of the shards that are there.
    of_groups: HashMap<Vec<Option<usize>>, usize>,
    /// Symbols of a stripe that a repair reads, by available and lost shards, and by whether nodes compute.
    repairs: HashMap<(Vec<bool>, Vec<usize>, bool), Option<u64>>,
}

/// How losses are judged.
enum Judge {
    /// It decodes from any shards that hold as many symbols as the data have, so counting decides.
    Count,
    Checks(Checks),
    /// Its checks would take too long: the promised tolerance counts, and beyond it the existence of a plan.
    Plan,
}

/// The parity checks of a code.
struct Checks {
    /// The shards that light codewords touch.
    light: Vec<ShardSet>,
    erasures: Erasures,
}

/// A bit for each shard, 64 to a word.
#[derive(Debug, PartialEq, Eq)]
struct ShardSet(Vec<u64>);

impl Margins {
    /// Further losses of shards that every part of the segment's data survives, given which shards are there; `None` when
    /// the data cannot be had from these.
    pub fn margin(&mut self, record: &SegmentRecord, there: &[bool]) -> Option<usize> {
        self.known(&record.code)?.known_margin(there)
    }

    /// What all segments of a code survive whose shards are all there, each on another of some nodes: `units` has the number of these nodes in
    /// each failure unit. A unit may have `unit_shards(n)` of n shards, and no more than may be lost. `None`: the code is not known, or some
    /// segments may survive less than others, or may have too much in a unit.
    pub fn of_whole(&mut self, code: &str, units: &[usize], unit_shards: impl Fn(usize) -> usize) -> Option<Survives> {
        let known = self.known(code)?;
        let n = known.code.shape().n;
        let shards = known.known_margin(&vec![true; n])?;
        known.alike(shards, (units, n), (units, n), unit_shards)
    }

    /// The same of segments of which each lacks the shard on one and the same node. `units` has that node, too; `units_there` does not.
    /// `None`, too: it matters which shard it is, or the data cannot be had without it.
    pub fn of_degraded(
        &mut self,
        code: &str,
        units: &[usize],
        units_there: &[usize],
        unit_shards: impl Fn(usize) -> usize,
    ) -> Option<Survives> {
        let known = self.known(code)?;
        let (n, shards) = (known.code.shape().n, known.margin_without_one()?);
        known.alike(shards, (units, n), (units_there, n - 1), unit_shards)
    }

    /// Losses of any as many shards are survived; `None`: the code is not known.
    pub fn tolerance(&mut self, spec: &str) -> Option<usize> {
        Some(self.known(spec)?.code.shape().tolerance)
    }

    /// Further losses of whole groups of shards, as of all on one node, that the data survives. `groups` has the number of the group of each
    /// shard that is there, in the order in which they come; `shards` is how many single ones may go.
    pub fn of_groups(&mut self, record: &SegmentRecord, groups: &[Option<usize>], shards: usize) -> usize {
        let sizes = sizes(groups);
        if sizes.iter().all(|size| *size == 1) {
            return shards;
        }
        let counted = largest_within(&sizes, shards);
        let Some(known) = self.known(&record.code).filter(|known| !matches!(known.judge, Judge::Count)) else {
            return counted;
        };
        if let Some(margin) = known.of_groups.get(groups) {
            return *margin;
        }
        // What counting allows is a floor: another pattern of as many losses may be worse than that of these groups.
        let tolerance = known.code.shape().tolerance;
        let all: Vec<usize> = (0..sizes.len()).collect();
        let there = vec![true; sizes.len()];
        let left = |kept: &[bool]| -> Vec<bool> {
            groups.iter().map(|group| group.is_some_and(|group| kept[group])).collect()
        };
        let mut margin = counted;
        while margin < all.len() && patterns(all.len(), margin + 1) <= GROUP_PATTERNS_MAX {
            if !survives_all(&there, &all, margin + 1, &|kept| known.margin(&left(kept), tolerance).is_some()) {
                break;
            }
            margin += 1;
        }
        known.of_groups.insert(groups.to_vec(), margin);
        margin
    }

    /// Bytes of payload that nodes send to rebuild `lost`, all from one plan, from the shards that are there; `None` when they
    /// cannot be. `combines`: nodes compute before they send.
    pub fn repair_bytes(
        &mut self,
        record: &SegmentRecord,
        there: &[bool],
        lost: &[usize],
        combines: bool,
    ) -> Option<u64> {
        let known = self.known(&record.code)?;
        let pattern = (there.to_vec(), lost.to_vec(), combines);
        let symbols = match known.repairs.get(&pattern) {
            Some(symbols) => *symbols,
            None => {
                let plan = known.code.plan(&Wanted::Shards(lost.to_vec()), &offers(there, combines)).ok();
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
        // Segments of a code that this program does not know cannot be read.
        let Some(known) = self.known(&record.code) else { return natives.collect() };
        // All at once: the error names the unrecoverable ones.
        match known
            .code
            .plan(&Wanted::Natives(natives.clone().map(|native| native as usize).collect()), &offers(there, false))
        {
            Ok(_) => Vec::new(),
            Err(PlanError::Unrecoverable { lost: Wanted::Natives(lost), .. }) => {
                lost.into_iter().map(|native| native as u32).collect()
            }
            Err(_) => natives.collect(),
        }
    }

    fn known(&mut self, spec: &str) -> Option<&mut Known> {
        if !self.codes.contains_key(spec) {
            let known = weft_codes::parse(spec).ok().and_then(Known::new);
            self.codes.insert(spec.into(), known);
        }
        self.codes.get_mut(spec)?.as_mut()
    }
}

/// How many shards each group has.
fn sizes(groups: &[Option<usize>]) -> Vec<usize> {
    let mut sizes = Vec::new();
    for group in groups.iter().flatten() {
        if *group >= sizes.len() {
            sizes.resize(group + 1, 0);
        }
        sizes[*group] += 1;
    }
    sizes
}

/// Shards in each unit if they fill units of these numbers of nodes one after the other, the largest first: in no other way do a few units have
/// more.
fn fullest(units: &[usize], mut shard_count: usize) -> Vec<usize> {
    let mut units = units.to_vec();
    units.sort_unstable_by(|a, b| b.cmp(a));
    let take = |unit: usize| {
        let taken = unit.min(shard_count);
        shard_count -= taken;
        taken
    };
    units.into_iter().map(take).collect()
}

/// Shards in each unit if each goes to one that has the fewest and a node left: in no other way do a few units have less.
fn evenest(units: &[usize], shard_count: usize) -> Vec<usize> {
    let mut held = vec![0; units.len()];
    for _ in 0..shard_count {
        let open = (0..units.len()).filter(|unit| held[*unit] < units[*unit]);
        let Some(least) = open.min_by_key(|unit| held[*unit]) else { break };
        held[least] += 1;
    }
    held
}

/// How many groups of these sizes may go, whichever they are, when any `shards` shards may.
fn largest_within(sizes: &[usize], mut shards: usize) -> usize {
    let mut sizes = sizes.to_vec();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    let fits = |size: &&usize| match shards.checked_sub(**size) {
        Some(rest) => {
            shards = rest;
            true
        }
        None => false,
    };
    sizes.iter().take_while(fits).count()
}

fn offers(there: &[bool], combines: bool) -> Offers {
    let offer = Offer { combines, request_price: 0, symbol_price: 1 };
    Offers(there.iter().map(|there| there.then_some(offer)).collect())
}

/// Does everything follow from any shards that have as many symbols as the data? Cells may be padded, so `k` shards may have more
/// symbols than the data.
fn needs_no_checks(shape: &Shape) -> bool {
    shape.native_count.div_ceil(shape.alpha) + shape.tolerance == shape.n
}

impl Known {
    /// What all segments survive any `shards` of whose shards may be lost. The first pair has the nodes of each unit and the number of shards on
    /// them; the second those of the shards that are there. `None`: some may survive less than others, or may have too much in a unit.
    fn alike(
        &self,
        shards: usize,
        (units, n): (&[usize], usize),
        (units_there, there_count): (&[usize], usize),
        unit_shards: impl Fn(usize) -> usize,
    ) -> Option<Survives> {
        let most = fullest(units, n).into_iter().max().unwrap_or(0);
        if most <= 1 {
            return Some(Survives { units: shards, nodes: shards, shards });
        }
        // Where not only the number of lost shards counts, it matters which of them share a unit.
        let only_number_counts = matches!(self.judge, Judge::Count);
        let is_fair = most <= unit_shards(n).min(self.code.shape().tolerance);
        let ways = [fullest(units_there, there_count), evenest(units_there, there_count)];
        let [least, greatest] = ways.map(|way| largest_within(&way, shards));
        let same = only_number_counts && is_fair && least == greatest;
        same.then_some(Survives { units: least, nodes: shards, shards })
    }

    /// The margin without any one shard; `None`: it matters which, or the data cannot be had.
    fn margin_without_one(&mut self) -> Option<usize> {
        let mut there = vec![true; self.code.shape().n];
        let mut margins = (0..there.len()).map(|lost| {
            there[lost] = false;
            let margin = self.known_margin(&there);
            there[lost] = true;
            margin
        });
        let first = margins.next()??;
        margins.all(|margin| margin == Some(first)).then_some(first)
    }

    /// [`Self::margin`], worked out once.
    fn known_margin(&mut self, there: &[bool]) -> Option<usize> {
        if let Some(margin) = self.margins.get(there) {
            return *margin;
        }
        // What is survived by all shards is survived by some, but for the losses that these have had.
        let sure = match there.contains(&false) {
            true => self.known_margin(&vec![true; there.len()]),
            false => None,
        };
        let margin = self.margin(there, sure.unwrap_or(self.code.shape().tolerance));
        self.margins.insert(there.to_vec(), margin);
        margin
    }

    fn new(code: Arc<dyn Code>) -> Option<Self> {
        let shape = code.shape();
        let elimination = shape.contents.len().saturating_mul(shape.native_count).saturating_mul(shape.native_count);
        let judge = if needs_no_checks(shape) {
            Judge::Count
        } else if elimination > ELIMINATION_MAX {
            Judge::Plan
        } else {
            let light = light_codewords(&linear::generator(&*code).ok()?, shape.alpha);
            Judge::Checks(Checks { light, erasures: Erasures::new(&*code).ok()? })
        };
        Some(Self { code, judge, margins: HashMap::new(), of_groups: HashMap::new(), repairs: HashMap::new() })
    }

    /// Any `sure` lost shards of all can be decoded.
    fn margin(&self, there: &[bool], sure: usize) -> Option<usize> {
        let shape = self.code.shape();
        if there.len() != shape.n {
            return None;
        }
        let lost_count = there.iter().filter(|there| !**there).count();
        let promised = shape.tolerance.checked_sub(lost_count);
        match &self.judge {
            Judge::Count => promised,
            Judge::Checks(checks) => checks.margin(sure, there),
            Judge::Plan => promised.or_else(|| {
                let all = Wanted::Natives((0..shape.native_count).collect());
                self.code.plan(&all, &offers(there, false)).ok().map(|_| 0)
            }),
        }
    }
}

impl Checks {
    /// The largest count such that the loss of *any* that many of the shards that are there leaves the data whole; `None`
    /// when these shards do not determine the data. Any `sure` lost shards of all can be decoded. The answer is exact, unless
    /// neither a light codeword nor [`WORK_MAX`] settles it: then it may be too small, never too large.
    fn margin(&self, sure: usize, there: &[bool]) -> Option<usize> {
        if !self.decodes(there) {
            return None;
        }
        let present: Vec<usize> = (0..there.len()).filter(|shard| there[*shard]).collect();
        let lost_count = there.len() - present.len();
        // What is sure is a floor, and the known fatal patterns are a ceiling; between them every pattern is tried.
        let mut sure = sure.saturating_sub(lost_count);
        let fatal = self.lightest_known(there);
        let work = |more| {
            let elimination = usize::try_from(self.erasures.operations(lost_count + more)).unwrap_or(usize::MAX);
            patterns(present.len(), more).saturating_mul(elimination.saturating_add(PATTERN_WORK))
        };
        while sure + 1 < fatal && work(sure + 1) <= WORK_MAX {
            if !survives_all(there, &present, sure + 1, &|there| self.decodes(there)) {
                break;
            }
            sure += 1;
        }
        Some(sure)
    }

    /// Losing every shard in which some codeword is not zero makes it look like no data at all. How many of the shards that are there the
    /// lightest known codeword touches.
    fn lightest_known(&self, there: &[bool]) -> usize {
        let present = ShardSet::of(there.iter().copied());
        self.light.iter().map(|touched| touched.count_in(&present)).min().unwrap_or(there.len())
    }

    /// Is everything determined by these shards?
    fn decodes(&self, there: &[bool]) -> bool {
        self.erasures.decodes(&(0..there.len()).filter(|shard| !there[*shard]).collect::<Vec<_>>())
    }
}

impl ShardSet {
    fn of(shards: impl Iterator<Item = bool>) -> Self {
        let mut words = Vec::new();
        for (index, _) in shards.enumerate().filter(|(_, is_in)| *is_in) {
            words.resize(words.len().max(index / 64 + 1), 0);
            words[index / 64] |= 1 << (index % 64);
        }
        Self(words)
    }

    fn count_in(&self, other: &Self) -> usize {
        self.0.iter().zip(&other.0).map(|(one, other)| (one & other).count_ones() as usize).sum()
    }
}

/// The shards that each codeword touches that one or two native symbols make.
fn light_codewords(generator: &Matrix, alpha: usize) -> Vec<ShardSet> {
    let (stored, native_count) = (generator.rows(), generator.columns());
    let codewords: Vec<Vec<u8>> =
        (0..native_count).map(|native| (0..stored).map(|row| generator.at(row, native)).collect()).collect();
    let touched = |differs: &dyn Fn(usize) -> bool| {
        ShardSet::of((0..stored / alpha).map(|shard| (shard * alpha..(shard + 1) * alpha).any(differs)))
    };
    let single = codewords.iter().map(|word| touched(&|row| word[row] != 0));
    let pairs = (0..native_count).flat_map(|a| (0..a).map(move |b| (a, b))).take(PAIRS_MAX);
    let double = pairs.map(|(a, b)| touched(&|row| codewords[a][row] != codewords[b][row]));
    single.chain(double).collect()
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
