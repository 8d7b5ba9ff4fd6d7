//! Which losses a code survives, computed from its parity checks.

use super::generator::generator;
use super::span::Span;
use crate::code::Code;
use crate::gf;
use crate::matrix::Matrix;
use crate::program::ProgramError;
use crate::row::{Bits, Bytes, Row};
use alloc::vec;
use alloc::vec::Vec;

/// The parity checks of a code. Losses can be decoded exactly when no code word except zero lies on lost shards alone,
/// that is when the columns of the parity check matrix at the lost symbols are independent. Few losses need few
/// columns, and each further loss needs only its own.
#[derive(Clone, Debug)]
pub struct Erasures {
    n: usize,
    alpha: usize,
    native_count: usize,
    /// By stored symbol; `None` if not even all shards together determine the natives.
    columns: Option<Columns>,
}

#[derive(Clone, Debug)]
enum Columns {
    Bits(Vec<Bits>),
    Bytes(Vec<Bytes>),
}

impl Erasures {
    /// The losses of this code.
    ///
    /// # Errors
    /// The code's encode program is invalid.
    pub fn new(code: &dyn Code) -> Result<Erasures, ProgramError> {
        let generator = generator(code)?;
        let columns = if generator.is_binary() {
            parity_checks(&generator).map(Columns::Bits)
        } else {
            parity_checks(&generator).map(Columns::Bytes)
        };
        let shape = code.shape();
        Ok(Erasures { n: shape.n, alpha: shape.alpha, native_count: shape.native_count, columns })
    }

    /// Shards of the code.
    #[must_use]
    pub fn shard_count(&self) -> usize {
        self.n
    }

    /// With more losses than this, fewer symbols are left than natives were stored.
    #[must_use]
    pub fn most_lost(&self) -> usize {
        self.n.saturating_sub(self.native_count.div_ceil(self.alpha))
    }

    /// Can all native symbols be decoded without these (distinct) shards? Panics on a shard that does not exist.
    #[must_use]
    pub fn decodes(&self, lost: &[usize]) -> bool {
        match &self.columns {
            None => false,
            Some(Columns::Bits(columns)) => Chosen::new(columns, self.alpha, self.check_count()).push_all(lost),
            Some(Columns::Bytes(columns)) => Chosen::new(columns, self.alpha, self.check_count()).push_all(lost),
        }
    }

    /// The number of patterns of `lost_count` losses that can be decoded, found by trying each. Calls `visit` with each
    /// pattern that cannot, shortened to its first shards that are already fatal.
    pub fn count(&self, lost_count: usize, visit: &mut dyn FnMut(&[usize])) -> u64 {
        match &self.columns {
            None => 0,
            Some(Columns::Bits(columns)) => {
                Chosen::new(columns, self.alpha, self.check_count()).count(self.n, lost_count, visit)
            }
            Some(Columns::Bytes(columns)) => {
                Chosen::new(columns, self.alpha, self.check_count()).count(self.n, lost_count, visit)
            }
        }
    }

    fn check_count(&self) -> usize {
        (self.n * self.alpha).saturating_sub(self.native_count)
    }

    /// About how many element operations it takes to judge one pattern of `lost_count` losses.
    #[must_use]
    pub fn operations(&self, lost_count: usize) -> u64 {
        let checks = self.check_count();
        let elements_per_operation = if matches!(self.columns, Some(Columns::Bits(_))) { 64 } else { 1 };
        let columns = lost_count.saturating_mul(self.alpha).min(checks) as u64;
        // Each column is reduced by half of those before it.
        1 + columns * columns / 2 * (checks as u64).div_ceil(elements_per_operation)
    }
}

/// The columns of a parity check matrix, by stored symbol. A basis of the rows is chosen; each other row minus its
/// combination of the basis is a check. `None` unless the rows span everything.
fn parity_checks<R: Row>(generator: &Matrix) -> Option<Vec<R>> {
    let rows: Vec<R> = (0..generator.rows()).map(|symbol| R::pack(generator.row(symbol))).collect();
    let mut span = Span::new(generator.columns());
    rows.iter().enumerate().for_each(|(symbol, row)| span.insert(symbol, row));
    if span.members().len() < generator.columns() {
        return None;
    }
    let mut place = vec![None; rows.len()];
    for (index, &symbol) in span.members().iter().enumerate() {
        place[symbol] = Some(index);
    }
    let others: Vec<usize> = (0..rows.len()).filter(|&symbol| place[symbol].is_none()).collect();
    let checks: Vec<Vec<u8>> = others.iter().map(|&symbol| span.express(&rows[symbol])).collect::<Option<_>>()?;
    let column = |symbol: usize| -> R {
        let element = |check: usize| match place[symbol] {
            Some(index) => checks[check][index],
            None => u8::from(others[check] == symbol),
        };
        R::pack(&(0..others.len()).map(element).collect::<Vec<_>>())
    };
    Some((0..rows.len()).map(column).collect())
}

/// Shards whose columns are independent, reduced by each other.
struct Chosen<'a, R> {
    columns: &'a [R],
    alpha: usize,
    shards: Vec<usize>,
    /// By the index of their first nonzero element, which is a one.
    by_lead: Vec<Option<R>>,
    /// These indices, in the order in which the columns came.
    leads: Vec<usize>,
}

impl<'a, R: Row> Chosen<'a, R> {
    fn new(columns: &'a [R], alpha: usize, checks: usize) -> Chosen<'a, R> {
        Chosen { columns, alpha, shards: Vec::new(), by_lead: vec![None; checks], leads: Vec::new() }
    }

    fn push_all(&mut self, shards: &[usize]) -> bool {
        shards.iter().all(|&shard| self.push(shard))
    }

    /// Adds one shard, if all columns stay independent.
    fn push(&mut self, shard: usize) -> bool {
        let before = self.leads.len();
        for symbol in shard * self.alpha..(shard + 1) * self.alpha {
            let mut column = self.columns[symbol].clone();
            let Some(lead) = column.reduce(&self.by_lead) else {
                self.truncate(before);
                return false;
            };
            if let Some(inverse) = gf::inverse(column.at(lead)) {
                column.scale(inverse);
            }
            self.by_lead[lead] = Some(column);
            self.leads.push(lead);
        }
        self.shards.push(shard);
        true
    }

    fn pop(&mut self) {
        self.shards.pop();
        self.truncate(self.shards.len() * self.alpha);
    }

    /// Keeps the first `count` columns.
    fn truncate(&mut self, count: usize) {
        for lead in self.leads.drain(count..) {
            self.by_lead[lead] = None;
        }
    }

    /// Tries `left` more shards after the last, below `n`.
    fn count(&mut self, n: usize, left: usize, visit: &mut dyn FnMut(&[usize])) -> u64 {
        if left == 0 {
            return 1;
        }
        let first = self.shards.last().map_or(0, |last| last + 1);
        let mut found = 0;
        for shard in first..(n + 1).saturating_sub(left) {
            if self.push(shard) {
                found += self.count(n, left - 1, visit);
                self.pop();
            } else {
                visit(&[&self.shards[..], &[shard]].concat());
            }
        }
        found
    }
}

#[cfg(test)]
#[path = "erasures_tests.rs"]
mod tests;
