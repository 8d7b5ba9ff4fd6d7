//! Program -> steps: what the kernels run.

use super::arch::{MOST_TARGETS, Step, Steps};
use super::butterflies::Butterflies;
use super::slots;
use crate::gf;
use crate::matrix::Matrix;
use crate::passes;
use crate::program::{Op, Program, SymbolId};
use crate::work::spend;
use alloc::vec;
use alloc::vec::Vec;

/// L1 that slices of all symbols between two uses of the same symbol may take (32 KiB or more on all machines we know).
const L1_BYTES: usize = 32 * 1024;

/// The same of L2 (512 KiB or more). It is used where slices for L1 would be so short that calls cost more than misses.
const L2_BYTES: usize = 512 * 1024;

/// Kernels work in steps of 256 bytes; a shorter slice would never fill one.
const LEAST_SLICE_BYTES: usize = 256;

/// A step should read and write this much, some eighty cycles' worth, so that its call costs little beside it.
const LEAST_STEP_BYTES: usize = 6 * 1024;

/// For programs with networks. A network spends as much on its pointers and factors as on two vectors, so shorter
/// slices lose (16+16 at 4 KiB: 34 GB/s at 256 bytes, 40 at 512, 35 at 2 KiB), although the slices of wide codes then
/// overflow L1.
const NETWORK_SLICE_BYTES: usize = 512;

/// Lowers a valid program.
pub(super) fn lower(program: &Program) -> Steps {
    // XORs are cheap here and memory is not.
    let unshared = (program.temporary_count > 0).then(|| passes::unshare(program.clone()));
    let program = unshared.as_ref().unwrap_or(program);
    let mut steps: Vec<Step> = Vec::new();
    let mut add = |step| {
        let own = match steps.last_mut() {
            Some(last) => last.extend(step),
            None => Some(step),
        };
        steps.extend(own);
    };
    for op in &program.ops {
        // Programs of many thousand sums are lowered in the time it takes to name their symbols.
        spend(op.sources().len() + op.targets().len());
        match op {
            Op::Copy { to, .. } | Op::Xor { to, .. } => add(Step::sum(op.sources(), *to)),
            Op::Dot { .. } => lower_products(op).into_iter().for_each(&mut add),
        }
    }
    let given_count = program.input_count + program.output_count;
    let (steps, place_count) = slots::share(given_count, program.temporary_count, steps);
    let slice_bytes = slice_bytes(given_count, place_count, &steps);
    Steps::new(program.input_count, program.output_count, place_count, steps, slice_bytes)
}

/// The length of a slice, chosen so that the next step finds in a cache what one step leaves there.
fn slice_bytes(given_count: usize, place_count: usize, steps: &[Step]) -> usize {
    let reused_count = most_reused_at_once(given_count, place_count, steps);
    if reused_count == 0 {
        return usize::MAX - (usize::MAX % LEAST_SLICE_BYTES);
    }
    if steps.iter().any(Step::is_network) {
        return NETWORK_SLICE_BYTES;
    }
    let share = |cache_bytes: usize, symbol_count: usize| {
        let even = cache_bytes / symbol_count;
        (even - even % LEAST_SLICE_BYTES).max(LEAST_SLICE_BYTES)
    };
    let call_count: usize = steps.iter().map(|step| step.call_count(given_count)).sum();
    let moved_symbols: usize = steps.iter().map(Step::access_count).sum();
    let in_l1 = share(L1_BYTES, most_between_uses(given_count + place_count, steps));
    if in_l1 * moved_symbols >= LEAST_STEP_BYTES * call_count { in_l1 } else { share(L2_BYTES, reused_count) }
}

/// The most different symbols that are read or written from one use of a symbol to its next, both included. A cache
/// that holds as many keeps every symbol until it is used again.
fn most_between_uses(symbol_count: usize, steps: &[Step]) -> usize {
    let mut latest_use = vec![None; symbol_count];
    // By step: the number of symbols whose latest use it is.
    let mut latest_counts = Counts::zeros(steps.len());
    let mut seen_count = 0;
    let mut most = 1;
    spend(symbol_count + steps.len());
    for (index, step) in steps.iter().enumerate() {
        let mut earliest = index;
        let mut used_count = 0;
        for symbol in step.reads().chain(step.writes()) {
            match latest_use[symbol].replace(index) {
                // A source may be a target, too.
                Some(latest) if latest == index => continue,
                Some(latest) => {
                    latest_counts.add(latest, -1);
                    earliest = earliest.min(latest);
                }
                None => seen_count += 1,
            }
            used_count += 1;
        }
        latest_counts.add(index, used_count);
        if earliest < index {
            most = most.max(seen_count - latest_counts.sum_before(earliest));
        }
    }
    most
}

