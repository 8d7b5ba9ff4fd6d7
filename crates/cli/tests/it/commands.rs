//! Commands that work on a volume, mounted or not.

use crate::sandbox::Sandbox;
use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::process::Stdio;

/// Puts, lists, gets and removes; the same whether mounted or not.
fn round_trip(sandbox: &Sandbox) {
    let source = sandbox.path("source");
    fs::create_dir_all(format!("{source}/sub")).expect("made");
    let bytes = crate::content::bytes(0, 2_500_000);
    fs::write(format!("{source}/large"), &bytes).expect("written");
    fs::write(format!("{source}/sub/tool"), "#!/bin/sh\n").expect("written");
    fs::set_permissions(format!("{source}/sub/tool"), Permissions::from_mode(0o750)).expect("set");
    std::os::unix::fs::symlink("sub/tool", format!("{source}/link")).expect("linked");

    sandbox.weft(["put", "meta.db", "source", "/"]).ok();
    assert_eq!(sandbox.weft(["ls", "meta.db"]).ok(), "source\n");
    assert_eq!(sandbox.weft(["ls", "meta.db", "/source"]).ok(), "large\nlink\nsub\n");
    let long = sandbox.weft(["ls", "-l", "meta.db", "/source/sub"]).ok();
    assert!(long.starts_with("-rwxr-x---") && long.contains(" 10 "), "{long}");
    let json = sandbox.weft(["ls", "--json", "meta.db", "/source"]).ok();
    assert!(json.contains("\"size\": 2500000") && json.contains("\"kind\": \"symlink\""), "{json}");

    sandbox.weft(["get", "meta.db", "/source", "copy"]).ok();
    let at = |folder: &str, name: &str| sandbox.path(&format!("{folder}/{name}"));
    assert_eq!(fs::read(at("copy", "large")).expect("read"), bytes);
    assert_eq!(fs::read_link(at("copy", "link")).expect("a link").to_str(), Some("sub/tool"));
    let (old, new) = (fs::metadata(at("source", "sub/tool")), fs::metadata(at("copy", "sub/tool")));
    let (old, new) = (old.expect("there"), new.expect("there"));
    assert_eq!((old.mode(), old.mtime(), old.mtime_nsec()), (new.mode(), new.mtime(), new.mtime_nsec()));
    sandbox.wipe("copy");

    let mut put = sandbox.command(["put", "meta.db", "-", "/stdin"]).stdin(Stdio::piped()).spawn().expect("weft runs");
    put.stdin.take().expect("piped").write_all(b"from a pipe").expect("written");
    assert!(put.wait().expect("it ends").success());
    assert_eq!(sandbox.weft(["get", "meta.db", "/stdin", "-"]).ok(), "from a pipe");

    assert!(sandbox.weft(["rm", "meta.db", "/source"]).sentence().contains("-r"));
    sandbox.weft(["rm", "-r", "meta.db", "/source", "/stdin"]).ok();
    assert_eq!(sandbox.weft(["ls", "meta.db"]).ok(), "");
}

fn policies(sandbox: &Sandbox) {
    sandbox.weft(["put", "meta.db", "node1/weft-node.json", "/before"]).ok();
    assert_eq!(sandbox.weft(["policy", "get", "meta.db"]).ok(), "rs:4+2\n");
    sandbox.weft(["policy", "set", "meta.db", "/", "replica:3"]).ok();
    assert_eq!(sandbox.weft(["policy", "get", "meta.db", "/"]).ok(), "replica:3\n");
    assert_eq!(sandbox.weft(["policy", "get", "meta.db", "/before"]).ok(), "rs:4+2\n");
    let json = sandbox.weft(["policy", "get", "--json", "meta.db"]).ok();
    assert!(json.contains("\"tolerance\": 2") && json.contains("\"nodes\": 3"), "{json}");
    assert!(sandbox.weft(["policy", "set", "meta.db", "/before", "rs:4+2"]).sentence().contains("is not a directory"));
    sandbox.weft(["policy", "set", "meta.db", "/", "rs:4+2"]).ok();
    sandbox.weft(["rm", "meta.db", "/before"]).ok();
    sizes(sandbox);
}

