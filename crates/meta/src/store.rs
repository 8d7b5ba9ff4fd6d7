//! File-system logic over the engine: every operation is one transaction, or, where it may touch more keys than one
//! transaction should, a row of transactions with a consistent state after each.
//!
//! How an operation runs: take the process's transaction lock, take a snapshot, run the closure (its reads become
//! checks, its writes wait in memory and are seen by its own later reads), commit; where another changed something that was read,
//! again on a new snapshot, after a pause.
//!
//! * Reads by key and scans are checked at commit. Of a directory in which names are made or removed the check leaves out its times and
//!   links, which are merged, as is the volume's usage: creates do not conflict, in one directory or in many.
//! * Operations that read by key only run beside each other; those that scan run alone, so that an engine that no other process writes
//!   need not check ranges. What waits, waits in [`Store::flush`], outside of the lock. Operations that write shared tables only may
//!   wait for the disk, and so do without it; what is scanned of the node table is guarded by the roster's count.
//! * Durable only after [`Store::flush`], in commit order.
//!
//! Where to read on: `txn.rs` and `values.rs`, then `names.rs` and `rename.rs` (the tree), `mapping.rs` (extents under
//! changes), `commit.rs`, `merge.rs`, `data.rs`, `reclaim.rs` (file bytes), `segments.rs`, `nodes.rs`, `policies.rs` (the rest).

mod attributes;
mod commit;
mod data;
mod deleted;
#[cfg(test)]
pub(crate) mod fixture;
pub mod journal;
pub mod leases;
mod locks;
mod mapping;
mod merge;
mod names;
mod nodes;
mod openings;
mod policies;
mod protection;
mod reclaim;
mod rename;
mod segments;
pub mod sessions;
mod sums;
mod txn;
pub(crate) mod values;
mod xattrs;

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use weft_env::Env;
use weft_env::planted::{Planted, has_planted};
use weft_env::sync::{Mutex, RwLock};
use weft_format::Ino;
use weft_format::records::{Attributes, Kind, PolicyRecord, RecordError, SumsRecord, Timestamp, VolumeRecord};

use crate::guard::Guard;
use crate::keys::{Counter, Key};
use crate::kv::{Batch, History, Kv, KvError};
use crate::{MetaError, MetaUrl};
use txn::{Company, Txn};
use values::Usage;

pub use merge::MERGE_MOVES_MAX;
pub(crate) use merge::aliased;

/// A transaction is tried this often before [`KvError::Conflict`] is handed on. Only changes of what it decides on make one fail, and those
/// are few.
const ATTEMPTS: u32 = 32;
/// One that may run several times, and keeps its answer.
type Operation<'o> = &'o mut dyn FnMut(&mut Txn<'_>) -> Result<(), MetaError>;

/// So many numbers are taken from a counter at once, so that the counter is not written for every file. What a process
/// leaves of its block is never used.
const NUMBER_BLOCK: u64 = 4096;

/// Listing positions 0 to 15 are left to whoever adds `.` and `..`.
const FIRST_COOKIE: u64 = 16;

/// Milliseconds since the Unix epoch; times before it count as 0.
pub(crate) fn milliseconds(time: Timestamp) -> u64 {
    let seconds = u64::try_from(time.seconds).unwrap_or(0);
    seconds.saturating_mul(1000).saturating_add(u64::from(time.nanoseconds / 1_000_000))
}

/// The metadata of one volume.
pub struct Store {
    kv: Arc<dyn Kv>,
    env: Env,
    volume: VolumeRecord,
    /// Held while a transaction runs and commits: by those that scan alone.
    transaction: RwLock<()>,
    inos: Mutex<Range<u64>>,
    cookies: Mutex<Range<u64>>,
    /// When all inodes were last looked at for policies that nothing has.
    policies_looked_at: Mutex<Option<Timestamp>>,
    change_count: AtomicU64,
    /// Has it changed anything that lasts since the opening was renewed?
    has_changed: AtomicBool,
    /// Where it is, where that is known.
    url: Option<MetaUrl>,
    /// Why nothing may be changed any more.
    halted: OnceLock<String>,
    /// Of this process, where several change the volume.
    session: Option<i64>,
    /// Waits until nodes have everything, where this process keeps the replica.
    nodes_have_it: OnceLock<protection::Wait>,
    /// The opening that this process has taken.
    opening: OnceLock<u32>,
}

/// A store whose operations on names ask a guard first, within their transactions.
pub struct Guarded<'s> {
    store: &'s Store,
    guard: &'s dyn Guard,
}

