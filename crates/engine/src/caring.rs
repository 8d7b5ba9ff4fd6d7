//! The worker that keeps a volume whole, inside a process that does something else, or nothing else.

use crate::catalogue::{StoreCatalogue, beside_tasks, failed};
use crate::error::EngineError;
use crate::keeper::Keeper;
use crate::runtime::holder;
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use weft_care::CatalogueError;
use weft_care::watch::Timeouts;
use weft_care::worker::{Options, Worker};
use weft_meta::{MetaUrl, Store};
use weft_transfer::Fleet;
use weft_vfs::Volume;
use weft_vfs::node_watcher::NodeWatcher;

/// A text for Prometheus. The call may take long: it reads metadata.
pub type Metrics = Arc<dyn Fn() -> Result<String, EngineError> + Send + Sync>;

/// A worker that runs.
pub struct Caring {
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
    metrics: Metrics,
}

impl Caring {
    /// Of a volume that this process owns.
    ///
    /// # Errors
    /// [`EngineError::Clock`].
    pub(crate) fn of_volume(volume: &Arc<Volume>, runtime: &Handle) -> Result<Caring, EngineError> {
        let followed = Arc::downgrade(volume);
        let follow_nodes = move || match followed.upgrade() {
            Some(volume) => beside_tasks(|| volume.follow_nodes()).map(drop).map_err(failed),
            None => Ok(()),
        };
        let worker = Worker {
            catalogue: Arc::new(StoreCatalogue::of_owner(volume)),
            transfer: volume.transfer().in_background(),
            board: Arc::default(),
            options: Options { timeouts: Timeouts::default(), holder: holder(&*volume.store().env().clock) },
            follow_nodes: Box::new(follow_nodes),
        };
        Caring::start(worker, runtime)
    }

    /// Of a volume that others may own, with the metadata at `meta`.
    ///
    /// # Errors
    /// [`EngineError::Clock`].
    pub fn of_keeper(keeper: &Keeper, meta: &MetaUrl, timeouts: Timeouts) -> Result<Caring, EngineError> {
        let (store, transfer, opener) = (keeper.store.clone(), keeper.transfer.clone(), keeper.opener.clone());
        let node_watcher = Mutex::new(NodeWatcher::new(Box::new(move |store| opener.members(store))));
        let follow_nodes = move || follow(&node_watcher, &store, transfer.fleet());
        let worker = Worker {
            catalogue: Arc::new(StoreCatalogue::short_lived(keeper.store.clone(), meta)),
            transfer: keeper.transfer.clone(),
            board: Arc::default(),
            options: Options { timeouts, holder: holder(&*keeper.store.env().clock) },
            follow_nodes: Box::new(follow_nodes),
        };
        Caring::start(worker, keeper.runtime.handle())
    }

    fn start(worker: Worker, runtime: &Handle) -> Result<Caring, EngineError> {
        let (board, catalogue) = (Arc::clone(&worker.board), Arc::clone(&worker.catalogue));
        let clock = worker.transfer.fleet().env().clock.clone();
        let metrics: Metrics = Arc::new(move || Ok(board.text(&*catalogue, clock.now())?));
        let (stop, stopped) = watch::channel(false);
        Ok(Caring { stop, task: runtime.spawn(worker.run(stopped)), metrics })
    }

    /// Its metrics for Prometheus.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        Arc::clone(&self.metrics)
    }

    /// Ends it, after the segments in hand.
    ///
    /// # Errors
    /// [`EngineError::Panicked`]: it has ended long ago.
    pub fn end(self, runtime: &Handle) -> Result<(), EngineError> {
        self.stop.send_replace(true);
        let what = "the worker that cares for the volume";
        runtime.block_on(self.task).map_err(|_| EngineError::Panicked { what })
    }
}

/// Has the fleet follow the node table. It reads metadata and may open nodes, so other tasks go on meanwhile.
fn follow(node_watcher: &Mutex<NodeWatcher>, store: &Store, fleet: &Fleet) -> Result<(), CatalogueError> {
    beside_tasks(|| node_watcher.lock().follow(store, fleet)).map(drop).map_err(failed)
}

#[cfg(test)]
#[path = "caring_tests.rs"]
mod tests;
