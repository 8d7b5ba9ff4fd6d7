//! Copies of a volume's metadata: made, and continued from.

use crate::error::EngineError;
use crate::keeper::Keeper;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use weft_care::{Tally, glance};
use weft_env::{Env, SystemClock, TaskSet};
use weft_format::records::{OPENINGS, Opening, SegmentRecord, ShardLocation, Succession, is_replica};
use weft_format::shard::{HEADER_BYTES, ShardHeader};
use weft_format::{NodeId, SegmentId, ShardKey};
use weft_meta::{Access, MetaError, MetaUrl, Store};
use weft_transfer::{ShardHealth, Transfer};
use weft_vfs::open::open_any_store;

/// Segments read at once.
const PAGE: usize = 512;
/// Segments looked for at one time.
const LOOKS: usize = 16;

/// How a volume continues from a copy of its metadata.
#[derive(Clone, Debug)]
pub struct RestoreReport {
    /// The last opening that the copy knows.
    pub known: Option<Opening>,
    /// The newest that nodes know.
    pub newest: Option<Opening>,
    /// Nodes that did not answer, and may know a newer one.
    pub silent_count: u64,
    /// Shards that the copy names and nodes do not have any more.
    pub gone_count: u64,
    /// Shards that were moved or rebuilt since, and were found where they are now.
    pub moved_count: u64,
    /// Segments of which nodes have shards and the copy knows nothing, the newest first. They stay.
    pub unknown_segments: Vec<UnknownSegment>,
    /// How safe everything is.
    pub tally: Tally,
}

/// A segment that is not in the metadata: written later, or deleted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnknownSegment {
    /// Its id.
    pub segment: String,
    /// When it was made, in milliseconds since the Unix epoch.
    pub made_ms: u64,
    /// Its shards on the nodes that answered.
    pub shard_count: u64,
    /// Its code and the length of its data, as the first shard says that can be read.
    pub code: Option<String>,
    /// See there.
    pub data_bytes: Option<u64>,
}

/// Copies the metadata at `meta`, as of one moment and beside its owner, to the new file `to`.
///
/// # Errors
/// Metadata cannot be read, or the file cannot be made.
pub fn back_up(meta: &MetaUrl, to: &Path) -> Result<(), EngineError> {
    Ok(meta.back_up(to, &SystemClock)?)
}

/// Removes what a command that was ended midway has left at `meta`: a copy that is not the volume's metadata yet.
///
/// # Errors
/// Another command is at work with it.
pub(crate) fn make_way(meta: &MetaUrl) -> Result<(), EngineError> {
    let open = |access| open_any_store(meta, access, None, &Env::system());
    if !meta.exists() || !open(Access::Shared).is_ok_and(|store| store.is_unfinished().unwrap_or(false)) {
        return Ok(());
    }
    // Who makes it owns it, and may have finished it meanwhile. Nobody else owns it while it is removed.
    let store = open(Access::Owner)?;
    if !store.is_unfinished()? {
        return Ok(());
    }
    tracing::info!("{meta} is an unfinished copy; it is made again");
    let removed = meta.remove();
    removed.map_err(|error| EngineError::Place(format!("the unfinished {meta} cannot be removed: {error}")))
}

/// Makes `meta`, which must not exist, the volume's metadata from now on, from a copy. Other metadata of the volume changes nothing any
/// more.
///
/// # Errors
/// The copy cannot be read; `meta` exists; nodes know that another process continued from a copy meanwhile. Nothing is made then.
pub fn restore(backup: &Path, meta: &MetaUrl) -> Result<RestoreReport, EngineError> {
    make_way(meta)?;
    meta.restore(backup, &SystemClock)?;
    take_over(meta)
}

