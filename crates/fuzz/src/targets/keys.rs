//! Keys of the metadata store.

use weft_format::{Generation, Ino, NodeId, PolicyId, SegmentId, ShardIndex, ShardKey};
use weft_meta::keys::{Counter, Key, Table, printable};

pub(super) fn key(bytes: &[u8]) {
    let _ = printable(bytes);
    if let Some(key) = Key::parse(bytes) {
        assert_eq!(key.encode(), bytes);
        let range = key.table().range();
        assert!(range.contains(&key.encode()), "a key lies in its table");
    }
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let (ino, segment, node) = (Ino(5), SegmentId(7), NodeId(9));
    let shard = ShardKey { segment, generation: Generation(1), index: ShardIndex(2) };
    let keys = [
        Key::Inode(ino),
        Key::Dirent(ino, b"name"),
        Key::Entry(ino, 6),
        Key::Xattr(ino, b"user.x"),
        Key::Extent(ino, 4096),
        Key::Journal(ino, 3),
        Key::UsedBy(segment, ino),
        Key::Policy(PolicyId(3)),
        Key::Counter(Counter::Cookie),
        Key::OnNode(node, segment),
        Key::UnreferencedFile(8, ino),
        Key::UnreferencedInode(ino),
        Key::UnreferencedSegment(segment),
        Key::UnreferencedGeneration(segment, Generation(4)),
        Key::Job(b"scrub"),
        Key::Alias(shard),
    ];
    let tables = Table::ALL.map(|table| vec![table as u8]);
    keys.iter().map(Key::encode).chain(tables).collect()
}
