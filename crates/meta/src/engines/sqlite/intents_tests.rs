use super::*;
use crate::kv::{Batch, Kv};
use crate::types::Access;
use crate::{conformance, engines::SqliteKv};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::os::unix::fs::FileExt;
use weft_env::Env;

const ID: u64 = 0x0123_4567_89ab_cdef;

fn change(key: &str, value: Option<&[u8]>) -> Change {
    (key.as_bytes().into(), value.map(Into::into))
}

fn record(number: u64) -> Vec<Change> {
    vec![
        change(&format!("inode/{number}"), Some(&vec![number as u8; 700])),
        change("gone", None),
        change("last", Some(b"")),
    ]
}

/// A log beside a store that needs not be there.
fn log(folder: &tempfile::TempDir) -> (PathBuf, IntentLog) {
    let path = folder.path().join("volume");
    std::fs::write(&path, b"any").unwrap();
    let log = IntentLog::open(&path, ID, 0).unwrap();
    (path, log)
}

fn numbers(found: &Found) -> Vec<u64> {
    found.records.iter().map(|record| record.number).collect()
}

#[test]
fn the_bytes_are_these() {
    let bytes = encode(ID, 7, 9, &[change("k", Some(b"vv")), change("gone", None)]).unwrap();
    assert_eq!(bytes.len(), ALIGNMENT_BYTES);
    let hex: String = bytes[..HEAD_BYTES + 23].iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(
        hex,
        "ba6b58388de4538f070000000000000009000000000000001700000001000000020000006b767604000000ffffffff676f6e65"
    );
    let head: String = header(ID)[..24].iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(head, "57454654494e5453efcdab8967452301c82642397ea801f0");
}

#[test]
fn what_is_written_is_read_in_order_over_both_halves() {
    let folder = tempfile::tempdir().unwrap();
    let (path, mut log) = log(&folder);
    for number in 1..=5 {
        log.append(&record(number), 3).unwrap();
        assert_eq!(log.sync().unwrap(), number);
    }
    assert_eq!(log.turn_over(0), 5);
    log.append(&record(6), 3).unwrap();
    // The file does not have what is in the other half, which stays.
    assert_eq!(log.turn_over(4), 6);
    log.append(&record(7), 3).unwrap();
    let found = Found::read(&path).unwrap();
    assert_eq!(numbers(&found), [1, 2, 3, 4, 5, 6, 7]);
    assert_eq!((found.last(ID), found.last(ID + 1)), (Some(7), None));
    assert_eq!(found.records[2], Record { number: 3, commits: 3, changes: record(3) });
    // It has now: these bytes are used again.
    assert_eq!(log.turn_over(5), 7);
    log.append(&record(8), 4).unwrap();
    assert_eq!(numbers(&Found::read(&path).unwrap()), [6, 7, 8]);
}

#[test]
fn the_greatest_number_is_followed_by_none() {
    let folder = tempfile::tempdir().unwrap();
    let (path, log) = log(&folder);
    for (number, at) in [(u64::MAX, 0), (0, 1024)] {
        let bytes = encode(ID, number, 3, &record(1)).unwrap();
        assert_eq!(bytes.len(), 1024);
        log.file.write_all_at(&bytes, HEADER_BYTES + at).unwrap();
    }
    assert_eq!(numbers(&Found::read(&path).unwrap()), [u64::MAX]);
    assert_eq!(Found::read(&path).unwrap().unfiled(ID, 0, 3), Err(u64::MAX));
    assert_eq!(Found::read(&path).unwrap().unfiled(ID, u64::MAX, 3), Ok(vec![]));
}

#[test]
fn what_the_file_lacks_has_no_gaps() {
    let folder = tempfile::tempdir().unwrap();
    let (path, mut log) = log(&folder);
    (1..=4).for_each(|number| log.append(&record(number), 10 + number).unwrap());
    let unfiled = |id, filed, commits| {
        let unfiled = Found::read(&path).unwrap().unfiled(id, filed, commits);
        unfiled.map(|records| records.iter().map(|record| record.number).collect::<Vec<_>>())
    };
    assert_eq!(unfiled(ID, 0, 14), Ok(vec![1, 2, 3, 4]));
    assert_eq!(unfiled(ID, 3, 14), Ok(vec![4]));
    assert_eq!(unfiled(ID, 9, 14), Ok(vec![]));
    assert_eq!(unfiled(ID + 1, 0, 14), Ok(vec![]), "it is another store's");
    assert_eq!(unfiled(ID, 0, 13), Err(4), "the file is older than what this one follows");
    log.turn_over(0);
    log.append(&record(5), 15).unwrap();
    log.file.write_all_at(&[0; 600], HEADER_BYTES + 3 * 1024).unwrap();
    assert_eq!(unfiled(ID, 0, 15), Err(5), "record 4 is gone, and 5 is there");
}

