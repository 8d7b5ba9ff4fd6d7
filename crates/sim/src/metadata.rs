//! The machine's metadata as processes of it see it: what SQLite's engine promises (`weft_meta::engines::sqlite`), in memory.
//!
//! The owner's commits stay in its own memory until they are flushed, in their order; others see what is flushed. A batch that
//! depends on what others do is written through. A process that is killed loses what it had not flushed, or the last part of it: a flush
//! may have been under way.
//!
//! Or an engine that many processes share: each has a session, each request takes its time, and what is committed is durable.

mod feeds;

use crate::ambush::{ProcessId, Step};
use crate::scheduler::Scheduler;
use feeds::{Feeds, News, Quality};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use weft_env::sync::{Sender, channel};
use weft_env::turns;
use weft_env::{Clock, Env};
use weft_format::records::{NodeRecord, NodeState, ReplicaSlot, SEGMENT_BYTES, SegmentRecord};
use weft_format::{NodeId, SegmentId, ShardKey};
use weft_meta::Store;
use weft_meta::engines::memory::{MemoryMember, MemorySnapshot};
use weft_meta::engines::{MemoryKv, is_written_through};
use weft_meta::keys::{Key, SHARED, Table};
use weft_meta::kv::{Batch, Changes, History, Kv, KvError, Page, Sessions, Snapshot};

/// A flush takes up to so long.
const FLUSH_US_MAX: u64 = 3_000;
/// A request to an engine that many share takes up to so long in each direction.
const REQUEST_US_MAX: u64 = 1_500;
/// A session of which nothing is heard is over after this, ...
pub const SILENCE: Duration = Duration::from_secs(20);
/// ... and the engine looks so often.
const LOOKS_EVERY: Duration = Duration::from_secs(1);
/// What is committed is flushed after this at the latest.
const FLUSH_EVERY: Duration = Duration::from_millis(100);
/// Longer than an upload is under way that has lost a message: a node that stores other shards is waited for 300 s.
const CALM: Duration = Duration::from_secs(320);

/// The metadata of a volume, on a disk.
#[derive(Default)]
pub struct MetadataDisk {
    state: Mutex<State>,
    /// Do many change it, each with a session?
    is_shared: bool,
    /// Where the shards are that it names, by the place of their node.
    places: Mutex<Vec<Arc<StoredBytes>>>,
}

/// How much a place has of a shard that should have so much; `None`: nothing.
type StoredBytes = dyn Fn(ShardKey, u64) -> Option<u64> + Send + Sync;

/// The number of a node's place.
#[must_use]
pub fn place_of(node: NodeId) -> usize {
    (node.0 & 0xffff) as usize
}

#[derive(Default)]
struct State {
    /// What is on the disk, and what others than the owner see.
    file: Arc<MemoryKv>,
    owner: Option<Owner>,
    next_owner: u64,
    /// Commits find no room.
    is_full: bool,
    /// The next one finds none.
    refuses_next: bool,
    past: Past,
    /// The sessions of an engine that many share that have not ended by silence, by process.
    sessions: BTreeMap<ProcessId, Vec<i64>>,
    /// The processes whose sessions have ended by silence.
    evicted: BTreeSet<ProcessId>,
    /// What its members hear of each other.
    feeds: Feeds,
}

/// What the file says of its past.
#[derive(Default)]
struct Past {
    lineage: u64,
    /// Transactions.
    count: u64,
    /// The last one that changed each key, ...
    changed: BTreeMap<Vec<u8>, u64>,
    /// ... but for those that changed before this one.
    forgotten: u64,
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
    /// One with a copy of another's metadata.
    #[must_use]
    pub fn of(file: MemoryKv) -> Arc<Self> {
        let state = State { file: Arc::new(file), ..State::default() };
        Arc::new(Self { state: Mutex::new(state), ..Self::default() })
    }

