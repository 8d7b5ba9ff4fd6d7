//! The catalogue of segments as care sees it, kept in a volume's metadata.

use parking_lot::Mutex;
use std::ops::Range;
use std::sync::{Arc, Weak};
use weft_care::{Catalogue, CatalogueError, Renewed};
use weft_env::Env;
use weft_format::records::{
    DamageRecord, DamagedShard, LeaseRecord, NodeRecord, OpeningsRecord, RetainedRecord, SegmentRecord, Succession,
    Timestamp, Wanted,
};
use weft_format::removal::{Expired, Item, Queued, Removable};
use weft_format::{Ino, NodeId, SegmentId, ShardKey};
use weft_meta::{Access, Extent, Fence, MetaError, MetaUrl, Store};
use weft_vfs::open::open_store;
use weft_vfs::{VfsError, Volume, merge};

/// A store opened for looking and caring.
pub struct StoreCatalogue {
    store: Arc<Store>,
    fence: Mutex<Option<Fence>>,
    files: Files,
}

/// By whom it is changed where files refer to, from this process.
enum Files {
    /// By nobody.
    Fixed,
    /// By the owner, which it is.
    Owned(Weak<Volume>),
    /// By a short-lived owner, while nobody has it mounted, of the metadata at this place.
    Free(MetaUrl),
}

/// The lease of those who change segments.
const LEASE: &str = "care";

impl StoreCatalogue {
    /// Of a volume whose files refer where they do now.
    #[must_use]
    pub fn new(store: Arc<Store>) -> Self {
        Self { store, fence: Mutex::default(), files: Files::Fixed }
    }

    /// Of a volume that this process owns.
    #[must_use]
    pub fn of_owner(volume: &Arc<Volume>) -> Self {
        Self { files: Files::Owned(Arc::downgrade(volume)), ..Self::new(volume.store().clone()) }
    }

    /// Of a volume, with the metadata at `meta`, which this process may own for a moment.
    #[must_use]
    pub fn short_lived(store: Arc<Store>, meta: &MetaUrl) -> Self {
        Self { files: Files::Free(meta.clone()), ..Self::new(store) }
    }

    /// A file's path, for people.
    fn path(&self, ino: Ino) -> Result<String, CatalogueError> {
        Ok(match self.store.path_of(ino).map_err(failed)? {
            Some(path) => String::from_utf8_lossy(&path).into_owned(),
            None => format!("(inode {ino}, deleted, and open or kept)"),
        })
    }

    /// Makes a change durable: what care removes next may be all that the old record named.
    fn durable<T>(&self, changed: Result<T, MetaError>) -> Result<T, CatalogueError> {
        let value = changed.map_err(failed)?;
        self.store.flush().map_err(failed)?;
        Ok(value)
    }
}

/// Where these data bytes of an extent's segment are in its file, as far as it refers to them.
fn place(extent: &Extent, data: &Range<u64>) -> Option<Range<u64>> {
    let start = data.start.max(extent.segment_offset);
    let end = data.end.min(extent.segment_offset + extent.length);
    (start < end).then(|| {
        let first = extent.file_offset + (start - extent.segment_offset);
        first..first + (end - start)
    })
}

/// After commands that own the volume and end soon.
fn open_short_lived(meta: &MetaUrl, env: &Env) -> Result<Store, CatalogueError> {
    open_store(meta, Access::ShortLived, None, env).map_err(|error| match error {
        MetaError::InUse(by_whom) => {
            tracing::debug!(by_whom, "files stay where they are");
            CatalogueError::NotOwner
        }
        other => failed(other),
    })
}

pub(crate) fn failed(error: MetaError) -> CatalogueError {
    match error {
        MetaError::SegmentChanged(segment) => CatalogueError::Changed(segment),
        MetaError::Fenced { .. } => CatalogueError::Fenced,
        MetaError::Superseded(why) => CatalogueError::Superseded(why),
        other => CatalogueError::Failed(other.to_string()),
    }
}

fn failed_volume(error: VfsError) -> CatalogueError {
    match error {
        VfsError::Meta(error) => failed(error),
        other => CatalogueError::Failed(other.to_string()),
    }
}

