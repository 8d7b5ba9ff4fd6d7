//! The CERN store's availability analysis: equations 1 to 4, figures 1, 3 and 4, and what the graphs themselves do.

use super::counted::{code, value_at};
use crate::experiment::{About, Axis, Experiment, Figure, Point, Sample, Scale, Verdict};
use crate::models::availability::{FatalShares, failure_of_copies};
use rand::RngCore;
use rand_chacha::ChaCha8Rng;
use weft_codes::families::Problem;
use weft_codes::families::ldpc::{self, Decoder, Found, Goal, Search};

pub(super) struct Availability;

const FIGURE_1: &str = "figure 1";
const FIGURE_3: &str = "figure 3";
const FIGURE_4: &str = "figure 4";
const NODES: &str = "the graph used";

/// The paper's "estimate for the availability of nodes in a cluster of custom hardware".
const PAPER_AVAILABILITY: f64 = 0.95;

/// Of figure 1; its text names the last two.
const AVAILABILITIES: [f64; 3] = [0.5, 0.95, 0.99];

/// Of figure 1.
const DATA: usize = 8;
const ASSUMED_OVERHEAD: f64 = 1.1;

/// The rates of figure 4, as data and checks of their smallest code.
const RATES: [(usize, usize); 4] = [(1, 1), (1, 2), (2, 1), (4, 3)];

/// Shards of figure 4's widest codes.
const WIDEST: usize = 42;

/// Best mean overheads of graphs at rate 1/2 that any search of ours has found, n = 2..=15.
const BEST_KNOWN: [f64; 14] =
    [1.083, 1.067, 1.096, 1.107, 1.121, 1.123, 1.120, 1.131, 1.138, 1.138, 1.138, 1.142, 1.143, 1.144];

/// Element operations for exact counts: 14 shards take far less.
const EFFORT: u64 = 1 << 32;

impl Experiment for Availability {
    fn about(&self) -> About {
        About {
            name: "availability",
            title: "Availability of replication, MDS codes and LDPC graphs",
            source: "Gaidioz, Koblitz, Santos: Exploring High Performance Distributed File Storage Using LDPC Codes (2007), \
                     equations 1 to 4, figures 1, 3 and 4",
            method: "Failure rates of replication and of MDS codes follow from the paper's formulas. Those of graphs are exact: all \
                     sets of lost nodes are counted, for graphs found by the Monte Carlo search of the paper's section 3. \
                     Nodes fail independently.",
        }
    }

    fn points(&self, scale: Scale) -> Vec<Point> {
        let (few_graphs, many_graphs) = (scale.choose(200, 20_000), scale.choose(200, 10_000));
        let checks = (1..=scale.choose(6, 10)).map(|checks| {
            Point::new(format!("{FIGURE_1} m={checks}"), move |random| figure_1(checks, few_graphs, random))
        });
        let sizes = (2..=scale.choose(5, 15))
            .map(|n| Point::new(format!("{FIGURE_3} n={n}"), move |random| figure_3(n, many_graphs, random)));
        let rates = RATES.map(|(n, m)| Point::new(format!("{FIGURE_4} {n}+{m}"), move |_| Ok(figure_4(n, m))));
        checks.chain(sizes).chain(rates).chain([Point::new(NODES, |_| the_graph_used())]).collect()
    }

    fn figures(&self) -> Vec<Figure> {
        vec![
            Figure {
                name: FIGURE_1,
                title: "Figure 1: failure rate by storage, eight data chunks",
                x: Axis::linear("stored bytes per byte of data"),
                y: Axis::logarithmic("chance that a file cannot be read"),
                printed: Vec::new(),
            },
            Figure {
                name: FIGURE_3,
                title: "Figure 3: overhead of the best graphs found, rate 1/2",
                x: Axis::linear("data chunks n"),
                y: Axis::linear("chunks read until all data follow, per data chunk"),
                printed: BEST_KNOWN
                    .iter()
                    .enumerate()
                    .map(|(index, overhead)| Sample::exact(FIGURE_3, "best known, mean", (index + 2) as f64, *overhead))
                    .collect(),
            },
            Figure {
                name: FIGURE_4,
                title: "Figure 4: failure rate by size and rate, nodes available 95 % of the time",
                x: Axis::linear("data chunks n"),
                y: Axis::logarithmic("chance that a file cannot be read"),
                printed: vec![
                    Sample::exact(FIGURE_4, "the paper's text: about 1e-6", 14.0, 1e-6),
                    Sample::exact(FIGURE_4, "the paper's text: about 1e-6", 8.0, 1e-6),
                ],
            },
            Figure {
                name: NODES,
                title: "The 8+6 codes by how available nodes are",
                x: Axis::linear("availability of a node"),
                y: Axis::logarithmic("chance that a file cannot be read"),
                printed: Vec::new(),
            },
        ]
    }

    fn verdict(&self, samples: &[Sample]) -> Verdict {
        let of_nodes = |series: &str| value_at(samples, NODES, series, PAPER_AVAILABILITY);
        let (mds, cube) = (of_nodes(MDS_8_6), of_nodes(CUBE));
        let wide = value_at(samples, FIGURE_4, &rate_name(2, 1), 14.0);
        Verdict {
            agrees: format!(
                "Formula 2 gives the paper's \"10^-6\" for both of its examples at a node availability of 0.95: {mds:.2e} for 8+6 and \
                 {wide:.2e} for 14+7; erasure codes need less storage than copies for the same failure rate wherever nodes are \
                 reliable."
            ),
            differs: format!(
                "Figure 4 is the formula of MDS codes, and no graph of 8+6 is one (XOR alone cannot survive any 4 losses): the best \
                 graph that survives any 3 fails with {cube:.2e}, {:.0} times as often. What the paper calls an upper bound of the \
                 availability by f_max is a lower bound, and its equations 5 and 6 are sums, not products.",
                cube / mds
            ),
        }
    }
}

