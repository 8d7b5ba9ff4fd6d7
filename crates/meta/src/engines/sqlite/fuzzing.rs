//! Decoders of what lies in files beside and in SQLite, for `crates/fuzz`.

use super::changes::{self, add_keys};
use super::home::State;
use super::intents::{self, ALIGNMENT_BYTES, Change, Found, HEAD_BYTES};
use super::rows::{Stored, seal, sealed};
use super::witness::{Identity, Testimony};
use rusqlite::Connection;
use rustix::fs::{MemfdFlags, memfd_create};
use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// A key, its length first, and the row under it; with a right seal where the first byte is odd.
pub fn row(bytes: &[u8]) {
    let [flags, length, rest @ ..] = bytes else { return };
    let Some((key, stored)) = rest.split_at_checked(usize::from(*length)) else { return };
    let mut stored = stored.to_vec();
    if flags % 2 == 1
        && let Some(at) = stored.len().checked_sub(16)
    {
        let link = u64::from_le_bytes(std::array::from_fn(|index| stored[at + index]));
        let seal = seal(key, &stored[..at], link);
        stored[at + 8..].copy_from_slice(&seal.to_le_bytes());
    }
    let opened = Stored::open(key.to_vec(), stored.clone());
    assert!(opened.is_ok() || flags % 2 == 0 || stored.len() < 16, "the seal is right");
    if let Ok(Stored { key, value, link }) = opened {
        assert_eq!(sealed(&key, &value, link), stored);
    }
}

/// Rows with and without a value.
#[must_use]
pub fn row_seeds() -> Vec<Vec<u8>> {
    let row = |key: &[u8], value: &[u8]| [&[1, key.len() as u8][..], key, &sealed(key, value, 3)].concat();
    vec![row(b"\x02\0\0\0\0\0\0\0\x01", b"some value"), row(&[255; 64], b"")]
}

/// The records of both halves of an intent log, after the length of the first half's; with right checksums where the first byte is odd.
pub fn intents(bytes: &[u8]) {
    const ID: u64 = 7;
    let [flags, low, high, rest @ ..] = bytes else { return };
    let Some((first, second)) = rest.split_at_checked(usize::from(u16::from_le_bytes([*low, *high]))) else { return };
    let file = File::from(memfd_create("intents", MemfdFlags::CLOEXEC).expect("memory for a file"));
    file.write_all_at(&intents::header(ID), 0).expect("it fits");
    for (half, records) in [first, second].into_iter().enumerate() {
        let mut records = records.to_vec();
        if flags % 2 == 1 {
            let mut at = 0;
            while let Some(head) = records.get(at..at + HEAD_BYTES) {
                let length = u32::from_le_bytes(std::array::from_fn(|index| head[24 + index])) as usize;
                let Some(record) = records.get_mut(at..at + HEAD_BYTES + length) else { break };
                let sum = intents::checksum(ID, &record[8..]);
                record[..8].copy_from_slice(&sum.to_le_bytes());
                at += record.len().next_multiple_of(ALIGNMENT_BYTES);
            }
        }
        file.write_all_at(&records, intents::bounds(half).0).expect("it fits");
    }
    let found = Found::of(&file).expect("it can be read");
    for filed in [0, found.last(ID).unwrap_or(0).saturating_sub(1), u64::MAX] {
        let Ok(records) = Found::of(&file).expect("it can be read").unfiled(ID, filed, u64::MAX) else { continue };
        for record in records {
            let again = intents::encode(ID, record.number, record.commits, &record.changes);
            assert!(again.is_some(), "what was read is short enough to be written");
        }
    }
}

