//! Members in memory: each has a place that fails by script, a host and a keeper. What is asked of one that is down is not answered.

use async_trait::async_trait;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;
use weft_cluster::Membership;
use weft_cluster::gossip::Liveness;
use weft_env::Env;
use weft_format::records::{
    NodeRecord, NodeState, ObjectId, ObjectRecord, ObjectState, PlacementRule, Stamp, name_hash, record_key,
};
use weft_format::{NodeId, NodeIdentity, ShardKey, VolumeId};
use weft_nodes::wrappers::{Fault, FaultNode, Operation};
use weft_nodes::{MemoryNode, Node, NodeError, NodeErrorKind};
use weft_objects::{
    Answer, Host, Keeper, KeeperSettings, MemberAt, Neighbourhood, ObjectError, ObjectStore, PutRequest, Question,
    Questions, Round, Stored, closest,
};
use weft_transfer::Settings;

pub const VOLUME: VolumeId = VolumeId(0x00b1_ec75);

pub struct TestMember {
    pub id: NodeId,
    pub memory: Arc<MemoryNode>,
    /// As its own host sees it.
    pub place: Arc<FaultNode>,
    /// For others.
    pub fault: Arc<FaultNode>,
    pub host: Arc<Host>,
    is_down: AtomicBool,
    /// Is it dead by rumour?
    is_dead: AtomicBool,
    /// Questions that it will be too busy to answer.
    busy_for: AtomicU32,
    /// What it has to do, by rumour.
    load_bytes: AtomicU64,
}

#[async_trait]
impl Questions for TestMember {
    async fn ask(&self, question: &Question) -> Result<Answer, NodeError> {
        if self.is_down.load(Ordering::Relaxed) {
            return Err(NodeError::new(NodeErrorKind::Unavailable, "a member", "it is down"));
        }
        let less = |questions: u32| questions.checked_sub(1);
        if self.busy_for.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok() {
            return Err(NodeError::new(NodeErrorKind::Busy, "a member", "it is busy"));
        }
        self.host.answer(question)
    }
}

pub struct TestCluster {
    pub members: Vec<Arc<TestMember>>,
    pub env: Env,
}

/// The members as one of them, or a client, sees them.
struct Seen(Vec<Arc<TestMember>>, Option<NodeId>);

impl Neighbourhood for Seen {
    fn members(&self) -> Vec<MemberAt> {
        let member = |member: &Arc<TestMember>| MemberAt {
            id: member.id,
            address: format!("m{}", member.id.0),
            liveness: if member.is_dead.load(Ordering::Relaxed) { Liveness::Dead } else { Liveness::Alive },
            domain: String::new(),
            total_bytes: 1 << 40,
            load_bytes: member.load_bytes.load(Ordering::Relaxed),
            node: if self.1 == Some(member.id) { member.host.node_of_keeper() } else { member.fault.clone() },
            questions: member.clone(),
        };
        self.0.iter().map(member).collect()
    }
}

impl TestCluster {
    pub async fn new(count: u128) -> Self {
        let env = Env::seeded(7);
        let mut members = Vec::new();
        for id in (1..=count).map(NodeId) {
            members.push(Self::open(id, None).await);
        }
        Self { members, env }
    }

    async fn open(id: NodeId, memory: Option<Arc<MemoryNode>>) -> Arc<TestMember> {
        let (identity, name) = (NodeIdentity { volume: VOLUME, node: id }, format!("m{}", id.0));
        let memory = memory.unwrap_or_else(|| Arc::new(MemoryNode::new(&name, identity, 1 << 40)));
        let place = Arc::new(FaultNode::new(memory.clone(), &name, Box::new(|_| Fault::None)));
        let host = Host::open(identity, &name, place.clone()).await.expect("memory can be listed");
        let fault = Arc::new(FaultNode::new(host.node(), &name, Box::new(|_| Fault::None)));
        let (is_down, is_dead, busy_for, load_bytes) = Default::default();
        Arc::new(TestMember { id, memory, place, fault, host, is_down, is_dead, busy_for, load_bytes })
    }

    /// A client that sees the members as they are now.
    pub fn client(&self) -> ObjectStore {
        self.client_of(&Seen(self.members.clone(), None))
    }

    fn client_of(&self, seen: &Seen) -> ObjectStore {
        let settings = Settings { cache_bytes: 0, ..Settings::default() };
        ObjectStore::new(VOLUME, seen.members(), settings, &self.env, tokio::runtime::Handle::current())
    }

    /// A new member, with an empty disk.
    pub async fn join(&mut self, id: NodeId) {
        self.members.push(Self::open(id, None).await);
    }

    /// The members closest to a name.
    pub fn closest(&self, name: &str, width: usize) -> Vec<NodeId> {
        let member = |member: &Arc<TestMember>| {
            let record = NodeRecord {
                name: format!("m{}", member.id.0),
                url: String::new(),
                state: NodeState::Active,
                domain: format!("m{}", member.id.0),
                weight: 1024,
                secret: Default::default(),
                limits: Default::default(),
            };
            (member.id, record)
        };
        let view = Membership::new(self.members.iter().map(member), PlacementRule::default()).view();
        closest(&view, name_hash(name), width).nodes
    }

    pub fn member(&self, id: NodeId) -> &Arc<TestMember> {
        self.members.iter().find(|member| member.id == id).expect("a member")
    }

    /// It answers nothing more; the others have not noticed.
    pub fn stop(&self, id: NodeId) {
        let member = self.member(id);
        member.is_down.store(true, Ordering::Relaxed);
        member.fault.set_script(Box::new(|_| Fault::Fail(NodeErrorKind::Unavailable)));
    }

