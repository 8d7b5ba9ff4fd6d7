//! The processes of a history and what they share: the metadata's disk, the places for shards, the programs.

use crate::ambush::ProcessId;
use crate::client::{self, Failure, Files, Programs};
use crate::length::Length;
use crate::meddling::{COMMON, meddle};
use crate::metadata::{MetadataDisk, place_of};
use crate::model::{Contents, Loss};
use crate::node::SimNode;
use crate::place::Place;
use crate::place::http::{Http, Network, looked_for};
use crate::scheduler::{Ended, Scheduler, env_of, running};
use crate::volume_files::VolumeFiles;
use crate::workload;
use parking_lot::Mutex;
use rand::{RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::watch;
use weft_care::watch::Timeouts;
use weft_care::worker::{Options, Worker};
use weft_care::{Board, CatalogueError};
use weft_engine::replica::{ReplicaSizes, Replicator};
use weft_engine::{StoreCatalogue, TrashEmptier};
use weft_env::{Clock, Env, Runtime};
use weft_format::records::{NodeRecord, PolicyRecord, SEGMENT_BYTES, Sizes, Timestamp, VolumeRecord};
use weft_format::{NodeId, NodeIdentity, PolicyId, VolumeId};
use weft_meta::engines::MemoryKv;
use weft_meta::{MetaError, Store};
use weft_transfer::{Fleet, Transfer};
use weft_vfs::node_watcher::NodeWatcher;
use weft_vfs::open::{Members, start_volume};
use weft_vfs::{Settings, VfsError, Volume};

pub(crate) const VOLUME: VolumeId = VolumeId(7);
/// How many of a thousand operations of a program have another before them, in the directory of all.
const MEDDLING_PER_MILLE: u64 = 150;
/// Of a thousand periods of this length, a slow program does an operation in some.
pub(crate) const SLOW_MS: u64 = 2_000;
pub(crate) const SLOW_OPERATIONS_PER_MILLE: u64 = 150;
/// How many of a thousand mounts have people make a copy of the metadata before.
const OLDER_COPY_PER_MILLE: u64 = 300;
/// After this time something that could not be begun is tried again.
const AGAIN: Duration = Duration::from_millis(700);

/// What a history consists of; chosen by its seed.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The code of the root directory.
    pub code: &'static str,
    /// Places at the beginning.
    pub places: u32,
    /// Programs on the mount.
    pub programs: usize,
    /// Do they make directories, symbolic links and attributes, too?
    pub have_trees: bool,
    /// Workers beside the mount.
    pub workers: usize,
    /// Do people give commands?
    pub has_commands: bool,
    /// Is the history long enough at its end to see that nothing unneeded stays?
    pub looks_for_orphans: bool,
    /// Do mounts keep a replica of the metadata on the nodes?
    pub replica: Option<KeepsUp>,
    /// Does the network fail at the moment at which a worker stores or removes something?
    pub has_silence: bool,
    /// Is a machine that may lose its power alone both a place and where the mount or a worker runs?
    pub shares_machines: bool,
    /// Are nodes reached over HTTP, and how?
    pub http: Option<Http>,
    /// Is it over in a few thousand steps? Then it has no faults that take minutes.
    pub is_brief: bool,
}

/// How far the replica of the metadata may be behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepsUp {
    /// A second.
    Soon,
    /// Nothing: an fsync waits for it (`weft protect --sync`).
    InStep,
}

/// How many of a thousand histories have a replica, and in how many of these it keeps in step.
const REPLICA_PER_MILLE: u64 = 300;
const IN_STEP_PER_MILLE: u64 = 400;
/// In how many of those over HTTP each daemon has two addresses.
const TWO_LINKS_PER_MILLE: u64 = 300;
/// In how many of those daemons gossip and move.
const GOSSIP_PER_MILLE: u64 = 250;
/// How many have a network that fails while workers store and remove.
const SILENCE_PER_MILLE: u64 = 150;
/// In how many programs make directories, too.
const TREES_PER_MILLE: u64 = 300;
/// In how many machines that may lose their power alone are both.
const SHARED_MACHINES_PER_MILLE: u64 = 300;
/// For how long deleted files may be kept.
pub(crate) const KEEP_MS: [u64; 3] = [0, 20_000, 600_000];
/// Small, so that a snapshot has many pieces, and others follow it.
const REPLICA_SIZES: ReplicaSizes = ReplicaSizes { piece_bytes: 8 << 10, changed_bytes_min: 32 << 10 };

