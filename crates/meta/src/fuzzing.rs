//! Decoders that are nobody else's business, for `crates/fuzz`.

pub use crate::engines::sqlite::fuzzing::{intents, intents_seeds, row, row_seeds, witness, witness_seeds};

use crate::FileLock;
use crate::deltas::Delta;
use crate::engines::sqlite;
#[cfg(feature = "shared")]
use crate::engines::{etcd, postgres};
use crate::keys::Key;
use crate::owner::Holder;
use crate::store::values::{self, Dirent, Usage};
use crate::types::{Extent, JournalPage};
use crate::url::{MetaUrl, without_password};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use weft_format::records::{Kind, SumsRecord, Timestamp};
use weft_format::{Ino, SegmentId};

/// A value of a table whose records belong to this crate: the first byte says which, the next eight are the number in its key.
pub fn value(bytes: &[u8]) {
    let Some((&what, bytes)) = bytes.split_first() else { return };
    let Some((number, value)) = bytes.split_first_chunk().map(|(number, rest)| (u64::from_be_bytes(*number), rest))
    else {
        return;
    };
    let ino = Ino(1);
    match what % 10 {
        0 => assert!(values::decode_mark(&Key::Keep, value).is_err() || value == values::mark()),
        1 => {
            let found = values::decode_segment(&Key::Keep, value);
            assert!(found.is_err() || found.is_ok_and(|found| values::segment(found) == value));
        }
        2 => {
            let found = values::decode_number(&Key::Keep, value);
            assert!(found.is_err() || found.is_ok_and(|found| values::number(found) == value));
        }
        3 => {
            let found = Dirent::decode(&Key::Dirent(ino, b"name"), value);
            assert!(found.is_err() || found.is_ok_and(|found| found.encode() == value));
        }
        4 => {
            if let Ok((ino, name)) = values::decode_entry(&Key::Entry(ino, number), value) {
                assert_eq!(values::entry(ino, name), value);
                assert!(!name.is_empty() && name.len() <= 255 && !name.contains(&b'/') && !name.contains(&0));
            }
        }
        5 => {
            let key = Key::Extent(ino, number);
            if let Ok(found) = values::decode_extent(&key, value) {
                assert_eq!((found.end(), found.file_offset.checked_add(found.length)), (number, Some(number)));
                assert_eq!(values::extent(ino, &found), (key, value.to_vec()));
            }
        }
        6 => {
            if let Ok(page) = values::decode_journal_page(&Key::Journal(ino, number), value) {
                assert!(page.ranges.iter().all(|(start, bytes)| usize::from(*start) + bytes.len() <= 4096));
                assert_eq!(values::journal_page(&page), value);
            }
        }
        7 => {
            if let Some(found) = Delta::decode(value) {
                assert_eq!(found.encode().as_deref(), Some(value));
            }
        }
        8 => {
            let found = Usage::decode(value);
            assert!(found.is_err() || found.is_ok_and(|found| found.encode() == value));
        }
        _ => {
            if let Ok(found) = values::decode_locks(&Key::Locks(ino), value) {
                assert!(found.iter().all(|lock| lock.first <= lock.last));
                assert_eq!(values::locks(&found), value);
            }
        }
    }
}

