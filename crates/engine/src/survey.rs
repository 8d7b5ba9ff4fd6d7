//! Measures a volume's nodes with a few short requests each, and lists what the volume stores by code.

mod probe;

use crate::error::EngineError;
use crate::keeper::Keeper;
use probe::{Probe, probe};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use weft_env::{Clock, Env};
use weft_format::records::{NodeRecord, NodeState};
use weft_format::{NodeId, ShardKey};
use weft_meta::{MetaUrl, Store};
use weft_nodes::Space;

/// Segments read together.
const PAGE: usize = 4096;

/// Measurements of a volume's nodes.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// The nodes that take shards.
    pub nodes: Vec<NodeFigures>,
    /// Names of the nodes that do not answer: their room is derived from their weight.
    pub silent: Vec<String>,
    /// Data bytes stored, by code.
    pub data_bytes_by_code: BTreeMap<String, u64>,
}

/// A node as it was measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeFigures {
    /// Unique in the volume.
    pub name: String,
    /// Its limit, or the speed of one read; `None`: unknown.
    pub bytes_per_second: Option<f64>,
    /// The median of three requests; `None`: it does not answer.
    pub latency_ms: Option<f64>,
    /// Its part of its disk.
    pub room_bytes: f64,
    /// Its failure domain.
    pub domain: String,
    /// It can combine shards that it has.
    pub computes: bool,
}

/// Looks at a volume's records and asks each of its nodes a few short questions.
///
/// # Errors
/// The volume cannot be opened or read.
pub fn survey(meta: &MetaUrl) -> Result<Survey, EngineError> {
    let env = Env::system();
    let keeper = Keeper::open(meta, &env)?;
    let (data_bytes_by_code, shards) = stored(&keeper.store)?;
    let rule = keeper.store.placement_rule()?;
    let records: Vec<(NodeId, NodeRecord)> =
        keeper.store.nodes()?.into_iter().filter(|(_, node)| node.state == NodeState::Active).collect();
    let probes = probes(&keeper, &records, &shards, &env.clock);
    let figures = |(id, record): &(NodeId, NodeRecord)| {
        let probe = probes.get(id).copied().unwrap_or_default();
        let limit = Some(record.limits.bytes_per_second).filter(|limit| *limit > 0).map(|limit| limit as f64);
        let node = keeper.transfer.fleet().get(*id);
        NodeFigures {
            name: record.name.clone(),
            bytes_per_second: limit.or(probe.bytes_per_second),
            latency_ms: probe.latency.map(|latency| latency.as_secs_f64() * 1e3),
            // By default a node's weight is its room in GiB.
            room_bytes: probe.space.map_or((record.weight << 30) as f64, |space| room_bytes(&space, &probes)),
            domain: rule.unit(&record.domain).to_owned(),
            computes: node.is_some_and(|node| node.capability().combines),
        }
    };
    let nodes: Vec<NodeFigures> = records.iter().map(figures).collect();
    let silent = nodes.iter().filter(|node| node.latency_ms.is_none()).map(|node| node.name.clone()).collect();
    Ok(Survey { nodes, silent, data_bytes_by_code })
}

/// A node's part of its disk, if several nodes share it.
fn room_bytes(space: &Space, probes: &HashMap<NodeId, Probe>) -> f64 {
    let disks = probes.values().filter_map(|probe| probe.space?.disk);
    let sharing = disks.filter(|disk| Some(*disk) == space.disk).count();
    space.total_bytes as f64 / sharing.max(1) as f64
}

/// Data bytes by code, and a shard of each node.
type Stored = (BTreeMap<String, u64>, HashMap<NodeId, ShardKey>);

fn stored(store: &Store) -> Result<Stored, EngineError> {
    let (mut by_code, mut shards) = (BTreeMap::new(), HashMap::new());
    let mut after = None;
    loop {
        let page = store.segments(after, PAGE)?;
        for (segment, record) in &page {
            *by_code.entry(record.code.clone()).or_default() += record.geometry.data_bytes;
            for (_, key, location) in record.located(*segment) {
                shards.entry(location.node).or_insert(key);
            }
        }
        after = page.last().map(|(segment, _)| *segment);
        if page.len() < PAGE {
            return Ok((by_code, shards));
        }
    }
}

/// All nodes at once.
fn probes(
    keeper: &Keeper,
    records: &[(NodeId, NodeRecord)],
    shards: &HashMap<NodeId, ShardKey>,
    clock: &Arc<dyn Clock>,
) -> HashMap<NodeId, Probe> {
    let start = |id: NodeId| {
        let node = keeper.transfer.fleet().get(id)?;
        Some((id, keeper.runtime.spawn(probe(node, shards.get(&id).copied(), Arc::clone(clock)))))
    };
    let started: Vec<_> = records.iter().filter_map(|(id, _)| start(*id)).collect();
    keeper.runtime.block_on(async {
        let mut probes = HashMap::new();
        for (id, probe) in started {
            // A probe that panicked says nothing of the node.
            probes.insert(id, probe.await.unwrap_or_default());
        }
        probes
    })
}
