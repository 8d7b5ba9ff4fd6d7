//! One history: a volume is made, programs work on it, faults strike between any two steps, and at the end all must be well.

use crate::client::{self, Programs};
use crate::metadata::MetadataDisk;
use crate::place::{Condition, Place, SimNode};
use crate::scheduler::{Ended, ProcessId, Scheduler, env_of, running};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::watch;
use weft_care::watch::Timeouts;
use weft_care::worker::{Options, Worker};
use weft_engine::StoreCatalogue;
use weft_env::turns::{self, Planted};
use weft_env::{Clock, Env, Runtime};
use weft_format::records::{NodeRecord, NodeState, PolicyRecord, SEGMENT_BYTES, Sizes, Timestamp, VolumeRecord};
use weft_format::{NodeId, NodeIdentity, PolicyId, SegmentId, ShardIndex, VolumeId};
use weft_meta::engines::MemoryKv;
use weft_meta::{MetaError, Store};
use weft_transfer::{Fleet, Transfer};
use weft_vfs::open::{Members, start_volume};
use weft_vfs::{Settings, VfsError, Volume};

const VOLUME: VolumeId = VolumeId(7);
/// The code of all files, and places for it: one more than it needs.
const CODE: &str = "rs:2+1";
const PLACES: u32 = 4;
const PROGRAMS: usize = 2;
/// The scheduler's steps between two faults.
const STEPS_BETWEEN: u64 = 1_500;
/// Before a place loses something nothing else has been wrong for so long, longer than an upload can be under way that found nodes
/// away; more steps than these are not taken for it.
const CALM: Duration = Duration::from_secs(120);
const STEPS_OF_CALM: u64 = 400_000;
/// Without faults, everything must be well again within this number of steps.
const STEPS_TO_HEAL: u64 = 3_000_000;

/// What a history came to.
#[derive(Debug)]
pub struct Outcome {
    /// Which it was.
    pub seed: u64,
    /// What is not as promised; empty: nothing.
    pub complaints: Vec<String>,
    /// Steps of the scheduler.
    pub steps: u64,
    /// Operations of programs that succeeded, and fsyncs among them.
    pub operations: u64,
    /// See there.
    pub fsyncs: u64,
    /// Faults that struck.
    pub faults: u64,
    /// All that was told, if it was kept.
    pub lines: Vec<String>,
    /// The same for two runs of one seed.
    pub digest: String,
}

/// How long a history is.
#[derive(Clone, Copy, Debug)]
pub struct Length {
    /// Faults that strike, at most.
    pub faults: u64,
}

/// A process that has the volume mounted.
struct Mount {
    process: ProcessId,
    volume: Arc<Mutex<Option<Arc<Volume>>>>,
    /// Programs that run on it.
    programs_running: Arc<AtomicU64>,
    is_up: Arc<AtomicBool>,
}

struct World {
    scheduler: Rc<Scheduler>,
    disk: Arc<MetadataDisk>,
    places: Vec<Arc<Place>>,
    programs: Arc<Programs>,
    mount: Option<Mount>,
    worker: Option<(ProcessId, watch::Sender<bool>)>,
    next_process: u32,
    faults: u64,
    /// The place that has lost something since all was whole.
    victim: Option<usize>,
}

/// Runs the history of `seed` with a bug that is planted.
#[must_use]
pub fn run_with(bug: Planted, seed: u64, length: Length) -> Outcome {
    turns::plant(Some(bug));
    let outcome = run(seed, length, false);
    turns::plant(None);
    outcome
}

