//! What becomes slower, or takes more memory, as a volume grows.

use super::counted::value_at;
use crate::experiment::{About, Axis, Experiment, Figure, Point, Sample, Scale, Verdict};
use crate::generated::{CODE, Data, NODES, Tree};
use crate::process::{self, Taken};
use crate::rig::{Bench, Rig};
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

pub(super) struct Growth;

/// What there is more and more of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Files of one directory.
    Files,
    /// Inodes, in directories of a thousand files.
    Inodes,
    /// Segments, one for each file, in directories of a thousand.
    Segments,
    /// Segments with a shard on a node that is lost.
    Lost,
}

/// Files of a directory, but where these are what grows.
const FILES: usize = 1000;

/// Lookups and creates of which the mean is taken.
const NAMES: usize = 100;

/// A command is run again until it has run for this long in all.
const SECONDS_MAX: f64 = 60.0;

/// The file of which `info` is asked.
const PROBE_BYTES: usize = 1 << 20;

/// What a person waits for: it must not grow with the volume, or hardly.
const WAITED_FOR: [&str; 7] =
    ["mount", "lookup", "create", "first name of a listing", "status", STATUS_DEGRADED, "info"];

const STATUS_DEGRADED: &str = "status, a node is away";

/// An exponent below this is that of a logarithm or of a constant, as far as a few measured sizes can tell.
const FLAT: f64 = 0.2;

impl Kind {
    const ALL: [Kind; 4] = [Kind::Files, Kind::Segments, Kind::Lost, Kind::Inodes];

    fn name(self) -> &'static str {
        match self {
            Kind::Files => "files of one directory",
            Kind::Inodes => "inodes",
            Kind::Segments => "segments",
            Kind::Lost => "segments to repair",
        }
    }

    fn time(self) -> &'static str {
        match self {
            Kind::Files => "time by files",
            Kind::Inodes => "time by inodes",
            Kind::Segments => "time by segments",
            Kind::Lost => "time of a repair",
        }
    }

    fn memory(self) -> &'static str {
        match self {
            Kind::Files => "memory by files",
            Kind::Inodes => "memory by inodes",
            Kind::Segments => "memory by segments",
            Kind::Lost => "memory of a repair",
        }
    }

    fn sizes(self, scale: Scale) -> &'static [usize] {
        match (scale, self) {
            (Scale::Small, Kind::Lost) => &[10, 40],
            (Scale::Small, _) => &[100, 1000],
            (Scale::Paper, Kind::Lost) => &[1_000, 10_000, 100_000],
            (Scale::Paper, Kind::Inodes) => &[100_000, 1_000_000, 10_000_000],
            (Scale::Paper, _) => &[10_000, 100_000, 1_000_000],
        }
    }

    fn tree(self, size: usize) -> Tree {
        let files = if self == Kind::Files { size } else { FILES.min(size) };
        let data = match self {
            Kind::Files | Kind::Inodes => Data::None,
            Kind::Segments => Data::Records,
            Kind::Lost => Data::Shards,
        };
        Tree { directories: size / files, files, data }
    }
}

const LOAD: &str = "load";

/// The samples of one size.
struct Found {
    kind: Kind,
    size: f64,
    samples: Vec<Sample>,
}

impl Found {
    fn new(kind: Kind, size: usize) -> Found {
        Found { kind, size: size as f64, samples: Vec::new() }
    }

    fn time(&mut self, what: &str, seconds: f64) {
        self.samples.push(Sample::exact(self.kind.time(), what, self.size, seconds));
    }

    fn memory(&mut self, what: &str, bytes: u64) {
        // A process that ended before it was looked at.
        if bytes > 0 {
            self.samples.push(Sample::exact(self.kind.memory(), what, self.size, bytes as f64 / (1 << 20) as f64));
        }
    }

    fn taken(&mut self, what: &str, taken: Taken) {
        self.time(what, taken.seconds);
        self.memory(what, taken.peak_bytes);
    }
}

/// The least time and memory of some runs.
fn least(runs: usize, mut run: impl FnMut() -> Result<Taken, String>) -> Result<Taken, String> {
    let (mut least, mut seconds): (Option<Taken>, f64) = (None, 0.0);
    for _ in 0..runs {
        let taken = run()?;
        seconds += taken.seconds;
        least = Some(least.map_or(taken, |least| Taken {
            seconds: least.seconds.min(taken.seconds),
            peak_bytes: least.peak_bytes.min(taken.peak_bytes),
        }));
        if seconds > SECONDS_MAX {
            break;
        }
    }
    least.ok_or_else(|| "nothing was run".to_owned())
}