/// The codes of directories: each survives the loss of one place.
pub const CODES: [&str; 4] = ["rs:2+1", "replica:2", "rs:3+1", "rs:2+2"];

impl Plan {
    fn of(is_brief: bool, mut below: impl FnMut(u64) -> u64) -> Self {
        Self {
            code: CODES[below(CODES.len() as u64) as usize],
            places: 4 + below(2) as u32,
            programs: 1 + below(3) as usize,
            have_trees: false,
            workers: 1 + below(2) as usize,
            has_commands: below(10) < 6,
            looks_for_orphans: below(4) == 0 && !is_brief,
            replica: None,
            has_silence: false,
            shares_machines: false,
            http: None,
            is_brief,
        }
    }

    /// Some histories have more than the others.
    fn with_more(self, mut below: impl FnMut(u64) -> u64) -> Self {
        let has_replica = !self.is_brief && below(1000) < REPLICA_PER_MILLE;
        let keeps_up = if below(1000) < IN_STEP_PER_MILLE { KeepsUp::InStep } else { KeepsUp::Soon };
        let has_silence = !self.is_brief && below(1000) < SILENCE_PER_MILLE;
        let have_trees = below(1000) < TREES_PER_MILLE;
        let shares_machines = below(1000) < SHARED_MACHINES_PER_MILLE;
        Self { replica: has_replica.then_some(keeps_up), has_silence, have_trees, shares_machines, ..self }
    }

    /// Its nodes are daemons.
    fn over_http(self, mut below: impl FnMut(u64) -> u64) -> Self {
        let (is_signed, has_two_links) = (below(2) == 0, below(1000) < TWO_LINKS_PER_MILLE);
        let gossips = !self.is_brief && below(1000) < GOSSIP_PER_MILLE;
        let http = Http { is_signed, has_two_links, gossips };
        Self { http: Some(http), ..self }
    }
}

/// The id of the node at a place; people know nodes by the first digits.
#[must_use]
pub fn node_id(place: u32) -> NodeId {
    NodeId(u128::from(place + 1) << 120 | u128::from(place))
}

/// All places; a node's id says its place's number.
pub struct Places {
    disk: Arc<MetadataDisk>,
    network: Option<Arc<Network>>,
    all: Mutex<Vec<Arc<Place>>>,
}

impl Places {
    /// None yet; metadata is on this disk, and they are reached over HTTP or by messages.
    #[must_use]
    pub fn new(disk: Arc<MetadataDisk>, http: Option<Http>) -> Self {
        Self { disk, network: http.map(Network::new), all: Mutex::default() }
    }

    /// Who is at which address, where they are reached over HTTP.
    #[must_use]
    pub fn network(&self) -> Option<Arc<Network>> {
        self.network.clone()
    }

    /// A further one.
    pub fn add(&self) -> Arc<Place> {
        let mut places = self.all.lock();
        let number = places.len() as u32;
        let identity = NodeIdentity { volume: VOLUME, node: node_id(number) };
        let name = format!("place{number}");
        let machine = self.network.as_ref().map(|network| network.machine(&name, number));
        let place = Place::new(&name, identity, self.disk.clone(), machine);
        places.push(place.clone());
        let noted = Arc::downgrade(&place);
        // One that is gone is asked by nobody who would mind.
        self.disk
            .note_place(move |key, bytes| noted.upgrade().map_or(Some(bytes), |place| place.stored_bytes(key, bytes)));
        self.network.iter().for_each(|network| network.start(&place));
        place
    }

    /// All of them.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<Place>> {
        self.all.lock().clone()
    }
}

