//! Removing shards that [`weft_format::removal`] has decided on.

use crate::in_flight::{Call, InFlight};
use crate::suspect::{ShardFailure, SuspectKind};
use crate::transfer::{Inner, Transfer};
use weft_format::records::SegmentRecord;
use weft_format::removal::{Candidate, Evidence, Item, Removable, Verdict, may_remove};
use weft_format::{NodeId, SegmentId, ShardKey};
use weft_nodes::{NodeError, NodeErrorKind};

/// How a removal went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Removal {
    /// Shards that are gone: removed now, or found to be absent by a node that answered.
    pub gone: usize,
    /// Shards whose node did not say so; try again later.
    pub unknown: Vec<ShardFailure>,
}

impl Transfer {
    /// Removes one shard.
    ///
    /// # Errors
    /// The node's; `NotFound` where it is gone.
    pub async fn remove_shard(&self, shard: Removable) -> Result<(), NodeError> {
        remove(&self.inner, shard).await
    }

    /// Removes shards, all at once.
    pub fn remove(&self, shards: Vec<Removable>) -> Call<'_, Removal> {
        Box::pin(async move {
            let mut removals = InFlight::new();
            for shard in shards {
                removals.push(shard, Box::pin(self.remove_shard(shard)));
            }
            let mut removal = Removal::default();
            while let Some((shard, outcome)) = removals.next().await {
                let Item::Shard(node, key) = shard.item() else { continue };
                match outcome {
                    Ok(()) => removal.gone += 1,
                    Err(error) => match ShardFailure::of_call(key.index.as_usize(), node, error) {
                        ShardFailure { kind: SuspectKind::NotFound, .. } => removal.gone += 1,
                        failure => removal.unknown.push(failure),
                    },
                }
            }
            removal.unknown.sort_by_key(|failure| failure.index);
            removal
        })
    }

    /// Removes the shards of a record that this engine stored in vain: nobody else has these names. What nodes do not remove is left to
    /// the collector.
    pub async fn withdraw(&self, segment: SegmentId, written: &SegmentRecord) {
        let written = written.located(segment).map(|(_, key, location)| (key, location.node));
        withdraw(&self.inner, written.collect()).await;
    }
}

async fn remove(inner: &Inner, shard: Removable) -> Result<(), NodeError> {
    let Item::Shard(node, key) = shard.item() else {
        return Err(NodeError::new(NodeErrorKind::Unsupported, "every node", "the item to remove is no shard"));
    };
    inner.change(node, 0, async move |node| node.remove(key).await).await
}

/// Removes what a failed write or rebuild has stored, as far as nodes answer; the rest are orphans for the collector.
pub(crate) async fn withdraw(inner: &Inner, written: Vec<(ShardKey, NodeId)>) {
    let mut removals = InFlight::new();
    for (key, node) in written {
        removals.push((), Box::pin(withdraw_one(inner, node, key)));
    }
    while removals.next().await.is_some() {}
}

/// The same for one shard.
pub(crate) async fn withdraw_one(inner: &Inner, node: NodeId, key: ShardKey) {
    let Verdict::Remove(shard) = may_remove(Candidate::own_shard(node, key), Evidence::Author) else { return };
    if let Err(error) = remove(inner, shard).await {
        tracing::warn!(shard = %key, %error, "an unreferenced shard was not removed: left for the collector");
    }
}
