//! The engine in shaped networks: the distributions of the wide-area study, its profiles and ours side by side.
//!
//! Time is paused, so a slow network costs no time and every run gives the same figures; computing costs nothing here.
//! The whole table: `cargo test --release -p weft-transfer --test it networks -- --ignored --nocapture`.

use crate::effort::is_long;
use crate::house::{VOLUME, bytes, node_record, segment};
use bytes::Bytes;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use weft_env::Env;
use weft_format::records::{NodeState, SegmentRecord};
use weft_format::{NodeId, SegmentId};
use weft_nodes::wrappers::{Line, ShapeNode};
use weft_nodes::{MemoryNode, Node, NodeIdentity};
use weft_transfer::{Fleet, Profile, ReadPart, Settings, Transfer, WriteRequest};

/// A network: the lines to its servers.
struct Network {
    name: &'static str,
    lines: Vec<Line>,
}

fn line(latency_ms: u64, kilobytes_per_second: u64, jitter_percent: u32, silent_per_mille: u32) -> Line {
    Line {
        latency: Duration::from_millis(latency_ms),
        jitter_percent,
        bytes_per_second: NonZeroU64::new(kilobytes_per_second * 1000).expect("a line carries something"),
        silent_per_mille,
    }
}

/// Numbers in a range, the same every time, spread as by a logarithm.
fn spread(i: u64, from: u64, to: u64) -> u64 {
    let fraction = (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as f64 / (1u64 << 24) as f64;
    (from as f64 * (to as f64 / from as f64).powf(fraction)) as u64
}

/// The study's three distributions (section 5.2), their servers as the commodity Internet of its time had them.
fn networks() -> [Network; 3] {
    let regions = |regions: [(u64, u64); 4]| {
        let server = |i: u64| {
            let (latency_ms, kilobytes) = regions[i as usize % 4];
            line(
                spread(i, latency_ms, latency_ms * 3 / 2),
                spread(i + 100, kilobytes * 2 / 3, kilobytes * 3 / 2),
                20,
                2,
            )
        };
        (0..48).map(server).collect()
    };
    [
        Network {
            name: "hodgepodge",
            lines: (0..50).map(|i| line(spread(i, 15, 250), spread(i + 100, 60, 2000), 30, 5)).collect(),
        },
        // Alabama, California, Texas, Wisconsin.
        Network { name: "regional", lines: regions([(10, 2000), (60, 800), (30, 1200), (25, 1500)]) },
        // South-eastern Canada, western Europe, Singapore, Korea.
        Network { name: "slow regional", lines: regions([(50, 400), (110, 250), (240, 100), (200, 120)]) },
    ]
}

struct World {
    fleet: Arc<Fleet>,
    nodes: Vec<Arc<ShapeNode>>,
    records: Vec<(SegmentId, Arc<SegmentRecord>)>,
    segment_bytes: u64,
    data: Vec<u8>,
}

impl World {
    /// A file of `segment_count` segments, striped over the network's servers.
    async fn new(lines: &[Line], code: &str, segment_bytes: u64, segment_count: u64, seed: u64) -> Self {
        let fast = line(0, 100_000_000, 0, 0);
        let node = |i: usize| {
            let identity = NodeIdentity { volume: VOLUME, node: NodeId(100 + i as u128) };
            let memory = Arc::new(MemoryNode::new(format!("n{i}"), identity, 1 << 40));
            Arc::new(ShapeNode::new(memory, fast, seed * 1000 + i as u64))
        };
        let nodes: Vec<Arc<ShapeNode>> = (0..lines.len()).map(node).collect();
        let fleet = fleet(&nodes);
        let writer = engine(&fleet, Profile::default());
        let data = bytes((segment_bytes * segment_count) as usize, seed);
        let mut records = Vec::new();
        for (i, part) in data.chunks(segment_bytes as usize).enumerate() {
            let segment = segment(seed * 10_000 + i as u64);
            let request = WriteRequest {
                segment,
                code: code.into(),
                write_margin: Some(1),
                cell_bytes: None,
                data: vec![Bytes::copy_from_slice(part)],
            };
            records.push((segment, Arc::new(writer.write(request).await.unwrap().record)));
        }
        nodes.iter().zip(lines).for_each(|(node, line)| node.set_line(*line));
        Self { fleet, nodes, records, segment_bytes, data }
    }

    /// Downloads the file; how long it takes, infinitely where time-outs take too many shards for lost.
    async fn download(&self, transfer: &Transfer) -> f64 {
        let part = |(segment, record): &(SegmentId, Arc<SegmentRecord>)| (*segment, record.clone());
        let parts: Vec<_> = self.records.iter().map(part).collect();
        let mut out = vec![0; self.data.len()];
        let parts: Vec<ReadPart<'_>> = (parts.iter().zip(out.chunks_mut(self.segment_bytes as usize)))
            .map(|((segment, record), out)| ReadPart { segment: *segment, record, range: 0..self.segment_bytes, out })
            .collect();
        let started = Instant::now();
        match transfer.read_parts(parts).await {
            Ok(_) => assert!(out == self.data),
            Err(_) => return f64::INFINITY,
        }
        started.elapsed().as_secs_f64()
    }
}

fn fleet(nodes: &[Arc<ShapeNode>]) -> Arc<Fleet> {
    let member = |(i, node): (usize, &Arc<ShapeNode>)| {
        (NodeId(100 + i as u128), node_record(i, NodeState::Active), node.clone() as Arc<dyn Node>)
    };
    Arc::new(Fleet::new(nodes.iter().enumerate().map(member).collect(), Default::default(), &Env::system()))
}

fn engine(fleet: &Arc<Fleet>, profile: Profile) -> Transfer {
    let settings = Settings { cache_bytes: 0, profile, ..Settings::default() };
    Transfer::new(VOLUME, fleet.clone(), settings, tokio::runtime::Handle::current())
}

/// Seconds of downloads by a profile that has seen the network once, sorted.
async fn seconds(lines: &[Line], profile: Profile, code: &str, file: (u64, u64), rounds: u64) -> Vec<f64> {
    let mut seconds = Vec::new();
    for seed in 1..=rounds {
        let (segment_bytes, segment_count) = file;
        let world = World::new(lines, code, segment_bytes, segment_count, seed).await;
        let transfer = engine(&fleet(&world.nodes), profile);
        world.download(&transfer).await;
        seconds.push(world.download(&transfer).await);
        drop(world.fleet);
    }
    seconds.sort_by(f64::total_cmp);
    seconds
}

fn profiles() -> Vec<Profile> {
    let mut profiles = vec!["adaptive".to_owned()];
    for selection in ["fastest0", "fastest1", "lightest"] {
        for (transfers, redundancy) in [(20, "R=1"), (20, "R=2,P=30"), (30, "R=1"), (30, "R=2,P=30")] {
            for preference in ["any", "data-first"] {
                profiles.push(format!("{selection},T={transfers},{redundancy},{preference}"));
            }
        }
    }
    profiles.iter().map(|text| text.parse().unwrap()).collect()
}

/// Read times of one segment after another, sorted: what an application waits for.
async fn waits(lines: &[Line], profile: Profile, segment_count: u64) -> Vec<f64> {
    let world = World::new(lines, "rs:6+3", 1 << 20, segment_count, 7).await;
    let transfer = engine(&fleet(&world.nodes), profile);
    let mut waits = Vec::new();
    for (position, (segment, record)) in world.records.iter().enumerate() {
        let mut out = vec![0; 1 << 20];
        let started = Instant::now();
        transfer.read(*segment, record, 0..1 << 20, &mut out).await.unwrap();
        let at = position << 20;
        assert!(out == world.data[at..at + (1 << 20)]);
        waits.push(started.elapsed().as_secs_f64());
    }
    waits.sort_by(f64::total_cmp);
    waits
}

/// Thirty nodes of which every tenth is ten times slower.
fn one_in_ten_slow() -> Vec<Line> {
    (0..30).map(|i| if i % 10 == 3 { line(200, 2_000, 20, 0) } else { line(20, 20_000, 20, 0) }).collect()
}

fn quantile(sorted: &[f64], q: f64) -> f64 {
    sorted[((sorted.len() - 1) as f64 * q).round() as usize]
}

#[tokio::test(start_paused = true)]
async fn adaptive_is_as_fast_as_the_best_of_the_study_in_its_networks() {
    let fixed =
        ["fastest0,T=20,R=1,any", "fastest0,T=20,R=2,P=30,any", "fastest1,T=20,R=1,any", "fastest1,T=30,R=2,P=30,any"];
    // A short run takes the first and the last of them.
    let step = if is_long() { 1 } else { fixed.len() - 1 };
    for network in networks() {
        let file = (5 << 20, 5);
        let ours = seconds(&network.lines, Profile::default(), "rs:5+5", file, 7).await;
        assert!(ours.iter().all(|seconds| seconds.is_finite()), "{}: {ours:?}", network.name);
        let ours = quantile(&ours, 0.5);
        for fixed in fixed.into_iter().step_by(step) {
            let theirs = quantile(&seconds(&network.lines, fixed.parse().unwrap(), "rs:5+5", file, 7).await, 0.5);
            assert!(ours <= theirs, "{}: {ours:.2} s where {fixed} takes {theirs:.2}", network.name);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn slow_nodes_do_not_make_the_tail() {
    let lines = one_in_ten_slow();
    let ours = waits(&lines, Profile::default(), 120).await;
    let fixed = waits(&lines, "fastest0,T=20,R=1,any".parse().unwrap(), 120).await;
    let (ours, fixed) = (quantile(&ours, 0.99), quantile(&fixed, 0.99));
    assert!(ours <= fixed / 2.0, "p99 {ours:.3} s where fastest0 has {fixed:.3}");
}

#[tokio::test(start_paused = true)]
#[ignore = "the whole table takes a quarter of an hour"]
async fn table() {
    println!("| network | code | profile | median s | p90 s |\n|---|---|---|---|---|");
    for code in ["rs:5+5", "rs:10+10", "ldpc:plank-20"] {
        for network in networks() {
            for profile in profiles() {
                let seconds = seconds(&network.lines, profile, code, (5 << 20, 20), 5).await;
                let (median, tail) = (quantile(&seconds, 0.5), quantile(&seconds, 0.9));
                println!("| {} | {code} | {profile} | {median:.2} | {tail:.2} |", network.name);
            }
        }
    }
    println!("\n| one in ten ten times slower, rs:6+3, 1 MiB | median ms | p99 ms |\n|---|---|---|");
    for profile in profiles() {
        let waits = waits(&one_in_ten_slow(), profile, 300).await;
        println!("| {profile} | {:.0} | {:.0} |", 1000.0 * quantile(&waits, 0.5), 1000.0 * quantile(&waits, 0.99));
    }
}
