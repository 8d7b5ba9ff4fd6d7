//! Wall clocks that jump by a day, forward and back, between any two steps of any job, while somebody writes: whatever is killed
//! and gone on with by a clock that is wrong, nothing is lost, and in the end nothing is left over.

use crate::harness::mortal::Mortal;
use crate::harness::{NOW_MS, World, key};
use std::collections::BTreeSet;
use std::sync::Arc;
use weft_care::balance::balance;
use weft_care::collect::{self, Beside, GRACE_MS, UnreferencedSince, collect, discard};
use weft_care::convert::{self, convert};
use weft_care::scrub::{self, scrub};
use weft_care::{CareError, Catalogue, Job, repair};
use weft_env::Env;
use weft_format::NodeId;
use weft_format::records::{NodeState, PolicyRecord, RetainedRecord, Succession};
use weft_transfer::Transfer;

const MINUTE_MS: u64 = 60_000;
const DAY_MS: u64 = 24 * 60 * MINUTE_MS;

/// When the job begins, by clocks that are right: previous generations are past their time then.
const BEGUN_MS: u64 = 2 * 60 * MINUTE_MS;

#[derive(Clone, Copy, Debug)]
enum Work {
    Repair,
    Scrub,
    Balance,
    Convert,
    Merge,
    Discard,
    Collect,
}

/// A volume with something to do.
async fn volume(work: Work) -> World {
    let mut world = World::new(8);
    for number in 0..2 {
        world.write(number, "rs:4+2").await;
    }
    let segment = *world.files.keys().next().expect("a segment");
    let shard = key(&world.record(segment), segment, 2);
    match work {
        Work::Repair => world.change_node(shard.0, |record| record.state = NodeState::Lost),
        Work::Scrub => {
            let flip = |mut bytes: Vec<u8>| {
                bytes[5000] ^= 1;
                Some(bytes)
            };
            world.spoil(shard, flip).await;
        }
        Work::Balance => {
            for number in 2..6 {
                world.write(number, "rs:4+2").await;
            }
            world.add_node(9);
            world.change_node(NodeId(9), |record| record.weight = 2);
        }
        Work::Convert => {
            for segment in world.files.keys() {
                world.catalogue.set_policies(*segment, &[PolicyRecord::of("rs:4+3", None)]);
            }
        }
        Work::Merge => {
            world.catalogue.set_owner(true);
            for number in 2..4 {
                let data = vec![number as u8; 40_000];
                let (source, record) = world.put(number, "replica:2", &data).await;
                world.catalogue.commit(source, record, &format!("/f{number}"));
                world.catalogue.set_policies(source, &[PolicyRecord::of("rs:2+2", None)]);
                world.files.insert(source, data);
            }
        }
        Work::Discard => {
            let record = world.record(segment);
            let moved = world.transfer().relocate(segment, &record, shard.1.index, None).await.expect("moved");
            let retained = RetainedRecord::of(&record, &moved.record, NOW_MS, 0);
            let succession = Succession { retained, restored: None };
            world.catalogue.replace_segment(segment, &record, &moved.record, &succession).expect("committed");
        }
        Work::Collect => {
            let dead = world.write(2, "rs:4+2").await;
            world.catalogue.kill(dead, NOW_MS);
            world.files.remove(&dead);
            world.put(3, "rs:4+2", &[3; 5000]).await;
        }
    }
    world
}

/// The wall clock of whoever works, and its sights at a moment of a clock that is right.
#[derive(Clone, Copy)]
struct Clocks<'s> {
    wall_ms: u64,
    beside: Beside<'s>,
}

impl<'s> Clocks<'s> {
    fn new(wall_ms: u64, unreferenced_since: &'s UnreferencedSince, at_ms: u64) -> Self {
        Self { wall_ms, beside: Beside { unreferenced_since, at_ms } }
    }
}

async fn run(
    work: Work,
    catalogue: Arc<dyn Catalogue>,
    transfer: &Transfer,
    clocks: Clocks<'_>,
) -> Result<(), CareError> {
    let (job, now_ms) = (Job::new(&Env::system().clock), clocks.wall_ms);
    match work {
        Work::Repair => {
            let ended = repair::repair(catalogue, transfer, &job, repair::Options::default(), now_ms).await;
            ended.map(|report| assert_eq!(report.failures, []))
        }
        Work::Scrub => scrub(catalogue, transfer, &job, scrub::Options::default(), now_ms, |_| {}).await.map(drop),
        Work::Balance => balance(catalogue, transfer, &job, &BTreeSet::new(), now_ms).await.map(drop),
        Work::Convert | Work::Merge => {
            convert(catalogue, transfer, &job, convert::Options::default(), now_ms).await.map(drop)
        }
        Work::Discard => discard(&*catalogue, transfer, &job, clocks.beside).await.map(drop),
        Work::Collect => {
            let options = collect::Options { grace_ms: GRACE_MS, in_use: Some(clocks.beside), dry_run: false };
            collect(catalogue, transfer, &job, options, now_ms).await.map(drop)
        }
    }
}

