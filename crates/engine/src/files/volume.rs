//! A volume as a tree, without a mount.

use super::error::{at, refused};
use super::{Attributes, Entry, FilesError, Result, Sink, Tree};
use crate::engine::Engine;
use rustix::fs::OFlags;
use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weft_format::Ino;
use weft_format::records::{Attributes as Inode, Kind};
use weft_meta::RenameFlags;
use weft_vfs::{AttributeChange, Caller, Handle, POLICY_XATTR, SetTime, VfsError, Volume};

/// There is no such name.
pub(super) const ENOENT: i32 = rustix::io::Errno::NOENT.raw_os_error();

/// Used as the number of the file system; no mounted one has it.
const VOLUME_ID: u64 = u64::MAX;

/// The mode of new files until theirs is set.
const NEW_FILE_MODE: u16 = 0o600;
const NEW_DIRECTORY_MODE: u16 = 0o700;

/// Directory entries asked for at once.
const LIST_COUNT: usize = 1024;

/// The files of a volume that this process owns.
pub struct VolumeTree {
    engine: Engine,
    caller: Caller,
}

impl VolumeTree {
    /// As the user of this process.
    #[must_use]
    pub fn new(engine: Engine) -> Self {
        let caller = Caller::new(rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        Self { engine, caller }
    }

    /// The volume itself.
    #[must_use]
    pub fn volume(&self) -> &Volume {
        self.engine.volume()
    }

    /// The inode at a path. Its reference is released at once: nothing else removes anything meanwhile.
    fn find(&self, path: &Path) -> Result<Option<Inode>> {
        let mut found = self.volume().attributes(Ino::ROOT)?;
        for name in path.strip_prefix("/").unwrap_or(path) {
            found = match self.volume().lookup(found.ino, name.as_bytes()) {
                Ok(attributes) => attributes,
                Err(error) if error.errno() == ENOENT => return Ok(None),
                Err(error) => return Err(at(path)(error)),
            };
            self.volume().forget(found.ino, 1);
        }
        Ok(Some(found))
    }

    fn require(&self, path: &Path) -> Result<Inode> {
        self.find(path)?.ok_or_else(|| FilesError::Missing(path.to_owned()))
    }

    /// The directory that a path's last name is in, and that name.
    fn parent<'a>(&self, path: &'a Path) -> Result<(Ino, &'a OsStr)> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return refused("the root directory itself cannot be changed: name an entry in it".to_owned());
        };
        Ok((self.require(parent)?.ino, name))
    }

    fn make(&self, path: &Path, kind: Kind, mode: u16) -> Result<Ino> {
        let (parent, name) = self.parent(path)?;
        let made = self.volume().make_node(&self.caller, parent, name.as_bytes(), kind, mode, 0);
        let made = made.map_err(at(path))?;
        self.volume().forget(made.ino, 1);
        Ok(made.ino)
    }
}

impl Tree for VolumeTree {
    fn entry(&self, path: &Path) -> Result<Option<Entry>> {
        Ok(self.find(path)?.as_ref().map(entry))
    }

    fn list(&self, directory: &Path) -> Result<Vec<(OsString, Entry)>> {
        let ino = self.require(directory)?.ino;
        let mut entries = Vec::new();
        let mut after = 0;
        loop {
            let page = self.volume().read_directory(ino, after, LIST_COUNT);
            let page = page.map_err(at(directory))?;
            let Some(last) = page.last() else { break };
            after = last.cookie;
            let named = page.into_iter().map(|child| (OsString::from_vec(child.name), entry(&child.attributes)));
            entries.extend(named.filter(|(name, _)| name != "." && name != ".."));
        }
        entries.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(entries)
    }

    fn read_link(&self, path: &Path) -> Result<PathBuf> {
        let target = self.volume().readlink(self.require(path)?.ino);
        Ok(OsString::from_vec(target.map_err(at(path))?).into())
    }

