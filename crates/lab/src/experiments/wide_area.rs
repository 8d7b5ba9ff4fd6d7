//! The wide-area study: downloads from unlike servers in simulated time, by code, distribution and the study's parameters.

mod cells;
mod decoding;
mod runs;
mod verdict;

use crate::experiment::{About, Axis, Experiment, Figure, Point, Sample, Scale, Verdict};
use crate::network::Network;
use decoding::Kind;

pub(super) struct WideArea;

/// The distributions, in the order of figures 2 to 4, with the figures that each has.
struct Distribution {
    network: fn() -> Network,
    name: &'static str,
    grid: &'static str,
    sets: &'static str,
}

static DISTRIBUTIONS: [Distribution; 3] = [
    Distribution {
        network: Network::slow_regional,
        name: "slow regional",
        grid: "figure 2",
        sets: "figure 6 slow regional",
    },
    Distribution { network: Network::regional, name: "regional", grid: "figure 3", sets: "figure 6 regional" },
    Distribution { network: Network::hodgepodge, name: "hodgepodge", grid: "figure 4", sets: "figure 6 hodgepodge" },
];
const GRID_TITLES: [&str; 3] = [
    "Figure 2: Reed-Solomon, slow regional distribution, the best of Table 1",
    "Figure 3: Reed-Solomon, regional distribution, the best of Table 1",
    "Figure 4: Reed-Solomon, hodgepodge distribution, the best of Table 1",
];
const SETS_TITLES: [&str; 3] = [
    "Figure 6: Reed-Solomon and LDPC, slow regional distribution",
    "Figure 6: Reed-Solomon and LDPC, regional distribution",
    "Figure 6: Reed-Solomon and LDPC, hodgepodge distribution",
];

const PARAMETERS: &str = "table 1";
const DOWNLOADING: &str = "figure 7";
const DECODING: &str = "figure 8";
const OVERHEAD: &str = "overhead";

/// Sets of figure 6, and the overheads that the appendix prints for their graphs.
const SETS: [(usize, f64); 5] = [(5, 5.464), (10, 11.416), (20, 23.884), (50, 63.969_44), (100, 114.81)];

/// Where Table 4 has `db-first`, for n = 5, 10, 20, 50, 100.
static PRINTED_DATA_FIRST: [(&str, Kind, [bool; 5]); 6] = [
    ("slow regional", Kind::Ldpc, [false, false, false, true, false]),
    ("slow regional", Kind::ReedSolomon, [false, false, false, false, false]),
    ("hodgepodge", Kind::Ldpc, [false, false, false, true, false]),
    ("hodgepodge", Kind::ReedSolomon, [false, false, false, true, true]),
    ("regional", Kind::Ldpc, [true, true, true, true, true]),
    ("regional", Kind::ReedSolomon, [true, true, false, true, true]),
];

/// Of Table 1: T, ...
static TRANSFERS: [usize; 2] = [20, 30];
/// ... and n and m of figures 2 to 4, with m no more than three times n.
static GRID: [usize; 5] = [1, 3, 5, 7, 9];
const MOST_REDUNDANCY: usize = 3;

/// Of both kinds, in figure 6 and after it.
fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::ReedSolomon => "Reed-Solomon",
        Kind::Ldpc => "LDPC",
    }
}

/// Table 4, a figure for each kind.
fn preference_figure(kind: Kind) -> &'static str {
    match kind {
        Kind::ReedSolomon => "table 4 Reed-Solomon",
        Kind::Ldpc => "table 4 LDPC",
    }
}

/// How much is run.
#[derive(Clone, Copy)]
struct Size {
    /// Blocks of the file.
    blocks: usize,
    /// Runs of each profile in each network.
    runs: usize,
    /// T: a small file does not have more blocks than the least of the study's.
    transfers: &'static [usize],
}

impl Experiment for WideArea {
    fn about(&self) -> About {
        About {
            name: "wide-area",
            title: "Downloads over the wide area",
            source: "Collins, Plank: Assessing the Performance of Erasure Codes in the Wide-Area (2004), figures 2 to 4 and 6 to 8, Tables 1, 3, 4",
            method: "WeftFS's own scheduler, planner and transfer download a file of 100 blocks of 1 MB (1 MiB here), striped over the \
                     servers in an order drawn for each run, in simulated time. Each profile has the same ten runs; every value of the \
                     study's profiles is the best of its parameters, as in the study. Before a download each server is asked for 256 KiB \
                     and 4 KiB, in place of the study's forecasts. The study prints no rates. Assumed are 50 servers of 100 to 2,000 kB/s \
                     and 15 to 250 ms (hodgepodge); twelve servers in each region, of about 2,000, 800, 1,200, 1,500 kB/s and 10, 60, 30, 25 ms \
                     behind shared lines of 4, 3, 3, 3 MB/s (regional); of 400, 250, 150, 150 kB/s and 50, 110, 240, 200 ms behind shared \
                     lines of 1.6, 1.2, 0.6, 0.6 MB/s (slow regional); jitter of a third or a fifth of the latency; one or two requests in a \
                     thousand without an answer; time-outs of 30 s; a client whose own line is no limit. Simulated time has no processor: decoding is counted. A set is computed once it \
                     has come, one at a time, while others are under way. \"2004\" is the study's way: n block multiplications a lost \
                     block at 200 MB/s, XORs at 1 GB/s. \"Today\" is every operation of this program's plan at 10 GB/s. A set of 100 blocks is \
                     two segments of half blocks, as a segment holds 64 MiB.",
        }
    }

