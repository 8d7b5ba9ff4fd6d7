//! The engine: what all transfers of a mount or daemon share.

use crate::algebra::Algebra;
use crate::cache::Cache;
use crate::fleet::{Fleet, no_member, timed_out};
use crate::hedging::Purse;
use crate::scheduler::{Hedging, Profile};
use crate::trace::{Event, Tracer};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use weft_format::{NodeId, VolumeId};
use weft_nodes::{Node, NodeError};

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
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            cache_bytes: 256 << 20,
            inflight_bytes: 512 << 20,
            node_deadline_ms: 10_000,
            profile: Profile::default(),
        }
    }
}

/// What a call's bytes add to its deadline: 1 MB/s, the slowest link worth storing on.
pub const SLOWEST_BYTES_PER_MS: u64 = 1_000;

/// Bytes in flight are counted in units of this many: semaphores count in 32 bits.
const UNIT_BYTES: u64 = 4096;

/// Work on fewer bytes than this stays on its thread; handing it to another costs tens of microseconds, as much as encoding
/// half a MiB.
pub(crate) const INLINE_BYTES: u64 = 512 << 10;

/// Moves segments. Cheap to clone; all clones are one engine.
///
/// Its methods may be awaited on any runtime thread, or by `block_on` of `runtime`'s handle on a thread of its own.
#[derive(Clone)]
pub struct Transfer {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) volume: VolumeId,
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) settings: Settings,
    pub(crate) runtime: Handle,
    pub(crate) algebra: Algebra,
    pub(crate) cache: Arc<Cache>,
    pub(crate) hedging: Purse,
    pub(crate) tracer: Tracer,
    inflight: Arc<Semaphore>,
    inflight_units: u32,
}

impl Transfer {
    /// An engine for one volume. `runtime` runs what outlives a call: prefetches, laggards' puts, probes, long encodes.
    pub fn new(volume: VolumeId, fleet: Arc<Fleet>, settings: Settings, runtime: Handle) -> Self {
        let inflight_units = u32::try_from(settings.inflight_bytes / UNIT_BYTES).unwrap_or(u32::MAX).max(1);
        let extra_percent = match settings.profile.hedging {
            Hedging::Late { extra_percent } => extra_percent.into(),
            Hedging::Progress { .. } => 0,
        };
        let inner = Inner {
            volume,
            fleet,
            settings,
            runtime,
            algebra: Algebra::default(),
            cache: Arc::new(Cache::new(settings.cache_bytes)),
            hedging: Purse::new(extra_percent),
            tracer: Tracer::default(),
            inflight: Arc::new(Semaphore::new(inflight_units as usize)),
            inflight_units,
        };
        Self { inner: Arc::new(inner) }
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
    /// Waits until `bytes` more may be in memory; holds them until dropped.
    pub(crate) async fn reserve(&self, bytes: u64) -> OwnedSemaphorePermit {
        let units = bytes.div_ceil(UNIT_BYTES).min(u64::from(self.inflight_units)) as u32;
        self.inflight.clone().acquire_many_owned(units).await.expect("the semaphore is never closed")
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
        let seat = self.fleet.seat(node).ok_or_else(|| no_member(node))?;
        let deadline = self.deadline(bytes);
        let outcome = match timeout(deadline, call(seat.node.clone())).await {
            Ok(outcome) => outcome,
            Err(_) => Err(timed_out(&seat.name, deadline.as_millis() as u64)),
        };
        self.fleet.report_seat(&seat, outcome.as_ref().map(|_| ()).map_err(|error| error.kind));
        outcome
    }

    /// How long a call that moves `bytes` may take.
    pub(crate) fn deadline(&self, bytes: u64) -> Duration {
        Duration::from_millis(self.settings.node_deadline_ms + bytes / SLOWEST_BYTES_PER_MS)
    }
}
