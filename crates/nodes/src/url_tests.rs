use super::*;

#[test]
fn folders_by_path_and_by_url() {
    let folder = |path: &str| Ok(NodeUrl::Folder(PathBuf::from(path)));
    assert_eq!("/mnt/a".parse(), folder("/mnt/a"));
    assert_eq!("file:///mnt/a%20b".parse(), folder("/mnt/a b"));
    assert_eq!("/mnt/100%".parse(), folder("/mnt/100%"));
    let relative: NodeUrl = "a/b".parse().unwrap();
    assert_eq!(relative, NodeUrl::Folder(std::env::current_dir().unwrap().join("a/b")));
}

#[test]
fn devices_by_url() {
    let url: NodeUrl = "block:///dev/disk/by-id/a%20b".parse().unwrap();
    assert_eq!(url, NodeUrl::Block(PathBuf::from("/dev/disk/by-id/a b")));
    assert_eq!(url.to_string(), "block:///dev/disk/by-id/a%20b");
    assert_eq!(
        "block://host/dev/sdb".parse::<NodeUrl>(),
        Err(UrlError::OtherHost { url: "block://host/dev/sdb".into() })
    );
}

#[test]
fn daemons_by_url() {
    let daemon = |address: &str| Ok(NodeUrl::Daemon(DaemonUrl { authority: address.to_owned(), tls: None }));
    assert_eq!("weft://nas:7601".parse(), daemon("nas:7601"));
    assert_eq!("weft://nas/".parse(), daemon("nas:7600"));
    assert_eq!("weft://[::1]:80".parse(), daemon("[::1]:80"));
    let url: NodeUrl = "weft://10.0.0.7".parse().unwrap();
    assert_eq!((url.to_string(), url.path()), ("weft://10.0.0.7:7600".to_owned(), None));
    for none in [
        "weft://",
        "weft:///x",
        "weft://host:",
        "weft://host:99999",
        "weft://user@host",
        "weft://host/path",
        "weft://a b",
        "weft://nas/sha256:00",
        "weft+tls://",
        "weft+tls://nas/sha256:00",
        "weft+tls://nas/ca:relative",
        "weft+tls://nas/ca:/broken%2",
        "weft+tls://nas/path",
    ] {
        assert!(matches!(none.parse::<NodeUrl>(), Err(UrlError::Authority { .. })), "{none}");
    }
}

#[test]
fn former_addresses_are_addresses_of_their_own() {
    for text in [
        "/mnt/a",
        "block:///dev/sdb",
        "weft://nas:7601",
        "weft+tls://nas:7601",
        "s3://bucket/prefix?region=eu",
        "memory://one",
    ] {
        let url: NodeUrl = text.parse().unwrap();
        let former = url.former("12ab");
        assert_ne!(former, url.to_string());
        former.parse::<NodeUrl>().unwrap();
    }
}

#[test]
fn display_is_the_inverse_of_parse() {
    let path = OsString::from_vec(b"/d \xff%/\xc3\xa9:x".to_vec());
    let url = NodeUrl::Folder(PathBuf::from(path));
    assert_eq!(url.to_string(), "file:///d%20%FF%25/%C3%A9%3Ax");
    assert_eq!(url.to_string().parse(), Ok(url));
}

#[test]
fn what_is_no_address_is_told_so() {
    let parse = |text: &str| text.parse::<NodeUrl>().unwrap_err();
    assert_eq!(parse(""), UrlError::Empty);
    assert!(matches!(parse("gopher://host"), UrlError::UnknownScheme { scheme } if scheme == "gopher"));
    assert!(matches!(parse("s3://"), UrlError::Foreign { scheme, .. } if scheme == "s3"));
    for none in ["memory://", "memory://a/b"] {
        assert!(matches!(parse(none), UrlError::Memory { .. }), "{none}");
    }
    assert!(matches!(parse("file://nas/share"), UrlError::OtherHost { .. }));
    for broken in ["file:///a%", "file:///a%2", "file:///a%zz", "file:///a%00", "file:///%+1"] {
        assert!(matches!(parse(broken), UrlError::Escape { .. }), "{broken}");
    }
}

#[test]
fn a_daemons_address_says_what_is_trusted() {
    let fingerprint = "0123456789abcdef".repeat(4);
    for text in [
        "weft+tls://nas:7600".to_owned(),
        format!("weft+tls://nas:7600/sha256:{fingerprint}"),
        "weft+tls://nas:7600/ca:/etc/ssl/my%20ca.pem".to_owned(),
    ] {
        let url: NodeUrl = text.parse().unwrap();
        assert_eq!(url.to_string(), text);
        let NodeUrl::Daemon(daemon) = &url else { panic!("{url:?}") };
        assert!(daemon.tls.is_some());
        let former: NodeUrl = url.former("x").parse().unwrap();
        assert_eq!(former, url, "a mark leads to the same place");
    }
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
        let error = text.parse::<NodeUrl>().expect_err(text).to_string();
        assert!(!error.contains("hunter2"), "{text}: {error}");
    }
    for text in ["sftp://user@host:22/folder@2", "sftp://host:22/folder@2:3", "block:///dev/disk/by-id/a:b@c"] {
        text.parse::<NodeUrl>().expect(text);
    }
}
