//! The worker, over memory nodes and a memory catalogue, with short timeouts.

use crate::harness::World;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use weft_care::catalogue::Catalogue;
use weft_care::record::{CareRecord, Requests};
use weft_care::roster::Rounds;
use weft_care::watch::{Timeouts, Verdict};
use weft_care::worker::{Options, Worker};
use weft_format::NodeId;
use weft_format::records::PolicyRecord;
use weft_nodes::memory::MemoryNode;
use weft_nodes::wrappers::Operation;
use weft_nodes::wrappers::fault::{Call, Fault, FaultNode};
use weft_nodes::{Node, NodeErrorKind};
use weft_transfer::Transfer;

const TIMEOUTS: Timeouts = Timeouts {
    look_every_ms: 10,
    give_up_after_ms: 300,
    wiped_after_ms: 50,
    retry_after_ms: 50,
    scrub_every_ms: None,
    collect_every_ms: u64::MAX / 2,
    balance_every_ms: Some(u64::MAX / 2),
    convert_every_ms: 200,
    discard_every_ms: 100,
};

fn worker(world: &World, transfer: Transfer, holder: &str) -> Worker {
    Worker {
        catalogue: world.catalogue.clone(),
        transfer,
        board: Arc::default(),
        options: Options { timeouts: TIMEOUTS, holder: holder.into() },
        follow_nodes: Box::new(|| Ok(())),
    }
}

/// Waits until it is so; the test's own time-out is generous, for busy machines.
async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(30), "never: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Nodes that are as the switch says: away, or wiped.
fn switched(world: &World, node: NodeId, is_off: &Arc<AtomicBool>, kind: NodeErrorKind) -> Transfer {
    world.transfer_through(|id, inner| match id == node {
        false => inner,
        true => {
            let is_off = is_off.clone();
            let script = move |_: &_| if is_off.load(Ordering::SeqCst) { Fault::Fail(kind) } else { Fault::None };
            Arc::new(FaultNode::new(inner, "switched", Box::new(script))) as Arc<dyn Node>
        }
    })
}

