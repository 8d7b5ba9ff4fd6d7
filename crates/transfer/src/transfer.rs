//! The engine: what all transfers of a mount or daemon share.

use crate::algebra::Algebra;
use crate::cache::Cache;
use crate::chains::Chains;
use crate::disk_cache::{DiskCache, DiskCacheError, DiskRoom};
use crate::error::timed_out;
use crate::fleet::{Fleet, NodeHandle, no_member};
use crate::hedge_budget::HedgeBudget;
use crate::resting_helpers::RestingHelpers;
use crate::scheduler::{Hedging, Profile};
use crate::throttle::{BackgroundTurn, ForegroundCall};
use crate::trace::{Event, Tracer};
use crate::uplink::Uplink;
use std::future::Future;
use std::num::{NonZeroU32, NonZeroU64};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use weft_env::Runtime;
use weft_env::planted::{Planted, has_planted};
use weft_format::records::{SegmentRecord, ShardLocation};
use weft_format::{Generation, NodeId, VolumeId};
use weft_nodes::{Class, Node, NodeError, NodeErrorKind, Rate};

pub use crate::uplink::SLOWEST_BYTES_PER_MS;

/// Plain settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Bytes of decoded data kept for reads; 0: none.
    pub cache_bytes: u64,
    /// Bytes in memory for writes, reads and rebuilds under way, all together; more wait their turn. One that needs more than
    /// this alone runs alone.
    pub inflight_bytes: u64,
    /// A call to a node that takes longer has failed; large calls are given more (see [`SLOWEST_BYTES_PER_MS`]).
    pub node_deadline_ms: u64,
    /// How downloads go about it.
    pub profile: Profile,
    /// Shard bytes sent and received, all nodes together; `None`: as fast as it goes. What is begun is done at once and paid
    /// for by those who come next, so it is kept over a few segments, not over each moment.
    pub bytes_per_second: Option<NonZeroU64>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            cache_bytes: 256 << 20,
            inflight_bytes: 512 << 20,
            node_deadline_ms: 10_000,
            profile: Profile::default(),
            bytes_per_second: None,
        }
    }
}

/// A busy node is waited for this long, from when it last stored something on: after that it counts as away.
const fn busy_max(class: Class) -> Duration {
    match class {
        Class::Foreground => Duration::from_secs(30),
        // Nobody waits for it.
        Class::Background => Duration::from_secs(60),
    }
}

/// ... and no longer than this many times that, though it does store things.
const BUSY_FACTOR_MAX: u32 = 10;

/// A node that says it is busy is asked again after this, then after twice as long, ...
const BUSY_PAUSE: Duration = Duration::from_millis(50);
/// ... up to this.
const BUSY_PAUSE_MAX: Duration = Duration::from_secs(1);

/// A node that is late, and does not say within this time that it is there, is silent.
const LIVING_DEADLINE: Duration = Duration::from_secs(2);

/// Bytes in flight are counted in units of this many: semaphores count in 32 bits.
const UNIT_BYTES: u64 = 4096;

/// Work on fewer bytes than this stays on its thread; handing it to another costs tens of microseconds, as much as encoding
/// half a MiB.
pub(crate) const INLINE_BYTES: u64 = 512 << 10;

/// Moves segments. Cheap to clone; all clones are one engine.
///
/// What users wait for is the foreground; [`Self::in_background`] gives the same engine for what nobody waits for.
///
/// Its methods may be awaited on any runtime thread, or on a thread of its own by [`Self::block_on`].
#[derive(Clone)]
pub struct Transfer {
    pub(crate) inner: Arc<Inner>,
}

/// What clones share; a copy of it for each class.
#[derive(Clone)]
pub(crate) struct Inner {
    pub(crate) volume: VolumeId,
    pub(crate) class: Class,
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) settings: Settings,
    pub(crate) runtime: Runtime,
    pub(crate) algebra: Arc<Algebra>,
    pub(crate) cache: Arc<Cache>,
    pub(crate) disk: Option<Arc<DiskCache>>,
    pub(crate) hedge_budget: Arc<HedgeBudget>,
    pub(crate) chains: Arc<Chains>,
    pub(crate) resting_helpers: Arc<RestingHelpers>,
    pub(crate) uplink: Arc<Uplink>,
    pub(crate) tracer: Arc<Tracer>,
    /// Why nothing on nodes may be changed any more.
    halted: Arc<OnceLock<String>>,
    rate: Option<Arc<Rate>>,
    inflight: Arc<Semaphore>,
    inflight_units: u32,
    /// The background never holds more than half of the memory.
    background_inflight: Arc<Semaphore>,
}

