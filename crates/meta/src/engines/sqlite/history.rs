//! What the store says of its past. It is read from the file, as every process can.

use super::home::State;
use super::rows::{self, Fault, Scan};
use super::{Engine, SqliteKv, changes};
use crate::kv::{Changes, History, KvError, Page};
use rusqlite::Connection;

impl History for SqliteKv {
    fn lineage(&self) -> Result<u64, KvError> {
        self.engine.look(|connection| Ok(State::read(connection)?.log))
    }

    fn last(&self) -> Result<u64, KvError> {
        self.engine.look(|connection| Ok(State::read(connection)?.commits))
    }

    fn entered_at(&self) -> Option<u64> {
        self.engine.entered_at
    }

    fn changes_after(&self, after: u64, keys_max: usize) -> Result<Option<Changes>, KvError> {
        self.engine.look(|connection| {
            if after < changes::forgotten(connection)? {
                return Ok(None);
            }
            let upto = State::read(connection)?.commits;
            let Some(keys) = changes::keys_after(connection, after, keys_max)? else { return Ok(None) };
            let slot = |key: Vec<u8>| {
                let value = rows::read(connection, &key)?;
                Ok((key, value.map(|value| value.to_vec())))
            };
            let slots = keys.into_iter().map(slot).collect::<Result<_, Fault>>()?;
            Ok(Some(Changes { upto, slots }))
        })
    }

    fn page(&self, start: &[u8], bytes_max: usize) -> Result<Page, KvError> {
        self.engine.look(|connection| {
            let upto = State::read(connection)?.commits;
            let end = [u8::MAX];
            let mut statement = connection.prepare_cached(rows::SCAN)?;
            let mut page = Page { upto, pairs: Vec::new(), next: None };
            let mut bytes = 0;
            for pair in Scan::new(connection, &mut statement, start, &end)? {
                let (key, value) = pair?;
                if bytes >= bytes_max {
                    page.next = Some(key);
                    break;
                }
                bytes += key.len() + value.len();
                page.pairs.push((key, value));
            }
            Ok(page)
        })
    }

    fn settle(&self) -> Result<(), KvError> {
        self.engine.file()
    }

    fn forget(&self, upto: u64) -> Result<(), KvError> {
        self.engine.forget_changes(upto)
    }
}

impl Engine {
    fn look<T>(&self, look: impl FnOnce(&Connection) -> Result<T, Fault>) -> Result<T, KvError> {
        self.readers.look(look).map_err(|fault| self.read_error(&fault))
    }
}

#[cfg(test)]
#[path = "history_tests.rs"]
mod tests;
