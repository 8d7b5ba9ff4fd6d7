//! Scrub: every kind of damage is found, told and repaired.

use crate::harness::{NOW_MS, World, key};
use bytes::Bytes;
use std::sync::Arc;
use weft_care::scrub::{Finding, Options, Report, scrub};
use weft_care::{CareError, Catalogue, Job, JobRecord, record};
use weft_env::Env;
use weft_format::shard::{CHECK_BYTES, FRAME_PAYLOAD_BYTES, HEADER_BYTES};
use weft_format::{NodeId, SegmentId};
use weft_nodes::Node;
use weft_transfer::ShardHealth;

async fn run(world: &World, options: Options) -> (Report, Vec<Finding>) {
    let mut told = Vec::new();
    let tell = |finding: &Finding| told.push(finding.clone());
    let report =
        scrub(world.catalogue.clone(), &world.transfer(), &Job::new(&Env::system().clock), options, NOW_MS, tell).await;
    (report.expect("scrubbed"), told)
}

/// One segment on six of eight nodes, and one more to take bytes from.
async fn volume() -> (World, SegmentId, SegmentId) {
    let mut world = World::new(8);
    let segment = world.write(0, "rs:4+2").await;
    let other = world.write(1, "rs:4+2").await;
    (world, segment, other)
}

/// Scrubs, expects exactly `shards` of the first segment to be found and repaired, and everything to be as before.
async fn assert_found(world: &World, segment: SegmentId, shards: &[u16], what: &str) {
    let (report, told) = run(world, Options::default()).await;
    let found: Vec<u16> = told.iter().map(|finding| finding.shard).collect();
    assert_eq!(found, shards, "{what}: {told:?}");
    for finding in &told {
        assert_eq!(finding.segment, segment.to_string(), "{what}");
        assert_eq!(finding.paths, ["/f0"], "{what}");
        assert!(finding.repaired && !finding.complaint.is_empty(), "{what}: {finding:?}");
    }
    assert_eq!((report.finding_count, report.repaired_count), (shards.len() as u64, shards.len() as u64), "{what}");
    assert!(report.bytes_verified > 0, "{what}");
    assert_eq!(world.sound_count(segment).await, 6, "{what}");
    assert_eq!(world.stored().await, world.named(), "{what}: what was replaced is removed");
    world.assert_contents().await;
    let (again, told) = run(world, Options::default()).await;
    assert_eq!((again.finding_count, told.len()), (0, 0), "{what}");
    assert!(again.bytes_verified > 0, "{what}");
}

#[tokio::test]
async fn a_flipped_bit_anywhere() {
    let (world, segment, _) = volume().await;
    let object_bytes = world.object(key(&world.record(segment), segment, 2)).await.len();
    let places = [0, 1, 9, 40, HEADER_BYTES - 1, HEADER_BYTES, HEADER_BYTES + 4095, HEADER_BYTES + 4096]
        .into_iter()
        .chain([object_bytes / 2, object_bytes - CHECK_BYTES - 1, object_bytes - 1]);
    for (number, place) in places.enumerate() {
        let index = (number % 6) as u16;
        world
            .spoil(key(&world.record(segment), segment, index), |mut bytes| {
                bytes[place] ^= 1 << (number % 8);
                Some(bytes)
            })
            .await;
        assert_found(&world, segment, &[index], &format!("bit {} of byte {place}", number % 8)).await;
    }
}

#[tokio::test]
async fn shards_of_a_wrong_length_and_missing_ones() {
    let (world, segment, _) = volume().await;
    type Change = fn(Vec<u8>) -> Option<Vec<u8>>;
    let changes: [(&str, Change); 6] = [
        ("a byte short", |bytes| Some(bytes[..bytes.len() - 1].to_vec())),
        ("half", |bytes| Some(bytes[..bytes.len() / 2].to_vec())),
        ("nothing but the header", |bytes| Some(bytes[..HEADER_BYTES].to_vec())),
        ("empty", |_| Some(Vec::new())),
        ("zeros behind it", |mut bytes| {
            bytes.extend([0; 4096]);
            Some(bytes)
        }),
        ("missing", |_| None),
    ];
    for (what, change) in changes {
        world.spoil(key(&world.record(segment), segment, 5), change).await;
        assert_found(&world, segment, &[5], what).await;
    }
}

