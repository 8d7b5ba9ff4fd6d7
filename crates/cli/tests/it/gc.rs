//! `weft gc` frees what deleted files leave in segments that other files share.

use crate::sandbox::Sandbox;
use std::fs;
use std::path::Path;

const FILES: u64 = 40;

fn content(number: u64) -> Vec<u8> {
    crate::content::bytes(number, 100_000 + number as usize * 100)
}

/// A folder of files that travel together, most of them deleted again.
fn thin(sandbox: &Sandbox) {
    let source = sandbox.path("source");
    fs::create_dir(&source).expect("made");
    for number in 0..FILES {
        fs::write(format!("{source}/{number}"), content(number)).expect("written");
    }
    sandbox.weft(["put", "meta.db", "source", "/"]).ok();
    let gone: Vec<String> =
        (0..FILES).filter(|number| number % 5 > 0).map(|number| format!("/source/{number}")).collect();
    sandbox.weft(["rm", "meta.db"].into_iter().chain(gone.iter().map(String::as_str))).ok();
}

fn check(sandbox: &Sandbox) {
    for number in (0..FILES).step_by(5) {
        sandbox.weft(["get", "meta.db", &format!("/source/{number}"), "copy"]).ok();
        assert!(fs::read(sandbox.path("copy")).expect("read") == content(number), "{number} differs");
        fs::remove_file(sandbox.path("copy")).expect("removed");
    }
    sandbox.weft(["fsck", "meta.db"]).ok();
}

fn bytes_below(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).expect("listed").map(|entry| entry.expect("listed"));
    entries
        .map(|entry| match entry.metadata().expect("there") {
            metadata if metadata.is_dir() => bytes_below(&entry.path()),
            metadata => metadata.len(),
        })
        .sum()
}

fn on_nodes(sandbox: &Sandbox) -> u64 {
    (1..=6).map(|number| bytes_below(Path::new(&sandbox.path(&format!("node{number}"))))).sum()
}

#[test]
fn what_lives_of_thin_segments_is_moved_and_the_rest_freed() {
    let sandbox = Sandbox::with_volume("rs:4+2");
    thin(&sandbox);
    let before = on_nodes(&sandbox);
    let said = sandbox.weft(["gc", "-n", "meta.db"]).ok();
    assert!(said.contains("more dead than live bytes") && !said.contains("compacted 1"), "{said}");
    assert_eq!(on_nodes(&sandbox), before);

    let said = sandbox.weft(["gc", "meta.db"]).ok();
    assert!(said.contains("compacted 1 segment: ") && !said.contains("more dead than live bytes"), "{said}");
    check(&sandbox);
    let said = sandbox.weft(["gc", "--grace", "0", "meta.db"]).ok();
    assert!(said.contains("removed 1 segment"), "{said}");
    let json = sandbox.weft(["gc", "--json", "meta.db"]).ok();
    assert!(json.contains("\"thin_count\": 0") && json.contains("\"moved_bytes\": 0"), "{json}");
    let after = on_nodes(&sandbox);
    assert!(after * 3 < before, "{after} of {before} bytes");
    check(&sandbox);
}

#[test]
fn beside_a_mount_it_is_left_to_the_mount() {
    let sandbox = Sandbox::with_volume("rs:4+2");
    thin(&sandbox);
    sandbox.mount();
    let said = sandbox.weft(["gc", "meta.db"]).ok();
    assert!(said.contains("more dead than live bytes") && said.contains("compacts by itself"), "{said}");
    check(&sandbox);
    sandbox.umount();
}

#[test]
fn what_has_too_few_nodes_is_not_moved() {
    let sandbox = Sandbox::with_volume("rs:4+2");
    thin(&sandbox);
    fs::rename(sandbox.path("node3"), sandbox.path("away")).expect("renamed");
    let said = sandbox.weft(["gc", "meta.db"]);
    assert!(!said.success && said.stdout.contains("not compacted: "), "{}", said.stdout);
    fs::rename(sandbox.path("away"), sandbox.path("node3")).expect("renamed");
    check(&sandbox);
    let said = sandbox.weft(["gc", "meta.db"]).ok();
    assert!(said.contains("compacted 1 segment"), "{said}");
    check(&sandbox);
}