impl Catalogue for StoreCatalogue {
    fn nodes(&self) -> Result<Vec<(NodeId, NodeRecord)>, CatalogueError> {
        self.store.nodes().map_err(failed)
    }

    fn forget_node(&self, node: NodeId) -> Result<(), CatalogueError> {
        self.durable(self.store.remove_node(node)).map(drop)
    }

    fn openings(&self) -> Result<OpeningsRecord, CatalogueError> {
        self.store.openings().map_err(failed)
    }

    fn segment(&self, segment: SegmentId) -> Result<Option<SegmentRecord>, CatalogueError> {
        self.store.segment(segment).map_err(failed)
    }

    fn segments(
        &self,
        after: Option<SegmentId>,
        limit: usize,
    ) -> Result<Vec<(SegmentId, SegmentRecord)>, CatalogueError> {
        self.store.segments(after, limit).map_err(failed)
    }

    fn live_bytes(&self, segment: SegmentId) -> Result<u64, CatalogueError> {
        self.store.live_bytes(segment).map_err(failed)
    }

    fn replace_segment(
        &self,
        segment: SegmentId,
        expected: &SegmentRecord,
        new: &SegmentRecord,
        succession: &Succession,
    ) -> Result<(), CatalogueError> {
        let fence = self.fence.lock().clone();
        self.durable(self.store.replace_segment(segment, expected, new, succession, fence.as_ref()))
    }

    fn unreferenced(&self, after: Option<Item>, limit: usize) -> Result<Vec<Queued>, CatalogueError> {
        self.store.unreferenced(after, limit).map_err(failed)
    }

    fn retained_of(&self, segment: SegmentId) -> Result<Vec<RetainedRecord>, CatalogueError> {
        self.store.retained_of(segment).map_err(failed)
    }

    fn mark_going(&self, expired: Expired, expected: &RetainedRecord) -> Result<RetainedRecord, CatalogueError> {
        let fence = self.fence.lock().clone();
        self.durable(self.store.mark_going(expired, expected, fence.as_ref()))
    }

    fn drop_generation(&self, going: Removable, expected: &RetainedRecord) -> Result<(), CatalogueError> {
        let fence = self.fence.lock().clone();
        self.durable(self.store.drop_generation(going, expected, fence.as_ref()))
    }

    fn damaged(&self, after: Option<SegmentId>, limit: usize) -> Result<Vec<SegmentId>, CatalogueError> {
        self.store.damaged(after, limit).map_err(failed)
    }

    fn note_damage(&self, segment: SegmentId, found: &[DamagedShard]) -> Result<(), CatalogueError> {
        self.durable(self.store.note_damage(segment, found))
    }

    fn set_damage(&self, segment: SegmentId, damage: &DamageRecord) -> Result<(), CatalogueError> {
        self.durable(self.store.set_damage(segment, damage))
    }

    fn damage(&self, segment: SegmentId) -> Result<Option<DamageRecord>, CatalogueError> {
        self.store.damage(segment).map_err(failed)
    }

    fn clear_damaged(&self, segment: SegmentId) -> Result<(), CatalogueError> {
        self.store.clear_damaged(segment).map_err(failed)
    }

    fn flush(&self) -> Result<(), CatalogueError> {
        self.store.flush().map_err(failed)
    }

    fn drop_segment(&self, dead: Removable, expected: &SegmentRecord) -> Result<(), CatalogueError> {
        let fence = self.fence.lock().clone();
        self.durable(self.store.drop_segment(dead, expected, fence.as_ref()))
    }

    fn paths(&self, segment: SegmentId, limit: usize) -> Result<Vec<String>, CatalogueError> {
        if limit == 0 {
            return Ok(Vec::new());
        }
        let files = self.store.files_of_segment(segment).map_err(failed)?;
        files.into_iter().take(limit).map(|ino| self.path(ino)).collect()
    }