/// Runs the history of `seed`.
#[must_use]
pub fn run(seed: u64, length: Length, is_told: bool) -> Outcome {
    let scheduler = Scheduler::begin(seed, is_told);
    let place = |number: u32| {
        let identity = NodeIdentity { volume: VOLUME, node: NodeId(number.into()) };
        Place::new(&format!("place{number}"), identity)
    };
    let mut world = World {
        scheduler: scheduler.clone(),
        disk: Arc::default(),
        places: (0..PLACES).map(place).collect(),
        programs: Programs::new(PROGRAMS),
        mount: None,
        worker: None,
        next_process: 0,
        faults: 0,
        victim: None,
    };
    if let Err(complaint) = world.live(length) {
        world.programs.complain(complaint);
    }
    let mut complaints = std::mem::take(&mut *world.programs.complaints.lock());
    complaints.extend(scheduler.take_panics());
    let (lines, digest) = scheduler.told();
    let outcome = Outcome {
        seed,
        complaints,
        steps: scheduler.steps(),
        operations: world.programs.operations.load(Ordering::Relaxed),
        fsyncs: world.programs.fsyncs.load(Ordering::Relaxed),
        faults: world.faults,
        lines,
        digest,
    };
    scheduler.end();
    // Whatever is left of processes must not run.
    std::mem::forget(world);
    outcome
}

impl World {
    fn live(&mut self, length: Length) -> Result<(), String> {
        self.format()?;
        self.start_worker();
        self.start_mount();
        let faults = self.scheduler.below(length.faults + 1);
        while self.faults < faults && self.programs.complaints.lock().is_empty() {
            let steps = 50 + self.scheduler.below(STEPS_BETWEEN);
            if self.scheduler.run(steps, || false) == Ended::Stuck {
                return Err(format!("nothing goes on: {:?}", self.scheduler.waiting()));
            }
            self.strike();
            self.faults += 1;
        }
        if !self.programs.complaints.lock().is_empty() {
            return Ok(());
        }
        self.end_well()
    }

    fn new_process(&mut self) -> ProcessId {
        self.next_process += 1;
        let process = ProcessId(self.next_process);
        self.scheduler.add_process(process);
        process
    }

    /// Waits for what must happen.
    fn wait(&self, what: &str, steps_max: u64, is_done: impl FnMut() -> bool) -> Result<(), String> {
        match self.scheduler.run(steps_max, is_done) {
            Ended::Done => Ok(()),
            Ended::Stuck => Err(format!("{what}: nothing goes on: {:?}", self.scheduler.waiting())),
            Ended::TooLong => Err(format!("{what}: it takes too long: {:?}", self.scheduler.waiting())),
        }
    }

    fn format(&mut self) -> Result<(), String> {
        let process = self.new_process();
        let (env, _) = env_of(process);
        let (disk, done) = (self.disk.clone(), Arc::new(Mutex::new(None)));
        let told = done.clone();
        self.scheduler.start(process, "format", move || {
            let made = format(&disk, &env).map_err(|error| error.to_string());
            *told.lock() = Some(made);
        });
        self.wait("formatting", 100_000, || done.lock().is_some())?;
        self.scheduler.kill(process);
        self.disk.disown();
        let made = done.lock().take();
        made.unwrap_or(Ok(()))
    }

    fn start_mount(&mut self) {
        let process = self.new_process();
        let (env, runtime) = env_of(process);
        let mount = Mount { process, volume: Arc::default(), programs_running: Arc::default(), is_up: Arc::default() };
        let (disk, places, programs) = (self.disk.clone(), self.places.clone(), self.programs.clone());
        let (slot, is_up, programs_running) =
            (mount.volume.clone(), mount.is_up.clone(), mount.programs_running.clone());
        self.scheduler.tell(|| format!("{process:?} mounts"));
        self.scheduler.start(process, "mount", move || {
            let volume = loop {
                match open(&disk, &places, process, &env, &runtime) {
                    Ok(volume) => break volume,
                    Err(error) => running().tell(|| format!("{process:?} cannot mount: {error}")),
                }
                disk.disown();
                env.clock.block(Duration::from_millis(700));
            };
            look_after_crash(&volume, &programs, &*env.clock);
            *slot.lock() = Some(volume.clone());
            is_up.store(true, Ordering::Relaxed);
            for number in 0..programs.models.len() {
                programs_running.fetch_add(1, Ordering::Relaxed);
                let (volume, programs, clock) = (volume.clone(), programs.clone(), env.clock.clone());
                let programs_running = programs_running.clone();
                running().start(process, "program", move || {
                    client::run(&programs, number, &volume, &*clock);
                    programs_running.fetch_sub(1, Ordering::Relaxed);
                });
            }
        });
        self.mount = Some(mount);
    }

