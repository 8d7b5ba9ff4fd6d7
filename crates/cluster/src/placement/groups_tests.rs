use super::super::tests::{request, view};
use super::*;
use weft_format::records::PlacementRule;

/// `lrc:4+2+2`: two groups of two data shards and their parity, and two global parities.
const GROUPS: [[usize; 3]; 2] = [[0, 1, 4], [2, 3, 5]];

fn groups() -> Vec<Vec<usize>> {
    GROUPS.iter().map(|group| group.to_vec()).collect()
}

/// `racks` racks of `hosts` hosts.
fn racks(racks: usize, hosts: usize) -> View {
    let domains: Vec<String> = (0..racks * hosts).map(|i| format!("rack{}/host{}", i / hosts, i)).collect();
    let mut view = view(domains.iter().map(|domain| (domain.as_str(), 1)));
    view.rule = PlacementRule { locality_depth: 1, ..PlacementRule::default() };
    view
}

#[test]
fn each_group_is_in_a_rack_of_its_own_and_no_two_shards_on_a_host() {
    let view = racks(5, 4);
    let mut used = BTreeSet::new();
    for i in 0..500 {
        let placement = place_groups(&view, &request(i, 8), &groups()).unwrap();
        let rack = |shard: usize| view.members[&placement.nodes[shard]].locality.as_str();
        let of_group = |group: &[usize]| group.iter().map(|shard| rack(*shard)).collect::<BTreeSet<_>>();
        let (first, second) = (of_group(&GROUPS[0]), of_group(&GROUPS[1]));
        assert_eq!((first.len(), second.len()), (1, 1));
        assert_ne!(first, second);
        assert!([6, 7].iter().all(|shard| !first.contains(rack(*shard)) && !second.contains(rack(*shard))));
        let hosts: BTreeSet<NodeId> = placement.nodes.iter().copied().collect();
        assert_eq!(hosts.len(), 8);
        // All others stand in for what one of them does not take.
        let others: BTreeSet<NodeId> = placement.alternates.iter().copied().collect();
        assert_eq!((others.len(), placement.alternates.len()), (12, 12));
        assert!(others.is_disjoint(&hosts));
        used.extend(placement.nodes);
    }
    assert_eq!(used.len(), 20, "every host is used by some segment");
}

#[test]
fn too_few_racks_place_as_if_there_were_no_groups() {
    // One rack that could take a group, and many that could not.
    let view = racks(9, 2);
    for i in 0..50 {
        assert_eq!(place_groups(&view, &request(i, 8), &groups()), place(&view, &request(i, 8)));
    }
    // The rule does not ask for it.
    let mut view = racks(5, 4);
    view.rule.locality_depth = 0;
    assert_eq!(place_groups(&view, &request(1, 8), &groups()), place(&view, &request(1, 8)));
}

#[test]
fn global_parities_share_racks_where_there_is_no_other() {
    let view = racks(2, 4);
    for i in 0..50 {
        let placement = place_groups(&view, &request(i, 8), &groups()).unwrap();
        assert_eq!(placement.nodes.iter().collect::<BTreeSet<_>>().len(), 8);
    }
    assert!(place_groups(&view, &request(0, 9), &groups()).is_err(), "there are eight hosts");
}

#[test]
fn as_many_global_parities_as_can_be_are_in_racks_of_their_own() {
    // Two racks for the groups, and one with a single host.
    let domains: Vec<String> = (0..9).map(|i| format!("rack{}/host{i}", i / 4)).collect();
    let mut view = view(domains.iter().map(|domain| (domain.as_str(), 1)));
    view.rule = PlacementRule { locality_depth: 1, ..PlacementRule::default() };
    let small = NodeId(9);
    for i in 0..50 {
        let placed = place_groups(&view, &request(i, 8), &groups()).unwrap().nodes;
        assert!(placed[6] == small || placed[7] == small, "{placed:?}");
        // Lost, they go where they would have been placed.
        let nodes: Vec<Option<NodeId>> = placed[..6].iter().copied().map(Some).chain([None, None]).collect();
        let found = place_lost(&view, &request(i, 1), &groups(), &nodes, &[6, 7]);
        assert!(found.iter().all(Option::is_some) && found.contains(&Some(small)), "{found:?}");
    }
}

