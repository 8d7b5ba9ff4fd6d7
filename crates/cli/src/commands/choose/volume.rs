//! A volume's nodes as they are, and what a conversion of all that it stores would move.

use super::nodes_file::Known;
use super::probe::{Probe, probe};
use anyhow::Result;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use weft_engine::Keeper;
use weft_format::records::{NodeRecord, NodeState};
use weft_format::{NodeId, ShardKey};
use weft_lab::models::choice::Choice;
use weft_meta::Store;
use weft_nodes::Space;

/// Segments read together.
const PAGE: usize = 4096;

/// What a volume says of its nodes.
pub(super) struct VolumeNodes {
    pub nodes: Vec<Known>,
    pub stored: Stored,
    /// How the nodes were measured.
    pub notes: Vec<String>,
}

/// Data bytes by code.
pub(super) struct Stored {
    by_code: BTreeMap<String, u64>,
}

/// What converting all that a volume stores moves at most: shards that both codes share, and segments that can be joined, save some of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Conversion {
    pub read_bytes: u64,
    pub written_bytes: u64,
}

impl Stored {
    pub fn conversion_to(&self, choice: &Choice) -> Conversion {
        let others = self.by_code.iter().filter(|(code, _)| **code != choice.code);
        let read_bytes = others.map(|(_, bytes)| bytes).sum::<u64>();
        Conversion { read_bytes, written_bytes: (read_bytes as f64 * choice.stored_per_byte) as u64 }
    }
}

impl VolumeNodes {
    /// Looks at a volume's records and asks each of its nodes a few short questions.
    ///
    /// # Errors
    /// The volume cannot be opened or read.
    pub fn look(meta: &Path) -> Result<VolumeNodes> {
        let keeper = Keeper::open(meta)?;
        let (stored, shards) = survey(&keeper.store)?;
        let rule = keeper.store.placement_rule()?;
        let records: Vec<(NodeId, NodeRecord)> =
            keeper.store.nodes()?.into_iter().filter(|(_, node)| node.state == NodeState::Active).collect();
        let probes = probes(&keeper, &records, &shards);
        let known = |(id, record): &(NodeId, NodeRecord)| {
            let probe = probes.get(id).copied().unwrap_or_default();
            let limit = Some(record.limits.bytes_per_second).filter(|limit| *limit > 0).map(|limit| limit as f64);
            let node = keeper.transfer.fleet().get(*id);
            Known {
                name: record.name.clone(),
                bytes_per_second: limit.or(probe.bytes_per_second),
                latency_ms: probe.latency.map(|latency| latency.as_secs_f64() * 1e3),
                // By default a node's weight is its room in GiB.
                room_bytes: probe.space.map_or((record.weight << 30) as f64, |space| room_bytes(&space, &probes)),
                domain: rule.unit(&record.domain).to_owned(),
                computes: node.is_some_and(|node| node.capability().combines),
            }
        };
        let nodes = records.iter().map(known).collect();
        Ok(VolumeNodes { nodes, stored, notes: notes(&records, &probes) })
    }
}

/// A node's part of its disk, if several nodes share it.
fn room_bytes(space: &Space, probes: &HashMap<NodeId, Probe>) -> f64 {
    let disks = probes.values().filter_map(|probe| probe.space?.disk);
    let sharing = disks.filter(|disk| Some(*disk) == space.disk).count();
    space.total_bytes as f64 / sharing.max(1) as f64
}

/// Data by code, and a shard of each node.
fn survey(store: &Store) -> Result<(Stored, HashMap<NodeId, ShardKey>)> {
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
            return Ok((Stored { by_code }, shards));
        }
    }
}

/// All nodes at once.
fn probes(
    keeper: &Keeper,
    records: &[(NodeId, NodeRecord)],
    shards: &HashMap<NodeId, ShardKey>,
) -> HashMap<NodeId, Probe> {
    let start = |id: NodeId| {
        let node = keeper.transfer.fleet().get(id)?;
        Some((id, keeper.runtime.spawn(probe(node, shards.get(&id).copied()))))
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

fn notes(records: &[(NodeId, NodeRecord)], probes: &HashMap<NodeId, Probe>) -> Vec<String> {
    let names = |is_so: &dyn Fn(&Probe) -> bool| {
        let those = records.iter().filter(|(id, _)| probes.get(id).is_none_or(is_so));
        those.map(|(_, record)| record.name.as_str()).collect::<Vec<_>>().join(", ")
    };
    let silent = names(&|probe| probe.latency.is_none());
    let mut notes = vec![
        "latencies are medians of three requests; speeds are limits of nodes, or one read of up to 1 MiB of a shard"
            .to_owned(),
    ];
    if !silent.is_empty() {
        notes.push(format!("does not answer now, and is counted with its weight as room: {silent}"));
    }
    notes
}
