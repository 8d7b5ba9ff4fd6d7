//! The default engine: one SQLite file in write-ahead-log mode with one ordered table, behind a memtable.
//!
//! The way of a batch through the owner's engine:
//!
//! ```text
//! commit -> checks hold on (memtable over file)? -> memtable -> return          (commit.rs)
//! flush -> what is new in the memtable as one record of the intent log          (intents.rs)
//! 100 ms, or 4 MiB -> writer: freeze the memtable, one transaction, forget the frozen part   (writer.rs)
//! snapshot = (memtable, read transaction on the file)                           (view.rs)
//! ```
//!
//! **What is durable.** Every transaction of the writer holds all batches committed before some moment, and so do the file and the
//! records of the log together: after a crash they have a prefix of the commits, each whole. Concurrent flushes share a record. The
//! file takes flushes itself while others have the store open (`presence.rs`), where room is short, and where the log has none.
//!
//! **Snapshots.** A view is (memtable, read transaction) such that the file at that transaction lacks nothing that the
//! memtable does not have, and has nothing that was committed after the memtable was cloned. There are two ways to get one.
//! Usually the view only registers, and begins its read transaction when it first misses memtable and cache; before the writer
//! writes, it begins the read transaction of every registered view that has none. Until then the file changes only if the writer was
//! in a transaction when the view registered, and then only by the frozen part. The clone has that part as well, so the view reads
//! the same before and after. If the writer is in a transaction of batches that are written through, which no memtable has, the view
//! begins its read transaction first and clones the memtable second; if the `epoch` tells that the writer's transaction ended in
//! between, it tries again.
//!
//! **Several processes.** Keys are the owner's alone, except those under a [`SharedPrefix`]. Others ([`Access::Shared`])
//! write only shared keys, and every batch of theirs is *written through*: checked inside a SQLite write transaction, and
//! durable when `commit` returns. A batch of the owner is written through as well, after everything committed before it, if
//! it depends on what others do: that is, unless every shared key that it checks is one with a fresh id and expected absent,
//! and every shared key that it writes is one with a fresh id and set. This is sound:
//! * owner-only keys change by the owner's commits only, so a check against (memtable over file) stays true until the flush;
//! * a key with a fresh id that the owner makes, nobody else can make (the writer verifies it all the same, and stops the
//!   engine rather than overwrite), so a check for its absence stays true as well;
//! * a set without a check holds in whatever order: others' changes count as having come before it;
//! * everything else is decided under SQLite's own write lock. Meanwhile the keys of such a batch are *held*: commits
//!   that touch one wait, and those that touch none are free, because their order does not matter. (So two views may
//!   disagree about which of two batches without a common key came first, if one of them was written through.)
//!
//! Others see, of the owner's, the flushed prefix: their checks of owner-only keys are answered by that prefix, after which
//! their batch counts as having come.
//!
//! **Place.** Whoever writes asks first whether the file is the one that was left here, with its log (`home.rs`): of a copy, and of a
//! store whose log is missing or cut, nothing is written.
//!
//! **Damage.** Rows are sealed and linked (`rows.rs`): whatever is read, and whatever is found absent, is checked.
//!
//! **Failures.** No space: nothing is lost, reads go on. The reserve (`reserve.rs`) is given up, and until it can be taken again only
//! batches that free room are taken, others answer [`KvError::Full`]; where that does not suffice all do, and try again. A
//! file locked by another process for longer than the busy time-out: likewise, with [`KvError::Failed`]. Anything else stops
//! the engine: what the disk then holds of the last transaction is unknown, so nothing may be built upon it; reads go on.

mod cache;
mod changes;
mod checkpoint;
mod commit;
mod copy;
mod file;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod history;
mod home;
mod intents;
mod kind;
mod making;
mod presence;
mod reading;
mod reserve;
mod rows;
mod view;
mod witness;
mod writer;

pub(crate) use copy::read as read_backup;
pub(crate) use kind::KIND;
pub(crate) use making::load_backup;

