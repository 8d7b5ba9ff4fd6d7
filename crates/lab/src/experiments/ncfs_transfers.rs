//! NCFS, Experiments 1 to 3: upload, download, degraded download and repair over lines of the paper's bandwidth.

use super::counted::{code, mean_and_error, value_at};
use super::repaired::Repaired;
use crate::experiment::{About, Axis, Experiment, Figure, Point, Sample, Scale, Verdict};
use crate::line::{Cable, Line, megabits};
use crate::rig::{Bench, Rig};
use rand_chacha::ChaCha8Rng;
use weft_codes::analysis;

pub(super) struct NcfsTransfers;

const UPLOAD: &str = "upload";
const DOWNLOAD: &str = "download";
const DEGRADED: [&str; 2] = ["download with one node lost", "download with two nodes lost"];
const REPAIR: [&str; 2] = ["repair of one node", "repair of the first of two nodes"];

/// Gigabit Ethernet; for the department network the paper names no bandwidth, only that sending to a new node is its bottleneck.
const GIGABIT: f64 = 1000.0;
const SLOW_UPLINK: f64 = 100.0;

/// What is stored how, and how many nodes it may lose.
#[derive(Clone, Copy)]
struct Scheme {
    name: &'static str,
    spec: fn(usize) -> String,
    tolerated: usize,
}

/// The paper's four, and ours for the same job: any two losses at the least storage, repaired by the least traffic.
static SCHEMES: [Scheme; 5] = [
    Scheme { name: RAID5, spec: |n| format!("raid5:{n}"), tolerated: 1 },
    Scheme { name: "RAID-6", spec: |n| format!("raid6:{n}"), tolerated: 2 },
    Scheme { name: EMBR, spec: |n| format!("embr:n={n},k={}", n - 1), tolerated: 1 },
    Scheme { name: "E-MBR, k = n - 2", spec: |n| format!("embr:n={n},k={}", n - 2), tolerated: 2 },
    Scheme { name: "Clay, two parities (ours)", spec: |n| format!("clay:{}+2", n - 2), tolerated: 2 },
];
const RAID5: &str = "RAID-5";
const EMBR: &str = "E-MBR, k = n - 1";

/// The client's line.
#[derive(Clone, Copy, PartialEq)]
enum Setting {
    Gigabit,
    SlowUplink,
}

impl Setting {
    fn line(self) -> Line {
        let even = Line::even(megabits(GIGABIT));
        match self {
            Setting::Gigabit => even,
            Setting::SlowUplink => Line { up_bytes_per_second: megabits(SLOW_UPLINK), ..even },
        }
    }

    fn series(self, scheme: &str) -> String {
        match self {
            Setting::Gigabit => scheme.to_owned(),
            Setting::SlowUplink => format!("{scheme}, slow uplink"),
        }
    }
}

/// How much is moved, and how often.
#[derive(Clone, Copy)]
struct Size {
    file_bytes: usize,
    runs: usize,
}

impl Scheme {
    fn measure(
        &self,
        n: usize,
        setting: Setting,
        size: Size,
        bench: &Bench,
        random: &mut ChaCha8Rng,
    ) -> Result<Vec<Sample>, String> {
        let mut runs: Vec<(&'static str, Vec<f64>)> = Vec::new();
        for _ in 0..size.runs {
            for (figure, throughput) in self.measure_once(n, setting, size.file_bytes, bench, random)? {
                match runs.iter_mut().find(|(name, _)| *name == figure) {
                    Some((_, runs)) => runs.push(throughput),
                    None => runs.push((figure, vec![throughput])),
                }
            }
        }
        let sample = |(figure, runs): (&str, Vec<f64>)| {
            let (mean, error) = mean_and_error(&runs);
            Sample::estimated(figure, &setting.series(self.name), n as f64, mean, error)
        };
        Ok(runs.into_iter().map(sample).collect())
    }

    /// One volume's life: each figure with its throughput, in megabytes a second.
    fn measure_once(
        &self,
        n: usize,
        setting: Setting,
        file_bytes: usize,
        bench: &Bench,
        random: &mut ChaCha8Rng,
    ) -> Result<Vec<(&'static str, f64)>, String> {
        let spec = (self.spec)(n);
        let cables: Vec<_> = (0..n).map(|_| Cable::new(Line::even(megabits(GIGABIT)))).collect();
        let mut rig = Rig::start(bench, &spec, &cables, setting.line())?;
        rig.write_random("file", file_bytes, random)?;
        let megabytes = file_bytes as f64 / 1e6;
        let upload = rig.weft(["put", "meta", "file", "/file"])?.seconds;
        let download =
            |rig: &Rig| rig.weft_to_nowhere(["get", "meta", "/file", "-"]).map(|seconds| megabytes / seconds);
        let mut throughputs = vec![(UPLOAD, megabytes / upload), (DOWNLOAD, download(&rig)?)];
        for (lost, figure) in DEGRADED.iter().enumerate().take(self.tolerated) {
            rig.kill(lost)?;
            throughputs.push((figure, download(&rig)?));
        }
        // The first of two, then the other.
        let useful = 1.0 / analysis::storage_factor(code(&spec)?.shape());
        for (node, others) in (0..self.tolerated).zip((0..self.tolerated).rev()) {
            rig.replace(node)?;
            let Repaired { bytes_written, seconds, .. } = Repaired::of(&rig)?;
            throughputs.push((REPAIR[others], useful * bytes_written / 1e6 / seconds));
        }
        Ok(throughputs)
    }
}

impl Experiment for NcfsTransfers {
    fn about(&self) -> About {
        About {
            name: "ncfs-transfers",
            title: "Upload, download and repair of RAID and E-MBR codes over 1 Gbit/s lines",
            source: "Hu, Yu, Li, Lee, Lui: NCFS (2011), Experiments 1 to 3 (Figures 4 to 6)",
            method: "A daemon serves each node, behind a line of 1 Gbit/s each way; all lines end in the client's own of 1 Gbit/s, or with a \
                     slow uplink of 100 Mbit/s towards the nodes (the paper names no bandwidth for its department network). A file of \
                     256 MB is put and got by the program; then node 0, and node 1 where the code allows it, are killed, the file is got \
                     again, and each is replaced by an empty one and repaired. The throughput of a repair is the paper's effective one, \
                     (1 - f)N/T. Times are those of whole commands.",
        }
    }

