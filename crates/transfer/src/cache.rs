//! Decoded blocks kept for reads: what prefetches bring and sequential reads use up.
//!
//! A block is [`BLOCK_BYTES`] of a segment's data, aligned. Segments never change, so neither do blocks, whatever happens to
//! the segment's shards. Only prefetches fill the cache: a random read of 4 KiB must not cost a block, and what a long read
//! brings is in its caller's hands already.

use crate::read::report::ReadReport;
use bytes::Bytes;
use parking_lot::Mutex;
use quick_cache::sync::{Cache as QuickCache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;
use std::sync::Arc;
use tokio::sync::watch;
use weft_format::SegmentId;

/// Data bytes in a block: the longest request of a FUSE kernel, so that an aligned one is one block and needs no copy, and
/// four whole stripes of `rs:4+2`, so that filling one is a single long request to each node.
pub const BLOCK_BYTES: u64 = 1 << 20;

/// A part of the cache holds at least this many blocks; in smaller parts, one long file would push out its own read-ahead.
const BLOCKS_PER_PART: u64 = 16;

/// Parts are locked one by one; more than this many threads seldom meet.
const MOST_PARTS: u64 = 16;

/// Which block of which segment.
type BlockKey = (SegmentId, u64);

/// One decoded block.
#[derive(Clone)]
pub(crate) struct Block {
    pub(crate) bytes: Bytes,
    /// How it was read, so that whoever uses it hears of suspects.
    pub(crate) report: Arc<ReadReport>,
}

#[derive(Clone)]
struct ByLength;

impl Weighter<BlockKey, Block> for ByLength {
    fn weight(&self, _: &BlockKey, block: &Block) -> u64 {
        block.bytes.len() as u64
    }
}

/// Blocks, and those on their way.
pub(crate) struct Cache {
    /// `None`: nothing is kept.
    blocks: Option<QuickCache<BlockKey, Block, ByLength>>,
    coming: Mutex<HashMap<BlockKey, Coming>>,
}

/// Ends when a block has come, or will not.
pub(crate) type Coming = watch::Receiver<()>;

/// Where bytes are.
pub(crate) enum Look {
    /// Here they are.
    Kept(Block),
    /// On their way, within one block.
    Coming(Coming),
    /// Neither.
    Absent,
}

/// Bytes `part` of a segment, of the block that they begin in.
fn part_of(block: Block, part: Range<u64>) -> Block {
    let start = part.start / BLOCK_BYTES * BLOCK_BYTES;
    let bytes = block.bytes.slice((part.start - start) as usize..(part.end - start) as usize);
    Block { bytes, report: block.report }
}

/// The promise to bring a block. Dropped, it wakes those who wait, whether the block came or not.
pub(crate) struct Promise {
    cache: Arc<Cache>,
    key: BlockKey,
    /// The segment's data bytes of the block.
    pub(crate) range: Range<u64>,
    _wakes: watch::Sender<()>,
}

impl Promise {
    pub(crate) fn keep(self, block: Block) {
        if let Some(blocks) = &self.cache.blocks {
            blocks.insert(self.key, block);
        }
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        self.cache.coming.lock().remove(&self.key);
    }
}

impl Cache {
    /// Keeps about `capacity_bytes`; nothing where that is less than a block.
    pub(crate) fn new(capacity_bytes: u64) -> Self {
        let block_count = capacity_bytes / BLOCK_BYTES;
        let options = OptionsBuilder::new()
            .estimated_items_capacity(block_count as usize)
            .weight_capacity(capacity_bytes)
            .shards((block_count / BLOCKS_PER_PART).clamp(1, MOST_PARTS) as usize)
            .build();
        let blocks = options.ok().filter(|_| block_count > 0).map(|options| {
            QuickCache::with_options(options, ByLength, DefaultHashBuilder::default(), DefaultLifecycle::default())
        });
        Self { blocks, coming: Mutex::default() }
    }

    /// The beginning of `range` that comes from one place: a block, or a run of blocks that are to be read.
    pub(crate) fn look(&self, segment: SegmentId, range: Range<u64>) -> (Range<u64>, Look) {
        let Some(blocks) = &self.blocks else { return (range, Look::Absent) };
        let key = (segment, range.start / BLOCK_BYTES);
        let mut end = ((key.1 + 1) * BLOCK_BYTES).min(range.end);
        if let Some(block) = blocks.get(&key) {
            let part = range.start..end;
            return (part.clone(), Look::Kept(part_of(block, part)));
        }
        if let Some(coming) = self.coming.lock().get(&key) {
            return (range.start..end, Look::Coming(coming.clone()));
        }
        while end < range.end && !self.is_known(blocks, &(segment, end / BLOCK_BYTES)) {
            end = (end + BLOCK_BYTES).min(range.end);
        }
        (range.start..end, Look::Absent)
    }

    /// A part of a block that is on its way, when it has come; `None`: it has not, or was pushed out at once.
    pub(crate) async fn wait(&self, mut coming: Coming, segment: SegmentId, part: Range<u64>) -> Option<Block> {
        // Nothing is ever sent: this ends when the promise is dropped.
        let _ = coming.changed().await;
        let block = self.blocks.as_ref()?.get(&(segment, part.start / BLOCK_BYTES))?;
        Some(part_of(block, part))
    }

    fn is_known(&self, blocks: &QuickCache<BlockKey, Block, ByLength>, key: &BlockKey) -> bool {
        blocks.contains_key(key) || self.coming.lock().contains_key(key)
    }

    /// Promises for the blocks that `range` touches and that are neither kept nor on their way.
    pub(crate) fn promise(self: &Arc<Self>, segment: SegmentId, range: Range<u64>, data_bytes: u64) -> Vec<Promise> {
        let Some(blocks) = &self.blocks else { return Vec::new() };
        let end = range.end.min(data_bytes);
        let mut coming = self.coming.lock();
        let numbers = range.start / BLOCK_BYTES..end.div_ceil(BLOCK_BYTES);
        let promise = |number| {
            let key = (segment, number);
            if blocks.contains_key(&key) {
                return None;
            }
            let Entry::Vacant(entry) = coming.entry(key) else { return None };
            let (wakes, waiting) = watch::channel(());
            entry.insert(waiting);
            let range = number * BLOCK_BYTES..((number + 1) * BLOCK_BYTES).min(data_bytes);
            Some(Promise { cache: self.clone(), key, range, _wakes: wakes })
        };
        numbers.filter_map(promise).collect()
    }
}

#[cfg(test)]
#[path = "cache_tests.rs"]
mod tests;
