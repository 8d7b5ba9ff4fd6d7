//! The tree: names, directories, links.
//!
//! An owner-only rule holds the two directions of a name together: `dirent/<parent>/<name>` and
//! `entry/<parent>/<cookie>` are written and removed in the same transaction.

use std::collections::HashSet;
use weft_format::Ino;
use weft_format::records::{Attributes, Kind, Timestamp};

use super::txn::{Txn, decode_inode};
use super::values::{self, Dirent, check_length, check_name, damaged};
use super::{Guarded, Store};
use crate::MetaError;
use crate::guard::Guard;
use crate::keys::{Counter, Key, Table, after, of_ino};
use crate::types::{Entry, Listing, NewInode, UnlinkOutcome};

/// Longest target of a symbolic link: a Linux path of 4,096 bytes less its final NUL.
const MAX_SYMLINK_BYTES: usize = 4095;

const SETGID: u16 = 0o2000;

/// Entries read at once where a whole directory is searched.
const SEARCH_PAIRS: usize = 1024;

/// A directory is in the one directory that it names, so that whoever follows names downwards comes to an end.
fn check_parent(key: &Key<'_>, parent: Ino, attributes: &Attributes) -> Result<(), MetaError> {
    let Attributes { ino, kind, parent: said, .. } = attributes;
    if *kind == Kind::Directory && (*said != parent || *ino == Ino::ROOT) {
        return Err(damaged(key, format!("it leads to directory {ino}, which is in directory {said}")));
    }
    Ok(())
}

impl Txn<'_> {
    /// A directory that names may be looked up in.
    pub(super) fn directory(&mut self, ino: Ino) -> Result<Attributes, MetaError> {
        let attributes = self.inode(ino)?;
        if attributes.kind == Kind::Directory { Ok(attributes) } else { Err(MetaError::NotDirectory) }
    }

    /// A directory that names may be made in: not one that was removed and is only held open.
    pub(super) fn live_directory(&mut self, ino: Ino) -> Result<Attributes, MetaError> {
        let attributes = self.directory(ino)?;
        if attributes.nlink == 0 { Err(MetaError::NotFound) } else { Ok(attributes) }
    }

    /// The name's entry and its inode.
    pub(super) fn named(&mut self, parent: Ino, name: &[u8]) -> Result<Option<(Dirent, Attributes)>, MetaError> {
        let Some(dirent) = self.dirent(parent, name)? else { return Ok(None) };
        let attributes = self.find_inode(dirent.ino)?;
        let attributes = attributes.ok_or_else(|| {
            damaged(&Key::Dirent(parent, name), format!("it leads to inode {}, which does not exist", dirent.ino))
        })?;
        check_parent(&Key::Dirent(parent, name), parent, &attributes)?;
        Ok(Some((dirent, attributes)))
    }

    pub(super) fn is_empty_directory(&mut self, ino: Ino) -> Result<bool, MetaError> {
        Ok(self.scan(&of_ino(Table::Entry, ino), 1)?.is_empty())
    }

    /// Writes an inode that one of its names was taken from. Without any left it becomes an orphan. Guarded by the
    /// caller's change of its parent.
    pub(super) fn drop_link(&mut self, attributes: &mut Attributes, now: Timestamp) -> Result<(), MetaError> {
        attributes.ctime = now;
        attributes.nlink = match attributes.kind {
            Kind::Directory => 0,
            _ => attributes
                .nlink
                .checked_sub(1)
                .ok_or_else(|| damaged(&Key::Inode(attributes.ino), "it has a name and a link count of 0"))?,
        };
        self.put_inode(attributes);
        if attributes.nlink == 0 {
            self.put(Key::UnreferencedInode(attributes.ino), values::mark());
        }
        Ok(())
    }
}

