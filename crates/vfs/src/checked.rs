//! A volume as one caller may use it: every operation asks the rules of `access.rs` first.
//!
//! What gateways without a kernel of their own use. Operations on names and attributes ask within the metadata transaction that
//! makes the change, so nobody changes a mode, an owner or a name between the check and the change. Opening, reading and truncating by
//! inode ask just before, as Linux does. A handle keeps the rights that it was opened with.

use crate::access::{self, Caller, CallerGuard, Times, Wanted};
use crate::error::VfsError;
use crate::names::{new_inode, new_symlink};
use crate::request::{AttributeChange, DirectoryEntry, Handle, SetTime, Statfs};
use crate::volume::Volume;
use bytes::Bytes;
use weft_format::Ino;
use weft_format::records::{Attributes, Kind};
use weft_meta::{CAPABILITY_XATTR, MetaError, Owner, RenameFlags, SetAttributes, XattrMode};

/// As on every Linux: the longest path, and the longest target of a symbolic link, with a final NUL.
const PATH_BYTES_MAX: usize = 4096;
const XATTR_NAME_BYTES_MAX: usize = 255;
/// What chmod(2) and creat(2) take of a mode.
const MODE_BITS: u16 = 0o7777;

/// See the module's head. Made by [`Volume::as_caller`].
#[derive(Clone, Copy)]
pub struct Checked<'v> {
    volume: &'v Volume,
    caller: &'v Caller,
}

/// One name of a directory listing, for callers that may list a directory and not search it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryName {
    /// Where a later listing continues.
    pub cookie: u64,
    /// The name; `.` and `..` come first.
    pub name: Vec<u8>,
    /// The inode.
    pub ino: Ino,
    /// What it is.
    pub kind: Kind,
}

fn is_dots(name: &[u8]) -> bool {
    matches!(name, b"." | b"..")
}

impl Volume {
    /// This volume with every operation checked as `caller`'s.
    pub fn as_caller<'v>(&'v self, caller: &'v Caller) -> Checked<'v> {
        Checked { volume: self, caller }
    }
}

