use super::*;
use weft_format::records::Timestamp;

#[test]
fn modes_read_as_in_ls() {
    let modified = Timestamp::default();
    let shown = |kind, mode| mode_text(&Entry { id: (0, 0), kind, mode, uid: 0, gid: 0, nlink: 1, size: 0, modified });
    assert_eq!(shown(Kind::File, 0o644), "-rw-r--r--");
    assert_eq!(shown(Kind::Directory, 0o1777), "drwxrwxrwt");
    assert_eq!(shown(Kind::File, 0o6755), "-rwsr-sr-x");
    assert_eq!(shown(Kind::File, 0o4644), "-rwSr--r--");
    assert_eq!(shown(Kind::Symlink, 0o777), "lrwxrwxrwx");
}

#[test]
fn finding_17_names_drive_no_terminal_and_are_whole_in_json() {
    let hostile = OsStr::from_bytes(b"\x1b]0;owned\x07\x9b31m\xe2\x80\xaetxt.exe\n");
    let text = String::from_utf8(shown(hostile, true)).expect("text");
    assert!(text.chars().all(|character| !character.is_control() && character != '\u{202e}'), "{text:?}");
    assert_eq!(shown(hostile, false), hostile.as_bytes());
    let modified = Timestamp { seconds: 0, nanoseconds: 0 };
    let entry = Entry { id: (0, 0), kind: Kind::File, mode: 0, uid: 0, gid: 0, nlink: 1, size: 0, modified };
    assert_eq!(
        line(hostile, &entry).name_hex.expect("it is not UTF-8"),
        "1b5d303b6f776e6564079b33316de280ae7478742e6578650a"
    );
    assert_eq!(line(OsStr::new("plain \u{e4}"), &entry).name_hex, None);
}