impl Store {
    /// The same store, which asks `guard` before it changes names.
    pub fn guarded<'s>(&'s self, guard: &'s dyn Guard) -> Guarded<'s> {
        Guarded { store: self, guard }
    }

    /// Makes a new volume in an empty engine: its record, the default policy and an empty root directory (mode 0755, of
    /// user and group 0), and makes them durable.
    ///
    /// # Errors
    /// [`MetaError::Refused`] if the engine holds anything already.
    pub fn format(
        kv: Arc<dyn Kv>,
        volume: &VolumeRecord,
        default: &PolicyRecord,
        now: Timestamp,
        env: &Env,
    ) -> Result<Store, MetaError> {
        let store = Self::over(kv, volume.clone(), env);
        store.transact(|txn| {
            if !txn.scan(&(Vec::new()..vec![u8::MAX]), 1)?.is_empty() {
                return Err(MetaError::Refused("the metadata store is not empty: format a new one".into()));
            }
            txn.put(Key::Volume, volume.encode());
            txn.put(Key::Policy(volume.default_policy), default.encode());
            txn.put(Key::Counter(Counter::Ino), values::number(Ino::ROOT.0 + 1));
            txn.put(Key::Counter(Counter::Cookie), values::number(FIRST_COOKIE));
            txn.put(Key::Usage, Usage { inodes: 1, live_bytes: 0 }.encode());
            txn.put(Key::Sums, SumsRecord::default().encode());
            txn.put(Key::SumChanges, SumsRecord::default().encode());
            txn.put_inode(&Attributes {
                ino: Ino::ROOT,
                kind: Kind::Directory,
                mode: 0o755,
                uid: 0,
                gid: 0,
                nlink: 2,
                rdev: 0,
                size: 0,
                allocated_bytes: 0,
                atime: now,
                mtime: now,
                ctime: now,
                btime: now,
                policy: volume.default_policy,
                parent: Ino::ROOT,
            });
            Ok(())
        })?;
        store.flush()?;
        Ok(store)
    }

    /// Opens a volume that exists.
    ///
    /// # Errors
    /// [`MetaError::Refused`] if the engine holds no volume, or one of a newer format.
    pub fn open(kv: Arc<dyn Kv>, env: &Env) -> Result<Store, MetaError> {
        let found = kv.snapshot()?.get(&Key::Volume.encode())?;
        let Some(bytes) = found else {
            return Err(MetaError::Refused(
                "the metadata store holds no volume: format one, or name another store".into(),
            ));
        };
        let volume = VolumeRecord::decode(&bytes).map_err(|error| match error {
            RecordError::UnknownVersion { .. } => MetaError::Refused(error.to_string()),
            RecordError::Damaged { .. } => values::damaged(&Key::Volume, error),
        })?;
        Ok(Self::over(kv, volume, env))
    }

    fn over(kv: Arc<dyn Kv>, volume: VolumeRecord, env: &Env) -> Store {
        Store {
            kv,
            env: env.clone(),
            volume,
            transaction: RwLock::new(()),
            inos: Mutex::new(0..0),
            cookies: Mutex::new(0..0),
            policies_looked_at: Mutex::new(None),
            change_count: AtomicU64::new(0),
            has_changed: AtomicBool::new(false),
            url: None,
            halted: OnceLock::new(),
            session: None,
            nodes_have_it: OnceLock::new(),
            opening: OnceLock::new(),
        }
    }

    /// The same, known to be there.
    pub fn at(mut self, url: &MetaUrl) -> Store {
        self.url = Some(url.clone());
        self
    }

