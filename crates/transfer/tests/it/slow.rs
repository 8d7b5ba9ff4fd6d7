//! Slow, silent and dead nodes. Time is paused: it advances by itself when everybody waits.

use crate::house::{House, bytes, every, segment, silence};
use std::time::Duration;
use tokio::time::Instant;
use weft_nodes::NodeErrorKind;
use weft_nodes::wrappers::{Fault, Operation};
use weft_transfer::{ReadError, SuspectKind};

const LENGTH: u64 = 1 << 20;

#[tokio::test(start_paused = true)]
async fn a_slow_node_is_hedged_and_its_answer_not_waited_for() {
    let house = House::new(6);
    let data = bytes(LENGTH as usize, 1);
    let record = house.write(segment(0), "rs:4+2", &data).await;
    house.node_of(&record, 0).fault.set_script(every(Operation::Get, Fault::Delay(Duration::from_secs(5))));
    let started = Instant::now();
    let report = house.read_same(segment(0), &record, 0..LENGTH, &data).await;
    assert!(report.degraded);
    assert!(started.elapsed() < Duration::from_millis(200), "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn downloads_that_fail_take_nothing_from_the_hedging_of_others() {
    let house = House::new(6);
    let data = bytes(LENGTH as usize, 7);
    let record = house.write(segment(0), "rs:4+2", &data).await;
    house.lose(&record, &[0, 1, 2]);
    // Each takes half of what hedging may cost, so that forty that kept it would leave nothing.
    for _ in 0..40 {
        house.read(segment(0), &record, 0..LENGTH).await.unwrap_err();
    }
    house.heal();
    tokio::time::sleep(Duration::from_secs(61)).await;
    house.read_same(segment(0), &record, 0..LENGTH, &data).await;
    house.node_of(&record, 0).fault.set_script(every(Operation::Get, Fault::Delay(Duration::from_secs(5))));
    let started = Instant::now();
    house.read_same(segment(0), &record, 0..LENGTH, &data).await;
    assert!(started.elapsed() < Duration::from_millis(200), "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_slow_node_that_is_needed_is_waited_for() {
    let house = House::new(6);
    let data = bytes(LENGTH as usize, 2);
    let record = house.write(segment(0), "rs:4+2", &data).await;
    house.lose(&record, &[4, 5]);
    house.node_of(&record, 0).fault.set_script(every(Operation::Get, Fault::Delay(Duration::from_secs(5))));
    let started = Instant::now();
    let report = house.read_same(segment(0), &record, 0..LENGTH, &data).await;
    assert!(!report.degraded);
    assert!(started.elapsed() >= Duration::from_secs(5));
}

#[tokio::test(start_paused = true)]
async fn a_slow_answer_that_comes_before_the_alternates_is_used() {
    let house = House::new(6);
    let data = bytes(LENGTH as usize, 3);
    let record = house.write(segment(0), "rs:4+2", &data).await;
    house.node_of(&record, 0).fault.set_script(every(Operation::Get, Fault::Delay(Duration::from_millis(300))));
    for parity in [4, 5] {
        let script = every(Operation::Get, Fault::Delay(Duration::from_secs(9)));
        house.node_of(&record, parity).fault.set_script(script);
    }
    let started = Instant::now();
    let report = house.read_same(segment(0), &record, 0..LENGTH, &data).await;
    assert!(!report.degraded);
    assert!(started.elapsed() < Duration::from_millis(400), "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn silence_of_too_many_ends_in_an_error_within_the_deadline() {
    let house = House::new(6);
    let data = bytes(LENGTH as usize, 4);
    let record = house.write(segment(0), "rs:4+2", &data).await;
    for index in [0, 1, 2] {
        house.node_of(&record, index).fault.set_script(every(Operation::Get, Fault::Silence));
    }
    let started = Instant::now();
    let error = house.read(segment(0), &record, 0..LENGTH).await.unwrap_err();
    let ReadError::Unrecoverable { failures, .. } = &error else { panic!("{error}") };
    assert!(!failures.0.is_empty());
    let silent = SuspectKind::Unknown(NodeErrorKind::TimedOut);
    assert!(failures.0.iter().all(|failure| failure.kind == silent), "unknown is not absent: {error}");
    assert!(started.elapsed() < Duration::from_secs(25), "{:?}", started.elapsed());
    house.heal();
    tokio::time::sleep(Duration::from_secs(61)).await;
    house.read_same(segment(0), &record, 0..LENGTH, &data).await;
}

#[tokio::test(start_paused = true)]
async fn a_dead_node_costs_time_twice_at_most_and_then_no_more() {
    let house = House::new(6);
    let data = bytes(LENGTH as usize, 5);
    let record = house.write(segment(0), "rs:4+2", &data).await;
    house.node_of(&record, 1).fault.set_script(every(Operation::Get, Fault::Silence));
    let mut waited = Vec::new();
    for _ in 0..10 {
        let started = Instant::now();
        let report = house.read_same(segment(0), &record, 0..LENGTH, &data).await;
        assert!(report.degraded);
        waited.push(started.elapsed().as_millis());
    }
    assert!(waited[0] > 0, "{waited:?}");
    assert!(waited[2..].iter().all(|waited_ms| *waited_ms == 0), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_suspected_node_is_still_the_last_resort() {
    let house = House::new(6);
    let data = bytes(LENGTH as usize, 6);
    let record = house.write(segment(0), "rs:4+2", &data).await;
    for index in 0..6 {
        house.fleet.report(house.node_of(&record, index).id, Err(NodeErrorKind::Unavailable));
    }
    let report = house.read_same(segment(0), &record, 0..LENGTH, &data).await;
    assert!(report.suspects.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_refusing_node_is_avoided_from_the_start_and_tried_again_later() {
    let house = House::new(6);
    let data = bytes(LENGTH as usize, 7);
    let record = house.write(segment(0), "rs:4+2", &data).await;
    let node = house.node_of(&record, 2);
    node.fault.set_script(every(Operation::Get, Fault::Fail(NodeErrorKind::Unavailable)));
    let first = house.read_same(segment(0), &record, 0..LENGTH, &data).await;
    assert_eq!(first.suspects.len(), 1);
    let failures = node.record.counts().failures;
    let second = house.read_same(segment(0), &record, 0..LENGTH, &data).await;
    assert!(second.suspects.is_empty() && second.degraded);
    assert_eq!(node.record.counts().failures, failures, "not even asked");
    house.heal();
    tokio::time::sleep(Duration::from_secs(2)).await;
    let third = house.read_same(segment(0), &record, 0..LENGTH, &data).await;
    assert!(!third.degraded);
}

/// Time is paused: one wait for all that are silent, however many and whatever the code's width.
#[tokio::test(start_paused = true)]
async fn finding_28_a_read_waits_once_for_all_that_are_silent() {
    for (code, n, tolerance) in [("rs:4+2", 6, 2), ("rs:10+4", 14, 4), ("rs:20+10", 30, 10), ("replica:3", 3, 2)] {
        let house = House::new(n);
        let data = bytes(LENGTH as usize, 8);
        let record = house.write(segment(0), code, &data).await;
        (0..=tolerance).for_each(|index| house.node_of(&record, index).fault.set_script(silence()));
        for attempt in 0..3 {
            let started = Instant::now();
            let error = house.read(segment(0), &record, 0..LENGTH).await.unwrap_err();
            let ReadError::Unrecoverable { failures, .. } = &error else { panic!("{error}") };
            let unknown = SuspectKind::Unknown(NodeErrorKind::TimedOut);
            assert!(failures.0.iter().all(|failure| failure.kind == unknown), "unknown is not absent: {error}");
            assert_eq!(failures.0.len(), tolerance + 1, "{error}");
            // Nothing ever moved on this client's line, so whole copies under way are given the time of the slowest line.
            let allowed = Duration::from_secs(if code == "replica:3" { 20 } else { 8 });
            assert!(started.elapsed() < allowed, "{code}, {attempt}: {:?}", started.elapsed());
        }
        // It heals at once when they are back.
        house.heal();
        house.read_same(segment(0), &record, 0..LENGTH, &data).await;
    }
}

#[tokio::test(start_paused = true)]
async fn finding_28_a_node_that_is_slow_and_there_is_waited_for() {
    let house = House::new(6);
    let data = bytes(LENGTH as usize, 9);
    let record = house.write(segment(0), "rs:4+2", &data).await;
    [0, 1].iter().for_each(|index| house.node_of(&record, *index).fault.set_script(silence()));
    house.node_of(&record, 2).fault.set_script(every(Operation::Get, Fault::Delay(Duration::from_secs(8))));
    house.read_same(segment(0), &record, 0..LENGTH, &data).await;
}

#[tokio::test(start_paused = true)]
async fn finding_25_busy_nodes_that_are_needed_are_waited_for_by_readers() {
    let house = House::new(6);
    let data = bytes(LENGTH as usize, 10);
    let record = house.write(segment(0), "rs:4+2", &data).await;
    for index in 0..3 {
        let mut left = 15;
        house.node_of(&record, index).fault.set_script(Box::new(move |call| {
            let is_busy = call.operation == Operation::Get && left > 0;
            left -= u32::from(is_busy);
            if is_busy { Fault::Fail(NodeErrorKind::Busy) } else { Fault::None }
        }));
    }
    house.read_same(segment(0), &record, 0..LENGTH, &data).await;
    // For ever it is not.
    for index in 0..3 {
        house.node_of(&record, index).fault.set_script(every(Operation::Get, Fault::Fail(NodeErrorKind::Busy)));
    }
    let started = Instant::now();
    let error = house.read(segment(0), &record, 0..LENGTH).await.unwrap_err();
    assert!(started.elapsed() < Duration::from_secs(60), "{:?}", started.elapsed());
    assert!(error.to_string().contains("failed on purpose"), "it says who was busy: {error}");
}
