//! RozoFS, Figures 4 and 5, and its study case: clients that edit videos of 25 MB/s.

mod player;

use super::counted::{mean_and_error, value_at};
use super::load::{Access, Load};
use crate::experiment::{About, Axis, Experiment, Figure, Point, Sample, Scale, Verdict};
use crate::rig::{Bench, Rig};
use player::{Played, Video};
use rand::RngCore;
use rand_chacha::ChaCha8Rng;
use std::path::PathBuf;

pub(super) struct VideoEditing;

const WAIT: &str = "longest wait for a frame";
const DROPPED: &str = "dropped frames";

/// A code, and how many nodes a volume of it has: RozoFS's Table 1.
#[derive(Clone, Copy)]
struct Layout {
    name: &'static str,
    spec: &'static str,
    nodes: usize,
    number: f64,
}

static LAYOUTS: [Layout; 4] = [
    Layout { name: "layout 0", spec: "mojette:layout-0,nonsystematic", nodes: 4, number: 0.0 },
    Layout { name: "layout 1", spec: "mojette:layout-1,nonsystematic", nodes: 8, number: 1.0 },
    Layout { name: WIDEST, spec: "mojette:layout-2,nonsystematic", nodes: 16, number: 2.0 },
    Layout { name: OURS, spec: "mojette:layout-0", nodes: 4, number: 0.0 },
];
const PAPER: &str = "layout 0";
const WIDEST: &str = "layout 2";
const OURS: &str = "layout 0, systematic (ours)";

/// What is read or written by one call; the paper names no size.
const RECORD_BYTES: usize = 64 << 10;

/// For multi-source editing, as in the paper; and as many streams are read for an edited video.
const THREADS: usize = 5;
/// What a stream needs, in MB/s.
const STREAM: f64 = 25.0;
const NEEDED: &str = "what 25 MB/s a thread need";

/// What becomes of a node in the middle of a video.
#[derive(Clone, Copy)]
enum Event {
    Nothing,
    Killed,
    Silent,
}

impl Event {
    const ALL: [Event; 3] = [Event::Nothing, Event::Killed, Event::Silent];

    fn name(self) -> &'static str {
        match self {
            Event::Nothing => "all nodes there",
            Event::Killed => "a node killed",
            Event::Silent => "a node falls silent",
        }
    }
}

/// How much is moved, and how often.
#[derive(Clone, Copy)]
struct Size {
    records: usize,
    runs: usize,
}

impl Layout {
    /// What is tried in the middle of a video. The widest does not keep up with all nodes there, so nothing more is tried.
    fn events(&self) -> &'static [Event] {
        if self.name == WIDEST { &Event::ALL[..1] } else { &Event::ALL }
    }

    /// Each client is a mount of its own with a volume of its own; `many_mounts.rs` has mounts of one volume.
    fn with_clients(
        &self,
        clients: usize,
        size: Size,
        bench: &Bench,
        random: &mut ChaCha8Rng,
    ) -> Result<Vec<Sample>, String> {
        let mut rates: [Vec<f64>; Access::ALL.len()] = Default::default();
        for _ in 0..size.runs {
            let mut rigs: Vec<Rig> = (0..clients)
                .map(|_| Rig::without_lines(bench, self.spec, self.nodes))
                .collect::<Result<_, String>>()?;
            let files: Vec<PathBuf> = rigs.iter().flat_map(|rig| files(rig, "file")).collect();
            for (access, rates) in Access::ALL.into_iter().zip(&mut rates) {
                // A new mount: nothing is in a cache of the client.
                rigs.iter_mut().try_for_each(Rig::mount)?;
                rates.push(whole_files(access, size.records).rate(&files, random.next_u64())? / 1e6);
                rigs.iter_mut().try_for_each(Rig::umount)?;
            }
        }
        let sample = |(access, rates): (Access, &Vec<f64>)| {
            let (mean, error) = mean_and_error(rates);
            Sample::estimated(access.name(), self.name, clients as f64, mean, error)
        };
        Ok(Access::ALL.into_iter().zip(&rates).map(sample).collect())
    }

    /// Five streams in, one out.
    fn edit(&self, event: Event, frames: usize, frame_bytes: usize, bench: &Bench) -> Result<Vec<Sample>, String> {
        let mut rig = Rig::without_lines(bench, self.spec, self.nodes)?;
        let (inputs, output) = (files(&rig, "input").collect::<Vec<_>>(), rig.mount_point().join("output"));
        rig.mount()?;
        let records = (frames * frame_bytes).div_ceil(RECORD_BYTES);
        whole_files(Access::SequentialWrite, records).rate(&inputs, 0)?;
        rig.umount()?;
        rig.mount()?;
        let video = Video { inputs, output, frame_bytes, frames };
        let Played { longest, dropped } = video.play(|| match event {
            Event::Nothing => Ok(()),
            Event::Killed => rig.kill(0),
            Event::Silent => rig.silence(0),
        })?;
        let series = format!("{}, {}", self.name, event.name());
        let wait = |(second, wait): (usize, &std::time::Duration)| {
            Sample::exact(WAIT, &series, second as f64, wait.as_secs_f64() * 1e3)
        };
        let waits = longest.iter().enumerate().map(wait);
        Ok(waits.chain([Sample::exact(DROPPED, event.name(), self.number, dropped as f64)]).collect())
    }
}

