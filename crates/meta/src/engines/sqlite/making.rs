//! How a new store is made: under another name first, then renamed, so that it is there whole or not at all.

use super::file::{
    APPLICATION_ID, BACKUP_ID, FORMAT_VERSION, absolute, beside, failed, open_error, open_flags, require_sqlite,
    sync_folder,
};
use super::home::State;
use super::intents;
use super::rows::{self, Editor, Fault};
use super::{changes, file};
use crate::engines::{OpenError, Pieces};
use crate::kv::Slot;
use crate::owner::companion;
use rusqlite::{Connection, OpenFlags};
use rustix::fs::RenameFlags;
use std::fs::{OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Makes a new, empty store.
pub(super) fn create(path: &Path) -> Result<(), OpenError> {
    build(path, |draft| make(draft).map_err(|fault| open_error(path, fault)))
}

/// Makes a store of these pieces.
pub(super) fn load(path: &Path, pieces: &mut Pieces<'_>) -> Result<(), OpenError> {
    load_as(path, APPLICATION_ID, pieces)
}

/// Makes a backup of the pieces of another engine's store.
pub(crate) fn load_backup(path: &Path, pieces: &mut Pieces<'_>) -> Result<(), OpenError> {
    load_as(path, BACKUP_ID, pieces)
}

fn load_as(path: &Path, application_id: i32, pieces: &mut Pieces<'_>) -> Result<(), OpenError> {
    build(path, |draft| {
        // It holds everybody's names.
        let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(draft);
        made.map_err(|error| failed(draft, error))?;
        make(draft).map_err(|fault| open_error(path, fault))?;
        let connection = file::open_writer(draft)?;
        while let Some(slots) = pieces().map_err(|why| failed(path, why))? {
            apply(&connection, &slots).map_err(|fault| open_error(path, fault))?;
        }
        let marked = connection.pragma_update(None, "application_id", application_id);
        // All of it is in the one file, which is renamed.
        let filed = marked.and_then(|()| connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)"));
        let closed = filed.and_then(|()| connection.close().map_err(|(_, error)| error));
        closed.map_err(|error| open_error(path, error.into()))
    })
}

/// Changes these records.
pub(super) fn apply(connection: &Connection, slots: &[Slot]) -> Result<(), Fault> {
    connection.execute_batch("BEGIN IMMEDIATE")?;
    Editor::new(connection).set_all(slots.iter().map(|(key, value)| (&**key, value.as_deref())))?;
    Ok(connection.execute_batch("COMMIT")?)
}

/// Builds a store under another name and renames it, so that a store is there whole or not at all.
pub(super) fn build(path: &Path, make: impl FnOnce(&Path) -> Result<(), OpenError>) -> Result<(), OpenError> {
    require_sqlite(rusqlite::version_number())?;
    let path = absolute(path)?;
    if path.symlink_metadata().is_ok() {
        return Err(OpenError::Exists(file::shown(&path)));
    }
    // A log beside the path would be replayed into the new store. What an intent log holds was synced, and may be nowhere else.
    let log = intents::log_path(&path);
    let holds_any = |log: &Path| log.symlink_metadata().is_ok_and(|found| found.len() > 0);
    let logs = [beside(&path, "-wal"), beside(&path, "-shm")].into_iter().filter(|log| log.symlink_metadata().is_ok());
    if let Some(left) = logs.chain(holds_any(&log).then_some(log)).next() {
        return Err(OpenError::LogLeft { log: file::shown(&left), store: file::shown(&path) });
    }
    if let Some(folder) = path.parent()
        && !folder.is_dir()
    {
        return Err(OpenError::NoFolder(folder.to_path_buf()));
    }
    let draft = beside(&path, &format!("-new-{}", std::process::id()));
    let made = make(&draft).and_then(|()| publish(&draft, &path));
    // SQLite keeps the log and its index, empty, for a store that is written to again.
    let left = [beside(&draft, "-wal"), beside(&draft, "-shm")];
    for left in left.into_iter().chain(made.is_err().then_some(draft)) {
        if let Err(error) = std::fs::remove_file(&left) {
            tracing::debug!(left = %left.display(), %error, "nothing to remove");
        }
    }
    made
}

/// Removes a store that nobody needs, and what is beside it. The store goes last: what is left of it by a process that ends midway is
/// known by it.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    let beside = [beside(path, "-wal"), beside(path, "-shm"), intents::log_path(path), companion(path)];
    for left in beside {
        match std::fs::remove_file(left) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    std::fs::remove_file(path)
}

fn make(draft: &Path) -> Result<(), Fault> {
    let connection = Connection::open_with_flags(draft, open_flags() | OpenFlags::SQLITE_OPEN_CREATE)?;
    connection.execute_batch(&format!(
        "PRAGMA synchronous = FULL;
         PRAGMA auto_vacuum = INCREMENTAL;
         PRAGMA application_id = {APPLICATION_ID};
         PRAGMA user_version = {FORMAT_VERSION};
         CREATE TABLE kv (k BLOB PRIMARY KEY NOT NULL, v BLOB NOT NULL) WITHOUT ROWID, STRICT;"
    ))?;
    rows::close_table(&connection)?;
    State::create(&connection)?;
    changes::create(&connection)?;
    connection.execute_batch("PRAGMA journal_mode = WAL")?;
    Ok(connection.close().map_err(|(_, error)| error)?)
}

fn publish(draft: &Path, path: &Path) -> Result<(), OpenError> {
    let io = |source: io::Error| OpenError::Engine(failed(path, source));
    // What is in a log does not come along.
    if beside(draft, "-wal").metadata().is_ok_and(|log| log.len() > 0) {
        return Err(io(io::Error::other("its log was not taken over into the file")));
    }
    // It holds everybody's names, and the keys of nodes. The log beside it gets the same permissions.
    std::fs::set_permissions(draft, Permissions::from_mode(0o600)).map_err(io)?;
    std::fs::File::open(draft).and_then(|file| file.sync_all()).map_err(io)?;
    // The witness and the intent log of a store that was here before.
    for left in [companion(path), intents::log_path(path)] {
        match std::fs::remove_file(left) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(io(error)),
            _ => {}
        }
    }
    let here = rustix::fs::CWD;
    rustix::fs::renameat_with(here, draft, here, path, RenameFlags::NOREPLACE).map_err(|errno| match errno {
        rustix::io::Errno::EXIST => OpenError::Exists(file::shown(path)),
        errno => io(errno.into()),
    })?;
    sync_folder(path).map_err(io)
}
