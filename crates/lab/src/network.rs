//! Downloads in simulated time: WeftFS's own transfers over nodes in memory, each behind a line, by a clock that jumps.
//!
//! The clock is tokio's, paused: it moves to the next moment at which something is due, so that a slow network costs no
//! time, and one seed gives the same download to the microsecond. Computing costs nothing in it.

use bytes::Bytes;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use weft_format::records::{NodeRecord, NodeState};
use weft_format::{NodeId, SegmentId, VolumeId};
use weft_nodes::wrappers::{Line, ShapeNode};
use weft_nodes::{MemoryNode, Node, NodeIdentity};
use weft_transfer::{Fleet, Profile, ReadPart, Settings, Transfer, WriteRequest};

/// Fifty servers in different regions.
pub const HODGEPODGE: &str = "hodgepodge";
/// Four regions nearby: Alabama, California, Texas, Wisconsin.
pub const REGIONAL: &str = "regional";
/// Four regions far away: south-eastern Canada, western Europe, Singapore, Korea.
pub const SLOW_REGIONAL: &str = "slow regional";

/// A simulated block, a sixteenth of 1 MB in whole frames. Rates are as much lower, so that times stay as they are.
const BLOCK_BYTES: usize = 64 << 10;
/// Bytes that a simulated block stands for.
const STANDS_FOR_BYTES: u64 = 1_000_000;

const VOLUME: VolumeId = VolumeId(1);

/// The lines to a network's servers.
pub struct Network {
    lines: Vec<Line>,
}

/// The study's distributions (its section 5.2), by name. It prints no rates: these are what the commodity Internet of its time had.
///
/// # Errors
/// A sentence, for another name.
pub fn of_study(name: &str) -> Result<Network, String> {
    let lines = match name {
        HODGEPODGE => (0..50).map(|i| line(spread(i, 15, 250), spread(i + 100, 60, 2000), 30, 5)).collect(),
        REGIONAL => regions([(10, 2000), (60, 800), (30, 1200), (25, 1500)]),
        SLOW_REGIONAL => regions([(50, 400), (110, 250), (240, 100), (200, 120)]),
        _ => return Err(format!("the study has no network `{name}`")),
    };
    Ok(Network { lines })
}

fn line(latency_ms: u64, kilobytes_per_second: u64, jitter_percent: u32, silent_per_mille: u32) -> Line {
    let bytes_per_second = kilobytes_per_second * 1000 * BLOCK_BYTES as u64 / STANDS_FOR_BYTES;
    Line {
        latency: Duration::from_millis(latency_ms),
        jitter_percent,
        bytes_per_second: NonZeroU64::new(bytes_per_second).unwrap_or(NonZeroU64::MIN),
        silent_per_mille,
    }
}

/// Twelve servers in each region: latency and rate about those of the region.
fn regions(regions: [(u64, u64); 4]) -> Vec<Line> {
    let server = |i: u64| {
        let (latency_ms, kilobytes) = regions[i as usize % 4];
        line(spread(i, latency_ms, latency_ms * 3 / 2), spread(i + 100, kilobytes * 2 / 3, kilobytes * 3 / 2), 20, 2)
    };
    (0..48).map(server).collect()
}

/// Numbers in a range, the same every time, spread as by a logarithm.
fn spread(i: u64, from: u64, to: u64) -> u64 {
    let fraction = (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as f64 / (1u64 << 24) as f64;
    (from as f64 * (to as f64 / from as f64).powf(fraction)) as u64
}

/// Seconds that the second of two downloads of a file takes, of `blocks` data blocks of 1 MB in sets of `set_blocks` under a code; the
/// first makes the lines known. Infinite where a shard is given up and the rest does not suffice.
///
/// # Errors
/// A sentence, where the file cannot be stored.
pub fn download(
    network: &Network,
    spec: &str,
    set_blocks: usize,
    blocks: usize,
    profile: Profile,
    seed: u64,
) -> Result<f64, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    runtime.block_on(async {
        let world = World::new(network, spec, set_blocks, blocks, seed).await?;
        let transfer = engine(&world.fleet, profile);
        world.download(&transfer).await;
        Ok(world.download(&transfer).await)
    })
}

