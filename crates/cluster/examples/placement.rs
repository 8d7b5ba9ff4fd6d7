//! Placement at scale: `cargo run --release -p weft-cluster --example placement -- [even|filled|moved|all] [nodes] [segments]`.
//!
//! 10,000 nodes of 4, 8 and 16 TiB and 10^7 segments of 14 shards, unless told otherwise, in two worlds: every node its own
//! domain, and racks of 20 nodes. Reported: how far nodes are from their share, beside what chance alone would make of it,
//! and the same when nodes say now and then how full they are; what moves when a node comes or goes, beside the least that
//! has to. It panics where two shards of a segment are in one domain.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Instant;
use weft_cluster::{Health, Layout, Member, Placement, PlacementRequest, View};
use weft_format::records::{NodeState, PlacementRule};
use weft_format::{NodeId, SegmentId};

const SHARDS: usize = 14;
const TIB: u64 = 1 << 40;
const RACK_NODES: usize = 20;

/// Views of changing room: nodes say how much they have so often while the volume fills up.
const REPORTS: u64 = 100;

/// How full the volume is in the end.
const FILL: f64 = 0.8;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let part = arguments.next().unwrap_or_default();
    let mut number = |usual| arguments.next().map_or(usual, |argument| argument.parse().expect("a number"));
    let (nodes, segments) = (number(10_000), number(10_000_000));
    println!("{nodes} nodes, {segments} segments of {SHARDS} shards");
    for (world, rack_nodes) in [("lone nodes", 1), ("racks of 20", RACK_NODES)] {
        let view = view(nodes as usize, rack_nodes);
        if part != "filled" && part != "moved" {
            let began = Instant::now();
            let counts = count(&Layout::new(Arc::new(view.clone()), SHARDS), 0..segments);
            let took_us = began.elapsed().as_secs_f64() * 1e6 / segments as f64;
            println!("{world}: {took_us:.2} us a segment; {}", deviation(&view, &counts));
        }
        if part != "even" && part != "moved" {
            println!("{world}, filled to {FILL}: {}", deviation(&view, &fill(view.clone(), segments)));
        }
        if part != "even" && part != "filled" {
            for (change, node) in [("a large node comes", nodes / 2 + 1), ("a small node comes", nodes / 2 + 2)] {
                let mut without = view.clone();
                let member = without.members.remove(&NodeId(node.into())).expect("it is there");
                moved(world, change, without, view.clone(), member.weight, segments);
            }
            let mut without = view.clone();
            let member = without.members.remove(&NodeId((nodes / 3).into())).expect("it is there");
            moved(world, "a node goes", view.clone(), without, member.weight, segments);
        }
    }
}

/// Nodes 1.. of 4, 8 and 16 TiB in turn.
fn view(nodes: usize, rack_nodes: usize) -> View {
    let member = |i: usize| Member {
        name: format!("n{i}"),
        domain: if rack_nodes == 1 { format!("n{i}") } else { format!("rack{}", i / rack_nodes) },
        locality: String::new(),
        weight: ([4, 8, 16][i % 3] * TIB) >> 30,
        state: NodeState::Active,
        health: Health::Sound,
        total_bytes: None,
        free_bytes: None,
        disk: None,
    };
    let members: BTreeMap<NodeId, Member> = (0..nodes).map(|i| (NodeId(i as u128 + 1), member(i))).collect();
    View { members, epoch: 1, rule: PlacementRule::default() }
}

fn placed(layout: &Layout, i: u64) -> Placement {
    static NO_NODES: BTreeSet<NodeId> = BTreeSet::new();
    static NOTHING_HELD: BTreeMap<String, usize> = BTreeMap::new();
    let request = PlacementRequest {
        segment: SegmentId::new(
            1_700_000_000_000 + i / 7,
            u128::from(i).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835),
        ),
        shard_count: SHARDS,
        shard_bytes: 1,
        excluded_nodes: &NO_NODES,
        held: &NOTHING_HELD,
        unit_shards: 1,
        within: None,
    };
    layout.place(&request).expect("there are nodes enough")
}

