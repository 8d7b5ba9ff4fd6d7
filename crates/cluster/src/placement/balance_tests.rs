use super::super::tests::{lone, member, request, segment, view};
use super::*;
use crate::place;

/// What a test's segments are: their nodes, by number.
struct Stored {
    shard_bytes: Vec<u64>,
    nodes: Vec<Vec<Option<NodeId>>>,
}

impl Stored {
    /// Written as a volume writes, while all nodes are as empty as each other. Segments are of 1 to 4 MiB a shard.
    fn write(view: &View, count: u64, shard_count: usize) -> Self {
        let unit_shards = view.rule.unit_shards as usize;
        let request = |i| PlacementRequest { unit_shards, ..request(i, shard_count) };
        let placed = |i| place(view, &request(i)).expect("placed").nodes.into_iter().map(Some).collect();
        let shard_bytes = (0..count).map(|i| (1 + i * i % 7 % 4) << 20).collect();
        Self { shard_bytes, nodes: (0..count).map(placed).collect() }
    }

    fn balance(&self, view: &View, silent: &BTreeSet<NodeId>) -> Balance {
        let mut holdings = Holdings::default();
        for (nodes, bytes) in self.nodes.iter().zip(&self.shard_bytes) {
            holdings.add(view, nodes.iter().flatten().copied(), *bytes);
        }
        Balance::new(view, &holdings, silent)
    }

    /// Does all that is to be done; gives the bytes moved.
    fn level(&mut self, balance: &mut Balance) -> u64 {
        let mut moved_bytes = 0;
        for pass in PASSES {
            for i in 0..self.nodes.len() {
                let (id, bytes, mut chosen) = (segment(i as u64), self.shard_bytes[i], Vec::new());
                while let Some(relocation) = balance.choose(id, &self.nodes[i], &chosen, bytes, pass) {
                    assert_eq!(self.nodes[i][relocation.shard], Some(relocation.from));
                    chosen.push(relocation);
                    moved_bytes += bytes;
                }
                // In any order.
                for relocation in chosen.into_iter().rev() {
                    assert!(!self.nodes[i].contains(&Some(relocation.to)));
                    self.nodes[i][relocation.shard] = Some(relocation.to);
                }
            }
        }
        moved_bytes
    }

    fn assert_places(&self, view: &View) {
        for nodes in &self.nodes {
            let mut held: BTreeMap<&str, usize> = BTreeMap::new();
            nodes.iter().flatten().for_each(|node| *held.entry(&view.members[node].domain).or_default() += 1);
            let most = held.values().copied().max().unwrap_or(0);
            assert!(most <= view.even_load(nodes.len()), "{most} shards in one domain");
            assert_eq!(nodes.iter().collect::<BTreeSet<_>>().len(), nodes.len(), "two shards on one node");
        }
    }
}

/// What a change of the volume's nodes is to bring about: all within their bands, by 10 % more bytes than the least at most;
/// and then nothing more.
fn assert_levels(what: &str, view: &View, stored: &mut Stored) {
    let mut balance = stored.balance(view, &BTreeSet::new());
    assert!(balance.is_out(), "{what}: nothing is to be done");
    let least_bytes = balance.least_bytes();
    let moved_bytes = stored.level(&mut balance);
    // In a volume of a few segments, a shard each that does not fit quite.
    let rounding_bytes = (view.members.len() as u64) << 20;
    assert!(
        moved_bytes * 10 <= least_bytes * 11 + rounding_bytes * 10,
        "{what}: {moved_bytes} moved, {least_bytes} is the least"
    );
    stored.assert_places(view);
    let mut after = stored.balance(view, &BTreeSet::new());
    for (id, load) in after.loads() {
        let before = balance.loads().find(|(other, _)| *other == id).map(|(_, load)| load.held_bytes);
        assert_eq!(before, Some(load.held_bytes), "{what}: what was taken to have moved is not what has");
        let off = (load.held_bytes / load.share_bytes - 1.0).abs();
        assert!(off < 0.05 || (load.held_bytes - load.share_bytes).abs() <= f64::from(4 << 20), "{what}: {id} {off}");
    }
    assert!(!after.is_out());
    println!("{what}: {moved_bytes} bytes moved, {least_bytes} the least; then {}", stored.level(&mut after));
}

