//! How a store is read: by whoever may write it as by any, and by a user who may not, without leaving anything beside it.
//!
//! SQLite's readers lock and map the log's index, which is theirs to write. A user who may only read the store reads the index where there is
//! one, that is, beside those who write. Where nobody has the store open there is no log: then the file is all there is, and
//! does not change until a log appears; that it has not is checked after everything that is read.

use super::file;
use super::rows::Fault;
use rusqlite::{Connection, OpenFlags};
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The error of a user who may not write a store that has to be recovered first.
pub(super) const NOT_CLOSED: &str = "it was not closed cleanly, and only a user who may write it can read its log: have its owner run `weft status` once";

/// In which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// By a user who may write it.
    Full,
    /// Beside others who have it open.
    Beside,
    /// Nobody has it open.
    Alone,
}

impl Way {
    /// The way of this user, as things are.
    pub fn of(store: &Path) -> Result<Self, Fault> {
        if file::may_write(store) {
            return Ok(Self::Full);
        }
        match (has_bytes(&file::beside(store, "-wal")), has_bytes(&file::beside(store, "-shm"))) {
            (false, _) => Ok(Self::Alone),
            (true, true) => Ok(Self::Beside),
            (true, false) => Err(Fault::Refused(NOT_CLOSED.into())),
        }
    }
}

fn has_bytes(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.len() > 0)
}

/// A connection that reads.
pub(super) struct Reader {
    pub connection: Connection,
    /// What is not to change while it is read without locks.
    still: Option<Still>,
}

impl Reader {
    pub fn open(store: &Path, keeps_log: bool) -> Result<Self, Fault> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let reader = match Way::of(store)? {
            Way::Full => {
                let connection = file::open(store)?;
                file::keep_log(&connection, keeps_log)?;
                connection.execute_batch("PRAGMA query_only = ON")?;
                Self { connection, still: None }
            }
            Way::Beside => Self { connection: file::prepare(Connection::open_with_flags(store, flags)?)?, still: None },
            Way::Alone => {
                let still = Still::of(store)?;
                let uri = file::immutable_uri(store);
                let connection = Connection::open_with_flags(uri, flags | OpenFlags::SQLITE_OPEN_URI)?;
                Self { connection: file::prepare(connection)?, still: Some(still) }
            }
        };
        Ok(reader)
    }

    /// Fails if what was read so far may not have been of one moment.
    pub fn check(&self) -> Result<(), Fault> {
        self.still.as_ref().map_or(Ok(()), Still::check)
    }
}

/// The file as it was.
struct Still {
    store: PathBuf,
    stamp: [i64; 6],
}

impl Still {
    fn of(store: &Path) -> Result<Self, Fault> {
        let stamp = |metadata: Metadata| {
            let [inode, bytes] = [metadata.ino(), metadata.size()].map(u64::cast_signed);
            [inode, bytes, metadata.mtime(), metadata.mtime_nsec(), metadata.ctime(), metadata.ctime_nsec()]
        };
        let stamp = store.metadata().map(stamp).map_err(|error: io::Error| Fault::Refused(error.to_string()))?;
        Ok(Self { store: store.to_path_buf(), stamp })
    }

    fn check(&self) -> Result<(), Fault> {
        let has_log = has_bytes(&file::beside(&self.store, "-wal"));
        if !has_log && Self::of(&self.store)?.stamp == self.stamp {
            return Ok(());
        }
        Err(Fault::Refused("somebody opened it for writing while it was read; run the command again".into()))
    }
}
