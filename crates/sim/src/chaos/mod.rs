//! Chaos: the programs and the model of the simulator, on a real mount with real daemons and a real worker, while real faults strike.
//!
//! One seed decides all that is chosen: the cluster, the faults, and what programs do. What comes of it depends on the machine, too: no two
//! runs are the same.
//!
//! What it never does: know better than the programs what the volume must show (that is the model's), or look into the product, which it
//! knows by its commands, its mounts and what they answer.
//!
//! Start reading at [`run`], then `phases.rs` (what mounts and programs do), `faults.rs` (what strikes), `cluster.rs` (whom) and
//! `mounted_files.rs` (what programs use).

mod clocks;
mod cluster;
mod contenders;
mod disk;
mod ending;
mod faults;
mod log;
mod mounted_files;
mod network;
mod phases;
mod process;
mod programs;
mod server;
mod sessions;

use crate::client::Programs;
use anyhow::{Context, Result, bail};
use cluster::{Cluster, Plan};
use contenders::Told;
use faults::{Fault, Trouble};
use log::Log;
use mounted_files::{Counts, Mountpoint};
use phases::{Assignment, Mount, MountPhase};
use process::{GLANCE, own_mounts};
use rand::{RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;
use sessions::Sessions;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long anything may take when nothing is wrong.
const HEAL_DEADLINE: Duration = Duration::from_secs(240);
/// A mount that was refused is tried again, and the redundancy is looked at again, after this time.
const AGAIN: Duration = Duration::from_millis(500);

/// What is to happen.
#[derive(Clone, Debug)]
pub struct Settings {
    /// For how long.
    pub minutes: f64,
    /// Decides everything.
    pub seed: u64,
    /// On how many machines the volume is mounted. Several have its metadata on PostgreSQL.
    pub mounts: usize,
    /// The program `weft`.
    pub weft: PathBuf,
    /// Is the log printed, too?
    pub is_verbose: bool,
}

/// What has happened.
#[derive(Debug, Default)]
pub struct Outcome {
    /// What is not as promised; empty: nothing.
    pub complaints: Vec<String>,
    /// Operations of programs that succeeded.
    pub operations: u64,
    /// Fsyncs among them.
    pub fsyncs: u64,
    /// Operations on names for which programs of several mounts contend, that were answered.
    pub contended: u64,
    /// Operations that were refused.
    pub refused: u64,
    /// Bytes that programs wrote and read.
    pub written_bytes: u64,
    /// See there.
    pub read_bytes: u64,
    /// Faults by kind.
    pub faults: BTreeMap<String, u64>,
    /// Mounts that others took for dead, while they were stopped or cut off.
    pub places_lost: u64,
    /// Where everything is kept, if something failed.
    pub folder: Option<PathBuf>,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { operations, fsyncs, contended, refused, written_bytes, read_bytes, places_lost, .. } = self;
        let faults: Vec<String> = self.faults.iter().map(|(fault, count)| format!("{fault} {count}")).collect();
        let (count, written, read) =
            (self.faults.values().sum::<u64>(), written_bytes / 1_000_000, read_bytes / 1_000_000);
        write!(
            f,
            "{operations} operations, {fsyncs} acknowledged fsyncs, {contended} on contended names, {refused} refused, {written} MB written, {read} MB read; {count} faults: {}; {places_lost} places lost; {} complaints",
            faults.join(", "),
            self.complaints.len()
        )
    }
}

struct Chaos {
    cluster: Cluster,
    programs: Arc<Programs>,
    counts: Arc<Counts>,
    log: Arc<Log>,
    mounts: Vec<Mount>,
    /// By program.
    assignments: Vec<Assignment>,
    /// What programs that contend for names were told, if there are several mounts.
    told: Arc<Told>,
    /// If there are several mounts.
    sessions: Option<Sessions>,
    places_lost: u64,
    /// When something last was wrong with the metadata's server.
    server_troubled: Instant,
    troubles: Vec<Trouble>,
    struck: BTreeMap<Fault, u64>,
    /// The node that has lost something since a scrub has found everything whole.
    victim: Option<usize>,
    /// The node of whose folder there is a copy.
    copied: Option<usize>,
    choices: ChaCha8Rng,
    seed: u64,
    /// Threads of programs that were started.
    lives: u64,
    /// Somebody has pressed Ctrl-C.
    is_interrupted: Arc<AtomicBool>,
}

