use super::about::KINDS;
use super::credentials::Credentials;
use super::faults::Faults;
use super::node::ForeignNode;
use super::url::ForeignUrl;
use crate::conformance;
use crate::node::{Node, NodeIdentity};
use crate::{NodeError, NodeErrorKind};
use bytes::Bytes;
use opendal::Operator;
use opendal::raw::Timestamp;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use weft_format::{NodeId, VolumeId};

const IDENTITY: NodeIdentity = NodeIdentity { volume: VolumeId(1), node: NodeId(2) };

fn memory() -> Operator {
    Operator::new(opendal::services::Memory::default()).expect("memory")
}

/// The same, with faults.
fn faulty() -> (Faults, Operator) {
    let faults = Faults::default();
    (faults.clone(), memory().layer(faults))
}

fn shard(segment: u64) -> Bytes {
    conformance::shard(IDENTITY.volume, conformance::key(segment, 0), 5000, 1)
}

async fn put(node: &ForeignNode, segment: u64) -> Result<(), NodeError> {
    node.put(conformance::key(segment, 0), &[shard(segment)]).await
}

fn url(scheme: &str) -> ForeignUrl {
    ForeignUrl::parse(scheme, "bucket").expect("a scheme of ours").expect("a bucket")
}

/// Services that list in no order, or not from the middle, are scanned as a whole.
#[tokio::test(flavor = "multi_thread")]
async fn a_flat_store_that_is_scanned_conforms() {
    conformance::check_all(|| async {
        let node = ForeignNode::with_operator(&url("azblob"), memory(), "memory", IDENTITY);
        node.claim().await.expect("an empty store");
        Arc::new(node) as Arc<dyn Node>
    })
    .await;
}

#[tokio::test]
async fn a_list_without_its_end_is_no_list() {
    let operator = memory();
    let node = ForeignNode::with_operator(&url("azblob"), operator.clone(), "memory", IDENTITY);
    node.claim().await.expect("an empty store");
    let key = conformance::key(1, 0);
    node.put(key, &[conformance::shard(IDENTITY.volume, key, 100, 1)]).await.expect("stored");
    operator.write("stranger", "x").await.expect("written");
    let page = node.list(None, 10).await.expect("whole");
    assert_eq!((page.keys, page.foreign), (vec![key], vec!["stranger".to_owned()]));
    operator.delete("weft-node.json").await.expect("gone");
    assert_eq!(node.list(None, 10).await.expect_err("cut").kind, NodeErrorKind::Unavailable);
}

/// A folder whose disk is unmounted just after the node was seen there.
#[tokio::test]
async fn a_put_into_a_folder_that_is_the_node_no_more_is_not_acknowledged() {
    let operator = memory();
    let node = ForeignNode::with_operator(&url("ftp"), operator.clone(), "memory", IDENTITY);
    node.claim().await.expect("an empty store");
    put(&node, 1).await.expect("stored");
    operator.delete("weft-node.json").await.expect("gone");
    assert_eq!(put(&node, 2).await.expect_err("no node").kind, NodeErrorKind::Unavailable);
    assert_eq!(
        put(&node, 2).await.expect_err("nor now").kind,
        NodeErrorKind::Unavailable,
        "though the bytes are there"
    );
    let other = NodeIdentity { node: NodeId(3), ..IDENTITY };
    operator.write("weft-node.json", IDENTITY.encode()).await.expect("back");
    put(&node, 3).await.expect("stored");
    operator.write("weft-node.json", other.encode()).await.expect("swapped");
    assert_eq!(put(&node, 4).await.expect_err("another node").kind, NodeErrorKind::WrongNode);
}

/// As of a gateway that ignores where the next page begins.
#[tokio::test]
async fn a_list_that_begins_again_is_no_list() {
    for scheme in ["s3", "azblob", "ftp"] {
        let (faults, operator) = faulty();
        let node = ForeignNode::with_operator(&url(scheme), operator, "memory", IDENTITY);
        node.claim().await.expect("an empty store");
        for segment in 0..5 {
            put(&node, segment).await.expect("stored");
        }
        assert_eq!(node.list(None, 100).await.expect("whole").keys.len(), 5, "{scheme}");
        // It would be endless, and fill the memory of the test.
        faults.list_rounds.store(100, Ordering::Relaxed);
        let refused = node.list(None, 1000).await.expect_err("again and again");
        assert_eq!(refused.kind, NodeErrorKind::Corrupt, "{scheme}: {refused}");
    }
}