/// Sizes of one's choice hold for what is written from then on, stay with another code, and are taken back.
fn sizes(sandbox: &Sandbox) {
    let set = ["policy", "set", "meta.db", "/", "rs:4+2"];
    sandbox.weft([&set[..], &["--segment", "1M", "--cell", "8K"]].concat()).ok();
    assert_eq!(sandbox.weft(["policy", "get", "meta.db"]).ok(), "rs:4+2 segment 1MiB cell 8KiB\n");
    fs::write(sandbox.path("three"), vec![7; 3 << 20]).expect("written");
    sandbox.weft(["put", "meta.db", &sandbox.path("three"), "/three"]).ok();
    let cells = || {
        let info = sandbox.weft(["info", "--json", "meta.db", "/three"]).ok();
        let info: serde_json::Value = serde_json::from_str(&info).expect("JSON");
        let segments = info["segments"].as_array().expect("segments").clone();
        segments.iter().map(|segment| segment["cell_bytes"].as_u64().expect("a number")).collect::<Vec<_>>()
    };
    assert_eq!(cells(), [8192; 3]);
    sandbox.weft(["policy", "set", "meta.db", "/", "replica:3"]).ok();
    let json = sandbox.weft(["policy", "get", "--json", "meta.db"]).ok();
    assert!(json.contains("\"segment_bytes\": 1048576") && json.contains("\"cell_bytes\": 8192"), "{json}");
    sandbox.weft([&set[..], &["--segment", "default", "--cell", "default"]].concat()).ok();
    assert_eq!(sandbox.weft(["policy", "get", "meta.db"]).ok(), "rs:4+2\n");
    sandbox.weft(["rm", "meta.db", "/three"]).ok();
    sandbox.weft(["put", "meta.db", &sandbox.path("three"), "/three"]).ok();
    assert_eq!(cells(), [65_536]);
    sandbox.weft(["rm", "meta.db", "/three"]).ok();
    let refused = sandbox.weft([&set[..], &["--segment", "65M"]].concat());
    assert!(!refused.success && refused.stderr.contains("1MiB to 64MiB"), "{}", refused.stderr);
}

#[test]
fn files_go_in_and_out_without_a_mount() {
    let sandbox = Sandbox::with_volume("rs:4+2");
    round_trip(&sandbox);
    policies(&sandbox);
}

#[test]
fn files_go_in_and_out_beside_a_mount() {
    let sandbox = Sandbox::mounted("rs:4+2");
    round_trip(&sandbox);
    policies(&sandbox);
    sandbox.umount();
}

#[test]
fn nodes_are_listed_replaced_and_removed() {
    let sandbox = Sandbox::with_volume("rs:2+1");
    let list = sandbox.weft(["node", "list", "meta.db"]).ok();
    assert_eq!(list.lines().count(), 7);
    assert!(list.lines().skip(1).all(|line| line.contains("active")), "{list}");
    fs::write(sandbox.path("file"), "x").expect("written");
    // Nodes that are drained take nothing, so 1, 2 and 3 get the shards.
    for drained in ["4", "5", "6"] {
        sandbox.weft(["node", "drain", "meta.db", drained]).ok();
    }
    sandbox.weft(["put", "meta.db", "file", "/0"]).ok();
    for drained in ["4", "5", "6"] {
        sandbox.weft(["node", "drain", "meta.db", drained, "--undo"]).ok();
    }

    sandbox.wipe("node3");
    let list = sandbox.weft(["node", "list", "meta.db"]).ok();
    assert!(list.contains("active, away"), "{list}");
    let said = sandbox.weft(["node", "replace", "meta.db", "3", "node3"]).ok();
    assert!(said.contains("weft repair"), "{said}");
    let list = sandbox.weft(["node", "list", "meta.db"]).ok();
    assert!(list.contains("3.lost-") && list.lines().count() == 8, "{list}");
    let lost = list.lines().find_map(|line| line.split(' ').next().filter(|name| name.starts_with("3.lost-")));
    let sentence = sandbox.weft(["node", "replace", "meta.db", lost.expect("a name"), "other"]).sentence();
    assert!(sentence.contains("replaced already") && sentence.contains("weft repair"), "{sentence}");
    let sentence = sandbox.weft(["node", "remove", "meta.db", "1"]).sentence();
    assert!(sentence.contains("holds shards") && sentence.contains("weft node replace"), "{sentence}");
    // The new one has nothing yet, and three of the six are enough.
    sandbox.weft(["node", "remove", "meta.db", "3"]).ok();
    assert_eq!(sandbox.weft(["get", "meta.db", "/0", "-"]).ok(), "x");
    let json = sandbox.weft(["node", "list", "--json", "meta.db"]).ok();
    assert!(json.contains("\"state\": \"lost\""), "{json}");
}

