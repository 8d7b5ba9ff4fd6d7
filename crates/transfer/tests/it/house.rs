//! A volume for tests: nodes in memory, each counting its calls and failing by script, and the engine over them.

use bytes::Bytes;
use std::ops::Range;
use std::sync::Arc;
use weft_env::Env;
use weft_format::records::{NodeRecord, NodeState, PlacementRule, SegmentRecord};
use weft_format::removal::{Candidate, Evidence, Verdict, may_remove};
use weft_format::{NodeId, SegmentId, ShardIndex, ShardKey, VolumeId};
use weft_nodes::wrappers::fault::Script;
use weft_nodes::wrappers::{Fault, FaultNode, Operation, RecordNode};
use weft_nodes::{MemoryNode, Node, NodeErrorKind, NodeIdentity};
use weft_transfer::{Fleet, ReadError, ReadReport, Receipt, Removal, Settings, Transfer, WriteError, WriteRequest};

pub const VOLUME: VolumeId = VolumeId(0x0011_2233);

pub struct TestNode {
    pub id: NodeId,
    pub memory: Arc<MemoryNode>,
    pub fault: Arc<FaultNode>,
    pub record: Arc<RecordNode>,
}

pub struct House {
    pub nodes: Vec<TestNode>,
    pub fleet: Arc<Fleet>,
    pub transfer: Transfer,
}

pub fn no_fault() -> Script {
    Box::new(|_| Fault::None)
}

/// No call is answered.
pub fn silence() -> Script {
    Box::new(|_| Fault::Silence)
}

/// Every call of `operation` goes wrong like this.
pub fn every(operation: Operation, fault: Fault) -> Script {
    Box::new(move |call| if call.operation == operation { fault } else { Fault::None })
}

pub fn node_record(i: usize, state: NodeState) -> NodeRecord {
    NodeRecord {
        name: format!("n{i}"),
        url: format!("memory:{i}"),
        state,
        domain: format!("d{i}"),
        weight: 1,
        secret: Default::default(),
        limits: Default::default(),
    }
}

impl House {
    pub fn new(node_count: usize) -> Self {
        Self::with_settings(node_count, Settings { cache_bytes: 0, ..Settings::default() })
    }

    pub fn with_settings(node_count: usize, settings: Settings) -> Self {
        Self::over(node_count, settings, |node| node)
    }

    /// Over nodes that combine.
    pub fn that_combines(node_count: usize) -> Self {
        Self::over(node_count, Settings { cache_bytes: 0, ..Settings::default() }, MemoryNode::that_combines)
    }

    /// Nodes in units of two, which may hold `unit_shards` of a segment.
    pub fn in_pairs(node_count: usize, unit_shards: u32) -> Self {
        let house = Self::new(node_count);
        let member = |(i, node): (usize, &TestNode)| {
            let record = NodeRecord { domain: format!("u{}", i / 2), ..node_record(i, NodeState::Active) };
            (node.id, record, node.record.clone() as Arc<dyn Node>)
        };
        let members = house.nodes.iter().enumerate().map(member).collect();
        house.fleet.set(members, PlacementRule { unit_shards, ..PlacementRule::default() });
        house
    }

    fn over(node_count: usize, settings: Settings, adapt: fn(MemoryNode) -> MemoryNode) -> Self {
        let node = |i: usize| {
            let id = NodeId(100 + i as u128);
            let memory = MemoryNode::new(format!("n{i}"), NodeIdentity { volume: VOLUME, node: id }, 1 << 40);
            let memory = Arc::new(adapt(memory));
            let fault = Arc::new(FaultNode::new(memory.clone(), format!("n{i}"), no_fault()));
            let record = Arc::new(RecordNode::new(fault.clone(), 1000));
            TestNode { id, memory, fault, record }
        };
        let nodes: Vec<TestNode> = (0..node_count).map(node).collect();
        let member = |(i, node): (usize, &TestNode)| {
            (node.id, node_record(i, NodeState::Active), node.record.clone() as Arc<dyn Node>)
        };
        let fleet =
            Arc::new(Fleet::new(nodes.iter().enumerate().map(member).collect(), Default::default(), &Env::system()));
        let runtime = tokio::runtime::Handle::current();
        let transfer = Transfer::new(VOLUME, fleet.clone(), settings, runtime);
        Self { nodes, fleet, transfer }
    }

    pub fn node(&self, id: NodeId) -> &TestNode {
        self.nodes.iter().find(|node| node.id == id).expect("a record names nodes of its house")
    }

    /// The node that has the shard.
    pub fn node_of(&self, record: &SegmentRecord, index: usize) -> &TestNode {
        self.node(record.shards[index].as_ref().expect("the shard is placed").node)
    }