impl<'v> Checked<'v> {
    fn guard(&self) -> CallerGuard<'v> {
        CallerGuard(self.caller)
    }

    fn must_be_writable(&self) -> Result<(), VfsError> {
        if self.volume.is_read_only() { Err(VfsError::ReadOnly) } else { Ok(()) }
    }

    fn note_access(&self, ino: Ino) {
        if !self.volume.is_read_only() {
            self.volume.note_access(ino);
        }
    }

    /// `.` and `..` are no names that could be made or taken away: `error` says so, to whoever may search the directory.
    fn refuse_dots(&self, directory: Ino, name: &[u8], error: impl Into<VfsError>) -> Result<(), VfsError> {
        if !is_dots(name) {
            return Ok(());
        }
        self.directory(directory)?;
        Err(error.into())
    }

    /// A directory that the caller may search.
    fn directory(&self, ino: Ino) -> Result<Attributes, VfsError> {
        let directory = self.volume.attributes(ino)?;
        if directory.kind != Kind::Directory {
            return Err(MetaError::NotDirectory.into());
        }
        access::may_search(self.caller, &directory)?;
        Ok(directory)
    }

    /// Finds a name, also `.` and `..`; takes one reference on what it names.
    ///
    /// # Errors
    /// As [`Volume::lookup`]; the caller may not search `parent`.
    pub fn lookup(&self, parent: Ino, name: &[u8]) -> Result<Attributes, VfsError> {
        let found = match name {
            b"." => self.directory(parent)?,
            b".." => self.volume.attributes(self.directory(parent)?.parent)?,
            name => return self.volume.lookup_guarded(&self.guard(), parent, name),
        };
        self.volume.reference(found.ino);
        Ok(found)
    }

    /// Finds what a path from the root directory names; takes one reference on it. No symbolic link is followed: one at the end is
    /// what is found, any other ends the walk.
    ///
    /// # Errors
    /// As [`Checked::lookup`] of each name; `Symlink`; an empty path names nothing.
    pub fn resolve(&self, path: &[u8]) -> Result<Attributes, VfsError> {
        if path.is_empty() {
            return Err(MetaError::NotFound.into());
        }
        if path.len() >= PATH_BYTES_MAX {
            return Err(MetaError::NameTooLong { bytes: path.len() }.into());
        }
        let mut found = self.volume.attributes(Ino::ROOT)?;
        self.volume.reference(found.ino);
        for name in path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
            let next = match found.kind {
                Kind::Symlink => Err(VfsError::Symlink),
                _ => self.lookup(found.ino, name),
            };
            self.volume.forget(found.ino, 1);
            found = next?;
        }
        let refused = match found.kind {
            Kind::Directory => return Ok(found),
            _ if !path.ends_with(b"/") => return Ok(found),
            Kind::Symlink => VfsError::Symlink,
            _ => MetaError::NotDirectory.into(),
        };
        self.volume.forget(found.ino, 1);
        Err(refused)
    }

    /// Gives back `count` references.
    pub fn forget(&self, ino: Ino, count: u64) {
        self.volume.forget(ino, count);
    }

    /// stat(2) of what was looked up: nothing more is asked.
    ///
    /// # Errors
    /// No such inode.
    pub fn attributes(&self, ino: Ino) -> Result<Attributes, VfsError> {
        self.volume.attributes(ino)
    }

    /// access(2), as the caller itself.
    ///
    /// # Errors
    /// It may not; the volume is open for reading only; no such inode.
    pub fn access(&self, ino: Ino, wanted: Wanted) -> Result<(), VfsError> {
        let inode = self.volume.attributes(ino)?;
        if wanted.contains(Wanted::WRITE) && matches!(inode.kind, Kind::File | Kind::Directory | Kind::Symlink) {
            self.must_be_writable()?;
        }
        Ok(access::permits(self.caller, &inode, wanted)?)
    }

    /// A symbolic link's target.
    ///
    /// # Errors
    /// As [`Volume::readlink`].
    pub fn readlink(&self, ino: Ino) -> Result<Vec<u8>, VfsError> {
        let target = self.volume.readlink(ino)?;
        self.note_access(ino);
        Ok(target)
    }

    /// Makes a file that must not exist, and opens it for whatever the flags say. Takes one reference. `mode` has the umask applied.
    ///
    /// # Errors
    /// As [`Checked::make_node`].
    pub fn create(
        &self,
        parent: Ino,
        name: &[u8],
        mode: u16,
        open_flags: i32,
    ) -> Result<(Attributes, Handle), VfsError> {
        self.must_be_writable()?;
        self.refuse_dots(parent, name, MetaError::Exists)?;
        let new = new_inode(self.caller, Kind::File, mode & MODE_BITS, 0);
        self.volume.create_guarded(&self.guard(), parent, name, &new, open_flags & !libc::O_TRUNC)
    }

    /// mknod and mkdir. Takes one reference. `mode` has the umask applied.
    ///
    /// # Errors
    /// As [`Volume::make_node`]; the caller may not write `parent`, or make devices.
    pub fn make_node(
        &self,
        parent: Ino,
        name: &[u8],
        kind: Kind,
        mode: u16,
        rdev: u32,
    ) -> Result<Attributes, VfsError> {
        self.must_be_writable()?;
        self.refuse_dots(parent, name, MetaError::Exists)?;
        if kind == Kind::Symlink {
            return Err(VfsError::Invalid("a symbolic link is made with its target"));
        }
        let new = new_inode(self.caller, kind, mode & MODE_BITS, rdev);
        self.volume.make_guarded(&self.guard(), parent, name, &new)
    }

    /// A symbolic link. Takes one reference.
    ///
    /// # Errors
    /// As [`Checked::make_node`]; a target that is empty or too long.
    pub fn symlink(&self, parent: Ino, name: &[u8], target: &[u8]) -> Result<Attributes, VfsError> {
        if target.is_empty() {
            return Err(MetaError::NotFound.into());
        }
        if target.len() >= PATH_BYTES_MAX {
            return Err(MetaError::NameTooLong { bytes: target.len() }.into());
        }
        self.must_be_writable()?;
        self.refuse_dots(parent, name, MetaError::Exists)?;
        self.volume.make_guarded(&self.guard(), parent, name, &new_symlink(self.caller, target))
    }

    /// A hard link. Takes one reference.
    ///
    /// # Errors
    /// As [`Volume::link`]; the caller may not write `new_parent`; `ino` is a directory, or a file that is not the caller's and that it
    /// may not read and write.
    pub fn link(&self, ino: Ino, new_parent: Ino, new_name: &[u8]) -> Result<Attributes, VfsError> {
        self.must_be_writable()?;
        self.refuse_dots(new_parent, new_name, MetaError::Exists)?;
        self.volume.link_guarded(&self.guard(), ino, new_parent, new_name)
    }

    /// Removes a name.
    ///
    /// # Errors
    /// As [`Volume::unlink`]; the caller may not write `parent`, or not remove this name from a sticky directory.
    pub fn unlink(&self, parent: Ino, name: &[u8]) -> Result<(), VfsError> {
        self.must_be_writable()?;
        self.refuse_dots(parent, name, MetaError::IsDirectory)?;
        self.volume.unlink_guarded(&self.guard(), parent, name)
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// As [`Volume::remove_directory`], and [`Checked::unlink`].
    pub fn remove_directory(&self, parent: Ino, name: &[u8]) -> Result<(), VfsError> {
        self.must_be_writable()?;
        let dot = MetaError::Invalid { what: "`.` cannot be removed" };
        self.refuse_dots(parent, name, if name == b"." { dot } else { MetaError::NotEmpty })?;
        self.volume.remove_directory_guarded(&self.guard(), parent, name)
    }

    /// renameat2(2). A whiteout belongs to the caller.
    ///
    /// # Errors
    /// As [`Volume::rename`]; the caller may not write one of the directories, or the directory that gets another parent; a sticky
    /// directory.
    pub fn rename(
        &self,
        parent: Ino,
        name: &[u8],
        new_parent: Ino,
        new_name: &[u8],
        mut flags: RenameFlags,
    ) -> Result<(), VfsError> {
        self.must_be_writable()?;
        if is_dots(name) || is_dots(new_name) {
            // Both directories are searched before anything is said of a name.
            self.directory(parent)?;
            self.directory(new_parent)?;
            let exists = flags.no_replace && !is_dots(name);
            return Err(if exists { MetaError::Exists.into() } else { VfsError::Dots });
        }
        flags.whiteout = flags.whiteout.map(|_| Owner { uid: self.caller.uid, gid: self.caller.gid });
        self.volume.rename_guarded(&self.guard(), (parent, name), (new_parent, new_name), flags)
    }

    /// chmod, chown, utimens and truncate in one. The owner and the mode that result may have fewer bits than were asked for: what the
    /// caller may not give goes without a word, as it does with Linux.
    ///
    /// # Errors
    /// As [`Volume::set_attributes`]; what only the owner may, or who may write.
    pub fn set_attributes(&self, ino: Ino, change: &AttributeChange) -> Result<Attributes, VfsError> {
        if change.ctime.is_some() || change.clear_suid {
            return Err(VfsError::Invalid("a change time and `clear_suid` are for kernels that have checked already"));
        }
        let inode = self.volume.attributes(ino)?;
        if *change == AttributeChange::default() {
            return Ok(inode);
        }
        self.must_be_writable()?;
        if change.mode.is_some() && inode.kind == Kind::Symlink {
            return Err(VfsError::NotSupported("a mode for a symbolic link"));
        }
        let times = match (change.atime, change.mtime) {
            (None, None) => Times::Kept,
            (Some(SetTime::Now), Some(SetTime::Now)) => Times::Touched,
            _ => Times::Set,
        };
        let rest = AttributeChange { size: None, mode: change.mode.map(|mode| mode & MODE_BITS), ..*change };
        let decide = |old: &Attributes, set: SetAttributes| Ok(access::may_change(self.caller, old, &set, times)?);
        // Everything is checked before anything is changed; what comes second is checked again then.
        let asked = SetAttributes { mode: rest.mode, uid: rest.uid, gid: rest.gid, ..SetAttributes::default() };
        decide(&inode, asked)?;
        if let Some(size) = change.size {
            match inode.kind {
                Kind::File => access::permits(self.caller, &inode, Wanted::WRITE)?,
                Kind::Directory => return Err(MetaError::IsDirectory.into()),
                _ => return Err(VfsError::Invalid("only regular files have a size to set")),
            }
            self.cut(ino, size)?;
        }
        let changed = self.volume.change_attributes(ino, &rest, decide)?;
        changed.map_or_else(|| self.volume.attributes(ino), Ok)
    }

    /// The bits that a write takes away.
    fn clear_set_id(&self, ino: Ino) -> Result<(), VfsError> {
        self.volume.change_mode(ino, |inode| access::mode_after_write(self.caller, inode))
    }

    fn cut(&self, ino: Ino, size: u64) -> Result<(), VfsError> {
        self.clear_set_id(ino)?;
        self.volume.truncate(ino, size, false)?;
        Ok(())
    }

    /// Opens a regular file; `O_TRUNC`, `O_SYNC` and `O_NOATIME` are honoured.
    ///
    /// # Errors
    /// As [`Volume::open`]; the caller may not; a symbolic link, directory, pipe, socket or device.
    pub fn open(&self, ino: Ino, open_flags: i32) -> Result<Handle, VfsError> {
        let inode = self.volume.attributes(ino)?;
        let writes = access::wanted_by_open(open_flags).contains(Wanted::WRITE);
        match inode.kind {
            Kind::Symlink => return Err(VfsError::Symlink),
            Kind::Directory if writes => return Err(MetaError::IsDirectory.into()),
            Kind::File if writes => self.must_be_writable()?,
            _ => {}
        }
        access::may_open(self.caller, &inode, open_flags)?;
        match inode.kind {
            Kind::File => {}
            Kind::Directory => return Err(MetaError::IsDirectory.into()),
            _ => return Err(VfsError::NoBytes),
        }
        let handle = self.volume.open(ino, open_flags & !libc::O_TRUNC)?;
        if open_flags & libc::O_TRUNC != 0
            && let Err(error) = self.cut(ino, 0)
        {
            self.volume.release(handle);
            return Err(error);
        }
        if self.volume.open_file(handle)?.reads() && open_flags & libc::O_NOATIME == 0 {
            self.note_access(ino);
        }
        Ok(handle)
    }

    /// A handle that is open for writing, and the file.
    fn written(&self, handle: Handle) -> Result<Ino, VfsError> {
        let open = self.volume.open_file(handle)?;
        if open.writes() { Ok(open.ino()) } else { Err(VfsError::BadHandle(handle.0)) }
    }

    /// Reads through a handle that was opened for it.
    ///
    /// # Errors
    /// As [`Volume::read`].
    pub fn read(&self, handle: Handle, offset: u64, bytes: u32) -> Result<Bytes, VfsError> {
        if !self.volume.open_file(handle)?.reads() {
            return Err(VfsError::BadHandle(handle.0));
        }
        self.volume.read(handle, offset, bytes)
    }

    /// Writes through a handle that was opened for it. Set-user-id and set-group-id are cleared as Linux does it.
    ///
    /// # Errors
    /// As [`Volume::write`].
    pub fn write(&self, handle: Handle, offset: u64, data: &[u8]) -> Result<u32, VfsError> {
        let ino = self.written(handle)?;
        if !data.is_empty() {
            self.clear_set_id(ino)?;
        }
        self.volume.write(handle, offset, data, false)
    }

    /// ftruncate(2).
    ///
    /// # Errors
    /// The handle was not opened for writing; too large.
    pub fn truncate(&self, handle: Handle, size: u64) -> Result<(), VfsError> {
        let ino = self.written(handle).map_err(|error| match error {
            VfsError::BadHandle(_) => VfsError::Invalid("the handle was not opened for writing"),
            error => error,
        })?;
        self.cut(ino, size)
    }

    /// fallocate(2).
    ///
    /// # Errors
    /// As [`Volume::allocate`]; the handle was not opened for writing.
    pub fn allocate(&self, handle: Handle, offset: u64, length: u64, mode: i32) -> Result<(), VfsError> {
        let ino = self.written(handle)?;
        self.clear_set_id(ino)?;
        self.volume.allocate(handle, offset, length, mode, false)
    }

    /// lseek(2) with `SEEK_DATA` or `SEEK_HOLE`.
    ///
    /// # Errors
    /// As [`Volume::seek`].
    pub fn seek(&self, handle: Handle, offset: u64, whence: i32) -> Result<u64, VfsError> {
        self.volume.seek(handle, offset, whence)
    }

    /// A handle's descriptor is closed.
    ///
    /// # Errors
    /// As [`Volume::flush`].
    pub fn flush(&self, handle: Handle) -> Result<(), VfsError> {
        self.volume.flush(handle)
    }

    /// The file's bytes and size are durable when it returns.
    ///
    /// # Errors
    /// As [`Volume::fsync`].
    pub fn fsync(&self, handle: Handle) -> Result<(), VfsError> {
        self.volume.fsync(handle)
    }

    /// The last descriptor of a handle is gone.
    pub fn release(&self, handle: Handle) {
        self.volume.release(handle);
    }

    /// A directory that the caller may use so.
    fn opened_directory(&self, ino: Ino, wanted: Wanted) -> Result<(), VfsError> {
        let directory = self.volume.attributes(ino)?;
        if directory.kind != Kind::Directory {
            return Err(MetaError::NotDirectory.into());
        }
        Ok(access::permits(self.caller, &directory, wanted)?)
    }

    /// Entries with their attributes, as [`Volume::read_directory`] gives them. Seeing attributes takes the right to search.
    ///
    /// # Errors
    /// As there; the caller may not read and search the directory.
    pub fn read_directory(&self, ino: Ino, after_cookie: u64, limit: usize) -> Result<Vec<DirectoryEntry>, VfsError> {
        self.opened_directory(ino, Wanted::READ | Wanted::EXECUTE)?;
        self.listed(ino, after_cookie, limit)
    }

    /// Names only, which takes no right to search.
    ///
    /// # Errors
    /// As [`Volume::read_directory`]; the caller may not read the directory.
    pub fn read_names(&self, ino: Ino, after_cookie: u64, limit: usize) -> Result<Vec<DirectoryName>, VfsError> {
        self.opened_directory(ino, Wanted::READ)?;
        let entries = self.listed(ino, after_cookie, limit)?.into_iter();
        let named = |DirectoryEntry { cookie, name, attributes: Attributes { ino, kind, .. } }| DirectoryName {
            cookie,
            name,
            ino,
            kind,
        };
        Ok(entries.map(named).collect())
    }

    fn listed(&self, ino: Ino, after_cookie: u64, limit: usize) -> Result<Vec<DirectoryEntry>, VfsError> {
        if after_cookie == 0 {
            self.note_access(ino);
        }
        self.volume.read_directory(ino, after_cookie, limit)
    }

    /// Every change of this directory so far is durable.
    ///
    /// # Errors
    /// As [`Volume::sync_directory`]; the caller may not read the directory.
    pub fn sync_directory(&self, ino: Ino) -> Result<(), VfsError> {
        self.opened_directory(ino, Wanted::READ)?;
        self.volume.sync_directory(ino)
    }

    /// A name that can be an extended attribute's.
    fn check_xattr_name(name: &[u8]) -> Result<(), VfsError> {
        if (1..=XATTR_NAME_BYTES_MAX).contains(&name.len()) { Ok(()) } else { Err(VfsError::XattrName) }
    }

    /// What is said of a name to those who may use it.
    fn must_be_kept(name: &[u8]) -> Result<(), VfsError> {
        if !access::is_kept_xattr(name) {
            return Err(VfsError::NotSupported("extended attributes of this namespace"));
        }
        if name.ends_with(b".") && name.iter().filter(|byte| **byte == b'.').count() == 1 {
            return Err(VfsError::Invalid("an extended attribute has a name after its namespace"));
        }
        Ok(())
    }

    /// An extended attribute.
    ///
    /// # Errors
    /// As [`Volume::get_xattr`] and getxattr(2).
    pub fn get_xattr(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>, VfsError> {
        Self::check_xattr_name(name)?;
        access::may_read_xattr(self.caller, &self.volume.attributes(ino)?, name)?;
        Self::must_be_kept(name)?;
        self.volume.get_xattr(ino, name)
    }

    fn may_change_xattr(&self, ino: Ino, name: &[u8]) -> Result<(), VfsError> {
        access::may_change_xattr(self.caller, &self.volume.attributes(ino)?, name)?;
        Self::must_be_kept(name)
    }

    /// Sets an extended attribute; the volume's own are [`Volume::set_xattr`]'s.
    ///
    /// # Errors
    /// As there and setxattr(2).
    pub fn set_xattr(&self, ino: Ino, name: &[u8], value: &[u8], mode: XattrMode) -> Result<(), VfsError> {
        Self::check_xattr_name(name)?;
        self.must_be_writable()?;
        if name == CAPABILITY_XATTR && !access::is_capability(value) {
            return Err(VfsError::Invalid("these are no file capabilities"));
        }
        self.may_change_xattr(ino, name)?;
        self.volume.set_xattr_guarded(&self.guard(), self.caller, ino, (name, value), mode)
    }

    /// The names of the extended attributes that the caller sees.
    ///
    /// # Errors
    /// No such inode.
    pub fn list_xattrs(&self, ino: Ino) -> Result<Vec<Vec<u8>>, VfsError> {
        let mut names = self.volume.list_xattrs(ino)?;
        names.retain(|name| access::lists_xattr(self.caller, name));
        Ok(names)
    }

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// As [`Volume::remove_xattr`] and removexattr(2).
    pub fn remove_xattr(&self, ino: Ino, name: &[u8]) -> Result<(), VfsError> {
        Self::check_xattr_name(name)?;
        self.must_be_writable()?;
        self.may_change_xattr(ino, name)?;
        self.volume.remove_xattr_guarded(&self.guard(), ino, name)
    }

    /// Room; anybody may ask.
    ///
    /// # Errors
    /// As [`Volume::statfs`].
    pub fn statfs(&self) -> Result<Statfs, VfsError> {
        self.volume.statfs()
    }
}
