//! Compaction: the living bytes of segments that are mostly dead are written together into new segments; many small segments become
//! few; and segments whose files want unlike codes, because the policy of some was changed, are divided the same way.
//!
//! Overwriting and deleting leave dead bytes in segments, which never change. A segment without a living byte goes to the
//! trash by itself; a thin one would hold its room for ever. Files that are written one at a time become one segment each, and a
//! small segment has as many shards on the nodes as a large one. One round:
//!
//! ```text
//! choose (which segments: pure, `compact/choose.rs`) -> live_runs (what of them lives, and whose it is) -> pack (into new segments: pure)
//!   -> for each new segment: read, transfer.write, move_extents (one metadata operation), forget cached extents
//! ```
//!
//! The move is conditional: bytes overwritten since they were read stay as they are. The old segments lose their last
//! bytes by it and go to the trash, where their shards outlast every read that still looks for them there. A crash before
//! the move leaves shards that nobody names, a crash after it the same file in another place.

mod choose;
pub(crate) mod rounds;

use crate::error::VfsError;
use crate::extents::each_extent;
use crate::files::{File, FileState};
use crate::policies::{Policy, write_request};
use crate::request::milliseconds;
use crate::volume::Volume;
use choose::{Candidate, Living, Reason, choose, one_round};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use weft_env::sync::MutexGuard;
use weft_format::{Ino, PolicyId, SegmentId};
use weft_meta::{Extent, ExtentMove, MetaError};
use weft_transfer::Receipt;

/// Pieces in one new segment: with 4 KiB each it has the 8 MiB of a full one. Their files are locked while they are moved,
/// some tens of milliseconds.
const PIECES_MAX: usize = 2048;
/// Segments looked at in one go.
const SEGMENTS_PAGE: usize = 1024;

/// When segments are to be compacted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demand {
    /// Thin segments if enough is dead to be worth the work: a volume does this by itself.
    Worthwhile,
    /// Every thin segment: somebody asked for it. Merging and dividing are the same for both.
    Any,
}

/// What a round has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compacted {
    /// Segments that were chosen; none: nothing is left to do.
    pub chosen_count: u64,
    /// Of these, the ones that have no living byte any more.
    pub emptied_count: u64,
    /// Of the emptied ones, those that were chosen because they were small.
    pub merged_count: u64,
    /// Living bytes that were moved.
    pub moved_bytes: u64,
    /// Bytes of shards that will be gone when the emptied ones' time in the trash is over.
    pub freed_bytes: u64,
}

/// Living bytes of a file in a segment that is being compacted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    ino: Ino,
    extent: Extent,
}

/// Spreads runs, in their order, over new segments; one that does not fit a segment's end is cut there.
fn pack(runs: &[Run], segment_bytes: u64) -> Vec<Vec<Run>> {
    let mut segments: Vec<Vec<Run>> = Vec::new();
    let mut room = 0;
    for run in runs {
        let mut rest = *run;
        while rest.extent.length > 0 {
            if room == 0 || segments.last().is_none_or(|segment| segment.len() == PIECES_MAX) {
                segments.push(Vec::new());
                room = segment_bytes.max(1);
            }
            let (head, tail) = split(rest, room);
            room -= head.extent.length;
            segments.last_mut().expect("one was just made").push(head);
            rest = tail;
        }
    }
    segments
}

/// The first `bytes` of a run, or all of it, and the rest, which may be empty.
fn split(run: Run, bytes: u64) -> (Run, Run) {
    let (mut head, mut tail) = (run, run);
    head.extent.length = run.extent.length.min(bytes);
    tail.extent.length -= head.extent.length;
    tail.extent.file_offset += head.extent.length;
    tail.extent.segment_offset += head.extent.length;
    (head, tail)
}

/// Small segments are merged only if that makes fewer of them: their files may have unlike policies, or very many pieces.
fn is_worth_packing(runs: &[Run], packed_count: usize, chosen: &[Candidate]) -> bool {
    let sources: HashSet<SegmentId> = runs.iter().map(|run| run.extent.segment).collect();
    let is_small = |candidate: &&Candidate| candidate.reason == Reason::Small;
    let small_count = chosen.iter().filter(is_small).filter(|candidate| sources.contains(&candidate.segment)).count();
    small_count < sources.len() || packed_count < sources.len()
}

