use super::*;
use crate::estimator::Health;
use std::collections::BTreeMap;
use weft_format::records::PlacementRule;

pub(super) fn member(domain: &str, weight: u64) -> Member {
    Member {
        name: domain.into(),
        domain: domain.into(),
        locality: domain.split('/').next().unwrap_or_default().into(),
        weight,
        state: NodeState::Active,
        health: Health::Sound,
        total_bytes: None,
        free_bytes: None,
        disk: None,
    }
}

/// Node ids 1.. with these (domain, weight).
pub(super) fn view<'a>(members: impl IntoIterator<Item = (&'a str, u64)>) -> View {
    let members = members.into_iter().enumerate();
    let members = members.map(|(i, (domain, weight))| (NodeId(i as u128 + 1), member(domain, weight)));
    View { members: members.collect(), epoch: 1, rule: PlacementRule::default() }
}

pub(super) fn lone(weights: &[u64]) -> View {
    let names: Vec<String> = (0..weights.len()).map(|i| format!("d{i}")).collect();
    view(names.iter().map(String::as_str).zip(weights.iter().copied()))
}

pub(super) fn segment(i: u64) -> SegmentId {
    SegmentId::new(1_700_000_000_000 + i, u128::from(i) * 0x9e37_79b9_7f4a_7c15)
}

pub(super) fn request(i: u64, shard_count: usize) -> PlacementRequest<'static> {
    static NO_NODES: BTreeSet<NodeId> = BTreeSet::new();
    static NOTHING_HELD: BTreeMap<String, usize> = BTreeMap::new();
    PlacementRequest {
        segment: segment(i),
        shard_count,
        shard_bytes: 1,
        excluded_nodes: &NO_NODES,
        held: &NOTHING_HELD,
        unit_shards: 1,
        within: None,
    }
}

/// How often each node is chosen for `shard_count` shards of `segments` segments.
fn counts(view: &View, segments: u64, shard_count: usize) -> BTreeMap<NodeId, u64> {
    let mut counts = BTreeMap::new();
    for i in 0..segments {
        for node in place(view, &request(i, shard_count)).unwrap().nodes {
            *counts.entry(node).or_default() += 1;
        }
    }
    counts
}

#[test]
fn one_shard_of_each_segment_follows_the_weights_within_five_per_cent() {
    let weights: Vec<u64> = (0..30).map(|i| 1 + i % 5).collect();
    let segments = 100_000;
    let counts = counts(&lone(&weights), segments, 1);
    let sum: u64 = weights.iter().sum();
    for (i, weight) in weights.iter().enumerate() {
        let expected = segments as f64 * *weight as f64 / sum as f64;
        let got = counts[&NodeId(i as u128 + 1)] as f64;
        // Five standard deviations of the smallest count are 13 %; of the largest, 6 %.
        assert!((got - expected).abs() < 5.0 * expected.sqrt(), "node {i}: {got} for {expected}");
        assert!((got / expected - 1.0).abs() < 0.10, "node {i}: {got} for {expected}");
    }
}

#[test]
fn six_shards_on_thirty_equal_nodes_are_even_within_three_per_cent() {
    let counts = counts(&lone(&[1; 30]), 100_000, 6);
    for (node, got) in counts {
        assert!((got as f64 / 20_000.0 - 1.0).abs() < 0.03, "{node}: {got} for 20000");
    }
}

#[test]
fn heavier_nodes_get_more_of_six_shards_but_no_position_of_their_own() {
    let weights: Vec<u64> = (0..30).map(|i| if i < 15 { 1 } else { 3 }).collect();
    let view = lone(&weights);
    let mut heavy_by_position = [0u64; 6];
    for i in 0..20_000 {
        for (position, node) in place(&view, &request(i, 6)).unwrap().nodes.into_iter().enumerate() {
            heavy_by_position[position] += u64::from(node.0 > 15);
        }
    }
    let mean = heavy_by_position.iter().sum::<u64>() as f64 / 6.0;
    assert!(mean > 13_000.0, "three quarters of the weight, less the limit of one each: {mean} of 20000");
    for heavy in heavy_by_position {
        assert!((heavy as f64 / mean - 1.0).abs() < 0.03, "{heavy_by_position:?}");
    }
}

#[test]
fn a_domain_is_chosen_as_often_as_its_weight_says_and_never_more_than_always() {
    // Six of these: the two giants always, and of the other four places each small one three times as often as each tiny one.
    let weights: Vec<u64> = (0..20).map(|i| [1, 3][usize::from(i >= 12)]).chain([50, 90]).collect();
    let segments = 20_000;
    let counts = counts(&lone(&weights), segments, 6);
    for (i, weight) in weights.iter().enumerate() {
        let share = if *weight >= 50 { 1.0 } else { 4.0 * *weight as f64 / 36.0 };
        let got = counts[&NodeId(i as u128 + 1)] as f64 / segments as f64;
        // Four standard deviations are 0.9 % of all segments; taking the first to arrive would be 2 % off.
        assert!((got - share).abs() < 0.01, "node {i} of weight {weight}: {got} for {share}");
    }
}

