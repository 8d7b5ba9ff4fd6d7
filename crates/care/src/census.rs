//! Counts all segments: how many are whole, degraded or lost, and how many further losses of nodes every file survives.
//!
//! [`Tally`] is pure; [`census`] and [`crate::glance()`] feed it. A job says that it is done only after a census of its own.

use crate::catalogue::{Catalogue, CatalogueError, Surveyed, Walk};
use crate::damage::{believed, note, noted_standings};
use crate::job::{Cancelled, Job};
use crate::look::{Look, by_shard};
use crate::margin::{Margins, Survives};
use crate::roster::Roster;
use crate::standing::{Loss, Standing, standings};
use crate::state::{State, state};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use weft_env::TaskSet;
use weft_format::SegmentId;
use weft_format::records::SegmentRecord;
use weft_transfer::Transfer;

/// Degraded segments whose files are named, the first by id, and paths of such files that are kept for display: finding a path reads
/// directories. Paths of lost files are all kept: their owner must know each.
pub const DEGRADED_NAMED: usize = 1000;

/// Units that are named for display.
const CROWDED_UNITS: usize = 10;

/// Segments looked at together: hides the nodes' latencies.
const TOGETHER: usize = 8;

/// Why a job over all segments ended early.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CareError {
    /// The catalogue cannot be read or written.
    #[error(transparent)]
    Catalogue(#[from] CatalogueError),
    /// Its starter ended it.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}

/// Segments of one code.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CodeTally {
    /// Segments.
    pub segment_count: u64,
    /// Bytes of data in them.
    pub data_bytes: u64,
    /// Bytes of their shards where all are stored.
    pub stored_bytes: u64,
    /// Segments that are not whole.
    pub degraded_count: u64,
    /// Further losses of nodes that every segment of it survives which can be read now; missing: there is none.
    pub margin: Option<usize>,
    /// The same of failure units.
    pub unit_margin: Option<usize>,
}

/// The sums over all segments that files refer to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Segments.
    pub segment_count: u64,
    /// Segments with every shard sound, within reach, and in its place or on the way from a node that is emptied or too full.
    pub whole_count: u64,
    /// Segments that can be read and are not whole, having lost shards, or having them out of reach or out of place.
    pub degraded_count: u64,
    /// Segments that were written with less redundancy than their code has, since nodes were away, and are to be completed.
    /// Nothing of them is lost.
    pub short_count: u64,
    /// Segments that cannot be read now and could be if silent nodes came back.
    pub out_of_reach_count: u64,
    /// Segments that cannot be read even then.
    pub lost_count: u64,
    /// Shards that are lost: to be rebuilt.
    pub lost_shard_count: u64,
    /// Shards that were never stored: to be computed from the others.
    pub unwritten_shard_count: u64,
    /// Shards on nodes that do not answer.
    pub silent_shard_count: u64,
    /// Shards on nodes that answer, and do not let this user read them.
    pub refused_shard_count: u64,
    /// Sound shards that should be elsewhere.
    pub misplaced_shard_count: u64,
    /// The smallest number of further losses of nodes that every segment survives which can be read now, a silent node
    /// counted as lost; `None` where there is no such segment.
    pub margin: Option<usize>,
    /// How many of the segments that can be read now survive so many further losses of nodes, and no more.
    pub margins: BTreeMap<usize, u64>,
    /// As `margin`, of failure units, each lost with all its nodes.
    pub unit_margin: Option<usize>,
    /// Segments of which one failure unit holds several shards, more than their code can lose.
    pub crowded_count: u64,
    /// Some of these units.
    pub crowded_units: BTreeSet<String>,
    /// Bytes read and checked against the metadata.
    pub bytes_verified: u64,
    /// By code.
    pub codes: BTreeMap<String, CodeTally>,
    /// Files with bytes that are lost.
    pub lost_paths: BTreeSet<String>,
    /// Which bytes of them.
    pub lost_bytes: BTreeMap<String, Vec<Range<u64>>>,
    /// Files with bytes in segments that are out of reach.
    pub out_of_reach_paths: BTreeSet<String>,
    /// Files with bytes in the first [`DEGRADED_NAMED`] degraded segments; at most as many.
    pub degraded_paths: BTreeSet<String>,
    /// The same of segments that were written with less redundancy.
    pub short_paths: BTreeSet<String>,
}

impl Tally {
    /// Is every segment whole?
    pub fn is_whole(&self) -> bool {
        self.whole_count == self.segment_count
    }

    /// Files that have lost more bytes here than in `before`. Names that are equal once shown as text count as one.
    pub fn lost_since(&self, before: &Tally) -> BTreeSet<String> {
        let count = |tally: &Tally, path: &str| -> u64 {
            tally.lost_bytes.get(path).map_or(0, |lost| lost.iter().map(|range| range.end - range.start).sum())
        };
        let has_lost_more = |path: &&String| count(self, path) > count(before, path);
        self.lost_paths.iter().filter(has_lost_more).cloned().collect()
    }

