use super::*;
use weft_format::records::Timestamp;

#[test]
fn modes_read_as_in_ls() {
    let modified = Timestamp::default();
    let shown = |kind, mode| mode_text(&Entry { kind, mode, uid: 0, gid: 0, nlink: 1, size: 0, modified });
    assert_eq!(shown(Kind::File, 0o644), "-rw-r--r--");
    assert_eq!(shown(Kind::Directory, 0o1777), "drwxrwxrwt");
    assert_eq!(shown(Kind::File, 0o6755), "-rwsr-sr-x");
    assert_eq!(shown(Kind::File, 0o4644), "-rwSr--r--");
    assert_eq!(shown(Kind::Symlink, 0o777), "lrwxrwxrwx");
}
