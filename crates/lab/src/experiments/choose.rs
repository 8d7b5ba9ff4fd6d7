//! Which code suits: all candidates on three example sets of nodes.

use super::counted::value_at;
use crate::experiment::{About, Axis, Experiment, Figure, Point, Sample, Scale, Verdict};
use crate::models::choice::{Needs, Node, Picture, rank, samples};
use crate::models::durability::GIB;

pub(super) struct Choose;

/// Of each figure of a set, the codes that are ranked first.
const RANKED: &str = "ranked";
const FIRST: usize = 4;

const TIB: f64 = 1024.0 * GIB;
const HOUR: f64 = 3600.0;

/// Nodes, and what is asked of a code there.
struct Example {
    name: &'static str,
    title: &'static str,
    nodes: fn() -> Vec<Node>,
    needs: Needs,
}

const EXAMPLES: [Example; 3] = [
    Example {
        name: "home",
        title: "Four unlike folders and NAS, 1 TiB of photographs",
        nodes: home,
        needs: Needs {
            annual_loss_max: 1e-4,
            capacity_bytes: TIB,
            file_bytes: 4e6,
            detection_seconds: 24.0 * HOUR,
            client_bytes_per_second: 100e6,
            repair_share: 0.5,
        },
    },
    Example {
        name: "rack",
        title: "Twelve servers in four racks, 20 TiB of large files",
        nodes: rack,
        needs: Needs {
            annual_loss_max: 1e-5,
            capacity_bytes: 20.0 * TIB,
            file_bytes: 64e6,
            detection_seconds: 0.25 * HOUR,
            client_bytes_per_second: 1.25e9,
            repair_share: 0.2,
        },
    },
    Example {
        name: "wide area",
        title: "Fourteen sites that charge for what they send, 10 TiB of large files",
        nodes: wide_area,
        needs: Needs {
            annual_loss_max: 1e-6,
            capacity_bytes: 10.0 * TIB,
            file_bytes: 64e6,
            detection_seconds: 6.0 * HOUR,
            client_bytes_per_second: 125e6,
            repair_share: 0.2,
        },
    },
];

/// A disk of this machine, two NAS, and a folder at somebody else's.
fn home() -> Vec<Node> {
    let node = |name: &str, speed, latency_ms, annual_failure_rate, room| Node {
        name: name.to_owned(),
        bytes_per_second: speed,
        latency_ms,
        // Disks that are bought for five years, and their current.
        price_per_gib_month: 0.0015,
        price_per_gib_read: 0.0,
        annual_failure_rate,
        domain: name.to_owned(),
        room_bytes: room,
        computes: false,
    };
    vec![
        node("disk", 150e6, 8.0, 0.02, 4.0 * TIB),
        node("nas1", 80e6, 10.0, 0.02, 2.0 * TIB),
        node("nas2", 40e6, 12.0, 0.04, 2.0 * TIB),
        node("friend", 5e6, 40.0, 0.05, 2.0 * TIB),
    ]
}

fn rack() -> Vec<Node> {
    let node = |number: usize| Node {
        name: format!("server{number}"),
        bytes_per_second: 500e6,
        latency_ms: 1.0,
        price_per_gib_month: 0.004,
        price_per_gib_read: 0.0,
        annual_failure_rate: 0.03,
        domain: format!("rack{}", number / 3),
        room_bytes: 16.0 * TIB,
        computes: true,
    };
    (0..12).map(node).collect()
}

/// Prices and distances as of stores that one can rent: the cheaper half charges more for reads.
fn wide_area() -> Vec<Node> {
    let node = |number: usize| Node {
        name: format!("site{number}"),
        bytes_per_second: [20e6, 50e6, 10e6][number % 3],
        latency_ms: 20.0 + 15.0 * number as f64,
        price_per_gib_month: [0.006, 0.023][number % 2],
        price_per_gib_read: [0.09, 0.01][number % 2],
        annual_failure_rate: 0.02,
        domain: format!("site{number}"),
        room_bytes: 4.0 * TIB,
        computes: false,
    };
    (0..14).map(node).collect()
}

fn measure(example: &Example) -> Result<Vec<Sample>, String> {
    let choices = rank(&(example.nodes)(), &example.needs).map_err(|error| error.to_string())?;
    let fits = choices.iter().filter(|choice| choice.room_bytes >= example.needs.capacity_bytes);
    let mut samples = samples(Picture::Loss, example.name, fits);
    let first = choices.iter().filter(|choice| choice.shortfall.is_none()).take(FIRST);
    samples.extend(first.enumerate().map(|(place, choice)| {
        let series = format!("{}, {}: {}", example.name, place + 1, choice.code);
        Sample::exact(RANKED, &series, choice.month_price, choice.repair.bytes / GIB)
    }));
    Ok(samples)
}

impl Experiment for Choose {
    fn about(&self) -> About {
        About {
            name: "choose",
            title: "Which code suits three sets of nodes",
            source: "WeftFS",
            method: "Every candidate that the nodes' domains have room for is judged as `weft choose` does: the exact shares of fatal patterns in a \
                     Markov chain of all nodes, repair and read programs as they are run on these nodes, prices of storage. A loss is that of any segment \
                     of the volume, however many sets of nodes these use. A line has those codes of a family that no other of it beats with as few bytes.",
        }
    }

    fn points(&self, _: Scale) -> Vec<Point> {
        EXAMPLES.iter().map(|example| Point::new(example.name, move |_| measure(example))).collect()
    }

    fn figures(&self) -> Vec<Figure> {
        let of_example = |example: &Example| Figure {
            name: example.name,
            title: example.title,
            x: Picture::x(),
            y: Picture::Loss.y(),
            printed: Vec::new(),
        };
        let ranked = Figure {
            name: RANKED,
            title: "The first of each set that meet its needs",
            x: Axis::logarithmic("price of a month"),
            y: Axis::logarithmic("received to repair a node (GiB)"),
            printed: Vec::new(),
        };
        EXAMPLES.iter().map(of_example).chain([ranked]).collect()
    }

    fn verdict(&self, samples: &[Sample]) -> Verdict {
        let first = |example: &Example| {
            let begin = format!("{}, 1: ", example.name);
            let found = samples.iter().find_map(|sample| Some((sample.series.strip_prefix(&begin)?, sample)));
            found.map_or(format!("no code on the nodes of {}", example.name), |(code, sample)| {
                format!("{code} for {} ({:.2} a month, repair of {:.0} GiB)", example.name, sample.x, sample.y)
            })
        };
        let firsts: Vec<String> = EXAMPLES.iter().map(first).collect();
        Verdict { agrees: format!("First come {}.", firsts.join(", ")), differs: beyond_tolerance(samples) }
    }
}

/// What the promise alone does not tell, in a sentence.
fn beyond_tolerance(samples: &[Sample]) -> String {
    let name = EXAMPLES[2].name;
    let (cube, copies) = (value_at(samples, name, "ldpc", 14.0 / 8.0), value_at(samples, name, "replica", 4.0));
    format!(
        "Storage does not say how safe a code is: in the wide area ldpc:cube-8-6, which stores 1.75 bytes for one, loses something with {cube:.1e} a \
         year; four copies, which survive any 3 losses as it does, with {copies:.1e}."
    )
}
