//! Pieces of the metadata's replica on nodes (`weft_format::records::Replica`): found by listing nodes, read, and written as segments of
//! copies.
//!
//! No record says where a piece is. A caller that wants to know lists the nodes ([`Transfer::find_replicas`]); what a node does not list is not
//! known to be gone.

use crate::bounded::within;
use crate::error::WriteError;
use crate::in_flight::{Call, InFlight};
use crate::transfer::Transfer;
use crate::write::WriteRequest;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use weft_format::records::{Reached, Replica, ReplicaHeader, first_replica, is_replica};
use weft_format::removal::{Candidate, Evidence, Verdict, may_remove};
use weft_format::shard::{FRAME_PAYLOAD_BYTES, ShardHeader, ShardIdentity, frames_range, verify_frames, verify_object};
use weft_format::{Generation, NodeId, SegmentId, ShardIndex, ShardKey, VolumeId};
use weft_nodes::node::SHARD_BYTES_MAX;
use weft_nodes::{Node, NodeError, NodeErrorKind};

/// Names listed at once.
const PAGE: usize = 1024;
/// Pieces of one node, far beyond what is kept: a node that lists more is faulty.
const PIECES_MAX: usize = 1 << 20;
/// A node that takes longer to list pieces when a volume is opened is not waited for: some list all they hold for that.
const LOOK_DEADLINE: Duration = Duration::from_secs(2);
/// Headers read at one time.
const READS: usize = 16;

/// A piece, and where it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundReplica {
    /// What it says of itself.
    pub header: ReplicaHeader,
    /// Under which names at which nodes.
    pub copies: Vec<(NodeId, ShardKey)>,
}

/// Metadata that was set back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetBack {
    /// Nodes have its changes up to this transaction.
    pub later: u64,
    /// Why it changes nothing.
    pub why: String,
}

/// Why no copy of a piece can be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub struct UnreadableReplica {
    /// Of each copy, in one clause.
    pub detail: String,
    /// All copies are damaged or gone. Otherwise a node that has one does not answer, and the piece may be read later.
    pub is_lost: bool,
}

/// What nodes have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundReplicas {
    /// Pieces whose header could be read, by segment.
    pub pieces: BTreeMap<SegmentId, FoundReplica>,
    /// Pieces whose header could not be read.
    pub unreadable: BTreeMap<SegmentId, UnreadableReplica>,
    /// Nodes that listed all they have.
    pub listed: BTreeSet<NodeId>,
    /// Nodes that did not, and why.
    pub silent: BTreeMap<NodeId, String>,
}

impl Transfer {
    /// Lists all nodes, and reads the header of each piece that is not among `known`.
    pub fn find_replicas<'a>(&'a self, known: &'a BTreeMap<SegmentId, ReplicaHeader>) -> Call<'a, FoundReplicas> {
        Box::pin(async move {
            let inner = &self.inner;
            let before_first = SegmentId(first_replica().0 - 1);
            let mut lists = InFlight::new();
            for node in inner.fleet.handles(inner.class).values().map(|handle| handle.id) {
                let listed =
                    inner.call_while_busy(node, 0, move |node| async move { list(&*node, before_first).await });
                lists.push(node, Box::pin(listed));
            }
            self.headers_of(lists, known, usize::MAX).await
        })
    }

    /// Was metadata set back to an earlier moment, as after its disk was set back to a snapshot? `reached` says how far it has come. `None`: nodes that
    /// answer have no piece of its replica of a later moment.
    ///
    /// # Errors
    /// Those of `reached`.
    pub async fn set_back<E>(&self, reached: impl Fn() -> Result<Option<Reached>, E>) -> Result<Option<SetBack>, E> {
        let Some(before) = reached()? else { return Ok(None) };
        let told = |reached: Reached, later| Some(SetBack { later, why: reached.refusal(later) });
        if let Some(later) = before.later {
            return Ok(told(before, later));
        }
        let Some(later) = self.find_later(before).await else { return Ok(None) };
        // Another process that owns it may have come further meanwhile.
        let now = reached()?.unwrap_or(before);
        Ok(if now.is_before(&later) { told(now, later.upto) } else { None })
    }

