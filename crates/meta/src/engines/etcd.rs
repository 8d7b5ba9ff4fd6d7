//! A shared engine: a cluster of etcd, which keeps itself available while more than half of its members run.
//!
//! ```text
//! snapshot -> first question: the newest revision; every later one: the same revision                (view.rs)
//! commit   -> comparisons and changes worked out (plan.rs), one transaction (commit.rs)  -> durable when it returns
//! deltas   -> rows beside the value, which readers add up; taken into it a little later              (keeping.rs)
//! ```
//!
//! **What is durable.** A change is on the disks of more than half of the members when it is answered. [`Kv::flush`] has nothing left to do.
//!
//! **Several processes.** Every process that commits is a *session*: a key that goes with a lease, which the servers end if it gets no sign
//! of life. A commit compares it, so what a process tries after its lease is refused.
//!
//! **Changes of others** members learn from watches (feed.rs).
//!
//! **Cached values.** The owner alone changes most keys, so it reads those that it has read or written before from memory
//! (`remote/cache.rs`).
//!
//! **Failures.** A member may end, hang, or lose its leader: a request is sent again, to the next one. A commit that was sent twice runs
//! once, because it counts. After [`TIMEOUT`](crate::engines::remote::failure::TIMEOUT) the operation fails.
//!
//! **Room.** etcd keeps every revision until a client asks it to forget some, so owners and members do, every five minutes: a cluster that other
//! programs use, too, loses its old revisions with that.

mod address;
mod commit;
mod feed;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod keeping;
mod kind;
mod layout;
mod plan;
mod protocol;
mod server;
mod session;
mod view;

pub(crate) use kind::KIND;

use crate::deltas::Directory;
use crate::engines::OpenError;
use crate::engines::remote::cache::{self, Cache};
use crate::engines::remote::failure::Failure;
use crate::engines::remote::place::Place;
use crate::engines::remote::task::{self, wait_for};
use crate::kv::{Batch, ChangedKeys, Kv, KvError, Sessions, Snapshot};
use crate::types::Access;
use address::Address;
use commit::Slots;
use feed::Made;
use layout::Layout;
use plan::Plan;
use protocol::Range;
use server::Server;
use session::Own;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use tokio::runtime::Runtime;
use tokio::sync::Notify;
use view::View;
use weft_env::Env;
use weft_env::sync::{Mutex, Receiver, channel};

/// Directories whose rows are known; with more all are forgotten.
const BASES_MAX: usize = 10_000;

/// A store in a cluster of etcd. Dropping it ends its session.
pub struct EtcdKv {
    engine: Arc<Engine>,
}

/// What the handle and the tasks share.
struct Engine {
    server: Arc<Server>,
    layout: Layout,
    access: Access,
    /// Of this process, once it has one.
    own: tokio::sync::Mutex<Option<Own>>,
    slots: Slots,
    /// A commit of this process has the lock, or wants it.
    locking: tokio::sync::Mutex<()>,
    /// Until then the lock may be taken by a late copy of a request, and it is looked at once after.
    large_until: Mutex<Option<Instant>>,
    /// The owner's.
    cache: Option<Cache>,
    place: Place,
    made: Made,
    /// Keys for which deltas wait.
    waiting: Mutex<BTreeSet<Vec<u8>>>,
    /// The rows of directories for which deltas wait, as they were seen last: what a commit compares with.
    bases: Mutex<BTreeMap<Vec<u8>, Vec<u8>>>,
    closing: Notify,
    is_closed: AtomicBool,
    /// Taken when it is dropped.
    runtime: Option<Runtime>,
}

fn runtime(address: &Address) -> Result<Runtime, OpenError> {
    task::runtime("weft-etcd").map_err(|why| refused(address, why))
}

fn refused(address: &Address, why: String) -> OpenError {
    OpenError::Refused { place: address.shown.clone(), why }
}

impl EtcdKv {
    fn open(address: Address, access: Access, mountpoint: Option<&Path>, env: &Env) -> Result<Self, OpenError> {
        let runtime = runtime(&address)?;
        let engine = Arc::new(Engine {
            layout: Layout::new(&address.prefix),
            server: Arc::new(Server::new(address, env)),
            access,
            own: tokio::sync::Mutex::default(),
            slots: Slots::default(),
            locking: tokio::sync::Mutex::default(),
            large_until: Mutex::default(),
            cache: matches!(access, Access::Owner | Access::ShortLived).then(Cache::new),
            place: Place::new(env.clock.clone()),
            made: Made::default(),
            waiting: Mutex::default(),
            bases: Mutex::default(),
            closing: Notify::new(),
            is_closed: AtomicBool::new(false),
            runtime: Some(runtime),
        });
        let mountpoint = mountpoint.map(Path::to_path_buf);
        let opening = engine.clone();
        let opened = engine.wait_for(async move {
            kind::recognise(&opening.server, &opening.layout).await?;
            opening.enter(mountpoint.as_deref()).await
        });
        opened.map_err(|failure| engine.error(failure))??;
        engine.start(keeping::fold(engine.clone()));
        engine.start(keeping::sign(engine.clone()));
        engine.start(keeping::forget(engine.clone()));
        Ok(Self { engine })
    }
}

