//! Search for good small graphs: simulated annealing over edges, every graph judged exactly by its [`profile`].
//!
//! [`profile`]: super::profile

use super::graph::Graph;
use super::overhead::{Counter, Decoder, MOST_COUNTED_BLOCKS, MOST_COUNTED_OF_A_KIND, Profile};
use crate::families::parameters::{Problem, require};
use crate::random::Random;
use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::ControlFlow;

/// What makes one graph better than another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// Fewer blocks needed on average.
    LeastOverhead,
    /// More losses always survived; among equals, fewer blocks needed on average.
    MostLosses,
}

/// What to search for, and for how long. Equal searches find equal graphs. A search consists of several independent
/// walks, so that threads may share them. The best of their results, by [`Search::is_better`], is the result of running
/// them one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Search {
    /// Data blocks.
    pub data_count: usize,
    /// Checks.
    pub check_count: usize,
    /// How the graph is to be decoded.
    pub decoder: Decoder,
    /// What is better.
    pub goal: Goal,
    /// Seed of the pseudo-random numbers.
    pub seed: u64,
    /// Graphs to look at. 100,000 find the best of 8+6, in a second.
    pub iterations: u64,
}

/// The best graph found.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The graph.
    pub graph: Graph,
    /// Any this many lost blocks are survived by the decoder of the search.
    pub losses_survived: usize,
    /// The mean number of blocks drawn until all data follow.
    pub mean_blocks: f64,
    /// The number of graphs looked at when it was found, itself included.
    pub iteration: u64,
}

impl Found {
    /// The mean number of blocks needed, per data block.
    #[must_use]
    pub fn overhead(&self) -> f64 {
        self.mean_blocks / self.graph.data_count() as f64
    }

    /// The least number of blocks that always suffices, per data block.
    #[must_use]
    pub fn worst_overhead(&self) -> f64 {
        (self.graph.block_count() - self.losses_survived) as f64 / self.graph.data_count() as f64
    }
}

/// Graphs looked at in one walk, for each possible edge. Tried with 8+6: longer walks all end in the wide basin of the
/// second best graph, shorter ones do not reach its bottom.
const ITERATIONS_PER_EDGE: u64 = 12;

/// Temperatures in mean blocks needed. One edge changes the mean by some hundredths; the best graphs differ by less.
const FIRST_TEMPERATURE: f64 = 0.05;
const LAST_TEMPERATURE: f64 = 0.005;

/// The penalty for surviving one loss less, in blocks needed. It is finite so that walks can leave a basin.
const BLOCKS_PER_LOSS: f64 = 0.2;

impl Search {
    /// Graphs of a whole walk.
    fn walk_iterations(&self) -> u64 {
        ITERATIONS_PER_EDGE.saturating_mul((self.data_count as u64).saturating_mul(self.check_count as u64).max(1))
    }

    /// The number of its walks.
    #[must_use]
    pub fn walk_count(&self) -> u64 {
        self.iterations.max(1).div_ceil(self.walk_iterations())
    }

    /// Is one graph better than the other? Of equal ones the earlier is.
    #[must_use]
    pub fn is_better(&self, one: &Found, other: &Found) -> bool {
        let (first, second) = ((one.losses_survived, one.mean_blocks), (other.losses_survived, other.mean_blocks));
        is_better(self.goal, &first, second) || !is_better(self.goal, &second, first) && one.iteration < other.iteration
    }
}

/// The best of the graphs looked at. `watch` receives the number of graphs looked at so far and the best of them, and
/// may stop the search.
///
/// # Errors
/// [`Problem::Impossible`]: counts of zero, or too large to be judged exactly.
pub fn search(task: &Search, mut watch: impl FnMut(u64, &Found) -> ControlFlow<()>) -> Result<Found, Problem> {
    let mut best: Option<Found> = None;
    for index in 0..task.walk_count() {
        let mut is_stopped = false;
        let found = walk(task, index, |iteration, found| {
            let best = best.as_ref().filter(|best| !task.is_better(found, best)).unwrap_or(found);
            let told = watch(iteration, best);
            is_stopped = told.is_break();
            told
        })?;
        best = Some(best.filter(|best| !task.is_better(&found, best)).unwrap_or(found));
        if is_stopped {
            break;
        }
    }
    Ok(best.expect("a search has a walk"))
}

