//! How long data last: the calculator beside published figures, the model beside a simulation, and what racks and bursts change.

mod bursts;

use super::counted::{code, mean_and_error, value_at};
use crate::experiment::{About, Axis, Experiment, Figure, Point, Sample, Scale, Verdict};
use crate::models::availability::FatalShares;
use crate::models::durability::{AZURE, Cluster, DAYS_PER_YEAR, GIB, annual_loss_by_windows, burst_loss};
use crate::models::markov::Chain;
use crate::models::simulation::{Repair, Spread, Volume, simulate};
use bursts::BURSTS;
use rand_chacha::ChaCha8Rng;

pub(super) struct Durability;

const CALIBRATION: &str = "calibration";
const MODEL: &str = "model and simulation";
const CODES: &str = "codes";
const RACKS: &str = "racks";

/// Element operations for exact counts of patterns.
const EFFORT: u64 = 1 << 32;

/// Of all figures of a volume: codes of about the same storage, and the widest.
const SPECS: [&str; 5] = ["replica:3", "rs:4+2", "rs:8+4", "lrc:6+2+2", "ldpc:cube-8-6"];

/// Mean repair times of the comparison with the model, in days: so long that losses can be seen.
const REPAIR_DAYS: [f64; 4] = [5.0, 10.0, 20.0, 40.0];

/// Node failures a year of the accelerated simulations.
const FAILURES: f64 = 1.0;

/// Annual failure rates of the figure of codes.
const ANNUAL_RATES: [f64; 6] = [0.005, 0.01, 0.02, 0.05, 0.1, 0.2];

/// Rack failures a year, what a rack takes with it, and where that is looked at.
const RACK_FAILURES: [f64; 5] = [0.0, 0.05, 0.1, 0.2, 0.4];
const SHARE_LOST_WITH_RACK: f64 = 0.5;
const SPECS_IN_RACKS: [&str; 2] = ["rs:4+2", "rs:8+4"];
const SPREADS: [(&str, Spread); 2] = [("one shard a rack", Spread::Racks), ("on any nodes", Spread::Nodes)];

impl Experiment for Durability {
    fn about(&self) -> About {
        About {
            name: "durability",
            title: "How long data last",
            source: "Published calculators: Backblaze (2018), Huang et al. (ATC 2012), Sathiamoorthy et al. (VLDB 2013), Cidon et al. (ATC 2013)",
            method: "A stripe is a Markov chain over its missing shards, with the exact shares of fatal patterns of its code. The \
                     simulation has nodes in racks that fail by themselves and with their rack, or with the whole building, and stripes that share \
                     nodes; it is run with failures and repairs slow enough for losses to be seen, thirty times each; errors follow from the spread of these runs.",
        }
    }

    fn points(&self, scale: Scale) -> Vec<Point> {
        let codes = SPECS.map(|spec| Point::new(format!("{CODES} {spec}"), move |_| by_failure_rate(spec)));
        let model = SPECS.into_iter().flat_map(|spec| {
            REPAIR_DAYS.map(|days| {
                let name = format!("{MODEL} {spec} {days} days");
                Point::new(name, move |random| beside_simulation(spec, days, scale, random))
            })
        });
        let racks = SPECS_IN_RACKS.into_iter().flat_map(|spec| {
            RACK_FAILURES.map(|rate| {
                Point::new(format!("{RACKS} {spec} {rate}"), move |random| with_racks(spec, rate, scale, random))
            })
        });
        let bursts = SPECS
            .map(|spec| Point::new(format!("{BURSTS} {spec}"), move |random| bursts::measure(spec, scale, random)));
        let calculated = [Point::new(CALIBRATION, |_| calibration())].into_iter().chain(codes);
        calculated.chain(model).chain(racks).chain(bursts).collect()
    }

    fn figures(&self) -> Vec<Figure> {
        vec![
            Figure {
                name: CALIBRATION,
                title: "The calculator beside published figures",
                x: Axis::logarithmic("published value (years, days, or chances)"),
                y: Axis::logarithmic("calculated here"),
                printed: PUBLISHED.map(|(name, value)| Sample::exact(CALIBRATION, name, value, value)).to_vec(),
            },
            Figure {
                name: CODES,
                title: "Loss by node failure rate; 400 nodes of 16 TiB, 1 Gbit/s, a tenth of it for repair",
                x: Axis::logarithmic("failures of a node a year"),
                y: Axis::logarithmic("chance that a stripe is lost in a year"),
                printed: Vec::new(),
            },
            Figure {
                name: MODEL,
                title: "The model beside the simulation: nodes that fail once a year",
                x: Axis::logarithmic("mean repair time (days)"),
                y: Axis::logarithmic("losses per stripe and year"),
                printed: Vec::new(),
            },
            Figure {
                name: RACKS,
                title: "Twenty racks that fail and lose half of their nodes, each node once a year in all; repair takes 10 days",
                x: Axis::linear("failures of a rack a year"),
                y: Axis::logarithmic("losses per stripe and year"),
                printed: Vec::new(),
            },
            Figure {
                name: BURSTS,
                title: "A burst takes nodes of the whole building at once; shards on any nodes",
                x: Axis::logarithmic("part of all nodes that a burst takes"),
                y: Axis::logarithmic("stripes lost of a million by one burst"),
                printed: Vec::new(),
            },
        ]
    }

