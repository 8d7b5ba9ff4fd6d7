//! The checkpointer thread: carries the write-ahead log into the table while the writer goes on writing.
//!
//! Such a checkpoint never waits for anybody and makes nobody wait. The log starts over when a checkpoint has caught up with
//! the writer and no reader is in the log; a reader that stays for long makes it grow, which is said aloud.

use super::file;
use rusqlite::Connection;
use std::cell::Cell;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use weft_env::sync::{Receiver, Sender, channel};
use weft_env::{Spawner, Thread, steps};

/// A checkpoint after this many rows. A row changes about one page, so that is 16 MiB of log at most.
const ROWS: u64 = 4000;
/// SQLite's page size, which `file::create` leaves alone.
const PAGE_BYTES: u64 = 4096;
/// Moved in one transaction by [`shrink`], whose log is to fit where there is hardly any room, ...
const SHRINK_PAGES: u32 = 32;
/// ... and so many times: 4 MiB at most.
const SHRINK_STEPS: u32 = 32;
/// From this size of the log on, the writer itself checkpoints what is left, so that the log can start over.
const HELP_BYTES: u64 = 64 << 20;
/// A log of this size is said aloud, and again whenever it has doubled: lookups and recovery get slower with it.
const ALARM_BYTES: u64 = 256 << 20;

/// Starts the thread; it ends when the handle is dropped.
pub(super) fn start(path: &Path, spawner: &dyn Spawner) -> io::Result<(CheckpointHandle, Thread)> {
    let (sender, receiver) = channel();
    let behind = Arc::new(AtomicBool::new(false));
    let handle = CheckpointHandle { sender, behind: behind.clone(), rows: Cell::new(0) };
    let path = path.to_path_buf();
    let thread = spawner.thread("weft-meta-checkpoint", Box::new(move || run(&path, &receiver, &behind)))?;
    Ok((handle, thread))
}

/// The writer's side.
pub(super) struct CheckpointHandle {
    sender: Sender<()>,
    behind: Arc<AtomicBool>,
    rows: Cell<u64>,
}

impl CheckpointHandle {
    /// `rows` more are in the log.
    pub fn written(&self, rows: usize) {
        self.rows.set(self.rows.get() + rows as u64);
        if self.rows.get() < steps::bound(ROWS) {
            return;
        }
        self.rows.set(0);
        if self.sender.send(()).is_err() {
            // The thread panicked: the writer does its work.
            self.behind.store(true, Ordering::Relaxed);
        }
    }

    /// Checkpoints on the writer's connection, between two transactions, if the log has grown long.
    pub fn help(&self, writer: &Connection) {
        if self.behind.swap(false, Ordering::Relaxed)
            && let Err(error) = checkpoint(writer)
        {
            tracing::warn!(%error, "a checkpoint failed; the log stays");
        }
    }
}

fn run(path: &Path, calls: &Receiver<()>, behind: &AtomicBool) {
    let store = path.display();
    let mut connection = None;
    let mut alarm_bytes = ALARM_BYTES;
    while calls.recv().is_some() {
        // The checkpoint that begins takes along what was called for meanwhile.
        calls.try_iter().for_each(drop);
        match run_once(path, &mut connection) {
            Ok(log) => {
                behind.store(log.bytes >= steps::bound(HELP_BYTES) && log.left_bytes > 0, Ordering::Relaxed);
                if log.bytes < ALARM_BYTES {
                    alarm_bytes = ALARM_BYTES;
                } else if log.bytes >= alarm_bytes {
                    alarm_bytes = 2 * log.bytes;
                    let mib = log.bytes >> 20;
                    tracing::warn!(%store, mib, "the metadata log grows: some reader has kept its snapshot open for long");
                }
            }
            Err(error) => tracing::warn!(%store, %error, "a checkpoint failed; the log stays"),
        }
    }
}

fn run_once(path: &Path, connection: &mut Option<Connection>) -> rusqlite::Result<Log> {
    let connection = match connection {
        Some(connection) => connection,
        None => connection.insert(file::open(path)?),
    };
    // Only who may write comes here.
    file::keep_log(connection, false)?;
    checkpoint(connection)
}

/// Gives pages that hold nothing any more back to the disk, some at a time.
pub(super) fn shrink(connection: &Connection) -> rusqlite::Result<()> {
    for _ in 0..SHRINK_STEPS {
        let free_pages: i64 = connection.query_row("PRAGMA freelist_count", [], |row| row.get(0))?;
        if free_pages == 0 {
            break;
        }
        let mut statement = connection.prepare(&format!("PRAGMA incremental_vacuum({SHRINK_PAGES})"))?;
        let mut rows = statement.query([])?;
        while rows.next()?.is_some() {}
        drop(rows);
        drop(statement);
        checkpoint(connection)?;
    }
    Ok(())
}

/// The log after a checkpoint.
pub(super) struct Log {
    bytes: u64,
    /// Of these, not in the table yet.
    left_bytes: u64,
}

pub(super) fn checkpoint(connection: &Connection) -> rusqlite::Result<Log> {
    steps::step();
    let log = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| {
        // Both are -1 when another process checkpoints at the moment.
        let pages = |index| Ok::<_, rusqlite::Error>(u64::try_from(row.get::<_, i64>(index)?).unwrap_or(0));
        let (log, done) = (pages(1)?, pages(2)?);
        Ok(Log { bytes: log * PAGE_BYTES, left_bytes: log.saturating_sub(done) * PAGE_BYTES })
    })?;
    // SQLite syncs the table when all of a log is there.
    if log.bytes > 0
        && log.left_bytes == 0
        && let Some(path) = connection.path()
    {
        steps::synced(Path::new(path));
    }
    Ok(log)
}
