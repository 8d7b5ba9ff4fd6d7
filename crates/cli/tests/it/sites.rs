//! Three sites of two nodes, two shards of a segment in each: a site or any two nodes may be lost.

use crate::sandbox::Sandbox;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;

fn content(number: usize) -> Vec<u8> {
    (0..200_000 + number * 777).map(|at| (at * 29 / 5 + number) as u8).collect()
}

/// Nodes 1 to 6, two in each of three sites.
fn three_sites() -> Sandbox {
    let sandbox = Sandbox::with_volume("rs:4+2");
    for node in 1..=6 {
        let domain = format!("site{}/host{node}", (node + 1) / 2);
        sandbox.weft(["node", "set", "meta.db", &node.to_string(), "--domain", &domain]).ok();
    }
    sandbox
}

fn status(sandbox: &Sandbox) -> Value {
    serde_json::from_str(&sandbox.weft(["status", "--json", "meta.db"]).stdout).expect("JSON")
}

fn survives(sandbox: &Sandbox) -> (Option<u64>, Option<u64>) {
    let status = status(sandbox);
    (status["survives_losses"].as_u64(), status["survives_unit_losses"].as_u64())
}

fn away(sandbox: &Sandbox, nodes: &[usize], are_away: bool) {
    for node in nodes {
        let (here, there) = (sandbox.path(&format!("node{node}")), sandbox.path(&format!("away{node}")));
        let (from, to) = if are_away { (here, there) } else { (there, here) };
        fs::rename(from, to).expect("renamed");
    }
}

fn put(sandbox: &Sandbox, number: usize) {
    fs::write(sandbox.path("file"), content(number)).expect("written");
    sandbox.weft(["put", "meta.db", &sandbox.path("file"), &format!("/{number}")]).ok();
}

fn assert_read(sandbox: &Sandbox, count: usize) {
    for number in 0..count {
        let _ = fs::remove_file(sandbox.path("copy"));
        sandbox.weft(["get", "meta.db", &format!("/{number}"), &sandbox.path("copy")]).ok();
        assert!(fs::read(sandbox.path("copy")).expect("read") == content(number), "{number} differs");
    }
}

/// The most shards of a file's segment in one site.
fn fullest(sandbox: &Sandbox, path: &str) -> usize {
    let info: Value = serde_json::from_str(&sandbox.weft(["info", "--json", "meta.db", path]).ok()).expect("JSON");
    let mut units: BTreeMap<&str, usize> = BTreeMap::new();
    for shard in info["segments"][0]["shards"].as_array().expect("shards") {
        *units.entry(shard["unit"].as_str().expect("a unit")).or_default() += 1;
    }
    units.into_values().max().unwrap_or(0)
}

