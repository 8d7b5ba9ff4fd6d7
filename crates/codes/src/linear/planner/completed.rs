//! Plans that begin with reads that a family names: what helpers send for the repair of lost shards. A family knows these
//! from its construction, where a search would have to find subspaces that meet. Here only their span is looked at, so it
//! does not matter for how many lost shards they are sent, and whether these would help each other.

use super::combined::Part;
use super::{Candidate, Planner};
use crate::code::Read;
use crate::linear::echelon::{added, residual, spans, step};
use crate::row::Row;
use alloc::vec;
use alloc::vec::Vec;

/// Element operations of elimination that this may take: about ten milliseconds.
const MOST_OPERATIONS: u64 = 1 << 24;

impl<R: Row> Planner<'_, R> {
    /// The candidate made of these reads, the first ones preferred: a read that follows from earlier ones is left out. Where
    /// they do not suffice, nodes, cheapest first, add what is open beside all others. `None` if that takes too long, or if
    /// the offers do not suffice.
    pub(in crate::linear) fn completed(&self, named: &[Read]) -> Option<Candidate> {
        let most = MOST_OPERATIONS * R::ELEMENTS_PER_OPERATION;
        let (reads, columns) = (named.len() as u64, self.shape.native_count as u64);
        if reads * reads * columns > most {
            return None;
        }
        let mut parts: Vec<Vec<Part<R>>> = vec![Vec::new(); self.shape.n];
        let mut known = Vec::new();
        for (shard, part) in named.iter().flat_map(|read| self.parts_of(read)) {
            if let Some(step) = step(residual(&known, &part.row)) {
                known.push(step);
                parts[shard].push(part);
            }
        }
        if spans(&known, &self.targets) {
            return self.candidate_from(&parts);
        }
        let mut cheapest: Vec<usize> = (0..self.shape.n).filter(|&shard| self.have.0[shard].is_some()).collect();
        cheapest.sort_by_key(|&shard| self.whole_price(shard));
        // Nodes that add something, whole at first.
        let mut adding: Vec<usize> = Vec::new();
        for shard in cheapest {
            let more = added(&known, self.whole(shard).iter().map(|part| &part.row));
            if more.is_empty() {
                continue;
            }
            known.extend(more);
            adding.push(shard);
            if spans(&known, &self.targets) {
                break;
            }
        }
        // Each node that adds is compared with what all others send: half as many rows, half as long, on average.
        let rows = (adding.len() * self.shape.alpha) as u64;
        let operations = rows * columns * columns * adding.len() as u64 / 4;
        if operations > most || !spans(&known, &self.targets) {
            return None;
        }
        let mut beyond: Vec<Vec<Part<R>>> = vec![Vec::new(); self.shape.n];
        adding.iter().for_each(|&shard| beyond[shard] = self.whole(shard));
        // The dearest first, so that the others send what several could.
        for &shard in adding.iter().rev() {
            let own = core::mem::take(&mut beyond[shard]);
            let others = added(&[], parts.iter().chain(&beyond).flatten().map(|part| &part.row));
            let combines = self.have.0[shard].is_some_and(|offer| offer.combines);
            beyond[shard] = if combines { self.least_sent(&own, &others) } else { self.least_read(own, &others) };
        }
        parts.iter_mut().zip(beyond).for_each(|(parts, beyond)| parts.extend(beyond));
        self.candidate_from(&parts)
    }

    /// What this read brings: itself or, from a node that does not combine, the symbols that it is made of.
    fn parts_of(&self, read: &Read) -> Vec<(usize, Part<R>)> {
        let whole = self.whole(read.shard);
        let is_sent = matches!(read.terms[..], [(_, 1)]);
        if is_sent || self.have.0[read.shard].is_some_and(|offer| offer.combines) {
            let sum = self.combination(&whole, &read.terms);
            return sum.map(|part| (read.shard, part)).into_iter().collect();
        }
        read.terms.iter().map(|&(sub, _)| (read.shard, whole[sub].clone())).collect()
    }
}
