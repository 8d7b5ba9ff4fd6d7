//! The machine's metadata as processes of it see it: what SQLite's engine promises (`weft_meta::engines::sqlite`), in memory.
//!
//! The owner's commits stay in its own memory until they are flushed, in their order; others see what is flushed. A batch that
//! depends on what others do is written through. A process that is killed loses what it had not flushed, or the last part of it: a flush
//! may have been under way.

use crate::ambush::{ProcessId, Step};
use crate::scheduler::Scheduler;
use parking_lot::Mutex;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use weft_env::sync::{Sender, channel};
use weft_env::turns;
use weft_env::{Clock, Env};
use weft_format::records::SegmentRecord;
use weft_format::{NodeId, SegmentId, ShardKey};
use weft_meta::Store;
use weft_meta::engines::memory::MemorySnapshot;
use weft_meta::engines::{MemoryKv, is_written_through};
use weft_meta::keys::{Key, SHARED, Table};
use weft_meta::kv::{Batch, Kv, KvError, Snapshot};

/// A flush takes up to so long.
const FLUSH_US_MAX: u64 = 3_000;
/// What is committed is flushed after this at the latest.
const FLUSH_EVERY: Duration = Duration::from_millis(100);

/// The metadata of a volume, on a disk.
#[derive(Default)]
pub struct MetadataDisk {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// What is on the disk, and what others than the owner see.
    file: MemoryKv,
    owner: Option<Owner>,
    next_owner: u64,
    /// Commits find no room.
    is_full: bool,
}

struct Owner {
    number: u64,
    /// What it sees itself.
    own: MemoryKv,
    /// Committed and not flushed.
    behind: Vec<Batch>,
    /// How many were ever committed, and flushed.
    committed: u64,
    flushed: u64,
}

impl Owner {
    /// Its number, and how many batches it has committed and flushed.
    fn counts(&self) -> (u64, u64, u64) {
        (self.number, self.committed, self.flushed)
    }
}

impl MetadataDisk {
    /// A process opens it as the owner. `None`: another owns it.
    #[must_use]
    pub fn own(self: &Arc<Self>, process: ProcessId, env: &Env) -> Option<Arc<SimKv>> {
        let mut state = self.state.lock();
        if state.owner.is_some() {
            return None;
        }
        state.next_owner += 1;
        let number = state.next_owner;
        let own = state.file.fork();
        state.owner = Some(Owner { number, own, behind: Vec::new(), committed: 0, flushed: 0 });
        drop(state);
        let (work, works) = channel();
        let kv = Arc::new(SimKv { disk: self.clone(), process, owner: Some((number, work)), clock: env.clock.clone() });
        let flushes = Arc::downgrade(&kv);
        let clock = env.clock.clone();
        let body = move || {
            while works.recv().is_some() {
                clock.block(FLUSH_EVERY);
                works.try_iter().for_each(drop);
                let Some(kv) = flushes.upgrade() else { return };
                kv.flush_soon();
            }
        };
        env.spawner.thread("flusher", Box::new(body)).expect("a fibre");
        Some(kv)
    }

    /// A process opens it beside the owner.
    #[must_use]
    pub fn share(self: &Arc<Self>, process: ProcessId, env: &Env) -> Arc<SimKv> {
        Arc::new(SimKv { disk: self.clone(), process, owner: None, clock: env.clock.clone() })
    }

    /// The owner has ended, however it did: what it had not flushed is gone.
    pub fn disown(&self) {
        self.state.lock().owner = None;
    }

    /// The owner is killed: of what it had not flushed some first commits are on the disk, since any moment may be that of a flush.
    pub fn crash(&self, scheduler: &Scheduler) {
        let mut state = self.state.lock();
        if let Some((number, committed, flushed)) = state.owner.as_ref().map(Owner::counts) {
            let behind = committed - flushed;
            let kept = if scheduler.chance(500) { behind } else { scheduler.below(behind + 1) };
            // It is the owner.
            let _ = state.flush(number, flushed + kept);
        }
        state.owner = None;
    }

    /// Is there room?
    pub fn set_full(&self, is_full: bool) {
        self.state.lock().is_full = is_full;
    }

    /// What is on it.
    #[must_use]
    pub fn durable(&self) -> MemoryKv {
        self.state.lock().file.fork()
    }

    /// Does what is on it name this shard of a living segment, on this node? Shards of merged segments have other names and are left out.
    #[must_use]
    pub fn is_needed(&self, key: ShardKey, node: NodeId) -> bool {
        let Ok(store) = Store::open(Arc::new(self.durable()), &Env::system()) else { return false };
        let Ok(Some(record)) = store.segment(key.segment) else { return false };
        let location = record.shards.get(key.index.as_usize()).and_then(Option::as_ref);
        location.is_some_and(|location| location.node == node && location.key(key.segment, key.index) == key)
            && store.live_bytes(key.segment).is_ok_and(|bytes| bytes > 0)
    }

    /// What its owner sees, or what is on it.
    #[must_use]
    pub fn latest(&self) -> MemoryKv {
        let state = self.state.lock();
        state.owner.as_ref().map_or(&state.file, |owner| &owner.own).fork()
    }
}

impl State {
    /// Writes what the owner committed first, until this number of commits is flushed, counted since it became the owner.
    fn flush(&mut self, number: u64, committed: u64) -> Result<(), KvError> {
        let Some(owner) = self.owner.as_mut().filter(|owner| owner.number == number) else { return Err(gone()) };
        let count = committed.saturating_sub(owner.flushed).min(owner.behind.len() as u64);
        for batch in owner.behind.drain(..count as usize) {
            self.file.commit(Batch { writes: batch.writes, deltas: batch.deltas, ..Batch::default() })?;
        }
        owner.flushed += count;
        Ok(())
    }
}

