//! From wanted symbols to reads and operations.
//!
//! A symbol is requested when something needs it, and computed once. Requests go on until they reach symbols that can
//! be read. This ends, because the `U` of a plane request planes in which fewer of the unreadable nodes are at home.

use super::{Clay, Place};
use crate::code::{Offers, Plan, Price, Read};
use crate::gf;
use crate::matrix::Matrix;
use crate::passes;
use crate::program::{Op, Program, SymbolId};
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

/// The coupling `g`; its square must not be 1, or pairs of symbols would not determine each other.
pub(super) const COUPLING: u8 = 2;

/// The determinant of the coupling, 1 + g^2.
const DETERMINANT: u8 = 1 ^ gf::mul(COUPLING, COUPLING);

/// Which nodes may be read, and whose uncoupled symbols come from the code of a plane.
pub(super) struct Sources {
    /// By node: is it read, or known to be zero?
    is_known: Vec<bool>,
    /// By node: does `U` come from the code of a plane?
    is_decoded: Vec<bool>,
}

impl Sources {
    /// Nothing has to be decoded.
    pub(super) fn plain(clay: &Clay, offered: &[usize]) -> Sources {
        let is_known = |node| clay.shard(node).is_none_or(|shard| offered.contains(&shard));
        let is_known = (0..clay.node_count()).map(is_known).collect();
        Sources { is_known, is_decoded: vec![false; clay.node_count()] }
    }

    /// Only these `k` shards.
    pub(super) fn these(clay: &Clay, shards: &[usize]) -> Sources {
        let Sources { is_known, .. } = Sources::plain(clay, shards);
        let is_decoded = is_known.iter().map(|known| !known).collect();
        Sources { is_known, is_decoded }
    }

    /// The `k` shards that cost the least beyond the wanted symbols of them.
    pub(super) fn fewest_shards(clay: &Clay, offered: &[usize], wanted: &[Place], have: &Offers) -> Sources {
        let added_price = |shard: usize| {
            let Some(offer) = have.0[shard] else {
                return Price::MAX;
            };
            let wanted_count = wanted.iter().filter(|place| place.0 == shard).count().min(clay.shape.alpha);
            let request_price = if wanted_count == 0 { offer.request_price } else { 0 };
            let symbol_count = (clay.shape.alpha - wanted_count) as Price;
            request_price.saturating_add(offer.symbol_price.saturating_mul(symbol_count))
        };
        let mut cheapest = offered.to_vec();
        cheapest.sort_by_key(|&shard| added_price(shard));
        let Sources { is_decoded, .. } = Sources::these(clay, &cheapest[..clay.shape.k]);
        // Wanted symbols of the other shards are still read if they are offered.
        let mut is_known: Vec<bool> = is_decoded.iter().map(|decoded| !decoded).collect();
        for &(shard, _) in wanted.iter().filter(|place| offered.contains(&place.0)) {
            is_known[clay.node(shard)] = true;
        }
        Sources { is_known, is_decoded }
    }

    /// All that is offered. The columns of lost nodes are decoded, as far as possible: whole shards need the fewest
    /// planes that way.
    pub(super) fn fewest_planes(clay: &Clay, offered: &[usize], lost: &[Place], have: &Offers) -> Sources {
        let is_in_lost_column = |node: usize| lost.iter().any(|&(shard, _)| clay.node(shard) / clay.q == node / clay.q);
        Sources::decoding(clay, offered, have, is_in_lost_column)
    }

    /// All that is offered. Nodes that are not at home in the planes of lost symbols are decoded, as far as possible,
    /// because each would add a partner. A few symbols need the fewest others that way.
    pub(super) fn fewest_partners(clay: &Clay, offered: &[usize], lost: &[Place], have: &Offers) -> Sources {
        let is_never_at_home = |node: usize| lost.iter().all(|&(_, plane)| !clay.is_at_home(node, plane));
        Sources::decoding(clay, offered, have, is_never_at_home)
    }

