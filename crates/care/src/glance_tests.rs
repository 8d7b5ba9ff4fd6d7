use super::*;
use crate::catalogue::memory::MemoryCatalogue;
use crate::roster::{NodeFacts, Reach};
use proptest::prelude::*;
use weft_format::Generation;
use weft_format::geometry::Geometry;
use weft_format::records::{NodeRecord, NodeState, PlacementRule, SegmentRecord, ShardLocation};
use weft_format::shard::Digest;
use weft_nodes::Space;

/// Of the last it matters which shard is lost: some of its data have two copies, others three.
const CODES: [(&str, usize); 9] = [
    ("rs:4+2", 6),
    ("rs:2+2", 4),
    ("lrc:4+2+2", 8),
    ("replica:3", 3),
    ("msbasic:4", 8),
    ("ldpc:plank-5", 10),
    ("raid5:4", 4),
    ("embr:n=5,k=3", 5),
    ("ldpc:2+3:1,2,2", 5),
];
const NODES: u128 = 12;

/// A segment on nodes of which several may be the same.
#[derive(Clone, Debug)]
struct Drawn {
    code: usize,
    nodes: Vec<u128>,
    missing: Option<usize>,
    data_bytes: u64,
    is_dead: bool,
    is_marked: bool,
}

impl Drawn {
    fn record(&self) -> SegmentRecord {
        let (code, n) = CODES[self.code];
        let shape = weft_codes::parse(code).expect("a code");
        let (native_count, alpha) = (shape.shape().native_count as u32, shape.shape().alpha as u32);
        let location = |(index, node): (usize, &u128)| {
            let location =
                ShardLocation { node: NodeId(*node), generation: Generation(0), digest: Digest([0; 32]), origin: None };
            (self.missing != Some(index)).then_some(location)
        };
        SegmentRecord {
            code: code.into(),
            geometry: Geometry::new(self.data_bytes, native_count, alpha, 1, 4096).expect("a geometry"),
            generation: Generation(0),
            shards: self.nodes.iter().take(n).enumerate().map(location).collect(),
        }
    }
}

fn drawn() -> impl Strategy<Value = Drawn> {
    let spread = Just((1..=NODES).collect::<Vec<_>>()).prop_shuffle();
    let nodes = prop_oneof![20 => spread, 1 => prop::collection::vec(1..=NODES, 10)];
    let missing = prop_oneof![10 => Just(None), 1 => (0..4_usize).prop_map(Some)];
    (0..CODES.len(), nodes, missing, 1..100_000_u64, prop::bool::weighted(0.1), prop::bool::weighted(0.1)).prop_map(
        |(code, nodes, missing, data_bytes, is_dead, is_marked)| Drawn {
            code,
            nodes,
            missing,
            data_bytes,
            is_dead,
            is_marked,
        },
    )
}

/// How many ways there are for a node to be unlike most.
const WAYS: u8 = 9;

/// How a node is, as a number: most answer.
fn facts(number: u128, how: u8, is_sharing: bool) -> NodeFacts {
    let domain = if is_sharing { format!("host{}", number / 2) } else { format!("host{number}") };
    let state = match how {
        0 | 6 => NodeState::Draining,
        1 | 7 => NodeState::Lost,
        2 | 8 => NodeState::ReadOnly,
        _ => NodeState::Active,
    };
    let reach = match how {
        1 | 3 | 6 | 8 => Reach::OutOfReach("it is away".into()),
        4 => Reach::Refuses("denied".into()),
        5 => Reach::Wiped("nothing is left".into()),
        _ => Reach::Answers(Space { total_bytes: 1, free_bytes: 1, disk: None }),
    };
    let record = NodeRecord {
        name: format!("n{number}"),
        url: String::new(),
        state,
        domain,
        weight: 1,
        secret: Default::default(),
        limits: Default::default(),
    };
    NodeFacts { record, reach, presumed_lost: how == 3 && number.is_multiple_of(2) }
}

