//! Machines of members, and the network between them and processes.

use crate::ambush::{ProcessId, Step};
use crate::scheduler::running;
use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::future::Future;
use std::ops::Range;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::sync::oneshot;
use weft_format::records::{ObjectId, ObjectRecord, ObjectState, Stamp};
use weft_format::shard::{ShardIdentity, verify_object};
use weft_format::{NodeId, NodeIdentity, ShardKey, VolumeId};
use weft_nodes::node::{Capability, Node, Page, ShardStat, Space};
use weft_nodes::{MemoryNode, NodeError, NodeErrorKind};
use weft_objects::{Answer, Host, Question, Questions};

const CAPABILITY: Capability = weft_nodes::kinds::LOCAL;
/// A message takes up to so long.
const MESSAGE_US_MAX: u64 = 2_000;
/// One that comes twice comes again up to so much later.
const AGAIN_US_MAX: u64 = 600_000_000;
/// Gossip notices after this who is gone.
const RUMOUR_AFTER: Duration = Duration::from_secs(10);
/// Gossip forgets after this who is gone: much later than shards are rebuilt, and within the time in which all comes in order at the end.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(3600);
/// A process hears of a new member within this time, in seconds.
const HEARD_SECONDS: u64 = 10;
const DISK_BYTES: u64 = 1 << 30;

/// How much of the network's traffic is lost and comes twice, of a thousand messages, and how long a member's own disk takes at most.
#[derive(Clone, Copy, Debug, Default)]
pub struct Noise {
    pub lost_per_mille: u64,
    pub doubled_per_mille: u64,
    pub disk_ms_max: u64,
}

/// What is on a disk.
pub type Stored = BTreeMap<ShardKey, Bytes>;

/// What a message does when it arrives.
type Arrival = Box<dyn FnOnce() + Send>;

/// All machines that there ever were, in the order in which they came.
#[derive(Clone, Default)]
pub struct Machines(Arc<Mutex<Vec<Arc<Machine>>>>);

impl Machines {
    pub fn add(&self, machine: Machine) {
        self.0.lock().push(Arc::new(machine));
    }

    pub fn all(&self) -> Vec<Arc<Machine>> {
        self.0.lock().clone()
    }

    pub fn at(&self, position: usize) -> Arc<Machine> {
        self.0.lock()[position].clone()
    }

    /// What is on their disks; nothing of those that have left.
    pub fn stored(&self) -> Vec<Stored> {
        self.all().iter().map(|machine| machine.stored()).collect()
    }

    /// Which have not left.
    pub fn present(&self) -> Vec<usize> {
        let all = self.all();
        (0..all.len()).filter(|position| !all[*position].has_left()).collect()
    }
}

/// A machine with a disk, and its daemon while that runs.
pub struct Machine {
    pub id: NodeId,
    /// When it joined the others; `None`: it was there from the beginning.
    joined: Option<Duration>,
    volume: VolumeId,
    disk: Mutex<Arc<MemoryNode>>,
    /// What was on it at an earlier moment.
    image: Mutex<Stored>,
    pub host: Mutex<Option<Arc<Host>>>,
    process: Mutex<ProcessId>,
    /// From then on it is dead by rumour.
    dead_from: Mutex<Option<Duration>>,
    has_left: Mutex<bool>,
    /// While its daemon stops and is not dead: what has arrived.
    held: Mutex<Option<Vec<Arrival>>>,
}

impl Machine {
    pub fn new(id: NodeId, volume: VolumeId, joined: Option<Duration>) -> Self {
        Self {
            id,
            joined,
            volume,
            disk: Mutex::new(disk(id, volume, &Stored::new())),
            image: Mutex::default(),
            host: Mutex::default(),
            process: Mutex::new(ProcessId(0)),
            dead_from: Mutex::default(),
            has_left: Mutex::default(),
            held: Mutex::default(),
        }
    }

    /// Its daemon begins.
    pub fn start(&self, process: ProcessId) {
        let identity = NodeIdentity { volume: self.volume, node: self.id };
        let opened = at_once(Host::open(identity, &format!("m{}", self.id.0), self.disk.lock().clone()));
        *self.host.lock() = Some(opened.expect("memory can be listed"));
        *self.process.lock() = process;
        *self.dead_from.lock() = None;
    }

    /// That of its daemon, or of the last one.
    pub fn process(&self) -> ProcessId {
        *self.process.lock()
    }

    /// Its daemon stops, and messages wait for it; which process it is.
    pub fn hold(&self) -> ProcessId {
        *self.held.lock() = Some(Vec::new());
        *self.dead_from.lock() = Some(running().now() + RUMOUR_AFTER);
        self.process()
    }