    /// All that is offered. Decoded are the nodes that are not offered, then preferred ones, then the dearest.
    fn decoding(clay: &Clay, offered: &[usize], have: &Offers, is_preferred: impl Fn(usize) -> bool) -> Sources {
        let Sources { is_known, .. } = Sources::plain(clay, offered);
        let price = |node| {
            let offer = clay.shard(node).and_then(|shard| have.0[shard]);
            offer.map_or(0, |offer| offer.symbol_price)
        };
        let mut nodes: Vec<usize> = (0..clay.node_count()).collect();
        nodes.sort_by_cached_key(|&node| (is_known[node], !is_preferred(node), Reverse(price(node))));
        let mut is_decoded = vec![false; nodes.len()];
        nodes[..clay.q].iter().for_each(|&node| is_decoded[node] = true);
        Sources { is_known, is_decoded }
    }
}

/// A symbol of the draft: read, or computed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Value {
    Read(usize),
    Computed(usize),
}

/// Reads and operations that compute the wanted symbols.
pub(super) struct Draft<'a> {
    clay: &'a Clay,
    sources: Sources,
    decoded: Vec<usize>,
    others: Vec<usize>,
    /// The decoded nodes' `U` over those of all others: a row per decoded node, a column per other.
    plane_decoder: Matrix,
    /// By node and plane, as far as requested.
    coupled: Vec<Option<Value>>,
    uncoupled: Vec<Option<Value>>,
    reads: Vec<Place>,
    computed_count: usize,
    ops: Vec<Combination>,
    outputs: Vec<Value>,
}

/// `to = coefficients * from`.
struct Combination {
    from: Vec<Value>,
    to: Vec<Value>,
    coefficients: Matrix,
}

