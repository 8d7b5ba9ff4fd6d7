//! Taking a mount out of the mount table: by the kernel where we may, else by fusermount3.

use super::{MountError, mounts};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use std::path::Path;
use std::process::{Command, Stdio};

/// What becomes of programs that still use the mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detach {
    /// It stays mounted, and unmounting fails, while it is in use.
    WhenUnused,
    /// It leaves the mount table now; who has files open keeps them until they are closed.
    Lazy,
    /// As lazy, and every request under way is given up: for a mount whose process hangs.
    Force,
}

/// Unmounts whatever is mounted at `mountpoint`.
///
/// # Errors
/// Not mounted; in use; not allowed.
pub fn unmount(mountpoint: &Path, detach: Detach) -> Result<(), MountError> {
    let found = mounts::at(mountpoint).map_err(|error| failed(mountpoint, error.to_string()))?;
    let Some(mounts::Mount { mountpoint, .. }) = found else {
        return Err(MountError::NotMounted(mountpoint.to_path_buf()));
    };
    let flags = match detach {
        Detach::WhenUnused => UnmountFlags::NOFOLLOW,
        Detach::Lazy => UnmountFlags::NOFOLLOW | UnmountFlags::DETACH,
        Detach::Force => UnmountFlags::NOFOLLOW | UnmountFlags::DETACH | UnmountFlags::FORCE,
    };
    match rustix::mount::unmount(&mountpoint, flags) {
        Ok(()) => Ok(()),
        Err(Errno::BUSY) => Err(MountError::Busy(mountpoint)),
        // Somebody else was faster.
        Err(Errno::INVAL | Errno::NOENT) => Err(MountError::NotMounted(mountpoint)),
        // Only root may unmount; the helper checks that the mount is the user's.
        Err(Errno::PERM) => by_helper(&mountpoint, detach),
        Err(error) => Err(failed(&mountpoint, error.to_string())),
    }
}

fn by_helper(mountpoint: &Path, detach: Detach) -> Result<(), MountError> {
    let mut helper = Command::new("fusermount3");
    helper.arg("-u").stdin(Stdio::null());
    if detach != Detach::WhenUnused {
        helper.arg("-z");
    }
    let output = helper.arg("--").arg(mountpoint).output().map_err(|_| MountError::NoHelper)?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if said.contains("busy") {
        return Err(MountError::Busy(mountpoint.to_path_buf()));
    }
    Err(failed(mountpoint, said))
}

fn failed(mountpoint: &Path, detail: String) -> MountError {
    MountError::Failed { operation: "unmount", mountpoint: mountpoint.to_path_buf(), detail }
}
