//! A shard as a file or a stream of its own, without a volume: what `weft encode` writes.
//!
//! ```text
//! | header 512 | shard object of segment 0 | shard object of segment 1 | ... | trailer 256 + siblings |
//! ```
//!
//! The file's bytes are cut into segments of one length, except the last; each gives one shard object to each shard file.
//! The volume id of the objects is the set's, the segment id counts from 0, the generation is 1. So a rebuilt shard file
//! has the same bytes as the lost one, any part of it can be verified alone, and a file whose header is damaged still
//! says by its first object which one it is.
//!
//! Bytes are written in order and need no later bytes: the length and the digests are in the trailer. All objects but the last have one
//! length, and an object and a trailer begin with [`crate::shard::HEADER_BYTES`] bytes that say which of the two they are. So a reader
//! that cannot seek always knows how much to read next.

mod trailer;

pub use trailer::{Sibling, Trailer};

use crate::geometry::Geometry;
use crate::ids::{Generation, SegmentId, ShardIndex, ShardKey, VolumeId};
use crate::shard::{MAX_CODE_BYTES, ShardError, ShardIdentity, check_code, crc64};

/// Length of the header.
pub const FILE_HEADER_BYTES: usize = 512;

/// What a shard file begins with.
pub const FILE_MAGIC: [u8; 8] = *b"WEFTFILE";

/// Longest name of a file.
pub const MAX_NAME_BYTES: usize = 255;

/// Of header and trailer.
const VERSION: u16 = 2;
const CODE_OFFSET: usize = 64;
const NAME_OFFSET: usize = CODE_OFFSET + MAX_CODE_BYTES;
const CHECK_OFFSET: usize = FILE_HEADER_BYTES - 8;

/// BLAKE3 of what goes by: of a file its bytes, of a shard the digests of its objects.
#[derive(Clone, Debug, Default)]
pub struct FileHasher(blake3::Hasher);

impl FileHasher {
    /// The next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The digest of all of them.
    pub fn finish(&self) -> [u8; 32] {
        *self.0.finalize().as_bytes()
    }
}

/// What a shard file's header says; the same in all files of a set but for the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardFileHeader {
    /// Random; the same in all shard files of one encoding.
    pub set: VolumeId,
    /// Which shard this is.
    pub index: ShardIndex,
    /// Shards of the encoding.
    pub shard_count: u16,
    /// Canonical spec of the code.
    pub code: String,
    /// Name of the encoded file, as the system's bytes: no `/`.
    pub name: Vec<u8>,
    /// How all segments but the last lie in their shards.
    pub geometry: Geometry,
}

impl ShardFileHeader {
    /// Who the object of this shard and segment is.
    pub fn object_identity(&self, segment: u64, index: ShardIndex) -> ShardIdentity {
        let key = ShardKey { segment: SegmentId(segment.into()), generation: Generation::FIRST, index };
        ShardIdentity { volume: self.set, key }
    }

    /// The fixed layout; FORMAT.md has the offsets.
    ///
    /// # Errors
    /// [`ShardError::CodeName`], or [`ShardError::BadHeader`] for a name, an index or a geometry that cannot be.
    pub fn encode(&self) -> Result<[u8; FILE_HEADER_BYTES], ShardError> {
        check_code(&self.code)?;
        self.geometry.validate().map_err(|error| bad(error.to_string()))?;
        check_index(self.index, self.shard_count)?;
        if !is_name(&self.name) {
            return Err(bad("a file's name is 1 to 255 bytes without `/`"));
        }
        let Geometry { data_bytes, native_count, alpha, symbol_bytes, alignment_bytes, .. } = self.geometry;
        let mut out = [0; FILE_HEADER_BYTES];
        out[0..8].copy_from_slice(&FILE_MAGIC);
        out[8..10].copy_from_slice(&VERSION.to_le_bytes());
        out[10..12].copy_from_slice(&self.index.0.to_le_bytes());
        out[12..14].copy_from_slice(&self.shard_count.to_le_bytes());
        out[14] = self.code.len() as u8;
        out[15] = self.name.len() as u8;
        out[16..32].copy_from_slice(&self.set.to_bytes());
        out[32..40].copy_from_slice(&data_bytes.to_le_bytes());
        out[40..44].copy_from_slice(&native_count.to_le_bytes());
        out[44..48].copy_from_slice(&alpha.to_le_bytes());
        out[48..52].copy_from_slice(&symbol_bytes.to_le_bytes());
        out[52..56].copy_from_slice(&alignment_bytes.to_le_bytes());
        out[CODE_OFFSET..CODE_OFFSET + self.code.len()].copy_from_slice(self.code.as_bytes());
        out[NAME_OFFSET..NAME_OFFSET + self.name.len()].copy_from_slice(&self.name);
        let check = crc64(&out[..CHECK_OFFSET]);
        out[CHECK_OFFSET..].copy_from_slice(&check.to_le_bytes());
        Ok(out)
    }

