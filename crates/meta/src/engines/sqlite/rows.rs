//! Rows of the table: each is sealed, and linked to the one before it, so that nothing read or found absent is believed unchecked.
//!
//! The stored value is `value | link | seal`. The seal is a CRC-64 of key, value and link, so it finds bytes that changed or
//! lie under another key. The link is a CRC-64 of the key before this one, so it finds rows that a search no longer
//! reaches, came twice, or are gone: a key is absent only if the row after it names the row before it. A last row, above all
//! keys, closes the table.

use crate::engines::memtable::Shared;
use crate::keys::printable;
use crc_fast::{CrcAlgorithm, Digest};
use rusqlite::{Connection, OptionalExtension, Row, Rows, Statement};

/// The key of the last row: longer and greater than every key of ours.
const LAST: &[u8] = &[u8::MAX; 64];
/// Link and seal.
const TRAILER_BYTES: usize = 16;
/// The link of the first row.
const NO_LINK: u64 = 0;
/// [`verify`] names so many faults at most.
const FAULTS_MAX: usize = 100;
/// Rows between two notes of progress: some milliseconds.
const PROGRESS_EVERY: u64 = 1024;

/// A statement that did not give what was asked for.
#[derive(Debug)]
pub(super) enum Fault {
    /// SQLite's own.
    Sqlite(rusqlite::Error),
    /// The rows are not what was written; a clause that names them.
    Damaged(String),
    /// It cannot be read just now, or not by this user; a clause with the mend.
    Refused(String),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

/// Is it a key that a store can have?
pub(super) fn is_allowed(key: &[u8]) -> bool {
    key < LAST
}

/// Makes the empty table's only row.
pub(super) fn close_table(connection: &Connection) -> rusqlite::Result<()> {
    put(connection, LAST, &[], NO_LINK)
}

/// The value of `key`, or its proven absence.
pub(super) fn read(connection: &Connection, key: &[u8]) -> Result<Option<Shared>, Fault> {
    if let Some(found) = find(connection, key)? {
        return Ok(Some(found.value.into()));
    }
    let next = successor(connection, key)?;
    if next.link == link_before(connection, key)? { Ok(None) } else { Err(break_before(&next.key)) }
}

/// Pairs from `start` on, ascending, and below `end`. Drop it after the first fault.
pub(super) struct Scan<'s> {
    rows: Rows<'s>,
    end: &'s [u8],
    /// What the next row must have.
    link: u64,
    is_over: bool,
}

/// A key and its value.
type Pair = (Vec<u8>, Vec<u8>);

/// The statement of a [`Scan`].
pub(super) const SCAN: &str = "SELECT k, v FROM kv WHERE k >= ?1 ORDER BY k";

impl<'s> Scan<'s> {
    pub fn new(
        connection: &Connection,
        statement: &'s mut Statement<'_>,
        start: &[u8],
        end: &'s [u8],
    ) -> Result<Self, Fault> {
        let link = link_before(connection, start)?;
        Ok(Self { rows: statement.query([start])?, end, link, is_over: false })
    }

    fn step(&mut self) -> Result<Option<Pair>, Fault> {
        let Some(row) = self.rows.next()? else { return Err(no_end()) };
        let found = Stored::of_row(row)?;
        if found.link != self.link {
            return Err(break_before(&found.key));
        }
        self.link = link_to(&found.key);
        // The first row beyond the end is read as well: it shows that none is missing before it.
        if found.key.as_slice() >= self.end || found.key == LAST {
            return Ok(None);
        }
        Ok(Some((found.key, found.value)))
    }
}

impl Iterator for Scan<'_> {
    type Item = Result<Pair, Fault>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let step = self.step().transpose();
        self.is_over = !matches!(step, Some(Ok(_)));
        step
    }
}

