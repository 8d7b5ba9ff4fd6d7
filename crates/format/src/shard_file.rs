//! A shard as a file of its own, without a volume: what `weft encode` makes of a file.
//!
//! ```text
//! | header 512 | shard object of segment 0 | shard object of segment 1 | ... |
//! ```
//!
//! The file's bytes are cut into segments of one length, but for the last; each gives one shard object to each shard file.
//! The volume id of the objects is the set's, the segment id counts from 0, the generation is 1. So a rebuilt shard file
//! has the same bytes as the lost one, any part of it can be verified alone, and a file whose header is damaged still
//! says by its first object which one it is.

use crate::geometry::Geometry;
use crate::ids::{Generation, SegmentId, ShardIndex, ShardKey, VolumeId};
use crate::shard::{MAX_CODE_BYTES, ShardError, ShardIdentity, check_code, crc64, object_bytes};
use std::ops::Range;

/// Length of the header.
pub const FILE_HEADER_BYTES: usize = 512;

/// What a shard file begins with.
pub const FILE_MAGIC: [u8; 8] = *b"WEFTFILE";

/// Longest name of a file.
pub const MAX_NAME_BYTES: usize = 255;

const VERSION: u16 = 1;
const CODE_OFFSET: usize = 96;
const NAME_OFFSET: usize = CODE_OFFSET + MAX_CODE_BYTES;
const CHECK_OFFSET: usize = FILE_HEADER_BYTES - 8;

/// BLAKE3 of a file, gathered as it goes by.
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
    /// Canonical spec of the code.
    pub code: String,
    /// Name of the encoded file, as the system's bytes: no `/`.
    pub name: Vec<u8>,
    /// Length of the encoded file.
    pub file_bytes: u64,
    /// BLAKE3 of the encoded file.
    pub digest: [u8; 32],
    /// How all segments but the last lie in their shards.
    pub geometry: Geometry,
}

impl ShardFileHeader {
    /// Segments of the file.
    pub fn segment_count(&self) -> u64 {
        self.file_bytes.div_ceil(self.geometry.data_bytes)
    }

    /// How this segment lies in its shards; there is such a segment.
    pub fn segment_geometry(&self, segment: u64) -> Geometry {
        let rest = self.file_bytes - segment * self.geometry.data_bytes;
        Geometry { data_bytes: rest.min(self.geometry.data_bytes), ..self.geometry }
    }

    /// Where this segment's object lies in the shard file.
    pub fn object_range(&self, segment: u64) -> Range<u64> {
        let start = FILE_HEADER_BYTES as u64 + segment * object_bytes(self.geometry.payload_bytes());
        start..start + object_bytes(self.segment_geometry(segment).payload_bytes())
    }

    /// Length of a shard file.
    pub fn shard_file_bytes(&self) -> u64 {
        match self.segment_count() {
            0 => FILE_HEADER_BYTES as u64,
            count => self.object_range(count - 1).end,
        }
    }

    /// Who the object of this shard and segment is.
    pub fn object_identity(&self, segment: u64, index: ShardIndex) -> ShardIdentity {
        let key = ShardKey { segment: SegmentId(segment.into()), generation: Generation::FIRST, index };
        ShardIdentity { volume: self.set, key }
    }

