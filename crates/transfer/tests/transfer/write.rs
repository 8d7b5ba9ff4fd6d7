//! Writes through failing, full, lagging and missing nodes.

use crate::house::{House, bytes, every, node_record, segment};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use weft_format::records::NodeState;
use weft_nodes::wrappers::{Fault, Operation};
use weft_nodes::{Node, NodeErrorKind};
use weft_transfer::{WriteError, WriteRequest};

#[tokio::test]
async fn a_receipt_names_distinct_nodes_and_all_bytes() {
    let house = House::new(9);
    let data = bytes(400_000, 1);
    let receipt = house.try_write(segment(0), "rs:4+2", &data).await.unwrap();
    let shards = house.shards().await;
    assert_eq!(shards.len(), 6);
    let mut nodes: Vec<_> = shards.iter().map(|(node, _)| *node).collect();
    nodes.dedup();
    assert_eq!(nodes.len(), 6);
    let written: u64 = house.nodes.iter().map(|node| node.record.counts().bytes_written).sum();
    assert_eq!(receipt.bytes_written, written);
    for (index, location) in receipt.record.shards.iter().enumerate() {
        let location = location.as_ref().unwrap();
        assert!(shards.contains(&(location.node, crate::house::key(segment(0), &receipt.record, index))));
    }
}

#[tokio::test]
async fn nodes_that_fail_in_whatever_way_are_replaced_by_others() {
    for fault in [
        Fault::Fail(NodeErrorKind::Unavailable),
        Fault::Fail(NodeErrorKind::Full),
        Fault::Fail(NodeErrorKind::Io),
        Fault::Fail(NodeErrorKind::Denied),
        Fault::FailAfter(NodeErrorKind::Io),
    ] {
        let house = House::new(9);
        for i in [0, 4, 8] {
            house.nodes[i].fault.set_script(every(Operation::Put, fault));
        }
        let data = bytes(400_000, 2);
        for i in 0..10 {
            let record = house.write(segment(i), "rs:4+2", &data).await;
            let nodes: std::collections::BTreeSet<_> = record.shards.iter().flatten().map(|shard| shard.node).collect();
            assert_eq!(nodes.len(), 6, "{fault:?}");
            assert!([0, 4, 8].iter().all(|i| !nodes.contains(&house.nodes[*i].id)), "{fault:?}");
            house.read_same(segment(i), &record, 0..400_000, &data).await;
        }
    }
}

#[tokio::test]
async fn without_alternates_a_quorum_is_enough_and_the_rest_is_missing() {
    let house = House::new(6);
    house.nodes[3].fault.set_script(every(Operation::Put, Fault::Fail(NodeErrorKind::Io)));
    let data = bytes(400_000, 3);
    let receipt = house.try_write(segment(0), "rs:4+2", &data).await.unwrap();
    assert_eq!(receipt.missing.len(), 1);
    assert!(receipt.record.shards[receipt.missing[0].as_usize()].is_none());
    house.read_same(segment(0), &Arc::new(receipt.record), 0..400_000, &data).await;
}

#[tokio::test]
async fn with_as_many_nodes_away_as_the_code_can_lose_writes_go_on_unless_a_margin_is_asked() {
    let house = House::new(6);
    for i in [1, 3] {
        house.nodes[i].fault.set_script(every(Operation::Put, Fault::Fail(NodeErrorKind::Io)));
    }
    let data = bytes(1000, 1);
    let mut request =
        WriteRequest { segment: segment(0), code: "rs:4+2".into(), write_margin: 1, data: vec![data.clone().into()] };
    let refused = house.transfer.write(request.clone()).await;
    assert!(matches!(refused, Err(WriteError::Quorum { durable: 4, needed: 5, .. })));
    request.write_margin = 0;
    let receipt = house.transfer.write(request).await.unwrap();
    assert_eq!(receipt.missing.len(), 2);
    house.read_same(segment(0), &Arc::new(receipt.record), 0..1000, &data).await;
}

#[tokio::test]
async fn below_what_decodes_the_write_fails_and_nothing_is_left() {
    let house = House::new(6);
    for i in [1, 3, 5] {
        house.nodes[i].fault.set_script(every(Operation::Put, Fault::Fail(NodeErrorKind::Io)));
    }
    let error = house.try_write(segment(0), "rs:4+2", &bytes(400_000, 4)).await.unwrap_err();
    let WriteError::Quorum { durable, needed, failures, .. } = &error else { panic!("{error}") };
    assert_eq!((*durable, *needed, failures.0.len()), (3, 5, 3));
    assert!(house.shards().await.is_empty());
}

#[tokio::test]
async fn a_margin_of_all_wants_all() {
    let house = House::new(6);
    house.nodes[0].fault.set_script(every(Operation::Put, Fault::Fail(NodeErrorKind::Io)));
    let request =
        WriteRequest { segment: segment(0), code: "rs:4+2".into(), write_margin: 2, data: vec![bytes(1000, 1).into()] };
    assert!(matches!(house.transfer.write(request).await, Err(WriteError::Quorum { durable: 5, needed: 6, .. })));
}

