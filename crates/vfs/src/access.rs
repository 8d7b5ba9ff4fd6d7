//! Who may do what, exactly as Linux decides it on a local file system without ACLs: mode bits, groups, the sticky bit and
//! capabilities.
//!
//! Pure: a caller and attributes go in, the answer comes out. [`crate::Checked`] asks these rules for every gateway that has no
//! kernel to ask them; FUSE has one (`default_permissions`). The tests compare all of them with the kernel's own answers.

use weft_format::records::{Attributes, Kind};
use weft_meta::{CAPABILITY_XATTR, Denied, Guard, MetaError, NewInode, Renaming, SetAttributes};

pub(crate) const SET_USER_ID: u16 = 0o4000;
pub(crate) const SET_GROUP_ID: u16 = 0o2000;
const STICKY: u16 = 0o1000;
pub(crate) const GROUP_EXECUTE: u16 = 0o010;
const ANY_EXECUTE: u16 = 0o111;
/// What mkdir(2) takes of a mode: a new directory's setgid bit comes from its parent.
const MKDIR_BITS: u16 = 0o1777;

bitflags::bitflags! {
    /// The Linux capabilities that a file system asks for, by their numbers in `linux/capability.h`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Capabilities: u64 {
        /// Give files to anybody.
        const CHOWN = 1 << 0;
        /// Read, write, search and execute whatever the mode says; execute only what somebody may execute.
        const DAC_OVERRIDE = 1 << 1;
        /// Read files and directories, and search directories, whatever the mode says.
        const DAC_READ_SEARCH = 1 << 2;
        /// Count as the owner of every file.
        const FOWNER = 1 << 3;
        /// Keep set-user-id and set-group-id bits.
        const FSETID = 1 << 4;
        /// See and change `trusted.` and `security.` attributes.
        const SYS_ADMIN = 1 << 21;
        /// Make device nodes.
        const MKNOD = 1 << 27;
        /// Give capabilities to files (`security.capability`).
        const SETFCAP = 1 << 31;
    }
}

bitflags::bitflags! {
    /// What access(2) asks for. Of a directory, `EXECUTE` is the right to search it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Wanted: u16 {
        /// Read the bytes, or list the names.
        const READ = 4;
        /// Change the bytes, or the names.
        const WRITE = 2;
        /// Execute it, or look up names in it.
        const EXECUTE = 1;
    }
}

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// User.
    pub uid: u32,
    /// Group, which new files get.
    pub gid: u32,
    /// Supplementary groups, in any order.
    pub groups: Vec<u32>,
    /// What is allowed beyond ownership and mode bits.
    pub capabilities: Capabilities,
}

impl Caller {
    /// A user without supplementary groups. Root (user 0) has all capabilities, others have none.
    pub fn new(uid: u32, gid: u32) -> Self {
        let capabilities = if uid == 0 { Capabilities::all() } else { Capabilities::empty() };
        Self { uid, gid, groups: Vec::new(), capabilities }
    }

    /// The same, also in these groups.
    pub fn with_groups(self, groups: Vec<u32>) -> Self {
        Self { groups, ..self }
    }

    /// The same, with these capabilities.
    pub fn with_capabilities(self, capabilities: Capabilities) -> Self {
        Self { capabilities, ..self }
    }

    fn has(&self, capability: Capabilities) -> bool {
        self.capabilities.contains(capability)
    }

    fn is_in(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.contains(&gid)
    }

    /// Is it the owner, or does it count as such?
    pub fn owns(&self, inode: &Attributes) -> bool {
        self.uid == inode.uid || self.has(Capabilities::FOWNER)
    }

    /// May it set the set-group-id bit of something of this group?
    fn keeps_set_group_id(&self, gid: u32) -> bool {
        self.is_in(gid) || self.has(Capabilities::FSETID)
    }

    fn must_own(&self, inode: &Attributes) -> Result<(), Denied> {
        if self.owns(inode) { Ok(()) } else { Err(Denied::Privilege) }
    }
}

/// access(2), and the check before every use of an inode. The first class that the caller is in decides: an owner without the
/// right does not get it as a member of the group.
///
/// # Errors
/// `Mode`.
pub fn permits(caller: &Caller, inode: &Attributes, wanted: Wanted) -> Result<(), Denied> {
    let class = match inode {
        Attributes { uid, .. } if *uid == caller.uid => inode.mode >> 6,
        Attributes { gid, .. } if caller.is_in(*gid) => inode.mode >> 3,
        _ => inode.mode,
    };
    if Wanted::from_bits_truncate(class).contains(wanted) {
        return Ok(());
    }
    let is_directory = inode.kind == Kind::Directory;
    let only_reads = if is_directory { !wanted.contains(Wanted::WRITE) } else { wanted == Wanted::READ };
    if only_reads && caller.has(Capabilities::DAC_READ_SEARCH) {
        return Ok(());
    }
    let can_execute = is_directory || !wanted.contains(Wanted::EXECUTE) || inode.mode & ANY_EXECUTE != 0;
    if can_execute && caller.has(Capabilities::DAC_OVERRIDE) { Ok(()) } else { Err(Denied::Mode) }
}

