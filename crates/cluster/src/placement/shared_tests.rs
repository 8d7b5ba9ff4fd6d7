//! Segments with more shards than there are domains.

use super::tests::{member, request, view};
use super::*;

/// Domains with these numbers of nodes, of unlike weights.
fn domains(node_counts: &[usize]) -> View {
    let names: Vec<String> = (node_counts.iter().enumerate())
        .flat_map(|(domain, nodes)| std::iter::repeat_n(format!("site{domain}"), *nodes))
        .collect();
    view(names.iter().zip(0u64..).map(|(name, i)| (name.as_str(), 1 + i * 7 % 5)))
}

fn loads(view: &View, nodes: &[NodeId]) -> BTreeMap<String, usize> {
    let mut loads = BTreeMap::new();
    nodes.iter().for_each(|node| *loads.entry(view.members[node].domain.clone()).or_default() += 1);
    loads
}

/// The slow, obvious way: one shard after the other, each to a domain with the fewest so far that has a node left and may hold
/// one more; of several such domains to the one that draws best, and there to the node that draws best.
fn one_after_the_other(view: &View, request: &PlacementRequest<'_>) -> Option<BTreeSet<NodeId>> {
    let shares = draw::shares(view, request.shard_count);
    let drawer = Words::of_segment(request.segment);
    let mut held = request.held.clone();
    let mut chosen = BTreeSet::new();
    let drawn =
        |id: NodeId| draw::arrival(drawer.pair(Words::of_node(id)), draw::effective_weight(view, &view.members[&id]));
    let may = |id: &NodeId| obstacle(*id, &view.members[id], request).is_none();
    let usable: Vec<NodeId> = view.members.keys().copied().filter(may).collect();
    let of_domain = |domain: &str| {
        let by_name = draw::arrival(drawer.pair(Words::of_text(domain)), shares.domains[domain].weight);
        let nodes = usable.iter().filter(|id| view.members[id].domain == domain);
        let first = nodes.map(|id| drawn(*id)).min_by(f64::total_cmp).expect("a node");
        let arrival = if shares.full == 0 { first } else { by_name };
        (shares.domains[domain].rank(arrival), arrival)
    };
    for _ in 0..request.shard_count {
        let count = |id: &NodeId| held.get(&view.members[id].domain).copied().unwrap_or(0);
        let free = usable.iter().filter(|id| !chosen.contains(*id) && count(id) < request.unit_shards);
        let key = |id: &NodeId| (count(id), of_domain(&view.members[id].domain), drawn(*id), *id);
        let best = *free.min_by(|a, b| key(a).partial_cmp(&key(b)).expect("numbers"))?;
        *held.entry(view.members[&best].domain.clone()).or_default() += 1;
        chosen.insert(best);
    }
    Some(chosen)
}

proptest::proptest! {
    #[test]
    fn places_are_those_of_the_slow_way_and_as_even_as_can_be(
        node_counts in proptest::collection::vec(0usize..5, 1..6),
        shard_count in 1usize..10,
        unit_shards in 1usize..4,
        held in proptest::collection::vec(0usize..3, 5),
        gone: u16,
        seed in 0u64..1 << 40,
    ) {
        let view = domains(&node_counts);
        let excluded: BTreeSet<NodeId> = (0..16).filter(|i| gone >> i & 3 == 3).map(|i| NodeId(i + 1)).collect();
        let held: BTreeMap<String, usize> =
            held.iter().enumerate().map(|(domain, held)| (format!("site{domain}"), *held)).collect();
        let request =
            PlacementRequest { held: &held, excluded_nodes: &excluded, unit_shards, ..request(seed, shard_count) };
        let wanted = one_after_the_other(&view, &request);
        let placed = place(&view, &request);
        let nodes: Option<BTreeSet<NodeId>> = placed.as_ref().ok().map(|placed| placed.nodes.iter().copied().collect());
        proptest::prop_assert_eq!(&nodes, &wanted);
        let Ok(placed) = placed else { return Ok(()) };
        let mut after = held.clone();
        loads(&view, &placed.nodes).into_iter().for_each(|(domain, load)| *after.entry(domain).or_default() += load);
        for node in &placed.nodes {
            proptest::prop_assert!(after[&view.members[node].domain] <= unit_shards && !excluded.contains(node));
        }
        // No shard would lie in a domain with less: where there is a node left, a domain has at most one less than any that took one.
        for node in &placed.alternates {
            let there = after[&view.members[node].domain];
            for taken in &placed.nodes {
                proptest::prop_assert!(there >= unit_shards || there + 1 >= after[&view.members[taken].domain]);
            }
        }
    }
}

#[test]
fn three_sites_of_two_take_two_shards_each_and_lose_no_more_with_a_site() {
    let view = domains(&[2, 2, 2]);
    for i in 0..300 {
        let placed = place(&view, &PlacementRequest { unit_shards: 2, ..request(i, 6) }).unwrap();
        assert!(loads(&view, &placed.nodes).values().all(|load| *load == 2));
        let of_four = place(&view, &PlacementRequest { unit_shards: 2, ..request(i, 4) }).unwrap();
        let mut of_four: Vec<usize> = loads(&view, &of_four.nodes).into_values().collect();
        of_four.sort_unstable();
        assert_eq!(of_four, [1, 1, 2]);
    }
}

