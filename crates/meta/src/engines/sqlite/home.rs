//! Is the store the one that was left here? Whoever writes it asks first, and leaves what the next needs to ask.
//!
//! The table `state` has one row: the number of the last commit, that of the last record of the intent log that the file has, and
//! whether the store was closed cleanly, that is, whether all of it is in the one file, whose logs may go. A process that finds it clean and
//! writes takes that back, and carries it from the log into the file, before anything else is acknowledged. Who comes to own it
//! files what the intent log of the last owner has more. `witness.rs` is the other half, and decides.

use super::checkpoint::checkpoint;
use super::intents::{Found, Record};
use super::rows::{Editor, Fault};
use super::witness::{Identity, Reach, Testimony, Verdict, judge};
use super::{Failure, changes, file, intents};
use crate::owner::{companion, open_companion};
use crate::types::Access;
use rusqlite::Connection;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weft_env::planted::{Planted, has_planted};
use weft_env::steps;
use weft_env::sync::Mutex;

/// The row of the table `state`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State {
    /// Transactions so far.
    pub commits: u64,
    /// All of them are in the file itself.
    pub is_clean: bool,
    /// Which intent log is this store's.
    pub log: u64,
    /// The last record of it whose changes the file has.
    pub intents: u64,
}

impl State {
    /// Makes the table, of an empty store.
    pub fn create(connection: &Connection) -> rusqlite::Result<()> {
        connection.execute_batch(
            "CREATE TABLE state (id INTEGER PRIMARY KEY, commits INTEGER NOT NULL, clean INTEGER NOT NULL, log INTEGER NOT NULL,
             intents INTEGER NOT NULL, sum INTEGER NOT NULL) STRICT;",
        )?;
        Self { commits: 0, is_clean: true, log: draw_log(connection)?, intents: 0 }.write(connection)
    }

    /// Of a copy, which is a store of its own, whole by itself.
    pub fn detach(self, connection: &Connection) -> rusqlite::Result<()> {
        Self { is_clean: true, log: draw_log(connection)?, intents: 0, ..self }.write(connection)
    }

    pub fn read(connection: &Connection) -> Result<Self, Fault> {
        let mut statement =
            connection.prepare_cached("SELECT commits, clean, log, intents, sum FROM state WHERE id = 1")?;
        let mut rows = statement.query([])?;
        let damaged = || Fault::Damaged("the number of its last commit is missing, or its checksum is wrong".into());
        let row = rows.next()?.ok_or_else(damaged)?;
        let number = |column| Ok::<_, rusqlite::Error>(row.get::<_, i64>(column)?.cast_unsigned());
        let state = Self { commits: number(0)?, is_clean: row.get(1)?, log: number(2)?, intents: number(3)? };
        if number(4)? != state.sum() {
            return Err(damaged());
        }
        Ok(state)
    }

    pub fn write(self, connection: &Connection) -> rusqlite::Result<()> {
        let [commits, log, intents, sum] = [self.commits, self.log, self.intents, self.sum()].map(u64::cast_signed);
        connection
            .prepare_cached(
                "INSERT OR REPLACE INTO state (id, commits, clean, log, intents, sum) VALUES (1, ?1, ?2, ?3, ?4, ?5)",
            )?
            .execute((commits, self.is_clean, log, intents, sum))?;
        Ok(())
    }

    pub(super) fn sum(self) -> u64 {
        let numbers = [self.commits, self.log, self.intents].map(u64::to_le_bytes);
        let bytes = [&numbers.concat()[..], &[u8::from(self.is_clean)]].concat();
        crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, &bytes)
    }
}

fn draw_log(connection: &Connection) -> rusqlite::Result<u64> {
    connection.query_row("SELECT random()", [], |row| Ok(row.get::<_, i64>(0)?.cast_unsigned()))
}

