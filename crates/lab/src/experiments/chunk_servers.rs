//! CERN's chunk servers, Table 1 and Figures 6 and 7: reading with chunks missing, and many clients at once.

use super::counted::{mean_and_error, value_at};
use crate::experiment::{About, Axis, Experiment, Figure, Point, Sample, Scale, Verdict};
use crate::line::{Cable, Line, megabits};
use crate::rig::{Bench, Rig};
use rand_chacha::ChaCha8Rng;
use std::process::Child;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(super) struct ChunkServers;

const MISSING: &str = "chunks missing";
const AGGREGATE: &str = "aggregate rate";
const EACH: &str = "rate of each client";

/// The graph that the paper's system uses is not printed; this one has its 8 data and 6 check chunks and survives any three losses.
const GRAPH: &str = "ldpc:cube-8-6";
const MDS: &str = "rs:8+6";
const CHUNK_SERVERS: usize = 14;

/// The lines of Table 1, a tenth of the paper's, and those of Figures 6 and 7, so that two cores carry all of them.
const TABLE_LINE: f64 = 100.0;
const LINE: f64 = 20.0;
/// As `weft get --bwlimit` takes it: 20 Mbit/s.
const CLIENT_LIMIT: &str = "2500000";

/// The client's line in the paper, and the rates that it prints, both in MB/s.
const PRINTED_LINE: f64 = 125.0;
const PRINTED_RATES: [f64; 4] = [109.5, 100.25, 91.5, 81.0];

/// Of the servers in Figures 6 and 7, these are busy with something else, ...
const BUSY_SERVERS: usize = 3;
/// ... which takes this part of their lines, as the paper found of some of its nodes in proportion, ...
const LOAD: f64 = 0.8;
/// ... and lets a request wait for up to this long.
const JITTER: Duration = Duration::from_millis(20);

/// How a client asks: the paper's way, all data chunks at once and others where one fails; and ours.
static PROFILES: [(&str, &str); 2] =
    [("data chunks at once", "fastest0,data-first,T=14"), ("adaptive (ours)", "adaptive")];
const OURS: &str = "adaptive (ours)";
const OBJECTS: &str = "objects without a catalogue (ours)";

/// A file that is read with 0, 1, 2 and 3 servers gone.
fn with_chunks_missing(
    code: &'static str,
    (file_bytes, runs): (usize, usize),
    bench: &Bench,
    random: &mut ChaCha8Rng,
) -> Result<Vec<Sample>, String> {
    let cables: Vec<_> = (0..CHUNK_SERVERS).map(|_| Cable::new(Line::even(megabits(TABLE_LINE)))).collect();
    let mut rig = Rig::start(bench, code, &cables, Line::unlimited())?;
    rig.write_random("file", file_bytes, random)?;
    rig.weft(["put", "meta", "file", "/file"])?;
    rig.client.set_line(Line::even(megabits(TABLE_LINE)));
    let mut samples = Vec::new();
    for missing in 0..=3 {
        if missing > 0 {
            rig.kill(missing - 1)?;
        }
        let percent = |seconds| 100.0 * file_bytes as f64 / seconds / megabits(TABLE_LINE);
        let rate = |_| rig.weft_to_nowhere(["get", "meta", "/file", "-"]).map(percent);
        let (mean, error) = mean_and_error(&(0..runs).map(rate).collect::<Result<Vec<_>, _>>()?);
        samples.push(Sample::estimated(MISSING, code, missing as f64, mean, error));
    }
    Ok(samples)
}

/// Lines of servers, of which some are busy.
fn servers() -> Vec<Arc<Cable>> {
    (0..=CHUNK_SERVERS).map(|_| Cable::new(Line::unlimited())).collect()
}

fn slow_down(servers: &[Arc<Cable>]) {
    let free = Line::even(megabits(LINE));
    let busy = Line { load: LOAD, jitter: JITTER, ..free };
    servers
        .iter()
        .enumerate()
        .for_each(|(server, cable)| cable.set_line(if server < BUSY_SERVERS { busy } else { free }));
}

/// Several clients at once, each a process that reads a file of its own.
fn with_clients(
    (name, profile): (&'static str, &'static str),
    clients: usize,
    file_bytes: usize,
    bench: &Bench,
    random: &mut ChaCha8Rng,
) -> Result<Vec<Sample>, String> {
    let cables = servers();
    let rig = Rig::start(bench, GRAPH, &cables, Line::unlimited())?;
    for client in 0..clients {
        rig.write_random("file", file_bytes, random)?;
        rig.weft(["put", "meta", "file", &format!("/{client}")])?;
    }
    slow_down(&cables);
    let get = |client| {
        rig.spawn(["get", "meta", &format!("/{client}"), "-", "--read-profile", profile, "--bwlimit", CLIENT_LIMIT])
    };
    all_at_once(name, clients, file_bytes, get)
}

/// The same of objects, without a catalogue: a client knows some servers and a name, as in the paper.
fn with_clients_of_objects(
    clients: usize,
    file_bytes: usize,
    bench: &Bench,
    random: &mut ChaCha8Rng,
) -> Result<Vec<Sample>, String> {
    let cables = servers();
    let rig = Rig::of_objects(bench, &cables, Line::unlimited())?;
    for client in 0..clients {
        rig.write_random("file", file_bytes, random)?;
        ended(rig.spawn_object(&["put", "file", &client.to_string(), "--code", GRAPH])?)?;
    }
    slow_down(&cables);
    let get = |client: usize| rig.spawn_object(&["get", &client.to_string(), "-", "--bwlimit", CLIENT_LIMIT]);
    all_at_once(OBJECTS, clients, file_bytes, get)
}

fn ended(child: Child) -> Result<(), String> {
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
    }
}