#[test]
fn a_node_that_answers_is_replaced_without_giving_anything_up() {
    let sandbox = Sandbox::with_volume("raid5:6");
    sandbox.weft(["put", "meta.db", "meta.db", "/file"]).ok();
    sandbox.weft(["get", "meta.db", "/file", "before"]).ok();
    sandbox.weft(["node", "set", "meta.db", "2", "--weight", "1234567"]).ok();
    for number in ["1", "2", "3"] {
        let said = sandbox.weft(["node", "replace", "meta.db", number, &format!("new{number}")]).ok();
        assert_eq!(said.contains("node set meta.db 2 --weight 1234567"), number == "2", "{said}");
        assert!(said.contains(&format!("/node{number}, until")) && said.contains("weft repair"), "{said}");
    }
    // Three at once, of a code that can lose one.
    assert!(sandbox.weft(["status", "meta.db"]).stdout.starts_with("every file survives the loss of any 1 more node"));
    let said = sandbox.weft(["repair", "meta.db"]).ok();
    assert_eq!(said.matches("is forgotten").count(), 3, "{said}");
    for number in ["1", "2", "3"] {
        sandbox.wipe(&format!("node{number}"));
    }
    assert_eq!(sandbox.weft(["status", "meta.db"]).code, Some(0));
    sandbox.weft(["get", "meta.db", "/file", "after"]).ok();
    assert!(fs::read(sandbox.path("before")).expect("read") == fs::read(sandbox.path("after")).expect("read"));
}

#[test]
fn quickstart_makes_mounts_and_mounts_again() {
    let sandbox = Sandbox::empty();
    let mnt = sandbox.path("try/mnt");
    let said = sandbox.weft(["quickstart", "try"]).ok();
    for part in ["try/mnt", "any 2 of them", "cp -r", "rm -rf try/nodes/2 try/nodes/4", "care status", "umount"] {
        assert!(said.contains(part), "{said}");
    }
    fs::write(format!("{mnt}/file"), "kept").expect("written");
    let said = sandbox.weft(["quickstart", "try"]).ok();
    assert!(said.contains("already") && said.contains("mounted at"), "{said}");
    sandbox.weft(["umount", "try/mnt"]).ok();
    sandbox.weft(["quickstart", "try"]).ok();
    assert_eq!(fs::read(format!("{mnt}/file")).expect("read"), b"kept");
    sandbox.weft(["umount", "try/mnt"]).ok();
}

#[test]
fn codes_are_listed_shown_and_checked() {
    let sandbox = Sandbox::empty();
    let list = sandbox.weft(["codes", "list"]).ok();
    assert!(list.ends_with("portable.\n"), "the kernels of this machine come last: {list}");
    for family in ["replica", "raid5", "raid6", "rs"] {
        assert!(list.contains(family), "{list}");
    }
    assert!(sandbox.weft(["codes", "list", "--json"]).ok().contains("\"name\": \"rs\""));
    let shown = sandbox.weft(["codes", "show", "rs:4+2"]).ok();
    assert!(shown.contains("needs 6 nodes") && shown.contains("1.50 bytes"), "{shown}");
    assert!(sandbox.weft(["codes", "show", "--json", "raid6:6"]).ok().contains("\"tolerance\": 2"));
    let shown = sandbox.weft(["codes", "show", "embr:n=4,k=2", "--svg", "layout.svg"]).ok();
    assert!(shown.contains("M2  M4   C0   C0'") && shown.contains("C0 = M0 + M1 + M2 + M3 + M4"), "{shown}");
    assert!(fs::read_to_string(sandbox.path("layout.svg")).expect("drawn").contains(">C0'</text>"));
    let checked = sandbox.weft(["codes", "check", "rs:4+2", "msbasic:4"]).ok();
    assert!(checked.contains("2 lost: 15 of 15") && checked.contains("keeps its promise"), "{checked}");
    assert!(checked.contains("3 lost: 52 of 56 patterns, all of them, decoded, which is not promised"), "{checked}");
    assert!(sandbox.weft(["codes", "check", "--json", "raid5:3"]).ok().contains("\"keeps_its_promise\": true"));
}

