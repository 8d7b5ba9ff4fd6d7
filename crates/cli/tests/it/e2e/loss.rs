//! Nodes are taken away while reads and writes go on; nothing is lost, repair makes it whole, and then other nodes may go.

use super::drive::Drive;
use crate::content::bytes_at;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const SMALL_FILES: u64 = 200;
const LARGE_BYTES: usize = 18 << 20;

fn fill(folder: &Path) {
    for number in 0..SMALL_FILES {
        let folder = folder.join(format!("d{}", number % 7));
        std::fs::create_dir_all(&folder).expect("makes a directory");
        let length = (number * number * 37 % 90_000) as usize;
        std::fs::write(folder.join(format!("s{number}")), bytes_at(number, 0, length)).expect("writes");
    }
    std::fs::write(folder.join("large"), bytes_at(9999, 0, LARGE_BYTES)).expect("writes");
}

fn check(folder: &Path) {
    for number in 0..SMALL_FILES {
        let path = folder.join(format!("d{}/s{number}", number % 7));
        let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(bytes == bytes_at(number, 0, (number * number * 37 % 90_000) as usize), "{} differs", path.display());
    }
    let large = std::fs::read(folder.join("large")).expect("reads");
    assert!(large == bytes_at(9999, 0, LARGE_BYTES), "the large file differs");
}

/// Writes, syncs and reads back until told to stop; any error or difference is a failure.
fn work(folder: &Path, stop: &AtomicBool, rounds: &AtomicU64) {
    let file = std::fs::File::options().read(true).write(true).create(true).truncate(false).open(folder.join("busy"));
    let file = file.expect("opens");
    let mut offset = 0;
    while !stop.load(Ordering::Relaxed) {
        let data = bytes_at(777, offset, 100_000);
        file.write_all_at(&data, offset).expect("writes go on");
        if offset % 300_000 == 0 {
            file.sync_all().expect("syncs go on");
        }
        let mut back = vec![0; 100_000];
        let from = offset / 2;
        file.read_exact_at(&mut back, from).expect("reads go on");
        assert!(back == bytes_at(777, from, 100_000), "bytes from {from} on differ");
        offset = (offset + 100_000) % 20_000_000;
        rounds.fetch_add(1, Ordering::Relaxed);
    }
    file.sync_all().expect("the last sync");
}

/// Deletes a folder in which files are being made.
fn remove_under_load(folder: &Path) {
    while std::fs::remove_dir_all(folder).is_err_and(|error| error.kind() != std::io::ErrorKind::NotFound) {}
}

/// Sets the flag when dropped, so that a failing test ends instead of waiting for its worker.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The life of a volume whose nodes die `lost` at a time.
fn lose(code: &str, node_count: usize, lost: usize) {
    let mut drive = Drive::new(code, node_count);
    drive.mount();
    let folder = drive.mountpoint();
    fill(&folder);
    drive.remount();
    let (stop, rounds) = (AtomicBool::new(false), AtomicU64::new(0));
    let progress = |at_least: u64| {
        let goal = rounds.load(Ordering::Relaxed) + at_least;
        while rounds.load(Ordering::Relaxed) < goal {
            assert!(!stop.load(Ordering::Relaxed), "the worker failed");
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    };
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let _stop = StopOnDrop(&stop);
            work(&folder, &stop, &rounds);
        });
        let _stop = StopOnDrop(&stop);
        progress(5);
        for i in 1..=lost {
            remove_under_load(&drive.node(i));
        }
        progress(20);
        check(&folder);
        drive.weft(&["fsck", &drive.meta()]);
        for i in 1..=lost {
            let new = drive.elsewhere(&format!("new{i}")).display().to_string();
            drive.weft(&["node", "replace", &drive.meta(), &format!("n{i}"), &new]);
        }
        // Beside a writer that has not seen the new node yet, repair may truly say that something is short again.
        drive.try_weft(&["repair", &drive.meta()]);
        progress(5);
        stop.store(true, Ordering::Relaxed);
        worker.join().expect("joins");
    });
    drive.remount();
    // What was written while the last repair ran may have been short of a node.
    drive.weft(&["repair", &drive.meta()]);
    assert!(drive.verdict().contains(&lost.to_string()), "{}", drive.verdict());
    for i in (1..=node_count).rev().take(lost) {
        let replaced = drive.elsewhere(&format!("new{i}"));
        remove_under_load(&if i <= lost { replaced } else { drive.node(i) });
    }
    check(&folder);
    drive.remount();
    check(&folder);
    drive.weft(&["fsck", &drive.meta()]);
}

#[test]
fn rs_loses_two_of_six() {
    lose("rs:4+2", 6, 2);
}

#[test]
fn raid5_loses_one_of_four() {
    lose("raid5:4", 4, 1);
}

#[test]
fn raid6_loses_two_of_five() {
    lose("raid6:5", 5, 2);
}

#[test]
fn replicas_lose_two_of_three() {
    lose("replica:3", 3, 2);
}

#[test]
fn with_too_few_nodes_reads_fail_in_time_and_heal_when_one_returns() {
    let mut drive = Drive::new("rs:4+2", 6);
    drive.mount();
    fill(&drive.mountpoint());
    drive.remount();
    let hidden = drive.elsewhere("hidden");
    std::fs::create_dir(&hidden).expect("makes a folder");
    for i in 1..=3 {
        std::fs::rename(drive.node(i), hidden.join(i.to_string())).expect("a node goes away");
    }
    let error = std::fs::read(drive.mountpoint().join("large")).expect_err("three of six are too many");
    assert_eq!(error.raw_os_error(), Some(5), "EIO, not {error}");
    std::fs::rename(hidden.join("1"), drive.node(1)).expect("a node comes back");
    let mut read = std::fs::read(drive.mountpoint().join("large"));
    // A node that was found dead is asked again after a pause that the first success ends.
    for _ in 0..100 {
        if read.is_ok() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
        read = std::fs::read(drive.mountpoint().join("large"));
    }
    assert!(read.expect("it heals") == bytes_at(9999, 0, LARGE_BYTES), "healed, and right");
    check(&drive.mountpoint());
}