/// Names are looked up in a directory.
///
/// # Errors
/// `Mode`.
pub fn may_search(caller: &Caller, directory: &Attributes) -> Result<(), Denied> {
    permits(caller, directory, Wanted::EXECUTE)
}

/// Names are added to a directory or taken from it.
fn may_change_names(caller: &Caller, directory: &Attributes) -> Result<(), Denied> {
    permits(caller, directory, Wanted::WRITE | Wanted::EXECUTE)
}

/// Something is made in a directory: creat, mkdir, mknod, symlink. Its mode loses what the caller may not give: of a directory the
/// setuid and setgid bits (the latter comes from the parent), of anything else, in a setgid directory of a group that is not the caller's,
/// the setgid bit that would count.
///
/// # Errors
/// `Mode`; `Privilege`: a device node.
pub fn may_create(caller: &Caller, directory: &Attributes, new: &mut NewInode) -> Result<(), Denied> {
    may_change_names(caller, directory)?;
    let is_device = matches!(new.kind, Kind::CharDevice | Kind::BlockDevice);
    let is_whiteout = new.kind == Kind::CharDevice && new.rdev == 0;
    if is_device && !is_whiteout && !caller.has(Capabilities::MKNOD) {
        return Err(Denied::Privilege);
    }
    let counts = SET_GROUP_ID | GROUP_EXECUTE;
    let is_inherited = directory.mode & SET_GROUP_ID != 0;
    match new.kind {
        Kind::Directory => new.mode &= MKDIR_BITS,
        _ if new.mode & counts == counts && is_inherited && !caller.keeps_set_group_id(directory.gid) => {
            new.mode &= !SET_GROUP_ID;
        }
        _ => {}
    }
    Ok(())
}

/// A file gets one more name in a directory. As with `fs.protected_hardlinks`, which distributions turn on: others than the owner
/// link plain files only that they may read and write and that grant no rights.
///
/// # Errors
/// `Mode`; `Privilege`: a directory, or a source that is not the caller's.
pub fn may_link(caller: &Caller, directory: &Attributes, source: &Attributes) -> Result<(), Denied> {
    let counts = SET_GROUP_ID | GROUP_EXECUTE;
    let is_plain = source.kind == Kind::File && source.mode & SET_USER_ID == 0 && source.mode & counts != counts;
    if !(is_plain && permits(caller, source, Wanted::READ | Wanted::WRITE).is_ok()) {
        caller.must_own(source)?;
    }
    may_change_names(caller, directory)?;
    if source.kind == Kind::Directory { Err(Denied::Privilege) } else { Ok(()) }
}

/// A name is taken from a directory, by unlink, rmdir or rename. In a sticky directory that is for its owner and the victim's.
///
/// # Errors
/// `Mode`; `Privilege`: the sticky bit.
pub fn may_remove(caller: &Caller, directory: &Attributes, victim: &Attributes) -> Result<(), Denied> {
    may_change_names(caller, directory)?;
    let is_sticky = directory.mode & STICKY != 0;
    if is_sticky && caller.uid != directory.uid { caller.must_own(victim) } else { Ok(()) }
}

/// A name moves. A directory that gets another parent has its `..` changed, so it must be writable itself.
///
/// # Errors
/// `Denied`; `NotDirectory`, `IsDirectory`: what the kernel says of unlike kinds before it looks at `..`.
pub fn may_rename(caller: &Caller, renaming: &Renaming<'_>) -> Result<(), MetaError> {
    let Renaming { old_directory, moved, new_directory, target, is_exchange } = *renaming;
    let is_directory = moved.kind == Kind::Directory;
    may_remove(caller, old_directory, moved)?;
    match target {
        None => may_change_names(caller, new_directory)?,
        Some(target) => {
            may_remove(caller, new_directory, target)?;
            match (is_directory, target.kind == Kind::Directory) {
                (true, false) if !is_exchange => return Err(MetaError::NotDirectory),
                (false, true) if !is_exchange => return Err(MetaError::IsDirectory),
                _ => {}
            }
        }
    }
    if old_directory.ino == new_directory.ino {
        return Ok(());
    }
    let back = target.filter(|_| is_exchange);
    for inode in [Some(moved), back].into_iter().flatten().filter(|inode| inode.kind == Kind::Directory) {
        permits(caller, inode, Wanted::WRITE)?;
    }
    Ok(())
}

