//! A file out of its shard files, a segment at a time.
//!
//! All shards are read in step. The first bytes of an object or of a trailer say which of them it is; where they are damaged in one shard
//! the other shards say it. Every frame is checked before it is used, and the whole file at its end.

use super::loss::Loss;
use crate::objects::{Coder, Survivors, TooFew};
use bytes::Bytes;
use weft_format::ShardIndex;
use weft_format::geometry::Geometry;
use weft_format::shard::{Digest, HEADER_BYTES, ShardHeader, object_bytes};
use weft_format::shard_file::{FILE_HEADER_BYTES, FileHasher, ShardFileHeader, Sibling, Trailer};

/// The bytes after the end of a shard that are looked at: a block of a tape, which is filled with zeros.
const PADDING_BYTES_MAX: usize = 1 << 20;

/// The bytes of one shard.
pub trait ShardBytes {
    /// `length` bytes from `offset` on, or those of them that are there. Offsets never go back. It must not take memory for more than
    /// there is.
    fn read(&mut self, offset: u64, length: usize) -> Bytes;
}

/// What is wrong with a shard, as far as it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Some of its bytes are not those that were written.
    Damaged,
    /// It ends too early.
    EndsAfter {
        /// Its length.
        bytes: u64,
    },
    /// It is whole, and something else follows it.
    GoesOn,
}

struct Shard<S> {
    source: S,
    trouble: Option<Trouble>,
}

impl<S: ShardBytes> Shard<S> {
    fn read(&mut self, offset: u64, length: usize) -> Bytes {
        let bytes = self.source.read(offset, length);
        match self.trouble {
            None if bytes.len() < length => {
                self.trouble = Some(Trouble::EndsAfter { bytes: offset + bytes.len() as u64 });
            }
            // An unreadable part, not the end.
            Some(Trouble::EndsAfter { .. }) if !bytes.is_empty() => self.trouble = Some(Trouble::Damaged),
            _ => {}
        }
        bytes
    }

    fn is_damaged(&mut self) {
        self.trouble.get_or_insert(Trouble::Damaged);
    }
}

/// What comes next in every shard.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Mark {
    /// The object of a segment of this many bytes.
    Object(u64),
    /// The trailer, as that of shard 0.
    End(Trailer),
}

/// What [`Decoder::next`] found.
#[derive(Debug)]
pub enum Next {
    /// A segment; its bytes are right.
    Segment,
    /// The end; the file's digest is right.
    End(End),
}

/// What the trailers say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// The fixed part, as that of shard 0.
    pub trailer: Trailer,
    /// All shards; `None`: damaged in each trailer that was read.
    pub siblings: Option<Vec<Sibling>>,
}

/// Restores a file from what is left of its shards.
pub struct Decoder<S> {
    header: ShardFileHeader,
    coder: Coder,
    shards: Vec<Option<Shard<S>>>,
    /// Those that are read as long as they suffice.
    chosen: Vec<usize>,
    /// Where the next object or trailer begins, in every shard.
    offset: u64,
    segment: u64,
    file_bytes: u64,
    hasher: FileHasher,
    /// What was read of the last segment.
    current: Option<Survivors>,
}

impl<S: ShardBytes> Decoder<S> {
    /// `coder` is the header's. `shards` by index, as many as the code has: their bytes, and whether their header is sound. Of the
    /// `chosen` ones everything is read, of the others only segments for which these do not suffice.
    pub fn new(header: ShardFileHeader, coder: Coder, shards: Vec<Option<(S, bool)>>, chosen: Vec<usize>) -> Self {
        let shard = |(source, is_sound): (S, bool)| Shard { source, trouble: (!is_sound).then_some(Trouble::Damaged) };
        let shards = shards.into_iter().map(|it| it.map(shard)).collect();
        let (offset, hasher) = (FILE_HEADER_BYTES as u64, FileHasher::default());
        Self { header, coder, shards, chosen, offset, segment: 0, file_bytes: 0, hasher, current: None }
    }

    /// Bytes of the file in the segments that were passed.
    pub fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// Where a shard's bytes come from.
    pub fn shard(&self, index: usize) -> Option<&S> {
        self.shards[index].as_ref().map(|shard| &shard.source)
    }

