use super::*;
use crate::store::fixture::at;
use weft_format::records::Kind;
use weft_format::{Ino, PolicyId};

fn directory() -> Attributes {
    let time = at(100);
    Attributes {
        ino: Ino(5),
        kind: Kind::Directory,
        mode: 0o755,
        uid: 0,
        gid: 0,
        nlink: 3,
        rdev: 0,
        size: 0,
        allocated_bytes: 0,
        atime: time,
        mtime: time,
        ctime: time,
        btime: time,
        policy: PolicyId(0),
        parent: Ino::ROOT,
    }
}

fn after(merges: &[Merge], value: &[u8]) -> Vec<u8> {
    merges.iter().fold(value.to_vec(), |value, merge| merge.apply(&value).unwrap())
}

#[test]
fn the_order_of_merges_does_not_matter() {
    let names = |changed, subdirectories| Merge::Names { changed: at(changed), subdirectories };
    let merges = [names(300, 2), names(200, -1), names(50, 0), names(250, 1)];
    let value = directory().encode();
    let merged = Attributes::decode(&after(&merges, &value)).unwrap();
    assert_eq!(merged, Attributes { nlink: 5, mtime: at(300), ctime: at(300), ..directory() });
    let reversed: Vec<Merge> = merges.into_iter().rev().collect();
    assert_eq!(after(&reversed, &value), after(&merges, &value));

    let usage = |inodes, live_bytes| Merge::Usage { inodes, live_bytes };
    let merges = [usage(3, -10), usage(-1, 40)];
    let value = Usage { inodes: 5, live_bytes: 10 }.encode();
    assert_eq!(after(&merges, &value), Usage { inodes: 7, live_bytes: 40 }.encode());
}

#[test]
fn no_count_falls_below_what_there_is() {
    let usage = Usage { inodes: 1, live_bytes: 10 }.encode();
    assert!(Merge::Usage { inodes: -2, live_bytes: 0 }.apply(&usage).is_err());
    assert!(Merge::Usage { inodes: 0, live_bytes: -11 }.apply(&usage).is_err());
    let value = directory().encode();
    assert!(Merge::Names { changed: at(1), subdirectories: -2 }.apply(&value).is_err());
    assert!(Merge::Names { changed: at(1), subdirectories: i64::from(u32::MAX) }.apply(&value).is_err());
    assert!(Merge::Names { changed: at(1), subdirectories: 0 }.apply(&value[1..]).is_err());
}

#[test]
fn a_directory_is_the_same_until_it_is_removed_moved_or_given_away() {
    let check = Directory { key: Vec::new(), value: directory().encode().to_vec() };
    let holds = |found: Attributes| check.holds(Some(&found.encode()));
    assert!(holds(directory()));
    assert!(holds(Attributes { nlink: 9, mtime: at(7), ctime: at(1000), ..directory() }));
    assert!(!holds(Attributes { nlink: 0, ..directory() }), "it was removed");
    assert!(!holds(Attributes { parent: Ino(9), ..directory() }));
    assert!(!holds(Attributes { mode: 0o700, ..directory() }));
    assert!(!holds(Attributes { policy: PolicyId(1), ..directory() }));
    assert!(!check.holds(None));
    assert!(!check.holds(Some(b"damaged")));
}
