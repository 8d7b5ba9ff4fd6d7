//! Sees each step of a process with the engine: lets others run there, and lets the process die at one of them.

use super::disk::{Disk, End};
use crate::ambush::ProcessId;
use crate::scheduler::{Scheduler, running};
use std::cell::{Cell, RefCell};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use weft_env::Clock;
use weft_env::steps::Steps;
use weft_env::turns::{Turns, Until};

/// A fibre that is made to wait, waits up to so long: the writer's thread acts after 100 ms.
const WAIT_MS_MAX: u64 = 250;

/// When the process dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Death {
    /// At the step with this number.
    Step(u64),
    /// Before the bytes or names that are synced as number so and so are durable.
    Sync(u64),
    /// When commits were said to be durable for the first number of times, after the second number of steps more.
    Said(u64, u64),
}

/// How one life of a process goes.
#[derive(Clone, Copy, Debug)]
pub struct Fate {
    /// When it ends, if nothing ends it before.
    pub death: Option<Death>,
    /// How.
    pub end: End,
    /// Of thousand steps, at how many another fibre may run.
    pub switches: u64,
    /// Of a thousand steps, at how many the fibre waits.
    pub waits: u64,
    /// Of a thousand transactions, how many are slow.
    pub slow: u64,
    /// Of a thousand transactions, how many find no room.
    pub full: u64,
    /// Bounds are divided by this.
    pub scale: u64,
}

/// See the module's head.
pub struct Watch {
    process: ProcessId,
    clock: Arc<dyn Clock>,
    fate: Fate,
    disk: Rc<RefCell<Disk>>,
    /// How often something was said to be durable.
    said: Arc<AtomicU64>,
    /// Steps since it was said for the time that counts.
    steps_since: Cell<u64>,
    steps: Cell<u64>,
    syncs: Cell<u64>,
    is_dead: Cell<bool>,
}

impl Watch {
    /// Of a process that begins.
    #[must_use]
    pub fn new(
        process: ProcessId,
        clock: Arc<dyn Clock>,
        fate: Fate,
        disk: Rc<RefCell<Disk>>,
        said: Arc<AtomicU64>,
    ) -> Self {
        let steps_since = Cell::new(0);
        Self {
            process,
            clock,
            fate,
            disk,
            said,
            steps_since,
            steps: Cell::new(0),
            syncs: Cell::new(0),
            is_dead: Cell::new(false),
        }
    }

    /// Did it die?
    pub fn is_dead(&self) -> bool {
        self.is_dead.get()
    }

    /// Others run.
    fn wait(&self, scheduler: &Scheduler) {
        let wait = Duration::from_micros(scheduler.below(WAIT_MS_MAX * 1000));
        scheduler.pass(Until::Moment(self.clock.now() + wait));
    }

    fn is_due(&self, number: u64) -> bool {
        match self.fate.death {
            Some(Death::Step(step)) => step == number,
            Some(Death::Said(times, after)) if self.said.load(Ordering::Relaxed) >= times => {
                let since = self.steps_since.get();
                self.steps_since.set(since + 1);
                since == after
            }
            _ => false,
        }
    }

    fn die(&self, scheduler: &Scheduler) {
        scheduler
            .tell(|| format!("dies by {:?} at step {}, sync {}", self.fate.end, self.steps.get(), self.syncs.get()));
        self.is_dead.set(true);
        scheduler.kill(self.process);
        scheduler.pass(Until::Flag(Arc::default()));
    }

    fn durable(&self, what: &Path, note: impl FnOnce(&mut Disk) -> std::io::Result<()>) {
        let (scheduler, number) = (running(), self.syncs.get());
        let name = what.file_name().unwrap_or_default().display();
        scheduler.remark(&format!("sync {number}, step {}: {name}", self.steps.get()));
        self.syncs.set(number + 1);
        if self.fate.death == Some(Death::Sync(number)) && generator::is_generator() {
            self.die(&scheduler);
        }
        if let Err(error) = note(&mut self.disk.borrow_mut()) {
            scheduler.complain(format!("the folder of the test cannot be read: {error}"));
        }
    }
}

impl Steps for Watch {
    fn step(&self) {
        // The history's own hands are no fibre.
        if !generator::is_generator() {
            return;
        }
        let (scheduler, number) = (running(), self.steps.get());
        self.steps.set(number + 1);
        if self.is_due(number) {
            self.die(&scheduler);
        }
        if scheduler.chance(self.fate.waits) {
            self.wait(&scheduler);
        } else if scheduler.chance(self.fate.switches) {
            scheduler.pass(Until::Now);
        }
    }

    fn synced(&self, file: &Path) {
        self.durable(file, |disk| disk.synced(file));
    }

    fn names_synced(&self, folder: &Path) {
        self.durable(folder, Disk::names_synced);
    }

    fn has_room(&self) -> bool {
        let scheduler = running();
        if scheduler.chance(self.fate.slow) && generator::is_generator() {
            self.wait(&scheduler);
        }
        !scheduler.chance(self.fate.full)
    }

    fn bound(&self, usual: u64) -> u64 {
        (usual / self.fate.scale).max(1)
    }
}
