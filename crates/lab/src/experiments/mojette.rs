//! RozoFS, Table 1, and the paper's future work: what the Mojette transform stores, and what it costs a processor.

use super::counted::{code, value_at};
use crate::experiment::{About, Axis, Experiment, Figure, Point, Sample, Scale, Verdict};
use std::time::{Duration, Instant};
use weft_codes::families::mojette::{Form, Storage};
use weft_codes::measure::{self, Effort, Memory, Place, Spacing, Speed};
use weft_codes::{analysis, executor};

pub(super) struct Mojette;

const STORAGE: &str = "storage";

/// The paper's three, as data and parity.
const LAYOUTS: [(usize, usize); 3] = [(2, 1), (4, 2), (8, 4)];

/// What fills a grid in the paper.
const BLOCK_BYTES: usize = 8 << 10;
/// Bytes of an element for the figures of storage: a word.
const ELEMENT_BYTES: usize = 8;
const PAPER: &str = "Mojette, the paper's form";
const SYSTEMATIC: &str = "Mojette, systematic (ours)";
const AS_STORED: &str = "Mojette, systematic, with cells of one length (ours)";
const REED_SOLOMON: &str = "Reed-Solomon";

/// What is compared: a name, and the code of `k` data shards and `m` parities.
type Scheme = (&'static str, fn(usize, usize) -> String);

static SCHEMES: [Scheme; 4] = [
    (PAPER, |k, m| format!("mojette:{k}+{m},nonsystematic")),
    (SYSTEMATIC, |k, m| format!("mojette:{k}+{m}")),
    (REED_SOLOMON, |k, m| format!("rs:{k}+{m}")),
    ("Reed-Solomon by XOR (Jerasure's)", |k, m| format!("crs:{k}+{m}")),
];

/// Cells that are coded at once, and the figures of what that costs.
struct Size {
    name: &'static str,
    cell_bytes: usize,
    encode: &'static str,
    decode: &'static str,
}

/// The least in which a volume cuts files, and one for large files.
static SIZES: [Size; 2] = [
    Size {
        name: "cells of 64 KiB",
        cell_bytes: 64 << 10,
        encode: "encode cells of 64 KiB",
        decode: "decode cells of 64 KiB",
    },
    Size {
        name: "cells of 1 MiB",
        cell_bytes: 1 << 20,
        encode: "encode cells of 1 MiB",
        decode: "decode cells of 1 MiB",
    },
];

fn storage(layout: usize) -> Result<Vec<Sample>, String> {
    let (k, m) = LAYOUTS[layout];
    let columns = BLOCK_BYTES / k / ELEMENT_BYTES;
    let factor = |form| Storage::new(k, m, columns, form).factor_without_padding();
    let sample = |series, factor| Sample::exact(STORAGE, series, layout as f64, factor);
    let as_stored = analysis::storage_factor(code(&format!("mojette:{k}+{m}"))?.shape());
    Ok(vec![
        sample(PAPER, factor(Form::Nonsystematic)),
        sample(SYSTEMATIC, factor(Form::Systematic)),
        sample(AS_STORED, as_stored),
        sample(REED_SOLOMON, (k + m) as f64 / k as f64),
    ])
}

/// Nanoseconds of a core for a KiB of data.
fn cost(size: &Size, (name, spec): &Scheme, layout: usize, effort: Effort) -> Result<Vec<Sample>, String> {
    let (k, m) = LAYOUTS[layout];
    let place = Place { name: size.name, cell_bytes: size.cell_bytes, span_bytes: 0, spacing: Spacing::Lines };
    let start = Instant::now();
    let clock = || start.elapsed();
    let speeds = measure::code(&*code(&spec(k, m))?, executor(), &place, effort, &mut Memory::new(), &clock)
        .map_err(|error| error.to_string())?;
    let sample = |figure, speed: Option<Speed>| {
        let speed = speed.ok_or_else(|| format!("{name} has nothing to compute"))?;
        Ok(Sample::exact(figure, name, layout as f64, speed.seconds * 1e9 / (speed.bytes as f64 / 1024.0)))
    };
    [sample(size.encode, speeds.encode), sample(size.decode, speeds.decode)].into_iter().collect()
}

impl Experiment for Mojette {
    fn about(&self) -> About {
        About {
            name: "mojette",
            title: "RozoFS's layouts: what the Mojette transform stores and computes",
            source: "Pertin, David, Évenou, Parrein, Normand: Distributed file system based on erasure coding for I/O-intensive \
                     applications (2014), Table 1, and its future work",
            method: "Stored bytes are counted: blocks of 8 KiB of words of 8 bytes, projections as long as they are; and as a volume here \
                     stores them, with wider elements and all cells as long as the longest. Costs are measured on one core, the best of many \
                     rounds that take turns: all parities from the data, and the data with as many nodes lost as the layout allows. Blocks of \
                     8 KiB are not measured: a volume here cuts files in cells of 64 KiB and more, and its kernels are made for them.",
        }
    }

    fn points(&self, scale: Scale) -> Vec<Point> {
        let effort = scale.choose(Effort { rounds: 3, round: Duration::from_micros(200) }, Effort::default());
        let stored = (0..LAYOUTS.len())
            .map(|layout| Point::new(format!("storage of layout {layout}"), move |_| storage(layout)));
        let costs = SIZES.iter().flat_map(move |size| {
            SCHEMES.iter().flat_map(move |scheme| {
                (0..LAYOUTS.len()).map(move |layout| {
                    let name = format!("{}, layout {layout}, {}", scheme.0, size.name);
                    Point::real(name, move |_, _| cost(size, scheme, layout, effort))
                })
            })
        });
        stored.chain(costs).collect()
    }

    fn figures(&self) -> Vec<Figure> {
        let figure = |name, title, y, printed| Figure { name, title, x: Axis::linear("layout"), y, printed };
        let printed = (0..LAYOUTS.len()).map(|layout| Sample::exact(STORAGE, "Table 1, n/k", layout as f64, 1.5));
        let cost = Axis::linear("a core's time (ns/KiB of data)");
        vec![
            figure(
                STORAGE,
                "Table 1: storage, blocks of 8 KiB",
                Axis::linear("stored bytes per byte of data"),
                printed.collect(),
            ),
            figure(SIZES[0].encode, "Encoding cells of 64 KiB", cost, Vec::new()),
            figure(SIZES[0].decode, "Decoding cells of 64 KiB, m nodes lost", cost, Vec::new()),
            figure(SIZES[1].encode, "Encoding cells of 1 MiB", cost, Vec::new()),
            figure(SIZES[1].decode, "Decoding cells of 1 MiB, m nodes lost", cost, Vec::new()),
        ]
    }

    fn verdict(&self, samples: &[Sample]) -> Verdict {
        let ratios = |figure: &str, one: &str, other: &str| -> String {
            let ratio = |layout: f64| value_at(samples, figure, one, layout) / value_at(samples, figure, other, layout);
            [0.0, 1.0, 2.0].map(|layout| format!("{:.2}", ratio(layout))).join(", ")
        };
        let stored = |series: &str| [0.0, 1.0, 2.0].map(|at| format!("{:.3}", value_at(samples, STORAGE, series, at)));
        let [short, long] = &SIZES;
        let times = |size: &Size, series| {
            let [encode, decode] = [size.encode, size.decode].map(|figure| ratios(figure, series, REED_SOLOMON));
            format!("{encode} of its time to encode and {decode} to decode in {}", size.name)
        };
        Verdict {
            agrees: format!(
                "Beside Reed-Solomon, the systematic transform takes on layouts 0, 1 and 2, with m nodes lost: {}; {}.",
                times(short, SYSTEMATIC),
                times(long, SYSTEMATIC),
            ),
            differs: format!(
                "Table 1's n/k = 1.5 is a bound from below: in blocks of 8 KiB the paper's form stores {} bytes for a byte and the systematic one {}; \
                 this program's equal cells {}. The paper's form computes all n shards and decodes every read. Beside Reed-Solomon it takes {}.",
                stored(PAPER).join(", "),
                stored(SYSTEMATIC).join(", "),
                stored(AS_STORED).join(", "),
                times(short, PAPER),
            ),
        }
    }
}
