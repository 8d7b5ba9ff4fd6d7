//! Planning. Plain elements are read if they are offered, otherwise the cheapest `k` shards. The program follows the
//! order of [`Grid::recoveries`](super::Grid::recoveries), as far as the wanted symbols need it.
//!
//! Everything is geometry. An element needs only elements on one line through it, so the reads of a choice of shards
//! follow from the order of recovery in reverse ([`Reach`]), at the cost of the program that it finds. Choices that
//! cannot be the cheapest are recognised by their first step. With fewer than `k` shards the grid is peeled from its
//! corners. If the unknown rows are consecutive, this finds everything that Katz's criterion allows. Elimination is
//! left for two cases: grids so small that it tries all sets of symbols, and rows that are apart and short beside the
//! steepness of directions, where data would be lost without it.

use super::Layout;
use super::columns::Columns;
use super::grid::Element;
use crate::code::{Code, Offers, Plan, PlanError, Price, Read, Wanted};
use crate::families::sums::{self, Sum};
use crate::linear::{self, LazyGenerator};
use crate::work::spend;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

/// The number of chunks of a cell's worth of elements.
const CHUNKS_PER_CELL: usize = 2;

/// Shards to decode from, as many as there are rows.
#[derive(PartialEq, Eq)]
struct Choice {
    /// Rows that no chosen shard stores, ascending.
    lost_rows: Vec<usize>,
    /// As many projections, of descending direction.
    projections: Vec<usize>,
}

/// What a choice of shards needs for the wanted symbols.
struct Reach {
    price: Price,
    /// By row: elements that are read, if the row is stored and kept, or recovered.
    rows: Vec<Columns>,
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
    spend(targets.len() + layout.shard_count());
    let direct = layout.direct(&targets, have);
    let mut below = direct.as_ref().map(|plan| plan.price);
    let mut cheapest = None;
    for choice in choices(layout, &targets, have) {
        if let Some(reach) = layout.reach(&choice, &targets, have, below) {
            below = Some(reach.price);
            cheapest = Some((choice, reach));
        }
    }
    let decoded = cheapest.map(|(choice, reach)| layout.described(&choice, &reach, &targets, have));
    let plan = match decoded.or(direct).or_else(|| layout.peeled_plan(&targets, have)) {
        Some(plan) => plan,
        None if layout.may_have_all(have) => return engine(),
        None => {
            let had = layout.had(&layout.peeled(have), &targets, have);
            return Err(linear::unrecoverable(code, &had, wanted, have));
        }
    };
    // Such short rows may follow in part from fewer shards, and nodes may add bins up.
    Ok(linear::cheaper_than(plan.price, code.shape(), have, engine)?.unwrap_or(plan))
}

