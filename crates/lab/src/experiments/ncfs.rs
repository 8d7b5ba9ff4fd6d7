//! NCFS: storage and repair traffic of RAID-5, RAID-6 and E-MBR, counted from the codes' programs.

use super::counted::{code, shards_received, value_at};
use crate::experiment::{About, Axis, Experiment, Figure, Point, Sample, Scale, Verdict};
use weft_codes::analysis;

pub(super) struct Ncfs;

const STORAGE: &str = "storage";
const REPAIR: &str = "repair";

/// Nodes of the paper's experiments, and those between.
const NODES: std::ops::RangeInclusive<usize> = 4..=8;

/// A scheme of Table I: its name, its code over n nodes, and the table's formulas of storage and repair traffic per native byte.
struct Scheme {
    name: &'static str,
    spec: fn(usize) -> String,
    storage: fn(f64) -> f64,
    repair: fn(f64) -> f64,
}

static SCHEMES: [Scheme; 4] = [
    Scheme { name: "RAID-5", spec: |n| format!("raid5:{n}"), storage: |n| 1.0 / (1.0 - 1.0 / n), repair: |_| 1.0 },
    Scheme { name: "RAID-6", spec: |n| format!("raid6:{n}"), storage: |n| 1.0 / (1.0 - 2.0 / n), repair: |_| 1.0 },
    Scheme {
        name: "E-MBR, k = n - 1",
        spec: |n| format!("embr:n={n},k={}", n - 1),
        storage: |_| 2.0,
        repair: |n| 2.0 / n,
    },
    Scheme {
        name: "E-MBR, k = n - 2",
        spec: |n| format!("embr:n={n},k={}", n - 2),
        storage: |n| 2.0 * (n - 1.0) / ((n - 2.0) * (n + 1.0)),
        repair: |n| 2.0 * (n - 1.0) / ((n - 2.0) * (n + 1.0)),
    },
];

impl Scheme {
    /// What its code over `n` nodes stores, and what the repair of one node receives.
    fn measure(&self, n: usize) -> Result<Vec<Sample>, String> {
        let code = code(&(self.spec)(n))?;
        let storage = analysis::storage_factor(code.shape());
        // Per native byte: a shard is alpha of the native symbols.
        let shard = code.shape().alpha as f64 / code.shape().native_count as f64;
        let repair = shards_received(&*code)? * shard;
        let sample = |figure, y| Sample::exact(figure, self.name, n as f64, y);
        Ok(vec![sample(STORAGE, storage), sample(REPAIR, repair)])
    }
}

impl Experiment for Ncfs {
    fn about(&self) -> About {
        About {
            name: "ncfs",
            title: "Storage and repair traffic of RAID and E-MBR codes",
            source: "Hu, Yu, Li, Lee, Lui: NCFS: On the Practicality and Extensibility of a Network-Coding-Based Distributed File System \
                     (2011), Table I",
            method: "Stored symbols and the symbols that the repair of one lost node receives are counted from the programs that WeftFS \
                     runs, in the mean over all nodes.",
        }
    }

    fn points(&self, _: Scale) -> Vec<Point> {
        let points = |scheme: &'static Scheme| {
            NODES.map(move |n| Point::new(format!("{}, n = {n}", scheme.name), move |_| scheme.measure(n)))
        };
        SCHEMES.iter().flat_map(points).collect()
    }

    fn figures(&self) -> Vec<Figure> {
        let printed = |figure: &'static str, formula: fn(&Scheme) -> fn(f64) -> f64| {
            let of = |scheme: &Scheme| {
                let (series, formula) = (format!("{}, printed formula", scheme.name), formula(scheme));
                NODES.map(|n| Sample::exact(figure, &series, n as f64, formula(n as f64))).collect::<Vec<_>>()
            };
            SCHEMES.iter().flat_map(of).collect()
        };
        vec![
            Figure {
                name: STORAGE,
                title: "Table I: storage",
                x: Axis::linear("nodes n"),
                y: Axis::linear("stored bytes per native byte"),
                printed: printed(STORAGE, |scheme| scheme.storage),
            },
            Figure {
                name: REPAIR,
                title: "Table I: repair of one node",
                x: Axis::linear("nodes n"),
                y: Axis::linear("bytes received per native byte"),
                printed: printed(REPAIR, |scheme| scheme.repair),
            },
        ]
    }

    fn verdict(&self, samples: &[Sample]) -> Verdict {
        let figures = self.figures();
        let printed = |sample: &Sample| {
            let series = format!("{}, printed formula", sample.series);
            let of_figure =
                figures.iter().filter(|figure| figure.name == sample.figure).flat_map(|figure| &figure.printed);
            of_figure.filter(|other| other.series == series && other.x == sample.x).map(|other| other.y).next()
        };
        let agrees =
            samples.iter().filter(|sample| printed(sample).is_some_and(|y| (sample.y - y).abs() < 1e-9)).count();
        let of = |figure: &str, series: &str, n: f64| value_at(samples, figure, series, n);
        let saving = |n| of(REPAIR, "RAID-5", n) / of(REPAIR, "E-MBR, k = n - 1", n);
        Verdict {
            agrees: format!(
                "{agrees} of {} values are those of the printed formulas; the repair of a node receives {:.1} and {:.1} times less with \
                 E-MBR (k = n - 1) than with RAID-5 at n = 4 and 8.",
                samples.len(),
                saving(4.0),
                saving(8.0)
            ),
            differs: format!(
                "The printed storage of E-MBR with k = n - 2 lacks a factor n: at n = 4 the codes store {:.3} bytes for a byte, \
                 2n(n-1)/((n-2)(n+1)), which is also what the paper's text uses.",
                of(STORAGE, "E-MBR, k = n - 2", 4.0)
            ),
        }
    }
}
