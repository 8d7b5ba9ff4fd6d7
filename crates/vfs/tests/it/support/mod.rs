//! A volume over memory nodes, and a metadata engine that remembers every state it was in.
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use weft_env::Env;
use weft_format::records::{NodeRecord, NodeState, PolicyRecord, Timestamp, VolumeRecord};
use weft_format::{NodeId, PolicyId, VolumeId};
use weft_meta::Store;
use weft_meta::engines::MemoryKv;
use weft_meta::kv::{Batch, Kv, KvError, Snapshot};
use weft_nodes::{MemoryNode, Node, NodeIdentity};
use weft_transfer::{Fleet, Transfer};
use weft_vfs::open::Members;
use weft_vfs::{Caller, Settings, Volume};

pub const VOLUME: VolumeId = VolumeId(7);
/// Room on a memory node.
const NODE_BYTES: u64 = 1 << 30;
pub const CALLER: Caller =
    Caller { uid: 1000, gid: 1000, groups: Vec::new(), capabilities: weft_vfs::Capabilities::empty() };

/// Every batch committed, and how many of them were flushed: any prefix that holds the flushed ones is what a crash may
/// leave.
#[derive(Default)]
pub struct RecordingKv {
    inner: MemoryKv,
    log: Mutex<Log>,
    /// The thread whose next commit panics.
    panics: Mutex<Option<&'static str>>,
    /// The thread whose commits find no room, after this number of others.
    refused: Mutex<Option<(&'static str, usize)>>,
    refuses_flushes: AtomicBool,
}

#[derive(Default)]
struct Log {
    batches: Vec<Batch>,
    flushed: usize,
}

impl RecordingKv {
    pub fn committed_count(&self) -> usize {
        self.log.lock().batches.len()
    }

    pub fn flushed_count(&self) -> usize {
        self.log.lock().flushed
    }

    /// The next commit of the thread of this name panics.
    pub fn panic_at_next_commit_of(&self, thread: &'static str) {
        *self.panics.lock() = Some(thread);
    }

    /// From now on commits of the thread of this name find no room, or of none.
    pub fn refuse_commits_of(&self, thread: Option<&'static str>) {
        *self.refused.lock() = thread.map(|thread| (thread, 0));
    }

    /// Commits of the thread of this name find no room after its next `count`.
    pub fn refuse_commits_after(&self, thread: &'static str, count: usize) {
        *self.refused.lock() = Some((thread, count));
    }

    /// From now on nothing becomes durable, or everything again.
    pub fn refuse_flushes(&self, is_so: bool) {
        self.refuses_flushes.store(is_so, Ordering::SeqCst);
    }

    /// The engine as a crash after `count` commits leaves it.
    pub fn after(&self, count: usize) -> Arc<RecordingKv> {
        let copy = RecordingKv::default();
        for batch in &self.log.lock().batches[..count] {
            let unconditional =
                Batch { writes: batch.writes.clone(), deltas: batch.deltas.clone(), ..Batch::default() };
            copy.commit(unconditional).expect("memory takes it");
        }
        copy.flush().expect("memory flushes");
        Arc::new(copy)
    }
}

impl Kv for RecordingKv {
    fn snapshot(&self) -> Result<Box<dyn Snapshot + '_>, KvError> {
        self.inner.snapshot()
    }

    fn commit(&self, batch: Batch) -> Result<(), KvError> {
        let panics = { self.panics.lock().take_if(|thread| std::thread::current().name() == Some(thread)) };
        assert!(panics.is_none(), "as the test wants");
        if let Some((thread, left)) = self.refused.lock().as_mut()
            && std::thread::current().name() == Some(thread)
        {
            if *left == 0 {
                return Err(KvError::Full { store: "memory".into() });
            }
            *left -= 1;
        }
        let mut log = self.log.lock();
        self.inner.commit(batch.clone())?;
        log.batches.push(batch);
        Ok(())
    }

    fn flush(&self) -> Result<(), KvError> {
        if self.refuses_flushes.load(Ordering::SeqCst) {
            return Err(KvError::Full { store: "memory".into() });
        }
        let mut log = self.log.lock();
        log.flushed = log.batches.len();
        Ok(())
    }
}

pub struct World<K: Kv = RecordingKv> {
    /// Runs transfers as long as the volume lives.
    pub runtime: tokio::runtime::Runtime,
    pub nodes: Members,
    pub kv: Arc<K>,
    pub volume: Arc<Volume>,
}

/// `count` memory nodes.
pub fn memory_nodes(count: u128) -> Members {
    (1..=count)
        .map(|i| {
            let name = format!("n{i}");
            let id = NodeId(i);
            let node: Arc<dyn Node> =
                Arc::new(MemoryNode::new(&name, NodeIdentity { volume: VOLUME, node: id }, NODE_BYTES));
            let record = NodeRecord {
                url: format!("memory:{name}"),
                domain: name.clone(),
                name,
                state: NodeState::Active,
                weight: 1,
                secret: Default::default(),
                limits: Default::default(),
            };
            (id, record, node)
        })
        .collect()
}

impl World {
    pub fn new(code: &str, node_count: u128) -> World {
        let (kv, nodes) = (Arc::new(RecordingKv::default()), memory_nodes(node_count));
        World::format(&kv, code, &nodes);
        Self::open(kv, nodes)
    }
}

impl<K: Kv + 'static> World<K> {
    /// Makes a volume in an empty engine.
    pub fn format(kv: &Arc<K>, code: &str, nodes: &Members) {
        let record = VolumeRecord { volume: VOLUME, created_ms: 0, default_policy: PolicyId(0) };
        let policy = PolicyRecord::of(code, Some(1));
        Store::format(kv.clone(), &record, &policy, Timestamp::default(), &Env::system())
            .expect("an empty engine can be formatted");
        let store = Store::open(kv.clone(), &Env::system()).expect("it was formatted");
        for (id, record, _) in nodes {
            store.add_node(*id, record).expect("names are distinct");
        }
    }

    /// Opens a volume over what is there, as a mount does.
    pub fn open(kv: Arc<K>, nodes: Members) -> World<K> {
        Self::open_with(kv, nodes, Settings::default())
    }

    /// The same, with these settings of the volume.
    pub fn open_with(kv: Arc<K>, nodes: Members, settings: Settings) -> World<K> {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
        let fleet = Arc::new(Fleet::new(nodes.clone(), Default::default(), &Env::system()));
        let transfer = Transfer::new(VOLUME, fleet, weft_transfer::Settings::default(), runtime.handle().clone());
        let members = nodes.clone();
        let volume = Volume::start(
            Store::open(kv.clone(), &Env::system()).expect("it was formatted"),
            transfer,
            Box::new(move |_| Ok(members.clone())),
            runtime.handle().clone(),
            settings,
        )
        .expect("a volume over sound metadata starts");
        World { runtime, nodes, kv, volume }
    }

    /// The metadata is consistent.
    pub fn fsck(&self) {
        let findings = weft_meta::fsck::check(self.volume.store(), &mut |_| {}).expect("metadata can be read");
        assert!(findings.is_clean(), "fsck: {findings:#?}");
    }
}
