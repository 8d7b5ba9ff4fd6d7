//! The shard object: a fixed header, then frames of payload, each with a checksum that also covers who the shard is.
//!
//! ```text
//! | header 256 | payload 4096 | check 8 | payload 4096 | check 8 | ... | payload 1..4096 | check 8 |
//! ```
//!
//! A frame's check is CRC-64/NVME of its payload, whitened with a number drawn from volume, segment, generation, shard
//! index and frame number. So one range request of whole frames proves itself, without the header: bytes of another
//! shard, another generation, another place in the same shard, or a sparse hole fail like any damaged bytes. CRCs find
//! accidents, not forgery: whoever knows the identity can compute a valid check.
//!
//! A shard's [`Digest`] is of the payload alone, so the same bytes have the same digest in every generation.
//!
//! Writers fill a [`ShardBuilder`]; readers ask [`frames_range`] what to fetch and have [`verify_frames`] check it.

mod build;
mod header;
mod verify;

use crate::ids::{ShardKey, VolumeId};
use std::fmt;
use std::ops::Range;

pub use build::{FrameMut, ShardBuilder};
pub use header::ShardHeader;
pub(crate) use header::check_code;
pub use verify::{VerifiedFrames, VerifiedObject, verify_frames, verify_object};

/// Length of the header.
pub const HEADER_BYTES: usize = 256;

/// Payload of a full frame: the page size, so that a page of a file costs one frame; its check adds 0.2 %.
pub const FRAME_PAYLOAD_BYTES: usize = 4096;

/// Length of a frame's check.
pub const CHECK_BYTES: usize = 8;

/// Longest code spec the header holds.
pub const MAX_CODE_BYTES: usize = 96;

const FRAME_BYTES: usize = FRAME_PAYLOAD_BYTES + CHECK_BYTES;

/// Which shard of which volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ShardIdentity {
    /// The volume.
    pub volume: VolumeId,
    /// The shard's name on its node.
    pub key: ShardKey,
}

impl fmt::Display for ShardIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "shard {} of volume {}", self.key, self.volume)
    }
}

/// BLAKE3 over the payload's length and the CRCs of its frames: the same for the same payload, whatever the generation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest(pub [u8; 32]);

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

/// Bytes that are not the shard they should be. Whatever it says, to a reader the shard is an erasure and to a scrub it
/// wants repair.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShardError {
    /// Fewer bytes than there must be.
    #[error("the shard is short: {found_bytes} bytes where {expected_bytes} were expected")]
    Short {
        /// How many there must be.
        expected_bytes: u64,
        /// How many there are.
        found_bytes: u64,
    },
    /// More bytes than there must be.
    #[error("the shard is too long: {found_bytes} bytes where {expected_bytes} were expected")]
    Long {
        /// How many there must be.
        expected_bytes: u64,
        /// How many there are.
        found_bytes: u64,
    },
    /// The header is intact and names another shard.
    #[error("these are the bytes of {found}, not of {expected}")]
    WrongIdentity {
        /// What was asked for.
        expected: ShardIdentity,
        /// What the header says.
        found: ShardIdentity,
    },
    /// A frame's check does not fit its payload and place.
    #[error("frame {frame} is damaged or belongs elsewhere: its checksum does not fit")]
    BadChecksum {
        /// Its number within the shard, from 0.
        frame: u64,
    },
    /// The header is damaged, or cannot be.
    #[error("the shard's header is damaged: {detail}")]
    BadHeader {
        /// What does not fit.
        detail: String,
    },
    /// A shard of a newer format.
    #[error(
        "the shard has format version {version}, this program reads version {newest}: use the program that wrote it"
    )]
    UnknownVersion {
        /// The version in the header.
        version: u16,
        /// The newest version this program reads.
        newest: u16,
    },
    /// The header has no room for this code's spec.
    #[error("`{code}` cannot name a code in a shard: it must be 1 to {MAX_CODE_BYTES} printable ASCII characters")]
    CodeName {
        /// The spec, cut to what can be shown.
        code: String,
    },
    /// The reader asks for bytes that were not fetched.
    #[error("payload bytes {asked:?} were asked of frames that hold {held:?}")]
    Outside {
        /// What was asked.
        asked: Range<u64>,
        /// What there is.
        held: Range<u64>,
    },
}

