//! The shared engine: tables of a PostgreSQL database, which many machines reach.
//!
//! ```text
//! snapshot -> first question: one statement; with a second: a transaction that only reads           (view.rs)
//! commit   -> locks, checks and changes worked out (plan.rs), sent in one round trip (commit.rs) -> durable when it returns
//! deltas   -> rows beside the value, which readers add up; folded into it a little later          (keeping.rs)
//! ```
//!
//! **What is durable.** The server's own promise: with its default settings a commit is on its disk, and on that of a synchronous standby
//! if it has one. [`Kv::flush`] has nothing left to do.
//!
//! **Several processes.** Every process that commits is a *session*, a row that its commits refer to. One may be the owner, or several may be
//! members, who change names together. Each gives a sign of life every few seconds. If one gives none for too long, another process removes
//! its row. From then on the server refuses what it tries to commit, because an attempt belongs to a session.
//!
//! **Cached values.** The owner alone changes most keys, so it reads those that it has read or written before from memory (`remote/cache.rs`).
//!
//! **Changes of others** are announced by the server's notifications, to members (feed.rs).
//!
//! **Hot values.** All creates of a directory change its times, and all of a volume its usage. A row that each of them locked until its
//! commit is on the disk would let them through one by one. So a delta is a row of its own, and no commit waits for another.
//!
//! **Failures.** The server may end, come back, or be replaced by its standby. A commit is sent again under its name until there is an
//! answer; a question is asked again, and a snapshot that has answered one already ends in a conflict, after which the operation runs
//! again. After [`TIMEOUT`](crate::engines::remote::failure::TIMEOUT) the operation fails.

mod address;
mod commit;
mod failure;
mod feed;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod keeping;
mod kind;
mod plan;
mod server;
mod session;
mod sql;
mod view;

pub(crate) use kind::KIND;

use crate::engines::OpenError;
use crate::engines::remote::cache::{self, Cache};
use crate::engines::remote::failure::Failure;
use crate::engines::remote::place::Place;
use crate::engines::remote::task::{self, wait_for};
use crate::kv::{Batch, ChangedKeys, Kv, KvError, Sessions, Snapshot};
use crate::types::Access;
use address::Address;
use commit::Attempt;
use feed::Announcements;
use plan::Plan;
use server::{Server, Sql};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::sync::Notify;
use tokio_postgres::types::ToSql;
use view::View;
use weft_env::Env;
use weft_env::sync::{Mutex, Receiver, channel};

/// After a view had to be given up.
const BEGIN_FOR: Duration = Duration::from_millis(100);

/// A store in a PostgreSQL database. Dropping it ends its session.
pub struct PostgresKv {
    engine: Arc<Engine>,
}

/// What the handle and the tasks share.
struct Engine {
    server: Arc<Server>,
    access: Access,
    /// Of this process, once it has one.
    session: tokio::sync::Mutex<Option<i64>>,
    attempts: Attempts,
    /// The owner's.
    cache: Option<Cache>,
    /// Keys for which deltas of this process wait.
    waiting: Mutex<BTreeSet<Vec<u8>>>,
    place: Place,
    announcements: Announcements,
    /// Until then views begin a transaction with their first question.
    begins_until: Mutex<Option<Instant>>,
    closing: Notify,
    is_closed: AtomicBool,
    /// Taken when it is dropped.
    runtime: Option<Runtime>,
}

/// Numbers of transactions of this session.
#[derive(Default)]
struct Attempts {
    last: AtomicI64,
    /// Their outcome is known: the server may forget them.
    answered: Mutex<Vec<i64>>,
    /// Their outcome is not known.
    unsettled: Mutex<Vec<i64>>,
}

impl Attempts {
    fn next(&self, session: i64) -> Attempt {
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        Attempt { session, number, answered: std::mem::take(&mut *self.answered.lock()) }
    }

    fn answered(&self, number: i64) {
        self.answered.lock().push(number);
    }

    fn give_back(&self, numbers: Vec<i64>) {
        self.answered.lock().extend(numbers);
    }
}

fn runtime(address: &Address) -> Result<Runtime, OpenError> {
    task::runtime("weft-postgres").map_err(|why| refused(address, why))
}

fn server(address: &Address, env: &Env) -> Result<Arc<Server>, OpenError> {
    Server::new(address.clone(), env).map(Arc::new).map_err(|why| refused(address, why))
}

fn refused(address: &Address, why: String) -> OpenError {
    OpenError::Refused { place: address.shown.clone(), why }
}

impl PostgresKv {
    fn open(address: Address, access: Access, mountpoint: Option<&Path>, env: &Env) -> Result<Self, OpenError> {
        let runtime = runtime(&address)?;
        let engine = Arc::new(Engine {
            server: server(&address, env)?,
            access,
            session: tokio::sync::Mutex::default(),
            attempts: Attempts::default(),
            cache: matches!(access, Access::Owner | Access::ShortLived).then(Cache::new),
            waiting: Mutex::default(),
            place: Place::new(env.clock.clone()),
            announcements: Announcements::default(),
            begins_until: Mutex::new(None),
            closing: Notify::new(),
            is_closed: AtomicBool::new(false),
            runtime: Some(runtime),
        });
        let mountpoint = mountpoint.map(Path::to_path_buf);
        let opening = engine.clone();
        let opened = engine.wait_for(async move { opening.enter(mountpoint.as_deref()).await });
        opened.map_err(|failure| engine.error(failure))??;
        engine.start(keeping::fold(engine.clone()));
        engine.start(keeping::sign(engine.clone()));
        Ok(Self { engine })
    }
}

