//! One real thread, many fibres, one clock that moves only when nothing else can: all that happens follows from a seed.
//!
//! A fibre is a thread or a task of a simulated process. It runs until it waits ([`Turns::pass`]); the scheduler then picks at random
//! among those that may go on. Messages between processes are events with a time. A process that is killed never runs again and
//! nothing of it is dropped: its locks stay locked, as a dead machine's do.

use crate::ambush::{Ambush, ProcessId, Step};
use generator::{Generator, Gn};
use rand::{RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::any::Any;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};
use weft_env::turns::{self, Turns, Until};
use weft_env::{Abort, Clock, Env, Executor, Runtime, SeededRng, Sleep, Spawner, Thread, Work};

/// Stack of a fibre in words: 1 MiB, of which only what is touched takes memory.
const STACK_WORDS: usize = 128 << 10;
/// The time of day at which each history begins, milliseconds since the Unix epoch.
const BEGAN_MS: u64 = 1_700_000_000_000;
/// A step takes up to so long.
const STEP_NS_MAX: u64 = 2_000;

/// How a run of the scheduler ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// What was waited for has happened.
    Done,
    /// Nothing can go on.
    Stuck,
    /// The steps that were allowed are used up.
    TooLong,
}

type Event = Box<dyn FnOnce()>;
type WhenKilled = Rc<dyn Fn(ProcessId)>;
type Stack = Generator<'static, (), Until>;

struct Fibre {
    /// Ascending.
    id: u64,
    process: ProcessId,
    name: String,
    /// Missing while it runs.
    stack: Option<Stack>,
    until: Until,
    /// Changes that it has seen.
    seen: u64,
}

#[derive(Default)]
struct Process {
    is_paused: bool,
    /// When it was continued last.
    continued_ns: Option<u64>,
    /// What is added to its time of day.
    clock_offset_ms: i64,
}

struct State {
    rng: ChaCha8Rng,
    now_ns: u64,
    next_fibre: u64,
    next_event: u64,
    steps: u64,
    changes: u64,
    /// By id. All are looked at in each step, so they lie side by side.
    fibres: Vec<Fibre>,
    /// The places of those that may go on; kept for its room.
    ready: Vec<usize>,
    events: BTreeMap<(u64, u64), Event>,
    /// Of fibres that have ended, for others.
    stacks: Vec<Stack>,
    processes: BTreeMap<ProcessId, Process>,
    /// Called with each process that is killed.
    when_killed: Option<WhenKilled>,
    /// Places that some process may take for away, and when there was one last.
    troubled: BTreeSet<String>,
    troubled_until_ns: Option<u64>,
    complaints: Vec<String>,
    ambush: Option<Ambush>,
    /// The ambush whose process has come, and does not run.
    sprung: Option<(ProcessId, Ambush)>,
    log: blake3::Hasher,
    /// Kept only to be read by people.
    lines: Option<Vec<String>>,
}

impl State {
    fn has_run_for(&self, process: ProcessId, time: Duration) -> bool {
        let is_long_ago = |ns: u64| self.now_ns - ns >= time.as_nanos() as u64;
        let runs = |process: &Process| !process.is_paused && process.continued_ns.is_none_or(is_long_ago);
        self.processes.get(&process).is_none_or(runs)
    }
}

/// See the module's head.
pub struct Scheduler {
    base: Instant,
    state: RefCell<State>,
}

thread_local! {
    static CURRENT: RefCell<Option<Rc<Scheduler>>> = const { RefCell::new(None) };
}

/// The scheduler of the history that runs on this thread.
///
/// # Panics
/// None runs.
#[must_use]
pub fn running() -> Rc<Scheduler> {
    CURRENT.with(|current| current.borrow().clone()).expect("a history runs")
}

impl Scheduler {
    /// The calling thread runs the history of `seed` from now on. `is_told`: lines are kept.
    pub fn begin(seed: u64, is_told: bool) -> Rc<Self> {
        let state = State {
            rng: ChaCha8Rng::seed_from_u64(seed),
            now_ns: 0,
            next_fibre: 0,
            next_event: 0,
            steps: 0,
            changes: 0,
            fibres: Vec::new(),
            ready: Vec::new(),
            events: BTreeMap::new(),
            stacks: Vec::new(),
            processes: BTreeMap::new(),
            when_killed: None,
            troubled: BTreeSet::new(),
            troubled_until_ns: None,
            complaints: Vec::new(),
            ambush: None,
            sprung: None,
            log: blake3::Hasher::new(),
            lines: is_told.then(Vec::new),
        };
        let scheduler = Rc::new(Self { base: base(), state: RefCell::new(state) });
        CURRENT.with(|current| *current.borrow_mut() = Some(scheduler.clone()));
        turns::set(Some(scheduler.clone()));
        scheduler
    }

