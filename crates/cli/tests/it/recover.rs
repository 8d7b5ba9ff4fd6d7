//! The machine with the metadata is lost, and as many nodes as the code survives: `weft recover` brings the names back from the others.

use crate::sandbox::{Sandbox, until};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weft_engine::{Env, MetaUrl};
use weft_meta::Access;

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
    recover_from(sandbox, &LEFT)
}

fn recover_from(sandbox: &Sandbox, nodes: &[&str]) -> String {
    let output = sandbox.command(["recover"].iter().chain(nodes).chain(&["meta.db"])).output().expect("weft runs");
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
fn what_sync_has_waited_for_survives_the_machine_and_two_nodes() {
    let sandbox = Sandbox::mounted("rs:4+2");
    let write_unsynced = |number| fs::write(sandbox.file(&format!("f{number}")), content(number)).expect("written");
    for numbers in [0..3, 3..6] {
        numbers.for_each(write_unsynced);
        sandbox.weft(["sync", &sandbox.mnt()]).ok();
    }
    sandbox.kill_mount();
    lose(&sandbox);
    recover(&sandbox);
    sandbox.mount();
    check(&sandbox, 0..6);
    let said = sandbox.weft(["sync", &sandbox.path("node1")]).sentence();
    assert!(said.contains("node1"), "{said}");
}

/// As of a virtual machine that goes back to its snapshot of a moment ago.
#[test]
fn metadata_that_was_set_back_is_read_and_changed_by_nobody_until_it_is_recovered() {
    let sandbox = Sandbox::mounted("rs:4+2");
    let written_and_on_nodes = |number| {
        let before = transaction(&sandbox);
        write(&sandbox, number);
        until("it is in the metadata, and on the nodes", || {
            let last = transaction(&sandbox);
            last > before && replicated(&sandbox) >= last
        });
    };
    written_and_on_nodes(0);
    let files = ["", "-wal", "-intents", "-owner"].map(|suffix| sandbox.path(&format!("meta.db{suffix}")));
    // All at one moment.
    let snapshot = sandbox.beside_stopped_mount(|| files.each_ref().map(|path| fs::read(path).expect("read")));
    written_and_on_nodes(1);
    sandbox.kill_mount();
    // In place: metadata knows its inode.
    files.iter().zip(snapshot).for_each(|(path, bytes)| fs::write(path, bytes).expect("written"));
    for change in [
        &["gc", "--grace", "0", "meta.db"][..],
        &["rm", "meta.db", "/f0"],
        &["repair", "meta.db"],
        &["mount", "meta.db", "mnt"],
    ] {
        let said = sandbox.weft(change).sentence();
        assert!(said.contains("as it was earlier") && said.contains("weft recover"), "{change:?}: {said}");
    }
    let read = sandbox.weft(["get", "meta.db", "/f0", "back"]);
    assert!(read.stderr.contains("as it was earlier"), "{}", read.stderr);
    assert!(fs::read(sandbox.path("back")).expect("read") == content(0));
    assert!(sandbox.weft(["status", "meta.db"]).ok().contains("as it was earlier"));
    lose(&sandbox);
    recover(&sandbox);
    sandbox.mount();
    check(&sandbox, 0..2);
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

/// The last transaction of the metadata.
fn transaction(sandbox: &Sandbox) -> u64 {
    let meta = MetaUrl::from(PathBuf::from(sandbox.path("meta.db")));
    let kv = meta.open(Access::Shared, None, &Env::system()).expect("opened");
    kv.history().expect("it has one").last().expect("read")
}

/// Up to which transaction the mount has said that nodes have everything; 0: nothing yet.
fn replicated(sandbox: &Sandbox) -> u64 {
    let note = fs::read(sandbox.path("meta.db-replica")).unwrap_or_default();
    let note: serde_json::Value = serde_json::from_slice(&note).unwrap_or_default();
    note["upto"].as_u64().unwrap_or_default()
}

/// A machine that is lost at any moment under load, and two nodes with it: files are written and synced one after the other, so those that
/// come back are the first ones, all whole, and `fsck` finds nothing. What the mount had said to be on nodes is there, and it goes on
/// to say so of later files while more are written. How far behind the nodes were is printed.
#[test]
fn the_machine_is_lost_again_and_again() {
    let rounds: usize = std::env::var("WEFT_RECOVER_ROUNDS").map_or(2, |text| text.parse().expect("a number"));
    let seed: u64 = std::env::var("WEFT_SEED").map_or(17, |text| text.parse().expect("a number"));
    println!("seed {seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let mut behind_ms = Vec::new();
    for round in 0..rounds {
        let sandbox = Sandbox::mounted("rs:4+2");
        let (is_over, synced) = (AtomicBool::new(false), Mutex::new(Vec::<Instant>::new()));
        let sampled_count = rng.random_range(1..20);
        let promised_count = std::thread::scope(|scope| {
            let writing = scope.spawn(|| {
                for number in 0.. {
                    let path = sandbox.file(&format!("f{number}"));
                    let written =
                        fs::write(&path, content(number % 20)).and_then(|()| fs::File::open(&path)?.sync_all());
                    if written.is_err() || is_over.load(Ordering::Relaxed) {
                        break;
                    }
                    synced.lock().expect("it has not panicked").push(Instant::now());
                }
            });
            // How many files were synced before a transaction, and how many of these nodes have.
            let (mut samples, mut promised_count) = (Vec::new(), 0);
            until("nodes have a file, and what came later", || {
                let count = synced.lock().expect("it has not panicked").len();
                samples.push((transaction(&sandbox), count));
                let upto = replicated(&sandbox);
                promised_count =
                    samples.iter().filter(|(last, _)| *last <= upto).map(|(_, count)| *count).max().unwrap_or(0);
                promised_count > 0 && samples.len() >= sampled_count
            });
            let process = Pid::from_raw(sandbox.mount_process().cast_signed()).expect("a process");
            kill_process(process, Signal::KILL).expect("killed");
            is_over.store(true, Ordering::Relaxed);
            let _ = sandbox.weft(["umount", "--force", &sandbox.mnt()]);
            writing.join().expect("it has ended");
            promised_count
        });
        let (killed, synced) = (Instant::now(), synced.into_inner().expect("it has not panicked"));
        let lost = rand::seq::index::sample(&mut rng, 6, 2).into_vec();
        println!("round {round}: nodes {lost:?} of 0..6 are lost after {} files", synced.len());
        lose_metadata(&sandbox);
        let (lost, left): (Vec<usize>, Vec<usize>) = (0..6).partition(|index| lost.contains(index));
        let name = |index: usize| format!("node{}", index + 1);
        lost.into_iter().for_each(|index| sandbox.wipe(&name(index)));
        let left: Vec<String> = left.into_iter().map(name).collect();
        recover_from(&sandbox, &left.iter().map(String::as_str).collect::<Vec<_>>());
        sandbox.mount();
        let names = fs::read_dir(sandbox.mnt()).expect("listed").count();
        let whole = (0..names.min(synced.len())).take_while(|number| {
            fs::read(sandbox.file(&format!("f{number}"))).is_ok_and(|found| found == content(number % 20))
        });
        let whole = whole.count();
        assert!(whole >= promised_count, "round {round}: nodes had {promised_count} files, and {whole} are back");
        // The last name may be of a file whose bytes were not committed yet.
        assert!(whole + 1 >= names, "round {round}: of {names} files the first {whole} are whole");
        behind_ms.push(synced.get(whole).map_or(0, |first_lost| killed.duration_since(*first_lost).as_millis()));
        sandbox.umount();
        sandbox.weft(["fsck", "meta.db"]).ok();
    }
    behind_ms.sort_unstable();
    println!("{rounds} rounds; ms from the first synced file that was lost to the kill: {behind_ms:?}");
}

/// What the last minute of a mount could not bring to nodes is only in the metadata, and `weft umount` says so.
#[test]
fn an_unmount_that_leaves_nodes_behind_says_so() {
    let sandbox = Sandbox::mounted("replica:2");
    let away = |from: &str, to: &str| {
        (1..=6).for_each(|number| {
            fs::rename(sandbox.path(&format!("{from}{number}")), sandbox.path(&format!("{to}{number}")))
                .expect("moved");
        });
    };
    away("node", "away");
    fs::create_dir(sandbox.file("late")).expect("made");
    let said = sandbox.weft(["umount", &sandbox.mnt()]).sentence();
    assert!(
        said.contains("the nodes lack the last changes of the metadata") && said.contains("mount it again"),
        "{said}"
    );
    away("away", "node");
    sandbox.mount();
    assert!(sandbox.file("late").is_dir());
    sandbox.umount();
}

/// What no mount has brought to the nodes' replica is listed by its segments.
#[test]
fn segments_that_the_replica_does_not_know_are_listed() {
    let sandbox = Sandbox::mounted("rs:4+2");
    write(&sandbox, 0);
    sandbox.umount();
    let mut ids = Vec::new();
    for number in 0..12 {
        fs::write(sandbox.path("late"), crate::content::bytes(100 + number, 70_000)).expect("written");
        sandbox.weft(["put", "meta.db", &sandbox.path("late"), &format!("/late{number}")]).ok();
        let info: serde_json::Value =
            serde_json::from_str(&sandbox.weft(["info", "--json", "meta.db", &format!("/late{number}")]).stdout)
                .expect("JSON");
        ids.push(info["segments"][0]["segment"].as_str().expect("an id").to_owned());
    }
    lose(&sandbox);
    let said = recover(&sandbox);
    assert!(said.contains("12 segments on the nodes are not in it") && said.contains("and 2 older ones"), "{said}");
    assert!(ids[2..].iter().all(|id| said.contains(&format!("{id}: "))) && !said.contains(&ids[0]), "{said}");
    assert!(said.contains(" of rs:4+2, made ") && said.contains("4 shards"), "{said}");
    lose_metadata(&sandbox);
    let output =
        sandbox.command(["recover", "--json"].iter().chain(&LEFT).chain(&["meta.db"])).output().expect("weft runs");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let listed = report["restored"]["unknown_segments"].as_array().expect("a list");
    let listed: Vec<&str> = listed.iter().map(|unknown| unknown["segment"].as_str().expect("an id")).collect();
    ids.reverse();
    assert_eq!(listed, ids);
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
