use super::*;

fn samples() -> Vec<(Key<'static>, &'static str, &'static str)> {
    let segment = SegmentId(0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10);
    let node = NodeId(0xaa);
    vec![
        (Key::Volume, "01", "volume"),
        (Key::Inode(Ino(1)), "020000000000000001", "inode/1"),
        (Key::Dirent(Ino(1), b"a b"), "030000000000000001612062", "dirent/1/a b"),
        (Key::Entry(Ino(2), 17), "0400000000000000020000000000000011", "entry/2/17"),
        (Key::Symlink(Ino(3)), "050000000000000003", "symlink/3"),
        (Key::Xattr(Ino(3), b"user.x"), "060000000000000003757365722e78", "xattr/3/user.x"),
        (Key::Extent(Ino(3), 4096), "0700000000000000030000000000001000", "extent/3/4096"),
        (Key::Journal(Ino(3), 2), "0800000000000000030000000000000002", "journal/3/2"),
        (Key::Live(segment), "0a0102030405060708090a0b0c0d0e0f10", "live/0102030405060708090a0b0c0d0e0f10"),
        (
            Key::UsedBy(segment, Ino(5)),
            "0b0102030405060708090a0b0c0d0e0f100000000000000005",
            "used-by/0102030405060708090a0b0c0d0e0f10/5",
        ),
        (Key::Policy(PolicyId(7)), "0c00000007", "policy/7"),
        (Key::Counter(Counter::Ino), "0d01", "counter/ino"),
        (Key::Counter(Counter::Cookie), "0d02", "counter/cookie"),
        (Key::Counter(Counter::Policy), "0d03", "counter/policy"),
        (Key::Counter(Counter::Filed), "0d04", "counter/filed"),
        (Key::Usage, "0e", "usage"),
        (Key::Openings, "10", "openings"),
        (Key::Locks(Ino(3)), "110000000000000003", "locks/3"),
        (Key::Held(Ino(3), 9), "1200000000000000030000000000000009", "held/3/9"),
        (Key::Look(9), "130000000000000009", "look/9"),
        (Key::Sums, "14", "sums"),
        (Key::Segment(segment), "200102030405060708090a0b0c0d0e0f10", "segment/0102030405060708090a0b0c0d0e0f10"),
        (
            Key::OnNode(node, segment),
            "21000000000000000000000000000000aa0102030405060708090a0b0c0d0e0f10",
            "on-node/000000000000000000000000000000aa/0102030405060708090a0b0c0d0e0f10",
        ),
        (Key::Damaged(segment), "220102030405060708090a0b0c0d0e0f10", "damaged/0102030405060708090a0b0c0d0e0f10"),
        (Key::UnreferencedFile(1000, Ino(5)), "230100000000000003e80000000000000005", "unreferenced/file/1000/5"),
        (Key::UnreferencedInode(Ino(9)), "23020000000000000009", "unreferenced/inode/9"),
        (
            Key::UnreferencedSegment(segment),
            "23030102030405060708090a0b0c0d0e0f10",
            "unreferenced/segment/0102030405060708090a0b0c0d0e0f10",
        ),
        (
            Key::UnreferencedGeneration(segment, Generation(7)),
            "23040102030405060708090a0b0c0d0e0f1000000007",
            "unreferenced/generation/0102030405060708090a0b0c0d0e0f10/7",
        ),
        (Key::Node(node), "24000000000000000000000000000000aa", "node/000000000000000000000000000000aa"),
        (Key::Roster, "25", "roster"),
        (Key::Job(b"scrub"), "267363727562", "job/scrub"),
        (Key::Lease(b"care"), "2863617265", "lease/care"),
        (Key::Placement, "29", "placement"),
        (Key::Keep, "2b", "keep"),
        (Key::Protection, "2d", "protection"),
        (Key::SumChanges, "2e", "sum-changes"),
        (
            Key::Alias(ShardKey { segment, generation: Generation(7), index: ShardIndex(3) }),
            "2c0102030405060708090a0b0c0d0e0f10000000070003",
            "alias/0102030405060708090a0b0c0d0e0f10/7/3",
        ),
    ]
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn golden_bytes_and_printed_form() {
    for (key, bytes, printed) in samples() {
        let encoded = key.encode();
        assert_eq!(hex(&encoded), bytes, "{key}");
        assert_eq!(Key::parse(&encoded), Some(key));
        assert_eq!(key.to_string(), printed);
        assert_eq!(printable(&encoded), printed);
    }
}

#[test]
fn every_table_has_a_sample_and_its_side() {
    for table in Table::ALL {
        assert!(samples().iter().any(|(key, ..)| key.table() == table), "{table:?}");
    }
    for (key, ..) in samples() {
        let is_shared = SHARED.iter().any(|shared| key.encode().starts_with(shared.prefix));
        let is_owners = matches!(key, Key::UnreferencedFile(..) | Key::UnreferencedInode(_))
            || (key.table() as u8 <= 31 && key != Key::Openings);
        assert_eq!(is_shared, !is_owners, "{key}");
    }
    assert_eq!(SHARED.len(), 15);
}

#[test]
fn other_bytes_are_no_key() {
    for (key, ..) in samples() {
        let mut bytes = key.encode();
        if !matches!(key, Key::Dirent(..) | Key::Xattr(..) | Key::Job(_) | Key::Lease(_)) {
            bytes.push(0);
            assert_eq!(Key::parse(&bytes), None, "{key} with a byte more");
            bytes.pop();
            bytes.pop();
            assert_eq!(Key::parse(&bytes), None, "{key} with a byte less");
        }
    }
    assert_eq!(Key::parse(b"\x0d\x07"), None);
    assert_eq!(printable(b"\xffx"), "\\xffx");
}

#[test]
fn ranges_hold_their_own_keys_only() {
    let range = of_ino(Table::Extent, Ino(255));
    assert!(range.contains(&Key::Extent(Ino(255), 0).encode()));
    assert!(range.contains(&Key::Extent(Ino(255), u64::MAX).encode()));
    assert!(!range.contains(&Key::Extent(Ino(256), 0).encode()));
    assert!(!range.contains(&Key::Extent(Ino(254), u64::MAX).encode()));
    let last = of_ino(Table::Extent, Ino(u64::MAX));
    assert!(last.contains(&Key::Extent(Ino(u64::MAX), u64::MAX).encode()));
    assert!(!last.contains(&Key::Journal(Ino(0), 0).encode()));

    let rest = after(unreferenced_inodes(), Some(Key::UnreferencedInode(Ino(4))));
    assert!(!rest.contains(&Key::UnreferencedInode(Ino(4)).encode()));
    assert!(rest.contains(&Key::UnreferencedInode(Ino(5)).encode()));
    let shards = unreferenced_shards();
    for (key, ..) in samples().iter().filter(|(key, ..)| key.table() == Table::Unreferenced) {
        let is_of_shards = matches!(key, Key::UnreferencedSegment(_) | Key::UnreferencedGeneration(..));
        assert_eq!(shards.contains(&key.encode()), is_of_shards, "{key}");
    }
}
