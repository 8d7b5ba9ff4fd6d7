//! Reading segments: their records, cached, and what to do when a record turns out to be old.

use crate::error::VfsError;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use weft_env::Runtime;
use weft_env::sync::Mutex;
use weft_format::records::{DamagedShard, SegmentRecord};
use weft_format::{Ino, SegmentId};
use weft_meta::{MetaError, Store};
use weft_transfer::{ReadError, ReadPart, ReadReport, Suspect, Transfer};

/// Records kept; at 500 bytes each, 32 MiB, which is 512 GiB of data in full segments of rs:4+2.
const RECORDS_MAX: usize = 65_536;

/// See the module's head.
pub(crate) struct Segments {
    store: Arc<Store>,
    transfer: Transfer,
    /// For what nobody waits for.
    background: Transfer,
    runtime: Runtime,
    records: quick_cache::sync::Cache<SegmentId, Arc<SegmentRecord>>,
    /// What reads found wrong, not yet noted in metadata.
    suspects: Mutex<BTreeMap<SegmentId, Vec<DamagedShard>>>,
}

impl Segments {
    pub fn new(store: Arc<Store>, transfer: Transfer, runtime: Runtime) -> Self {
        let records = quick_cache::sync::Cache::new(RECORDS_MAX);
        let background = transfer.in_background();
        Self { store, transfer, background, runtime, records, suspects: Mutex::default() }
    }

    pub fn transfer(&self) -> &Transfer {
        &self.transfer
    }

    /// The same, for what nobody waits for.
    pub fn background(&self) -> &Transfer {
        &self.background
    }

    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    fn record(&self, segment: SegmentId) -> Result<Arc<SegmentRecord>, VfsError> {
        if let Some(record) = self.records.get(&segment) {
            return Ok(record);
        }
        self.read_record(segment)
    }

    fn read_record(&self, segment: SegmentId) -> Result<Arc<SegmentRecord>, VfsError> {
        let record = Arc::new(self.store.segment(segment)?.ok_or_else(|| MetaError::Damaged {
            key: format!("segment/{segment}"),
            detail: "a file's extent names it and it does not exist".into(),
        })?);
        self.records.insert(segment, record.clone());
        Ok(record)
    }

    /// Bytes `range` of a segment, without a copy where the cache holds them in one piece.
    pub fn read_bytes(&self, ino: Ino, segment: SegmentId, range: Range<u64>) -> Result<bytes::Bytes, VfsError> {
        self.with_fresh_record(ino, segment, |record| {
            self.transfer.block_on(self.transfer.read_bytes(segment, record, range.clone()))
        })
    }

    /// The same, where nobody waits for them.
    pub fn read_in_background(
        &self,
        ino: Ino,
        segment: SegmentId,
        range: Range<u64>,
    ) -> Result<bytes::Bytes, VfsError> {
        self.with_fresh_record(ino, segment, |record| {
            self.runtime.block_on(self.background.read_bytes(segment, record, range.clone()))
        })
    }

    /// Bytes of several segments, each with its place, in one download.
    pub fn read(&self, ino: Ino, mut parts: Vec<(SegmentId, Range<u64>, &mut [u8])>) -> Result<(), VfsError> {
        let mut records: Vec<Arc<SegmentRecord>> =
            parts.iter().map(|(segment, ..)| self.record(*segment)).collect::<Result<_, _>>()?;
        loop {
            let borrowed = (parts.iter_mut().zip(&records))
                .map(|((segment, range, out), record)| ReadPart {
                    segment: *segment,
                    record,
                    range: range.clone(),
                    out,
                })
                .collect();
            let source = match self.transfer.block_on(self.transfer.read_parts(borrowed)) {
                Ok(reports) => {
                    for (((segment, ..), record), report) in parts.iter().zip(&records).zip(reports) {
                        self.took(*segment, record, &report)?;
                    }
                    return Ok(());
                }
                Err(source) => source,
            };
            // Only something new is tried: who reads waits once for nodes that are silent.
            let fresh: Vec<Arc<SegmentRecord>> =
                parts.iter().map(|(segment, ..)| self.read_record(*segment)).collect::<Result<_, _>>()?;
            if fresh == records {
                for ((segment, ..), record) in parts.iter().zip(&records) {
                    if source.segment() == *segment {
                        self.suspect(*segment, record, &source.suspects());
                    }
                }
                return Err(VfsError::Read { ino, source });
            }
            records = fresh;
        }
    }

    /// A read had what it wanted; if it had trouble on the way, its cause is noted, or a newer record found.
    fn took(&self, segment: SegmentId, record: &Arc<SegmentRecord>, report: &ReadReport) -> Result<(), VfsError> {
        if !report.suspects.is_empty() {
            let fresh = self.read_record(segment)?;
            if fresh == *record {
                self.suspect(segment, record, &report.suspects);
            }
        }
        Ok(())
    }

    /// Has what a read found wrong noted.
    fn suspect(&self, segment: SegmentId, record: &SegmentRecord, suspects: &[Suspect]) {
        if suspects.iter().any(Suspect::wants_a_look) {
            let found = suspects.iter().filter_map(|suspect| suspect.damage(segment, record));
            self.suspects.lock().entry(segment).or_default().extend(found);
        }
    }

    /// Fetches ahead, in the background.
    pub fn prefetch(&self, segment: SegmentId, range: Range<u64>) {
        if let Ok(record) = self.record(segment) {
            self.transfer.prefetch(segment, &record, range);
        }
    }

    /// A repair elsewhere may have moved shards since the record was cached: a read that had trouble looks again, and one
    /// that failed is tried again if there is something new.
    fn with_fresh_record<T>(
        &self,
        ino: Ino,
        segment: SegmentId,
        mut read: impl FnMut(&Arc<SegmentRecord>) -> Result<(T, ReadReport), ReadError>,
    ) -> Result<T, VfsError> {
        let mut record = self.record(segment)?;
        loop {
            let outcome = read(&record);
            if let Ok((value, report)) = outcome {
                self.took(segment, &record, &report)?;
                return Ok(value);
            }
            let fresh = self.read_record(segment)?;
            match outcome {
                Err(source) if fresh == record => {
                    self.suspect(segment, &record, &source.suspects());
                    return Err(VfsError::Read { ino, source });
                }
                _ => record = fresh,
            }
        }
    }

    /// Writes down which segments were found damaged, so that repair finds them.
    pub fn note_suspects(&self) {
        let suspects = std::mem::take(&mut *self.suspects.lock());
        for (segment, found) in suspects {
            match self.store.note_damage(segment, &found) {
                Ok(()) => tracing::warn!(%segment, "shards are missing or damaged; `weft repair` restores them"),
                Err(error) => tracing::error!(%segment, "could not note the damage: {error}"),
            }
        }
    }
}
