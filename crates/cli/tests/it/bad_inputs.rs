//! What goes wrong before anything is done: each case one sentence with its mend, and nothing lost.

use crate::sandbox::Sandbox;
use rustix::fs::XattrFlags;
use rustix::io::Errno;
use std::fs;
use std::os::unix::fs::FileExt;

#[track_caller]
fn refused(sandbox: &Sandbox, arguments: &[&str], parts: &[&str]) {
    let sentence = sandbox.weft(arguments).sentence();
    for part in parts {
        assert!(sentence.contains(part), "`{sentence}` does not say `{part}`");
    }
}

#[test]
fn codes_that_are_none() {
    let sandbox = Sandbox::empty();
    for spec in ["rs:0+0", "rs:300+2", "raid5:2", "rs:4", "nonsense:1", "", "rs:4+-2"] {
        refused(&sandbox, &["format", "--policy", spec, "meta.db"], &[]);
        refused(&sandbox, &["codes", "show", spec], &[]);
    }
    refused(&sandbox, &["format", "--policy", "nonsense:1", "meta.db"], &["nonsense", "rs"]);
    refused(&sandbox, &["codes", "check", "rs:4+2", "rs:4"], &["rs:4"]);
    refused(&sandbox, &["codes", "bench", "rs:4+2", "rs:4"], &["rs:4"]);
    refused(&sandbox, &["codes", "bench", "rs:4+2", "--isa", "mmx"], &["\"mmx\"", "portable, or all"]);
    refused(&sandbox, &["codes", "show", "rs:4+2", "--svg", "missing/layout.svg"], &["missing/layout.svg"]);
    refused(&sandbox, &["codes", "show", "ldpc:@missing"], &["missing", "cannot be read"]);
    fs::write(sandbox.path("graph"), "a letter").expect("written");
    refused(&sandbox, &["codes", "show", "ldpc:@graph"], &["graph"]);
    refused(&sandbox, &["codes", "search-ldpc", "-n", "400", "-m", "6"], &["400+6"]);
    assert!(!fs::exists(sandbox.path("meta.db")).expect("looked"));
}

#[test]
fn metadata_that_is_missing_not_ours_or_damaged() {
    let sandbox = Sandbox::empty();
    let mnt = sandbox.mnt();
    fs::write(sandbox.path("text"), "a letter to grandmother").expect("written");
    fs::write(sandbox.path("empty"), "").expect("written");
    for meta in ["missing.db", "text", "empty", "mnt"] {
        for command in [
            vec!["mount", "-d", meta, &mnt],
            vec!["ls", meta],
            vec!["node", "list", meta],
            vec!["node", "add", meta, "a", "somewhere"],
            vec!["put", meta, "text", "/"],
            vec!["policy", "get", meta],
        ] {
            refused(&sandbox, &command, &[meta]);
        }
    }
    assert_eq!(fs::read(sandbox.path("text")).expect("still there"), b"a letter to grandmother");
    refused(&sandbox, &["format", "text"], &["text"]);
    refused(&sandbox, &["format", "no/such/place.db"], &["no/such", "mkdir -p"]);
    assert!(!fs::exists(sandbox.path("somewhere")).expect("looked"));
}

#[test]
fn metadata_of_a_newer_format() {
    let sandbox = Sandbox::with_volume("rs:4+2");
    // SQLite's header holds the format's version, big-endian.
    let meta = fs::File::options().write(true).open(sandbox.path("meta.db")).expect("opened");
    meta.write_all_at(&99u32.to_be_bytes(), 60).expect("written");
    let mnt = sandbox.mnt();
    for command in [vec!["ls", "meta.db"], vec!["mount", "-d", "meta.db", &mnt], vec!["node", "list", "meta.db"]] {
        refused(&sandbox, &command, &["meta.db", "99", "newer"]);
    }
}

#[test]
fn volumes_and_nodes_that_are_there_already() {
    let sandbox = Sandbox::with_volume("rs:4+2");
    refused(&sandbox, &["format", "meta.db"], &["meta.db"]);
    refused(&sandbox, &["node", "add", "meta.db", "1", "other"], &["1", "another name"]);
    refused(&sandbox, &["node", "add", "meta.db", "seven", "node1"], &["node1"]);
    refused(&sandbox, &["node", "add", "meta.db", "a b", "other"], &["a b"]);
    refused(&sandbox, &["node", "add", "meta.db", "seven", "ftp://host/x"], &["ftp"]);
    refused(&sandbox, &["node", "add", "meta.db", "seven", "no/such/parent"], &["no/such"]);
    refused(&sandbox, &["node", "replace", "meta.db", "eight", "other"], &["eight", "1, 2, 3"]);
    refused(&sandbox, &["node", "remove", "meta.db", "eight"], &["eight"]);
    refused(&sandbox, &["node", "remove", "meta.db", "1"], &["rs:4+2 needs 6", "weft node add"]);
    sandbox.weft(["format", "second.db"]).ok();
    refused(&sandbox, &["node", "add", "second.db", "1", "node1"], &["node1", "volume"]);
    assert_eq!(sandbox.weft(["node", "list", "meta.db"]).ok().lines().count(), 7);
}

