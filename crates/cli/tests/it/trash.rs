//! What is deleted can be brought back for a while.

use crate::sandbox::{Sandbox, until};
use std::fs;
use std::os::unix::fs::FileExt;

fn content(number: usize) -> Vec<u8> {
    crate::content::bytes(number as u64, 200_000 + number * 777)
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
    assert!(sandbox.weft(["trash", "keep", "meta.db"]).ok().contains("are not kept"));
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
    assert!(refused.contains("/notes cannot be restored"), "{refused}");
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

#[test]
fn a_nearly_full_volume_lets_go_of_the_oldest_as_far_as_room_is_missing() {
    const KEPT: usize = 20;
    let sandbox = Sandbox::empty();
    sandbox.weft(["format", "--policy", "rs:4+2", "meta.db"]).ok();
    for number in 1..=6 {
        let image = sandbox.path(&format!("image{number}"));
        fs::File::create(&image).and_then(|file| file.set_len(24 << 20)).expect("an image");
        sandbox.weft(["node", "add", "meta.db", &number.to_string(), &format!("block://{image}")]).ok();
    }
    sandbox.weft(["trash", "keep", "meta.db", "1d"]).ok();
    sandbox.mount();
    let write = |name: &str, number: usize| {
        let bytes: Vec<u8> = content(number).into_iter().cycle().take(1 << 20).collect();
        let file = fs::File::create(sandbox.file(name)).expect("made");
        file.write_all_at(&bytes, 0).and_then(|()| file.sync_all()).map(|()| bytes)
    };
    let names: Vec<String> = (0..KEPT).map(|number| format!("/old{number:02}")).collect();
    for (number, name) in names.iter().enumerate() {
        write(&name[1..], number).expect("there is room");
        fs::remove_file(sandbox.file(&name[1..])).expect("removed");
    }
    until("all are listed", || paths(&sandbox) == names);
    let mut written = Vec::new();
    loop {
        let room = rustix::fs::statvfs(sandbox.mnt()).expect("it is mounted");
        if room.f_bavail < room.f_blocks / 20 {
            break;
        }
        assert_eq!(paths(&sandbox), names, "room that is not missing is taken from nobody");
        let name = format!("new{}", written.len());
        match write(&name, KEPT + written.len()) {
            Ok(bytes) => written.push((name, bytes)),
            // Filled faster than anybody looks: what was refused is given up.
            Err(error) => {
                assert_eq!(error.raw_os_error(), Some(28), "ENOSPC, not {error}");
                fs::remove_file(sandbox.file(&name)).expect("deleting works on a full volume");
                // Not kept either: the mount would have to say at its end that these bytes are lost.
                sandbox.weft(["trash", "purge", "meta.db", &format!("/{name}")]).ok();
                break;
            }
        }
    }
    let is_old = |path: &String| path.starts_with("/old");
    let old = || paths(&sandbox).into_iter().filter(is_old).collect::<Vec<_>>();
    until("the oldest are let go", || old().len() < KEPT);
    let left = old();
    assert!(left.len() >= KEPT / 2 && names.ends_with(&left), "{left:?}");
    sandbox.weft(["trash", "restore", "meta.db", &names[KEPT - 1]]).ok();
    written.push((names[KEPT - 1][1..].into(), content(KEPT - 1).into_iter().cycle().take(1 << 20).collect()));
    for (name, bytes) in &written {
        assert!(fs::read(sandbox.file(name)).expect("read") == *bytes, "{name} differs");
    }
    // What was let go is room again, once nobody can be reading it. Nodes that are full have no room for the metadata either.
    let said = sandbox.weft(["umount", &sandbox.mnt()]);
    let lacks = "the nodes lack the last changes of the metadata";
    assert!(said.success || said.stderr.contains(lacks), "{}", said.stderr);
    sandbox.weft(["gc", "meta.db", "--grace", "0s"]).ok();
    sandbox.mount();
    // The mount looks once a minute whether more has to be let go.
    until("a twentieth is free", || {
        let room = rustix::fs::statvfs(sandbox.mnt()).expect("it is mounted");
        room.f_bavail >= room.f_blocks / 20
    });
    write("more", 99).expect("there is room");
    sandbox.umount();
    sandbox.weft(["fsck", "meta.db"]).ok();
}

#[test]
fn finding_24_what_was_known_as_absent_is_there_once_it_is_restored() {
    let sandbox = Sandbox::mounted("rs:2+1");
    sandbox.weft(["trash", "keep", "meta.db", "1h"]).ok();
    fs::create_dir(sandbox.file("dir")).expect("made");
    let names = ["file", "dir/file"];
    for name in names {
        fs::write(sandbox.file(name), name).expect("written");
    }
    // The kernel learns that they are absent.
    for name in names {
        fs::remove_file(sandbox.file(name)).expect("removed");
        let is_gone = || !sandbox.file(name).exists();
        assert!(is_gone() && is_gone());
    }
    until("both are listed", || paths(&sandbox) == ["/dir/file", "/file"]);
    for name in names {
        assert!(!sandbox.file(name).exists());
        sandbox.weft(["trash", "restore", "meta.db", &format!("/{name}")]).ok();
        // A second at most; the kernel used to remember absence for a minute.
        let took = until("it is there", || sandbox.file(name).exists());
        assert!(took.as_secs() < 40, "{name} after {took:?}");
        assert_eq!(fs::read(sandbox.file(name)).expect("read"), name.as_bytes());
    }
    sandbox.umount();
}

#[test]
fn finding_32_versions_are_chosen_and_what_is_kept_can_be_purged() {
    let sandbox = Sandbox::mounted("rs:2+1");
    sandbox.weft(["trash", "keep", "meta.db", "1h"]).ok();
    fs::create_dir(sandbox.file("dir")).expect("made");
    for content in ["first", "second"] {
        fs::write(sandbox.file("dir/file"), content).expect("written");
        fs::remove_file(sandbox.file("dir/file")).expect("removed");
    }
    fs::write(sandbox.file("other"), "other").expect("written");
    fs::remove_file(sandbox.file("other")).expect("removed");
    until("all are listed", || paths(&sandbox) == ["/dir/file", "/dir/file", "/other"]);
    let listed = || -> Vec<serde_json::Value> {
        serde_json::from_str(&sandbox.weft(["trash", "list", "--json", "meta.db"]).ok()).expect("JSON")
    };
    let versions = listed().into_iter().filter(|line| line["path"] == "/dir/file");
    let versions: Vec<String> = versions.map(|line| line["version"].to_string()).collect();
    let restore = |version: &str| sandbox.weft(["trash", "restore", "meta.db", "/dir/file", "--version", version]);
    assert!(restore("1").sentence().contains("version 1 is kept"), "there is no such version");
    // The last deleted comes first in the list.
    restore(&versions[1]).ok();
    until("it is there", || sandbox.file("dir/file").exists());
    assert_eq!(fs::read(sandbox.file("dir/file")).expect("read"), b"first");
    fs::remove_dir_all(sandbox.file("dir")).expect("removed");
    until("all are listed", || paths(&sandbox) == ["/dir", "/dir/file", "/dir/file", "/other"]);

    let purge = |arguments: &[&str]| sandbox.weft(["trash", "purge", "meta.db"].iter().chain(arguments));
    assert!(!purge(&[]).success, "everything only if it is said");
    assert!(purge(&["/none"]).sentence().contains("no deleted file of that name"));
    purge(&["/dir/file", "--version", &versions[0]]).ok();
    until("one is gone", || paths(&sandbox) == ["/dir", "/dir/file", "/other"]);
    assert!(purge(&["/dir"]).ok().contains("2 inodes"));
    until("the directory is gone", || paths(&sandbox) == ["/other"]);
    sandbox.umount();
    purge(&["--all"]).ok();
    assert!(paths(&sandbox).is_empty());
    sandbox.weft(["fsck", "meta.db"]).ok();
}