/// The store's place, as one that writes it knows it.
pub(super) struct Home {
    path: PathBuf,
    /// From the first write on.
    witness: Option<Arc<Witness>>,
    /// The last transaction before an owner's first one.
    entered_at: Option<u64>,
}

/// Keeps the witness up to date with what is durable.
pub(super) struct Witness {
    path: PathBuf,
    file: File,
    known: Mutex<Testimony>,
}

impl Witness {
    /// The commit with this number is durable.
    pub fn note_commits(&self, commits: u64) {
        self.note(|known| known.commits = known.commits.max(commits));
    }

    /// The record of the intent log with this number is durable.
    pub fn note_intents(&self, intents: u64) {
        self.note(|known| known.intents = known.intents.max(intents));
    }

    /// A commit that is durable.
    pub fn commits(&self) -> u64 {
        self.known.lock().commits
    }

    fn note(&self, note: impl FnOnce(&mut Testimony)) {
        let mut known = self.known.lock();
        note(&mut known);
        // An older one is as true.
        if let Err(error) = known.write(&self.file) {
            tracing::debug!(store = %self.path.display(), %error, "the witness keeps its number");
        }
    }
}

impl Home {
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_path_buf(), witness: None, entered_at: None }
    }

    /// Of an owner: refuses at once what is not at home, and files what the intent log has more than the file. One that stays takes
    /// back that the store is closed.
    pub fn enter(path: &Path, connection: &Connection, access: Access) -> Result<Self, Failure> {
        let mut home = Self::new(path);
        // Others commit, too: what one of them makes durable between two looks must not seem to be lost.
        connection.execute_batch("BEGIN IMMEDIATE")?;
        let entered = home.enter_alone(connection, access);
        end(connection, matches!(entered, Ok(Some(_))))?;
        if let Some(before) = entered? {
            checkpoint(connection)?;
            home.note(before);
        }
        Ok(home)
    }

    /// In a transaction; what the store was before, if that changed.
    fn enter_alone(&mut self, connection: &Connection, access: Access) -> Result<Option<State>, Failure> {
        let found = State::read(connection)?;
        let (witness, mut unfiled) = enter(&self.path, found)?;
        if has_planted(Planted::RecordsNotFiled) {
            unfiled.clear();
        }
        (self.witness, self.entered_at) = (Some(Arc::new(witness)), Some(found.commits));
        let reopens = found.is_clean && access == Access::Owner;
        if unfiled.is_empty() && !reopens {
            return Ok(None);
        }
        let keys: BTreeSet<_> = unfiled.iter().flat_map(|record| &record.changes).map(|(key, _)| &**key).collect();
        changes::note(connection, found.commits + 1, keys)?;
        let intents = file_records(connection, unfiled)?;
        self.count(connection, found, intents)?;
        Ok(Some(found))
    }

    /// Says that all is in the file, which it then is unless somebody reads just now; everything has been written, but for what an owner
    /// may have left in its log that died. Whether it `is_last` is asked in the transaction.
    pub fn leave(&self, connection: &Connection, is_last: impl FnOnce() -> bool) -> Result<(), Failure> {
        connection.execute_batch("BEGIN IMMEDIATE")?;
        let left = if is_last() { self.leave_alone(connection) } else { Ok(None) };
        end(connection, matches!(left, Ok(Some(_))))?;
        if let Some(before) = left? {
            checkpoint(connection)?;
            self.note(before);
        }
        Ok(())
    }

    /// In a transaction; what the store was before, if that changed.
    fn leave_alone(&self, connection: &Connection) -> Result<Option<State>, Failure> {
        let before = State::read(connection)?;
        let log = Found::read(&self.path).map_err(|error| Failure::Busy(error.to_string()))?;
        if log.unfiled(before.log, before.intents, before.commits) != Ok(Vec::new()) {
            return Ok(None);
        }
        State { commits: before.commits + 1, is_clean: true, ..before }.write(connection)?;
        Ok(Some(before))
    }

    /// The last transaction before an owner's first one; `None`: this process is none.
    pub fn entered_at(&self) -> Option<u64> {
        self.entered_at
    }

    /// Has this process written?
    pub fn is_entered(&self) -> bool {
        self.witness.is_some()
    }

    /// Where to note what is durable.
    pub fn witness(&self) -> Option<&Arc<Witness>> {
        self.witness.as_ref()
    }

    /// What the store is before a transaction; in it. Refuses a store that is not at home.
    pub fn found(&mut self, connection: &Connection) -> Result<State, Failure> {
        if self.witness.is_none() && !file::may_write(&self.path) {
            return Err(Failure::Busy("it cannot be written by this user; run this as its owner".into()));
        }
        let found = State::read(connection)?;
        if self.witness.is_none() {
            // What the intent log has more than the file, its owner has pending.
            let (witness, _) = enter(&self.path, found)?;
            self.witness = Some(Arc::new(witness));
        }
        Ok(found)
    }

    /// Counts a transaction that is about to commit; in it. The file then has the records of the intent log up to `intents`.
    pub fn count(&self, connection: &Connection, found: State, intents: Option<u64>) -> Result<(), Failure> {
        let intents = intents.unwrap_or(found.intents);
        Ok(State { commits: found.commits + 1, is_clean: false, intents, ..found }.write(connection)?)
    }

    /// The transaction after `before` is durable.
    pub fn note(&self, before: State) {
        if let Some(witness) = &self.witness {
            witness.note_commits(before.commits + 1);
        }
    }
}

