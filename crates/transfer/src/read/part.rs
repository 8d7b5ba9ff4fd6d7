//! A part of a segment to be read, and where its bytes go.

use super::report::ReadReport;
use crate::cache::Block;
use std::ops::Range;
use weft_format::SegmentId;
use weft_format::records::SegmentRecord;

/// A part of a segment to be read.
#[derive(Debug)]
pub struct ReadPart<'a> {
    /// Which segment.
    pub segment: SegmentId,
    /// Its record.
    pub record: &'a SegmentRecord,
    /// Which data bytes.
    pub range: Range<u64>,
    /// Where they go; as long as the range.
    pub out: &'a mut [u8],
}

impl<'a> ReadPart<'a> {
    pub(super) fn reborrow(&mut self) -> ReadPart<'_> {
        ReadPart { segment: self.segment, record: self.record, range: self.range.clone(), out: &mut *self.out }
    }

    /// What is before byte `at` of the segment, and the rest.
    pub(crate) fn split_at(self, at: u64) -> (Self, Self) {
        let Self { segment, record, range, out } = self;
        let (head, tail) = out.split_at_mut((at - range.start) as usize);
        let part = |range, out: &'a mut [u8]| Self { segment, record, range, out };
        (part(range.start..at, head), part(at..range.end, tail))
    }

    pub(super) fn copy(self, block: &Block, report: &mut ReadReport) {
        self.out.copy_from_slice(&block.bytes);
        report.add(&block.report);
    }
}
