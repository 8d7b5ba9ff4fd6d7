//! RozoFS's experiment and CERN's on one volume: 1 to 5 mounts, and 1 to 50 clients, with metadata on a server.

use super::counted::value_at;
use super::load::{Access, BLOCK_BYTES, Load};
use crate::experiment::{About, Axis, Experiment, Figure, Point, Sample, Scale, Verdict};
use crate::rig::{Bench, Rig};
use rand::RngCore;
use rand_chacha::ChaCha8Rng;
use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::Instant;

pub(super) struct ManyMounts;

const MOUNTS: &str = "mounts together";
const EACH_MOUNT: &str = "each mount";
const MOUNT_RATES: &str = "rates of mounts";
const CLIENTS: &str = "clients together";
const EACH_CLIENT: &str = "each client";
const CLIENT_RATES: &str = "rates of clients";

const CODE: &str = "rs:4+2";
const NODES: usize = 6;

/// Of a mount, as in RozoFS's paper; each has a file.
const THREADS: usize = 5;
/// What is read or written by one call, in order and at random.
const RECORD_BYTES: usize = 64 << 10;

/// What a client does with a whole file.
const PUT: &str = "put";
const GET: &str = "get";

/// How much is moved, and how often.
#[derive(Clone, Copy)]
struct Size {
    counts: &'static [usize],
    /// Of a file.
    bytes: usize,
    /// Records of a file that are read or written at random.
    touched: usize,
    runs: usize,
}

/// Rates of some mounts or clients at once, in bytes a second: of all together, and the mean of each by itself.
#[derive(Clone, Copy, Default)]
struct Rates {
    together: f64,
    each: f64,
}

impl Rates {
    fn best(self, other: Rates) -> Rates {
        if other.together > self.together { other } else { self }
    }
}

/// Where samples of mounts or clients go.
struct Figures {
    together: &'static str,
    each: &'static str,
    rates: &'static str,
}

impl Figures {
    /// Rates by count, the first of which is that of one: the others are compared with it.
    fn samples(&self, series: &str, counts: &[usize], rates: &[Rates]) -> Vec<Sample> {
        let one = rates.first().copied().unwrap_or_default();
        let of_count = |(count, rates): (&usize, &Rates)| {
            let sample = |figure, y| Sample::exact(figure, series, *count as f64, y);
            [
                sample(self.together, rates.together / one.together),
                sample(self.each, rates.each / one.each),
                sample(self.rates, rates.together / 1e6),
            ]
        };
        counts.iter().zip(rates).flat_map(of_count).collect()
    }
}

fn load(access: Access, size: Size) -> Load {
    if access.is_random() {
        Load { access, record_bytes: BLOCK_BYTES, records: size.bytes / BLOCK_BYTES, touched: size.touched }
    } else {
        let records = size.bytes / RECORD_BYTES;
        Load { access, record_bytes: RECORD_BYTES, records, touched: records }
    }
}

/// All counts of mounts in turn, on one volume in each run; of the runs of each the best counts.
fn with_mounts(size: Size, bench: &Bench, random: &mut ChaCha8Rng) -> Result<Vec<Sample>, String> {
    let mut best = [(); Access::ALL.len()].map(|()| vec![Rates::default(); size.counts.len()]);
    for _ in 0..size.runs {
        // A new volume: what the run before has overwritten is gone with it.
        let mut rig = Rig::on_server(bench, CODE, NODES)?;
        for (at, count) in size.counts.iter().enumerate() {
            for (access, best) in Access::ALL.into_iter().zip(&mut best) {
                // New mounts: nothing is in a cache of a client.
                rig.mount_together(*count)?;
                let files = files(&rig)?;
                let load = load(access, size);
                let seconds = load.run(&files, random.next_u64())?;
                let each = seconds.chunks(THREADS).map(|of_mount| load.rate_of(of_mount)).sum::<f64>() / *count as f64;
                best[at] = best[at].best(Rates { together: load.rate_of(&seconds), each });
                rig.umount()?;
            }
        }
    }
    let figures = Figures { together: MOUNTS, each: EACH_MOUNT, rates: MOUNT_RATES };
    let of_access = |(access, best): (Access, &Vec<Rates>)| figures.samples(access.name(), size.counts, best);
    Ok(Access::ALL.into_iter().zip(&best).flat_map(of_access).collect())
}

/// A file for each thread of each mount, in a directory of the mount's own.
fn files(rig: &Rig) -> Result<Vec<PathBuf>, String> {
    let mut files = Vec::new();
    for (number, mount) in rig.mount_points().iter().enumerate() {
        let folder = mount.join(format!("of-mount-{number}"));
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        files.extend((0..THREADS).map(|thread| folder.join(format!("file{thread}"))));
    }
    Ok(files)
}

/// All counts of clients in turn: processes on machines of their own that store a whole file each, and read it.
fn with_clients(size: Size, bench: &Bench, random: &mut ChaCha8Rng) -> Result<Vec<Sample>, String> {
    let mut best = [PUT, GET].map(|_| vec![Rates::default(); size.counts.len()]);
    for _ in 0..size.runs {
        let mut rig = Rig::on_server(bench, CODE, NODES)?;
        rig.write_random("file", size.bytes, random)?;
        // While one mounts the volume together with others, all who write join it.
        rig.mount_together(1)?;
        for (at, count) in size.counts.iter().enumerate() {
            for (work, best) in [PUT, GET].into_iter().zip(&mut best) {
                best[at] = best[at].best(clients(&rig, work, *count, size.bytes)?);
            }
        }
        rig.umount()?;
    }
    let figures = Figures { together: CLIENTS, each: EACH_CLIENT, rates: CLIENT_RATES };
    let of_work = |(work, best): (&str, &Vec<Rates>)| figures.samples(work, size.counts, best);
    Ok([PUT, GET].into_iter().zip(&best).flat_map(of_work).collect())
}

