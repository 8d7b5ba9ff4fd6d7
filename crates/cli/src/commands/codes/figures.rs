//! A code in figures, as `list` and `show` tell them.

use anyhow::Result;
use serde::Serialize;
use weft_codes::analysis::{self, EFFORT, Survival};
use weft_codes::{Code, Erasures, Shape};

/// Samples are the same every time.
pub const SEED: u64 = 1;

#[derive(Serialize)]
pub struct Figures {
    pub code: String,
    pub nodes: usize,
    pub data_nodes: usize,
    /// Any so many nodes may be lost, the code promises.
    pub tolerance: usize,
    pub tolerance_known_by: Evidence,
    /// Patterns of one loss more; null where that many losses are never survived, or where trying them takes too long.
    pub one_more: Option<Losses>,
    pub stored_bytes_per_byte: f64,
    /// Reads of a healthy file touch only the data asked for.
    pub systematic: bool,
    pub sub_symbols: usize,
    /// How many nodes the following figures come from, evenly spread: for wide codes not all.
    pub nodes_repaired: usize,
    /// Rebuilding a node, on average over these nodes; null where none can be rebuilt.
    pub repair: Option<Repair>,
    /// The same if nodes compute before they send; null where that saves nothing.
    pub repair_if_nodes_compute: Option<Repair>,
    /// The least that theory allows for this (`analysis::least_received`); null where that is not known.
    pub repair_least_bytes_per_byte: Option<f64>,
    /// Two nodes rebuilt together; null for codes that do not survive the loss of any two.
    pub repair_of_two: Option<RepairOfTwo>,
    /// The most nodes that the rebuilding of any one node must ask.
    pub locality: Option<usize>,
}

/// Two lost nodes rebuilt together, at one place; bytes are per byte of one of them.
#[derive(Serialize)]
pub struct RepairOfTwo {
    /// How many pairs of nodes the means come from, evenly spread.
    pub pairs: usize,
    pub if_nodes_send: Repair,
    /// The same if nodes compute before they send; null where that saves nothing.
    pub if_nodes_compute: Option<Repair>,
    /// The least that theory allows; null where that is not known.
    pub least_bytes_per_byte: Option<f64>,
}

/// Why a tolerance is believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Evidence {
    /// All patterns were tried just now.
    Proof,
    /// Some patterns were tried just now.
    Sample,
    /// The construction promises it. Nothing was tried, because even a sample takes too long.
    Construction,
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

/// Elements of a generator matrix that `show` makes: megabytes. Those of wide Clay and mojette codes are a hundred times as
/// large.
const MOST_ELEMENTS: usize = 1 << 22;

/// Symbols of the code that plans of repairs go over. That takes some tenths of a second for the widest Clay codes.
const MOST_SYMBOLS_PLANNED: usize = 1 << 18;

/// Pairs of nodes whose repair is planned.
const MOST_PAIRS_PLANNED: usize = 100;

/// Is the code's generator matrix small enough to be made?
pub fn is_generator_small(shape: &Shape) -> bool {
    shape.contents.len().saturating_mul(shape.native_count) <= MOST_ELEMENTS
}

/// Which losses the code survives; `None` where its matrices are too large.
pub fn erasures(code: &dyn Code) -> Result<Option<Erasures>> {
    let erasures = is_generator_small(code.shape()).then(|| Erasures::new(code));
    Ok(erasures.transpose()?)
}

/// What becomes of patterns of `lost_count` losses; `None` where trying even a few of them takes too long.
pub fn losses(erasures: Option<&Erasures>, lost_count: usize) -> Option<Losses> {
    let erasures = erasures.filter(|erasures| analysis::is_affordable(erasures, lost_count, EFFORT))?;
    Some(Losses::new(&analysis::survival(erasures, lost_count, EFFORT, SEED)))
}

