//! A small volume for tests: memory nodes that can be spoiled, a memory catalogue, and a real transfer between them.
pub mod mortal;

use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use weft_care::catalogue::memory::MemoryCatalogue;
use weft_care::{CareError, Job};
use weft_care::{Catalogue, Surveyed, repair};
use weft_env::{Clock, Env, Sleep, SystemClock};
use weft_format::records::{NodeRecord, NodeState, SegmentRecord};
use weft_format::{NodeId, SegmentId, ShardIndex, ShardKey, VolumeId};
use weft_nodes::memory::MemoryNode;
use weft_nodes::wrappers::{Fault, FaultNode};
use weft_nodes::{Node, NodeErrorKind, NodeIdentity};
use weft_transfer::{Fleet, Settings, ShardHealth, Transfer, WriteRequest};

/// The time of everything that happens unless a test says otherwise, milliseconds since the Unix epoch.
pub const NOW_MS: u64 = 1_700_000_000_000;

/// The machine's, but that it was [`NOW_MS`] when this was called.
pub fn env() -> Env {
    Env { clock: Arc::new(ClockOfTheTest { began: SystemClock.now() }), ..Env::system() }
}

struct ClockOfTheTest {
    began: Instant,
}

impl Clock for ClockOfTheTest {
    fn now(&self) -> Instant {
        SystemClock.now()
    }

    fn unix_time(&self) -> Duration {
        Duration::from_millis(NOW_MS) + self.now().saturating_duration_since(self.began)
    }

    fn sleep_until(&self, moment: Instant) -> Sleep {
        SystemClock.sleep_until(moment)
    }

    fn block(&self, time: Duration) {
        SystemClock.block(time);
    }
}

const VOLUME: VolumeId = VolumeId(77);

pub struct World {
    pub catalogue: Arc<MemoryCatalogue>,
    pub nodes: BTreeMap<NodeId, Arc<MemoryNode>>,
    /// What each segment's file holds.
    pub files: BTreeMap<SegmentId, Vec<u8>>,
}

pub fn key(record: &SegmentRecord, segment: SegmentId, index: u16) -> (NodeId, ShardKey) {
    let location = record.shards[usize::from(index)].as_ref().expect("the shard has a place");
    (location.node, record.shard_key(segment, ShardIndex(index)).expect("the shard has a place"))
}

impl World {
    /// A volume of `count` empty nodes, each a domain of its own.
    pub fn new(count: u128) -> Self {
        let mut world = Self { catalogue: Arc::default(), nodes: BTreeMap::new(), files: BTreeMap::new() };
        (1..=count).for_each(|id| world.add_node(id));
        world
    }

    pub fn add_node(&mut self, id: u128) {
        self.add_node_of(id, 1 << 40);
    }

    /// A node with so much room.
    pub fn add_node_of(&mut self, id: u128, bytes: u64) {
        let id = NodeId(id);
        let name = format!("n{}", id.0);
        self.add_node_again(id);
        let identity = NodeIdentity { volume: VOLUME, node: id };
        self.nodes.insert(id, Arc::new(MemoryNode::new(name, identity, bytes).with_clock(|| NOW_MS)));
    }

    /// Takes a node that was forgotten, with what it holds, into the volume again.
    pub fn add_node_again(&self, id: NodeId) {
        let name = format!("n{}", id.0);
        let url = format!("memory:{name}");
        let record = NodeRecord {
            name: name.clone(),
            url,
            state: NodeState::Active,
            domain: name,
            weight: 1,
            secret: Default::default(),
            limits: Default::default(),
        };
        self.catalogue.set_node(id, record);
    }

    /// Changes what metadata says of a node.
    pub fn change_node(&self, id: NodeId, change: impl FnOnce(&mut NodeRecord)) {
        let nodes = self.catalogue.nodes().expect("nodes");
        let (_, mut record) = nodes.into_iter().find(|(known, _)| *known == id).expect("a node");
        change(&mut record);
        self.catalogue.set_node(id, record);
    }

    /// A transfer to all nodes as they are.
    pub fn transfer(&self) -> Transfer {
        self.transfer_through(|_, node| node)
    }

    /// A transfer to which `silent` nodes do not answer.
    pub fn transfer_without(&self, silent: &[NodeId]) -> Transfer {
        self.transfer_through(|id, node| match silent.contains(&id) {
            false => node,
            true => Arc::new(FaultNode::new(node, "away", Box::new(|_| Fault::Fail(NodeErrorKind::Unavailable)))),
        })
    }

    pub fn transfer_through(&self, wrap: impl Fn(NodeId, Arc<dyn Node>) -> Arc<dyn Node>) -> Transfer {
        self.transfer_within(&env(), wrap)
    }