/// Runs chaos for the time, and looks whether everything is as promised.
///
/// # Errors
/// It cannot be run here.
pub fn run(settings: &Settings) -> Result<Outcome> {
    if !rustix::process::geteuid().is_root() {
        bail!("chaos mounts file systems and makes network namespaces: run it as root");
    }
    own_mounts().context("mounts of its own are not to be had")?;
    let weft = settings.weft.canonicalize().with_context(|| {
        format!(
            "there is no program {}: build it with `cargo build -p weft`, or name it with --weft",
            settings.weft.display()
        )
    })?;
    let parent = std::env::var_os("TMPDIR").map_or_else(|| PathBuf::from("/var/tmp"), PathBuf::from);
    let folder = tempfile::Builder::new().prefix("weft-chaos-").tempdir_in(parent)?;
    let log = Arc::new(Log::new(folder.path(), settings.is_verbose)?);
    let mut choices = ChaCha8Rng::seed_from_u64(settings.seed);
    let plan = Plan::of(settings.mounts, |end| choices.next_u64() % end);
    log.tell(&format!("seed {}: {plan:?}", settings.seed));
    let is_interrupted = watch_for_interrupt()?;
    let cluster = Cluster::new(folder.path(), &weft, &plan)?;
    cluster.shortcomings().into_iter().for_each(|sentence| println!("{sentence}"));
    let mount = |number| Mount {
        phase: MountPhase::Down,
        point: Mountpoint { folder: cluster.mountpoint(number), ended: Arc::default(), is_shared: cluster.is_shared() },
        troubled: Instant::now(),
        contender: None,
    };
    let mut chaos = Chaos {
        mounts: (0..plan.mounts).map(mount).collect(),
        assignments: (0..plan.programs).map(|number| Assignment::new(number % plan.mounts)).collect(),
        told: Told::new(),
        sessions: cluster.is_shared().then(|| Sessions::new(cluster.commander())),
        places_lost: 0,
        server_troubled: Instant::now(),
        programs: Programs::new(plan.programs, true),
        counts: Arc::default(),
        log,
        cluster,
        troubles: Vec::new(),
        struck: BTreeMap::new(),
        victim: None,
        copied: None,
        choices,
        seed: settings.seed,
        lives: 0,
        is_interrupted,
    };
    if let Err(error) = chaos.live(settings.minutes) {
        chaos.complain(format!("{error:#}"));
    }
    let mut outcome = chaos.outcome();
    let is_interrupted = chaos.is_interrupted.load(Ordering::Relaxed);
    // Processes end and file systems are unmounted before the folder goes; programs that still run see why.
    (0..plan.mounts).for_each(|number| chaos.note_end_of_mount(number));
    drop(chaos);
    if is_interrupted {
        bail!("interrupted: {outcome}");
    }
    if !outcome.complaints.is_empty() {
        outcome.folder = Some(folder.keep());
    }
    Ok(outcome)
}

/// Set by the first SIGINT or SIGTERM.
fn watch_for_interrupt() -> Result<Arc<AtomicBool>> {
    let is_interrupted = Arc::new(AtomicBool::new(false));
    let told = is_interrupted.clone();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::spawn(move || {
        runtime.block_on(async {
            let terminated = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate());
            let Ok(mut terminated) = terminated else { return };
            tokio::select! {
                _ = terminated.recv() => {}
                _ = tokio::signal::ctrl_c() => {}
            }
            told.store(true, Ordering::Relaxed);
        });
    });
    Ok(is_interrupted)
}

impl Chaos {
    fn live(&mut self, minutes: f64) -> Result<()> {
        self.cluster.start_worker()?;
        self.start_mounts()?;
        let until = Instant::now() + Duration::from_secs_f64(minutes * 60.0);
        let mut number = 0;
        while Instant::now() < until && self.is_well() {
            self.choose_as(number);
            number += 1;
            let between_ms = self.below(self.cluster.plan.between_ms);
            self.wait(Duration::from_millis(between_ms))?;
            if self.is_well() {
                self.strike()?;
            }
        }
        if self.is_well() { self.end_well() } else { Ok(()) }
    }

    /// What is chosen from now on depends on the seed and this number only.
    fn choose_as(&mut self, number: u64) {
        self.choices = ChaCha8Rng::seed_from_u64(self.seed);
        self.choices.set_stream(number + 1);
    }

    fn below(&mut self, end: u64) -> u64 {
        self.choices.next_u64() % end.max(1)
    }

    fn is_well(&self) -> bool {
        self.programs.complaints.lock().is_empty() && !self.is_interrupted.load(Ordering::Relaxed)
    }

    fn complain(&self, complaint: String) {
        self.log.tell(&format!("COMPLAINT {complaint}"));
        self.programs.complain(complaint);
    }

    fn outcome(&self) -> Outcome {
        Outcome {
            complaints: self.programs.complaints.lock().clone(),
            operations: self.programs.operations.load(Ordering::Relaxed),
            fsyncs: self.programs.fsyncs.load(Ordering::Relaxed),
            contended: self.told.answered_count() as u64,
            refused: self.counts.refused.load(Ordering::Relaxed),
            written_bytes: self.counts.written_bytes.load(Ordering::Relaxed),
            read_bytes: self.counts.read_bytes.load(Ordering::Relaxed),
            places_lost: self.places_lost,
            faults: self.struck.iter().map(|(fault, count)| (format!("{fault:?}"), *count)).collect(),
            folder: None,
        }
    }

    /// Waits, while mounts start, programs begin and troubles are cured.
    fn wait(&mut self, time: Duration) -> Result<()> {
        let until = Instant::now() + time;
        while Instant::now() < until && self.is_well() {
            self.go_on()?;
            std::thread::sleep(GLANCE.min(until.saturating_duration_since(Instant::now())));
        }
        Ok(())
    }

    /// Waits until it is so; a complaint if nothing is wrong and it takes too long.
    fn wait_until(&mut self, what: &str, mut is_so: impl FnMut(&mut Self) -> Result<bool>) -> Result<bool> {
        let began = Instant::now();
        while self.is_well() {
            self.go_on()?;
            if is_so(self)? {
                return Ok(true);
            }
            if began.elapsed() > HEAL_DEADLINE {
                self.complain(format!("{what}: not after {} s", HEAL_DEADLINE.as_secs()));
                break;
            }
            std::thread::sleep(GLANCE);
        }
        Ok(false)
    }

    /// Waits until every file survives two losses and all nodes are there. Nothing must be wrong.
    fn wait_until_whole(&mut self) -> Result<bool> {
        self.wait_for_programs()?;
        let began = Instant::now();
        let mut lack = None;
        let is_whole = self.wait_until("redundancy is whole", |chaos| {
            chaos.wait(AGAIN)?;
            lack = chaos.cluster.lack()?;
            Ok(lack.is_none())
        })?;
        match lack {
            None => self.log.tell(&format!("whole after {:.1} s", began.elapsed().as_secs_f64())),
            Some(lack) => self.log.tell(&format!("not whole: {lack}")),
        }
        Ok(is_whole)
    }
}
