//! A volume that nobody tells to be repaired: the worker in a mount, or beside it, notices and mends.

use crate::sandbox::caring::Caring;
use crate::sandbox::served::Served;
use crate::sandbox::{Sandbox, SetAtEnd, any_port, until};
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

fn content(number: usize) -> Vec<u8> {
    crate::content::bytes(number as u64, 400_000 + number * 777)
}

fn fill(sandbox: &Sandbox, files: std::ops::Range<usize>) {
    for number in files {
        fs::write(sandbox.file(&number.to_string()), content(number)).expect("written");
    }
    // Everything is on the nodes when a mount has ended.
    sandbox.umount();
    sandbox.mount();
}

fn check(sandbox: &Sandbox, files: std::ops::Range<usize>) {
    for number in files {
        assert!(fs::read(sandbox.file(&number.to_string())).expect("read") == content(number), "{number} differs");
    }
}

fn json(sandbox: &Sandbox, arguments: &[&str]) -> serde_json::Value {
    serde_json::from_str(&sandbox.weft(arguments).stdout).expect("JSON")
}

fn is_whole(sandbox: &Sandbox) -> bool {
    let status = json(sandbox, &["status", "--json", "meta.db"]);
    let tally = &status["tally"];
    status["survives_losses"] == 2
        && tally["degraded_count"] == 0
        && tally["misplaced_shard_count"] == 0
        && status["marked_count"] == 0
}

fn nodes(sandbox: &Sandbox) -> Vec<(String, String)> {
    let listed = json(sandbox, &["node", "list", "--json", "meta.db"]);
    let text = |value: &serde_json::Value| value.as_str().expect("text").to_owned();
    listed.as_array().expect("a list").iter().map(|node| (text(&node["name"]), text(&node["id"]))).collect()
}

#[test]
fn a_mount_rebuilds_a_wiped_folder_unasked() {
    let sandbox = Sandbox::mounted("rs:4+2");
    fill(&sandbox, 0..30);
    let before = nodes(&sandbox);
    sandbox.wipe("node3");
    let took = until("a new node is whole", || nodes(&sandbox) != before && is_whole(&sandbox));
    println!("wiped, and whole again {took:?} later");
    let after = nodes(&sandbox);
    assert_eq!(after.len(), 6, "the old one is forgotten: {after:?}");
    let said = || sandbox.weft(["care", "status", "meta.db"]).ok();
    // The worker says so at its next look.
    until("it says so", || said().contains("cares for the volume") && said().contains("repair, in"));
    check(&sandbox, 0..30);
    sandbox.umount();
    // The folder is a node as any other: two others may go.
    for number in [1, 2] {
        sandbox.wipe(&format!("node{number}"));
    }
    sandbox.mount();
    check(&sandbox, 0..30);
    sandbox.umount();
    let said = sandbox.weft(["care", "status", "meta.db"]).ok();
    assert!(said.contains("no worker has cared for the volume since"), "{said}");
}

/// Two folders of six go at once while somebody writes and reads; there is nowhere to rebuild to but in their place.
fn two_folders_go_at_once(sandbox: &Sandbox) {
    fill(sandbox, 0..10);
    let before = nodes(sandbox);
    let is_over = AtomicBool::new(false);
    let written = std::thread::scope(|scope| {
        let busy = scope.spawn(|| {
            (10..).take_while(|number| *number < 20 || !is_over.load(Ordering::Relaxed)).fold(0, |_, number| {
                fs::write(sandbox.file(&number.to_string()), content(number % 50)).expect("written");
                check(sandbox, 0..10);
                number
            })
        });
        let end = SetAtEnd(&is_over);
        ["node2", "node4"].iter().for_each(|folder| sandbox.wipe(folder));
        let is_new = || nodes(sandbox).iter().filter(|node| !before.contains(node)).count() == 2;
        let took = until("two new nodes are whole", || is_new() && is_whole(sandbox));
        println!("two wiped, and whole again {took:?} later");
        drop(end);
        busy.join().expect("no error")
    });
    sandbox.umount();
    until("all is whole", || is_whole(sandbox));
    let names: Vec<String> = nodes(sandbox).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["1", "2", "3", "4", "5", "6"]);
    sandbox.weft(["scrub", "meta.db"]).ok();
    sandbox.weft(["fsck", "meta.db"]).ok();
    for number in [1, 6] {
        sandbox.wipe(&format!("node{number}"));
    }
    sandbox.mount();
    check(sandbox, 0..10);
    for number in 10..=written {
        assert!(fs::read(sandbox.file(&number.to_string())).expect("read") == content(number % 50), "{number} differs");
    }
    sandbox.umount();
}

