use super::super::tests::{lone, request, view};
use super::*;
use crate::place;
use std::collections::BTreeSet;

/// The plain placement's nodes, and a beginning of its alternates.
fn same(layout: &Layout, request: &PlacementRequest<'_>) {
    let (plain, fast) = (place(layout.view(), request), layout.place(request));
    let (Ok(plain), Ok(fast)) = (&plain, &fast) else { return assert_eq!(plain, fast) };
    assert_eq!(plain.nodes, fast.nodes);
    let of_free = |nodes: &[NodeId]| {
        let domain = |node: &NodeId| layout.view.members[node].domain.clone();
        let used: BTreeSet<String> = plain.nodes.iter().map(domain).collect();
        nodes.iter().copied().filter(|node| !used.contains(&domain(node))).collect::<Vec<_>>()
    };
    let mut seen = BTreeSet::new();
    let firsts = |nodes: Vec<NodeId>, seen: &mut BTreeSet<String>| {
        nodes.into_iter().filter(|node| seen.insert(layout.view.members[node].domain.clone())).collect::<Vec<_>>()
    };
    let (plain, fast) = (firsts(of_free(&plain.alternates), &mut seen), of_free(&fast.alternates));
    seen.clear();
    let fast = firsts(fast, &mut seen);
    assert!(plain.starts_with(&fast), "{plain:?} begins with {fast:?}");
}

#[test]
fn a_layout_gives_the_places_of_the_plain_rule() {
    let domains: Vec<String> = (0..300).map(|i| format!("rack{}", i / 5)).collect();
    let racks = view(domains.iter().enumerate().map(|(i, domain)| (domain.as_str(), 1 + (i as u64 * 7) % 11)));
    for view in [racks, lone(&[1; 400]), lone(&[1, 2, 3, 4, 50, 6, 7])] {
        let view = Arc::new(view);
        for shard_count in [1, 6] {
            let layout = Layout::new(view.clone(), shard_count);
            for i in 0..300 {
                same(&layout, &request(i, shard_count));
            }
        }
    }
}

#[test]
fn a_layout_leaves_out_what_the_plain_rule_leaves_out() {
    let domains: Vec<String> = (0..60).map(|i| format!("rack{}", i / 5)).collect();
    let mut view = view(domains.iter().map(|domain| (domain.as_str(), 4)));
    for (id, member) in &mut view.members {
        member.total_bytes = Some(1 << 40);
        member.free_bytes = Some(id.0 as u64 % 3 * (1 << 39));
    }
    view.members.get_mut(&NodeId(8)).unwrap().state = NodeState::Draining;
    view.members.get_mut(&NodeId(9)).unwrap().state = NodeState::ReadOnly;
    let layout = Layout::new(Arc::new(view), 6);
    let (nodes, held) = (BTreeSet::from([NodeId(5), NodeId(17)]), BTreeMap::from([("rack2".to_owned(), 1)]));
    for i in 0..300 {
        let request = PlacementRequest { excluded_nodes: &nodes, held: &held, ..request(i, 6) };
        same(&layout, &request);
        same(&layout, &PlacementRequest { within: Some("rack7"), ..request.clone() });
        same(&layout, &PlacementRequest { unit_shards: 2, ..request.clone() });
        same(&layout, &PlacementRequest { shard_count: 12, ..request });
    }
}

/// The short form of `examples/placement.rs`: 1,000 nodes of 4, 8 and 16 in racks of 5, 100,000 segments of 14 shards.
#[test]
fn at_scale_nodes_have_their_share_and_a_newcomer_takes_no_more_than_its_own() {
    let domains: Vec<String> = (0..1_000).map(|i| format!("rack{}", i / 5)).collect();
    let all = view(domains.iter().enumerate().map(|(i, domain)| (domain.as_str(), [4, 8, 16][i % 3])));
    let mut fewer = all.clone();
    let newcomer = NodeId(500);
    let weight = fewer.members.remove(&newcomer).unwrap().weight as f64;
    let weights: u64 = all.members.values().map(|member| member.weight).sum();
    let (segments, shard_count) = (100_000, 14);
    let (before, after) = (Layout::new(Arc::new(fewer), shard_count), Layout::new(Arc::new(all), shard_count));
    let mut counts: BTreeMap<NodeId, f64> = BTreeMap::new();
    let (mut moved, mut won) = (0.0, 0.0);
    for i in 0..segments {
        let (old, new) = (
            before.place(&request(i, shard_count)).unwrap().nodes,
            after.place(&request(i, shard_count)).unwrap().nodes,
        );
        let racks: BTreeSet<&str> = new.iter().map(|node| after.view.members[node].domain.as_str()).collect();
        assert_eq!(racks.len(), shard_count, "no two shards in one rack");
        for node in new {
            *counts.entry(node).or_default() += 1.0;
            won += f64::from(node == newcomer);
            moved += f64::from(!old.contains(&node));
        }
    }
    let per_weight = segments as f64 * shard_count as f64 / weights as f64;
    let squares = |(id, member): (&NodeId, &crate::Member)| {
        let expected = per_weight * member.weight as f64;
        (counts[id] - expected).powi(2) / expected
    };
    let squares: f64 = after.view.members.iter().map(squares).sum::<f64>() / 1_000.0;
    // By chance alone it is 1, give or take 0.05.
    assert!(squares < 1.15, "deviation is {squares} times what chance makes");
    let least = per_weight * weight;
    assert!((won / least - 1.0).abs() < 0.1 && moved / least < 1.1, "moved {moved}, won {won}, its share is {least}");
}