    fn start_worker(&mut self) {
        let process = self.new_process();
        let (env, runtime) = env_of(process);
        let (disk, places) = (self.disk.clone(), self.places.clone());
        let (stop, stopped) = watch::channel(false);
        self.scheduler.tell(|| format!("{process:?} cares"));
        self.scheduler.start(process, "worker", move || {
            let worker = loop {
                match worker(&disk, &places, process, &env, &runtime) {
                    Ok(worker) => break worker,
                    Err(error) => running().tell(|| format!("{process:?} cannot care: {error}")),
                }
                env.clock.block(Duration::from_millis(700));
            };
            runtime.block_on(worker.run(stopped));
        });
        self.worker = Some((process, stop));
    }

    fn kill_mount(&mut self) {
        if let Some(mount) = self.mount.take() {
            self.scheduler.kill(mount.process);
            self.disk.disown();
            std::mem::forget(mount);
        }
    }

    fn kill_worker(&mut self) {
        if let Some((process, stop)) = self.worker.take() {
            self.scheduler.kill(process);
            std::mem::forget(stop);
        }
    }

    fn a_place(&self) -> usize {
        self.scheduler.below(self.places.len() as u64) as usize
    }

    /// Lets everybody recover for a while. May a place lose something then? The code survives one loss, and a shard that could not be
    /// stored is one.
    fn is_whole_but_for(&self, victim: usize) -> bool {
        self.places.iter().for_each(|place| place.heal());
        let until = self.scheduler.now() + CALM;
        let _ = self.scheduler.run(STEPS_OF_CALM, || self.scheduler.now() >= until);
        let is_of_victim = |(_, place): &(String, Option<usize>)| *place == Some(victim);
        self.scheduler.now() >= until && self.lacks(&self.disk.latest()).iter().all(is_of_victim)
    }