/// The data connection of FTP ends in the same way at the end of a file and where it breaks off.
#[tokio::test]
async fn a_transfer_that_breaks_off_is_no_short_shard() {
    let (faults, operator) = faulty();
    let node = ForeignNode::with_operator(&url("ftp"), operator, "memory", IDENTITY);
    node.claim().await.expect("an empty store");
    put(&node, 1).await.expect("stored");
    let key = conformance::key(1, 0);
    let bytes = shard(1).len() as u64;
    assert_eq!(node.get(key, bytes - 10..bytes + 10).await.expect("its end").len(), 10);
    *faults.read_bytes_max.lock() = Some(2000);
    assert_eq!(node.get(key, 0..1000).await.expect("enough comes").len(), 1000);
    assert_eq!(node.get(key, bytes - 1000..bytes + 10).await.expect("its end").len(), 1000);
    for range in [0..bytes, 0..u64::MAX, 0..2001] {
        let cut = node.get(key, range.clone()).await.map(|bytes| bytes.len()).expect_err("cut");
        assert_eq!(cut.kind, NodeErrorKind::Io, "{range:?}: {cut}");
    }
    assert_eq!(put(&node, 1).await.expect_err("not compared").kind, NodeErrorKind::Io);
    *faults.read_bytes_max.lock() = Some(20);
    assert_eq!(node.identity().await.expect_err("cut").kind, NodeErrorKind::Io, "it is not another node");
}

/// A put by FTP writes to a file that OpenDAL names, and cannot remove it.
#[tokio::test]
async fn what_a_put_by_ftp_left_is_removed_after_a_day() {
    let (faults, operator) = faulty();
    let node = ForeignNode::with_operator(&url("ftp"), operator.clone(), "memory", IDENTITY);
    node.claim().await.expect("an empty store");
    put(&node, 0).await.expect("stored");
    // OpenDAL writes them beside the subfolders.
    let path = |name: &str| format!("{}.{name}", conformance::key(0, 0));
    let (left, other) = (path("aB3dE6g8"), path("original"));
    operator.write(&left, "a beginning").await.expect("written");
    operator.write(&other, "of somebody else").await.expect("written");
    assert_eq!(node.list(None, 10).await.expect("listed").foreign, [other.as_str()]);
    assert!(operator.exists(&left).await.expect("known"), "it may be under way");
    *faults.listed_time.lock() = Some(Timestamp::from_second(1).expect("a time"));
    let page = node.list(None, 10).await.expect("listed");
    assert_eq!((page.keys, page.foreign), (vec![conformance::key(0, 0)], vec![other.clone()]));
    assert!(!operator.exists(&left).await.expect("known"), "it was given up");
    assert!(operator.exists(&other).await.expect("known"), "nobody else's file is touched");
}

