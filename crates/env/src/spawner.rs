//! Where threads come from, and tasks whose end is not awaited.

use crate::runtime::{Stopped, Work};
use std::io;

/// A thread that runs, or has ended.
pub struct Thread(Box<dyn FnOnce() -> Result<(), Stopped> + Send + Sync>);

impl Thread {
    /// Of which `join` waits for the end.
    #[must_use]
    pub fn new(join: impl FnOnce() -> Result<(), Stopped> + Send + Sync + 'static) -> Self {
        Self(Box::new(join))
    }

    /// Waits until it has ended.
    ///
    /// # Errors
    /// [`Stopped`]: it panicked, which was told when it happened.
    pub fn join(self) -> Result<(), Stopped> {
        (self.0)()
    }
}

impl std::fmt::Debug for Thread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Thread")
    }
}

/// Starts threads for work that blocks, and tasks, which never block.
pub trait Spawner: Send + Sync {
    /// Starts a thread that does `body`.
    ///
    /// # Errors
    /// The system gives no more threads.
    fn thread(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> io::Result<Thread>;

    /// Starts a task on the runtime of the caller, which is a task or waits for one. Its end is not awaited.
    fn task(&self, work: Work);
}

/// Threads of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemSpawner;

impl Spawner for SystemSpawner {
    #[expect(clippy::disallowed_methods, reason = "this is where it is called")]
    fn thread(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> io::Result<Thread> {
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(body)?;
        Ok(Thread::new(move || thread.join().map_err(|_| Stopped)))
    }

    fn task(&self, work: Work) {
        tokio::spawn(work);
    }
}
