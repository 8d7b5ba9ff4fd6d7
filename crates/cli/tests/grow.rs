//! Nodes that come, are read only, and grow.

mod sandbox;

use sandbox::Sandbox;
use std::fs;
use std::path::Path;

fn content(number: usize) -> Vec<u8> {
    (0..300_000 + number * 777).map(|at| (at * 31 / 7 + number) as u8).collect()
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
    assert!(said.contains("takes nothing new"), "{said}");
    let before = shard_count(&sandbox.path("node1"));
    put(&sandbox, 5..10);
    sandbox.weft(["repair", "meta.db"]).ok();
    assert_eq!(shard_count(&sandbox.path("node1")), before);
    for listed in [sandbox.weft(["node", "list", "meta.db"]).ok(), sandbox.weft(["status", "meta.db"]).ok()] {
        assert!(listed.lines().any(|line| line.starts_with("1 ") && line.contains("read-only")), "{listed}");
    }
    // What it holds counts: two others may go.
    for number in [2, 3] {
        fs::remove_dir_all(sandbox.path(&format!("node{number}"))).expect("removed");
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