/// The best of the graphs that this walk, counted from 0, looks at; `watch` sees only this walk.
///
/// # Errors
/// As [`search`].
pub fn walk(
    task: &Search,
    index: u64,
    mut watch: impl FnMut(u64, &Found) -> ControlFlow<()>,
) -> Result<Found, Problem> {
    let Search { data_count, check_count, decoder, goal, seed, iterations } = *task;
    require(data_count >= 1 && check_count >= 1, || "at least 1 data block and 1 check are needed".to_owned())?;
    require(data_count.max(check_count) <= MOST_COUNTED_OF_A_KIND, || {
        format!("graphs are judged exactly up to {MOST_COUNTED_OF_A_KIND} data blocks and as many checks")
    })?;
    require(data_count + check_count <= MOST_COUNTED_BLOCKS, || {
        format!("graphs are judged exactly up to {MOST_COUNTED_BLOCKS} blocks in all")
    })?;
    let walk_iterations = task.walk_iterations();
    // Neighbouring seeds give unrelated numbers only after they are mixed.
    let mut random = Random::new(if index == 0 { seed } else { Random::new(seed.wrapping_add(index)).next() });
    let first = index.saturating_mul(walk_iterations).saturating_add(1);
    let mut walk = Walk::start(data_count, check_count, decoder, &mut random);
    let mut best = walk.found(first)?;
    if watch(first, &best).is_break() {
        return Ok(best);
    }
    for iteration in first + 1..=iterations.min(index.saturating_add(1).saturating_mul(walk_iterations)) {
        let cooled = (iteration - first) as f64 / walk_iterations as f64;
        let temperature = FIRST_TEMPERATURE * (LAST_TEMPERATURE / FIRST_TEMPERATURE).powf(cooled);
        walk.step(goal, temperature, &mut random);
        if is_better(goal, &walk.judgement, (best.losses_survived, best.mean_blocks)) {
            best = walk.found(iteration)?;
        }
        if watch(iteration, &best).is_break() {
            break;
        }
    }
    Ok(best)
}

/// (losses survived, mean blocks needed)
type Judgement = (usize, f64);

fn is_better(goal: Goal, one: &Judgement, other: Judgement) -> bool {
    // Means are sums in one order over equal counts, so equal graphs have equal means to the last bit.
    match goal {
        Goal::MostLosses if one.0 != other.0 => one.0 > other.0,
        _ => one.1 < other.1,
    }
}

/// One walk from graph to graph.
struct Walk {
    data_count: usize,
    decoder: Decoder,
    counter: Counter,
    judgement: Judgement,
    /// Judged graphs of this walk, by their checks in ascending order: towards its end a walk meets the same graphs
    /// again.
    judged: BTreeMap<Vec<u32>, Judgement>,
}

impl Walk {
    /// Begins at a random graph.
    fn start(data_count: usize, check_count: usize, decoder: Decoder, random: &mut Random) -> Walk {
        // Good graphs begin at about three checks per data block; an empty check takes one block.
        let mut checks = vec![0u32; check_count];
        for data in 0..data_count {
            (0..3).for_each(|_| checks[random.below(check_count)] |= 1 << data);
        }
        for check in &mut checks {
            if *check == 0 {
                *check = 1 << random.below(data_count);
            }
        }
        let counter = Counter::of_masks(data_count, checks);
        let mut walk = Walk { data_count, decoder, counter, judgement: (0, 0.0), judged: BTreeMap::new() };
        walk.judgement = walk.judged();
        walk
    }

    /// The value of the graph. The order of its checks does not matter.
    fn judged(&mut self) -> Judgement {
        let mut checks = self.counter.checks_mut().to_vec();
        checks.sort_unstable();
        if let Some(&known) = self.judged.get(&checks) {
            return known;
        }
        let judgement = judge(&self.counter.count(self.decoder));
        self.judged.insert(checks, judgement);
        judgement
    }

    /// Changes or moves an edge, unless the result is too bad for this temperature.
    fn step(&mut self, goal: Goal, temperature: f64, random: &mut Random) {
        let before = self.counter.checks_mut().to_vec();
        let checks = self.counter.checks_mut();
        let edge = random.below(self.data_count * checks.len());
        let (check, data) = (edge / self.data_count, edge % self.data_count);
        checks[check] ^= 1 << data;
        if random.below(2) == 0 {
            // The edge moves to another data block of the same check, or another check of the same data block.
            let had = checks[check] >> data & 1 == 0;
            let (other_check, other_data) = match random.below(2) {
                0 => (check, random.below(self.data_count)),
                _ => (random.below(checks.len()), data),
            };
            if (checks[other_check] >> other_data & 1 == 1) != had {
                checks[other_check] ^= 1 << other_data;
            }
        }
        let covered = checks.iter().fold(0, |covered, check| covered | check);
        let is_graph = covered.count_ones() as usize == self.data_count && checks.iter().all(|&check| check != 0);
        if !is_graph {
            self.counter.checks_mut().copy_from_slice(&before);
            return;
        }
        let judgement = self.judged();
        let mut worse = judgement.1 - self.judgement.1;
        if goal == Goal::MostLosses {
            worse += (self.judgement.0 as f64 - judgement.0 as f64) * BLOCKS_PER_LOSS;
        }
        if worse <= 0.0 || random.fraction() < (-worse / temperature).exp() {
            self.judgement = judgement;
        } else {
            self.counter.checks_mut().copy_from_slice(&before);
        }
    }

    fn found(&mut self, iteration: u64) -> Result<Found, Problem> {
        let masks: Vec<u64> = self.counter.checks_mut().iter().copied().map(u64::from).collect();
        let graph = Graph::from_masks(self.data_count, &masks)?;
        let (losses_survived, mean_blocks) = self.judgement;
        Ok(Found { graph, losses_survived, mean_blocks, iteration })
    }
}

fn judge(profile: &Profile) -> Judgement {
    (profile.losses_survived(), profile.mean_blocks())
}