/// A collector looks.
async fn look(world: &World, clocks: Clocks<'_>) {
    run(Work::Collect, world.catalogue.clone(), &world.transfer(), clocks).await.expect("looked");
}

/// The job is killed after so many steps, if that many there are; then the clocks are at `jumped_ms`.
async fn killed_and_gone_on_with(work: Work, steps: i64, jumped_ms: u64) -> bool {
    let mut world = volume(work).await;
    let (old, new) = (UnreferencedSince::default(), UnreferencedSince::default());
    look(&world, Clocks::new(NOW_MS, &old, 0)).await;
    // A writer is between its last shard and its commit.
    let data = vec![99; 40_000];
    let (segment, record) = world.put(99, "rs:4+2", &data).await;
    let mortal = Mortal::new(&world, steps, steps % 2 == 0);
    let right = Clocks::new(NOW_MS + BEGUN_MS, &old, BEGUN_MS);
    let is_killed = tokio::select! {
        biased;
        () = mortal.dead() => true,
        // Some end well although nobody answers them any more.
        _ = run(work, mortal.catalogue(), &mortal.transfer, right) => tokio::select! {
            biased;
            () = mortal.dead() => true,
            () = std::future::ready(()) => false,
        },
    };
    // Within minutes all kinds of collectors look: one that was there before the clock jumped, one that comes after, and one by
    // a clock that is right.
    for at_ms in [0, MINUTE_MS, 2 * MINUTE_MS] {
        look(&world, Clocks::new(jumped_ms + at_ms, &new, at_ms)).await;
        look(&world, Clocks::new(jumped_ms + at_ms, &old, BEGUN_MS + at_ms)).await;
        look(&world, Clocks::new(NOW_MS + BEGUN_MS + at_ms, &new, at_ms)).await;
    }
    let jumped = Clocks::new(jumped_ms + 3 * MINUTE_MS, &old, BEGUN_MS + 3 * MINUTE_MS);
    run(work, world.catalogue.clone(), &world.transfer(), jumped).await.expect("gone on with");
    world.catalogue.commit(segment, record, "/slow");
    world.files.insert(segment, data);
    world.assert_invariants().await;
    // Time goes by, and whatever the wall clock says meanwhile nothing is left over.
    for hours in [2, 4] {
        let later_ms = BEGUN_MS + hours * 60 * MINUTE_MS;
        look(&world, Clocks::new(jumped_ms + later_ms, &old, later_ms)).await;
    }
    let known: Vec<NodeId> = world.catalogue.nodes().expect("nodes").into_iter().map(|(id, _)| id).collect();
    let mut stored = world.stored().await;
    stored.retain(|(node, _)| known.contains(node));
    assert_eq!(stored, world.named(), "{work:?} after {steps} steps");
    world.assert_invariants().await;
    is_killed
}

async fn at_every_step(work: Work, steps_min: i64) {
    for jumped_ms in [NOW_MS + BEGUN_MS + DAY_MS, NOW_MS + BEGUN_MS - DAY_MS] {
        let mut steps = 0;
        while killed_and_gone_on_with(work, steps, jumped_ms).await {
            steps += 1;
        }
        assert!(steps >= steps_min, "{work:?} has only {steps} steps");
    }
}

#[tokio::test]
async fn repair() {
    at_every_step(Work::Repair, 20).await;
}

#[tokio::test]
async fn scrubbing() {
    at_every_step(Work::Scrub, 20).await;
}

#[tokio::test]
async fn balancing() {
    at_every_step(Work::Balance, 20).await;
}

#[tokio::test]
async fn converting() {
    at_every_step(Work::Convert, 20).await;
}

#[tokio::test]
async fn merging() {
    at_every_step(Work::Merge, 10).await;
}

#[tokio::test]
async fn discarding() {
    at_every_step(Work::Discard, 3).await;
}

#[tokio::test]
async fn collecting() {
    at_every_step(Work::Collect, 10).await;
}