    /// An engine that many processes share. Sessions of processes that are dead or stopped end. How well members hear of each other's
    /// changes is drawn.
    #[must_use]
    pub fn shared(scheduler: &Scheduler) -> Arc<Self> {
        let disk = Arc::new(Self { is_shared: true, ..Self::default() });
        let quality = Quality::of(|end| scheduler.below(end));
        scheduler.tell(|| format!("{quality:?}"));
        disk.state.lock().feeds.quality = quality;
        disk.clone().watch(scheduler, BTreeMap::new());
        disk
    }

    /// Shards may be at this place from now on, which is that of the next node.
    pub fn note_place(&self, stored_bytes: impl Fn(ShardKey, u64) -> Option<u64> + Send + Sync + 'static) {
        self.places.lock().push(Arc::new(stored_bytes));
    }

    /// Do many change it?
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// Ends the sessions of which nothing is heard, now and later. `silent_since` has the processes that were silent already.
    fn watch(self: Arc<Self>, scheduler: &Scheduler, mut silent_since: BTreeMap<ProcessId, Duration>) {
        scheduler.after(LOOKS_EVERY, move || {
            let scheduler = crate::scheduler::running();
            let now = scheduler.now();
            let processes: Vec<ProcessId> = self.state.lock().sessions.keys().copied().collect();
            for process in processes {
                if scheduler.is_alive(process) && !scheduler.is_paused(process) {
                    silent_since.remove(&process);
                } else if now - *silent_since.entry(process).or_insert(now) >= SILENCE {
                    scheduler.tell(|| format!("the session of {process:?} is over"));
                    self.evict(process);
                }
            }
            self.watch(&scheduler, silent_since);
        });
    }

    /// Ends the sessions of a process.
    pub fn evict(&self, process: ProcessId) {
        let mut state = self.state.lock();
        let ended = state.sessions.remove(&process).unwrap_or_default();
        ended.into_iter().for_each(|session| state.file.evict(session));
        state.evicted.insert(process);
        state.feeds.forget(process);
    }

    /// Has the process a session that is not over?
    #[must_use]
    pub fn has_session(&self, process: ProcessId) -> bool {
        self.state.lock().sessions.contains_key(&process)
    }

    /// Had the process a session that is over?
    #[must_use]
    pub fn has_lost_session(&self, process: ProcessId) -> bool {
        self.state.lock().evicted.contains(&process)
    }

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
        let owner = Some((number, work));
        let kv = Arc::new(SimKv { disk: self.clone(), process, owner, member: None, clock: env.clock.clone() });
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

    /// A process opens it beside the owner, or beside those that change names, with a session that ends by silence, too.
    #[must_use]
    pub fn share(self: &Arc<Self>, process: ProcessId, env: &Env) -> Arc<SimKv> {
        if self.is_shared {
            self.state.lock().sessions.entry(process).or_default();
        }
        Arc::new(SimKv { disk: self.clone(), process, owner: None, member: None, clock: env.clock.clone() })
    }

    /// A process opens it as one of many that change names.
    #[must_use]
    pub fn join(self: &Arc<Self>, process: ProcessId, env: &Env) -> Arc<SimKv> {
        let mut state = self.state.lock();
        let member = state.file.join();
        state.sessions.entry(process).or_default().extend(member.own());
        drop(state);
        let member = Some(member);
        Arc::new(SimKv { disk: self.clone(), process, owner: None, member, clock: env.clock.clone() })
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

    /// It is lost, and what is in the memory of its owner with it. Another takes its place, which is empty.
    pub fn lose(&self) {
        let mut state = self.state.lock();
        let lineage = state.past.lineage + 1;
        *state = State { next_owner: state.next_owner, past: Past { lineage, ..Past::default() }, ..State::default() };
    }

    /// Puts on it what was read from elsewhere.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn load(&self, writes: Vec<ReplicaSlot>) -> Result<(), KvError> {
        self.state.lock().apply(Batch { writes, ..Batch::default() })
    }

    /// The next commit finds no room.
    pub fn refuse_next(&self) {
        self.state.lock().refuses_next = true;
    }