#[test]
fn a_domain_with_one_node_takes_one_shard_and_the_others_the_rest() {
    let mut view = domains(&[1, 2, 3]);
    view.rule.unit_shards = 3;
    assert_eq!((view.even_load(5), view.even_load(6)), (2, 3));
    for i in 0..200 {
        let placed = place(&view, &PlacementRequest { unit_shards: 2, ..request(i, 5) }).unwrap();
        assert_eq!(loads(&view, &placed.nodes).into_values().collect::<Vec<_>>(), [1, 2, 2]);
        assert!(place(&view, &PlacementRequest { unit_shards: 2, ..request(i, 6) }).is_err());
        assert!(place(&view, &PlacementRequest { unit_shards: 3, ..request(i, 6) }).is_ok());
    }
}

/// How often each node is chosen is what balance takes for its share.
#[test]
fn nodes_take_what_is_their_share() {
    // All domains take the same: which take one more is drawn less exactly.
    for (node_counts, shard_count) in [(&[3, 3, 3][..], 6), (&[6, 6], 4), (&[4, 4, 4], 9)] {
        let view = domains(node_counts);
        let chances = draw::node_chances(&view, &draw::shares(&view, shard_count));
        let mut counts: BTreeMap<NodeId, f64> = BTreeMap::new();
        let segments = 20_000;
        for i in 0..segments {
            let placed = place(&view, &PlacementRequest { unit_shards: 9, ..request(i, shard_count) }).unwrap();
            placed.nodes.iter().for_each(|node| *counts.entry(*node).or_default() += 1.0);
        }
        let mut sum = 0.0;
        for (id, wanted) in chances {
            let got = counts.get(&id).copied().unwrap_or(0.0) / segments as f64;
            // Order sampling of one or two of three unlike domains is off by up to an eighth; of more it is nearly exact.
            assert!((got - wanted).abs() < 0.15 * wanted + 0.01, "{node_counts:?}, {shard_count}: {got} for {wanted}");
            sum += wanted;
        }
        assert!((sum - shard_count as f64).abs() < 1e-2, "{sum}");
    }
}

/// A node that comes moves what it takes, and little else where all domains take the same. Where some take one more, its domain becomes
/// one of them more often; then other nodes of the domain gain as well, half as much as where each domain has one shard.
#[test]
fn a_newcomer_takes_its_share_and_moves_little_else() {
    for (node_counts, shard_count, most) in
        [(&[2, 2, 2][..], 6, 1.0), (&[3, 3, 3], 6, 1.1), (&[3, 3, 3, 3], 6, 1.6), (&[4, 4, 4], 5, 1.6)]
    {
        let old = domains(node_counts);
        let mut new = old.clone();
        let newcomer = NodeId(77);
        new.members.insert(newcomer, member("site1", 3));
        let (mut won, mut moved) = (0.0, 0.0);
        for i in 0..10_000 {
            let places = |view| {
                let placed = place(view, &PlacementRequest { unit_shards: 9, ..request(i, shard_count) }).unwrap();
                placed.nodes.into_iter().collect::<BTreeSet<_>>()
            };
            let (before, after) = (places(&old), places(&new));
            won += f64::from(u8::from(after.contains(&newcomer)));
            moved += after.difference(&before).count() as f64;
        }
        println!("{node_counts:?}, {shard_count} shards: {moved} moved, {won} to the newcomer");
        assert!(won > 0.0 && moved <= most * won, "{node_counts:?}, {shard_count} shards: {moved} moved for {won}");
    }
}

#[test]
fn what_is_lost_goes_to_the_domains_that_hold_least() {
    let view = domains(&[4, 4, 4]);
    for i in 0..200 {
        let placed = place(&view, &PlacementRequest { unit_shards: 2, ..request(i, 6) }).unwrap().nodes;
        let gone: BTreeSet<NodeId> = BTreeSet::from([placed[0], placed[3]]);
        let nodes: Vec<Option<NodeId>> = placed.iter().map(|node| (!gone.contains(node)).then_some(*node)).collect();
        let request = PlacementRequest { excluded_nodes: &gone, unit_shards: 2, ..request(i, 2) };
        let found = place_lost(&view, &request, &[], &nodes, &[0, 3]);
        let all: Vec<NodeId> = nodes.into_iter().chain(found).flatten().collect();
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 6);
        assert!(loads(&view, &all).values().all(|load| *load == 2), "{i}: {:?}", loads(&view, &all));
    }
}

#[test]
fn local_groups_share_the_domains_of_their_locality() {
    // Two sites of three racks of two nodes; lrc:4+2+2 with two shards in a rack.
    let names: Vec<String> = (0..12).map(|i| format!("site{}/rack{}", i / 6, i / 2)).collect();
    let mut view = view(names.iter().map(|name| (name.as_str(), 1)));
    view.rule = PlacementRule { unit_depth: 2, unit_shards: 2, locality_depth: 1, set_count: 0 };
    let groups = [vec![0, 1, 4], vec![2, 3, 5]];
    for i in 0..200 {
        let request = PlacementRequest { unit_shards: 2, ..request(i, 8) };
        let placed = place_groups(&view, &request, &groups).unwrap();
        assert_eq!(placed.nodes.iter().collect::<BTreeSet<_>>().len(), 8);
        assert!(loads(&view, &placed.nodes).values().all(|load| *load <= 2));
        let site = |shard: &usize| view.members[&placed.nodes[*shard]].locality.clone();
        for group in &groups {
            assert_eq!(group.iter().map(site).collect::<BTreeSet<_>>().len(), 1);
        }
        // The first alternates may take any shard: their rack has room for one more.
        let mut used = loads(&view, &placed.nodes);
        let firsts = placed.alternates.iter().take_while(|node| {
            let held = used.entry(view.members[node].domain.clone()).or_default();
            *held += 1;
            *held <= 2
        });
        assert!(firsts.count() > 0);
    }
}