/// Clients that start at once and do the same, each with a file of its own.
fn clients(rig: &Rig, work: &str, count: usize, bytes: usize) -> Result<Rates, String> {
    let began = Instant::now();
    let seconds = thread::scope(|scope| {
        let client = |number: usize| {
            scope.spawn(move || -> Result<f64, String> {
                let path = format!("/{count}-{number}");
                let arguments: [&str; 4] =
                    if work == PUT { [PUT, rig.meta(), "file", &path] } else { [GET, rig.meta(), &path, "-"] };
                let client = rig.spawn_elsewhere(&format!("client{number}"), &arguments)?;
                let output = client.wait_with_output().map_err(|error| error.to_string())?;
                match output.status.success() {
                    true => Ok(began.elapsed().as_secs_f64()),
                    false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
                }
            })
        };
        let started: Vec<_> = (0..count).map(client).collect();
        let ended = started.into_iter().map(|client| client.join().map_err(|_| "a client ended early".to_owned())?);
        ended.collect::<Result<Vec<f64>, String>>()
    })?;
    let longest = seconds.iter().copied().fold(0.0, f64::max);
    let each = seconds.iter().map(|seconds| bytes as f64 / seconds).sum::<f64>() / count as f64;
    Ok(Rates { together: (count * bytes) as f64 / longest, each })
}

impl Experiment for ManyMounts {
    fn about(&self) -> About {
        About {
            name: "many-mounts",
            title: "Many mounts and many clients of one volume",
            source: "Pertin, David, Évenou, Parrein, Normand: Distributed file system based on erasure coding for I/O-intensive \
                     applications (2014), Figures 4 and 5; Gaidioz, Koblitz, Santos: Exploring High Performance Distributed File Storage \
                     Using LDPC Codes (CERN), Figures 6 and 7",
            method: "One volume of rs:4+2 over six daemons, with its metadata on a server (`--server`); server, daemons, mounts and \
                     clients share one machine, so that its processors are the limit and no line is. 1 to 5 mounts change it together, each with five \
                     threads that go through a file each: in order in records of 64 KiB, and at random in records of 4 KiB (the paper names no sizes); \
                     the mounts are new each time, and a write ends when all is on the nodes. 1 to 50 clients are processes on hosts of their \
                     own that store a whole file each at once, and then read it; the time of a client is that of its process. Each count is \
                     measured in turn, several times, and the best counts. Ratios are to one mount or client of the same run.",
        }
    }

    fn points(&self, scale: Scale) -> Vec<Point> {
        let runs = scale.choose(1, 3);
        let mounts = Size {
            counts: scale.choose(&[1, 2], &[1, 2, 3, 4, 5]),
            bytes: scale.choose(1 << 20, 16 << 20),
            touched: scale.choose(16, 512),
            runs,
        };
        let clients = Size {
            counts: scale.choose(&[1, 3], &[1, 2, 4, 8, 12, 16, 24, 32, 50]),
            bytes: scale.choose(256 << 10, 8 << 20),
            touched: 0,
            runs,
        };
        vec![
            Point::real("mounts", move |bench, random| with_mounts(mounts, bench, random)),
            Point::real("clients", move |bench, random| with_clients(clients, bench, random)),
        ]
    }

    fn figures(&self) -> Vec<Figure> {
        let figure =
            |name, title, x, y| Figure { name, title, x: Axis::linear(x), y: Axis::linear(y), printed: Vec::new() };
        let (mounts, clients) = ("mounts with five threads each", "clients at once");
        let (to_one_mount, to_one_client) = ("rate (one mount: 1)", "rate (one client: 1)");
        vec![
            figure(MOUNTS, "RozoFS, Figures 4 and 5: all mounts together", mounts, to_one_mount),
            figure(EACH_MOUNT, "RozoFS, Figures 4 and 5: each mount", mounts, to_one_mount),
            figure(MOUNT_RATES, "RozoFS, Figures 4 and 5: in megabytes", mounts, "rate of all mounts (MB/s)"),
            figure(CLIENTS, "CERN, Figure 6: all clients together", clients, to_one_client),
            figure(EACH_CLIENT, "CERN, Figure 7: each client", clients, to_one_client),
            figure(CLIENT_RATES, "CERN, Figure 6: in megabytes", clients, "rate of all clients (MB/s)"),
        ]
    }

    fn verdict(&self, samples: &[Sample]) -> Verdict {
        let most = |figure: &str| {
            samples.iter().filter(|sample| sample.figure == figure).map(|sample| sample.x).fold(0.0, f64::max)
        };
        let ratios = |together: &str, each: &str, series: &[&str]| -> Vec<String> {
            let of = |figure: &str, series: &str| value_at(samples, figure, series, most(figure));
            series
                .iter()
                .map(|series| format!("{series} {:.2} ({:.2})", of(together, series), of(each, series)))
                .collect()
        };
        let mounts = ratios(MOUNTS, EACH_MOUNT, &Access::ALL.map(Access::name));
        let clients = ratios(CLIENTS, EACH_CLIENT, &[PUT, GET]);
        Verdict {
            agrees: format!(
                "To one mount, {:.0} mounts together have (and each has): {}. To one client, {:.0} clients together have (and each has): {}.",
                most(MOUNTS),
                mounts.join(", "),
                most(CLIENTS),
                clients.join(", "),
            ),
            differs: "The papers' machines have processors and lines of their own: RozoFS's sequential reads grow with each of five clients, and \
                      CERN's aggregate with up to 10 or 12. Here all share one machine, so the aggregate stops growing where its processors \
                      are used up."
                .to_owned(),
        }
    }
}
