//! Removing a segment's shards.

use crate::error::{ShardFailure, SuspectKind};
use crate::in_flight::InFlight;
use crate::transfer::Transfer;
use crate::write::put::failure;
use weft_format::records::SegmentRecord;
use weft_format::{NodeId, SegmentId, ShardKey};
use weft_nodes::NodeError;

/// How a removal went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Removal {
    /// Shards that are gone: removed now, or found to be absent by a node that answered.
    pub gone: usize,
    /// Shards whose node did not say so; try again later.
    pub unknown: Vec<ShardFailure>,
}

impl Transfer {
    /// Removes one shard, which the caller knows to be needed by nobody.
    ///
    /// # Errors
    /// The node's; `NotFound` where it is gone.
    pub async fn remove_shard(&self, node: NodeId, key: ShardKey) -> Result<(), NodeError> {
        self.inner.change(node, 0, async move |node| node.remove(key).await).await
    }

    /// Removes every shard that the record names. The caller has committed that nothing refers to them.
    pub async fn remove(&self, segment: SegmentId, record: &SegmentRecord) -> Removal {
        let mut removals = InFlight::new();
        for (index, key, location) in record.located(segment) {
            removals.push((index.as_usize(), location.node), Box::pin(self.remove_shard(location.node, key)));
        }
        let mut removal = Removal::default();
        while let Some(((index, node), outcome)) = removals.next().await {
            match outcome {
                Ok(()) => removal.gone += 1,
                Err(error) => match failure(index, node, error) {
                    ShardFailure { kind: SuspectKind::NotFound, .. } => removal.gone += 1,
                    failure => removal.unknown.push(failure),
                },
            }
        }
        removal.unknown.sort_by_key(|failure| failure.index);
        removal
    }
}
