//! Reading: a view of (memtable over file) at one moment, and the read connections it borrows.

use super::reading::Reader;
use super::rows::{self, Fault, Scan};
use super::{Engine, Writing};
use crate::engines::memtable::{Memtable, Overlay, Shared};
use crate::kv::{KvError, Pair, Snapshot};
use rusqlite::Connection;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weft_env::planted::{Planted, has_planted};
use weft_env::sync::Mutex;

/// Connections kept open when nobody reads: a few more than cores that would read at once.
const IDLE_READERS: usize = 16;

/// Read connections, opened as needed.
pub(super) struct Readers {
    path: PathBuf,
    /// The store is not at home.
    keeps_log: bool,
    idle: Mutex<Vec<Reader>>,
}

impl Readers {
    pub fn new(path: &Path, keeps_log: bool) -> Self {
        Self { path: path.to_path_buf(), keeps_log, idle: Mutex::default() }
    }

    /// A connection in a read transaction that sees the file as it is now.
    fn begin(&self) -> Result<Reader, Fault> {
        let idle = self.idle.lock().pop().filter(|reader| reader.check().is_ok());
        let reader = idle.map_or_else(|| Reader::open(&self.path, self.keeps_log), Ok)?;
        reader.connection.prepare_cached("BEGIN")?.execute([])?;
        // The transaction begins with the first read.
        reader.connection.prepare_cached("SELECT 1 FROM sqlite_schema LIMIT 1")?.query_row([], |_| Ok(()))?;
        Ok(reader)
    }

    /// Looks at the file as it is now.
    pub fn look<T>(&self, look: impl FnOnce(&Connection) -> Result<T, Fault>) -> Result<T, Fault> {
        let reader = self.begin()?;
        let seen = look(&reader.connection).and_then(|seen| reader.check().map(|()| seen));
        self.end(reader);
        seen
    }

    fn end(&self, reader: Reader) {
        let ended = reader.connection.prepare_cached("ROLLBACK").and_then(|mut statement| statement.execute([]));
        let mut idle = self.idle.lock();
        if ended.is_ok() && idle.len() < IDLE_READERS {
            idle.push(reader);
        }
    }
}

/// A view's hold on the file.
pub(super) struct Pin(Mutex<Place>);

enum Place {
    /// No read transaction yet.
    Later,
    Open(Reader),
    Failed(Fault),
    /// The view is gone.
    Ended,
}

impl Pin {
    /// Begins the view's read transaction, unless it has one or needs none any more. A failure is the view's alone: it
    /// answers it when it comes to need the file.
    pub fn begin(&self, engine: &Engine) {
        let mut place = self.0.lock();
        if matches!(*place, Place::Later) {
            *place = engine.readers.begin().map_or_else(Place::Failed, Place::Open);
        }
    }
}

/// The store at one moment.
pub(super) struct View<'a> {
    engine: &'a Engine,
    memtable: Memtable,
    epoch: u64,
    pin: Arc<Pin>,
    /// Its number among the unpinned.
    registered: Option<u64>,
}

impl<'a> View<'a> {
    pub fn new(engine: &'a Engine) -> Result<Self, KvError> {
        loop {
            let mut state = engine.state.lock();
            let epoch = state.epoch;
            if state.writing != Writing::Through {
                let pin = Arc::new(Pin(Mutex::new(Place::Later)));
                let number = state.next_pin;
                state.next_pin += 1;
                state.unpinned.insert(number, pin.clone());
                return Ok(Self { engine, memtable: state.memtable.clone(), epoch, pin, registered: Some(number) });
            }
            drop(state);
            let reader = engine.readers.begin().map_err(|fault| engine.read_error(&fault))?;
            let state = engine.state.lock();
            if state.epoch == epoch {
                let pin = Arc::new(Pin(Mutex::new(Place::Open(reader))));
                return Ok(Self { engine, memtable: state.memtable.clone(), epoch, pin, registered: None });
            }
            drop(state);
            engine.readers.end(reader);
        }
    }

    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The value of `key`.
    pub fn value(&self, key: &[u8]) -> Result<Option<Shared>, KvError> {
        if let Some(value) = self.in_memory(key) {
            return Ok(value);
        }
        let value = self.in_file(|connection| rows::read(connection, key))?;
        self.remember([(key, &value)]);
        Ok(value)
    }

