//! What is said of a volume is true: after damage, and of nodes that are elsewhere, given up, back again, or half deleted.

use crate::sandbox::{Said, Sandbox, until};
use std::fs;
use std::path::{Path, PathBuf};

const CHECK_BYTES: usize = 8;
const FRAME_BYTES: usize = 4096 + CHECK_BYTES;
const HEADER_BYTES: usize = 256;

fn content(length: usize) -> Vec<u8> {
    crate::content::bytes(0, length)
}

fn json(said: Said) -> serde_json::Value {
    serde_json::from_str(&said.stdout).unwrap_or_else(|error| panic!("{error}: {}{}", said.stdout, said.stderr))
}

fn status(sandbox: &Sandbox) -> (i32, serde_json::Value) {
    let said = sandbox.weft(["status", "--json", "meta.db"]);
    (said.code.expect("a status"), json(said))
}

/// A volume of six nodes with a file of 3 MB in one segment, and others; not mounted.
fn volume() -> (Sandbox, Vec<u8>) {
    let sandbox = Sandbox::with_volume("rs:4+2");
    let data = content(3 << 20);
    fs::write(sandbox.path("long"), &data).expect("written");
    fs::create_dir(sandbox.path("small")).expect("made");
    for number in 0..10 {
        fs::write(sandbox.path(&format!("small/{number}")), content(50_000 + number)).expect("written");
    }
    sandbox.weft(["put", "meta.db", "long", "/long"]).ok();
    sandbox.weft(["put", "meta.db", "small", "/small"]).ok();
    (sandbox, data)
}

/// The files of the shards of `/long`, by index.
fn shards(sandbox: &Sandbox) -> Vec<PathBuf> {
    let info = json(sandbox.weft(["info", "--json", "meta.db", "/long"]));
    let [segment] = &info["segments"].as_array().expect("a list")[..] else { panic!("one segment: {info}") };
    let shards = segment["shards"].as_array().expect("a list");
    shards.iter().map(|shard| shard["file"].as_str().expect("a file").into()).collect()
}

fn flip(shard: &Path, frame: usize) {
    let mut bytes = fs::read(shard).expect("read");
    bytes[HEADER_BYTES + frame * FRAME_BYTES + 77] ^= 2;
    fs::write(shard, bytes).expect("written");
}

fn gets_all(sandbox: &Sandbox, data: &[u8]) {
    let _ = fs::remove_file(sandbox.path("got"));
    sandbox.weft(["get", "meta.db", "/long", "got"]).ok();
    assert!(fs::read(sandbox.path("got")).expect("read") == data, "it differs");
}

#[test]
fn finding_09_three_flipped_bits_in_different_stripes_are_read_and_mended() {
    for command in [&["repair", "--verify", "meta.db"][..], &["scrub", "meta.db"][..]] {
        let (sandbox, data) = volume();
        for (shard, frame) in shards(&sandbox).iter().zip([3, 40, 100]) {
            flip(shard, frame);
        }
        gets_all(&sandbox, &data);
        sandbox.weft(command).ok();
        let (code, status) = status(&sandbox);
        assert_eq!((code, status["survives_losses"].as_u64()), (0, Some(2)), "{status}");
        gets_all(&sandbox, &data);
        assert_eq!(sandbox.weft(["scrub", "meta.db"]).code, Some(0));
    }
}