impl<'a> Draft<'a> {
    /// Requests the wanted symbols, of known shards or with `q` nodes decoded.
    pub(super) fn new(clay: &'a Clay, sources: Sources, wanted: &[Place]) -> Draft<'a> {
        let symbol_count = clay.node_count() * clay.shape.alpha;
        let (decoded, others): (Vec<usize>, Vec<usize>) =
            (0..clay.node_count()).partition(|&node| sources.is_decoded[node]);
        let mut draft = Draft {
            clay,
            sources,
            plane_decoder: plane_decoder(clay, &decoded, &others),
            decoded,
            others,
            coupled: vec![None; symbol_count],
            uncoupled: vec![None; symbol_count],
            reads: Vec::new(),
            computed_count: 0,
            ops: Vec::new(),
            outputs: Vec::new(),
        };
        let has_runs = draft.has_runs();
        // Plane by plane, so that symbols that planes share are near. If consecutive planes do the same, all of them
        // come before the coupled symbols, so that they form one run.
        let mut order: Vec<Place> = wanted.to_vec();
        order.sort_by_key(|&(shard, plane)| (plane, shard));
        for planes in order.chunk_by(|a, b| a.1 / clay.q == b.1 / clay.q) {
            for &(shard, plane) in planes {
                if has_runs && draft.sources.is_decoded[clay.node(shard)] {
                    draft.uncoupled(clay.node(shard), plane);
                }
            }
            for &(shard, plane) in planes {
                draft.coupled(clay.node(shard), plane);
            }
        }
        draft.outputs = wanted.iter().filter_map(|&(s, plane)| draft.coupled(clay.node(s), plane)).collect();
        draft.fold();
        draft
    }

    /// Are the nodes whose `U` come from the code of a plane just those of the last column, none of which is read? Then
    /// consecutive planes do the same. Runs of two gain less than copying the symbols at home costs.
    fn has_runs(&self) -> bool {
        let first = self.clay.node_count() - self.clay.q;
        self.clay.q > 2 && self.decoded.iter().all(|&node| node >= first && !self.sources.is_known[node])
    }

    /// Merges an operation into the one before it, if it uses a single computed symbol, which nothing else needs, and
    /// symbols read. In repairs, one operation then computes everything that a plane gives.
    fn fold(&mut self) {
        let mut use_counts = vec![0; self.computed_count];
        for value in self.ops.iter().flat_map(|op| &op.from).chain(&self.outputs) {
            if let Value::Computed(computed) = value {
                use_counts[*computed] += 1;
            }
        }
        // By computed symbol: the operation that computes it, and its row.
        let mut origins = vec![(0, 0); self.computed_count];
        let mut kept: Vec<Combination> = Vec::with_capacity(self.ops.len());
        for op in core::mem::take(&mut self.ops) {
            let mut computed = op.from.iter().filter_map(|value| match value {
                Value::Computed(computed) => Some(*computed),
                Value::Read(_) => None,
            });
            let only = computed.next().filter(|only| computed.next().is_none() && use_counts[*only] == 1);
            let (origin, row) = match (only, &op.to[..]) {
                (Some(only), [_]) => origins[only],
                _ => (kept.len(), 0),
            };
            for (row, value) in (row..).zip(&op.to) {
                if let Value::Computed(computed) = value {
                    origins[*computed] = (origin, row);
                }
            }
            match kept.get_mut(origin) {
                Some(earlier) => earlier.replace(row, &op),
                None => kept.push(op),
            }
        }
        self.ops = kept;
    }

    /// The draft as a plan, of which the price is known.
    pub(super) fn plan(&self, price: Price) -> Plan {
        Plan { reads: self.reads(), program: self.program(), price }
    }

    /// The reads, by shard and plane.
    pub(super) fn reads(&self) -> Vec<Read> {
        let mut reads = self.reads.clone();
        reads.sort_unstable();
        reads.into_iter().map(|(shard, plane)| Read { shard, terms: vec![(plane, 1)] }).collect()
    }

    /// The program over the reads.
    pub(super) fn program(&self) -> Program {
        let mut order: Vec<usize> = (0..self.reads.len()).collect();
        order.sort_unstable_by_key(|&read| self.reads[read]);
        let mut input_of = vec![0; order.len()];
        order.iter().enumerate().for_each(|(input, &read)| input_of[read] = input);

        let (input_count, output_count) = (order.len(), self.outputs.len());
        let mut symbol_of: Vec<Option<SymbolId>> = vec![None; self.computed_count];
        // Runs write consecutive symbols, which outputs are not.
        let mut temporary_count = 0;
        let is_run = |run: &&[Combination]| self.has_runs() && run.len() > 1;
        for run in self.ops.chunk_by(|op, next| op.is_followed_by(next, &input_of)).filter(is_run) {
            for row in 0..run[0].to.len() {
                for op in run {
                    if let Value::Computed(computed) = op.to[row] {
                        symbol_of[computed] = Some(input_count + output_count + temporary_count);
                        temporary_count += 1;
                    }
                }
            }
        }
        let mut copies = Vec::new();
        for (output, &value) in self.outputs.iter().enumerate() {
            let to = input_count + output;
            match value {
                Value::Read(read) => copies.push(Op::Copy { from: input_of[read], to }),
                Value::Computed(computed) => match symbol_of[computed] {
                    Some(from) => copies.push(Op::Copy { from, to }),
                    None => symbol_of[computed] = Some(to),
                },
            }
        }
        for symbol in symbol_of.iter_mut().filter(|symbol| symbol.is_none()) {
            *symbol = Some(input_count + output_count + temporary_count);
            temporary_count += 1;
        }
        let symbol = |value: &Value| match *value {
            Value::Read(read) => input_of[read],
            Value::Computed(computed) => symbol_of[computed].expect("all are numbered"),
        };
        let ops = self.ops.iter().map(|Combination { from, to, coefficients }| {
            let (from, to) = (from.iter().map(symbol).collect(), to.iter().map(symbol).collect());
            Op::Dot { from, to, coefficients: coefficients.clone() }
        });
        let ops = gathered(ops.collect(), copies);
        passes::simplify(passes::drop_dead(Program { input_count, output_count, temporary_count, ops }))
    }

    /// `C` of a node in a plane; `None` if it is always zero.
    fn coupled(&mut self, node: usize, plane: usize) -> Option<Value> {
        let shard = self.clay.shard(node)?;
        let index = node * self.clay.shape.alpha + plane;
        if self.coupled[index].is_none() {
            self.coupled[index] = if self.sources.is_known[node] {
                self.reads.push((shard, plane));
                Some(Value::Read(self.reads.len() - 1))
            } else {
                self.recoupled(node, plane)
            };
        }
        self.coupled[index]
    }

    /// `C` of a node that cannot be read.
    fn recoupled(&mut self, node: usize, plane: usize) -> Option<Value> {
        let Some((partner, partner_plane)) = self.clay.partner(node, plane) else {
            return Some(self.uncoupled(node, plane));
        };
        let inverse = |element| gf::inverse(element).unwrap_or(0);
        if !self.sources.is_known[partner] {
            let from = [(node, plane), (partner, partner_plane)].map(|(node, plane)| self.uncoupled(node, plane));
            let (one, g) = (inverse(DETERMINANT), gf::mul(COUPLING, inverse(DETERMINANT)));
            let both =
                self.compute(from.to_vec(), &Matrix::from_fn(2, 2, |row, column| if row == column { one } else { g }));
            self.coupled[partner * self.clay.shape.alpha + partner_plane] = Some(both[1]);
            return Some(both[0]);
        }
        let read = self.coupled(partner, partner_plane);
        // U = C + g C* gives C at once; U* = g C + C* gives it if U* comes from the code of a plane.
        let (uncoupled, factor, of_read) = if self.sources.is_decoded[partner] {
            (self.uncoupled(partner, partner_plane), inverse(COUPLING), inverse(COUPLING))
        } else {
            (self.uncoupled(node, plane), 1, COUPLING)
        };
        let terms: Vec<(Value, u8)> =
            [Some((uncoupled, factor)), read.map(|read| (read, of_read))].into_iter().flatten().collect();
        let coefficients = Matrix::from_fn(1, terms.len(), |_, column| terms[column].1);
        Some(self.compute(terms.into_iter().map(|(value, _)| value).collect(), &coefficients)[0])
    }

    /// `U` of a decoded node, computed together with those of all decoded nodes of the plane.
    fn uncoupled(&mut self, node: usize, plane: usize) -> Value {
        let alpha = self.clay.shape.alpha;
        if self.uncoupled[node * alpha + plane].is_none() {
            let mut from = Vec::with_capacity(2 * self.others.len());
            let mut columns = Vec::with_capacity(2 * self.others.len());
            for column in 0..self.others.len() {
                for (value, factor) in self.terms(self.others[column], plane) {
                    from.push(value);
                    columns.push((column, factor));
                }
            }
            let decoder = &self.plane_decoder;
            let coefficients = Matrix::from_fn(self.decoded.len(), columns.len(), |row, source| {
                let (column, factor) = columns[source];
                gf::mul(decoder.at(row, column), factor)
            });
            let values = self.compute(from, &coefficients);
            for (decoded, value) in self.decoded.iter().zip(values) {
                self.uncoupled[decoded * alpha + plane] = Some(value);
            }
        }
        self.uncoupled[node * alpha + plane].expect("computed just now")
    }

    /// `U` of a known node that is not decoded, as a sum.
    fn terms(&mut self, node: usize, plane: usize) -> Vec<(Value, u8)> {
        let own = self.coupled(node, plane);
        let with_own = |factor| own.map(|own| (own, factor));
        let terms = match self.clay.partner(node, plane) {
            None => [with_own(1), None],
            Some((partner, partner_plane)) if self.sources.is_known[partner] => {
                let partner = self.coupled(partner, partner_plane);
                [with_own(1), partner.map(|partner| (partner, COUPLING))]
            }
            Some((partner, partner_plane)) => {
                [with_own(DETERMINANT), Some((self.uncoupled(partner, partner_plane), COUPLING))]
            }
        };
        terms.into_iter().flatten().collect()
    }

    fn compute(&mut self, from: Vec<Value>, coefficients: &Matrix) -> Vec<Value> {
        let to: Vec<Value> =
            (self.computed_count..self.computed_count + coefficients.rows()).map(Value::Computed).collect();
        self.computed_count += to.len();
        self.ops.push(Combination { from, to: to.clone(), coefficients: coefficients.clone() });
        to
    }
}

/// At most this many small operations become one: its matrix grows with their square.
const MOST_TOGETHER: usize = 128;

/// Operations in order. Consecutive small ones are merged into one, together with copies of symbols that exist by then.
fn gathered(ops: Vec<Op>, copies: Vec<Op>) -> Vec<Op> {
    let mut copies_of: BTreeMap<SymbolId, Vec<Op>> = BTreeMap::new();
    for copy in copies {
        copies_of.entry(copy.sources()[0]).or_default().push(copy);
    }
    let mut gathered: Vec<Op> = Vec::with_capacity(ops.len());
    let (mut small, mut copies): (Vec<Op>, Vec<Op>) = (Vec::new(), Vec::new());
    // The targets of small operations.
    let mut later_copies: Vec<Op> = Vec::new();
    for op in ops {
        let is_small = op.sources().len() <= 2 && op.targets().len() <= 2;
        let is_written = |source: &SymbolId| small.iter().any(|small: &Op| small.targets().contains(source));
        let is_full = small.len() >= MOST_TOGETHER;
        if !small.is_empty() && (!is_small || is_full || op.sources().iter().any(is_written)) {
            small.append(&mut copies);
            gathered.extend(together(core::mem::take(&mut small)));
            copies.append(&mut later_copies);
        }
        let own_copies = op.targets().iter().filter_map(|target| copies_of.remove(target)).flatten();
        if is_small { &mut later_copies } else { &mut copies }.extend(own_copies);
        if is_small { &mut small } else { &mut gathered }.push(op);
    }
    small.append(&mut copies);
    gathered.extend(together(small));
    gathered.extend(later_copies);
    gathered.extend(copies_of.into_values().flatten());
    gathered
}

/// Merges operations none of which reads what another writes, into as few as possible.
fn together(ops: Vec<Op>) -> Vec<Op> {
    if ops.len() < 2 {
        return ops;
    }
    ops.chunks(MOST_TOGETHER).map(one_of).collect()
}

fn one_of(ops: &[Op]) -> Op {
    let from: Vec<SymbolId> = ops.iter().flat_map(Op::sources).copied().collect();
    let to: Vec<SymbolId> = ops.iter().flat_map(Op::targets).copied().collect();
    let mut coefficients = Matrix::zero(to.len(), from.len());
    let (mut first_row, mut first_column) = (0, 0);
    for op in ops {
        let own = op.coefficients();
        for row in 0..own.rows() {
            coefficients.row_mut(first_row + row)[first_column..][..own.columns()].copy_from_slice(own.row(row));
        }
        (first_row, first_column) = (first_row + own.rows(), first_column + own.columns());
    }
    Op::Dot { from, to, coefficients }
}

impl Combination {
    /// Is `next` this operation with inputs one higher?
    fn is_followed_by(&self, next: &Combination, input_of: &[usize]) -> bool {
        let input = |value: &Value| match *value {
            Value::Read(read) => Some(input_of[read]),
            Value::Computed(_) => None,
        };
        let follows = |(own, other)| input(own).zip(input(other)).is_some_and(|(own, other)| own + 1 == other);
        self.coefficients == next.coefficients && self.from.iter().zip(&next.from).all(follows)
    }