fn whole_files(access: Access, records: usize) -> Load {
    Load { access, record_bytes: RECORD_BYTES, records, touched: records }
}

/// A file for each thread of a client.
fn files(rig: &Rig, name: &'static str) -> impl Iterator<Item = PathBuf> + use<> {
    let folder = rig.mount_point();
    (0..THREADS).map(move |thread| folder.join(format!("{name}{thread}")))
}

impl Experiment for VideoEditing {
    fn about(&self) -> About {
        About {
            name: "video-editing",
            title: "Clients that edit videos on Mojette layouts",
            source: "Pertin, David, Évenou, Parrein, Normand: Distributed file system based on erasure coding for I/O-intensive \
                     applications (2014), Figures 4 and 5, and its study case",
            method: "Each client is a mount with a volume of its own, over a daemon for each node: all processes and their traffic are on one \
                     machine, without emulated lines, so that its processors are the limit. Five threads a client go through a file each \
                     in records of 64 KiB (the paper names no size), in order and at random; volumes are mounted again in between; a write \
                     ends when all is on the nodes. The edited video: five streams of 25 frames of 1 MB a second are read and one is \
                     written; a frame is dropped if it takes longer than a second; in the middle a node is killed, or stopped so that it \
                     takes requests and answers none (layouts 0 and 1).",
        }
    }

    fn points(&self, scale: Scale) -> Vec<Point> {
        let counts: &[usize] = scale.choose(&[1, 2], &[1, 2, 3, 4, 5]);
        let is_run = move |layout: &&Layout| scale == Scale::Paper || layout.number == 0.0;
        let layouts = LAYOUTS.iter().filter(is_run);
        let size = Size { records: scale.choose(32, 512), runs: scale.choose(1, 3) };
        let load = layouts.clone().flat_map(move |layout| {
            counts.iter().map(move |clients| {
                Point::real(format!("{}, clients: {clients}", layout.name), move |bench, random| {
                    layout.with_clients(*clients, size, bench, random)
                })
            })
        });
        let (frames, frame_bytes) = scale.choose((50, 64 << 10), (500, 1_000_000));
        let edited = layouts.filter(|layout| layout.name != OURS).flat_map(move |layout| {
            layout.events().iter().map(move |event| {
                Point::real(format!("{}, {}", layout.name, event.name()), move |bench, _| {
                    layout.edit(*event, frames, frame_bytes, bench)
                })
            })
        });
        load.chain(edited).collect()
    }