/// Are both times set to the time of the call, and nothing else about them? That whoever may write the file may, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Times {
    /// None is set.
    Kept,
    /// Both are set to now.
    Touched,
    /// Anything else.
    Set,
}

/// What chmod, chown, chgrp and utimensat make of an inode: `wanted`, less what the caller may not give. A chown of anything but a
/// directory takes away the bits that would let others act as the new owner, and the file's capabilities.
///
/// # Errors
/// `Privilege`: not the owner, or a group that the owner is not in; `Mode`: a touch by somebody who may not write.
pub fn may_change(
    caller: &Caller,
    inode: &Attributes,
    wanted: &SetAttributes,
    times: Times,
) -> Result<SetAttributes, Denied> {
    if times == Times::Touched && !caller.owns(inode) {
        permits(caller, inode, Wanted::WRITE)?;
    }
    let mut set = *wanted;
    if (set.uid.is_some() || set.gid.is_some()) && inode.kind != Kind::Directory {
        set.removes_capability = true;
        let kept = match set.mode {
            Some(mode) => without_set_id(mode),
            None if drops_set_group_id(caller, inode) => inode.mode & !(SET_USER_ID | SET_GROUP_ID),
            None => inode.mode & !SET_USER_ID,
        };
        set.mode = (set.mode.is_some() || kept != inode.mode).then_some(kept);
    }
    let may_chown = caller.has(Capabilities::CHOWN);
    let is_owner = caller.uid == inode.uid;
    if let Some(uid) = set.uid
        && !(may_chown || is_owner && uid == inode.uid)
    {
        return Err(Denied::Privilege);
    }
    if let Some(gid) = set.gid
        && !(may_chown || is_owner && (gid == inode.gid || caller.is_in(gid)))
    {
        return Err(Denied::Privilege);
    }
    if let Some(mode) = &mut set.mode {
        caller.must_own(inode)?;
        if !caller.keeps_set_group_id(set.gid.unwrap_or(inode.gid)) {
            *mode &= !SET_GROUP_ID;
        }
    }
    if times == Times::Set {
        caller.must_own(inode)?;
    }
    Ok(set)
}

/// The mode without set-user-id and (where the group may execute) set-group-id.
pub(crate) fn without_set_id(mode: u16) -> u16 {
    if mode & GROUP_EXECUTE != 0 { mode & !(SET_USER_ID | SET_GROUP_ID) } else { mode & !SET_USER_ID }
}

fn drops_set_group_id(caller: &Caller, inode: &Attributes) -> bool {
    inode.mode & SET_GROUP_ID != 0 && (inode.mode & GROUP_EXECUTE != 0 || !caller.keeps_set_group_id(inode.gid))
}

/// The mode that a write, a truncation or an allocation leaves a file; `None` if it stays. Its new bytes are not what the owner gave
/// rights to.
pub fn mode_after_write(caller: &Caller, inode: &Attributes) -> Option<u16> {
    if caller.has(Capabilities::FSETID) || inode.kind != Kind::File {
        return None;
    }
    let dropped = SET_USER_ID | if drops_set_group_id(caller, inode) { SET_GROUP_ID } else { 0 };
    (inode.mode & dropped != 0).then_some(inode.mode & !dropped)
}

/// What open(2) asks of an inode for these flags; whether it is something that can be opened is not looked at.
///
/// # Errors
/// `Mode`; `Privilege`: `O_NOATIME` by others than the owner.
pub fn may_open(caller: &Caller, inode: &Attributes, open_flags: i32) -> Result<(), Denied> {
    permits(caller, inode, wanted_by_open(open_flags))?;
    if open_flags & libc::O_NOATIME != 0 { caller.must_own(inode) } else { Ok(()) }
}

/// What the flags of open(2) want. `O_TRUNC` writes, whatever the access mode is.
pub(crate) fn wanted_by_open(open_flags: i32) -> Wanted {
    let wanted = match open_flags & libc::O_ACCMODE {
        libc::O_RDONLY => Wanted::READ,
        libc::O_WRONLY => Wanted::WRITE,
        _ => Wanted::READ | Wanted::WRITE,
    };
    if open_flags & libc::O_TRUNC != 0 { wanted | Wanted::WRITE } else { wanted }
}

/// The namespaces of extended attributes, each with rules of its own.
enum Namespace {
    User,
    Trusted,
    Capability,
    Security,
    System,
    Unknown,
}