    /// The history is over. What its processes have left is not dropped: it could run code of theirs.
    pub fn end(&self) {
        turns::set(None);
        let (fibres, events) = {
            let mut state = self.state.borrow_mut();
            (std::mem::take(&mut state.fibres), std::mem::take(&mut state.events))
        };
        std::mem::forget((fibres, events));
        CURRENT.with(|current| *current.borrow_mut() = None);
    }

    /// 64 random bits.
    pub fn random(&self) -> u64 {
        self.state.borrow_mut().rng.next_u64()
    }

    /// A number below `end`.
    pub fn below(&self, end: u64) -> u64 {
        self.random() % end.max(1)
    }

    /// Happens in `per_mille` of thousand cases.
    pub fn chance(&self, per_mille: u64) -> bool {
        self.below(1000) < per_mille
    }

    /// Virtual time since the beginning.
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.state.borrow().now_ns)
    }

    fn moment(&self) -> Instant {
        self.base + self.now()
    }

    /// How many steps were taken.
    pub fn steps(&self) -> u64 {
        self.state.borrow().steps
    }

    /// Something happened that people and the digest of the history are told of.
    pub fn tell(&self, line: impl FnOnce() -> String) {
        let mut state = self.state.borrow_mut();
        let line = format!("{:>12.6} {}", state.now_ns as f64 / 1e9, line());
        state.log.update(line.as_bytes());
        if let Some(lines) = &mut state.lines {
            lines.push(line);
        }
    }

    /// People are told of something that is not part of the history.
    pub fn remark(&self, line: &str) {
        let mut state = self.state.borrow_mut();
        let line = format!("{:>12.6} {line}", state.now_ns as f64 / 1e9);
        if let Some(lines) = &mut state.lines {
            lines.push(line);
        }
    }

    /// All that was told, if it was kept, and a digest of the whole history.
    pub fn told(&self) -> (Vec<String>, String) {
        let state = self.state.borrow();
        (state.lines.clone().unwrap_or_default(), state.log.finalize().to_hex()[..16].to_owned())
    }

    /// Something is not as promised. What a fibre panics with is such a thing, too.
    pub fn complain(&self, complaint: String) {
        self.state.borrow_mut().complaints.push(complaint);
    }

    /// Is something not as promised?
    pub fn has_complaints(&self) -> bool {
        !self.state.borrow().complaints.is_empty()
    }

    /// What is not as promised.
    pub fn take_complaints(&self) -> Vec<String> {
        std::mem::take(&mut self.state.borrow_mut().complaints)
    }

    /// Has `event` happen after `delay`.
    pub fn after(&self, delay: Duration, event: impl FnOnce() + 'static) {
        let mut state = self.state.borrow_mut();
        let at = state.now_ns + delay.as_nanos() as u64;
        state.next_event += 1;
        let number = state.next_event;
        state.events.insert((at, number), Box::new(event));
    }

    /// A process begins.
    pub fn add_process(&self, process: ProcessId) {
        self.state.borrow_mut().processes.insert(process, Process::default());
    }

    /// The process never runs again.
    pub fn kill(&self, process: ProcessId) {
        let mut state = self.state.borrow_mut();
        state.processes.remove(&process);
        state.fibres.extract_if(.., |fibre| fibre.process == process).for_each(std::mem::forget);
        let when_killed = state.when_killed.clone();
        drop(state);
        when_killed.iter().for_each(|tell| tell(process));
    }

    /// From now on `tell` is called with each process that is killed: its machine closes what it had open.
    pub fn when_killed(&self, tell: impl Fn(ProcessId) + 'static) {
        self.state.borrow_mut().when_killed = Some(Rc::new(tell));
    }

    /// Is it there, paused or not?
    pub fn is_alive(&self, process: ProcessId) -> bool {
        self.state.borrow().processes.contains_key(&process)
    }

    /// It does not run until it is continued. Its clock goes on.
    pub fn pause(&self, process: ProcessId, is_paused: bool) {
        let mut state = self.state.borrow_mut();
        let now_ns = state.now_ns;
        if let Some(process) = state.processes.get_mut(&process) {
            if process.is_paused {
                process.continued_ns = Some(now_ns);
            }
            process.is_paused = is_paused;
        }
    }

    /// From now on a process may take this place for away, or none can.
    pub fn trouble(&self, place: &str, is_troubled: bool) {
        let mut state = self.state.borrow_mut();
        if !state.troubled.is_empty() {
            state.troubled_until_ns = Some(state.now_ns);
        }
        match is_troubled {
            true => drop(state.troubled.insert(place.to_owned())),
            false => drop(state.troubled.remove(place)),
        }
    }

    /// Did all places answer, and did the process run, for so long?
    pub fn is_calm(&self, process: ProcessId, time: Duration) -> bool {
        let state = self.state.borrow();
        let is_long_ago = |ns: u64| state.now_ns - ns >= time.as_nanos() as u64;
        state.troubled.is_empty() && state.troubled_until_ns.is_none_or(is_long_ago) && state.has_run_for(process, time)
    }

    /// Did the process run for so long?
    pub fn has_run_for(&self, process: ProcessId, time: Duration) -> bool {
        self.state.borrow().has_run_for(process, time)
    }

    /// Is it there, and does not run?
    pub fn is_paused(&self, process: ProcessId) -> bool {
        self.state.borrow().processes.get(&process).is_some_and(|process| process.is_paused)
    }

    /// A fault waits for a process, in place of the one that waited before.
    pub fn lay(&self, ambush: Option<Ambush>) {
        self.state.borrow_mut().ambush = ambush;
    }

    /// A process is at a step. One that an ambush waited for stops here.
    pub fn reach(&self, process: ProcessId, steps: &[Step], is_behind: bool) {
        let mut state = self.state.borrow_mut();
        let Some(ambush) = state.ambush.take_if(|ambush| ambush.meets(process, steps, is_behind)) else { return };
        state.sprung = Some((process, ambush));
        drop(state);
        self.pause(process, true);
        self.pass(Until::Now);
    }

    /// Has an ambush its process?
    pub fn is_sprung(&self) -> bool {
        self.state.borrow().sprung.is_some()
    }

    /// The process that came, and the ambush.
    pub fn take_sprung(&self) -> Option<(ProcessId, Ambush)> {
        self.state.borrow_mut().sprung.take()
    }

    /// Its time of day jumps.
    pub fn set_clock(&self, process: ProcessId, offset_ms: i64) {
        if let Some(process) = self.state.borrow_mut().processes.get_mut(&process) {
            process.clock_offset_ms = offset_ms;
        }
    }

    /// Starts a fibre.
    pub fn start(&self, process: ProcessId, name: &str, body: impl FnOnce() + Send + 'static) {
        let mut state = self.state.borrow_mut();
        if !state.processes.contains_key(&process) {
            std::mem::forget(body);
            return;
        }
        let own_name = name.to_owned();
        let whole_body = move || {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(body)) {
                note_panic(&own_name, &*panic);
            }
            Until::Now
        };
        let stack = match state.stacks.pop() {
            Some(mut stack) => {
                stack.init_code(whole_body);
                stack
            }
            None => Gn::<()>::new_opt(STACK_WORDS, whole_body),
        };
        let id = state.next_fibre;
        state.next_fibre += 1;
        let name = name.to_owned();
        state.fibres.push(Fibre { id, process, name, stack: Some(stack), until: Until::Now, seen: 0 });
    }

    /// Runs until `is_done`, at most `steps_max` steps.
    pub fn run(&self, steps_max: u64, mut is_done: impl FnMut() -> bool) -> Ended {
        let end = self.steps() + steps_max;
        while !is_done() {
            if self.steps() >= end {
                return Ended::TooLong;
            }
            if !self.step() {
                return Ended::Stuck;
            }
        }
        Ended::Done
    }

    /// What the fibres wait for.
    pub fn waiting(&self) -> Vec<String> {
        let state = self.state.borrow();
        state.fibres.iter().map(|fibre| format!("{:?} {}: {:?}", fibre.process, fibre.name, fibre.until)).collect()
    }

    /// Does one thing; false: there is nothing to do.
    fn step(&self) -> bool {
        let mut state = self.state.borrow_mut();
        state.steps += 1;
        if let Some(at) = state.events.first_key_value().map(|(at, _)| *at).filter(|at| at.0 <= state.now_ns) {
            let event = state.events.remove(&at).expect("it is there");
            state.changes += 1;
            drop(state);
            event();
            return true;
        }
        let (now, changes) = (self.base + Duration::from_nanos(state.now_ns), state.changes);
        let State { fibres, processes, ready, rng, .. } = &mut *state;
        // Asked last: few fibres have anything to do.
        let is_paused = |fibre: &Fibre| processes.get(&fibre.process).is_some_and(|process| process.is_paused);
        let is_ready = |fibre: &Fibre| {
            let has_work = match &fibre.until {
                Until::Now => true,
                Until::Flag(flag) => flag.load(Ordering::Relaxed),
                Until::FlagOrMoment(flag, moment) => flag.load(Ordering::Relaxed) || *moment <= now,
                Until::Moment(moment) => *moment <= now,
                Until::Change | Until::Still => fibre.seen != changes,
            };
            has_work && !is_paused(fibre)
        };
        ready.clear();
        ready.extend(fibres.iter().enumerate().filter(|(_, fibre)| is_ready(fibre)).map(|(place, _)| place));
        if ready.is_empty() {
            return Self::advance(&mut state, self.base);
        }
        let random = rng.next_u64();
        let chosen = &mut fibres[ready[(random % ready.len() as u64) as usize]];
        let (id, mut stack) = (chosen.id, chosen.stack.take().expect("it does not run"));
        state.now_ns += random >> 32 & (STEP_NS_MAX - 1);
        drop(state);
        let until = stack.resume();
        let mut state = self.state.borrow_mut();
        let until = until.filter(|_| !stack.is_done());
        state.changes += u64::from(!matches!(until, Some(Until::Still)));
        let changes = state.changes;
        // It may have killed its process.
        let place = state.fibres.binary_search_by_key(&id, |fibre| fibre.id);
        match (until, place) {
            (None, place) => {
                if let Ok(place) = place {
                    state.fibres.remove(place);
                }
                state.stacks.push(stack);
            }
            (Some(until), Ok(place)) => {
                let fibre = &mut state.fibres[place];
                (fibre.stack, fibre.until, fibre.seen) = (Some(stack), until, changes);
            }
            (Some(_), Err(_)) => std::mem::forget(stack),
        }
        true
    }

    /// The clock goes to the next moment at which something happens.
    fn advance(state: &mut State, base: Instant) -> bool {
        let of_event = state.events.keys().next().map(|(at, _)| *at);
        let State { fibres, processes, .. } = &*state;
        let is_paused = |fibre: &&Fibre| processes.get(&fibre.process).is_some_and(|process| process.is_paused);
        let moment = |fibre: &Fibre| match &fibre.until {
            Until::Moment(moment) | Until::FlagOrMoment(_, moment) => Some(*moment),
            Until::Now | Until::Flag(_) | Until::Change | Until::Still => None,
        };
        let of_fibre = fibres.iter().filter(|fibre| !is_paused(fibre)).filter_map(moment).min();
        let of_fibre = of_fibre.map(|moment| moment.saturating_duration_since(base).as_nanos() as u64);
        let Some(next) = of_event.into_iter().chain(of_fibre).min() else { return false };
        state.now_ns = state.now_ns.max(next);
        true
    }
}

