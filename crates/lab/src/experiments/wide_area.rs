//! The wide-area study: downloads from unlike servers, by its parameters, in simulated time.

use super::counted::{code, value_at};
use crate::experiment::{About, Axis, Experiment, Figure, Point, Sample, Scale, Verdict};
use crate::network::{self, Network};
use rand::RngCore;
use rand_chacha::ChaCha8Rng;
use weft_codes::analysis;
use weft_codes::{Offer, Offers, Wanted};
use weft_transfer::Profile;

pub(super) struct WideArea;

/// Figures 2 to 4, a network each.
const GRIDS: [(&str, &str); 3] =
    [(network::SLOW_REGIONAL, "figure 2"), (network::REGIONAL, "figure 3"), (network::HODGEPODGE, "figure 4")];
const FIGURE_6: &str = "figure 6";
const DECODING: &str = "decoding";

/// Sets of figure 6: as many coding blocks as data blocks.
const SETS: [usize; 5] = [5, 10, 20, 50, 100];

/// Of Table 1: no more coding blocks than three times the data.
const MOST_REDUNDANCY: usize = 3;

/// The file of the study, 100 blocks of 1 MB; blocks and rates are simulated at a sixteenth, which leaves all times as they are.
const FILE_BLOCKS: usize = 100;

impl Experiment for WideArea {
    fn about(&self) -> About {
        About {
            name: "wide-area",
            title: "Downloads over the wide area",
            source: "Collins, Plank: Assessing the Performance of Erasure Codes in the Wide-Area (2004), figures 2 to 4 and 6, Tables 1 and 3",
            method: "WeftFS's own scheduler downloads a file of 100 blocks of 1 MB through lines with latency, jitter, bandwidth and servers that \
                     fall silent, in simulated time; blocks and rates are simulated at a sixteenth. Each value is the best of \
                     the study's parameters (T, R and P, selection and, in figure 6, preference), a mean over runs, each in a network of its own. \
                     The networks are models of those that the study names, as it prints no rates. Every block has a line of its own. Decoding takes no time \
                     there; what it computes is counted apart.",
        }
    }

    fn points(&self, scale: Scale) -> Vec<Point> {
        let runs = scale.choose(2, 10);
        let widest = scale.choose(2, 9);
        let sizes = (1..=widest).flat_map(move |n| (1..=widest.min(MOST_REDUNDANCY * n)).map(move |m| (n, m)));
        let grids = GRIDS.iter().flat_map(|&(network, figure)| {
            sizes.clone().map(move |(n, m)| {
                Point::new(format!("{figure} {n}+{m}"), move |random| grid(figure, network, n, m, runs, random))
            })
        });
        let sets = SETS.into_iter().take(scale.choose(1, SETS.len()));
        let families = sets.clone().flat_map(move |n| {
            GRIDS.into_iter().map(move |(network, _)| {
                Point::new(format!("{FIGURE_6} {network} {n}"), move |random| families(network, n, runs, random))
            })
        });
        let decoding = SETS.map(|n| Point::new(format!("{DECODING} {n}"), move |_| decoding(n)));
        grids.chain(families).chain(decoding).collect()
    }

