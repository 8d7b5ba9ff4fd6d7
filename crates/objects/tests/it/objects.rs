//! Put, get, stat, list and remove, with members that fail, lie and disagree.

use crate::cluster::{TestCluster, VOLUME, bytes};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use weft_format::NodeId;
use weft_format::records::{ObjectState, Stamp, name_hash, record_key};
use weft_format::shard::{ShardBuilder, ShardHeader, ShardIdentity};
use weft_nodes::wrappers::{Fault, Operation};
use weft_nodes::{Node, NodeErrorKind};
use weft_objects::{ObjectError, PutRequest};

const CUBE: &str = "ldpc:cube-8-6";

#[tokio::test]
async fn what_was_put_is_got_whatever_its_length() {
    let cluster = TestCluster::new(15).await;
    for (number, length) in [0, 1, 4096, 300_000, (16 << 20) + 5].into_iter().enumerate() {
        let (name, data) = (format!("run/{number}"), bytes(length, number as u8));
        let stored = cluster.put(&name, CUBE, &data, false).await.unwrap();
        assert_eq!((stored.bytes, stored.missing, stored.at_alternates), (length as u64, 0, 0));
        assert_eq!(stored.record_copies, 14);
        assert_eq!(cluster.get(&name).await.unwrap(), data, "{length} bytes");
        let stat = cluster.client().stat(&name).await.unwrap();
        assert_eq!(stat.digest, *blake3::hash(&data).as_bytes());
        assert!(stat.shards.iter().all(|of| *of == (14, 14)), "{stat:?}");
    }
    let listing = cluster.client().list("run/").await.unwrap();
    assert_eq!(listing.objects.len(), 5);
    assert_eq!(cluster.client().list("run/3").await.unwrap().objects[0].bytes, Some(300_000));
}

#[tokio::test]
async fn three_members_may_fall_silent_and_all_is_read() {
    let cluster = TestCluster::new(15).await;
    let data = bytes(3_000_000, 1);
    cluster.put("a", CUBE, &data, false).await.unwrap();
    for id in [2, 7, 11].map(NodeId) {
        cluster.stop(id);
    }
    assert_eq!(cluster.get("a").await.unwrap(), data);
}

#[tokio::test]
async fn members_that_are_busy_are_asked_again_before_an_object_is_unreadable() {
    let cluster = TestCluster::new(6).await;
    let data = bytes(300_000, 1);
    cluster.put("a", "rs:4+2", &data, false).await.unwrap();
    for (id, questions) in [(1, 1), (3, 1), (5, 2)] {
        cluster.keep_busy(NodeId(id), questions);
    }
    assert_eq!(cluster.get("a").await.unwrap(), data);
    // Those that do not answer at all are named, and not waited for.
    [1, 3, 5].map(NodeId).into_iter().for_each(|id| cluster.stop(id));
    let sentence = cluster.get("a").await.unwrap_err().to_string();
    assert!(sentence.contains("of 3 members nothing is known (node a member: it is down), and "), "{sentence}");
}

/// The members that hold the only object's shards, by index.
async fn holders(cluster: &TestCluster) -> Vec<NodeId> {
    let mut holders = Vec::new();
    for member in &cluster.members {
        holders.extend(cluster.shards(member.id).await.into_iter().map(|key| (key.index, member.id)));
    }
    holders.sort_unstable();
    holders.into_iter().map(|(_, id)| id).collect()
}

/// Who was asked since the last time.
fn asked(gets: &BTreeMap<NodeId, Arc<AtomicU32>>) -> BTreeSet<NodeId> {
    let asked = gets.iter().filter(|(_, count)| count.swap(0, Ordering::Relaxed) > 0);
    asked.map(|(id, _)| *id).collect()
}

#[tokio::test(start_paused = true)]
async fn members_that_are_busy_by_rumour_are_asked_for_shards_last() {
    for code in ["rs:8+6", CUBE] {
        let cluster = TestCluster::new(15).await;
        let data = bytes(3_000_000, 1);
        cluster.put("a", code, &data, false).await.unwrap();
        let (holders, gets) = (holders(&cluster).await, cluster.count_gets());
        let with_data = BTreeSet::from_iter(holders[..8].iter().copied());
        // All have as much to do: data is read plainly.
        for load_bytes in [0, 64 << 20] {
            holders.iter().for_each(|id| cluster.rumour_load(*id, load_bytes));
            assert_eq!(cluster.get("a").await.unwrap(), data);
            assert_eq!(asked(&gets), with_data, "{code}, {load_bytes}");
        }
        let (busy, idle) = holders.split_at(3);
        idle.iter().for_each(|id| cluster.rumour_load(*id, 0));
        let client = cluster.client();
        assert_eq!(cluster.get_by(&client, "a").await.unwrap(), data);
        let asked_first = asked(&gets);
        assert_eq!(asked_first.len(), 8, "{code}");
        assert!(busy.iter().all(|id| !asked_first.contains(id)), "{code}: {asked_first:?} of {busy:?} and {idle:?}");
        // A rumour is over when its work is done.
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(cluster.get_by(&client, "a").await.unwrap(), data);
        assert_eq!(asked(&gets), with_data, "{code}, later");
    }
}