#[test]
fn two_wiped_folders_of_six_are_rebuilt_in_their_place() {
    two_folders_go_at_once(&Sandbox::mounted("rs:4+2"));
}

#[test]
fn two_workers_that_see_the_same_folders_wiped_make_one_new_node_of_each() {
    let sandbox = Sandbox::mounted("rs:4+2");
    let _beside = Caring::of(sandbox.command(["care", "meta.db"]));
    two_folders_go_at_once(&sandbox);
}

#[test]
fn a_folder_that_was_moved_away_is_not_taken_for_wiped() {
    let sandbox = Sandbox::mounted("rs:4+2");
    fill(&sandbox, 0..5);
    let before = nodes(&sandbox);
    fs::rename(sandbox.path("node3"), sandbox.path("elsewhere")).expect("moved");
    until("it is missed", || sandbox.weft(["care", "status", "meta.db"]).ok().contains("node 3 cannot be used now"));
    // Longer than a wiped one is waited for: only time shows that nothing happens.
    std::thread::sleep(Duration::from_secs(6));
    fs::rename(sandbox.path("elsewhere"), sandbox.path("node3")).expect("moved back");
    until("it is welcome", || !sandbox.weft(["care", "status", "meta.db"]).ok().contains("node 3"));
    assert_eq!(nodes(&sandbox), before);
    sandbox.umount();
}

#[test]
fn a_node_is_emptied_and_forgotten_unasked() {
    let sandbox = Sandbox::mounted("rs:4+2");
    sandbox.weft(["node", "add", "meta.db", "7", &sandbox.path("node7")]).ok();
    fill(&sandbox, 0..10);
    assert!(sandbox.weft(["node", "drain", "meta.db", "7", "--undo"]).sentence().contains("not draining"));
    sandbox.weft(["node", "drain", "meta.db", "2"]).ok();
    until("it is forgotten", || nodes(&sandbox).iter().all(|(name, _)| name != "2"));
    assert!(is_whole(&sandbox));
    sandbox.wipe("node2");
    check(&sandbox, 0..10);
    sandbox.umount();
}

/// Three workers over daemons; one daemon is killed and given up, workers are killed, and what is rebuilt is rebuilt once.
#[test]
fn workers_share_the_work_and_take_over_from_one_another() {
    let sandbox = Sandbox::empty();
    sandbox.weft(["format", "--policy", "rs:4+2", "meta.db"]).ok();
    let mut daemons = Vec::new();
    for number in 1..=8 {
        let folder = sandbox.path(&format!("served{number}"));
        fs::create_dir(&folder).expect("made");
        let served = Served::start(&sandbox, &folder, &any_port(), None);
        sandbox.weft(["node", "add", "meta.db", &number.to_string(), &served.url]).ok();
        daemons.push(served);
    }
    for number in 0..20 {
        fs::write(sandbox.path("file"), content(number)).expect("written");
        sandbox.weft(["put", "meta.db", &sandbox.path("file"), &format!("/{number}")]).ok();
    }
    let care = || sandbox.command(["care", "meta.db", "--give-up-after", "3s", "--scrub-every", "0"]);
    let mut workers: Vec<Caring> = (0..3).map(|_| Caring::of(care())).collect();
    until("somebody cares", || sandbox.weft(["care", "status", "meta.db"]).ok().contains("cares for the volume"));
    daemons[0].kill();
    let took = until("whole without it", || is_whole(&sandbox));
    println!("killed, given up after 3 s, and whole again {took:?} later");
    // The worker that holds the lease may be any: two die in the middle of the next repair, or beside it.
    daemons[1].kill();
    until("it is given up", || {
        let status = json(&sandbox, &["status", "--json", "meta.db"]);
        let mut nodes = status["nodes"].as_array().expect("nodes").iter();
        nodes.any(|node| node["name"] == "2" && node["is_given_up"] == true)
    });
    workers.truncate(1);
    until("whole without two", || is_whole(&sandbox));
    let listed = nodes(&sandbox);
    assert_eq!(listed.len(), 8, "given up is not forgotten: {listed:?}");

    // One comes back, at another time: it is a node as before, and what was rebuilt elsewhere is not rebuilt again.
    let folder = sandbox.path("served1");
    daemons[0] = Served::start(&sandbox, &folder, &daemons[0].address, None);
    until("it is welcome", || !sandbox.weft(["care", "status", "meta.db"]).ok().contains("node 1"));
    workers.remove(0).end();
    for number in 0..20 {
        sandbox.weft(["get", "meta.db", &format!("/{number}"), &sandbox.path("back")]).ok();
        assert!(fs::read(sandbox.path("back")).expect("read") == content(number));
        fs::remove_file(sandbox.path("back")).expect("removed");
    }
    sandbox.weft(["fsck", "meta.db"]).ok();
}