    /// What is on it.
    #[must_use]
    pub fn durable(&self) -> MemoryKv {
        self.state.lock().file.fork()
    }

    /// Does what is on it name this shard of a living segment, on this node? The name of a merged segment's shard is that of the segment before.
    #[must_use]
    pub fn is_needed(&self, key: ShardKey, node: NodeId) -> bool {
        let Ok(store) = Store::open(Arc::new(self.durable()), &Env::system()) else { return false };
        let Ok(aliases) = store.aliases(key.segment) else { return false };
        let owner = aliases.into_iter().find(|(shard, _)| *shard == key).map_or(key.segment, |(_, owner)| owner);
        let Ok(Some(record)) = store.segment(owner) else { return false };
        record.has_at(owner, node, key) && store.live_bytes(owner).is_ok_and(|bytes| bytes > 0)
    }

    /// What its owner sees, or what is on it.
    #[must_use]
    pub fn latest(&self) -> MemoryKv {
        let state = self.state.lock();
        state.owner.as_ref().map_or(&*state.file, |owner| &owner.own).fork()
    }
}

impl State {
    /// Writes what the owner committed first, until this number of commits is flushed, counted since it became the owner.
    fn flush(&mut self, number: u64, committed: u64) -> Result<(), KvError> {
        let Some(owner) = self.owner.as_mut().filter(|owner| owner.number == number) else { return Err(gone()) };
        let count = committed.saturating_sub(owner.flushed).min(owner.behind.len() as u64);
        owner.flushed += count;
        let flushed: Vec<Batch> = owner.behind.drain(..count as usize).collect();
        for batch in flushed {
            self.apply(Batch { writes: batch.writes, deltas: batch.deltas, ..Batch::default() })?;
        }
        Ok(())
    }

    /// One transaction of the file.
    fn apply(&mut self, batch: Batch) -> Result<(), KvError> {
        let changed: Vec<Vec<u8>> = batch.changed_keys().cloned().collect();
        self.file.commit(batch)?;
        self.past.count += 1;
        let count = self.past.count;
        self.past.changed.extend(changed.into_iter().map(|key| (key, count)));
        Ok(())
    }
}

fn gone() -> KvError {
    KvError::Failed { store: "the simulated disk".into(), detail: "this process does not own it".into() }
}

/// What kinds of step the commit of a batch is.
fn steps_of(batch: &Batch, segments: &[WrittenSegment]) -> Vec<Step> {
    let changes = |table: Table| batch.changed_keys().any(|key| key.first() == Some(&(table as u8)));
    let (has_segment, has_journal) = (changes(Table::Segment), changes(Table::Journal));
    let is_whole = |written: &WrittenSegment| written.record.geometry.data_bytes >= *SEGMENT_BYTES.start();
    let mut steps = vec![Step::Commit];
    steps.extend(has_segment.then_some(Step::SegmentCommit));
    steps.extend((has_segment && has_journal).then_some(Step::JournalCommit));
    steps.extend(segments.iter().any(is_whole).then_some(Step::WholeSegmentCommit));
    steps
}

/// A segment that a batch writes.
struct WrittenSegment {
    segment: SegmentId,
    record: SegmentRecord,
    /// The one that it had before.
    before: Option<SegmentRecord>,
}

/// Has a node been given up, and not been seen since?
fn has_lost_nodes(view: &MemorySnapshot) -> bool {
    let range = Table::Node.range();
    let nodes = view.scan(&range.start, &range.end, usize::MAX).unwrap_or_default();
    let mut records = nodes.iter().filter_map(|(_, value)| NodeRecord::decode(value).ok());
    records.any(|record| record.state == NodeState::Lost)
}

/// The disk as one process sees it.
pub struct SimKv {
    disk: Arc<MetadataDisk>,
    process: ProcessId,
    /// Which owner it is, and what it tells its flusher of each commit; `None`: none.
    owner: Option<(u64, Sender<()>)>,
    /// Its session, if it changes names beside others.
    member: Option<MemoryMember>,
    clock: Arc<dyn Clock>,
}

