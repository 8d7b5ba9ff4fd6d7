use super::*;
use proptest::prelude::*;
use weft_cluster::{Health, Member};
use weft_format::records::PlacementRule;

/// Nodes of these domains; those in capitals were given up.
fn view(domains: &[&str]) -> View {
    let member = |domain: &&str| Member {
        name: (*domain).to_owned(),
        domain: domain.to_lowercase(),
        locality: String::new(),
        weight: 1,
        state: if domain.to_uppercase() == **domain { NodeState::Lost } else { NodeState::Active },
        health: Health::Sound,
        total_bytes: None,
        free_bytes: None,
        disk: None,
    };
    View {
        members: (1..).map(NodeId).zip(domains.iter().map(member)).collect(),
        epoch: 1,
        rule: PlacementRule::default(),
    }
}

#[test]
fn places_are_counted_as_domains_may_hold_shards() {
    let three = view(&["a", "a", "b", "b", "c", "c"]);
    assert_eq!([1, 2, 3].map(|most| Units::of(&three, most).shard_count()), [3, 6, 6]);
    let lost = view(&["A", "a", "B", "B", "c"]);
    assert_eq!([1, 2].map(|most| Units::of(&lost, most).lost_count()), [1, 3]);
}

#[test]
fn with_one_shard_a_domain_what_another_node_of_it_holds_is_not_missing() {
    let view = view(&["a", "a", "b", "c"]);
    let units = Units::of(&view, 1);
    assert_eq!(units.missing(&["a", "b"], &["a", "c"], &[]), (1, 0));
    assert_eq!(units.missing(&["b"], &["a"], &["a", "c"]), (1, 1));
    assert_eq!(units.missing(&["a", "b", "c"], &["a"], &["b"]), (0, 0));
}

#[test]
fn with_several_shards_a_domain_each_node_that_is_away_excuses_one() {
    let view = view(&["a", "a", "b", "b", "c", "C"]);
    let units = Units::of(&view, 2);
    // A site is away, and a node of another was given up.
    assert_eq!(units.missing(&["b", "b", "c"], &["a", "a"], &[]), (3, 0));
    assert_eq!(units.missing(&["a", "b", "b", "c"], &["a"], &[]), (2, 0));
    // Full nodes excuse nothing.
    assert_eq!(units.missing(&["a", "b", "b"], &[], &["a", "c"]), (1, 2));
}

/// A write of `rs:4+2` that names no margin.
fn split() -> Split {
    let request = crate::write::WriteRequest {
        segment: SegmentId(1),
        code: "rs:4+2".into(),
        write_margin: None,
        cell_bytes: None,
        data: vec![bytes::Bytes::from_static(&[0])],
    };
    crate::write::split::split(&crate::algebra::Algebra::default(), request).unwrap()
}

#[test]
fn nodes_that_are_away_excuse_shards_only_beyond_the_spare_places() {
    let needed = |view: &View, away| Units::of(view, 1).needed(&split(), away);
    let six = view(&["a", "b", "c", "d", "e", "f"]);
    assert_eq!([0, 1, 2, 3].map(|away| needed(&six, away)), [6, 5, 4, 4]);
    let eight = view(&["a", "b", "c", "d", "e", "f", "g", "h"]);
    assert_eq!([0, 1, 2, 3, 4, 5].map(|away| needed(&eight, away)), [6, 6, 6, 5, 4, 4]);
    // One that was given up was a place, too.
    let with_lost = view(&["a", "b", "c", "d", "e", "f", "G"]);
    assert_eq!([1, 2].map(|away| needed(&with_lost, away)), [6, 5]);
    // Nodes that take no new shards are none.
    let mut with_draining = view(&["a", "b", "c", "d", "e", "F", "g", "h"]);
    for (node, state) in [(7, NodeState::Draining), (8, NodeState::ReadOnly)] {
        with_draining.members.get_mut(&NodeId(node)).unwrap().state = state;
    }
    assert_eq!(needed(&with_draining, 1), 5);
}

proptest! {
    /// Nodes `0..6` in three domains.
    #[test]
    fn a_node_and_a_domain_take_what_they_had_before_what_they_had_not(
        homes in proptest::sample::subsequence((0..6).collect::<Vec<u128>>(), 3),
        places in proptest::sample::subsequence((0..6).collect::<Vec<u128>>(), 0..=3),
        is_moved in any::<[bool; 3]>(),
        seed in 0..6usize,
    ) {
        let node = |at: &u128| Some(NodeId(*at));
        let homes: Vec<Option<NodeId>> = homes.iter().map(node).zip(is_moved).map(|(home, had)| home.filter(|_| had)).collect();
        let mut places: Vec<Option<NodeId>> = places.iter().map(node).collect();
        places.resize(3, None);
        places.rotate_left(seed % 3);
        let mut before = places.clone();
        let domain = |node: NodeId| Some(node.0 / 2);
        own_first(&mut places, &homes, Some);
        own_first(&mut places, &homes, domain);
        let is_in = |node: Option<NodeId>, home: Option<NodeId>| home.is_some() && node.and_then(domain) == home.and_then(domain);
        for (stranger, owner) in (0..3).flat_map(|stranger| (0..3).map(move |owner| (stranger, owner))) {
            prop_assert!(stranger == owner || homes[owner].is_none() || places[stranger] != homes[owner]);
            let comes = is_in(places[stranger], homes[owner]) && !is_in(homes[stranger], homes[owner]);
            prop_assert!(!comes || is_in(places[owner], homes[owner]));
        }
        before.sort();
        places.sort();
        prop_assert_eq!(before, places);
    }
}
