//! Where threads come from.

use std::io;
use std::thread::JoinHandle;

/// Starts threads for work that blocks. Tasks, which never block, run on a runtime.
pub trait Spawner: Send + Sync {
    /// Starts a thread that does `body`.
    ///
    /// # Errors
    /// The system gives no more threads.
    fn thread(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> io::Result<JoinHandle<()>>;
}

/// Threads of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemSpawner;

impl Spawner for SystemSpawner {
    #[expect(clippy::disallowed_methods, reason = "this is where it is called")]
    fn thread(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> io::Result<JoinHandle<()>> {
        std::thread::Builder::new().name(name.to_owned()).spawn(body)
    }
}
