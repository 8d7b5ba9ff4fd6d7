//! Repair of shards from parts of others.

use super::CodecError;
use crate::code::{Offers, Read, Shape};
use crate::exec::{Compiled, executor};
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

/// A range of bytes of one shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardRead {
    /// Index of the shard.
    pub shard: usize,
    /// Bytes of it.
    pub range: Range<usize>,
    /// The symbols that these are: index within the shard.
    subs: Range<usize>,
}

impl ShardRead {
    /// The bytes, of shards that are there.
    pub(super) fn of<'a, S: AsRef<[u8]>>(&self, shards: &'a [Option<S>]) -> &'a [u8] {
        shards[self.shard].as_ref().map_or(&[], |shard| &shard.as_ref()[self.range.clone()])
    }

    /// The stored symbols that it reads.
    pub(super) fn symbols(&self, alpha: usize) -> Range<usize> {
        self.shard * alpha + self.subs.start..self.shard * alpha + self.subs.end
    }
}

/// Reads of plain symbols as ranges of bytes; consecutive symbols of one shard are one range. `None`: some read is of something
/// else.
pub(super) fn pieces(shape: &Shape, have: &Offers, reads: &[Read], symbol_bytes: usize) -> Option<Vec<ShardRead>> {
    let mut pieces: Vec<ShardRead> = Vec::new();
    for read in reads {
        let [(sub, 1)] = read.terms[..] else { return None };
        if !matches!(have.0.get(read.shard), Some(Some(_))) || sub >= shape.alpha {
            return None;
        }
        match pieces.last_mut() {
            Some(last) if last.shard == read.shard && last.subs.end == sub => {
                last.subs.end += 1;
                last.range.end += symbol_bytes;
            }
            _ => pieces.push(ShardRead {
                shard: read.shard,
                range: sub * symbol_bytes..(sub + 1) * symbol_bytes,
                subs: sub..sub + 1,
            }),
        }
    }
    Some(pieces)
}

/// What to read in order to repair lost shards, and how they follow; good for any stripe of the same shard length. Made by
/// [`Codec::repair_plan`](super::Codec::repair_plan).
#[derive(Clone, Debug)]
pub struct RepairPlan {
    pub(super) reads: Vec<ShardRead>,
    pub(super) program: Compiled,
    pub(super) symbol_bytes: usize,
    pub(super) shard_bytes: usize,
    pub(super) lost_count: usize,
}

impl RepairPlan {
    /// The ranges to read. A shard may occur more than once; no byte does.
    #[must_use]
    pub fn reads(&self) -> &[ShardRead] {
        &self.reads
    }

    /// Bytes to read in all.
    #[must_use]
    pub fn read_bytes(&self) -> u64 {
        self.reads.iter().fold(0, |sum: u64, read| sum.saturating_add(read.range.len() as u64))
    }

    /// The lost shards, in the order in which the plan was asked for them, from the bytes of each read.
    ///
    /// # Errors
    /// [`CodecError::ReadCount`] or [`CodecError::ReadLength`]: the pieces are not those of the reads.
    pub fn repair<S: AsRef<[u8]>>(&self, bytes: &[S]) -> Result<Vec<Vec<u8>>, CodecError> {
        if bytes.len() != self.reads.len() {
            return Err(CodecError::ReadCount { expected: self.reads.len(), given: bytes.len() });
        }
        let inputs: Vec<&[u8]> = bytes.iter().map(AsRef::as_ref).collect();
        for (index, (read, input)) in self.reads.iter().zip(&inputs).enumerate() {
            let (shard, expected, given) = (read.shard, read.range.len(), input.len());
            if given != expected {
                return Err(CodecError::ReadLength { read: index, shard, expected, given });
            }
        }
        let mut shards: Vec<Vec<u8>> = (0..self.lost_count).map(|_| vec![0; self.shard_bytes]).collect();
        let mut outputs: Vec<&mut [u8]> = shards.iter_mut().map(Vec::as_mut_slice).collect();
        executor().run_pieces(&self.program, self.symbol_bytes, &inputs, &mut outputs).map_err(CodecError::Run)?;
        Ok(shards)
    }
}