#[test]
fn graphs_are_searched_and_used() {
    let sandbox = Sandbox::empty();
    let search = ["codes", "search-ldpc", "-n", "4", "-m", "4", "--budget", "500"];
    let found = sandbox.weft(search).ok();
    assert_eq!(found, sandbox.weft(search).ok());
    let code = found.lines().next().expect("a code");
    assert!(code.starts_with("ldpc:4+4:"), "{found}");
    assert!(sandbox.weft(["codes", "check", code]).ok().contains("keeps its promise"));
    fs::write(sandbox.path("graph"), "3+2 # a path\n0 1\n1 2\n").expect("written");
    assert!(sandbox.weft(["codes", "show", "ldpc:@graph"]).ok().contains("ldpc:3+2:3,6"));
}

#[test]
fn any_directory_is_measured() {
    let sandbox = Sandbox::empty();
    let said = sandbox.weft(["bench", "--size-mib", "1", "--files", "10", "mnt"]).ok();
    assert!(said.contains("fsync") && said.contains("MiB/s"), "{said}");
    assert!(fs::read_dir(sandbox.mnt()).expect("listed").next().is_none(), "nothing is left");
}

#[test]
fn holes_stay_holes() {
    const BYTES: u64 = 64 << 20;
    let sandbox = Sandbox::with_volume("rs:4+2");
    let file = fs::File::create(sandbox.path("sparse")).expect("made");
    file.set_len(BYTES).expect("sized");
    file.write_all_at(b"an island", 33 << 20).expect("written");
    sandbox.weft(["put", "meta.db", "sparse", "/"]).ok();
    sandbox.weft(["get", "meta.db", "/sparse", "copy"]).ok();
    let copy = fs::metadata(sandbox.path("copy")).expect("there");
    assert_eq!(copy.len(), BYTES);
    assert!(copy.blocks() * 512 < BYTES / 8, "{} blocks", copy.blocks());
    assert!(fs::read(sandbox.path("sparse")).expect("read") == fs::read(sandbox.path("copy")).expect("read"));
    let status: serde_json::Value =
        serde_json::from_str(&sandbox.weft(["status", "--json", "meta.db"]).ok()).expect("JSON");
    assert!(status["live_bytes"].as_u64().expect("a number") < BYTES / 8, "{status}");
}

#[test]
fn what_was_just_written_is_known_at_once() {
    let sandbox = Sandbox::mounted("rs:4+2");
    for number in 0..20 {
        fs::write(sandbox.file(&format!("new{number}")), "x").expect("written");
        let info = sandbox.weft(["info", "meta.db", &format!("/new{number}")]).ok();
        assert!(info.contains("size 1 B"), "{info}");
    }
    sandbox.umount();
}

#[test]
fn shards_that_could_not_be_read_are_told_by_the_status() {
    let sandbox = Sandbox::with_volume("rs:4+2");
    sandbox.weft(["put", "meta.db", "meta.db", "/file"]).ok();
    assert_eq!(sandbox.weft(["scrub", "meta.db"]).code, Some(0));
    fs::rename(sandbox.path("node3"), sandbox.path("away")).expect("moved");
    for command in ["status", "scrub", "repair"] {
        assert_eq!(sandbox.weft([command, "meta.db"]).code, Some(2), "{command}");
    }
    fs::rename(sandbox.path("away"), sandbox.path("node3")).expect("moved back");
    assert_eq!(sandbox.weft(["scrub", "meta.db"]).code, Some(0));
}

