//! A process that is killed at any moment leaves a prefix of what it committed, and at least what it flushed.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use weft_env::Env;
use weft_env::SystemClock;
use weft_meta::Access;
use weft_meta::conformance::{self, get, scan, when};
use weft_meta::engines::SqliteKv;
use weft_meta::keys::SharedPrefix;
use weft_meta::kv::{Batch, Kv};
use weft_meta::owner::current_owner;

/// Where the child finds the store; its seed follows in `SEED`.
const STORE: &str = "WEFT_META_CRASH_STORE";
const SEED: &str = "WEFT_META_CRASH_SEED";
const SHARED: &[SharedPrefix] = &[SharedPrefix { prefix: b"node/", fresh_ids: false }];
const KILLS: u32 = 12;

fn key(table: char, number: u64) -> Vec<u8> {
    format!("{table}/{number:012}").into_bytes()
}

fn last(kv: &dyn Kv) -> u64 {
    get(kv, b"last").map_or(0, |bytes| u64::from_be_bytes(bytes.try_into().unwrap()))
}

/// Batch `number`: two distant keys, and the number itself. Some are written through.
fn batch(number: u64) -> Batch {
    let mut batch = Batch::default();
    let value = number.to_be_bytes().to_vec();
    let previous = (number > 1).then(|| (number - 1).to_be_bytes());
    batch.writes.push((key('a', number), Some(vec![b'x'; 300])));
    batch.writes.push((key('z', number), Some(value.clone())));
    batch.writes.push((b"last".to_vec(), Some(value.clone())));
    if number.is_multiple_of(29) {
        batch.writes.push((b"node/1".to_vec(), Some(value)));
    }
    when(batch, b"last", previous.as_ref().map(|bytes| &bytes[..]))
}

#[test]
#[ignore = "the process that `finding_06_killed_at_any_moment` kills"]
fn child() {
    let path = std::env::var_os(STORE).expect("the store");
    let mut random = ChaCha8Rng::seed_from_u64(std::env::var(SEED).expect("the seed").parse().unwrap());
    let kv = SqliteKv::open(Path::new(&path), Access::Owner, SHARED, None, &Env::system()).unwrap();
    let mut number = last(&kv);
    loop {
        for _ in 0..random.random_range(1..40) {
            number += 1;
            kv.commit(batch(number)).unwrap();
        }
        if random.random_ratio(3, 4) {
            kv.flush().unwrap();
            // One write: a process killed between two would leave half a line.
            std::io::stderr().write_all(format!("flushed {number}\n").as_bytes()).unwrap();
        }
    }
}

#[test]
fn finding_06_killed_at_any_moment() {
    let seed = conformance::seed();
    println!("seed {seed}");
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("volume");
    SqliteKv::create(&path).unwrap();
    for _ in 0..KILLS {
        let flushed = run_and_kill(&path, &mut random);
        assert_eq!(current_owner(&path, &SystemClock).unwrap(), None, "the lock dies with its process");
        let kv = SqliteKv::open(&path, Access::Owner, SHARED, None, &Env::system()).unwrap();
        let last = last(&kv);
        println!("flushed {flushed}, found {last}");
        assert!(last >= flushed, "batch {flushed} was flushed, and the last one found is {last}");
        for table in ['a', 'z'] {
            let found: Vec<Vec<u8>> =
                scan(&kv, &key(table, 0), &[table as u8 + 1]).into_iter().map(|(key, _)| key).collect();
            let expected: Vec<Vec<u8>> = (1..=last).map(|number| key(table, number)).collect();
            assert!(found == expected, "table {table} has not just the batches up to {last}");
        }
        let check = |found: String| assert_eq!(found, "ok", "finding 6: the tables do not fit together");
        let connection = rusqlite::Connection::open(&path).unwrap();
        check(connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap());
        assert_eq!(get(&kv, b"node/1"), (last >= 29).then(|| (last / 29 * 29).to_be_bytes().to_vec()));
    }
}

/// Lets a child work for a while; answers the last batch that it said was flushed.
fn run_and_kill(path: &Path, random: &mut ChaCha8Rng) -> u64 {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "crash::child", "--nocapture"])
        .env(STORE, path)
        .env(SEED, random.random::<u64>().to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let mut flushed = 0;
    let mut take = |line: String| match line.strip_prefix("flushed ") {
        Some(number) => flushed = number.parse().unwrap(),
        None => panic!("the child says: {line}"),
    };
    for _ in 0..random.random_range(1..30) {
        take(lines.next().expect("the child ended by itself"));
    }
    // Not right after a flush: anywhere in what comes next.
    std::thread::sleep(Duration::from_micros(random.random_range(0..20_000)));
    child.kill().unwrap();
    child.wait().unwrap();
    lines.for_each(take);
    flushed
}
