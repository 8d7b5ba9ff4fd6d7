//! The engine: what all transfers of a mount or daemon share.

use crate::fleet::Fleet;
use std::sync::Arc;
use weft_format::VolumeId;

/// Plain settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Bytes of decoded data kept for reads.
    pub cache_bytes: u64,
    /// Bytes of shards in memory for writes, reads and rebuilds under way, all together; more wait their turn.
    pub inflight_bytes: u64,
    /// A call to a node that takes longer has failed.
    pub node_deadline_ms: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { cache_bytes: 256 << 20, inflight_bytes: 512 << 20, node_deadline_ms: 10_000 }
    }
}

/// Moves segments. Cheap to clone; all clones are one engine.
#[derive(Clone)]
pub struct Transfer {}

#[allow(unused_variables)]
impl Transfer {
    /// An engine for one volume. `runtime` runs prefetches, parallel gets and puts that outlive their write.
    pub fn new(volume: VolumeId, fleet: Arc<Fleet>, settings: Settings, runtime: tokio::runtime::Handle) -> Self {
        unimplemented!()
    }

    /// The live nodes.
    pub fn fleet(&self) -> &Arc<Fleet> {
        unimplemented!()
    }
}
