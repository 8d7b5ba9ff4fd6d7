//! Which codes survive what is wished on given nodes, with how many shards in a failure unit, and what each costs. Pure, but for reading the
//! nodes of a volume.

use crate::error::EngineError;
use crate::keeper::Keeper;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use weft_cluster::{Health, Member, View, usable_room};
use weft_codes::{Code, analysis};
use weft_env::Env;
use weft_format::NodeId;
use weft_format::records::{NodeState, PlacementRule};
use weft_meta::MetaUrl;

/// Losses that are to be survived, each wish by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Wish {
    /// Of any as many failure units, each with all its nodes.
    Units(usize),
    /// Of any as many nodes.
    Nodes(usize),
}

impl fmt::Display for Wish {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Units(count) => write!(out, "unit:{count}"),
            Self::Nodes(count) => write!(out, "node:{count}"),
        }
    }
}

/// A node that need not exist.
#[derive(Clone, Debug, PartialEq)]
pub struct DescribedNode {
    /// For people.
    pub name: String,
    /// Outermost level first.
    pub domain: String,
    /// What fits on it.
    pub room_bytes: u64,
}

/// Nodes, and what of them fails as one.
#[derive(Clone, Debug)]
pub struct Layout {
    view: View,
}

/// A code that survives what is wished.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlannedCode {
    /// Its spec.
    pub code: String,
    /// Shards of a segment, each on a node of its own.
    pub shard_count: usize,
    /// Shards of a segment in one unit at most: what `weft placement --per-unit` has to allow.
    pub unit_shards: usize,
    /// Losses of any as many units are survived.
    pub survives_units: usize,
    /// Losses of any as many nodes are survived.
    pub survives_nodes: usize,
    /// Stored bytes for each byte of data, which a write sends to nodes.
    pub stored_per_byte: f64,
    /// Bytes that nodes send for each byte of a lost node, in the mean.
    pub repair_read_per_byte: f64,
    /// Symbol operations to encode a symbol of data.
    pub operations: f64,
    /// Data that fits on the empty nodes.
    pub room_bytes: u64,
}

/// Codes for a wish.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    /// The number of nodes in each unit.
    pub units: BTreeMap<String, usize>,
    /// Cheapest to store first, then cheapest to repair.
    pub codes: Vec<PlannedCode>,
    /// Why there are none, and what mends it; a sentence.
    pub shortfall: Option<String>,
}

/// More nodes or units than these are not proposed.
const MORE_MAX: usize = 12;

impl Layout {
    /// The nodes of a volume that take shards, after they were asked for their room; `unit_depth`: another number of leading levels of a
    /// domain that fail as one than the volume's rule has.
    ///
    /// # Errors
    /// The volume cannot be opened or read.
    pub fn of_volume(meta: &MetaUrl, unit_depth: Option<u32>) -> Result<Self, EngineError> {
        let keeper = Keeper::open(meta, &Env::system())?;
        keeper.look()?;
        let mut view = (*keeper.transfer.fleet().view()).clone();
        view.rule.unit_depth = unit_depth.unwrap_or(view.rule.unit_depth);
        for (id, record) in keeper.store.nodes()? {
            if let Some(member) = view.members.get_mut(&id) {
                member.domain = view.rule.unit(&record.domain).to_owned();
            }
        }
        view.members.retain(|_, member| member.state == NodeState::Active);
        Ok(Self { view })
    }

    /// Nodes as somebody describes them.
    #[must_use]
    pub fn described(nodes: &[DescribedNode], unit_depth: u32) -> Self {
        let rule = PlacementRule { unit_depth, ..PlacementRule::default() };
        let member = |node: &DescribedNode| Member {
            name: node.name.clone(),
            domain: rule.unit(&node.domain).to_owned(),
            locality: String::new(),
            weight: (node.room_bytes >> 30).max(1),
            state: NodeState::Active,
            health: Health::Sound,
            total_bytes: Some(node.room_bytes),
            free_bytes: Some(node.room_bytes),
            disk: None,
        };
        Self { view: View { members: (1..).map(NodeId).zip(nodes.iter().map(member)).collect(), epoch: 0, rule } }
    }

    /// How many nodes there are.
    #[must_use]
    pub fn node_count(&self) -> usize {
        self.view.members.len()
    }

