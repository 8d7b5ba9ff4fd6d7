//! Segments that are marked while a run mends others. They are queued by what they survive, so that what is most at risk waits for nothing else.

use crate::catalogue::{Catalogue, CatalogueError};
use crate::damage::noted_standings;
use crate::look::Look;
use crate::margin::Margins;
use crate::roster::Roster;
use crate::standing::{Loss, Standing};
use crate::state::state;
use std::collections::BTreeSet;
use weft_format::SegmentId;
use weft_format::records::DamageRecord;

/// Marks that are read at a time: a volume may have many.
const PAGE: usize = 1024;

/// The marks that a run knows.
#[derive(Default)]
pub(crate) struct Marks {
    /// Of segments that the run has queued or had in hand.
    known: BTreeSet<SegmentId>,
    /// The last one that was read; `None`: the next page is the first.
    last: Option<SegmentId>,
    margins: Margins,
}

/// A marked segment.
pub(crate) struct Marked {
    pub(crate) segment: SegmentId,
    /// Further losses that it survives.
    pub(crate) margin: usize,
    pub(crate) look: Look,
}

impl Marks {
    pub(crate) fn new(known: BTreeSet<SegmentId>) -> Self {
        Self { known, ..Self::default() }
    }

    /// The run has a segment in hand. Marks of it are the run's own, or may be left by it, and do not bring it back.
    pub(crate) fn taken(&mut self, segment: SegmentId) {
        self.known.insert(segment);
    }

    /// New ones on the next page.
    pub(crate) fn next(&mut self, catalogue: &dyn Catalogue, roster: &Roster) -> Result<Vec<Marked>, CatalogueError> {
        let page = catalogue.damaged(self.last, PAGE)?;
        self.last = page.last().copied().filter(|_| page.len() == PAGE);
        let mut fresh = Vec::new();
        for segment in page {
            if self.known.contains(&segment) || catalogue.live_bytes(segment)? == 0 {
                continue;
            }
            let (Some(record), Some(noted)) = (catalogue.segment(segment)?, catalogue.damage(segment)?) else {
                continue;
            };
            let verdicts = noted_standings(segment, &record, roster, &noted);
            let survives = state(&record, &verdicts, roster, &mut self.margins).survives();
            // The note of one that cannot be read may be outdated.
            let margin = survives.map_or(0, |survives| survives.shards);
            self.known.insert(segment);
            fresh.push(Marked { segment, margin, look: look_at(&noted, &verdicts) });
        }
        Ok(fresh)
    }
}

/// How closely to look at a marked segment. If it was only written with less redundancy, its missing shards are known, and no shard is
/// read to find them.
pub(crate) fn look_at(noted: &DamageRecord, verdicts: &[Standing]) -> Look {
    let is_short = noted.shards().is_empty() && verdicts.contains(&Standing::Lost(Loss::NeverStored));
    if is_short { Look::Lengths } else { Look::Everything }
}
