//! The 256 bytes that a shard begins with: enough to rebuild a volume's segments by scanning its nodes.

use super::{HEADER_BYTES, MAX_CODE_BYTES, ShardError, ShardIdentity, crc64};
use crate::geometry::Geometry;
use crate::ids::{Generation, SegmentId, ShardIndex, ShardKey, VolumeId};

const MAGIC: [u8; 8] = *b"WEFTSHRD";
/// Of shards of a segment by itself, and of a merged one.
const PLAIN_VERSION: u16 = 1;
const MERGED_VERSION: u16 = 2;
const CODE_OFFSET: usize = 80;
const CODE_END: usize = CODE_OFFSET + MAX_CODE_BYTES;

/// Where version 2 counts the sources.
const SOURCES_OFFSET: usize = CODE_END;
/// The checksum is of all that precedes it.
const CHECK_OFFSET: usize = HEADER_BYTES - 8;

/// What a shard's header says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardHeader {
    /// Which shard it is.
    pub identity: ShardIdentity,
    /// Canonical spec of the code.
    pub code: String,
    /// How the segment lies in its shards.
    pub geometry: Geometry,
}

/// A code spec as headers and records hold it.
pub(crate) fn check_code(code: &str) -> Result<(), ShardError> {
    let fits = (1..=MAX_CODE_BYTES).contains(&code.len()) && code.bytes().all(|byte| byte.is_ascii_graphic());
    if fits { Ok(()) } else { Err(ShardError::CodeName { code: code.chars().take(MAX_CODE_BYTES).collect() }) }
}

impl ShardHeader {
    /// The fixed layout; FORMAT.md has the offsets.
    ///
    /// # Errors
    /// [`ShardError::CodeName`], or [`ShardError::BadHeader`] for a geometry that cannot be.
    pub fn encode(&self) -> Result<[u8; HEADER_BYTES], ShardError> {
        check_code(&self.code)?;
        self.geometry.validate().map_err(|error| bad(error.to_string()))?;
        let mut out = [0; HEADER_BYTES];
        out[0..8].copy_from_slice(&MAGIC);
        let is_merged = self.geometry.source_count > 1;
        let version = if is_merged { MERGED_VERSION } else { PLAIN_VERSION };
        out[8..10].copy_from_slice(&version.to_le_bytes());
        out[10..12].copy_from_slice(&self.identity.key.index.0.to_le_bytes());
        out[12..16].copy_from_slice(&self.identity.key.generation.0.to_le_bytes());
        out[16..32].copy_from_slice(&self.identity.volume.to_bytes());
        out[32..48].copy_from_slice(&self.identity.key.segment.to_bytes());
        out[48..56].copy_from_slice(&self.geometry.data_bytes.to_le_bytes());
        out[56..60].copy_from_slice(&self.geometry.native_count.to_le_bytes());
        out[60..64].copy_from_slice(&self.geometry.alpha.to_le_bytes());
        out[64..68].copy_from_slice(&self.geometry.symbol_bytes.to_le_bytes());
        out[68..72].copy_from_slice(&self.geometry.alignment_bytes.to_le_bytes());
        out[72] = self.code.len() as u8;
        out[CODE_OFFSET..CODE_OFFSET + self.code.len()].copy_from_slice(self.code.as_bytes());
        if is_merged {
            out[SOURCES_OFFSET..SOURCES_OFFSET + 4].copy_from_slice(&self.geometry.source_count.to_le_bytes());
        }
        let check = crc64(&out[..CHECK_OFFSET]);
        out[CHECK_OFFSET..].copy_from_slice(&check.to_le_bytes());
        Ok(out)
    }

    /// The inverse of [`Self::encode`]; bytes after the header are not looked at.
    ///
    /// # Errors
    /// `Short`, `UnknownVersion`, `BadHeader`.
    pub fn decode(object: &[u8]) -> Result<Self, ShardError> {
        let Some(bytes) = object.first_chunk::<HEADER_BYTES>() else {
            let (expected_bytes, found_bytes) = (HEADER_BYTES as u64, object.len() as u64);
            return Err(ShardError::Short { expected_bytes, found_bytes });
        };
        if bytes[0..8] != MAGIC {
            return Err(bad("it does not begin as a shard does"));
        }
        // Before the version is believed: a flipped bit in it is damage, not a newer format.
        if crc64(&bytes[..CHECK_OFFSET]) != u64::from_le_bytes(field(bytes, CHECK_OFFSET)) {
            return Err(bad("its checksum does not fit"));
        }
        let version = u16::from_le_bytes(field(bytes, 8));
        let source_count = match version {
            PLAIN_VERSION => 1,
            MERGED_VERSION => u32::from_le_bytes(field(bytes, SOURCES_OFFSET)),
            _ => return Err(ShardError::UnknownVersion { version, newest: MERGED_VERSION }),
        };
        let code_end = CODE_OFFSET + usize::from(bytes[72]);
        let code = bytes.get(CODE_OFFSET..code_end.min(CODE_END)).unwrap_or_default();
        let code = str::from_utf8(code).map_err(|_| bad("its code is no text"))?.to_owned();
        if code_end > CODE_END || check_code(&code).is_err() {
            return Err(bad("its code is no spec"));
        }
        let geometry = Geometry {
            data_bytes: u64::from_le_bytes(field(bytes, 48)),
            native_count: u32::from_le_bytes(field(bytes, 56)),
            alpha: u32::from_le_bytes(field(bytes, 60)),
            symbol_bytes: u32::from_le_bytes(field(bytes, 64)),
            alignment_bytes: u32::from_le_bytes(field(bytes, 68)),
            source_count,
        };
        geometry.validate().map_err(|error| bad(error.to_string()))?;
        let key = ShardKey {
            segment: SegmentId::from_bytes(field(bytes, 32)),
            generation: Generation(u32::from_le_bytes(field(bytes, 12))),
            index: ShardIndex(u16::from_le_bytes(field(bytes, 10))),
        };
        let identity = ShardIdentity { volume: VolumeId::from_bytes(field(bytes, 16)), key };
        let header = Self { identity, code, geometry };
        // One header, one encoding: what is unused must be zero.
        if header.encode()? != *bytes {
            return Err(bad("bytes that must be zero are not"));
        }
        Ok(header)
    }
}

fn bad(detail: impl Into<String>) -> ShardError {
    ShardError::BadHeader { detail: detail.into() }
}

/// `N` bytes at a constant offset within the fixed layout.
fn field<const N: usize>(bytes: &[u8; HEADER_BYTES], offset: usize) -> [u8; N] {
    std::array::from_fn(|i| bytes[offset + i])
}
