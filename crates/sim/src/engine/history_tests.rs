//! Some histories in every test run; `weft-sim engine` has the many.

use super::super::crash::{Death, Fate};
use super::super::disk::End;
use super::*;
use weft_env::planted::{Planted, with_planted};

/// No scheduling by chance: what happens is what the test says.
fn fate(death: Option<Death>, end: End) -> Fate {
    Fate { death, end, switches: 0, waits: 0, slow: 0, full: 0, scale: 1024 }
}

/// A store whose value counts what was committed, and how much of that was said to be durable.
struct Counted {
    scheduler: Rc<Scheduler>,
    disk: Rc<RefCell<Disk>>,
    life: u32,
    durable: Arc<AtomicU64>,
    _folder: tempfile::TempDir,
}

const KEY: &[u8] = b"a0";

fn number(kv: &SqliteKv) -> Result<u64, KvError> {
    let bytes = kv.snapshot()?.get(KEY)?;
    Ok(bytes.map_or(0, |bytes| u64::from_be_bytes(bytes.try_into().expect("a number"))))
}

fn count(kv: &SqliteKv, number: u64) -> Result<(), KvError> {
    kv.commit(weft_meta::kv::Batch {
        writes: vec![(KEY.to_vec(), Some(number.to_be_bytes().to_vec()))],
        ..Default::default()
    })
}

impl Counted {
    fn begin() -> Self {
        let folder = tempfile::tempdir_in(place()).unwrap();
        SqliteKv::create(&folder.path().join("volume")).unwrap();
        let disk = Rc::new(RefCell::new(Disk::begin(folder.path()).unwrap()));
        Self { scheduler: Scheduler::begin(0, true), disk, life: 0, durable: Arc::default(), _folder: folder }
    }

    /// A process opens the store, finds what was durable, and counts on: each number is durable by the log, some by the file. Did it die?
    fn live(&mut self, fate: Fate, numbers: u64) -> bool {
        self.life += 1;
        let process = ProcessId(self.life);
        self.scheduler.add_process(process);
        let (env, _) = env_of(process);
        let watch = Watch::new(process, env.clock.clone(), fate, self.disk.clone(), Arc::default());
        let watch = Rc::new(watch);
        steps::set(Some(watch.clone()));
        let (store, durable, is_over) =
            (self.disk.borrow().store(), self.durable.clone(), Arc::<AtomicBool>::default());
        let is_done = is_over.clone();
        let body = move || {
            let live = || -> Result<(), String> {
                let opened = SqliteKv::open(&store, Access::Owner, SHARED, None, &env);
                let kv = opened.map_err(|error| error.to_string())?;
                let counts = || -> Result<(), KvError> {
                    let (found, least) = (number(&kv)?, durable.load(Ordering::Relaxed));
                    if found < least {
                        crate::scheduler::running().complain(format!("{least} was durable, and there is {found}"));
                    }
                    for number in found + 1..=found + numbers {
                        count(&kv, number)?;
                        if number.is_multiple_of(3) {
                            kv.history().expect("it has one").settle()?
                        } else {
                            kv.flush()?
                        }
                        durable.store(number, Ordering::Relaxed);
                    }
                    Ok(())
                };
                counts().map_err(|error| error.to_string())
            };
            if let Err(complaint) = live() {
                crate::scheduler::running().complain(complaint);
            }
            is_over.store(true, Ordering::Relaxed);
        };
        self.scheduler.start(process, "main", body);
        let ended = self.scheduler.run(100_000, || watch.is_dead() || is_done.load(Ordering::Relaxed));
        assert_eq!(ended, Ended::Done, "{:?}", self.scheduler.waiting());
        self.scheduler.kill(process);
        steps::set(None);
        self.disk.borrow_mut().end(fate.end, 0).unwrap();
        watch.is_dead()
    }
}

