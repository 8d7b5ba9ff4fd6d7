//! The five graphs that the wide-area study publishes: how many blocks they need.

use super::counted::value_at;
use crate::experiment::{About, Axis, Experiment, Figure, Point, Sample, Scale, Verdict};
use rand::RngCore;
use weft_codes::families::ldpc::{self, Decoder};

pub(super) struct Overhead;

const OVERHEAD: &str = "overhead";

/// Data blocks of each graph, as many as its checks, and the overhead that the appendix prints.
const PRINTED: [(usize, f64); 5] = [(5, 5.464), (10, 11.416), (20, 23.884), (50, 63.969_44), (100, 114.81)];

const DECODERS: [(&str, Decoder); 2] = [("peeling", Decoder::Peeling), ("elimination", Decoder::Elimination)];

fn measure(n: usize, name: &str, decoder: Decoder, orders: usize, seed: u64) -> Result<Vec<Sample>, String> {
    let graph = ldpc::named_or_given(&format!("plank-{n}")).map_err(|_| "there is no such graph")?;
    let factor = |blocks: f64| blocks / n as f64;
    let sample = match ldpc::profile(&graph, decoder) {
        Some(profile) => Sample::exact(OVERHEAD, name, n as f64, factor(profile.mean_blocks())),
        None => {
            let drawn = ldpc::sampled_blocks_needed(&graph, decoder, orders, seed);
            Sample::estimated(OVERHEAD, name, n as f64, factor(drawn.mean), factor(drawn.standard_error))
        }
    };
    Ok(vec![sample])
}

impl Experiment for Overhead {
    fn about(&self) -> About {
        About {
            name: "overhead",
            title: "What the published graphs need",
            source: "Collins, Plank: Assessing the Performance of Erasure Codes in the Wide-Area (2004), appendix",
            method: "Blocks are drawn in random order until all data follow; every block drawn counts. Graphs of up to 20 blocks are \
                     counted exactly, over all sets of blocks; of larger ones random orders are drawn. Peeling is the paper's decoder; \
                     elimination solves what peeling leaves, as WeftFS does.",
        }
    }

    fn points(&self, scale: Scale) -> Vec<Point> {
        let orders = scale.choose(500, 200_000);
        let points = |(n, _): (usize, f64)| {
            DECODERS.map(|(name, decoder)| {
                Point::new(format!("n={n} {name}"), move |random| measure(n, name, decoder, orders, random.next_u64()))
            })
        };
        PRINTED.into_iter().flat_map(points).collect()
    }

    fn figures(&self) -> Vec<Figure> {
        let printed = PRINTED.map(|(n, blocks)| Sample::exact(OVERHEAD, "printed", n as f64, blocks / n as f64));
        vec![Figure {
            name: OVERHEAD,
            title: "Appendix: overhead of the graphs",
            x: Axis::logarithmic("data blocks n"),
            y: Axis::linear("blocks drawn until all data follow, per data block"),
            printed: printed.to_vec(),
        }]
    }

    fn verdict(&self, samples: &[Sample]) -> Verdict {
        let of = |decoder: &str, n: usize| value_at(samples, OVERHEAD, decoder, n as f64);
        let farthest = PRINTED.iter().map(|(n, blocks)| (of("peeling", *n) * *n as f64 / blocks - 1.0).abs());
        let farthest = farthest.fold(0.0, f64::max);
        Verdict {
            agrees: format!(
                "All five graphs need what the appendix prints within {:.1} %.",
                (farthest * 1000.0).ceil() / 10.0
            ),
            differs: format!(
                "The printed values are estimates of some hundred orders, chosen because they looked best: for n = 5 5.464 is printed, \
                 the exact value of the printed graph is 155/28 = 5.536, and no graph of 5+5 needs less. Elimination after \
                 peeling needs {:.3} instead of {:.3} blocks per data block at n = 50.",
                of("elimination", 50),
                of("peeling", 50)
            ),
        }
    }
}