/// A process that has the volume mounted.
pub struct Mount {
    /// The process.
    pub process: ProcessId,
    /// The volume, once it is open.
    pub volume: Arc<Mutex<Option<Arc<Volume>>>>,
    emptier: Arc<Mutex<Option<TrashEmptier>>>,
    replicator: Arc<Mutex<Option<Replicator>>>,
    /// When it was started.
    pub since: Duration,
    /// Programs that run on it.
    pub programs_running: Arc<AtomicU64>,
    /// Do programs run?
    pub is_up: Arc<AtomicBool>,
}

/// All that there is.
pub struct World {
    /// Decides what happens.
    pub scheduler: Rc<Scheduler>,
    /// Of what it consists.
    pub plan: Plan,
    /// Where metadata is.
    pub disk: Arc<MetadataDisk>,
    /// Where shards are.
    pub places: Arc<Places>,
    /// What runs on the mount.
    pub programs: Arc<Programs>,
    /// The mount.
    pub mount: Option<Mount>,
    /// The processes that have the volume mounted, where many have.
    pub members: Vec<ProcessId>,
    /// Those who care, with what tells them to end.
    pub workers: Vec<(ProcessId, watch::Sender<bool>)>,
    /// Commands that were given; some may have ended.
    pub commands: Vec<ProcessId>,
    next_process: u32,
    /// Faults that struck.
    pub faults: u64,
    /// What the next mount that comes to look finds is what this has left.
    pub loss: Arc<Mutex<Loss>>,
    /// Metadata was rebuilt from nodes: some shards are of a past that it does not know, and stay.
    pub has_recovered: bool,
    /// The metadata as it was before some mount.
    pub older_copy: Option<MemoryKv>,
    /// The place that has lost something since all was whole.
    pub victim: Option<usize>,
    seed: u64,
    choices: RefCell<ChaCha8Rng>,
}

impl World {
    /// With places and without processes.
    #[must_use]
    pub fn new(scheduler: &Rc<Scheduler>, seed: u64, length: &Length) -> Self {
        Self::over(Arc::default(), scheduler, seed, length)
    }

    /// The same, with its metadata on this disk. One that many share has no replica on the nodes, and no mount on a place's machine.
    #[must_use]
    pub fn over(disk: Arc<MetadataDisk>, scheduler: &Rc<Scheduler>, seed: u64, length: &Length) -> Self {
        let choices = RefCell::new(ChaCha8Rng::seed_from_u64(!seed));
        // By numbers of its own: so the other histories are what they would be without.
        let mut more = ChaCha8Rng::seed_from_u64(!seed);
        more.set_stream(u64::MAX);
        let plan = Plan::of(length.is_brief, |end| choices.borrow_mut().next_u64() % end);
        let plan = plan.with_more(|end| more.next_u64() % end);
        more.set_stream(u64::MAX - 1);
        let plan = if length.is_over_http { plan.over_http(|end| more.next_u64() % end) } else { plan };
        let is_alone = !disk.is_shared();
        let plan = Plan {
            replica: plan.replica.filter(|_| is_alone),
            shares_machines: plan.shares_machines && is_alone,
            ..plan
        };
        scheduler.tell(|| format!("{plan:?}"));
        let places = Arc::new(Places::new(disk.clone(), plan.http));
        (0..plan.places).for_each(|_| drop(places.add()));
        let programs = Programs::new(plan.programs, plan.have_trees);
        if plan.replica == Some(KeepsUp::Soon) {
            programs.models.iter().for_each(|model| model.lock().let_nodes_be_behind());
        }
        Self {
            scheduler: scheduler.clone(),
            plan,
            disk,
            places,
            programs,
            mount: None,
            members: Vec::new(),
            workers: Vec::new(),
            commands: Vec::new(),
            next_process: 0,
            faults: 0,
            loss: Arc::new(Mutex::new(Loss::Crash)),
            has_recovered: false,
            older_copy: None,
            victim: None,
            seed,
            choices,
        }
    }

    /// What is chosen from now on depends on the seed and this number only: a history without its third fault has the same fourth.
    pub fn choose_as(&self, number: u64) {
        let mut choices = ChaCha8Rng::seed_from_u64(self.seed);
        choices.set_stream(number + 1);
        *self.choices.borrow_mut() = choices;
    }