/// The store at `meta`, which was made of a copy a moment ago, is the volume's metadata from now on.
///
/// # Errors
/// Those of [`restore`]. It is removed unless nodes know it as the volume's metadata.
pub(crate) fn take_over(meta: &MetaUrl) -> Result<RestoreReport, EngineError> {
    // If somebody else owns it, it is theirs to remove.
    let store = Arc::new(open_any_store(meta, Access::Owner, None, &Env::system())?);
    let take = || {
        let keeper = Keeper::of(store, meta, None)?;
        let taken = keeper.runtime.block_on(take_opening(&keeper.store, &keeper.transfer))?;
        Ok::<_, EngineError>((keeper, taken))
    };
    let (keeper, taken) = take().inspect_err(|_| {
        // It is no volume's metadata yet, and must not be taken for it.
        let _ = meta.remove();
    })?;
    let Taken { known, newest, silent_count } = taken;
    let looked = keeper.runtime.block_on(look_for_shards(&keeper.store, &keeper.transfer));
    // The nodes know it as the volume's metadata. A record that cannot be read now cannot be read by another attempt either.
    keeper.store.finish_copy()?;
    let looked = looked?;
    let tally = glance(&*keeper.catalogue, &keeper.probe()?)?;
    let Looked { gone_count, moved_count, unknown_segments } = looked;
    Ok(RestoreReport { known, newest, silent_count, gone_count, moved_count, unknown_segments, tally })
}

/// The opening that continues from a copy.
#[derive(Clone, Debug)]
pub struct Taken {
    /// See [`RestoreReport`]; so the others.
    pub known: Option<Opening>,
    /// See there.
    pub newest: Option<Opening>,
    /// See there.
    pub silent_count: u64,
}

/// Has the nodes know this store, which this process owns and which was made of a copy, as the volume's metadata.
///
/// # Errors
/// Nodes know that another process continued from a copy meanwhile.
pub async fn take_opening(store: &Store, transfer: &Transfer) -> Result<Taken, EngineError> {
    let known = store.openings()?.latest.map(|latest| latest.opening);
    let found = transfer.look_for_openings(None).await;
    let newest = found.newer;
    let number = newest.map_or(0, |newest| newest.number);
    let opening = store.restore_opening(number, store.env().rng.next_u128(), store.env().clock.unix_ms())?;
    if let Some(other) = transfer.publish_opening(opening, &found.held).await {
        return Err(MetaError::Superseded(other.refuses(Some(opening))).into());
    }
    let silent_count = (store.nodes()?.len() - found.held.len()) as u64;
    Ok(Taken { known, newest, silent_count })
}

/// Where the shards are that a copy names.
#[derive(Clone, Debug)]
pub struct Looked {
    /// See [`RestoreReport`]; so the others.
    pub gone_count: u64,
    /// See there.
    pub moved_count: u64,
    /// See there.
    pub unknown_segments: Vec<UnknownSegment>,
}

/// Looks for every shard that the store names, and notes which are gone or elsewhere.
///
/// # Errors
/// The metadata's.
pub async fn look_for_shards(store: &Store, transfer: &Transfer) -> Result<Looked, EngineError> {
    let Strays { strays, unknown } = find_strays(store, transfer).await?;
    let (gone_count, moved_count) = note_what_is_gone(store, transfer, &strays).await?;
    store.flush()?;
    Ok(Looked { gone_count, moved_count, unknown_segments: describe(unknown, transfer).await })
}

/// What nodes have beside what the metadata names.
#[derive(Default)]
struct Strays {
    /// Shards of known segments, where their records do not have them.
    strays: BTreeMap<SegmentId, Vec<(NodeId, ShardKey)>>,
    /// Shards of segments without a record.
    unknown: BTreeMap<SegmentId, Vec<(NodeId, ShardKey)>>,
}

async fn find_strays(store: &Store, transfer: &Transfer) -> Result<Strays, EngineError> {
    let mut found = Strays::default();
    for (id, member) in store.nodes()? {
        let Some(node) = transfer.fleet().get(id) else { continue };
        let mut after = None;
        // What a node does not list now is found by nobody, and stays.
        while let Ok(page) = node.list(after, PAGE).await {
            after = page.keys.last().copied();
            for key in page.keys.iter().filter(|key| key.segment != OPENINGS && !is_replica(key.segment)) {
                match store.segment(key.segment)? {
                    None => found.unknown.entry(key.segment).or_default().push((id, *key)),
                    Some(record) if record.has_at(key.segment, id, *key) => {}
                    // Shards leave a node that is leaving, and none comes to it.
                    Some(_) if member.state.is_leaving() => {}
                    Some(_) => found.strays.entry(key.segment).or_default().push((id, *key)),
                }
            }
            if !page.more || after.is_none() {
                break;
            }
        }
    }
    Ok(found)
}