/// Starts all clients and waits for the last.
fn all_at_once(
    series: &'static str,
    clients: usize,
    file_bytes: usize,
    get: impl Fn(usize) -> Result<Child, String>,
) -> Result<Vec<Sample>, String> {
    let began = Instant::now();
    let children: Vec<Child> = (0..clients).map(get).collect::<Result<_, _>>()?;
    children.into_iter().try_for_each(ended)?;
    let aggregate = (clients * file_bytes) as f64 / 1e6 / began.elapsed().as_secs_f64();
    let sample = |figure, y| Sample::exact(figure, series, clients as f64, y);
    Ok(vec![sample(AGGREGATE, aggregate), sample(EACH, aggregate / clients as f64)])
}

impl Experiment for ChunkServers {
    fn about(&self) -> About {
        About {
            name: "chunk-servers",
            title: "Reading from chunk servers, with chunks missing and with many clients",
            source: "Gaidioz, Koblitz, Santos: Exploring High Performance Distributed File Storage Using LDPC Codes (CERN), Table 1, Figures 6 and 7",
            method: "A daemon serves each node. Table 1: 14 nodes and a client with lines of 100 Mbit/s; a file of 50 MB is read with 0 to 3 \
                     nodes killed (the paper: lines of 1 Gbit/s, 500 MB). Figures 6 and 7: 15 nodes with lines of 20 Mbit/s, three of them \
                     busy: others take 80 % of their lines, and what they send comes up to 20 ms later; 1 to 50 clients, each a process with \
                     a line of 20 Mbit/s, read a file of 8 MiB each at once. The paper's clients ask for all data chunks at once; ours \
                     compare what nodes take. A third series reads objects of a store without a catalogue, whose clients know some servers and a name \
                     and nothing else, as in the paper. The paper's lines are faster than one machine emulates, so that what can be compared is which \
                     part of a line is used, and where the aggregate stops growing.",
        }
    }

    fn points(&self, scale: Scale) -> Vec<Point> {
        let size = scale.choose((1 << 20, 1), (50_000_000, 5));
        let codes: &[&'static str] = &[GRAPH, MDS];
        let missing = codes.iter().map(move |code| {
            Point::real(format!("{code}, 0 to 3 missing"), move |bench, random| {
                with_chunks_missing(code, size, bench, random)
            })
        });
        let counts: &[usize] = scale.choose(&[1, 3], &[1, 2, 4, 8, 12, 16, 24, 32, 50]);
        let file_bytes = scale.choose(256 << 10, 8 << 20);
        let clients = PROFILES.iter().flat_map(move |profile| {
            counts.iter().map(move |count| {
                Point::real(format!("{}, {count} clients", profile.0), move |bench, random| {
                    with_clients(*profile, *count, file_bytes, bench, random)
                })
            })
        });
        let of_objects = counts.iter().map(move |count| {
            Point::real(format!("objects, {count} clients"), move |bench, random| {
                with_clients_of_objects(*count, file_bytes, bench, random)
            })
        });
        missing.chain(clients).chain(of_objects).collect()
    }

    fn figures(&self) -> Vec<Figure> {
        let figure = |name, title, x, y, printed| Figure { name, title, x, y: Axis::linear(y), printed };
        let printed = |(missing, rate): (usize, &f64)| {
            Sample::exact(MISSING, "printed, of 1 Gbit/s", missing as f64, 100.0 * rate / PRINTED_LINE)
        };
        let table: Vec<Sample> = PRINTED_RATES.iter().enumerate().map(printed).collect();
        let clients = Axis::linear("clients at once");
        vec![
            figure(
                MISSING,
                "Table 1: one client",
                Axis::linear("nodes missing"),
                "rate (% of the client's line)",
                table,
            ),
            figure(AGGREGATE, "Figure 6: all clients together", clients, "rate (MB/s)", Vec::new()),
            figure(EACH, "Figure 7: each client", clients, "rate (MB/s)", Vec::new()),
        ]
    }

    fn verdict(&self, samples: &[Sample]) -> Verdict {
        let of = |code: &str, missing: f64| value_at(samples, MISSING, code, missing);
        let kept = |code: &str| 100.0 * of(code, 3.0) / of(code, 0.0);
        let best = |series: &str| {
            let of_series = samples.iter().filter(|sample| sample.figure == AGGREGATE && sample.series == series);
            of_series.fold((0.0, 0.0), |best, sample| if sample.y > best.1 { (sample.x, sample.y) } else { best })
        };
        let (theirs, ours, objects) = (best(PROFILES[0].0), best(OURS), best(OBJECTS));
        let free_servers = (CHUNK_SERVERS + 1 - BUSY_SERVERS) as f64;
        let lines = (free_servers + BUSY_SERVERS as f64 * (1.0 - LOAD)) * megabits(LINE);
        let part = |rate: f64| 100.0 * rate * 1e6 / lines;
        Verdict {
            agrees: format!(
                "With three of 14 nodes missing a read of the graph keeps {:.0} % of its rate of {:.0} % of the line (the paper: 74 % of 88 %). The \
                 aggregate of the paper's way of asking is highest with {} clients, {:.0} MB/s or {:.0} % of what the servers' lines carry.",
                kept(GRAPH),
                of(GRAPH, 0.0),
                theirs.0,
                theirs.1,
                part(theirs.1)
            ),
            differs: format!(
                "Reed-Solomon with the same storage keeps {:.0} %: it reads eight nodes of any that are left, where the graph needs more. \
                 Comparing nodes reaches {:.0} MB/s or {:.0} % of the lines, with {} clients; without a catalogue {:.0} MB/s, with {}.",
                kept(MDS),
                ours.1,
                part(ours.1),
                ours.0,
                objects.1,
                objects.0
            ),
        }
    }
}