#[tokio::test]
async fn misdirected_writes() {
    let (world, segment, other) = volume().await;
    // Two shards of one segment swapped.
    let (one, two) = (key(&world.record(segment), segment, 1), key(&world.record(segment), segment, 4));
    let (first, second) = (world.object(one).await, world.object(two).await);
    world.spoil(one, |_| Some(second)).await;
    world.spoil(two, |_| Some(first)).await;
    assert_found(&world, segment, &[1, 4], "swapped").await;
    // A sound shard of another segment.
    let foreign = world.object(key(&world.record(other), other, 0)).await;
    world.spoil(key(&world.record(segment), segment, 0), |_| Some(foreign)).await;
    assert_found(&world, segment, &[0], "of another segment").await;
}

#[tokio::test]
async fn a_shard_of_an_older_generation() {
    let (world, segment, _) = volume().await;
    let old = world.object(key(&world.record(segment), segment, 3)).await;
    // A repair gives it a new generation; then somebody restores the old bytes from a backup.
    world.spoil(key(&world.record(segment), segment, 3), |_| None).await;
    assert_found(&world, segment, &[3], "lost first").await;
    world.spoil(key(&world.record(segment), segment, 3), |_| Some(old)).await;
    assert_found(&world, segment, &[3], "older generation").await;
}

#[tokio::test]
async fn without_repair_it_only_tells_and_marks() {
    let (world, segment, _) = volume().await;
    world.spoil(key(&world.record(segment), segment, 2), |_| None).await;
    let (before, record) = (world.stored().await, world.record(segment));
    let (report, told) = run(&world, Options { repair: false, ..Options::default() }).await;
    assert_eq!((report.finding_count, report.repaired_count), (1, 0));
    assert!(!told[0].repaired);
    assert_eq!((world.stored().await, world.record(segment)), (before, record));
    assert_eq!(world.catalogue.damaged(None, 10), Ok(vec![segment]));
    assert!(world.repair(&world.transfer()).await.expect("repaired").census.is_whole());
    assert_eq!(world.catalogue.damaged(None, 10), Ok(vec![]));
}

#[tokio::test]
async fn beyond_repair_it_says_so_and_removes_nothing() {
    let (world, segment, _) = volume().await;
    for index in 0..3 {
        world
            .spoil(key(&world.record(segment), segment, index), |mut bytes| {
                bytes[1000] ^= 1;
                Some(bytes)
            })
            .await;
    }
    let before = world.stored().await;
    let (report, told) = run(&world, Options::default()).await;
    assert_eq!((report.finding_count, report.repaired_count, report.failures.len()), (3, 0, 1));
    assert!(told.iter().all(|finding| !finding.repaired));
    assert_eq!(world.stored().await, before, "even a damaged shard may be all that is left");
}

#[tokio::test]
async fn two_shards_in_one_domain() {
    let (mut world, segment, _) = volume().await;
    let record = world.record(segment);
    let (one, two) = (key(&record, segment, 0).0, key(&record, segment, 1).0);
    world.change_node(two, |record| record.domain = format!("n{}", one.0));
    let (report, told) = run(&world, Options { repair: false, ..Options::default() }).await;
    let of_it: Vec<u16> = told.iter().filter(|f| f.segment == segment.to_string()).map(|f| f.shard).collect();
    assert_eq!(of_it, [1], "{report:?}");
    world.add_node(9);
    world.add_node(10);
    let (_, told) = run(&world, Options::default()).await;
    assert!(told.iter().all(|finding| finding.repaired), "{told:?}");
    assert_eq!(run(&world, Options::default()).await.0.finding_count, 0);
    world.assert_contents().await;
}