#[test]
fn a_site_or_any_two_nodes_are_lost_and_everything_goes_on() {
    let sandbox = three_sites();
    let refused = sandbox.weft(["placement", "meta.db", "--unit", "1"]).sentence();
    assert!(refused.contains("3 failure units with places for 3") && refused.contains("--per-unit"), "{refused}");
    let plan = ["placement", "plan", "meta.db", "--unit", "1", "--survive", "unit:1", "--survive", "node:2"];
    let said = sandbox.weft(plan).ok();
    let row = said.lines().find(|line| line.starts_with("rs:4+2 ")).expect("rs:4+2 does");
    assert_eq!(row.split_whitespace().collect::<Vec<_>>()[1..6], ["6", "2", "1", "2", "1.50"], "{said}");
    let none = sandbox.weft(["placement", "plan", "meta.db", "--unit", "1", "--survive", "unit:3"]).ok();
    assert!(none.starts_with("no code survives unit:3 on units of 2, 2, 2 nodes: add 1 more unit"), "{none}");
    let said = sandbox.weft(["placement", "meta.db", "--unit", "1", "--per-unit", "2"]).ok();
    assert!(said.starts_with("at most 2 shards of a segment"), "{said}");

    sandbox.mount();
    for number in 0..4 {
        fs::write(sandbox.file(&number.to_string()), content(number)).expect("written");
    }
    sandbox.umount();
    assert_eq!(survives(&sandbox), (Some(2), Some(1)));
    assert_eq!(fullest(&sandbox, "/0"), 2);
    let said = sandbox.weft(["status", "meta.db"]).ok();
    assert!(said.starts_with("every file survives the loss of any 2 more nodes, or of any 1 failure unit"), "{said}");
    assert!(said.contains("UNITS TO LOSE"), "{said}");

    // A site is away: all is read, and writes go on with four shards of six.
    away(&sandbox, &[3, 4], true);
    sandbox.mount();
    for number in 0..4 {
        assert!(fs::read(sandbox.file(&number.to_string())).expect("read") == content(number), "{number} differs");
    }
    for number in 4..6 {
        fs::write(sandbox.file(&number.to_string()), content(number)).expect("written");
        fs::File::open(sandbox.file(&number.to_string())).expect("opened").sync_all().expect("synced");
    }
    sandbox.umount();
    assert_eq!(survives(&sandbox), (Some(0), Some(0)));
    assert_eq!(status(&sandbox)["tally"]["crowded_count"], 0);

    // It is back: what was not written is completed there.
    away(&sandbox, &[3, 4], false);
    sandbox.weft(["repair", "meta.db"]).ok();
    assert_eq!(survives(&sandbox), (Some(2), Some(1)));
    assert!((0..6).all(|number| fullest(&sandbox, &format!("/{number}")) == 2));

    for one in 1..=6 {
        for other in one + 1..=6 {
            away(&sandbox, &[one, other], true);
            assert_read(&sandbox, 6);
            away(&sandbox, &[one, other], false);
        }
    }

    // A site is lost for good, and made again.
    for node in ["5", "6"] {
        sandbox.wipe(&format!("node{node}"));
        sandbox.weft(["node", "replace", "meta.db", node, &sandbox.path(&format!("new{node}"))]).ok();
    }
    sandbox.weft(["repair", "meta.db"]).ok();
    assert_eq!(survives(&sandbox), (Some(2), Some(1)));
    assert_read(&sandbox, 6);
}

#[test]
fn a_node_that_moves_to_another_site_crowds_it_until_there_is_a_place() {
    let sandbox = three_sites();
    sandbox.weft(["placement", "meta.db", "--unit", "1", "--per-unit", "2"]).ok();
    (0..3).for_each(|number| put(&sandbox, number));
    sandbox.weft(["node", "set", "meta.db", "1", "--domain", "site2/host1"]).ok();
    assert_eq!(survives(&sandbox), (Some(2), Some(0)));
    let said = sandbox.weft(["status", "meta.db"]).stdout;
    assert!(said.contains("with more shards in one failure unit than may be lost (site2)"), "{said}");
    let refused = sandbox.weft(["repair", "meta.db"]);
    assert!(!refused.success, "there is no place: {}{}", refused.stdout, refused.stderr);
    assert_eq!(survives(&sandbox), (Some(2), Some(0)));

    sandbox.weft(["node", "add", "meta.db", "7", &sandbox.path("node7"), "--domain", "site1/host7"]).ok();
    sandbox.weft(["repair", "meta.db"]).ok();
    assert_eq!(survives(&sandbox), (Some(2), Some(1)));
    assert!((0..3).all(|number| fullest(&sandbox, &format!("/{number}")) == 2));
    assert_read(&sandbox, 3);

    // A code that cannot lose two shards never has two in a site, whatever the rule allows.
    fs::write(sandbox.path("file"), content(9)).expect("written");
    sandbox.weft(["policy", "set", "meta.db", "/", "raid5:3"]).ok();
    sandbox.weft(["put", "meta.db", &sandbox.path("file"), "/raid"]).ok();
    assert_eq!(fullest(&sandbox, "/raid"), 1);
    sandbox.weft(["policy", "set", "meta.db", "/", "raid5:6"]).ok();
    let refused = sandbox.weft(["put", "meta.db", &sandbox.path("file"), "/wide"]);
    assert!(!refused.success && refused.stderr.contains("6 failure domains are needed"), "{}", refused.stderr);
    // One with enough parities may.
    sandbox.weft(["policy", "set", "meta.db", "/", "rs:3+3", "--convert"]).ok();
    sandbox.weft(["put", "meta.db", &sandbox.path("file"), "/safe"]).ok();
    assert_eq!(fullest(&sandbox, "/safe"), 2);
    // And with a site fewer in a unit nothing is changed behind one's back.
    let refused = sandbox.weft(["placement", "meta.db", "--per-unit", "1"]).sentence();
    assert!(refused.contains("has 6 shards, but with 1 levels"), "{refused}");
}