#[test]
fn finding_09_what_is_lost_counts_in_every_verdict() {
    let (sandbox, data) = volume();
    for shard in &shards(&sandbox)[..3] {
        flip(shard, 20);
    }
    assert_eq!(sandbox.weft(["scrub", "meta.db"]).code, Some(2));
    let is_told = |what: &str, code: Option<i32>, said: &str| {
        assert_eq!(code, Some(3), "{what}: {said}");
        assert!(said.contains("LOST") && said.contains("/long: bytes "), "{what}: {said}");
        assert!(!said.contains("every file survives"), "{what}: {said}");
    };
    for command in
        [&["status", "meta.db"][..], &["repair", "meta.db"], &["repair", "--verify", "meta.db"], &["status", "meta.db"]]
    {
        let said = sandbox.weft(command);
        is_told(command[0], said.code, &said.stdout);
    }
    let (_, status) = status(&sandbox);
    let lost = status["tally"]["lost_bytes"]["/long"].as_array().expect("a list").clone();
    let bytes: u64 = lost.iter().map(|run| run["end"].as_u64().unwrap() - run["start"].as_u64().unwrap()).sum();
    assert_eq!((status["survives_losses"].as_u64(), lost.len(), bytes), (None, 3, 3 * 4096), "{status}");
    let info = sandbox.weft(["info", "meta.db", "/long"]).ok();
    assert!(info.contains("CANNOT be read completely now") && info.contains("LOST of it: bytes "), "{info}");
    assert!(!sandbox.weft(["get", "meta.db", "/long", "got"]).success);
    // The others are as safe as ever, and whoever puts the file there again is done with it.
    sandbox.weft(["rm", "meta.db", "/long"]).ok();
    sandbox.weft(["put", "meta.db", "long", "/long"]).ok();
    sandbox.weft(["repair", "meta.db"]).ok();
    assert_eq!(sandbox.weft(["status", "meta.db"]).code, Some(0));
    gets_all(&sandbox, &data);
}

#[test]
fn finding_19_a_node_that_was_moved_is_found_and_attached_again() {
    let (sandbox, data) = volume();
    let node = |name: &str| sandbox.path(name);
    fs::rename(node("node3"), node("third")).expect("moved");
    let said = sandbox.weft(["status", "meta.db"]);
    assert_eq!(said.code, Some(2));
    let hint = format!("node 3 is at {} now: weft node move meta.db 3", node("third"));
    assert!(said.stdout.contains(&hint), "{}", said.stdout);
    assert!(sandbox.weft(["node", "list", "meta.db"]).ok().contains(&hint));
    // Only the very node is taken.
    let refused = sandbox.weft(["node", "move", "meta.db", "3", &node("node4")]).sentence();
    assert!(refused.contains("not"), "{refused}");
    sandbox.weft(["node", "move", "meta.db", "3", &node("nowhere")]).sentence();
    sandbox.weft(["node", "move", "meta.db", "3", &node("third")]).ok();
    assert_eq!(status(&sandbox).0, 0);
    sandbox.weft(["node", "move", "meta.db", "3", &node("third")]).sentence();
    gets_all(&sandbox, &data);
}

#[test]
fn finding_30_two_nodes_that_were_swapped_are_used_where_they_are() {
    let (sandbox, data) = volume();
    let node = |name: &str| sandbox.path(name);
    fs::rename(node("node1"), node("aside")).expect("moved");
    fs::rename(node("node2"), node("node1")).expect("moved");
    fs::rename(node("aside"), node("node2")).expect("moved");
    let said = sandbox.weft(["status", "meta.db"]);
    assert_eq!(said.code, Some(0), "{}", said.stdout);
    assert!(said.stdout.contains("node 1 is at") && said.stdout.contains("node 2 is at"), "{}", said.stdout);
    gets_all(&sandbox, &data);
    let said = sandbox.weft(["node", "move", "meta.db", "1", &node("node2")]).ok();
    assert!(said.contains("Node 2, whose place this was, is at"), "{said}");
    assert!(!sandbox.weft(["status", "meta.db"]).ok().contains("weft node move"));
    gets_all(&sandbox, &data);
}