/// What is said of segments, the newest first.
async fn describe(unknown: BTreeMap<SegmentId, Vec<(NodeId, ShardKey)>>, transfer: &Transfer) -> Vec<UnknownSegment> {
    let (mut described, mut left) = (Vec::new(), unknown.into_iter().rev().peekable());
    while left.peek().is_some() {
        let mut headers = TaskSet::new(transfer.runtime());
        for (segment, shards) in left.by_ref().take(LOOKS) {
            headers.spawn(describe_one(segment, shards, transfer.clone()));
        }
        described.extend(headers.join_all().await);
    }
    described.sort_by(|one: &UnknownSegment, next| (next.made_ms, &next.segment).cmp(&(one.made_ms, &one.segment)));
    described
}

async fn describe_one(segment: SegmentId, shards: Vec<(NodeId, ShardKey)>, transfer: Transfer) -> UnknownSegment {
    let shard_count = shards.len() as u64;
    let (mut code, mut data_bytes) = (None, None);
    for (id, key) in shards {
        let Some(node) = transfer.fleet().get(id) else { continue };
        let start = node.get(key, 0..HEADER_BYTES as u64).await;
        if let Some(header) = start.ok().and_then(|start| ShardHeader::decode(&start).ok()) {
            (code, data_bytes) = (Some(header.code), Some(header.geometry.data_bytes));
            break;
        }
    }
    UnknownSegment { segment: segment.to_string(), made_ms: segment.created_ms(), shard_count, code, data_bytes }
}

/// Looks for every shard of living segments at the nodes that answer. Notes which are not there, and which are elsewhere; how many of each.
async fn note_what_is_gone(
    store: &Store,
    transfer: &Transfer,
    strays: &BTreeMap<SegmentId, Vec<(NodeId, ShardKey)>>,
) -> Result<(u64, u64), MetaError> {
    let (mut gone, mut moved) = (0, 0);
    let mut after: Option<SegmentId> = None;
    loop {
        let page = store.segments(after, PAGE)?;
        let Some((last, _)) = page.last() else { return Ok((gone, moved)) };
        after = Some(*last);
        for some in page.chunks(LOOKS) {
            let mut looks = TaskSet::new(transfer.runtime());
            for (segment, record) in some.iter().cloned() {
                if store.live_bytes(segment)? > 0 {
                    looks.spawn(look(transfer.clone(), segment, Arc::new(record)));
                }
            }
            for (segment, record, missing) in looks.join_all().await {
                let mut found = SegmentRecord::clone(&record);
                for (index, is_gone) in missing {
                    let elsewhere = strays.get(&segment).map_or(&[][..], Vec::as_slice);
                    let is_now = find_elsewhere(transfer, &record, index, elsewhere).await;
                    moved += u64::from(is_now.is_some());
                    gone += u64::from(is_now.is_none() && is_gone);
                    // One at a node that does not answer may be there.
                    if is_now.is_some() || is_gone {
                        found.shards[index] = is_now;
                    }
                }
                if found != *record {
                    store.replace_segment(segment, &record, &found, &Succession::default(), None)?;
                }
            }
        }
    }
}

/// A shard with the same bytes under another name: a repair or a move has stored it since.
async fn find_elsewhere(
    transfer: &Transfer,
    record: &SegmentRecord,
    index: usize,
    strays: &[(NodeId, ShardKey)],
) -> Option<ShardLocation> {
    let digest = record.shards[index].as_ref()?.digest;
    for (node, key) in strays.iter().filter(|(_, key)| key.index.as_usize() == index) {
        if transfer.digest_at(*node, *key, record.shard_bytes()).await == Some(digest) {
            return Some(ShardLocation { node: *node, generation: key.generation, digest, origin: None });
        }
    }
    None
}

/// Which shards are not where the record says, or at a node that does not answer; and whether they are known to be gone.
async fn look(
    transfer: Transfer,
    segment: SegmentId,
    record: Arc<SegmentRecord>,
) -> (SegmentId, Arc<SegmentRecord>, Vec<(usize, bool)>) {
    let health = transfer.census(segment, &record).await;
    let missing = |index: usize| match health.shards[index] {
        ShardHealth::Missing if record.shards[index].is_some() => Some((index, true)),
        ShardHealth::Unknown(_) => Some((index, false)),
        _ => None,
    };
    let missing = (0..record.shards.len()).filter_map(missing).collect();
    (segment, record, missing)
}