    fn points(&self, scale: Scale) -> Vec<Point> {
        let size = Size {
            blocks: scale.choose(10, 100),
            runs: scale.choose(2, 10),
            transfers: scale.choose(&TRANSFERS[..1], &TRANSFERS),
        };
        let blocks_max = scale.choose(4, usize::MAX);
        let cells = GRID.iter().flat_map(|n| GRID.iter().map(move |m| (*n, *m)));
        let cells = cells.filter(move |(n, m)| *m <= MOST_REDUNDANCY * n && n + m <= blocks_max);
        let grid =
            cells.map(|(n, m)| Point::new(format!("grid {n}+{m}"), move |random| cells::grid(n, m, size, random)));
        let parameters = Point::new(PARAMETERS, move |random| cells::parameters(size, random));
        let sets = SETS.into_iter().take(scale.choose(1, SETS.len())).flat_map(|(n, _)| {
            [Kind::ReedSolomon, Kind::Ldpc].map(|kind| {
                Point::new(format!("sets {} {n}", kind_name(kind)), move |random| cells::sets(kind, n, size, random))
            })
        });
        grid.chain([parameters]).chain(sets).collect()
    }

    fn figures(&self) -> Vec<Figure> {
        let speed = Axis::linear("speed, decoding of 2004 included (Mbit/s)");
        let by_set = Axis::logarithmic("data blocks n of a set, of 2n");
        let figure = |name, title, x, y| Figure { name, title, x, y, printed: Vec::new() };
        let grids = DISTRIBUTIONS.iter().zip(GRID_TITLES);
        let grids = grids.map(|(of, title)| figure(of.grid, title, Axis::linear("coding blocks m"), speed));
        let sets = DISTRIBUTIONS.iter().zip(SETS_TITLES);
        let sets =
            sets.map(|(of, title)| figure(of.sets, title, by_set, Axis::linear("speed, decoding included (Mbit/s)")));
        let printed_overhead = |(n, blocks): (usize, f64)| {
            Sample::exact(OVERHEAD, "LDPC, appendix: blocks in random order", n as f64, blocks / n as f64)
        };
        let preference = |kind, title| Figure {
            printed: printed_preference(kind),
            ..figure(
                preference_figure(kind),
                title,
                by_set,
                Axis::linear("share of runs in which data first is faster"),
            )
        };
        let parameters = figure(
            PARAMETERS,
            "Table 1: each of the parameters, hodgepodge distribution, rs:5+5, don't-care",
            Axis::linear("simultaneous downloads T"),
            speed,
        );
        let others = [
            parameters,
            figure(
                DOWNLOADING,
                "Figure 7: download time in the best performances",
                by_set,
                Axis::logarithmic("seconds"),
            ),
            figure(
                DECODING,
                "Figure 8: decoding time in the best performances, 2004",
                by_set,
                Axis::logarithmic("seconds"),
            ),
            preference(Kind::ReedSolomon, "Table 4: where data first is better than don't-care, Reed-Solomon"),
            preference(Kind::Ldpc, "Table 4: where data first is better than don't-care, LDPC"),
            Figure {
                printed: SETS.map(printed_overhead).to_vec(),
                ..figure(
                    OVERHEAD,
                    "Blocks asked for; fastest0, T = 20, R = 1, don't-care",
                    by_set,
                    Axis::linear("blocks asked for per data block"),
                )
            },
        ];
        grids.chain(sets).chain(others).collect()
    }

    fn verdict(&self, samples: &[Sample]) -> Verdict {
        verdict::of(samples)
    }
}

/// Table 4: 1 where it has `db-first`, 0 where it has `dont-care`.
fn printed_preference(kind: Kind) -> Vec<Sample> {
    let of_kind = PRINTED_DATA_FIRST.iter().filter(|(_, of, _)| *of == kind);
    let samples = of_kind.flat_map(|(network, _, is_first)| {
        let share = |is_first: &bool| f64::from(u8::from(*is_first));
        let cells = SETS.iter().zip(is_first.iter().map(share));
        cells.map(move |((n, _), share)| {
            Sample::exact(preference_figure(kind), &format!("{network}, printed"), *n as f64, share)
        })
    });
    samples.collect()
}
