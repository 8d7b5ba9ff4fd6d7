//! The owner's write-behind (`weft_meta::engines::behind`) over a server whose answers are late or lost, and which has one owner: a process
//! that another has replaced may go on, and is refused.
//!
//! The loop: `a process takes the place -> what is found is explained by what was acknowledged -> threads commit, look and flush ->
//! it dies, or its place is taken -> the next`.

use super::history::Outcome;
use super::order::Contents;
use super::program::{Batches, Program, SHARED, Told, look_at_all, run_threads};
use crate::ambush::ProcessId;
use crate::scheduler::{Ended, Scheduler, env_of, running};
use crate::weights::chosen;
use parking_lot::Mutex;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use weft_env::steps::Steps;
use weft_env::turns::{Turns, Until};
use weft_env::{Clock, Env, steps};
use weft_meta::engines::MemoryKv;
use weft_meta::engines::behind::Behind;
use weft_meta::engines::memory::MemorySnapshot;
use weft_meta::kv::{Batch, Kv, KvError, Pair, Sessions, Snapshot, WHOLE_COMMIT};

const LIVES_MAX: u64 = 4;
const THREADS_MAX: u64 = 4;
const OPERATIONS_MAX: u64 = 10;
/// A life that takes more has something that never ends.
const STEPS_MAX: u64 = 200_000;
/// A life has up to this number of steps before it dies.
const STEPS_OF_LIFE: u64 = 1_500;
/// A request or its answer takes up to this.
const WAY_US_MAX: u64 = 3_000;
/// The server takes no more in a commit, besides the mark: two or three batches of a program.
const WRITES_MAX: u64 = 6;
/// A copy of a request may come so late.
const LATE_MS_MAX: u64 = 400;

/// What all processes reach.
#[derive(Default)]
struct World {
    kv: MemoryKv,
    /// The session that owns the store.
    owner: AtomicU64,
}

/// The server as one process has it.
struct Server {
    world: Arc<World>,
    session: u64,
    clock: Arc<dyn Clock>,
    /// Of thousand requests that change something, how many are not done, ...
    lost: u64,
    /// ... how many are done and not answered, ...
    unanswered: u64,
    /// ... and of those that are not done, how many come later all the same.
    late: u64,
}

fn failed() -> KvError {
    KvError::Failed { store: "server".into(), detail: "it does not answer".into() }
}

impl Server {
    fn way(&self) {
        self.clock.block(Duration::from_micros(running().below(WAY_US_MAX)));
    }
}

impl World {
    fn refuse_unless_owner(&self, session: u64) -> Result<(), KvError> {
        if self.owner.load(Ordering::Relaxed) == session {
            return Ok(());
        }
        Err(KvError::Displaced { sentence: "another has its place".into() })
    }

    fn commit(&self, session: u64, batch: Batch) -> Result<(), KvError> {
        self.refuse_unless_owner(session)?;
        self.kv.commit(batch)
    }
}

impl Kv for Server {
    fn snapshot(&self) -> Result<Box<dyn Snapshot + '_>, KvError> {
        Ok(Box::new(View { server: self, first: RefCell::new(None), fixed: RefCell::new(None) }))
    }

    fn commit(&self, batch: Batch) -> Result<(), KvError> {
        self.way();
        let scheduler = running();
        if batch.writes.len() as u64 > WRITES_MAX + 1 {
            scheduler.complain(format!(
                "{} writes come at once, and the server takes no more than {WRITES_MAX}",
                batch.writes.len()
            ));
        }
        if scheduler.chance(self.lost) {
            if scheduler.chance(self.late) {
                let (world, session) = (self.world.clone(), self.session);
                scheduler.after(Duration::from_millis(scheduler.below(LATE_MS_MAX)), move || {
                    let done = world.commit(session, batch);
                    running().tell(|| format!("a request of {session} comes late: {done:?}"));
                });
            }
            return Err(failed());
        }
        let done = self.world.commit(self.session, batch);
        scheduler.tell(|| format!("the server answers {}: {done:?}", self.session));
        if scheduler.chance(self.unanswered) && !matches!(done, Err(KvError::Displaced { .. })) {
            return Err(failed());
        }
        self.way();
        done
    }

    fn share_of_commit(&self, _key: &[u8], _value: Option<&[u8]>) -> u64 {
        WHOLE_COMMIT / WRITES_MAX
    }

    fn flush(&self) -> Result<(), KvError> {
        Ok(())
    }

    fn sessions(&self) -> Option<&dyn Sessions> {
        Some(self)
    }
}

impl Sessions for Server {
    fn own(&self) -> Result<i64, KvError> {
        Ok(self.session.cast_signed())
    }

    fn members(&self) -> Result<BTreeSet<i64>, KvError> {
        Ok([self.world.owner.load(Ordering::Relaxed).cast_signed()].into())
    }