use crate::descriptor::Descriptor;
use crate::engines::OpenError;
use crate::engines::memtable::{Memtable, Shared};
use crate::keys::SharedPrefix;
use crate::kv::{Batch, History, Kv, KvError, Snapshot};
use crate::owner::{Holder, OwnerLock};
use crate::types::Access;
use cache::ValueCache;
use home::{Home, Witness};
use intents::{Change, IntentLog};
use presence::Presence;
use reading::Reader;
use reserve::Reserve;
use rows::Fault;
use rusqlite::Connection;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;
use view::{Pin, Readers, View};
use weft_env::sync::{Condvar, Mutex};
use weft_env::{Clock, Env, Thread};
use writer::Writer;

/// A store in a SQLite file. Dropping it flushes.
pub struct SqliteKv {
    engine: Arc<Engine>,
    /// The writer, then the checkpointer, which ends after it.
    threads: Vec<Thread>,
    /// Of those that are not the owner.
    _presence: Option<Presence>,
    /// Given up last.
    _owner: Option<OwnerLock>,
}

/// What the handle, the writer thread and the snapshots share.
struct Engine {
    path: PathBuf,
    access: Access,
    shared_keys: &'static [SharedPrefix],
    readers: Readers,
    cache: ValueCache,
    state: Mutex<State>,
    /// Present from the start of the writer's thread to its end. A thread that holds the lock on the state never waits for this lock.
    writer: Mutex<Option<Writer>>,
    /// The owner's. A thread that holds the lock on the state never waits for the lock on the log.
    log: Option<Logging>,
    /// The writer's thread waits here for work.
    work: Condvar,
    /// All others wait here for the end of a transaction, or for a turn at the writer.
    done: Condvar,
    reserve: Reserve,
    env: Env,
    /// See [`History::entered_at`].
    entered_at: Option<u64>,
    /// Outlives all connections.
    store: Descriptor,
}

/// How flushes are made durable without the file.
struct Logging {
    log: Mutex<IntentLog>,
    witness: Arc<Witness>,
}

#[derive(Default)]
struct State {
    memtable: Memtable,
    /// When the oldest change outside a running transaction was committed; after a failure, when that was.
    waiting_since: Option<Instant>,
    /// The writer's thread will look again in time for the latest changes.
    is_watched: bool,
    /// Batches ever committed to the memtable, ...
    committed: u64,
    /// ... how many of them the file has, ...
    filed: u64,
    /// ... how many it is asked to have, ...
    wanted: u64,
    /// ... and how many are durable by the log.
    logged: u64,
    /// What neither file nor log has, in the order of commits; empty without a log.
    unlogged: Vec<Change>,
    /// Others had the store open at the last look.
    is_watched_by_others: bool,
    /// The file may be marked as all there is.
    is_closed: bool,
    /// Keys with a fresh id that pending batches expect to be absent from the file.
    claims: Vec<Shared>,

    writing: Writing,
    /// How often the frozen part was forgotten.
    epoch: u64,
    /// Views of this epoch may put what they read from the file into the cache.
    fill_epoch: u64,
    /// Views that have no read transaction yet.
    unpinned: BTreeMap<u64, Arc<Pin>>,
    next_pin: u64,

    /// Batches that wait to be written through, and what became of those that do not wait any more.
    through: Vec<(u64, Batch)>,
    outcomes: HashMap<u64, Result<(), Failure>>,
    next_ticket: u64,
    /// Keys of batches that are being written through.
    held: HashSet<Vec<u8>>,

    /// Transactions that failed, and the last failure since one succeeded.
    failures: u64,
    failure: Option<Failure>,
    /// Pending changes found no space, the reserve included.
    full: bool,
    /// The reserve is given up: only what frees room is taken.
    in_reserve: bool,
    /// There is little room: little may be pending.
    is_short: bool,
    /// The engine takes no more writes, because of this.
    stopped: Option<String>,
    /// The writer panicked: nobody answers batches any more.
    writer_is_lost: bool,
    closing: bool,
}

