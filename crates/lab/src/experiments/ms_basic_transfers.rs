//! MS-BASIC in HDFS-RAID, Figures 3 to 6: encoding, degraded read and recovery over lines of 100 Mbit/s.

use super::counted::{mean_and_error, value_at};
use super::repaired::Repaired;
use crate::experiment::{About, Axis, Experiment, Figure, Point, Sample, Scale, Verdict};
use crate::line::{Cable, Line, megabits};
use crate::rig::{Bench, Rig};
use rand_chacha::ChaCha8Rng;

pub(super) struct MsBasicTransfers;

const ENCODING: &str = "encoding";
const DEGRADED: &str = "degraded read";
const RECOVERY: &str = "recovery";
const TRAFFIC: &str = "traffic";
const FIGURES: [&str; 4] = [ENCODING, DEGRADED, RECOVERY, TRAFFIC];

/// Every machine's Ethernet in the paper.
const LINE: f64 = 100.0;

/// The paper's blocks are of 64 MB; traffic is that of one of them.
const BLOCK_MEGABYTES: f64 = 64.0;

/// A name, and the code of `k` data blocks and as many parities.
struct Scheme {
    name: &'static str,
    spec: fn(usize) -> String,
}

const CRS: &str = "CRS";
const PRINTED: &str = "MS-BASIC as printed";

static SCHEMES: [Scheme; 5] = [
    Scheme { name: CRS, spec: |k| format!("crs:{k}+{k}") },
    Scheme { name: PRINTED, spec: |k| format!("msbasic:{k}") },
    Scheme { name: "BASIC, d = 2k - 2", spec: |k| format!("basic:{k}+{k},d={}", 2 * k - 2) },
    Scheme { name: "MSR, d = n - 1", spec: |k| format!("msr:{k}+{k},d={}", 2 * k - 1) },
    Scheme { name: "Clay (ours)", spec: |k| format!("clay:{k}+{k}") },
];

impl Scheme {
    fn measure(
        &self,
        k: usize,
        (file_bytes, runs): (usize, usize),
        bench: &Bench,
        random: &mut ChaCha8Rng,
    ) -> Result<Vec<Sample>, String> {
        let runs: Vec<[f64; 4]> =
            (0..runs).map(|_| self.measure_once(k, file_bytes, bench, random)).collect::<Result<_, String>>()?;
        let sample = |(index, figure): (usize, &&str)| {
            let (mean, error) = mean_and_error(&runs.iter().map(|run| run[index]).collect::<Vec<_>>());
            Sample::estimated(figure, self.name, k as f64, mean, error)
        };
        Ok(FIGURES.iter().enumerate().map(sample).collect())
    }

    /// One volume's life: megabytes a second of encoding, degraded read and recovery; megabytes of traffic for a block.
    fn measure_once(
        &self,
        k: usize,
        file_bytes: usize,
        bench: &Bench,
        random: &mut ChaCha8Rng,
    ) -> Result<[f64; 4], String> {
        let line = Line::even(megabits(LINE));
        let cables: Vec<_> = (0..2 * k).map(|_| Cable::new(line)).collect();
        let mut rig = Rig::start(bench, &(self.spec)(k), &cables, line)?;
        rig.write_random("file", file_bytes, random)?;
        let megabytes = file_bytes as f64 / 1e6;
        let encoding = megabytes / rig.weft(["put", "meta", "file", "/file"])?.seconds;
        rig.kill(0)?;
        let degraded = megabytes / rig.weft_to_nowhere(["get", "meta", "/file", "-"])?;
        rig.replace(0)?;
        let Repaired { bytes_read, bytes_written, seconds } = Repaired::of(&rig)?;
        let recovery = bytes_written / 1e6 / seconds;
        let traffic = BLOCK_MEGABYTES * (bytes_read + bytes_written) / bytes_written;
        Ok([encoding, degraded, recovery, traffic])
    }
}

impl Experiment for MsBasicTransfers {
    fn about(&self) -> About {
        About {
            name: "ms-basic-transfers",
            title: "Encoding, degraded read and recovery of MS-BASIC over 100 Mbit/s lines",
            source: "Tian, Chen, Hou, Li: MS-BASIC codes in HDFS-RAID, Figures 3 to 6",
            method: "A daemon serves each of the 2k nodes behind a line of 100 Mbit/s each way, and the client, which stands for the RaidNode, \
                     has such a line too. A file of 64 MiB is put, so that the client encodes it and sends n blocks for k; a daemon is killed \
                     and the file is got; an empty daemon takes its place and `weft repair` rebuilds its blocks. Speeds are those of the \
                     paper: data by time, and rebuilt blocks by time. Traffic is what the client receives and sends for a block of 64 MB.",
        }
    }

    fn points(&self, scale: Scale) -> Vec<Point> {
        let size = scale.choose((1 << 20, 1), (64 << 20, 2));
        let ks: &[usize] = scale.choose(&[4], &[4, 6, 8]);
        let point = |k: usize| {
            SCHEMES.iter().map(move |scheme| {
                let name = format!("{}, ({k}, {})", scheme.name, 2 * k);
                Point::real(name, move |bench, random| scheme.measure(k, size, bench, random))
            })
        };
        ks.iter().copied().flat_map(point).collect()
    }

    fn figures(&self) -> Vec<Figure> {
        let figure = |name, title, y, printed| Figure { name, title, x: Axis::linear("data blocks k"), y, printed };
        let speed = Axis::linear("speed (MB/s)");
        let degraded = vec![Sample::exact(DEGRADED, "MS-BASIC, printed", 8.0, 5.81)];
        vec![
            figure(ENCODING, "Figure 3: encoding", speed, Vec::new()),
            figure(DEGRADED, "Figure 4: degraded read", speed, degraded),
            figure(RECOVERY, "Figure 5: recovery", speed, Vec::new()),
            figure(TRAFFIC, "Figure 6: traffic for a block of 64 MB", Axis::linear("traffic (MB)"), Vec::new()),
        ]
    }

    fn verdict(&self, samples: &[Sample]) -> Verdict {
        let gains = |figure: &str, is_less_better: bool| -> Vec<String> {
            let of = |series, k: usize| value_at(samples, figure, series, k as f64);
            let gain = |k| if is_less_better { of(CRS, k) / of(PRINTED, k) } else { of(PRINTED, k) / of(CRS, k) };
            [4, 6, 8].into_iter().map(gain).filter(|gain| gain.is_finite()).map(|gain| format!("{gain:.2}")).collect()
        };
        let list = |gains: Vec<String>| gains.join(", ");
        Verdict {
            agrees: format!(
                "MS-BASIC as printed recovers a block {} times as fast as CRS (the paper: nearly 1.5), with {} times less traffic, received and \
                 sent together.",
                list(gains(RECOVERY, false)),
                list(gains(TRAFFIC, true)),
            ),
            differs: format!(
                "The paper measured 2.67, 2.86 and 3.1 times less traffic: its Reed-Solomon decoder reads all n - 1 survivors, where k are \
                 enough. A degraded read of MS-BASIC is {} times as fast as of CRS (the paper: 1.49 and 1.44): the data that is left is read \
                 plainly for both, and only the lost block's share of a stripe needs more.",
                list(gains(DEGRADED, false))
            ),
        }
    }
}
