//! An engine that forgets everything when it is dropped: for tests, and the oracle of the others.

use crate::deltas::Delta;
use crate::kv::{Batch, ChangedKeys, Kv, KvError, Pair, Sessions, Snapshot};
use imbl::OrdMap;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::ops::Bound::{Excluded, Included};
use std::sync::Arc;
use weft_env::sync::{Receiver, Sender, channel};

type Map = OrdMap<Arc<[u8]>, Arc<[u8]>>;

/// A store in memory. Its map is persistent in the functional sense, so a snapshot is a clone that costs nothing.
#[derive(Default)]
pub struct MemoryKv {
    map: Mutex<Map>,
    sessions: Mutex<Table>,
}

/// The sessions of those that change it together.
#[derive(Default)]
struct Table {
    last: i64,
    live: BTreeSet<i64>,
    listeners: Vec<Listener>,
}

/// A session that hears of changes of others.
struct Listener {
    session: i64,
    tables: &'static [u8],
    heard: Sender<ChangedKeys>,
}

impl Table {
    fn refuse_if_ended(&self, session: i64) -> Result<(), KvError> {
        if self.live.contains(&session) {
            return Ok(());
        }
        Err(KvError::Displaced { sentence: "its session has ended; start it again".into() })
    }

    fn news_for_others(&self, session: i64, batch: &Batch) -> Vec<(Sender<ChangedKeys>, ChangedKeys)> {
        let others = self.listeners.iter().filter(|listener| listener.session != session);
        let changed = others.map(|listener| (listener.heard.clone(), batch.changed_in(listener.tables)));
        changed.filter(|(_, keys)| !keys.is_empty()).collect()
    }
}

impl MemoryKv {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// Another store that holds the same now.
    #[must_use]
    pub fn fork(&self) -> Self {
        Self { map: Mutex::new(self.map.lock().clone()), sessions: Mutex::default() }
    }

    /// One of several handles that change it together.
    #[must_use]
    pub fn join(self: &Arc<Self>) -> MemoryMember {
        let mut sessions = self.sessions.lock();
        sessions.last += 1;
        let session = sessions.last;
        sessions.live.insert(session);
        MemoryMember { store: self.clone(), session }
    }

    /// Ends a session, as if it had given no sign of life.
    pub fn evict(&self, session: i64) {
        let mut sessions = self.sessions.lock();
        sessions.live.remove(&session);
        sessions.listeners.retain(|listener| listener.session != session);
    }

    /// What it holds now, whatever becomes of it.
    #[must_use]
    pub fn view(&self) -> MemorySnapshot {
        MemorySnapshot(self.map.lock().clone())
    }
}

impl Kv for MemoryKv {
    fn snapshot(&self) -> Result<Box<dyn Snapshot + '_>, KvError> {
        Ok(Box::new(self.view()))
    }

    fn commit(&self, batch: Batch) -> Result<(), KvError> {
        let mut map = self.map.lock();
        for (key, expected) in &batch.checks {
            if map.get(key.as_slice()).map(|value| &**value) != expected.as_deref() {
                return Err(KvError::Conflict);
            }
        }
        let now = MemorySnapshot(map.clone());
        if !batch.directories.iter().all(|check| check.holds(map.get(check.key.as_slice()).map(|value| &**value))) {
            return Err(KvError::Conflict);
        }
        for check in &batch.ranges {
            if now.scan(&check.range.start, &check.range.end, check.limit)? != check.found {
                return Err(KvError::Conflict);
            }
        }
        let merged = |(key, delta): (Vec<u8>, Delta)| {
            let found = map.get(key.as_slice()).map(|value| &**value);
            let value = delta.apply(found).map_err(|detail| KvError::Damaged { store: "memory".into(), detail })?;
            Ok((key, Some(value)))
        };
        let merged: Vec<_> = batch.deltas.into_iter().map(merged).collect::<Result<_, KvError>>()?;
        for (key, value) in batch.writes.into_iter().chain(merged) {
            match value {
                Some(value) => map.insert(key.into(), value.into()),
                None => map.remove(key.as_slice()),
            };
        }
        Ok(())
    }

    fn flush(&self) -> Result<(), KvError> {
        Ok(())
    }
}

/// A handle of a [`MemoryKv`] with a session, which ends with it.
pub struct MemoryMember {
    store: Arc<MemoryKv>,
    session: i64,
}

impl Kv for MemoryMember {
    fn snapshot(&self) -> Result<Box<dyn Snapshot + '_>, KvError> {
        self.store.snapshot()
    }

    fn commit(&self, batch: Batch) -> Result<(), KvError> {
        // Held, so that nothing is committed after the session has ended.
        let sessions = self.store.sessions.lock();
        sessions.refuse_if_ended(self.session)?;
        let news = sessions.news_for_others(self.session, &batch);
        self.store.commit(batch)?;
        drop(sessions);
        for (heard, keys) in news {
            // Who does not listen any more is about to leave.
            let _ = heard.send(keys);
        }
        Ok(())
    }

    fn flush(&self) -> Result<(), KvError> {
        Ok(())
    }

    fn sessions(&self) -> Option<&dyn Sessions> {
        Some(self)
    }
}

impl Sessions for MemoryMember {
    fn own(&self) -> Result<i64, KvError> {
        Ok(self.session)
    }

    fn members(&self) -> Result<BTreeSet<i64>, KvError> {
        Ok(self.store.sessions.lock().live.clone())
    }

    fn make_sure(&self) -> Result<(), KvError> {
        self.store.sessions.lock().refuse_if_ended(self.session)
    }

    fn changes(&self, tables: &'static [u8]) -> Option<Receiver<ChangedKeys>> {
        let (heard, changes) = channel();
        self.store.sessions.lock().listeners.push(Listener { session: self.session, tables, heard });
        Some(changes)
    }
}

impl Drop for MemoryMember {
    fn drop(&mut self) {
        self.store.evict(self.session);
    }
}

/// A view of a [`MemoryKv`].
pub struct MemorySnapshot(Map);

impl Snapshot for MemorySnapshot {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, KvError> {
        Ok(self.0.get(key).map(|value| value.to_vec()))
    }

    fn scan(&self, start: &[u8], end: &[u8], limit: usize) -> Result<Vec<Pair>, KvError> {
        if start >= end {
            return Ok(Vec::new());
        }
        let pairs = self.0.range::<_, [u8]>((Included(start), Excluded(end)));
        Ok(pairs.take(limit).map(|(key, value)| (key.to_vec(), value.to_vec())).collect())
    }
}