struct World {
    fleet: Arc<Fleet>,
    /// Of each set: its segment, its record, and how many bytes it has.
    sets: Vec<(SegmentId, Arc<weft_format::records::SegmentRecord>, usize)>,
}

impl World {
    /// A file in sets, written over lines that cost nothing and then behind those of the network.
    async fn new(network: &Network, spec: &str, set_blocks: usize, blocks: usize, seed: u64) -> Result<World, String> {
        let width = weft_codes::parse(spec).map_err(|error| error.to_string())?.shape().n;
        // Sets wider than the network have several blocks on a server, each with a line of its own.
        let node_count = network.lines.len() * width.div_ceil(network.lines.len());
        let fast = line(0, 100_000_000, 0, 0);
        let node = |i: usize| {
            let identity = NodeIdentity { volume: VOLUME, node: NodeId(100 + i as u128) };
            let memory = Arc::new(MemoryNode::new(format!("n{i}"), identity, 1 << 40));
            Arc::new(ShapeNode::new(memory, fast, seed.wrapping_add(i as u64)))
        };
        let nodes: Vec<Arc<ShapeNode>> = (0..node_count).map(node).collect();
        let member = |(i, node): (usize, &Arc<ShapeNode>)| {
            (NodeId(100 + i as u128), node_record(i), node.clone() as Arc<dyn Node>)
        };
        let fleet = Arc::new(Fleet::new(nodes.iter().enumerate().map(member).collect(), Default::default()));
        let writer = engine(&fleet, Profile::default());
        let mut sets = Vec::new();
        for (index, first) in (0..blocks).step_by(set_blocks).enumerate() {
            let data_bytes = set_blocks.min(blocks - first) * BLOCK_BYTES;
            // Another seed places blocks otherwise.
            let segment = SegmentId((u128::from(seed) << 32) + index as u128);
            let request = WriteRequest {
                segment,
                code: spec.into(),
                write_margin: None,
                cell_bytes: Some(BLOCK_BYTES as u32),
                data: vec![Bytes::from(vec![index as u8; data_bytes])],
            };
            let receipt = writer.write(request).await.map_err(|error| error.to_string())?;
            sets.push((segment, Arc::new(receipt.record), data_bytes));
        }
        nodes.iter().zip(network.lines.iter().cycle()).for_each(|(node, line)| node.set_line(*line));
        Ok(World { fleet, sets })
    }

    async fn download(&self, transfer: &Transfer) -> f64 {
        let records: Vec<_> = self.sets.clone();
        let mut outs: Vec<Vec<u8>> = records.iter().map(|(_, _, bytes)| vec![0; *bytes]).collect();
        let parts = records.iter().zip(&mut outs).map(|((segment, record, bytes), out)| ReadPart {
            segment: *segment,
            record,
            range: 0..*bytes as u64,
            out,
        });
        let started = Instant::now();
        match transfer.read_parts(parts.collect()).await {
            Ok(_) => started.elapsed().as_secs_f64(),
            Err(_) => f64::INFINITY,
        }
    }
}

fn engine(fleet: &Arc<Fleet>, profile: Profile) -> Transfer {
    let settings = Settings { cache_bytes: 0, profile, ..Settings::default() };
    Transfer::new(VOLUME, fleet.clone(), settings, tokio::runtime::Handle::current())
}

fn node_record(i: usize) -> NodeRecord {
    NodeRecord {
        name: format!("n{i}"),
        url: format!("memory:{i}"),
        state: NodeState::Active,
        domain: format!("d{i}"),
        weight: 1,
        secret: Default::default(),
        limits: Default::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_download_is_the_same_each_time_and_as_fast_as_its_lines() {
        let network = of_study(REGIONAL).unwrap();
        let seconds =
            |seed| download(&network, "rs:3+3", 3, 30, "fastest1,T=20,R=1,any".parse().unwrap(), seed).unwrap();
        assert_eq!(seconds(5), seconds(5));
        assert_ne!(seconds(5), seconds(6));
        // Thirty blocks of 1 MB through twenty requests at a time over lines of 0.5 to 3 MB/s.
        assert!((0.5..30.0).contains(&seconds(5)), "{}", seconds(5));
        assert!(of_study("nowhere").is_err());
    }
}