impl Engine {
    fn store(&self) -> &str {
        &self.server.address.shown
    }

    fn error(&self, failure: Failure) -> KvError {
        failure.into_error(self.store())
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

    /// Keys for which the plan has left deltas.
    fn note_waiting(&self, plan: &Plan) {
        if !plan.deltas.0.is_empty() {
            self.waiting.lock().extend(plan.deltas.0.iter().cloned());
        }
    }

    fn begins_views(&self) -> bool {
        self.begins_until.lock().is_some_and(|until| self.server.env.clock.now() < until)
    }

    fn begin_views(&self) {
        *self.begins_until.lock() = Some(self.server.env.clock.now() + BEGIN_FOR);
    }

    /// After a conflict: deltas that wait for what was compared are applied, so that the next attempt compares values.
    async fn fold_compared(&self, plan: &Plan) -> Result<(), Failure> {
        const KEYS_MAX: i64 = 1000;
        let compared = plan.compared();
        if compared.is_empty() && plan.ranges.is_empty() {
            return Ok(());
        }
        let mut keys = self.keys(Sql::WaitedForAmong, &[&compared]).await?;
        for check in &plan.ranges {
            keys.extend(self.keys(Sql::WaitedForWithin, &[&check.range.start, &check.range.end, &KEYS_MAX]).await?);
        }
        self.fold(keys).await
    }

    /// Asks for keys.
    async fn keys(&self, sql: Sql, parameters: &[&(dyn ToSql + Sync)]) -> Result<Vec<Vec<u8>>, Failure> {
        let asked = self.server.get(|connection| async move {
            let rows = connection.client.query(connection.of(sql), parameters).await;
            let keys = rows.and_then(|rows| rows.into_iter().map(|row| row.try_get(0)).collect());
            (connection, keys.map_err(|error| Failure::of(&error)))
        });
        asked.await
    }

    /// How many rows a statement changed.
    async fn execute(&self, sql: Sql, parameters: &[&(dyn ToSql + Sync)]) -> Result<u64, Failure> {
        let asked = self.server.get(|connection| async move {
            let changed = connection.client.execute(connection.of(sql), parameters).await;
            (connection, changed.map_err(|error| Failure::of(&error)))
        });
        asked.await
    }

    /// Deltas of this process wait no more.
    async fn fold_own(&self) -> Result<(), Failure> {
        let keys = std::mem::take(&mut *self.waiting.lock());
        let folded = self.fold(keys.iter().cloned().collect()).await;
        if folded.is_err() {
            self.waiting.lock().extend(keys);
        }
        folded
    }

    async fn fold(&self, keys: Vec<Vec<u8>>) -> Result<(), Failure> {
        /// Who changes one of them waits for all.
        const AT_ONCE: usize = 16;
        for keys in keys.chunks(AT_ONCE) {
            match self.fold_together(keys).await {
                Err(Failure::Damaged(_)) => {}
                folded => {
                    folded?;
                    continue;
                }
            }
            for key in keys {
                if let Err(failure) = self.fold_together(std::slice::from_ref(key)).await {
                    tracing::error!(key = %crate::keys::printable(key), error = %self.error(failure), "deltas of a record wait on");
                }
            }
        }
        Ok(())
    }

    async fn fold_together(&self, keys: &[Vec<u8>]) -> Result<(), Failure> {
        let folded = self.server.get(|connection| async move {
            let folded = commit::fold(&connection, keys.to_vec()).await;
            (connection, folded)
        });
        folded.await
    }
}

impl Kv for PostgresKv {
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
        let engine = self.engine.clone();
        let changed = engine.announcements.of(&batch);
        let committed = cache::during(self.engine.cache.as_ref(), batch, |batch| {
            let plan = Plan::of(batch);
            let committed = self.engine.wait_for(async move {
                let committed = engine.commit_plan(&plan).await;
                if committed == Err(Failure::Conflict) {
                    engine.fold_compared(&plan).await?;
                }
                committed
            });
            committed.and_then(|answer| answer)
        });
        committed.map_err(|failure| self.engine.error(failure))?;
        self.engine.announcements.note(changed);
        Ok(())
    }

    fn flush(&self) -> Result<(), KvError> {
        Ok(())
    }

    fn sessions(&self) -> Option<&dyn Sessions> {
        Some(self)
    }

    fn close(&self) -> Result<(), KvError> {
        let engine = self.engine.clone();
        let folded = self.engine.wait_for(async move { engine.fold_own().await });
        folded.and_then(|answer| answer).map_err(|failure| self.engine.error(failure))
    }
}

impl Sessions for PostgresKv {
    fn own(&self) -> Result<i64, KvError> {
        let engine = self.engine.clone();
        let session = self.engine.wait_for(async move { engine.session().await });
        session.and_then(|session| session).map_err(|failure| self.engine.error(failure))
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
        if !self.engine.announcements.begin(tables) {
            return None;
        }
        let (heard, changes) = channel();
        self.engine.start(feed::announce(self.engine.clone()));
        self.engine.start(feed::listen(self.engine.clone(), heard));
        Some(changes)
    }
}

impl Drop for PostgresKv {
    fn drop(&mut self) {
        self.engine.is_closed.store(true, Ordering::Release);
        self.engine.closing.notify_waiters();
        let engine = self.engine.clone();
        let left = self.engine.wait_for(async move {
            if let Err(failure) = engine.announce().await {
                tracing::debug!(?failure, "the last changes are not announced; others find out by time");
            }
            engine.leave().await
        });
        if let Err(failure) = left.and_then(|answer| answer) {
            tracing::debug!(?failure, "the session stays until others see that it gives no sign of life");
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