#[test]
fn a_node_is_limited_and_drained_and_set() {
    let sandbox = Sandbox::with_volume("replica:3");
    let node = |arguments: &[&str]| sandbox.weft(["node"].iter().chain(arguments));
    let said = node(&["limit", "meta.db", "1", "--bwlimit", "1M", "--requests", "2"]).ok();
    assert!(said.contains("1.0 MiB/s and 2 requests"), "{said}");
    assert!(node(&["list", "meta.db"]).ok().contains("1: limited to 1.0 MiB/s"));
    node(&["limit", "meta.db", "1", "--bwlimit", "none", "--requests", "none"]).ok();
    assert!(!node(&["list", "meta.db"]).ok().contains("limited to"));
    assert!(node(&["limit", "meta.db", "9", "--bwlimit", "1M"]).sentence().contains("it has 1, 2, 3, 4, 5, 6"));

    let said = node(&["set", "meta.db", "2", "--domain", "cellar", "--weight", "7"]).ok();
    assert!(said.contains("has domain cellar and weight 7"), "{said}");
    for name in ["4", "5", "6"] {
        node(&["drain", "meta.db", name]).ok();
    }
    assert!(node(&["drain", "meta.db", "4"]).sentence().contains("already"));
    assert!(node(&["drain", "meta.db", "1"]).sentence().contains("replica:3 needs 3"));
    node(&["drain", "meta.db", "4", "--undo"]).ok();
    assert!(node(&["drain", "meta.db", "4", "--undo"]).sentence().contains("not draining"));

    let began = std::time::Instant::now();
    fs::write(sandbox.path("file"), vec![7; 24 << 20]).expect("written");
    sandbox.weft(["put", "meta.db", "file", "/file", "--bwlimit", "32M"]).ok();
    // Three times 24 MiB at 32 MiB a second, without the last segment, which no other one waits for: a limit lasts on any machine.
    assert!(began.elapsed() >= std::time::Duration::from_secs(1));
    sandbox.weft(["get", "meta.db", "/file", "back"]).ok();
    assert!(fs::read(sandbox.path("back")).expect("read") == vec![7; 24 << 20]);

    assert!(sandbox.weft(["care", "status", "meta.db"]).ok().contains("no worker has cared for the volume yet"));
    for command in ["pause", "resume", "start", "cancel"] {
        sandbox.weft(["care", command, "meta.db"]).ok();
    }
    sandbox.weft(["care", "missing.db"]).sentence();
}

#[test]
fn where_shards_may_lie_is_chosen_and_kept_to() {
    let sandbox = Sandbox::empty();
    sandbox.weft(["format", "--policy", "replica:3", "meta.db"]).ok();
    for number in 1..=6 {
        let (name, domain) = (number.to_string(), format!("rack{}/host{number}", number % 3));
        let folder = sandbox.path(&format!("node{number}"));
        sandbox.weft(["node", "add", "meta.db", &name, &folder, "--domain", &domain]).ok();
    }
    let placement = |arguments: &[&str]| sandbox.weft(["placement", "meta.db"].iter().chain(arguments));
    assert!(placement(&[]).ok().contains("their whole domain; there are 6 such units"));
    fs::write(sandbox.path("file"), [7; 100_000]).expect("written");
    for number in 0..20 {
        sandbox.weft(["put", "meta.db", "file", &format!("/{number}")]).ok();
    }
    let status = || -> serde_json::Value {
        serde_json::from_str(&sandbox.weft(["status", "--json", "meta.db"]).stdout).expect("JSON")
    };
    assert_eq!(status()["tally"]["misplaced_shard_count"], 0);
    // From now on a rack fails as one: what lies two in a rack is to be moved, and is.
    let said = placement(&["--unit", "1"]).ok();
    assert!(said.contains("share the first 1 level of their domain; there are 3 such units"), "{said}");
    assert!(status()["tally"]["misplaced_shard_count"].as_u64().expect("a number") > 0);
    sandbox.weft(["repair", "meta.db"]).ok();
    assert_eq!(status()["tally"]["misplaced_shard_count"], 0);
    assert!(placement(&["--unit", "1", "--locality", "1"]).sentence().contains("--locality below --unit"));
    let said = placement(&["--sets", "5"]).ok();
    assert!(said.contains("at most 5 sets of nodes"), "{said}");
    sandbox.weft(["node", "drain", "meta.db", "1"]).ok();
    let said = sandbox.weft(["node", "drain", "meta.db", "4"]).sentence();
    assert!(said.contains("places for 2 shards of a segment, and replica:3 needs 3"), "{said}");
    sandbox.weft(["get", "meta.db", "/3", "back"]).ok();
    sandbox.weft(["fsck", "meta.db"]).ok();
}