/// The sets of `k` shards that may be the cheapest. A whole row costs `l` symbols of each of `k` shards, so the `k`
/// cheapest shards are best: the cheapest projections, for any number of them, and the cheapest data. Parts of a row
/// need fewer symbols the fewer rows are lost, and none of rows that are read plainly. So every number of projections
/// is tried, with shards in the order of the price of a row and of the price of the wanted symbols, and with or without
/// keeping wanted rows first.
fn choices(layout: &Layout, targets: &[usize], have: &Offers) -> Vec<Choice> {
    let grid = &layout.grid;
    let mut is_wanted = vec![false; layout.shard_count()];
    targets.iter().filter_map(|&name| layout.shard(name)).for_each(|shard| is_wanted[shard] = true);
    let mut lengths = vec![targets.len().min(grid.columns), grid.columns];
    lengths.dedup();
    let orders = lengths.into_iter().flat_map(|length| [(length, false), (length, true)]);
    let choices = orders.flat_map(|(length, wanted_first)| {
        let by_price = |shards: core::ops::Range<usize>| {
            let priced = |shard: usize| {
                let offer = have.0[shard]?;
                let price = offer.request_price.saturating_add(offer.symbol_price.saturating_mul(length as Price));
                Some((!(wanted_first && is_wanted[shard]), price, shard))
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
    /// The plan that reads all wanted symbols as they are stored; `None` if some are not offered.
    fn direct(&self, targets: &[usize], have: &Offers) -> Option<Plan> {
        let is_there =
            |&name: &usize| self.is_zero(name) || self.shard(name).is_some_and(|shard| have.0[shard].is_some());
        targets.iter().all(is_there).then(|| self.summed(self.zeros(targets), targets, have))
    }

    /// The plan of these sums, each of which the wanted symbols need.
    fn summed(&self, sums: Vec<Sum>, targets: &[usize], have: &Offers) -> Plan {
        let names = sums::reads(&sums, targets);
        let reads: Vec<Read> = names.iter().map(|&name| self.read(name)).collect();
        Plan { program: sums::program(&names, sums, targets), price: have.price(&reads), reads }
    }

    /// What the choice needs, if it is cheaper than `below`.
    fn reach(&self, choice: &Choice, targets: &[usize], have: &Offers, below: Option<Price>) -> Option<Reach> {
        let grid = &self.grid;
        let Choice { lost_rows, projections } = choice;
        let none = || Columns::none(grid.columns);
        let mut rows: Vec<Columns> = (0..grid.rows).map(|_| none()).collect();
        // By lost row: bins of its projection that are wanted and read, by the column of the element that is found in
        // them.
        let mut bins: Vec<Columns> = lost_rows.iter().map(|_| none()).collect();
        spend(targets.len() + (grid.rows + lost_rows.len()) * none().word_count());
        for &name in targets {
            match self.place(name) {
                Place::Zero => {}
                Place::Element((row, column)) => rows[row].add(column),
                Place::Bin(projection, bin) => match self.found_in(choice, projection, bin) {
                    Some((lost, column)) => bins[lost].add(column),
                    None => {
                        spend(grid.rows);
                        grid.elements(projection, bin).for_each(|(row, column)| rows[row].add(column));
                    }
                },
            }
        }
        let price = |rows: &[Columns]| {
            let of_shard = |shard: usize, count: usize| match have.0[shard] {
                Some(offer) if count > 0 => {
                    offer.symbol_price.saturating_mul(count as Price).saturating_add(offer.request_price)
                }
                _ => 0,
            };
            spend(2 * rows.len() * rows.first().map_or(0, Columns::word_count));
            let kept = (0..self.data_shards()).filter(|row| lost_rows.binary_search(row).is_err());
            let of_kept = kept.map(|row| of_shard(row, rows[row].len()));
            let of_lost = lost_rows.iter().zip(projections).zip(&bins).map(|((&row, &projection), bins)| {
                let mut read = rows[row].clone();
                read.add_moved(bins, 0);
                of_shard(self.data_shards() + projection, read.len())
            });
            of_kept.chain(of_lost).fold(0, Price::saturating_add)
        };
        // The wanted symbols need at least what lies on lines through themselves.
        let is_too_dear = |price: Price| below.is_some_and(|below| price >= below);
        if below.is_some() {
            let mut least = rows.clone();
            for (position, &row) in lost_rows.iter().enumerate() {
                self.add_lines(choice, position, &rows[row], &mut least, |_| true);
            }
            if is_too_dear(price(&least)) {
                return None;
            }
        }
        // The other elements of lost rows in a bin are recovered before the element that is found in it.
        for (position, column) in grid.recovery_order(lost_rows, projections).rev() {
            let row = lost_rows[position];
            if rows[row].has(column) {
                spend(lost_rows.len());
                for &other in lost_rows.iter().filter(|&&other| other != row) {
                    let moved = column as isize + grid.moved(projections[position], row, other);
                    if (0..grid.columns as isize).contains(&moved) {
                        rows[other].add(moved as usize);
                    }
                }
            }
        }
        for (position, &row) in lost_rows.iter().enumerate() {
            let found = rows[row].clone();
            self.add_lines(choice, position, &found, &mut rows, |row| lost_rows.binary_search(&row).is_err());
        }
        let price = price(&rows);
        (!is_too_dear(price)).then_some(Reach { price, rows })
    }

    /// Adds the elements of these other rows on the lines in which elements of a lost row are found.
    fn add_lines(
        &self,
        choice: &Choice,
        position: usize,
        found: &Columns,
        rows: &mut [Columns],
        is_added: impl Fn(usize) -> bool,
    ) {
        let (own, projection) = (choice.lost_rows[position], choice.projections[position]);
        for (row, columns) in rows.iter_mut().enumerate().filter(|&(row, _)| row != own && is_added(row)) {
            spend(found.word_count());
            columns.add_moved(found, self.grid.moved(projection, own, row));
        }
    }

    /// The position of the lost row that is found in this bin, and the column of the element; `None` if the bin is not
    /// read for that.
    fn found_in(&self, choice: &Choice, projection: usize, bin: usize) -> Option<(usize, usize)> {
        let position = choice.projections.iter().position(|&chosen| chosen == projection)?;
        let column = bin.checked_sub(self.grid.bin(projection, (choice.lost_rows[position], 0)))?;
        (column < self.grid.columns).then_some((position, column))
    }

    /// The plan of a choice, from what it reaches.
    fn described(&self, choice: &Choice, reach: &Reach, targets: &[usize], have: &Offers) -> Plan {
        let grid = &self.grid;
        let Choice { lost_rows, projections } = choice;
        let mut sums = Vec::new();
        for (position, column) in grid.recovery_order(lost_rows, projections) {
            let (element, projection) = ((lost_rows[position], column), projections[position]);
            if reach.rows[element.0].has(column) {
                let bin = grid.bin(projection, element);
                let others = grid.elements(projection, bin).filter(|&other| other != element);
                let mut of = Vec::with_capacity(grid.rows);
                of.push(self.bin(projection, bin));
                of.extend(others.map(|other| self.element(other)));
                spend(of.len());
                sums.push(Sum { name: self.element(element), of });
            }
        }
        let mut is_summed = vec![false; self.stored_count()];
        let mut summed: Vec<usize> = Vec::new();
        for &name in targets {
            if let Place::Bin(projection, bin) = self.place(name)
                && self.found_in(choice, projection, bin).is_none()
            {
                is_summed[name] = true;
                summed.push(projection);
            }
        }
        summed.sort_unstable();
        summed.dedup();
        sums.extend(self.projected(&summed).into_iter().filter(|sum| is_summed[sum.name]));
        sums.extend(self.zeros(targets));
        self.summed(sums, targets, have)
    }

    /// Can more follow from fewer than `k` shards than peeling finds? Katz's criterion says no if the unknown rows are
    /// consecutive. Rows apart may follow by elimination if they have no more elements than bins touch them, which only
    /// rows do that are short beside the steepness of directions.
    fn may_have_all(&self, have: &Offers) -> bool {
        let grid = &self.grid;
        let unknown: Vec<usize> =
            (0..grid.rows).filter(|&row| row >= self.data_shards() || have.0[row].is_none()).collect();
        let (Some(first), Some(last)) = (unknown.first(), unknown.last()) else { return false };
        let offered = (0..grid.directions.len()).filter(|projection| have.0[self.data_shards() + projection].is_some());
        let bins = offered.map(|projection| grid.columns + (last - first) * grid.directions[projection].unsigned_abs());
        last - first >= unknown.len() && bins.sum::<usize>() >= unknown.len() * grid.columns
    }

    /// The plan that peels; `None` if that does not reach all wanted symbols.
    fn peeled_plan(&self, targets: &[usize], have: &Offers) -> Option<Plan> {
        let sums = self.peeled(have);
        self.had(&sums, targets, have).iter().all(|&had| had).then(|| {
            spend(sums.len());
            self.summed(sums::needed(sums, targets), targets, have)
        })
    }

    /// The sums that follow from fewer than `k` shards by peeling: as long as a bin has one unknown element, that
    /// element is found. Then the bins of shards that are not offered, and zeros.
    fn peeled(&self, have: &Offers) -> Vec<Sum> {
        let grid = &self.grid;
        let is_row_read = |row: usize| row < self.data_shards() && have.0[row].is_some();
        let mut is_known: Vec<bool> = (0..grid.rows * grid.columns).map(|at| is_row_read(at / grid.columns)).collect();
        let is_offered = |projection: &usize| have.0[self.data_shards() + projection].is_some();
        let (offered, lost): (Vec<usize>, Vec<usize>) = (0..grid.directions.len()).partition(is_offered);
        let unknown_of = |projection: usize, bin: usize| {
            grid.elements(projection, bin).filter(|&(row, _)| !is_row_read(row)).count()
        };
        let mut unknown_counts: Vec<Vec<usize>> = offered
            .iter()
            .map(|&projection| (0..grid.bin_count(projection)).map(|bin| unknown_of(projection, bin)).collect())
            .collect();
        let mut open: VecDeque<(usize, usize)> = VecDeque::new();
        for (index, counts) in unknown_counts.iter().enumerate() {
            spend(counts.len() * grid.rows);
            open.extend((0..counts.len()).filter(|&bin| counts[bin] == 1).map(|bin| (index, bin)));
        }
        let mut sums = Vec::new();
        while let Some((index, bin)) = open.pop_front() {
            let projection = offered[index];
            spend(grid.rows + offered.len());
            let elements: Vec<Element> = grid.elements(projection, bin).collect();
            let is_unknown = |&&(row, column): &&Element| !is_known[row * grid.columns + column];
            // Another bin may have given it in the meantime.
            let Some(&element) = elements.iter().find(is_unknown) else { continue };
            is_known[element.0 * grid.columns + element.1] = true;
            let others = elements.iter().filter(|&&other| other != element);
            let of = [self.bin(projection, bin)].into_iter().chain(others.map(|&other| self.element(other)));
            sums.push(Sum { name: self.element(element), of: of.collect() });
            for (index, &projection) in offered.iter().enumerate() {
                let bin = grid.bin(projection, element);
                unknown_counts[index][bin] -= 1;
                if unknown_counts[index][bin] == 1 {
                    open.push_back((index, bin));
                }
            }
        }
        sums.extend(self.projected(&lost));
        sums.extend((0..self.stored_count()).filter(|&name| self.is_zero(name)).map(Sum::zero));
        sums
    }

    /// For each wanted symbol: do these sums compute it from what is offered?
    fn had(&self, sums: &[Sum], targets: &[usize], have: &Offers) -> Vec<bool> {
        let is_offered = |name: usize| self.shard(name).is_some_and(|shard| have.0[shard].is_some());
        let name_count = self.stored_count() + self.grid.rows * self.grid.columns;
        let mut is_had: Vec<bool> = (0..name_count).map(is_offered).collect();
        for sum in sums {
            spend(sum.of.len());
            is_had[sum.name] |= sum.of.iter().all(|&name| is_had[name]);
        }
        targets.iter().map(|&name| is_had[name]).collect()
    }

    /// The bins of these projections as sums of elements, in an order that revisits elements soon: chunk of columns by
    /// chunk, in each chunk all projections, and of each the consecutive bins around those columns.
    pub(super) fn projected(&self, projections: &[usize]) -> Vec<Sum> {
        let grid = &self.grid;
        // All rows of a chunk are a part of a cell; for cells of 64 KiB as much as L1 holds beside the bins.
        let chunk_columns = (grid.columns / (CHUNKS_PER_CELL * grid.rows)).max(1) as isize;
        let bins = projections.iter().flat_map(|&projection| {
            // The middle row is followed; other rows are on either side.
            let middle = grid.bin(projection, (grid.rows / 2, 0)) as isize;
            let chunk = move |bin: usize| (bin as isize - middle).div_euclid(chunk_columns);
            (0..grid.bin_count(projection)).map(move |bin| (chunk(bin), projection, bin))
        });
        let mut bins: Vec<(isize, usize, usize)> = bins.collect();
        bins.sort_unstable();
        spend(bins.len() * grid.rows);
        let sum = |(_, projection, bin)| {
            let of = grid.elements(projection, bin).map(|element| self.element(element)).collect();
            Sum { name: self.bin(projection, bin), of }
        };
        bins.into_iter().map(sum).collect()
    }

    /// The padding of shorter cells, among these names.
    pub(super) fn zeros(&self, names: &[usize]) -> Vec<Sum> {
        let mut zeros: Vec<usize> = names.iter().copied().filter(|&name| self.is_zero(name)).collect();
        zeros.sort_unstable();
        zeros.dedup();
        zeros.into_iter().map(Sum::zero).collect()
    }

    /// What the symbol of this name is in the geometry.
    fn place(&self, name: usize) -> Place {
        if self.is_zero(name) {
            return Place::Zero;
        }
        match name.checked_sub(self.stored_count()) {
            Some(element) => Place::Element(self.element_of_native(element)),
            None => match (name / self.alpha).checked_sub(self.data_shards()) {
                Some(projection) => Place::Bin(projection, name % self.alpha),
                None => Place::Element((name / self.alpha, name % self.alpha)),
            },
        }
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

/// What a symbol is.
enum Place {
    /// Padding.
    Zero,
    Element(Element),
    /// Of this projection, this bin.
    Bin(usize, usize),
}