impl Volume {
    /// One round of compaction. Call it until nothing is chosen, with the same `tried`: a segment is tried once.
    ///
    /// # Errors
    /// Metadata fails; there is no room to move anything; nodes do not take every shard of a new segment: it would be less safe than the old ones, which
    /// then stay. Segments that cannot be read are left as they are, and are no error.
    pub fn compact(&self, demand: Demand, tried: &mut HashSet<SegmentId>) -> Result<Compacted, VfsError> {
        let _at_work = self.compaction.begin();
        // The old shards stay for a while beside the new ones: writers need room meanwhile.
        let room = self.statfs()?;
        let room_bytes = room.blocks_available * u64::from(room.block_bytes) / 2;
        let chosen = choose(self.living_segments()?, demand, tried);
        let chosen = one_round(chosen, room_bytes).map_err(|bytes| VfsError::NoRoom { bytes })?;
        tried.extend(chosen.iter().map(|candidate| candidate.segment));
        let mut compacted = Compacted { chosen_count: chosen.len() as u64, ..Compacted::default() };
        let mut unreadable = HashSet::new();
        let mut failed = Ok(());
        for ((policy, code), runs) in self.live_runs(&chosen)? {
            let policy = self.policies.get(&self.store, policy)?.with_code(&code)?;
            let packed = pack(&runs, policy.segment_bytes);
            if !is_worth_packing(&runs, packed.len(), &chosen) {
                continue;
            }
            for runs in packed {
                if self.compaction.is_stopping() {
                    return Ok(compacted);
                }
                match self.copy(&policy, &runs, &mut unreadable) {
                    Ok(moved_bytes) => compacted.moved_bytes += moved_bytes,
                    // What is kept by other policies does not wait for nodes that this one lacks.
                    Err(error) => {
                        failed = failed.and(Err(error));
                        break;
                    }
                }
            }
        }
        failed?;
        for candidate in chosen {
            if self.store.live_bytes(candidate.segment)? == 0 {
                compacted.emptied_count += 1;
                compacted.merged_count += u64::from(candidate.reason == Reason::Small);
                compacted.freed_bytes += candidate.stored_bytes;
            }
        }
        Ok(compacted)
    }

    fn living_segments(&self) -> Result<Vec<Living>, VfsError> {
        let has_unlike_policies = self.store.policies()?.len() > 1;
        // There may be very many segments, and they share a few codes.
        let (mut living, mut codes) = (Vec::new(), BTreeSet::<Arc<str>>::new());
        let mut after = None;
        loop {
            let page = self.store.segments_by_live(after, SEGMENTS_PAGE)?;
            let Some((last, _)) = page.last() else { return Ok(living) };
            after = Some(*last);
            let segments: Vec<SegmentId> = page.iter().map(|(segment, _)| *segment).collect();
            let divided =
                if has_unlike_policies { self.store.divided(&segments, self.now())? } else { BTreeSet::new() };
            for (segment, live_bytes) in page {
                if let Some(record) = self.store.segment(segment)? {
                    let (data_bytes, stored_bytes) = (record.geometry.data_bytes, record.stored_bytes());
                    let code = codes.get(record.code.as_str()).cloned().unwrap_or_else(|| record.code.as_str().into());
                    codes.insert(code.clone());
                    let is_divided = divided.contains(&segment);
                    living.push(Living { segment, live_bytes, data_bytes, stored_bytes, code, is_divided });
                }
            }
        }
    }

