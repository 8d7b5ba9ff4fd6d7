use super::*;

const TABLE: &str = "\
22 27 0:21 / /proc rw,relatime - proc proc rw
90 27 0:45 / /home/a\\040b/mnt rw,nosuid,nodev shared:3 master:1 - fuse.weft /home/a\\040b/meta.db rw,user_id=0
half a line
";

#[test]
fn lines_are_read_with_their_escapes_and_optional_fields() {
    let table = parse(TABLE.as_bytes());
    assert_eq!(table.len(), 2);
    assert_eq!(table[0].mountpoint, Path::new("/proc"));
    assert!(!table[0].is_ours());
    let expected = Mount {
        mountpoint: "/home/a b/mnt".into(),
        kind: "fuse.weft".into(),
        source: "/home/a b/meta.db".into(),
        device: "0:45".into(),
        is_read_only: false,
    };
    assert_eq!(table[1], expected);
    assert!(table[1].is_ours());
    let reader = parse_line(b"91 27 0:46 / /mnt ro,nosuid - fuse.weft /meta.db rw,user_id=0").expect("a mount");
    assert!(reader.is_read_only);
}

#[test]
fn a_backslash_that_escapes_nothing_stays() {
    assert_eq!(unescape(b"a\\134b\\"), OsString::from("a\\b\\"));
    assert_eq!(unescape(b"\\999"), OsString::from("\\999"));
}

#[test]
fn a_path_that_cannot_be_resolved_itself_is_resolved_by_its_parent() {
    let here = tempfile::tempdir().expect("a temporary directory");
    let real = here.path().canonicalize().expect("it is there");
    std::os::unix::fs::symlink(&real, real.join("link")).expect("a link");
    assert_eq!(absolute(&real.join("link/missing/")), real.join("missing"));
}
