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

fn after(deltas: &[Delta], value: &[u8]) -> Vec<u8> {
    deltas.iter().fold(value.to_vec(), |value, delta| delta.apply(Some(&value)).unwrap())
}

#[test]
fn the_order_of_merges_does_not_matter() {
    let names = |changed, subdirectories| Delta::Names { changed: at(changed), subdirectories };
    let deltas = [names(103, 2), names(102, -1), names(95, 0), names(101, 1)];
    let value = directory().encode();
    let merged = Attributes::decode(&after(&deltas, &value)).unwrap();
    assert_eq!(merged, Attributes { nlink: 5, mtime: at(103), ctime: at(103), ..directory() });
    let reversed: Vec<Delta> = deltas.iter().cloned().rev().collect();
    assert_eq!(after(&reversed, &value), after(&deltas, &value));

    let usage = |inodes, live_bytes| Delta::Usage { inodes, live_bytes };
    let deltas = [usage(3, -10), usage(-1, 40)];
    let value = Usage { inodes: 5, live_bytes: 10 }.encode();
    assert_eq!(after(&deltas, &value), Usage { inodes: 7, live_bytes: 40 }.encode());
}

#[test]
fn no_count_falls_below_what_there_is() {
    let usage = Usage { inodes: 1, live_bytes: 10 }.encode();
    assert!(Delta::Usage { inodes: -2, live_bytes: 0 }.apply(Some(&usage)).is_err());
    assert!(Delta::Usage { inodes: 0, live_bytes: -11 }.apply(Some(&usage)).is_err());
    let value = directory().encode();
    assert!(Delta::Names { changed: at(1), subdirectories: -2 }.apply(Some(&value)).is_err());
    assert!(Delta::Names { changed: at(1), subdirectories: i64::from(u32::MAX) }.apply(Some(&value)).is_err());
    assert!(Delta::Names { changed: at(1), subdirectories: 0 }.apply(Some(&value[1..])).is_err());
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

#[test]
fn a_time_that_was_set_ahead_is_not_the_latest() {
    let names = Delta::Names { changed: at(100), subdirectories: 0 };
    let ahead = |mtime| Attributes { mtime, ..directory() }.encode();
    let mtime = |value: &[u8]| Attributes::decode(&after(std::slice::from_ref(&names), value)).unwrap().mtime;
    assert_eq!(mtime(&ahead(at(110))), at(110), "clocks may differ by so much");
    assert_eq!(mtime(&ahead(at(111))), at(100));
}

#[test]
fn what_is_set_leaves_the_links_and_times_that_others_change() {
    let set = |change: &dyn Fn(&mut Attributes)| {
        let mut after = directory();
        change(&mut after);
        Delta::Attributes { before: directory(), after }
    };
    let others = Attributes { nlink: 7, mtime: at(105), ctime: at(105), ..directory() };
    let becomes = |delta: Delta| Attributes::decode(&after(&[delta], &others.encode())).unwrap();
    let chmod = set(&|directory| (directory.mode, directory.ctime) = (0o700, at(104)));
    assert_eq!(becomes(chmod), Attributes { mode: 0o700, ..others });
    let later = set(&|directory| (directory.uid, directory.ctime) = (5, at(106)));
    assert_eq!(becomes(later), Attributes { uid: 5, ctime: at(106), ..others });
    let utimens = set(&|directory| (directory.mtime, directory.ctime) = (at(3), at(106)));
    assert_eq!(becomes(utimens), Attributes { mtime: at(3), ctime: at(106), ..others });
    let removed = set(&|directory| directory.nlink = 0);
    assert!(removed.apply(None).is_err());
    assert_eq!(becomes(removed), Attributes { nlink: 0, ..others });
}

/// Of one code, with 10 bytes of data and 30 of shards, and a shard on node 9.
fn one_segment() -> SumsRecord {
    let sum = [&[10, 6][..], b"rs:2+1", &[16, 2, 24, 20, 32, 60, 50, 1, 2]].concat();
    SumsRecord::decode(&[&[8, 2, 18, 17][..], &sum, &[26, 16], &9_u128.to_be_bytes()].concat()).unwrap()
}

#[test]
fn sums_over_segments_are_added_by_code() {
    let none = SumsRecord::default().encode();
    let delta = Delta::Segments(one_segment());
    let twice = after(&[delta.clone(), delta.clone()], &none);
    assert_eq!(SumsRecord::decode(&twice).ok(), one_segment().plus(&one_segment()));
    assert!(delta.apply(None).is_err(), "the record is missing");
    assert!(delta.apply(Some(b"damaged")).is_err());
    // The same sums in other bytes are none: they would be encoded otherwise again.
    let with_a_field_more = [&delta.encode().unwrap()[..], &[56, 1]].concat();
    assert_eq!(Delta::decode(&with_a_field_more), None);
}

/// The bytes of FORMAT.md.
#[test]
fn deltas_that_are_kept_have_their_bytes() {
    let usage = Delta::Usage { inodes: -2, live_bytes: 0x0102 };
    let names = Delta::Names { changed: Timestamp { seconds: 5, nanoseconds: 7 }, subdirectories: -1 };
    let golden = [
        (usage, "01feffffffffffffff0201000000000000"),
        (names, "02050000000000000007000000ffffffffffffffff"),
        (
            Delta::Segments(one_segment()),
            "03080212110a0672733a322b3110021814203c3201021a1000000000000000000000000000000009",
        ),
    ];
    for (delta, hex) in golden {
        let bytes = delta.encode().expect("it is kept");
        assert_eq!(bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>(), hex);
        assert_eq!(Delta::decode(&bytes), Some(delta));
        for length in 0..bytes.len() {
            assert_eq!(Delta::decode(&bytes[..length]), None, "{length}");
        }
        assert_eq!(Delta::decode(&[&bytes[..], &[0]].concat()), None);
    }
    assert_eq!(Delta::decode(&[3; 17]), None);
}

#[test]
fn deltas_add_up_in_their_order() {
    let delta = |inodes| Delta::Usage { inodes, live_bytes: 1 }.encode().expect("it is kept");
    let value = Usage { inodes: 5, live_bytes: 0 }.encode();
    let merged = merge(Some(value), &[delta(2), delta(-3)]).unwrap().unwrap();
    assert_eq!(Usage::decode(&merged).unwrap().inodes, 4);
    assert_eq!(merge(None, &[]), Ok(None));
    assert!(merge(None, &[delta(1)]).is_err(), "what is to be merged with is missing");
    assert!(merge(Some(vec![1]), &[vec![9]]).is_err());
}