fn with_quota() -> ForeignUrl {
    ForeignUrl::parse("azblob", "bucket?quota=1MB").expect("a scheme of ours").expect("a bucket")
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_list_takes_minutes_is_there_and_is_counted_once() {
    let (faults, operator) = faulty();
    let node = ForeignNode::with_operator(&with_quota(), operator.clone(), "memory", IDENTITY);
    node.claim().await.expect("an empty store");
    put(&node, 1).await.expect("stored");
    // A process that has just begun, and callers who wait no longer.
    let node = ForeignNode::with_operator(&with_quota(), operator, "memory", IDENTITY);
    let lists_before = faults.lists_begun.load(Ordering::Relaxed);
    let held = faults.lists.write().await;
    for _ in 0..5 {
        let (one, other) = tokio::join!(
            tokio::time::timeout(Duration::from_secs(2), node.space()),
            tokio::time::timeout(Duration::from_secs(2), node.space())
        );
        for space in [one, other] {
            assert_eq!(space.expect("in time").expect("it is there").total_bytes, 1_000_000);
        }
        let refused = put(&node, 2).await.expect_err("nobody knows whether there is room");
        assert_eq!(refused.kind, NodeErrorKind::Busy, "{refused}");
    }
    drop(held);
    put(&node, 2).await.expect("there is room");
    let stored = (shard(1).len() + shard(2).len()) as u64;
    assert_eq!(node.space().await.expect("counted").free_bytes, 1_000_000 - stored);
    assert_eq!(faults.lists_begun.load(Ordering::Relaxed), lists_before + 1, "one list for all");
}

#[tokio::test(start_paused = true)]
async fn a_count_that_fails_says_why_and_is_not_begun_again_at_once() {
    let (faults, operator) = faulty();
    let node = ForeignNode::with_operator(&with_quota(), operator.clone(), "memory", IDENTITY);
    node.claim().await.expect("an empty store");
    put(&node, 1).await.expect("stored");
    // A process that has just begun.
    let node = ForeignNode::with_operator(&with_quota(), operator, "memory", IDENTITY);
    faults.list_rounds.store(100, Ordering::Relaxed);
    let lists_before = faults.lists_begun.load(Ordering::Relaxed);
    for _ in 0..3 {
        let refused = node.space().await.expect_err("no count");
        assert!(refused.kind == NodeErrorKind::Corrupt && refused.detail.contains("again and again"), "{refused}");
    }
    assert_eq!(faults.lists_begun.load(Ordering::Relaxed), lists_before + 1);
    faults.list_rounds.store(0, Ordering::Relaxed);
    tokio::time::advance(Duration::from_secs(61)).await;
    node.space().await.expect("counted");
}

#[tokio::test(start_paused = true)]
async fn what_changes_while_it_is_counted_again_is_counted_too() {
    let (faults, operator) = faulty();
    let node = ForeignNode::with_operator(&with_quota(), operator.clone(), "memory", IDENTITY);
    node.claim().await.expect("an empty store");
    for segment in [1, 2, 3] {
        put(&node, segment).await.expect("stored");
    }
    // By another process: it is found with the next count.
    operator.delete(&conformance::key(3, 0).to_string()).await.expect("removed");
    tokio::time::advance(Duration::from_secs(2 * 3600)).await;
    let held = faults.lists.write().await;
    let free_bytes = |shards: usize| 1_000_000 - (shards * shard(1).len()) as u64;
    assert_eq!(node.space().await.expect("the last count").free_bytes, free_bytes(3));
    put(&node, 4).await.expect("stored by the last count");
    node.remove(conformance::key(1, 0)).await.expect("removed");
    put(&node, 5).await.expect("stored by the last count");
    node.remove(conformance::key(5, 0)).await.expect("removed");
    assert_eq!(node.space().await.expect("the last count").free_bytes, free_bytes(3));
    drop(held);
    // The list is the only other task, and waits for nothing.
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(node.space().await.expect("counted").free_bytes, free_bytes(2), "shards 2 and 4");
}

#[test]
fn every_service_has_a_kind() {
    for service in &super::service::SERVICES {
        assert!(
            KINDS.iter().any(|kind| kind.name == service.kind && kind.schemes.contains(&service.scheme)),
            "{service:?}"
        );
    }
}

/// Those that are built in: no setting is missing, and none has a form that OpenDAL refuses.
#[test]
fn every_service_is_opened() {
    for service in &super::service::SERVICES {
        let kind = KINDS.iter().find(|kind| kind.name == service.kind).expect("a kind");
        let has_option = |name: &str| service.options.iter().any(|option| option.name == name);
        let endpoint = if has_option("endpoint") { "?endpoint=https://store.example" } else { "" };
        let options = ["region", "bucket_id", "library"].into_iter().filter(|name| has_option(name));
        let options: String = options.map(|name| format!("&{name}=one")).collect();
        let text = format!(
            "store.example/weft{}",
            format!("{endpoint}{options}").replacen('&', "?", endpoint.is_empty().into())
        );
        let url = ForeignUrl::parse(service.scheme, &text).expect("a scheme of ours").expect("an address");
        let has_refresh_token = service.secrets.iter().any(|secret| secret.name == "refresh_token");
        let names = url.secret_names().filter(|name| !(has_refresh_token && *name == "access_token"));
        let secrets: String = names.map(|name| format!("{name} = c2VjcmV0\n")).collect();
        let credentials = Credentials::from_bytes(secrets.as_bytes(), url.secret_names()).expect("credentials");
        let opened = ForeignNode::open(&url, "one", IDENTITY, &credentials);
        assert_eq!(opened.is_ok(), kind.is_built_in, "{url}: {:?}", opened.err());
    }
}