/// Ends a transaction: keeps what it has written, or there is nothing to keep.
fn end(connection: &Connection, is_kept: bool) -> rusqlite::Result<()> {
    connection.execute_batch(if is_kept { "COMMIT" } else { "ROLLBACK" })?;
    if is_kept { file::note_committed(connection) } else { Ok(()) }
}

/// May the store be written? Then its witness is there, durably, before anything is. Answers the records of the intent log that the
/// file lacks as well. In a transaction.
fn enter(path: &Path, state: State) -> Result<(Witness, Vec<Record>), Failure> {
    let io = |error: io::Error| {
        let companion = companion(path);
        Failure::Broken(format!("{} cannot be used: {error}; check its permissions", companion.display()))
    };
    let identity = Identity::of(path).map_err(io)?;
    let file = open_companion(path).map_err(io)?;
    let testimony = Testimony::read(&file).map_err(io)?;
    // Read after the witness: beside an owner that logs it has at least what that one said.
    let unfiled = Found::read(path).map_err(io)?.unfiled(state.log, state.intents, state.commits);
    let verdict = judge_log(state, &unfiled, identity, testimony);
    if let Some(why) = objection(path, state, verdict) {
        return Err(Failure::Displaced(why));
    }
    let unfiled = unfiled.unwrap_or_default();
    let intents = unfiled.last().map_or(state.intents, |last| last.number);
    let known = Testimony { identity, commits: state.commits, intents };
    // One who was killed may have left it there, and what it is to say, before either was durable.
    if state.is_clean {
        file::sync_log(path).map_err(io)?;
        let renewed = known.write(&file).and_then(|()| file.sync_all());
        let renewed = renewed.map(|()| steps::synced(&companion(path)));
        renewed.and_then(|()| file::sync_folder(path)).map_err(io)?;
    }
    Ok((Witness { path: path.to_path_buf(), file, known: Mutex::new(known) }, unfiled))
}

/// What a file with this row is, beside a log with these records more.
fn judge_log(
    state: State,
    unfiled: &Result<Vec<Record>, u64>,
    identity: Identity,
    testimony: Option<Testimony>,
) -> Verdict {
    let last = unfiled.as_ref().ok().and_then(|unfiled| unfiled.last());
    let intents = last.map_or(state.intents, |last| last.number);
    let verdict = judge(Reach { commits: state.commits, intents, is_clean: state.is_clean }, identity, testimony);
    match (unfiled, verdict) {
        // Not for want of what SQLite's log had.
        (Err(durable), verdict) if !matches!(verdict, Verdict::Older { .. }) => Verdict::Cut { durable: *durable },
        (_, verdict) => verdict,
    }
}