#[test]
fn finding_32_a_drained_folder_comes_back_and_a_planned_move_is_no_degradation() {
    let sandbox = Sandbox::with_volume("rs:2+1");
    for number in 0..8 {
        fs::write(sandbox.path("file"), vec![number; 50_000]).expect("written");
        sandbox.weft(["put", "meta.db", "file", &format!("/{number}")]).ok();
    }
    let status = || {
        let said = sandbox.weft(["status", "--json", "meta.db"]);
        let json: serde_json::Value = serde_json::from_str(&said.stdout).expect("JSON");
        (said.code, json)
    };
    // One that holds something.
    let info: serde_json::Value =
        serde_json::from_str(&sandbox.weft(["info", "--json", "meta.db", "/0"]).ok()).expect("JSON");
    let holder = info["segments"][0]["shards"][0]["node"].as_str().expect("a node").to_owned();
    let folder = sandbox.path(&format!("node{holder}"));
    sandbox.weft(["node", "drain", "meta.db", &holder]).ok();
    let (code, json) = status();
    assert!(json["tally"]["misplaced_shard_count"].as_u64().expect("a number") > 0, "{json}");
    assert_eq!((code, &json["tally"]["degraded_count"]), (Some(0), &serde_json::json!(0)), "{json}");
    sandbox.weft(["repair", "meta.db"]).ok();
    let names = |json: &serde_json::Value| -> Vec<String> {
        let nodes = json["nodes"].as_array().expect("nodes");
        nodes.iter().map(|node| node["name"].as_str().expect("a name").to_owned()).collect()
    };
    assert!(!names(&status().1).contains(&holder), "it is forgotten");
    sandbox.weft(["node", "add", "meta.db", "again", &folder]).ok();
    fs::write(sandbox.path("file"), vec![9; 50_000]).expect("written");
    sandbox.weft(["put", "meta.db", "file", "/9"]).ok();
    sandbox.weft(["get", "meta.db", "/9", "back"]).ok();
    assert_eq!(fs::read(sandbox.path("back")).expect("read"), vec![9; 50_000]);

    // Nodes are told by their names, and memory is no place that lasts.
    let id = |name: &str| {
        let listed: serde_json::Value =
            serde_json::from_str(&sandbox.weft(["node", "list", "--json", "meta.db"]).ok()).expect("JSON");
        let found = listed.as_array().expect("a list").iter().find(|node| node["name"] == name);
        found.expect("it is there")["id"].as_str().expect("text").to_owned()
    };
    let sentence = sandbox.weft(["node", "add", "meta.db", "other", &folder]).sentence();
    assert!(sentence.contains("is node again of this volume") && !sentence.contains(&id("again")), "{sentence}");
    let sentence = sandbox.weft(["node", "add", "meta.db", "other", "memory://other"]).sentence();
    assert!(sentence.contains("memory of one process"), "{sentence}");
    let sentence = sandbox.weft(["node", "replace", "meta.db", "again", "memory://other"]).sentence();
    assert!(sentence.contains("memory of one process"), "{sentence}");
}

#[test]
fn finding_32_status_tells_of_the_last_scrub_what_the_scrub_told() {
    let sandbox = Sandbox::with_volume("rs:2+1");
    for number in 0..6 {
        fs::write(sandbox.path("file"), vec![number; 50_000]).expect("written");
        sandbox.weft(["put", "meta.db", "file", &format!("/{number}")]).ok();
    }
    // Segments that no file refers to any more are not read, and not counted.
    sandbox.weft(["rm", "meta.db", "/0", "/1", "/2"]).ok();
    let said = sandbox.weft(["scrub", "meta.db"]).ok();
    assert!(said.contains("of 3 segments"), "{said}");
    let status = sandbox.weft(["status", "meta.db"]).stdout;
    assert!(status.lines().any(|line| line.starts_with("last scrub") && line.contains(", 3 segments,")), "{status}");
}
