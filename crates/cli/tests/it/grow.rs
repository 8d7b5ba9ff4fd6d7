//! Nodes that come, are read only, and grow.

use crate::sandbox::caring::Caring;
use crate::sandbox::served::Served;
use crate::sandbox::{Sandbox, any_port, free_address, http_get, until};
use std::fs;
use std::net::TcpStream;
use std::path::Path;

fn content(number: usize) -> Vec<u8> {
    crate::content::bytes(number as u64, 300_000 + number * 777)
}

fn put(sandbox: &Sandbox, files: std::ops::Range<usize>) {
    for number in files {
        fs::write(sandbox.path("file"), content(number)).expect("written");
        sandbox.weft(["put", "meta.db", &sandbox.path("file"), &format!("/{number}")]).ok();
    }
}

fn shard_count(folder: &str) -> usize {
    let below = |path: &Path| fs::read_dir(path).map_or(0, |entries| entries.count());
    let entries = fs::read_dir(folder).expect("a node's folder").map(|entry| entry.expect("listed").path());
    entries.filter(|path| path.is_dir()).map(|path| below(&path)).sum()
}

#[test]
fn a_read_only_node_is_read_and_gets_nothing_new() {
    let sandbox = Sandbox::with_volume("rs:4+2");
    let refused = sandbox.weft(["node", "set", "meta.db", "1", "--read-only", "on"]).sentence();
    assert!(refused.contains("without node 1") && refused.contains("rs:4+2 needs 6"), "{refused}");
    sandbox.weft(["node", "add", "meta.db", "7", &sandbox.path("node7")]).ok();
    put(&sandbox, 0..5);
    let said = sandbox.weft(["node", "set", "meta.db", "1", "--read-only", "on"]).ok();
    assert!(said.contains("takes no new shards"), "{said}");
    let before = shard_count(&sandbox.path("node1"));
    put(&sandbox, 5..10);
    sandbox.weft(["repair", "meta.db"]).ok();
    assert_eq!(shard_count(&sandbox.path("node1")), before);
    for listed in [sandbox.weft(["node", "list", "meta.db"]).ok(), sandbox.weft(["status", "meta.db"]).ok()] {
        assert!(listed.lines().any(|line| line.starts_with("1 ") && line.contains("read-only")), "{listed}");
    }
    // What it holds counts: two others may go.
    for number in [2, 3] {
        sandbox.wipe(&format!("node{number}"));
    }
    sandbox.mount();
    for number in 0..10 {
        assert!(fs::read(sandbox.file(&number.to_string())).expect("read") == content(number), "{number} differs");
    }
    sandbox.umount();
    let again = sandbox.weft(["node", "set", "meta.db", "1", "--read-only", "on"]).sentence();
    assert!(again.contains("read-only already"), "{again}");
    sandbox.weft(["node", "set", "meta.db", "1", "--read-only", "off"]).ok();
    let wrong = sandbox.weft(["node", "set", "meta.db", "1", "--read-only", "perhaps"]);
    assert!(!wrong.success && wrong.stderr.contains("neither `on` nor `off`"), "{}", wrong.stderr);
}

fn care_status(sandbox: &Sandbox) -> serde_json::Value {
    serde_json::from_str(&sandbox.weft(["care", "status", "--json", "meta.db"]).ok()).expect("JSON")
}

