//! All families side by side: what each stores, survives, repairs with and computes.

use super::counted::{code, shards_received, shards_received_for_two};
use crate::experiment::{About, Axis, Experiment, Figure, Point, Sample, Scale, Verdict};
use crate::models::availability::FatalShares;
use rand::RngCore;
use weft_codes::analysis;

pub(super) struct Codes;

const REPAIR: &str = "repair";
const TWO: &str = "two";
const FAILURE: &str = "failure";
const WORK: &str = "work";

/// One of each family at about the size that people use, twelve nodes or so; and plain copies.
const SPECS: [&str; 16] = [
    "replica:3",
    "raid5:5",
    "raid6:8",
    "rs:4+2",
    "rs:8+4",
    "rs:10+4",
    "crs:8+4",
    "lrc:6+2+2",
    "lrc:12+2+2",
    "clay:8+4",
    "msr:6+6,d=11",
    "basic:4+4,d=6",
    "msbasic:4",
    "embr:n=6,k=4",
    "mojette:8+4",
    "ldpc:cube-8-6",
];

/// Of a node, for the figure of failures.
const AVAILABILITY: f64 = 0.99;

/// Element operations for exact counts of patterns.
const EFFORT: u64 = 1 << 32;

fn measure(spec: &str, seed: u64) -> Result<Vec<Sample>, String> {
    let code = code(spec)?;
    let shape = code.shape();
    let storage = analysis::storage_factor(shape);
    let (failure, error) = FatalShares::of(&*code, EFFORT, seed)?.failure(AVAILABILITY);
    let size = analysis::size(code.encode());
    let work = (size.additions + size.multiplications) as f64 / shape.native_count as f64;
    let mut samples = vec![
        Sample::exact(REPAIR, spec, storage, shards_received(&*code)?),
        Sample::estimated(FAILURE, spec, storage, failure, error),
        Sample::exact(WORK, spec, storage, work),
    ];
    if shape.tolerance >= 2 {
        samples.push(Sample::exact(TWO, spec, storage, shards_received_for_two(&*code)?));
    }
    Ok(samples)
}

impl Experiment for Codes {
    fn about(&self) -> About {
        About {
            name: "codes",
            title: "All codes side by side",
            source: "WeftFS",
            method: "Stored bytes, received bytes of a repair and symbol operations of encoding are counted from the programs; a file's chance to \
                     be unreadable from all patterns of lost nodes, each node being there 99 % of the time, independently.",
        }
    }

    fn points(&self, _: Scale) -> Vec<Point> {
        SPECS.map(|spec| Point::new(spec, move |random| measure(spec, random.next_u64()))).into()
    }

    fn figures(&self) -> Vec<Figure> {
        let figure = |name, title, y| Figure {
            name,
            title,
            x: Axis::linear("stored bytes per byte of data"),
            y,
            printed: Vec::new(),
        };
        vec![
            figure(REPAIR, "Storage and repair", Axis::linear("shards received for one lost shard")),
            figure(
                TWO,
                "Storage and the repair of two lost nodes together",
                Axis::linear("shards received for two lost shards"),
            ),
            figure(
                FAILURE,
                "Storage and availability, nodes there 99 % of the time",
                Axis::logarithmic("chance that a file cannot be read"),
            ),
            figure(WORK, "Storage and computation", Axis::linear("symbol operations to encode a symbol of data")),
        ]
    }

    fn verdict(&self, samples: &[Sample]) -> Verdict {
        let of = |figure: &str, spec: &str| {
            let found = samples.iter().find(|sample| sample.figure == figure && sample.series == spec);
            found.map_or(f64::NAN, |sample| sample.y)
        };
        Verdict {
            agrees: format!(
                "No code is best at everything: with the same storage clay:8+4 receives {:.2} shards for a lost one where rs:8+4 receives {:.0}, \
                 {:.2} instead of {:.0} for two that are lost together, and computes {:.1} operations a symbol instead of {:.1}.",
                of(REPAIR, "clay:8+4"),
                of(REPAIR, "rs:8+4"),
                of(TWO, "clay:8+4"),
                of(TWO, "rs:8+4"),
                of(WORK, "clay:8+4"),
                of(WORK, "rs:8+4")
            ),
            differs: format!(
                "Tolerance alone misleads: ldpc:cube-8-6 survives any 3 losses and most of 4, so that its files are unreadable {:.1e} of \
                 the time; rs:10+4, which survives any 4 and stores less, {:.1e}.",
                of(FAILURE, "ldpc:cube-8-6"),
                of(FAILURE, "rs:10+4")
            ),
        }
    }
}
