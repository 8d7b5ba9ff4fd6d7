//! Members that are silent, busy or new: what they may have counts, and is asked for again before anything is said to be absent.

use crate::cluster::{TestCluster, bytes};
use futures_util::FutureExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use weft_format::NodeId;
use weft_format::records::ObjectId;
use weft_nodes::wrappers::{Fault, Operation};
use weft_nodes::{Node, NodeErrorKind};
use weft_objects::ObjectError;

const RS: &str = "rs:4+2";
const CUBE: &str = "ldpc:cube-8-6";

fn holders(cluster: &TestCluster, name: &str) -> Vec<NodeId> {
    cluster.held(name).into_iter().map(|(node, ..)| node).collect()
}

/// What a member has is stored at another, too, as by a rebuild.
fn store_elsewhere(cluster: &TestCluster, from: NodeId, to: NodeId) {
    let (from, to) = (&cluster.member(from).memory, cluster.member(to).host.node());
    let at_once = "memory waits for nothing";
    for key in from.list(None, usize::MAX).now_or_never().expect(at_once).unwrap().keys {
        let object = from.get(key, 0..u64::MAX).now_or_never().expect(at_once).unwrap();
        to.put(key, &[object]).now_or_never().expect(at_once).unwrap();
    }
}

#[tokio::test]
async fn a_long_read_finds_what_was_rebuilt_while_it_went_on() {
    let cluster = TestCluster::new(15).await;
    // Three segments are fetched at once: the fourth is begun when the first was given away.
    let data = bytes((48 << 20) + 5, 1);
    cluster.put("a", RS, &data, false).await.unwrap();
    let holding = holders(&cluster, "a");
    let free = cluster.members.iter().map(|member| member.id).filter(|id| !holding.contains(id));
    let moves: Vec<(NodeId, NodeId)> = holding.iter().copied().zip(free).take(2).collect();
    let mut got = Vec::new();
    let mut sink = |part: &[u8]| {
        if got.is_empty() {
            moves.iter().for_each(|(from, to)| store_elsewhere(&cluster, *from, *to));
            holding[..3].iter().for_each(|lost| cluster.stop(*lost));
        }
        got.extend_from_slice(part);
        Ok(())
    };
    cluster.client().get("a", &mut sink).await.unwrap();
    assert!(got == data);
}

#[tokio::test(start_paused = true)]
async fn an_object_whose_holders_are_all_silent_is_not_absent() {
    let cluster = TestCluster::new(15).await;
    cluster.put("a", RS, &bytes(90_000, 1), false).await.unwrap();
    holders(&cluster, "a").into_iter().for_each(|holder| cluster.stop(holder));
    let is_unknown = |error: ObjectError| matches!(error, ObjectError::Unknown { answered: 9, silent: 6, .. });
    assert!(is_unknown(cluster.get("a").await.unwrap_err()));
    assert!(is_unknown(cluster.client().stat("a").await.unwrap_err()));
    assert!(is_unknown(cluster.client().remove("a").await.unwrap_err()));
    // More members than are silent have the record of an object of the second code. But one of another may lie at those closest to the name.
    for code in [RS, "rs:8+1"] {
        let refused = cluster.put("a", code, b"after", false).await.unwrap_err();
        assert!(matches!(refused, ObjectError::MayExist { silent: 6, .. }), "{code}: {refused}");
    }
}

#[tokio::test]
async fn few_silent_members_make_a_name_unknown_and_do_not_hinder_a_put() {
    let cluster = TestCluster::new(15).await;
    cluster.stop(NodeId(1));
    assert!(matches!(cluster.get("a").await, Err(ObjectError::NotFound { answered: 14, .. })));
    [2, 3].map(NodeId).iter().for_each(|id| cluster.stop(*id));
    assert!(matches!(cluster.get("a").await, Err(ObjectError::Unknown { silent: 3, .. })));
    let is_free = |name: &&&str| cluster.closest(name, 2).iter().any(|id| id.0 > 3);
    for name in ["a", "b", "c", "d"].iter().filter(is_free) {
        cluster.put(name, RS, b"contents", false).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn members_that_are_busy_are_asked_again_before_a_name_is_unknown() {
    let cluster = TestCluster::new(15).await;
    let data = bytes(90_000, 1);
    cluster.put("a", RS, &data, false).await.unwrap();
    holders(&cluster, "a").into_iter().for_each(|holder| cluster.keep_busy(holder, 2));
    assert_eq!(cluster.get("a").await.unwrap(), data);
}

/// Each member answers the next `count` puts of a record that it is busy.
fn keep_records_out(cluster: &TestCluster, count: u32, kind: NodeErrorKind, is_struck: impl Fn(NodeId) -> bool) {
    for member in cluster.members.iter().filter(|member| is_struck(member.id)) {
        let left = Arc::new(AtomicU32::new(count));
        member.fault.set_script(Box::new(move |call| {
            let is_record = call.key.is_some_and(|key| !ObjectId::of(key.segment).is_data);
            let less = |left: u32| left.checked_sub(1);
            let is_struck = call.operation == Operation::Put
                && is_record
                && left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok();
            if is_struck { Fault::Fail(kind) } else { Fault::None }
        }));
    }
}

#[tokio::test(start_paused = true)]
async fn members_that_are_busy_are_waited_for_with_records_too() {
    let cluster = TestCluster::new(6).await;
    keep_records_out(&cluster, 3, NodeErrorKind::Busy, |_| true);
    let stored = cluster.put("a", RS, &bytes(90_000, 1), false).await.unwrap();
    assert_eq!(stored.record_copies, 6);
    keep_records_out(&cluster, 3, NodeErrorKind::Busy, |_| true);
    cluster.client().remove("a").await.unwrap();
    assert_eq!(cluster.held("a").iter().filter(|(_, records, _)| *records == 2).count(), 6);
}

#[tokio::test]
async fn one_member_with_the_record_is_not_enough() {
    let cluster = TestCluster::new(3).await;
    keep_records_out(&cluster, 1, NodeErrorKind::Io, |node| node != NodeId(1));
    let failed = cluster.put("a", "replica:3", b"contents", false).await.unwrap_err();
    assert!(matches!(failed, ObjectError::NotCommitted { kept: 1, needed: 2, .. }), "{failed}");
}

#[tokio::test]
async fn all_shards_of_an_object_are_counted_also_where_other_members_are_closest_now() {
    let mut cluster = TestCluster::new(6).await;
    let version = cluster.put("a", RS, &bytes(90_000, 1), false).await.unwrap().version;
    let first = holders(&cluster, "a");
    // Until some holders, and not all, are among those that are asked first.
    let are_close = |cluster: &TestCluster| {
        let near = cluster.closest("a", 24);
        first.iter().filter(|holder| near.contains(holder)).count()
    };
    for id in 100.. {
        if are_close(&cluster) < 6 {
            break;
        }
        cluster.join(NodeId(id)).await;
    }
    assert!(are_close(&cluster) > 0);
    let stat = cluster.client().stat("a").await.unwrap();
    assert_eq!((stat.version, stat.shards, stat.record_copies), (version, vec![(6, 6)], 6));
}

#[tokio::test]
async fn what_was_stored_nowhere_is_at_no_alternate() {
    let cluster = TestCluster::new(12).await;
    let stored = cluster.put("a", CUBE, &bytes(50_000, 1), false).await.unwrap();
    let stat = cluster.client().stat("a").await.unwrap();
    assert_eq!((stored.missing, stored.at_alternates, stat.at_alternates), (2, 0, 0));
}