/// Carries records of the intent log into the file; in a transaction. Answers the number of the last.
pub(super) fn file_records(connection: &Connection, records: Vec<Record>) -> Result<Option<u64>, Fault> {
    let last = records.last().map(|record| record.number);
    // The last change of a key counts.
    let changes: BTreeMap<_, _> = records.into_iter().flat_map(|record| record.changes).collect();
    Editor::new(connection).set_all(changes.iter().map(|(key, value)| (&**key, value.as_deref())))?;
    Ok(last)
}

/// Why a store, read with this connection, may not be written; `None`: it may, or nothing is known of it.
pub(super) fn look(path: &Path, connection: &Connection) -> Result<Option<String>, Fault> {
    look_twice(|| Seen::of(path), |seen| seen.objection(path, connection))
}

/// The halves of a log are read one after the other, and its owner may use both in between: what looks like a gap is looked at again.
pub(super) fn look_twice(
    see: impl Fn() -> Seen,
    objection: impl Fn(Seen) -> Result<Option<String>, Fault>,
) -> Result<Option<String>, Fault> {
    match objection(see())? {
        None => Ok(None),
        Some(_) => objection(see()),
    }
}

/// What the witness and the intent log say at one moment. Seen before the store is read: what comes meanwhile makes the store newer.
pub(super) struct Seen(Option<(Identity, Option<Testimony>, Found)>);

impl Seen {
    pub fn of(path: &Path) -> Self {
        let testimony = match File::open(companion(path)).and_then(|file| Testimony::read(&file)) {
            Ok(testimony) => testimony,
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            // Whoever may only read the store is not shown it.
            Err(_) => return Self(None),
        };
        let Ok(log) = Found::read(path) else { return Self(None) };
        Self(Identity::of(path).ok().map(|identity| (identity, testimony, log)))
    }

    /// As [`look`], of a store read in a transaction that began later.
    pub fn objection(self, path: &Path, connection: &Connection) -> Result<Option<String>, Fault> {
        let Some((identity, testimony, log)) = self.0 else { return Ok(None) };
        let state = State::read(connection)?;
        let unfiled = log.unfiled(state.log, state.intents, state.commits);
        Ok(objection(path, state, judge_log(state, &unfiled, identity, testimony)))
    }
}

fn objection(path: &Path, state: State, verdict: Verdict) -> Option<String> {
    let (store, witness) = (path.display(), companion(path));
    let witness = witness.display();
    match verdict {
        Verdict::Home | Verdict::Whole => None,
        Verdict::Unknown => Some(format!(
            "{store} was not closed cleanly and {witness} is missing: it is a copy, or another name of the file, and may be \
             read only; use the original, bring {store}-wal and {witness} back, or continue from it on purpose with `weft restore`"
        )),
        Verdict::Copy => Some(format!(
            "{store} was not closed cleanly and {witness} is of another file: it is a copy and may be read only; use the \
             original, or continue from it on purpose with `weft restore`"
        )),
        Verdict::Older { durable } => Some(format!(
            "{store} has commits up to {} and {durable} was durable: its log {store}-wal is missing or cut, or an older copy took its \
             place, and it may be read only; bring the log back, or continue from it on purpose with `weft restore`",
            state.commits
        )),
        Verdict::Cut { durable } => Some(format!(
            "{store} has flushes up to {} and {durable} was durable: its log {log} is missing or cut, or an older copy took the place \
             of one of them, and it may be read only; bring the log back, or continue from it on purpose with `weft restore`",
            state.intents,
            log = intents::log_path(path).display()
        )),
    }
}