    /// The codes among `specs` that survive all `wishes`, and what each costs.
    #[must_use]
    pub fn plan(&self, wishes: &[Wish], specs: &[String]) -> Plan {
        let mut units: BTreeMap<String, usize> = BTreeMap::new();
        self.view.members.values().for_each(|member| *units.entry(member.domain.clone()).or_default() += 1);
        let counts: Vec<usize> = units.values().copied().collect();
        // A family that has no such code cannot be chosen.
        let codes = specs.iter().filter_map(|spec| weft_codes::parse(spec).ok());
        let mut codes: Vec<PlannedCode> = codes.filter_map(|code| self.planned(&*code, &counts, wishes)).collect();
        let cost = |code: &PlannedCode| [code.stored_per_byte, code.repair_read_per_byte, code.operations];
        codes.sort_by(|a, b| {
            let compared = cost(a).into_iter().zip(cost(b)).map(|(a, b)| a.total_cmp(&b));
            compared.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then).then(a.shard_count.cmp(&b.shard_count))
        });
        let shortfall = codes.is_empty().then(|| shortfall(&counts, wishes));
        Plan { units, codes, shortfall }
    }

    fn planned(&self, code: &dyn Code, counts: &[usize], wishes: &[Wish]) -> Option<PlannedCode> {
        let shape = code.shape();
        let spread = Spread::new(counts, shape.n, shape.tolerance).filter(|spread| spread.meets(wishes))?;
        let reads =
            (0..shape.n).map(|shard| analysis::repair(code, &[shard], false).map(|repair| repair.symbols_received));
        let reads: usize = reads.collect::<Result<Vec<usize>, _>>().ok()?.into_iter().sum();
        let size = analysis::size(code.encode());
        let stored_per_byte = analysis::storage_factor(shape);
        let room = usable_room(&self.view, shape.n, spread.unit_shards());
        Some(PlannedCode {
            code: code.spec().to_owned(),
            shard_count: shape.n,
            unit_shards: spread.unit_shards(),
            survives_units: spread.survives_units(),
            survives_nodes: spread.tolerance,
            stored_per_byte,
            repair_read_per_byte: reads as f64 / (shape.n * shape.alpha) as f64,
            operations: (size.additions + size.multiplications) as f64 / shape.native_count as f64,
            room_bytes: (room.total_bytes as f64 / stored_per_byte) as u64,
        })
    }
}

/// Shards of a segment on units with these numbers of nodes, as evenly as can be, as placement spreads them.
struct Spread {
    tolerance: usize,
    /// Shards in each unit, the fullest first.
    loads: Vec<usize>,
}

impl Spread {
    /// `None`: they have no place, or a unit would hold more than may be lost.
    fn new(counts: &[usize], shard_count: usize, tolerance: usize) -> Option<Self> {
        let held = |most: usize| counts.iter().map(move |nodes| *nodes.min(&most));
        let most = (1..=shard_count).find(|most| held(*most).sum::<usize>() >= shard_count)?;
        if most > tolerance.max(1) {
            return None;
        }
        let mut loads: Vec<usize> = held(most - 1).collect();
        let mut left = shard_count - loads.iter().sum::<usize>();
        for (load, nodes) in loads.iter_mut().zip(counts) {
            if left > 0 && nodes > load {
                *load += 1;
                left -= 1;
            }
        }
        loads.sort_unstable_by(|a, b| b.cmp(a));
        Some(Self { tolerance, loads })
    }

    fn unit_shards(&self) -> usize {
        self.loads.first().copied().unwrap_or(0)
    }

    fn lost_with(&self, units: usize) -> usize {
        self.loads.iter().take(units).sum()
    }

    /// Any as many units may go.
    fn survives_units(&self) -> usize {
        (0..=self.loads.len()).take_while(|units| self.lost_with(*units) <= self.tolerance).last().unwrap_or(0)
    }

    fn meets(&self, wishes: &[Wish]) -> bool {
        wishes.iter().all(|wish| match wish {
            Wish::Units(count) => self.lost_with(*count) <= self.tolerance,
            Wish::Nodes(count) => *count <= self.tolerance,
        })
    }
}

/// Parities of the widest codes that are proposed.
const PARITIES_MAX: usize = 4;

/// Does Reed-Solomon with up to four parities, or up to four copies, survive the wishes on units with these numbers of nodes?
fn is_met(counts: &[usize], wishes: &[Wish]) -> bool {
    let node_count = counts.iter().sum::<usize>();
    let tolerances = |n: usize| (1..=PARITIES_MAX.min(n - 1)).filter(move |m| n - m >= 2 || n <= PARITIES_MAX);
    (2..=node_count)
        .any(|n| tolerances(n).any(|m| Spread::new(counts, n, m).is_some_and(|spread| spread.meets(wishes))))
}

fn shortfall(counts: &[usize], wishes: &[Wish]) -> String {
    let most = counts.iter().copied().max().unwrap_or(1);
    let with_nodes = |more: &usize| {
        let mut counts = counts.to_vec();
        for _ in 0..*more {
            if let Some(least) = counts.iter_mut().min() {
                *least += 1;
            }
        }
        is_met(&counts, wishes)
    };
    let with_units = |more: &usize| is_met(&[counts, &vec![most; *more]].concat(), wishes);
    let noun = |count: usize, noun: &str| format!("{count} more {noun}{}", if count == 1 { "" } else { "s" });
    let nodes =
        (1..=MORE_MAX).find(with_nodes).map(|more| format!("add {} to the units there are", noun(more, "node")));
    let units = (1..=MORE_MAX).find(with_units);
    let each = if most == 1 { "node".to_owned() } else { format!("{most} nodes each") };
    let units = units.map(|more| format!("add {} of {each}", noun(more, "unit")).replace("of node", "of one node"));
    let mend: Vec<String> = [nodes, units].into_iter().flatten().collect();
    let wishes: Vec<String> = wishes.iter().map(Wish::to_string).collect();
    let counts: Vec<String> = counts.iter().map(usize::to_string).collect();
    let there = if counts.is_empty() { "no nodes".to_owned() } else { format!("units of {} nodes", counts.join(", ")) };
    let mend = if mend.is_empty() { "wish for fewer losses".to_owned() } else { mend.join(", or ") };
    format!("no code survives {} on {there}: {mend}", wishes.join(" and "))
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