    /// A number below `end`, by which faults are chosen.
    pub fn below(&self, end: u64) -> u64 {
        self.choices.borrow_mut().next_u64() % end.max(1)
    }

    /// Happens in `per_mille` of thousand cases.
    pub fn chance(&self, per_mille: u64) -> bool {
        self.below(1000) < per_mille
    }

    /// One that begins.
    pub fn new_process(&mut self) -> ProcessId {
        self.next_process += 1;
        let process = ProcessId(self.next_process);
        self.scheduler.add_process(process);
        process
    }

    /// Is something not as promised? Then the history is over.
    pub fn has_complaints(&self) -> bool {
        self.scheduler.has_complaints() || !self.programs.complaints.lock().is_empty()
    }

    /// Waits for what must happen.
    ///
    /// # Errors
    /// It does not.
    pub fn wait(&self, what: &str, steps_max: u64, mut is_done: impl FnMut() -> bool) -> Result<(), String> {
        match self.scheduler.run(steps_max, || is_done() || self.has_complaints()) {
            _ if self.has_complaints() => Err(format!("{what}: it ends with a complaint")),
            Ended::Done => Ok(()),
            Ended::Stuck => Err(format!("{what}: nothing goes on: {:?}", self.scheduler.waiting())),
            Ended::TooLong => Err(format!("{what}: it takes too long: {:?}", self.scheduler.waiting())),
        }
    }

    /// Lets time pass, in which programs do little. A fault that waited for a process strikes when that comes.
    pub fn idle(&mut self, time: Duration, steps_max: u64) {
        let (until, last_step) = (self.scheduler.now() + time, self.scheduler.steps() + steps_max);
        loop {
            self.programs.is_slow.store(true, Ordering::Relaxed);
            let steps_left = last_step.saturating_sub(self.scheduler.steps());
            let is_over = || self.scheduler.now() >= until || self.has_complaints();
            self.scheduler.run(steps_left, || is_over() || self.scheduler.is_sprung());
            self.programs.is_slow.store(false, Ordering::Relaxed);
            if !self.scheduler.is_sprung() || self.has_complaints() {
                return;
            }
            self.spring();
        }
    }

