//! One history: a store is opened, threads use it, its process dies, what is left is opened by the next, and at last it is closed.

use super::crash::{Death, Fate, Watch};
use super::disk::{Disk, End};
use super::order::Contents;
use super::program::{Batches, Program, SHARED, Told, look_at_all, run_threads};
use crate::ambush::ProcessId;
use crate::scheduler::{Ended, Scheduler, env_of};
use crate::weights::chosen;
use parking_lot::Mutex;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use weft_env::{Env, steps};
use weft_meta::Access;
use weft_meta::engines::SqliteKv;
use weft_meta::kv::{Kv, KvError};

const LIVES_MAX: u64 = 4;
const THREADS_MAX: u64 = 4;
const OPERATIONS_MAX: u64 = 14;
/// A life that takes more has something that never ends.
const STEPS_MAX: u64 = 400_000;
/// A life has up to this number of steps before it dies, ...
const STEPS_OF_LIFE: u64 = 500;
/// ... says so often that something is durable, ...
const SAID_MAX: u64 = 6;
/// ... after which it may live for this number of steps, ...
const STEPS_AFTER: u64 = 12;
/// ... and syncs so often, ...
const SYNCS_OF_LIFE: u64 = 30;
/// ... so often while it is opened.
const SYNCS_OF_OPENING: u64 = 10;

/// What a history came to.
#[derive(Debug, Default)]
pub struct Outcome {
    /// What is not as promised; empty: nothing.
    pub complaints: Vec<String>,
    /// Steps of the scheduler.
    pub steps: u64,
    /// Commits that were acknowledged, ...
    pub commits: u64,
    /// ... those that met another, ...
    pub conflicts: u64,
    /// ... views, ...
    pub looks: u64,
    /// ... and flushes.
    pub flushes: u64,
    /// Processes that died.
    pub deaths: u64,
    /// All that was told, if it was kept.
    pub lines: Vec<String>,
    /// The same for two runs of one seed.
    pub digest: String,
}

/// Runs the history of `seed`.
///
/// # Panics
/// There is no room for the files of a small store.
#[must_use]
pub fn run(seed: u64, is_told: bool) -> Outcome {
    allow_files();
    let folder = tempfile::tempdir_in(place()).expect("a folder");
    SqliteKv::create(&folder.path().join("volume")).expect("a store");
    let scheduler = Scheduler::begin(seed, is_told);
    let disk = Rc::new(RefCell::new(Disk::begin(folder.path()).expect("the folder is there")));
    let told = Arc::new(Mutex::new(Told::default()));
    let mut history = History { scheduler: scheduler.clone(), disk, told, deaths: 0, plan: Plan::of(&scheduler) };
    history.live();
    steps::set(None);
    let complaints = scheduler.take_complaints();
    complaints.iter().for_each(|complaint| scheduler.tell(|| format!("COMPLAINT {complaint}")));
    let (lines, digest) = scheduler.told();
    let told = history.told.lock();
    let outcome = Outcome {
        complaints,
        steps: scheduler.steps(),
        commits: told.commits,
        conflicts: told.conflicts,
        looks: told.looks,
        flushes: told.flushes,
        deaths: history.deaths,
        lines,
        digest,
    };
    scheduler.end();
    outcome
}

/// A process that dies leaves about a dozen open files in this one, which are closed when this one ends.
fn allow_files() {
    let limit = getrlimit(Resource::Nofile);
    // With fewer a store says that it cannot be opened.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// What is durable the history decides, so that a disk in memory is as good as another.
fn place() -> PathBuf {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() }
}

/// How the histories of this seed differ from others.
#[derive(Clone, Copy, Debug)]
struct Plan {
    batches: Batches,
    lives: u64,
    threads: u64,
    operations: u64,
}

impl Plan {
    fn of(scheduler: &Scheduler) -> Self {
        Self {
            batches: chosen(&[(Batches::Behind, 5), (Batches::Grouped, 3), (Batches::Free, 2)], |end| {
                scheduler.below(end)
            }),
            lives: 1 + scheduler.below(LIVES_MAX),
            threads: 1 + scheduler.below(THREADS_MAX),
            operations: 2 + scheduler.below(OPERATIONS_MAX - 1),
        }
    }
}

struct History {
    scheduler: Rc<Scheduler>,
    disk: Rc<RefCell<Disk>>,
    told: Arc<Mutex<Told>>,
    deaths: u64,
    plan: Plan,
}

impl History {
    fn live(&mut self) {
        let plan = self.plan;
        self.scheduler.tell(|| format!("{plan:?}"));
        // All lives see the same bounds: a log's layout goes by them.
        let scale = chosen(&[(256, 1), (1024, 2), (2048, 2)], |end| self.scheduler.below(end));
        for life in 0..=plan.lives {
            let is_last = life == plan.lives;
            let fate = self.fate(scale, is_last);
            self.scheduler.tell(|| format!("life {life}: {fate:?}"));
            if !self.live_once(life, fate, is_last) || self.is_broken() {
                return;
            }
        }
    }

    fn is_broken(&self) -> bool {
        let complaints = self.scheduler.take_complaints();
        let is_broken = !complaints.is_empty();
        complaints.into_iter().for_each(|complaint| self.scheduler.complain(complaint));
        is_broken
    }

