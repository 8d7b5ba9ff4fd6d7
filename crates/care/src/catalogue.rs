//! The part of the metadata that care reads and changes: segments, nodes, marks of damage, trash, job records.
//!
//! Every change is conditional on the values read before, so two jobs, or a job and a mount, never undo each other's changes.
//!
//! The calls block, on a disk or a server, and tasks call them: a catalogue lets the other tasks of a runtime go on meanwhile.

#[cfg(any(test, feature = "memory"))]
pub mod memory;

use std::collections::BTreeSet;
use std::ops::Range;
use weft_format::records::{
    DamageRecord, DamagedShard, LeaseRecord, NodeRecord, Opening, OpeningsRecord, Reached, RetainedRecord,
    SegmentRecord, Succession, SumsRecord, Wanted,
};
use weft_format::removal::{Expired, Item, Queued, Removable};
use weft_format::{NodeId, SegmentId, ShardKey};

/// A failed look-up or change; nothing of it was applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CatalogueError {
    /// The segment's record is not the expected one any more, or is gone: read it again and decide again.
    #[error("segment {0} changed meanwhile")]
    Changed(SegmentId),
    /// Where files refer to is the volume's owner's to change, and this process is not the owner.
    #[error("this process may not change the volume: another one owns it")]
    NotOwner,
    /// Another process has the lease now and continues the work.
    #[error("another process cares for this volume now")]
    Fenced,
    /// Nodes know a newer opening of the volume: the metadata is a copy, and nothing may be changed by it. The sentence says so.
    #[error("{0}")]
    Superseded(String),
    /// The metadata cannot be read or written; the sentence is the engine's.
    #[error("{0}")]
    Failed(String),
}

/// The outcome of renewing a wiped node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewed {
    /// There is a new, empty node in its place.
    Anew,
    /// It is itself again, without most of its shards.
    Itself,
}

/// A segment, and what is counted and noted of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Surveyed {
    /// Its id.
    pub segment: SegmentId,
    /// Its record.
    pub record: SegmentRecord,
    /// Bytes that files refer to; 0: it is dead.
    pub live_bytes: u64,
    /// What was noted of its shards.
    pub damage: DamageRecord,
}

/// Sums over all segments, as of one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summed {
    /// Over all that have a record, dead ones included.
    pub sums: SumsRecord,
    /// Those that were to be looked at one by one, by id. They are in the sums, too.
    pub apart: Vec<Surveyed>,
    /// The first of those on a node that are not among them, by id.
    pub listed: Vec<SegmentId>,
}

/// The catalogue of segments. Listings are ascending and continue after the last entry of the page before.
pub trait Catalogue: Send + Sync {
    /// All nodes of the volume.
    fn nodes(&self) -> Result<Vec<(NodeId, NodeRecord)>, CatalogueError>;

    /// Drops the record of a leaving node that no segment refers to, or may come to refer to. Otherwise the record stays, and that is no
    /// error.
    fn forget_node(&self, node: NodeId) -> Result<(), CatalogueError>;

    /// The volume's openings.
    fn openings(&self) -> Result<OpeningsRecord, CatalogueError>;

    /// How far it has come. `None`: nodes have no replica of it.
    fn reached(&self) -> Result<Option<Reached>, CatalogueError> {
        Ok(None)
    }

    /// The opening's next number, durable when it returns, where it is time for one: nodes are to be told of it. A catalogue that nobody can
    /// have an older copy of has none.
    fn renew_opening(&self) -> Result<Option<Opening>, CatalogueError> {
        Ok(None)
    }

    /// A segment's record; `None` when there is none (any more).
    fn segment(&self, segment: SegmentId) -> Result<Option<SegmentRecord>, CatalogueError>;

    /// Up to `limit` segments after `after`, dead ones included, each with what is counted and noted of it, all as of one moment.
    fn survey(&self, after: Option<SegmentId>, limit: usize) -> Result<Vec<Surveyed>, CatalogueError>;

    /// Sums over all segments, dead ones included.
    fn sums(&self) -> Result<SumsRecord, CatalogueError>;

    /// Sums over all segments, and those segments that are to be looked at one by one: each that is dead or marked, or has a shard on one of
    /// these nodes. Of the others on the node of `listed`, the first ones are listed, at most that number. All as of one moment. `None`:
    /// there are too many to be looked at, and a walk over all is as good.
    fn summed(
        &self,
        apart_on: &BTreeSet<NodeId>,
        listed: Option<(NodeId, usize)>,
    ) -> Result<Option<Summed>, CatalogueError>;