    /// It is too busy for the next questions.
    pub fn keep_busy(&self, id: NodeId, questions: u32) {
        self.member(id).busy_for.store(questions, Ordering::Relaxed);
    }

    /// It has so much to do, by rumour.
    pub fn rumour_load(&self, id: NodeId, load_bytes: u64) {
        self.member(id).load_bytes.store(load_bytes, Ordering::Relaxed);
    }

    /// Counts what is asked of each member for shards of data.
    pub fn count_gets(&self) -> BTreeMap<NodeId, Arc<AtomicU32>> {
        let counted = |member: &Arc<TestMember>| {
            let count = Arc::new(AtomicU32::new(0));
            let counter = count.clone();
            member.fault.set_script(Box::new(move |call| {
                let is_of_data = call.key.is_some_and(|key| ObjectId::of(key.segment).is_data);
                counter.fetch_add(u32::from(call.operation == Operation::Get && is_of_data), Ordering::Relaxed);
                Fault::None
            }));
            (member.id, count)
        };
        self.members.iter().map(counted).collect()
    }

    /// It answers nothing more, and gossip says so.
    pub fn kill(&self, id: NodeId) {
        self.stop(id);
        self.member(id).is_dead.store(true, Ordering::Relaxed);
    }

    /// It is back, with what it had.
    pub async fn revive(&mut self, id: NodeId) {
        let memory = self.member(id).memory.clone();
        self.replace(id, memory).await;
    }

    /// It is back, with what is in this memory.
    pub async fn replace(&mut self, id: NodeId, memory: Arc<MemoryNode>) {
        let position = self.members.iter().position(|member| member.id == id).expect("a member");
        self.members[position] = Self::open(id, Some(memory)).await;
    }

    pub fn keeper(&self, id: NodeId, settings: KeeperSettings) -> Keeper {
        let seen = Arc::new(Seen(self.members.clone(), Some(id)));
        Keeper::new(self.member(id).host.clone(), seen, settings, &self.env, tokio::runtime::Handle::current())
    }

    /// The keepers of all that are there.
    pub fn keepers(&self, settings: KeeperSettings) -> Vec<Keeper> {
        let there = self.members.iter().filter(|member| !member.is_down.load(Ordering::Relaxed));
        there.map(|member| self.keeper(member.id, settings)).collect()
    }

    pub async fn put(&self, name: &str, code: &str, data: &[u8], replace: bool) -> Result<Stored, ObjectError> {
        let request = PutRequest { name: name.into(), code: code.into(), replace };
        self.client().put(&request, &mut { data }).await
    }

    pub async fn get(&self, name: &str) -> Result<Vec<u8>, ObjectError> {
        self.get_by(&self.client(), name).await
    }

    pub async fn get_by(&self, client: &ObjectStore, name: &str) -> Result<Vec<u8>, ObjectError> {
        let mut data = Vec::new();
        let mut sink = |part: &[u8]| {
            data.extend_from_slice(part);
            Ok(())
        };
        client.get(name, &mut sink).await?;
        Ok(data)
    }

    /// Members that hold something of a name: records and shards of each.
    pub fn held(&self, name: &str) -> Vec<(NodeId, usize, usize)> {
        let held = |member: &Arc<TestMember>| match member.host.answer(&Question::Find { hash: name_hash(name) }) {
            Ok(Answer::Found(found)) => (member.id, found.records.len(), found.shards.len()),
            _ => (member.id, 0, 0),
        };
        self.members.iter().map(held).filter(|(_, records, shards)| records + shards > 0).collect()
    }

    /// The record of a version at a member, as it lies there.
    pub async fn record(&self, id: NodeId, name: &str, stamp: Stamp) -> Option<ObjectState> {
        let key = record_key(name_hash(name), stamp);
        let object = self.member(id).memory.get(key, 0..u64::MAX).await.ok()?;
        ObjectRecord::unseal(VOLUME, key, &object).ok().map(|record| record.state)
    }

    /// All shards of data at a member.
    pub async fn shards(&self, id: NodeId) -> Vec<ShardKey> {
        let page = self.member(id).memory.list(None, usize::MAX).await.expect("memory can be listed");
        page.keys.into_iter().filter(|key| ObjectId::of(key.segment).is_data).collect()
    }
}

/// A copy of all that a memory holds.
pub async fn image_of(memory: &MemoryNode, id: NodeId) -> Arc<MemoryNode> {
    let copy = MemoryNode::new("image", NodeIdentity { volume: VOLUME, node: id }, 1 << 40);
    for key in memory.list(None, usize::MAX).await.expect("listed").keys {
        let object = memory.get(key, 0..u64::MAX).await.expect("read");
        copy.put(key, &[object]).await.expect("stored");
    }
    Arc::new(copy)
}

/// Runs this number of rounds of all keepers, with `pause` after each.
pub async fn rounds(keepers: &mut [Keeper], count: usize, pause: Duration) -> Round {
    let mut sum = Round::default();
    for _ in 0..count {
        for keeper in &mut *keepers {
            let round = keeper.round().await;
            sum.pulled += round.pulled;
            sum.pushed += round.pushed;
            sum.rebuilt += round.rebuilt;
            sum.given_up += round.given_up;
            sum.removed += round.removed;
            sum.scrubbed_bytes += round.scrubbed_bytes;
            sum.mended += round.mended;
            sum.copied += round.copied;
            sum.moved += round.moved;
        }
        tokio::time::sleep(pause).await;
    }
    sum
}

pub fn bytes(length: usize, seed: u8) -> Vec<u8> {
    (0..length).map(|i| (i * 31 + (i >> 8) * 7) as u8 ^ seed).collect()
}
