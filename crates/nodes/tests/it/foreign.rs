//! Nodes on storage of others, against real servers and against faulty servers.

mod datanode;
mod faulty;

use crate::servers;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use weft_format::records::Secret;
use weft_format::{NodeId, NodeIdentity, VolumeId};
use weft_nodes::{Kinds, Node, NodeAt, NodeError, NodeErrorKind, conformance};

const IDENTITY: NodeIdentity = NodeIdentity { volume: VolumeId(1), node: NodeId(2) };

fn kinds() -> Kinds {
    Kinds::new(weft_nodes::foreign::kinds().chain(weft_nodes::kinds::local()).collect())
}

fn secret(url: &str, keys: &str) -> Secret {
    let url = kinds().parse(url).expect("an address");
    if keys.is_empty() { Secret::default() } else { kinds().secret_of(&url, keys).expect("keys") }
}

async fn create(url: &str, keys: &str) -> Result<Arc<dyn Node>, NodeError> {
    let (url, secret) = (&kinds().parse(url).expect("an address"), &secret(url, keys));
    kinds().create(&NodeAt { url, name: "foreign", identity: IDENTITY, secret }).await
}

fn open(url: &str, keys: &str, identity: NodeIdentity) -> Arc<dyn Node> {
    let (url, secret) = (&kinds().parse(url).expect("an address"), &secret(url, keys));
    kinds().open(&NodeAt { url, name: "foreign", identity, secret }).expect("opened")
}

/// Every check, each at a place of its own below `base`.
async fn check_all(base: &str, options: &str, keys: &str) {
    let count = AtomicU32::new(0);
    conformance::check_all(|| async {
        let place = format!("{base}/{}{options}", count.fetch_add(1, Ordering::Relaxed));
        create(&place, keys).await.unwrap_or_else(|error| panic!("{place}: {error}"))
    })
    .await;
    identity(&format!("{base}/identity{options}"), keys).await;
    quota(base, options, keys).await;
}

/// Who is there, and who is not.
async fn identity(place: &str, keys: &str) {
    let away = open(place, keys, IDENTITY);
    let key = conformance::key(1, 0);
    for error in [away.get(key, 0..1).await.map(drop), away.list(None, 1).await.map(drop), away.remove(key).await] {
        assert_eq!(error.expect_err("no node").kind, NodeErrorKind::Unavailable, "what is not there lost nothing");
    }
    create(place, keys).await.expect("created");
    assert_eq!(away.get(key, 0..1).await.expect_err("no shard").kind, NodeErrorKind::NotFound, "now it is there");
    assert_eq!(create(place, keys).await.err().expect("taken").kind, NodeErrorKind::Exists);
    let other = NodeIdentity { volume: VolumeId(7), ..IDENTITY };
    let stranger = open(place, keys, other);
    assert_eq!(stranger.space().await.expect_err("a stranger").kind, NodeErrorKind::WrongNode);
    assert_eq!(stranger.get(key, 0..1).await.expect_err("a stranger").kind, NodeErrorKind::WrongNode);
}