    /// Counts a segment, given the verdicts on its shards.
    ///
    /// # Errors
    /// The catalogue cannot be asked for paths.
    pub fn add(
        &mut self,
        segment: SegmentId,
        record: &SegmentRecord,
        verdicts: &[Standing],
        roster: &Roster,
        margins: &mut Margins,
        catalogue: &dyn Catalogue,
    ) -> Result<(), CatalogueError> {
        let whole = verdicts.iter().all(Standing::is_well);

        self.segment_count += 1;
        let unwritten = Standing::Lost(Loss::NeverStored);
        // It has no other defect.
        let short = !whole && verdicts.iter().all(|verdict| *verdict == Standing::Sound || *verdict == unwritten);
        verdicts.iter().for_each(|verdict| self.count_shards(verdict, 1));
        let of_code = self.codes.entry(record.code.clone()).or_default();
        of_code.segment_count += 1;
        of_code.data_bytes += record.geometry.data_bytes;
        of_code.stored_bytes += record.shard_bytes() * record.shards.len() as u64;
        of_code.degraded_count += u64::from(!whole);
        self.count_crowded(record, roster, margins);

        match state(record, verdicts, roster, margins) {
            State::Readable(survives) => {
                self.count_readable(record, Some(survives));
                if whole {
                    self.whole_count += 1;
                } else {
                    self.count_wanting(segment, catalogue, short)?;
                }
            }
            State::OutOfReach => {
                self.out_of_reach_count += 1;
                self.out_of_reach_paths.extend(catalogue.paths(segment, usize::MAX)?);
            }
            State::Lost { data, rest } => {
                let places = catalogue.places(segment, &data)?;
                if places.is_empty() {
                    // The lost bytes were overwritten or deleted, so no file misses them.
                    self.count_readable(record, rest);
                    return self.count_wanting(segment, catalogue, false);
                }
                self.lost_count += 1;
                for (path, bytes) in places {
                    self.lost_paths.insert(path.clone());
                    self.lost_bytes.entry(path).or_default().push(bytes);
                }
            }
        }
        Ok(())
    }

    /// Counts segments of a code that need not be looked at one by one. Their shards, and how many segments are degraded in all, are left to
    /// the caller, who knows their nodes, and which of them are named.
    pub(crate) fn add_alike(&mut self, code: &str, alike: &Alike) {
        let counts = [alike.whole, alike.degraded].map(|some| some.map_or(0, |(count, _)| count));
        let [whole_count, degraded_count] = counts;
        self.segment_count += whole_count + degraded_count;
        self.whole_count += whole_count;
        let of_code = self.codes.entry(code.to_owned()).or_default();
        of_code.segment_count += whole_count + degraded_count;
        of_code.data_bytes += alike.data_bytes;
        of_code.stored_bytes += alike.stored_bytes;
        of_code.degraded_count += degraded_count;
        for (count, survives) in alike.whole.into_iter().chain(alike.degraded) {
            self.count_margin(code, count, survives);
        }
    }

    /// Counts shards of one verdict.
    pub(crate) fn count_shards(&mut self, verdict: &Standing, count: u64) {
        match verdict {
            Standing::Sound => {}
            Standing::Misplaced(_) => self.misplaced_shard_count += count,
            Standing::OutOfReach => self.silent_shard_count += count,
            Standing::Refused => self.refused_shard_count += count,
            Standing::Lost(Loss::NeverStored) => self.unwritten_shard_count += count,
            Standing::Lost(_) => self.lost_shard_count += count,
        }
    }

    fn count_readable(&mut self, record: &SegmentRecord, survives: Option<Survives>) {
        if let Some(survives) = survives {
            self.count_margin(&record.code, 1, survives);
        }
    }

    fn count_margin(&mut self, code: &str, count: u64, Survives { units, nodes, .. }: Survives) {
        *self.margins.entry(nodes).or_default() += count;
        let least =
            |known: &mut Option<usize>, found: usize| *known = Some(known.map_or(found, |known| known.min(found)));
        least(&mut self.margin, nodes);
        least(&mut self.unit_margin, units);
        let of_code = self.codes.entry(code.to_owned()).or_default();
        least(&mut of_code.margin, nodes);
        least(&mut of_code.unit_margin, units);
    }

