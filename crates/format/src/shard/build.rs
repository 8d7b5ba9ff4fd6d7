//! Building a shard object in place: allocated once, filled frame by frame, sealed while the frame is hot in the cache.

use super::{
    CHECK_BYTES, Digest, DigestBuilder, FRAME_BYTES, HEADER_BYTES, ShardError, ShardHeader, Whitening, crc64,
    frame_count, frame_pieces, object_bytes,
};
use bytes::Bytes;
use std::ops::Range;

/// A shard object under construction. Its payload begins as zeros, which is what padding must be.
#[derive(Debug)]
pub struct ShardBuilder {
    object: Vec<u8>,
    payload_bytes: u64,
    whitening: Whitening,
    /// Does the frame's check fit its payload?
    sealed: Vec<bool>,
}

/// One frame of a shard under construction, apart from its siblings: frames may be filled and sealed by many threads.
#[derive(Debug)]
pub struct FrameMut<'a> {
    frame: &'a mut [u8],
    whitening: u64,
    sealed: &'a mut bool,
}

impl FrameMut<'_> {
    /// The frame's payload, to be filled.
    pub fn payload_mut(&mut self) -> &mut [u8] {
        *self.sealed = false;
        let payload_bytes = self.frame.len() - CHECK_BYTES;
        &mut self.frame[..payload_bytes]
    }

    /// Computes the check, best done right after filling.
    pub fn seal(self) {
        let (payload, check) = self.frame.split_at_mut(self.frame.len() - CHECK_BYTES);
        check.copy_from_slice(&(crc64(payload) ^ self.whitening).to_le_bytes());
        *self.sealed = true;
    }
}

impl ShardBuilder {
    /// Allocates the object and writes its header.
    ///
    /// # Errors
    /// What [`ShardHeader::encode`] refuses.
    pub fn new(header: &ShardHeader) -> Result<Self, ShardError> {
        let encoded = header.encode()?;
        let payload_bytes = header.geometry.payload_bytes();
        let mut object = vec![0; object_bytes(payload_bytes) as usize];
        object[..HEADER_BYTES].copy_from_slice(&encoded);
        let whitening = Whitening::of(&header.identity);
        let sealed = vec![false; frame_count(payload_bytes) as usize];
        Ok(Self { object, payload_bytes, whitening, sealed })
    }

    /// Payload bytes in all.
    pub fn payload_bytes(&self) -> u64 {
        self.payload_bytes
    }

    /// Frames in all.
    pub fn frame_count(&self) -> usize {
        self.sealed.len()
    }

    /// The payload of frame `index`, to be filled in place.
    ///
    /// # Panics
    /// There is no such frame.
    pub fn frame_mut(&mut self, index: usize) -> &mut [u8] {
        self.sealed[index] = false;
        let payload = self.payload_of(index);
        &mut self.object[payload]
    }

    /// The payload of frame `index` as it is now.
    ///
    /// # Panics
    /// There is no such frame.
    pub fn frame(&self, index: usize) -> &[u8] {
        &self.object[self.payload_of(index)]
    }

    /// Computes the check of frame `index`, best done right after filling it. Filling it again unseals it.
    ///
    /// # Panics
    /// There is no such frame.
    pub fn seal_frame(&mut self, index: usize) {
        let payload = self.payload_of(index);
        let check = crc64(&self.object[payload.clone()]) ^ self.whitening.frame(index as u64);
        self.object[payload.end..payload.end + CHECK_BYTES].copy_from_slice(&check.to_le_bytes());
        self.sealed[index] = true;
    }

    /// All frames in order, each on its own.
    pub fn frames_mut(&mut self) -> impl Iterator<Item = FrameMut<'_>> {
        let whitening = self.whitening;
        let frames = self.object[HEADER_BYTES..].chunks_mut(FRAME_BYTES).zip(&mut self.sealed);
        frames.enumerate().map(move |(index, (frame, sealed))| {
            let whitening = whitening.frame(index as u64);
            FrameMut { frame, whitening, sealed }
        })
    }

    /// Copies `data` to payload bytes from `offset` on, across frames.
    ///
    /// # Errors
    /// [`ShardError::Outside`]: it would not fit.
    pub fn write(&mut self, offset: u64, data: &[u8]) -> Result<(), ShardError> {
        let asked = offset..offset.saturating_add(data.len() as u64);
        if asked.end > self.payload_bytes {
            return Err(ShardError::Outside { asked, held: 0..self.payload_bytes });
        }
        let mut rest = data;
        for (frame, within) in frame_pieces(asked) {
            let (part, after) = rest.split_at(within.len());
            self.frame_mut(frame)[within].copy_from_slice(part);
            rest = after;
        }
        Ok(())
    }

    /// Seals what is not sealed yet and gives the object away.
    pub fn finish(mut self) -> (Bytes, Digest) {
        let mut digest = DigestBuilder::new(self.payload_bytes);
        for index in 0..self.frame_count() {
            if !self.sealed[index] {
                self.seal_frame(index);
            }
            let end = self.payload_of(index).end;
            let check: [u8; CHECK_BYTES] = std::array::from_fn(|i| self.object[end + i]);
            digest.frame(u64::from_le_bytes(check) ^ self.whitening.frame(index as u64));
        }
        (Bytes::from(self.object), digest.finish())
    }

    fn payload_of(&self, index: usize) -> Range<usize> {
        assert!(index < self.frame_count(), "frame {index} of {}", self.frame_count());
        let start = HEADER_BYTES + index * FRAME_BYTES;
        start..(start + FRAME_BYTES).min(self.object.len()) - CHECK_BYTES
    }
}
