//! How fast the SQLite engine is on this machine: `cargo run --release --example kv_bench -- <folder on the disk to measure>`.
//!
//! A create is what making a file costs in metadata: two absences checked, three records of 16 to 120 bytes written.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use weft_env::Env;
use weft_meta::Access;
use weft_meta::engines::SqliteKv;
use weft_meta::kv::{Batch, Kv};

const FOR: Duration = Duration::from_secs(3);

fn main() {
    let folder = std::env::args_os().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let folder = tempfile::tempdir_in(folder).expect("a folder that can be written");
    let path = folder.path().join("volume");
    SqliteKv::create(&path).expect("a new store");
    println!("{:>44} {:>12}", "", "per second");
    probe(folder.path());

    let kv = open(&path);
    let next = AtomicU64::new(0);
    let create = || kv.commit(creation(next.fetch_add(1, Ordering::Relaxed))).expect("commit");
    let durable_create = |_: u64| {
        create();
        kv.flush().expect("flush");
    };
    report("durable creates, 1 thread", 1, durable_create);
    report("durable creates, 32 threads", 32, durable_create);
    report("write-behind creates, 1 thread", 1, |_| create());
    report("write-behind creates, 4 threads", 4, |_| create());
    kv.flush().expect("flush");

    let count = next.load(Ordering::Relaxed);
    let look_up = |number: u64, name: &str| {
        let found = kv.snapshot().expect("snapshot").get(&dirent(number, name)).expect("get");
        assert_eq!(found.is_some(), name == "f");
    };
    let hot = count.min(10_000);
    report("lookups of 10,000 hot names, 1 thread", 1, |turn| look_up(turn * 7919 % hot, "f"));
    report("lookups of 10,000 absent names, 1 thread", 1, |turn| look_up(turn * 7919 % hot, "absent"));
    drop(kv);
    let kv = open(&path);
    println!("{count} names in all");
    report("lookups after opening, over all, 1 thread", 1, |turn| {
        let number = turn.wrapping_mul(0x9e37_79b9_7f4a_7c15) % count;
        kv.snapshot().expect("snapshot").get(&dirent(number, "f")).expect("get").expect("the name");
    });
    report("scans of 100 names, 1 thread", 1, |turn| {
        let start = turn.wrapping_mul(0x9e37_79b9_7f4a_7c15) % count;
        kv.snapshot().expect("snapshot").scan(&dirent(start, ""), &dirent(u64::MAX, ""), 100).expect("scan");
    });
}

fn open(path: &Path) -> SqliteKv {
    SqliteKv::open(path, Access::Owner, &[], None, &Env::system()).expect("the store")
}

/// The limit of one thread: 4 KiB appended and synced.
fn probe(folder: &Path) {
    use std::os::unix::fs::FileExt;
    let file = std::fs::File::create(folder.join("probe")).expect("a file");
    report("the disk: 4 KiB written and synced", 1, |turn| {
        file.write_all_at(&[1; 4096], turn % 1024 * 4096).expect("write");
        file.sync_data().expect("sync");
    });
}

fn dirent(number: u64, name: &str) -> Vec<u8> {
    let parent = number / 1000;
    [&b"\x03"[..], &parent.to_be_bytes(), &number.to_be_bytes(), name.as_bytes()].concat()
}

fn creation(number: u64) -> Batch {
    let inode = [&b"\x02"[..], &number.to_be_bytes()].concat();
    let entry = [&b"\x04"[..], &number.to_be_bytes()].concat();
    Batch {
        checks: vec![(dirent(number, "f"), None), (inode.clone(), None)],
        writes: vec![(dirent(number, "f"), Some(vec![1; 24])), (inode, Some(vec![2; 120])), (entry, Some(vec![3; 16]))],
        ..Batch::default()
    }
}

/// Runs `work(0), work(1), ...` on so many threads for a while and prints how often it ran.
fn report(what: &str, threads: u64, work: impl Fn(u64) + Sync) {
    let start = Instant::now();
    let turns = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (turns, work) = (&turns, &work);
            scope.spawn(move || {
                let mut turn = thread;
                while start.elapsed() < FOR {
                    work(turn);
                    turn += threads;
                }
                turns.fetch_add(turn / threads, Ordering::Relaxed);
            });
        }
    });
    println!("{what:>44} {:>12.0}", turns.into_inner() as f64 / start.elapsed().as_secs_f64());
}