fn measure(
    kind: Kind,
    size: usize,
    runs: usize,
    bench: &Bench,
    random: &mut ChaCha8Rng,
) -> Result<Vec<Sample>, String> {
    let mut found = Found::new(kind, size);
    let tree = kind.tree(size);
    let mut rig = Rig::over_folders(bench, CODE, NODES)?;
    tree.make(&rig.path(rig.meta()))?;
    if let Some(load) = process::load_average() {
        found.samples.push(Sample::exact(LOAD, kind.name(), found.size, load));
    }
    if kind == Kind::Lost {
        repair(&mut rig, &mut found)?;
        return Ok(found.samples);
    }
    rig.write_random("probe", PROBE_BYTES, random)?;
    rig.weft(["put", rig.meta(), "probe", "/probe"])?;
    for command in ["status", "gc", "fsck"] {
        found.taken(command, least(runs, || rig.measure([command, rig.meta()]))?);
    }
    rig.unplug_folder(0)?;
    found.taken(STATUS_DEGRADED, least(runs, || rig.measure(["status", rig.meta()]))?);
    rig.plug_folder(0)?;
    found.taken("info", least(runs, || rig.measure(["info", rig.meta(), "/probe"]))?);
    in_mounts(&mut rig, &tree, runs, &mut found, random)?;
    Ok(found.samples)
}

/// A node is lost, and another takes its place.
fn repair(rig: &mut Rig, found: &mut Found) -> Result<(), String> {
    rig.lose_folder(0)?;
    found.taken("repair", rig.measure(["repair", rig.meta()])?);
    let status = rig.weft(["status", rig.meta(), "--json"])?;
    let said: serde_json::Value = serde_json::from_slice(&status.stdout).map_err(|error| error.to_string())?;
    let whole = said["tally"]["whole_count"].as_f64();
    if whole == Some(found.size) { Ok(()) } else { Err(format!("{whole:?} of {} segments are whole", found.size)) }
}

/// Mounts of the volume, each with nothing in its caches.
fn in_mounts(
    rig: &mut Rig,
    tree: &Tree,
    runs: usize,
    found: &mut Found,
    random: &mut ChaCha8Rng,
) -> Result<(), String> {
    let (mnt, mut lowest) = (rig.mount_point(), [f64::INFINITY; 4]);
    for run in 0..runs {
        let began = Instant::now();
        rig.mount()?;
        let mounted = began.elapsed().as_secs_f64();
        let at = |error: io::Error| format!("the mount: {error}");
        let began = Instant::now();
        for _ in 0..NAMES {
            fs::symlink_metadata(mnt.join(tree.file(random.random_range(0..tree.file_count())))).map_err(at)?;
        }
        let looked_up = began.elapsed().as_secs_f64() / NAMES as f64;
        let directory = mnt.join(tree.directory(random.random_range(0..tree.directories)));
        let began = Instant::now();
        for number in 0..NAMES {
            File::create_new(directory.join(format!("new{run}-{number}"))).map_err(at)?;
        }
        let created = began.elapsed().as_secs_f64() / NAMES as f64;
        let began = Instant::now();
        fs::read_dir(&directory).map_err(at)?.next();
        let listed = began.elapsed().as_secs_f64();
        for (lowest, seconds) in lowest.iter_mut().zip([mounted, looked_up, created, listed]) {
            *lowest = lowest.min(seconds);
        }
        if run + 1 == runs {
            let process = rig.mount_process()?;
            let memory = || process::peak_bytes(process).unwrap_or(0);
            found.memory("mount, after lookups", memory());
            found.time("ls of a directory", of_system("ls", &["-U", "--color=never"], &directory)?.seconds);
            found.time("find of everything", of_system("find", &[], &mnt)?.seconds);
            found.memory("mount, after find", memory());
        }
        rig.umount()?;
    }
    for (what, seconds) in ["mount", "lookup", "create", "first name of a listing"].into_iter().zip(lowest) {
        found.time(what, seconds);
    }
    Ok(())
}

