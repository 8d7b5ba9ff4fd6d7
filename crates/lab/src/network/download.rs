//! One download: servers are probed, so that their speeds are known as the study's forecasts had them, and then the file is read.

use super::Network;
use super::stored::{StoredFile, VOLUME};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;
use tokio::runtime::{Builder, Handle};
use weft_env::Env;
use weft_format::NodeId;
use weft_format::records::{NodeRecord, NodeState};
use weft_nodes::Node;
use weft_nodes::wrappers::{Line, ShapeNode};
use weft_transfer::trace::{Event, What};
use weft_transfer::{Fleet, Profile, ReadError, ReadPart, Settings, Transfer};

/// What is read of each server beforehand: the long one first, as latency alone says nothing of the rate.
const PROBES_BYTES: [u64; 2] = [256 << 10, 4 << 10];

/// Servers that are probed at one time, each in another region.
const PROBED_TOGETHER: usize = 4;

/// How a download went.
#[derive(Clone, Debug, PartialEq)]
pub struct Download {
    /// From the first request until the last set has all it is computed from.
    pub seconds: f64,
    /// Bytes of blocks that were asked for, checks not counted.
    pub asked_bytes: u64,
    /// By the time at which they had all they are computed from.
    pub sets: Vec<SetArrival>,
}

/// A set that has all it is computed from.
#[derive(Clone, Debug, PartialEq)]
pub struct SetArrival {
    /// Which set of the file.
    pub set: usize,
    /// From the first request of the download.
    pub seconds: f64,
    /// By shard: had it come by then?
    pub arrived: Vec<bool>,
}

/// Who downloads: its memory is used again and again.
#[derive(Default)]
pub struct Client {
    out: Vec<u8>,
}

impl Client {
    /// Downloads `file` from `network`; `seed` decides which server has which block, and all chance of the lines. `None`: the
    /// download failed, as too many requests were not answered in time.
    ///
    /// # Errors
    /// A sentence, where there is no clock, or a server cannot be probed.
    pub fn download(
        &mut self,
        network: &Network,
        file: &StoredFile,
        profile: Profile,
        seed: u64,
    ) -> Result<Option<Download>, String> {
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        self.out.resize(file.bytes() as usize, 0);
        runtime.block_on(async {
            let servers = Servers::new(network, file, seed);
            servers.probe(file).await.map_err(|error| error.to_string())?;
            servers.open(network);
            Ok(servers.download(file, profile, &mut self.out).await)
        })
    }
}

/// The servers of a network, with the file striped over them.
struct Servers {
    fleet: Arc<Fleet>,
    nodes: Vec<Arc<ShapeNode>>,
    /// As the file is striped.
    order: Vec<NodeId>,
}

impl Servers {
    /// Servers whose lines answer every request.
    fn new(network: &Network, file: &StoredFile, seed: u64) -> Servers {
        let shared = |(region, line): (usize, &Line)| {
            Arc::new(ShapeNode::new(file.storage.clone(), *line, seed ^ region as u64)) as Arc<dyn Node>
        };
        let regions: Vec<Arc<dyn Node>> = network.regions.iter().enumerate().map(shared).collect();
        let node = |(i, line): (usize, &Line)| {
            let storage = match regions.len() {
                0 => file.storage.clone() as Arc<dyn Node>,
                count => regions[i % count].clone(),
            };
            let line = Line { silent_per_mille: 0, ..*line };
            Arc::new(ShapeNode::new(storage, line, seed.wrapping_add(1 + i as u64)))
        };
        let nodes: Vec<Arc<ShapeNode>> = network.servers.iter().enumerate().map(node).collect();
        let member = |(i, node): (usize, &Arc<ShapeNode>)| (node_id(i), node_record(i), node.clone() as Arc<dyn Node>);
        let fleet = Fleet::new(nodes.iter().enumerate().map(member).collect(), Default::default(), &Env::system());
        let mut order: Vec<NodeId> = (0..nodes.len()).map(node_id).collect();
        order.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
        Servers { fleet: Arc::new(fleet), nodes, order }
    }

    /// Makes the servers' speeds known.
    async fn probe(&self, file: &StoredFile) -> Result<(), ReadError> {
        let transfer = self.engine(Profile::default());
        let mut outs = vec![vec![0; PROBES_BYTES[0] as usize]; PROBED_TOGETHER];
        let ids: Vec<NodeId> = (0..self.nodes.len()).map(node_id).collect();
        for together in ids.chunks(PROBED_TOGETHER) {
            let probes: Vec<_> = together.iter().map(|server| file.probe(*server)).collect();
            for bytes in PROBES_BYTES {
                let parts = probes.iter().zip(&mut outs);
                let parts = parts.map(|((segment, record), out)| ReadPart {
                    segment: *segment,
                    record,
                    range: 0..bytes,
                    out: &mut out[..bytes as usize],
                });
                transfer.read_parts(parts.collect()).await?;
            }
        }
        Ok(())
    }

    /// From now on lines are as bad as they are.
    fn open(&self, network: &Network) {
        self.nodes.iter().zip(&network.servers).for_each(|(node, line)| node.set_line(*line));
    }

    async fn download(&self, file: &StoredFile, profile: Profile, out: &mut [u8]) -> Option<Download> {
        let transfer = self.engine(profile);
        let records = file.records(&self.order);
        let mut parts = Vec::new();
        let mut rest = out;
        for (set, record) in file.sets.iter().zip(&records) {
            let (own, others) = rest.split_at_mut(set.geometry.data_bytes as usize);
            rest = others;
            parts.push(ReadPart { segment: set.segment, record, range: 0..set.geometry.data_bytes, out: own });
        }
        transfer.start_trace();
        let began = self.fleet.env().clock.now();
        let outcome = transfer.read_parts(parts).await;
        let events = transfer.finish_trace();
        outcome.is_ok().then(|| summary(file, records[0].shards.len(), began, &events))
    }

    fn engine(&self, profile: Profile) -> Transfer {
        let settings = Settings { cache_bytes: 0, profile, ..Settings::default() };
        Transfer::new(VOLUME, self.fleet.clone(), settings, Handle::current())
    }
}

/// What the events of a download say.
fn summary(file: &StoredFile, shard_count: usize, began: Instant, events: &[Event]) -> Download {
    let set_of: BTreeMap<_, _> = file.sets.iter().enumerate().map(|(index, set)| (set.segment, index)).collect();
    let mut come_bytes = vec![vec![0; shard_count]; file.sets.len()];
    let length = |payload: &Range<u64>| payload.end - payload.start;
    let mut download = Download { seconds: 0.0, asked_bytes: 0, sets: Vec::new() };
    for event in events {
        let Some(&set) = set_of.get(&event.segment) else { continue };
        match (&event.what, &event.block) {
            (What::Asked { .. }, Some(block)) => download.asked_bytes += length(&block.payload),
            (What::Arrived { .. }, Some(block)) => come_bytes[set][block.shard] += length(&block.payload),
            (What::Ready { .. }, _) => {
                let seconds = (event.at - began).as_secs_f64();
                let arrived = come_bytes[set].iter().map(|bytes| *bytes >= file.block_bytes(set)).collect();
                download.seconds = download.seconds.max(seconds);
                download.sets.push(SetArrival { set, seconds, arrived });
            }
            _ => {}
        }
    }
    download
}

fn node_id(i: usize) -> NodeId {
    NodeId(1 + i as u128)
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