    fn make_sure(&self) -> Result<(), KvError> {
        self.world.refuse_unless_owner(self.session)
    }
}

/// As little as an engine must promise: the second question has the moment of the view, if the first would be answered alike at it.
struct View<'s> {
    server: &'s Server,
    first: RefCell<Option<(First, Vec<Pair>)>>,
    fixed: RefCell<Option<MemorySnapshot>>,
}

/// Asks the first question again.
type First = Box<dyn Fn(&MemorySnapshot) -> Result<Vec<Pair>, KvError>>;

impl View<'_> {
    fn ask(
        &self,
        question: impl Fn(&MemorySnapshot) -> Result<Vec<Pair>, KvError> + 'static,
    ) -> Result<Vec<Pair>, KvError> {
        self.server.way();
        if let Some(fixed) = &*self.fixed.borrow() {
            return question(fixed);
        }
        let now = self.server.world.kv.view();
        let answer = question(&now)?;
        let mut first = self.first.borrow_mut();
        match &*first {
            None => *first = Some((Box::new(question), answer.clone())),
            Some((again, before)) => {
                if again(&now)? != *before {
                    return Err(KvError::Conflict);
                }
                *self.fixed.borrow_mut() = Some(now);
            }
        }
        drop(first);
        self.server.way();
        Ok(answer)
    }
}

impl Snapshot for View<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, KvError> {
        Ok(self.get_many(&[key.to_vec()])?.pop().flatten())
    }

    fn get_many(&self, keys: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>, KvError> {
        let asked = keys.to_vec();
        let found = self.ask(move |view| {
            let pairs = asked.iter().map(|key| Ok(view.get(key)?.map(|value| (key.clone(), value))));
            pairs.filter_map(Result::transpose).collect()
        })?;
        let value = |key| found.iter().find(|(found, _)| found == key).map(|(_, value)| value.clone());
        Ok(keys.iter().map(value).collect())
    }

    fn scan(&self, start: &[u8], end: &[u8], limit: usize) -> Result<Vec<Pair>, KvError> {
        let (start, end) = (start.to_vec(), end.to_vec());
        self.ask(move |view| view.scan(&start, &end, limit))
    }
}

/// Lets others run at the steps of a process.
struct Switches {
    /// Of thousand steps, at how many.
    per_mille: u64,
}

impl Steps for Switches {
    fn step(&self) {
        let scheduler = running();
        if generator::is_generator() && scheduler.chance(self.per_mille) {
            scheduler.pass(Until::Now);
        }
    }

    fn synced(&self, _file: &std::path::Path) {}

    fn names_synced(&self, _folder: &std::path::Path) {}

    fn has_room(&self) -> bool {
        true
    }

    /// Small ones, which few batches reach.
    fn bound(&self, usual: u64) -> u64 {
        usual / 2048
    }
}

/// Runs the history of `seed`.
#[must_use]
pub fn run(seed: u64, is_told: bool) -> Outcome {
    let scheduler = Scheduler::begin(seed, is_told);
    let below = |end| scheduler.below(end);
    let plan = Plan {
        batches: chosen(&[(Batches::Behind, 5), (Batches::Grouped, 3), (Batches::Free, 2)], below),
        lives: 1 + below(LIVES_MAX),
        threads: 1 + below(THREADS_MAX),
        operations: 2 + below(OPERATIONS_MAX - 1),
        lost: [0, 0, 50, 200][below(4) as usize],
        unanswered: [0, 0, 50, 200][below(4) as usize],
        late: [0, 500][below(2) as usize],
    };
    scheduler.tell(|| format!("{plan:?}"));
    steps::set(Some(Rc::new(Switches { per_mille: [1000, 400, 100, 30][below(4) as usize] })));
    let mut history = History { scheduler: scheduler.clone(), plan, world: Arc::default(), ended: Vec::new() };
    for life in 0..=plan.lives {
        if !history.live_once(life) || history.is_broken() {
            break;
        }
    }
    steps::set(None);
    let complaints = scheduler.take_complaints();
    complaints.iter().for_each(|complaint| scheduler.tell(|| format!("COMPLAINT {complaint}")));
    let (lines, digest) = scheduler.told();
    let mut outcome = Outcome { complaints, steps: scheduler.steps(), lines, digest, ..Outcome::default() };
    for told in &history.ended {
        let told = told.lock();
        outcome.commits += told.commits;
        outcome.conflicts += told.conflicts;
        outcome.looks += told.looks;
        outcome.flushes += told.flushes;
    }
    outcome.deaths = history.ended.len() as u64 - 1;
    scheduler.end();
    outcome
}

/// How the histories of this seed differ from others.
#[derive(Clone, Copy, Debug)]
struct Plan {
    batches: Batches,
    lives: u64,
    threads: u64,
    operations: u64,
    lost: u64,
    unanswered: u64,
    late: u64,
}