/// Numbers with prefix sums in logarithmic time (Fenwick: A new data structure for cumulative frequency tables, 1994).
struct Counts(Vec<isize>);

impl Counts {
    fn zeros(count: usize) -> Counts {
        Counts(vec![0; count])
    }

    fn add(&mut self, mut index: usize, change: isize) {
        while let Some(sum) = self.0.get_mut(index) {
            spend(1);
            *sum += change;
            index |= index + 1;
        }
    }

    /// The sum of all before this index.
    fn sum_before(&self, mut index: usize) -> usize {
        let mut sum = 0;
        while index > 0 {
            spend(1);
            sum += self.0[index - 1];
            index &= index - 1;
        }
        sum.unsigned_abs()
    }
}

/// The most inputs and outputs, at any one step, that have been used and will be used again, plus all places of
/// temporaries. Programs that return to a symbol soon, as those of slanted sums do, need few of their symbols in cache
/// at once.
fn most_reused_at_once(given_count: usize, place_count: usize, steps: &[Step]) -> usize {
    let mut first_and_last = vec![None; given_count];
    for (index, step) in steps.iter().enumerate() {
        for symbol in step.reads().chain(step.writes()).filter(|&symbol| symbol < given_count) {
            first_and_last[symbol].get_or_insert((index, index)).1 = index;
        }
    }
    let mut changes = vec![0isize; steps.len()];
    for (first, last) in first_and_last.into_iter().flatten().filter(|(first, last)| first < last) {
        changes[first] += 1;
        changes[last] -= 1;
    }
    let counts = changes.iter().scan(0, |count, change| {
        *count += change;
        Some(*count)
    });
    counts.max().unwrap_or(0).unsigned_abs() + place_count
}

/// One step if the operation is a network; otherwise one step per at most [`MOST_TARGETS`] targets, evenly shared. A
/// row of ones comes first, where kernels expect it. A source that is added to one target takes no product.
fn lower_products(op: &Op) -> Vec<Step> {
    let coefficients = op.coefficients();
    if let Some(network) = Butterflies::of(&coefficients) {
        return vec![Step::butterflies(op.sources(), op.targets(), &network)];
    }
    if let Some(steps) = pairs(op, &coefficients) {
        return steps;
    }
    let (addends, combined) = addends(&coefficients).unwrap_or_else(|| (Vec::new(), (0..op.sources().len()).collect()));
    let combined_sources: Vec<SymbolId> = combined.iter().map(|&column| op.sources()[column]).collect();
    let coefficients = coefficients.select_columns(&combined);
    let mut pairs = couples(&coefficients);
    let mut is_coupled = vec![false; coefficients.columns()];
    pairs.iter().flatten().for_each(|&column| is_coupled[column] = true);
    let single: Vec<usize> = (0..coefficients.columns()).filter(|&column| !is_coupled[column]).collect();

    let mut rows: Vec<usize> = (0..coefficients.rows()).collect();
    let is_sum = |row: usize| {
        let is_one = |&column: &usize| coefficients.at(row, column) == 1;
        single.iter().all(is_one) && pairs.iter().all(|pair| pair.iter().any(is_one))
    };
    if let Some(sum) = rows.iter().position(|&row| is_sum(row)) {
        rows.swap(0, sum);
        for pair in pairs.iter_mut().filter(|pair| coefficients.at(sum, pair[0]) != 1) {
            pair.swap(0, 1);
        }
    }
    let columns: Vec<usize> =
        pairs.iter().map(|pair| pair[0]).chain(single).chain(pairs.iter().map(|pair| pair[1])).collect();
    let sources: Vec<SymbolId> = columns.iter().map(|&column| combined_sources[column]).collect();
    let coefficients = coefficients.select_columns(&columns);
    let step_count = rows.len().div_ceil(MOST_TARGETS);
    let rows_per_step = rows.len().div_ceil(step_count.max(1)).max(1);
    rows.chunks(rows_per_step)
        .map(|rows| {
            let targets: Vec<SymbolId> = rows.iter().map(|&row| op.targets()[row]).collect();
            let addends: Vec<SymbolId> =
                rows.iter().filter_map(|&row| addends.get(row)).map(|&column| op.sources()[column]).collect();
            Step::new(&sources, pairs.len(), &addends, &targets, &coefficients.select_rows(rows))
        })
        .collect()
}

