use super::*;
use crate::catalogue::memory::MemoryCatalogue;
use crate::glance::{glance, glance_with_dead};
use crate::standing::{Loss, Misplacement};
use weft_format::geometry::Geometry;
use weft_format::records::ShardLocation;
use weft_format::shard::Digest;
use weft_format::{Generation, NodeId};

fn record(nodes: &[u128]) -> SegmentRecord {
    let location = |node: &u128| ShardLocation {
        node: NodeId(*node),
        generation: Generation(0),
        digest: Digest([0; 32]),
        origin: None,
    };
    SegmentRecord {
        code: "rs:4+2".into(),
        geometry: Geometry::new(1000, 4, 1, 1, 4096).expect("a geometry"),
        generation: Generation(0),
        shards: nodes.iter().map(|node| Some(location(node))).collect(),
    }
}

const SPREAD: [u128; 6] = [1, 2, 3, 4, 5, 6];

fn tally(segments: &[(SegmentRecord, [Standing; 6])]) -> Tally {
    let catalogue = MemoryCatalogue::default();
    let (mut tally, mut margins) = (Tally::default(), Margins::default());
    for (number, (record, verdicts)) in segments.iter().enumerate() {
        let segment = SegmentId(number as u128);
        catalogue.commit(segment, record.clone(), &format!("/f{number}"));
        tally.add(segment, record, verdicts, &Roster::default(), &mut margins, &catalogue).expect("added");
    }
    tally
}

fn verdicts(lost: usize, silent: usize) -> [Standing; 6] {
    std::array::from_fn(|i| match i {
        i if i < lost => Standing::Lost(Loss::Missing),
        i if i < lost + silent => Standing::OutOfReach,
        _ => Standing::Sound,
    })
}

#[test]
fn silent_nodes_count_as_lost_for_the_margin_and_not_for_the_verdict() {
    let whole = tally(&[(record(&SPREAD), verdicts(0, 0))]);
    assert_eq!((whole.margin, whole.is_whole()), (Some(2), true));

    let silent = tally(&[(record(&SPREAD), verdicts(0, 0)), (record(&SPREAD), verdicts(1, 1))]);
    assert_eq!((silent.margin, silent.degraded_count), (Some(0), 1));
    assert_eq!(silent.degraded_paths, ["/f1".to_owned()].into());

    let waiting = tally(&[(record(&SPREAD), verdicts(2, 1))]);
    assert_eq!((waiting.margin, waiting.out_of_reach_count, waiting.lost_count), (None, 1, 0));
    assert_eq!(waiting.out_of_reach_paths, ["/f0".to_owned()].into());

    let lost = tally(&[(record(&SPREAD), verdicts(3, 0))]);
    assert_eq!((lost.margin, lost.out_of_reach_count, lost.lost_count), (None, 0, 1));
    assert_eq!(lost.lost_paths, ["/f0".to_owned()].into());
}

#[test]
fn a_node_with_two_shards_counts_twice() {
    assert_eq!(tally(&[(record(&[1, 1, 2, 3, 4, 5]), verdicts(0, 0))]).margin, Some(1));
    assert_eq!(tally(&[(record(&[1, 1, 1, 3, 4, 5]), verdicts(0, 0))]).margin, Some(0));
}

#[test]
fn finding_32_a_planned_move_is_no_degradation_and_a_shared_domain_is() {
    let one = |misplacement| {
        let mut misplaced = verdicts(0, 0);
        misplaced[3] = Standing::Misplaced(misplacement);
        tally(&[(record(&SPREAD), misplaced)])
    };
    for planned in [Misplacement::Draining, Misplacement::Overfull { to: NodeId(9) }] {
        let tally = one(planned);
        assert_eq!((tally.margin, tally.degraded_count, tally.misplaced_shard_count), (Some(2), 0, 1));
        assert!(tally.is_whole());
    }
    let tally = one(Misplacement::SharedDomain("rack".into()));
    assert_eq!((tally.margin, tally.degraded_count, tally.misplaced_shard_count), (Some(2), 1, 1));
}

#[test]
fn a_volume_without_segments_is_whole() {
    let tally = tally(&[]);
    assert_eq!((tally.margin, tally.is_whole()), (None, true));
}

#[test]
fn finding_07_what_was_written_with_less_is_neither_lost_nor_degraded() {
    let mut unwritten = record(&SPREAD);
    unwritten.shards[2] = None;
    let mut found = verdicts(0, 0);
    found[2] = Standing::Lost(Loss::NeverStored);
    let tally = tally(&[(unwritten, found), (record(&SPREAD), verdicts(1, 0)), (record(&SPREAD), verdicts(0, 0))]);
    assert_eq!((tally.segment_count, tally.whole_count, tally.degraded_count, tally.short_count), (3, 1, 1, 1));
    assert_eq!((tally.lost_shard_count, tally.unwritten_shard_count), (1, 1));
    assert_eq!((tally.margin, tally.is_whole()), (Some(1), false));
    assert_eq!((tally.short_paths, tally.degraded_paths), (["/f0".to_owned()].into(), ["/f1".to_owned()].into()));
}

#[test]
fn what_is_dead_is_counted_apart() {
    let catalogue = MemoryCatalogue::default();
    for number in 0..3 {
        catalogue.commit(SegmentId(number), record(&SPREAD), "/f");
    }
    catalogue.kill(SegmentId(1), 5);
    let (tally, dead) = glance_with_dead(&catalogue, &Roster::default()).expect("read");
    assert_eq!(tally.segment_count, 2);
    assert_eq!(dead, Dead { segment_count: 1, bytes: record(&SPREAD).stored_bytes() });
    assert_eq!(glance(&catalogue, &Roster::default()), Ok(tally));
}

/// A file that has lost one segment may lose another, and two names may look equal.
#[test]
fn a_file_that_has_lost_bytes_can_lose_more() {
    let damaged = |segments: &[(u128, usize)]| {
        let catalogue = MemoryCatalogue::default();
        let (mut tally, mut margins) = (Tally::default(), Margins::default());
        for (segment, lost) in segments {
            catalogue.commit(SegmentId(*segment), record(&SPREAD), "/big");
            tally
                .add(
                    SegmentId(*segment),
                    &record(&SPREAD),
                    &verdicts(*lost, 0),
                    &Roster::default(),
                    &mut margins,
                    &catalogue,
                )
                .expect("added");
        }
        tally
    };
    let (before, after) = (damaged(&[(1, 3), (2, 0)]), damaged(&[(1, 3), (2, 3)]));
    assert_eq!(before.lost_paths, after.lost_paths);
    assert_eq!(after.lost_since(&before), ["/big".to_owned()].into());
    assert_eq!(after.lost_since(&after), BTreeSet::new());
    assert_eq!(before.lost_since(&after), BTreeSet::new());
}
