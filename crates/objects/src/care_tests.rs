use super::*;
use weft_cluster::{Health, Member};
use weft_format::records::NodeState;

#[test]
fn what_was_not_seen_in_a_round_begins_again() {
    let (mut observed, start) = (Observed::default(), Instant::now());
    let at = |seconds| start + Duration::from_secs(seconds);
    let (one, other) = (Matter::Superseded(1, Stamp(1)), Matter::Missing(2, Stamp(1), 0, ShardIndex(3)));
    assert_eq!(observed.see(one, at(0)), Duration::ZERO);
    assert_eq!(observed.see(other, at(0)), Duration::ZERO);
    observed.end_round();
    assert_eq!(observed.see(one, at(10)), Duration::from_secs(10));
    // Not looked at is not over.
    observed.keep(|matter| *matter == other);
    observed.end_round();
    assert_eq!(observed.see(other, at(20)), Duration::from_secs(20));
    observed.end_round();
    assert_eq!(observed.see(one, at(30)), Duration::ZERO);
}

#[test]
fn an_upload_rests_while_no_more_of_it_is_seen_than_before() {
    let (mut uploads, start, version) = (Uploads::default(), Instant::now(), (1, Stamp(1)));
    let mut rest = |count, seconds| uploads.see(version, count, start + Duration::from_secs(seconds)).as_secs();
    assert_eq!((rest(5, 0), rest(5, 10), rest(6, 20)), (0, 10, 0));
    // A member is away, and back.
    assert_eq!((rest(4, 30), rest(6, 40), rest(7, 50)), (10, 20, 0));
    uploads.keep(&[(1, Stamp(2))]);
    assert_eq!(uploads.see(version, 7, start + Duration::from_secs(60)), Duration::ZERO);
}

#[test]
fn the_first_looks_in_every_round_and_the_others_all_the_same() {
    assert!((0..64).all(|round| is_due(round, 0)));
    assert_eq!((0..64).filter(|round| is_due(*round, 3)).count(), 8);
    assert!(is_due(64, usize::MAX));
    assert_eq!(rebuild_after(Duration::from_secs(60), 2), Duration::from_secs(180));
}

/// Ten members, two of each domain.
fn view() -> View {
    let member = |i: u128| Member {
        name: format!("n{i}"),
        domain: format!("d{}", i / 2),
        locality: String::new(),
        weight: 1,
        state: NodeState::Active,
        health: Health::Sound,
        total_bytes: None,
        free_bytes: None,
        disk: None,
    };
    View { members: (0..10).map(|i| (NodeId(i), member(i))).collect(), ..View::default() }
}

#[test]
fn a_missing_shard_goes_to_the_closest_member_of_a_free_domain() {
    let view = view();
    let closest = Closest { nodes: (0..5).map(NodeId).collect(), alternates: (5..10).map(NodeId).collect() };
    let (holders, refused) = (BTreeSet::from([NodeId(0), NodeId(2)]), BTreeSet::from([NodeId(4)]));
    let missing = [ShardIndex(1), ShardIndex(4), ShardIndex(5), ShardIndex(6)];
    // 1 and 3 share domains with holders, 4 is refused; 5, 6 and 8 are left for three of four.
    let chosen = targets(&view, &closest, &holders, &refused, &missing);
    assert_eq!(chosen, [(ShardIndex(1), NodeId(5)), (ShardIndex(4), NodeId(6)), (ShardIndex(5), NodeId(8))]);
}

fn key(index: u16, generation: u32) -> ShardKey {
    ShardKey { segment: weft_format::SegmentId(1), generation: Generation(generation), index: ShardIndex(index) }
}

#[test]
fn of_shards_in_one_domain_the_earliest_stays_and_of_copies_the_first_counts() {
    let (view, first) = (view(), Generation::FIRST.0);
    let at = |node, index, generation| (NodeId(node), key(index, generation));
    let places = |held: &[(NodeId, ShardKey)]| {
        let mut places: BTreeMap<ShardIndex, Vec<(NodeId, ShardKey)>> = BTreeMap::new();
        held.iter().for_each(|(node, key)| places.entry(key.index).or_default().push((*node, *key)));
        places
    };
    // A member has a copy of a shard, and takes another that is missing. Then the first one is lost.
    let (original, copy, taken) = (at(0, 0, first), at(2, 0, 50), at(2, 1, 40));
    let there = places(&[original, copy, taken, at(4, 2, first)]);
    assert_eq!((crowded(&view, &there), needless(&there)), (Vec::new(), BTreeSet::from([copy])));
    let there = places(&[copy, taken, at(4, 2, first)]);
    assert_eq!((crowded(&view, &there), needless(&there)), (vec![copy.1], BTreeSet::new()));
    // What is copied elsewhere under an earlier name takes its place.
    let there = places(&[copy, taken, at(4, 2, first), at(6, 0, 49)]);
    assert_eq!((crowded(&view, &there), needless(&there)), (Vec::new(), BTreeSet::from([copy])));
    // Of two that lie beside the first, both.
    assert_eq!(crowded(&view, &places(&[copy, taken, at(3, 2, 60)])), [copy.1, key(2, 60)]);
    // So it is with another member of the domain; what was put there stays.
    assert_eq!(crowded(&view, &places(&[at(2, 0, first), at(3, 1, 7)])), [key(1, 7)]);
    assert_eq!(crowded(&view, &places(&[at(2, 0, first), at(3, 1, first)])), []);
}

#[test]
fn what_is_found_nowhere_is_missing() {
    let places = BTreeMap::from([
        (ShardIndex(0), vec![(NodeId(1), key(0, Generation::FIRST.0))]),
        (ShardIndex(2), vec![(NodeId(2), key(2, Generation::FIRST.0))]),
    ]);
    assert_eq!(missing(4, &places), [ShardIndex(1), ShardIndex(3)]);
}
