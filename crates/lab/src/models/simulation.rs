//! A volume over years: nodes fail one by one and by racks, are noticed, and are rebuilt; stripes that miss too much are lost.
//!
//! The loop takes the next event of a queue: a node fails, a rack fails with a share of its nodes, a node is rebuilt. A stripe
//! knows which of its shards are missing; whether that is fatal is asked of the code once for each pattern. A lost stripe is
//! counted and written again to other nodes, so that one run counts losses for as long as it lasts.

use rand::Rng;
use rand_chacha::ChaCha8Rng;
use std::collections::{BTreeMap, HashMap};
use weft_codes::{Code, Erasures};

/// What is simulated. Rates are a year's, times in years.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Volume {
    /// Nodes, numbered rack by rack.
    pub nodes: usize,
    /// Nodes of a rack; 1: no racks.
    pub nodes_per_rack: usize,
    /// Stripes, each on nodes drawn for it.
    pub stripes: usize,
    /// Which nodes these may be.
    pub spread: Spread,
    /// Failures of a node by itself.
    pub node_failures: f64,
    /// Failures of a rack.
    pub rack_failures: f64,
    /// The chance that a node of a failed rack does not come back.
    pub share_lost_with_rack: f64,
    /// Until a failure is noticed.
    pub detection: f64,
    /// From there to the end of the node's repair.
    pub repair: Repair,
    /// Until then nothing is counted: all nodes are there at first, which they never are later.
    pub warm_up: f64,
    /// How long it is counted.
    pub years: f64,
}

/// Where the shards of a stripe may lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// One in a rack at most.
    Racks,
    /// On any nodes, one on each at most.
    Nodes,
}

/// How long the repair of a node takes, in years.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Repair {
    /// Always the same.
    Takes(f64),
    /// In the mean, as Markov models have it.
    Exponential(f64),
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Nodes that failed.
    pub failures: u64,
    /// Stripes that lost data.
    pub losses: u64,
}

/// Shards of a stripe are bits of a word.
pub const SHARDS_MAX: usize = u128::BITS as usize;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Event {
    NodeFails(usize),
    RackFails(usize),
    Rebuilt(usize),
}

/// Events by time; those of one time in the order in which they were planned.
#[derive(Default)]
struct Queue {
    events: BTreeMap<(u64, u64), Event>,
    planned: u64,
}

impl Queue {
    /// The order of positive times is that of their bits.
    fn plan(&mut self, time: f64, event: Event) {
        self.events.insert((time.to_bits(), self.planned), event);
        self.planned += 1;
    }

    fn next(&mut self) -> Option<(f64, Event)> {
        self.events.pop_first().map(|((time, _), event)| (f64::from_bits(time), event))
    }
}

/// How often nodes are drawn for a lost stripe until all of them are there.
const TRIES: usize = 1000;

/// Who has which shard.
struct Stripes {
    /// By stripe: the nodes of its shards.
    nodes: Vec<Vec<usize>>,
    /// By node: the stripes that have a shard there, and which.
    held: Vec<Vec<(u32, u8)>>,
    /// By stripe: the shards that are missing.
    missing: Vec<u128>,
}

impl Stripes {
    /// Gives the stripe other nodes; then it misses nothing.
    fn place(&mut self, stripe: usize, nodes: Vec<usize>) {
        for node in std::mem::take(&mut self.nodes[stripe]) {
            self.held[node].retain(|(other, _)| *other as usize != stripe);
        }
        for (shard, node) in nodes.iter().enumerate() {
            self.held[*node].push((stripe as u32, shard as u8));
        }
        self.nodes[stripe] = nodes;
        self.missing[stripe] = 0;
    }

    /// Takes a node's shards away; the stripes that this costs their data.
    fn lose(&mut self, node: usize, fatal: &mut Fatal) -> Vec<usize> {
        let mut lost = Vec::new();
        for (stripe, shard) in &self.held[node] {
            let missing = &mut self.missing[*stripe as usize];
            *missing |= 1 << shard;
            if fatal.is_fatal(*missing) {
                lost.push(*stripe as usize);
            }
        }
        lost
    }

    fn bring_back(&mut self, node: usize) {
        for (stripe, shard) in &self.held[node] {
            self.missing[*stripe as usize] &= !(1 << shard);
        }
    }
}

/// Is this pattern of missing shards fatal? Asked of the code once each.
struct Fatal {
    erasures: Erasures,
    tolerance: u32,
    known: HashMap<u128, bool>,
}