    /// Makes the volume.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn format(&mut self) -> Result<(), String> {
        let process = self.new_process();
        let (env, _) = env_of(process);
        let (disk, plan, done) = (self.disk.clone(), self.plan, Arc::new(Mutex::new(None)));
        let told = done.clone();
        // People who give commands find something in the trash.
        let keep_ms = if plan.has_commands { KEEP_MS[self.below(KEEP_MS.len() as u64) as usize] } else { 0 };
        self.scheduler.start(process, "format", move || {
            let made = format(&disk, process, &env, plan, keep_ms).map_err(|error| error.to_string());
            *told.lock() = Some(made);
        });
        self.wait("formatting", 100_000, || done.lock().is_some())?;
        self.scheduler.kill(process);
        self.disk.disown();
        let made = done.lock().take();
        made.unwrap_or(Ok(()))
    }

    /// Starts a mount, and programs on it once it is there.
    pub fn start_mount(&mut self) {
        if self.older_copy.is_none() || self.chance(OLDER_COPY_PER_MILLE) {
            self.older_copy = Some(self.disk.durable());
        }
        let process = self.new_process();
        let (env, runtime) = env_of(process);
        let mount = Mount {
            process,
            volume: Arc::default(),
            emptier: Arc::default(),
            replicator: Arc::default(),
            since: self.scheduler.now(),
            programs_running: Arc::default(),
            is_up: Arc::default(),
        };
        let (disk, places, programs) = (self.disk.clone(), self.places.clone(), self.programs.clone());
        let (slot, is_up, programs_running) =
            (mount.volume.clone(), mount.is_up.clone(), mount.programs_running.clone());
        let (emptier, replicator, keeps_replica) =
            (mount.emptier.clone(), mount.replicator.clone(), self.plan.replica.is_some());
        let loss = self.loss.clone();
        // Each process has a book of addresses of its own here.
        self.places.all().iter().for_each(looked_for);
        self.scheduler.tell(|| format!("{process:?} mounts"));
        self.scheduler.start(process, "mount", move || {
            let volume = persistently(&*env.clock, &format!("{process:?} cannot mount"), || {
                open(&disk, &places, process, &env, &runtime).inspect_err(|_| disk.disown())
            });
            if keeps_replica {
                match Replicator::start(volume.store(), volume.transfer(), REPLICA_SIZES, &runtime) {
                    Ok(started) => *replicator.lock() = started,
                    Err(error) => programs.complain(format!("no replica is kept: {error}")),
                }
            }
            let lost = *loss.lock();
            look_after(lost, &volume, &programs, &env.clock);
            *loss.lock() = Loss::Crash;
            match TrashEmptier::start(&volume, &runtime) {
                Ok(started) => *emptier.lock() = Some(started),
                Err(error) => programs.complain(format!("trash is not emptied: {error}")),
            }
            *slot.lock() = Some(volume.clone());
            for number in 0..programs.models.len() {
                programs_running.fetch_add(1, Ordering::Relaxed);
                let (volume, programs, clock) = (volume.clone(), programs.clone(), env.clock.clone());
                let programs_running = programs_running.clone();
                running().start(process, "program", move || {
                    run_program(&programs, number, &volume, &clock);
                    programs_running.fetch_sub(1, Ordering::Relaxed);
                });
            }
            is_up.store(true, Ordering::Relaxed);
        });
        self.mount = Some(mount);
    }

    /// Starts another worker.
    pub fn start_worker(&mut self) {
        let worker = self.worker_of(&self.disk.clone());
        self.workers.push(worker);
    }

    /// A worker that goes by the metadata on this disk.
    pub fn worker_of(&mut self, disk: &Arc<MetadataDisk>) -> (ProcessId, watch::Sender<bool>) {
        let process = self.new_process();
        let (env, runtime) = env_of(process);
        let (disk, places) = (disk.clone(), self.places.clone());
        let (stop, stopped) = watch::channel(false);
        self.scheduler.tell(|| format!("{process:?} cares"));
        self.scheduler.start(process, "worker", move || {
            let worker = persistently(&*env.clock, &format!("{process:?} cannot care"), || {
                worker(&disk, &places, process, &env, &runtime)
            });
            runtime.block_on(worker.run(stopped));
        });
        (process, stop)
    }

    /// Kills the mount, if there is one.
    pub fn kill_mount(&mut self) {
        if let Some(mount) = self.mount.take() {
            self.scheduler.kill(mount.process);
            self.disk.crash(&self.scheduler);
            std::mem::forget(mount);
        }
    }

    /// Kills the worker of this number, if there is one.
    pub fn kill_worker(&mut self, number: usize) {
        if number >= self.workers.len() {
            return;
        }
        let (process, stop) = self.workers.swap_remove(number);
        self.scheduler.kill(process);
        std::mem::forget(stop);
    }

    /// Ends the mount as `weft umount` does, after everything was read and compared. Do nodes have all names?
    ///
    /// # Errors
    /// Something differs, or cannot be written.
    pub fn unmount(&mut self, steps_max: u64) -> Result<bool, String> {
        let Some(mount) = self.mount.take() else { return Ok(false) };
        let is_behind = Arc::new(AtomicBool::new(self.plan.replica.is_none()));
        let replica_is_behind = is_behind.clone();
        let (programs, slot, done) = (self.programs.clone(), mount.volume.clone(), Arc::new(Mutex::new(None)));
        let (told, emptier, replicator) = (done.clone(), mount.emptier.clone(), mount.replicator.clone());
        let (env, _) = env_of(mount.process);
        self.scheduler.start(mount.process, "unmount", move || {
            let Some(volume) = slot.lock().take() else { return };
            let emptier = emptier.lock().take();
            drop(emptier);
            let ended = last_look(&volume, &programs, &env.clock)
                .and_then(|()| volume.shut_down().map_err(|error| error.to_string()));
            match replicator.lock().take().map_or(Ok(()), Replicator::end) {
                Ok(()) => {}
                Err(why) => {
                    running().tell(|| format!("nodes lack the last changes: {why}"));
                    is_behind.store(true, Ordering::Relaxed);
                }
            }
            *told.lock() = Some(ended);
        });
        self.wait("unmounting", steps_max, || done.lock().is_some())?;
        let ended = done.lock().take().unwrap_or(Ok(()));
        self.scheduler.kill(mount.process);
        self.disk.disown();
        std::mem::forget(mount);
        ended.map(|()| !replica_is_behind.load(Ordering::Relaxed))
    }
}

