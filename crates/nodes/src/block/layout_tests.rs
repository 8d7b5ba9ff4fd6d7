use super::*;

const IDENTITY: NodeIdentity = NodeIdentity { volume: VolumeId(0x0102), node: NodeId(0x0304) };

fn part() -> Part {
    let key = ShardKey { segment: SegmentId(0x0a0b), generation: Generation(0x0c0d), index: ShardIndex(0x0e0f) };
    Part { key, part: 1, parts: 3, bytes: 40_000, modified_ms: 0x1122_3344_5566, put: 0x77 }
}

/// A persistent format; the values were worked out by a program of another language.
#[test]
fn golden_bytes() {
    let superblock = Superblock { identity: IDENTITY, slot_bytes: 16 << 10, slot_count: 448 };
    let bytes = superblock.encode();
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    assert_eq!(
        hex(&bytes[..64]),
        "77656674626c6b000100000000400000c0010000000000000000000000000000\
         0000000000000000000000000000010200000000000000000000000000000304"
    );
    assert!(bytes[64..4088].iter().all(|&byte| byte == 0));
    assert_eq!(hex(&bytes[4088..]), "88b2d8d35161bac2");
    assert_eq!(
        hex(&Entry::Part(part()).encode(5)),
        "00000000000000000000000000000a0b0d0c00000f0e00000100000003000000\
         409c00000000000066554433221100007700000000000000cc6efbc7e353a973"
    );
    assert_eq!(hex(&encode_counters(258, true)), "02010000000000000100000000000000");
}

#[test]
fn what_is_encoded_is_decoded() {
    let superblock = Superblock { identity: IDENTITY, slot_bytes: 4 << 20, slot_count: 3 };
    assert_eq!(Superblock::decode(&superblock.encode()), Ok(superblock));
    for entry in [Entry::Free, Entry::Part(part())] {
        assert_eq!(Entry::decode(&entry.encode(9), 9), entry);
    }
    assert_eq!(Entry::decode(&Entry::Part(part()).encode(9), 8), Entry::Damaged, "an entry belongs to its slot");
    assert_eq!(decode_counters(&encode_counters(u64::MAX, false)), (u64::MAX, false));
    assert_eq!(decode_counters(&[1, 2]), (0, false));
}

/// A right checksum is no proof that the numbers make sense: by the first of these a read would take memory without end, by others bytes of
/// slots that the shard has not.
#[test]
fn a_part_that_cannot_be_is_damage() {
    let superblock = Superblock { identity: IDENTITY, slot_bytes: 16 << 10, slot_count: 3 };
    let entry = |part| superblock.entry(&Entry::Part(part).encode(2), 2);
    assert_eq!(entry(part()), Entry::Part(part()));
    for impossible in [
        Part { bytes: u64::MAX, ..part() },
        Part { parts: 4, ..part() },
        Part { parts: 2, ..part() },
        Part { part: 3, ..part() },
        Part { parts: 0, part: 0, bytes: 0, ..part() },
        Part { put: 0, ..part() },
        Part { put: u64::MAX, ..part() },
        Part { put: u64::MAX - 1, ..part() },
    ] {
        assert_eq!(entry(impossible), Entry::Damaged, "{impossible:?}");
    }
}

#[test]
fn every_flipped_bit_is_noticed() {
    let superblock = Superblock { identity: IDENTITY, slot_bytes: 4 << 20, slot_count: 3 }.encode();
    for bit in 0..BLOCK_BYTES * 8 {
        let mut bytes = superblock;
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(Superblock::decode(&bytes).is_err(), "bit {bit}");
    }
    let entry = Entry::Part(part()).encode(1);
    for bit in 0..ENTRY_BYTES * 8 {
        let mut bytes = entry;
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(Entry::decode(&bytes, 1), Entry::Damaged, "bit {bit}");
    }
}

#[test]
fn a_newer_version_is_told() {
    let mut bytes = Superblock { identity: IDENTITY, slot_bytes: 4 << 20, slot_count: 3 }.encode();
    bytes[8] = 2;
    let check = crc64(&bytes[..BLOCK_BYTES - 8]);
    bytes[BLOCK_BYTES - 8..].copy_from_slice(&check.to_le_bytes());
    assert_eq!(Superblock::decode(&bytes), Err(NoSuperblock::UnknownVersion(2)));
}

#[test]
fn a_device_is_divided_without_overlap_and_without_much_waste() {
    for device_bytes in [2 << 20, (2 << 20) + 12_345, 100 << 20, 10 << 30, 1 << 40, 20 << 40, 1 << 50] {
        let superblock = Superblock::divide(IDENTITY, device_bytes).expect("room for a slot");
        let slot_bytes = u64::from(superblock.slot_bytes);
        assert!(Superblock::entry_offset(superblock.slot_count) <= superblock.slot_offset(0));
        assert!(superblock.end_offset() <= Superblock::copy_offset(device_bytes));
        assert!(Superblock::copy_offset(device_bytes) + BLOCK_BYTES as u64 <= device_bytes);
        let unused = device_bytes - u64::from(superblock.slot_count) * slot_bytes;
        // A table entry per slot, alignment, the copy, and less than one slot.
        assert!(unused <= device_bytes / 200 + (2 << 20) + slot_bytes, "{device_bytes}: {unused} unused");
        let aligned = superblock.slot_offset(0).is_multiple_of(1 << 20) && slot_bytes.is_multiple_of(4096);
        assert!(aligned, "{superblock:?}");
    }
    for device_bytes in [0, 1, 4096, 1 << 20] {
        assert_eq!(Superblock::divide(IDENTITY, device_bytes), None);
    }
}

#[test]
fn finding_33_a_superblock_that_cannot_be_is_damaged() {
    let superblock = |slot_bytes, slot_count| Superblock { identity: IDENTITY, slot_bytes, slot_count };
    for (slot_bytes, slot_count) in
        [(0, 448), (1, 448), (4096, 448), (3 << 14, 448), (8 << 20, 448), (u32::MAX, 1), (16 << 10, 0)]
    {
        let bytes = superblock(slot_bytes, slot_count).encode();
        assert_eq!(Superblock::decode(&bytes), Err(NoSuperblock::Damaged), "{slot_bytes} {slot_count}");
    }
    for slot_bytes in [16 << 10, 32 << 10, 4 << 20] {
        let possible = superblock(slot_bytes, 1);
        assert_eq!(Superblock::decode(&possible.encode()), Ok(possible));
    }
}
