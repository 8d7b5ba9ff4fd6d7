//! renameat2(2): one transaction for all its forms.
//!
//! A name keeps its place in the listing where it can: an entry that is replaced or exchanged keeps the place of its
//! name, one that only moves keeps its own. So a listing in progress sees every name that was there all along once.

use weft_format::Ino;
use weft_format::records::{Attributes, Kind, Timestamp};

use super::names::admit_subdirectory;
use super::txn::Txn;
use super::values::{Dirent, check_name, damaged};
use super::{Guarded, Store};
use crate::MetaError;
use crate::guard::{Guard, Renaming};
use crate::keys::{Counter, Key};
use crate::types::{NewInode, Owner, RenameFlags, RenameOutcome, UnlinkOutcome};

/// A chain of parents longer than this is a loop: no path that long could have been made through system calls, which
/// take 4,096 bytes at a time but allow deeper trees step by step; this bounds the walk on damaged metadata.
const MAX_DEPTH: usize = 1 << 20;

/// The two directories of a rename, which may be one, and how many subdirectories each gets.
struct Directories {
    old: Attributes,
    /// `None`: the same as `old`.
    new: Option<Attributes>,
    to_old: i64,
    to_new: i64,
}

impl Directories {
    /// A subdirectory goes from the old to the new one.
    fn move_subdirectory(&mut self) -> Result<(), MetaError> {
        if let Some(new) = &self.new {
            admit_subdirectory(new)?;
            self.to_old -= 1;
            self.to_new += 1;
        }
        Ok(())
    }

    /// A subdirectory goes from the new to the old one.
    fn move_subdirectory_back(&mut self) -> Result<(), MetaError> {
        if self.new.is_some() {
            admit_subdirectory(&self.old)?;
            self.to_new -= 1;
            self.to_old += 1;
        }
        Ok(())
    }

    /// A subdirectory of the new one is replaced.
    fn lose_subdirectory(&mut self) {
        match self.new {
            Some(_) => self.to_new -= 1,
            None => self.to_old -= 1,
        }
    }

    fn save(self, txn: &mut Txn<'_>, now: Timestamp) {
        txn.touch(self.old.ino, now, self.to_old);
        if let Some(new) = self.new {
            txn.touch(new.ino, now, self.to_new);
        }
    }
}

impl Store {
    /// [`Guarded::rename`], of whom nobody need ask.
    ///
    /// # Errors
    /// As there.
    pub fn rename(
        &self,
        parent: Ino,
        name: &[u8],
        new_parent: Ino,
        new_name: &[u8],
        flags: RenameFlags,
        now: Timestamp,
    ) -> Result<RenameOutcome, MetaError> {
        self.guarded(&()).rename(parent, name, new_parent, new_name, flags, now)
    }
}

impl Guarded<'_> {
    /// Moves `name` in `parent` to `new_name` in `new_parent`, as renameat2(2) does: two names of one inode stay as
    /// they are; a directory replaces an empty directory only, anything else replaces what is no directory; a replaced
    /// inode loses a link as in [`Store::unlink`]; `exchange` swaps any two names; `whiteout` leaves a character device
    /// 0:0.
    ///
    /// # Errors
    /// `NotFound`, `NotDirectory`, `IsDirectory`, `NotEmpty` (also of a directory on the way to what moves), `Exists` (`no_replace`), `Invalid` (a directory into its
    /// own subtree; contradicting flags), `NameTooLong`, `InvalidName`, `TooManyLinks`.
    pub fn rename(
        &self,
        parent: Ino,
        name: &[u8],
        new_parent: Ino,
        new_name: &[u8],
        flags: RenameFlags,
        now: Timestamp,
    ) -> Result<RenameOutcome, MetaError> {
        let renamed = self.rename_if((parent, name), (new_parent, new_name), flags, |_| true, now)?;
        renamed.ok_or(MetaError::Invalid { what: "every inode may replace another" })
    }

    /// [`Guarded::rename`] of a name to another. If an inode would replace another, `may_replace` is asked of the first, and of both if
    /// they change their places; if one may not, nothing changes and the answer is `None`.
    ///
    /// # Errors
    /// As there.
    pub fn rename_if(
        &self,
        from: (Ino, &[u8]),
        to: (Ino, &[u8]),
        flags: RenameFlags,
        may_replace: impl Fn(Ino) -> bool,
        now: Timestamp,
    ) -> Result<Option<RenameOutcome>, MetaError> {
        if flags.exchange && (flags.no_replace || flags.whiteout.is_some()) {
            return Err(MetaError::Invalid { what: "exchange excludes no-replace and whiteout" });
        }
        let store = self.store;
        let whiteout = match flags.whiteout {
            Some(owner) => Some((store.new_ino()?, store.allocate(Counter::Cookie, &store.cookies)?, owner)),
            None => None,
        };
        let guards: (&dyn Guard, &dyn Fn(Ino) -> bool) = (self.guard, &may_replace);
        store.transact_by_key(|txn| txn.rename(guards, from, to, flags, whiteout, now))
    }
}