impl Transfer {
    /// An engine for one volume. `runtime` runs what outlives a call: prefetches, laggards' puts, probes, long encodes.
    pub fn new(volume: VolumeId, fleet: Arc<Fleet>, settings: Settings, runtime: impl Into<Runtime>) -> Self {
        let inflight_units = u32::try_from(settings.inflight_bytes / UNIT_BYTES).unwrap_or(u32::MAX).max(1);
        let extra_percent = match settings.profile.hedging {
            Hedging::Late { extra_percent } => extra_percent.into(),
            Hedging::Progress { .. } => 0,
        };
        let inner = Inner {
            volume,
            class: Class::Foreground,
            fleet,
            settings,
            runtime: runtime.into(),
            algebra: Arc::default(),
            cache: Arc::new(Cache::new(settings.cache_bytes)),
            disk: None,
            hedge_budget: Arc::new(HedgeBudget::new(extra_percent)),
            chains: Arc::default(),
            resting_helpers: Arc::default(),
            uplink: Arc::default(),
            tracer: Arc::default(),
            halted: Arc::default(),
            rate: settings.bytes_per_second.map(|bytes_per_second| Arc::new(Rate::new(bytes_per_second))),
            inflight: Arc::new(Semaphore::new(inflight_units as usize)),
            inflight_units,
            background_inflight: Arc::new(Semaphore::new(background_units(inflight_units) as usize)),
        };
        Self { inner: Arc::new(inner) }
    }

    /// The same, keeping what users read on a disk of this machine.
    ///
    /// # Errors
    /// [`DiskCacheError`].
    pub fn with_disk_cache(self, room: &DiskRoom) -> Result<Self, DiskCacheError> {
        let disk = Some(Arc::new(DiskCache::open(room, self.inner.volume)?));
        Ok(Self { inner: Arc::new(Inner { disk, ..Inner::clone(&self.inner) }) })
    }

    /// The same engine, for what nobody waits for: it takes a share of each node's time and of the limits while there is a
    /// foreground, and everything while there is none.
    pub fn in_background(&self) -> Self {
        Self { inner: Arc::new(Inner { class: Class::Background, ..Inner::clone(&self.inner) }) }
    }

    /// The same engine, which pays for what it moves at this rate. Engines that share one move no more than it allows, all together and one after
    /// the other.
    pub fn with_rate(self, rate: Option<Arc<Rate>>) -> Self {
        Self { inner: Arc::new(Inner { rate, ..Inner::clone(&self.inner) }) }
    }

    /// Blocks this thread, which must be none of the runtime's, until `work` is done. Answers of daemons that `work` waits for wake this thread and no
    /// other.
    pub fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        match self.inner.runtime.tokio() {
            Some(tokio) => weft_nodes::block_on(tokio, work),
            None => self.inner.runtime.block_on(work),
        }
    }

    /// Where tasks run.
    pub fn runtime(&self) -> &Runtime {
        &self.inner.runtime
    }

    /// From now on stores and removes nothing, for this reason: the metadata is not the volume's any more.
    pub fn halt(&self, why: &str) {
        // Who was first has said why.
        let _ = self.inner.halted.set(why.to_owned());
    }

    /// From now on keeps what happens in downloads.
    pub fn start_trace(&self) {
        self.inner.tracer.start();
    }

    /// What happened in downloads since [`Self::start_trace`]; no more is kept.
    pub fn finish_trace(&self) -> Vec<Event> {
        self.inner.tracer.finish()
    }

    /// The live nodes.
    pub fn fleet(&self) -> &Arc<Fleet> {
        &self.inner.fleet
    }
}

impl Inner {
    /// The number of a new attempt to store shards of a segment: one that no shard of its record bears.
    pub(crate) fn new_attempt(&self, record: &SegmentRecord) -> Generation {
        if has_planted(Planted::NameUsedTwice) {
            return Generation(record.generation.0 + 1);
        }
        let is_free = |attempt: &Generation| {
            *attempt > Generation::FIRST && record.shards.iter().flatten().all(|shard| shard.generation != *attempt)
        };
        std::iter::repeat_with(|| Generation(self.fleet.env().rng.next_u32()))
            .find(is_free)
            .expect("it is drawn until one is free")
    }

