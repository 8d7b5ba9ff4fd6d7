//! What a shard file ends with: what is known only at the end, and what the other shards of the encoding are.

use super::{MAX_NAME_BYTES, VERSION, bad, block, check_index, field, is_name};
use crate::ids::{ShardIndex, VolumeId};
use crate::shard::{HEADER_BYTES, ShardError, crc64};

/// What a trailer begins with.
const TRAILER_MAGIC: [u8; 8] = *b"WEFTTAIL";
const CHECK_OFFSET: usize = HEADER_BYTES - 8;
/// A sibling's digest and the length of its name.
const SIBLING_BYTES_MIN: usize = 33;

/// The fixed part of a trailer, as long as the header of an object; the siblings follow it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trailer {
    /// As in the header.
    pub set: VolumeId,
    /// As in the header.
    pub index: ShardIndex,
    /// As in the header.
    pub shard_count: u16,
    /// Length of the encoded file.
    pub file_bytes: u64,
    /// BLAKE3 of the encoded file.
    pub digest: [u8; 32],
    /// Length of the siblings.
    pub siblings_bytes: u32,
    /// BLAKE3 of the siblings' bytes.
    pub siblings_digest: [u8; 32],
}

/// A shard of an encoding, as all its shards know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sibling {
    /// BLAKE3 of the [`crate::shard::Digest`]s of its objects, in order.
    pub digest: [u8; 32],
    /// The name that its file was given; empty if it went elsewhere.
    pub name: Vec<u8>,
}

impl Sibling {
    /// The bytes of all siblings, by shard index.
    ///
    /// # Errors
    /// [`ShardError::BadHeader`]: a name that no file can have.
    pub fn encode_all(siblings: &[Self]) -> Result<Vec<u8>, ShardError> {
        let mut out = Vec::new();
        for Self { digest, name } in siblings {
            if !name.is_empty() && !is_name(name) {
                return Err(bad("a shard's name is 0 to 255 bytes without `/`"));
            }
            out.extend_from_slice(digest);
            out.push(name.len() as u8);
            out.extend_from_slice(name);
        }
        Ok(out)
    }
}

impl Trailer {
    /// The fixed layout; FORMAT.md has the offsets.
    ///
    /// # Errors
    /// [`ShardError::BadHeader`] for an index or a length that cannot be.
    pub fn encode(&self) -> Result<[u8; HEADER_BYTES], ShardError> {
        check_index(self.index, self.shard_count)?;
        let (shards, bytes) = (usize::from(self.shard_count), self.siblings_bytes as usize);
        if !(SIBLING_BYTES_MIN * shards..=(SIBLING_BYTES_MIN + MAX_NAME_BYTES) * shards).contains(&bytes) {
            return Err(bad(format!("{shards} siblings never take {bytes} bytes")));
        }
        let mut out = [0; HEADER_BYTES];
        out[0..8].copy_from_slice(&TRAILER_MAGIC);
        out[8..10].copy_from_slice(&VERSION.to_le_bytes());
        out[10..12].copy_from_slice(&self.index.0.to_le_bytes());
        out[12..14].copy_from_slice(&self.shard_count.to_le_bytes());
        out[16..32].copy_from_slice(&self.set.to_bytes());
        out[32..40].copy_from_slice(&self.file_bytes.to_le_bytes());
        out[40..44].copy_from_slice(&self.siblings_bytes.to_le_bytes());
        out[48..80].copy_from_slice(&self.digest);
        out[80..112].copy_from_slice(&self.siblings_digest);
        let check = crc64(&out[..CHECK_OFFSET]);
        out[CHECK_OFFSET..].copy_from_slice(&check.to_le_bytes());
        Ok(out)
    }

    /// The inverse of [`Self::encode`]; bytes after the fixed part are not looked at.
    ///
    /// # Errors
    /// `Short`, `UnknownVersion`, `BadHeader`.
    pub fn decode(bytes: &[u8]) -> Result<Self, ShardError> {
        let bytes = block::<HEADER_BYTES>(bytes, TRAILER_MAGIC)?;
        let trailer = Self {
            set: VolumeId::from_bytes(field(bytes, 16)),
            index: ShardIndex(u16::from_le_bytes(field(bytes, 10))),
            shard_count: u16::from_le_bytes(field(bytes, 12)),
            file_bytes: u64::from_le_bytes(field(bytes, 32)),
            siblings_bytes: u32::from_le_bytes(field(bytes, 40)),
            digest: field(bytes, 48),
            siblings_digest: field(bytes, 80),
        };
        if trailer.encode()? != *bytes {
            return Err(bad("bytes that must be zero are not"));
        }
        Ok(trailer)
    }

    /// The siblings, from the bytes that follow the fixed part.
    ///
    /// # Errors
    /// [`ShardError::BadHeader`]: these are not the bytes that were written.
    pub fn siblings(&self, bytes: &[u8]) -> Result<Vec<Sibling>, ShardError> {
        if *blake3::hash(bytes).as_bytes() != self.siblings_digest {
            return Err(bad("its siblings are damaged: their digest does not fit"));
        }
        let mut rest = bytes;
        let mut siblings = Vec::new();
        for _ in 0..self.shard_count {
            let (digest, after) = rest.split_first_chunk::<32>().ok_or_else(|| bad("its siblings are too few"))?;
            let (length, after) = after.split_first().ok_or_else(|| bad("its siblings are too few"))?;
            let (name, after) =
                after.split_at_checked((*length).into()).ok_or_else(|| bad("the name of a sibling is cut off"))?;
            siblings.push(Sibling { digest: *digest, name: name.to_vec() });
            rest = after;
        }
        if Sibling::encode_all(&siblings)? != bytes {
            return Err(bad("bytes follow its siblings"));
        }
        Ok(siblings)
    }
}

#[cfg(test)]
#[path = "trailer_tests.rs"]
mod tests;