impl Txn<'_> {
    /// Scans only where it replaces a directory, which must be empty.
    fn rename(
        &mut self,
        (guard, may_replace): (&dyn Guard, &dyn Fn(Ino) -> bool),
        (parent, name): (Ino, &[u8]),
        (new_parent, new_name): (Ino, &[u8]),
        flags: RenameFlags,
        whiteout: Option<(Ino, u64, Owner)>,
        now: Timestamp,
    ) -> Result<Option<RenameOutcome>, MetaError> {
        let names = [(parent, name), (new_parent, new_name)];
        self.fetch(&[Key::Inode(parent), Key::Inode(new_parent), Key::Keep], &names)?;
        let mut directories = Directories {
            old: self.directory(parent)?,
            new: if new_parent == parent { None } else { Some(self.live_directory(new_parent)?) },
            to_old: 0,
            to_new: 0,
        };
        guard.search(&directories.old)?;
        guard.search(directories.new.as_ref().unwrap_or(&directories.old))?;
        check_name(name)?;
        let (from, mut moved) = self.named(parent, name)?.ok_or(MetaError::NotFound)?;
        check_name(new_name)?;
        let target = self.named(new_parent, new_name)?;
        if flags.no_replace && target.is_some() {
            return Err(MetaError::Exists);
        }
        if flags.exchange && target.is_none() {
            return Err(MetaError::NotFound);
        }
        if target.as_ref().is_some_and(|(_, attributes)| attributes.ino == moved.ino) {
            return Ok(Some(RenameOutcome { moved: moved.ino, replaced: None, exchanged: None }));
        }
        if moved.kind == Kind::Directory && new_parent != parent {
            self.refuse_subtree(moved.ino, new_parent)?;
        }
        if let Some((_, other)) = &target
            && other.kind == Kind::Directory
            && new_parent != parent
        {
            self.refuse_subtree(other.ino, parent).map_err(|error| match error {
                MetaError::Invalid { .. } if !flags.exchange => MetaError::NotEmpty,
                error => error,
            })?;
        }
        guard.rename(&Renaming {
            old_directory: &directories.old,
            moved: &moved,
            new_directory: directories.new.as_ref().unwrap_or(&directories.old),
            target: target.as_ref().map(|(_, attributes)| attributes),
            is_exchange: flags.exchange,
        })?;
        if let Some((_, other)) = &target {
            // Each is asked, so that the caller knows of both.
            let (may_move, may_return) = (may_replace(moved.ino), !flags.exchange || may_replace(other.ino));
            if !may_move || !may_return {
                return Ok(None);
            }
        }

        let (mut replaced, mut exchanged) = (None, None);
        let is_directory = moved.kind == Kind::Directory;
        match target {
            Some((to, mut other)) if flags.exchange => {
                let other_is_directory = other.kind == Kind::Directory;
                match (is_directory, other_is_directory) {
                    (true, false) => directories.move_subdirectory()?,
                    (false, true) => directories.move_subdirectory_back()?,
                    _ => {}
                }
                self.put_name(parent, name, &Dirent { cookie: from.cookie, ..to });
                self.put_name(new_parent, new_name, &Dirent { cookie: to.cookie, ..from });
                other.parent = parent;
                other.ctime = now;
                self.put_inode(&other);
                exchanged = Some(other.ino);
            }
            Some((to, mut other)) => {
                match (is_directory, other.kind == Kind::Directory) {
                    (true, false) => return Err(MetaError::NotDirectory),
                    (false, true) => return Err(MetaError::IsDirectory),
                    (true, true) if !self.is_empty_directory(other.ino)? => return Err(MetaError::NotEmpty),
                    (true, true) => {
                        directories.lose_subdirectory();
                        directories.move_subdirectory()?;
                    }
                    (false, false) => {}
                }
                self.remove_name(parent, name, &from);
                self.put_name(new_parent, new_name, &Dirent { cookie: to.cookie, ..from });
                self.drop_link(&mut other, now)?;
                let is_kept = other.nlink == 0 && self.keep(&other, new_parent, new_name, now)?;
                replaced = Some(UnlinkOutcome { attributes: other, is_kept });
            }
            None => {
                if is_directory {
                    directories.move_subdirectory()?;
                }
                self.remove_name(parent, name, &from);
                self.put_name(new_parent, new_name, &from);
            }
        }
        if let Some((ino, cookie, owner)) = whiteout {
            let device = NewInode {
                kind: Kind::CharDevice,
                mode: 0,
                uid: owner.uid,
                gid: owner.gid,
                rdev: 0,
                symlink_target: Vec::new(),
            };
            self.make_inode(ino, &directories.old, &device, now)?;
            self.put_name(parent, name, &Dirent { ino, kind: Kind::CharDevice, cookie });
        }
        moved.parent = new_parent;
        moved.ctime = now;
        self.put_inode(&moved);
        directories.save(self, now);
        Ok(Some(RenameOutcome { moved: moved.ino, replaced, exchanged }))
    }

    /// Refuses to move `directory` into `place` if `place` is it or lies below it. Every inode on the way up is read,
    /// and so checked at commit: no other move can meanwhile close a loop.
    fn refuse_subtree(&mut self, directory: Ino, place: Ino) -> Result<(), MetaError> {
        let mut ino = place;
        for _ in 0..MAX_DEPTH {
            if ino == directory {
                return Err(MetaError::Invalid { what: "a directory cannot move into itself" });
            }
            if ino == Ino::ROOT {
                return Ok(());
            }
            let attributes = self.find_inode(ino)?;
            let attributes = attributes.ok_or_else(|| damaged(&Key::Inode(ino), "a directory's parent is missing"))?;
            ino = attributes.parent;
        }
        Err(damaged(&Key::Inode(place), "its parents form a loop"))
    }
}

#[cfg(test)]
#[path = "rename_tests.rs"]
mod tests;