/// Shards by node; panics where two of a segment are in one domain.
fn count(layout: &Layout, segments: std::ops::Range<u64>) -> HashMap<NodeId, u64> {
    let domains: HashMap<NodeId, &str> =
        layout.view().members.iter().map(|(id, member)| (*id, member.domain.as_str())).collect();
    let mut counts = HashMap::new();
    for i in segments {
        let nodes = placed(layout, i).nodes;
        for (position, node) in nodes.iter().enumerate() {
            assert!(nodes[..position].iter().all(|other| domains[other] != domains[node]), "two shards in one domain");
            *counts.entry(*node).or_default() += 1;
        }
    }
    counts
}

/// The same while nodes say how much room they have left.
fn fill(mut view: View, segments: u64) -> HashMap<NodeId, u64> {
    let weights: u64 = view.members.values().map(|member| member.weight).sum();
    let shard_bytes = FILL * (weights as f64) * (1u64 << 30) as f64 / (segments * SHARDS as u64) as f64;
    let mut counts: HashMap<NodeId, u64> = HashMap::new();
    for report in 0..REPORTS {
        for (id, member) in &mut view.members {
            let (total, used) = (member.weight << 30, counts.get(id).copied().unwrap_or(0) as f64 * shard_bytes);
            (member.total_bytes, member.free_bytes) = (Some(total), Some(total.saturating_sub(used as u64)));
        }
        let layout = Layout::new(Arc::new(view.clone()), SHARDS);
        for (node, shards) in count(&layout, report * segments / REPORTS..(report + 1) * segments / REPORTS) {
            *counts.entry(node).or_default() += shards;
        }
    }
    counts
}

/// Of the nodes' shards from their shares: root of the mean square, the same by chance alone, the largest.
fn deviation(view: &View, counts: &HashMap<NodeId, u64>) -> String {
    let weights: u64 = view.members.values().map(|member| member.weight).sum();
    let shards: u64 = counts.values().sum();
    let (mut squares, mut chance, mut largest) = (0.0, 0.0, 0.0f64);
    for (id, member) in &view.members {
        let expected = shards as f64 * member.weight as f64 / weights as f64;
        let off = counts.get(id).copied().unwrap_or(0) as f64 / expected - 1.0;
        squares += off * off;
        chance += 1.0 / expected;
        largest = largest.max(off.abs());
    }
    let mean = |sum: f64| (sum / view.members.len() as f64).sqrt() * 100.0;
    let (rms, by_chance, largest) = (mean(squares), mean(chance), largest * 100.0);
    format!("nodes deviate by {rms:.2} % (chance alone {by_chance:.2} %), at most {largest:.2} %")
}

/// Compares two views that differ by one node of this weight.
fn moved(world: &str, change: &str, before: View, after: View, weight: u64, segments: u64) {
    let weights = before.members.len().max(after.members.len());
    let larger = if before.members.len() == weights { &before } else { &after };
    let all: u64 = larger.members.values().map(|member| member.weight).sum();
    let least = segments as f64 * SHARDS as f64 * weight as f64 / all as f64;
    let (before, after) = (Layout::new(Arc::new(before), SHARDS), Layout::new(Arc::new(after), SHARDS));
    let (mut moved, mut turned) = (0u64, 0u64);
    for i in 0..segments {
        let (old, new) = (placed(&before, i).nodes, placed(&after, i).nodes);
        moved += new.iter().filter(|node| !old.contains(node)).count() as u64;
        turned += old.iter().zip(&new).filter(|(a, b)| a != b && old.contains(b)).count() as u64;
    }
    let ratio = moved as f64 / least;
    println!(
        "{world}, {change}: {moved} shards move, its share is {least:.0} ({ratio:.3}); {turned} others change position"
    );
}