/// One of each.
#[must_use]
pub fn value_seeds() -> Vec<Vec<u8>> {
    let extent = Extent { file_offset: 4096, length: 8192, segment: SegmentId(7), segment_offset: 512 };
    let page = JournalPage { page: 3, ranges: vec![(0, vec![1; 5]), (100, vec![2; 7])] };
    let changed = Timestamp { seconds: 7, nanoseconds: 9 };
    let sum = [&[10, 6][..], b"rs:2+1", &[16, 2, 24, 20, 32, 60, 50, 1, 2]].concat();
    let sums = SumsRecord::decode(&[&[8, 2, 18, 17][..], &sum, &[26, 16], &9_u128.to_be_bytes()].concat());
    let sums = sums.expect("one segment");
    let lock = FileLock { session: -3, owner: 4, pid: 5, first: 0, last: u64::MAX, is_exclusive: true };
    let seed = |what: u8, number: u64, value: Vec<u8>| [&[what][..], &number.to_be_bytes(), &value].concat();
    vec![
        seed(0, 0, values::mark()),
        seed(1, 0, values::segment(SegmentId(7))),
        seed(2, 0, values::number(99)),
        seed(3, 0, Dirent { ino: Ino(5), kind: Kind::File, cookie: 9 }.encode()),
        seed(4, 9, values::entry(Ino(5), b"name.txt")),
        seed(5, extent.end(), values::extent(Ino(1), &extent).1),
        seed(6, page.page, values::journal_page(&page)),
        seed(7, 0, Delta::Usage { inodes: -1, live_bytes: 5 }.encode().expect("it is kept")),
        seed(7, 0, Delta::Names { changed, subdirectories: 1 }.encode().expect("it is kept")),
        seed(7, 0, Delta::Segments(sums).encode().expect("it is kept")),
        seed(8, 0, Usage { inodes: 4, live_bytes: 5 }.encode()),
        seed(9, 0, values::locks(&[lock, FileLock { is_exclusive: false, ..lock }])),
    ]
}

/// What an owner says of itself beside its lock.
pub fn holder(bytes: &[u8]) {
    if let Some(holder) = Holder::from_text(bytes) {
        let again = Holder::from_text(&holder.to_text()).expect("it is one");
        assert_eq!(again, holder);
    }
}

/// A mount and a command.
#[must_use]
pub fn holder_seeds() -> Vec<Vec<u8>> {
    let holder = Holder {
        process: 123,
        host: "h".to_owned(),
        started: 1_700_000_000,
        mountpoint: Some("/mnt/x".into()),
        is_short_lived: false,
    };
    let command = Holder { mountpoint: None, is_short_lived: true, ..holder.clone() };
    vec![holder.to_text(), command.to_text()]
}

/// An address of metadata.
pub fn address(bytes: &[u8]) {
    let text = OsStr::from_bytes(bytes);
    match MetaUrl::parse(text) {
        Ok(url) => {
            let shown = url.to_os_string();
            assert_eq!(MetaUrl::parse(&shown).map(|url| url.to_os_string()), Ok(shown));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    let shown = without_password(&text.to_string_lossy());
    assert_eq!(without_password(&shown), shown, "there is none to hide any more");
}

/// Of each engine.
#[must_use]
pub fn address_seeds() -> Vec<Vec<u8>> {
    let texts = [
        "meta.db",
        "sqlite:/a/b",
        "./etcd:x",
        "etcd://root@a.example,b.example:1,[::2]:3/photos?tls=on",
        "postgres://weft@db.example:5432/weft?schema=photos&sslmode=require",
        "postgres://u:p@h1,h2/d?password=x",
        "postgres:///d?host=/run",
    ];
    texts.map(|text| text.as_bytes().to_vec()).to_vec()
}

/// What an engine keeps beside the records: the first byte says which.
pub fn engine(bytes: &[u8]) {
    let Some((what, bytes)) = bytes.split_first() else { return };
    match what % 4 {
        0 => sqlite::fuzzing::changes(bytes),
        1 => sqlite::fuzzing::state(bytes),
        #[cfg(feature = "shared")]
        2 => postgres::fuzzing::notification(bytes),
        #[cfg(feature = "shared")]
        3 => etcd::fuzzing::row(bytes),
        _ => {}
    }
}

/// SQLite's list of changes and state, notifications of PostgreSQL, rows of etcd.
#[must_use]
pub fn engine_seeds() -> Vec<Vec<u8>> {
    let all = [
        sqlite::fuzzing::changes_seeds(),
        sqlite::fuzzing::state_seeds(),
        #[cfg(feature = "shared")]
        postgres::fuzzing::notification_seeds(),
        #[cfg(feature = "shared")]
        etcd::fuzzing::row_seeds(),
    ];
    let seed = |(what, seeds): (u8, Vec<Vec<u8>>)| seeds.into_iter().map(move |seed| [&[what][..], &seed].concat());
    (0..).zip(all).flat_map(seed).collect()
}
