//! Which keys each transaction changed: what a replica of the store has to be told. See `history.rs`.
//!
//! The table `changes` has a row for each transaction that changed something: its number, as the table `state` counts it, and its keys. Row
//! 0 has the number of the last transaction whose keys are forgotten. Values are read when they are asked for.

use super::rows::Fault;
use crc_fast::{CrcAlgorithm, Digest};
use rusqlite::Connection;
use std::collections::BTreeSet;

/// Transactions that are listed at most, and how often that is looked at.
const LISTED_MAX: u64 = 300_000;
const CUT_EVERY: u64 = 4096;

/// Checksum of a row.
const SUM_BYTES: usize = 8;

/// Makes the table, of an empty store.
pub(super) fn create(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch("CREATE TABLE changes (number INTEGER PRIMARY KEY, keys BLOB NOT NULL) STRICT")?;
    restart(connection, 0)
}

/// Of a copy, whose transactions up to this number were another store's.
pub(super) fn restart(connection: &Connection, commits: u64) -> rusqlite::Result<()> {
    connection.execute_batch("DELETE FROM changes")?;
    put(connection, 0, &commits.to_le_bytes())
}

/// Transaction `number`, which this is done in, changes these keys.
pub(super) fn note<'k>(
    connection: &Connection,
    number: u64,
    keys: impl IntoIterator<Item = &'k [u8]>,
) -> rusqlite::Result<()> {
    let bytes = listed(keys);
    if bytes.is_empty() {
        return Ok(());
    }
    put(connection, number, &bytes)?;
    // Where nobody keeps a replica, or nodes take none for long, the list must not grow for ever.
    if number.is_multiple_of(CUT_EVERY) { forget(connection, number.saturating_sub(LISTED_MAX)) } else { Ok(()) }
}

/// Up to this number nobody asks any more. What is forgotten stays so.
pub(super) fn forget(connection: &Connection, upto: u64) -> rusqlite::Result<()> {
    let gone = connection
        .prepare_cached("DELETE FROM changes WHERE number > 0 AND number <= ?1")?
        .execute([upto.cast_signed()])?;
    if gone > 0 { put(connection, 0, &upto.to_le_bytes()) } else { Ok(()) }
}

fn put(connection: &Connection, number: u64, bytes: &[u8]) -> rusqlite::Result<()> {
    connection
        .prepare_cached("INSERT OR REPLACE INTO changes (number, keys) VALUES (?1, ?2)")?
        .execute((number.cast_signed(), sealed(number, bytes)))?;
    Ok(())
}

/// Keys, each after its length.
pub(super) fn listed<'k>(keys: impl IntoIterator<Item = &'k [u8]>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for key in keys {
        bytes.extend_from_slice(&(key.len() as u16).to_le_bytes());
        bytes.extend_from_slice(key);
    }
    bytes
}

/// What a row has: its checksum, then these bytes.
pub(super) fn sealed(number: u64, bytes: &[u8]) -> Vec<u8> {
    [&sum(number, bytes).to_le_bytes(), bytes].concat()
}

fn sum(number: u64, bytes: &[u8]) -> u64 {
    let mut digest = Digest::new(CrcAlgorithm::Crc64Nvme);
    digest.update(&number.to_le_bytes());
    digest.update(bytes);
    digest.finalize()
}

fn open(number: u64, stored: &[u8]) -> Result<&[u8], Fault> {
    let damaged = || Fault::Damaged(format!("the list of changes of transaction {number} is damaged"));
    let (found, bytes) = stored.split_first_chunk::<SUM_BYTES>().ok_or_else(damaged)?;
    if u64::from_le_bytes(*found) == sum(number, bytes) { Ok(bytes) } else { Err(damaged()) }
}

pub(super) fn forgotten(connection: &Connection) -> Result<u64, Fault> {
    let mut statement = connection.prepare_cached("SELECT keys FROM changes WHERE number = 0")?;
    let stored: Vec<u8> = statement.query_row([], |row| row.get(0))?;
    let bytes = open(0, &stored)?.try_into();
    bytes.map(u64::from_le_bytes).map_err(|_| Fault::Damaged("the start of its list of changes is damaged".into()))
}

/// The keys that transactions after `after` changed, up to `keys_max`; `None`: there are more.
pub(super) fn keys_after(
    connection: &Connection,
    after: u64,
    keys_max: usize,
) -> Result<Option<BTreeSet<Vec<u8>>>, Fault> {
    let mut keys = BTreeSet::new();
    let mut statement = connection
        .prepare_cached("SELECT number, keys FROM changes WHERE number > ?1 AND number > 0 ORDER BY number")?;
    let mut rows = statement.query([after.cast_signed()])?;
    while let Some(row) = rows.next()? {
        let number = row.get::<_, i64>(0)?.cast_unsigned();
        let stored: Vec<u8> = row.get(1)?;
        add_keys(number, &stored, &mut keys)?;
        if keys.len() > keys_max {
            return Ok(None);
        }
    }
    Ok(Some(keys))
}

/// Adds the keys that the row of transaction `number` lists.
pub(super) fn add_keys(number: u64, stored: &[u8], keys: &mut BTreeSet<Vec<u8>>) -> Result<(), Fault> {
    let mut rest = open(number, stored)?;
    while !rest.is_empty() {
        let cut = || Fault::Damaged(format!("the list of changes of transaction {number} is cut"));
        let (length, after_length) = rest.split_first_chunk().ok_or_else(cut)?;
        let (key, left) = after_length.split_at_checked(usize::from(u16::from_le_bytes(*length))).ok_or_else(cut)?;
        keys.insert(key.to_vec());
        rest = left;
    }
    Ok(())
}

#[cfg(test)]
#[path = "changes_tests.rs"]
mod tests;