/// For each of several rows a column that has a 1 there and zeros elsewhere; and all other columns. `None` if some row
/// has no such column.
fn addends(coefficients: &Matrix) -> Option<(Vec<usize>, Vec<usize>)> {
    let row_count = coefficients.rows();
    if row_count < 2 || coefficients.columns() <= row_count {
        return None;
    }
    let mut of_row = vec![None; row_count];
    for column in 0..coefficients.columns() {
        let mut nonzero = (0..row_count).filter(|&row| coefficients.at(row, column) != 0);
        if let (Some(row), None) = (nonzero.next(), nonzero.next())
            && coefficients.at(row, column) == 1
        {
            of_row[row] = Some(column);
        }
    }
    let addends: Vec<usize> = of_row.into_iter().collect::<Option<_>>()?;
    let others = (0..coefficients.columns()).filter(|column| !addends.contains(column)).collect();
    Some((addends, others))
}

/// The steps of an operation that consists of small independent ones, of at most two targets and two sources each: one
/// step for all two-by-two and one-by-one parts, and one for each other part. `None` if the operation does not fall
/// apart like that.
fn pairs(op: &Op, coefficients: &Matrix) -> Option<Vec<Step>> {
    // By column: the rows that have it.
    let mut rows_of = vec![Vec::new(); coefficients.columns()];
    let mut columns_of = vec![Vec::new(); coefficients.rows()];
    for (row, columns) in columns_of.iter_mut().enumerate() {
        for (column, _) in coefficients.row(row).iter().enumerate().filter(|&(_, &coefficient)| coefficient != 0) {
            columns.push(column);
            rows_of[column].push(row);
            if columns.len() > 2 || rows_of[column].len() > 2 {
                return None;
            }
        }
    }
    let mut is_done = vec![false; coefficients.rows()];
    let (mut singles, mut twos, mut others) = (Vec::new(), Vec::new(), Vec::new());
    for row in 0..coefficients.rows() {
        if core::mem::replace(&mut is_done[row], true) {
            continue;
        }
        let columns = columns_of[row].clone();
        let mut rows: Vec<usize> = columns.iter().flat_map(|&column| rows_of[column].iter().copied()).collect();
        rows.sort_unstable();
        rows.dedup();
        rows.iter().for_each(|&row| is_done[row] = true);
        match (&rows[..], &columns[..]) {
            ([row], [column]) => singles.push((*row, *column)),
            ([_, second], [_, _]) if columns_of[*second] == columns => twos.push((rows, columns)),
            ([row], _) => others.push((*row, columns)),
            _ => return None,
        }
    }
    let is_odd = singles.len() % 2 == 1;
    others.extend(singles.pop_if(|_| is_odd).map(|(row, column)| (row, vec![column])));
    twos.extend(singles.chunks_exact(2).map(|two| (vec![two[0].0, two[1].0], vec![two[0].1, two[1].1])));
    if twos.len() < 2 {
        return None;
    }
    let sources: Vec<SymbolId> = twos.iter().flat_map(|two| &two.1).map(|&column| op.sources()[column]).collect();
    let targets: Vec<SymbolId> = twos.iter().flat_map(|two| &two.0).map(|&row| op.targets()[row]).collect();
    let of_two = |(rows, columns): &(Vec<usize>, Vec<usize>)| {
        [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(row, column)| coefficients.at(rows[row], columns[column]))
    };
    let mut steps = vec![Step::pairs(&sources, &targets, twos.iter().flat_map(of_two).collect())];
    for (row, columns) in others {
        let sources: Vec<SymbolId> = columns.iter().map(|&column| op.sources()[column]).collect();
        let coefficients = coefficients.select_rows(&[row]).select_columns(&columns);
        steps.push(Step::new(&sources, 0, &[], &[op.targets()[row]], &coefficients));
    }
    Some(steps)
}

/// Pairs of columns that are multiples of each other; each column is in at most one pair. A pair's sources are added
/// before they are multiplied, which takes one product for the pair and then one per target.
fn couples(coefficients: &Matrix) -> Vec<[usize; 2]> {
    // Two rows gain little, and nothing if one is all ones; in a single row all columns are multiples.
    if coefficients.rows() < 3 {
        return Vec::new();
    }
    let column_of = |column: usize| (0..coefficients.rows()).map(move |row| coefficients.at(row, column));
    let slopes: Vec<Option<u8>> = (0..coefficients.columns())
        .map(|column| gf::divide(coefficients.at(1, column), coefficients.at(0, column)))
        .collect();
    let mut pairs = Vec::new();
    let mut is_free: Vec<bool> = slopes.iter().map(Option::is_some).collect();
    for first in 0..slopes.len() {
        let is_multiple = |&second: &usize| {
            is_free[second]
                && slopes[second] == slopes[first]
                && gf::ratio(column_of(first), column_of(second)).is_some()
        };
        if is_free[first]
            && let Some(second) = (first + 1..slopes.len()).find(is_multiple)
        {
            (is_free[first], is_free[second]) = (false, false);
            pairs.push([first, second]);
        }
    }
    pairs
}
