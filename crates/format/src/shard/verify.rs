//! Checking what a node sent before anything is made of it.

use super::{
    CHECK_BYTES, Digest, DigestBuilder, FRAME_BYTES, FRAME_PAYLOAD_BYTES, HEADER_BYTES, ShardError, ShardHeader,
    ShardIdentity, Whitening, crc64, frame_pieces, frames_of, frames_range, object_bytes,
};
use std::ops::Range;

/// Whole frames whose checks hold.
#[derive(Clone, Debug)]
pub struct VerifiedFrames<'a> {
    raw: &'a [u8],
    /// The payload bytes that the frames hold; begins on a frame.
    held: Range<u64>,
}

/// A whole shard object whose checks hold.
#[derive(Clone, Debug)]
pub struct VerifiedObject<'a> {
    /// Its header.
    pub header: ShardHeader,
    /// Its payload.
    pub frames: VerifiedFrames<'a>,
    /// Its payload's digest, to be compared with what metadata says.
    pub digest: Digest,
}

/// Checks `raw`, the object bytes [`frames_range`]`(payload, payload_bytes)` of the shard `identity`.
///
/// # Errors
/// `Short` or `Long`: not those bytes; `BadChecksum`: the first frame that fails.
pub fn verify_frames<'a>(
    identity: &ShardIdentity,
    payload_bytes: u64,
    payload: Range<u64>,
    raw: &'a [u8],
) -> Result<VerifiedFrames<'a>, ShardError> {
    verify_each(identity, payload_bytes, payload, raw, |_| {})
}

/// Checks a whole object: header, identity, length, every frame. Whether its digest is the right one is for the caller
/// to compare.
///
/// # Errors
/// The first thing that does not hold.
pub fn verify_object<'a>(identity: &ShardIdentity, object: &'a [u8]) -> Result<VerifiedObject<'a>, ShardError> {
    let header = ShardHeader::decode(object)?;
    if header.identity != *identity {
        return Err(ShardError::WrongIdentity { expected: *identity, found: header.identity });
    }
    let payload_bytes = header.geometry.payload_bytes();
    check_length(object_bytes(payload_bytes), object.len())?;
    let mut digest = DigestBuilder::new(payload_bytes);
    let raw = &object[HEADER_BYTES..];
    let frames = verify_each(identity, payload_bytes, 0..payload_bytes, raw, |crc| digest.frame(crc))?;
    Ok(VerifiedObject { header, frames, digest: digest.finish() })
}

fn verify_each<'a>(
    identity: &ShardIdentity,
    payload_bytes: u64,
    payload: Range<u64>,
    raw: &'a [u8],
    mut each_crc: impl FnMut(u64),
) -> Result<VerifiedFrames<'a>, ShardError> {
    let expected = frames_range(payload.clone(), payload_bytes);
    check_length(expected.end - expected.start, raw.len())?;
    let whitening = Whitening::of(identity);
    let frames = frames_of(&payload, payload_bytes);
    for (number, frame) in frames.clone().zip(raw.chunks(FRAME_BYTES)) {
        let (bytes, check) = frame.split_last_chunk::<CHECK_BYTES>().expect("the length was checked above");
        let crc = crc64(bytes);
        if crc ^ whitening.frame(number) != u64::from_le_bytes(*check) {
            return Err(ShardError::BadChecksum { frame: number });
        }
        each_crc(crc);
    }
    let offset = |frame: u64| (frame * FRAME_PAYLOAD_BYTES as u64).min(payload_bytes);
    Ok(VerifiedFrames { raw, held: offset(frames.start)..offset(frames.end) })
}

fn check_length(expected_bytes: u64, found: usize) -> Result<(), ShardError> {
    let found_bytes = found as u64;
    match found_bytes.cmp(&expected_bytes) {
        std::cmp::Ordering::Less => Err(ShardError::Short { expected_bytes, found_bytes }),
        std::cmp::Ordering::Equal => Ok(()),
        std::cmp::Ordering::Greater => Err(ShardError::Long { expected_bytes, found_bytes }),
    }
}

impl<'a> VerifiedFrames<'a> {
    /// The payload bytes that these frames hold: what was asked for, widened to whole frames.
    pub fn held(&self) -> Range<u64> {
        self.held.clone()
    }

    /// Payload bytes `payload` without a copy, as one slice for each frame they lie in.
    ///
    /// # Errors
    /// [`ShardError::Outside`]: these frames do not hold them all.
    pub fn slices(&self, payload: Range<u64>) -> Result<impl Iterator<Item = &'a [u8]> + use<'a>, ShardError> {
        let outside = payload.start < self.held.start || payload.end > self.held.end;
        if payload.start > payload.end || (outside && !payload.is_empty()) {
            return Err(ShardError::Outside { asked: payload, held: self.held() });
        }
        let raw = self.raw;
        // Nothing lies nowhere.
        let start = if payload.is_empty() { payload.start } else { self.held.start };
        Ok(frame_pieces(payload.start - start..payload.end - start).map(move |(frame, within)| {
            let offset = frame * FRAME_BYTES;
            &raw[offset + within.start..offset + within.end]
        }))
    }

    /// Copies payload bytes `payload` to the start of `out`.
    ///
    /// # Errors
    /// [`ShardError::Outside`]: these frames do not hold them all, or `out` has no room for them.
    pub fn copy_into(&self, payload: Range<u64>, out: &mut [u8]) -> Result<(), ShardError> {
        let slices = self.slices(payload.clone())?;
        if out.len() as u64 != payload.end - payload.start {
            let held = payload.start..payload.start.saturating_add(out.len() as u64);
            return Err(ShardError::Outside { asked: payload, held });
        }
        let mut at = 0;
        for slice in slices {
            out[at..at + slice.len()].copy_from_slice(slice);
            at += slice.len();
        }
        Ok(())
    }
}