    fn figures(&self) -> Vec<Figure> {
        let titles = [
            "Figure 2: slow regional distribution, Reed-Solomon",
            "Figure 3: regional distribution, Reed-Solomon",
            "Figure 4: hodgepodge distribution, Reed-Solomon",
        ];
        let grid = |((_, name), title): ((&str, &'static str), &'static str)| Figure {
            name,
            title,
            x: Axis::linear("coding blocks m"),
            y: Axis::linear("download speed (Mbit/s)"),
            printed: Vec::new(),
        };
        let mut figures: Vec<Figure> =
            GRIDS.map(|(network, name)| (network, name)).into_iter().zip(titles).map(grid).collect();
        figures.push(Figure {
            name: FIGURE_6,
            title: "Figure 6: Reed-Solomon and LDPC, without decoding, and the adaptive profile",
            x: Axis::logarithmic("data blocks n of a set, of 2n"),
            y: Axis::linear("download speed (Mbit/s)"),
            printed: Vec::new(),
        });
        figures.push(Figure {
            name: DECODING,
            title: "What figure 6 adds: computing half of the data from coding blocks",
            x: Axis::logarithmic("data blocks n of a set, of 2n"),
            y: Axis::logarithmic("block operations per data block"),
            printed: Vec::new(),
        });
        figures
    }

    fn verdict(&self, samples: &[Sample]) -> Verdict {
        let speed = |series: &str, n: usize| value_at(samples, FIGURE_6, series, n as f64);
        let work = |series: &str, n: usize| value_at(samples, DECODING, series, n as f64);
        let (first, last) = (SETS[0], SETS[SETS.len() - 1]);
        let adaptive = GRIDS.map(|(network, _)| {
            let best = speed(&format!("rs, {network}"), first).max(speed(&format!("ldpc, {network}"), first));
            speed(&format!("rs adaptive, {network}"), first) / best
        });
        let least = adaptive.into_iter().fold(f64::INFINITY, f64::min);
        Verdict {
            agrees: format!(
                "Speed rises with m and falls with n, as in figures 2 to 4. Small LDPC sets lose, since they need more blocks: at n = 5 \
                 {:.2} Mbit/s where Reed-Solomon has {:.2} (hodgepodge). Decoding turns that round in wide sets: Reed-Solomon computes {:.0} \
                 block operations per data block at n = 100, LDPC {:.1}.",
                speed(&format!("ldpc, {}", network::HODGEPODGE), first),
                speed(&format!("rs, {}", network::HODGEPODGE), first),
                work("rs", last),
                work("ldpc", last)
            ),
            differs: format!(
                "Reed-Solomon is multiplied by butterflies and at tens of gigabytes a second here, so that its decoding no longer decides \
                 at n = 20 to 50 as it did on the study's processor. The adaptive profile needs no parameters and has {:.2} or more of the \
                 best fixed ones' speed at n = 5.",
                least
            ),
        }
    }
}

/// Tables 1 and 3: T, R and P (30/n sets are 30 blocks), and selection.
fn profiles(preferences: &[&str]) -> Vec<Profile> {
    let mut profiles = Vec::new();
    for selection in ["fastest0", "fastest1"] {
        for transfers in [20, 30] {
            for redundancy in ["R=1", "R=2,P=30"] {
                for preference in preferences {
                    let text = format!("{selection},T={transfers},{redundancy},{preference}");
                    profiles.push(text.parse().expect("a profile of the study"));
                }
            }
        }
    }
    profiles
}

/// Mean speed in Mbit/s over runs, and its standard error; a download that fails has speed 0.
fn speed(
    network: &Network,
    spec: &str,
    n: usize,
    profile: Profile,
    runs: usize,
    random: &mut ChaCha8Rng,
) -> Result<(f64, f64), String> {
    let mut speeds = Vec::new();
    for _ in 0..runs {
        let seconds = network::download(network, spec, n, FILE_BLOCKS, profile, random.next_u64())?;
        speeds.push(8.0 * FILE_BLOCKS as f64 / seconds);
    }
    let count = runs as f64;
    let mean = speeds.iter().sum::<f64>() / count;
    let variance = speeds.iter().map(|speed| (speed - mean).powi(2)).sum::<f64>() / (count - 1.0).max(1.0);
    Ok((mean, (variance / count).sqrt()))
}

/// The best of several profiles.
fn best(
    network: &Network,
    spec: &str,
    n: usize,
    profiles: &[Profile],
    runs: usize,
    random: &mut ChaCha8Rng,
) -> Result<(f64, f64), String> {
    let mut best = (0.0, 0.0);
    for profile in profiles {
        let found = speed(network, spec, n, *profile, runs, random)?;
        if found.0 > best.0 {
            best = found;
        }
    }
    Ok(best)
}

fn grid(
    figure: &str,
    network: &str,
    n: usize,
    m: usize,
    runs: usize,
    random: &mut ChaCha8Rng,
) -> Result<Vec<Sample>, String> {
    let network = network::of_study(network)?;
    let (mean, error) = best(&network, &format!("rs:{n}+{m}"), n, &profiles(&["any"]), runs, random)?;
    Ok(vec![Sample::estimated(figure, &format!("n = {n}"), m as f64, mean, error)])
}

/// A set of 2n blocks under both codes, and with the profile that has no parameters.
fn families(network: &str, n: usize, runs: usize, random: &mut ChaCha8Rng) -> Result<Vec<Sample>, String> {
    let lines = network::of_study(network)?;
    let (rs, ldpc) = (format!("rs:{n}+{n}"), format!("ldpc:plank-{n}"));
    let study = profiles(&["any", "data-first"]);
    let mut samples = Vec::new();
    for (series, spec, profiles) in [
        ("rs", &rs, &study[..]),
        ("ldpc", &ldpc, &study[..]),
        ("rs adaptive", &rs, &[Profile::default()][..]),
        ("ldpc adaptive", &ldpc, &[Profile::default()][..]),
    ] {
        let (mean, error) = best(&lines, spec, n, profiles, runs, random)?;
        samples.push(Sample::estimated(FIGURE_6, &format!("{series}, {network}"), n as f64, mean, error));
    }
    Ok(samples)
}

/// Block operations of the program that computes the data when every second data block is gone.
fn decoding(n: usize) -> Result<Vec<Sample>, String> {
    let count = |series: &str, spec: String| {
        let code = code(&spec)?;
        let offer = Offer { combines: false, request_price: 0, symbol_price: 1 };
        let is_there = |shard: usize| shard >= n || shard % 2 == 1;
        let have = Offers((0..2 * n).map(|shard| is_there(shard).then_some(offer)).collect());
        let lost = (0..n).filter(|shard| !is_there(*shard)).collect();
        let plan = code.plan(&Wanted::Natives(lost), &have).map_err(|error| error.to_string())?;
        let size = analysis::size(&plan.program);
        let operations = (size.additions + size.multiplications) as f64 / n as f64;
        Ok::<_, String>(Sample::exact(DECODING, series, n as f64, operations))
    };
    Ok(vec![count("rs", format!("rs:{n}+{n}"))?, count("ldpc", format!("ldpc:plank-{n}"))?])
}