#[tokio::test(start_paused = true)]
async fn a_laggard_is_not_waited_for_and_what_it_stores_later_is_removed() {
    let house = House::new(6);
    let lag = Duration::from_secs(8);
    house.nodes[2].fault.set_script(every(Operation::Put, Fault::Delay(lag)));
    let started = Instant::now();
    let receipt = house.try_write(segment(0), "rs:4+2", &bytes(400_000, 5)).await.unwrap();
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
    assert_eq!(receipt.missing.len(), 1);
    tokio::time::sleep(2 * lag).await;
    assert_eq!(house.shards().await.len(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_hangs_costs_two_writes_their_patience_and_then_no_more() {
    let house = House::new(6);
    house.nodes[2].fault.set_script(every(Operation::Put, Fault::Silence));
    let mut waited_ms = Vec::new();
    for i in 0..6 {
        let started = Instant::now();
        let receipt = house.try_write(segment(i), "rs:4+2", &bytes(5000, 5)).await.unwrap();
        assert_eq!(receipt.missing.len(), 1);
        waited_ms.push(started.elapsed().as_millis());
    }
    assert!(waited_ms[..2].iter().all(|waited_ms| *waited_ms >= 500), "{waited_ms:?}");
    assert!(waited_ms[2..].iter().all(|waited_ms| *waited_ms <= 25), "{waited_ms:?}");
}

/// As many as the code can lose hang: what is left is all that decoding needs, so they are waited for longer, but not to the
/// deadline of a call.
#[tokio::test(start_paused = true)]
async fn nodes_that_fall_silent_stall_two_writes_for_less_than_two_seconds() {
    let house = House::new(6);
    for i in [2, 4] {
        house.nodes[i].fault.set_script(every(Operation::Put, Fault::Silence));
    }
    let mut waited_ms = Vec::new();
    for i in 0..6 {
        let request = WriteRequest {
            segment: segment(i),
            code: "rs:4+2".into(),
            write_margin: 0,
            data: vec![bytes(5000, 5).into()],
        };
        let started = Instant::now();
        assert_eq!(house.transfer.write(request).await.unwrap().missing.len(), 2);
        waited_ms.push(started.elapsed().as_millis());
    }
    assert!(waited_ms[..2].iter().all(|waited_ms| (1_500..2_000).contains(waited_ms)), "{waited_ms:?}");
    assert!(waited_ms[2..].iter().all(|waited_ms| *waited_ms <= 25), "{waited_ms:?}");
}

#[tokio::test]
async fn a_code_that_the_volume_never_had_domains_for_is_refused() {
    let house = House::new(5);
    let error = house.try_write(segment(0), "rs:4+2", &bytes(1000, 1)).await.unwrap_err();
    assert!(matches!(error, WriteError::Placement { .. }), "{error}");
    assert!(error.to_string().contains("6 nodes are needed and 5"), "{error}");
    assert!(house.shards().await.is_empty());
}

#[tokio::test]
async fn a_volume_with_a_lost_node_goes_on_writing_with_that_shard_missing() {
    let house = House::new(6);
    let state = |i| if i == 5 { NodeState::Lost } else { NodeState::Active };
    let members = house.nodes.iter().enumerate();
    let members = members.map(|(i, node)| (node.id, node_record(i, state(i)), node.record.clone() as Arc<dyn Node>));
    house.fleet.set(members.collect(), Default::default());
    let data = bytes(400_000, 6);
    let receipt = house.try_write(segment(0), "rs:4+2", &data).await.unwrap();
    assert_eq!(
        receipt.missing.iter().map(|index| index.0).collect::<Vec<_>>(),
        [5],
        "a parity shard, not a data shard"
    );
    house.read_same(segment(0), &Arc::new(receipt.record), 0..400_000, &data).await;
}

#[tokio::test]
async fn what_cannot_be_written_is_refused_with_a_sentence() {
    let house = House::new(6);
    let error = house.try_write(segment(0), "rs:4+2", &[]).await.unwrap_err();
    assert!(matches!(error, WriteError::Size { .. }), "{error}");
    let error = house.try_write(segment(0), "no such code", &[1]).await.unwrap_err();
    assert!(matches!(error, WriteError::Code { .. }), "{error}");
    let error = house.try_write(segment(0), "rs:4+2", &vec![0; (64 << 20) + 1]).await.unwrap_err();
    assert!(matches!(error, WriteError::Size { .. }), "{error}");
}

#[test]
fn a_thread_of_its_own_may_block_on_any_runtime() {
    let runtimes = [
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap(),
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap(),
    ];
    for runtime in runtimes {
        let house = runtime.block_on(async { House::new(8) });
        let work = |i: u64| {
            let data = bytes(1_500_000, i);
            let record = runtime.block_on(house.write(segment(i), "rs:4+2", &data));
            runtime.block_on(house.read_same(segment(i), &record, 100..1_400_000, &data));
        };
        std::thread::scope(|scope| {
            for i in 0..8 {
                let work = &work;
                scope.spawn(move || work(i));
            }
        });
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_writes_and_reads_share_little_memory() {
    let settings = weft_transfer::Settings { cache_bytes: 0, inflight_bytes: 1 << 20, ..Default::default() };
    let house = Arc::new(House::with_settings(8, settings));
    let tasks: Vec<_> = (0..16u64)
        .map(|i| {
            let house = house.clone();
            tokio::spawn(async move {
                let data = bytes(2_000_000, i);
                let record = house.write(segment(i), "rs:4+2", &data).await;
                house.lose(&record, &[]);
                house.read_same(segment(i), &record, 0..2_000_000, &data).await;
                let rebuilt = house.transfer.rebuild(segment(i), &record, &[weft_format::ShardIndex(1)]).await.unwrap();
                house.read_same(segment(i), &Arc::new(rebuilt.record), 0..2_000_000, &data).await;
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}