    /// A piece of a later moment, the latest, of nodes that list theirs soon.
    fn find_later(&self, reached: Reached) -> Call<'_, Option<ReplicaHeader>> {
        Box::pin(async move {
            let handles = self.inner.fleet.handles(self.inner.class);
            let mut lists = InFlight::new();
            for handle in handles.values() {
                let listed = list(&*handle.node, reached.last_id());
                lists.push(handle.id, Box::pin(within(self.inner.fleet.clock(), LOOK_DEADLINE, listed)));
            }
            let found = self.headers_of(lists, &BTreeMap::new(), READS).await;
            let headers = found.pieces.into_values().map(|found| found.header);
            headers.filter(|header| reached.is_before(header)).max_by_key(|header| header.upto)
        })
    }

    async fn headers_of(
        &self,
        mut lists: InFlight<'_, NodeId, Result<Vec<ShardKey>, NodeError>>,
        known: &BTreeMap<SegmentId, ReplicaHeader>,
        count_max: usize,
    ) -> FoundReplicas {
        let mut found = FoundReplicas::default();
        let mut copies: BTreeMap<SegmentId, Vec<(NodeId, ShardKey)>> = BTreeMap::new();
        while let Some((node, listed)) = lists.next().await {
            match listed {
                Ok(keys) => {
                    found.listed.insert(node);
                    keys.into_iter().for_each(|key| copies.entry(key.segment).or_default().push((node, key)));
                }
                Err(error) => {
                    found.silent.insert(node, error.to_string());
                }
            }
        }
        let needless = copies.len().saturating_sub(count_max);
        let mut left = copies.into_iter().skip(needless);
        loop {
            let mut reads = InFlight::new();
            for (segment, copies) in left.by_ref().take(READS) {
                let known = known.get(&segment).copied();
                reads.push(
                    (segment, copies.clone()),
                    Box::pin(async move {
                        match known {
                            Some(header) => Ok(header),
                            None => self.read_header(&copies).await,
                        }
                    }),
                );
            }
            if reads.is_empty() {
                return found;
            }
            while let Some(((segment, copies), header)) = reads.next().await {
                match header {
                    Ok(header) => drop(found.pieces.insert(segment, FoundReplica { header, copies })),
                    Err(why) => drop(found.unreadable.insert(segment, why)),
                }
            }
        }
    }

    /// Of the first copy that has one.
    async fn read_header(&self, copies: &[(NodeId, ShardKey)]) -> Result<ReplicaHeader, UnreadableReplica> {
        // The first frame; a longer object has it, too.
        let end = frames_range(0..1, FRAME_PAYLOAD_BYTES as u64).end;
        let read = self.first_sound(copies, end, end, |key, start| self.header_of(key, start)).await;
        read.inspect_err(|why| tracing::debug!(%why, "a piece of the metadata's replica cannot be read"))
    }

    fn header_of(&self, key: ShardKey, start: &[u8]) -> Result<ReplicaHeader, String> {
        let identity = ShardIdentity { volume: self.inner.volume, key };
        let header = ShardHeader::decode(start).map_err(|error| error.to_string())?;
        if header.identity != identity {
            return Err("it is another's".into());
        }
        let payload_bytes = header.geometry.payload_bytes();
        let range = frames_range(0..1, payload_bytes);
        let frame = start.get(range.start as usize..range.end as usize).ok_or("it is too short")?;
        let wanted = 0..header.geometry.data_bytes.min(FRAME_PAYLOAD_BYTES as u64);
        let frames =
            verify_frames(&identity, payload_bytes, wanted.clone(), frame).map_err(|error| error.to_string())?;
        let mut payload = vec![0; wanted.end as usize];
        frames.copy_into(wanted, &mut payload).map_err(|error| error.to_string())?;
        ReplicaHeader::decode(&payload).map_err(|error| error.to_string())
    }

    /// A piece, from the first node whose copy is sound.
    ///
    /// # Errors
    /// Why each copy cannot be used.
    pub async fn read_replica(&self, found: &FoundReplica) -> Result<Replica, UnreadableReplica> {
        let parse = |key, object: &[u8]| parse(self.inner.volume, key, object);
        self.first_sound(&found.copies, found.header.bytes, SHARD_BYTES_MAX, parse).await
    }

    /// What is in the first `end` bytes, which are about `bytes`, of the first copy of which something can be made; why of none.
    async fn first_sound<T>(
        &self,
        copies: &[(NodeId, ShardKey)],
        bytes: u64,
        end: u64,
        parse: impl Fn(ShardKey, &[u8]) -> Result<T, String>,
    ) -> Result<T, UnreadableReplica> {
        let (mut why, mut is_lost) = (Vec::new(), true);
        for (id, key) in copies {
            let get = |node: Arc<dyn Node>| async move { node.get(*key, 0..end).await };
            let read = self.inner.call_while_busy(*id, bytes, get).await;
            is_lost &= !read.as_ref().is_err_and(|error| is_silence(error.kind));
            match read.map_err(|error| error.to_string()).and_then(|bytes| parse(*key, &bytes)) {
                Ok(sound) => return Ok(sound),
                Err(detail) => why.push(format!("{key} at {}: {detail}", self.inner.fleet.name(*id))),
            }
        }
        Err(UnreadableReplica { detail: why.join("; "), is_lost })
    }

    /// Stores a piece on `copies` nodes of distinct domains, but for nodes that are away.
    ///
    /// # Errors
    /// No node takes it, or there are fewer domains; what was stored is removed as far as nodes answer.
    pub async fn write_replica(
        &self,
        segment: SegmentId,
        replica: &Replica,
        copies: usize,
    ) -> Result<FoundReplica, WriteError> {
        let request = WriteRequest {
            segment,
            code: format!("replica:{copies}"),
            write_margin: None,
            cell_bytes: None,
            data: vec![Bytes::from(replica.encode())],
        };
        let receipt = self.write(request).await?;
        let copies = receipt.record.located(segment).map(|(_, key, location)| (location.node, key)).collect();
        Ok(FoundReplica { header: replica.header, copies })
    }

    /// Removes pieces that a newer replica makes needless. What does not answer keeps them.
    pub async fn remove_superseded(&self, copies: Vec<(NodeId, ShardKey)>) {
        let candidate = |(node, key)| Candidate::Replica { node, key, is_superseded: true };
        let verdict = |copy| may_remove(candidate(copy), Evidence::Beside { seen_ms: 0 });
        let shards = copies.into_iter().filter_map(|copy| match verdict(copy) {
            Verdict::Remove(shard) => Some(shard),
            _ => None,
        });
        let removal = self.remove(shards.collect()).await;
        for failure in removal.unknown {
            tracing::debug!(?failure, "a needless piece of the metadata's replica stays for now");
        }
    }
}

