//! Names and inodes: everything but the bytes of files. The store does the work; here is what needs more than metadata:
//! files that are newer here, policies and what was deleted as extended attributes. Each operation has a form for whoever is
//! checked already, and one that asks a guard within its transaction.

use crate::access::{Caller, without_set_id};
use crate::deleted::{PURGE_XATTR, RESTORE_XATTR};
use crate::error::VfsError;
use crate::policies::{Policy, policy_for, policy_text};
use crate::request::{AttributeChange, DirectoryEntry, SetTime, Statfs};
use crate::volume::Volume;
use std::cell::RefCell;
use weft_cluster::{Room, usable_room};
use weft_env::planted::{Planted, has_planted};
use weft_format::Ino;
use weft_format::records::{Attributes, Kind, NodeState, Timestamp};
use weft_meta::{
    CAPABILITY_XATTR, Guard, MetaError, NewInode, PolicyMaker, RenameFlags, SetAttributes, Store, XattrMode,
};

/// As on every Unix; the kernel lets FUSE file systems have longer ones.
const NAME_BYTES_MAX: usize = 255;

/// The policy of a directory or file, as an extended attribute: `getfattr -n user.weft.policy DIR`, `setfattr -n user.weft.policy -v rs:4+2 DIR`.
pub const POLICY_XATTR: &[u8] = b"user.weft.policy";

/// Set on the root directory, it asks for what sync(2) does not tell a FUSE file system: that everything written so far is on the nodes, names included.
pub const SYNC_XATTR: &[u8] = b"user.weft.sync";

/// Cookies of `.` and `..`; the store's begin after them.
const DOT_COOKIE: u64 = 1;
const DOT_DOT_COOKIE: u64 = 2;

impl Volume {
    /// Finds a name; takes one reference on what it names.
    ///
    /// # Errors
    /// No such name; a name too long to be one; `parent` is no directory.
    pub fn lookup(&self, parent: Ino, name: &[u8]) -> Result<Attributes, VfsError> {
        if name.len() > NAME_BYTES_MAX {
            return Err(MetaError::NameTooLong { bytes: name.len() }.into());
        }
        self.found(|store| store.lookup(parent, name))
    }

    /// The same, asking a guard about the directory.
    pub(crate) fn lookup_guarded(&self, guard: &dyn Guard, parent: Ino, name: &[u8]) -> Result<Attributes, VfsError> {
        self.found(|store| store.guarded(guard).lookup(parent, name))
    }

    fn found(&self, find: impl FnOnce(&Store) -> Result<Attributes, MetaError>) -> Result<Attributes, VfsError> {
        let left_count = self.files.left_count();
        let attributes = find(&self.store)?;
        self.reference(attributes.ino);
        Ok(self.newest(attributes, left_count))
    }

    /// What `stat` says.
    ///
    /// # Errors
    /// No such inode.
    pub fn attributes(&self, ino: Ino) -> Result<Attributes, VfsError> {
        let Some(file) = self.files.peek(ino) else { return Ok(self.store.attributes(ino)?) };
        // Under the file's lock: between the store's word and the file's, a commit would take from both.
        let mut state = file.lock();
        let mut attributes = self.store.attributes(ino)?;
        state.overlay(&self.store, &mut attributes)?;
        Ok(attributes)
    }

    /// The store's attributes, or newer ones. `left_count` is the number of files that had left the table before the store was asked: a
    /// file in use may have been committed after the store's answer, and may have left the table.
    fn newest(&self, attributes: Attributes, left_count: u64) -> Attributes {
        if attributes.kind != Kind::File || self.files.is_unused_since(left_count, attributes.ino) {
            return attributes;
        }
        self.attributes(attributes.ino).unwrap_or(attributes)
    }

    /// chmod, chown, utimens and truncate in one. Permissions were checked by the caller's kernel.
    ///
    /// # Errors
    /// No such inode; a size for something that has none.
    pub fn set_attributes(&self, ino: Ino, change: &AttributeChange) -> Result<Attributes, VfsError> {
        let truncated = change.size.map(|size| self.truncate(ino, size, change.clear_suid)).transpose()?;
        let changed = self.change_attributes(ino, change, |old, mut set| {
            if (set.uid.is_some() || set.gid.is_some()) && old.kind != Kind::Directory {
                set.removes_capability = true;
                let mode = without_set_id(old.mode);
                set.mode = set.mode.or((mode != old.mode).then_some(mode));
            }
            Ok(set)
        })?;
        changed.or(truncated).map_or_else(|| self.attributes(ino), Ok)
    }