/// A process is killed before the sync with each number; the next finds all that it left, and loses its power before each sync,
/// with all that was not synced; the third must find what was durable.
fn complaint_of_all_pairs(first_end: End) -> Option<String> {
    allow_files();
    for first in 0.. {
        let mut is_first_dead = false;
        for second in 0.. {
            let mut counted = Counted::begin();
            is_first_dead = counted.live(fate(Some(Death::Sync(first)), first_end), 5);
            let is_second_dead = counted.live(fate(Some(Death::Sync(second)), End::Bare), 2);
            counted.live(fate(None, End::Bare), 0);
            let found = counted.scheduler.take_complaints();
            counted.scheduler.end();
            if let Some(complaint) = found.first() {
                return Some(format!("{first_end:?} before sync {first}, then before sync {second}: {complaint}"));
            }
            if !is_second_dead {
                break;
            }
        }
        if !is_first_dead {
            assert!(first > 5, "the first life syncs more than {first} times");
            return None;
        }
    }
    unreachable!("each life ends")
}

#[test]
fn what_is_durable_survives_each_pair_of_crashes() {
    for end in [End::Kill, End::Bare] {
        assert_eq!(complaint_of_all_pairs(end), None);
    }
}

#[test]
fn a_log_that_is_cut_early_is_found_by_a_pair_of_crashes() {
    assert!(with_planted(Planted::LogCutEarly, || complaint_of_all_pairs(End::Kill)).is_some());
}

#[test]
fn one_seed_gives_one_history() {
    for seed in 0..40 {
        let (one, other) = (run(seed, false), run(seed, true));
        assert_eq!((one.digest, one.steps), (other.digest, other.steps), "seed {seed}");
    }
}

/// Each seed by name: `weft-sim replay SEED --engine` shows what happens.
#[test]
fn what_is_promised_is_kept() {
    let (mut commits, mut conflicts, mut looks, mut flushes, mut deaths) = (0, 0, 0, 0, 0);
    for seed in 0..200 {
        let outcome = run(seed, false);
        assert!(outcome.complaints.is_empty(), "seed {seed}: {:?}", outcome.complaints);
        commits += outcome.commits;
        conflicts += outcome.conflicts;
        looks += outcome.looks;
        flushes += outcome.flushes;
        deaths += outcome.deaths;
    }
    let counts = format!("{commits} commits, {conflicts} conflicts, {looks} looks, {flushes} flushes, {deaths} deaths");
    assert!(commits > 2_000 && conflicts > 80 && looks > 2_000 && flushes > 500 && deaths > 200, "{counts}");
}

/// With about three times the seeds that each takes.
const PLANTED_SOON: [(Planted, u64); 12] = [
    (Planted::ViewNotPinned, 30),
    (Planted::CacheFilledLate, 10),
    (Planted::CheckedOnce, 10),
    (Planted::KeysNotHeld, 25),
    (Planted::AnsweredEarly, 80),
    (Planted::FiledEarly, 360),
    (Planted::RecordNotSynced, 10),
    (Planted::FiledUnlogged, 40),
    (Planted::RecordsNotFiled, 10),
    (Planted::WitnessAhead, 10),
    (Planted::TransactionNotSynced, 10),
    (Planted::LogCutEarly, 350),
];

/// A bug that is not found is a hole in the checker. Those that take more seeds are in the next test.
#[test]
fn planted_bugs_are_found() {
    for (bug, seeds_max) in PLANTED_SOON {
        let is_found = (0..seeds_max).any(|seed| !with_planted(bug, || run(seed, false)).complaints.is_empty());
        assert!(is_found, "{bug:?} is not found by {seeds_max} seeds");
    }
}

/// These take many seeds: after a change of the workload `weft-sim canaries --engine` says which.
const PLANTED_LATE: [(Planted, u64); 3] =
    [(Planted::FrozenForgottenEarly, 1302), (Planted::HalvesUnordered, 1219), (Planted::HalfUsedEarly, 1215)];

#[test]
fn what_many_seeds_found_is_whole() {
    for (bug, seed) in PLANTED_LATE {
        assert!(
            !with_planted(bug, || run(seed, false)).complaints.is_empty(),
            "{bug:?} does not show by seed {seed} any more"
        );
        let outcome = run(seed, false);
        assert!(outcome.complaints.is_empty(), "seed {seed}: {:?}", outcome.complaints);
    }
}