    fn places(&self, segment: SegmentId, data: &[Range<u64>]) -> Result<Vec<(String, Range<u64>)>, CatalogueError> {
        let mut places = Vec::new();
        for ino in self.store.files_of_segment(segment).map_err(failed)? {
            let extents = self.store.extents(ino, 0..u64::MAX).map_err(failed)?;
            let of_segment = extents.iter().filter(|extent| extent.segment == segment);
            let of_file: Vec<Range<u64>> =
                of_segment.flat_map(|extent| data.iter().filter_map(|range| place(extent, range))).collect();
            if !of_file.is_empty() {
                let path = self.path(ino)?;
                places.extend(of_file.into_iter().map(|range| (path.clone(), range)));
            }
        }
        Ok(places)
    }

    fn wanted_code(&self, segment: SegmentId, now_ms: u64) -> Result<Wanted, CatalogueError> {
        let seconds = i64::try_from(now_ms / 1000).unwrap_or(i64::MAX);
        let nanoseconds = (now_ms % 1000) as u32 * 1_000_000;
        self.store.wanted_code(segment, Timestamp { seconds, nanoseconds }).map_err(failed)
    }

    fn has_age_rules(&self) -> Result<bool, CatalogueError> {
        self.store.has_age_rules().map_err(failed)
    }

    fn check_owner(&self) -> Result<(), CatalogueError> {
        match &self.files {
            Files::Owned(volume) if volume.strong_count() > 0 => Ok(()),
            Files::Fixed | Files::Owned(_) => Err(CatalogueError::NotOwner),
            Files::Free(meta) => open_short_lived(meta, self.store.env()).map(drop),
        }
    }

    fn may_merge(&self, segment: SegmentId) -> Result<bool, CatalogueError> {
        merge::may_merge(&self.store, segment).map_err(failed)
    }

    fn new_segment(&self, created_ms: u64) -> SegmentId {
        // Metadata that cannot be read now cannot take the segment either.
        let opening = self.store.openings().map_or(0, |openings| openings.number());
        SegmentId::of_worker(created_ms, opening, self.store.env().rng.next_u64())
    }

    fn merge(
        &self,
        sources: &[(SegmentId, SegmentRecord)],
        merged: &(SegmentId, SegmentRecord),
    ) -> Result<(), CatalogueError> {
        let fence = self.fence.lock().clone();
        match &self.files {
            Files::Fixed => Err(CatalogueError::NotOwner),
            Files::Owned(volume) => {
                let volume = volume.upgrade().ok_or(CatalogueError::NotOwner)?;
                volume.merge(sources, merged, fence.as_ref()).map_err(failed_volume)?;
                self.flush()
            }
            Files::Free(meta) => {
                let store = open_short_lived(meta, self.store.env())?;
                let merged = merge::merge(&store, sources, merged, fence.as_ref());
                merged.and_then(|()| store.flush()).map_err(failed)
            }
        }
    }

    fn aliases(&self, segment: SegmentId) -> Result<Vec<(ShardKey, SegmentId)>, CatalogueError> {
        self.store.aliases(segment).map_err(failed)
    }

    fn job(&self, name: &str) -> Result<Option<Vec<u8>>, CatalogueError> {
        self.store.job(name).map_err(failed)
    }

    fn set_job(&self, name: &str, record: Option<&[u8]>) -> Result<(), CatalogueError> {
        self.durable(self.store.set_job(name, record))
    }

    fn lease(&self) -> Result<Option<LeaseRecord>, CatalogueError> {
        self.store.lease(LEASE).map_err(failed)
    }

    fn replace_lease(&self, expected: Option<&LeaseRecord>, new: &LeaseRecord) -> Result<bool, CatalogueError> {
        self.store.replace_lease(LEASE, expected, new).map_err(failed)
    }

    fn set_fence(&self, term: Option<u64>) {
        *self.fence.lock() = term.map(|term| Fence { name: LEASE.into(), term });
    }

    fn renew_node(&self, node: NodeId) -> Result<Renewed, CatalogueError> {
        crate::nodes::renew(&self.store, node).map_err(|error| CatalogueError::Failed(error.to_string()))
    }

    fn restore_node(&self, node: NodeId) -> Result<(), CatalogueError> {
        crate::nodes::take_back(&self.store, node).map(drop).map_err(failed)
    }
}

#[cfg(test)]
#[path = "catalogue_tests.rs"]
mod tests;