/// Tries until it succeeds; `complaint` and why it did not are told each time.
pub(crate) fn persistently<T, E: fmt::Display>(
    clock: &dyn Clock,
    complaint: &str,
    mut attempt: impl FnMut() -> Result<T, E>,
) -> T {
    loop {
        match attempt() {
            Ok(done) => return done,
            Err(why) => running().tell(|| format!("{complaint}: {why}")),
        }
        clock.block(AGAIN);
    }
}

fn format(disk: &Arc<MetadataDisk>, process: ProcessId, env: &Env, plan: Plan, keep_ms: u64) -> Result<(), MetaError> {
    let kv = disk.own(process, env).ok_or_else(|| MetaError::InUse("another owner".into()))?;
    let now_ms = env.clock.unix_ms();
    let now = Timestamp { seconds: (now_ms / 1000) as i64, nanoseconds: 0 };
    // The shortest that there are: a large write takes several, and some of a file may be in one while the rest is in the journal.
    let sizes = Sizes { segment_bytes: Some(*SEGMENT_BYTES.start()), ..Sizes::default() };
    let policy = PolicyRecord { sizes, ..PolicyRecord::of(plan.code, None) };
    let volume = VolumeRecord { volume: VOLUME, created_ms: now_ms, default_policy: PolicyId(0) };
    let store = Store::format(kv, &volume, &policy, now, env)?;
    for number in 0..plan.places {
        store.add_node(node_id(number), &node_record(number))?;
    }
    if plan.replica == Some(KeepsUp::InStep) {
        store.set_in_step(true)?;
    }
    store.set_keep_ms(keep_ms)?;
    store.flush()
}

/// The record of the node at place `number`.
#[must_use]
pub fn node_record(number: u32) -> NodeRecord {
    let name = format!("place{number}");
    NodeRecord::of(&name, format!("memory:{name}"))
}

pub(crate) fn members(store: &Store, places: &Places, process: ProcessId) -> Result<Members, MetaError> {
    // A place is made before its record is.
    let nodes = store.nodes()?;
    let places = places.all();
    let node = |(id, record): (NodeId, NodeRecord)| {
        let place = places[place_of(id)].clone();
        (id, record, SimNode::seen_by(place, process))
    };
    Ok(nodes.into_iter().map(node).collect())
}

/// A transfer to the nodes that metadata has now.
///
/// # Errors
/// Metadata cannot be read.
pub fn transfer(store: &Store, places: &Places, process: ProcessId, runtime: &Runtime) -> Result<Transfer, MetaError> {
    let fleet = Fleet::new(members(store, places, process)?, store.placement_rule()?, store.env());
    let settings = weft_transfer::Settings { cache_bytes: 1 << 20, ..weft_transfer::Settings::default() };
    Ok(Transfer::new(VOLUME, Arc::new(fleet), settings, runtime))
}

fn open(
    disk: &Arc<MetadataDisk>,
    places: &Arc<Places>,
    process: ProcessId,
    env: &Env,
    runtime: &Runtime,
) -> Result<Arc<Volume>, VfsError> {
    let kv = disk.own(process, env).ok_or_else(|| MetaError::InUse("another owner".into()))?;
    let store = Store::open(kv, env)?;
    let transfer = transfer(&store, places, process, runtime)?;
    let places = places.clone();
    let open_nodes = Box::new(move |store: &Store| members(store, &places, process));
    start_volume(store, transfer, open_nodes, Settings { dirty_bytes: 16 << 20, ..Settings::default() })
}

