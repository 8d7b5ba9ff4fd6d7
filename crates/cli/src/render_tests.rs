use super::*;

#[test]
fn sizes_have_a_unit() {
    for (count, shown) in [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        ((1 << 20) - 1, "1.0 MiB"),
        (5 << 40, "5.0 TiB"),
    ] {
        assert_eq!(bytes(count), shown);
    }
    assert_eq!(bytes(u64::MAX), "16.0 EiB");
}

#[test]
fn times_are_dates() {
    let at = |seconds| time(Timestamp { seconds, nanoseconds: 0 });
    assert_eq!(at(0), "1970-01-01 00:00:00");
    assert_eq!(at(-1), "1969-12-31 23:59:59");
    assert_eq!(at(951_782_400), "2000-02-29 00:00:00");
    assert_eq!(at(1_795_179_423), "2026-11-20 12:57:03");
}

#[test]
fn names_stay_in_their_line() {
    assert_eq!(line("a b/\u{e9}t\u{e9}"), "a b/\u{e9}t\u{e9}");
    assert_eq!(line("new\nline\x1b[31m\u{9b}"), "new\\nline\\u{1b}[31m\\u{9b}");
}

#[test]
fn errors_are_sentences() {
    let error = anyhow::Error::from(std::io::Error::from_raw_os_error(libc::ENOENT)).context("/a\nb");
    assert_eq!(sentence(&error), "/a\\nb: No such file or directory");
    let error = anyhow::anyhow!("x (Permission denied (os error 13)): y");
    assert_eq!(sentence(&error), "x (Permission denied): y");
}

#[test]
fn columns_line_up() {
    let rows = [vec!["a".to_owned(), "10".into()], vec!["long".into(), "5".into()]];
    assert_eq!(table(&rows, &[1]), "a     10\nlong   5\n");
}