#[test]
fn new_and_bigger_nodes_are_filled_at_the_least_price_and_then_nothing_moves() {
    for (count, segments) in [(6, 10), (12, 300), (40, 5_000)] {
        let weights: Vec<u64> = (0..count).map(|i| 2 + i % 3).collect();
        let old = lone(&weights);
        let mut stored = Stored::write(&old, segments, 6);
        assert!(!stored.balance(&old, &BTreeSet::new()).is_out(), "{segments} segments, just written");
        let grown = lone(&[weights.clone(), vec![8]].concat());
        assert_levels("one bigger node more", &grown, &mut stored);
        let grown = lone(&[weights.clone(), vec![8, 1, 20]].concat());
        assert_levels("and two unlike ones", &grown, &mut stored);
    }
}

#[test]
fn a_changed_weight_moves_its_difference() {
    let mut view = lone(&[4; 12]);
    let mut stored = Stored::write(&view, 2_000, 6);
    view.members.get_mut(&NodeId(3)).expect("a node").weight = 8;
    assert_levels("twice the weight", &view, &mut stored);
    view.members.get_mut(&NodeId(3)).expect("a node").weight = 2;
    assert_levels("a quarter of it", &view, &mut stored);
}

#[test]
fn racks_stay_apart_and_localities_together() {
    let racks: Vec<String> = (0..20).map(|i| format!("site{}/rack{}", i % 2, i / 2)).collect();
    let domains = |count| racks.iter().cycle().take(count).map(|rack| (rack.as_str(), 4));
    let mut stored = Stored::write(&view(domains(40)), 1_000, 6);
    let mut grown = view(domains(50));
    assert_levels("ten nodes more in racks that there are", &grown, &mut stored);
    grown.rule.locality_depth = 1;
    for id in 51..=54 {
        grown.members.insert(NodeId(id), member(&format!("site0/new{id}"), 9));
    }
    let before = stored.nodes.clone();
    stored.level(&mut stored.balance(&grown, &BTreeSet::new()));
    let site = |node: &Option<NodeId>| grown.members[&node.expect("placed")].locality.clone();
    let (mut moved_count, pairs) = (0, before.iter().flatten().zip(stored.nodes.iter().flatten()));
    for (old, new) in pairs.filter(|(old, new)| old != new) {
        assert_eq!(site(old), site(new));
        moved_count += 1;
    }
    assert!(moved_count > 100, "{moved_count}");
    stored.assert_places(&grown);
}

/// By chance alone nothing moves, in volumes of any size, whatever the nodes are.
#[test]
fn a_volume_just_written_is_in_its_band() {
    for segments in [1, 7, 60, 1_000, 20_000] {
        for (count, shard_count) in [(3, 3), (6, 6), (9, 6), (40, 14)] {
            let weights: Vec<u64> = (0..count).map(|i| 3 + i % 5).collect();
            let view = lone(&weights);
            let balance = Stored::write(&view, segments, shard_count).balance(&view, &BTreeSet::new());
            assert!(!balance.is_out(), "{segments} segments of {shard_count} shards on {count} nodes");
        }
    }
}

#[test]
fn nodes_that_cannot_are_left_alone() {
    let old = lone(&[4; 8]);
    let mut grown = lone(&[4; 12]);
    let mut stored = Stored::write(&old, 500, 6);
    // One has no room, one is read-only, one does not answer.
    let full = grown.members.get_mut(&NodeId(9)).expect("a node");
    (full.total_bytes, full.free_bytes) = (Some(100 << 30), Some(0));
    grown.members.get_mut(&NodeId(10)).expect("a node").state = NodeState::ReadOnly;
    grown.members.get_mut(&NodeId(1)).expect("a node").state = NodeState::ReadOnly;
    let silent = BTreeSet::from([NodeId(11), NodeId(2)]);
    let before = stored.nodes.clone();
    let mut balance = stored.balance(&grown, &silent);
    assert!(stored.level(&mut balance) > 0);
    let held =
        |nodes: &[Vec<Option<NodeId>>], id| nodes.iter().flatten().filter(|node| **node == Some(NodeId(id))).count();
    for id in [1, 2, 9, 10, 11] {
        assert_eq!(held(&stored.nodes, id), held(&before, id), "node {id}");
    }
    assert!(held(&stored.nodes, 12) > 0);
    stored.assert_places(&grown);
}