    /// The values of several keys: those that memtable and cache lack are read in one go.
    fn values<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) -> Result<Vec<Option<Shared>>, KvError> {
        let (mut values, mut missing) = (Vec::new(), Vec::new());
        for (index, key) in keys.enumerate() {
            let value = self.in_memory(key);
            if value.is_none() {
                missing.push((index, key));
            }
            values.push(value.flatten());
        }
        if missing.is_empty() {
            return Ok(values);
        }
        self.in_file(|connection| {
            missing.iter().try_for_each(|(index, key)| rows::read(connection, key).map(|value| values[*index] = value))
        })?;
        self.remember(missing.iter().map(|(index, key)| (*key, &values[*index])));
        Ok(values)
    }

    /// The value where the memtable or the cache has it.
    fn in_memory(&self, key: &[u8]) -> Option<Option<Shared>> {
        if let Some(change) = self.memtable.get(key) {
            return Some(change.clone());
        }
        if self.engine.is_cacheable(key) { self.engine.cache.get(key, self.epoch) } else { None }
    }

    /// Puts values of the file into the cache.
    fn remember<'k>(&self, read: impl IntoIterator<Item = (&'k [u8], &'k Option<Shared>)>) {
        let mut cacheable = read.into_iter().filter(|(key, _)| self.engine.is_cacheable(key)).peekable();
        if cacheable.peek().is_none() {
            return;
        }
        let state = self.engine.state.lock();
        if state.fill_epoch == self.epoch || has_planted(Planted::CacheFilledLate) {
            cacheable.for_each(|(key, value)| self.engine.cache.put(key.into(), self.epoch, value.clone()));
        }
    }

    /// Reads in the view's transaction, which begins here if it has not.
    fn in_file<T>(&self, read: impl FnOnce(&Connection) -> Result<T, Fault>) -> Result<T, KvError> {
        self.pin.begin(self.engine);
        match &*self.pin.0.lock() {
            Place::Open(reader) => {
                let found = read(&reader.connection).and_then(|found| reader.check().map(|()| found));
                found.map_err(|fault| self.engine.read_error(&fault))
            }
            Place::Failed(fault) => Err(self.engine.read_error(fault)),
            Place::Later | Place::Ended => unreachable!("the line above left it open or failed"),
        }
    }
}

impl Snapshot for View<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, KvError> {
        Ok(self.value(key)?.map(|value| value.to_vec()))
    }

    fn get_many(&self, keys: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>, KvError> {
        let values = self.values(keys.iter().map(Vec::as_slice))?;
        Ok(values.into_iter().map(|value| value.map(|value| value.to_vec())).collect())
    }

    fn scan(&self, start: &[u8], end: &[u8], limit: usize) -> Result<Vec<Pair>, KvError> {
        if start >= end || limit == 0 {
            return Ok(Vec::new());
        }
        self.in_file(|connection| {
            let mut statement = connection.prepare_cached(rows::SCAN)?;
            let rows = Scan::new(connection, &mut statement, start, end)?;
            let mut failure = None;
            let in_file = rows.map_while(|row| row.map_err(|fault| failure = Some(fault)).ok());
            let in_file = in_file.map(|(key, value)| (key, Some(value)));
            let pending = self.memtable.range(start, end);
            let pending = pending.map(|(key, value)| (key.to_vec(), value.map(<[u8]>::to_vec)));
            let pairs = Overlay { upper: pending.peekable(), lower: in_file.peekable() };
            let found = pairs.filter_map(|(key, value)| Some((key, value?))).take(limit).collect();
            failure.map_or(Ok(found), Err)
        })
    }
}

impl Drop for View<'_> {
    fn drop(&mut self) {
        if let Some(number) = self.registered {
            self.engine.state.lock().unpinned.remove(&number);
        }
        if let Place::Open(reader) = std::mem::replace(&mut *self.pin.0.lock(), Place::Ended) {
            self.engine.readers.end(reader);
        }
    }
}