    fn strike(&mut self) {
        let scheduler = self.scheduler.clone();
        let process = self.mount.as_ref().map(|mount| mount.process);
        match scheduler.below(100) {
            0..16 => {
                scheduler.tell(|| "the mount is killed".into());
                self.kill_mount();
                self.start_mount();
            }
            16..22 => {
                scheduler.tell(|| "the power fails".into());
                self.kill_mount();
                self.kill_worker();
                self.places.iter().for_each(|place| place.cut_power(&scheduler));
                self.start_mount();
                self.start_worker();
            }
            22..28 => {
                scheduler.tell(|| "the worker is killed".into());
                self.kill_worker();
                self.start_worker();
            }
            28..48 => {
                let place = self.places[self.a_place()].clone();
                let condition = match scheduler.below(5) {
                    0 => Condition::Down,
                    1 => Condition::Silent,
                    2 => Condition::Slow(scheduler.below(5_000)),
                    3 => Condition::Full,
                    _ => Condition::Failing,
                };
                scheduler.tell(|| format!("{} is {condition:?}", place.name()));
                place.set_condition(condition);
                let for_ms = scheduler.below(20_000);
                scheduler.after(Duration::from_millis(for_ms), move || place.heal());
            }
            48..58 => {
                let (lost, doubled) = (scheduler.below(100), scheduler.below(300));
                scheduler.tell(|| format!("the network loses {lost} and doubles {doubled} per mille"));
                self.places.iter().for_each(|place| place.set_noise(lost, doubled));
            }
            58..66 => {
                let place = &self.places[self.a_place()];
                let is_answer = scheduler.chance(500);
                if let Some(process) = process {
                    scheduler.tell(|| format!("{} is cut off from {process:?}, answers: {is_answer}", place.name()));
                    place.part(process, is_answer);
                }
            }
            66..74 => {
                let worker = self.worker.as_ref().map(|(process, _)| *process);
                let Some(process) = (if scheduler.chance(500) { process } else { worker }) else { return };
                let for_ms = scheduler.below(60_000);
                scheduler.tell(|| format!("{process:?} stops for {for_ms} ms"));
                scheduler.pause(process, true);
                scheduler.after(Duration::from_millis(for_ms), move || running().pause(process, false));
            }
            74..80 => {
                let offset_ms = scheduler.below(172_800_000) as i64 - 86_400_000;
                if let Some(process) = process {
                    scheduler.tell(|| format!("the clock of {process:?} is off by {offset_ms} ms"));
                    scheduler.set_clock(process, offset_ms);
                }
            }
            80..88 => {
                let victim = self.victim.unwrap_or_else(|| self.a_place());
                if !self.is_whole_but_for(victim) {
                    return;
                }
                self.victim = Some(victim);
                let place = &self.places[victim];
                if scheduler.chance(500) {
                    let has_rotted = place.rot(&scheduler);
                    scheduler.tell(|| format!("{} rots: {has_rotted}", place.name()));
                } else {
                    let gone = place.forget_some(&scheduler, 300);
                    scheduler.tell(|| format!("{} forgets {gone} shards", place.name()));
                }
            }
            88..92 => {
                let disk = self.disk.clone();
                scheduler.tell(|| "the metadata's disk is full".into());
                disk.set_full(true);
                scheduler.after(Duration::from_millis(scheduler.below(5_000)), move || disk.set_full(false));
            }
            _ => {
                scheduler.tell(|| "all is well for a while".into());
                self.places.iter().for_each(|place| place.heal());
                let seconds = scheduler.below(30);
                let until = scheduler.now() + Duration::from_secs(seconds);
                scheduler.run(100_000, || scheduler.now() >= until);
            }
        }
    }

    /// Faults stop: the programs go on for a while and end, everything is there, and whole again.
    fn end_well(&mut self) -> Result<(), String> {
        let scheduler = self.scheduler.clone();
        scheduler.tell(|| "the faults end".into());
        self.places.iter().for_each(|place| place.heal());
        self.disk.set_full(false);
        for process in self.mount.iter().map(|mount| mount.process).chain(self.worker.iter().map(|worker| worker.0)) {
            scheduler.pause(process, false);
        }
        let Some(mount) = &self.mount else { return Err("there is no mount".into()) };
        let (is_up, programs_running) = (mount.is_up.clone(), mount.programs_running.clone());
        self.wait("mounting", STEPS_TO_HEAL, || is_up.load(Ordering::Relaxed))?;
        let until = scheduler.now() + Duration::from_secs(10);
        let _ = scheduler.run(20_000, || scheduler.now() >= until);
        self.programs.is_stopping.store(true, Ordering::Relaxed);
        self.wait("programs end", STEPS_TO_HEAL, || programs_running.load(Ordering::Relaxed) == 0)?;
        self.unmount()?;
        self.wait_until_whole()?;
        self.check_metadata()
    }

