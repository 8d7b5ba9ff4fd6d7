//! Reads through the cache on disk: what it has comes from there, the rest from nodes in whole pieces, which are then kept.

use super::part::ReadPart;
use super::report::ReadReport;
use crate::disk_cache::{DiskCache, PIECE_BYTES, PieceKey};
use crate::error::ReadError;
use crate::transfer::Inner;
use bytes::Bytes;
use std::ops::Range;
use std::sync::Arc;
use weft_format::SegmentId;

/// The pieces that a range touches, each with its whole range in a segment of `data_bytes`.
fn pieces(range: &Range<u64>, data_bytes: u64) -> impl Iterator<Item = (u64, Range<u64>)> + use<> {
    let numbers = range.start / PIECE_BYTES..range.end.div_ceil(PIECE_BYTES);
    numbers.map(move |number| (number, number * PIECE_BYTES..((number + 1) * PIECE_BYTES).min(data_bytes)))
}

/// Pieces of one part that follow each other and are not on disk.
struct Run {
    part: usize,
    range: Range<u64>,
}

impl Inner {
    pub(super) async fn fetch_through(
        &self,
        disk: &Arc<DiskCache>,
        mut parts: Vec<ReadPart<'_>>,
    ) -> Result<Vec<ReadReport>, ReadError> {
        let mut wanted: Vec<(usize, PieceKey, Range<u64>)> = Vec::new();
        for (index, part) in parts.iter().enumerate() {
            let pieces = pieces(&part.range, part.record.geometry.data_bytes);
            wanted.extend(pieces.map(|(number, range)| (index, (part.segment, number), range)));
        }
        let asked = wanted.iter().map(|(_, key, range)| (*key, range.end - range.start)).collect();
        let found = self.find(disk, asked).await;
        let mut runs: Vec<Run> = Vec::new();
        for ((index, _, range), piece) in wanted.into_iter().zip(found) {
            match piece {
                Some(bytes) => parts[index].fill(range.start, &bytes),
                None => match runs.last_mut() {
                    Some(last) if last.part == index && last.range.end == range.start => last.range.end = range.end,
                    _ => runs.push(Run { part: index, range }),
                },
            }
        }
        let mut reports = vec![ReadReport::default(); parts.len()];
        if runs.is_empty() {
            return Ok(reports);
        }
        let mut read: Vec<Vec<u8>> =
            runs.iter().map(|run| vec![0; (run.range.end - run.range.start) as usize]).collect();
        let downloads = (runs.iter().zip(&mut read)).map(|(run, out)| {
            let ReadPart { segment, record, .. } = &parts[run.part];
            ReadPart { segment: *segment, record, range: run.range.clone(), out }
        });
        let run_reports = self.download(downloads.collect()).await?;
        for ((run, bytes), report) in runs.into_iter().zip(read).zip(run_reports) {
            let part = &mut parts[run.part];
            part.fill(run.range.start, &bytes);
            reports[run.part].add(&report);
            self.keep(disk, part.segment, run.range, bytes.into());
        }
        Ok(reports)
    }

    /// What of the pieces is on disk.
    async fn find(&self, disk: &Arc<DiskCache>, asked: Vec<(PieceKey, u64)>) -> Vec<Option<Bytes>> {
        let (disk, count) = (disk.clone(), asked.len());
        let find = move || asked.into_iter().map(|(key, bytes)| disk.get(key, bytes)).collect();
        // What goes wrong there is a miss.
        self.runtime.spawn_blocking(find).await.unwrap_or_else(|_| vec![None; count])
    }

    /// Keeps whole pieces, in the background; not if the disk is too slow for all that is read.
    fn keep(&self, disk: &Arc<DiskCache>, segment: SegmentId, range: Range<u64>, bytes: Bytes) {
        if !disk.make_way(bytes.len() as u64) {
            return;
        }
        let disk = disk.clone();
        self.runtime.spawn_blocking(move || {
            for (number, piece) in pieces(&range, range.end) {
                let (from, to) = (piece.start - range.start, piece.end - range.start);
                disk.put((segment, number), &bytes[from as usize..to as usize]);
            }
        });
    }
}

impl ReadPart<'_> {
    /// Takes what it wants of bytes that begin at `start` of its segment.
    fn fill(&mut self, start: u64, bytes: &[u8]) {
        let (from, to) = (self.range.start.max(start), self.range.end.min(start + bytes.len() as u64));
        let place = &mut self.out[(from - self.range.start) as usize..(to - self.range.start) as usize];
        place.copy_from_slice(&bytes[(from - start) as usize..(to - start) as usize]);
    }
}