#[test]
fn bounded_sets_are_what_they_are_called_and_stay_when_room_changes() {
    let mut view = lone(&[1; 40]);
    view.rule.set_count = 25;
    let sets = |view: &View| -> BTreeSet<BTreeSet<NodeId>> {
        (0..2_000).map(|i| place(view, &request(i, 6)).unwrap().nodes.into_iter().collect()).collect()
    };
    let before = sets(&view);
    assert_eq!(before.len(), 25);
    for (id, member) in &mut view.members {
        (member.total_bytes, member.free_bytes) = (Some(1 << 40), Some((1 << 39) + (id.0 as u64 * (1 << 30))));
    }
    assert_eq!(sets(&view), before);
}

#[test]
fn a_new_node_takes_only_what_it_wins_and_a_leaving_one_gives_only_what_it_had() {
    let small = lone(&[1; 30]);
    let large = lone(&[1; 31]);
    let newcomer = NodeId(31);
    let (mut won, mut changed_position) = (0, 0);
    for i in 0..20_000 {
        let before = place(&small, &request(i, 6)).unwrap().nodes;
        let after = place(&large, &request(i, 6)).unwrap().nodes;
        let before_set: BTreeSet<_> = before.iter().copied().collect();
        let after_set: BTreeSet<_> = after.iter().copied().collect();
        let (came, went) = (after_set.difference(&before_set).count(), before_set.difference(&after_set).count());
        assert_eq!(came, went);
        assert_eq!(came, usize::from(after_set.contains(&newcomer)), "only the newcomer comes");
        won += came;
        let stayed = before.iter().zip(&after).filter(|(b, a)| b != a && after_set.contains(b)).count();
        changed_position += stayed;
        if came == 0 {
            assert_eq!(before, after, "what the newcomer does not win does not move");
        }
    }
    let expected = 20_000.0 * 6.0 / 31.0;
    assert!((won as f64 / expected - 1.0).abs() < 0.05, "won {won}, expected {expected}");
    // By chance alone four of the five others would move.
    assert!(changed_position < won * 5 / 4, "one newcomer moves {changed_position} others in {won} cases");
}

#[test]
fn never_two_shards_in_one_domain() {
    let domains: Vec<String> = (0..24).map(|i| format!("rack{}", i / 3)).collect();
    let view = view(domains.iter().enumerate().map(|(i, domain)| (domain.as_str(), 1 + (i as u64 * 7) % 9)));
    for i in 0..5_000 {
        let placement = place(&view, &request(i, 6)).unwrap();
        let used: BTreeSet<&str> = placement.nodes.iter().map(|node| view.members[node].domain.as_str()).collect();
        assert_eq!(used.len(), 6);
        // The first alternates are in the two domains that are free, one node each; all others follow.
        let first: BTreeSet<&str> =
            placement.alternates[..2].iter().map(|node| view.members[node].domain.as_str()).collect();
        assert_eq!(first.len(), 2);
        assert!(first.is_disjoint(&used));
        assert_eq!(placement.nodes.len() + placement.alternates.len(), 24);
    }
}

#[test]
fn excluded_nodes_and_domains_are_not_used() {
    let view = view([("a", 1), ("a", 1), ("b", 1), ("c", 1), ("d", 1)]);
    let nodes = BTreeSet::from([NodeId(3)]);
    let held = BTreeMap::from([("a".to_string(), 1)]);
    for i in 0..100 {
        let request = PlacementRequest { excluded_nodes: &nodes, held: &held, ..request(i, 2) };
        let mut placed = place(&view, &request).unwrap();
        placed.nodes.sort();
        assert_eq!(placed.nodes, [NodeId(4), NodeId(5)]);
        assert!(placed.alternates.is_empty());
    }
}

#[test]
fn too_few_nodes_are_an_error_that_names_the_numbers_and_the_reasons() {
    let mut view = lone(&[1; 6]);
    view.members.get_mut(&NodeId(1)).unwrap().state = NodeState::Lost;
    view.members.get_mut(&NodeId(2)).unwrap().state = NodeState::Draining;
    view.members.get_mut(&NodeId(3)).unwrap().free_bytes = Some(RESERVE_BYTES);
    view.members.get_mut(&NodeId(4)).unwrap().state = NodeState::ReadOnly;
    let error = place(&view, &request(0, 6)).unwrap_err();
    assert!(matches!(error, PlacementError::TooFewNodes { full: 1, .. }));
    assert_eq!(
        error.to_string(),
        "6 nodes are needed and 2 of 6 can take a shard of 1 bytes (1 lost, 1 draining, 1 full, 1 read-only): add 4 more \
         nodes or make room, or choose a code with fewer shards"
    );
}

