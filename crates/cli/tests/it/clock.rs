//! Wall clocks that jump by a day, forward and back, of a mount that is in use and of a worker beside it, alike and unlike: nothing
//! is lost, and nothing is let go early. The clocks are changed by libfaketime, for these processes alone.

use crate::effort::is_long;
use crate::sandbox::caring::Caring;
use crate::sandbox::{Said, Sandbox, SetAtEnd, until};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// Where Debian, and others, have it.
const LIBRARIES: [&str; 3] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/faketime/libfaketimeMT.so.1",
];

/// Of the mount and of the worker, in order. A short run makes those that go both ways at once.
const JUMPS: [(&str, &str); 6] =
    [("+1d", "-1d"), ("-1d", "+1d"), ("+0", "+0"), ("+0", "+1d"), ("+1d", "+1d"), ("-1d", "-1d")];
const JUMPS_OF_A_SHORT_RUN: usize = 3;

const HALF_A_DAY: Duration = Duration::from_secs(12 * 3600);

/// Has the command go by the clock that file `clock` says, within a second of its change.
fn by_clock(sandbox: &Sandbox, clock: &str, mut command: Command) -> Command {
    let library = LIBRARIES.iter().find(|library| Path::new(library).exists());
    let library = library.expect("this test needs libfaketime: install the package faketime");
    let file = sandbox.path(clock);
    let says = [("FAKETIME_TIMESTAMP_FILE", file.as_str()), ("LD_PRELOAD", library)];
    // Only the wall clock jumps, as on a real machine, and times of files are what the file system says.
    let only = [("FAKETIME_DONT_FAKE_MONOTONIC", "1"), ("NO_FAKE_STAT", "1"), ("FAKETIME_CACHE_DURATION", "1")];
    command.envs(says).envs(only);
    command
}

fn content(number: u64, version: u64) -> Vec<u8> {
    crate::content::bytes(number << 32 | version, 20_000 + number as usize * 7_777)
}

/// Writes, syncs, reads, replaces and removes until it is told to stop; what each file should hold.
fn use_it(sandbox: &Sandbox, is_over: &AtomicBool, rounds: &AtomicU64) -> BTreeMap<u64, u64> {
    let mut versions = BTreeMap::new();
    while !is_over.load(Ordering::SeqCst) {
        let round = rounds.load(Ordering::SeqCst);
        let (number, fresh) = (round * 7 % 40, sandbox.file("fresh"));
        let mut file = File::create(&fresh).expect("made");
        file.write_all(&content(number, round)).expect("written");
        if round.is_multiple_of(3) {
            file.sync_all().expect("synced");
        }
        drop(file);
        fs::rename(&fresh, sandbox.file(&number.to_string())).expect("renamed");
        versions.insert(number, round);
        let (&read, &version) = versions.iter().nth((round * 13) as usize % versions.len()).expect("there is one");
        assert!(fs::read(sandbox.file(&read.to_string())).expect("read") == content(read, version), "{read} differs");
        if round % 11 == 5 {
            fs::remove_file(sandbox.file(&read.to_string())).expect("removed");
            versions.remove(&read);
        }
        rounds.fetch_add(1, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(20));
    }
    versions
}

fn is_whole(sandbox: &Sandbox) -> bool {
    let said = sandbox.weft(["status", "--json", "meta.db"]).stdout;
    let status: serde_json::Value = serde_json::from_str(&said).unwrap_or_default();
    status["survives_losses"] == 2 && status["tally"]["degraded_count"] == 0 && status["marked_count"] == 0
}