/// Refuses one subdirectory more in `parent` if it has as many as can be counted.
pub(super) fn admit_subdirectory(parent: &Attributes) -> Result<(), MetaError> {
    if parent.nlink == u32::MAX { Err(MetaError::TooManyLinks(parent.ino)) } else { Ok(()) }
}

impl Store {
    /// The inode that `name` leads to.
    ///
    /// # Errors
    /// `NotFound`, `NotDirectory` (of `parent`).
    pub fn lookup(&self, parent: Ino, name: &[u8]) -> Result<Attributes, MetaError> {
        self.view(|txn| {
            txn.fetch(&[Key::Inode(parent)], &[(parent, name)])?;
            match txn.named(parent, name)? {
                Some((_, attributes)) => Ok(attributes),
                None => txn.directory(parent).and(Err(MetaError::NotFound)),
            }
        })
    }

    /// The number of the inode that `name` leads to, if there is one; nothing else is read.
    ///
    /// # Errors
    /// Those of the engine, and damage.
    pub fn named(&self, parent: Ino, name: &[u8]) -> Result<Option<Ino>, MetaError> {
        self.view(|txn| Ok(txn.dirent(parent, name)?.map(|dirent| dirent.ino)))
    }

    /// The attributes of an inode, orphans included.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn attributes(&self, ino: Ino) -> Result<Attributes, MetaError> {
        self.view(|txn| txn.inode(ino))
    }

    /// [`Guarded::create`], of whom nobody need ask.
    ///
    /// # Errors
    /// As there.
    pub fn create(&self, parent: Ino, name: &[u8], new: &NewInode, now: Timestamp) -> Result<Attributes, MetaError> {
        self.guarded(&()).create(parent, name, new, now)
    }

    /// A number for an inode that is yet to be made; one that is never made has none.
    ///
    /// # Errors
    /// The engine's.
    pub fn new_ino(&self) -> Result<Ino, MetaError> {
        self.allocate(Counter::Ino, &self.inos).map(Ino)
    }

    /// [`Guarded::link`], of whom nobody need ask.
    ///
    /// # Errors
    /// As there.
    pub fn link(&self, ino: Ino, parent: Ino, name: &[u8], now: Timestamp) -> Result<Attributes, MetaError> {
        self.guarded(&()).link(ino, parent, name, now)
    }

    /// [`Guarded::unlink`], of whom nobody need ask.
    ///
    /// # Errors
    /// As there.
    pub fn unlink(&self, parent: Ino, name: &[u8], now: Timestamp) -> Result<UnlinkOutcome, MetaError> {
        self.guarded(&()).unlink(parent, name, now)
    }

    /// [`Guarded::rmdir`], of whom nobody need ask.
    ///
    /// # Errors
    /// As there.
    pub fn rmdir(&self, parent: Ino, name: &[u8], now: Timestamp) -> Result<UnlinkOutcome, MetaError> {
        self.guarded(&()).rmdir(parent, name, now)
    }

    /// Where a symbolic link points.
    ///
    /// # Errors
    /// `NotFound`, `Invalid` (no symbolic link).
    pub fn readlink(&self, ino: Ino) -> Result<Vec<u8>, MetaError> {
        self.view(|txn| {
            if txn.inode(ino)?.kind != Kind::Symlink {
                return Err(MetaError::Invalid { what: "not a symbolic link" });
            }
            let key = Key::Symlink(ino);
            txn.get(key)?.ok_or_else(|| damaged(&key, "it is missing"))
        })
    }

    /// A directory, and up to `limit` of its entries after `after_cookie` (0: from the start), without `.` and `..`, all of one moment.
    /// Cookies are at least 16 and below 2^63. One fetch.
    ///
    /// # Errors
    /// `NotFound`, `NotDirectory`.
    pub fn read_directory(&self, parent: Ino, after_cookie: u64, limit: usize) -> Result<Listing, MetaError> {
        self.view(|txn| {
            let found = txn.fetch_entries(parent, after_cookie, limit)?;
            let directory = txn.directory(parent)?;
            let mut entries = Vec::with_capacity(found.len());
            for ((key, value), inode) in &found {
                let (key, cookie, ino, name) = parse_entry(key, value)?;
                let attributes = inode
                    .as_ref()
                    .ok_or_else(|| damaged(&key, format!("it leads to inode {ino}, which does not exist")))?;
                let attributes = decode_inode(ino, attributes)?;
                check_parent(&key, parent, &attributes)?;
                entries.push(Entry { cookie, name: name.to_vec(), attributes });
            }
            Ok(Listing { directory, entries })
        })
    }

    /// One absolute path of an inode (`/` for the root), or `None` if it has no name. Reads the directories on the way,
    /// and all directories where a file was renamed or linked away from the directory it was last put in.
    ///
    /// # Errors
    /// Those of the engine, and damage.
    pub fn path_of(&self, ino: Ino) -> Result<Option<Vec<u8>>, MetaError> {
        self.view(|txn| {
            let Some(mut attributes) = txn.find_inode(ino)? else { return Ok(None) };
            let (mut names, mut seen) = (Vec::new(), HashSet::new());
            while attributes.ino != Ino::ROOT {
                if attributes.nlink == 0 {
                    return Ok(None);
                }
                if !seen.insert(attributes.ino) {
                    return Err(damaged(&Key::Inode(ino), "its parents form a loop"));
                }
                let hint = of_ino(Table::Entry, attributes.parent);
                let found = match txn.find_name(hint, attributes.ino)? {
                    None if attributes.kind != Kind::Directory => {
                        txn.find_name(Table::Entry.range(), attributes.ino)?
                    }
                    found => found,
                };
                let Some((parent, name)) = found else { return Ok(None) };
                names.push(name);
                attributes = txn.inode(parent)?;
            }
            let mut path = Vec::new();
            for name in names.iter().rev() {
                path.push(b'/');
                path.extend(name);
            }
            Ok(Some(if path.is_empty() { vec![b'/'] } else { path }))
        })
    }
}