#[tokio::test]
async fn an_interrupted_scrub_goes_on_where_it_stopped() {
    let mut world = World::new(6);
    for number in 0..10 {
        world.write(number, "rs:4+2").await;
    }
    let job = Arc::new(Job::new(&Env::system().clock));
    // Cancelled at the first finding, which is in the fourth segment.
    let segments: Vec<SegmentId> = world.files.keys().copied().collect();
    world.spoil(key(&world.record(segments[3]), segments[3], 0), |_| None).await;
    let options = Options { workers: 2, ..Options::default() };
    let tell = |_: &Finding| job.cancel();
    let first = scrub(world.catalogue.clone(), &world.transfer(), &job, options, NOW_MS, tell).await;
    assert!(matches!(first, Err(CareError::Cancelled(_))), "{first:?}");
    let noted = JobRecord::load(&*world.catalogue, record::SCRUB).expect("read").expect("noted");
    assert_eq!(noted.cursor, Some(segments[3].to_string()));
    let (report, _) = run(&world, options).await;
    assert!(report.resumed);
    assert_eq!(report.segment_count, 6);
    let ended = JobRecord::load(&*world.catalogue, record::SCRUB).expect("read").expect("noted");
    assert_eq!((ended.segment_count, ended.finding_count), (10, 1));
    let (report, _) = run(&world, options).await;
    assert!(!report.resumed);
    assert_eq!(report.segment_count, 10);
}

#[tokio::test]
async fn a_silent_node_is_no_finding() {
    let (world, segment, _) = volume().await;
    let silent = key(&world.record(segment), segment, 0).0;
    let before = world.stored().await;
    let transfer = world.transfer_without(&[silent]);
    let report =
        scrub(world.catalogue.clone(), &transfer, &Job::new(&Env::system().clock), Options::default(), NOW_MS, |_| {})
            .await;
    let report = report.expect("scrubbed");
    assert_eq!(report.finding_count, 0);
    assert!(report.silent_shard_count >= 1);
    assert_eq!(report.out_of_reach.len(), 1);
    assert_eq!(world.stored().await, before);
}

#[tokio::test]
async fn a_foreign_object_in_a_node_is_left_alone() {
    let (world, segment, _) = volume().await;
    let stranger =
        weft_format::ShardKey { segment: SegmentId::new(NOW_MS, 99), ..key(&world.record(segment), segment, 0).1 };
    world.nodes[&NodeId(1)].put(stranger, &[Bytes::from_static(b"stranger")]).await.expect("put");
    assert_eq!(run(&world, Options::default()).await.0.finding_count, 0);
    assert!(world.stored().await.contains(&(NodeId(1), stranger)));
}

/// Flips a bit of a frame of a shard.
async fn flip(world: &World, segment: SegmentId, index: u16, frame: usize) {
    let at = HEADER_BYTES + frame * (4096 + CHECK_BYTES) + 1000;
    world
        .spoil(key(&world.record(segment), segment, index), |mut bytes| {
            bytes[at] ^= 4;
            Some(bytes)
        })
        .await;
}

async fn long_file(world: &mut World) -> SegmentId {
    let data: Vec<u8> = (0..3u32 << 20).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let (segment, record) = world.put(40, "rs:4+2", &data).await;
    world.catalogue.commit(segment, record, "/long");
    world.files.insert(segment, data);
    segment
}

async fn glance(world: &World) -> weft_care::Tally {
    let roster = weft_care::Roster::probe(&*world.catalogue, &world.transfer()).await.expect("probed");
    weft_care::glance(&*world.catalogue, &roster).expect("counted")
}

