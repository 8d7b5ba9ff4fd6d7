//! Writing a segment: split -> encode -> place -> put -> receipt.
//!
//! Nothing is visible until the caller commits the receipt's record; whatever fails before that leaves orphans at worst.

pub(crate) mod encode;
pub(crate) mod place;
pub(crate) mod put;
pub(crate) mod receipt;
pub(crate) mod split;

use crate::error::WriteError;
use crate::in_flight::Call;
use crate::transfer::Transfer;
use bytes::Bytes;
use place::Placed;
use std::collections::BTreeSet;
use std::sync::Arc;
use weft_format::records::SegmentRecord;
use weft_format::shard::Digest;
use weft_format::{NodeId, SegmentId, ShardIndex, ShardKey};
use weft_nodes::NodeError;

/// A segment to be written.
#[derive(Clone, Debug)]
pub struct WriteRequest {
    /// A new id, never used before.
    pub segment: SegmentId,
    /// Spec of the code, e.g. `rs:4+2`.
    pub code: String,
    /// How many shards beyond those that always suffice to decode (k, for codes that waste nothing) must be durable. `None`: all
    /// but those of nodes that are away, as long as the rest decodes. So writes go on while as many nodes are away as the code can
    /// lose, and fail when nodes that are there have no room.
    pub write_margin: Option<u16>,
    /// Bytes of a full cell; `None`: as suits the code. A symbol takes whole frames, so that codes of many symbols have longer ones.
    pub cell_bytes: Option<u32>,
    /// The data, in pieces of any length; 1 byte to `MAX_SEGMENT_BYTES` in all.
    pub data: Vec<Bytes>,
}

/// What a write leaves behind: commit `record` and the segment exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// Where the shards are. A missing shard is `None`.
    pub record: SegmentRecord,
    /// Shards that were not stored; queue them for repair.
    pub missing: Vec<ShardIndex>,
    /// Digests of all shards by index, of missing ones too.
    pub digests: Vec<Digest>,
    /// Bytes that nodes have acknowledged, headers and checksums included.
    pub bytes_written: u64,
}

impl Transfer {
    /// Are there places at this moment for the shards of a segment of this code, however small?
    ///
    /// # Errors
    /// The code is none; too few nodes, or too few failure domains.
    pub fn can_place(&self, code: &str) -> Result<(), WriteError> {
        let (segment, data) = (SegmentId(0), vec![Bytes::from_static(&[0])]);
        let request = WriteRequest { segment, code: code.into(), write_margin: None, cell_bytes: None, data };
        let split = split::split(&self.inner.algebra, request)?;
        place::place(&self.inner, &split).map(drop)
    }

    /// Encodes a segment and stores its shards on nodes of distinct domains.
    ///
    /// # Errors
    /// [`WriteError`]; nothing is visible then, and what was put is removed as far as nodes answer.
    pub fn write(&self, request: WriteRequest) -> Call<'_, Result<Receipt, WriteError>> {
        self.write_somewhere(request, None)
    }

    /// As [`Self::write`], at places that the caller has chosen: `nodes` by shard index, each in a domain of its own, `None` where there is no
    /// place; and others for shards that these do not take, best first.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn write_at(
        &self,
        request: WriteRequest,
        nodes: Vec<Option<NodeId>>,
        alternates: Vec<NodeId>,
    ) -> Call<'_, Result<Receipt, WriteError>> {
        let (view, full) = (self.inner.fleet.view(), BTreeSet::new());
        self.write_somewhere(request, Some(Placed { nodes, alternates, view, full }))
    }

    /// Stores one object at a node as it is. A node that is busy is waited for, as with the shards of a write.
    ///
    /// # Errors
    /// The node's.
    pub async fn put_at(&self, node: NodeId, key: ShardKey, object: Bytes) -> Result<(), NodeError> {
        put::store(self.inner.clone(), node, key, object).await
    }

    fn write_somewhere(&self, request: WriteRequest, placed: Option<Placed>) -> Call<'_, Result<Receipt, WriteError>> {
        Box::pin(async move {
            let inner = &self.inner;
            let split = Arc::new(split::split(&inner.algebra, request)?);
            let bytes = split.object_bytes() * split.code.shape().n as u64;
            // It may go anywhere.
            let nodes = inner.fleet.handles(inner.class);
            let _admitted = inner.admit(nodes.keys().copied(), bytes, bytes).await;
            let encoded = encode::encode(inner, &split).await?;
            let placement = match placed {
                Some(placed) => placed,
                None => place::place_now(inner, &split).await?,
            };
            let stored = put::put(inner, &split, &encoded, placement).await?;
            Ok(receipt::receipt(&split, &encoded, stored))
        })
    }
}
