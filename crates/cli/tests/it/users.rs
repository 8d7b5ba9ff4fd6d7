//! What root does to the volumes of users, and what users leave for root: run as root.

use crate::sandbox::{Said, Sandbox};
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;

/// A user like any other.
const USER: u32 = 1234;

fn mode_and_owner(path: &str) -> (u32, u32, u32) {
    let metadata = fs::symlink_metadata(path).expect("it is there");
    (metadata.mode() & 0o7777, metadata.uid(), metadata.gid())
}

#[test]
fn finding_11_root_gets_no_privileges_with_a_file() {
    assert!(rustix::process::geteuid().is_root(), "this test gives files to others: run it as root");
    let sandbox = Sandbox::mounted("rs:4+2");
    let tool = sandbox.file("tool");
    fs::write(&tool, "#!/bin/sh\n").expect("written");
    chown(&tool, Some(USER), Some(USER)).expect("given");
    fs::set_permissions(&tool, Permissions::from_mode(0o6755)).expect("set");
    for round in ["mounted", "unmounted"] {
        let (plain, whole) = (format!("plain-{round}"), format!("whole-{round}"));
        sandbox.weft(["get", "meta.db", "/tool", &plain]).ok();
        sandbox.weft(["get", "meta.db", "--preserve", "/tool", &whole]).ok();
        assert_eq!(mode_and_owner(&sandbox.path(&plain)), (0o755, 0, 0));
        assert_eq!(mode_and_owner(&sandbox.path(&whole)), (0o6755, USER, USER));
        // The same the other way.
        sandbox.weft(["put", "meta.db", &sandbox.path(&whole), "/back"]).ok();
        sandbox.weft(["get", "meta.db", "--preserve", "/back", "back"]).ok();
        assert_eq!(mode_and_owner(&sandbox.path("back")), (0o755, 0, 0));
        if round == "mounted" {
            sandbox.umount();
        }
    }
}

fn assert_all_belong_to(user: u32, folder: &Path) {
    for entry in fs::read_dir(folder).expect("listed") {
        let entry = entry.expect("an entry");
        let metadata = entry.metadata().expect("there");
        assert_eq!(metadata.uid(), user, "{}", entry.path().display());
        if metadata.is_dir() {
            assert_all_belong_to(user, &entry.path());
        }
    }
}

#[test]
fn finding_18_a_user_reads_what_root_has_stored() {
    assert!(rustix::process::geteuid().is_root(), "this test acts as another user: run it as root");
    let sandbox = Sandbox::empty();
    // The sandbox is root's; what is in it is the user's.
    fs::set_permissions(sandbox.path("."), Permissions::from_mode(0o755)).expect("opened to all");
    let home = sandbox.path("home");
    fs::create_dir(&home).expect("made");
    chown(&home, Some(USER), Some(USER)).expect("given");
    let weft = |user: Option<u32>, arguments: &[&str]| {
        let mut command = sandbox.command(arguments);
        command.current_dir(&home);
        if let Some(user) = user {
            command.uid(user).gid(user);
        }
        Said::from(command.output().expect("weft runs")).ok()
    };
    weft(Some(USER), &["format", "--policy", "rs:2+1", "meta.db"]);
    for node in ["a", "b", "c"] {
        weft(Some(USER), &["node", "add", "meta.db", node, node]);
    }
    let content = crate::content::bytes(0, 100_000);
    fs::write(format!("{home}/letter"), &content).expect("written");
    chown(format!("{home}/letter"), Some(USER), Some(USER)).expect("given");
    weft(None, &["put", "meta.db", "letter", "/letter"]);
    fs::remove_dir_all(format!("{home}/c")).expect("lost");
    fs::create_dir(format!("{home}/fresh")).expect("made");
    chown(format!("{home}/fresh"), Some(USER), Some(USER)).expect("given");
    weft(Some(USER), &["node", "replace", "meta.db", "c", "fresh"]);
    weft(None, &["repair", "meta.db"]);
    assert_all_belong_to(USER, Path::new(&home));
    // From the shards that root's repair made, too.
    fs::remove_dir_all(format!("{home}/a")).expect("lost");
    fs::create_dir(format!("{home}/out")).expect("made");
    chown(format!("{home}/out"), Some(USER), Some(USER)).expect("given");
    weft(Some(USER), &["get", "meta.db", "/letter", "out/letter"]);
    assert_eq!(fs::read(format!("{home}/out/letter")).expect("read"), content);
}