/// A disk that others use too counts as far as it is ours.
#[test]
fn what_others_fill_is_not_ours_to_fill() {
    let mut view = lone(&[4; 8]);
    for (id, member) in &mut view.members {
        (member.total_bytes, member.free_bytes) = (Some(1 << 40), Some(1 << if id.0 <= 4 { 40 } else { 39 }));
    }
    let stored = Stored::write(&view, 2_000, 3);
    let balance = stored.balance(&view, &BTreeSet::new());
    assert!(!balance.is_out());
    let share = |id| balance.loads().find(|(node, _)| *node == NodeId(id)).map_or(0.0, |(_, load)| load.share_bytes);
    assert!(share(1) > 1.6 * share(8), "{} {}", share(1), share(8));
}

#[test]
fn with_a_bounded_number_of_sets_segments_come_to_lie_on_those() {
    let mut grown = lone(&[4; 14]);
    grown.rule.set_count = 50;
    let old =
        View { members: grown.members.clone().into_iter().filter(|(id, _)| id.0 <= 12).collect(), ..grown.clone() };
    let mut stored = Stored::write(&old, 1_000, 6);
    let mut balance = stored.balance(&grown, &BTreeSet::new());
    assert!(stored.level(&mut balance) > 0);
    let sets = |view: &View| -> BTreeSet<NodeId> {
        (0..1_000).flat_map(|i| place(view, &request(i, 6)).expect("placed").nodes).collect()
    };
    assert_eq!(sets(&grown).len(), 14);
    for (i, nodes) in (0u64..).zip(&stored.nodes) {
        let before = place(&old, &request(i, 6)).expect("placed").nodes;
        let after = place(&grown, &request(i, 6)).expect("placed").nodes;
        assert!(nodes.iter().flatten().all(|node| before.contains(node) || after.contains(node)));
    }
    stored.assert_places(&grown);
}

/// Sites with as many nodes, of some weights.
fn sites(site_count: usize, node_count: usize) -> View {
    let names: Vec<String> = (0..site_count * node_count).map(|i| format!("site{}", i % site_count)).collect();
    let mut view = view(names.iter().zip(0u64..).map(|(name, i)| (name.as_str(), 3 + i % 2)));
    view.rule.unit_shards = 2;
    view
}

#[test]
fn where_domains_hold_several_shards_a_newcomer_is_filled_and_segments_stay_as_even() {
    for (site_count, node_count, shard_count) in [(3, 4, 6), (4, 3, 6), (5, 2, 6), (3, 5, 5)] {
        let old = sites(site_count, node_count);
        let mut stored = Stored::write(&old, 3_000, shard_count);
        assert!(!stored.balance(&old, &BTreeSet::new()).is_out(), "just written to {site_count} sites");
        let mut grown = old.clone();
        grown.members.insert(NodeId(99), member("site1", 4));
        assert_levels("a node more in one site", &grown, &mut stored);
        let mut moved = grown.clone();
        if let Some(member) = moved.members.get_mut(&NodeId(99)) {
            member.weight = 6;
        }
        assert_levels("which becomes twice as heavy", &moved, &mut stored);
    }
}

#[test]
fn balance_never_makes_a_segment_less_even() {
    // Three copies on three sites, though two might lie in one.
    let old = sites(3, 3);
    let mut stored = Stored::write(&old, 2_000, 3);
    let mut grown = old.clone();
    grown.members.insert(NodeId(99), member("site1", 12));
    let mut balance = stored.balance(&grown, &BTreeSet::new());
    assert!(stored.level(&mut balance) > 0);
    stored.assert_places(&grown);
}

/// Newcomers that are to have a shard of nearly every segment: in small volumes of unlike segments, those without one may have none on
/// the nodes with too much.
#[test]
fn what_no_single_move_brings_nearer_goes_around() {
    let (old, grown) = (lone(&[1; 9]), lone(&[&[1; 9][..], &[2; 3]].concat()));
    for seed in 0..300 {
        let mut word: u64 = seed;
        let mut random = |bound: u64| {
            // Knuth's MMIX generator.
            word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (word >> 33) % bound
        };
        let mut stored = Stored::write(&old, 30 + random(40), 8);
        stored.shard_bytes.fill_with(|| if random(6) == 0 { 1 << 20 } else { 1 + random(128 << 10) });
        let mut balance = stored.balance(&grown, &BTreeSet::new());
        let least_bytes = balance.least_bytes();
        let moved_bytes = stored.level(&mut balance);
        stored.assert_places(&grown);
        assert!(!stored.balance(&grown, &BTreeSet::new()).is_out(), "seed {seed}");
        assert!(
            moved_bytes <= least_bytes * 5 / 4 + (4 << 20),
            "seed {seed}: {moved_bytes} moved, {least_bytes} is the least"
        );
    }
}