    /// The number of an attempt to store a shard again, earlier than that of `location`; `None`: there is none.
    pub(crate) fn attempt_before(&self, location: &ShardLocation) -> Option<Generation> {
        let first = Generation::FIRST.0 + 1;
        let count = NonZeroU32::new(location.generation.0.saturating_sub(first))?;
        Some(Generation(first + self.fleet.env().rng.next_u32() % count))
    }

    /// Waits until `moved_bytes` may travel to and from `nodes` and `held_bytes` be in memory; they are until it is dropped.
    pub(crate) async fn admit(
        &self,
        nodes: impl Iterator<Item = NodeId>,
        held_bytes: u64,
        moved_bytes: u64,
    ) -> Admission {
        if let Some(rate) = &self.rate {
            rate.pay(self.class, moved_bytes).await;
        }
        let in_background = self.class == Class::Background;
        let own = match in_background {
            true => Some(acquire(&self.background_inflight, held_bytes, background_units(self.inflight_units)).await),
            false => None,
        };
        let memory = acquire(&self.inflight, held_bytes, self.inflight_units).await;
        let turn = match in_background {
            true => Some(BackgroundTurn::begin(self.fleet.traffic(nodes), &self.fleet.env().clock).await),
            false => None,
        };
        Admission { _turn: turn, _memory: (memory, own) }
    }

    /// More travelled than was asked for: who comes next waits for it.
    pub(crate) fn charge(&self, bytes: u64) {
        if let Some(rate) = &self.rate {
            rate.charge(self.class, bytes);
        }
    }

    /// As [`Self::call`], of a call that changes what the node holds.
    pub(crate) async fn change<T, F>(
        &self,
        node: NodeId,
        bytes: u64,
        call: impl FnOnce(Arc<dyn Node>) -> F + Send,
    ) -> Result<T, NodeError>
    where
        F: Future<Output = Result<T, NodeError>> + Send,
    {
        self.may_change(node)?;
        self.call(node, bytes, call).await
    }

    fn may_change(&self, node: NodeId) -> Result<(), NodeError> {
        match self.halted.get() {
            Some(why) => Err(NodeError::new(NodeErrorKind::Denied, &self.fleet.name(node), why.as_str())),
            None => Ok(()),
        }
    }

    /// One call to a node, that moves about `bytes`: within its deadline, and reported.
    pub(crate) async fn call<T, F>(
        &self,
        node: NodeId,
        bytes: u64,
        call: impl FnOnce(Arc<dyn Node>) -> F + Send,
    ) -> Result<T, NodeError>
    where
        F: Future<Output = Result<T, NodeError>> + Send,
    {
        self.call_within(node, bytes, Duration::ZERO, call).await
    }

    /// As [`Self::call`], of a node that may be busy. While it says so it is asked again, and while it answers whether it is there
    /// it is waited for: as long as [`busy_max`] says, and longer while it stores what it is given.
    pub(crate) async fn call_while_busy<T, F>(
        &self,
        node: NodeId,
        bytes: u64,
        call: impl Fn(Arc<dyn Node>) -> F + Send + Sync,
    ) -> Result<T, NodeError>
    where
        F: Future<Output = Result<T, NodeError>> + Send,
    {
        self.again_while_busy(node, bytes, || Ok(()), call).await
    }

    /// As [`Self::call_while_busy`], of a call that changes what the node holds.
    pub(crate) async fn change_while_busy<T, F>(
        &self,
        node: NodeId,
        bytes: u64,
        call: impl Fn(Arc<dyn Node>) -> F + Send + Sync,
    ) -> Result<T, NodeError>
    where
        F: Future<Output = Result<T, NodeError>> + Send,
    {
        self.again_while_busy(node, bytes, || self.may_change(node), call).await
    }

    /// `may`: before each call.
    async fn again_while_busy<T, F>(
        &self,
        node: NodeId,
        bytes: u64,
        may: impl Fn() -> Result<(), NodeError> + Send + Sync,
        call: impl Fn(Arc<dyn Node>) -> F + Send + Sync,
    ) -> Result<T, NodeError>
    where
        F: Future<Output = Result<T, NodeError>> + Send,
    {
        let (began, mut pause) = (self.fleet.clock().now(), BUSY_PAUSE);
        loop {
            may()?;
            let outcome = self.call_within(node, bytes, busy_max(self.class), &call).await;
            let Err(error) = &outcome else { return outcome };
            if error.kind != NodeErrorKind::Busy
                || self.fleet.handle(self.class, node).is_none_or(|handle| self.has_waited(&handle, began))
            {
                return outcome;
            }
            self.fleet.clock().sleep(pause).await;
            pause = (pause * 2).min(BUSY_PAUSE_MAX);
        }
    }