    /// What is wrong with the shards that were read, by index.
    pub fn troubles(&self) -> impl Iterator<Item = (usize, Trouble)> {
        let shards = self.shards.iter().enumerate();
        shards.filter_map(|(index, shard)| Some((index, shard.as_ref()?.trouble?)))
    }

    /// Reads the next segment into `data`, or the trailers.
    ///
    /// # Errors
    /// [`Loss`]. After [`Loss::TooFew`] the next call goes on with the next segment; the file's digest cannot be right then.
    pub fn next(&mut self, data: &mut Vec<u8>) -> Result<Next, Loss> {
        let mut heads = vec![None; self.shards.len()];
        self.read_heads(&self.chosen.clone(), &mut heads);
        let mut mark = self.mark(&heads);
        if mark.is_none() {
            self.read_heads(&self.others(), &mut heads);
            mark = self.mark(&heads);
        }
        let goes_on = heads.iter().flatten().any(|head| head.len() == HEADER_BYTES) && !self.was_last();
        match mark {
            Some(Mark::Object(data_bytes)) => self.read_segment(data_bytes, heads, data),
            Some(Mark::End(trailer)) => self.read_end(trailer, &heads),
            // Frames prove themselves without the object's header.
            None if goes_on => self.read_segment(self.header.geometry.data_bytes, heads, data),
            None => Err(Loss::Gone { from: self.file_bytes }),
        }
    }

    /// The objects of these shards in the segment that was read last, byte for byte as they were written, with the digests of their payloads.
    ///
    /// # Errors
    /// [`TooFew`].
    pub fn rebuild(&self, shards: &[usize]) -> Result<Vec<(Bytes, Digest)>, TooFew> {
        let Some(survivors) = &self.current else { return Ok(Vec::new()) };
        survivors.rebuild(|index| self.header.object_identity(self.segment - 1, index), shards)
    }

    /// Those present that are not chosen.
    fn others(&self) -> Vec<usize> {
        (0..self.shards.len()).filter(|shard| !self.chosen.contains(shard)).collect()
    }

    /// Was the last segment shorter than the others?
    fn was_last(&self) -> bool {
        !self.file_bytes.is_multiple_of(self.header.geometry.data_bytes)
    }

    fn read_heads(&mut self, shards: &[usize], heads: &mut [Option<Bytes>]) {
        for &shard in shards {
            heads[shard] = self.shards[shard].as_mut().map(|it| it.read(self.offset, HEADER_BYTES));
        }
    }

    /// What most of these say that comes next.
    fn mark(&self, heads: &[Option<Bytes>]) -> Option<Mark> {
        let mut counts: Vec<(Mark, usize)> = Vec::new();
        for (shard, head) in heads.iter().enumerate() {
            let Some(mark) = head.as_ref().and_then(|head| self.mark_of(shard, head)) else { continue };
            match counts.iter_mut().find(|(same, _)| *same == mark) {
                Some((_, count)) => *count += 1,
                None => counts.push((mark, 1)),
            }
        }
        // The first of those that are as frequent.
        counts.into_iter().rev().max_by_key(|(_, count)| *count).map(|(mark, _)| mark)
    }

    /// What a shard says that comes next; `None`: it is damaged here, or says what cannot be.
    fn mark_of(&self, shard: usize, head: &[u8]) -> Option<Mark> {
        let Self { header, .. } = self;
        let index = ShardIndex(shard as u16);
        if let Ok(trailer) = Trailer::decode(head) {
            let found = (trailer.set, trailer.index, trailer.shard_count, trailer.file_bytes);
            let fits = found == (header.set, index, header.shard_count, self.file_bytes);
            return fits.then_some(Mark::End(Trailer { index: ShardIndex(0), ..trailer }));
        }
        let object = ShardHeader::decode(head).ok()?;
        let data_bytes = object.geometry.data_bytes;
        let fits = object.identity == header.object_identity(self.segment, index)
            && object.code == header.code
            && object.geometry == Geometry { data_bytes, ..header.geometry }
            && data_bytes <= header.geometry.data_bytes
            && !self.was_last();
        fits.then_some(Mark::Object(data_bytes))
    }

