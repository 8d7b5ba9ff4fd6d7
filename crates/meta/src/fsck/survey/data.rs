//! Which bytes of which segment a file's bytes are.

use std::collections::BTreeSet;

use weft_format::{Ino, SegmentId};

use super::{Finding, Survey, Writes};
use crate::MetaError;
use crate::keys::{Key, Table};
use crate::store::values::{self, PAGE_BYTES};

/// Where in the table of extents the check is.
struct Place {
    file: Ino,
    /// The end of its last extent.
    free_from: u64,
}

impl Survey<'_> {
    pub(super) fn read_extents(&mut self) -> Result<(), MetaError> {
        let mut place = Place { file: Ino(0), free_from: 0 };
        let mut missing = BTreeSet::new();
        self.each_page(Table::Extent.range(), |survey, pairs| {
            let mut users = BTreeSet::new();
            for (key, value) in pairs {
                let user = survey.see(key, value, |survey, key, value| survey.extent(key, value, &mut place))?;
                users.extend(user.flatten());
            }
            let found = survey.get_many(users.iter().map(|(segment, ino)| Key::UsedBy(*segment, *ino)))?;
            for ((segment, ino), _) in users.into_iter().zip(found).filter(|(_, found)| found.is_none()) {
                if missing.insert((segment, ino)) {
                    survey.missing(Key::UsedBy(segment, ino), values::mark());
                }
            }
            Ok(())
        })
    }

    /// The segment and the file that uses it, which an index must have.
    fn extent(&mut self, key: Key<'_>, value: &[u8], place: &mut Place) -> Result<Option<(SegmentId, Ino)>, MetaError> {
        let Key::Extent(ino, end) = key else { return Ok(None) };
        let extent = values::decode_extent(&key, value)?;
        if place.file != ino {
            *place = Place { file: ino, free_from: 0 };
        }
        let (start, segment) = (extent.file_offset, extent.segment);
        let Some(inode) = self.inodes.get_mut(ino) else {
            if !self.unreadable_inodes.contains(&ino) {
                self.stray(key);
            }
            return Ok(None);
        };
        inode.unseen_bytes = inode.unseen_bytes.wrapping_sub(extent.length);
        let size = inode.file_size();
        self.check_end(ino, size, end);
        if start < place.free_from {
            self.report(Finding::Overlap { ino, end: place.free_from }, Writes::new());
        }
        place.free_from = end;
        match self.segments.get_mut(segment) {
            Some(record) => {
                record.live_bytes = record.live_bytes.saturating_add(extent.length);
                if extent.segment_offset.saturating_add(extent.length) > record.data_bytes {
                    self.report(Finding::BeyondSegment { ino, start, end, segment }, Writes::new());
                }
                return Ok(Some((segment, ino)));
            }
            None if self.unreadable_segments.contains(&segment) => {}
            None => self.report(Finding::LostSegment { ino, start, end, segment }, Writes::new()),
        }
        Ok(None)
    }

    pub(super) fn journal(&mut self, key: Key<'_>, value: &[u8]) -> Result<(), MetaError> {
        let Key::Journal(ino, _) = key else { return Ok(()) };
        let page = values::decode_journal_page(&key, value)?;
        let Some(inode) = self.inodes.get(ino) else {
            if !self.unreadable_inodes.contains(&ino) {
                self.stray(key);
            }
            return Ok(());
        };
        let end = page.ranges.last().map_or(0, |(start, bytes)| {
            page.page.saturating_mul(PAGE_BYTES).saturating_add(u64::from(*start) + bytes.len() as u64)
        });
        self.check_end(ino, inode.file_size(), end);
        Ok(())
    }

    /// Data up to `end` must be a file's, and end where it does. `size`: `None` for what is no file.
    fn check_end(&mut self, ino: Ino, size: Option<u64>, end: u64) {
        match size {
            None => self.report(Finding::DataOfNoFile { ino }, Writes::new()),
            Some(size) if end > size => self.report(Finding::DataBeyondEnd { ino, size, end }, Writes::new()),
            Some(_) => {}
        }
    }
}