    fn fate(&self, scale: u64, is_last: bool) -> Fate {
        let scheduler = &self.scheduler;
        let death = match scheduler.below(10) {
            0..3 => Some(Death::Step(scheduler.below(STEPS_OF_LIFE))),
            3 => Some(Death::Sync(scheduler.below(SYNCS_OF_OPENING))),
            4..6 => Some(Death::Sync(scheduler.below(SYNCS_OF_LIFE))),
            6..9 => Some(Death::Said(1 + scheduler.below(SAID_MAX), scheduler.below(STEPS_AFTER))),
            _ => None,
        };
        let end = chosen(&[(End::PowerCut, 5), (End::Bare, 2), (End::Kill, 3)], |end| scheduler.below(end));
        let switches = [1000, 400, 100, 30][scheduler.below(4) as usize];
        let waits = [0, 5, 30, 100][scheduler.below(4) as usize];
        let slow = [0, 100, 500][scheduler.below(3) as usize];
        let full = [0, 0, 0, 100, 400][scheduler.below(5) as usize];
        // The last one is to close it.
        let (death, full) = if is_last { (None, 0) } else { (death, full) };
        Fate { death, end, switches, waits, slow, full, scale }
    }

    /// One life of a process; false: it goes on for ever.
    fn live_once(&mut self, life: u64, fate: Fate, is_last: bool) -> bool {
        let process = ProcessId(life as u32);
        self.scheduler.add_process(process);
        let (env, _) = env_of(process);
        let said = Arc::<AtomicU64>::default();
        let watch = Rc::new(Watch::new(process, env.clock.clone(), fate, self.disk.clone(), said.clone()));
        steps::set(Some(watch.clone()));
        let is_over = Arc::new(AtomicBool::new(false));
        let life = Life {
            store: self.disk.borrow().store(),
            env,
            told: self.told.clone(),
            said,
            plan: self.plan,
            only_looks: is_last,
            is_over: is_over.clone(),
        };
        self.scheduler.start(process, "main", move || life.live());
        let ended = self.scheduler.run(STEPS_MAX, || watch.is_dead() || is_over.load(Ordering::Relaxed));
        if ended != Ended::Done {
            self.scheduler.complain(format!("{ended:?}: {:?}", self.scheduler.waiting()));
            return false;
        }
        let is_dead = watch.is_dead();
        self.deaths += u64::from(is_dead);
        self.scheduler.kill(process);
        steps::set(None);
        // What is closed may be taken elsewhere.
        let end = if !is_dead && fate.full == 0 && self.scheduler.chance(300) { End::Moved } else { fate.end };
        self.scheduler.tell(|| format!("the next finds what is left by {end:?}"));
        if let Err(error) = self.disk.borrow_mut().end(end, self.scheduler.random()) {
            self.scheduler.complain(format!("the folder of the test cannot be used: {error}"));
            return false;
        }
        true
    }
}

/// What a process does.
struct Life {
    store: PathBuf,
    env: Env,
    told: Arc<Mutex<Told>>,
    said: Arc<AtomicU64>,
    plan: Plan,
    /// It changes nothing.
    only_looks: bool,
    is_over: Arc<AtomicBool>,
}

impl Life {
    fn live(self) {
        if let Err(complaint) = self.open_and_work() {
            crate::scheduler::running().complain(complaint);
        }
        self.is_over.store(true, Ordering::Relaxed);
    }

    fn open_and_work(&self) -> Result<(), String> {
        let scheduler = crate::scheduler::running();
        let opened = SqliteKv::open(&self.store, Access::Owner, SHARED, None, &self.env);
        let kv = Arc::new(opened.map_err(|error| format!("what is left does not open: {error}"))?);
        let found = look_at_all(&*kv).map_err(|error| format!("what is left cannot be read: {error}"))?;
        scheduler.tell(|| format!("finds {found:?}"));
        self.compare(found)?;
        let faults = kv.verify(&mut |_| {}).map_err(|error| format!("it cannot be verified: {error}"))?;
        if !faults.is_empty() {
            return Err(format!("what is left is damaged: {}", faults.join("; ")));
        }
        if !self.only_looks {
            self.work(&kv)?;
        }
        let is_closed = scheduler.chance(500);
        match if is_closed { kv.close() } else { kv.flush() } {
            // It leaves then what it has not written.
            Err(KvError::Full { .. }) => {}
            closed => {
                closed.map_err(|error| format!("it does not close: {error}"))?;
                self.told.lock().note_closed();
            }
        }
        let kv = Arc::into_inner(kv).ok_or("a thread has it still")?;
        drop(kv);
        Ok(())
    }

    /// What was promised of the calls of those who had it before?
    fn compare(&self, found: Contents) -> Result<(), String> {
        let mut told = self.told.lock();
        let calls = told.take_calls();
        let start = std::mem::replace(&mut told.start, found.clone());
        self.plan.batches.explain(&start, &calls, &found)
    }

    /// Threads use it, and end.
    fn work(&self, kv: &Arc<SqliteKv>) -> Result<(), String> {
        let plan = self.plan;
        let program = |number| {
            let (kv, told, clock) = (kv.clone(), self.told.clone(), self.env.clock.clone());
            let said = self.said.clone();
            Program { number, kv, told, said, clock, batches: plan.batches, is_on_a_server: false }
        };
        run_threads(&*self.env.spawner, plan.threads, plan.operations, program)
    }
}

#[cfg(test)]
#[path = "history_tests.rs"]
mod tests;