/// No more than was said.
async fn quota(base: &str, options: &str, keys: &str) {
    let mark = if options.is_empty() { '?' } else { '&' };
    let place = format!("{base}/quota{options}{mark}quota=1MB");
    let node = create(&place, keys).await.expect("created");
    let put = |segment: u64, bytes: u64| {
        let key = conformance::key(segment, 0);
        let node = Arc::clone(&node);
        async move { node.put(key, &[conformance::shard(IDENTITY.volume, key, bytes, 1)]).await }
    };
    put(1, 600_000).await.expect("room");
    assert_eq!(put(2, 600_000).await.expect_err("no room").kind, NodeErrorKind::Full);
    put(3, 100_000).await.expect("room for a small one");
    let space = node.space().await.expect("room");
    assert!(space.total_bytes == 1_000_000 && (250_000..300_000).contains(&space.free_bytes), "{space:?}");
    node.remove(conformance::key(1, 0)).await.expect("removed");
    put(2, 600_000).await.expect("room again");
    // It answers before it has counted, where that takes long.
    let again = open(&place, keys, IDENTITY);
    let began = std::time::Instant::now();
    while again.space().await.expect("there") != node.space().await.expect("room") {
        assert!(began.elapsed().as_secs() < 60, "it does not count");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_conforms() {
    let temporary = tempfile::tempdir().expect("a temporary folder");
    let server = servers::s3(temporary.path(), "shards");
    let options = format!("?endpoint=http://{}", server.address);
    check_all("s3://shards", &options, servers::S3_KEYS).await;
    let wrong = "access_key_id = weft\nsecret_access_key = another\n";
    let refused = create(&format!("s3://shards/refused{options}"), wrong).await.err().expect("a wrong key");
    assert_eq!(refused.kind, NodeErrorKind::Denied, "{refused}");
    assert!(!refused.to_string().contains("another"), "{refused}");
    let missing = create(&format!("s3://missing/prefix{options}"), servers::S3_KEYS).await.err().expect("no bucket");
    assert_eq!(missing.kind, NodeErrorKind::Unavailable, "{missing}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webdav_folder_conforms() {
    let temporary = tempfile::tempdir().expect("a temporary folder");
    let server = servers::webdav(temporary.path());
    check_all(&servers::url("webdav", &server, "/dav"), "", servers::WEBDAV_KEYS).await;
    let place = servers::url("webdav", &server, "/dav/refused");
    let refused = create(&place, "username = weft\npassword = wrong\n").await.err().expect("a wrong password");
    assert_eq!(refused.kind, NodeErrorKind::Denied, "{refused}");
}

/// `ssh` is found by the path, which a process sets for its children only: this one runs [`sftp_conforms`] in one.
#[test]
fn an_sftp_folder_conforms() {
    let temporary = tempfile::tempdir().expect("a temporary folder");
    let server = servers::sftp(temporary.path());
    let place = servers::url("sftp", &server, &temporary.path().join("home").display().to_string());
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["foreign::sftp_conforms", "--exact", "--ignored", "--nocapture"]);
    command.env("PATH", servers::path_with_ssh(temporary.path())).env(SFTP_PLACE, place);
    assert!(command.status().expect("this program runs").success(), "see above");
}

const SFTP_PLACE: &str = "WEFT_TEST_SFTP_PLACE";

#[tokio::test(flavor = "multi_thread")]
#[ignore = "runs as a part of an_sftp_folder_conforms"]
async fn sftp_conforms() {
    let Ok(place) = std::env::var(SFTP_PLACE) else { return };
    check_all(&place, "", "").await;
    // A folder node and the same folder by SFTP are one node.
    let node = create(&format!("{place}/shared"), "").await.expect("created");
    let key = conformance::key(1, 0);
    let bytes = conformance::shard(IDENTITY.volume, key, 5000, 1);
    node.put(key, std::slice::from_ref(&bytes)).await.expect("stored");
    let path = place.splitn(4, '/').nth(3).expect("a path");
    let folder = open(&format!("file:///{path}/shared"), "", IDENTITY);
    assert_eq!(folder.get(key, 0..u64::MAX).await.expect("found"), bytes);
    assert_eq!(folder.list(None, 10).await.expect("listed"), node.list(None, 10).await.expect("listed"));
}

const HDFS_CLASS_PATH: &str = "WEFT_TEST_HDFS_CLASS_PATH";

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Java and Hadoop: run by lab/hdfs.sh"]
async fn an_hdfs_folder_conforms() {
    let Ok(class_path) = std::env::var(HDFS_CLASS_PATH) else { return };
    let temporary = tempfile::tempdir().expect("a temporary folder");
    let server = servers::hdfs(temporary.path(), &class_path);
    wait_until_it_stores(&servers::url("webhdfs", &server, "/started?user=weft")).await;
    check_all(&servers::url("webhdfs", &server, "/weft"), "?user=weft", "").await;
}

/// A NameNode listens before DataNodes are there.
async fn wait_until_it_stores(place: &str) {
    let began = std::time::Instant::now();
    while let Err(error) = create(place, "").await {
        assert!(began.elapsed().as_secs() < 60, "{error}");
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
}

/// Where the suite shall run: an address, below whose path each check has a place of its own.
const PLACE: &str = "WEFT_TEST_PLACE";

/// The key file for it, if it needs one.
const PLACE_KEY: &str = "WEFT_TEST_PLACE_KEY";

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a server: run by lab/clouds.sh, or by hand for a place of one's own"]
async fn a_place_conforms() {
    let Ok(place) = std::env::var(PLACE) else { return };
    let keys = std::env::var(PLACE_KEY).map(|file| std::fs::read_to_string(file).expect("a key file"));
    let keys = keys.unwrap_or_default();
    let options = place.find('?').map_or("", |at| &place[at..]);
    let base = place.strip_suffix(options).unwrap_or(&place);
    check_all(base, options, &keys).await;
    let (scheme, bucket) = base.split_once("://").expect("an address");
    if ["s3", "gcs", "azblob"].contains(&scheme) {
        let bucket = bucket.split('/').next().expect("a bucket");
        let missing = place.replacen(bucket, "there-is-no-such-bucket", 1);
        let missing = create(&missing, &keys).await.err().expect("no bucket");
        assert_eq!(missing.kind, NodeErrorKind::Unavailable, "{missing}");
    }
}
