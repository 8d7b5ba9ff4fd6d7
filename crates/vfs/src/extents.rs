//! A file's committed extents, kept window by window so that random reads of a large file do not ask metadata each time.

use std::collections::HashMap;
use std::ops::Range;
use weft_format::Ino;
use weft_meta::{Extent, MetaError, Store};

/// Bytes of a file whose extents are kept together; at 4 KiB an extent, 4,096 of them.
const WINDOW_BYTES: u64 = 16 << 20;
/// Extents kept for one file before all are forgotten: 3 MiB of memory, and half a TiB of a file written in one go.
const EXTENTS_MAX: usize = 65_536;

/// Extents looked at in one go.
const PAGE: usize = 1024;

/// Shows `take` every extent of a file, ascending.
pub(crate) fn each_extent(store: &Store, ino: Ino, mut take: impl FnMut(Extent)) -> Result<(), MetaError> {
    let mut from = 0;
    loop {
        let page = store.extents_from(ino, from, PAGE)?;
        page.iter().copied().for_each(&mut take);
        match page.last().filter(|_| page.len() == PAGE) {
            Some(last) => from = last.end(),
            None => return Ok(()),
        }
    }
}

/// See the module's head.
#[derive(Default)]
pub(crate) struct ExtentCache {
    /// By window number.
    windows: HashMap<u64, Vec<Extent>>,
    extent_count: usize,
}

impl ExtentCache {
    /// The extents that overlap `range`, trimmed to it; `load` says those of a range. Neighbours that follow each other in
    /// one segment come as one.
    pub fn overlapping(
        &mut self,
        range: Range<u64>,
        load: impl Fn(Range<u64>) -> Result<Vec<Extent>, MetaError>,
    ) -> Result<Vec<Extent>, MetaError> {
        let mut found: Vec<Extent> = Vec::new();
        if range.is_empty() {
            return Ok(found);
        }
        for number in range.start / WINDOW_BYTES..=(range.end - 1) / WINDOW_BYTES {
            for extent in self.window(number, &load)?.iter().filter_map(|extent| trim(extent, &range)) {
                match found.last_mut() {
                    Some(last) if follows(last, &extent) => last.length += extent.length,
                    _ => found.push(extent),
                }
            }
        }
        Ok(found)
    }

    fn window(
        &mut self,
        number: u64,
        load: &impl Fn(Range<u64>) -> Result<Vec<Extent>, MetaError>,
    ) -> Result<&[Extent], MetaError> {
        if !self.windows.contains_key(&number) {
            let start = number * WINDOW_BYTES;
            let extents = load(start..start.saturating_add(WINDOW_BYTES))?;
            if self.extent_count > EXTENTS_MAX {
                *self = Self::default();
            }
            self.extent_count += extents.len();
            self.windows.insert(number, extents);
        }
        Ok(self.windows.get(&number).map_or(&[], Vec::as_slice))
    }
}

fn follows(last: &Extent, next: &Extent) -> bool {
    last.segment == next.segment
        && last.file_offset + last.length == next.file_offset
        && last.segment_offset + last.length == next.segment_offset
}

/// The part of an extent within `range`, if any.
pub(crate) fn trim(extent: &Extent, range: &Range<u64>) -> Option<Extent> {
    let start = extent.file_offset.max(range.start);
    let end = (extent.file_offset + extent.length).min(range.end);
    (start < end).then(|| Extent {
        file_offset: start,
        length: end - start,
        segment: extent.segment,
        segment_offset: extent.segment_offset + (start - extent.file_offset),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_format::SegmentId;

    fn extent(file_offset: u64, length: u64, segment: u128) -> Extent {
        Extent { file_offset, length, segment: SegmentId(segment), segment_offset: file_offset % 1000 }
    }

    #[test]
    fn windows_are_loaded_once_and_joined() {
        let whole = [extent(10, 20, 1), extent(WINDOW_BYTES - 500, 1000, 2), extent(3 * WINDOW_BYTES, 7, 3)];
        let loads = std::cell::Cell::new(0);
        let load = |range: Range<u64>| {
            loads.set(loads.get() + 1);
            Ok(whole.iter().filter_map(|extent| trim(extent, &range)).collect())
        };
        let mut cache = ExtentCache::default();
        for _ in 0..2 {
            assert_eq!(cache.overlapping(0..4 * WINDOW_BYTES, load).unwrap(), whole);
            assert_eq!(loads.get(), 4);
        }
        let part = cache.overlapping(20..WINDOW_BYTES, load).unwrap();
        assert_eq!(
            part.iter().map(|extent| (extent.file_offset, extent.length)).collect::<Vec<_>>(),
            [(20, 10), (WINDOW_BYTES - 500, 500)]
        );
        assert!(cache.overlapping(5..5, load).unwrap().is_empty());
        assert_eq!(loads.get(), 4);
    }
}
