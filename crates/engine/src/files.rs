//! Trees of files: a folder of this machine, or a volume with or without a mount; and copying between them.
//!
//! A volume that is mounted is walked through its mount, since it has only one owner; so copying into a volume goes from a folder to a
//! folder or to a volume, copying out of it the other way, and both are [`copy`].
//!
//! A tree is not trusted: names that lead elsewhere are refused, symbolic links are never followed, and a directory that contains itself
//! ends a walk with an error.

mod copy;
mod error;
mod folder;
pub mod policies;
mod reading;
mod volume;
mod walk;

pub use copy::{Copying, Progress, copy, copy_bytes};
pub use error::{FilesError, Result};
pub use folder::FolderTree;
pub use reading::ReaderTree;
pub use volume::VolumeTree;
pub use walk::{Visit, Walk};

use crate::VolumeSettings;
use crate::engine::{Engine, Options};
use error::refused;
use rustix::fs::Access;
use std::ffi::OsString;
use std::io::{Read, Write};
use std::num::NonZeroU64;
use std::path::{Component, Path, PathBuf};
use weft_env::{Env, SystemClock};
use weft_format::Ino;
use weft_format::records::{Kind, Timestamp};
use weft_meta::MetaUrl;
use weft_meta::owner::Role;
use weft_transfer::Settings;

/// Which inode of which file system something is.
pub type FileId = (u64, u64);

/// The attributes of one file in a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The same for all its names.
    pub id: FileId,
    /// File, directory, and so on.
    pub kind: Kind,
    /// Permission bits, setuid, setgid, sticky.
    pub mode: u16,
    /// Its owner.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Names that it has.
    pub nlink: u32,
    /// Bytes.
    pub size: u64,
    /// When its bytes were changed last.
    pub modified: Timestamp,
}

/// Attributes that a file, a directory or a link gets after it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Its kind.
    pub kind: Kind,
    /// Not of links.
    pub mode: u16,
    /// User and group; without them those of its creation stay.
    pub owner: Option<(u32, u32)>,
    /// When its bytes were changed last.
    pub modified: Timestamp,
}

/// A file being written. Dropped without [`Sink::finish`], it keeps the bytes written so far.
pub trait Sink: Write {
    /// Skips this many bytes; the gap reads as zeros and takes no room.
    ///
    /// # Errors
    /// The file cannot be that long.
    fn skip(&mut self, bytes: u64) -> Result<()>;
    /// Everything written is in the file, which is given these attributes, whatever has its name by now.
    ///
    /// # Errors
    /// The bytes or attributes cannot be stored.
    fn finish(self: Box<Self>, attributes: &Attributes) -> Result<()>;
}

/// A tree of files. Paths are absolute; symbolic links are never followed. Errors name the path.
pub trait Tree {
    /// The entry at a path; `None`: there is none.
    fn entry(&self, path: &Path) -> Result<Option<Entry>>;
    /// The entries of a directory by name, sorted.
    fn list(&self, directory: &Path) -> Result<Vec<(OsString, Entry)>>;
    /// A symbolic link's target.
    fn read_link(&self, path: &Path) -> Result<PathBuf>;
    /// A file's bytes.
    fn read(&self, path: &Path) -> Result<Box<dyn Read + '_>>;
    /// Makes a file that only its owner may read, under a name that nothing has.
    fn make_file(&self, path: &Path) -> Result<Box<dyn Sink + '_>>;
    /// Makes a directory that only its owner may enter.
    fn make_directory(&self, path: &Path) -> Result<()>;
    /// Makes a symbolic link.
    fn make_link(&self, path: &Path, target: &Path) -> Result<()>;
    /// Makes a pipe, a socket or a device that only its owner may open; refused where it cannot be.
    fn make_special(&self, path: &Path, kind: Kind) -> Result<()>;
    /// Gives it owner, mode and modification time.
    fn set(&self, path: &Path, attributes: &Attributes) -> Result<()>;
    /// Renames the entry at `from` to `to`; it replaces a file of that name atomically.
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;
    /// Removes a file or an empty directory.
    fn remove(&self, path: &Path, kind: Kind) -> Result<()>;
    /// The policy for new entries of a directory, or for data written to a file; as `weft_vfs::policy_for` reads it.
    fn policy(&self, path: &Path) -> Result<String>;
    /// Chooses it.
    fn set_policy(&self, path: &Path, policy: &str) -> Result<()>;
    /// Restores a file that was deleted at this many milliseconds since the Unix epoch.
    fn restore(&self, deleted_ms: u64, ino: Ino) -> Result<()>;
    /// Is it a volume? Then files have policies, and a directory has one name.
    fn is_volume(&self) -> bool;
    /// Purges a deleted file for good.
    fn purge(&self, deleted_ms: u64, ino: Ino) -> Result<()>;
    /// Ends the walk: everything changed is durable.
    fn close(self: Box<Self>) -> Result<()>;
}