struct History {
    scheduler: Rc<Scheduler>,
    plan: Plan,
    world: Arc<World>,
    /// What each process was told.
    ended: Vec<Arc<Mutex<Told>>>,
}

impl History {
    fn is_broken(&self) -> bool {
        let complaints = self.scheduler.take_complaints();
        let is_broken = !complaints.is_empty();
        complaints.into_iter().for_each(|complaint| self.scheduler.complain(complaint));
        is_broken
    }

    /// One life of an owner; false: it goes on for ever.
    fn live_once(&mut self, life: u64) -> bool {
        let (scheduler, is_last) = (self.scheduler.clone(), life == self.plan.lives);
        let process = ProcessId(life as u32);
        scheduler.add_process(process);
        let (env, _) = env_of(process);
        self.world.owner.store(life + 1, Ordering::Relaxed);
        if let Some(before) = self.ended.last() {
            before.lock().note_place_lost();
        }
        let told = Arc::<Mutex<Told>>::default();
        let is_over = Arc::new(AtomicBool::new(false));
        // The last one has nothing in its way.
        let plan = if is_last { Plan { lost: 0, unanswered: 0, ..self.plan } } else { self.plan };
        let before = self.ended.iter().rev().find(|told| told.lock().is_begun).cloned();
        let own = Life { world: self.world.clone(), session: life + 1, env, told: told.clone(), before, plan, is_last };
        self.ended.push(told);
        let is_done = is_over.clone();
        scheduler.start(process, "main", move || {
            if let Err(complaint) = own.live() {
                running().complain(complaint);
            }
            is_done.store(true, Ordering::Relaxed);
        });
        let dies_at = (!is_last && scheduler.chance(800)).then(|| scheduler.steps() + scheduler.below(STEPS_OF_LIFE));
        let is_due = || dies_at.is_some_and(|step| scheduler.steps() >= step);
        let ended = scheduler.run(STEPS_MAX, || is_over.load(Ordering::Relaxed) || is_due());
        if ended != Ended::Done {
            scheduler.complain(format!("{ended:?}: {:?}", scheduler.waiting()));
            return false;
        }
        // Of some nobody hears any more, and they go on while the next has the place.
        if is_over.load(Ordering::Relaxed) || scheduler.chance(500) {
            scheduler.tell(|| format!("{life} is gone"));
            scheduler.kill(process);
        } else {
            scheduler.tell(|| format!("{life} loses its place"));
        }
        true
    }
}

/// What a process does.
struct Life {
    world: Arc<World>,
    session: u64,
    env: Env,
    told: Arc<Mutex<Told>>,
    /// What the one before it was told.
    before: Option<Arc<Mutex<Told>>>,
    plan: Plan,
    /// It changes nothing.
    is_last: bool,
}

impl Life {
    fn live(self) -> Result<(), String> {
        let Plan { lost, unanswered, late, .. } = self.plan;
        let clock = self.env.clock.clone();
        let server = Server { world: self.world.clone(), session: self.session, clock, lost, unanswered, late };
        let opened = Behind::new(Arc::new(server), "server".into(), SHARED, &self.env);
        let kv: Arc<dyn Kv> = Arc::new(opened.map_err(|error| format!("it does not open: {error}"))?);
        let found = look_at_all(&*kv).map_err(|error| format!("what is left cannot be read: {error}"))?;
        running().tell(|| format!("{} finds {found:?}", self.session));
        self.compare(found)?;
        if !self.is_last {
            self.work(&kv)?;
        }
        if kv.close().is_ok() {
            self.told.lock().note_closed();
        }
        Ok(())
    }

    /// What was promised of the calls of the one before?
    fn compare(&self, found: Contents) -> Result<(), String> {
        let mut told = self.told.lock();
        if told.place_lost.is_some() {
            return Ok(());
        }
        (told.start, told.is_begun) = (found.clone(), true);
        let Some(before) = &self.before else { return Ok(()) };
        let mut before = before.lock();
        // The one before may go on, and draw numbers.
        told.last_value = before.last_value + 1000;
        let (calls, start) = (before.take_calls(), before.start.clone());
        drop((before, told));
        self.plan.batches.explain(&start, &calls, &found)
    }

    /// Threads use it, and end.
    fn work(&self, kv: &Arc<dyn Kv>) -> Result<(), String> {
        let plan = self.plan;
        let program = |number| {
            let (kv, told, clock) = (kv.clone(), self.told.clone(), self.env.clock.clone());
            let said = Arc::<AtomicU64>::default();
            Program { number, kv, told, said, clock, batches: plan.batches, is_on_a_server: true }
        };
        run_threads(&*self.env.spawner, plan.threads, plan.operations, program)
    }
}

#[cfg(test)]
#[path = "behind_tests.rs"]
mod tests;
