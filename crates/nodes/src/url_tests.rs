use super::*;
use crate::kinds::{self, Kinds};

fn parse(text: &str) -> Result<NodeUrl, UrlError> {
    Kinds::new(kinds::local().into_iter().chain(crate::foreign::kinds()).collect()).parse(text)
}

#[test]
fn folders_by_path_and_by_url() {
    let folder = |path: &str| Ok(NodeUrl::folder(Path::new(path)));
    assert_eq!(parse("/mnt/a"), folder("/mnt/a"));
    assert_eq!(parse("file:///mnt/a%20b"), folder("/mnt/a b"));
    assert_eq!(parse("/mnt/100%"), folder("/mnt/100%"));
    let relative = parse("a/b").unwrap();
    assert_eq!(relative, NodeUrl::folder(&std::env::current_dir().unwrap().join("a/b")));
}

#[test]
fn devices_by_url() {
    let url = parse("block:///dev/disk/by-id/a%20b").unwrap();
    assert_eq!(*url.place(), Place::Device(PathBuf::from("/dev/disk/by-id/a b")));
    assert_eq!(url.to_string(), "block:///dev/disk/by-id/a%20b");
    assert_eq!(parse("block://host/dev/sdb"), Err(UrlError::OtherHost { url: "block://host/dev/sdb".into() }));
}

#[test]
fn former_addresses_are_addresses_of_their_own() {
    for text in ["/mnt/a", "block:///dev/sdb", "s3://bucket/prefix?region=eu", "memory://one"] {
        let url = parse(text).unwrap();
        let former = url.former("12ab");
        assert_ne!(former, url.to_string());
        parse(&former).unwrap();
    }
}

#[test]
fn display_is_the_inverse_of_parse() {
    let path = OsString::from_vec(b"/d \xff%/\xc3\xa9:x".to_vec());
    let url = NodeUrl::folder(Path::new(&path));
    assert_eq!(url.to_string(), "file:///d%20%FF%25/%C3%A9%3Ax");
    assert_eq!(parse(&url.to_string()), Ok(url));
}

#[test]
fn what_is_no_address_is_told_so() {
    let parse = |text: &str| super::tests::parse(text).unwrap_err();
    assert_eq!(parse(""), UrlError::Empty);
    assert!(matches!(parse("gopher://host"), UrlError::UnknownScheme { scheme } if scheme == "gopher"));
    assert!(matches!(parse("s3://"), UrlError::Unfit(why) if why.contains("`s3://`")));
    for none in ["memory://", "memory://a/b"] {
        assert!(matches!(parse(none), UrlError::Unfit(_)), "{none}");
    }
    assert!(matches!(parse("file://nas/share"), UrlError::OtherHost { .. }));
    for broken in ["file:///a%", "file:///a%2", "file:///a%zz", "file:///a%00", "file:///%+1"] {
        assert!(matches!(parse(broken), UrlError::Escape { .. }), "{broken}");
    }
    for zero in ["/a\0", "file:///a\0", "memory://a\0"] {
        assert!(matches!(parse(zero), UrlError::Unfit(why) if why.contains("zero byte")), "{zero:?}");
    }
    assert_eq!(percent_decode(b"a\0"), None);
}

#[test]
fn finding_17_no_password_is_repeated() {
    for text in [
        "sftp://user:hunter2@host/path",
        "sftp://user:hunter2@host:22",
        "sftp://user:hunter2/more@host/path",
        "sftp://user:hunter2?more@host/path",
        "sftp://user:#hunter2@host/path",
        "sftp://user:hunter2",
        "sftp://hunter2:hunter2@hunter2@host:port",
        "weft://user:hunter2@host:7600",
        "weft+tls://user:hunter2@host:7600/sha256:00",
        "s3://key:hunter2@bucket",
        "memory://user:hunter2@x",
        "nothing://user:hunter2@host",
        "webdav://user:hunter2%@host/x",
    ] {
        let error = parse(text).expect_err(text).to_string();
        assert!(!error.contains("hunter2"), "{text}: {error}");
    }
    for text in ["sftp://user@host:22/folder@2", "sftp://host:22/folder@2:3", "block:///dev/disk/by-id/a:b@c"] {
        parse(text).expect(text);
    }
}
