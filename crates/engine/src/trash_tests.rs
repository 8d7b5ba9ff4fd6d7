use super::*;
use weft_format::PolicyId;
use weft_format::records::{Attributes, Timestamp};

fn deleted(ino: u64, parent: u64, name: &str, deleted_ms: u64) -> Deleted {
    let time = Timestamp { seconds: 0, nanoseconds: 0 };
    let attributes = Attributes {
        ino: Ino(ino),
        kind: Kind::File,
        mode: 0,
        policy: PolicyId(0),
        parent: Ino(parent),
        uid: 0,
        gid: 0,
        nlink: 0,
        rdev: 0,
        size: 0,
        allocated_bytes: 0,
        atime: time,
        mtime: time,
        ctime: time,
        btime: time,
    };
    Deleted { attributes, deleted_ms, parent: Ino(parent), name: name.into() }
}

#[test]
fn a_directory_comes_back_from_the_top_with_the_last_of_each_name() {
    // /a/b was deleted with what was in it; c twice.
    let bin = Bin::of(vec![
        deleted(20, 11, "c", 1),
        deleted(21, 11, "c", 2),
        deleted(22, 11, "d", 3),
        deleted(11, 10, "b", 4),
        deleted(10, 1, "a", 5),
        deleted(30, 1, "other", 6),
    ]);
    let order = |ino| -> Vec<u64> {
        let wanted = bin.get(Ino(ino)).expect("it is there");
        bin.order(wanted).iter().map(|deleted| deleted.attributes.ino.0).collect()
    };
    assert_eq!(order(10), [10, 11, 22, 21]);
    assert_eq!(order(11), [10, 11, 22, 21]);
    assert_eq!(order(20), [10, 11, 20], "the older one, asked for by itself");
    assert_eq!(order(30), [30]);
}

#[test]
fn finding_12_directories_deleted_from_themselves_come_to_an_end() {
    let bin = Bin::of(vec![deleted(10, 11, "a", 1), deleted(11, 10, "b", 2), deleted(12, 12, "c", 3)]);
    for ino in [10, 11, 12] {
        let wanted = bin.get(Ino(ino)).expect("it is there");
        assert!(bin.above(wanted).len() < 3);
        assert!(bin.order(wanted).len() < 9);
    }
}