    /// Its daemon goes on with what has arrived meanwhile; which process it is. `None`: it is dead.
    pub fn go_on(&self) -> Option<ProcessId> {
        let held = self.held.lock().take()?;
        *self.dead_from.lock() = None;
        held.into_iter().for_each(|arrival| running().after(Duration::ZERO, arrival));
        Some(self.process())
    }

    /// A message arrives.
    fn receive(&self, arrival: Arrival) {
        if let Some(held) = &mut *self.held.lock() {
            return held.push(arrival);
        }
        arrival();
    }

    /// Its daemon ends at once; which process that was.
    pub fn stop(&self) -> ProcessId {
        *self.host.lock() = None;
        *self.dead_from.lock() = Some(running().now() + RUMOUR_AFTER);
        self.process()
    }

    /// Its daemon ends, and never comes back, nor does its disk; which process that was. `says_so`: gossip need not find out.
    pub fn leave(&self, says_so: bool) -> ProcessId {
        let process = self.stop();
        self.empty();
        *self.has_left.lock() = true;
        if says_so {
            *self.dead_from.lock() = Some(running().now());
        }
        process
    }

    pub fn has_left(&self) -> bool {
        *self.has_left.lock()
    }

    pub fn is_dead_by_rumour(&self) -> bool {
        self.dead_from.lock().is_some_and(|from| running().now() >= from)
    }

    /// Has this process heard of it, and not forgotten it?
    pub fn is_known_to(&self, process: ProcessId) -> bool {
        let now = running().now();
        let is_forgotten = self.dead_from.lock().is_some_and(|from| now >= from + FORGOTTEN_AFTER);
        let heard_after = Duration::from_secs((u64::from(process.0) + self.id.0 as u64) % HEARD_SECONDS);
        !is_forgotten && self.joined.is_none_or(|joined| now >= joined + heard_after)
    }

    pub fn empty(&self) {
        *self.disk.lock() = disk(self.id, self.volume, &Stored::new());
    }

    pub fn take_image(&self) {
        *self.image.lock() = self.stored();
    }

    pub fn roll_back(&self) {
        *self.disk.lock() = disk(self.id, self.volume, &self.image.lock());
    }

    /// Some of what is stored has one other byte.
    pub fn rot(&self, is_struck: impl Fn() -> bool, below: impl Fn(u64) -> u64) {
        let mut stored = self.stored();
        for object in stored.values_mut().filter(|object| !object.is_empty() && is_struck()) {
            let mut bytes = object.to_vec();
            bytes[below(object.len() as u64) as usize] ^= 0x10;
            *object = bytes.into();
        }
        *self.disk.lock() = disk(self.id, self.volume, &stored);
    }

    pub fn stored(&self) -> Stored {
        let disk = self.disk.lock().clone();
        let keys = at_once(disk.list(None, usize::MAX)).expect("memory can be listed").keys;
        let object = |key| (key, at_once(disk.get(key, 0..u64::MAX)).expect("it was listed"));
        keys.into_iter().map(object).collect()
    }

    /// What is there, and should not be when all is in order: what is damaged, shards of a version without its record, and versions with a newer one.
    pub fn leftovers(&self) -> Vec<String> {
        let stored = self.stored();
        let mut records: BTreeMap<(u64, Stamp), ObjectRecord> = BTreeMap::new();
        for (key, object) in &stored {
            let id = ObjectId::of(key.segment);
            match ObjectRecord::unseal(self.volume, *key, object) {
                Ok(record) if !id.is_data => drop(records.insert((id.hash, id.stamp), record)),
                Err(error) if !id.is_data => return vec![format!("m{}: {error}", self.id.0)],
                _ => {}
            }
        }
        let mut left = Vec::new();
        for key in stored.keys() {
            let id = ObjectId::of(key.segment);
            let record = records.get(&(id.hash, id.stamp));
            if id.is_data && record.is_none_or(|record| !matches!(record.state, ObjectState::Stored(_))) {
                left.push(format!("at the end m{} has {key}, and no record of its version", self.id.0));
            }
            if id.is_data && verify_object(&ShardIdentity { volume: self.volume, key: *key }, &stored[key]).is_err() {
                left.push(format!("at the end m{} has {key}, which is damaged", self.id.0));
            }
            let newer = records.iter().any(|((hash, stamp), record)| {
                *hash == id.hash && *stamp > id.stamp && record.state != ObjectState::GivenUp
            });
            if newer {
                left.push(format!("at the end m{} has {key}, which a newer version has replaced", self.id.0));
            }
        }
        left
    }

    /// What its daemon says; `None`: there is none.
    fn ask<T>(&self, work: impl FnOnce(&Arc<Host>) -> Result<T, NodeError>) -> Result<T, NodeError> {
        match self.host.lock().clone() {
            Some(host) => work(&host),
            None => Err(NodeError::new(NodeErrorKind::Unavailable, &format!("m{}", self.id.0), "it is down")),
        }
    }
}