    /// Bytes of the segment that files refer to; 0: it is dead.
    fn live_bytes(&self, segment: SegmentId) -> Result<u64, CatalogueError>;

    /// Replaces `expected` by `new` atomically; durable when it returns. A mark of damage stays. The same transaction retains the previous
    /// generation and ends the retention of a restored one.
    ///
    /// # Errors
    /// [`CatalogueError::Changed`]: the record is not `expected`, or the generation to be restored is being removed, or is not retained any more.
    fn replace_segment(
        &self,
        segment: SegmentId,
        expected: &SegmentRecord,
        new: &SegmentRecord,
        succession: &Succession,
    ) -> Result<(), CatalogueError>;

    /// The queue of what is unreferenced: dead segments, then previous generations, each by its id. A crash may still bring back what
    /// killed a segment; see [`Self::flush`].
    fn unreferenced(&self, after: Option<Item>, limit: usize) -> Result<Vec<Queued>, CatalogueError>;

    /// The previous generations of one segment, the oldest first.
    fn retained_of(&self, segment: SegmentId) -> Result<Vec<RetainedRecord>, CatalogueError>;

    /// Marks a previous generation, so that it cannot be restored any more; durable when it returns. Returns its state then.
    ///
    /// # Errors
    /// [`CatalogueError::Changed`]: it is not `expected` any more.
    fn mark_going(&self, expired: Expired, expected: &RetainedRecord) -> Result<RetainedRecord, CatalogueError>;

    /// Forgets a previous generation whose shards are removed; durable when it returns.
    ///
    /// # Errors
    /// [`CatalogueError::Changed`]: it is not `expected` any more.
    fn drop_generation(&self, going: Removable, expected: &RetainedRecord) -> Result<(), CatalogueError>;

    /// Segments that a writer, a reader or a scrub marked: something about a shard is not as it should be.
    fn damaged(&self, after: Option<SegmentId>, limit: usize) -> Result<Vec<SegmentId>, CatalogueError>;

    /// Marks a segment, so that a repair looks at it.
    fn mark_damaged(&self, segment: SegmentId) -> Result<(), CatalogueError> {
        self.note_damage(segment, &[])
    }

    /// The same, with the defects found, which are added to the noted ones. Without any defects, every shard is to be read.
    fn note_damage(&self, segment: SegmentId, found: &[DamagedShard]) -> Result<(), CatalogueError>;

    /// After a look at a segment's shards: puts `after` in the place of the note `before`, which was there before the look; `None`: nothing
    /// is noted. False: another note is there by now, and stays.
    fn replace_damage(
        &self,
        segment: SegmentId,
        before: Option<&DamageRecord>,
        after: Option<&DamageRecord>,
    ) -> Result<bool, CatalogueError>;

    /// The noted defects of a segment's shards; `None`: it is not marked.
    fn damage(&self, segment: SegmentId) -> Result<Option<DamageRecord>, CatalogueError>;

    /// Makes every change committed before the call durable. It comes between the reading that finds a shard unneeded and the removal.
    fn flush(&self) -> Result<(), CatalogueError>;

    /// Forgets a dead segment whose shards are removed.
    ///
    /// # Errors
    /// [`CatalogueError::Changed`]: the record is not `expected`, or the segment is not dead.
    fn drop_segment(&self, dead: Removable, expected: &SegmentRecord) -> Result<(), CatalogueError>;

    /// Paths of files with bytes in the segment, at most `limit`, for messages.
    fn paths(&self, segment: SegmentId, limit: usize) -> Result<Vec<String>, CatalogueError>;

    /// Bytes of files that lie in these data bytes of the segment, for messages: paths, and where in the file.
    fn places(&self, segment: SegmentId, data: &[Range<u64>]) -> Result<Vec<(String, Range<u64>)>, CatalogueError>;

    /// How a living segment is to be kept now, going by the policies of its files.
    fn wanted_code(&self, segment: SegmentId, now_ms: u64) -> Result<Wanted, CatalogueError>;

    /// Does any policy want files to have another code when they have not changed for a while?
    fn has_age_rules(&self) -> Result<bool, CatalogueError>;

    /// Asks whether [`Self::merge`] may be called from here now. It may wait, as that does.
    ///
    /// # Errors
    /// [`CatalogueError::NotOwner`]: it may not.
    fn check_owner(&self) -> Result<(), CatalogueError>;

