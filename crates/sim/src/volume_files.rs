//! A program's directory on a volume that this process has open.

use crate::client::{Failure, Files};
use crate::model::{Contents, Found};
use crate::workload::BELOW;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use weft_env::Clock;
use weft_format::Ino;
use weft_format::records::Kind;
use weft_meta::RenameFlags;
use weft_vfs::{AttributeChange, Caller, Capabilities, Handle, VfsError, Volume};

const ROOT: Caller = Caller { uid: 0, gid: 0, groups: Vec::new(), capabilities: Capabilities::all() };

/// See the module's head.
pub struct VolumeFiles<'v> {
    volume: &'v Volume,
    directory: Ino,
    below: Ino,
    clock: Arc<dyn Clock>,
}

impl From<VfsError> for Failure {
    fn from(error: VfsError) -> Self {
        Self::Refused(error.to_string())
    }
}

impl<'v> VolumeFiles<'v> {
    /// The directory of a program, made if it is missing.
    ///
    /// # Errors
    /// The volume's.
    pub fn of_program(volume: &'v Volume, number: usize, clock: &Arc<dyn Clock>) -> Result<Self, VfsError> {
        Self::of(volume, &format!("program{number}"), clock)
    }

    /// A directory of this name, made if it is missing.
    ///
    /// # Errors
    /// The volume's.
    pub fn of(volume: &'v Volume, name: &str, clock: &Arc<dyn Clock>) -> Result<Self, VfsError> {
        let directory = made(volume, Ino::ROOT, name)?;
        let below = made(volume, directory, BELOW)?;
        Ok(Self { volume, directory, below, clock: clock.clone() })
    }

    /// The directory.
    #[must_use]
    pub fn directory(&self) -> Ino {
        self.directory
    }

    /// The directory of a name and the name in it.
    fn place<'n>(&self, name: &'n str) -> (Ino, &'n [u8]) {
        match name.split_once('/') {
            Some((_, name)) => (self.below, name.as_bytes()),
            None => (self.directory, name.as_bytes()),
        }
    }

    fn read_all(&self, handle: Handle) -> Result<Vec<u8>, VfsError> {
        let mut all = Vec::new();
        loop {
            let part = self.volume.read(handle, all.len() as u64, 1 << 20)?;
            if part.is_empty() {
                return Ok(all);
            }
            all.extend_from_slice(&part);
        }
    }

    fn rename_as(&self, from: &str, to: &str, flags: RenameFlags) -> Result<(), Failure> {
        let ((from_parent, from), (to_parent, to)) = (self.place(from), self.place(to));
        Ok(self.volume.rename(from_parent, from, to_parent, to, flags)?)
    }
}

fn made(volume: &Volume, parent: Ino, name: &str) -> Result<Ino, VfsError> {
    match volume.lookup(parent, name.as_bytes()) {
        Ok(attributes) => Ok(attributes.ino),
        Err(_) => Ok(volume.make_node(&ROOT, parent, name.as_bytes(), Kind::Directory, 0o755, 0)?.ino),
    }
}

impl Files for VolumeFiles<'_> {
    type Open = (Ino, Handle);

    fn open(&self, name: &str, is_new: bool) -> Result<Self::Open, Failure> {
        let (parent, name) = self.place(name);
        if is_new {
            let (attributes, handle) = self.volume.create(&ROOT, parent, name, 0o644, libc::O_RDWR)?;
            return Ok((attributes.ino, handle));
        }
        let ino = self.volume.lookup(parent, name)?.ino;
        Ok((ino, self.volume.open(ino, libc::O_RDWR)?))
    }

    fn write(&self, open: &Self::Open, offset: u64, data: &[u8]) -> Result<(), Failure> {
        self.volume.write(open.1, offset, data, false)?;
        Ok(())
    }

    fn fsync(&self, open: &Self::Open) -> Result<(), Failure> {
        Ok(self.volume.fsync(open.1)?)
    }

    fn close(&self, (ino, handle): Self::Open) -> Result<(), Failure> {
        self.volume.release(handle);
        self.volume.forget(ino, 1);
        Ok(())
    }

    fn truncate(&self, name: &str, size: u64) -> Result<(), Failure> {
        let (parent, name) = self.place(name);
        let ino = self.volume.lookup(parent, name)?.ino;
        let change = AttributeChange { size: Some(size), ..AttributeChange::default() };
        let changed = self.volume.set_attributes(ino, &change).map(drop);
        self.volume.forget(ino, 1);
        Ok(changed?)
    }

    fn sync_directory(&self) -> Result<(), Failure> {
        Ok(self.volume.sync_directory(self.directory)?)
    }

    fn unlink(&self, name: &str) -> Result<(), Failure> {
        let (parent, name) = self.place(name);
        Ok(self.volume.unlink(parent, name)?)
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), Failure> {
        self.rename_as(from, to, RenameFlags::default())
    }

    fn exchange(&self, one: &str, other: &str) -> Result<(), Failure> {
        self.rename_as(one, other, RenameFlags { exchange: true, ..RenameFlags::default() })
    }

    fn link(&self, name: &str, new: &str) -> Result<(), Failure> {
        let ((parent, name), (new_parent, new)) = (self.place(name), self.place(new));
        let ino = self.volume.lookup(parent, name)?.ino;
        let linked = self.volume.link(ino, new_parent, new).map(drop);
        self.volume.forget(ino, 1);
        if linked.is_ok() {
            self.volume.forget(ino, 1);
        }
        Ok(linked?)
    }

    fn contents(&self) -> Result<Contents, Failure> {
        let mut found = BTreeMap::new();
        for (directory, prefix) in [(self.directory, ""), (self.below, "below/")] {
            for entry in self.volume.read_directory(directory, 0, 1000)? {
                if matches!(&entry.name[..], b"." | b"..") || entry.attributes.kind == Kind::Directory {
                    continue;
                }
                let handle = self.volume.open(entry.attributes.ino, libc::O_RDONLY)?;
                let bytes = self.read_all(handle);
                self.volume.release(handle);
                let ino = entry.attributes.ino.0;
                found.insert(format!("{prefix}{}", String::from_utf8_lossy(&entry.name)), Found { ino, bytes: bytes? });
            }
        }
        Ok(found)
    }

    fn pause(&self, milliseconds: u64) {
        self.clock.block(Duration::from_millis(milliseconds));
    }
}