    /// Changes all but the size, if anything is to be changed. `decide` says what becomes of it by the attributes before.
    pub(crate) fn change_attributes(
        &self,
        ino: Ino,
        change: &AttributeChange,
        decide: impl Fn(&Attributes, SetAttributes) -> Result<SetAttributes, MetaError>,
    ) -> Result<Option<Attributes>, VfsError> {
        let time = self.now();
        let resolve = |set: Option<SetTime>| {
            set.map(|set| match set {
                SetTime::Now => time,
                SetTime::To(to) => to,
            })
        };
        let mut set = SetAttributes {
            mode: change.mode,
            uid: change.uid,
            gid: change.gid,
            atime: resolve(change.atime),
            mtime: resolve(change.mtime),
            ctime: None,
            removes_capability: false,
        };
        if set == SetAttributes::default() {
            return Ok(None);
        }
        let ctime = change.ctime.unwrap_or(time);
        set.ctime = Some(ctime);
        let apply = || self.store.change_attributes(ino, |old| decide(old, set));
        let Some(file) = self.files.peek(ino) else { return Ok(Some(apply()?)) };
        // Under the file's lock: a commit of older times must not come after this.
        let mut state = file.lock();
        let mut attributes = apply()?;
        if let Some(mtime) = set.mtime {
            state.mtime = mtime;
            state.was_given_up = false;
        }
        state.known = (attributes.mtime, attributes.ctime);
        state.ctime = ctime;
        state.overlay(&self.store, &mut attributes)?;
        Ok(Some(attributes))
    }

    /// Clears set-user-id and, for group-executable files, set-group-id, as a write by an unprivileged process must.
    pub(crate) fn clear_set_id(&self, ino: Ino) -> Result<(), VfsError> {
        self.change_mode(ino, |old| Some(without_set_id(old.mode)))
    }

    /// Gives an inode the mode that `decide` says by the attributes before, if it is another.
    pub(crate) fn change_mode(&self, ino: Ino, decide: impl Fn(&Attributes) -> Option<u16>) -> Result<(), VfsError> {
        // Nearly always nothing is to be changed, which a plain read finds.
        let changes = |old: &Attributes| decide(old).filter(|mode| *mode != old.mode);
        if changes(&self.store.attributes(ino)?).is_some() {
            let time = self.now();
            self.store.change_attributes(ino, |old| {
                let set = |mode| SetAttributes { mode: Some(mode), ctime: Some(time), ..SetAttributes::default() };
                Ok(changes(old).map(set).unwrap_or_default())
            })?;
        }
        Ok(())
    }

    /// A symbolic link's target.
    ///
    /// # Errors
    /// No such inode; not a symbolic link.
    pub fn readlink(&self, ino: Ino) -> Result<Vec<u8>, VfsError> {
        Ok(self.store.readlink(ino)?)
    }

    /// mknod and mkdir. Takes one reference.
    ///
    /// # Errors
    /// The name exists or is not allowed; `parent` is no directory.
    pub fn make_node(
        &self,
        caller: &Caller,
        parent: Ino,
        name: &[u8],
        kind: Kind,
        mode: u16,
        rdev: u32,
    ) -> Result<Attributes, VfsError> {
        self.make_guarded(&(), parent, name, &new_inode(caller, kind, mode, rdev))
    }

    /// Makes anything. Takes one reference.
    pub(crate) fn make_guarded(
        &self,
        guard: &dyn Guard,
        parent: Ino,
        name: &[u8],
        new: &NewInode,
    ) -> Result<Attributes, VfsError> {
        let attributes = self.store.guarded(guard).create(parent, name, new, self.now())?;
        self.reference(attributes.ino);
        Ok(attributes)
    }

    /// A symbolic link. Takes one reference.
    ///
    /// # Errors
    /// As [`Volume::make_node`].
    pub fn symlink(&self, caller: &Caller, parent: Ino, name: &[u8], target: &[u8]) -> Result<Attributes, VfsError> {
        self.make_guarded(&(), parent, name, &new_symlink(caller, target))
    }

    /// A hard link. Takes one reference.
    ///
    /// # Errors
    /// The name exists; `ino` is a directory.
    pub fn link(&self, ino: Ino, new_parent: Ino, new_name: &[u8]) -> Result<Attributes, VfsError> {
        self.link_guarded(&(), ino, new_parent, new_name)
    }

    pub(crate) fn link_guarded(
        &self,
        guard: &dyn Guard,
        ino: Ino,
        new_parent: Ino,
        new_name: &[u8],
    ) -> Result<Attributes, VfsError> {
        let time = self.now();
        let left_count = self.files.left_count();
        let attributes = self.store.guarded(guard).link(ino, new_parent, new_name, time)?;
        self.reference(ino);
        self.note_ctime(ino, time);
        Ok(self.newest(attributes, left_count))
    }

