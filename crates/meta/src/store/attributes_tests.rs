use super::super::fixture::*;
use super::*;
use crate::types::XattrMode;
use weft_format::records::Kind;

#[test]
fn what_is_given_changes_and_the_rest_stays() {
    let (store, _) = volume();
    let file = make(&store, Ino::ROOT, "file", Kind::File);
    let before = store.attributes(file).unwrap();
    let changed = store.set_attributes(file, &SetAttributes { uid: Some(5), ..SetAttributes::default() }).unwrap();
    assert_eq!(changed, Attributes { uid: 5, ..before });
    let all = SetAttributes {
        mode: Some(0o4711),
        uid: Some(1),
        gid: Some(2),
        atime: Some(at(-3)),
        mtime: Some(at(4)),
        ctime: Some(at(5)),
        removes_capability: false,
    };
    let changed = store.set_attributes(file, &all).unwrap();
    let expected = Attributes { mode: 0o4711, uid: 1, gid: 2, atime: at(-3), mtime: at(4), ctime: at(5), ..before };
    assert_eq!((changed, store.attributes(file).unwrap()), (expected, expected));
    let bad = SetAttributes { mode: Some(0o10000), ..SetAttributes::default() };
    assert_eq!(kind_of(&store.set_attributes(file, &bad).unwrap_err()), "Invalid");
    assert_eq!(kind_of(&store.set_attributes(Ino(99), &all).unwrap_err()), "NotFound");
    assert_clean(&store);
}

#[test]
fn statistics_follow_every_change() {
    let (store, _) = volume();
    let file = make(&store, Ino::ROOT, "file", Kind::File);
    write(&store, file, 0, 1000, 1);
    write(&store, file, 500, 1000, 2);
    store.set_xattr(file, b"user.x", b"1", XattrMode::Any, at(1)).unwrap();
    assert_eq!(store.statistics().unwrap(), Statistics { inodes: 2, live_bytes: 1500 });
    store.unlink(Ino::ROOT, b"file", at(4)).unwrap();
    assert_eq!(store.statistics().unwrap(), Statistics { inodes: 2, live_bytes: 1500 });
    assert_eq!(store.reclaim(&[unused(file)], at(4)).unwrap(), 1);
    assert_eq!(store.statistics().unwrap(), Statistics { inodes: 1, live_bytes: 0 });
    assert_clean(&store);
}
