//! The repair of several lost shards that lie in different columns, from a part of the planes.
//!
//! Say `h < q` nodes are lost, in `c` columns. Planes that agree in the digits of all other columns form a group of `q^c`; a
//! plane of it is named by its digits in the lost columns, its class. The `q` checks of a plane tie together lost symbols of
//! this group only: those of the plane and, through the `U` of other nodes of lost columns, partners of these. In a group
//! `h q^c` symbols are lost, so the checks of `h q^(c-1)` planes are needed, and that many are enough if they are
//! independent. Then `h / q` of each survivor is read, which is what the cut-set bound asks for (Ye, Barg: Explicit
//! constructions of high-rate MDS array codes with optimal repair bandwidth, 2017).
//!
//! Taken are all planes where a lost node is at home, as for a single loss, and further ones until the checks have full
//! rank, which is computed, not assumed. In a further plane only the lost nodes' own symbols are unknown, so it gives no more
//! than `h` of its `q` checks. For that, other nodes can be left out: nodes of lost columns, whose `U` would need partners in
//! planes that are not read. Where such partners remain, they are read as single symbols. So the bound is missed a little: two
//! shards take `2 q - 1` planes of each group and then one for each two of the `q` checks that are missing. Nothing depends on
//! the other digits, so one matrix is inverted for all groups.

use super::draft::COUPLING;
use super::{Clay, Place};
use crate::code::{Offers, Plan, Read};
use crate::gf;
use crate::matrix::Matrix;
use crate::program::{Op, Program, SymbolId};
use crate::work::spend;
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

/// Systems of more lost symbols take longer to solve than reading less is worth: some ten milliseconds.
const MOST_LOST: usize = 256;

/// The checks that give the lost symbols of a group.
pub(super) struct Joint<'a> {
    clay: &'a Clay,
    /// Nodes that cannot be read.
    lost: Vec<usize>,
    /// Their columns.
    columns: Vec<usize>,
    /// Class of each check used, and the check as a sum of the `q` checks of a plane.
    checks: Vec<(usize, Vec<u8>)>,
    /// Lost symbols over the checks' sums of what is read.
    solution: Matrix,
}

impl<'a> Joint<'a> {
    /// The repair without these nodes; `None` if they lie in one column, if reading all of `k` shards is as good, if the
    /// system is too large, or if it is singular.
    pub(super) fn new(clay: &'a Clay, lost: Vec<usize>) -> Option<Joint<'a>> {
        let mut columns: Vec<usize> = lost.iter().map(|node| node / clay.q).collect();
        columns.sort_unstable();
        columns.dedup();
        if columns.len() < 2 || lost.len() >= clay.q {
            return None;
        }
        let class_count = u32::try_from(columns.len()).ok().and_then(|count| clay.q.checked_pow(count))?;
        if class_count.saturating_mul(lost.len()) > MOST_LOST {
            return None;
        }
        let mut joint = Joint { clay, lost, columns, checks: Vec::new(), solution: Matrix::zero(0, 0) };
        let rows = joint.choose(class_count)?;
        joint.solution = Matrix::from_rows(class_count * joint.lost.len(), &rows)?.inverse()?;
        Some(joint)
    }

    /// Chooses independent checks until they determine all lost symbols; returns their coefficients for these.
    fn choose(&mut self, class_count: usize) -> Option<Vec<Vec<u8>>> {
        let is_lost_at_home = |class: &usize| self.lost.iter().any(|&node| self.is_at_home(node, *class));
        let (homes, mut others): (Vec<usize>, Vec<usize>) = (0..class_count).partition(is_lost_at_home);
        let q = self.clay.q;
        let all: Vec<Vec<u8>> = (0..q).map(|check| (0..q).map(|other| u8::from(other == check)).collect()).collect();
        let mut independent = Independent::default();
        let mut rows = Vec::new();
        let mut take = |joint: &mut Joint<'_>, independent: &mut Independent, class, checks: Vec<Vec<u8>>| {
            for check in checks {
                let row = joint.coefficients(class, &check);
                if independent.add(&row) {
                    joint.checks.push((class, check));
                    rows.push(row);
                }
            }
        };
        homes.into_iter().for_each(|class| take(self, &mut independent, class, all.clone()));
        while independent.0.len() < class_count * self.lost.len() {
            let gain = |class: usize| {
                let mut with = independent.clone();
                all.iter().filter(|check| with.add(&self.coefficients(class, check))).count()
            };
            let gains = others.iter().enumerate().map(|(position, &class)| (gain(class), Reverse(position)));
            let (gain, Reverse(position)) = gains.max().filter(|(gain, _)| *gain > 0)?;
            let class = others.remove(position);
            let checks = self.checks_without_partners(class, gain);
            take(self, &mut independent, class, checks);
        }
        Some(rows)
    }