    /// The nodes of these shards answer that they have no such shard; all others are well.
    pub fn lose(&self, record: &SegmentRecord, lost: &[usize]) {
        self.heal();
        for index in lost {
            let script = every(Operation::Get, Fault::Fail(NodeErrorKind::NotFound));
            self.node_of(record, *index).fault.set_script(script);
        }
    }

    pub fn heal(&self) {
        self.nodes.iter().for_each(|node| node.fault.set_script(no_fault()));
    }

    /// Bytes that all nodes have sent so far.
    pub fn bytes_read(&self) -> u64 {
        self.nodes.iter().map(|node| node.record.counts().bytes_read).sum()
    }

    /// Removes all shards that a dead segment names, whatever their names.
    pub async fn remove(&self, segment: SegmentId, record: &SegmentRecord) -> Removal {
        let dead = Candidate::Segment { segment, live_bytes: 0 };
        let verdict = may_remove(dead, Evidence::Owner { seen_ms: u64::MAX });
        let Verdict::Remove(dead) = verdict else { panic!("{verdict:?}") };
        let shards = dead.shards(record, None, |_| Ok::<_, std::convert::Infallible>(segment));
        self.transfer.remove(shards.unwrap_or_default()).await
    }

    /// All shards on all nodes.
    pub async fn shards(&self) -> Vec<(NodeId, ShardKey)> {
        let mut shards = Vec::new();
        for node in &self.nodes {
            let page = node.memory.list(None, usize::MAX).await.unwrap();
            shards.extend(page.keys.into_iter().map(|key| (node.id, key)));
        }
        shards
    }

    pub async fn try_write(&self, segment: SegmentId, code: &str, data: &[u8]) -> Result<Receipt, WriteError> {
        let data = data.chunks(100_000).map(Bytes::copy_from_slice).collect();
        self.transfer
            .write(WriteRequest { segment, code: code.into(), write_margin: Some(1), cell_bytes: None, data })
            .await
    }

    pub async fn write(&self, segment: SegmentId, code: &str, data: &[u8]) -> Arc<SegmentRecord> {
        let receipt = self.try_write(segment, code, data).await.unwrap();
        assert!(receipt.missing.is_empty());
        Arc::new(receipt.record)
    }

    pub async fn read(
        &self,
        segment: SegmentId,
        record: &Arc<SegmentRecord>,
        range: Range<u64>,
    ) -> Result<(Vec<u8>, ReadReport), ReadError> {
        let mut out = vec![0xee; (range.end - range.start) as usize];
        let report = self.transfer.read(segment, record, range, &mut out).await?;
        Ok((out, report))
    }

    /// Reads the range and compares; what the read says of itself.
    pub async fn read_same(
        &self,
        segment: SegmentId,
        record: &Arc<SegmentRecord>,
        range: Range<u64>,
        data: &[u8],
    ) -> ReadReport {
        let (got, report) = self.read(segment, record, range.clone()).await.unwrap();
        let expected = &data[range.start as usize..range.end as usize];
        if got != expected {
            let first_wrong = got.iter().zip(expected).position(|(got, expected)| got != expected);
            panic!("range {range:?} of {} bytes of {}: wrong from {first_wrong:?} on", data.len(), record.code);
        }
        report
    }
}

pub fn key(segment: SegmentId, record: &SegmentRecord, index: usize) -> ShardKey {
    record.shard_key(segment, ShardIndex(index as u16)).expect("the shard is placed")
}

pub fn segment(i: u64) -> SegmentId {
    SegmentId::new(1_700_000_000_000, u128::from(i) + 1)
}

/// Bytes that differ everywhere, the same for the same seed.
pub fn bytes(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed ^ 0x9e37_79b9_7f4a_7c15;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    let mut bytes = vec![0; length];
    for eight in bytes.chunks_mut(8) {
        eight.copy_from_slice(&next()[..eight.len()]);
    }
    bytes
}

/// Ranges of a segment that have caused trouble to somebody: ends, frames, cells, stripes, batches.
pub fn ranges(length: u64) -> Vec<Range<u64>> {
    let edges =
        [0, 1, 4095, 4096, 65_536, 65_537, 262_143, 262_144, 4 << 20, length / 2, length.saturating_sub(1), length];
    let mut ranges = Vec::new();
    ranges.push(0..length);
    for start in edges {
        for span in [0, 1, 4096, 70_000, 300_000] {
            let end = (start + span).min(length);
            if start <= end && !ranges.contains(&(start..end)) {
                ranges.push(start..end);
            }
        }
    }
    ranges
}

/// All subsets of `0..n` of at most `most` members.
pub fn subsets(n: usize, most: usize) -> Vec<Vec<usize>> {
    let members = |bits: u32| (0..n).filter(|i| bits >> i & 1 == 1).collect::<Vec<_>>();
    (0..1u32 << n).map(members).filter(|subset| subset.len() <= most).collect()
}