/// The tree of the volume of `meta` for reading: through its mount on this machine if there is one that this user may enter, else
/// directly, which needs no ownership. `bwlimit` is bytes a second.
///
/// # Errors
/// Metadata is missing, not ours or of another format; a node of it cannot be opened by this program.
pub fn open_to_read(meta: &MetaUrl, mountpoint: Option<&Path>, bwlimit: Option<NonZeroU64>) -> Result<Box<dyn Tree>> {
    let may_enter = |mountpoint: &Path| rustix::fs::access(mountpoint, Access::READ_OK | Access::EXEC_OK).is_ok();
    if mountpoint.is_some_and(may_enter) {
        return open(meta, mountpoint, bwlimit);
    }
    let settings = Settings { bytes_per_second: bwlimit, ..Settings::default() };
    Ok(Box::new(ReaderTree::open(meta, settings)?))
}

/// The tree of the volume of `meta`: through its mount on this machine if there is one, else directly. `bwlimit` is bytes a second; a
/// mount has its own.
///
/// # Errors
/// As of [`open_to_read`]; another process owns the volume; a limit for a mount.
pub fn open(meta: &MetaUrl, mountpoint: Option<&Path>, bwlimit: Option<NonZeroU64>) -> Result<Box<dyn Tree>> {
    let Some(mountpoint) = mountpoint else {
        let transfer = Settings { bytes_per_second: bwlimit, ..Settings::default() };
        // Together with mounts on other machines, if there are any.
        let volume = VolumeSettings { is_shared: has_members(meta), ..VolumeSettings::default() };
        let engine = Engine::open(meta, &Env::system(), Options { transfer, volume, ..Options::default() })?;
        return Ok(Box::new(VolumeTree::new(engine)));
    };
    if bwlimit.is_some() {
        return refused(format!(
            "{meta} is mounted, and its mount moves the bytes: limit that, with `weft mount --bwlimit`"
        ));
    }
    Ok(Box::new(FolderTree::of_mount(mountpoint.to_owned())?))
}

/// Do processes change the volume together?
fn has_members(meta: &MetaUrl) -> bool {
    let sessions = meta.has_sessions().then(|| meta.sessions(&SystemClock).ok()).flatten();
    sessions.is_some_and(|sessions| sessions.iter().any(|session| session.role == Role::Member))
}

/// A path in a volume as commands take it: absolute, `dir` meaning `/dir`.
///
/// # Errors
/// It has a `..`.
pub fn volume_path(text: &Path) -> Result<PathBuf> {
    let mut path = PathBuf::from("/");
    for component in text.components() {
        match component {
            Component::RootDir | Component::CurDir => {}
            Component::Normal(name) => path.push(name),
            _ => {
                let text = text.display();
                return refused(format!(
                    "{text}: `..` has no meaning in a path of a volume: write the path without it"
                ));
            }
        }
    }
    Ok(path)
}

/// The entry at a path that must exist.
///
/// # Errors
/// [`FilesError::Missing`], or the tree cannot be read.
pub fn require(tree: &dyn Tree, path: &Path) -> Result<Entry> {
    tree.entry(path)?.ok_or_else(|| FilesError::Missing(path.to_owned()))
}

/// Removes it and everything below.
///
/// # Errors
/// An entry cannot be removed; the rest stays.
pub fn remove_all(tree: &dyn Tree, path: &Path) -> Result<()> {
    let mut walk = Walk::new(tree, path)?;
    while let Some((visit, path, entry)) = walk.step()? {
        match visit {
            Visit::Enter => {}
            Visit::Leave => tree.remove(&path, Kind::Directory)?,
            Visit::Other => tree.remove(&path, entry.kind)?,
        }
    }
    Ok(())
}
