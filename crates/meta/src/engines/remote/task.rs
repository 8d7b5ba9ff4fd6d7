//! Threads for a server's answers, and waiting for a task on any other.

use parking_lot::Mutex;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::channel;
use tokio::runtime::Runtime;

/// Threads that read the server's answers.
const THREADS: usize = 2;

/// # Errors
/// A clause: there are no threads for it.
pub(in crate::engines) fn runtime(name: &str) -> Result<Runtime, String> {
    let built =
        tokio::runtime::Builder::new_multi_thread().worker_threads(THREADS).thread_name(name).enable_all().build();
    built.map_err(|error| format!("it gets no threads: {error}; end other programs"))
}

/// What a runtime runs. It is one type, because the machinery of a task is compiled for each.
type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Starts a task.
pub(in crate::engines) fn start(runtime: &Runtime, work: impl Future<Output = ()> + Send + 'static) {
    let work: Work = Box::pin(work);
    runtime.spawn(work);
}

/// Waits for a task, on any thread; `None`: it panicked.
pub(in crate::engines) fn wait_for<T: Send + 'static>(
    runtime: &Runtime,
    work: impl Future<Output = T> + Send + 'static,
) -> Option<T> {
    let answer = Arc::new(Mutex::new(None));
    let (ends, ended) = channel::<()>();
    start(runtime, {
        let answer = answer.clone();
        async move {
            let _ends = ends;
            let answered = work.await;
            *answer.lock() = Some(answered);
        }
    });
    // It fails when the other end is gone: nothing is ever sent.
    let _ = ended.recv();
    answer.lock().take()
}