impl SimKv {
    /// A moment at which others go on: here a request is on its way, if there is one.
    fn pass(&self) {
        match self.disk.is_shared {
            true => self.clock.block(Duration::from_micros(Self::scheduler().below(REQUEST_US_MAX))),
            false => turns::pass(),
        }
    }

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

    /// The segments that a batch writes.
    fn segments_of(&self, batch: &Batch) -> Vec<WrittenSegment> {
        let view = self.view();
        let written = batch.writes.iter().filter_map(|(key, value)| {
            let (Some(Key::Segment(segment)), Some(value)) = (Key::parse(key), value) else { return None };
            let before = view.as_ref().ok()?.get(key).ok()?;
            let before = before.and_then(|before| SegmentRecord::decode(&before).ok());
            Some(WrittenSegment { segment, record: SegmentRecord::decode(value).ok()?, before })
        });
        written.collect()
    }

    /// Complains where segments that were committed a moment ago have a shard on a node that the volume does not have, or where it was never
    /// stored, or two on one node, or lack one though no node was away.
    fn check_segments(&self, segments: &[WrittenSegment]) {
        let Ok(view) = self.view() else { return };
        let node = |node| view.get(&Key::Node(node).encode()).ok().flatten();
        for WrittenSegment { segment, record, before } in segments {
            for node in record.shards.iter().flatten().map(|shard| shard.node).filter(|id| node(*id).is_none()) {
                let complaint = format!("{segment} is committed with a shard on {node}, which is no node any more");
                Self::scheduler().complain(complaint);
            }
            let lacks = record.shards.iter().any(Option::is_none);
            if lacks && before.is_none() && Self::scheduler().is_calm(self.process, CALM) && !has_lost_nodes(&view) {
                Self::scheduler().complain(format!("{segment} is committed with shards missing, and no node was away"));
            }
            let mut nodes: Vec<NodeId> = record.nodes().collect();
            nodes.sort_unstable();
            if nodes.windows(2).any(|pair| pair[0] == pair[1]) {
                let places = |record: &SegmentRecord| -> Vec<Option<usize>> {
                    record.shards.iter().map(|shard| shard.as_ref().map(|shard| place_of(shard.node))).collect()
                };
                Self::scheduler().complain(format!(
                    "{segment} is committed by {:?} with two shards on one node: on places {:?}, before {:?}",
                    self.process,
                    places(record),
                    before.as_ref().map(places)
                ));
            }
            self.check_stored(*segment, record, before.as_ref());
        }
    }

    /// Complains of shards that a record names, and the one before did not, which are not where it says, and of those of another length.
    fn check_stored(&self, segment: SegmentId, record: &SegmentRecord, before: Option<&SegmentRecord>) {
        let places = self.disk.places.lock().clone();
        for (_, key, location) in record.located(segment) {
            let place = place_of(location.node);
            let Some(stored_bytes) = places.get(place) else { continue };
            let is_new = before.is_none_or(|before| !before.has_at(segment, location.node, key));
            let problem = match stored_bytes(key, record.shard_bytes()) {
                None if is_new => "which it does not have",
                Some(bytes) if bytes != record.shard_bytes() => "which has another length there",
                _ => continue,
            };
            Self::scheduler().complain(format!("{segment} is committed with {key} on place{place}, {problem}"));
        }
    }

