//! The metadata file in the hands of users and of its disk: damaged, copied, without its log, read by many, on a full disk.

mod sandbox;

use sandbox::Sandbox;

/// Changes a byte of the first record that has this text.
fn damage(path: &str, text: &[u8]) {
    let mut bytes = std::fs::read(path).expect("readable");
    let at = bytes.windows(text.len()).position(|window| window == text).expect("it is in the file");
    bytes[at] ^= 1;
    std::fs::write(path, bytes).expect("writable");
}

#[test]
fn finding_10_damaged_metadata_is_said_by_fsck_scrub_and_whoever_reads_it() {
    let sandbox = Sandbox::with_volume("rs:4+2");
    std::fs::write(sandbox.path("letter"), "dear").expect("written");
    sandbox.weft(["put", sandbox.meta(), "letter", "/"]).ok();
    assert!(sandbox.weft(["fsck", sandbox.meta()]).ok().contains("0 findings"));
    // Of the name's two records the first by key: the one by which it is looked up.
    damage(&sandbox.path(sandbox.meta()), b"letter");
    let checked = sandbox.weft(["fsck", sandbox.meta()]);
    assert_eq!(checked.code, Some(2), "{}{}", checked.stdout, checked.stderr);
    assert!(checked.stdout.contains("the metadata store is damaged: "), "{}", checked.stdout);
    let scrubbed = sandbox.weft(["scrub", sandbox.meta()]);
    assert_eq!(scrubbed.code, Some(2), "{}{}", scrubbed.stdout, scrubbed.stderr);
    assert!(scrubbed.stdout.contains("the metadata store is damaged: "), "{}", scrubbed.stdout);
    let got = sandbox.weft(["get", sandbox.meta(), "/letter", "back"]);
    assert!(!got.success && got.stderr.contains("is damaged: "), "{}", got.stderr);
    assert!(!got.stderr.contains("no such file"), "a record that cannot be read is not absent: {}", got.stderr);
}