/// The changes in the writer's transaction, if it is in one or about to begin one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Writing {
    #[default]
    Nothing,
    /// Those in the frozen part of the memtable.
    Pending,
    /// Those of batches that are written through, which no memtable has.
    Through,
}

/// Why a transaction failed.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Failure {
    /// A check of this batch did not hold.
    Conflict,
    /// No space.
    Full,
    /// Another process kept the file locked; nothing is lost.
    Busy(String),
    /// The file is a copy, or older than what was left here; a sentence.
    Displaced(String),
    /// The file is not what was written.
    Damaged(String),
    /// Anything else.
    Broken(String),
}

impl SqliteKv {
    /// Makes a new, empty store in a file that must not exist.
    pub fn create(path: &Path) -> Result<(), OpenError> {
        making::create(path)
    }

    /// Copies what is durable of the store at `path`, as of one moment and beside whoever writes, to the new file `to`. It is a backup:
    /// only [`Self::restore`] opens it.
    ///
    /// # Errors
    /// [`OpenError`]; nothing is made then.
    pub fn back_up(path: &Path, to: &Path, clock: &dyn Clock) -> Result<(), OpenError> {
        copy::back_up(path, to, clock)
    }

    /// Makes a store in a file that must not exist of a backup, or of another copy of a store.
    ///
    /// # Errors
    /// [`OpenError`]; nothing is made then.
    pub fn restore(from: &Path, path: &Path, clock: &dyn Clock) -> Result<(), OpenError> {
        copy::restore(from, path, clock)
    }

    /// Opens an existing store. `shared_keys` must be the same in every process. `mountpoint` is what others are told about
    /// an owner.
    pub fn open(
        path: &Path,
        access: Access,
        shared_keys: &'static [SharedPrefix],
        mountpoint: Option<&Path>,
        env: &Env,
    ) -> Result<Self, OpenError> {
        let (path, clock) = (file::probe(path)?, &*env.clock);
        let store = Descriptor::open(&path).map_err(|error| file::io_error(&path, error))?;
        if access == Access::Member {
            return Err(OpenError::OneOwner(path.display().to_string()));
        }
        if access != Access::Shared && !file::may_write(&path) {
            return Err(OpenError::Denied(file::shown(&path)));
        }
        let holder = match access {
            Access::Owner => Some(Holder::this_process(mountpoint, clock)),
            Access::ShortLived => Some(Holder::short_lived(clock)),
            Access::Shared | Access::Member => None,
        };
        let owner = holder.map(|holder| OwnerLock::acquire(&path, &holder, clock)).transpose()?;
        let (connection, home, presence) = loop {
            match settle(&path, access, &store, clock) {
                // On a full disk it is opened for what frees room.
                Err(OpenError::Engine(KvError::Full { .. })) if Reserve::of(&path).give_up().unwrap_or(false) => {}
                settled => break settled?,
            }
        };
        let log = if access == Access::Owner { Logging::begin(&path, &connection, &home)? } else { None };
        let keeps_log = access == Access::Shared && presence.is_none();
        let entered_at = home.entered_at();
        let engine = Engine { log, entered_at, ..Engine::new(path, access, shared_keys, store, keeps_log, env) };
        let engine = Arc::new(engine);
        if access == Access::Owner && !engine.reserve.take().unwrap_or(false) {
            tracing::warn!(store = %engine.path.display(), "its disk has no room: only deletions can be done");
            engine.state.lock().in_reserve = true;
        }
        engine.state.lock().is_short = engine.reserve.is_short();
        let no_thread = |error| engine.failed(format!("it gets no thread: {error}"));
        let (checkpoints, checkpointer) = checkpoint::start(&engine.path, &*env.spawner).map_err(no_thread)?;
        let writer = writer::start(engine.clone(), connection, home, checkpoints).map_err(no_thread)?;
        Ok(Self { engine, threads: vec![writer, checkpointer], _presence: presence, _owner: owner })
    }