    fn points(&self, scale: Scale) -> Vec<Point> {
        let file_bytes = scale.choose(4 << 20, 256 << 20);
        let runs = scale.choose(1, 5);
        let gigabit: &[usize] = scale.choose(&[4], &[4, 8]);
        // At a tenth of the bandwidth: a shorter file, and fewer runs.
        let slow = Size { file_bytes: scale.choose(1 << 20, 64 << 20), runs: scale.choose(1, 3) };
        let settings = gigabit.iter().map(|n| (*n, Setting::Gigabit, Size { file_bytes, runs }));
        let settings = settings.chain([(4, Setting::SlowUplink, slow)]);
        let point = |(n, setting, size): (usize, Setting, Size)| {
            SCHEMES.iter().map(move |scheme| {
                let name = format!("{}, n = {n}", setting.series(scheme.name));
                Point::real(name, move |bench, random| scheme.measure(n, setting, size, bench, random))
            })
        };
        settings.flat_map(point).collect()
    }

    fn figures(&self) -> Vec<Figure> {
        let figure = |name, title| Figure {
            name,
            title,
            x: Axis::linear("nodes n"),
            y: Axis::linear("throughput (MB/s)"),
            printed: Vec::new(),
        };
        vec![
            figure(UPLOAD, "Figure 4 (a): upload"),
            figure(DOWNLOAD, "Figure 4 (b): download"),
            figure(DEGRADED[0], "Figure 5 (a): download with one node lost"),
            figure(DEGRADED[1], "Figure 5 (b): download with two nodes lost"),
            figure(REPAIR[0], "Figure 6 (a): repair of one node, effective"),
            figure(REPAIR[1], "Figure 6 (b): repair of the first of two nodes, effective"),
        ]
    }

    fn verdict(&self, samples: &[Sample]) -> Verdict {
        let of = |figure: &str, series: &str, n: f64| value_at(samples, figure, series, n);
        let gain = |n| of(REPAIR[0], EMBR, n) / of(REPAIR[0], RAID5, n);
        let slow = Setting::SlowUplink;
        let slow_gain = of(REPAIR[0], &slow.series(EMBR), 4.0) / of(REPAIR[0], &slow.series(RAID5), 4.0);
        let gains: Vec<String> = [(4.0, 1.91), (8.0, 2.61)]
            .into_iter()
            .filter(|(n, _)| gain(*n).is_finite())
            .map(|(n, printed)| format!("{:.2} times at n = {n} (the paper: {printed})", gain(n)))
            .collect();
        let order = if slow_gain < gain(4.0) { "less" } else { "no less" };
        let uploads = of(UPLOAD, EMBR, 4.0) / of(UPLOAD, RAID5, 4.0);
        Verdict {
            agrees: format!(
                "E-MBR (k = n - 1) repairs a node faster than RAID-5 by {}; over a slow uplink the gain at n = 4 is {order}: {slow_gain:.2} \
                 times.",
                gains.join(" and ")
            ),
            differs: format!(
                "E-MBR (k = n - 1) uploads at {uploads:.2} times the throughput of RAID-5, where the paper has it in front: its program \
                 reads and changes code blocks in place, while segments here are written once, so that an upload costs what it stores."
            ),
        }
    }
}
