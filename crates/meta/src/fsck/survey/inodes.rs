//! Inodes, what belongs to one, and what waits for one to go.

use weft_format::Ino;
use weft_format::records::{Attributes, Kind};

use super::columns::Inode;
use super::lane::Lane;
use super::{Finding, PAGE_PAIRS, Survey, Writes, put};
use crate::MetaError;
use crate::keys::{Key, Table, dead_segments};
use crate::store::values::{self, damaged};

impl Survey<'_> {
    pub(super) fn read_inodes(&mut self) -> Result<(), MetaError> {
        let mut symlinks = Lane::new(Table::Symlink.range(), PAGE_PAIRS);
        self.each(Table::Inode.range(), |survey, key, value| survey.inode(key, value, &mut symlinks))?;
        symlinks.finish(self, Survey::symlink)
    }

    fn inode(&mut self, key: Key<'_>, value: &[u8], symlinks: &mut Lane) -> Result<(), MetaError> {
        let Key::Inode(ino) = key else { return Ok(()) };
        let stored = Attributes::decode(value).map_err(|error| {
            self.unreadable_inodes.insert(ino);
            damaged(&key, error)
        })?;
        if stored.ino != ino {
            let mend = vec![put(key, Attributes { ino, ..stored }.encode().to_vec())];
            self.report(Finding::WrongNumber { ino, stored: stored.ino }, mend);
        }
        if !self.policies.contains(&stored.policy) {
            self.report(Finding::UnknownPolicy { ino, policy: stored.policy }, Writes::new());
        }
        let target = Key::Symlink(ino);
        if stored.kind == Kind::Symlink && symlinks.at(target, self, Survey::symlink)?.is_none() {
            self.report(Finding::Missing { key: target.to_string() }, Writes::new());
        }
        self.inodes.push(Inode::new(ino, &stored));
        Ok(())
    }

    pub(super) fn has_inode(&self, ino: Ino) -> bool {
        self.inodes.has(ino) || self.unreadable_inodes.contains(&ino)
    }

    /// A target of no symbolic link that can be read.
    fn symlink(&mut self, key: Key<'_>, _: &[u8]) -> Result<(), MetaError> {
        if let Key::Symlink(ino) = key
            && !self.unreadable_inodes.contains(&ino)
        {
            self.stray(key);
        }
        Ok(())
    }

    pub(super) fn xattr(&mut self, key: Key<'_>, _: &[u8]) -> Result<(), MetaError> {
        if let Key::Xattr(ino, _) = key
            && !self.has_inode(ino)
        {
            self.stray(key);
        }
        Ok(())
    }

    /// Locks, and what of files without a name processes have open.
    pub(super) fn note_of_session(&mut self, key: Key<'_>, value: &[u8]) -> Result<(), MetaError> {
        let ino = match key {
            Key::Locks(ino) => {
                values::decode_locks(&key, value)?;
                ino
            }
            Key::Held(ino, _) => ino,
            _ => return values::decode_number(&key, value).map(drop),
        };
        if !self.has_inode(ino) {
            self.stray(key);
        }
        Ok(())
    }

    /// What is unreferenced, but for dead segments, which are read with segments.
    pub(super) fn read_queues(&mut self) -> Result<(), MetaError> {
        let (all, segments) = (Table::Unreferenced.range(), dead_segments());
        self.each(all.start..segments.start, Survey::unreferenced)?;
        self.each(segments.end..all.end, Survey::unreferenced)
    }

    fn unreferenced(&mut self, key: Key<'_>, value: &[u8]) -> Result<(), MetaError> {
        match key {
            Key::UnreferencedFile(_, ino) => self.deleted(key, ino, value),
            Key::UnreferencedInode(ino) => self.orphan(key, ino, value),
            _ => self.retained(key, value),
        }
    }

    /// What is kept has no name, and is kept once.
    fn deleted(&mut self, key: Key<'_>, ino: Ino, value: &[u8]) -> Result<(), MetaError> {
        values::decode_entry(&key, value)?;
        let is_wrong = match self.inodes.get_mut(ino) {
            Some(inode) => inode.is_in_tree() || std::mem::replace(&mut inode.is_kept, true),
            None => !self.unreadable_inodes.contains(&ino),
        };
        if is_wrong {
            self.stray(key);
        }
        Ok(())
    }

    fn orphan(&mut self, key: Key<'_>, ino: Ino, value: &[u8]) -> Result<(), MetaError> {
        let is_wrong = match self.inodes.get_mut(ino) {
            Some(inode) => {
                inode.is_queued = true;
                inode.is_in_tree() || inode.is_kept
            }
            None => !self.unreadable_inodes.contains(&ino),
        };
        values::decode_mark(&key, value)?;
        if is_wrong {
            self.stray(key);
        }
        Ok(())
    }

    /// Link counts, parents, orphans and allocated bytes.
    pub(super) fn links(&mut self) -> Result<(), MetaError> {
        for place in 0..self.inodes.len() {
            let inode = self.inodes.at(place);
            if !self.link(&inode) || inode.unseen_bytes != 0 {
                self.mend_inode(&inode)?;
            }
        }
        if !self.has_inode(Ino::ROOT) {
            self.report(Finding::Missing { key: Key::Inode(Ino::ROOT).to_string() }, Writes::new());
        }
        Ok(())
    }

    /// Says what no rewriting of the inode mends. Is nothing else wrong with its names?
    fn link(&mut self, inode: &Inode) -> bool {
        let Inode { ino, names, nlink, .. } = *inode;
        if inode.is_directory() && ino != Ino::ROOT && names > 1 {
            self.report(Finding::ManyNames { ino, names }, Writes::new());
        }
        let counted = links_of(inode);
        if counted.is_none() {
            // To make it an orphan would have it deleted.
            self.report(Finding::NoName { ino, stored: nlink }, Writes::new());
        }
        if counted == Some(0) && nlink == 0 && !inode.is_kept && !inode.is_queued {
            self.missing(Key::UnreferencedInode(ino), values::mark());
        }
        counted.is_none_or(|counted| counted == nlink)
            && parent_of(inode).is_none_or(|(stored, parent)| stored == parent)
    }

    /// All mends of an inode are one record, written whole.
    fn mend_inode(&mut self, inode: &Inode) -> Result<(), MetaError> {
        let (ino, key) = (inode.ino, Key::Inode(inode.ino));
        let Some(bytes) = self.get(key)? else { return Ok(()) };
        let stored = Attributes::decode(&bytes).map_err(|error| damaged(&key, error))?;
        let (mut mended, mut findings) = (Attributes { ino, ..stored }, Vec::new());
        if let Some((stored, parent)) = parent_of(inode).filter(|(stored, parent)| stored != parent) {
            mended.parent = parent;
            findings.push(Finding::WrongParent { ino, stored, parent });
        }
        if let Some(counted) = links_of(inode).filter(|counted| *counted != stored.nlink) {
            mended.nlink = counted;
            findings.push(Finding::WrongLinkCount { ino, stored: stored.nlink, counted });
        }
        if inode.unseen_bytes != 0 {
            mended.allocated_bytes = stored.allocated_bytes.wrapping_sub(inode.unseen_bytes);
            let (stored, counted) = (stored.allocated_bytes, mended.allocated_bytes);
            findings.push(Finding::WrongAllocatedBytes { ino, stored, counted });
        }
        for finding in findings {
            self.report(finding, vec![put(key, mended.encode().to_vec())]);
        }
        Ok(())
    }
}

/// The links that an inode has; `None`: it has no name, and seems to be needed.
fn links_of(inode: &Inode) -> Option<u32> {
    let is_linked = inode.ino == Ino::ROOT || inode.names > 0;
    if !is_linked && (inode.nlink > 0 || inode.has_children) {
        return None;
    }
    Some(match (inode.is_directory(), is_linked) {
        (true, true) => 2 + inode.subdirectories,
        (true, false) => 0,
        (false, _) => inode.names,
    })
}

/// The parent that a directory's record names, and the directory that it is in; `None`: it is in none, or in several.
fn parent_of(inode: &Inode) -> Option<(Ino, Ino)> {
    let is_in_one = inode.ino != Ino::ROOT && inode.names == 1;
    inode.stored_parent().filter(|_| is_in_one).map(|stored| (stored, inode.parent))
}