    /// As many sums of the checks of a plane, without nodes whose `U` there need a partner in another class.
    fn checks_without_partners(&self, class: usize, count: usize) -> Vec<Vec<u8>> {
        let q = self.clay.q;
        let needs_partner = |node: &usize| {
            let is_in_column = self.columns.contains(&(node / q));
            is_in_column && !self.lost.contains(node) && !self.is_at_home(*node, class)
        };
        let mut left_out: Vec<usize> = (0..self.clay.node_count()).filter(needs_partner).collect();
        // Those that take two stored symbols first.
        let partner = |node: usize| node / q * q + self.digit(class, node / q);
        left_out.sort_by_key(|&node| [node, partner(node)].iter().filter(|&&n| self.clay.shard(n).is_none()).count());
        left_out.truncate(q - count);
        // Rows: these nodes' coefficients in each check, beside the check itself. Where the former are eliminated, the
        // latter are the sums.
        let beside = Matrix::from_fn(q, left_out.len() + q, |check, column| match left_out.get(column) {
            Some(&node) => self.clay.parity_check.at(check, node),
            None => u8::from(column - left_out.len() == check),
        });
        let (reduced, _) = beside.reduced();
        (left_out.len()..q).map(|row| reduced.row(row)[left_out.len()..].to_vec()).collect()
    }

    fn is_at_home(&self, node: usize, class: usize) -> bool {
        self.digit(class, node / self.clay.q) == node % self.clay.q
    }

    /// The digit of a class for one of the lost columns.
    fn digit(&self, class: usize, column: usize) -> usize {
        class / self.weight(column) % self.clay.q
    }

    fn weight(&self, column: usize) -> usize {
        let behind = self.columns.iter().filter(|&&other| other > column).count();
        self.clay.q.pow(behind as u32)
    }

    /// The class of a plane.
    fn class(&self, plane: usize) -> usize {
        self.columns.iter().fold(0, |class, &column| class * self.clay.q + self.clay.digit(plane, column))
    }

    /// The plane of this class in the group of another plane.
    fn plane(&self, of_group: usize, class: usize) -> usize {
        let exchange = |plane, &column: &usize| self.clay.with_digit(plane, column, self.digit(class, column));
        self.columns.iter().fold(of_group, exchange)
    }

    /// The number of a lost symbol in its group; `None` if the node is not lost.
    fn number(&self, node: usize, class: usize) -> Option<usize> {
        let position = self.lost.iter().position(|&lost| lost == node)?;
        Some(position * self.clay.q.pow(self.columns.len() as u32) + class)
    }

    /// A check's coefficients of the lost symbols.
    fn coefficients(&self, class: usize, check: &[u8]) -> Vec<u8> {
        let mut row = vec![0; self.lost.len() * self.clay.q.pow(self.columns.len() as u32)];
        spend(row.len() + self.clay.node_count());
        let plane = self.plane(0, class);
        for (node, plane, factor) in self.clay.terms_of_check(check, plane) {
            if let Some(number) = self.number(node, self.class(plane)) {
                row[number] ^= factor;
            }
        }
        row
    }

    /// The plan for wanted symbols, which are read if they are offered.
    pub(super) fn plan(&self, wanted: &[Place], have: &Offers) -> Plan {
        let mut inputs: BTreeMap<Place, usize> = BTreeMap::new();
        // By group, the numbers of the wanted symbols and their outputs; the first output of each symbol.
        let mut groups: BTreeMap<usize, Vec<(usize, usize)>> = BTreeMap::new();
        let mut first: BTreeMap<Place, usize> = BTreeMap::new();
        for (output, &place) in wanted.iter().enumerate() {
            if *first.entry(place).or_insert(output) != output {
                continue;
            }
            match self.number(self.clay.node(place.0), self.class(place.1)) {
                Some(number) => groups.entry(self.plane(place.1, 0)).or_default().push((number, output)),
                None => {
                    inputs.insert(place, 0);
                }
            }
        }
        let sums: Vec<Vec<Sum>> = groups.iter().map(|(&group, numbers)| self.sums(group, numbers)).collect();
        inputs.extend(sums.iter().flatten().flat_map(|sum| &sum.places).map(|&place| (place, 0)));
        inputs.values_mut().enumerate().for_each(|(index, input)| *input = index);
        let (input_count, output_count) = (inputs.len(), wanted.len());

        let mut ops = Vec::new();
        let mut temporary_count = 0;
        for (numbers, sums) in groups.values().zip(sums) {
            let first_sum = input_count + output_count + temporary_count;
            let mut used: Vec<usize> = Vec::new();
            for Sum { checks, places, coefficients } in sums {
                let from = places.iter().map(|place| inputs[place]).collect();
                let to = (first_sum + used.len()..).take(checks.len()).collect();
                used.extend(checks);
                ops.push(Op::Dot { from, to, coefficients });
            }
            temporary_count += used.len();
            let from: Vec<SymbolId> = (first_sum..).take(used.len()).collect();
            let to = numbers.iter().map(|&(_, output)| input_count + output).collect();
            let coefficients = Matrix::from_fn(numbers.len(), used.len(), |row, column| {
                self.solution.at(numbers[row].0, used[column])
            });
            ops.push(Op::Dot { from, to, coefficients });
        }
        for (output, place) in wanted.iter().enumerate() {
            let to = input_count + output;
            match (inputs.get(place), first[place]) {
                (Some(&from), _) => ops.push(Op::Copy { from, to }),
                (None, earlier) if earlier != output => ops.push(Op::Copy { from: input_count + earlier, to }),
                _ => {}
            }
        }
        let reads: Vec<Read> = inputs.keys().map(|&(shard, plane)| Read { shard, terms: vec![(plane, 1)] }).collect();
        let price = have.price(&reads);
        Plan { reads, program: Program { input_count, output_count, temporary_count, ops }, price }
    }