    /// A clean unmount, after which a new mount finds everything.
    fn unmount(&mut self) -> Result<(), String> {
        let Some(mount) = self.mount.take() else { return Ok(()) };
        let (programs, slot, done) = (self.programs.clone(), mount.volume.clone(), Arc::new(Mutex::new(None)));
        let told = done.clone();
        self.scheduler.start(mount.process, "unmount", move || {
            let Some(volume) = slot.lock().take() else { return };
            let ended =
                last_look(&volume, &programs).and_then(|()| volume.shut_down().map_err(|error| error.to_string()));
            *told.lock() = Some(ended);
        });
        self.wait("unmounting", STEPS_TO_HEAL, || done.lock().is_some())?;
        let ended = done.lock().take().unwrap_or(Ok(()));
        self.scheduler.kill(mount.process);
        self.disk.disown();
        std::mem::forget(mount);
        ended?;
        self.programs.models.iter().for_each(|model| model.lock().synced_all());
        self.programs.is_stopping.store(false, Ordering::Relaxed);
        self.start_mount();
        let Some(mount) = &self.mount else { return Ok(()) };
        let is_up = mount.is_up.clone();
        self.wait("mounting again", STEPS_TO_HEAL, || is_up.load(Ordering::Relaxed))?;
        self.programs.is_stopping.store(true, Ordering::Relaxed);
        let programs_running = self.mount.as_ref().map(|mount| mount.programs_running.clone()).unwrap_or_default();
        self.wait("programs end again", STEPS_TO_HEAL, || programs_running.load(Ordering::Relaxed) == 0)
    }

    /// The worker repairs what faults have left, without being asked.
    fn wait_until_whole(&self) -> Result<(), String> {
        let until = self.scheduler.now() + Duration::from_secs(3 * 3600);
        loop {
            let lacks = self.lacks(&self.disk.durable());
            if lacks.is_empty() {
                return Ok(());
            }
            if self.scheduler.now() > until {
                return Err(format!("not whole three hours after the last fault: {lacks:?}"));
            }
            let next = self.scheduler.now() + Duration::from_secs(5);
            self.wait("repair", STEPS_TO_HEAL, || self.scheduler.now() >= next)?;
        }
    }

    /// Shards of living segments that are not where their records say, with their place if the record names one.
    fn lacks(&self, metadata: &MemoryKv) -> Vec<(String, Option<usize>)> {
        let Ok(store) = Store::open(Arc::new(metadata.fork()), &Env::system()) else { return Vec::new() };
        let keys: Vec<BTreeSet<_>> = self.places.iter().map(|place| place.keys().into_iter().collect()).collect();
        let (mut lacks, mut after) = (Vec::new(), None::<SegmentId>);
        while let Ok(page) = store.segments(after, 100)
            && let Some((last, _)) = page.last()
        {
            after = Some(*last);
            for (segment, record) in page {
                if store.live_bytes(segment).is_ok_and(|bytes| bytes == 0) {
                    continue;
                }
                for (index, location) in record.shards.iter().enumerate() {
                    let place = location.as_ref().map(|location| location.node.0 as usize);
                    let is_there = location.as_ref().is_some_and(|location| {
                        let key = location.key(segment, ShardIndex(index as u16));
                        keys.get(location.node.0 as usize).is_some_and(|keys| keys.contains(&key))
                    });
                    if !is_there {
                        lacks.push((format!("shard {index} of {segment}"), place));
                    }
                }
            }
        }
        lacks
    }

    fn check_metadata(&self) -> Result<(), String> {
        let store = Store::open(Arc::new(self.disk.durable()), &Env::system()).map_err(|error| error.to_string())?;
        let report = weft_meta::fsck::check(&store).map_err(|error| error.to_string())?;
        let findings: Vec<String> = report.findings.iter().map(|(finding, _)| finding.to_string()).collect();
        if findings.is_empty() { Ok(()) } else { Err(format!("fsck: {findings:?}")) }
    }
}

fn format(disk: &Arc<MetadataDisk>, env: &Env) -> Result<(), MetaError> {
    let kv = disk.own(env).ok_or_else(|| MetaError::InUse("another owner".into()))?;
    let now_ms = env.clock.unix_ms();
    let now = Timestamp { seconds: (now_ms / 1000) as i64, nanoseconds: 0 };
    // The shortest that there are: a large write takes several, and some of a file may be in one while the rest is in the journal.
    let sizes = Sizes { segment_bytes: Some(*SEGMENT_BYTES.start()), ..Sizes::default() };
    let policy = PolicyRecord { sizes, ..PolicyRecord::of(CODE, None) };
    let volume = VolumeRecord { volume: VOLUME, created_ms: now_ms, default_policy: PolicyId(0) };
    let store = Store::format(kv, &volume, &policy, now, env)?;
    for number in 0..PLACES {
        let name = format!("place{number}");
        let record = NodeRecord {
            url: format!("memory:{name}"),
            domain: name.clone(),
            name,
            state: NodeState::Active,
            weight: 1,
            secret: Default::default(),
            limits: Default::default(),
        };
        store.add_node(NodeId(number.into()), &record)?;
    }
    store.flush()
}

