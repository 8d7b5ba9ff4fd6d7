//! Decoders of what a device holds, for `crates/fuzz`.

use super::index::Index;
use super::layout::{self, BLOCK_BYTES, COUNTERS_BYTES, ENTRY_BYTES, Entry, Part, Superblock};
use weft_format::{NodeId, NodeIdentity, VolumeId};

const CHECK_BYTES: usize = 8;
const SUPERBLOCK: Superblock =
    Superblock { identity: NodeIdentity { volume: VolumeId(1), node: NodeId(2) }, slot_bytes: 16 << 10, slot_count: 9 };

/// A superblock, the counters, or the table: the first byte says which.
pub fn block(bytes: &[u8]) {
    let Some((what, bytes)) = bytes.split_first() else { return };
    match what % 3 {
        0 => superblock(bytes),
        1 => {
            let (changes, changing) = layout::decode_counters(bytes);
            let again = layout::encode_counters(changes, changing);
            assert_eq!(layout::decode_counters(&again), (changes, changing));
        }
        _ => table(bytes),
    }
}

fn superblock(bytes: &[u8]) {
    let _ = Superblock::decode(bytes);
    let mut bytes = bytes.to_vec();
    bytes.resize(BLOCK_BYTES, 0);
    let check = layout::crc64(&bytes[..BLOCK_BYTES - CHECK_BYTES]);
    bytes[BLOCK_BYTES - CHECK_BYTES..].copy_from_slice(&check.to_le_bytes());
    let Ok(superblock) = Superblock::decode(&bytes) else { return };
    assert_eq!(Superblock::decode(&superblock.encode()), Ok(superblock));
    assert!(superblock.slot_offset(0) <= superblock.end_offset());
}

/// Entries as they are, or with a right checksum, by the byte before each; an index is made of them as of a device's table.
fn table(bytes: &[u8]) {
    let mut index = Index::new(SUPERBLOCK.slot_count);
    for (number, chunk) in bytes.chunks_exact(1 + ENTRY_BYTES).enumerate() {
        let (slot, mut entry) = ((number as u32) % SUPERBLOCK.slot_count, [0; ENTRY_BYTES]);
        entry.copy_from_slice(&chunk[1..]);
        if chunk[0] % 2 == 1 {
            let check = layout::entry_check(&entry, slot);
            entry[ENTRY_BYTES - CHECK_BYTES..].copy_from_slice(&check.to_le_bytes());
        }
        let entry = SUPERBLOCK.entry(&entry, slot);
        if let Entry::Part(_) = entry {
            assert_eq!(SUPERBLOCK.entry(&entry.encode(slot), slot), entry);
        }
        index.apply(slot, entry);
    }
    index.drop_incomplete();
    let (keys, _) = index.keys_after(None, usize::MAX);
    let mut held = 0;
    for key in keys {
        let shard = index.find(key).expect("it was listed");
        held += shard.slots.len();
        assert_eq!(shard.slots.len() as u64, SUPERBLOCK.slots_of(shard.bytes), "every byte has a slot");
    }
    let damaged = index.damaged().count();
    assert!(index.free_count() + held + damaged <= SUPERBLOCK.slot_count as usize, "a slot is one of the three");
    let free = index.free_count() as u64;
    assert_eq!(index.take(free).map(|taken| taken.len() as u64), (free > 0).then_some(free).or(Some(0)));
    index.next_put();
}

/// One of each.
#[must_use]
pub fn block_seeds() -> Vec<Vec<u8>> {
    let mut table = vec![2];
    for slot in 0..3 {
        let part = Part {
            key: weft_format::ShardKey {
                segment: weft_format::SegmentId(7 + u128::from(slot / 2)),
                generation: weft_format::Generation::FIRST,
                index: weft_format::ShardIndex(1),
            },
            part: slot % 2,
            parts: if slot < 2 { 2 } else { 1 },
            bytes: if slot < 2 { 20_000 } else { 10 },
            modified_ms: 5,
            put: 1 + u64::from(slot / 2),
        };
        table.push(1);
        table.extend(Entry::Part(part).encode(slot));
    }
    let counters = layout::encode_counters(77, true);
    let shown = &SUPERBLOCK.encode()[..64];
    assert!(counters.len() == COUNTERS_BYTES);
    vec![[&[0][..], shown].concat(), [&[1][..], &counters].concat(), table]
}
