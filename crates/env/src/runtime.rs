//! Where tasks run: a runtime of tokio's, or another that a simulation makes.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

/// A task, its kind forgotten.
pub type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Stops a task where it is.
pub trait Abort: Send + Sync {
    /// It is dropped, if it has not ended.
    fn abort(&self);
}

/// Runs tasks.
pub trait Executor: Send + Sync {
    /// Starts a task.
    fn spawn(&self, work: Work) -> Box<dyn Abort>;

    /// Starts work that may block.
    fn spawn_blocking(&self, work: Box<dyn FnOnce() + Send>);

    /// Blocks the calling thread, which must be none that runs tasks, until `work` is done.
    fn block_on(&self, work: Pin<&mut dyn Future<Output = ()>>);

    /// Tokio's, where it is.
    fn tokio(&self) -> Option<&Handle>;
}

/// Where tasks run. A clone is the same.
#[derive(Clone)]
pub struct Runtime(Arc<dyn Executor>);

impl std::fmt::Debug for Runtime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Runtime")
    }
}

impl From<Handle> for Runtime {
    fn from(handle: Handle) -> Self {
        Self(Arc::new(handle))
    }
}

impl From<&Handle> for Runtime {
    fn from(handle: &Handle) -> Self {
        handle.clone().into()
    }
}

impl From<&Runtime> for Runtime {
    fn from(runtime: &Runtime) -> Self {
        runtime.clone()
    }
}

impl Runtime {
    /// Where `executor` runs tasks.
    #[must_use]
    pub fn new(executor: Arc<dyn Executor>) -> Self {
        Self(executor)
    }

    /// Starts a task. It goes on if what is returned is dropped.
    pub fn spawn<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> Task<T> {
        let (told, result) = oneshot::channel();
        let abort = self.0.spawn(Box::pin(async move {
            // Nobody may wait for it any more.
            let _ = told.send(work.await);
        }));
        Task { result, abort: Some(abort) }
    }

    /// Starts work that may block.
    pub fn spawn_blocking<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Task<T> {
        let (told, result) = oneshot::channel();
        self.0.spawn_blocking(Box::new(move || {
            let _ = told.send(work());
        }));
        Task { result, abort: None }
    }

    /// Blocks the calling thread, which must be none that runs tasks, until `work` is done.
    pub fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        let mut done = None;
        {
            let work = async { done = Some(work.await) };
            let mut work = std::pin::pin!(work);
            self.0.block_on(work.as_mut());
        }
        done.expect("an executor returns when the work is done")
    }

    /// Tokio's, where it is.
    #[must_use]
    pub fn tokio(&self) -> Option<&Handle> {
        self.0.tokio()
    }
}

impl Executor for Handle {
    fn spawn(&self, work: Work) -> Box<dyn Abort> {
        Box::new(Handle::spawn(self, work).abort_handle())
    }

    fn spawn_blocking(&self, work: Box<dyn FnOnce() + Send>) {
        Handle::spawn_blocking(self, work);
    }

    fn block_on(&self, work: Pin<&mut dyn Future<Output = ()>>) {
        Handle::block_on(self, work);
    }

    fn tokio(&self) -> Option<&Handle> {
        Some(self)
    }
}

impl Abort for tokio::task::AbortHandle {
    fn abort(&self) {
        tokio::task::AbortHandle::abort(self);
    }
}

/// A task was aborted, or has panicked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a task has ended before its time")]
pub struct Stopped;

impl Stopped {
    /// What a task met with goes on here: its panic was told when it happened.
    ///
    /// # Panics
    /// Always.
    pub fn go_on(self) -> ! {
        panic!("{self}")
    }
}

/// A task that runs. It is done when this is.
pub struct Task<T> {
    result: oneshot::Receiver<T>,
    abort: Option<Box<dyn Abort>>,
}

impl<T> Task<T> {
    /// Stops it where it is. What blocks cannot be stopped.
    pub fn abort(&self) {
        if let Some(abort) = &self.abort {
            abort.abort();
        }
    }
}

impl<T> Future for Task<T> {
    type Output = Result<T, Stopped>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.result).poll(context).map_err(|_| Stopped)
    }
}

/// Tasks whose results are taken as they come. Dropped, it stops them.
pub struct TaskSet<T> {
    runtime: Runtime,
    running: Vec<(u64, Box<dyn Abort>)>,
    next: u64,
    tell: mpsc::UnboundedSender<(u64, Option<T>)>,
    told: mpsc::UnboundedReceiver<(u64, Option<T>)>,
}

/// Says that a task has ended, however it does.
struct Ending<T> {
    number: u64,
    result: Option<T>,
    tell: mpsc::UnboundedSender<(u64, Option<T>)>,
}

impl<T> Drop for Ending<T> {
    fn drop(&mut self) {
        let _ = self.tell.send((self.number, self.result.take()));
    }
}

impl<T: Send + 'static> TaskSet<T> {
    /// None yet.
    #[must_use]
    pub fn new(runtime: &Runtime) -> Self {
        let (tell, told) = mpsc::unbounded_channel();
        Self { runtime: runtime.clone(), running: Vec::new(), next: 0, tell, told }
    }

    /// Starts one more.
    pub fn spawn(&mut self, work: impl Future<Output = T> + Send + 'static) {
        let ending = Ending { number: self.next, result: None, tell: self.tell.clone() };
        let abort = self.runtime.0.spawn(Box::pin(async move {
            let mut ending = ending;
            ending.result = Some(work.await);
        }));
        self.running.push((self.next, abort));
        self.next += 1;
    }

    /// Waits for the next that ends; `None`: none runs.
    pub async fn join_next(&mut self) -> Option<Result<T, Stopped>> {
        if self.running.is_empty() {
            return None;
        }
        let (number, result) = self.told.recv().await?;
        self.running.retain(|(other, _)| *other != number);
        Some(result.ok_or(Stopped))
    }

    /// One that has ended already, if there is one.
    pub fn try_join_next(&mut self) -> Option<Result<T, Stopped>> {
        let (number, result) = self.told.try_recv().ok()?;
        self.running.retain(|(other, _)| *other != number);
        Some(result.ok_or(Stopped))
    }

    /// The results of all, as they come.
    ///
    /// # Panics
    /// One of them has panicked.
    pub async fn join_all(mut self) -> Vec<T> {
        let mut results = Vec::new();
        while let Some(result) = self.join_next().await {
            results.push(result.unwrap_or_else(|stopped| stopped.go_on()));
        }
        results
    }

    /// How many have results that were not taken.
    #[must_use]
    pub fn len(&self) -> usize {
        self.running.len()
    }

    /// Are there none?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.running.is_empty()
    }
}

impl<T> TaskSet<T> {
    /// Stops all, and does not wait.
    pub fn abort_all(&self) {
        self.running.iter().for_each(|(_, abort)| abort.abort());
    }
}

impl<T> Drop for TaskSet<T> {
    fn drop(&mut self) {
        self.abort_all();
    }
}

#[cfg(test)]
#[path = "runtime_tests.rs"]
mod tests;
