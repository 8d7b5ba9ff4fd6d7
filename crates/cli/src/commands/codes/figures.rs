//! A code in figures, as `list` and `show` tell them.

use anyhow::Result;
use serde::Serialize;
use weft_codes::analysis::{self, EFFORT, Survival};
use weft_codes::{Code, Erasures};

/// Samples are the same every time.
pub const SEED: u64 = 1;

#[derive(Serialize)]
pub struct Figures {
    pub code: String,
    pub nodes: usize,
    pub data_nodes: usize,
    /// Any so many nodes may be lost, the code promises.
    pub tolerance: usize,
    /// That was proved just now, not only sampled.
    pub tolerance_is_proved: bool,
    /// Patterns of one loss more; null where so many are never survived.
    pub one_more: Option<Losses>,
    pub stored_bytes_per_byte: f64,
    /// Reads of a healthy file touch only the data asked for.
    pub systematic: bool,
    pub sub_symbols: usize,
    /// Rebuilding a node, on average over the nodes; null where none can be rebuilt.
    pub repair: Option<Repair>,
    /// The same if nodes compute before they send; null where that saves nothing.
    pub repair_if_nodes_compute: Option<Repair>,
    /// The most nodes that the rebuilding of any one node must ask.
    pub locality: Option<usize>,
}

/// What becomes of patterns of a number of losses.
#[derive(Serialize)]
pub struct Losses {
    pub lost: usize,
    pub patterns: u64,
    pub tried: u64,
    pub decodable: u64,
    /// All patterns were tried.
    pub exact: bool,
}

#[derive(Serialize)]
pub struct Repair {
    pub received_bytes_per_byte: f64,
    /// What nodes read from their storage.
    pub read_bytes_per_byte: f64,
    pub requests: f64,
    pub computing_nodes: f64,
}

impl Losses {
    pub fn new(survival: &Survival) -> Self {
        let &Survival { lost_count, patterns, tried, decodable, .. } = survival;
        Self { lost: lost_count, patterns, tried, decodable, exact: survival.is_exact() }
    }

    /// `85.7 %`, with `~` where it comes from a sample; rounded never to 0 or 100.
    pub fn share(&self) -> String {
        let share = 100.0 * self.decodable as f64 / self.tried.max(1) as f64;
        let about = if self.exact { "" } else { "~" };
        match self.decodable {
            0 => format!("{about}0 %"),
            decodable if decodable == self.tried => format!("{about}100 %"),
            _ => format!("{about}{:.1} %", share.clamp(0.1, 99.9)),
        }
    }
}

impl Figures {
    pub fn new(code: &dyn Code, erasures: &Erasures) -> Result<Self> {
        let shape = code.shape();
        let survival = |lost| analysis::survival(erasures, lost, EFFORT, SEED);
        let promised = survival(shape.tolerance);
        let one_more = shape.tolerance + 1;
        let locality = (0..shape.n).map(|shard| analysis::locality(code, shard)).collect::<Result<Vec<_>, _>>();
        let plain = repair(code, false);
        let computing = repair(code, true);
        let saves = match (&plain, &computing) {
            (Some(plain), Some(computing)) => computing.received_bytes_per_byte < plain.received_bytes_per_byte,
            _ => false,
        };
        Ok(Self {
            code: code.spec().to_owned(),
            nodes: shape.n,
            data_nodes: shape.k,
            tolerance: shape.tolerance,
            tolerance_is_proved: promised.is_exact() && promised.decodable == promised.tried,
            one_more: (one_more <= erasures.most_lost()).then(|| Losses::new(&survival(one_more))),
            stored_bytes_per_byte: analysis::storage_factor(shape),
            systematic: analysis::is_systematic(shape),
            sub_symbols: shape.alpha,
            repair: plain,
            repair_if_nodes_compute: computing.filter(|_| saves),
            locality: locality.ok().and_then(|locality| locality.into_iter().max()),
        })
    }
}

/// `None` where there is nothing to rebuild a node from.
fn repair(code: &dyn Code, helpers_combine: bool) -> Option<Repair> {
    let shape = code.shape();
    let repairs = (0..shape.n).map(|shard| analysis::repair(code, shard, helpers_combine));
    let repairs = repairs.collect::<Result<Vec<_>, _>>().ok()?;
    let mean = |count: fn(&analysis::Repair) -> usize| repairs.iter().map(count).sum::<usize>() as f64 / shape.n as f64;
    Some(Repair {
        received_bytes_per_byte: mean(|repair| repair.symbols_received) / shape.alpha as f64,
        read_bytes_per_byte: mean(|repair| repair.symbols_read) / shape.alpha as f64,
        requests: mean(|repair| repair.requests),
        computing_nodes: mean(|repair| repair.computing_helpers),
    })
}