#[test]
fn clocks_that_jump_by_a_day_lose_nothing() {
    let sandbox = Sandbox::with_volume("rs:4+2");
    sandbox.weft(["trash", "keep", "meta.db", "12h"]).ok();
    let set = |mount: &str, worker: &str| {
        for (clock, offset) in [("clock-mount", mount), ("clock-worker", worker)] {
            // Whole or not at all: it is read at any moment.
            fs::write(sandbox.path("clock"), offset).expect("written");
            fs::rename(sandbox.path("clock"), sandbox.path(clock)).expect("renamed");
        }
    };
    set("+0", "+0");
    sandbox.mount_by(by_clock(&sandbox, "clock-mount", sandbox.command(["mount", "-d", "meta.db", &sandbox.mnt()])));
    let timeouts = ["care", "meta.db", "--scrub-every", "5s", "--balance-every", "1s"];
    let beside = Caring::of(by_clock(&sandbox, "clock-worker", sandbox.command(timeouts)));
    fs::write(sandbox.file("keepsake"), content(1, 1)).expect("written");
    fs::remove_file(sandbox.file("keepsake")).expect("removed");

    let (is_over, rounds) = (AtomicBool::new(false), AtomicU64::new(0));
    let versions = std::thread::scope(|scope| {
        let user = scope.spawn(|| use_it(&sandbox, &is_over, &rounds));
        let end = SetAtEnd(&is_over);
        let some_rounds = || {
            let before = rounds.load(Ordering::SeqCst);
            until("users are served", || user.is_finished() || rounds.load(Ordering::SeqCst) >= before + 20);
        };
        let count = if is_long() { JUMPS.len() } else { JUMPS_OF_A_SHORT_RUN };
        for (number, (mount, worker)) in JUMPS.into_iter().take(count).enumerate() {
            some_rounds();
            // A repair is under way when the clocks jump.
            sandbox.wipe(&format!("node{}", number + 1));
            some_rounds();
            set(mount, worker);
            let witness = sandbox.file("witness");
            until("the mount's clock has jumped", || {
                fs::write(&witness, "x").expect("written");
                let modified = fs::metadata(&witness).and_then(|witness| witness.modified()).expect("a time");
                let now = SystemTime::now();
                let is_off = modified > now + HALF_A_DAY || modified < now - HALF_A_DAY;
                let is_ahead = modified > now;
                match mount {
                    "+0" => !is_off,
                    "+1d" => is_off && is_ahead,
                    _ => is_off && !is_ahead,
                }
            });
            some_rounds();
            let gc = sandbox.command(["gc", "--grace", "0", "meta.db"]);
            let said = Said::from(by_clock(&sandbox, "clock-worker", gc).output().expect("weft runs"));
            assert!(matches!(said.code, Some(0 | 2)), "{}", said.stderr);
            until("all is whole", || user.is_finished() || is_whole(&sandbox));
        }
        drop(end);
        user.join().expect("no error came to the user")
    });
    let check = || {
        for (number, version) in &versions {
            let read = fs::read(sandbox.file(&number.to_string())).expect("read");
            assert!(read == content(*number, *version), "{number} differs");
        }
    };
    check();
    sandbox.weft(["trash", "restore", "meta.db", "/keepsake"]).ok();
    assert!(fs::read(sandbox.file("keepsake")).expect("read") == content(1, 1));
    beside.end();
    sandbox.umount();
    sandbox.weft(["scrub", "meta.db"]).ok();
    sandbox.weft(["fsck", "meta.db"]).ok();
    sandbox.weft(["gc", "--grace", "0", "meta.db"]).ok();
    sandbox.mount();
    check();
    sandbox.umount();
    assert!(is_whole(&sandbox));
}

/// The shards of files on a node, without those of the metadata's replica and of openings.
fn shards_of_files(folder: &str) -> Vec<PathBuf> {
    let below = |path: PathBuf| fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let all = below(folder.into()).filter(|path| path.is_dir()).flat_map(below);
    let is_of_file = |path: &PathBuf| path.file_name().is_some_and(|name| !name.as_encoded_bytes().starts_with(b"fff"));
    all.filter(is_of_file).collect()
}

/// By the worker's clock the volume was opened an hour ago: so it takes the next opening number once it has changed something, and goes on.
#[test]
fn care_by_itself_repairs_again_and_again_in_a_volume_that_was_opened_long_ago() {
    let sandbox = Sandbox::with_volume("rs:4+2");
    sandbox.mount();
    (0..3).for_each(|number| fs::write(sandbox.file(&number.to_string()), content(number, 1)).expect("written"));
    sandbox.umount();
    fs::write(sandbox.path("clock-worker"), "+1h").expect("written");
    let alone = ["care", "meta.db", "--scrub-every", "1s"];
    let _care = Caring::of(by_clock(&sandbox, "clock-worker", sandbox.command(alone)));
    for node in ["node1", "node2", "node3"] {
        let shards = shards_of_files(&sandbox.path(node));
        assert!(!shards.is_empty());
        shards.iter().for_each(|shard| fs::remove_file(shard).expect("removed"));
        // By other names.
        until("its shards are there again", || shards_of_files(&sandbox.path(node)).len() >= shards.len());
    }
}