    /// Was a busy node waited for long enough? Then nobody waits for it for a while, unless it stores something.
    pub(crate) fn has_waited(&self, handle: &NodeHandle, began: Instant) -> bool {
        let (now, longest) = (self.fleet.clock().now(), busy_max(self.class));
        if handle.stalls(now) {
            return true;
        }
        let is_over = now.saturating_duration_since(handle.stored_since(began)) >= longest
            || now.saturating_duration_since(began) >= longest * BUSY_FACTOR_MAX;
        if is_over {
            handle.stall(now);
        }
        is_over
    }

    /// One call; the node is waited for `longest` at least as long as it answers whether it is there.
    async fn call_within<T, F>(
        &self,
        node: NodeId,
        bytes: u64,
        longest: Duration,
        call: impl FnOnce(Arc<dyn Node>) -> F + Send,
    ) -> Result<T, NodeError>
    where
        F: Future<Output = Result<T, NodeError>> + Send,
    {
        let handle = self.fleet.handle(self.class, node).ok_or_else(|| no_member(node))?;
        let _foreground = (self.class == Class::Foreground).then(|| ForegroundCall::new(&handle.traffic));
        let _in_flight_bytes = self.uplink.enter(bytes, self.fleet.now_ms());
        let deadline = self.deadline(bytes) + handle.node.held_back(bytes);
        let outcome = match self.within(&handle, deadline, longest, bytes, call(handle.node.clone())).await {
            Ok(outcome) => outcome,
            Err(waited) => Err(timed_out(&handle.name, waited.as_millis() as u64)),
        };
        if outcome.is_ok() {
            self.uplink.moved(bytes, self.fleet.now_ms());
        }
        self.fleet.report_of(&handle, outcome.as_ref().map(|_| ()).map_err(|error| error.kind));
        outcome
    }

    /// The call's outcome; or how long it was waited for, which is longer while much else is under way on this client's uplink.
    async fn within<T>(
        &self,
        handle: &Arc<NodeHandle>,
        deadline: Duration,
        longest: Duration,
        bytes: u64,
        call: impl Future<Output = T> + Send,
    ) -> Result<T, Duration> {
        let clock = self.fleet.clock();
        let (began, mut timeout) = (clock.now(), deadline);
        tokio::pin!(call);
        loop {
            if let Ok(outcome) = clock.timeout_at(began + timeout, &mut call).await {
                return Ok(outcome);
            }
            let longer = deadline + self.uplink.wait(bytes, self.fleet.now_ms());
            if longer > timeout {
                timeout = longer;
                continue;
            }
            let asked = clock.now();
            if longest.is_zero() || self.has_waited(handle, began) {
                return Err(timeout);
            }
            self.fleet.ask_if_there(handle, &self.runtime);
            if let Ok(outcome) = clock.timeout_at(asked + LIVING_DEADLINE, &mut call).await {
                return Ok(outcome);
            }
            if !handle.was_heard_since(asked) {
                return Err(clock.elapsed(began));
            }
            timeout = clock.elapsed(began) + LIVING_DEADLINE;
        }
    }

    /// How long a call that moves `bytes` may take on an uplink of its own.
    pub(crate) fn deadline(&self, bytes: u64) -> Duration {
        Duration::from_millis(self.settings.node_deadline_ms + bytes / SLOWEST_BYTES_PER_MS)
    }
}

/// What lets a transfer go on, until it is dropped.
pub(crate) struct Admission {
    _turn: Option<BackgroundTurn>,
    _memory: (OwnedSemaphorePermit, Option<OwnedSemaphorePermit>),
}

async fn acquire(units: &Arc<Semaphore>, bytes: u64, most_units: u32) -> OwnedSemaphorePermit {
    let wanted = bytes.div_ceil(UNIT_BYTES).min(most_units.into()) as u32;
    units.clone().acquire_many_owned(wanted).await.expect("the semaphore is never closed")
}

/// What the background may hold of so many units.
fn background_units(units: u32) -> u32 {
    (units / 2).max(1)
}