    /// Where it is, where that is known.
    pub fn url(&self) -> Option<&MetaUrl> {
        self.url.as_ref()
    }

    /// Its time, chance and threads.
    pub fn env(&self) -> &Env {
        &self.env
    }

    /// What the volume is.
    pub fn volume(&self) -> &VolumeRecord {
        &self.volume
    }

    /// Returns when everything committed before is durable.
    ///
    /// # Errors
    /// The engine's.
    pub fn flush(&self) -> Result<(), MetaError> {
        Ok(self.kv.flush()?)
    }

    /// Flushes, and leaves the store whole by itself, so that it may be moved: for who will not write any more.
    ///
    /// # Errors
    /// The engine's.
    pub fn close(&self) -> Result<(), MetaError> {
        Ok(self.kv.close()?)
    }

    /// What the engine can say of its past, for a replica of it; `None`: nothing.
    pub fn history(&self) -> Option<&dyn History> {
        self.kv.history()
    }

    /// How many changes were tried through this store. Where it stays the same, what was read is the latest, but for other stores.
    pub fn change_count(&self) -> u64 {
        self.change_count.load(Ordering::Acquire)
    }

    /// Reads all that is stored and compares it with its checksums: a clause for each fault. `progress` gets the number of records read.
    ///
    /// # Errors
    /// The engine's. Damage is an answer, not an error.
    pub fn verify(&self, progress: &mut dyn FnMut(u64)) -> Result<Vec<String>, MetaError> {
        Ok(self.kv.verify(progress)?)
    }