    /// The inverse of [`Self::encode`]; bytes after the header are not looked at.
    ///
    /// # Errors
    /// `Short`, `UnknownVersion`, `BadHeader`.
    pub fn decode(file: &[u8]) -> Result<Self, ShardError> {
        let bytes = block::<FILE_HEADER_BYTES>(file, FILE_MAGIC)?;
        let part = |start: usize, length: u8| bytes[start..CHECK_OFFSET].get(..usize::from(length)).unwrap_or(b"");
        let header = Self {
            set: VolumeId::from_bytes(field(bytes, 16)),
            index: ShardIndex(u16::from_le_bytes(field(bytes, 10))),
            shard_count: u16::from_le_bytes(field(bytes, 12)),
            code: str::from_utf8(part(CODE_OFFSET, bytes[14])).map_err(|_| bad("its code is no text"))?.to_owned(),
            name: part(NAME_OFFSET, bytes[15]).to_vec(),
            geometry: Geometry {
                data_bytes: u64::from_le_bytes(field(bytes, 32)),
                native_count: u32::from_le_bytes(field(bytes, 40)),
                alpha: u32::from_le_bytes(field(bytes, 44)),
                symbol_bytes: u32::from_le_bytes(field(bytes, 48)),
                alignment_bytes: u32::from_le_bytes(field(bytes, 52)),
                source_count: 1,
            },
        };
        // One header, one encoding: what is unused must be zero.
        if header.encode()? != *bytes {
            return Err(bad("bytes that must be zero are not"));
        }
        Ok(header)
    }
}

/// The block of `N` bytes that `bytes` begins with, once its checksum, its magic and its version are right.
fn block<const N: usize>(bytes: &[u8], magic: [u8; 8]) -> Result<&[u8; N], ShardError> {
    let Some(block) = bytes.first_chunk::<N>() else {
        return Err(ShardError::Short { expected_bytes: N as u64, found_bytes: bytes.len() as u64 });
    };
    if block[0..8] != magic {
        return Err(bad("it does not begin as a part of a shard file does"));
    }
    // Before the version is believed: a flipped bit in it is damage, not a newer format.
    if crc64(&block[..N - 8]) != u64::from_le_bytes(field(block, N - 8)) {
        return Err(bad("its checksum does not fit"));
    }
    let version = u16::from_le_bytes(field(block, 8));
    if version != VERSION {
        return Err(ShardError::UnknownVersion { version, newest: VERSION });
    }
    Ok(block)
}

fn check_index(index: ShardIndex, shard_count: u16) -> Result<(), ShardError> {
    match index.0 < shard_count {
        true => Ok(()),
        false => Err(bad(format!("there is no shard {} of {shard_count}", index.0))),
    }
}

/// A name that a file of any folder may have.
fn is_name(name: &[u8]) -> bool {
    let is_special = name == b"." || name == b"..";
    (1..=MAX_NAME_BYTES).contains(&name.len()) && !is_special && name.iter().all(|byte| *byte != 0 && *byte != b'/')
}

fn bad(detail: impl Into<String>) -> ShardError {
    ShardError::BadHeader { detail: detail.into() }
}

/// `N` bytes at a constant offset within a fixed layout.
fn field<const N: usize>(bytes: &[u8], offset: usize) -> [u8; N] {
    std::array::from_fn(|i| bytes[offset + i])
}

#[cfg(test)]
#[path = "shard_file_tests.rs"]
mod tests;