impl Guarded<'_> {
    /// [`Store::lookup`], in a directory that the guard lets search.
    ///
    /// # Errors
    /// As there, and the guard's; `NameTooLong`.
    pub fn lookup(&self, parent: Ino, name: &[u8]) -> Result<Attributes, MetaError> {
        self.store.view(|txn| {
            txn.fetch(&[Key::Inode(parent)], &[(parent, name)])?;
            self.guard.search(&txn.directory(parent)?)?;
            check_length(name)?;
            txn.named(parent, name)?.map(|(_, attributes)| attributes).ok_or(MetaError::NotFound)
        })
    }

    /// Makes a new inode under a new name. Group and setgid come from a setgid parent, the policy from any parent.
    /// Two reads in one go, three writes and two deltas, and a symbolic link's target.
    ///
    /// # Errors
    /// `Exists`, `NotFound` (a removed parent), `NotDirectory`, `NameTooLong`, `InvalidName`, `TooManyLinks`, `Invalid`
    /// (a symbolic link's target).
    pub fn create(&self, parent: Ino, name: &[u8], new: &NewInode, now: Timestamp) -> Result<Attributes, MetaError> {
        self.create_as(self.store.new_ino()?, parent, name, new, now)
    }

    /// [`Guarded::create`] with a number of [`Store::new_ino`].
    ///
    /// # Errors
    /// As there.
    pub fn create_as(
        &self,
        ino: Ino,
        parent: Ino,
        name: &[u8],
        new: &NewInode,
        now: Timestamp,
    ) -> Result<Attributes, MetaError> {
        if new.kind == Kind::Symlink && !(1..=MAX_SYMLINK_BYTES).contains(&new.symlink_target.len()) {
            return Err(MetaError::Invalid { what: "a symbolic link's target has 1 to 4095 bytes" });
        }
        let cookie = self.store.allocate(Counter::Cookie, &self.store.cookies)?;
        // Nobody knows its number yet.
        self.store.kv.note_empty(&Key::Xattr(ino, b"").encode());
        if new.kind == Kind::Directory {
            self.store.kv.note_empty(&Key::Dirent(ino, b"").encode());
        }
        self.store.transact_by_key(|txn| {
            txn.fetch(&[Key::Inode(parent), Key::Dirent(parent, name)], &[])?;
            let directory = txn.live_directory(parent)?;
            self.guard.search(&directory)?;
            check_name(name)?;
            if txn.dirent(parent, name)?.is_some() {
                return Err(MetaError::Exists);
            }
            let mut new = new.clone();
            self.guard.create(&directory, &mut new)?;
            let attributes = txn.make_inode(ino, &directory, &new, now)?;
            let is_directory = new.kind == Kind::Directory;
            if is_directory {
                admit_subdirectory(&directory)?;
            }
            txn.touch(parent, now, is_directory.into());
            txn.put_name(parent, name, &Dirent { ino, kind: new.kind, cookie });
            Ok(attributes)
        })
    }

    /// Gives an inode one more name.
    ///
    /// # Errors
    /// `IsDirectory` (a directory has one name), `NotFound` (also of an orphan), `Exists`, `NotDirectory`,
    /// `NameTooLong`, `InvalidName`, `TooManyLinks`.
    pub fn link(&self, ino: Ino, parent: Ino, name: &[u8], now: Timestamp) -> Result<Attributes, MetaError> {
        let cookie = self.store.allocate(Counter::Cookie, &self.store.cookies)?;
        self.store.transact_by_key(|txn| {
            txn.fetch(&[Key::Inode(parent), Key::Inode(ino), Key::Dirent(parent, name)], &[])?;
            let directory = txn.live_directory(parent)?;
            self.guard.search(&directory)?;
            check_name(name)?;
            let mut attributes = txn.inode(ino)?;
            if txn.dirent(parent, name)?.is_some() {
                return Err(MetaError::Exists);
            }
            self.guard.link(&directory, &attributes)?;
            if attributes.kind == Kind::Directory {
                return Err(MetaError::IsDirectory);
            }
            if attributes.nlink == 0 {
                return Err(MetaError::NotFound);
            }
            attributes.nlink = attributes.nlink.checked_add(1).ok_or(MetaError::TooManyLinks(ino))?;
            attributes.ctime = now;
            txn.put_inode(&attributes);
            txn.touch(parent, now, 0);
            txn.put_name(parent, name, &Dirent { ino, kind: attributes.kind, cookie });
            Ok(attributes)
        })
    }

    /// Takes a name from something that is no directory. Its data stays until [`Store::reclaim`]; where deleted files are kept it
    /// can be brought back for a while ([`Store::restore`]).
    ///
    /// # Errors
    /// `NotFound`, `NotDirectory` (of `parent`), `IsDirectory`.
    pub fn unlink(&self, parent: Ino, name: &[u8], now: Timestamp) -> Result<UnlinkOutcome, MetaError> {
        self.store.transact_by_key(|txn| {
            txn.remove_named(self.guard, (parent, name), now, |_, attributes| match attributes.kind {
                Kind::Directory => Err(MetaError::IsDirectory),
                _ => Ok(()),
            })
        })
    }

    /// Removes an empty directory; it is an orphan until [`Store::reclaim`], or kept.
    ///
    /// # Errors
    /// `NotFound`, `NotDirectory`, `NotEmpty`.
    pub fn rmdir(&self, parent: Ino, name: &[u8], now: Timestamp) -> Result<UnlinkOutcome, MetaError> {
        self.store.transact(|txn| {
            txn.remove_named(self.guard, (parent, name), now, |txn, attributes| match attributes.kind {
                Kind::Directory if txn.is_empty_directory(attributes.ino)? => Ok(()),
                Kind::Directory => Err(MetaError::NotEmpty),
                _ => Err(MetaError::NotDirectory),
            })
        })
    }
}

