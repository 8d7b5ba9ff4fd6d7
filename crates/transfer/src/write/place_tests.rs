use super::*;
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