    /// The fixed layout; FORMAT.md has the offsets.
    ///
    /// # Errors
    /// [`ShardError::CodeName`], or [`ShardError::BadHeader`] for a name or geometry that cannot be.
    pub fn encode(&self) -> Result<[u8; FILE_HEADER_BYTES], ShardError> {
        check_code(&self.code)?;
        self.geometry.validate().map_err(|error| bad(error.to_string()))?;
        let longest = self.segment_count().checked_mul(object_bytes(self.geometry.payload_bytes()));
        if longest.is_none_or(|bytes| bytes > u64::MAX - FILE_HEADER_BYTES as u64) {
            return Err(bad("the file is longer than any"));
        }
        if !is_name(&self.name) {
            return Err(bad("a file's name is 1 to 255 bytes without `/`"));
        }
        let Geometry { data_bytes, native_count, alpha, symbol_bytes, alignment_bytes, .. } = self.geometry;
        let mut out = [0; FILE_HEADER_BYTES];
        out[0..8].copy_from_slice(&FILE_MAGIC);
        out[8..10].copy_from_slice(&VERSION.to_le_bytes());
        out[10..12].copy_from_slice(&self.index.0.to_le_bytes());
        out[12..14].copy_from_slice(&(self.code.len() as u16).to_le_bytes());
        out[14..16].copy_from_slice(&(self.name.len() as u16).to_le_bytes());
        out[16..32].copy_from_slice(&self.set.to_bytes());
        out[32..40].copy_from_slice(&self.file_bytes.to_le_bytes());
        out[40..48].copy_from_slice(&data_bytes.to_le_bytes());
        out[48..52].copy_from_slice(&native_count.to_le_bytes());
        out[52..56].copy_from_slice(&alpha.to_le_bytes());
        out[56..60].copy_from_slice(&symbol_bytes.to_le_bytes());
        out[60..64].copy_from_slice(&alignment_bytes.to_le_bytes());
        out[64..96].copy_from_slice(&self.digest);
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
        let Some(bytes) = file.first_chunk::<FILE_HEADER_BYTES>() else {
            let (expected_bytes, found_bytes) = (FILE_HEADER_BYTES as u64, file.len() as u64);
            return Err(ShardError::Short { expected_bytes, found_bytes });
        };
        if bytes[0..8] != FILE_MAGIC {
            return Err(bad("it does not begin as a shard file does"));
        }
        if crc64(&bytes[..CHECK_OFFSET]) != u64::from_le_bytes(field(bytes, CHECK_OFFSET)) {
            return Err(bad("its checksum does not fit"));
        }
        let version = u16::from_le_bytes(field(bytes, 8));
        if version != VERSION {
            return Err(ShardError::UnknownVersion { version, newest: VERSION });
        }
        let part = |start: usize, length: u16| bytes[start..CHECK_OFFSET].get(..usize::from(length)).unwrap_or(b"");
        let code = part(CODE_OFFSET, u16::from_le_bytes(field(bytes, 12)));
        let header = Self {
            set: VolumeId::from_bytes(field(bytes, 16)),
            index: ShardIndex(u16::from_le_bytes(field(bytes, 10))),
            code: str::from_utf8(code).map_err(|_| bad("its code is no text"))?.to_owned(),
            name: part(NAME_OFFSET, u16::from_le_bytes(field(bytes, 14))).to_vec(),
            file_bytes: u64::from_le_bytes(field(bytes, 32)),
            digest: field(bytes, 64),
            geometry: Geometry {
                data_bytes: u64::from_le_bytes(field(bytes, 40)),
                native_count: u32::from_le_bytes(field(bytes, 48)),
                alpha: u32::from_le_bytes(field(bytes, 52)),
                symbol_bytes: u32::from_le_bytes(field(bytes, 56)),
                alignment_bytes: u32::from_le_bytes(field(bytes, 60)),
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

/// A name that a file of any folder may have.
fn is_name(name: &[u8]) -> bool {
    let is_special = name == b"." || name == b"..";
    (1..=MAX_NAME_BYTES).contains(&name.len()) && !is_special && name.iter().all(|byte| *byte != 0 && *byte != b'/')
}

fn bad(detail: impl Into<String>) -> ShardError {
    ShardError::BadHeader { detail: detail.into() }
}

/// `N` bytes at a constant offset within the fixed layout.
fn field<const N: usize>(bytes: &[u8; FILE_HEADER_BYTES], offset: usize) -> [u8; N] {
    std::array::from_fn(|i| bytes[offset + i])
}

#[cfg(test)]
#[path = "shard_file_tests.rs"]
mod tests;
