//! kill -9 of the mount during writes, at random moments: every fsynced byte is there after the next mount, metadata is
//! consistent, orphans are collected.

use super::drive::Drive;
use crate::content::bytes_at;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

/// What an observer outside knows for sure of a file.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// Bytes that an fsync acknowledged.
    synced: u64,
    /// Bytes that were ever handed to write.
    written: u64,
}

/// Appends to files of its own with random fsyncs, and replaces one file by rename, until the mount dies.
fn write_until_killed(folder: &Path, writer: u64, round: u64, seed: u64, known: &Mutex<HashMap<u64, Known>>) {
    let mut random = StdRng::seed_from_u64(seed ^ round << 20 ^ writer << 50);
    // No file number is used twice.
    let mut next = writer << 48 | round << 32;
    loop {
        next += 1;
        let mut append = || -> std::io::Result<()> {
            let path = folder.join(format!("f{next}"));
            let mut file = OpenOptions::new().create(true).append(true).open(&path)?;
            let mut length = 0u64;
            for _ in 0..random.random_range(1..8) {
                let bytes = match random.random_range(0..10) {
                    0 => random.random_range(1..3_000_000),
                    1..=4 => 4096,
                    _ => random.random_range(1..20_000),
                };
                known.lock().expect("not poisoned").entry(next).or_default().written = length + bytes as u64;
                file.write_all(&bytes_at(next, length, bytes))?;
                length += bytes as u64;
                if random.random_bool(0.6) {
                    file.sync_all()?;
                    File::open(folder)?.sync_all()?;
                    known.lock().expect("not poisoned").entry(next).or_default().synced = length;
                }
            }
            let temporary = folder.join(format!("replace{writer}.tmp"));
            let mut file = File::create(&temporary)?;
            file.write_all(&bytes_at(writer, 0, 10_000))?;
            std::fs::rename(&temporary, folder.join(format!("replace{writer}")))
        };
        if append().is_err() {
            return;
        }
    }
}