impl Txn<'_> {
    /// Takes a name away, if the guard allows it and its inode suits.
    fn remove_named(
        &mut self,
        guard: &dyn Guard,
        (parent, name): (Ino, &[u8]),
        now: Timestamp,
        suits: impl Fn(&mut Txn<'_>, &Attributes) -> Result<(), MetaError>,
    ) -> Result<UnlinkOutcome, MetaError> {
        self.free_room();
        self.fetch(&[Key::Inode(parent), Key::Keep], &[(parent, name)])?;
        let directory = self.directory(parent)?;
        guard.search(&directory)?;
        check_length(name)?;
        let (dirent, mut attributes) = self.named(parent, name)?.ok_or(MetaError::NotFound)?;
        guard.remove(&directory, &attributes)?;
        suits(self, &attributes)?;
        self.touch(parent, now, if attributes.kind == Kind::Directory { -1 } else { 0 });
        self.remove_name(parent, name, &dirent);
        self.drop_link(&mut attributes, now)?;
        let is_kept = attributes.nlink == 0 && self.keep(&attributes, parent, name, now)?;
        Ok(UnlinkOutcome { attributes, is_kept })
    }

    /// Writes a new inode of one link (a directory: two) in `parent`, whose own record the caller changes.
    pub(super) fn make_inode(
        &mut self,
        ino: Ino,
        parent: &Attributes,
        new: &NewInode,
        now: Timestamp,
    ) -> Result<Attributes, MetaError> {
        let is_directory = new.kind == Kind::Directory;
        let inherits_group = parent.mode & SETGID != 0;
        let attributes = Attributes {
            ino,
            kind: new.kind,
            mode: new.mode | if inherits_group && is_directory { SETGID } else { 0 },
            uid: new.uid,
            gid: if inherits_group { parent.gid } else { new.gid },
            nlink: if is_directory { 2 } else { 1 },
            rdev: new.rdev,
            size: if new.kind == Kind::Symlink { new.symlink_target.len() as u64 } else { 0 },
            allocated_bytes: 0,
            atime: now,
            mtime: now,
            ctime: now,
            btime: now,
            policy: parent.policy,
            parent: parent.ino,
        };
        self.put_inode(&attributes);
        if new.kind == Kind::Symlink {
            self.put(Key::Symlink(ino), new.symlink_target.clone());
        }
        self.change_usage(1, 0);
        Ok(attributes)
    }

    /// The first name of `ino` among the entries in `range`, and the directory it is in.
    fn find_name(
        &mut self,
        mut range: std::ops::Range<Vec<u8>>,
        wanted: Ino,
    ) -> Result<Option<(Ino, Vec<u8>)>, MetaError> {
        loop {
            let pairs = self.scan(&range, SEARCH_PAIRS)?;
            for (key, value) in &pairs {
                let (key, _, ino, name) = parse_entry(key, value)?;
                if let (Key::Entry(parent, _), true) = (key, ino == wanted) {
                    return Ok(Some((parent, name.to_vec())));
                }
            }
            match pairs.last().filter(|_| pairs.len() == SEARCH_PAIRS) {
                Some((last, _)) => range = after(range, Key::parse(last)),
                None => return Ok(None),
            }
        }
    }
}

fn parse_entry<'k, 'v>(key: &'k [u8], value: &'v [u8]) -> Result<(Key<'k>, u64, Ino, &'v [u8]), MetaError> {
    let Some(key @ Key::Entry(_, cookie)) = Key::parse(key) else {
        return Err(MetaError::Damaged { key: crate::keys::printable(key), detail: "it is no directory entry".into() });
    };
    let (ino, name) = values::decode_entry(&key, value)?;
    Ok((key, cookie, ino, name))
}

#[cfg(test)]
#[path = "names_tests.rs"]
mod tests;
