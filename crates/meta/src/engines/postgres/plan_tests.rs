use super::*;
use weft_format::records::{Attributes, Kind, Timestamp};
use weft_format::{Ino, PolicyId};

fn key(table: u8, number: u64, rest: &[u8]) -> Vec<u8> {
    [&[table][..], &number.to_be_bytes(), rest].concat()
}

fn write(key: &[u8], value: Option<&[u8]>) -> Slot {
    (key.to_vec(), value.map(<[u8]>::to_vec))
}

fn directory(nlink: u32, mtime: i64) -> Vec<u8> {
    let time = |seconds| Timestamp { seconds, nanoseconds: 5 };
    let attributes = Attributes {
        ino: Ino(9),
        kind: Kind::Directory,
        mode: 0o755,
        uid: 1,
        gid: 2,
        nlink,
        rdev: 0,
        size: 0,
        allocated_bytes: 0,
        atime: time(1),
        mtime: time(mtime),
        ctime: time(mtime + 1),
        btime: time(1),
        policy: PolicyId(3),
        parent: Ino(1),
    };
    attributes.encode().to_vec()
}

#[test]
fn who_makes_a_key_shares_the_guard_that_who_needs_its_absence_has_alone() {
    let name = key(3, 7, b"name");
    let made = Plan::of(Batch {
        checks: vec![(name.clone(), None)],
        writes: vec![write(&name, Some(b"x"))],
        ..Batch::default()
    });
    assert_eq!(made.made, (vec![name.clone()], vec![b"x".to_vec()]));
    assert!(made.absent.is_empty() && !made.alone);
    let unread = Plan::of(Batch { writes: vec![write(&name, Some(b"x"))], ..Batch::default() });
    assert_eq!((&unread.guards, unread.alone), (&made.guards, false));
    let absent = Plan::of(Batch { checks: vec![(name, None)], writes: vec![write(b"z", None)], ..Batch::default() });
    assert_eq!((absent.guards, absent.alone), (made.guards.clone(), true));
    let check = RangeCheck { range: key(3, 7, b"")..key(3, 8, b""), limit: 1, found: Vec::new() };
    let emptied = Plan::of(Batch { ranges: vec![check], ..Batch::default() });
    assert_eq!((emptied.guards, emptied.alone), (made.guards, true), "a range of one domain needs its guard");
    let wide = RangeCheck { range: vec![3]..vec![4], limit: 1, found: Vec::new() };
    let wide = Plan::of(Batch { ranges: vec![wide], ..Batch::default() });
    assert_eq!((wide.guards.len(), wide.alone), (256, true));
}

#[test]
fn what_is_there_is_held_and_needs_no_guard() {
    let (a, b) = (key(2, 1, b""), key(2, 2, b""));
    let plan = Plan::of(Batch {
        checks: vec![write(&a, Some(b"1")), write(&b, Some(b"2"))],
        writes: vec![write(&a, Some(b"3"))],
        ..Batch::default()
    });
    assert_eq!(plan.held_to_change, (vec![a.clone()], vec![b"1".to_vec()]));
    assert_eq!(plan.held, (vec![b], vec![b"2".to_vec()]));
    assert_eq!(plan.set, (vec![a.clone()], vec![b"3".to_vec()]));
    assert_eq!(plan.guards, Vec::<i32>::new());
    let twice = vec![write(&a, Some(b"x")), write(&a, None)];
    let plan = Plan::of(Batch { writes: twice, ..Batch::default() });
    assert_eq!((plan.removed, plan.set.0.len()), (vec![a], 0), "the last write of a key counts");
}

#[test]
fn directories_are_compared_without_what_may_vary() {
    let at = key(2, 9, b"");
    let plan = |value: Vec<u8>| {
        Plan::of(Batch { directories: vec![Directory { key: at.clone(), value }], ..Batch::default() })
    };
    assert_eq!(plan(directory(2, 5)), plan(directory(3, 900)));
    assert_ne!(plan(directory(2, 5)), plan(directory(0, 5)), "a directory without links takes no names");
    let changed = Plan::of(Batch {
        directories: vec![Directory { key: at.clone(), value: directory(2, 5) }],
        writes: vec![write(&at, None)],
        ..Batch::default()
    });
    assert_eq!((changed.directories_to_change.keys, changed.directories.keys.len()), (vec![at], 0));
}

#[test]
fn a_range_of_one_domain_has_one_guard() {
    let within = |start: &[u8], end: &[u8]| guard_of_range(&(start.to_vec()..end.to_vec())).is_some();
    assert!(within(&key(3, 7, b""), &key(3, 8, b"")));
    assert!(within(&key(3, 7, b"b"), &key(3, 7, b"c")));
    assert!(within(&key(3, u64::MAX, b""), &[4]));
    assert!(!within(&key(3, 7, b""), &key(3, 9, b"")));
    assert!(!within(&[3], &[4]));
    assert!(!within(&[], &[255]));
}