    /// The sums of a group, plane by plane, that give the lost symbols of these numbers.
    fn sums(&self, group: usize, numbers: &[(usize, usize)]) -> Vec<Sum> {
        let is_used = |index: &usize| numbers.iter().any(|&(number, _)| self.solution.at(number, *index) != 0);
        let used: Vec<usize> = (0..self.checks.len()).filter(is_used).collect();
        let of_plane = used.chunk_by(|&a, &b| self.checks[a].0 == self.checks[b].0);
        of_plane.map(|checks| self.sum(self.plane(group, self.checks[checks[0]].0), checks)).collect()
    }

    /// What these checks of a plane have of stored symbols that can be read.
    fn sum(&self, plane: usize, checks: &[usize]) -> Sum {
        // The terms of all checks of a plane are the same symbols.
        let terms: Vec<_> =
            checks.iter().map(|&index| self.clay.terms_of_check(&self.checks[index].1, plane)).collect();
        let factor = |row: usize, column: usize| terms[row][column].2;
        let place = |column: usize| {
            let (node, plane, _) = terms[0][column];
            let is_there = !self.lost.contains(&node) && (0..checks.len()).any(|row| factor(row, column) != 0);
            Some((column, (self.clay.shard(node).filter(|_| is_there)?, plane)))
        };
        let (columns, places): (Vec<usize>, Vec<Place>) = (0..terms[0].len()).filter_map(place).unzip();
        let coefficients = Matrix::from_fn(checks.len(), columns.len(), |row, column| factor(row, columns[column]));
        spend(checks.len() * terms[0].len());
        Sum { checks: checks.to_vec(), places, coefficients }
    }
}

/// Sums of stored symbols that can be read, one for each of these checks of a plane.
struct Sum {
    checks: Vec<usize>,
    places: Vec<Place>,
    coefficients: Matrix,
}

/// Independent rows: each with its first nonzero element, a one.
#[derive(Clone, Default)]
struct Independent(Vec<(usize, Vec<u8>)>);

impl Independent {
    /// Takes the row in, if it is independent of those before.
    fn add(&mut self, row: &[u8]) -> bool {
        let mut rest = row.to_vec();
        for (lead, known) in &self.0 {
            spend(1);
            if rest[*lead] != 0 {
                spend(rest.len());
                let factor = rest[*lead];
                gf::add_multiple(&mut rest, known, factor);
            }
        }
        let Some(lead) = rest.iter().position(|&element| element != 0) else { return false };
        gf::inverse(rest[lead]).into_iter().for_each(|inverse| gf::scale(&mut rest, inverse));
        self.0.push((lead, rest));
        true
    }
}

impl Clay {
    /// A sum of the checks of a plane as a sum of stored symbols and zeros: node, plane, coefficient.
    fn terms_of_check(&self, check: &[u8], plane: usize) -> Vec<(usize, usize, u8)> {
        let mut terms = Vec::with_capacity(2 * self.node_count());
        for node in 0..self.node_count() {
            let products = check.iter().enumerate().map(|(row, &c)| gf::mul(c, self.parity_check.at(row, node)));
            let factor = products.fold(0, |sum, product| sum ^ product);
            terms.push((node, plane, factor));
            if let Some((partner, partner_plane)) = self.partner(node, plane) {
                terms.push((partner, partner_plane, gf::mul(COUPLING, factor)));
            }
        }
        terms
    }
}