    fn verdict(&self, samples: &[Sample]) -> Verdict {
        let farthest = samples
            .iter()
            .filter(|sample| sample.figure == CALIBRATION)
            .map(|sample| (sample.y / sample.x - 1.0).abs());
        let farthest = farthest.fold(0.0, f64::max);
        let (mut total, mut within, mut overstated) = (0, 0, 0.0f64);
        for (simulated, model) in pairs(samples, MODEL) {
            total += 1;
            match (simulated.y - model.y).abs() <= simulated.error {
                true => within += 1,
                false => overstated = overstated.max(model.y / simulated.y - 1.0),
            }
        }
        Verdict {
            agrees: format!(
                "Seven published figures are reproduced within {:.1} %, from one Markov chain, a binomial window and a burst; the \
                 simulation of independent failures agrees with the chain within its error at {within} of {total} points. {}",
                (farthest * 1000.0).ceil() / 10.0,
                of_bursts(samples)
            ),
            differs: format!(
                "Where they differ, the chain has up to {:.1} % more losses: it takes all patterns with the same number of missing shards for equally likely, \
                 and with codes that are not MDS those that come back from more are among the better ones. {}",
                100.0 * overstated,
                of_racks(samples)
            ),
        }
    }
}

/// What was simulated of a figure, beside what was calculated.
fn pairs<'a>(samples: &'a [Sample], figure: &'a str) -> impl Iterator<Item = (&'a Sample, &'a Sample)> {
    let simulated = samples.iter().filter(move |sample| sample.figure == figure && sample.series.ends_with(SIMULATED));
    simulated.filter_map(move |simulated| {
        let series = simulated.series.trim_end_matches(SIMULATED);
        let model = samples.iter().find(|sample| {
            sample.figure == figure && sample.series.trim_end_matches(MODELLED) == series && sample.x == simulated.x
        })?;
        Some((simulated, model))
    })
}

/// How bursts agree with what is counted, in a sentence.
fn of_bursts(samples: &[Sample]) -> String {
    let of_bursts: Vec<_> = pairs(samples, BURSTS).collect();
    let within = of_bursts.iter().filter(|(simulated, model)| (simulated.y - model.y).abs() <= simulated.error).count();
    let share = bursts::SHARES[0];
    let lost = |spec: &str| value_at(samples, BURSTS, &format!("{spec}{MODELLED}"), share);
    format!(
        "Of bursts it agrees with the counted patterns at {within} of {} points: when {:.0} % of all nodes go at once, {:.2} stripes of a \
         million are lost of {}, and {:.2} of {}.",
        of_bursts.len(),
        100.0 * share,
        lost(SPECS[0]),
        SPECS[0],
        lost(SPECS[1]),
        SPECS[1],
    )
}

/// What racks change, in a sentence.
fn of_racks(samples: &[Sample]) -> String {
    let (spec, most) = (SPECS_IN_RACKS[1], RACK_FAILURES[RACK_FAILURES.len() - 1]);
    let losses = |spread: &str, rate: f64| value_at(samples, RACKS, &format!("{spec}, {spread}"), rate);
    let times = |spread: &str| losses(spread, most) / losses(spread, RACK_FAILURES[0]);
    format!(
        "A model of independent failures says nothing of racks: with as many failures of nodes in all, {most} failures of a rack a year \
         multiply the losses of {spec} by {:.1} where shards lie on any nodes, and by {:.1} with one shard a rack, as WeftFS \
         places them.",
        times(SPREADS[1].0),
        times(SPREADS[0].0)
    )
}

const SIMULATED: &str = ", simulated";
const MODELLED: &str = ", model";

/// Years, days or chances, as printed.
const PUBLISHED: [(&str, f64); 7] = [
    ("Backblaze 17+3, loss a year", 7.354e-12),
    ("Azure, three copies, years", 3.5e9),
    ("Azure, rs:6+3, years", 6.1e11),
    ("Azure, lrc:6+2+2, years", 2.6e12),
    ("Xorbas, three copies, days", 2.3079e10),
    ("Copysets, 275,000 sets, loss", 0.228),
    ("Copysets, 8,300 sets, loss", 0.0078),
];

