//! Threads for a server's answers, and waiting for a task on any other.

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

/// Waits for a task, on any thread; `None`: it panicked.
pub(in crate::engines) fn wait_for<T: Send + 'static>(
    runtime: &Runtime,
    work: impl Future<Output = T> + Send + 'static,
) -> Option<T> {
    let (tell, told) = std::sync::mpsc::sync_channel(1);
    runtime.spawn(async move {
        // Somebody waits for it, unless the process ends.
        let _ = tell.send(work.await);
    });
    told.recv().ok()
}
