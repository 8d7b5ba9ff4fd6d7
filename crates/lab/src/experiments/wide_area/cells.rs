//! The points of the experiment: what is measured of one code in all three networks.

use super::decoding::{Kind, Processor};
use super::runs::{DATA_FIRST, DONT_CARE, REDUNDANCIES, Runs, Subject, best, fixed, seeds, study};
use super::{
    DECODING, DISTRIBUTIONS, DOWNLOADING, Distribution, OVERHEAD, PARAMETERS, Size, kind_name, preference_figure,
};
use crate::experiment::Sample;
use crate::network::Network;
use rand_chacha::ChaCha8Rng;
use weft_transfer::Profile;

/// A line of a figure with both kinds and all networks.
pub(super) fn series(kind: Kind, network: &str) -> String {
    format!("{}, {network}", kind_name(kind))
}

/// What a line of figure 6 shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// The best of the study's profiles.
    Study(Processor),
    /// The profile without parameters, with decoding of today.
    Adaptive,
}

/// Its name.
pub(super) fn line_name(kind: Kind, line: Line) -> String {
    let what = match line {
        Line::Study(Processor::Study) => "decoding of 2004",
        Line::Study(Processor::Ours) => "decoding of today",
        Line::Adaptive => "adaptive profile, today",
    };
    format!("{}, {what}", kind_name(kind))
}

fn estimated(figure: &str, series: &str, x: usize, (mean, error): (f64, f64)) -> Sample {
    Sample::estimated(figure, series, x as f64, mean, error)
}

/// A cell of figures 2 to 4.
pub(super) fn grid(n: usize, m: usize, size: Size, random: &mut ChaCha8Rng) -> Result<Vec<Sample>, String> {
    let mut subject = Subject::new(Kind::ReedSolomon, &format!("rs:{n}+{m}"), size.blocks)?;
    let (profiles, seeds) = (study(size.transfers, DONT_CARE)?, seeds(size.runs, random));
    let mut samples = Vec::new();
    for distribution in &DISTRIBUTIONS {
        let all = subject.all(&(distribution.network)(), &profiles, &seeds)?;
        let speed = best(&all, Processor::Study).map(|runs| runs.speed(Processor::Study));
        samples.extend(speed.map(|speed| estimated(distribution.grid, &format!("n = {n}"), m, speed)));
    }
    Ok(samples)
}

/// All parameters of Table 1, and the selection of the study's figure 5, in one network.
pub(super) fn parameters(size: Size, random: &mut ChaCha8Rng) -> Result<Vec<Sample>, String> {
    let mut subject = Subject::new(Kind::ReedSolomon, "rs:5+5", size.blocks)?;
    let (network, seeds) = (Network::hodgepodge(), seeds(size.runs, random));
    let mut samples = Vec::new();
    for selection in ["fastest0", "fastest1", "lightest"] {
        for redundancy in REDUNDANCIES {
            for transfers in size.transfers {
                let runs = subject.runs(&network, fixed(selection, *transfers, redundancy, DONT_CARE)?, &seeds)?;
                let series = format!("{selection}, {redundancy}");
                samples.push(estimated(PARAMETERS, &series, *transfers, runs.speed(Processor::Study)));
            }
        }
    }
    Ok(samples)
}

/// A set of 2n blocks in figures 6 to 8 and Table 4.
pub(super) fn sets(kind: Kind, n: usize, size: Size, random: &mut ChaCha8Rng) -> Result<Vec<Sample>, String> {
    let spec = match kind {
        Kind::ReedSolomon => format!("rs:{n}+{n}"),
        Kind::Ldpc => format!("ldpc:plank-{n}"),
    };
    let mut subject = Subject::new(kind, &spec, size.blocks)?;
    let seeds = seeds(size.runs, random);
    let mut samples = Vec::new();
    for distribution in &DISTRIBUTIONS {
        let network = (distribution.network)();
        let dont_care = subject.all(&network, &study(size.transfers, DONT_CARE)?, &seeds)?;
        let data_first = subject.all(&network, &study(size.transfers, DATA_FIRST)?, &seeds)?;
        let adaptive = subject.runs(&network, Profile::default(), &seeds)?;
        samples.extend(of_sets(kind, n, distribution, &dont_care, &data_first, &adaptive));
    }
    Ok(samples)
}

fn of_sets(
    kind: Kind,
    n: usize,
    distribution: &Distribution,
    dont_care: &[Runs],
    data_first: &[Runs],
    adaptive: &Runs,
) -> Vec<Sample> {
    let series = series(kind, distribution.name);
    let mut samples = Vec::new();
    let faster = |processor| {
        let bests = [best(dont_care, processor), best(data_first, processor)].into_iter().flatten();
        bests.max_by(|one, two| one.speed(processor).0.total_cmp(&two.speed(processor).0))
    };
    for processor in Processor::ALL {
        let speed = faster(processor).map(|runs| runs.speed(processor));
        let line = line_name(kind, Line::Study(processor));
        samples.extend(speed.map(|speed| estimated(distribution.sets, &line, n, speed)));
    }
    let line = line_name(kind, Line::Adaptive);
    samples.push(estimated(distribution.sets, &line, n, adaptive.speed(Processor::Ours)));
    if let Some(runs) = faster(Processor::Study) {
        let downloading = runs.mean(|run| run.download_seconds);
        let decoding = runs.mean(|run| run.decode_seconds[Processor::Study as usize]);
        samples.extend(downloading.map(|mean| estimated(DOWNLOADING, &series, n, mean)));
        samples.extend(decoding.map(|mean| estimated(DECODING, &series, n, mean)));
    }
    if let Some((any, first)) = best(dont_care, Processor::Study).zip(best(data_first, Processor::Study)) {
        samples.push(estimated(preference_figure(kind), &series, n, first.faster_than(any, Processor::Study)));
    }
    let asked = dont_care.first().and_then(|runs| runs.mean(|run| run.asked));
    samples.extend(asked.map(|mean| estimated(OVERHEAD, &series, n, mean)));
    samples
}