/// A program of the system that goes through a folder.
fn of_system(program: &str, flags: &[&str], folder: &Path) -> Result<Taken, String> {
    let mut command = Command::new(program);
    command.args(flags).arg(folder).stdin(Stdio::null()).stdout(Stdio::null());
    let (status, taken) =
        process::measure(&mut command).map_err(|error| format!("{program} cannot be run: {error}"))?;
    if status.success() { Ok(taken) } else { Err(format!("{program} fails")) }
}

/// By which power of the size a series grows, from its least size to its largest; `None`: it has one size or none.
fn exponent(samples: &[Sample], figure: &str, series: &str) -> Option<f64> {
    let of_series = samples.iter().filter(|sample| sample.figure == figure && sample.series == series);
    let sizes: Vec<f64> = of_series.map(|sample| sample.x).collect();
    let (low, high) = (sizes.iter().copied().fold(f64::INFINITY, f64::min), sizes.iter().copied().fold(0.0, f64::max));
    let of = |size| value_at(samples, figure, series, size);
    (low < high).then(|| (of(high) / of(low)).ln() / (high / low).ln())
}

impl Experiment for Growth {
    fn about(&self) -> About {
        About {
            name: "growth",
            title: "What grows with a volume",
            source: "Of our own: no paper measures it",
            method: "Volumes with metadata in a file (SQLite) over six folders, rs:4+2, of three sizes each: files of one directory; inodes, \
                     in directories of 1,000 files; segments of 8 MiB, one for each file, known to metadata alone; segments of 1 KiB \
                     with shards, of which a node is lost and replaced. Commands and mounts are processes; a time is the least \
                     of three runs, or of as many as take a minute, and lookups and creates are means of 100 by a new mount. Memory is \
                     resident memory at its highest. `find` runs once. The load of the machine before each is in a figure of its own: others may \
                     have used it.",
        }
    }

    fn points(&self, scale: Scale) -> Vec<Point> {
        let runs = scale.choose(1, 3);
        let of_kind = |kind: Kind| kind.sizes(scale).iter().map(move |size| (kind, *size));
        let point = |(kind, size): (Kind, usize)| {
            Point::real(format!("{}: {size}", kind.name()), move |bench, random| {
                measure(kind, size, runs, bench, random)
            })
        };
        Kind::ALL.into_iter().flat_map(of_kind).map(point).collect()
    }

    fn figures(&self) -> Vec<Figure> {
        let (seconds, mebibytes) = (Axis::logarithmic("time (s)"), Axis::logarithmic("memory at its highest (MiB)"));
        let figure = |name, title, x, y| Figure { name, title, x: Axis::logarithmic(x), y, printed: Vec::new() };
        let of_kind = |kind: Kind| {
            let (time, memory) = match kind {
                Kind::Files => ("Time, as a directory grows", "Memory, as a directory grows"),
                Kind::Inodes => ("Time, as inodes become more", "Memory, as inodes become more"),
                Kind::Segments => ("Time, as segments become more", "Memory, as segments become more"),
                Kind::Lost => ("Time of a repair of a lost node", "Memory of a repair of a lost node"),
            };
            [figure(kind.time(), time, kind.name(), seconds), figure(kind.memory(), memory, kind.name(), mebibytes)]
        };
        let load = Figure {
            y: Axis::linear("processes that ran in the last minute"),
            ..figure(LOAD, "Load of the machine before each size", "size", seconds)
        };
        Kind::ALL.into_iter().flat_map(of_kind).chain([load]).collect()
    }

    fn verdict(&self, samples: &[Sample]) -> Verdict {
        let (mut flat, mut growing) = (Vec::new(), Vec::new());
        for kind in Kind::ALL {
            for what in WAITED_FOR {
                if let Some(exponent) = exponent(samples, kind.time(), what) {
                    let text = format!("{what} by {} ({exponent:.2})", kind.name());
                    if exponent < FLAT { flat.push(text) } else { growing.push(text) }
                }
            }
        }
        let listed = |texts: &[String]| if texts.is_empty() { "nothing".to_owned() } else { texts.join(", ") };
        let of_lost = |figure| exponent(samples, figure, "repair").unwrap_or(f64::NAN);
        Verdict {
            agrees: format!(
                "Of what a person waits for, this hardly grows (in brackets the power of the size by which it does): {}.",
                listed(&flat)
            ),
            differs: format!(
                "This does: {}. A repair grows with the power {:.2} of the segments, and its memory with {:.2}.",
                listed(&growing),
                of_lost(Kind::Lost.time()),
                of_lost(Kind::Lost.memory()),
            ),
        }
    }
}
