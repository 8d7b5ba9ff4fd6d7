//! Planning: plain elements where they are offered, else the cheapest `k` shards; then, in gather form, the order of
//! recovery of [`Grid::recoveries`](super::Grid::recoveries), and of that only what the wanted symbols need.

use super::Layout;
use super::grid::Element;
use crate::code::{Code, Offers, Plan, PlanError, Price, Read, Wanted};
use crate::families::sums::{self, Sum};
use crate::linear::{self, LazyGenerator};
use alloc::vec;
use alloc::vec::Vec;

/// Chunks that a cell's worth of elements makes.
const CHUNKS_PER_CELL: usize = 2;

/// Shards to decode from: as many as there are rows.
#[derive(PartialEq, Eq)]
struct Choice {
    /// Rows that no chosen shard stores, ascending.
    lost_rows: Vec<usize>,
    /// As many projections, of descending direction.
    projections: Vec<usize>,
}

/// The plan of the code of this layout.
///
/// # Errors
/// As [`Code::plan`].
pub(super) fn plan(
    code: &dyn Code,
    layout: &Layout,
    generator: &LazyGenerator,
    wanted: &Wanted,
    have: &Offers,
) -> Result<Plan, PlanError> {
    linear::check(code, wanted, have)?;
    let engine = || linear::plan(code, generator.of(code), wanted, have);
    let targets = layout.names(wanted);
    let choices = choices(layout, &targets, have);
    let mut candidates = vec![layout.zeros()];
    if choices.is_empty() {
        if layout.may_have_all(have) {
            return engine();
        }
        candidates.push(layout.peeled(have));
    } else {
        candidates.extend(choices.iter().map(|choice| layout.sums(choice)));
    }
    let had = |sums: &Vec<Sum>| layout.had(sums, &targets, have);
    let answers = candidates.iter().filter(|sums| had(sums).iter().all(|&had| had)).map(|sums| {
        let sums = sums::needed(sums.clone(), &targets);
        let names = sums::reads(&sums, &targets);
        let reads: Vec<Read> = names.iter().map(|&name| layout.read(name)).collect();
        (have.price(&reads), reads, names, sums)
    });
    match answers.min_by_key(|answer| answer.0) {
        Some((price, reads, names, sums)) => {
            let plan = Plan { program: sums::program(&names, &sums, &targets), reads, price };
            // Rows so short may follow in part from fewer shards, and nodes may add bins up.
            Ok(linear::cheaper_than(price, code.shape(), have, engine)?.unwrap_or(plan))
        }
        None => Err(linear::unrecoverable(code, &had(&layout.peeled(have)), wanted, have)),
    }
}

/// The sets of `k` shards that may be the cheapest. A whole row costs `l` symbols of each of `k` shards, so the `k` cheapest
/// shards are best: the cheapest projections, however many, and the cheapest data. Parts of a row take fewer symbols the
/// fewer rows are lost, and none of rows that are read plainly: so every number of projections is tried, for shards in
/// order of the price of a row and of so many symbols as are wanted, with rows that are wanted kept first or not.
fn choices(layout: &Layout, targets: &[usize], have: &Offers) -> Vec<Choice> {
    let grid = &layout.grid;
    let is_wanted = |shard: usize| targets.iter().any(|&name| layout.shard(name) == Some(shard));
    let mut lengths = vec![targets.len().min(grid.columns), grid.columns];
    lengths.dedup();
    let orders = lengths.into_iter().flat_map(|length| [(length, false), (length, true)]);
    let choices = orders.flat_map(|(length, wanted_first)| {
        let by_price = |shards: core::ops::Range<usize>| {
            let priced = |shard: usize| {
                let offer = have.0[shard]?;
                let price = offer.request_price.saturating_add(offer.symbol_price.saturating_mul(length as Price));
                Some((!(wanted_first && is_wanted(shard)), price, shard))
            };
            let mut priced: Vec<(bool, Price, usize)> = shards.filter_map(priced).collect();
            priced.sort_unstable();
            priced.into_iter().map(|(_, _, shard)| shard).collect::<Vec<_>>()
        };
        let data_shards = layout.data_shards();
        let (data, projections) = (by_price(0..data_shards), by_price(data_shards..layout.shard_count()));
        let projection_counts = grid.rows.saturating_sub(data.len())..=projections.len().min(grid.rows);
        projection_counts
            .map(|projection_count| {
                let kept = &data[..grid.rows - projection_count];
                let mut chosen: Vec<usize> =
                    projections[..projection_count].iter().map(|shard| shard - data_shards).collect();
                chosen.sort_unstable_by_key(|&projection| core::cmp::Reverse(grid.directions[projection]));
                Choice { lost_rows: (0..grid.rows).filter(|row| !kept.contains(row)).collect(), projections: chosen }
            })
            .collect::<Vec<_>>()
    });
    let mut distinct: Vec<Choice> = Vec::new();
    for choice in choices {
        if !distinct.contains(&choice) {
            distinct.push(choice);
        }
    }
    distinct
}

impl Layout {
    /// All that follows from the chosen shards: the lost elements, the bins that are not read for them, and zeros.
    fn sums(&self, choice: &Choice) -> Vec<Sum> {
        let grid = &self.grid;
        let mut is_read = vec![false; self.stored_count()];
        let mut sums = Vec::new();
        for recovery in grid.recoveries(&choice.lost_rows, &choice.projections) {
            let bin = self.bin(recovery.projection, recovery.bin);
            is_read[bin] = true;
            let others = grid.elements(recovery.projection, recovery.bin).filter(|&other| other != recovery.element);
            let of = [bin].into_iter().chain(others.map(|other| self.element(other))).collect();
            sums.push(Sum { name: self.element(recovery.element), of });
        }
        let projections: Vec<usize> = (0..grid.directions.len()).collect();
        sums.extend(self.projected(&projections).into_iter().filter(|sum| !is_read[sum.name]));
        sums.extend(self.zeros());
        sums
    }

