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
    view.rule = PlacementRule { unit_depth: 0, locality_depth: 1, set_count: 0 };
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
        assert!(placement.alternates.iter().all(|node| !hosts.contains(node)));
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
fn a_rack_that_fails_is_passed_over() {
    let view = racks(4, 4);
    let gone: BTreeSet<NodeId> = (1..=4).map(NodeId).collect();
    for i in 0..50 {
        let request = PlacementRequest { excluded_nodes: &gone, ..request(i, 8) };
        let placement = place_groups(&view, &request, &groups()).unwrap();
        assert!(placement.nodes.iter().all(|node| !gone.contains(node)));
    }
}
