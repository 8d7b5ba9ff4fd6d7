//! Is a file being read in order, and how far ahead should be fetched? One state machine per open file.

use std::ops::Range;

/// What was seen of the reads of one handle.
#[derive(Clone, Debug, Default)]
pub struct Readahead {}

#[allow(unused_variables)]
impl Readahead {
    /// Takes in a read of `len` bytes at `offset` of a file of `file_size` bytes; what to prefetch now, if anything.
    pub fn on_read(&mut self, offset: u64, len: u64, file_size: u64) -> Option<Range<u64>> {
        unimplemented!()
    }
}