impl Figures {
    pub fn new(code: &dyn Code, erasures: Option<&Erasures>) -> Result<Self> {
        let shape = code.shape();
        let promised = losses(erasures, shape.tolerance);
        let one_more = shape.tolerance + 1;
        let repaired = repaired(shape);
        let locality = repaired.iter().map(|&shard| analysis::locality(code, shard)).collect::<Result<Vec<_>, _>>();
        let single: Vec<Vec<usize>> = repaired.iter().map(|&shard| vec![shard]).collect();
        let (plain, computing) = repairs(code, &single).unzip();
        Ok(Self {
            code: code.spec().to_owned(),
            nodes: shape.n,
            data_nodes: shape.k,
            tolerance: shape.tolerance,
            tolerance_known_by: match promised {
                Some(losses) if losses.exact && losses.decodable == losses.tried => Evidence::Proof,
                Some(_) => Evidence::Sample,
                None => Evidence::Construction,
            },
            one_more: if one_more <= analysis::most_lost(shape) { losses(erasures, one_more) } else { None },
            stored_bytes_per_byte: analysis::storage_factor(shape),
            systematic: analysis::is_systematic(shape),
            sub_symbols: shape.alpha,
            nodes_repaired: repaired.len(),
            repair: plain,
            repair_if_nodes_compute: computing.flatten(),
            repair_least_bytes_per_byte: least(shape, 1),
            repair_of_two: if shape.tolerance >= 2 { repair_of_two(code) } else { None },
            locality: locality.ok().and_then(|locality| locality.into_iter().max()),
        })
    }
}

/// Nodes whose repair is planned: all of them or, of wide codes, some that are evenly spread.
fn repaired(shape: &Shape) -> Vec<usize> {
    let count = (MOST_SYMBOLS_PLANNED / shape.contents.len().max(1)).clamp(1, shape.n);
    (0..count).map(|index| index * shape.n / count).collect()
}

/// The repair of two nodes, on average over all pairs or over some that are evenly spread.
fn repair_of_two(code: &dyn Code) -> Option<RepairOfTwo> {
    let shape = code.shape();
    let pairs: Vec<Vec<usize>> = (0..shape.n).flat_map(|a| (a + 1..shape.n).map(move |b| vec![a, b])).collect();
    let most = MOST_PAIRS_PLANNED.min(pairs.len()).max(1);
    let count = (MOST_SYMBOLS_PLANNED / shape.contents.len().max(1)).clamp(1, most);
    let planned: Vec<Vec<usize>> = (0..count).map(|index| pairs[index * pairs.len() / count].clone()).collect();
    let (if_nodes_send, if_nodes_compute) = repairs(code, &planned)?;
    Some(RepairOfTwo { pairs: count, if_nodes_send, if_nodes_compute, least_bytes_per_byte: least(shape, 2) })
}

/// What theory allows, per byte of a node.
fn least(shape: &Shape, lost_count: usize) -> Option<f64> {
    analysis::least_received(shape, lost_count).map(|symbols| symbols as f64 / shape.alpha as f64)
}

/// The repair of these sets of nodes, and the same if nodes compute, where that saves; `None` where there is nothing to
/// rebuild them from.
fn repairs(code: &dyn Code, lost: &[Vec<usize>]) -> Option<(Repair, Option<Repair>)> {
    let plain = repair(code, lost, false)?;
    let computing = repair(code, lost, true)?;
    let saves = computing.received_bytes_per_byte < plain.received_bytes_per_byte;
    Some((plain, saves.then_some(computing)))
}

/// The mean over these sets of nodes; `None` where there is nothing to rebuild one from.
fn repair(code: &dyn Code, lost: &[Vec<usize>], helpers_combine: bool) -> Option<Repair> {
    let shape = code.shape();
    let repairs = lost.iter().map(|lost| analysis::repair(code, lost, helpers_combine));
    let repairs = repairs.collect::<Result<Vec<_>, _>>().ok()?;
    let count = lost.len() as f64;
    let mean = |symbols: fn(&analysis::Repair) -> usize| repairs.iter().map(symbols).sum::<usize>() as f64 / count;
    Some(Repair {
        received_bytes_per_byte: mean(|repair| repair.symbols_received) / shape.alpha as f64,
        read_bytes_per_byte: mean(|repair| repair.symbols_read) / shape.alpha as f64,
        requests: mean(|repair| repair.requests),
        computing_nodes: mean(|repair| repair.computing_helpers),
    })
}