/// Changes rows within a transaction. Fastest with ascending keys: what is known of the row after the last change is kept, and
/// written when a change is elsewhere, or by [`Editor::finish`].
///
/// A damaged row beside a change stays damaged for who reads it, and that rows are missing is noticed as before. What is changed was
/// promised before anybody looked at its neighbours.
pub(super) struct Editor<'c> {
    connection: &'c Connection,
    gap: Option<Gap>,
}

/// A row as an editor finds it.
struct Carried {
    row: Stored,
    /// Its seal is wrong; its link is that of the key before it.
    is_damaged: bool,
}

impl Carried {
    fn of(connection: &Connection, key: Vec<u8>, mut stored: Vec<u8>) -> Result<Self, Fault> {
        if let Some((length, link)) = opened(&key, &stored) {
            stored.truncate(length);
            return Ok(Self { row: Stored { key, value: stored, link }, is_damaged: false });
        }
        let link = link_before(connection, &key)?;
        stored.truncate(stored.len().saturating_sub(TRAILER_BYTES));
        Ok(Self { row: Stored { key, value: stored, link }, is_damaged: true })
    }

    fn find(connection: &Connection, key: &[u8]) -> Result<Option<Self>, Fault> {
        find_bytes(connection, key)?.map(|stored| Self::of(connection, key.to_vec(), stored)).transpose()
    }

    fn successor(connection: &Connection, key: &[u8]) -> Result<Self, Fault> {
        let (key, stored) = successor_bytes(connection, key)?;
        Self::of(connection, key, stored)
    }

    fn with_link(self, link: u64) -> Self {
        Self { row: Stored { link, ..self.row }, ..self }
    }

    fn put(&self, connection: &Connection) -> rusqlite::Result<()> {
        let Stored { key, value, link } = &self.row;
        match self.is_damaged {
            false => put(connection, key, value, *link),
            true => put_stored(
                connection,
                key,
                &[value, &link.to_le_bytes()[..], &(!seal(key, value, *link)).to_le_bytes()].concat(),
            ),
        }
    }
}

/// Between `after` and the row `next` there is nothing.
struct Gap {
    after: Vec<u8>,
    next: Carried,
    /// Its link is not in the file yet.
    is_changed: bool,
}

impl<'c> Editor<'c> {
    pub fn new(connection: &'c Connection) -> Self {
        Self { connection, gap: None }
    }

    /// Sets or removes (`None`) the value of `key`.
    pub fn set(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), Fault> {
        let within = |gap: &Gap| gap.after.as_slice() < key && key <= gap.next.row.key.as_slice();
        let (found, gap) = match self.gap.take() {
            Some(gap) if within(&gap) && key == gap.next.row.key.as_slice() => (Some(gap.next), None),
            Some(gap) if within(&gap) => (None, Some(gap)),
            elsewhere => {
                self.gap = elsewhere;
                self.write_gap()?;
                (Carried::find(self.connection, key)?, None)
            }
        };
        match (found, value) {
            (Some(found), Some(value)) => put(self.connection, key, value, found.row.link)?,
            (Some(found), None) => {
                let next = Carried::successor(self.connection, key)?;
                self.connection.prepare_cached("DELETE FROM kv WHERE k = ?1")?.execute([key])?;
                // If rows between them are missing, it goes on saying so.
                let link = if next.row.link == link_to(key) { found.row.link } else { next.row.link };
                self.gap = Some(Gap { after: key.to_vec(), next: next.with_link(link), is_changed: true });
            }
            (None, Some(value)) => {
                let next = match gap {
                    Some(gap) => gap.next,
                    None => Carried::successor(self.connection, key)?,
                };
                put(self.connection, key, value, next.row.link)?;
                self.gap = Some(Gap { after: key.to_vec(), next: next.with_link(link_to(key)), is_changed: true });
            }
            // It stays absent.
            (None, None) => self.gap = gap,
        }
        Ok(())
    }