    /// The same, with time and chance of the caller's choice.
    pub fn transfer_within(&self, env: &Env, wrap: impl Fn(NodeId, Arc<dyn Node>) -> Arc<dyn Node>) -> Transfer {
        let records = self.catalogue.nodes().expect("nodes");
        // One that was given up and answers is taken back, so those that are given up here are gone.
        let there = |id: NodeId, state: NodeState| -> Arc<dyn Node> {
            let node = self.nodes[&id].clone();
            match state {
                NodeState::Lost => {
                    Arc::new(FaultNode::new(node, "gone", Box::new(|_| Fault::Fail(NodeErrorKind::Unavailable))))
                }
                _ => node,
            }
        };
        let member = |(id, record): (NodeId, NodeRecord)| {
            let node = wrap(id, there(id, record.state));
            (id, record, node)
        };
        let fleet = Arc::new(Fleet::new(records.into_iter().map(member).collect(), Default::default(), env));
        Transfer::new(VOLUME, fleet, Settings::default(), tokio::runtime::Handle::current())
    }

    /// Stores shards of a new segment, without anybody knowing of it yet.
    pub async fn put(&self, number: u128, code: &str, data: &[u8]) -> (SegmentId, SegmentRecord) {
        let segment = SegmentId::new(NOW_MS, number);
        let data = vec![Bytes::copy_from_slice(data)];
        let request = WriteRequest { segment, code: code.into(), write_margin: Some(u16::MAX), cell_bytes: None, data };
        (segment, self.transfer().write(request).await.expect("written").record)
    }

    /// Writes a file of one segment; its name is `/f<number>`.
    pub async fn write(&mut self, number: u128, code: &str) -> SegmentId {
        let data: Vec<u8> = (0..30_000u32 + number as u32 * 777).map(|i| (i * 31 + number as u32) as u8).collect();
        let (segment, record) = self.put(number, code, &data).await;
        self.catalogue.commit(segment, record, &format!("/f{number}"));
        self.files.insert(segment, data);
        segment
    }

    pub fn record(&self, segment: SegmentId) -> SegmentRecord {
        self.catalogue.segment(segment).expect("read").expect("a record")
    }

    /// Reads every file back.
    pub async fn assert_contents(&self) {
        let transfer = self.transfer();
        for (segment, data) in &self.files {
            let (at, from) = self.catalogue.located(*segment);
            let record = Arc::new(self.record(at));
            let range = from..from + data.len() as u64;
            let (bytes, _) = transfer.read_bytes(at, &record, range).await.expect("read");
            assert!(bytes == data, "segment {segment} reads back otherwise");
        }
    }

    /// Every shard is in a domain of its own, sound as its segment's record says, and every file reads back as it was written.
    pub async fn assert_invariants(&self) {
        let records: BTreeMap<NodeId, NodeRecord> = self.catalogue.nodes().expect("nodes").into_iter().collect();
        for segment in self.files.keys().map(|segment| self.catalogue.located(*segment).0) {
            let record = self.record(segment);
            let mut domains = BTreeSet::new();
            for location in record.shards.iter().flatten() {
                let domain = &records[&location.node].domain;
                assert!(domains.insert(domain), "segment {segment} has two shards in {domain}");
            }
            assert_eq!(self.sound_count(segment).await, record.shards.len(), "segment {segment}");
        }
        self.assert_contents().await;
    }

    /// Sound shards at the places that the record names, each read whole.
    pub async fn sound_count(&self, segment: SegmentId) -> usize {
        let health = self.transfer().verify(segment, &self.record(segment)).await;
        health.shards.iter().filter(|shard| **shard == ShardHealth::Sound).count()
    }

    /// Everything that lies on the nodes.
    pub async fn stored(&self) -> Vec<(NodeId, ShardKey)> {
        let mut stored = Vec::new();
        for (id, node) in &self.nodes {
            let page = node.list(None, usize::MAX).await.expect("listed");
            stored.extend(page.keys.into_iter().map(|key| (*id, key)));
        }
        stored
    }

    /// Everything that records name.
    pub fn named(&self) -> Vec<(NodeId, ShardKey)> {
        let segments = self.catalogue.survey(None, usize::MAX).expect("segments");
        let shards = segments.iter().flat_map(|Surveyed { segment, record, .. }| {
            let there = (0..record.shards.len() as u16).filter(|index| record.shards[usize::from(*index)].is_some());
            there.map(|index| key(record, *segment, index))
        });
        let mut named: Vec<_> = shards.collect();
        named.sort();
        // A dead segment and the one that it was merged into name the same.
        named.dedup();
        named
    }

    /// Puts other bytes in a shard's place; `None` removes it.
    pub async fn spoil(&self, (node, key): (NodeId, ShardKey), change: impl FnOnce(Vec<u8>) -> Option<Vec<u8>>) {
        let node = &self.nodes[&node];
        let bytes = node.get(key, 0..u64::MAX).await.expect("read").to_vec();
        node.remove(key).await.expect("removed");
        if let Some(bytes) = change(bytes) {
            node.put(key, &[Bytes::from(bytes)]).await.expect("put");
        }
    }

    /// The bytes of a shard object.
    pub async fn object(&self, (node, key): (NodeId, ShardKey)) -> Vec<u8> {
        self.nodes[&node].get(key, 0..u64::MAX).await.expect("read").to_vec()
    }

    pub async fn repair(&self, transfer: &Transfer) -> Result<repair::Report, CareError> {
        let options = repair::Options { verify: true, ..repair::Options::default() };
        repair::repair(self.catalogue.clone(), transfer, &Job::new(&Env::system().clock), options, NOW_MS).await
    }
}