fn is_on(world: &World, node: NodeId) -> bool {
    world.files.keys().any(|segment| world.record(*segment).shards.iter().flatten().any(|shard| shard.node == node))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_silent_node_held_is_rebuilt_unasked_and_the_node_is_welcome_again() {
    let mut world = World::new(8);
    for number in 0..12 {
        world.write(number, "rs:4+2").await;
    }
    let (node, is_off) = (NodeId(3), Arc::new(AtomicBool::new(false)));
    let transfer = switched(&world, node, &is_off, NodeErrorKind::Unavailable);
    let (stop, stopped) = watch::channel(false);
    let caring = tokio::spawn(worker(&world, transfer, "one").run(stopped));
    let record = || CareRecord::load(&*world.catalogue).expect("read").expect("noted");
    until("it notes that it is there", || CareRecord::load(&*world.catalogue).expect("read").is_some()).await;
    is_off.store(true, Ordering::SeqCst);
    until("it is suspected", || record().doubted == [("n3".into(), Verdict::Suspected)]).await;
    assert!(is_on(&world, node), "silence is no loss");
    until("it is given up", || !is_on(&world, node)).await;
    until("that is noted", || record().history.first().is_some_and(|entry| entry.task == "repair" && entry.is_well))
        .await;
    assert_eq!(record().doubted, [("n3".into(), Verdict::GivenUp)]);
    let known = world.catalogue.nodes().expect("nodes");
    assert!(known.iter().any(|(id, _)| *id == node), "given up, and not forgotten");
    is_off.store(false, Ordering::SeqCst);
    until("it is welcome", || record().doubted.is_empty()).await;
    stop.send(true).expect("heard");
    caring.await.expect("ended");
    assert!(record().has_ended);
    world.assert_contents().await;
    let lease = world.catalogue.lease().expect("read").expect("taken once");
    assert_eq!(lease.holder, "", "given back");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wiped_node_is_renewed_and_a_marked_segment_mended() {
    let mut world = World::new(8);
    for number in 0..6 {
        world.write(number, "rs:4+2").await;
    }
    let (node, is_off) = (NodeId(2), Arc::new(AtomicBool::new(false)));
    let transfer = switched(&world, node, &is_off, NodeErrorKind::Wiped);
    let (stop, stopped) = watch::channel(false);
    let caring = tokio::spawn(worker(&world, transfer, "one").run(stopped));
    is_off.store(true, Ordering::SeqCst);
    until("renewed", || world.catalogue.renewed() == [node]).await;
    until("rebuilt", || !is_on(&world, node)).await;
    until("forgotten", || !world.catalogue.nodes().expect("nodes").iter().any(|(id, _)| *id == node)).await;

    let segment = *world.files.keys().next().expect("a segment");
    let (place, key) = crate::harness::key(&world.record(segment), segment, 1);
    world.nodes[&place].remove(key).await.expect("removed");
    world.catalogue.mark_damaged(segment).expect("marked");
    until("mended", || world.catalogue.damaged(None, 1).expect("read").is_empty()).await;
    stop.send(true).expect("heard");
    caring.await.expect("ended");
    world.assert_contents().await;
}

/// A node was put back that had lost shards, and the repair that should count them was cut off. The next one counts them, though all nodes
/// answer and records miss nothing.
#[tokio::test(flavor = "multi_thread")]
async fn shards_that_a_node_lacks_are_counted_for_as_long_as_that_is_owed() {
    let mut world = World::new(8);
    let segment = world.write(1, "rs:4+2").await;
    let (place, key) = crate::harness::key(&world.record(segment), segment, 1);
    world.nodes[&place].remove(key).await.expect("removed");
    let owed = br#"{"version":2,"started_ms":1,"updated_ms":1,"ended_ms":null,"cursor":null,"segment_count":0,"bytes":0,"finding_count":0,"failure_count":0}"#;
    world.catalogue.set_job("count", Some(owed)).expect("noted");
    let (stop, stopped) = watch::channel(false);
    let caring = tokio::spawn(worker(&world, world.transfer(), "one").run(stopped));
    until("counted", || world.catalogue.job("count").expect("read").is_none()).await;
    stop.send(true).expect("heard");
    caring.await.expect("ended");
    assert_eq!(world.sound_count(segment).await, 6);
}

/// A node that loses what it has just taken: the repair called itself well, and began again at once for ever.
#[tokio::test(flavor = "multi_thread")]
async fn a_repair_whose_last_count_finds_shards_lost_is_not_well() {
    let mut world = World::new(6);
    let segment = world.write(1, "rs:4+2").await;
    let (node, key) = crate::harness::key(&world.record(segment), segment, 1);
    world.nodes[&node].remove(key).await.expect("removed");
    world.catalogue.mark_damaged(segment).expect("marked");
    let transfer = world.transfer_through(|id, inner| match id == node {
        false => inner,
        true => {
            let script = |call: &Call| if call.operation == Operation::Put { Fault::Lie } else { Fault::None };
            Arc::new(FaultNode::new(inner, "forgetful", Box::new(script))) as Arc<dyn Node>
        }
    });
    let (stop, stopped) = watch::channel(false);
    let caring = tokio::spawn(worker(&world, transfer, "one").run(stopped));
    let history = || CareRecord::load(&*world.catalogue).expect("read").map_or(vec![], |record| record.history);
    until("a repair has ended", || !history().is_empty()).await;
    assert_eq!((&history()[0].task[..], history()[0].is_well), ("repair", false), "{:?}", history()[0]);
    stop.send(true).expect("heard");
    caring.await.expect("ended");
    world.assert_contents().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_begun_while_people_want_a_pause_and_two_workers_share_the_work() {
    let mut world = World::new(8);
    for number in 0..6 {
        world.write(number, "rs:4+2").await;
    }
    Requests::change(&*world.catalogue, |requests| requests.is_paused = true).expect("requested");
    let (node, is_off) = (NodeId(5), Arc::new(AtomicBool::new(true)));
    let (stop, stopped) = watch::channel(false);
    let caring: Vec<_> = ["one", "two"]
        .map(|holder| {
            let transfer = switched(&world, node, &is_off, NodeErrorKind::Unavailable);
            tokio::spawn(worker(&world, transfer, holder).run(stopped.clone()))
        })
        .into();
    let record = || CareRecord::load(&*world.catalogue).expect("read");
    let given_up = [("n5".to_owned(), Verdict::GivenUp)];
    until("given up", || record().is_some_and(|record| record.is_paused && record.doubted == given_up)).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(is_on(&world, node) && world.catalogue.lease().expect("read").is_none(), "paused");
    Requests::change(&*world.catalogue, |requests| requests.is_paused = false).expect("requested");
    until("rebuilt", || !is_on(&world, node)).await;
    stop.send(true).expect("heard");
    for worker in caring {
        worker.await.expect("ended");
    }
    world.assert_contents().await;
}

#[tokio::test]
async fn a_node_where_requests_are_dear_is_asked_less_often_and_a_silent_one_always() {
    let mut world = World::new(2);
    let dear = NodeId(2);
    let identity = world.nodes[&dear].identity().await.expect("answers");
    world.nodes.insert(dear, Arc::new(MemoryNode::new("n2", identity, 1 << 40).with_request_price(u64::MAX)));
    let (asked, is_off) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(true)));
    let (of_script, is_off_now) = (asked.clone(), is_off.clone());
    let script = Arc::new(move |_: &_| {
        of_script.fetch_add(1, Ordering::SeqCst);
        if is_off_now.load(Ordering::SeqCst) { Fault::Fail(NodeErrorKind::Unavailable) } else { Fault::None }
    });
    let transfer = world.transfer_through(|id, inner| match id == dear {
        false => inner,
        true => {
            let script = script.clone();
            Arc::new(FaultNode::new(inner, "dear", Box::new(move |call| script(call))))
        }
    });
    let mut rounds = Rounds::default();
    for (off, answers, count) in [(true, false, 1), (true, false, 2), (false, true, 3), (false, true, 3)] {
        is_off.store(off, Ordering::SeqCst);
        let roster = rounds.probe(Duration::from_secs(30), &*world.catalogue, &transfer).await.expect("probed");
        assert_eq!((roster.answers(dear), asked.load(Ordering::SeqCst)), (answers, count));
        assert!(roster.answers(NodeId(1)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_came_is_filled_unasked_and_then_nothing_moves() {
    let mut world = World::new(8);
    for number in 0..60 {
        world.write(number, "rs:4+2").await;
    }
    world.add_node(9);
    world.change_node(NodeId(9), |record| record.weight = 2);
    let (stop, stopped) = watch::channel(false);
    let caring = tokio::spawn(worker(&world, world.transfer(), "one").run(stopped));
    let record = || CareRecord::load(&*world.catalogue).expect("read").expect("noted");
    until("it notes that it is there", || CareRecord::load(&*world.catalogue).expect("read").is_some()).await;
    until("balanced", || record().history.first().is_some_and(|entry| entry.task == "balance" && entry.is_well)).await;
    let before = world.named();
    // 12 of 60 lie there by right: twice as many as on others, of which each has 60 * 6 / 10.
    let held = before.iter().filter(|(node, _)| *node == NodeId(9)).count();
    assert!((50..=60).contains(&held), "{held}");
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!((world.named(), record().history.len()), (before, 1));
    stop.send(true).expect("heard");
    caring.await.expect("ended");
    world.assert_contents().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_asked_for_is_converted_unasked_again_after_a_kill_and_given_up_on_request() {
    let mut world = World::new(8);
    for number in 0..6 {
        world.write(number, "replica:3").await;
    }
    let codes = || {
        let records = world.files.keys().map(|segment| world.record(*segment).code);
        records.collect::<std::collections::BTreeSet<_>>()
    };
    let want = |code: &str| {
        for segment in world.files.keys() {
            world.catalogue.set_policies(*segment, &[PolicyRecord::of(code, None)]);
        }
        Requests::change(&*world.catalogue, |requests| requests.convert_count += 1).expect("requested");
    };
    let start = |transfer| {
        let (stop, stopped) = watch::channel(false);
        (stop, tokio::spawn(worker(&world, transfer, "one").run(stopped)))
    };
    let (stop, caring) = start(world.transfer());
    want("rs:4+2");
    until("converted", || codes() == ["rs:4+2".to_owned()].into()).await;
    let record = || CareRecord::load(&*world.catalogue).expect("read").expect("noted");
    until("noted", || record().history.first().is_some_and(|entry| entry.task == "conversion" && entry.is_well)).await;
    stop.send(true).expect("heard");
    caring.await.expect("ended");
    // The next one is killed at its first put, and another goes on.
    let is_off = Arc::new(AtomicBool::new(true));
    let silent = world.transfer_through(|_, inner| {
        let is_off = is_off.clone();
        let script = move |call: &weft_nodes::wrappers::fault::Call| match call.operation {
            Operation::Put if is_off.load(Ordering::SeqCst) => Fault::Silence,
            _ => Fault::None,
        };
        Arc::new(FaultNode::new(inner, "stuck", Box::new(script))) as Arc<dyn Node>
    });
    let (_stop, stuck) = start(silent);
    want("raid6:6");
    until("begun", || record().now.is_some_and(|(task, _)| task == "conversion")).await;
    let lease = || world.catalogue.lease().expect("read").expect("taken");
    until("at work", || lease().holder == "one").await;
    stuck.abort();
    assert!(stuck.await.is_err(), "killed");
    // The lease of the killed one is another's as soon as it is silent for long enough; here it is given back for it.
    until("free", || {
        let held = lease();
        let free = weft_format::records::LeaseRecord { holder: String::new(), term: held.term + 1, ..held.clone() };
        world.catalogue.replace_lease(Some(&held), &free).expect("written")
    })
    .await;
    let (stop, caring) = start(world.transfer());
    until("gone on with", || codes() == ["raid6:6".to_owned()].into()).await;
    stop.send(true).expect("heard");
    caring.await.expect("ended");
    world.assert_contents().await;
}

/// Metadata that cannot be reached, at each of many moments of a repair: the worker waits, and does the rest when it is back.
/// Each waits for its own lease to run out, so they do it together.
#[tokio::test(flavor = "multi_thread")]
async fn while_metadata_is_away_nothing_is_lost_and_afterwards_the_rest_is_done() {
    let outages: tokio::task::JoinSet<()> = [0, 1, 3, 7, 20, 45].into_iter().map(outage).collect();
    outages.join_all().await;
}

async fn outage(moment: usize) {
    let mut world = World::new(8);
    for number in 0..12 {
        world.write(number, "rs:4+2").await;
    }
    let (node, calls) = (NodeId(3), Arc::new(AtomicUsize::new(0)));
    // From the first call after the node is gone the calls of nodes are counted: so many, and metadata goes.
    let (is_off, catalogue) = (Arc::new(AtomicBool::new(false)), world.catalogue.clone());
    let transfer = world.transfer_through(|id, inner| {
        let (is_off, calls, catalogue) = (is_off.clone(), calls.clone(), catalogue.clone());
        let script = move |call: &Call| {
            let is_off = is_off.load(Ordering::SeqCst);
            let is_work = is_off && call.operation != Operation::Space;
            if is_work && calls.fetch_add(1, Ordering::SeqCst) == moment {
                catalogue.set_away(true);
            }
            if is_off && id == node { Fault::Fail(NodeErrorKind::Wiped) } else { Fault::None }
        };
        Arc::new(FaultNode::new(inner, "counted", Box::new(script))) as Arc<dyn Node>
    });
    let (stop, stopped) = watch::channel(false);
    let caring = tokio::spawn(worker(&world, transfer, "one").run(stopped));
    is_off.store(true, Ordering::SeqCst);
    until("work begins", || calls.load(Ordering::SeqCst) > moment).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    world.catalogue.set_away(false);
    until("what it held is rebuilt", || !is_on(&world, node)).await;
    stop.send(true).expect("heard");
    caring.await.expect("ended");
    world.assert_contents().await;
    for segment in world.files.keys() {
        assert_eq!(world.sound_count(*segment).await, 6, "moment {moment}");
    }
}