    /// Makes all changes.
    pub fn set_all<'v>(mut self, changes: impl IntoIterator<Item = (&'v [u8], Option<&'v [u8]>)>) -> Result<(), Fault> {
        for (key, value) in changes {
            self.set(key, value)?;
        }
        self.finish()
    }

    /// Everything is in the file.
    pub fn finish(mut self) -> Result<(), Fault> {
        self.write_gap()
    }

    fn write_gap(&mut self) -> Result<(), Fault> {
        match self.gap.take() {
            Some(Gap { next, is_changed: true, .. }) => Ok(next.put(self.connection)?),
            _ => Ok(()),
        }
    }
}

/// What is wrong with the table, structure and rows; empty: nothing. In the connection's transaction. `progress` gets the number of rows
/// read.
pub(super) fn verify(connection: &Connection, progress: &mut dyn FnMut(u64)) -> Result<Vec<String>, Fault> {
    progress(0);
    let mut faults: Vec<String> = match structure(connection) {
        Ok(lines) => lines.into_iter().filter(|line| line != "ok").collect(),
        Err(error) if is_damage(&error) => vec![broken(&error)],
        Err(error) => return Err(error.into()),
    };
    match chain(connection, &mut faults, progress) {
        Ok(()) => {}
        Err(Fault::Damaged(fault)) => faults.push(fault),
        Err(Fault::Sqlite(error)) if is_damage(&error) => faults.push(broken(&error)),
        Err(fault) => return Err(fault),
    }
    Ok(faults)
}

/// Did SQLite find the file damaged?
pub(super) fn is_damage(error: &rusqlite::Error) -> bool {
    // A length that was never written is too big.
    use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase, TooBig};
    let wrong_type =
        matches!(error, rusqlite::Error::InvalidColumnType(..) | rusqlite::Error::FromSqlConversionFailure(..));
    wrong_type || matches!(error.sqlite_error_code(), Some(DatabaseCorrupt | NotADatabase | TooBig))
}

/// A clause that says so.
pub(super) fn broken(error: &rusqlite::Error) -> String {
    format!("its tables are broken: {error}")
}

fn structure(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare(&format!("PRAGMA integrity_check({FAULTS_MAX})"))?;
    statement.query_map([], |row| row.get(0))?.collect()
}

/// Every row; goes on after one that is damaged.
fn chain(connection: &Connection, faults: &mut Vec<String>, progress: &mut dyn FnMut(u64)) -> Result<(), Fault> {
    let mut statement = connection.prepare(SCAN)?;
    let mut rows = statement.query([b""])?;
    // Unknown after a damaged row.
    let mut link = Some(NO_LINK);
    let mut count = 0_u64;
    while faults.len() < FAULTS_MAX {
        let Some(row) = rows.next()? else { return Err(no_end()) };
        count += 1;
        if count.is_multiple_of(PROGRESS_EVERY) {
            progress(count);
        }
        match Stored::of_row(row) {
            Ok(found) => {
                if link.is_some_and(|link| link != found.link) {
                    faults.push(break_clause(&found.key));
                }
                link = Some(link_to(&found.key));
                if found.key == LAST {
                    progress(count - 1);
                    return Ok(());
                }
            }
            Err(Fault::Damaged(fault)) => {
                faults.push(fault);
                link = None;
            }
            Err(fault) => return Err(fault),
        }
    }
    Ok(())
}

/// A row, its seal checked and taken off.
pub(super) struct Stored {
    pub(super) key: Vec<u8>,
    pub(super) value: Vec<u8>,
    pub(super) link: u64,
}

impl Stored {
    fn of_row(row: &Row<'_>) -> Result<Self, Fault> {
        Self::open(row.get(0)?, row.get(1)?)
    }

    pub(super) fn open(key: Vec<u8>, mut stored: Vec<u8>) -> Result<Self, Fault> {
        let Some((length, link)) = opened(&key, &stored) else {
            return Err(Fault::Damaged(format!("the checksum of record {} is wrong", printable(&key))));
        };
        stored.truncate(length);
        Ok(Self { key, value: stored, link })
    }
}