fn check(folder: &Path, known: &HashMap<u64, Known>, writers: u64) {
    for (&number, known) in known {
        let path = folder.join(format!("f{number}"));
        let Ok(file) = File::open(&path) else {
            assert_eq!(known.synced, 0, "{} was synced and is gone", path.display());
            continue;
        };
        let length = file.metadata().expect("it has a size").len();
        assert!(length >= known.synced, "{}: {length} bytes of {} synced", path.display(), known.synced);
        assert!(length <= known.written, "{}: {length} bytes of {} written", path.display(), known.written);
        let mut bytes = vec![0; length as usize];
        file.read_exact_at(&mut bytes, 0).expect("reads");
        let expected = bytes_at(number, 0, length as usize);
        if let Some(at) = bytes.iter().zip(&expected).position(|(found, expected)| found != expected) {
            let rest = &bytes[at..];
            let zeros = rest.iter().take_while(|byte| **byte == 0).count();
            let from = expected.windows(16).position(|window| rest.starts_with(window));
            panic!(
                "{} of {length} bytes ({} synced, {} written): wrong from {at} on: {zeros} zeros, or bytes of {from:?}",
                path.display(),
                known.synced,
                known.written
            );
        }
    }
    for writer in 0..writers {
        let bytes = std::fs::read(folder.join(format!("replace{writer}"))).expect("a replaced file is always there");
        assert!(bytes == bytes_at(writer, 0, 10_000), "a file replaced by rename is whole: {} bytes", bytes.len());
    }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// What files were at their last fsync and after each write since: each byte is one of these after a crash.
type Overwritten = HashMap<u64, Vec<Vec<u8>>>;

/// Bytes of each file: few enough for the journal.
const SMALL_BYTES: usize = 6_000;

/// Files that are overwritten here and there, again and again, and fsynced now and then, until the mount dies.
fn overwrite_until_killed(folder: &Path, writer: u64, round: u64, seed: u64, known: &Mutex<Overwritten>) {
    let mut random = StdRng::seed_from_u64(seed ^ round << 20 ^ writer << 50);
    let mut files: Vec<(u64, File)> = Vec::new();
    let first = writer << 48 | round << 32;
    loop {
        let mut work = || -> std::io::Result<()> {
            if files.len() < 200 {
                let next = first + files.len() as u64;
                let file = OpenOptions::new().create_new(true).write(true).open(folder.join(format!("o{next}")))?;
                let bytes = bytes_at(next, 0, SMALL_BYTES);
                file.write_all_at(&bytes, 0)?;
                file.sync_all()?;
                File::open(folder)?.sync_all()?;
                known.lock().expect("not poisoned").insert(next, vec![bytes]);
                files.push((next, file));
            }
            let (name, file) = &files[random.random_range(0..files.len())];
            let (from, length) = (random.random_range(0..SMALL_BYTES), random.random_range(1..3000));
            let to = SMALL_BYTES.min(from + length);
            {
                let mut known = known.lock().expect("not poisoned");
                let versions = known.entry(*name).or_default();
                let mut bytes = versions.last().cloned().unwrap_or_default();
                bytes[from..to].copy_from_slice(&bytes_at(random.random(), from as u64, to - from));
                versions.push(bytes);
            }
            let newest = known.lock().expect("not poisoned")[name].last().cloned().unwrap_or_default();
            file.write_all_at(&newest[from..to], from as u64)?;
            if random.random_bool(0.1) {
                file.sync_all()?;
                known.lock().expect("not poisoned").insert(*name, vec![newest]);
            }
            Ok(())
        };
        if work().is_err() {
            return;
        }
        // Every version is kept for the check.
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn check_overwritten(folder: &Path, known: &Overwritten) {
    for (name, versions) in known {
        let path = folder.join(format!("o{name}"));
        let found = std::fs::read(&path).expect("a synced file is there");
        assert_eq!(found.len(), SMALL_BYTES, "{}", path.display());
        let was_there = |(i, byte): (usize, &u8)| versions.iter().any(|bytes| bytes[i] == *byte);
        let wrong = found.iter().enumerate().position(|at| !was_there(at));
        assert_eq!(wrong, None, "{}: byte {wrong:?} is none that it ever was since its fsync", path.display());
    }
}

/// What an fsync has put into the journal travels to nodes seconds later, and is overwritten meanwhile.
#[test]
fn finding_01_synced_bytes_survive_overwriting_and_kill_9() {
    const WRITERS: u64 = 3;
    let (rounds, seed) = (number("WEFT_KILL_ROUNDS", 2), number("WEFT_SEED", 1));
    println!("WEFT_SEED={seed} WEFT_KILL_ROUNDS={rounds}");
    let mut random = StdRng::seed_from_u64(seed);
    let mut drive = Drive::new("rs:4+2", 6);
    for round in 0..rounds {
        let known: Mutex<Overwritten> = Mutex::default();
        drive.mount();
        // The first bytes set off after five seconds.
        let moment = Duration::from_millis(random.random_range(4_500..9_000));
        let folder = drive.mountpoint();
        std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                let (folder, known) = (&folder, &known);
                scope.spawn(move || overwrite_until_killed(folder, writer, round, seed, known));
            }
            std::thread::sleep(moment);
            drive.kill();
        });
        drive.weft(&["fsck", &drive.meta()]);
        drive.mount();
        check_overwritten(&drive.mountpoint(), &known.lock().expect("not poisoned"));
        drive.umount();
    }
}

#[test]
fn every_synced_byte_survives_kill_9() {
    const WRITERS: u64 = 3;
    let rounds = number("WEFT_KILL_ROUNDS", 6);
    let seed = number("WEFT_SEED", 1);
    println!("WEFT_SEED={seed} WEFT_KILL_ROUNDS={rounds}");
    let mut random = StdRng::seed_from_u64(seed);
    let mut drive = Drive::new("rs:4+2", 6);
    let known: Mutex<HashMap<u64, Known>> = Mutex::default();
    drive.mount();
    for writer in 0..WRITERS {
        std::fs::write(drive.mountpoint().join(format!("replace{writer}")), bytes_at(writer, 0, 10_000))
            .expect("writes");
    }
    drive.umount();
    for round in 0..rounds {
        drive.mount();
        check(&drive.mountpoint(), &known.lock().expect("not poisoned"), WRITERS);
        let moment = Duration::from_millis(random.random_range(5..400));
        let folder = drive.mountpoint();
        std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                let (folder, known) = (&folder, &known);
                scope.spawn(move || write_until_killed(folder, writer, round, seed, known));
            }
            std::thread::sleep(moment);
            drive.kill();
        });
        drive.weft(&["fsck", &drive.meta()]);
        // Keeps the check of every round short: the oldest files have survived many kills by then.
        let mut known = known.lock().expect("not poisoned");
        if known.len() > 400 {
            known.clear();
        }
    }
    drive.mount();
    check(&drive.mountpoint(), &known.lock().expect("not poisoned"), WRITERS);
    drive.umount();
    drive.weft(&["fsck", &drive.meta()]);
    drive.weft(&["gc", &drive.meta(), "--grace", "0"]);
    drive.weft(&["gc", &drive.meta(), "--grace", "0"]);
    drive.weft(&["scrub", &drive.meta()]);
    drive.mount();
    check(&drive.mountpoint(), &known.lock().expect("not poisoned"), WRITERS);
}