    /// Commits a batch: through to the disk, or behind others that are to be flushed.
    fn write(&self, batch: Batch) -> Result<(), KvError> {
        if let Some(member) = &self.member {
            let news = self.disk.state.lock().feeds.news(self.process, &batch, &Self::scheduler());
            member.commit(batch)?;
            news.into_iter().for_each(News::send);
            return Ok(());
        }
        if self.disk.is_shared {
            let state = self.disk.state.lock();
            if state.evicted.contains(&self.process) {
                return Err(KvError::Displaced { sentence: "its session has ended; start it again".into() });
            }
            return state.file.commit(batch);
        }
        let is_shared = |key: &Vec<u8>| SHARED.iter().any(|shared| key.starts_with(shared.prefix));
        if let (None, Some(key)) = (&self.owner, batch.changed_keys().find(|key| !is_shared(key))) {
            // The engine refuses it. Nothing that runs beside the owner may try it, or it would never do what it is for.
            let detail = format!("{:?} changes the key {}, which is the owner's", self.process, key.escape_ascii());
            Self::scheduler().complain(detail.clone());
            return Err(KvError::Failed { store: "the simulated disk".into(), detail });
        }
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
        state.apply(batch)?;
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
        self.pass();
        let view = self.view()?;
        if self.disk.is_shared {
            self.pass();
        }
        Ok(Box::new(view))
    }

    fn commit(&self, batch: Batch) -> Result<(), KvError> {
        if self.disk.state.lock().is_full {
            self.pass();
            return Err(KvError::Full { store: "the simulated disk".into() });
        }
        self.commit_freeing(batch)
    }

    fn commit_freeing(&self, batch: Batch) -> Result<(), KvError> {
        self.pass();
        let segments = self.segments_of(&batch);
        let steps = steps_of(&batch, &segments);
        Self::scheduler().reach(self.process, &steps, false);
        if std::mem::take(&mut self.disk.state.lock().refuses_next) {
            return Err(KvError::Full { store: "the simulated disk".into() });
        }
        self.write(batch)?;
        self.check_segments(&segments);
        Self::scheduler().reach(self.process, &steps, true);
        self.pass();
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

    fn history(&self) -> Option<&dyn History> {
        // That of an engine that many share is not looked at: no replica is kept of it here.
        (!self.disk.is_shared).then_some(self as &dyn History)
    }

    fn sessions(&self) -> Option<&dyn Sessions> {
        self.member.as_ref().map(|_| self as &dyn Sessions)
    }
}

impl History for SimKv {
    fn lineage(&self) -> Result<u64, KvError> {
        Ok(self.disk.state.lock().past.lineage)
    }

    fn last(&self) -> Result<u64, KvError> {
        turns::pass();
        Ok(self.disk.state.lock().past.count)
    }

    fn changes_after(&self, after: u64, keys_max: usize) -> Result<Option<Changes>, KvError> {
        turns::pass();
        let state = self.disk.state.lock();
        let view = state.file.view();
        let keys: Vec<&Vec<u8>> =
            state.past.changed.iter().filter(|(_, count)| **count > after).map(|(key, _)| key).collect();
        if after < state.past.forgotten || keys.len() > keys_max {
            return Ok(None);
        }
        let slots = keys.into_iter().map(|key| Ok((key.clone(), view.get(key)?))).collect::<Result<_, KvError>>()?;
        Ok(Some(Changes { upto: state.past.count, slots }))
    }

    fn page(&self, start: &[u8], bytes_max: usize) -> Result<Page, KvError> {
        turns::pass();
        let state = self.disk.state.lock();
        let mut pairs = state.file.view().scan(start, &[u8::MAX], usize::MAX)?;
        let mut bytes = 0;
        let count = pairs.iter().take_while(|(key, value)| {
            let has_room = bytes < bytes_max;
            bytes += key.len() + value.len();
            has_room
        });
        let count = count.count();
        let next = pairs.get(count).map(|(key, _)| key.clone());
        pairs.truncate(count);
        Ok(Page { upto: state.past.count, pairs, next })
    }

    fn settle(&self) -> Result<(), KvError> {
        self.flush()
    }

    fn forget(&self, upto: u64) -> Result<(), KvError> {
        let mut state = self.disk.state.lock();
        state.past.forgotten = state.past.forgotten.max(upto);
        state.past.changed.retain(|_, count| *count > upto);
        Ok(())
    }
}