#[test]
fn too_few_nodes() {
    let sandbox = Sandbox::empty();
    sandbox.weft(["format", "meta.db"]).ok();
    fs::write(sandbox.path("file"), "x").expect("written");
    sandbox.weft(["node", "add", "meta.db", "1", "node1"]).ok();
    let mend = ["rs:4+2 needs 6 nodes", "has 1 node", "add 5 more", "weft node add"];
    refused(&sandbox, &["mount", "-d", "meta.db", "mnt"], &mend);
    refused(&sandbox, &["mount", "meta.db", "mnt"], &mend);
    refused(&sandbox, &["put", "meta.db", "file", "/"], &mend);
    refused(&sandbox, &["policy", "set", "meta.db", "/", "replica:3"], &["replica:3 needs 3 nodes"]);
}

#[test]
fn mount_points_that_are_not_fit() {
    let sandbox = Sandbox::mounted("rs:4+2");
    let mnt = sandbox.mnt();
    refused(&sandbox, &["mount", "-d", "meta.db", "nowhere"], &["nowhere", "mkdir"]);
    refused(&sandbox, &["mount", "-d", "meta.db", "meta.db"], &["meta.db", "not a directory"]);
    refused(&sandbox, &["mount", "-d", "meta.db", "node1"], &["node1", "not empty"]);
    refused(&sandbox, &["mount", "-d", "meta.db", "mnt"], &["mnt", "already mounted"]);
    fs::create_dir(sandbox.path("second")).expect("made");
    refused(&sandbox, &["mount", "-d", "meta.db", "second"], &["in use", &mnt, "weft umount"]);
    refused(
        &sandbox,
        &["node", "add", "meta.db", "seven", "mnt/inside"],
        &["mnt/inside", "is inside the volume itself"],
    );
    refused(&sandbox, &["node", "replace", "meta.db", "1", "mnt"], &["is inside the volume itself"]);
    refused(&sandbox, &["umount", "second"], &["second", "not a mount"]);
    refused(&sandbox, &["umount", "nowhere"], &["nowhere", "not a mount"]);
    refused(&sandbox, &["umount", "/proc"], &["/proc", "another file system"]);
    fs::write(sandbox.file("kept"), "kept").expect("written");
    let open = fs::File::open(sandbox.file("kept")).expect("opened");
    refused(&sandbox, &["umount", "mnt"], &["in use", "--lazy"]);
    drop(open);
    assert_eq!(fs::read(sandbox.file("kept")).expect("still mounted"), b"kept");
    sandbox.umount();
}

#[test]
fn paths_in_the_volume_that_are_not_there() {
    let sandbox = Sandbox::with_volume("rs:4+2");
    refused(&sandbox, &["ls", "meta.db", "/nothing"], &["/nothing"]);
    refused(&sandbox, &["get", "meta.db", "/nothing", "out"], &["/nothing"]);
    refused(&sandbox, &["rm", "meta.db", "/nothing"], &["/nothing"]);
    refused(&sandbox, &["rm", "-r", "meta.db", "/"], &["root"]);
    refused(&sandbox, &["put", "meta.db", "nothing", "/"], &["nothing"]);
    refused(&sandbox, &["put", "meta.db", "meta.db", "/a/b"], &["/a"]);
    refused(&sandbox, &["ls", "meta.db", "/../x"], &[".."]);
    refused(&sandbox, &["get", "meta.db", "/", "no/such/place"], &["no/such", "mkdir -p"]);
    refused(&sandbox, &["get", "meta.db", "/", "-"], &["/ is not a file"]);
    refused(&sandbox, &["put", "meta.db", "-", "/"], &["no name", "write /NAME as"]);
    refused(&sandbox, &["policy", "set", "meta.db", "/nothing", "rs:4+2"], &["/nothing"]);
    refused(&sandbox, &["policy", "set", "meta.db", "/", "rs:40+2"], &["needs 42 nodes"]);
    assert!(!fs::exists(sandbox.path("out")).expect("looked"));
}

#[test]
fn a_policy_that_the_volume_has_no_nodes_for() {
    let sandbox = Sandbox::mounted("rs:4+2");
    let set =
        |code: &str| rustix::fs::setxattr(sandbox.mnt(), "user.weft.policy", code.as_bytes(), XattrFlags::empty());
    assert_eq!(set("rs:20+2"), Err(Errno::INVAL), "files under it could never be written");
    assert_eq!(set("nonsense"), Err(Errno::INVAL));
    assert_eq!(sandbox.weft(["policy", "get", "meta.db"]).ok(), "rs:4+2\n");
    set("raid6:6").expect("six nodes are there");
    assert_eq!(sandbox.weft(["policy", "get", "meta.db"]).ok(), "raid6:6\n");
    sandbox.umount();
}

#[test]
fn a_quickstart_that_is_there_with_another_policy() {
    let sandbox = Sandbox::empty();
    sandbox.weft(["quickstart", "try", "--policy", "replica:2"]).ok();
    refused(&sandbox, &["quickstart", "try", "--policy", "rs:4+2"], &["replica:2", "weft policy set"]);
    sandbox.weft(["quickstart", "try"]).ok();
    sandbox.weft(["umount", "try/mnt"]).ok();
}

#[test]
fn usage_errors_are_not_taken_for_findings() {
    let sandbox = Sandbox::empty();
    for arguments in [&["status"][..], &["status", "--jsn", "meta.db"], &["nonsense"], &["gc", "m", "--grace", "long"]]
    {
        assert_eq!(sandbox.weft(arguments).code, Some(1), "{arguments:?}: 2 and 3 say what was found");
    }
    assert_eq!(sandbox.weft(["--help"]).code, Some(0));
}