fn gone() -> KvError {
    KvError::Failed { store: "the simulated disk".into(), detail: "this process does not own it".into() }
}

fn step_of(batch: &Batch) -> Step {
    let changes = |table: Table| batch.changed_keys().any(|key| key.first() == Some(&(table as u8)));
    match (changes(Table::Segment), changes(Table::Journal)) {
        (true, true) => Step::JournalCommit,
        (true, false) => Step::SegmentCommit,
        (false, _) => Step::Commit,
    }
}

/// The segments that a batch writes.
fn segments_of(batch: &Batch) -> Vec<(SegmentId, SegmentRecord)> {
    let written = batch.writes.iter().filter_map(|(key, value)| match (Key::parse(key), value) {
        (Some(Key::Segment(segment)), Some(value)) => Some((segment, SegmentRecord::decode(value).ok()?)),
        _ => None,
    });
    written.collect()
}

/// The disk as one process sees it.
pub struct SimKv {
    disk: Arc<MetadataDisk>,
    process: ProcessId,
    /// Which owner it is, and what it tells its flusher of each commit; `None`: none.
    owner: Option<(u64, Sender<()>)>,
    clock: Arc<dyn Clock>,
}

impl SimKv {
    fn scheduler() -> Rc<Scheduler> {
        crate::scheduler::running()
    }

    fn view(&self) -> Result<MemorySnapshot, KvError> {
        let state = self.disk.state.lock();
        match (&state.owner, &self.owner) {
            (_, None) => Ok(state.file.view()),
            (Some(owner), Some((number, _))) if owner.number == *number => Ok(owner.own.view()),
            _ => Err(gone()),
        }
    }

    /// Flushes all that is committed now, if it owns it still.
    fn flush_soon(&self) {
        let Some((number, _)) = self.owner else { return };
        let mut state = self.disk.state.lock();
        if let Some(committed) = state.owner.as_ref().map(|owner| owner.committed) {
            // Who does not own it any more has nothing to flush.
            let _ = state.flush(number, committed);
        }
    }

    /// Complains where segments that were committed a moment ago have a shard on a node that the volume does not have.
    fn check_nodes(&self, segments: &[(SegmentId, SegmentRecord)]) {
        let Ok(view) = self.view() else { return };
        for (segment, record) in segments {
            for node in record.shards.iter().flatten().map(|shard| shard.node) {
                if view.get(&Key::Node(node).encode()).is_ok_and(|node| node.is_none()) {
                    let complaint = format!("{segment} is committed with a shard on {node}, which is no node any more");
                    Self::scheduler().complain(complaint);
                }
            }
        }
    }

    /// Commits a batch: through to the disk, or behind others that are to be flushed.
    fn write(&self, batch: Batch) -> Result<(), KvError> {
        let Some((number, work)) = self.owner.as_ref().filter(|_| !is_written_through(&batch, SHARED)) else {
            self.clock.block(Duration::from_micros(Self::scheduler().below(FLUSH_US_MAX)));
            return self.write_through(batch);
        };
        let mut state = self.disk.state.lock();
        let Some(owner) = state.owner.as_mut().filter(|owner| owner.number == *number) else { return Err(gone()) };
        owner.own.commit(batch.clone())?;
        owner.behind.push(batch);
        owner.committed += 1;
        drop(state);
        // A flusher that has ended flushes nothing.
        let _ = work.send(());
        Ok(())
    }

    fn write_through(&self, batch: Batch) -> Result<(), KvError> {
        let mut state = self.disk.state.lock();
        if let Some((number, _)) = self.owner {
            let committed = state.owner.as_ref().map_or(0, |owner| owner.committed);
            state.flush(number, committed)?;
        }
        let changed: Vec<Vec<u8>> = batch.changed_keys().cloned().collect();
        state.file.commit(batch)?;
        let State { file, owner, .. } = &mut *state;
        if let Some(owner) = owner {
            let view = file.view();
            let value = |key: Vec<u8>| view.get(&key).map(|value| (key, value));
            let writes = changed.into_iter().map(value).collect::<Result<_, _>>()?;
            owner.own.commit(Batch { writes, ..Batch::default() })?;
        }
        Ok(())
    }
}

impl Kv for SimKv {
    fn snapshot(&self) -> Result<Box<dyn Snapshot + '_>, KvError> {
        turns::pass();
        Ok(Box::new(self.view()?))
    }

    fn commit(&self, batch: Batch) -> Result<(), KvError> {
        if self.disk.state.lock().is_full {
            turns::pass();
            return Err(KvError::Full { store: "the simulated disk".into() });
        }
        self.commit_freeing(batch)
    }

    fn commit_freeing(&self, batch: Batch) -> Result<(), KvError> {
        turns::pass();
        let step = step_of(&batch);
        Self::scheduler().reach(self.process, step, false);
        let segments = segments_of(&batch);
        self.write(batch)?;
        self.check_nodes(&segments);
        Self::scheduler().reach(self.process, step, true);
        turns::pass();
        Ok(())
    }

    fn flush(&self) -> Result<(), KvError> {
        let Some((number, _)) = self.owner else { return Ok(()) };
        let committed = self.disk.state.lock().owner.as_ref().map_or(0, |owner| owner.committed);
        self.clock.block(Duration::from_micros(Self::scheduler().below(FLUSH_US_MAX)));
        self.disk.state.lock().flush(number, committed)?;
        turns::pass();
        Ok(())
    }
}
