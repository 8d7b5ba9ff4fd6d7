//! The machine with the metadata is lost, and as many nodes as the code survives: `weft recover` brings the names back from the others.

use crate::sandbox::{Sandbox, until};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const LEFT: [&str; 4] = ["node1", "node3", "node4", "node6"];

fn content(number: usize) -> Vec<u8> {
    crate::content::bytes(number as u64, 5000 + 1000 * number)
}

fn write(sandbox: &Sandbox, number: usize) {
    let path = sandbox.file(&format!("f{number}"));
    fs::write(&path, content(number)).expect("written");
    fs::File::open(path).expect("opened").sync_all().expect("synced");
}

fn check(sandbox: &Sandbox, numbers: std::ops::Range<usize>) {
    for number in numbers {
        assert!(fs::read(sandbox.file(&format!("f{number}"))).expect("read") == content(number), "f{number} differs");
    }
}

/// The metadata with all that belongs to it, and two nodes.
fn lose(sandbox: &Sandbox) {
    lose_metadata(sandbox);
    ["node2", "node5"].iter().for_each(|node| sandbox.wipe(node));
}

fn lose_metadata(sandbox: &Sandbox) {
    for suffix in ["", "-wal", "-shm", "-intents", "-owner", "-reserve", "-addresses", "-replica"] {
        let _ = fs::remove_file(sandbox.path(&format!("meta.db{suffix}")));
    }
}

/// Files of the replica on the nodes that are left.
fn pieces(sandbox: &Sandbox) -> Vec<PathBuf> {
    let subfolders = LEFT.iter().flat_map(|node| fs::read_dir(sandbox.path(node)).expect("listed"));
    let subfolders = subfolders.map(|entry| entry.expect("an entry").path()).filter(|path| path.is_dir());
    let files = subfolders.flat_map(|folder| fs::read_dir(folder).expect("listed"));
    let files = files.map(|entry| entry.expect("an entry").path());
    let is_piece =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"fffffffffffe"));
    files.filter(is_piece).collect()
}