proptest! {
    #[test]
    fn sums_say_what_a_walk_over_all_says(
        segments in prop::collection::vec(drawn(), 0..40),
        how in prop::collection::vec(prop_oneof![50 => Just(WAYS), 1 => 0..WAYS], NODES as usize),
        // Most often there is one.
        another in prop::option::weighted(0.7, (0..NODES as usize, 0..WAYS)),
        is_sharing in prop::bool::weighted(0.1),
        // Of a segment a node may be named that the volume does not have.
        known in prop_oneof![9 => Just(NODES), 1 => Just(NODES - 1)],
    ) {
        let catalogue = MemoryCatalogue::default();
        for (number, drawn) in segments.iter().enumerate() {
            let segment = SegmentId(number as u128);
            catalogue.commit(segment, drawn.record(), &format!("/f{number}"));
            if drawn.is_dead {
                catalogue.kill(segment, 5);
            }
            if drawn.is_marked {
                catalogue.mark_damaged(segment).expect("marked");
            }
        }
        let mut how = how;
        if let Some((node, way)) = another {
            how[node] = way;
        }
        let nodes = (1..=known).zip(&how).map(|(number, how)| (NodeId(number), facts(number, *how, is_sharing)));
        let roster = Roster { nodes: nodes.collect(), rule: PlacementRule::default() };
        let walked = glance_at_all(&catalogue, &roster).expect("read");
        let is_plain = |drawn: &Drawn| SegmentSum::of(&drawn.record()).doubled_count == 0;
        match glance_by_sums(&catalogue, &roster).expect("read") {
            Some(summed) => prop_assert_eq!(summed, walked),
            // It says so where units have several nodes, and where a segment has several shards on one.
            None => prop_assert!(is_sharing || !segments.iter().all(is_plain)),
        }
    }
}

/// Units of unlike numbers of nodes, and the rule of how many shards each may have.
fn sites() -> impl Strategy<Value = (Vec<u128>, u32)> {
    (prop::collection::vec(1..4_u128, 1..5), 1..4_u32)
}

proptest! {
    #[test]
    fn sums_suffice_where_it_makes_no_difference_which_nodes_share_a_unit(
        (sites, unit_shards) in sites(),
        segments in prop::collection::vec((0..2_usize, Just((1..=12_u128).collect::<Vec<_>>()).prop_shuffle()), 1..12),
        silent in prop::option::weighted(0.2, 1..=12_u128),
    ) {
        let site_of: Vec<usize> = (0..).zip(&sites).flat_map(|(site, count)| vec![site; *count as usize]).collect();
        let nodes = site_of.len() as u128;
        let catalogue = MemoryCatalogue::default();
        for (number, (code, order)) in segments.iter().enumerate() {
            let nodes: Vec<u128> = order.iter().copied().filter(|node| *node <= nodes).collect();
            // One that there are too few nodes for is not stored.
            if nodes.len() < CODES[*code].1 {
                continue;
            }
            let drawn =
                Drawn { code: *code, nodes, missing: None, data_bytes: 1000, is_dead: false, is_marked: false };
            catalogue.commit(SegmentId(number as u128), drawn.record(), &format!("/f{number}"));
        }
        let node = |(number, site): (u128, &usize)| {
            let mut facts = facts(number, if Some(number) == silent { 3 } else { WAYS }, false);
            facts.record.domain = format!("site{site}");
            (NodeId(number), facts)
        };
        let rule = PlacementRule { unit_shards, ..PlacementRule::default() };
        let roster = Roster { nodes: (1..).zip(&site_of).map(node).collect(), rule };
        let walked = glance_at_all(&catalogue, &roster).expect("read");
        let summed = glance_by_sums(&catalogue, &roster).expect("read");
        // A code that needs all nodes has each unit full in every segment.
        let is_decided = nodes == 6 && segments.iter().all(|(code, _)| CODES[*code].1 == 6);
        let may_be_so = site_of.len() == 6 && sites.iter().all(|count| *count <= unit_shards.min(2).into());
        prop_assert!(summed.is_some() || !(is_decided && may_be_so), "{sites:?} {unit_shards}");
        if let Some(summed) = summed {
            prop_assert_eq!(summed, walked, "{:?} {}", sites, unit_shards);
        }
    }
}

