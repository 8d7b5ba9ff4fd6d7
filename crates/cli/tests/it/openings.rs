//! A copy of the metadata harms nothing: nodes know the newest opening of their volume, and by an older or a second copy nothing is
//! changed until somebody says that it is to be the volume's metadata from now on.

use crate::sandbox::served::Served;
use crate::sandbox::{Sandbox, any_port, until};
use rustix::process::Signal;
use std::fs;

const REFUSED: &str = "older copy of the volume's metadata";

fn put(sandbox: &Sandbox, meta: &str, name: &str) {
    let content = content(name);
    fs::write(sandbox.path(name), content).expect("written");
    sandbox.weft(["put", meta, name, &format!("/{name}")]).ok();
}

fn content(name: &str) -> Vec<u8> {
    crate::content::bytes(name.len() as u64, 300_000 + name.len())
}

/// Copies the metadata, which nobody has open, with what may be in its log.
fn copy(sandbox: &Sandbox) {
    fs::copy(sandbox.path("meta.db"), sandbox.path("copy.db")).expect("copied");
    if fs::exists(sandbox.path("meta.db-wal")).expect("looked for") {
        fs::copy(sandbox.path("meta.db-wal"), sandbox.path("copy.db-wal")).expect("copied");
    }
}

#[track_caller]
fn assert_has(sandbox: &Sandbox, meta: &str, names: &[&str]) {
    for name in names {
        sandbox.weft(["get", meta, &format!("/{name}"), "back"]).ok();
        assert!(fs::read(sandbox.path("back")).expect("read") == content(name), "{name} differs");
        fs::remove_file(sandbox.path("back")).expect("removed");
    }
}

#[test]
fn finding_05_an_older_copy_of_the_metadata_removes_and_changes_nothing() {
    let sandbox = Sandbox::with_volume("rs:4+2");
    put(&sandbox, "meta.db", "one");
    copy(&sandbox);
    put(&sandbox, "meta.db", "other");
    for change in [
        &["gc", "--grace", "0", "copy.db"][..],
        &["put", "copy.db", "one", "/again"],
        &["rm", "copy.db", "/one"],
        &["mount", "copy.db", "mnt"],
        &["repair", "copy.db"],
        &["scrub", "copy.db"],
    ] {
        let said = sandbox.weft(change).sentence();
        assert!(said.contains(REFUSED) && said.contains("weft restore"), "{change:?}: {said}");
    }
    assert_has(&sandbox, "meta.db", &["one", "other"]);
    let said = sandbox.weft(["status", "meta.db"]).ok();
    assert!(said.contains("survives the loss of any 2 more nodes"), "{said}");
    let said = sandbox.weft(["gc", "--grace", "0", "meta.db"]).ok();
    assert!(said.contains("removed 0 shards"), "{said}");
}

#[test]
fn finding_05_a_copy_is_refused_beside_a_mount_of_the_original() {
    let sandbox = Sandbox::with_volume("rs:4+2");
    put(&sandbox, "meta.db", "one");
    copy(&sandbox);
    sandbox.mount();
    fs::write(sandbox.file("two"), content("two")).expect("written");
    let said = sandbox.weft(["gc", "--grace", "0", "copy.db"]).sentence();
    assert!(said.contains(REFUSED), "{said}");
    fs::write(sandbox.file("three"), content("three")).expect("the mount goes on");
    sandbox.umount();
    assert_has(&sandbox, "meta.db", &["one", "two", "three"]);
}

