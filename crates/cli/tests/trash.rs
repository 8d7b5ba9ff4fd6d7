//! What is deleted can be brought back for a while.

mod sandbox;

use sandbox::{Sandbox, until};
use std::fs;

fn content(number: usize) -> Vec<u8> {
    (0..200_000 + number * 777).map(|at| (at * 31 / 7 + number) as u8).collect()
}

fn paths(sandbox: &Sandbox) -> Vec<String> {
    let listed: serde_json::Value =
        serde_json::from_str(&sandbox.weft(["trash", "list", "--json", "meta.db"]).ok()).expect("JSON");
    let text = |line: &serde_json::Value| line["path"].as_str().expect("a path").to_owned();
    let mut paths: Vec<String> = listed.as_array().expect("a list").iter().map(text).collect();
    paths.sort();
    paths
}

#[test]
fn a_tree_that_was_deleted_comes_back_mounted_or_not_and_after_a_crash() {
    let sandbox = Sandbox::mounted("rs:4+2");
    fs::write(sandbox.file("before"), content(0)).expect("written");
    fs::remove_file(sandbox.file("before")).expect("removed");
    assert!(sandbox.weft(["trash", "keep", "meta.db"]).ok().contains("is not kept"));
    assert!(sandbox.weft(["trash", "keep", "meta.db", "1h"]).ok().contains("kept for 1 h"));
    fs::create_dir_all(sandbox.file("photos/summer")).expect("made");
    for number in 0..3 {
        fs::write(sandbox.file(&format!("photos/summer/{number}")), content(number)).expect("written");
    }
    fs::write(sandbox.file("notes"), b"small, in the journal").expect("written");
    fs::File::open(sandbox.file("notes")).and_then(|file| file.sync_all()).expect("synced");
    // Some of it is not on the nodes yet.
    fs::remove_dir_all(sandbox.file("photos")).expect("removed");
    fs::remove_file(sandbox.file("notes")).expect("removed");
    let all = ["/notes", "/photos", "/photos/summer", "/photos/summer/0", "/photos/summer/1", "/photos/summer/2"];
    until("all are listed", || paths(&sandbox) == all);
    fs::File::open(sandbox.path("mnt")).and_then(|root| root.sync_all()).expect("synced");
    // What was written and not yet sent goes with a crash, as always; this waits for it.
    sandbox.umount();
    sandbox.mount();

    let said = sandbox.weft(["trash", "restore", "meta.db", "/photos/summer/1"]).ok();
    assert!(said.contains("/photos/summer/1"), "{said}");
    assert!(fs::read(sandbox.file("photos/summer/1")).expect("read") == content(1));
    assert!(!sandbox.file("photos/summer/0").exists());
    until("the others are left", || paths(&sandbox) == ["/notes", "/photos/summer/0", "/photos/summer/2"]);

    // A crash right after a deletion: it is deleted and kept, or still there.
    fs::remove_file(sandbox.file("photos/summer/1")).expect("removed");
    fs::File::open(sandbox.path("mnt")).and_then(|root| root.sync_all()).expect("synced");
    sandbox.kill_mount();
    sandbox.weft(["fsck", "meta.db"]).ok();

    // Without a mount.
    for path in ["/photos/summer/0", "/photos/summer/1", "/notes"] {
        sandbox.weft(["trash", "restore", "meta.db", path]).ok();
    }
    let refused = sandbox.weft(["trash", "restore", "meta.db", "/notes"]).sentence();
    assert!(refused.contains("/notes") && refused.contains("weft trash list"), "{refused}");
    sandbox.mount();
    for number in [0, 1] {
        assert!(fs::read(sandbox.file(&format!("photos/summer/{number}"))).expect("read") == content(number));
    }
    assert_eq!(fs::read(sandbox.file("notes")).expect("read"), b"small, in the journal");
    // A name that is taken is not taken back.
    fs::remove_file(sandbox.file("notes")).expect("removed");
    fs::write(sandbox.file("notes"), b"others").expect("written");
    until("it is listed", || paths(&sandbox).contains(&"/notes".to_owned()));
    let refused = sandbox.weft(["trash", "restore", "meta.db", "/notes"]).sentence();
    assert!(refused.contains("/notes cannot be brought back"), "{refused}");
    sandbox.umount();
    sandbox.weft(["fsck", "meta.db"]).ok();
}

#[test]
fn what_is_past_its_time_is_gone_and_its_room_free() {
    let sandbox = Sandbox::mounted("rs:4+2");
    sandbox.weft(["trash", "keep", "meta.db", "2s"]).ok();
    fs::write(sandbox.file("file"), content(5)).expect("written");
    sandbox.umount();
    sandbox.mount();
    fs::remove_file(sandbox.file("file")).expect("removed");
    until("it is listed", || paths(&sandbox) == ["/file"]);
    until("it is let go", || paths(&sandbox).is_empty());
    let live_bytes = || {
        let status: serde_json::Value =
            serde_json::from_str(&sandbox.weft(["status", "--json", "meta.db"]).stdout).expect("JSON");
        status["live_bytes"].as_u64().expect("bytes")
    };
    until("nothing lives", || live_bytes() == 0);
    sandbox.umount();
    sandbox.weft(["fsck", "meta.db"]).ok();
}