    /// Counts a unit that holds more of the segment than may be lost.
    fn count_crowded(&mut self, record: &SegmentRecord, roster: &Roster, margins: &mut Margins) {
        let mut held: BTreeMap<&str, usize> = BTreeMap::new();
        for unit in record.nodes().filter_map(|node| roster.unit(node)) {
            *held.entry(unit).or_default() += 1;
        }
        let several: Vec<_> = held.into_iter().filter(|(_, held)| *held > 1).collect();
        let Some(most) = several.iter().map(|(_, held)| *held).max() else { return };
        if margins.tolerance(&record.code).is_none_or(|tolerance| most <= tolerance) {
            return;
        }
        self.crowded_count += 1;
        let room = CROWDED_UNITS.saturating_sub(self.crowded_units.len());
        let worst = several.into_iter().filter(|(_, held)| *held == most).map(|(unit, _)| unit.to_owned());
        self.crowded_units.extend(worst.take(room));
    }

    /// Counts a segment that can be read and has a defect. `short`: it was written with less redundancy, and has no other.
    pub(crate) fn count_wanting(
        &mut self,
        segment: SegmentId,
        catalogue: &dyn Catalogue,
        short: bool,
    ) -> Result<(), CatalogueError> {
        let (count, paths) = match short {
            true => (&mut self.short_count, &mut self.short_paths),
            false => (&mut self.degraded_count, &mut self.degraded_paths),
        };
        *count += 1;
        if *count <= DEGRADED_NAMED as u64 {
            let room = DEGRADED_NAMED.saturating_sub(paths.len());
            paths.extend(catalogue.paths(segment, room)?);
        }
        Ok(())
    }
}

/// Segments of one code that need not be looked at one by one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Alike {
    /// Bytes of data in them.
    pub data_bytes: u64,
    /// Bytes of their shards where all are stored.
    pub stored_bytes: u64,
    /// How many are whole, and what each survives; `None`: there are none.
    pub whole: Option<(u64, Survives)>,
    /// The same of those that lack one shard.
    pub degraded: Option<(u64, Survives)>,
}

/// Dead segments, left by deleting and overwriting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Dead {
    /// Segments.
    pub segment_count: u64,
    /// Bytes of their shards.
    pub bytes: u64,
}

/// Counts a segment by its record and what is noted of it.
pub(crate) fn count_noted(
    Surveyed { segment, record, live_bytes, damage }: Surveyed,
    roster: &Roster,
    catalogue: &dyn Catalogue,
    margins: &mut Margins,
    (tally, dead): (&mut Tally, &mut Dead),
) -> Result<(), CatalogueError> {
    if live_bytes == 0 {
        dead.segment_count += 1;
        dead.bytes += record.stored_bytes();
        return Ok(());
    }
    let verdicts = noted_standings(segment, &record, roster, &damage);
    tally.add(segment, &record, &verdicts, roster, margins, catalogue)
}

/// A census, and the segments with defects that a repair can fix.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    pub tally: Tally,
    /// Further losses that each survives.
    pub wanting: BTreeMap<SegmentId, usize>,
}

/// Looks at every shard, by its length or by every byte of it, and counts.
///
/// # Errors
/// The catalogue cannot be read; the job was cancelled.
pub(crate) async fn census(
    catalogue: &dyn Catalogue,
    transfer: &Transfer,
    roster: &Roster,
    look: Look,
    job: &Job,
) -> Result<Counted, CareError> {
    let (mut counted, mut margins) = (Counted::default(), Margins::default());
    let mut walk = Walk::living(catalogue);
    loop {
        job.checkpoint().await?;
        let group = walk.by_ref().take(TOGETHER).collect::<Result<Vec<_>, _>>()?;
        if group.is_empty() {
            return Ok(counted);
        }
        let mut looks = TaskSet::new(transfer.runtime());
        for Surveyed { segment, record, .. } in group {
            let (transfer, noted) = (transfer.clone(), catalogue.damage(segment)?);
            looks.spawn(async move {
                let health = match look {
                    Look::Everything => transfer.verify(segment, &record).await,
                    Look::Record | Look::Lengths => transfer.census(segment, &record).await,
                };
                (segment, record, noted, health)
            });
        }
        for (segment, record, noted, health) in looks.join_all().await {
            counted.tally.bytes_verified += health.bytes_verified;
            let found = by_shard(health);
            // What somebody else has found meanwhile stays noted.
            note(catalogue, segment, &record, noted.as_ref(), &found, look)?;
            let noted = noted.unwrap_or_default();
            let verdicts = standings(&record, roster, &believed(segment, &record, &noted, &found, look));
            let wanting = verdicts.iter().any(|verdict| matches!(verdict, Standing::Lost(_) | Standing::Misplaced(_)));
            if let (true, Some(survives)) = (wanting, state(&record, &verdicts, roster, &mut margins).survives()) {
                counted.wanting.insert(segment, survives.shards);
            }
            counted.tally.add(segment, &record, &verdicts, roster, &mut margins, catalogue)?;
            job.update(|progress| progress.segments_done += 1);
        }
    }
}

#[cfg(test)]
#[path = "census_tests.rs"]
mod tests;
