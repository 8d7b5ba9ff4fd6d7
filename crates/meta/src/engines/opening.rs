//! Why a store cannot be made or opened, of any engine.

use crate::kv::KvError;
use crate::owner::OwnerError;
use std::path::PathBuf;

/// Why a store cannot be made or opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The program runs on a SQLite that loses data.
    #[error(
        "this program runs on SQLite {found}, which can lose what was committed; use a weft that is built with SQLite 3.51.3 or newer"
    )]
    OldSqlite {
        /// Its version.
        found: String,
    },
    /// Nothing is there.
    #[error("there is no metadata store at {0}; make one with `weft format`, or correct the address")]
    Missing(String),
    /// The place is taken.
    #[error("{0} exists already; choose another place, or move it away if it is not needed any more")]
    Exists(String),
    /// A log of a store that was moved away is there.
    #[error(
        "{log} belongs to the store that was at {store}, and may hold what was synced last; move it to where that store is now, or remove it if the store is lost"
    )]
    LogLeft {
        /// Of the log.
        log: String,
        /// Where its store was.
        store: String,
    },
    /// Something else is there.
    #[error("{0} is not a metadata store of WeftFS; check the address")]
    NotOurs(String),
    /// It is a backup.
    #[error("{0} is a backup of a volume's metadata; make it the volume's metadata with `weft restore {0} META`")]
    Backup(String),
    /// The folder that it should be in does not exist.
    #[error("there is no folder {}: make it with `mkdir -p`, or correct the path", .0.display())]
    NoFolder(PathBuf),
    /// Opened for writing, by everybody: readers take locks too.
    #[error(
        "{0} cannot be written by this user: run this as its owner, or see to the permissions of it and its folder"
    )]
    Denied(String),
    /// It was written by a newer program.
    #[error("{place} has metadata format {found}, and this program knows {known}; use a newer weft")]
    Newer {
        /// The store.
        place: String,
        /// Its format version.
        found: i32,
        /// The program's.
        known: i32,
    },
    /// It was written by a program from before the first release.
    #[error(
        "{place} has metadata format {found}, from before the first release, and this program knows {known}; copy its files out with the weft that made it, into a new volume"
    )]
    Older {
        /// The store.
        place: String,
        /// Its format version.
        found: i32,
        /// The program's.
        known: i32,
    },
    /// The server of an engine refuses, or is not there.
    #[error("{place} cannot be opened: {why}")]
    Refused {
        /// The store.
        place: String,
        /// A clause that ends in the mend.
        why: String,
    },
    /// It is asked for together with others.
    #[error(
        "{0} is a file, which one mount at a time changes: mount it without --shared, or move the volume to a server with `weft meta copy {0} postgres://...`"
    )]
    OneOwner(String),
    /// Somebody owns it, or the lock failed.
    #[error(transparent)]
    Owner(#[from] OwnerError),
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] KvError),
}
