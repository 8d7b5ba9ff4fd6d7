//! The file: recognising and opening it.
//!
//! One table, `kv(k, v)`, ordered by k as bytes, its rows as `rows.rs` says; `application_id` is "WEFT" and `user_version` the version
//! of the format.

use super::Failure;
use super::rows::{self, Fault};
use crate::engines::OpenError;
use crate::kv::KvError;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use rustix::fs::Access;
use std::fmt::Write as _;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use weft_env::planted::{Planted, has_planted};
use weft_env::steps;

/// "WEFT".
pub(super) const APPLICATION_ID: i32 = 0x5745_4654;
/// "WEFB": of a backup, so that nobody opens it in the place of its original.
pub(super) const BACKUP_ID: i32 = 0x5745_4642;
/// The version that this program writes.
pub(super) const FORMAT_VERSION: i32 = 8;
/// Older releases may lose a reset of the log while another connection checkpoints; 3.51.3 mended that.
const SQLITE_VERSION_MIN: i32 = 3_051_003;
/// How long a connection waits for a lock of another process: the longest transaction of one (64 MiB on a slow disk), a
/// few times over.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// After a checkpoint the log file is cut back to this; below it, reusing it is cheaper than growing it again.
const LOG_KEPT_BYTES: u32 = 16 << 20;
/// The number of `synchronous = FULL`: a transaction ends when the log is synced.
const SYNCHRONOUS_FULL: i64 = 2;
/// Page cache of a connection in KiB, negative as SQLite wants it.
const PAGE_CACHE_KIB: i32 = -8192;

/// The names beside a file are durable.
pub(super) fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    std::fs::File::open(folder)?.sync_all()?;
    steps::names_synced(folder);
    Ok(())
}

/// What SQLite's log has is durable, also of a process that was killed before it had synced it.
pub(super) fn sync_log(path: &Path) -> io::Result<()> {
    let log = beside(path, "-wal");
    match std::fs::File::open(&log) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        opened => {
            opened?.sync_all()?;
            steps::synced(&log);
            sync_folder(path)
        }
    }
}

/// A transaction has ended: SQLite has synced its log, if it is set so.
pub(super) fn note_committed(connection: &Connection) -> rusqlite::Result<()> {
    if steps::are_seen() {
        let synchronous: i64 = connection.pragma_query_value(None, "synchronous", |row| row.get(0))?;
        match connection.path() {
            Some(path) if synchronous >= SYNCHRONOUS_FULL => steps::synced(&beside(Path::new(path), "-wal")),
            _ => steps::step(),
        }
    }
    Ok(())
}

/// Refuses a library that loses data, whatever the program was linked with.
pub(super) fn require_sqlite(version_number: i32) -> Result<(), OpenError> {
    if version_number >= SQLITE_VERSION_MIN {
        return Ok(());
    }
    let (major, minor, patch) = (version_number / 1_000_000, version_number / 1000 % 1000, version_number % 1000);
    Err(OpenError::OldSqlite { found: format!("{major}.{minor}.{patch}") })
}

/// Is it ours, and of a format that we know? Changes nothing, leaves no log beside somebody else's file, and answers the
/// path made absolute.
pub(super) fn probe(path: &Path) -> Result<PathBuf, OpenError> {
    require_sqlite(rusqlite::version_number())?;
    let path = absolute(path)?;
    // The log and the witness lie beside the file itself, not beside a symbolic link to it.
    let path = path.canonicalize().map_err(|error| io_error(&path, error))?;
    match path.metadata() {
        Err(error) => return Err(io_error(&path, error)),
        Ok(metadata) if !metadata.is_file() || metadata.len() == 0 => return Err(OpenError::NotOurs(shown(&path))),
        Ok(_) => {}
    }
    // Through SQLite and not by reading the file: closing a descriptor of our own would drop the locks that another engine
    // in this process has on it. `immutable` takes no lock and makes no log.
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let probed = Connection::open_with_flags(immutable_uri(&path), flags).and_then(|connection| identity(&connection));
    match probed {
        Ok(identity) => recognise(&path, identity)?,
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::NotADatabase) => {
            return Err(OpenError::NotOurs(shown(&path)));
        }
        // A checkpoint in progress can look like damage without locks: the real opening decides.
        Err(error) => tracing::debug!(store = %path.display(), %error, "the store has no readable header just now"),
    }
    Ok(path)
}

/// A path in a message.
pub(super) fn shown(path: &Path) -> String {
    path.display().to_string()
}

pub(super) fn io_error(path: &Path, error: io::Error) -> OpenError {
    match error.kind() {
        io::ErrorKind::NotFound => OpenError::Missing(shown(path)),
        io::ErrorKind::PermissionDenied => OpenError::Denied(shown(path)),
        _ => failed(path, error).into(),
    }
}

fn identity(connection: &Connection) -> rusqlite::Result<(i32, i32)> {
    let pragma = |name| connection.pragma_query_value(None, name, |row| row.get(0));
    Ok((pragma("application_id")?, pragma("user_version")?))
}

fn recognise(path: &Path, (application_id, version): (i32, i32)) -> Result<(), OpenError> {
    match (application_id, version) {
        (APPLICATION_ID, FORMAT_VERSION) => Ok(()),
        (BACKUP_ID, FORMAT_VERSION) => Err(OpenError::Backup(shown(path))),
        (APPLICATION_ID, found) if found > 0 && found < FORMAT_VERSION => {
            Err(OpenError::Older { place: shown(path), found, known: FORMAT_VERSION })
        }
        (APPLICATION_ID, found) if found > FORMAT_VERSION => {
            Err(OpenError::Newer { place: shown(path), found, known: FORMAT_VERSION })
        }
        _ => Err(OpenError::NotOurs(shown(path))),
    }
}