fn members(store: &Store, places: &[Arc<Place>], process: ProcessId) -> Result<Members, MetaError> {
    let node = |(id, record): (NodeId, NodeRecord)| {
        let place = places[id.0 as usize].clone();
        (id, record, SimNode::seen_by(place, process))
    };
    Ok(store.nodes()?.into_iter().map(node).collect())
}

fn transfer(
    store: &Store,
    places: &[Arc<Place>],
    process: ProcessId,
    runtime: &Runtime,
) -> Result<Transfer, MetaError> {
    let fleet = Fleet::new(members(store, places, process)?, store.placement_rule()?, store.env());
    let settings = weft_transfer::Settings { cache_bytes: 1 << 20, ..weft_transfer::Settings::default() };
    Ok(Transfer::new(VOLUME, Arc::new(fleet), settings, runtime))
}

fn open(
    disk: &Arc<MetadataDisk>,
    places: &[Arc<Place>],
    process: ProcessId,
    env: &Env,
    runtime: &Runtime,
) -> Result<Arc<Volume>, VfsError> {
    let kv = disk.own(env).ok_or_else(|| MetaError::InUse("another owner".into()))?;
    let store = Store::open(kv, env)?;
    let transfer = transfer(&store, places, process, runtime)?;
    let places = places.to_vec();
    let open_nodes = Box::new(move |store: &Store| members(store, &places, process));
    start_volume(store, transfer, open_nodes, Settings { dirty_bytes: 16 << 20, read_only: false })
}

fn worker(
    disk: &Arc<MetadataDisk>,
    places: &[Arc<Place>],
    process: ProcessId,
    env: &Env,
    runtime: &Runtime,
) -> Result<Worker, MetaError> {
    let store = Arc::new(Store::open(disk.share(env), env)?);
    let transfer = transfer(&store, places, process, runtime)?.in_background();
    // What is lost in silence is found by a scrub, here sooner than in a month.
    let timeouts = Timeouts { scrub_every_ms: Some(1_800_000), ..Timeouts::default() };
    Ok(Worker {
        catalogue: Arc::new(StoreCatalogue::new(store)),
        transfer,
        board: Arc::default(),
        options: Options { timeouts, holder: format!("{process:?}") },
        follow_nodes: Box::new(|| Ok(())),
    })
}

/// What a crash has left must be what the models allow.
fn look_after_crash(volume: &Volume, programs: &Programs, clock: &dyn Clock) {
    for (number, model) in programs.models.iter().enumerate() {
        let found = loop {
            let found = client::directory(volume, number).and_then(|directory| client::contents(volume, directory));
            match found {
                Ok(found) => break found,
                Err(error) => running().tell(|| format!("program {number} cannot read: {error}")),
            }
            clock.block(Duration::from_millis(500));
        };
        if let Err(why) = model.lock().recover(&found) {
            programs.complain(format!("program {number} {why}"));
        }
    }
}

/// At the end everything can be read, and is what was written.
fn last_look(volume: &Volume, programs: &Programs) -> Result<(), String> {
    for (number, model) in programs.models.iter().enumerate() {
        let found = client::directory(volume, number).and_then(|directory| client::contents(volume, directory));
        let found = found.map_err(|error| format!("program {number} cannot read at the end: {error}"))?;
        model.lock().check_now(&found).map_err(|why| format!("program {number} at the end: {why}"))?;
    }
    Ok(())
}

#[cfg(test)]
#[path = "history_tests.rs"]
mod tests;