    /// Of an owner: marks the file as all there is, unless somebody flushed meanwhile. It takes the writer's place, so that no transaction
    /// that began before seems to have taken the mark back.
    fn mark_closed(&self) -> Result<(), KvError> {
        let engine = &self.engine;
        let writer = engine.writer.lock();
        let marked = writer.as_ref().map_or(Ok(()), |writer| {
            let _log = engine.log.as_ref().map(|logging| logging.log.lock());
            engine.state.lock().is_closed = true;
            writer.mark_closed(&engine.path)
        });
        drop(writer);
        drop(engine.pass_on());
        marked.map_err(|failure| engine.error(failure))
    }
}

/// The writer's connection and what it knows of the store's place; for those that are not the owner also that they are there, if the
/// store is at home.
fn settle(
    path: &Path,
    access: Access,
    store: &Descriptor,
    clock: &dyn Clock,
) -> Result<(Connection, Home, Option<Presence>), OpenError> {
    if !file::may_write(path) {
        let presence = Presence::announce(path, clock).map_err(|error| file::io_error(path, error))?;
        let reader = Reader::open(path, true).map_err(|fault| file::open_error(path, fault))?;
        await_filed(path, &reader.connection, store, clock)?;
        return Ok((reader.connection, Home::new(path), presence));
    }
    let connection = file::open_writer(path)?;
    let (home, presence) = match access {
        Access::Owner | Access::ShortLived => {
            let home = Home::enter(path, &connection, access).map_err(|failure| file::failure(path, failure))?;
            file::keep_log(&connection, false).map_err(|error| file::failure(path, error.into()))?;
            (home, None)
        }
        Access::Shared | Access::Member => (Home::new(path), join(path, &connection, store, clock)?),
    };
    Ok((connection, home, presence))
}

/// Comes to a store that another may own. Answers nothing if it is not at home.
fn join(
    path: &Path,
    connection: &Connection,
    store: &Descriptor,
    clock: &dyn Clock,
) -> Result<Option<Presence>, OpenError> {
    let io = |error| file::failed(&intents::log_path(path), error);
    let presence = Presence::announce(path, clock).map_err(io)?;
    await_filed(path, connection, store, clock)?;
    // A damaged store is read as far as it can be.
    let objection =
        home::look(path, connection).unwrap_or_else(|fault| Some(file::open_error(path, fault).to_string()));
    if let Some(why) = objection {
        tracing::warn!("{why}");
        return Ok(None);
    }
    let presence = match presence {
        Some(presence) => presence,
        // An owner may have come meanwhile.
        None => {
            let presence = Presence::insist(path, clock).map_err(io)?;
            await_filed(path, connection, store, clock)?;
            presence
        }
    };
    file::keep_log(connection, false).map_err(|error| file::failure(path, error.into()))?;
    Ok(Some(presence))
}

/// Goes on without it after a while: what is read then is older, and whole.
fn await_filed(path: &Path, connection: &Connection, store: &Descriptor, clock: &dyn Clock) -> Result<(), OpenError> {
    if !presence::await_filed(path, connection, store, clock)? {
        let store = path.display();
        tracing::warn!(
            "the owner of {store} does not write there what it flushed last: it is stopped, or its disk is; older data is read"
        );
    }
    Ok(())
}

impl Logging {
    /// Of a store that is entered; `None`: its disk has no room for a log.
    fn begin(path: &Path, connection: &Connection, home: &Home) -> Result<Option<Self>, OpenError> {
        let Some(witness) = home.witness().filter(|_| !Reserve::of(path).is_short()) else { return Ok(None) };
        let state = home::State::read(connection).map_err(|fault| file::open_error(path, fault))?;
        match IntentLog::open(path, state.log, state.intents) {
            Ok(log) => Ok(Some(Self { log: Mutex::new(log), witness: witness.clone() })),
            Err(error) => {
                tracing::debug!(store = %path.display(), %error, "no intent log: flushes go to the file");
                Ok(None)
            }
        }
    }
}