/// Frames in a shard of `payload_bytes`.
pub fn frame_count(payload_bytes: u64) -> u64 {
    payload_bytes.div_ceil(FRAME_PAYLOAD_BYTES as u64)
}

/// Length of the whole object of a shard of `payload_bytes`.
pub fn object_bytes(payload_bytes: u64) -> u64 {
    HEADER_BYTES as u64 + payload_bytes + frame_count(payload_bytes) * CHECK_BYTES as u64
}

/// The object bytes to fetch for payload bytes `payload` (cut at the payload's end): the whole frames that hold them.
pub fn frames_range(payload: Range<u64>, payload_bytes: u64) -> Range<u64> {
    let frames = frames_of(&payload, payload_bytes);
    let offset = |frame: u64| (HEADER_BYTES as u64 + frame * FRAME_BYTES as u64).min(object_bytes(payload_bytes));
    offset(frames.start)..offset(frames.end)
}

/// The frames that hold payload bytes `payload` (cut at the payload's end).
fn frames_of(payload: &Range<u64>, payload_bytes: u64) -> Range<u64> {
    let end = payload.end.min(payload_bytes);
    let start = payload.start.min(end);
    let first = start / FRAME_PAYLOAD_BYTES as u64;
    first..if start == end { first } else { frame_count(end) }
}

/// Payload bytes `payload` as runs within one frame each: (frame, bytes within the frame's payload), in order.
pub fn frame_pieces(payload: Range<u64>) -> impl Iterator<Item = (usize, Range<usize>)> {
    let frame_payload = FRAME_PAYLOAD_BYTES as u64;
    let frames = frames_of(&payload, payload.end);
    frames.map(move |frame| {
        let start = payload.start.max(frame * frame_payload) - frame * frame_payload;
        let end = payload.end.min((frame + 1) * frame_payload) - frame * frame_payload;
        (frame as usize, start as usize..end as usize)
    })
}

/// What makes a frame's check its own: a 64-bit number for each frame of each shard.
#[derive(Clone, Copy, Debug)]
struct Whitening {
    seed: u64,
}

impl Whitening {
    fn of(identity: &ShardIdentity) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&identity.volume.to_bytes());
        hasher.update(&identity.key.segment.to_bytes());
        hasher.update(&identity.key.generation.0.to_le_bytes());
        hasher.update(&identity.key.index.0.to_le_bytes());
        let hash = hasher.finalize();
        let [a, b, c, d, e, f, g, h, ..] = *hash.as_bytes();
        Self { seed: u64::from_le_bytes([a, b, c, d, e, f, g, h]) }
    }

    /// SplitMix64 (Steele, Lea, Flood 2014) at position `frame`: consecutive frames get unlike numbers.
    fn frame(self, frame: u64) -> u64 {
        let z = self.seed.wrapping_add(frame.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

pub(crate) fn crc64(bytes: &[u8]) -> u64 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, bytes)
}

/// Gathers a [`Digest`]: the payload's length, then its frames' CRCs in order.
struct DigestBuilder(blake3::Hasher);

impl DigestBuilder {
    fn new(payload_bytes: u64) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&payload_bytes.to_le_bytes());
        Self(hasher)
    }

    fn frame(&mut self, crc: u64) {
        self.0.update(&crc.to_le_bytes());
    }

    fn finish(self) -> Digest {
        Digest(*self.0.finalize().as_bytes())
    }
}

#[cfg(test)]
#[path = "shard_tests.rs"]
mod tests;
