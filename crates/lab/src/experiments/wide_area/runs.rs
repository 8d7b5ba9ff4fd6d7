//! Runs of profiles over the same networks, and the best of them.

use super::decoding::{Decoder, Kind, Processor, finished};
use crate::experiments::counted::{code, mean_and_error};
use crate::network::{Client, Download, Network, StoredFile};
use rand::RngCore;
use rand_chacha::ChaCha8Rng;
use std::cmp::Ordering;
use weft_transfer::Profile;

/// Bits of a byte, and of a megabit.
const MEGABITS_PER_BYTE: f64 = 8e-6;

/// The study's preferences (its section 6.1), as profiles name them.
pub(super) const DATA_FIRST: &str = "data-first";
pub(super) const DONT_CARE: &str = "any";

/// R with P: 30/n sets are 30 blocks.
pub(super) const REDUNDANCIES: [&str; 2] = ["R=1", "R=2,P=30"];

/// The study's time-outs are static, and not printed: longer than a sound request takes on any of its lines.
const TIMEOUT_MS: u64 = 30_000;

/// A profile of the study.
pub(super) fn fixed(selection: &str, transfers: usize, redundancy: &str, preference: &str) -> Result<Profile, String> {
    let text = format!("{selection},T={transfers},{redundancy},{preference},timeout-ms={TIMEOUT_MS}");
    text.parse().map_err(|error: weft_transfer::scheduler::ProfileError| error.to_string())
}

/// All of Tables 1 and 3 with these T and this preference.
pub(super) fn study(transfers: &[usize], preference: &str) -> Result<Vec<Profile>, String> {
    let mut profiles = Vec::new();
    for selection in ["fastest0", "fastest1"] {
        for transfers in transfers {
            for redundancy in REDUNDANCIES {
                profiles.push(fixed(selection, *transfers, redundancy, preference)?);
            }
        }
    }
    Ok(profiles)
}

/// A code with its file, stored once for all runs.
pub(super) struct Subject {
    file: StoredFile,
    decoder: Decoder,
    client: Client,
}

impl Subject {
    pub(super) fn new(kind: Kind, spec: &str, blocks: usize) -> Result<Subject, String> {
        let decoder = Decoder { code: code(spec)?, kind };
        Ok(Subject { file: StoredFile::encode(spec, blocks)?, decoder, client: Client::default() })
    }

    /// Runs of a profile, one for each seed.
    pub(super) fn runs(&mut self, network: &Network, profile: Profile, seeds: &[u64]) -> Result<Runs, String> {
        let run = |seed: &u64| {
            let download = self.client.download(network, &self.file, profile, *seed)?;
            download.map_or(Ok(Run::FAILED), |download| run(&self.file, &self.decoder, &download))
        };
        Ok(Runs(seeds.iter().map(run).collect::<Result<_, _>>()?))
    }

    /// Runs of several profiles with the same seeds.
    pub(super) fn all(&mut self, network: &Network, profiles: &[Profile], seeds: &[u64]) -> Result<Vec<Runs>, String> {
        profiles.iter().map(|profile| self.runs(network, *profile, seeds)).collect()
    }
}

/// Seeds of runs: all profiles have the same networks.
pub(super) fn seeds(count: usize, random: &mut ChaCha8Rng) -> Vec<u64> {
    (0..count).map(|_| random.next_u64()).collect()
}

/// A download, with what decoding adds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Run {
    /// In Mbit/s, decoding included, in the order of [`Processor::ALL`]; 0: the download failed.
    speeds: [f64; 2],
    /// Seconds of the download alone, ...
    pub(super) download_seconds: f64,
    /// ... and of decoding alone.
    pub(super) decode_seconds: [f64; 2],
    /// Blocks asked for, of each data block.
    pub(super) asked: f64,
}

impl Run {
    const FAILED: Run =
        Run { speeds: [0.0; 2], download_seconds: f64::NAN, decode_seconds: [f64::NAN; 2], asked: f64::NAN };
}

fn run(file: &StoredFile, decoder: &Decoder, download: &Download) -> Result<Run, String> {
    let takes = download.sets.iter().map(|set| decoder.seconds(file, set)).collect::<Result<Vec<_>, _>>()?;
    let of = |processor: Processor| {
        let takes = takes.iter().map(|takes| takes[processor as usize]);
        finished(download.sets.iter().map(|set| set.seconds).zip(takes))
    };
    let bytes = file.bytes() as f64;
    Ok(Run {
        speeds: Processor::ALL.map(|processor| bytes * MEGABITS_PER_BYTE / of(processor)),
        download_seconds: download.seconds,
        decode_seconds: Processor::ALL.map(|processor| takes.iter().map(|takes| takes[processor as usize]).sum()),
        asked: download.asked_bytes as f64 / bytes,
    })
}

/// Runs of one profile.
pub(super) struct Runs(Vec<Run>);

impl Runs {
    /// Mean speed, and its standard error; a failed download has speed 0.
    pub(super) fn speed(&self, processor: Processor) -> (f64, f64) {
        let speeds: Vec<f64> = self.0.iter().map(|run| run.speeds[processor as usize]).collect();
        mean_and_error(&speeds)
    }

    /// The mean of what runs that did not fail say, and its standard error.
    pub(super) fn mean(&self, of: impl Fn(&Run) -> f64) -> Option<(f64, f64)> {
        let values: Vec<f64> = self.0.iter().map(of).filter(|value| value.is_finite()).collect();
        (!values.is_empty()).then(|| mean_and_error(&values))
    }

    /// In how many of all runs this is faster than the other, the same speed being half a win.
    pub(super) fn faster_than(&self, other: &Runs, processor: Processor) -> (f64, f64) {
        let pairs = self.0.iter().zip(&other.0);
        let wins: Vec<f64> = pairs
            .map(|(one, two)| match one.speeds[processor as usize].total_cmp(&two.speeds[processor as usize]) {
                Ordering::Less => 0.0,
                Ordering::Equal => 0.5,
                Ordering::Greater => 1.0,
            })
            .collect();
        mean_and_error(&wins)
    }
}

/// The fastest of several profiles; `None` of none.
pub(super) fn best(all: &[Runs], processor: Processor) -> Option<&Runs> {
    let speed = |runs: &&Runs| runs.speed(processor).0;
    all.iter().max_by(|one, two| speed(one).total_cmp(&speed(two)))
}