    /// What lives in the chosen segments, by the policy of its files and the code that suits its age, each file's bytes together.
    fn live_runs(&self, chosen: &[Candidate]) -> Result<BTreeMap<(PolicyId, String), Vec<Run>>, VfsError> {
        let mut files = BTreeSet::new();
        for candidate in chosen {
            files.extend(self.store.files_of_segment(candidate.segment)?);
        }
        let chosen: HashSet<SegmentId> = chosen.iter().map(|candidate| candidate.segment).collect();
        let now_ms = milliseconds(self.now());
        let mut runs: BTreeMap<(PolicyId, String), Vec<Run>> = BTreeMap::new();
        for ino in files {
            let attributes = match self.store.attributes(ino) {
                Ok(attributes) => attributes,
                Err(MetaError::NotFound) => continue,
                Err(error) => return Err(error.into()),
            };
            let policy = self.policies.get(&self.store, attributes.policy)?;
            each_extent(&self.store, ino, |extent| {
                if chosen.contains(&extent.segment) {
                    let changed_ms = milliseconds(attributes.mtime).max(extent.segment.created_ms());
                    let code = policy.record.code_at(now_ms.saturating_sub(changed_ms)).to_owned();
                    runs.entry((attributes.policy, code)).or_default().push(Run { ino, extent });
                }
            })?;
        }
        Ok(runs)
    }

    /// Copies runs into one new segment and lets their files refer to it. Returns how many bytes were moved.
    fn copy(&self, policy: &Policy, runs: &[Run], unreadable: &mut HashSet<SegmentId>) -> Result<u64, VfsError> {
        // It may be committed until the end.
        let new = self.write_back.segment_ids().begin(milliseconds(self.now()), self.store.env().rng.next_u16());
        let segment = new.id;
        let (mut data, mut moves, mut segment_offset) = (Vec::new(), Vec::new(), 0);
        for Run { ino, extent } in runs.iter().copied() {
            if unreadable.contains(&extent.segment) {
                continue;
            }
            let range = extent.segment_offset..extent.segment_offset + extent.length;
            match self.segments.read_in_background(ino, extent.segment, range) {
                Ok(bytes) => data.push(bytes),
                Err(error) => {
                    // One that has died since it was chosen may be gone already.
                    if self.store.live_bytes(extent.segment)? > 0 {
                        tracing::warn!(segment = %extent.segment, "could not be compacted: {error}");
                    }
                    unreadable.insert(extent.segment);
                    continue;
                }
            }
            moves.push(ExtentMove { ino, from: extent, to: Extent { segment, segment_offset, ..extent } });
            segment_offset += extent.length;
        }
        if moves.is_empty() {
            return Ok(0);
        }
        let request = write_request(&policy.record, segment, data);
        let runtime = self.segments.runtime();
        let receipt = runtime.block_on(self.segments.background().write(request))?;
        if !receipt.missing.is_empty() {
            runtime.block_on(self.segments.background().withdraw(segment, &receipt.record));
            return Err(VfsError::ShortCopy { missing_count: receipt.missing.len() });
        }
        self.adopt(segment, &receipt, &moves)
    }

    /// Lets files refer to their bytes' copies in a new segment.
    fn adopt(&self, segment: SegmentId, receipt: &Receipt, moves: &[ExtentMove]) -> Result<u64, VfsError> {
        let inos: BTreeSet<Ino> = moves.iter().map(|step| step.ino).collect();
        let segments = [(segment, receipt.record.clone())];
        Ok(self.with_files_locked(&inos, || self.store.move_extents(moves, &segments, self.now()))?)
    }

    /// Does what moves extents of these files, which nobody uses meanwhile.
    pub(crate) fn with_files_locked<T>(&self, inos: &BTreeSet<Ino>, work: impl FnOnce() -> T) -> T {
        // A file that cannot be opened any more is gone, and the move skips it.
        let files: Vec<Arc<File>> = inos.iter().filter_map(|ino| self.files.open(&self.store, *ino).ok()).collect();
        // Locked, and in the order of every other who locks several: extents do not move under a truncation's feet.
        let mut states: Vec<MutexGuard<'_, FileState>> = files.iter().map(|file| file.lock()).collect();
        let done = work();
        states.iter_mut().for_each(|state| state.forget_extents());
        drop(states);
        for file in files {
            let ino = file.ino;
            drop(file);
            self.reclaim_if(self.files.close(ino));
        }
        done
    }
}

#[cfg(test)]
#[path = "compact_tests.rs"]
mod tests;
