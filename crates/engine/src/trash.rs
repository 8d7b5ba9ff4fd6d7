//! Deleted files that are kept for a while: listing, restoring and purging them.

use crate::files::{self, FilesError};
use crate::open_store;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use weft_env::Env;
use weft_format::Ino;
use weft_format::records::Kind;
use weft_meta::{Deleted, MetaError, MetaUrl, Store};

/// Deleted inodes read at once.
const PAGE: usize = 1024;

/// Why something cannot be restored or purged.
#[derive(Debug, thiserror::Error)]
pub enum TrashError {
    /// Nothing of this path is kept.
    #[error("{}: no deleted file of that name{} is kept: see `weft trash list {meta}`", path.display(), of_version(*version))]
    NotKept {
        /// The volume.
        meta: MetaUrl,
        /// The requested path.
        path: PathBuf,
        /// Which of several.
        version: Option<u64>,
    },
    /// Its name is taken, or its directory is gone.
    #[error("{} cannot be restored: if another file has that name, rename it: {error}", path.display())]
    Taken {
        /// Where it was.
        path: PathBuf,
        /// Why.
        error: Box<FilesError>,
    },
    /// The volume.
    #[error(transparent)]
    Files(Box<FilesError>),
    /// Metadata.
    #[error(transparent)]
    Meta(#[from] MetaError),
}

impl From<FilesError> for TrashError {
    fn from(error: FilesError) -> Self {
        TrashError::Files(Box::new(error))
    }
}

fn of_version(version: Option<u64>) -> String {
    version.map_or_else(String::new, |version| format!(" and version {version}"))
}

/// The trash of a volume.
pub struct Trash<'m> {
    meta: &'m MetaUrl,
    /// Where the volume is mounted on this machine, if it is.
    mountpoint: Option<&'m Path>,
}

/// Something that was deleted and can be restored.
#[derive(Clone, Debug, Serialize)]
pub struct TrashLine {
    /// Where it was.
    pub path: String,
    /// The path's bytes in hexadecimal digits, where it is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_hex: Option<String>,
    /// Tells several of one path apart.
    pub version: u64,
    /// `file`, `directory`, `link` or `special`.
    pub kind: &'static str,
    /// Bytes.
    pub size: u64,
    /// When it was deleted.
    pub deleted_ms: u64,
    /// Until then it can be restored, unless its room is needed.
    pub until_ms: u64,
}

impl<'m> Trash<'m> {
    /// Of the volume with the metadata at `meta`, mounted at `mountpoint` on this machine if it is.
    #[must_use]
    pub fn new(meta: &'m MetaUrl, mountpoint: Option<&'m Path>) -> Self {
        Self { meta, mountpoint }
    }

    /// How long deleted files are kept, in milliseconds; 0: not at all.
    ///
    /// # Errors
    /// Metadata cannot be read.
    pub fn keep_ms(&self) -> Result<u64, TrashError> {
        Ok(open_store(self.meta, &Env::system())?.keep_ms()?)
    }

    /// Sets that; files that were kept longer are released.
    ///
    /// # Errors
    /// Metadata cannot be written.
    pub fn set_keep_ms(&self, keep_ms: u64) -> Result<(), TrashError> {
        let store = open_store(self.meta, &Env::system())?;
        store.set_keep_ms(keep_ms)?;
        Ok(store.flush()?)
    }

    /// The kept files, the last deleted first.
    ///
    /// # Errors
    /// Metadata cannot be read.
    pub fn list(&self) -> Result<Vec<TrashLine>, TrashError> {
        let store = self.open_current()?;
        let (bin, keep_ms) = (Bin::read(&store)?, store.keep_ms()?);
        let line = |deleted: &Deleted| -> Result<TrashLine, TrashError> {
            let (path, path_hex) = crate::words::for_programs(&bin.path(&store, deleted)?);
            Ok(TrashLine {
                path,
                path_hex,
                version: deleted.attributes.ino.0,
                kind: kind_name(deleted.attributes.kind),
                size: deleted.attributes.size,
                deleted_ms: deleted.deleted_ms,
                until_ms: deleted.deleted_ms.saturating_add(keep_ms),
            })
        };
        bin.deleted.iter().rev().map(line).collect()
    }