    /// Runs `operation` on one snapshot and forgets what it would have written. Where the engine loses the snapshot, on another.
    fn view<T>(&self, mut operation: impl FnMut(&mut Txn<'_>) -> Result<T, MetaError>) -> Result<T, MetaError> {
        let mut answer = None;
        self.run_on_a_snapshot(&mut |txn| {
            answer = Some(operation(txn)?);
            Ok(())
        })?;
        Ok(answer.expect("an operation that succeeds has answered"))
    }

    /// The same for any answer, which the operation keeps.
    fn run_on_a_snapshot(&self, operation: Operation<'_>) -> Result<(), MetaError> {
        for _ in 1..ATTEMPTS {
            let snapshot = self.kv.snapshot()?;
            match operation(&mut Txn::reading(&*snapshot)) {
                Err(MetaError::Engine(KvError::Conflict)) => {}
                done => return done,
            }
        }
        let snapshot = self.kv.snapshot()?;
        operation(&mut Txn::reading(&*snapshot))
    }

    /// Runs an operation of the owner, one at a time.
    fn transact<T>(&self, operation: impl FnMut(&mut Txn<'_>) -> Result<T, MetaError>) -> Result<T, MetaError> {
        let _alone = self.transaction.write();
        self.attempt(operation, Company::Alone)?.ok_or_else(|| KvError::Conflict.into())
    }

    /// Runs an operation of the owner that mostly reads by key, beside others like it; where it has to scan, or others of this process
    /// are always first, again and alone.
    fn transact_by_key<T>(
        &self,
        mut operation: impl FnMut(&mut Txn<'_>) -> Result<T, MetaError>,
    ) -> Result<T, MetaError> {
        let beside = self.transaction.read();
        let done = self.attempt(&mut operation, Company::Beside);
        drop(beside);
        match done {
            Ok(Some(answer)) => Ok(answer),
            Ok(None) | Err(MetaError::Engine(KvError::Conflict)) => self.transact(operation),
            Err(error) => Err(error),
        }
    }

    /// Runs an operation that writes shared tables only. It excludes nobody: it may wait for the disk, and what it
    /// decides on is checked when it commits, in this process as in others.
    fn transact_shared<T>(&self, operation: impl FnMut(&mut Txn<'_>) -> Result<T, MetaError>) -> Result<T, MetaError> {
        self.attempt(operation, Company::Alone)?.ok_or_else(|| KvError::Conflict.into())
    }

    /// Runs `operation` until it commits on an unchanged snapshot. `None`: it must be alone.
    fn attempt<T>(
        &self,
        mut operation: impl FnMut(&mut Txn<'_>) -> Result<T, MetaError>,
        company: Company,
    ) -> Result<Option<T>, MetaError> {
        let mut answer = None;
        let run = &mut |txn: &mut Txn<'_>| {
            answer = Some(operation(txn)?);
            Ok(())
        };
        let is_done = self.run_until_committed(run, company)?;
        Ok(if is_done { answer } else { None })
    }

    /// The same for any answer, which the operation keeps; false: it must be alone. It is compiled once, not for each operation.
    fn run_until_committed(&self, operation: Operation<'_>, company: Company) -> Result<bool, MetaError> {
        for attempt in 0..company.attempts() {
            if attempt > 0 {
                self.env.clock.block(pause(attempt, self.env.rng.next_u32()));
            }
            let (frees_room, batch) = {
                let snapshot = self.kv.snapshot()?;
                let mut txn = Txn::writing(&*snapshot, company);
                let done = operation(&mut txn);
                if txn.must_be_alone() {
                    return Ok(false);
                }
                // The engine could not keep to the moment of the snapshot.
                if let Err(MetaError::Engine(KvError::Conflict)) = done {
                    continue;
                }
                done?;
                (txn.frees_room(), txn.into_batch()?)
            };
            let deltas = has_planted(Planted::RetryAppliedTwice).then(|| batch.deltas.clone());
            match self.commit_batch(batch, frees_room) {
                Err(MetaError::Engine(KvError::Conflict)) => {
                    if let Some(deltas) = deltas {
                        self.commit_batch(Batch { deltas, ..Batch::default() }, frees_room)?;
                    }
                }
                Err(error) => return Err(error),
                Ok(()) => return Ok(true),
            }
        }
        Err(KvError::Conflict.into())
    }

    fn commit_batch(&self, batch: Batch, frees_room: bool) -> Result<(), MetaError> {
        if batch.is_empty() {
            return Ok(());
        }
        if let Some(why) = self.halted.get() {
            return Err(MetaError::Superseded(why.clone()));
        }
        if openings::lasts(&batch) {
            self.has_changed.store(true, Ordering::Release);
        }
        let committed = if frees_room { self.kv.commit_freeing(batch) } else { self.kv.commit(batch) };
        self.change_count.fetch_add(1, Ordering::AcqRel);
        Ok(committed?)
    }

    /// A number that was never given out before. Not to be called within a transaction: it may need its own.
    /// `block` is what this process has taken of the counter.
    fn allocate(&self, counter: Counter, block: &Mutex<Range<u64>>) -> Result<u64, MetaError> {
        let mut block = block.lock();
        if block.is_empty() {
            *block = self.transact(|txn| {
                let key = Key::Counter(counter);
                let bytes = txn.get(key)?.ok_or_else(|| values::damaged(&key, "it is missing"))?;
                let first = values::decode_number(&key, &bytes)?;
                let end = first.checked_add(NUMBER_BLOCK).ok_or_else(|| values::damaged(&key, "it is used up"))?;
                txn.put(key, values::number(end));
                Ok(first..end)
            })?;
        }
        let number = block.start;
        block.start += 1;
        Ok(number)
    }

    /// The engine, for the consistency check.
    pub(crate) fn kv(&self) -> &dyn Kv {
        &*self.kv
    }

    /// Applies what the consistency check worked out.
    pub(crate) fn mend(&self, batch: Batch) -> Result<(), MetaError> {
        let _alone = self.transaction.write();
        self.commit_batch(batch, false)
    }
}

/// How long to wait before an attempt after the first: up to twice as long each time, a part of it by chance, so that those that met do
/// not meet again.
fn pause(attempt: u32, chance: u32) -> Duration {
    const FIRST: Duration = Duration::from_micros(50);
    /// Some round trips to an engine on another machine.
    const LONGEST: Duration = Duration::from_millis(20);
    let longest = (FIRST * 2u32.saturating_pow(attempt - 1)).min(LONGEST);
    longest.mul_f64(f64::from(chance) / f64::from(u32::MAX))
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