#[tokio::test(start_paused = true)]
async fn where_idle_members_do_not_suffice_the_least_busy_ones_are_asked_too() {
    let cluster = TestCluster::new(15).await;
    let data = bytes(3_000_000, 1);
    cluster.put("a", "rs:8+6", &data, false).await.unwrap();
    let (holders, gets) = (holders(&cluster).await, cluster.count_gets());
    let (busy, idle) = holders.split_at(7);
    busy.iter().for_each(|id| cluster.rumour_load(*id, 64 << 20));
    cluster.rumour_load(busy[4], 8 << 20);
    assert_eq!(cluster.get("a").await.unwrap(), data);
    assert_eq!(asked(&gets), BTreeSet::from_iter(idle.iter().copied().chain([busy[4]])));
}

#[tokio::test]
async fn a_member_that_dies_in_the_middle_of_a_read_costs_nothing_but_time() {
    let cluster = TestCluster::new(15).await;
    let data = bytes(40 << 20, 1);
    cluster.put("a", CUBE, &data, false).await.unwrap();
    let mut got = Vec::new();
    let mut sink = |part: &[u8]| {
        if got.is_empty() {
            [1, 2, 3].into_iter().for_each(|id| cluster.stop(NodeId(id)));
        }
        got.extend_from_slice(part);
        Ok(())
    };
    cluster.client().get("a", &mut sink).await.unwrap();
    assert_eq!(got, data);
}

#[tokio::test]
async fn shards_of_silent_members_go_to_alternates_and_the_record_says_so() {
    let cluster = TestCluster::new(8).await;
    let (data, silent) = (bytes(100_000, 3), NodeId(4));
    cluster.stop(silent);
    let mut at_alternates = 0;
    for number in 0..8 {
        let name = format!("o{number}");
        let stored = cluster.put(&name, "rs:4+2", &data, false).await.unwrap();
        assert_eq!(stored.missing, 0);
        at_alternates += stored.at_alternates;
        let holders: BTreeSet<_> = cluster.held(&name).into_iter().map(|(id, ..)| id).collect();
        assert_eq!(holders.len(), 6);
        let holder = holders.first().copied().unwrap();
        let Some(ObjectState::Stored(contents)) = cluster.record(holder, &name, stored.version).await else {
            panic!("no record")
        };
        assert_eq!(contents.alternates.len(), stored.at_alternates);
        assert!(contents.alternates.iter().all(|alternate| alternate.node.is_some_and(|node| holders.contains(&node))));
        assert_eq!(cluster.get(&name).await.unwrap(), data);
    }
    assert!(at_alternates > 0, "the silent member was wanted by none of eight names");
}

#[tokio::test]
async fn too_few_members_are_refused_and_a_few_less_than_all_are_enough() {
    let cluster = TestCluster::new(11).await;
    let refused = cluster.put("a", CUBE, &[1], false).await.unwrap_err();
    assert!(matches!(refused, ObjectError::TooFewMembers { needed: 12, there: 11, .. }), "{refused}");
    let cluster = TestCluster::new(12).await;
    let stored = cluster.put("a", CUBE, &bytes(50_000, 1), false).await.unwrap();
    assert_eq!(stored.missing, 2);
    assert_eq!(cluster.get("a").await.unwrap(), bytes(50_000, 1));
    assert!(matches!(cluster.put("", CUBE, &[1], false).await, Err(ObjectError::Name(_))));
    assert!(matches!(cluster.put("a", "rs:0+0", &[1], false).await, Err(ObjectError::Code { .. })));
}

#[tokio::test]
async fn a_name_that_exists_is_replaced_only_if_that_is_said_and_the_newest_counts() {
    let cluster = TestCluster::new(6).await;
    let first = cluster.put("a", "rs:4+2", b"one", false).await.unwrap();
    assert!(matches!(cluster.put("a", "rs:4+2", b"two", false).await, Err(ObjectError::Exists { .. })));
    let second = cluster.put("a", "replica:3", b"two", true).await.unwrap();
    assert!(second.version > first.version);
    assert_eq!(cluster.get("a").await.unwrap(), b"two");
    // A put with a clock that is behind is the newest all the same: it found the one before.
    cluster.client().remove("a").await.unwrap();
    assert!(matches!(cluster.get("a").await, Err(ObjectError::NotFound { .. })));
    assert!(matches!(cluster.client().remove("a").await, Err(ObjectError::NotFound { .. })));
    assert!(cluster.client().list("").await.unwrap().objects.is_empty());
    // A name that was removed may be used again.
    cluster.put("a", "rs:4+2", b"three", false).await.unwrap();
    assert_eq!(cluster.get("a").await.unwrap(), b"three");
}