    /// Are there as many bins as unknown elements? With less than `k` shards that takes rows so short that projections are
    /// longer by parts; then everything may follow from them, by elimination.
    fn may_have_all(&self, have: &Offers) -> bool {
        let offered = (0..self.shard_count()).filter(|&shard| have.0[shard].is_some());
        offered.map(|shard| self.height(shard)).sum::<usize>() >= self.grid.rows * self.grid.columns
    }

    /// What follows from less than `k` shards at the corners: as long as a bin has one unknown element, that one is found.
    fn peeled(&self, have: &Offers) -> Vec<Sum> {
        let grid = &self.grid;
        let is_row_read = |row: usize| row < self.data_shards() && have.0[row].is_some();
        let mut is_known: Vec<bool> = (0..grid.rows * grid.columns).map(|at| is_row_read(at / grid.columns)).collect();
        let mut sums = Vec::new();
        let offered = (0..grid.directions.len()).filter(|projection| have.0[self.data_shards() + projection].is_some());
        let mut open: Vec<(usize, usize)> =
            offered.flat_map(|projection| (0..grid.bin_count(projection)).map(move |bin| (projection, bin))).collect();
        loop {
            let open_before = open.len();
            open.retain(|&(projection, bin)| {
                let elements: Vec<Element> = grid.elements(projection, bin).collect();
                let is_unknown = |&&(row, column): &&Element| !is_known[row * grid.columns + column];
                let mut unknown = elements.iter().filter(is_unknown);
                let (first, second) = (unknown.next().copied(), unknown.next());
                let Some((row, column)) = first else { return false };
                if second.is_none() {
                    is_known[row * grid.columns + column] = true;
                    let others = elements.iter().filter(|&&other| other != (row, column));
                    let of = [self.bin(projection, bin)].into_iter().chain(others.map(|&other| self.element(other)));
                    sums.push(Sum { name: self.element((row, column)), of: of.collect() });
                }
                second.is_some()
            });
            if open.len() == open_before {
                break;
            }
        }
        let is_lost = |projection: &usize| have.0[self.data_shards() + projection].is_none();
        let lost: Vec<usize> = (0..grid.directions.len()).filter(is_lost).collect();
        sums.extend(self.projected(&lost));
        sums.extend(self.zeros());
        sums
    }

    /// Can the wanted symbols be had by these sums from what is offered, each in turn?
    fn had(&self, sums: &[Sum], targets: &[usize], have: &Offers) -> Vec<bool> {
        let is_offered = |name: usize| self.shard(name).is_some_and(|shard| have.0[shard].is_some());
        let name_count = self.stored_count() + self.grid.rows * self.grid.columns;
        let mut is_had: Vec<bool> = (0..name_count).map(is_offered).collect();
        for sum in sums {
            is_had[sum.name] |= sum.of.iter().all(|&name| is_had[name]);
        }
        targets.iter().map(|&name| is_had[name]).collect()
    }

    /// The bins of these projections as sums of elements, in an order in which elements are met again soon: chunk of columns
    /// by chunk, in each all projections, and of each the bins around those columns in a row.
    pub(super) fn projected(&self, projections: &[usize]) -> Vec<Sum> {
        let grid = &self.grid;
        // All rows of a chunk are a part of a cell; of 64 KiB, as much as L1 holds beside the bins.
        let chunk_columns = (grid.columns / (CHUNKS_PER_CELL * grid.rows)).max(1) as isize;
        let bins = projections.iter().flat_map(|&projection| {
            // Where the middle row goes, other rows are on either side.
            let middle = grid.bin(projection, (grid.rows / 2, 0)) as isize;
            let chunk = move |bin: usize| (bin as isize - middle).div_euclid(chunk_columns);
            (0..grid.bin_count(projection)).map(move |bin| (chunk(bin), projection, bin))
        });
        let mut bins: Vec<(isize, usize, usize)> = bins.collect();
        bins.sort_unstable();
        let sum = |(_, projection, bin)| {
            let of = grid.elements(projection, bin).map(|element| self.element(element)).collect();
            Sum { name: self.bin(projection, bin), of }
        };
        bins.into_iter().map(sum).collect()
    }

    /// What fills shorter cells.
    pub(super) fn zeros(&self) -> Vec<Sum> {
        (0..self.stored_count()).filter(|&name| self.is_zero(name)).map(|name| Sum { name, of: Vec::new() }).collect()
    }

    /// Names of the wanted symbols.
    fn names(&self, wanted: &Wanted) -> Vec<usize> {
        match wanted {
            Wanted::Natives(natives) => {
                natives.iter().map(|&native| self.element(self.element_of_native(native))).collect()
            }
            Wanted::Shards(shards) => {
                shards.iter().flat_map(|shard| shard * self.alpha..(shard + 1) * self.alpha).collect()
            }
        }
    }

    fn read(&self, name: usize) -> Read {
        Read { shard: name / self.alpha, terms: vec![(name % self.alpha, 1)] }
    }

    /// The shard that stores the symbol of this name.
    fn shard(&self, name: usize) -> Option<usize> {
        (name < self.stored_count()).then_some(name / self.alpha)
    }
}