fn worker(
    disk: &Arc<MetadataDisk>,
    places: &Arc<Places>,
    process: ProcessId,
    env: &Env,
    runtime: &Runtime,
) -> Result<Worker, MetaError> {
    let store = Arc::new(Store::open(disk.share(process, env), env)?);
    let transfer = transfer(&store, places, process, runtime)?.in_background();
    // What is lost in silence is found by a scrub, and what is not needed by a collection: here sooner than in a month and a day.
    let timeouts = Timeouts {
        scrub_every_ms: Some(600_000),
        collect_every_ms: 300_000,
        convert_every_ms: 600_000,
        discard_every_ms: 120_000,
        ..Timeouts::default()
    };
    let (followed, places, fleet) = (store.clone(), places.clone(), transfer.fleet().clone());
    let node_watcher = Mutex::new(NodeWatcher::new(Box::new(move |store: &Store| members(store, &places, process))));
    let follow_nodes = move || {
        let following = node_watcher.lock().follow(&followed, &fleet);
        following.map(drop).map_err(|error| CatalogueError::Failed(error.to_string()))
    };
    Ok(Worker {
        catalogue: Arc::new(StoreCatalogue::new(store)),
        transfer,
        board: Arc::<Board>::default(),
        options: Options { timeouts, holder: format!("{process:?}") },
        follow_nodes: Box::new(follow_nodes),
    })
}

/// Does operations until it is to stop.
fn run_program(programs: &Programs, number: usize, volume: &Volume, clock: &Arc<dyn Clock>) {
    let Ok(files) = VolumeFiles::of_program(volume, programs, number, clock) else { return };
    while !programs.is_stopping.load(Ordering::Relaxed) {
        while programs.is_slow.load(Ordering::Relaxed) && !running().chance(SLOW_OPERATIONS_PER_MILLE) {
            files.pause(SLOW_MS);
        }
        // Another may be making the directory.
        if running().chance(MEDDLING_PER_MILLE)
            && let Ok(common) = VolumeFiles::of(volume, COMMON, clock)
        {
            meddle(&common, programs.have_trees, |end| running().below(end));
        }
        let below = |end| running().below(end);
        let operation = match programs.takes_large_write() {
            true => workload::append_much(below, &programs.models[number].lock()),
            false => programs.next(number, below),
        };
        let done = client::perform(programs, number, &files, &operation);
        tracing::debug!("program {number}: {operation:?}: {done:?}");
        if operation.syncs() {
            let (succeeded, refused) = &mut programs.syncs.lock()[number];
            *if done.is_ok() { succeeded } else { refused } += 1;
        }
        match done {
            Ok(()) => {
                programs.operations.fetch_add(1, Ordering::Relaxed);
            }
            Err(Failure::Refused(why) | Failure::Unknown(why) | Failure::Gone(why)) => {
                running().tell(|| format!("program {number}: {operation:?}: {why}"));
                files.pause(running().below(500));
            }
        }
    }
}

fn found(volume: &Volume, programs: &Programs, number: usize, clock: &Arc<dyn Clock>) -> Result<Contents, String> {
    let files = VolumeFiles::of_program(volume, programs, number, clock).map_err(|error| error.to_string())?;
    files.contents().map_err(|(Failure::Refused(why) | Failure::Unknown(why) | Failure::Gone(why))| why)
}

/// What a crash or worse has left must be what the models allow.
fn look_after(loss: Loss, volume: &Volume, programs: &Programs, clock: &Arc<dyn Clock>) {
    for (number, model) in programs.models.iter().enumerate() {
        let complaint = format!("program {number} cannot read");
        let found = persistently(&**clock, &complaint, || found(volume, programs, number, clock));
        if let Err(why) = model.lock().recover(&found, loss) {
            programs.complain(format!("program {number} {why}"));
        }
    }
}

/// At the end everything can be read, and is what was written.
fn last_look(volume: &Volume, programs: &Programs, clock: &Arc<dyn Clock>) -> Result<(), String> {
    for (number, model) in programs.models.iter().enumerate() {
        let found = found(volume, programs, number, clock)
            .map_err(|why| format!("program {number} cannot read at the end: {why}"))?;
        model.lock().check_now(&found).map_err(|why| format!("program {number} at the end: {why}"))?;
    }
    Ok(())
}