/// A log that goes on in the other half.
#[must_use]
pub fn intents_seeds() -> Vec<Vec<u8>> {
    let changes: [Change; 2] = [(b"key"[..].into(), Some(b"value"[..].into())), (b"gone"[..].into(), None)];
    let record = |number| intents::encode(7, number, 2, &changes).expect("it is small");
    let first = [record(1), record(2)].concat();
    let length = (first.len() as u16).to_le_bytes();
    vec![[&[0][..], &length, &first, &record(3)].concat(), [&[1][..], &length, &first, &record(3)].concat()]
}

/// The line of a witness.
pub fn witness(bytes: &[u8]) {
    if let Some(found) = Testimony::from_line(bytes) {
        assert_eq!(Testimony::from_line(&found.to_line()), Some(found));
    }
}

/// One line.
#[must_use]
pub fn witness_seeds() -> Vec<Vec<u8>> {
    let identity = Identity { inode: 12, birth_ns: 1_700_000_000_000_000_000 };
    vec![Testimony { identity, commits: 345, intents: 67 }.to_line()]
}

/// The row of a transaction in the list of changes, after its number; with a right checksum where the first byte is odd.
pub(crate) fn changes(bytes: &[u8]) {
    let Some((flags, rest)) = bytes.split_first() else { return };
    let Some((number, listed)) = rest.split_first_chunk() else { return };
    let number = u64::from_le_bytes(*number);
    let stored = if flags % 2 == 1 { changes::sealed(number, listed) } else { listed.to_vec() };
    let mut keys = BTreeSet::new();
    if add_keys(number, &stored, &mut keys).is_ok() {
        let again = changes::sealed(number, &changes::listed(keys.iter().map(Vec::as_slice)));
        let mut found = BTreeSet::new();
        assert!(add_keys(number, &again, &mut found).is_ok() && found == keys);
    }
}

pub(crate) fn changes_seeds() -> Vec<Vec<u8>> {
    let listed = changes::listed([&b"\x02\0\0\0\0\0\0\0\x01"[..], b"", b"key"]);
    let number = 345_u64;
    vec![
        [&[1][..], &number.to_le_bytes(), &listed].concat(),
        [&[0][..], &number.to_le_bytes(), &changes::sealed(number, &listed)].concat(),
    ]
}

/// The row of the table `state`: five numbers of eight bytes, the last its checksum, which is made right where the first byte is odd.
pub(crate) fn state(bytes: &[u8]) {
    thread_local! {
        static STORE: Connection = {
            let store = Connection::open_in_memory().expect("memory for a store");
            State::create(&store).expect("it has no table yet");
            store
        };
    }
    let Some((flags, rest)) = bytes.split_first() else { return };
    let (numbers, _) = rest.as_chunks::<8>();
    let [commits, clean, log, intents, sum, ..] = *numbers else { return };
    let [commits, clean, log, intents, sum] = [commits, clean, log, intents, sum].map(u64::from_le_bytes);
    STORE.with(|store| {
        let right = State { commits, is_clean: clean != 0, log, intents }.sum();
        let sum = if flags % 2 == 1 { right } else { sum };
        store
            .prepare_cached("UPDATE state SET commits = ?1, clean = ?2, log = ?3, intents = ?4, sum = ?5")
            .and_then(|mut row| row.execute([commits, clean, log, intents, sum].map(u64::cast_signed)))
            .expect("numbers can be stored");
        let found = State::read(store);
        assert_eq!(found.is_ok(), sum == right);
        if let Ok(found) = found {
            assert_eq!((found.commits, found.is_clean, found.log, found.intents), (commits, clean != 0, log, intents));
            found.write(store).expect("it can be stored");
            assert!(State::read(store).is_ok_and(|again| again == found));
        }
    });
}

pub(crate) fn state_seeds() -> Vec<Vec<u8>> {
    let state = State { commits: 345, is_clean: true, log: 9, intents: 67 };
    let numbers = |sum: u64| [state.commits, 1, state.log, state.intents, sum].map(u64::to_le_bytes).concat();
    vec![[&[1][..], &numbers(0)].concat(), [&[0][..], &numbers(state.sum())].concat()]
}