#[tokio::test]
async fn two_puts_of_one_name_at_once_leave_one_of_them_whole() {
    let cluster = TestCluster::new(6).await;
    let (one, two) = (bytes(200_000, 1), bytes(300_000, 2));
    let (first, second) = tokio::join!(cluster.put("a", "rs:4+2", &one, true), cluster.put("a", "rs:4+2", &two, true));
    let (first, second) = (first.unwrap().version, second.unwrap().version);
    assert_ne!(first, second);
    assert_eq!(cluster.get("a").await.unwrap(), if first > second { one } else { two });
}

#[tokio::test]
async fn a_put_whose_client_dies_leaves_the_version_before() {
    let cluster = TestCluster::new(6).await;
    cluster.put("a", "rs:4+2", b"before", false).await.unwrap();
    // Every member takes shards and no records: as if the client died in between.
    for member in &cluster.members {
        let is_record = |key: weft_format::ShardKey| !weft_format::records::ObjectId::of(key.segment).is_data;
        member.fault.set_script(Box::new(move |call| match call.key {
            Some(key) if call.operation == Operation::Put && is_record(key) => Fault::Fail(NodeErrorKind::Io),
            _ => Fault::None,
        }));
    }
    let failed = cluster.put("a", "rs:4+2", b"after", true).await.unwrap_err();
    assert!(matches!(failed, ObjectError::NotCommitted { kept: 0, .. }), "{failed}");
    assert_eq!(cluster.get("a").await.unwrap(), b"before");
}

/// A shard that is sound by itself and has other bytes than were put.
fn forged(key: weft_format::ShardKey, like: &[u8]) -> bytes::Bytes {
    let header = ShardHeader::decode(like).unwrap();
    assert_eq!(header.identity, ShardIdentity { volume: VOLUME, key });
    let mut builder = ShardBuilder::new(&header).unwrap();
    let payload: Vec<u8> = (0..builder.payload_bytes()).map(|i| (i % 13) as u8).collect();
    builder.write(0, &payload).unwrap();
    builder.finish().0
}

#[tokio::test]
async fn a_member_that_lies_is_found_out_by_the_digests_and_named() {
    let cluster = TestCluster::new(15).await;
    let data = bytes(500_000, 9);
    cluster.put("a", CUBE, &data, false).await.unwrap();
    // Two members replace all that they hold by other bytes with sound checks.
    for id in [3, 8].map(NodeId) {
        for key in cluster.shards(id).await {
            let memory = &cluster.member(id).memory;
            let object = memory.get(key, 0..u64::MAX).await.unwrap();
            memory.remove(key).await.unwrap();
            memory.put(key, &[forged(key, &object)]).await.unwrap();
        }
    }
    let mut got = Vec::new();
    let mut sink = |part: &[u8]| {
        got.extend_from_slice(part);
        Ok(())
    };
    let report = cluster.client().get("a", &mut sink).await.unwrap();
    assert_eq!(got, data);
    for id in ["m3", "m8"] {
        assert!(report.damaged.iter().any(|damage| damage.contains(&format!("at {id} "))), "{report:?}");
    }
}

#[tokio::test]
async fn bytes_that_are_no_record_are_not_taken_for_one() {
    let cluster = TestCluster::new(3).await;
    let member = &cluster.members[0];
    let key = record_key(name_hash("a"), Stamp(5));
    let refused = member.fault.put(key, &[bytes::Bytes::from_static(b"no record")]).await.unwrap_err();
    assert_eq!(refused.kind, NodeErrorKind::Corrupt);
    assert!(cluster.held("a").is_empty());
}

#[tokio::test]
async fn nobody_who_answers_is_an_error_of_its_own() {
    let cluster = TestCluster::new(3).await;
    cluster.put("a", "replica:3", b"x", false).await.unwrap();
    for member in &cluster.members {
        cluster.stop(member.id);
    }
    assert!(matches!(cluster.get("a").await, Err(ObjectError::Silent { .. })));
    assert!(matches!(cluster.client().list("").await, Err(ObjectError::Silent { .. })));
    let request = PutRequest { name: "b".into(), code: "replica:3".into(), replace: false };
    assert!(matches!(cluster.client().put(&request, &mut &b"x"[..]).await, Err(ObjectError::Silent { .. })));
}
