//! The FUSE gateway: a volume as a directory of this machine.
//!
//! What it never does: decide permissions (the kernel does, by `default_permissions`), keep state of its own (the volume
//! does), or answer later than the volume (every request is one blocking call on one of its threads).
//!
//! The loop: the kernel's request -> one method of `adapter.rs` -> one call of `vfs::Volume` -> reply.
//!
//! Start reading at `adapter.rs` (the requests), `kernel.rs` and `changed_names.rs` (what the kernel keeps), then `session.rs` (mounting),
//! `unmount.rs` and `mounts.rs` (the mount table), `guard.rs` (what ends a mount whose process cannot); `translate.rs` is pure, `requests.rs` counts.

mod adapter;
mod changed_names;
pub mod guard;
mod kernel;
mod locks;
pub mod mounts;
mod requests;
mod session;
mod translate;
mod unmount;

pub use requests::Requests;
pub use session::{Allowed, MountSettings, Mounted, check_mountpoint, mount};
pub use unmount::{Detach, unmount};

use std::path::PathBuf;

/// Why a volume could not be mounted or unmounted.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The kernel has no FUSE, or this machine does not give it to us.
    #[error(
        "this machine has no FUSE ({detail}): load it with `modprobe fuse`, or use `weft put` and `weft get`, which need none"
    )]
    NoFuse {
        /// What the system says.
        detail: String,
    },
    /// The device is there, but not for this user.
    #[error(
        "/dev/fuse cannot be opened by this user: ask root for `chmod 666 /dev/fuse`, or use `weft put` and `weft get`, which need no mount"
    )]
    DeviceDenied,
    /// Unprivileged users mount through a helper.
    #[error("fusermount3 was not found, and only root can mount without it: install the package fuse3")]
    NoHelper,
    /// Other users may be let in only if root allows it.
    #[error(
        "letting other users in is not allowed here: add `user_allow_other` to /etc/fuse.conf, or mount without --allow-other"
    )]
    AllowOtherDenied,
    /// No such directory.
    #[error("the mount point {} does not exist: create it with `mkdir -p`", .0.display())]
    Missing(PathBuf),
    /// A file, say.
    #[error("the mount point {} is not a directory: choose an empty directory", .0.display())]
    NotDirectory(PathBuf),
    /// What is in it would be hidden.
    #[error("the mount point {} is not empty: choose an empty directory", .0.display())]
    NotEmpty(PathBuf),
    /// Something lives there already.
    #[error("{} is already mounted (from {mounted}): unmount it first, or choose another directory", mountpoint.display())]
    AlreadyMounted {
        /// The directory.
        mountpoint: PathBuf,
        /// What the mount table calls its source.
        mounted: String,
    },
    /// A mount whose process is gone.
    #[error("the mount at {} is dead, its process is gone: end it with `weft umount {}`", .0.display(), .0.display())]
    Dead(PathBuf),
    /// Nothing is mounted there.
    #[error("{} is not a mount of WeftFS", .0.display())]
    NotMounted(PathBuf),
    /// Programs have files open or work in it.
    #[error("{} is in use: close what uses it (`fuser -vm {}` lists it), or unmount with --lazy", .0.display(), .0.display())]
    Busy(PathBuf),
    /// The mount point itself cannot be looked at.
    #[error("{}: {detail}", path.display())]
    Inaccessible {
        /// The path.
        path: PathBuf,
        /// What the system says.
        detail: String,
    },
    /// Anything else.
    #[error("{operation} of {} failed: {detail}", mountpoint.display())]
    Failed {
        /// `mount` or `unmount`.
        operation: &'static str,
        /// The directory.
        mountpoint: PathBuf,
        /// What the system says.
        detail: String,
    },
}

impl MountError {
    /// Is it that this machine or user has no FUSE, so that only ways without a mount are left?
    pub fn is_no_fuse(&self) -> bool {
        matches!(self, Self::NoFuse { .. } | Self::DeviceDenied | Self::NoHelper)
    }
}