    /// A file with dirty bytes is committed with the times it has here, so they follow what the store was told.
    pub(crate) fn note_ctime(&self, ino: Ino, time: Timestamp) {
        if let Some(file) = self.files.peek(ino) {
            file.lock().ctime = time;
        }
    }

    /// Removes a name. The inode stays as long as it has another, is open, is referenced, or is kept to be brought back.
    ///
    /// # Errors
    /// No such name; it is a directory.
    pub fn unlink(&self, parent: Ino, name: &[u8]) -> Result<(), VfsError> {
        self.unlink_guarded(&(), parent, name)
    }

    pub(crate) fn unlink_guarded(&self, guard: &dyn Guard, parent: Ino, name: &[u8]) -> Result<(), VfsError> {
        let time = self.now();
        let outcome = self.store.guarded(guard).unlink(parent, name, time)?;
        self.note_unlinked(&outcome.attributes, outcome.is_kept, time);
        Ok(())
    }

    fn note_unlinked(&self, attributes: &Attributes, is_kept: bool, time: Timestamp) {
        self.note_ctime(attributes.ino, time);
        if attributes.nlink == 0 && !is_kept {
            self.orphaned(attributes.ino);
        }
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// No such name; not a directory; not empty.
    pub fn remove_directory(&self, parent: Ino, name: &[u8]) -> Result<(), VfsError> {
        self.remove_directory_guarded(&(), parent, name)
    }

    pub(crate) fn remove_directory_guarded(&self, guard: &dyn Guard, parent: Ino, name: &[u8]) -> Result<(), VfsError> {
        let outcome = self.store.guarded(guard).rmdir(parent, name, self.now())?;
        if !outcome.is_kept {
            self.orphaned(outcome.attributes.ino);
        }
        Ok(())
    }

    /// renameat2(2).
    ///
    /// # Errors
    /// As rename(2) has them.
    pub fn rename(
        &self,
        parent: Ino,
        name: &[u8],
        new_parent: Ino,
        new_name: &[u8],
        flags: RenameFlags,
    ) -> Result<(), VfsError> {
        self.rename_guarded(&(), (parent, name), (new_parent, new_name), flags)
    }

    pub(crate) fn rename_guarded(
        &self,
        guard: &dyn Guard,
        (parent, name): (Ino, &[u8]),
        (new_parent, new_name): (Ino, &[u8]),
        flags: RenameFlags,
    ) -> Result<(), VfsError> {
        // Write, rename over the old version, crash: the name must not end up with neither version. So the bytes go
        // before the name.
        let unsafe_files = RefCell::new(Vec::new());
        let is_safe = |ino| {
            let dirty = self.files.peek(ino).filter(|_| self.write_back.has_dirty_files());
            let is_safe = dirty.is_none();
            unsafe_files.borrow_mut().extend(dirty);
            is_safe
        };
        let (from, to) = ((parent, name), (new_parent, new_name));
        let (store, mut time) = (self.store.guarded(guard), self.now());
        let mut outcome = store.rename_if(from, to, flags, is_safe, time)?;
        if outcome.is_none() {
            if !has_planted(Planted::RenameBeforeBytes) {
                unsafe_files.take().iter().try_for_each(|file| self.write_back.make_recoverable(file))?;
            }
            time = self.now();
            outcome = store.rename_if(from, to, flags, |_| true, time)?;
        }
        let Some(outcome) = outcome else { return Ok(()) };
        [Some(outcome.moved), outcome.exchanged].into_iter().flatten().for_each(|ino| self.note_ctime(ino, time));
        if let Some(replaced) = &outcome.replaced {
            self.note_unlinked(&replaced.attributes, replaced.is_kept, time);
        }
        Ok(())
    }

    /// Up to `limit` entries after `after_cookie` (0: from the beginning), `.` and `..` first. What is added or removed
    /// meanwhile neither repeats nor hides other entries.
    ///
    /// # Errors
    /// No such inode; not a directory.
    pub fn read_directory(&self, ino: Ino, after_cookie: u64, limit: usize) -> Result<Vec<DirectoryEntry>, VfsError> {
        let dots = DOT_DOT_COOKIE.saturating_sub(after_cookie) as usize;
        let after = after_cookie.max(DOT_DOT_COOKIE);
        let place = (after, limit.saturating_sub(dots));
        let listed = self.listings.next(&self.store, &self.files, ino, place, !self.read_only && !self.is_shared())?;
        let directory = listed.directory;
        let mut entries = Vec::with_capacity(dots + listed.entries.len());
        if dots == 2 {
            entries.push(DirectoryEntry { cookie: DOT_COOKIE, name: b".".to_vec(), attributes: directory });
        }
        if dots > 0 {
            let parent = match directory.parent == ino {
                true => directory,
                // A directory that lost its name keeps its own attributes for `..`; nobody can go there any more.
                false => self.store.attributes(directory.parent).unwrap_or(directory),
            };
            entries.push(DirectoryEntry { cookie: DOT_DOT_COOKIE, name: b"..".to_vec(), attributes: parent });
        }
        entries.extend(listed.entries.into_iter().map(|entry| DirectoryEntry {
            cookie: entry.cookie,
            name: entry.name,
            attributes: self.newest(entry.attributes, listed.left_count),
        }));
        entries.truncate(limit);
        Ok(entries)
    }

    /// Every change of this directory so far is durable.
    ///
    /// # Errors
    /// Metadata cannot be written.
    pub fn sync_directory(&self, _ino: Ino) -> Result<(), VfsError> {
        Ok(self.store.sync()?)
    }

    /// An extended attribute; [`POLICY_XATTR`] answers on every file and directory.
    ///
    /// # Errors
    /// No such attribute.
    pub fn get_xattr(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>, VfsError> {
        if name == POLICY_XATTR {
            let policy = self.store.attributes(ino)?.policy;
            return Ok(policy_text(&self.store.policy(policy)?).into_bytes());
        }
        refuse_unenforced(name)?;
        // The kernel asks before the first write to each file. Where several processes change the volume another may have set it.
        if name == CAPABILITY_XATTR && !self.is_shared() && self.files.has_no_capability(ino) {
            return Err(MetaError::NoAttribute.into());
        }
        Ok(self.store.get_xattr(ino, name)?)
    }

    /// Is it the caller's, or does it count as its owner?
    pub(crate) fn owns(&self, caller: &Caller, ino: Ino) -> Result<bool, VfsError> {
        Ok(caller.owns(&self.store.attributes(ino)?))
    }

    /// Sets an extended attribute; [`POLICY_XATTR`] sets the policy of a directory, for what is made in it from now on, or of a
    /// file, [`RESTORE_XATTR`] of the root directory brings back what was deleted, [`PURGE_XATTR`] lets go of it, [`SYNC_XATTR`] writes everything.
    ///
    /// # Errors
    /// As setxattr(2); a policy that is none; what is only for the owner; what cannot be written.
    pub fn set_xattr(
        &self,
        caller: &Caller,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> Result<(), VfsError> {
        self.set_xattr_guarded(&(), caller, ino, (name, value), mode)
    }

    pub(crate) fn set_xattr_guarded(
        &self,
        guard: &dyn Guard,
        caller: &Caller,
        ino: Ino,
        (name, value): (&[u8], &[u8]),
        mode: XattrMode,
    ) -> Result<(), VfsError> {
        // The kernel asks for the right to write only, which others may have.
        let owns = |ino| self.owns(caller, ino);
        if name == POLICY_XATTR {
            let code = std::str::from_utf8(value).map_err(|_| VfsError::Invalid("a policy is a text like rs:4+2"))?;
            if !owns(ino)? {
                return Err(VfsError::NotPermitted("only its owner and root choose its policy"));
            }
            let maker = if owns(Ino::ROOT)? { PolicyMaker::Administrator } else { PolicyMaker::User };
            return self.set_policy_as(maker, ino, code);
        }
        if name == RESTORE_XATTR && ino == Ino::ROOT {
            return self.restore_named(caller, value).map(drop);
        }
        if name == PURGE_XATTR && ino == Ino::ROOT {
            return self.purge_named(caller, value);
        }
        if name == SYNC_XATTR && ino == Ino::ROOT {
            return self.sync_to_nodes();
        }
        refuse_unenforced(name)?;
        let time = self.now();
        self.store.guarded(guard).set_xattr(ino, name, value, mode, time)?;
        self.note_ctime(ino, time);
        // After the change: a file that was loaded before it is in the table by now, one that is loaded later knows.
        if name == CAPABILITY_XATTR
            && let Some(file) = self.files.peek(ino)
        {
            file.lock().has_capability = true;
        }
        Ok(())
    }

    /// Names of the extended attributes.
    ///
    /// # Errors
    /// No such inode.
    pub fn list_xattrs(&self, ino: Ino) -> Result<Vec<Vec<u8>>, VfsError> {
        Ok(self.store.list_xattrs(ino)?)
    }

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// No such attribute.
    pub fn remove_xattr(&self, ino: Ino, name: &[u8]) -> Result<(), VfsError> {
        self.remove_xattr_guarded(&(), ino, name)
    }

    pub(crate) fn remove_xattr_guarded(&self, guard: &dyn Guard, ino: Ino, name: &[u8]) -> Result<(), VfsError> {
        if name == POLICY_XATTR {
            return Err(VfsError::NotPermitted("there always is a policy; set another"));
        }
        refuse_unenforced(name)?;
        let time = self.now();
        self.store.guarded(guard).remove_xattr(ino, name, time)?;
        self.note_ctime(ino, time);
        Ok(())
    }

    /// What is made in this directory from now on, or written to this file, is kept by this policy. What the file has already is
    /// given its code by the next conversion.
    ///
    /// # Errors
    /// Neither directory nor file; a code that is none of ours, or needs more nodes than there are: what is made under such a
    /// policy could never be written.
    pub fn set_policy(&self, ino: Ino, text: &str) -> Result<(), VfsError> {
        self.set_policy_as(PolicyMaker::Administrator, ino, text)
    }

    fn set_policy_as(&self, maker: PolicyMaker, ino: Ino, text: &str) -> Result<(), VfsError> {
        let policy = Policy::new(policy_for(text)?)?;
        let nodes = self.store.nodes()?.iter().filter(|(_, node)| node.state == NodeState::Active).count();
        if nodes < policy.nodes {
            let detail = format!("it needs {} nodes and the volume has {nodes}: add nodes first", policy.nodes);
            return Err(VfsError::BadPolicy { code: policy.record.code, detail });
        }
        if self.store.attributes(ino)?.kind != Kind::File {
            self.store.set_policy_as(maker, ino, &policy.record, self.now())?;
            return Ok(());
        }
        // Held meanwhile, so that nobody else opens it and writes by the former policy for as long as it is open.
        let file = self.files.open(&self.store, ino)?;
        let set = {
            let mut state = file.lock();
            self.store
                .set_policy_as(maker, ino, &policy.record, self.now())
                .map(|policy| (state.policy, state.ctime) = (policy, self.now()))
        };
        self.reclaim_if(self.files.close(ino));
        Ok(set?)
    }

    /// Room: what segments of the default policy can use of what the nodes have, times the share of data in it.
    ///
    /// # Errors
    /// Metadata cannot be read.
    pub fn statfs(&self) -> Result<Statfs, VfsError> {
        const BLOCK_BYTES: u64 = 4096;
        let root = self.store.attributes(Ino::ROOT)?;
        let policy = self.policies.get(&self.store, root.policy)?;
        let view = self.fleet().view();
        let unit_shards = view.rule.unit_shards_of(policy.tolerance);
        let Room { total_bytes, free_bytes } = usable_room(&view, policy.width, unit_shards);
        let blocks = |bytes: u64| (bytes as f64 * policy.efficiency) as u64 / BLOCK_BYTES;
        let inodes = self.store.statistics()?.inodes;
        let files_free = u64::from(u32::MAX);
        Ok(Statfs {
            block_bytes: BLOCK_BYTES as u32,
            blocks: blocks(total_bytes),
            blocks_free: blocks(free_bytes),
            blocks_available: blocks(free_bytes),
            files: inodes + files_free,
            files_free,
            name_bytes_max: NAME_BYTES_MAX as u32,
        })
    }
}

/// POSIX ACLs and SELinux labels are not kept: saying so beats keeping bytes that nobody enforces. Besides, `ls -l` asks each file
/// for its label until it hears that the file system has none.
fn refuse_unenforced(name: &[u8]) -> Result<(), VfsError> {
    if name.starts_with(b"system.posix_acl_") {
        return Err(VfsError::NotSupported("POSIX ACLs"));
    }
    if name == b"security.selinux" {
        return Err(VfsError::NotSupported("SELinux labels"));
    }
    Ok(())
}

/// What the caller makes, but for the group and the bits that its directory decides.
pub(crate) fn new_inode(caller: &Caller, kind: Kind, mode: u16, rdev: u32) -> NewInode {
    NewInode { kind, mode, uid: caller.uid, gid: caller.gid, rdev, symlink_target: Vec::new() }
}

pub(crate) fn new_symlink(caller: &Caller, target: &[u8]) -> NewInode {
    NewInode { symlink_target: target.to_vec(), ..new_inode(caller, Kind::Symlink, 0o777, 0) }
}