    /// Replaces the target of a row by what `later` computes from it and from symbols read.
    fn replace(&mut self, row: usize, later: &Combination) {
        let target = self.to[row];
        let factor_of = |value: &Value| later.from.iter().position(|from| from == value);
        let scale = factor_of(&target).map_or(0, |column| later.coefficients.at(0, column));
        gf::scale(self.coefficients.row_mut(row), scale);
        let row_count = self.to.len();
        for (column, value) in later.from.iter().enumerate().filter(|(_, value)| **value != target) {
            let factor = later.coefficients.at(0, column);
            match self.from.iter().position(|from| from == value) {
                Some(known) => self.coefficients.row_mut(row)[known] ^= factor,
                None => {
                    self.from.push(*value);
                    let added = Matrix::from_fn(row_count, 1, |other, _| if other == row { factor } else { 0 });
                    self.coefficients = self.coefficients.beside(&added);
                }
            }
        }
        self.to[row] = later.to[0];
    }
}

fn plane_decoder(clay: &Clay, decoded: &[usize], others: &[usize]) -> Matrix {
    match clay.parity_check.select_columns(decoded).inverse() {
        Some(inverse) => inverse.multiply(&clay.parity_check.select_columns(others)),
        // Nothing has to be decoded.
        None => Matrix::zero(0, 0),
    }
}