fn namespace(name: &[u8]) -> Namespace {
    match name {
        CAPABILITY_XATTR => Namespace::Capability,
        _ if name.starts_with(b"security.") => Namespace::Security,
        _ if name.starts_with(b"system.") => Namespace::System,
        _ if name.starts_with(b"user.") => Namespace::User,
        _ if name.starts_with(b"trusted.") => Namespace::Trusted,
        _ => Namespace::Unknown,
    }
}

fn can_have_user_xattrs(inode: &Attributes) -> bool {
    matches!(inode.kind, Kind::File | Kind::Directory)
}

/// getxattr(2).
///
/// # Errors
/// `Denied`; `NoAttribute`: one that this caller does not see, or that this kind of file cannot have.
pub fn may_read_xattr(caller: &Caller, inode: &Attributes, name: &[u8]) -> Result<(), MetaError> {
    match namespace(name) {
        Namespace::Capability | Namespace::Security | Namespace::System => Ok(()),
        Namespace::Trusted if caller.has(Capabilities::SYS_ADMIN) => Ok(()),
        Namespace::Trusted => Err(MetaError::NoAttribute),
        Namespace::User if !can_have_user_xattrs(inode) => Err(MetaError::NoAttribute),
        Namespace::User | Namespace::Unknown => Ok(permits(caller, inode, Wanted::READ)?),
    }
}

/// setxattr(2) and removexattr(2).
///
/// # Errors
/// `Mode`; `Privilege`: `user.` attributes of what is neither file nor directory, or of another's sticky directory; `trusted.` and
/// `security.` ones.
pub fn may_change_xattr(caller: &Caller, inode: &Attributes, name: &[u8]) -> Result<(), Denied> {
    let needed = match namespace(name) {
        Namespace::User if !can_have_user_xattrs(inode) => return Err(Denied::Privilege),
        Namespace::User => {
            if inode.kind == Kind::Directory && inode.mode & STICKY != 0 {
                caller.must_own(inode)?;
            }
            return permits(caller, inode, Wanted::WRITE);
        }
        Namespace::Unknown => return permits(caller, inode, Wanted::WRITE),
        Namespace::System => return Ok(()),
        Namespace::Capability => Capabilities::SETFCAP,
        Namespace::Trusted | Namespace::Security => Capabilities::SYS_ADMIN,
    };
    if caller.has(needed) { Ok(()) } else { Err(Denied::Privilege) }
}

/// Is it what the kernel takes for a file's capabilities: revision 2, or 3 with the user whose namespace they count in?
pub(crate) fn is_capability(value: &[u8]) -> bool {
    /// `VFS_CAP_FLAGS_EFFECTIVE`.
    const EFFECTIVE: u32 = 1;
    let Some((header, rest)) = value.split_first_chunk() else { return false };
    matches!((u32::from_le_bytes(*header) & !EFFECTIVE, rest.len()), (0x0200_0000, 16) | (0x0300_0000, 20))
}

/// Does listxattr(2) name it?
pub fn lists_xattr(caller: &Caller, name: &[u8]) -> bool {
    !matches!(namespace(name), Namespace::Trusted) || caller.has(Capabilities::SYS_ADMIN)
}

/// Is it of a namespace that is kept?
pub(crate) fn is_kept_xattr(name: &[u8]) -> bool {
    !matches!(namespace(name), Namespace::Unknown | Namespace::System)
}

/// The rules above, asked within the transactions that change names.
pub(crate) struct CallerGuard<'c>(pub &'c Caller);

impl Guard for CallerGuard<'_> {
    fn search(&self, directory: &Attributes) -> Result<(), MetaError> {
        Ok(may_search(self.0, directory)?)
    }

    fn create(&self, directory: &Attributes, new: &mut NewInode) -> Result<(), MetaError> {
        Ok(may_create(self.0, directory, new)?)
    }

    fn link(&self, directory: &Attributes, source: &Attributes) -> Result<(), MetaError> {
        Ok(may_link(self.0, directory, source)?)
    }

    fn remove(&self, directory: &Attributes, victim: &Attributes) -> Result<(), MetaError> {
        Ok(may_remove(self.0, directory, victim)?)
    }

    fn rename(&self, renaming: &Renaming<'_>) -> Result<(), MetaError> {
        may_rename(self.0, renaming)
    }

    fn change_xattr(&self, inode: &Attributes, name: &[u8]) -> Result<(), MetaError> {
        Ok(may_change_xattr(self.0, inode, name)?)
    }
}

#[cfg(test)]
#[path = "access_tests.rs"]
mod tests;