/// Three sites of two nodes: the sums suffice.
#[test]
fn three_sites_of_two_nodes_take_no_walk() {
    let catalogue = MemoryCatalogue::default();
    for number in 0..10 {
        let nodes = (0..6).map(|node| 1 + (node + number) % 6).collect();
        let drawn = Drawn { code: 0, nodes, missing: None, data_bytes: 1000, is_dead: false, is_marked: false };
        catalogue.commit(SegmentId(number), drawn.record(), &format!("/f{number}"));
    }
    let node = |number: u128| {
        let mut facts = facts(number, WAYS, false);
        facts.record.domain = format!("site{}", number % 3);
        (NodeId(number), facts)
    };
    let rule = PlacementRule { unit_shards: 2, ..PlacementRule::default() };
    let mut roster = Roster { nodes: (1..=6).map(node).collect(), rule };
    let (tally, _) = glance_by_sums(&catalogue, &roster).expect("read").expect("the sums suffice");
    assert_eq!((tally.whole_count, tally.margin, tally.unit_margin), (10, Some(2), Some(1)));
    assert_eq!(tally, glance_at_all(&catalogue, &roster).expect("read").0);
    // A node that has no shards any more, or none yet, makes no difference.
    let mut emptied = facts(7, 0, false);
    emptied.record.domain = "site1".into();
    roster.nodes.insert(NodeId(7), emptied);
    assert_eq!(glance_by_sums(&catalogue, &roster).expect("read").map(|(tally, _)| tally), Some(tally));
    // While one is away each segment lacks a shard.
    let there = roster.clone();
    roster.nodes.get_mut(&NodeId(3)).expect("there").reach = Reach::Refuses("denied".into());
    let (tally, _) = glance_by_sums(&catalogue, &roster).expect("read").expect("the sums suffice");
    assert_eq!((tally.degraded_count, tally.margin, tally.unit_margin), (10, Some(1), Some(0)));
    assert_eq!(tally, glance_at_all(&catalogue, &roster).expect("read").0);
    roster = there;
    // Where a unit may have one shard only, half of them are to move.
    roster.rule.unit_shards = 1;
    assert_eq!(glance_by_sums(&catalogue, &roster).expect("read"), None);
}

/// Some segments of a code, each on other nodes.
fn catalogue_of(code: usize, count: u128) -> MemoryCatalogue {
    let catalogue = MemoryCatalogue::default();
    for number in 0..count {
        let nodes = (0..NODES).map(|node| 1 + (node + number) % NODES).collect();
        let drawn = Drawn { code, nodes, missing: None, data_bytes: 1000, is_dead: false, is_marked: false };
        catalogue.commit(SegmentId(number), drawn.record(), &format!("/f{number}"));
    }
    catalogue
}

fn roster_with(away: &[(u128, u8)]) -> Roster {
    let way = |number: u128| away.iter().find(|(node, _)| *node == number).map_or(WAYS, |(_, way)| *way);
    let nodes = (1..=NODES).map(|number| (NodeId(number), facts(number, way(number), false)));
    Roster { nodes: nodes.collect(), rule: PlacementRule::default() }
}