    fn read(&self, path: &Path) -> Result<Box<dyn Read + '_>> {
        let ino = self.require(path)?.ino;
        let handle = self.volume().open(ino, OFlags::RDONLY.bits().cast_signed()).map_err(at(path))?;
        Ok(Box::new(Stream::new(self.engine.volume(), ino, handle, path)))
    }

    fn make_file(&self, path: &Path) -> Result<Box<dyn Sink + '_>> {
        let ino = self.make(path, Kind::File, NEW_FILE_MODE)?;
        let handle = self.volume().open(ino, OFlags::WRONLY.bits().cast_signed()).map_err(at(path))?;
        Ok(Box::new(Stream::new(self.engine.volume(), ino, handle, path)))
    }

    fn make_directory(&self, path: &Path) -> Result<()> {
        self.make(path, Kind::Directory, NEW_DIRECTORY_MODE).map(drop)
    }

    fn make_link(&self, path: &Path, target: &Path) -> Result<()> {
        let (parent, name) = self.parent(path)?;
        let target = target.as_os_str().as_bytes();
        let made = self.volume().symlink(&self.caller, parent, name.as_bytes(), target);
        self.volume().forget(made.map_err(at(path))?.ino, 1);
        Ok(())
    }

    fn make_special(&self, path: &Path, kind: Kind) -> Result<()> {
        if kind != Kind::Fifo {
            return refused(format!("{}: devices and sockets are not copied: leave them out", path.display()));
        }
        self.make(path, kind, NEW_FILE_MODE).map(drop)
    }

    fn set(&self, path: &Path, attributes: &Attributes) -> Result<()> {
        let set = self.volume().set_attributes(self.require(path)?.ino, &change_of(attributes));
        set.map(drop).map_err(at(path))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let ((parent, name), (new_parent, new_name)) = (self.parent(from)?, self.parent(to)?);
        let flags = RenameFlags::default();
        let renamed = self.volume().rename(parent, name.as_bytes(), new_parent, new_name.as_bytes(), flags);
        renamed.map_err(at(to))
    }

    fn remove(&self, path: &Path, kind: Kind) -> Result<()> {
        let (parent, name) = self.parent(path)?;
        let removed = match kind {
            Kind::Directory => self.volume().remove_directory(parent, name.as_bytes()),
            _ => self.volume().unlink(parent, name.as_bytes()),
        };
        removed.map_err(at(path))
    }

    fn policy(&self, path: &Path) -> Result<String> {
        let policy = self.volume().get_xattr(self.require(path)?.ino, POLICY_XATTR);
        let policy = String::from_utf8(policy.map_err(at(path))?);
        policy.or_else(|_| refused(format!("{}: its policy is not text: run `weft fsck`", path.display())))
    }

    fn set_policy(&self, path: &Path, policy: &str) -> Result<()> {
        let ino = self.require(path)?.ino;
        self.volume().set_policy(ino, policy).map_err(at(path))
    }

    fn restore(&self, deleted_ms: u64, ino: Ino) -> Result<()> {
        self.volume().restore(deleted_ms, ino)?;
        Ok(())
    }

    fn purge(&self, deleted_ms: u64, ino: Ino) -> Result<()> {
        Ok(self.volume().purge(deleted_ms, ino)?)
    }

    fn is_volume(&self) -> bool {
        true
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.engine.close()?)
    }
}

/// A file of a volume, read or written from its beginning.
struct Stream {
    volume: Arc<Volume>,
    ino: Ino,
    handle: Handle,
    offset: u64,
    path: PathBuf,
}

impl Stream {
    fn new(volume: &Arc<Volume>, ino: Ino, handle: Handle, path: &Path) -> Self {
        Self { volume: Arc::clone(volume), ino, handle, offset: 0, path: path.to_path_buf() }
    }

    /// The volume's sentence and the file it is about.
    fn fault(&self, error: &VfsError) -> io::Error {
        io::Error::other(format!("{}: {error}", self.path.display()))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.volume.release(self.handle);
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = u32::try_from(buffer.len()).unwrap_or(u32::MAX);
        let bytes = self.volume.read(self.handle, self.offset, most).map_err(|error| self.fault(&error))?;
        buffer[..bytes.len()].copy_from_slice(&bytes);
        self.offset += bytes.len() as u64;
        Ok(bytes.len())
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.volume.write(self.handle, self.offset, bytes, false);
        let written = written.map_err(|error| self.fault(&error))?;
        self.offset += u64::from(written);
        Ok(written as usize)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Sink for Stream {
    fn skip(&mut self, bytes: u64) -> Result<()> {
        self.offset += bytes;
        let change = AttributeChange { size: Some(self.offset), ..AttributeChange::default() };
        self.volume.set_attributes(self.ino, &change).map_err(|error| self.fault(&error))?;
        Ok(())
    }

    fn finish(self: Box<Self>, attributes: &Attributes) -> Result<()> {
        // Durable when the tree is closed; a failure of these very bytes is told now.
        self.volume.flush(self.handle).map_err(|error| self.fault(&error))?;
        let set = self.volume.set_attributes(self.ino, &change_of(attributes));
        Ok(set.map(drop).map_err(|error| self.fault(&error))?)
    }
}

fn change_of(attributes: &Attributes) -> AttributeChange {
    AttributeChange {
        mode: (attributes.kind != Kind::Symlink).then_some(attributes.mode),
        uid: attributes.owner.map(|(uid, _)| uid),
        gid: attributes.owner.map(|(_, gid)| gid),
        mtime: Some(SetTime::To(attributes.modified)),
        ..AttributeChange::default()
    }
}

/// The attributes of an inode, as a tree reports them.
pub(super) fn entry(attributes: &Inode) -> Entry {
    Entry {
        id: (VOLUME_ID, attributes.ino.0),
        kind: attributes.kind,
        mode: attributes.mode,
        uid: attributes.uid,
        gid: attributes.gid,
        nlink: attributes.nlink,
        size: attributes.size,
        modified: attributes.mtime,
    }
}
