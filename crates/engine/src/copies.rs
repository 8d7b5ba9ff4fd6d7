//! Copies of a volume's metadata: made, and continued from.

use crate::error::EngineError;
use crate::keeper::Keeper;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use tokio::task::JoinSet;
use weft_care::{Tally, glance};
use weft_env::{Env, SystemClock};
use weft_format::SegmentId;
use weft_format::records::{OPENINGS, Opening, SegmentRecord, Succession, is_replica};
use weft_meta::{Access, MetaError, MetaUrl, Store};
use weft_transfer::{ShardHealth, Transfer};
use weft_vfs::open::open_store;

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
    /// How safe everything is.
    pub tally: Tally,
}

/// Copies the metadata at `meta`, as of one moment and beside its owner, to the new file `to`.
///
/// # Errors
/// Metadata cannot be read, or the file cannot be made.
pub fn back_up(meta: &MetaUrl, to: &Path) -> Result<(), EngineError> {
    Ok(meta.back_up(to, &SystemClock)?)
}

/// Makes `meta`, which must not exist, the volume's metadata from now on, from a copy. Other metadata of the volume changes nothing any
/// more.
///
/// # Errors
/// The copy cannot be read; `meta` exists; nodes know that another process continued from a copy meanwhile. Nothing is made then.
pub fn restore(backup: &Path, meta: &MetaUrl) -> Result<RestoreReport, EngineError> {
    meta.restore(backup, &SystemClock)?;
    take_over(meta).inspect_err(|_| {
        // It is no volume's metadata yet, and must not be taken for it.
        let _ = meta.remove();
    })
}

/// The store at `meta`, which was made of a copy, is the volume's metadata from now on.
pub(crate) fn take_over(meta: &MetaUrl) -> Result<RestoreReport, EngineError> {
    let store = open_store(meta, Access::Owner, None, &Env::system())?;
    let keeper = Keeper::open(meta, store.env())?;
    let known = store.openings()?.latest.map(|latest| latest.opening);
    let found = keeper.runtime.block_on(keeper.transfer.look_for_openings(None));
    let newest = found.newer;
    let number = newest.map_or(0, |newest| newest.number);
    let opening = store.restore_opening(number, store.env().rng.next_u128(), store.env().clock.unix_ms())?;
    if let Some(other) = keeper.runtime.block_on(keeper.transfer.publish_opening(opening, &found.held)) {
        return Err(MetaError::Superseded(other.refuses(Some(opening))).into());
    }
    let silent_count = (keeper.store.nodes()?.len() - found.held.len()) as u64;
    let gone_count = keeper.runtime.block_on(note_what_is_gone(&store, &keeper.transfer))?;
    store.flush()?;
    let tally = glance(&*keeper.catalogue, &keeper.probe()?)?;
    Ok(RestoreReport { known, newest, silent_count, gone_count, tally })
}

/// Segments of which nodes have shards and the metadata knows nothing. They stay: other metadata stored them.
pub(crate) fn count_unknown(meta: &MetaUrl) -> Result<u64, EngineError> {
    let keeper = Keeper::open(meta, &Env::system())?;
    let mut unknown = BTreeSet::new();
    for (id, _) in keeper.store.nodes()? {
        let Some(node) = keeper.transfer.fleet().get(id) else { continue };
        let mut after = None;
        // A node that cannot be listed now is listed by the next collection.
        while let Ok(page) = keeper.runtime.block_on(node.list(after, PAGE)) {
            after = page.keys.last().copied();
            let segments: BTreeSet<SegmentId> = page.keys.iter().map(|key| key.segment).collect();
            for segment in segments.into_iter().filter(|segment| *segment != OPENINGS && !is_replica(*segment)) {
                if !unknown.contains(&segment) && keeper.store.segment(segment)?.is_none() {
                    unknown.insert(segment);
                }
            }
            if !page.more || after.is_none() {
                break;
            }
        }
    }
    Ok(unknown.len() as u64)
}

/// Looks for every shard of living segments at the nodes that answer, and notes which are not there; how many.
async fn note_what_is_gone(store: &Store, transfer: &Transfer) -> Result<u64, MetaError> {
    let mut gone = 0;
    let mut after: Option<SegmentId> = None;
    loop {
        let page = store.segments(after, PAGE)?;
        let Some((last, _)) = page.last() else { return Ok(gone) };
        after = Some(*last);
        for some in page.chunks(LOOKS) {
            let mut looks = JoinSet::new();
            for (segment, record) in some.iter().cloned() {
                if store.live_bytes(segment)? > 0 {
                    looks.spawn(look(transfer.clone(), segment, Arc::new(record)));
                }
            }
            for (segment, record, missing) in looks.join_all().await {
                let mut found = SegmentRecord::clone(&record);
                missing.iter().for_each(|index| found.shards[*index] = None);
                if found != *record {
                    gone += missing.len() as u64;
                    store.replace_segment(segment, &record, &found, &Succession::default(), None)?;
                }
            }
        }
    }
}

/// Which shards are not where the record says.
async fn look(
    transfer: Transfer,
    segment: SegmentId,
    record: Arc<SegmentRecord>,
) -> (SegmentId, Arc<SegmentRecord>, Vec<usize>) {
    let health = transfer.census(segment, &record).await;
    let is_gone = |index: &usize| record.shards[*index].is_some() && health.shards[*index] == ShardHealth::Missing;
    let gone = (0..record.shards.len()).filter(is_gone).collect();
    (segment, record, gone)
}