    /// Restores a path with everything deleted from below it: the last of several, or `version`. How many inodes came back.
    ///
    /// # Errors
    /// [`TrashError::NotKept`], [`TrashError::Taken`]; files restored before stay.
    pub fn restore(&self, path: &Path, version: Option<u64>) -> Result<u64, TrashError> {
        let order = {
            let store = self.open_current()?;
            let bin = Bin::read(&store)?;
            let found = bin.find(&store, path, version)?.ok_or_else(|| self.not_kept(path, version))?;
            let named = |deleted: &Deleted| Ok((deleted.clone(), bin.path(&store, deleted)?));
            bin.order(found).into_iter().map(named).collect::<Result<Vec<_>, MetaError>>()?
        };
        let volume = files::open(self.meta, self.mountpoint, None)?;
        for (deleted, path) in &order {
            let taken = |error| TrashError::Taken { path: OsStr::from_bytes(path).into(), error: Box::new(error) };
            volume.restore(deleted.deleted_ms, deleted.attributes.ino).map_err(taken)?;
        }
        volume.close()?;
        Ok(order.len() as u64)
    }

    /// Deletes for good: every version of a path, or this one, with everything deleted from below it; all that is kept without a path.
    /// How many inodes went.
    ///
    /// # Errors
    /// [`TrashError::NotKept`].
    pub fn purge(&self, path: Option<&Path>, version: Option<u64>) -> Result<u64, TrashError> {
        let chosen = {
            let store = self.open_current()?;
            let bin = Bin::read(&store)?;
            match path {
                None => bin.deleted,
                Some(path) => {
                    let chosen = bin.at_and_below(&store, path, version)?;
                    if chosen.is_empty() {
                        return Err(self.not_kept(path, version));
                    }
                    chosen
                }
            }
        };
        let volume = files::open(self.meta, self.mountpoint, None)?;
        // The oldest first: entries deleted from a directory go before the directory.
        for deleted in &chosen {
            volume.purge(deleted.deleted_ms, deleted.attributes.ino)?;
        }
        volume.close()?;
        Ok(chosen.len() as u64)
    }

    fn not_kept(&self, path: &Path, version: Option<u64>) -> TrashError {
        TrashError::NotKept { meta: self.meta.clone(), path: path.to_owned(), version }
    }

    /// Opens the metadata after the mount has written its latest deletions. A user who may not enter the mount sees a state that is a
    /// moment old.
    fn open_current(&self) -> Result<Store, TrashError> {
        // An fsync of any directory makes all names durable, and so visible to other processes.
        if let Some(mountpoint) = self.mountpoint
            && let Err(error) = File::open(mountpoint).and_then(|root| root.sync_all())
        {
            tracing::debug!(mountpoint = %mountpoint.display(), %error, "the mount could not be asked to write");
        }
        Ok(open_store(self.meta, &Env::system())?)
    }
}

fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::File => "file",
        Kind::Directory => "directory",
        Kind::Symlink => "link",
        Kind::Fifo | Kind::Socket | Kind::CharDevice | Kind::BlockDevice => "special",
    }
}

/// The kept files, the oldest deletion first.
struct Bin {
    deleted: Vec<Deleted>,
    /// By inode, where in that.
    index: BTreeMap<Ino, usize>,
}

impl Bin {
    fn read(store: &Store) -> Result<Self, MetaError> {
        let mut deleted: Vec<Deleted> = Vec::new();
        loop {
            let after = deleted.last().map(|last| (last.deleted_ms, last.attributes.ino));
            let page = store.deleted(after, PAGE)?;
            let is_last = page.len() < PAGE;
            deleted.extend(page);
            if is_last {
                return Ok(Self::of(deleted));
            }
        }
    }