#[test]
fn finding_05_a_backup_of_a_mounted_volume_is_restored_and_takes_the_volume_over() {
    let sandbox = Sandbox::mounted("rs:4+2");
    fs::write(sandbox.file("before"), content("before")).expect("written");
    fs::File::open(sandbox.file("before")).and_then(|file| file.sync_all()).expect("synced");
    sandbox.weft(["backup", "meta.db", "backup"]).ok();
    let said = sandbox.weft(["backup", "meta.db", "backup"]).sentence();
    assert!(said.contains("exists already"), "{said}");
    fs::write(sandbox.file("after"), content("after")).expect("written");
    sandbox.umount();
    // Nobody takes it for the metadata.
    for command in [&["gc", "backup"][..], &["mount", "backup", "mnt"], &["status", "backup"]] {
        let said = sandbox.weft(command).sentence();
        assert!(said.contains("is a backup") && said.contains("weft restore"), "{said}");
    }
    let said = sandbox.weft(["restore", "backup", "restored.db"]).ok();
    assert!(said.contains("is the volume's metadata from now on"), "{said}");
    assert!(said.contains("every file survives the loss of any 2 more nodes"), "{said}");
    assert_has(&sandbox, "restored.db", &["before"]);
    // What was written by the previous metadata is kept, and that metadata changes nothing any more.
    let said = sandbox.weft(["gc", "--grace", "0", "restored.db"]).ok();
    assert!(said.contains("removed 0 shards") && said.contains("does not know are kept"), "{said}");
    put(&sandbox, "restored.db", "new");
    let said = sandbox.weft(["gc", "--grace", "0", "meta.db"]).sentence();
    assert!(said.contains(REFUSED), "{said}");
    // The user changes their mind: nothing that the previous metadata names is gone.
    let said = sandbox.weft(["restore", "meta.db", "again.db"]).ok();
    assert!(said.contains("every file survives the loss of any 2 more nodes"), "{said}");
    assert_has(&sandbox, "again.db", &["before", "after"]);
    let said = sandbox.weft(["put", "restored.db", "new", "/newer"]).sentence();
    assert!(said.contains(REFUSED), "{said}");
}

#[test]
fn finding_05_what_was_removed_since_the_backup_is_named_when_it_is_restored() {
    let sandbox = Sandbox::with_volume("rs:4+2");
    put(&sandbox, "meta.db", "stays");
    put(&sandbox, "meta.db", "goes");
    sandbox.weft(["backup", "meta.db", "backup"]).ok();
    sandbox.weft(["rm", "meta.db", "/goes"]).ok();
    let said = sandbox.weft(["gc", "--grace", "0", "meta.db"]).ok();
    assert!(said.contains("removed 1 segment"), "{said}");
    let restored = sandbox.weft(["restore", "backup", "restored.db"]);
    assert_eq!(restored.code, Some(3), "{}", restored.stderr);
    assert!(restored.stdout.contains("6 shards that it names are missing"), "{}", restored.stdout);
    assert!(restored.stdout.contains("1 file is LOST") && restored.stdout.contains("/goes"), "{}", restored.stdout);
    let status = sandbox.weft(["status", "restored.db"]);
    assert!(status.code == Some(3) && status.stdout.contains("LOST"), "{}", status.stdout);
    assert_has(&sandbox, "restored.db", &["stays"]);
}

/// A node is silent, so that restoring takes long enough to be killed. The metadata that it left must not be used: shards that were stored
/// since the backup would be taken for leftovers of the previous metadata, and removed.
#[test]
fn what_a_killed_restore_left_is_used_by_nobody_and_is_restored_again() {
    let sandbox = Sandbox::empty();
    sandbox.weft(["format", "meta.db", "--policy", "rs:2+1"]).ok();
    for name in ["a", "b", "served"] {
        fs::create_dir(sandbox.path(name)).expect("made");
    }
    for name in ["a", "b"] {
        sandbox.weft(["node", "add", "meta.db", name, &sandbox.path(name)]).ok();
    }
    let served = Served::start(&sandbox, "served", &any_port(), None);
    sandbox.weft(["node", "add", "meta.db", "c", &served.url]).ok();
    put(&sandbox, "meta.db", "one");
    sandbox.weft(["backup", "meta.db", "backup"]).ok();
    served.signal(Signal::STOP);
    let mut restoring = sandbox.command(["restore", "backup", "restored.db"]).spawn().expect("it starts");
    until("the copy is there", || fs::exists(sandbox.path("restored.db")).expect("looked for"));
    restoring.kill().and_then(|()| restoring.wait()).expect("it ends");
    for command in [
        &["put", "restored.db", "one", "/again"][..],
        &["gc", "--grace", "0", "restored.db"],
        &["mount", "restored.db", "mnt"],
        &["status", "restored.db"],
    ] {
        let said = sandbox.weft(command).sentence();
        assert!(said.contains("restored.db is not the volume's metadata yet"), "{command:?}: {said}");
    }
    served.signal(Signal::CONT);
    sandbox.weft(["restore", "backup", "restored.db"]).ok();
    assert_has(&sandbox, "restored.db", &["one"]);
    put(&sandbox, "restored.db", "other");
    let said = sandbox.weft(["restore", "backup", "restored.db"]).sentence();
    assert!(said.contains("restored.db exists already"), "{said}");
}