    /// Do so few files lie in this segment that it may be merged with others?
    fn may_merge(&self, segment: SegmentId) -> Result<bool, CatalogueError>;

    /// An id that was never given out, of a segment made at `created_ms`.
    fn new_segment(&self, created_ms: u64) -> SegmentId;

    /// Atomically points all files from `sources` at the new segment `merged`, their concatenation in this order. The sources are dead
    /// from then on, and shards of theirs that `merged` names belong to it. Durable when it returns. It may wait for files that are
    /// being written: not to be called where others run.
    ///
    /// # Errors
    /// [`CatalogueError::NotOwner`]; [`CatalogueError::Changed`]: a source has another record than here, or files changed meanwhile.
    /// Nothing was done.
    fn merge(
        &self,
        sources: &[(SegmentId, SegmentRecord)],
        merged: &(SegmentId, SegmentRecord),
    ) -> Result<(), CatalogueError>;

    /// The shards with this segment's name that belong to another segment, because a merged segment took them over; each with its owner.
    fn aliases(&self, segment: SegmentId) -> Result<Vec<(ShardKey, SegmentId)>, CatalogueError>;

    /// The record of the job with this name.
    fn job(&self, name: &str) -> Result<Option<Vec<u8>>, CatalogueError>;

    /// Notes, or with `None` forgets, a job's record; durable when it returns.
    fn set_job(&self, name: &str, record: Option<&[u8]>) -> Result<(), CatalogueError>;

    /// Notes a job's record in place of `expected`, durably; false: another process was quicker.
    fn replace_job(&self, name: &str, expected: Option<&[u8]>, new: &[u8]) -> Result<bool, CatalogueError>;

    /// The lease for changing segments; `None`: no process ever had it.
    fn lease(&self) -> Result<Option<LeaseRecord>, CatalogueError>;

    /// Replaces `expected` by `new`, durably; false: another process was quicker.
    fn replace_lease(&self, expected: Option<&LeaseRecord>, new: &LeaseRecord) -> Result<bool, CatalogueError>;

    /// From now on [`Self::replace_segment`], [`Self::merge`], [`Self::mark_going`], [`Self::drop_generation`]
    /// and [`Self::drop_segment`] are refused unless the lease has this term; `None`: they are not.
    fn set_fence(&self, term: Option<u64>);

    /// Makes a new node, of the same name and weight, of the place in which `node` was and nothing is any more; `node` is given
    /// up. What is known of the volume's nodes is to be read anew. Where some of its shards were left it is itself again. Where
    /// somebody else has done it nothing is left to do.
    ///
    /// # Errors
    /// Something is there after all; the place cannot be written.
    fn renew_node(&self, node: NodeId) -> Result<Renewed, CatalogueError>;

    /// Takes back a node that was given up and answers as itself again. A node that was not given up is no error.
    fn restore_node(&self, node: NodeId) -> Result<(), CatalogueError>;
}

/// Segments per page of a walk: enough to make the pages' cost vanish, few enough to hold.
const PAGE: usize = 512;

/// All segments after `after`, with what is counted and noted of them, page by page: each page as of the moment at which it is needed.
pub(crate) struct Walk<'c> {
    catalogue: &'c dyn Catalogue,
    after: Option<SegmentId>,
    page: std::vec::IntoIter<Surveyed>,
    ended: bool,
}

impl<'c> Walk<'c> {
    pub(crate) fn new(catalogue: &'c dyn Catalogue, after: Option<SegmentId>) -> Self {
        Self { catalogue, after, page: Vec::new().into_iter(), ended: false }
    }

    /// Those that files refer to.
    pub(crate) fn living(catalogue: &'c dyn Catalogue) -> impl Iterator<Item = Result<Surveyed, CatalogueError>> + 'c {
        Self::new(catalogue, None).filter(|entry| !matches!(entry, Ok(Surveyed { live_bytes: 0, .. })))
    }
}

impl Iterator for Walk<'_> {
    type Item = Result<Surveyed, CatalogueError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.page.len() == 0 && !self.ended {
            match self.catalogue.survey(self.after, PAGE) {
                Ok(page) => {
                    self.ended = page.len() < PAGE;
                    self.page = page.into_iter();
                }
                Err(error) => {
                    self.ended = true;
                    return Some(Err(error));
                }
            }
        }
        let surveyed = self.page.next()?;
        self.after = Some(surveyed.segment);
        Some(Ok(surveyed))
    }
}