#[test]
fn no_segment_is_read_while_one_node_is_away() {
    for (code, way) in (0..CODES.len()).flat_map(|code| (0..=WAYS).map(move |way| (code, way))) {
        let catalogue = catalogue_of(code, 50);
        let roster = roster_with(&[(5, way)]);
        let (tally, _) = glance_by_sums(&catalogue, &roster).expect("read").expect("the sums suffice");
        let of_node = (0..50).map(SegmentId).filter(|segment| {
            let record = catalogue.segment(*segment).expect("read").expect("there");
            record.nodes().any(|node| node == NodeId(5))
        });
        let read_count = match (CODES[code].0, tally.is_whole()) {
            // It matters which shard they lack.
            ("ldpc:2+3:1,2,2", false) => of_node.count() as u64,
            _ => 0,
        };
        assert_eq!(catalogue.surveyed_count(), read_count, "{} {way}", CODES[code].0);
        assert_eq!(tally, glance_at_all(&catalogue, &roster).expect("read").0, "{} {way}", CODES[code].0);
    }
}

/// Those that are on both lack two shards: how many there are is not in the sums.
#[test]
fn of_two_nodes_away_the_segments_of_one_are_read() {
    let catalogue = catalogue_of(0, 60);
    let on_both = SegmentId(1000);
    let drawn = |nodes| Drawn { code: 0, nodes, missing: None, data_bytes: 1000, is_dead: false, is_marked: false };
    catalogue.commit(on_both, drawn(vec![4, 5, 100, 101, 102, 103]).record(), "/both");
    catalogue.commit(SegmentId(1001), drawn(vec![4, 101, 102, 103, 104, 100]).record(), "/one");
    let mut roster = roster_with(&[(4, 3), (5, 3), (9, 0), (10, 2)]);
    roster.nodes.extend((100..105).map(|number| (NodeId(number), facts(number, WAYS, false))));
    let (tally, _) = glance_by_sums(&catalogue, &roster).expect("read").expect("the sums suffice");
    // The fewest of them are on node 5.
    assert_eq!(catalogue.surveyed_count(), 31);
    assert_eq!(tally, glance_at_all(&catalogue, &roster).expect("read").0);
    assert_eq!((tally.margins[&0], tally.misplaced_shard_count), (26, 30));
}

#[test]
fn files_of_the_first_degraded_segments_are_named() {
    let count = 3 * DEGRADED_NAMED as u128;
    let catalogue = catalogue_of(0, count);
    // Some of them are looked at, those that come first among them.
    for number in (0..40).chain(1000..1040) {
        catalogue.mark_damaged(SegmentId(number)).expect("marked");
    }
    for number in [1, 41, 1041] {
        catalogue.kill(SegmentId(number), 5);
    }
    let roster = roster_with(&[(5, 3)]);
    let (tally, dead) = glance_by_sums(&catalogue, &roster).expect("read").expect("the sums suffice");
    assert_eq!(catalogue.surveyed_count(), 82, "marked and dead");
    assert_eq!((tally.clone(), dead), glance_at_all(&catalogue, &roster).expect("read"));
    assert_eq!((tally.degraded_paths.len(), dead.segment_count), (DEGRADED_NAMED, 3));
    assert!(tally.degraded_count > DEGRADED_NAMED as u64);
    assert!(tally.degraded_paths.contains("/f1000") && !tally.degraded_paths.contains(&format!("/f{}", count - 1)));
}

/// All segments are read then. It is for fsck to say that sums are wrong.
#[test]
fn wrong_sums_are_not_believed() {
    let roster = roster_with(&[(5, 3)]);
    let catalogue = catalogue_of(0, 50);
    let all = catalogue.sums().expect("read");
    let record = catalogue.segment(SegmentId(0)).expect("read").expect("there");
    let mut short = all.clone();
    (0..30).for_each(|_| short.subtract(&record));
    let mut margins = Margins::default();
    assert!(rest(&all, Some(NodeId(5)), &roster, &mut margins).is_some());
    assert!(rest(&short, Some(NodeId(5)), &roster, &mut margins).is_none(), "fewer than none are on node 1");
    assert!(rest(&all, Some(NodeId(6)), &roster, &mut margins).is_none(), "another node is away");
    assert!(rest(&all, None, &roster, &mut margins).is_none(), "a node is away");
}