/// Daemons, of which a bigger one comes: it is filled by workers that are held, killed and cancelled on the way, and nothing
/// is moved in vain.
#[test]
fn a_bigger_daemon_is_filled_by_workers_that_come_and_go() {
    let sandbox = Sandbox::empty();
    sandbox.weft(["format", "--policy", "rs:4+2", "meta.db"]).ok();
    let mut daemons = Vec::new();
    let mut add = |number: usize, weight: &str| {
        // What is free goes into a node's share.
        let folder = sandbox.disk(&format!("served{number}"), 256);
        let served = Served::start(&sandbox, &folder, &any_port(), None);
        let name = number.to_string();
        daemons.push(served);
        let url = &daemons[daemons.len() - 1].url;
        sandbox.weft(["node", "add", "meta.db", &name, url, "--weight", weight]).ok()
    };
    for number in 1..=7 {
        add(number, "4");
    }
    put(&sandbox, 0..40);
    assert_eq!(care_status(&sandbox)["balance"]["is_out"], false);
    let said = add(8, "8");
    assert!(said.contains("must move until every node holds its share") && said.contains("at least"), "{said}");
    let estimate = care_status(&sandbox)["balance"].clone();
    let bytes = |value: &serde_json::Value| value.as_u64().expect("bytes");
    let (to_move, least) = (bytes(&estimate["bytes_to_move"]), bytes(&estimate["least_bytes"]));
    assert!(to_move * 10 <= least * 11 && to_move > 0, "{to_move} against {least}");
    let held = || shard_count(&sandbox.path("served8"));

    // Slow enough to be met on the way; what was begun before a kill is not begun again.
    let care = ["care", "meta.db", "--scrub-every", "0"];
    let caring = Caring::of(sandbox.command(care.iter().chain(&["--bwlimit", "600K"])));
    until("it begins", || held() >= 3);
    until("it says at which files it is", || care_status(&sandbox)["record"]["now"][1]["paths"][0].is_string());
    let said = sandbox.weft(["care", "status", "meta.db"]).ok();
    assert!(said.contains("balance in progress") && said.contains("must move"), "{said}");
    sandbox.weft(["care", "pause", "meta.db"]).ok();
    until("it is held", || care_status(&sandbox)["record"]["now"][1]["paused"] == true);
    let now = care_status(&sandbox)["record"]["now"].clone();
    assert_eq!((&now[0], &now[1]["phase"]), (&"balance".into(), &"moving".into()), "{now}");
    assert_eq!(bytes(&now[1]["bytes_total"]), to_move);
    drop(caring);
    sandbox.weft(["care", "resume", "meta.db"]).ok();
    let left = bytes(&care_status(&sandbox)["balance"]["bytes_to_move"]);
    assert!(left < to_move, "{left} of {to_move}");
    let _caring = Caring::of(sandbox.command(care));
    until("balanced", || {
        let status = care_status(&sandbox);
        status["record"]["history"][0]["task"] == "balance" && status["balance"]["is_out"] == false
    });
    let status = care_status(&sandbox);
    let what = status["record"]["history"][0]["what"].as_str().expect("a sentence");
    assert!(what.contains(&format!(" {left} bytes")), "{what}, and {left} were left");
    assert_eq!(sandbox.weft(["status", "meta.db"]).code, Some(0), "whole");
    let count = held();
    // Every segment has six shards; the bigger one holds one of nearly all.
    assert!((30..=40).contains(&count), "{count}");
    sandbox.weft(["get", "meta.db", "/7", &sandbox.path("back")]).ok();
    assert!(fs::read(sandbox.path("back")).expect("read") == content(7));
}

#[test]
fn prometheus_sees_what_is_verified_and_what_is_at_risk() {
    let sandbox = Sandbox::with_volume("rs:4+2");
    put(&sandbox, 0..5);
    let address = free_address();
    let refused = sandbox.weft(["care", "meta.db", "--metrics", "0.0.0.0:0"]).sentence();
    assert!(refused.contains("other machines can reach"), "{refused}");
    let _caring = Caring::of(sandbox.command(["care", "meta.db", "--scrub-every", "1s", "--metrics", &address]));
    let value = |name: &str| -> Option<u64> {
        let answer = http_get(&address, "/metrics")?;
        answer.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
    };
    until("something is verified", || value("weft_care_verified_bytes_total").is_some_and(|bytes| bytes > 0));
    let before = value("weft_care_verified_bytes_total").expect("a counter");
    until("more is", || value("weft_care_verified_bytes_total").is_some_and(|bytes| bytes > before));
    until("all segments are counted", || value("weft_segments{margin=\"2\"}") == Some(5));
    assert_eq!(value("weft_segments{margin=\"lost\"}"), Some(0));
    assert!(http_get(&address, "/other").expect("answered").starts_with("HTTP/1.1 404"));
    fs::rename(sandbox.path("node1"), sandbox.path("away")).expect("moved");
    until("one is in doubt", || value("weft_nodes_doubted{verdict=\"suspected\"}") == Some(1));
}

#[test]
fn finding_33_whoever_connects_and_says_nothing_holds_no_metrics() {
    let sandbox = Sandbox::with_volume("rs:4+2");
    let address = free_address();
    let _caring = Caring::of(sandbox.command(["care", "meta.db", "--metrics", &address]));
    let mut first = None;
    until("it listens", || {
        first = TcpStream::connect(&address).ok();
        first.is_some()
    });
    // Served one by one, each for as long as it may take, they would take minutes.
    let _silent: Vec<TcpStream> = (0..60).map(|_| TcpStream::connect(&address).expect("connected")).collect();
    until("others are answered", || http_get(&address, "/metrics").is_some_and(|text| text.contains("weft_care")));
}