#[test]
fn finding_20_giving_up_more_than_the_margin_wants_force_and_what_comes_back_is_taken_back() {
    let (sandbox, data) = volume();
    let (node, away) = (|n: usize| sandbox.path(&format!("node{n}")), |n: usize| sandbox.path(&format!("away/{n}")));
    fs::create_dir(sandbox.path("away")).expect("made");
    (1..=3).for_each(|n| fs::rename(node(n), away(n)).expect("moved"));
    let all = ["--assume-lost", "1", "--assume-lost", "2", "--assume-lost", "3"];
    let refused = sandbox.weft([&["repair", "meta.db"][..], &all].concat()).sentence();
    assert!(refused.contains("would LOSE") && refused.contains("--force"), "{refused}");
    assert_eq!(status(&sandbox).1["tally"]["lost_count"], 0);
    // Two may be given up, and then the third not.
    sandbox.weft(["repair", "meta.db", "--assume-lost", "1"]);
    sandbox.weft(["node", "replace", "meta.db", "1", &sandbox.path("new1")]).ok();
    sandbox.weft(["node", "replace", "meta.db", "2", &sandbox.path("new2")]).ok();
    let refused = sandbox.weft(["node", "replace", "meta.db", "3", &sandbox.path("new3")]).sentence();
    assert!(refused.contains("would LOSE"), "{refused}");
    sandbox.weft(["node", "replace", "--force", "meta.db", "3", &sandbox.path("new3")]).ok();
    let (code, lost) = status(&sandbox);
    assert_eq!((code, lost["tally"]["lost_count"].as_u64() > Some(0)), (3, true), "{lost}");
    // They come back: verdicts follow at once, ...
    (1..=3).for_each(|n| fs::rename(away(n), node(n)).expect("moved"));
    let (code, back) = status(&sandbox);
    assert_eq!((code, back["tally"]["lost_count"].as_u64()), (0, Some(0)), "{back}");
    gets_all(&sandbox, &data);
    // ... and they are taken back.
    let names: Vec<String> =
        back["nodes"].as_array().expect("nodes").iter().map(|n| n["name"].as_str().unwrap().into()).collect();
    let lost: Vec<&String> = names.iter().filter(|name| name.contains(".lost-")).collect();
    assert_eq!(lost.len(), 3, "{names:?}");
    sandbox.weft(["node", "restore", "meta.db", lost[0]]).ok();
    sandbox.weft(["node", "restore", "meta.db", lost[0]]).sentence();
    sandbox.weft(["repair", "meta.db"]).ok();
    let (code, whole) = status(&sandbox);
    assert_eq!((code, whole["survives_losses"].as_u64()), (0, Some(2)), "{whole}");
    gets_all(&sandbox, &data);
}

#[test]
fn finding_20_a_node_assumed_lost_that_answers_again_is_taken_back_by_the_mount() {
    let (sandbox, data) = volume();
    sandbox.mount();
    fs::rename(sandbox.path("node1"), sandbox.path("away")).expect("moved");
    sandbox.weft(["repair", "meta.db", "--assume-lost", "1"]);
    let state = |sandbox: &Sandbox| {
        let (_, status) = status(sandbox);
        let nodes = status["nodes"].as_array().expect("nodes").clone();
        nodes.iter().find(|node| node["name"] == "1").expect("node 1")["state"].clone()
    };
    assert_eq!(state(&sandbox), "lost");
    fs::rename(sandbox.path("away"), sandbox.path("node1")).expect("moved");
    until("it is taken back", || state(&sandbox) == "active");
    until("it is whole", || status(&sandbox).0 == 0);
    assert!(fs::read(sandbox.file("long")).expect("read") == data);
}

#[test]
fn finding_30_a_folder_deleted_but_for_some_shards_is_filled_again() {
    let (sandbox, data) = volume();
    sandbox.mount();
    // The mount has looked at it.
    assert!(fs::read(sandbox.file("long")).expect("read") == data);
    until("it is cared for", || sandbox.weft(["care", "status", "meta.db"]).stdout.contains("cares for the volume"));
    let folder = PathBuf::from(sandbox.path("node3"));
    let mut subfolders: Vec<PathBuf> = fs::read_dir(&folder)
        .expect("listed")
        .map(|entry| entry.expect("an entry").path())
        .filter(|it| it.is_dir())
        .collect();
    // As `rm -rf` leaves it where shards are stored meanwhile.
    subfolders.pop().expect("a subfolder");
    fs::remove_file(folder.join("weft-node.json")).expect("removed");
    subfolders.iter().for_each(|it| fs::remove_dir_all(it).expect("removed"));
    until("it is a node again", || folder.join("weft-node.json").exists());
    until("it is whole", || {
        let (code, status) = status(&sandbox);
        code == 0 && status["survives_losses"] == 2
    });
    sandbox.umount();
    assert_eq!(sandbox.weft(["scrub", "meta.db"]).code, Some(0));
}
