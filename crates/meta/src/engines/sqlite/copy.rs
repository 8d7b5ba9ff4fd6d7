//! Copies of a store: a backup, as of one moment, beside whoever writes; and a store that is made of a copy again.

use super::changes;
use super::file::{self, APPLICATION_ID, BACKUP_ID};
use super::home::{self, State};
use super::intents::Found;
use super::making;
use super::presence::{self, Presence};
use super::rows::{self, Fault, Scan};
use crate::descriptor::Descriptor;
use crate::engines::OpenError;
use crate::kv::Slot;
use crate::unfinished::mark;
use rusqlite::Connection;
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use weft_env::Clock;

/// Writes what is durable of the store at `from` to the new file `to`, which nothing opens but [`restore`].
pub(super) fn back_up(from: &Path, to: &Path, clock: &dyn Clock) -> Result<(), OpenError> {
    let from = file::probe(from)?;
    making::build(to, |draft| copy(&from, draft, BACKUP_ID, clock))
}

/// Makes the new store `to` of a backup, or of any other copy of a store and the logs beside it.
pub(super) fn restore(from: &Path, to: &Path, clock: &dyn Clock) -> Result<(), OpenError> {
    let from = match file::probe(from) {
        Err(OpenError::Backup(_)) => from.canonicalize().map_err(|error| file::io_error(from, error))?,
        other => other?,
    };
    making::build(to, |draft| {
        copy(&from, draft, APPLICATION_ID, clock)?;
        let made = file::open(draft).map_err(|error| file::sql_error(draft, error))?;
        making::apply(&made, &[mark()]).map_err(|fault| file::open_error(draft, fault))?;
        let logged = file::keep_log(&made, false).and_then(|()| made.execute_batch("PRAGMA journal_mode = WAL"));
        logged.and_then(|()| made.close().map_err(|(_, error)| error)).map_err(|error| file::sql_error(draft, error))
    })
}

/// The pairs of a backup, for another engine.
pub(crate) fn read(from: &Path) -> Result<Vec<Slot>, OpenError> {
    let from = match file::probe(from) {
        Err(OpenError::Backup(_)) => from.canonicalize().map_err(|error| file::io_error(from, error))?,
        Err(error) => return Err(error),
        Ok(_) => {
            let why = "it is no backup; make one of it with `weft backup META FILE`";
            return Err(OpenError::Refused { place: file::shown(from), why: why.into() });
        }
    };
    let connection = file::open(&from).map_err(|error| file::sql_error(&from, error))?;
    let pairs = || {
        let mut statement = connection.prepare(rows::SCAN)?;
        let scan = Scan::new(&connection, &mut statement, &[], &[u8::MAX])?;
        scan.map(|pair| pair.map(|(key, value)| (key, Some(value)))).collect::<Result<Vec<Slot>, Fault>>()
    };
    pairs().map_err(|fault| file::open_error(&from, fault))
}

/// All tables as of one moment, in one transaction that hinders no writer.
fn copy(from: &Path, draft: &Path, application_id: i32, clock: &dyn Clock) -> Result<(), OpenError> {
    let Some(name) = draft.to_str() else {
        return Err(file::failed(draft, "its path is no text; choose another").into());
    };
    // It holds everybody's names, and the keys of nodes.
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(draft);
    made.map_err(|error| file::failed(draft, error))?;
    let source = file::open(from).map_err(|error| file::sql_error(from, error))?;
    if matches!(home::look(from, &source), Ok(None)) {
        file::keep_log(&source, false).map_err(|error| file::sql_error(from, error))?;
    }
    // An owner writes to the file what it has flushed while another process says that it is there.
    let store = Descriptor::open(from).map_err(|error| file::io_error(from, error))?;
    let _presence = Presence::announce(from, clock).map_err(|error| file::failed(from, error))?;
    let is_owned = !store.is_free();
    if is_owned && !presence::await_filed(from, &source, &store, clock)? {
        let detail =
            "its owner does not write there what it flushed last; continue or end the owner, and run the command again";
        return Err(file::failed(from, detail).into());
    }
    source.execute("VACUUM INTO ?1", [name]).map_err(|error| file::sql_error(from, error))?;
    let copy = file::open(draft).map_err(|error| file::sql_error(draft, error))?;
    let log = if is_owned { Found::default() } else { Found::read(from).map_err(|error| file::failed(from, error))? };
    complete(&copy, log).map_err(|fault| file::open_error(from, fault))?;
    let marked = copy.pragma_update(None, "application_id", application_id);
    marked.and_then(|()| copy.close().map_err(|(_, error)| error)).map_err(|error| file::sql_error(draft, error))
}

/// Adds what the intent log has more than the file. Then the copy is whole by itself, wherever it is.
fn complete(copy: &Connection, log: Found) -> Result<(), Fault> {
    let state = State::read(copy)?;
    let unfiled = log.unfiled(state.log, state.intents, state.commits).map_err(|last| {
        Fault::Damaged(format!("its intent log has flush {last}, and lacks some between that and {}", state.intents))
    })?;
    copy.execute_batch("BEGIN IMMEDIATE")?;
    home::file_records(copy, unfiled)?;
    state.detach(copy)?;
    changes::restart(copy, state.commits)?;
    Ok(copy.execute_batch("COMMIT")?)
}

#[cfg(test)]
#[path = "copy_tests.rs"]
mod tests;