impl Fatal {
    fn is_fatal(&mut self, missing: u128) -> bool {
        let Fatal { erasures, tolerance, known } = self;
        let is_fatal = || {
            let lost: Vec<usize> = (0..erasures.shard_count()).filter(|shard| missing >> shard & 1 == 1).collect();
            !erasures.decodes(&lost)
        };
        missing.count_ones() > *tolerance && *known.entry(missing).or_insert_with(is_fatal)
    }
}

/// Simulates a volume whose stripes have this code.
///
/// # Errors
/// A sentence: the code has too many shards, or the volume too few racks.
pub fn simulate(volume: &Volume, code: &dyn Code, random: &mut ChaCha8Rng) -> Result<Outcome, String> {
    let (n, racks) = (code.shape().n, volume.nodes / volume.nodes_per_rack);
    if n > SHARDS_MAX {
        return Err(format!("{n} shards are more than the {SHARDS_MAX} that are simulated"));
    }
    let (places, nodes_per_place) = match volume.spread {
        Spread::Racks => (racks, volume.nodes_per_rack),
        Spread::Nodes => (volume.nodes, 1),
    };
    if n > places {
        return Err(format!("{n} shards need as many places of their own, and there are {places}"));
    }
    let erasures = Erasures::new(code).map_err(|error| error.to_string())?;
    let mut fatal = Fatal { erasures, tolerance: code.shape().tolerance as u32, known: HashMap::new() };
    let draw = |random: &mut ChaCha8Rng| -> Vec<usize> {
        let places = rand::seq::index::sample(random, places, n).into_iter();
        places.map(|place| place * nodes_per_place + random.random_range(0..nodes_per_place)).collect()
    };
    let mut is_down = vec![false; volume.nodes];
    let mut stripes =
        Stripes { nodes: Vec::new(), held: vec![Vec::new(); volume.nodes], missing: vec![0; volume.stripes] };
    for stripe in 0..volume.stripes {
        let nodes = draw(random);
        stripes.nodes.push(Vec::new());
        stripes.place(stripe, nodes);
    }
    let mut queue = Queue::default();
    for node in 0..volume.nodes {
        queue.plan(waiting(volume.node_failures, random), Event::NodeFails(node));
    }
    for rack in 0..racks {
        queue.plan(waiting(volume.rack_failures, random), Event::RackFails(rack));
    }
    let mut outcome = Outcome { failures: 0, losses: 0 };
    let end = volume.warm_up + volume.years;
    while let Some((now, event)) = queue.next().filter(|(now, _)| *now < end) {
        let counts = u64::from(now >= volume.warm_up);
        let failed = match event {
            Event::NodeFails(node) => {
                queue.plan(now + waiting(volume.node_failures, random), event);
                vec![node]
            }
            Event::RackFails(rack) => {
                queue.plan(now + waiting(volume.rack_failures, random), event);
                let nodes = rack * volume.nodes_per_rack..(rack + 1) * volume.nodes_per_rack;
                nodes.filter(|_| random.random_bool(volume.share_lost_with_rack)).collect()
            }
            Event::Rebuilt(node) => {
                is_down[node] = false;
                stripes.bring_back(node);
                Vec::new()
            }
        };
        for node in failed.into_iter().filter(|node| !std::mem::replace(&mut is_down[*node], true)).collect::<Vec<_>>()
        {
            outcome.failures += counts;
            let repair = match volume.repair {
                Repair::Takes(years) => years,
                Repair::Exponential(years) => waiting(1.0 / years, random),
            };
            queue.plan(now + volume.detection + repair, Event::Rebuilt(node));
            for stripe in stripes.lose(node, &mut fatal) {
                outcome.losses += counts;
                // Written again, to nodes that are there.
                let sound = |nodes: &Vec<usize>| nodes.iter().all(|node| !is_down[*node]);
                let nodes = (0..TRIES).map(|_| draw(random)).find(sound);
                stripes.place(stripe, nodes.unwrap_or_else(|| draw(random)));
            }
        }
    }
    Ok(outcome)
}

/// The time until the next of events that come at this rate.
fn waiting(rate: f64, random: &mut ChaCha8Rng) -> f64 {
    if rate == 0.0 { f64::INFINITY } else { -(1.0 - random.random::<f64>()).ln() / rate }
}

#[cfg(test)]
#[path = "simulation_tests.rs"]
mod tests;
