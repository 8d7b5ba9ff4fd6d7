//! Calls of a node on this machine that may wait for its device: each has a thread while it runs.

use crate::error::{NodeError, NodeErrorKind};
use std::sync::Arc;
use tokio::sync::Semaphore;

/// Calls of one node at one time. A file system that hangs keeps its threads until it answers, also after its callers have given up, and a
/// process has tokio's 512 for everything. No disk gains by more.
const THREADS_MAX: usize = 16;

/// The threads of a node.
pub(crate) struct Calls(Arc<Semaphore>);

impl Default for Calls {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(THREADS_MAX)))
    }
}

impl Calls {
    /// Does `work` of the node `name` on a thread. Who gives up before it begins leaves nothing of it behind.
    ///
    /// # Errors
    /// Those of the work; `Io`: it was stopped.
    pub async fn run<T: Send + 'static>(
        &self,
        name: &str,
        work: impl FnOnce() -> Result<T, NodeError> + Send + 'static,
    ) -> Result<T, NodeError> {
        // It is never closed.
        let turn = Arc::clone(&self.0).acquire_owned().await;
        let work = move || {
            let _turn = turn;
            work()
        };
        match tokio::task::spawn_blocking(work).await {
            Ok(done) => done,
            Err(stopped) => {
                let detail = format!("the call was stopped before its end: {stopped}");
                Err(NodeError::new(NodeErrorKind::Io, name, detail))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;
    use std::time::Duration;

    /// What a file system that hangs keeps is bounded, and calls that are given up while they wait are never made.
    #[tokio::test]
    async fn a_node_that_hangs_keeps_few_threads() {
        let (calls, begun) = (Calls::default(), Arc::<AtomicUsize>::default());
        let (release, hangs) = mpsc::channel::<()>();
        let hangs = Arc::new(parking_lot::Mutex::new(hangs));
        let hanging = (0..3 * THREADS_MAX).map(|_| {
            let (begun, hangs) = (begun.clone(), hangs.clone());
            calls.run("n", move || {
                begun.fetch_add(1, Ordering::Relaxed);
                let _ = hangs.lock().recv();
                Ok(())
            })
        });
        let all = futures_util::future::join_all(hanging);
        assert!(tokio::time::timeout(Duration::from_millis(200), all).await.is_err());
        assert_eq!(begun.load(Ordering::Relaxed), THREADS_MAX);
        drop(release);
        calls.run("n", || Ok(())).await.unwrap();
        assert_eq!(begun.load(Ordering::Relaxed), THREADS_MAX);
    }
}