const MDS_8_6: &str = "MDS 8+6 (formula 2)";
const CUBE: &str = "best graph by peeling (cube)";
const ELIMINATED: &str = "best graph by elimination";

fn rate_name(n: usize, m: usize) -> String {
    format!("rate {n}/{}", n + m)
}

fn no_graph(problem: Problem) -> String {
    match problem {
        Problem::Impossible(reason) => reason.to_string(),
        Problem::Syntax => "there is no such graph".to_owned(),
    }
}

/// What is too large to be counted is not used here.
const TOO_LARGE: &str = "the graph is too large to be counted";

/// Graphs as the paper's section 3 finds them.
fn best_graph(n: usize, m: usize, graphs: u64, random: &mut ChaCha8Rng) -> Result<Found, String> {
    let search = Search {
        data_count: n,
        check_count: m,
        decoder: Decoder::Peeling,
        goal: Goal::MostLosses,
        seed: random.next_u64(),
        iterations: graphs,
    };
    ldpc::search(&search, |_, _| std::ops::ControlFlow::Continue(())).map_err(no_graph)
}

fn figure_1(checks: usize, graphs: u64, random: &mut ChaCha8Rng) -> Result<Vec<Sample>, String> {
    let found = best_graph(DATA, checks, graphs, random)?;
    let profile = ldpc::profile(&found.graph, Decoder::Peeling).ok_or(TOO_LARGE)?;
    let n = DATA + checks;
    let stretch = n as f64 / DATA as f64;
    // Equation 4: any f n of the chunks are taken to be enough.
    let needed = (ASSUMED_OVERHEAD * DATA as f64).ceil() as usize;
    let mut samples = Vec::new();
    for availability in AVAILABILITIES {
        let mut add = |series: &str, stretch: f64, failure: f64| {
            samples.push(Sample::exact(FIGURE_1, &format!("{series}, nodes at {availability}"), stretch, failure));
        };
        add("MDS (formula 2)", stretch, FatalShares::of_mds(n, checks).failure(availability).0);
        add("graph found", stretch, FatalShares::of_graph(&profile).failure(availability).0);
        if let Some(tolerance) = n.checked_sub(needed) {
            add("f = 1.1 assumed (equation 4)", stretch, FatalShares::of_mds(n, tolerance).failure(availability).0);
        }
        // Equation 1 holds for whole copies.
        if stretch == stretch.floor() || checks == 1 {
            let copies = stretch.floor();
            add("copies", copies, failure_of_copies(copies as usize, availability));
        }
    }
    Ok(samples)
}

fn figure_3(n: usize, graphs: u64, random: &mut ChaCha8Rng) -> Result<Vec<Sample>, String> {
    let found = best_graph(n, n, graphs, random)?;
    let sample = |series: &str, overhead: f64| Sample::exact(FIGURE_3, series, n as f64, overhead);
    let mut samples =
        vec![sample("found, mean", found.overhead()), sample("found, worst (f_max)", found.worst_overhead())];
    if let Some(profile) = ldpc::profile(&found.graph, Decoder::Elimination) {
        samples.push(sample("found, mean by elimination", profile.mean_blocks() / n as f64));
    }
    Ok(samples)
}

fn figure_4(data: usize, checks: usize) -> Vec<Sample> {
    let sizes = (1..).map(|times| (times * data, times * checks)).take_while(|(n, m)| n + m <= WIDEST);
    let failure = |(n, m): (usize, usize)| {
        let (failure, _) = FatalShares::of_mds(n + m, m).failure(PAPER_AVAILABILITY);
        Sample::exact(FIGURE_4, &rate_name(data, checks), n as f64, failure)
    };
    sizes.map(failure).collect()
}

/// The graph that survives any 3 losses and needs the fewest chunks on average, of 44 classes; and the best one where what peeling
/// leaves is eliminated.
fn the_graph_used() -> Result<Vec<Sample>, String> {
    let by_peeling = ldpc::named_or_given("cube-8-6").map_err(no_graph)?;
    let by_elimination = ldpc::Graph::from_masks(DATA, &[235, 63, 93, 154, 236, 240]).map_err(no_graph)?;
    let count = |graph: &ldpc::Graph, decoder| {
        ldpc::profile(graph, decoder).map(|profile| FatalShares::of_graph(&profile)).ok_or(TOO_LARGE)
    };
    let peeled = count(&by_peeling, Decoder::Peeling)?;
    let eliminated = count(&by_elimination, Decoder::Elimination)?;
    let mds = FatalShares::of(&*code("rs:8+6")?, EFFORT, 1)?;
    let availabilities = (10..20).map(|twentieth| f64::from(twentieth) / 20.0).chain([0.97, 0.98, 0.99]);
    Ok(availabilities
        .flat_map(|availability| {
            let sample = |series: &str, failure: f64| Sample::exact(NODES, series, availability, failure);
            [
                sample(MDS_8_6, mds.failure(availability).0),
                sample(CUBE, peeled.failure(availability).0),
                sample(ELIMINATED, eliminated.failure(availability).0),
                sample("two copies (1.75 are no number of copies)", failure_of_copies(2, availability)),
            ]
        })
        .collect())
}
