use super::*;
use std::collections::BTreeMap;
use weft_cluster::{Health, Member};
use weft_format::records::{NodeState, name_hash};

fn view(count: usize) -> View {
    let member = |i: usize| Member {
        name: format!("n{i}"),
        domain: format!("n{i}"),
        locality: String::new(),
        weight: 10,
        state: NodeState::Active,
        health: Health::Sound,
        total_bytes: None,
        free_bytes: None,
        disk: None,
    };
    View { members: (0..count).map(|i| (NodeId(i as u128 + 1), member(i))).collect(), ..View::default() }
}

#[test]
fn few_members_are_all_taken_and_dead_ones_none() {
    let mut view = view(5);
    assert_eq!(closest(&view, 7, 14).nodes.len(), 5);
    view.members.get_mut(&NodeId(3)).unwrap().state = NodeState::Lost;
    let near = closest(&view, 7, 14);
    assert_eq!(near.nodes.len(), 4);
    assert!(near.all().all(|node| node != NodeId(3)));
    assert_eq!(closest(&View::default(), 7, 14), Closest::default());
}

#[test]
fn a_member_that_goes_moves_little_else_and_all_hold_about_as_much() {
    let (before, mut after) = (view(40), view(40));
    after.members.get_mut(&NodeId(9)).unwrap().state = NodeState::Lost;
    let mut held: BTreeMap<NodeId, usize> = BTreeMap::new();
    let mut replaced = 0;
    for i in 0..400 {
        let hash = name_hash(&format!("object {i}"));
        let (old, new) = (closest(&before, hash, 6), closest(&after, hash, 6));
        old.nodes.iter().for_each(|node| *held.entry(*node).or_default() += 1);
        let gone = old.nodes.iter().filter(|node| !new.nodes.contains(node)).count();
        // A member that held the name holds it still, but for the one that went, and what it weighed among all.
        assert!(gone <= usize::from(old.nodes.contains(&NodeId(9))) + 1, "object {i}");
        replaced += gone;
    }
    assert!(held.values().all(|count| (30..95).contains(count)), "{held:?}");
    assert!(replaced <= 2 * held[&NodeId(9)], "{replaced} of {} moved", held[&NodeId(9)]);
}

#[test]
fn segments_begin_at_different_members_and_use_the_same_ones() {
    let near = closest(&view(14), 1, 14);
    let (first, second) = (near.places(0, 14), near.places(1, 14));
    assert_eq!(first[1], second[0]);
    let all = |places: &[Option<NodeId>]| places.iter().flatten().copied().collect::<BTreeSet<_>>();
    assert_eq!(all(&first), all(&second));
    // Of too few members the last shards have no place.
    let places = closest(&view(12), 1, 14).places(0, 14);
    assert_eq!(places.iter().position(Option::is_none), Some(12));
}
