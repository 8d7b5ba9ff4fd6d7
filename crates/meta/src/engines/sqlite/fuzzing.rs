//! Decoders of what lies in files beside and in SQLite, for `crates/fuzz`.

use super::intents::{self, ALIGNMENT_BYTES, Change, Found, HEAD_BYTES};
use super::rows::{Stored, seal, sealed};
use super::witness::{Identity, Testimony};
use rustix::fs::{MemfdFlags, memfd_create};
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
