//! What a process takes from the world besides bytes: time, chance and threads. All three are arguments.
//!
//! [`Env`] is given to whatever needs one of them: the metadata store, transfer, care, the volume, the daemon, the engine. A program
//! gives [`Env::system`]; a test gives a clock that stands still or a generator with a seed; a simulator gives all three.
//!
//! What it never does: know what the time is for. `clippy.toml` names the calls that go around it, and what to call instead.
//!
//! The loop: `Env::system() -> passed down by reference or clone -> clock.now(), rng.next_u64(), spawner.thread(..)`.
//!
//! Start reading at `clock.rs`.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod clock;
pub mod planted;
mod rng;
mod runtime;
mod spawner;
pub mod steps;
pub mod sync;
pub mod turns;

pub use clock::{Clock, Elapsed, Sleep, SystemClock};
pub use rng::{Rng, SeededRng, SystemRng};
pub use runtime::{Abort, Executor, Runtime, Stopped, Task, TaskSet, Work};
pub use spawner::{Spawner, SystemSpawner, Thread};

use std::sync::Arc;

/// Time, chance and threads. A clone shares them. Tasks run on the runtime that their owner is given.
#[derive(Clone)]
pub struct Env {
    /// What time it is, and waiting.
    pub clock: Arc<dyn Clock>,
    /// Numbers that nobody can foretell, or that a seed gives.
    pub rng: Arc<dyn Rng>,
    /// Where threads come from.
    pub spawner: Arc<dyn Spawner>,
}

impl Env {
    /// The machine's clocks, random numbers and threads.
    #[must_use]
    pub fn system() -> Self {
        Self { clock: Arc::new(SystemClock), rng: Arc::new(SystemRng), spawner: Arc::new(SystemSpawner) }
    }

    /// The machine's clocks and threads, with the random numbers of `seed`.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self { rng: Arc::new(SeededRng::new(seed)), ..Self::system() }
    }
}

impl std::fmt::Debug for Env {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Env")
    }
}