    fn read_segment(
        &mut self,
        data_bytes: u64,
        mut heads: Vec<Option<Bytes>>,
        data: &mut Vec<u8>,
    ) -> Result<Next, Loss> {
        let geometry = Geometry { data_bytes, ..self.header.geometry };
        let mut survivors = self.coder.survivors(geometry);
        self.take_in(&mut survivors, &geometry, &heads);
        let mut outcome = read(&survivors, &geometry, data);
        let unread: Vec<usize> = self.others().into_iter().filter(|shard| heads[*shard].is_none()).collect();
        if outcome.is_err() && unread.iter().any(|shard| self.shards[*shard].is_some()) {
            heads.fill(None);
            self.read_heads(&unread, &mut heads);
            self.take_in(&mut survivors, &geometry, &heads);
            outcome = read(&survivors, &geometry, data);
        }
        let from = self.file_bytes;
        if survivors.is_empty() {
            return Err(Loss::Gone { from });
        }
        self.offset += object_bytes(geometry.payload_bytes());
        self.segment += 1;
        self.file_bytes += data_bytes;
        self.current = Some(survivors);
        match outcome {
            Ok(()) => {
                self.hasher.update(data);
                Ok(Next::Segment)
            }
            Err(TooFew { data, unusable }) => {
                let data = from + data.start..from + data.end;
                Err(Loss::TooFew { data, unusable, code: self.header.code.clone() })
            }
        }
    }

    /// Reads the objects that begin with `heads`.
    fn take_in(&mut self, survivors: &mut Survivors, geometry: &Geometry, heads: &[Option<Bytes>]) {
        let rest_bytes = object_bytes(geometry.payload_bytes()) as usize - HEADER_BYTES;
        let offset = self.offset + HEADER_BYTES as u64;
        for (index, (shard, head)) in self.shards.iter_mut().zip(heads).enumerate() {
            let (Some(shard), Some(head)) = (shard, head) else { continue };
            let raw = shard.read(offset, rest_bytes);
            let identity = self.header.object_identity(self.segment, ShardIndex(index as u16));
            survivors.take_in_object(index, &identity, head, &raw);
            if !survivors.is_sound(index) {
                shard.is_damaged();
            }
        }
    }

    fn read_end(&mut self, trailer: Trailer, heads: &[Option<Bytes>]) -> Result<Next, Loss> {
        let offset = self.offset + HEADER_BYTES as u64;
        let end = offset + u64::from(trailer.siblings_bytes);
        let marks: Vec<bool> = heads
            .iter()
            .enumerate()
            .map(|(shard, head)| head.as_ref().and_then(|head| self.mark_of(shard, head)))
            .map(|mark| mark.is_some_and(|mark| mark == Mark::End(trailer.clone())))
            .collect();
        let mut known = None;
        for (index, shard) in self.shards.iter_mut().enumerate().filter(|(index, _)| heads[*index].is_some()) {
            let Some(shard) = shard else { continue };
            let siblings = trailer.siblings(&shard.read(offset, trailer.siblings_bytes as usize));
            if siblings.is_err() || !marks[index] {
                shard.is_damaged();
            }
            known = known.or(siblings.ok());
            let rest = shard.source.read(end, PADDING_BYTES_MAX);
            if rest.iter().any(|byte| *byte != 0) {
                shard.trouble.get_or_insert(Trouble::GoesOn);
            }
        }
        match self.hasher.finish() == trailer.digest {
            true => Ok(Next::End(End { trailer, siblings: known })),
            false => Err(Loss::WrongDigest),
        }
    }
}

/// The data of a segment, into `data`, which takes memory only if there is something to decode.
fn read(survivors: &Survivors, geometry: &Geometry, data: &mut Vec<u8>) -> Result<(), TooFew> {
    data.clear();
    if survivors.is_empty() {
        return Err(TooFew { data: 0..geometry.data_bytes, unusable: Vec::new() });
    }
    data.resize(geometry.data_bytes as usize, 0);
    survivors.read(data)
}

#[cfg(test)]
#[path = "decoder_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "random_tests.rs"]
mod random_tests;