#[tokio::test]
async fn finding_09_damage_in_different_stripes_is_mended_by_scrub_and_by_repair() {
    for by_scrub in [true, false] {
        let (mut world, _, _) = volume().await;
        let segment = long_file(&mut world).await;
        for (index, frame) in [(0, 1), (2, 40), (5, 90)] {
            flip(&world, segment, index, frame).await;
        }
        let found = run(&world, Options { repair: false, ..Options::default() }).await;
        assert_eq!(found.0.finding_count, 3);
        let seen = glance(&world).await;
        assert_eq!((seen.lost_count, seen.degraded_count, seen.lost_shard_count), (0, 1, 3), "{seen:?}");
        assert_eq!(seen.margin, Some(1), "in each stripe one shard of six is damaged");
        if by_scrub {
            let (report, _) = run(&world, Options::default()).await;
            assert_eq!((report.finding_count, report.repaired_count), (3, 3), "{report:?}");
        } else {
            let report = world.repair(&world.transfer()).await.expect("repaired");
            assert_eq!((report.rebuilt_count, &report.failures[..]), (3, &[][..]), "{report:?}");
        }
        world.assert_invariants().await;
        let seen = glance(&world).await;
        assert!(seen.is_whole() && seen.margin == Some(2), "{seen:?}");
    }
}

#[tokio::test]
async fn finding_09_what_is_lost_counts_at_once_and_is_named_by_its_bytes() {
    let (mut world, _, _) = volume().await;
    let segment = long_file(&mut world).await;
    for index in [1, 3, 4] {
        flip(&world, segment, index, 17).await;
    }
    let cell = u64::from(world.record(segment).geometry.symbol_bytes);
    let frame = 17 * 4096;
    let stripe = frame / cell;
    let at = |native: u64| (stripe * 4 + native) * cell + frame % cell;
    let lost = vec![at(1)..at(1) + 4096, at(3)..at(3) + 4096];
    let is_told = |tally: &weft_care::Tally| {
        assert_eq!((tally.lost_count, &tally.lost_bytes["/long"]), (1, &lost), "{tally:?}");
    };
    let (report, _) = run(&world, Options::default()).await;
    assert_eq!((report.finding_count, report.repaired_count, report.failures.len()), (3, 0, 1));
    is_told(&glance(&world).await);
    // Neither a repair that does nothing about it nor one that counts by lengths alone forgets it.
    let by_length = weft_care::repair::Options::default();
    let (catalogue, job) = (world.catalogue.clone(), Job::new(&Env::system().clock));
    let report = weft_care::repair::repair(catalogue, &world.transfer(), &job, by_length, NOW_MS).await.expect("ended");
    assert_eq!(report.failures.len(), 1, "{report:?}");
    is_told(&report.census);
    is_told(&world.repair(&world.transfer()).await.expect("ended").census);
    is_told(&glance(&world).await);
    // One of the shards comes back as it was: what is noted of it is found to be true no longer.
    flip(&world, segment, 4, 17).await;
    let report = world.repair(&world.transfer()).await.expect("ended");
    assert!(report.census.is_whole() && report.failures.is_empty(), "{report:?}");
    assert!(glance(&world).await.is_whole());
    world.assert_invariants().await;
}

/// A few KiB that cannot be had any more kept all else of their segment from being mended.
#[tokio::test]
async fn what_can_be_had_of_a_segment_is_mended_beside_what_is_lost() {
    let (world, segment, _) = volume().await;
    let record = world.record(segment);
    // The first frame of three shards, more than the code can lose, and the second of a fourth.
    for (index, frame) in [(0, 0), (2, 0), (5, 0), (3, 1)] {
        let place = HEADER_BYTES + frame * (FRAME_PAYLOAD_BYTES + CHECK_BYTES);
        let change = |mut bytes: Vec<u8>| {
            bytes[place] ^= 1;
            Some(bytes)
        };
        world.spoil(key(&record, segment, index), change).await;
    }
    let (report, told) = run(&world, Options::default()).await;
    assert_eq!((told.len(), report.failures.len()), (4, 1), "{report:?}");
    let health = world.transfer().verify(segment, &world.record(segment)).await.shards;
    let sound: Vec<usize> = (0..6).filter(|index| health[*index] == ShardHealth::Sound).collect();
    assert_eq!(sound, [1, 3, 4], "{health:?}");
    let (again, told) = run(&world, Options::default()).await;
    assert_eq!((told.len(), again.repaired_count, again.failures.len()), (3, 0, 1), "{again:?}");
}