impl Engine {
    fn error(&self, failure: Failure) -> KvError {
        failure.into_error(&self.server.address.shown)
    }

    /// Starts a task.
    fn start(&self, work: impl Future<Output = ()> + Send + 'static) {
        if let Some(runtime) = &self.runtime {
            task::start(runtime, work);
        }
    }

    fn wait_for<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> Result<T, Failure> {
        let done = self.runtime.as_ref().and_then(|runtime| wait_for(runtime, work));
        done.ok_or_else(|| Failure::Failed("its client ended in the middle of a request".into()))
    }

    /// The newest.
    async fn revision(&self) -> Result<i64, Failure> {
        let found = self.server.ask(Range::of(self.layout.format())).await?;
        Ok(found.header.unwrap_or_default().revision)
    }

    /// The row that a commit compares to make sure of a directory.
    fn base(&self, check: &Directory) -> Vec<u8> {
        let known = self.bases.lock().get(&check.key).cloned();
        known.filter(|base| check.holds(Some(base))).unwrap_or_else(|| check.value.clone())
    }

    fn note_base(&self, key: &[u8], value: &[u8]) {
        let mut bases = self.bases.lock();
        if bases.len() >= BASES_MAX {
            bases.clear();
        }
        bases.insert(key.to_vec(), value.to_vec());
    }

    fn forget_bases(&self, keys: &[Vec<u8>]) {
        let mut bases = self.bases.lock();
        for key in keys {
            bases.remove(key);
        }
    }
}

impl Kv for EtcdKv {
    fn snapshot(&self) -> Result<Box<dyn Snapshot + '_>, KvError> {
        Ok(Box::new(View::new(&self.engine)))
    }

    fn note_empty(&self, key: &[u8]) {
        if let Some(cache) = &self.engine.cache {
            cache.begin_domain(key);
        }
    }

    fn commit(&self, batch: Batch) -> Result<(), KvError> {
        if batch.asks_nothing() {
            return Ok(());
        }
        let committed = cache::during(self.engine.cache.as_ref(), batch, |batch| {
            let plan = Plan::of(batch, &self.engine.layout);
            let engine = self.engine.clone();
            let committed = self.engine.wait_for(async move {
                let committed = engine.commit_plan(&plan).await;
                if committed == Err(Failure::Conflict) {
                    engine.fold_compared(&plan).await?;
                }
                committed
            });
            committed.and_then(|answer| answer)
        });
        committed.map_err(|failure| self.engine.error(failure))
    }

    fn share_of_commit(&self, key: &[u8], value: Option<&[u8]>) -> u64 {
        plan::share(key, value, &self.engine.layout)
    }

    fn flush(&self) -> Result<(), KvError> {
        Ok(())
    }

    fn sessions(&self) -> Option<&dyn Sessions> {
        Some(self)
    }

    fn close(&self) -> Result<(), KvError> {
        let engine = self.engine.clone();
        let folded = self.engine.wait_for(async move { engine.fold_waiting().await });
        folded.and_then(|answer| answer).map_err(|failure| self.engine.error(failure))
    }
}

impl Sessions for EtcdKv {
    fn own(&self) -> Result<i64, KvError> {
        let engine = self.engine.clone();
        let own = self.engine.wait_for(async move { engine.own().await });
        own.and_then(|own| own).map(|own| own.session).map_err(|failure| self.engine.error(failure))
    }

    fn members(&self) -> Result<BTreeSet<i64>, KvError> {
        let engine = self.engine.clone();
        let members = self.engine.wait_for(async move { engine.members().await });
        members.and_then(|members| members).map_err(|failure| self.engine.error(failure))
    }

    fn make_sure(&self) -> Result<(), KvError> {
        if self.engine.place.is_sure() {
            return Ok(());
        }
        let engine = self.engine.clone();
        let signed = self.engine.wait_for(async move { engine.sign().await });
        signed.and_then(|signed| signed).map_err(|failure| self.engine.error(failure))
    }

    fn changes(&self, tables: &'static [u8]) -> Option<Receiver<ChangedKeys>> {
        if !self.engine.made.begin() {
            return None;
        }
        let (heard, changes) = channel();
        self.engine.start(feed::listen(self.engine.clone(), tables, heard));
        Some(changes)
    }
}

impl Drop for EtcdKv {
    fn drop(&mut self) {
        self.engine.is_closed.store(true, Ordering::Release);
        self.engine.closing.notify_waiters();
        let engine = self.engine.clone();
        let left = self.engine.wait_for(async move { engine.leave().await });
        if let Err(failure) = left.and_then(|answer| answer) {
            tracing::debug!(?failure, "the session stays until its lease is over");
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // It may be dropped on a thread that must not wait.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