/// The length of a row's value, and its link, if the seal is right.
fn opened(key: &[u8], stored: &[u8]) -> Option<(usize, u64)> {
    let number = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes).ok();
    let length = stored.len().checked_sub(TRAILER_BYTES)?;
    let (value, trailer) = stored.split_at(length);
    let link = number(&trailer[..8])?;
    (number(&trailer[8..])? == seal(key, value, link)).then_some((length, link))
}

fn find(connection: &Connection, key: &[u8]) -> Result<Option<Stored>, Fault> {
    find_bytes(connection, key)?.map(|stored| Stored::open(key.to_vec(), stored)).transpose()
}

fn find_bytes(connection: &Connection, key: &[u8]) -> Result<Option<Vec<u8>>, Fault> {
    let mut statement = connection.prepare_cached("SELECT v FROM kv WHERE k = ?1")?;
    Ok(statement.query_row([key], |row| row.get(0)).optional()?)
}

fn successor(connection: &Connection, key: &[u8]) -> Result<Stored, Fault> {
    let (key, stored) = successor_bytes(connection, key)?;
    Stored::open(key, stored)
}

fn successor_bytes(connection: &Connection, key: &[u8]) -> Result<(Vec<u8>, Vec<u8>), Fault> {
    let mut statement = connection.prepare_cached("SELECT k, v FROM kv WHERE k > ?1 ORDER BY k LIMIT 1")?;
    let mut rows = statement.query([key])?;
    let Some(row) = rows.next()? else { return Err(no_end()) };
    Ok((row.get(0)?, row.get(1)?))
}

/// The link that the first row at or after `key` must have.
fn link_before(connection: &Connection, key: &[u8]) -> Result<u64, Fault> {
    let mut statement = connection.prepare_cached("SELECT k FROM kv WHERE k < ?1 ORDER BY k DESC LIMIT 1")?;
    let mut rows = statement.query([key])?;
    Ok(match rows.next()? {
        Some(row) => link_to(row.get_ref(0)?.as_blob().map_err(rusqlite::Error::from)?),
        None => NO_LINK,
    })
}

fn put(connection: &Connection, key: &[u8], value: &[u8], link: u64) -> rusqlite::Result<()> {
    put_stored(connection, key, &sealed(key, value, link))
}

fn put_stored(connection: &Connection, key: &[u8], stored: &[u8]) -> rusqlite::Result<()> {
    connection
        .prepare_cached("INSERT INTO kv (k, v) VALUES (?1, ?2) ON CONFLICT (k) DO UPDATE SET v = excluded.v")?
        .execute([key, stored])?;
    Ok(())
}

/// What is stored under `key`.
pub(super) fn sealed(key: &[u8], value: &[u8], link: u64) -> Vec<u8> {
    [value, &link.to_le_bytes(), &seal(key, value, link).to_le_bytes()].concat()
}

fn link_to(key: &[u8]) -> u64 {
    checksum(&[b"link", key])
}

pub(super) fn seal(key: &[u8], value: &[u8], link: u64) -> u64 {
    // With the key's length, so that no byte can change sides.
    checksum(&[&(key.len() as u64).to_le_bytes(), key, value, &link.to_le_bytes()])
}

fn checksum(parts: &[&[u8]]) -> u64 {
    let mut digest = Digest::new(CrcAlgorithm::Crc64Nvme);
    parts.iter().for_each(|part| digest.update(part));
    digest.finalize()
}

fn break_clause(key: &[u8]) -> String {
    format!("records before {} are missing, or came twice", if key == LAST { "the end".into() } else { printable(key) })
}

fn break_before(key: &[u8]) -> Fault {
    Fault::Damaged(break_clause(key))
}

fn no_end() -> Fault {
    Fault::Damaged("records at its end are missing".into())
}

#[cfg(test)]
#[path = "rows_tests.rs"]
mod tests;