    fn of(deleted: Vec<Deleted>) -> Self {
        let index = deleted.iter().enumerate().map(|(at, deleted)| (deleted.attributes.ino, at)).collect();
        Self { deleted, index }
    }

    fn get(&self, ino: Ino) -> Option<&Deleted> {
        self.index.get(&ino).map(|at| &self.deleted[*at])
    }

    /// The directories that it was in and that are deleted too, the outermost first.
    fn above(&self, deleted: &Deleted) -> Vec<&Deleted> {
        let (mut above, mut seen) = (Vec::new(), BTreeSet::from([deleted.attributes.ino]));
        let mut parent = deleted.parent;
        // Damaged metadata may have directories that are within themselves.
        while let Some(up) = self.get(parent).filter(|up| seen.insert(up.attributes.ino)) {
            above.push(up);
            parent = up.parent;
        }
        above.reverse();
        above
    }

    /// Where it was.
    fn path(&self, store: &Store, deleted: &Deleted) -> Result<Vec<u8>, MetaError> {
        let above = self.above(deleted);
        let top = above.first().map_or(deleted.parent, |top| top.parent);
        // One whose directory is gone for good cannot be brought back, and says so.
        let mut path = store.path_of(top)?.unwrap_or_else(|| b"(deleted)".to_vec());
        for name in above.into_iter().chain([deleted]).map(|deleted| &deleted.name) {
            if path.last() != Some(&b'/') {
                path.push(b'/');
            }
            path.extend(name);
        }
        Ok(path)
    }

    /// The last deleted of a path, or the one of this version.
    fn find(&self, store: &Store, path: &Path, version: Option<u64>) -> Result<Option<&Deleted>, MetaError> {
        let name = path.file_name().map(OsStr::as_bytes);
        let is_version = |deleted: &&Deleted| version.is_none_or(|version| version == deleted.attributes.ino.0);
        let named = self.deleted.iter().rev().filter(|deleted| Some(deleted.name.as_slice()) == name);
        for deleted in named.filter(is_version) {
            if self.path(store, deleted)? == path.as_os_str().as_bytes() {
                return Ok(Some(deleted));
            }
        }
        Ok(None)
    }

    /// Every version of a path, or this one, and everything deleted from below it.
    fn at_and_below(&self, store: &Store, path: &Path, version: Option<u64>) -> Result<Vec<Deleted>, MetaError> {
        let mut chosen = Vec::new();
        for deleted in &self.deleted {
            let at = PathBuf::from(OsStr::from_bytes(&self.path(store, deleted)?));
            let is_chosen = match version {
                Some(version) => at == path && deleted.attributes.ino.0 == version,
                None => at.starts_with(path),
            };
            let is_below = |above: &Deleted| version == Some(above.attributes.ino.0);
            if is_chosen || (at.starts_with(path) && self.above(deleted).into_iter().any(is_below)) {
                chosen.push(deleted.clone());
            }
        }
        Ok(chosen)
    }

    /// What to bring back for one to be back with all that was deleted from it, each after the directory that it is in. Of several
    /// of one name in one directory only the last.
    fn order<'b>(&'b self, wanted: &'b Deleted) -> Vec<&'b Deleted> {
        let mut order = self.above(wanted);
        order.push(wanted);
        let (mut next, mut names) = (order.len() - 1, BTreeSet::new());
        while let Some(directory) = order.get(next).map(|deleted| deleted.attributes.ino) {
            let below = self.deleted.iter().rev().filter(|deleted| deleted.parent == directory);
            order.extend(below.filter(|deleted| names.insert((directory, &deleted.name))));
            next += 1;
        }
        order
    }
}

#[cfg(test)]
#[path = "trash_tests.rs"]
mod tests;
