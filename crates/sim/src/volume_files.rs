//! A program's directory on a volume that this process has open.

use crate::client::{Failure, Files, NOTE, Programs};
use crate::model::{self, Contents, Found};
use crate::workload::BELOW;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use weft_env::Clock;
use weft_format::Ino;
use weft_format::records::{Attributes, Kind};
use weft_meta::{MetaError, RenameFlags, XattrMode};
use weft_vfs::{AttributeChange, Caller, Capabilities, Handle, VfsError, Volume};

const ROOT: Caller = Caller { uid: 0, gid: 0, groups: Vec::new(), capabilities: Capabilities::all() };

/// See the module's head.
pub struct VolumeFiles<'v> {
    volume: &'v Volume,
    directory: Ino,
    below: Ino,
    /// Are there directories, symbolic links and attributes, too?
    has_tree: bool,
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
    pub fn of_program(
        volume: &'v Volume,
        programs: &Programs,
        number: usize,
        clock: &Arc<dyn Clock>,
    ) -> Result<Self, VfsError> {
        let files = Self::of(volume, &format!("program{number}"), clock)?;
        Ok(Self { has_tree: programs.have_trees, ..files })
    }

    /// A directory of this name, made if it is missing.
    ///
    /// # Errors
    /// The volume's.
    pub fn of(volume: &'v Volume, name: &str, clock: &Arc<dyn Clock>) -> Result<Self, VfsError> {
        let directory = made(volume, Ino::ROOT, name)?;
        let below = made(volume, directory, BELOW)?;
        Ok(Self { volume, directory, below, has_tree: false, clock: clock.clone() })
    }

    /// The directory.
    #[must_use]
    pub fn directory(&self) -> Ino {
        self.directory
    }

    /// Does something in the directory of a name, with the name in it.
    fn at<T>(&self, name: &str, work: impl FnOnce(Ino, &[u8]) -> Result<T, VfsError>) -> Result<T, VfsError> {
        let Some((directory, name)) = name.rsplit_once('/') else { return work(self.directory, name.as_bytes()) };
        if directory == BELOW {
            return work(self.below, name.as_bytes());
        }
        let mut parents = vec![self.directory];
        let found = directory.split('/').try_for_each(|part| {
            let parent = *parents.last().expect("there is the first");
            parents.push(self.volume.lookup(parent, part.as_bytes())?.ino);
            Ok(())
        });
        let done = found.and_then(|()| work(*parents.last().expect("there is the first"), name.as_bytes()));
        parents[1..].iter().for_each(|parent| self.volume.forget(*parent, 1));
        done
    }

    /// Does something with what a name is that of.
    fn with<T>(&self, name: &str, work: impl FnOnce(&Attributes) -> Result<T, VfsError>) -> Result<T, VfsError> {
        let found = self.at(name, |parent, name| self.volume.lookup(parent, name))?;
        let done = work(&found);
        self.volume.forget(found.ino, 1);
        done
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
        Ok(self.at(from, |from_parent, from| {
            self.at(to, |to_parent, to| self.volume.rename(from_parent, from, to_parent, to, flags))
        })?)
    }

    fn change(&self, name: &str, change: &AttributeChange) -> Result<(), Failure> {
        Ok(self.with(name, |found| self.volume.set_attributes(found.ino, change).map(drop))?)
    }

    /// What a directory has and the directories in it, whose names begin with `prefix`.
    fn add_contents(&self, directory: Ino, prefix: &str, found: &mut Contents) -> Result<(), VfsError> {
        for entry in self.volume.read_directory(directory, 0, 1000)? {
            let name = format!("{prefix}{}", String::from_utf8_lossy(&entry.name));
            if matches!(&entry.name[..], b"." | b"..") || name == BELOW {
                continue;
            }
            let ino = entry.attributes.ino;
            let (kind, bytes) = match entry.attributes.kind {
                Kind::Directory => (model::Kind::Directory, Vec::new()),
                Kind::Symlink => (model::Kind::Symlink, self.volume.readlink(ino)?),
                _ => (model::Kind::File, self.read_file(ino)?),
            };
            let note = if self.has_tree { self.note(ino)? } else { None };
            let attributes = model::Attributes { mode: entry.attributes.mode, note };
            let links = u64::from(entry.attributes.nlink);
            if kind == model::Kind::Directory {
                self.add_contents(ino, &format!("{name}/"), found)?;
            }
            found.insert(name, Found { ino: ino.0, kind, attributes, links, bytes });
        }
        Ok(())
    }

    fn read_file(&self, ino: Ino) -> Result<Vec<u8>, VfsError> {
        let handle = self.volume.open(ino, libc::O_RDONLY)?;
        let bytes = self.read_all(handle);
        self.volume.release(handle);
        bytes
    }

    fn note(&self, ino: Ino) -> Result<Option<Vec<u8>>, VfsError> {
        match self.volume.get_xattr(ino, NOTE.as_bytes()) {
            Ok(note) => Ok(Some(note)),
            Err(VfsError::Meta(MetaError::NoAttribute)) => Ok(None),
            Err(error) => Err(error),
        }
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
        if is_new {
            let create = |parent, name: &[u8]| self.volume.create(&ROOT, parent, name, 0o644, libc::O_RDWR);
            let (attributes, handle) = self.at(name, create)?;
            return Ok((attributes.ino, handle));
        }
        let ino = self.at(name, |parent, name| self.volume.lookup(parent, name))?.ino;
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
        self.change(name, &AttributeChange { size: Some(size), ..AttributeChange::default() })
    }

    fn sync_directory(&self) -> Result<(), Failure> {
        Ok(self.volume.sync_directory(self.directory)?)
    }

    fn unlink(&self, name: &str) -> Result<(), Failure> {
        Ok(self.at(name, |parent, name| self.volume.unlink(parent, name))?)
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), Failure> {
        self.rename_as(from, to, RenameFlags::default())
    }

    fn exchange(&self, one: &str, other: &str) -> Result<(), Failure> {
        self.rename_as(one, other, RenameFlags { exchange: true, ..RenameFlags::default() })
    }

    fn link(&self, name: &str, new: &str) -> Result<(), Failure> {
        Ok(self.with(name, |found| {
            self.at(new, |parent, new| self.volume.link(found.ino, parent, new))?;
            self.volume.forget(found.ino, 1);
            Ok(())
        })?)
    }

    fn make_directory(&self, name: &str) -> Result<(), Failure> {
        let make = |parent, name: &[u8]| self.volume.make_node(&ROOT, parent, name, Kind::Directory, 0o755, 0);
        let made = self.at(name, make)?;
        self.volume.forget(made.ino, 1);
        Ok(())
    }

    fn remove_directory(&self, name: &str) -> Result<(), Failure> {
        Ok(self.at(name, |parent, name| self.volume.remove_directory(parent, name))?)
    }

    fn symlink(&self, name: &str, target: &str) -> Result<(), Failure> {
        let made = self.at(name, |parent, name| self.volume.symlink(&ROOT, parent, name, target.as_bytes()))?;
        self.volume.forget(made.ino, 1);
        Ok(())
    }

    fn set_mode(&self, name: &str, mode: u16) -> Result<(), Failure> {
        self.change(name, &AttributeChange { mode: Some(mode), ..AttributeChange::default() })
    }

    fn set_note(&self, name: &str, value: &[u8]) -> Result<(), Failure> {
        let set = |found: &Attributes| self.volume.set_xattr(&ROOT, found.ino, NOTE.as_bytes(), value, XattrMode::Any);
        Ok(self.with(name, set)?)
    }

    fn punch(&self, open: &Self::Open, offset: u64, length: u64) -> Result<(), Failure> {
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        Ok(self.volume.allocate(open.1, offset, length, mode, false)?)
    }

    fn contents(&self) -> Result<Contents, Failure> {
        let mut found = BTreeMap::new();
        self.add_contents(self.directory, "", &mut found)?;
        self.add_contents(self.below, "below/", &mut found)?;
        Ok(found)
    }

    fn pause(&self, milliseconds: u64) {
        self.clock.block(Duration::from_millis(milliseconds));
    }
}
