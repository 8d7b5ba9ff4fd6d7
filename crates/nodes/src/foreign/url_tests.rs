use super::*;

fn parse(text: &str) -> Result<ForeignUrl, ForeignUrlError> {
    let (scheme, rest) = text.split_once("://").expect("a scheme");
    ForeignUrl::parse(scheme, rest).expect("a scheme of ours")
}

#[test]
fn one_place_has_one_text() {
    for (text, shown) in [
        ("s3://shards", "s3://shards"),
        ("s3://shards/", "s3://shards"),
        ("s3://shards/a/b/", "s3://shards/a/b"),
        (
            "s3://shards/a?region=eu&endpoint=http://[::1]:9000",
            "s3://shards/a?endpoint=http://%5B::1%5D:9000&region=eu",
        ),
        ("webdavs://nas/remote.php/dav/files/me%20too", "webdavs://nas/remote.php/dav/files/me%20too"),
        ("sftp://me@nas:2222/srv/weft?identity=/root/.ssh/id", "sftp://me@nas:2222/srv/weft?identity=/root/.ssh/id"),
        ("swebhdfs://[::1]:9871/weft?user=me&quota=10TB", "swebhdfs://[::1]:9871/weft?quota=10TB&user=me"),
        ("webhdfs://nn:9870/weft?datanode=dn3:9864&user=me", "webhdfs://nn:9870/weft?datanode=dn3:9864&user=me"),
        ("gcs://bucket/p#lost-12ab", "gcs://bucket/p"),
        ("gdrive://mine/a folder", "gdrive://mine/a%20folder"),
        ("ftps://nas:2121/weft/", "ftps://nas:2121/weft"),
        ("aliyun-drive://mine?drive_type=backup", "aliyun-drive://mine?drive_type=backup"),
    ] {
        let url = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(url.to_string(), shown);
        assert_eq!(parse(shown).as_ref(), Ok(&url), "shown and parsed again");
    }
}

#[test]
fn what_cannot_be_right_is_told_so() {
    let error = |text: &str| parse(text).expect_err(text);
    for text in [
        "s3://",
        "s3:///a",
        "s3://Bucket",
        "s3://key:word@bucket",
        "webdav://",
        "webdav://me@nas",
        "sftp://nas:",
        "sftp://me@",
        "ftp://me@nas",
        "gdrive:///a",
        "gdrive://me@mail.example",
    ] {
        assert!(matches!(error(text), ForeignUrlError::Authority { .. }), "{text}");
    }
    for text in ["s3://b/a//b", "s3://b/../c", "s3://b/a/./b", "webdav://h/a%0ab"] {
        assert!(matches!(error(text), ForeignUrlError::Path(_)), "{text}");
    }
    assert_eq!(error("s3://b/%zz"), ForeignUrlError::Escape);
    assert_eq!(error("s3://b/%ff"), ForeignUrlError::Escape);
    assert_eq!(error("s3://b?region"), ForeignUrlError::Value("region".into()));
    assert_eq!(error("s3://b?region=a&region=b"), ForeignUrlError::Value("region".into()));
    for quota in ["", "5", "5 apples", "0GB", "-1GB", "99999999TB", "1.5GB"] {
        let text = format!("s3://b?quota={quota}");
        assert!(matches!(error(&text), ForeignUrlError::Quota(_)), "{text}");
    }
    for datanode in ["dn3:", "dn3:0", "me@dn3", "a/b", "dn3 dn4", ""] {
        let text = format!("webhdfs://nn/weft?datanode={datanode}");
        assert!(matches!(error(&text), ForeignUrlError::DataNode(_)), "{text}");
    }
    assert!(error("webdav://nas/weft?datanode=dn3").to_string().contains("no option `datanode`"));
    let unknown = error("webdav://h/p?user=me").to_string();
    assert!(unknown.contains("`user`") && unknown.contains("quota"), "{unknown}");
}

#[test]
fn no_secret_is_taken_or_repeated() {
    for text in ["s3://b?secret_access_key=hunter2", "azblob://b?account_key=hunter2", "ftp://h/p?user=hunter2"] {
        let error = parse(text).expect_err(text);
        assert!(matches!(error, ForeignUrlError::Secret { .. }), "{error}");
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
    for text in ["s3://key:hunter2@bucket", "webdav://me:hunter2@nas/p", "sftp://me:hunter2@nas:0/p"] {
        let error = parse(text).expect_err(text).to_string();
        assert!(!error.contains("hunter2"), "{error}");
    }
}

#[test]
fn quotas_are_bytes() {
    let quota = |text: &str| parse(&format!("s3://b?quota={text}")).expect("a quota").quota_bytes();
    assert_eq!(quota("500GB"), Some(500_000_000_000));
    assert_eq!(quota("2%20TiB"), Some(2 << 40));
    assert_eq!(parse("s3://b").expect("a bucket").quota_bytes(), None);
}