impl Kv for SqliteKv {
    fn snapshot(&self) -> Result<Box<dyn Snapshot + '_>, KvError> {
        Ok(Box::new(View::new(&self.engine)?))
    }

    fn commit(&self, batch: Batch) -> Result<(), KvError> {
        self.engine.commit(batch)
    }

    fn commit_freeing(&self, batch: Batch) -> Result<(), KvError> {
        self.engine.commit_freeing(batch)
    }

    fn flush(&self) -> Result<(), KvError> {
        self.engine.flush()
    }

    fn close(&self) -> Result<(), KvError> {
        self.engine.file()?;
        if self.engine.access == Access::Owner { self.mark_closed() } else { Ok(()) }
    }

    fn history(&self) -> Option<&dyn History> {
        Some(self)
    }

    fn verify(&self, progress: &mut dyn FnMut(u64)) -> Result<Vec<String>, KvError> {
        let (path, readers) = (&self.engine.path, &self.engine.readers);
        let mut verify = || {
            let mut faults = readers.look(|connection| rows::verify(connection, progress))?;
            let objection = |seen: home::Seen| readers.look(|connection| seen.objection(path, connection));
            match home::look_twice(|| home::Seen::of(path), objection) {
                Ok(objection) => faults.extend(objection),
                Err(Fault::Damaged(fault)) => faults.push(fault),
                Err(Fault::Sqlite(error)) if rows::is_damage(&error) => faults.push(rows::broken(&error)),
                Err(fault) => return Err(fault),
            }
            Ok(faults)
        };
        verify().map_err(|fault| self.engine.read_error(&fault))
    }
}

impl Drop for SqliteKv {
    fn drop(&mut self) {
        self.engine.state.lock().closing = true;
        self.engine.work.notify_all();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!(store = %self.engine.path.display(), "a thread of the metadata engine panicked");
            }
        }
    }
}

impl Engine {
    fn new(
        path: PathBuf,
        access: Access,
        shared_keys: &'static [SharedPrefix],
        store: Descriptor,
        keeps_log: bool,
        env: &Env,
    ) -> Self {
        Self {
            reserve: Reserve::of(&path),
            readers: Readers::new(&path, keeps_log),
            path,
            access,
            shared_keys,
            cache: ValueCache::new(),
            state: Mutex::default(),
            writer: Mutex::default(),
            log: None,
            work: Condvar::new(),
            done: Condvar::new(),
            env: env.clone(),
            entered_at: None,
            store,
        }
    }

    fn failed(&self, detail: impl ToString) -> KvError {
        KvError::Failed { store: self.path.display().to_string(), detail: detail.to_string() }
    }

    fn read_error(&self, fault: &Fault) -> KvError {
        let detail = match fault {
            Fault::Damaged(detail) => detail.clone(),
            Fault::Sqlite(error) if rows::is_damage(error) => rows::broken(error),
            Fault::Sqlite(error) => return self.failed(error),
            Fault::Refused(detail) => return self.failed(detail),
        };
        KvError::Damaged { store: self.path.display().to_string(), detail }
    }

    fn error(&self, failure: Failure) -> KvError {
        file::failure(&self.path, failure)
    }

    fn is_shared(&self, key: &[u8]) -> bool {
        self.shared_keys.iter().any(|shared| key.starts_with(shared.prefix))
    }

    /// May the cache hold it? Only what nobody else changes.
    fn is_cacheable(&self, key: &[u8]) -> bool {
        self.access != Access::Shared && !self.is_shared(key)
    }
}

impl State {
    fn refuse_if_stopped(&self, engine: &Engine) -> Result<(), KvError> {
        match &self.stopped {
            Some(why) => Err(engine.failed(format!("it takes no more writes since this: {why}"))),
            None => Ok(()),
        }
    }
}