fn base() -> Instant {
    // Moments are compared with each other only.
    thread_local! {
        static BASE: Instant = Instant::now();
    }
    BASE.with(|base| *base)
}

fn note_panic(name: &str, panic: &(dyn Any + Send)) {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
    running().complain(format!("{name} panicked: {text}"));
}

impl Turns for Scheduler {
    #[expect(deprecated, reason = "what takes its place needs an argument, which code that blocks deep inside has not")]
    fn pass(&self, until: Until) {
        generator::yield_with(until);
    }
}

/// Time, chance, threads and tasks of a process.
#[must_use]
pub fn env_of(process: ProcessId) -> (Env, Runtime) {
    let seed = running().random();
    let env =
        Env { clock: clock_of(process), rng: Arc::new(SeededRng::new(seed)), spawner: Arc::new(SimSpawner(process)) };
    (env, Runtime::new(Arc::new(SimExecutor(process))))
}

/// Time of a process.
#[must_use]
pub fn clock_of(process: ProcessId) -> Arc<dyn Clock> {
    Arc::new(SimClock(process))
}

struct SimClock(ProcessId);

impl Clock for SimClock {
    fn now(&self) -> Instant {
        running().moment()
    }

    fn unix_time(&self) -> Duration {
        let scheduler = running();
        let state = scheduler.state.borrow();
        let offset_ms = state.processes.get(&self.0).map_or(0, |process| process.clock_offset_ms);
        let now_ms = BEGAN_MS.saturating_add_signed(offset_ms);
        Duration::from_millis(now_ms) + Duration::from_nanos(state.now_ns)
    }