fn calibration() -> Result<Vec<Sample>, String> {
    let azure = |spec| fatal_shares(spec).map(|shares| AZURE.years_to_loss(&shares));
    // 30 PiB of blocks of 256 MiB, three copies of each, on nodes that live four years and send a gigabit.
    let rebuilt_per_day = 86_400.0 * (GIB / 8.0) / (GIB / 4.0);
    let copies = Chain::of_stripe(3, 1.0 / (4.0 * DAYS_PER_YEAR), &[0.0, 0.0, 0.0, 1.0], |_| rebuilt_per_day);
    let stripes = 30.0 * GIB * GIB / 1024.0 / (3.0 * GIB / 4.0);
    let calculated = [
        annual_loss_by_windows(20, 3, 0.00405, 6.5),
        azure("replica:3")?,
        azure("rs:6+3")?,
        azure("lrc:6+2+2")?,
        copies.mean_time_to_loss() / stripes,
        burst_loss(5000, 50, 3, 275_000.0),
        burst_loss(5000, 50, 3, 8_300.0),
    ];
    let sample = |((_, printed), value): (&(&str, f64), f64)| Sample::exact(CALIBRATION, "calculated", *printed, value);
    Ok(PUBLISHED.iter().zip(calculated).map(sample).collect())
}

fn fatal_shares(spec: &str) -> Result<Vec<f64>, String> {
    let shares = FatalShares::of(&*code(spec)?, EFFORT, 1)?;
    Ok(shares.shares().iter().map(|share| share.value).collect())
}

fn by_failure_rate(spec: &str) -> Result<Vec<Sample>, String> {
    let shares = fatal_shares(spec)?;
    let loss = |rate: f64| {
        let years = Cluster { failures_per_year: rate, ..AZURE }.years_to_loss(&shares);
        Sample::exact(CODES, spec, rate, -(-1.0 / years).exp_m1())
    };
    Ok(ANNUAL_RATES.map(loss).to_vec())
}

/// Losses are seen within seconds.
fn volume(scale: Scale) -> Volume {
    Volume {
        nodes: scale.choose(200, 10_000),
        nodes_per_rack: 1,
        stripes: scale.choose(500, 50_000),
        spread: Spread::Racks,
        node_failures: FAILURES,
        rack_failures: 0.0,
        share_lost_with_rack: 0.0,
        detection: 0.0,
        repair: Repair::Exponential(REPAIR_YEARS),
        warm_up: 5.0 * REPAIR_YEARS,
        years: scale.choose(1.0, 4.0),
    }
}

/// Runs of a simulation, enough to know their spread. (Of thirty, 2.05 standard errors hold the mean 19 times of 20.)
const RUNS: usize = 30;

/// Of the figure with racks.
const REPAIR_YEARS: f64 = 10.0 / DAYS_PER_YEAR;
const RACKS_THERE: usize = 20;

/// Losses per stripe and year, and the standard error of that.
fn simulated(spec: &str, volume: &Volume, random: &mut ChaCha8Rng) -> Result<(f64, f64), String> {
    let code = code(spec)?;
    let mut rates = Vec::new();
    for _ in 0..RUNS {
        let outcome = simulate(volume, &*code, random)?;
        rates.push(outcome.losses as f64 / (volume.stripes as f64 * volume.years));
    }
    // Stripes share nodes, so that losses come in heaps: only whole runs are independent.
    Ok(mean_and_error(&rates))
}

fn beside_simulation(spec: &str, days: f64, scale: Scale, random: &mut ChaCha8Rng) -> Result<Vec<Sample>, String> {
    let years = days / DAYS_PER_YEAR;
    let shares = fatal_shares(spec)?;
    // In the simulation each node comes back by itself.
    let chain = Chain::of_stripe(shares.len() - 1, FAILURES, &shares, |missing| missing as f64 / years);
    let volume = Volume { repair: Repair::Exponential(years), warm_up: 5.0 * years, ..volume(scale) };
    let (losses, error) = simulated(spec, &volume, random)?;
    let mut samples = vec![Sample::exact(MODEL, &format!("{spec}{MODELLED}"), days, 1.0 / chain.mean_time_to_loss())];
    // Of no loss nothing is known but that there are few.
    if losses > 0.0 {
        samples.push(Sample::estimated(MODEL, &format!("{spec}{SIMULATED}"), days, losses, error));
    }
    Ok(samples)
}

fn with_racks(spec: &str, rate: f64, scale: Scale, random: &mut ChaCha8Rng) -> Result<Vec<Sample>, String> {
    let mut samples = Vec::new();
    for (name, spread) in SPREADS {
        let whole = volume(scale);
        let volume = Volume {
            nodes_per_rack: whole.nodes / RACKS_THERE,
            spread,
            rack_failures: rate,
            share_lost_with_rack: SHARE_LOST_WITH_RACK,
            repair: Repair::Takes(REPAIR_YEARS),
            node_failures: FAILURES - SHARE_LOST_WITH_RACK * rate,
            ..whole
        };
        let (losses, error) = simulated(spec, &volume, random)?;
        // Of no loss nothing is known but that there are few.
        if losses > 0.0 {
            samples.push(Sample::estimated(RACKS, &format!("{spec}, {name}"), rate, losses, error));
        }
    }
    Ok(samples)
}
