//! Is the store the one that was left here? Whoever writes it asks first, and leaves what the next needs to ask.
//!
//! The table `state` has one row: the number of the last commit, and whether the store was closed cleanly, that is, whether all
//! of it is in the one file, whose log may go. Whoever finds it clean and writes takes that back, and carries it from the
//! log into the file, before anything else is acknowledged. `witness.rs` is the other half, and decides.

use super::checkpoint::checkpoint;
use super::rows::Fault;
use super::witness::{Identity, Testimony, Verdict, judge};
use super::{Failure, file};
use crate::owner::{companion, open_companion};
use crate::types::Access;
use rusqlite::Connection;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// The row of the table `state`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State {
    /// Transactions so far.
    pub commits: u64,
    /// All of them are in the file itself.
    pub is_clean: bool,
}

impl State {
    /// Makes the table, of an empty store.
    pub fn create(connection: &Connection) -> rusqlite::Result<()> {
        connection.execute_batch(
            "CREATE TABLE state (id INTEGER PRIMARY KEY, commits INTEGER NOT NULL, clean INTEGER NOT NULL, sum INTEGER NOT NULL) STRICT;",
        )?;
        Self { commits: 0, is_clean: true }.write(connection)
    }

    pub fn read(connection: &Connection) -> Result<Self, Fault> {
        let mut statement = connection.prepare_cached("SELECT commits, clean, sum FROM state WHERE id = 1")?;
        let mut rows = statement.query([])?;
        let damaged = || Fault::Damaged("the number of its last commit is missing, or its checksum is wrong".into());
        let row = rows.next()?.ok_or_else(damaged)?;
        let commits = u64::try_from(row.get::<_, i64>(0)?).map_err(|_| damaged())?;
        let state = Self { commits, is_clean: row.get(1)? };
        if row.get::<_, i64>(2)? != state.sum() {
            return Err(damaged());
        }
        Ok(state)
    }

    pub fn write(self, connection: &Connection) -> rusqlite::Result<()> {
        connection
            .prepare_cached("INSERT OR REPLACE INTO state (id, commits, clean, sum) VALUES (1, ?1, ?2, ?3)")?
            .execute((self.commits.cast_signed(), self.is_clean, self.sum()))?;
        Ok(())
    }

    fn sum(self) -> i64 {
        let bytes = [&self.commits.to_le_bytes()[..], &[u8::from(self.is_clean)]].concat();
        crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, &bytes).cast_signed()
    }
}

/// The store's place, as one that writes it knows it.
pub(super) struct Home {
    path: PathBuf,
    /// From the first write on.
    witness: Option<Witness>,
}

struct Witness {
    file: File,
    identity: Identity,
}

impl Home {
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_path_buf(), witness: None }
    }

    /// Of an owner: refuses at once what is not at home. One that stays takes back that the store is closed.
    pub fn enter(path: &Path, connection: &Connection, access: Access) -> Result<Self, Failure> {
        let mut home = Self::new(path);
        // Others commit, too: what one of them makes durable between two looks must not seem to be lost.
        connection.execute_batch("BEGIN IMMEDIATE")?;
        let entered = home.enter_alone(connection, access);
        connection.execute_batch(if entered.is_ok() { "COMMIT" } else { "ROLLBACK" })?;
        if let Some(before) = entered? {
            checkpoint(connection)?;
            home.note(before);
        }
        Ok(home)
    }

    /// In a transaction; what the store was before, if that changed.
    fn enter_alone(&mut self, connection: &Connection, access: Access) -> Result<Option<State>, Failure> {
        let found = State::read(connection)?;
        self.witness = Some(enter(&self.path, found)?);
        let reopens = found.is_clean && access == Access::Owner;
        if reopens { self.count(connection).map(Some) } else { Ok(None) }
    }

    /// Says that all is in the file, which it then is unless somebody reads just now; everything has been written.
    pub fn leave(&self, connection: &Connection) -> Result<(), Failure> {
        connection.execute_batch("BEGIN IMMEDIATE")?;
        let before = State::read(connection)?;
        State { commits: before.commits + 1, is_clean: true }.write(connection)?;
        connection.execute_batch("COMMIT")?;
        checkpoint(connection)?;
        self.note(before);
        Ok(())
    }

    /// Has this process written?
    pub fn is_entered(&self) -> bool {
        self.witness.is_some()
    }

    /// Counts a transaction that is about to commit; in it. Refuses a store that is not at home. Answers what it was.
    pub fn count(&mut self, connection: &Connection) -> Result<State, Failure> {
        if self.witness.is_none() && !file::may_write(&self.path) {
            return Err(Failure::Busy("it cannot be written by this user; run this as its owner".into()));
        }
        let found = State::read(connection)?;
        if self.witness.is_none() {
            self.witness = Some(enter(&self.path, found)?);
        }
        State { commits: found.commits + 1, is_clean: false }.write(connection)?;
        Ok(found)
    }

    /// The transaction after `before` is durable.
    pub fn note(&self, before: State) {
        let Some(witness) = &self.witness else { return };
        let testimony = Testimony { identity: witness.identity, commits: before.commits + 1 };
        // An older one is as true.
        if let Err(error) = testimony.write(&witness.file) {
            tracing::debug!(store = %self.path.display(), %error, "the witness keeps its number");
        }
    }
}

/// May the store be written? Then its witness is there, durably, before anything is.
fn enter(path: &Path, state: State) -> Result<Witness, Failure> {
    let io = |error: io::Error| {
        let companion = companion(path);
        Failure::Broken(format!("{} cannot be used: {error}; check its permissions", companion.display()))
    };
    let identity = Identity::of(path).map_err(io)?;
    let file = open_companion(path).map_err(io)?;
    let testimony = Testimony::read(&file).map_err(io)?;
    let verdict = judge(state.commits, state.is_clean, identity, testimony);
    if let Some(why) = objection(path, state, verdict) {
        return Err(Failure::Displaced(why));
    }
    if verdict == Verdict::Whole {
        let renewed = Testimony { identity, commits: state.commits }.write(&file).and_then(|()| file.sync_all());
        renewed.and_then(|()| file::sync_folder(path)).map_err(io)?;
    }
    Ok(Witness { file, identity })
}

/// Why a store, read with this connection, may not be written; `None`: it may, or nothing is known of it.
pub(super) fn look(path: &Path, connection: &Connection) -> Result<Option<String>, Fault> {
    Seen::of(path).objection(path, connection)
}

/// What the witness says at one moment. Seen before the store is read: commits that come meanwhile make the store newer.
pub(super) struct Seen(Option<(Identity, Option<Testimony>)>);

impl Seen {
    pub fn of(path: &Path) -> Self {
        let testimony = match File::open(companion(path)).and_then(|file| Testimony::read(&file)) {
            Ok(testimony) => testimony,
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            // Whoever may only read the store is not shown it.
            Err(_) => return Self(None),
        };
        Self(Identity::of(path).ok().map(|identity| (identity, testimony)))
    }

    /// As [`look`], of a store read in a transaction that began later.
    pub fn objection(self, path: &Path, connection: &Connection) -> Result<Option<String>, Fault> {
        let Some((identity, testimony)) = self.0 else { return Ok(None) };
        let state = State::read(connection)?;
        Ok(objection(path, state, judge(state.commits, state.is_clean, identity, testimony)))
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
    }
}