    fn figures(&self) -> Vec<Figure> {
        let rate = |access: Access, title, printed: Option<(f64, f64)>| {
            let needed = (1..=5).map(|clients| {
                let needed = STREAM * (clients * THREADS) as f64;
                Sample::exact(access.name(), NEEDED, f64::from(clients as u32), needed)
            });
            let printed = printed.map(|(clients, rate)| Sample::exact(access.name(), "the paper", clients, rate));
            Figure {
                name: access.name(),
                title,
                x: Axis::linear("clients with five threads each"),
                y: Axis::linear("rate of all threads (MB/s)"),
                printed: needed.chain(printed).collect(),
            }
        };
        let [write, read, random_read, random_write] = Access::ALL;
        vec![
            rate(write, "Figure 4: sequential write", None),
            rate(read, "Figure 4: sequential read", Some((5.0, 1800.0))),
            rate(random_read, "Figure 5: random read", None),
            rate(random_write, "Figure 5: random write", Some((3.0, 350.0))),
            Figure {
                name: WAIT,
                title: "The study case: an edited video, a node lost in the middle",
                x: Axis::linear("second of the video"),
                y: Axis::logarithmic("longest that a frame took (ms)"),
                printed: Vec::new(),
            },
            Figure {
                name: DROPPED,
                title: "The study case: dropped frames",
                x: Axis::linear("layout"),
                y: Axis::linear("frames dropped of all streams"),
                printed: Vec::new(),
            },
        ]
    }

    fn verdict(&self, samples: &[Sample]) -> Verdict {
        let most_clients = samples.iter().filter(|sample| sample.figure == Access::SequentialRead.name());
        let clients = most_clients.map(|sample| sample.x).fold(0.0, f64::max);
        let each = |access: Access, series: &str, clients: f64| {
            value_at(samples, access.name(), series, clients) / (clients * THREADS as f64)
        };
        let of = |access| format!("{:.0} ({})", each(access, PAPER, 1.0), verdict_of(each(access, PAPER, 1.0)));
        let [write, read, random_read, random_write] = Access::ALL.map(of);
        let of_dropped = |is_widest: bool| {
            samples.iter().filter(move |sample| sample.figure == DROPPED && (sample.x == 2.0) == is_widest)
        };
        let dropped = |event: Event| -> f64 {
            of_dropped(false).filter(|sample| sample.series == event.name()).map(|sample| sample.y).sum()
        };
        let widest = of_dropped(true).map(|sample| {
            format!(
                " On layout 2, where every read decodes twelve wide, {:.0} frames are dropped with all nodes there.",
                sample.y
            )
        });
        let longest = |event: Event| {
            let end = event.name();
            let of_event = samples.iter().filter(|sample| sample.figure == WAIT && sample.series.ends_with(end));
            let waits = of_event.filter(|sample| !sample.series.starts_with(WIDEST));
            waits.map(|sample| sample.y).fold(0.0, f64::max)
        };
        Verdict {
            agrees: format!(
                "Each of one client's five threads gets, in MB/s, on layout 0: {write} writing and {read} reading in order, {random_read} reading \
                 and {random_write} writing at random. Of the videos edited on layouts 0 and 1, {:.0} frames are dropped with all \
                 nodes there, {:.0} when one is killed, {:.0} when one falls silent; the longest that a frame takes is {:.0}, {:.0} and {:.0} ms.",
                dropped(Event::Nothing),
                dropped(Event::Killed),
                dropped(Event::Silent),
                longest(Event::Nothing),
                longest(Event::Killed),
                longest(Event::Silent),
            ),
            differs: format!(
                "The paper's six servers have their own processors and lines, so that it scales to five clients; here all share one machine, \
                 and a thread of {clients:.0} clients gets {:.0} MB/s reading in order ({:.0} in the systematic form, which decodes nothing).{}",
                each(Access::SequentialRead, PAPER, clients),
                each(Access::SequentialRead, OURS, clients),
                widest.collect::<String>(),
            ),
        }
    }
}

/// Beside what a stream needs.
fn verdict_of(rate: f64) -> &'static str {
    if rate >= STREAM { "enough" } else { "too little" }
}