fn recover(sandbox: &Sandbox) -> String {
    let output = sandbox.command(["recover"].iter().chain(&LEFT).chain(&["meta.db"])).output().expect("weft runs");
    let (said, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    // 2: everything is there, with less redundancy.
    assert_eq!(output.status.code(), Some(2), "{said}{error}");
    said.into_owned()
}

#[test]
fn after_an_unmount_everything_comes_back_without_the_metadata_and_two_of_six_nodes() {
    let sandbox = Sandbox::mounted("rs:4+2");
    (0..5).for_each(|number| write(&sandbox, number));
    fs::create_dir(sandbox.file("below")).expect("made");
    fs::hard_link(sandbox.file("f0"), sandbox.file("below/link")).expect("linked");
    symlink("f1", sandbox.file("symlink")).expect("linked");
    fs::rename(sandbox.file("f4"), sandbox.file("below/renamed")).expect("renamed");
    fs::write(sandbox.file("deleted"), b"soon gone").expect("written");
    fs::remove_file(sandbox.file("deleted")).expect("removed");
    sandbox.umount();
    fs::copy(sandbox.path("meta.db"), sandbox.path("kept.db")).expect("copied");
    lose(&sandbox);

    let said = recover(&sandbox);
    assert!(said.contains("nodes that were not named: 2, 5"), "{said}");
    // The machine may be lost again at once.
    lose(&sandbox);
    recover(&sandbox);
    sandbox.mount();
    check(&sandbox, 0..4);
    assert!(fs::read(sandbox.file("below/renamed")).expect("read") == content(4));
    assert!(fs::read(sandbox.file("below/link")).expect("read") == content(0));
    assert_eq!(fs::read_link(sandbox.file("symlink")).expect("read"), Path::new("f1"));
    assert!(!sandbox.file("deleted").exists());
    write(&sandbox, 9);
    sandbox.umount();
    sandbox.weft(["fsck", "meta.db"]).ok();
    // Metadata that was lost and found changes nothing any more.
    let refused = sandbox.weft(["rm", "kept.db", "/f0"]).sentence();
    assert!(refused.contains("older copy of the volume's metadata"), "{refused}");
}

#[test]
fn a_killed_mount_leaves_its_names_on_the_nodes() {
    let sandbox = Sandbox::mounted("rs:4+2");
    (0..20).for_each(|number| write(&sandbox, number));
    // What comes to the nodes last is of the last change.
    let (mut found, mut since) = (Vec::new(), Instant::now());
    until("the names are on the nodes", || {
        let now = pieces(&sandbox);
        if now != found {
            (found, since) = (now, Instant::now());
        }
        !found.is_empty() && since.elapsed() > Duration::from_secs(4)
    });
    (20..25).for_each(|number| write(&sandbox, number));
    sandbox.kill_mount();
    lose(&sandbox);
    recover(&sandbox);
    sandbox.mount();
    check(&sandbox, 0..20);
    // Those that are there of the last ones are whole.
    for number in 20..25 {
        if let Ok(found) = fs::read(sandbox.file(&format!("f{number}"))) {
            assert!(found.is_empty() || found == content(number), "f{number} differs");
        }
    }
    sandbox.umount();
    sandbox.weft(["fsck", "meta.db"]).ok();
}

/// What an fsync has said is on the nodes when it returns, also that of a command without a mount.
#[test]
fn in_step_nothing_that_was_synced_is_lost_with_the_metadata() {
    let sandbox = Sandbox::with_volume("rs:4+2");
    assert!(sandbox.weft(["protect", "meta.db"]).ok().contains("waits for the metadata's disk"));
    assert!(sandbox.weft(["protect", "meta.db", "--sync"]).ok().contains("until the names are on the nodes"));
    sandbox.mount();
    for round in 0..3 {
        (10 * round..10 * round + 10).for_each(|number| write(&sandbox, number));
        fs::create_dir(sandbox.file(&format!("d{round}"))).expect("made");
        fs::File::open(sandbox.mnt()).expect("opened").sync_all().expect("synced");
        sandbox.kill_mount();
        lose(&sandbox);
        recover(&sandbox);
        assert!(
            sandbox.weft(["protect", "meta.db"]).ok().contains("until the names are on the nodes"),
            "it is recovered, too"
        );
        sandbox.mount();
        check(&sandbox, 0..10 * round + 10);
        assert!(sandbox.file(&format!("d{round}")).is_dir());
    }
    sandbox.umount();
    fs::write(sandbox.path("put"), content(77)).expect("written");
    sandbox.weft(["put", "meta.db", &sandbox.path("put"), "/f77"]).ok();
    lose(&sandbox);
    recover(&sandbox);
    assert!(sandbox.weft(["protect", "meta.db", "--async"]).ok().contains("waits for the metadata's disk"));
    sandbox.mount();
    check(&sandbox, 77..78);
    sandbox.umount();
    sandbox.weft(["fsck", "meta.db"]).ok();
}

/// Nobody keeps the replica while nothing is mounted: what was moved meanwhile is found by its bytes.
#[test]
fn shards_that_were_moved_since_are_found_where_they_are() {
    let sandbox = Sandbox::mounted("rs:4+2");
    (0..5).for_each(|number| write(&sandbox, number));
    sandbox.umount();
    sandbox.weft(["node", "add", "meta.db", "7", "node7"]).ok();
    sandbox.weft(["node", "drain", "meta.db", "1"]).ok();
    sandbox.weft(["repair", "meta.db"]).ok();
    // It was emptied, and is needed no more.
    sandbox.wipe("node1");
    fs::remove_file(sandbox.path("meta.db")).expect("removed");
    let nodes: Vec<String> = (2..=7).map(|number| format!("node{number}")).collect();
    let recover = ["recover".to_owned()].into_iter().chain(nodes).chain(["meta.db".to_owned()]);
    let said = sandbox.weft(recover).ok();
    assert!(said.contains("named where they are now"), "{said}");
    assert!(said.contains("survives the loss of any 2 more nodes"), "{said}");
    sandbox.mount();
    check(&sandbox, 0..5);
    sandbox.umount();
}

/// A machine that is lost at any moment under load: files are written and synced one after the other, so those that come back are the
/// first ones, all whole, and `fsck` finds nothing. How far behind the nodes were is printed.
#[test]
fn the_machine_is_lost_again_and_again() {
    let rounds: usize = std::env::var("WEFT_RECOVER_ROUNDS").map_or(2, |text| text.parse().expect("a number"));
    let seed: u64 = std::env::var("WEFT_SEED").map_or(17, |text| text.parse().expect("a number"));
    println!("seed {seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let mut behind_ms = Vec::new();
    for round in 0..rounds {
        let sandbox = Sandbox::mounted("rs:4+2");
        let (is_over, kill_after) = (AtomicBool::new(false), Duration::from_millis(rng.random_range(0..4000)));
        let synced: Vec<Instant> = std::thread::scope(|scope| {
            let writing = scope.spawn(|| {
                let mut synced = Vec::new();
                while !is_over.load(Ordering::Relaxed) {
                    let path = sandbox.file(&format!("f{}", synced.len()));
                    let written =
                        fs::write(&path, content(synced.len() % 20)).and_then(|()| fs::File::open(&path)?.sync_all());
                    if written.is_err() {
                        break;
                    }
                    synced.push(Instant::now());
                }
                synced
            });
            std::thread::sleep(kill_after);
            let process = Pid::from_raw(sandbox.mount_process().cast_signed()).expect("a process");
            kill_process(process, Signal::KILL).expect("killed");
            is_over.store(true, Ordering::Relaxed);
            let _ = sandbox.weft(["umount", "--force", &sandbox.mnt()]);
            writing.join().expect("it has ended")
        });
        let killed = Instant::now();
        lose(&sandbox);
        let output = sandbox.command(["recover"].iter().chain(&LEFT).chain(&["meta.db"])).output().expect("weft runs");
        if synced.is_empty() && !Path::new(&sandbox.path("meta.db")).exists() {
            continue;
        }
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.code() == Some(1) {
            // The first snapshot was not there yet.
            assert!(
                said.contains("hold no replica") || said.contains("not all of a snapshot"),
                "round {round}: {said}"
            );
            behind_ms.push(synced.first().map_or(0, |first| killed.duration_since(*first).as_millis()));
            continue;
        }
        sandbox.mount();
        let names = fs::read_dir(sandbox.mnt()).expect("listed").count();
        let whole = (0..names.min(synced.len())).take_while(|number| {
            fs::read(sandbox.file(&format!("f{number}"))).is_ok_and(|found| found == content(number % 20))
        });
        let whole = whole.count();
        // The last name may be of a file whose bytes were not committed yet.
        assert!(whole + 1 >= names, "round {round}: of {names} files the first {whole} are whole");
        behind_ms.push(synced.get(whole).map_or(0, |first_lost| killed.duration_since(*first_lost).as_millis()));
        sandbox.umount();
        sandbox.weft(["fsck", "meta.db"]).ok();
    }
    behind_ms.sort_unstable();
    println!("{rounds} rounds; ms from the first synced file that was lost to the kill: {behind_ms:?}");
}

/// A recovery that is killed at any moment leaves nothing, or metadata that works, and can be begun again; nothing is lost by it.
#[test]
fn a_recovery_may_be_killed_at_any_moment() {
    let rounds: u32 = std::env::var("WEFT_RECOVER_ROUNDS").map_or(4, |text| text.parse().expect("a number"));
    let seed: u64 = std::env::var("WEFT_SEED").map_or(23, |text| text.parse().expect("a number"));
    println!("seed {seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let sandbox = Sandbox::mounted("rs:4+2");
    (0..8).for_each(|number| write(&sandbox, number));
    sandbox.umount();
    lose(&sandbox);
    // How long it takes when nobody kills it.
    let began = Instant::now();
    recover(&sandbox);
    let took = began.elapsed();
    let left = fs::read_dir(sandbox.path(".")).expect("listed").flatten().map(|entry| entry.file_name());
    let left: Vec<_> = left.filter(|name| name.to_string_lossy().contains("-new-")).collect();
    assert!(left.is_empty(), "{left:?}");
    let mut kept = 0;
    for _ in 0..rounds {
        lose_metadata(&sandbox);
        let kill_after = took * rng.random_range(0..100) / 100;
        let mut child =
            sandbox.command(["recover"].iter().chain(&LEFT).chain(&["meta.db"])).spawn().expect("weft runs");
        std::thread::sleep(kill_after);
        child.kill().expect("killed");
        child.wait().expect("it has ended");
        if Path::new(&sandbox.path("meta.db")).exists() {
            kept += 1;
            // It is whole, or nobody takes it for the volume's metadata.
            let said = sandbox.weft(["status", "meta.db"]).stderr;
            if said.contains("is not the volume's metadata yet") {
                recover(&sandbox);
            }
            sandbox.mount();
            check(&sandbox, 0..8);
            sandbox.umount();
            sandbox.weft(["fsck", "meta.db"]).ok();
        }
    }
    println!("{rounds} rounds, {kept} of which left metadata");
    lose_metadata(&sandbox);
    recover(&sandbox);
    sandbox.mount();
    check(&sandbox, 0..8);
    sandbox.umount();
    sandbox.weft(["fsck", "meta.db"]).ok();
}

#[test]
fn what_cannot_be_recovered_is_refused_in_a_sentence() {
    let sandbox = Sandbox::with_volume("rs:4+2");
    let said = sandbox.weft(["recover", "node1", "node2", "new.db"]).sentence();
    assert!(said.contains("hold no replica of the metadata") && said.contains("weft restore"), "{said}");
    sandbox.mount();
    write(&sandbox, 1);
    sandbox.umount();
    let said = sandbox.weft(["recover", "node1", "node2", "meta.db"]).sentence();
    assert!(said.contains("meta.db exists already"), "{said}");
    let said = sandbox.weft(["recover", "nowhere", "new.db"]).sentence();
    assert!(said.contains("nowhere"), "{said}");
    sandbox.weft(["format", "--policy", "replica:1", "other.db"]).ok();
    sandbox.weft(["node", "add", "other.db", "other", "other"]).ok();
    let said = sandbox.weft(["recover", "node1", "other", "new.db"]).sentence();
    assert!(said.contains("nodes of 2 volumes"), "{said}");
    assert!(!Path::new(&sandbox.path("new.db")).exists());
}
