//! Entries of a cache on disk, for `crates/fuzz`.

use super::index::Index;
use super::{DIGEST_BYTES, Digest, ENTRY_BYTES, PIECE_BYTES, decode, encode, short};
use weft_format::SegmentId;

const SLOT_COUNT: u32 = 7;

/// Entries as they are, or with a right digest, by the byte before each; an index is made of them as of a file's table.
pub fn entries(bytes: &[u8]) {
    let mut index: Index<Digest> = Index::new(SLOT_COUNT);
    for (number, chunk) in bytes.chunks_exact(1 + ENTRY_BYTES as usize).take(SLOT_COUNT as usize).enumerate() {
        let mut entry = chunk[1..].to_vec();
        if chunk[0] % 2 == 1 {
            let (fields, check) = entry.split_at_mut(ENTRY_BYTES as usize - DIGEST_BYTES);
            check.copy_from_slice(&short(&blake3::hash(fields)));
        }
        let Some((key, bytes, digest)) = decode(&entry) else { continue };
        assert!(bytes <= PIECE_BYTES);
        assert_eq!(encode(&key, bytes, &digest), entry);
        index.insert(number as u32, key, bytes, digest);
        assert_eq!(index.find(&key), Some((number as u32, bytes, digest)), "the last one counts");
    }
    for number in 0..u64::from(SLOT_COUNT) {
        assert!(index.take(&(SegmentId(u128::MAX), number)).is_none_or(|slot| slot < SLOT_COUNT));
    }
}

/// Two of one segment, and one with its digest.
#[must_use]
pub fn entries_seeds() -> Vec<Vec<u8>> {
    let entry = |segment, number: u64, bytes| encode(&(SegmentId(segment), number), bytes, &[5; DIGEST_BYTES]);
    let pieces = [entry(7, 0, PIECE_BYTES), entry(7, 1, 100), entry(8, 0, 9)];
    vec![
        pieces.iter().flat_map(|entry| [&[0][..], entry].concat()).collect(),
        pieces.iter().flat_map(|entry| [&[1][..], &entry[..48], &[0; DIGEST_BYTES]].concat()).collect(),
    ]
}