/// Nothing is known of what the node has.
fn is_silence(kind: NodeErrorKind) -> bool {
    use NodeErrorKind::{Busy, Denied, TimedOut, Unavailable, WrongNode};
    matches!(kind, Unavailable | TimedOut | Busy | WrongNode | Denied)
}

/// All pieces with greater ids than this one that a node has.
async fn list(node: &dyn Node, after: SegmentId) -> Result<Vec<ShardKey>, NodeError> {
    let last = ShardKey { segment: after, generation: Generation(u32::MAX), index: ShardIndex(u16::MAX) };
    let mut keys: Vec<ShardKey> = Vec::new();
    loop {
        let page = node.list(Some(keys.last().copied().unwrap_or(last)), PAGE).await?;
        let before = keys.len();
        let is_over = !page.more || page.keys.iter().any(|key| !is_replica(key.segment));
        keys.extend(page.keys.into_iter().filter(|key| is_replica(key.segment)));
        let ascends = keys[before.saturating_sub(1)..].is_sorted_by(|one, next| one < next);
        if !ascends || keys.len() > PIECES_MAX {
            let detail = "its list of shards does not ascend, or never ends: check the program that runs there";
            return Err(NodeError::new(NodeErrorKind::WrongNode, "of the volume", detail));
        }
        if is_over || keys.len() == before {
            return Ok(keys);
        }
    }
}

fn parse(volume: VolumeId, key: ShardKey, object: &[u8]) -> Result<Replica, String> {
    let identity = ShardIdentity { volume, key };
    let verified = verify_object(&identity, object).map_err(|error| error.to_string())?;
    // The data of one shard of copies is all of it; what fills the last cell is behind it.
    let mut payload = vec![0; verified.header.geometry.data_bytes as usize];
    verified.frames.copy_into(0..payload.len() as u64, &mut payload).map_err(|error| error.to_string())?;
    Replica::decode(&payload).map_err(|error| error.to_string())
}

#[cfg(test)]
#[path = "replicas_tests.rs"]
mod tests;