    fn sleep_until(&self, moment: Instant) -> Sleep {
        Box::pin(SimSleep(moment))
    }

    fn block(&self, time: Duration) {
        let scheduler = running();
        scheduler.pass(Until::Moment(scheduler.moment() + time));
    }
}

struct SimSleep(Instant);

impl Future for SimSleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let scheduler = running();
        let left = self.0.saturating_duration_since(scheduler.moment());
        if left.is_zero() {
            return Poll::Ready(());
        }
        let waker = context.waker().clone();
        scheduler.after(left, move || waker.wake());
        Poll::Pending
    }
}

struct SimSpawner(ProcessId);

impl Spawner for SimSpawner {
    fn thread(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> io::Result<Thread> {
        let ended = Arc::new(AtomicBool::new(false));
        let is_over = ended.clone();
        running().start(self.0, name, move || {
            let _ending = SetAtEnd(is_over);
            body();
        });
        Ok(Thread::new(move || {
            running().pass(Until::Flag(ended));
            Ok(())
        }))
    }

    fn task(&self, work: Work) {
        SimExecutor(self.0).spawn(work);
    }
}

/// Sets the flag when it is dropped.
struct SetAtEnd(Arc<AtomicBool>);

impl Drop for SetAtEnd {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

struct SimExecutor(ProcessId);

/// Wakes what waits for a future.
struct Bell {
    is_rung: Arc<AtomicBool>,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.is_rung.store(true, Ordering::Relaxed);
    }
}

struct SimAbort {
    is_rung: Arc<AtomicBool>,
    is_aborted: Arc<AtomicBool>,
}

impl Abort for SimAbort {
    fn abort(&self) {
        self.is_aborted.store(true, Ordering::Relaxed);
        self.is_rung.store(true, Ordering::Relaxed);
    }
}

impl Executor for SimExecutor {
    fn spawn(&self, mut work: Work) -> Box<dyn Abort> {
        let (is_rung, is_aborted) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicBool::new(false)));
        let abort = SimAbort { is_rung: is_rung.clone(), is_aborted: is_aborted.clone() };
        running().start(self.0, "task", move || {
            let waker = Waker::from(Arc::new(Bell { is_rung: is_rung.clone() }));
            let mut context = Context::from_waker(&waker);
            while !is_aborted.load(Ordering::Relaxed) {
                is_rung.store(false, Ordering::Relaxed);
                if work.as_mut().poll(&mut context).is_ready() {
                    return;
                }
                running().pass(Until::Flag(is_rung.clone()));
            }
        });
        Box::new(abort)
    }

    fn spawn_blocking(&self, work: Box<dyn FnOnce() + Send>) {
        running().start(self.0, "blocking", work);
    }

    fn block_on(&self, mut work: Pin<&mut dyn Future<Output = ()>>) {
        let is_rung = Arc::new(AtomicBool::new(false));
        let waker = Waker::from(Arc::new(Bell { is_rung: is_rung.clone() }));
        let mut context = Context::from_waker(&waker);
        while work.as_mut().poll(&mut context).is_pending() {
            running().pass(Until::Flag(is_rung.clone()));
            is_rung.store(false, Ordering::Relaxed);
        }
    }

    fn tokio(&self) -> Option<&tokio::runtime::Handle> {
        None
    }
}

#[cfg(test)]
#[path = "scheduler_tests.rs"]
mod tests;