fn disk(id: NodeId, volume: VolumeId, stored: &Stored) -> Arc<MemoryNode> {
    let identity = NodeIdentity { volume, node: id };
    let disk = MemoryNode::new(format!("m{}", id.0), identity, DISK_BYTES).with_clock(|| 0);
    for (key, object) in stored {
        at_once(disk.put(*key, std::slice::from_ref(object))).expect("there is room");
    }
    Arc::new(disk)
}

/// Of a future that waits for nothing.
fn at_once<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("memory waits for nothing"),
    }
}

/// What is done when something is stored under this name.
pub fn steps_of_put(key: ShardKey) -> [Step; 1] {
    [if ObjectId::of(key.segment).is_data { Step::Put } else { Step::Record }]
}

/// A member as a process sees it.
pub struct Line {
    process: ProcessId,
    machine: Arc<Machine>,
    noise: Arc<Mutex<Noise>>,
}

impl Line {
    pub fn new(process: ProcessId, machine: Arc<Machine>, noise: Arc<Mutex<Noise>>) -> Arc<Self> {
        Arc::new(Self { process, machine, noise })
    }

    /// Sends a request; what it does is done when it arrives, and goes on if the answer is no longer awaited.
    async fn call<T: Send + 'static>(
        &self,
        work: impl Fn(&Arc<Host>) -> Result<T, NodeError> + Send + Sync + 'static,
    ) -> Result<T, NodeError> {
        let (tell, told) = oneshot::channel();
        {
            let (scheduler, noise) = (running(), *self.noise.lock());
            let (machine, work) = (self.machine.clone(), Arc::new(work));
            if scheduler.chance(noise.doubled_per_mille) {
                let (machine, work) = (machine.clone(), work.clone());
                let again = Duration::from_micros(MESSAGE_US_MAX + scheduler.below(AGAIN_US_MAX));
                // What comes of it is not awaited.
                scheduler.after(again, move || arrive(machine, noise, work, None));
            }
            let delay = Duration::from_micros(scheduler.below(MESSAGE_US_MAX));
            scheduler.after(delay, move || arrive(machine, noise, work, Some(tell)));
        }
        match told.await {
            Ok(answer) => answer,
            Err(_) => std::future::pending().await,
        }
    }
}

/// A request arrives at its machine, unless it is lost; then nobody ever says so. So with its answer.
fn arrive<T: Send + 'static>(
    machine: Arc<Machine>,
    noise: Noise,
    work: Arc<impl Fn(&Arc<Host>) -> Result<T, NodeError> + Send + Sync + 'static>,
    tell: Option<oneshot::Sender<Result<T, NodeError>>>,
) {
    if running().chance(noise.lost_per_mille) {
        return;
    }
    let at = machine.clone();
    machine.receive(Box::new(move || {
        let (scheduler, done) = (running(), at.ask(&*work));
        let Some(tell) = tell.filter(|_| !scheduler.chance(noise.lost_per_mille)) else { return };
        scheduler.after(Duration::from_micros(scheduler.below(MESSAGE_US_MAX)), move || {
            // Nobody may wait any more.
            let _ = tell.send(done);
        });
    }));
}

#[async_trait]
impl Questions for Line {
    async fn ask(&self, question: &Question) -> Result<Answer, NodeError> {
        let question = question.clone();
        self.call(move |host| host.answer(&question)).await
    }
}

#[async_trait]
impl Node for Line {
    fn capability(&self) -> &Capability {
        &CAPABILITY
    }

    async fn put(&self, key: ShardKey, parts: &[Bytes]) -> Result<(), NodeError> {
        let (parts, steps) = (parts.to_vec(), steps_of_put(key));
        running().reach(self.process, &steps, false);
        let done = self.call(move |host| at_once(host.node().put(key, &parts))).await;
        running().reach(self.process, &steps, true);
        done
    }

    async fn get(&self, key: ShardKey, range: Range<u64>) -> Result<Bytes, NodeError> {
        self.call(move |host| at_once(host.node().get(key, range.clone()))).await
    }

    async fn stat(&self, key: ShardKey) -> Result<ShardStat, NodeError> {
        self.call(move |host| at_once(host.node().stat(key))).await
    }

    async fn list(&self, after: Option<ShardKey>, limit: usize) -> Result<Page, NodeError> {
        self.call(move |host| at_once(host.node().list(after, limit))).await
    }

    async fn remove(&self, key: ShardKey) -> Result<(), NodeError> {
        self.call(move |host| at_once(host.node().remove(key))).await
    }

    async fn space(&self) -> Result<Space, NodeError> {
        self.call(move |host| at_once(host.node().space())).await
    }

    async fn identity(&self) -> Result<NodeIdentity, NodeError> {
        self.call(move |host| at_once(host.node().identity())).await
    }
}