#[test]
fn a_rack_that_fails_is_passed_over() {
    let view = racks(4, 4);
    let gone: BTreeSet<NodeId> = (1..=4).map(NodeId).collect();
    for i in 0..50 {
        let request = PlacementRequest { excluded_nodes: &gone, ..request(i, 8) };
        let placement = place_groups(&view, &request, &groups()).unwrap();
        assert!(placement.nodes.iter().all(|node| !gone.contains(node)));
    }
}

#[test]
fn what_is_lost_of_a_group_goes_to_the_rest_of_it() {
    let view = racks(5, 5);
    for i in 0..200 {
        let placed = place_groups(&view, &request(i, 8), &groups()).unwrap().nodes;
        for lost in [vec![0], vec![5], vec![6], vec![1, 3, 7], vec![0, 1, 6, 7]] {
            let gone: BTreeSet<NodeId> = lost.iter().map(|shard| placed[*shard]).collect();
            let nodes: Vec<Option<NodeId>> =
                placed.iter().map(|node| (!gone.contains(node)).then_some(*node)).collect();
            let request = PlacementRequest { excluded_nodes: &gone, ..request(i, 1) };
            let found = place_lost(&view, &request, &groups(), &nodes, &lost);
            let mut all = nodes.clone();
            for (shard, node) in lost.iter().zip(found) {
                assert!(node.is_some_and(|node| !gone.contains(&node)));
                all[*shard] = node;
            }
            let rack = |shard: usize| view.members[&all[shard].unwrap()].locality.as_str();
            let of_group = |group: &[usize]| group.iter().map(|shard| rack(*shard)).collect::<BTreeSet<_>>();
            let (first, second) = (of_group(&GROUPS[0]), of_group(&GROUPS[1]));
            assert_eq!((first.len(), second.len()), (1, 1), "{lost:?}");
            assert!([6, 7].iter().all(|shard| !first.contains(rack(*shard)) && !second.contains(rack(*shard))));
            assert_eq!(all.iter().flatten().collect::<BTreeSet<_>>().len(), 8);
        }
    }
}

#[test]
fn what_is_lost_goes_elsewhere_where_its_rack_has_no_room() {
    let view = racks(5, 3);
    for i in 0..50 {
        let placed = place_groups(&view, &request(i, 8), &groups()).unwrap().nodes;
        // A group fills its rack: what is lost of it finds no host there.
        let gone: BTreeSet<NodeId> = [placed[0], placed[6]].into();
        let nodes: Vec<Option<NodeId>> = placed.iter().map(|node| (!gone.contains(node)).then_some(*node)).collect();
        let request = PlacementRequest { excluded_nodes: &gone, ..request(i, 1) };
        let found = place_lost(&view, &request, &groups(), &nodes, &[0, 6]);
        let all: BTreeSet<NodeId> = nodes.into_iter().chain(found).flatten().collect();
        assert_eq!((all.len(), all.intersection(&gone).count()), (8, 0));
    }
    // A rule without localities: as all are placed.
    let mut view = view;
    view.rule.locality_depth = 0;
    let nodes = vec![None; 3];
    let found: Option<Vec<NodeId>> =
        place_lost(&view, &request(1, 0), &groups(), &nodes, &[0, 1, 2]).into_iter().collect();
    assert_eq!(found, Some(place(&view, &request(1, 3)).unwrap().nodes));
    // Sixteen shards on fifteen hosts: one has no place.
    let lost: Vec<usize> = (0..16).collect();
    let found = place_lost(&view, &request(1, 0), &groups(), &[None; 16], &lost);
    assert_eq!(found.iter().flatten().count(), 15);
}
