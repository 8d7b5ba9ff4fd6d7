//! Texts: names of shards and numbers, addresses of nodes and metadata, key files.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use weft_daemon::{DaemonUrl, Daemons};
use weft_format::amount::{parse_bytes, show_bytes};
use weft_format::span::{parse_ms, show_ms};
use weft_format::{Generation, NodeId, SegmentId, ShardIndex, ShardKey, VolumeId};
use weft_meta::MetaUrl;
use weft_nodes::url::{percent_decode, percent_encode};
use weft_nodes::{Kind, Kinds};

fn lines(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

/// Names of shards, ids, lengths of time, numbers of bytes, escapes, places of metadata.
pub(super) fn name(bytes: &[u8]) {
    if let Some(plain) = percent_decode(bytes) {
        assert_eq!(percent_decode(percent_encode(&plain).as_bytes()), Some(plain));
    }
    if !bytes.contains(&0)
        && let Ok(url) = MetaUrl::parse(OsStr::from_bytes(bytes))
    {
        // `sqlite:a:b` is the file `./a:b`.
        let shown = url.to_os_string();
        assert_eq!(MetaUrl::parse(&shown).map(|again| again.to_os_string()), Ok(shown));
    }
    let Ok(text) = str::from_utf8(bytes) else { return };
    if let Ok(key) = text.parse::<ShardKey>() {
        assert_eq!(key.to_string(), text);
    }
    if let Ok(volume) = text.parse::<VolumeId>() {
        assert_eq!(volume.to_string(), text);
    }
    if let Some(ms) = parse_ms(text) {
        assert_eq!(parse_ms(&show_ms(ms)), Some(ms));
    }
    if let Some(bytes) = parse_bytes(text) {
        assert_eq!(parse_bytes(&show_bytes(bytes.get())), Some(bytes));
    }
}

pub(super) fn name_seeds() -> Vec<Vec<u8>> {
    let key = ShardKey { segment: SegmentId(7), generation: Generation(12), index: ShardIndex(3) };
    let texts = [
        "30d",
        "250ms",
        "1.5g",
        "10MiB",
        "/a%20b/%25",
        "sqlite:/var/meta.db",
        "./a:b",
        "meta.db",
        &NodeId(1).to_string(),
    ];
    [vec![key.to_string().into_bytes()], lines(&texts)].concat()
}

fn kinds() -> Kinds {
    let daemons: Arc<dyn Kind> = Arc::new(Daemons::new(&weft_env::Env::seeded(1)));
    Kinds::new(weft_nodes::kinds::local().into_iter().chain([daemons]).chain(weft_nodes::foreign::kinds()).collect())
}

/// An address of a node of any kind.
pub(super) fn node_url(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    if let Ok(url) = text.parse::<DaemonUrl>() {
        assert_eq!(url.to_string().parse(), Ok(url));
    }
    let kinds = kinds();
    match kinds.parse(text) {
        Ok(url) => {
            assert_eq!(kinds.parse(&url.to_string()), Ok(url.clone()));
            assert!(kinds.about_of(&url).is_some());
            let former = kinds.parse(&url.former("mark")).expect("what was there has an address");
            assert_eq!(former.kind(), url.kind());
        }
        Err(error) => drop(error.to_string()),
    }
}

pub(super) fn node_url_seeds() -> Vec<Vec<u8>> {
    let mut texts: Vec<String> =
        kinds().about().flat_map(|about| about.schemes).map(|scheme| format!("{scheme}://h")).collect();
    texts.extend(
        [
            "/mnt/disk 1",
            "file:///mnt/disk%201",
            "block:///dev/sdb",
            "weft://host:7600",
            "weft+tls://[::1]:7600/ca:/etc/ca.pem",
            "s3://bucket/folder/of%20it?endpoint=http://h:9000&region=r&quota=500GB",
            "sftp://user@host:22/folder#mark",
            "webdav://host/a/b",
        ]
        .map(str::to_owned),
    );
    texts.push(format!("weft+tls://h:1/sha256:{}", "ab".repeat(32)));
    texts.into_iter().map(String::into_bytes).collect()
}

/// An address in the first line, and the text of the key file for it.
pub(super) fn key_file(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    let (url, key_file) = text.split_once('\n').unwrap_or((text, ""));
    let kinds = kinds();
    let Ok(url) = kinds.parse(url) else { return };
    match kinds.secret_of(&url, key_file) {
        // What a record has of foreign nodes is a key file again.
        Ok(secret) => {
            if let Ok(again) = str::from_utf8(&secret.0).map(|text| kinds.secret_of(&url, text)) {
                assert!(again.is_err() || again == Ok(secret));
            }
        }
        Err(error) => drop(error.to_string()),
    }
}

pub(super) fn key_file_seeds() -> Vec<Vec<u8>> {
    let key = weft_daemon::Key::new([7; 32]).to_hex();
    let texts = [
        format!("weft://h:1\n{key}\n"),
        "s3://bucket\n# a comment\naccess_key_id = A\nsecret_access_key = B=C\n".to_owned(),
        "webdav://h/a\nusername=u\npassword=p\n".to_owned(),
        "/mnt/x\nkey".to_owned(),
    ];
    texts.map(String::into_bytes).into()
}