/// Whether the log stays when a connection is the last to be closed. It does until [`super::home`] has seen that the store is at home:
/// looking at a copy, or at what is left of a log, must change neither.
pub(super) fn keep_log(connection: &Connection, keeps: bool) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, keeps).map(drop)
}

/// May this user write the store, and is its file system for writing?
pub(super) fn may_write(path: &Path) -> bool {
    rustix::fs::access(path, Access::WRITE_OK).is_ok()
}

/// The writer's connection: every transaction is synced, and checkpoints are our own.
pub(super) fn open_writer(path: &Path) -> Result<Connection, OpenError> {
    let connection = open(path).map_err(|error| sql_error(path, error))?;
    let found = identity(&connection).map_err(|error| sql_error(path, error))?;
    recognise(path, found)?;
    let mode: String = connection
        .pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))
        .map_err(|error| sql_error(path, error))?;
    if mode != "wal" {
        let detail =
            "its file system has no shared memory maps, which a write-ahead log needs; move it to a local disk";
        return Err(failed(path, detail).into());
    }
    Ok(connection)
}

/// A connection for checkpoints, or to build the others on.
pub(super) fn open(path: &Path) -> rusqlite::Result<Connection> {
    prepare(Connection::open_with_flags(path, open_flags())?)
}

pub(super) fn prepare(connection: Connection) -> rusqlite::Result<Connection> {
    connection.busy_timeout(BUSY_TIMEOUT)?;
    keep_log(&connection, true)?;
    let synchronous = if has_planted(Planted::TransactionNotSynced) { "NORMAL" } else { "FULL" };
    connection.execute_batch(&format!(
        "PRAGMA synchronous = {synchronous};
         PRAGMA wal_autocheckpoint = 0;
         PRAGMA journal_size_limit = {LOG_KEPT_BYTES};
         PRAGMA cache_size = {PAGE_CACHE_KIB};"
    ))?;
    Ok(connection)
}

pub(super) fn open_flags() -> OpenFlags {
    // Each connection is used by one thread at a time.
    OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX
}

/// What a failure of SQLite means for what is pending.
impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        match (error.sqlite_error_code(), error.sqlite_error().map(|error| error.extended_code)) {
            (Some(ErrorCode::DiskFull), _) => Failure::Full,
            // The index of the log cannot grow; the file has not been touched.
            (_, Some(rusqlite::ffi::SQLITE_IOERR_SHMSIZE)) => Failure::Full,
            (Some(ErrorCode::DatabaseBusy), _) => {
                Failure::Busy(format!("another process has it locked for more than {} s", BUSY_TIMEOUT.as_secs()))
            }
            _ if rows::is_damage(&error) => Failure::Damaged(rows::broken(&error)),
            _ => Failure::Broken(error.to_string()),
        }
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Refused(detail) => Failure::Busy(detail),
            Fault::Sqlite(error) => error.into(),
            Fault::Damaged(detail) => Failure::Damaged(detail),
        }
    }
}

pub(super) fn sql_error(path: &Path, error: rusqlite::Error) -> OpenError {
    if error.sqlite_error_code() == Some(ErrorCode::NotADatabase) {
        return OpenError::NotOurs(shown(path));
    }
    if is_denied(path, &error) {
        return OpenError::Denied(shown(path));
    }
    OpenError::Engine(failure(path, error.into()))
}

pub(super) fn open_error(path: &Path, fault: Fault) -> OpenError {
    match fault {
        Fault::Sqlite(error) => sql_error(path, error),
        Fault::Damaged(detail) => KvError::Damaged { store: shown(path), detail }.into(),
        Fault::Refused(detail) => failed(path, detail).into(),
    }
}

/// What a failure is to others.
pub(super) fn failure(path: &Path, failure: Failure) -> KvError {
    match failure {
        Failure::Conflict => KvError::Conflict,
        Failure::Full => KvError::Full { store: shown(path) },
        Failure::Displaced(sentence) => KvError::Displaced { sentence },
        Failure::Damaged(detail) => KvError::Damaged { store: shown(path), detail },
        Failure::Busy(detail) | Failure::Broken(detail) => failed(path, detail),
    }
}

fn is_denied(path: &Path, error: &rusqlite::Error) -> bool {
    match error.sqlite_error_code() {
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => true,
        // For whatever reason: ask the system, without a descriptor (see `probe`).
        Some(ErrorCode::CannotOpen) => {
            let needs = Access::READ_OK | Access::WRITE_OK;
            let folder = path.parent().unwrap_or(Path::new("/"));
            let denied = |path: &Path| rustix::fs::access(path, needs) == Err(rustix::io::Errno::ACCESS);
            denied(path) || denied(folder)
        }
        _ => false,
    }
}

pub(super) fn failed(path: &Path, detail: impl ToString) -> KvError {
    KvError::Failed { store: shown(path), detail: detail.to_string() }
}

/// SQLite gives some relative paths a meaning of their own (`:memory:`).
pub(super) fn absolute(path: &Path) -> Result<PathBuf, OpenError> {
    std::path::absolute(path).map_err(|error| failed(path, error).into())
}

pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(suffix);
    name.into()
}

pub(super) fn immutable_uri(path: &Path) -> String {
    let mut uri = String::from("file:");
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => uri.push(char::from(*byte)),
            byte => write!(uri, "%{byte:02x}").expect("a string takes everything"),
        }
    }
    uri + "?immutable=1"
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