/// Wherever a log is cut, and whichever byte is another: what is read are its first records.
#[test]
fn a_damaged_log_is_a_shorter_one() {
    let folder = tempfile::tempdir().unwrap();
    let (path, mut log) = log(&folder);
    (1..=6).for_each(|number| log.append(&record(number), 1).unwrap());
    let whole = Found::read(&path).unwrap();
    let end = log.offset;
    let seed = crate::conformance::seed();
    println!("seed {seed}");
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    for _ in 0..500 {
        let at = random.random_range(HEADER_BYTES..end);
        let mut byte = [0];
        log.file.read_exact_at(&mut byte, at).unwrap();
        log.file.write_all_at(&[byte[0] ^ 1 << random.random_range(0..8)], at).unwrap();
        let found = Found::read(&path).unwrap();
        assert!(whole.records.starts_with(&found.records), "byte {at}");
        log.file.write_all_at(&byte, at).unwrap();
    }
    for _ in 0..100 {
        let length = random.random_range(0..end);
        let cut = tempfile::tempdir().unwrap();
        let copy = cut.path().join("volume");
        std::fs::write(log_path(&copy), &std::fs::read(log_path(&path)).unwrap()[..length as usize]).unwrap();
        assert!(whole.records.starts_with(&Found::read(&copy).unwrap().records), "{length} bytes");
    }
}

#[test]
fn a_full_half_takes_nothing_more_until_it_is_filed() {
    let folder = tempfile::tempdir().unwrap();
    let (_, mut log) = log(&folder);
    let large = [change("k", Some(&vec![1; 3 << 20]))];
    assert!(log.append(&large, 1).is_ok() && log.append(&large, 1).is_ok());
    assert!(matches!(log.append(&large, 1), Err(Refused::NoRoom)));
    assert_eq!(log.turn_over(0), 2, "a refused record has no number");
    assert!(log.append(&large, 1).is_ok());
}

/// A power cut takes one record and leaves the one behind it; then the number is used again, for a record of the same length.
#[test]
fn what_a_power_cut_left_follows_no_new_record() {
    let folder = tempfile::tempdir().unwrap();
    let (path, mut first) = log(&folder);
    first.append(&record(1), 1).unwrap();
    first.append(&record(2), 1).unwrap();
    first.file.write_all_at(&[0; ALIGNMENT_BYTES], HEADER_BYTES).unwrap();
    assert_eq!(numbers(&Found::read(&path).unwrap()), [0; 0]);
    let mut second = IntentLog::open(&path, ID, 0).unwrap();
    second.append(&record(1), 1).unwrap();
    assert_eq!(numbers(&Found::read(&path).unwrap()), [1]);
}

/// Or a power cut could leave the second without the first, and the store would seem to have lost what was durable.
#[test]
fn a_half_is_durable_before_the_other_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let (_, mut log) = log(&folder);
    log.append(&record(1), 1).unwrap();
    assert_eq!((log.turn_over(0), log.synced), (1, 0));
    log.append(&record(2), 1).unwrap();
    assert_eq!(log.synced, 1);
    // What the file has needs none: filing makes one sync, of the file.
    log.note_filed(2);
    assert_eq!((log.turn_over(2), log.synced), (2, 2));
    log.append(&record(3), 1).unwrap();
    assert_eq!(log.synced, 2);
}

/// At every moment, whatever the disk has then: a store that is made of it has all that was flushed, and a prefix of what was committed.
#[test]
fn whatever_is_flushed_is_in_the_file_and_its_logs() {
    let seed = crate::conformance::seed();
    println!("seed {seed}");
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("volume");
    SqliteKv::create(&path).unwrap();
    let store = SqliteKv::open(&path, Access::Owner, &[], None, &Env::system()).unwrap();
    let number = |value: Vec<u8>| u64::from_be_bytes(value.try_into().unwrap());
    let (mut committed, mut flushed) = (0_u64, 0);
    for copy in 0..25 {
        for _ in 0..random.random_range(1..60) {
            committed += 1;
            let value = Some(committed.to_be_bytes().to_vec());
            // One key always, another of a few, and one that comes and goes.
            let coming = committed.is_multiple_of(3).then(|| vec![7; random.random_range(0..9000)]);
            let writes = vec![
                (b"last".to_vec(), value.clone()),
                (vec![b'k', (committed % 5) as u8], value),
                (b"x".to_vec(), coming),
            ];
            store.commit(Batch { writes, ..Batch::default() }).unwrap();
            if random.random_ratio(1, 4) {
                store.flush().unwrap();
                flushed = committed;
            }
            if random.random_ratio(1, 50) {
                std::thread::sleep(std::time::Duration::from_millis(random.random_range(0..150)));
            }
        }
        // A killed process leaves its files like this. The intent log is copied last: what it had for the file before, the file has.
        let elsewhere = folder.path().join(format!("copy {copy}"));
        for suffix in ["", "-wal", "-intents"] {
            let from = file::beside(&path, suffix);
            if from.exists() {
                std::fs::copy(from, file::beside(&elsewhere, suffix)).unwrap();
            }
        }
        let restored = folder.path().join(format!("restored {copy}"));
        match SqliteKv::restore(&elsewhere, &restored, &weft_env::SystemClock) {
            // The file was copied while it changed, as no crash leaves it.
            Err(error) => println!("copy {copy}: {error}"),
            Ok(()) => {
                let restored = SqliteKv::open(&restored, Access::Owner, &[], None, &Env::system()).unwrap();
                let get = |key: &[u8]| conformance::get(&restored, key).map(number);
                let last = get(b"last").unwrap_or(0);
                assert!((flushed..=committed).contains(&last), "{flushed} were flushed, and {last} are there");
                for rest in 0..5_u64 {
                    let newest = (0..5).filter_map(|less| last.checked_sub(less)).find(|number| number % 5 == rest);
                    assert_eq!(get(&[b'k', rest as u8]), newest.filter(|number| *number > 0), "up to {last}");
                }
                assert_eq!(conformance::get(&restored, b"x").is_some(), last > 0 && last.is_multiple_of(3));
            }
        }
    }
}