#[test]
fn a_domain_whose_node_is_full_is_missing_for_want_of_room() {
    let mut view = view([("a", 1), ("a", 1), ("b", 1), ("c", 1)]);
    view.members.get_mut(&NodeId(4)).unwrap().free_bytes = Some(RESERVE_BYTES);
    let error = place(&view, &request(0, 3)).unwrap_err();
    assert_eq!(error, PlacementError::TooFewDomains { wanted: 3, usable: 3, domains: 2, unit_shards: 1, full: 1 });
    let said = error.to_string();
    assert!(said.contains("are in 2: make room on the node that is full, add nodes in 1 more,"), "{said}");
    // Room on a second node of a domain is of no use.
    let mut view = self::view([("a", 1), ("a", 1), ("b", 1), ("b", 1)]);
    view.members.get_mut(&NodeId(1)).unwrap().free_bytes = Some(RESERVE_BYTES);
    let error = place(&view, &request(0, 3)).unwrap_err();
    assert_eq!(error, PlacementError::TooFewDomains { wanted: 3, usable: 3, domains: 2, unit_shards: 1, full: 0 });
}

#[test]
fn too_few_domains_are_refused_unless_they_may_hold_several() {
    let view = view([("a", 1), ("a", 1), ("b", 1), ("b", 1), ("c", 1), ("c", 1)]);
    let too_few = PlacementError::TooFewDomains { wanted: 4, usable: 6, domains: 3, unit_shards: 1, full: 0 };
    assert_eq!(place(&view, &request(0, 4)), Err(too_few));
    let shared = PlacementRequest { unit_shards: 2, ..request(0, 4) };
    let placement = place(&view, &shared).unwrap();
    let used: BTreeSet<&str> = placement.nodes.iter().map(|node| view.members[node].domain.as_str()).collect();
    assert_eq!(used.len(), 3, "every domain is used before any is used twice");
    assert_eq!(placement.nodes.iter().collect::<BTreeSet<_>>().len(), 4, "never two shards on one node");
    // One node too few in one domain: the others would need a third.
    let gone = BTreeSet::from([NodeId(1)]);
    let error = place(&view, &PlacementRequest { excluded_nodes: &gone, unit_shards: 2, ..request(0, 6) }).unwrap_err();
    assert!(matches!(error, PlacementError::TooFewNodes { usable: 5, .. }));
    let view = self::view([("a", 1), ("a", 1), ("a", 1), ("b", 1)]);
    let error = place(&view, &PlacementRequest { unit_shards: 2, ..request(0, 4) }).unwrap_err();
    assert_eq!(
        error.to_string(),
        "4 shards do not fit on the 4 usable nodes in 2 failure domains with at most 2 shards in one: add nodes in other domains, \
         or choose a code with fewer shards or more parities"
    );
}

#[test]
fn an_emptier_node_takes_more() {
    let mut view = lone(&[1; 10]);
    for (id, member) in &mut view.members {
        member.total_bytes = Some(1000 << 30);
        member.free_bytes = Some(if id.0 == 1 { 1000 << 30 } else { 250 << 30 });
    }
    let counts = counts(&view, 20_000, 1);
    let expected = 20_000.0 * 4.0 / 13.0;
    assert!((counts[&NodeId(1)] as f64 / expected - 1.0).abs() < 0.05);
}

#[test]
fn placements_are_the_same_on_every_machine_and_in_every_version() {
    let view = lone(&[1, 2, 3, 4, 5, 6, 7, 8]);
    let golden: [[u128; 6]; 4] = [[3, 4, 5, 8, 6, 7], [6, 5, 4, 1, 7, 8], [4, 8, 3, 5, 7, 6], [5, 4, 2, 7, 8, 6]];
    let placed = |i| place(&view, &request(i, 6)).unwrap().nodes.iter().map(|node| node.0).collect::<Vec<u128>>();
    assert_eq!((0..4).map(placed).collect::<Vec<_>>(), golden);
}

proptest::proptest! {
    #[test]
    fn any_view_gives_distinct_domains_or_a_typed_error(
        members in proptest::collection::vec((0u8..6, 0u64..1000), 0..20),
        shard_count in 0usize..8,
        seed: u64,
    ) {
        let names: Vec<String> = members.iter().map(|(domain, _)| format!("d{domain}")).collect();
        let view = view(names.iter().map(String::as_str).zip(members.iter().map(|(_, weight)| *weight)));
        let distinct = names.iter().collect::<BTreeSet<_>>().len();
        match place(&view, &request(seed >> 16, shard_count)) {
            Ok(placement) => {
                let used: BTreeSet<&str> =
                    placement.nodes.iter().map(|node| view.members[node].domain.as_str()).collect();
                assert_eq!(used.len(), shard_count);
                assert_eq!(placement.nodes.len() + placement.alternates.len(), members.len());
            }
            Err(PlacementError::TooFewNodes { .. }) => assert!(members.len() < shard_count),
            Err(PlacementError::TooFewDomains { domains, .. }) => {
                assert_eq!(domains, distinct);
                assert!(distinct < shard_count);
            }
        }
    }
}
