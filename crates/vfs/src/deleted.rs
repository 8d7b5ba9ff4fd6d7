//! What was deleted and is kept for a while: brought back, or let go when its time is over or its room is needed.

use crate::access::Caller;
use crate::error::VfsError;
use crate::volume::Volume;
use weft_format::Ino;
use weft_format::removal::{Candidate, Evidence, Verdict, may_remove};
use weft_meta::{Deleted, MetaError};

/// Brings back what was deleted: set on the root directory of a mount, to what [`deleted_value`] makes.
pub const RESTORE_XATTR: &[u8] = b"user.weft.restore";

/// Lets go of what was deleted, in the same way.
pub const PURGE_XATTR: &[u8] = b"user.weft.purge";

/// Deleted inodes read at once.
const PAGE: usize = 256;

/// What was let go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expired {
    /// Because its time was over.
    pub count: u64,
    /// Before its time, for its room.
    pub early_count: u64,
}

/// The value of [`RESTORE_XATTR`] and [`PURGE_XATTR`] that names an inode, deleted at so many milliseconds since the Unix epoch.
pub fn deleted_value(deleted_ms: u64, ino: Ino) -> String {
    format!("{deleted_ms} {}", ino.0)
}

/// The inverse of [`deleted_value`].
pub(crate) fn parse_deleted(value: &[u8]) -> Result<(u64, Ino), VfsError> {
    let parse = || {
        let (deleted_ms, ino) = std::str::from_utf8(value).ok()?.split_once(' ')?;
        Some((deleted_ms.parse().ok()?, Ino(ino.parse().ok()?)))
    };
    parse().ok_or(VfsError::Invalid("a deleted file is named by a time in milliseconds, a blank and an inode number"))
}

impl Volume {
    /// Gives what was deleted its name back. Durable soon, as any change of names.
    ///
    /// # Errors
    /// It is not kept any more; its directory is deleted too, and is to be brought back first; the name is another's now.
    pub fn restore(&self, deleted_ms: u64, ino: Ino) -> Result<Deleted, VfsError> {
        let time = self.now();
        let restored = self.store.restore(deleted_ms, ino, time)?;
        self.note_ctime(ino, time);
        Ok(restored)
    }

    /// The same, of what [`deleted_value`] names, for a user; the result says which name it has again.
    ///
    /// # Errors
    /// As [`Volume::restore`]; `value` names nothing; the caller may not.
    pub fn restore_named(&self, caller: &Caller, value: &[u8]) -> Result<Deleted, VfsError> {
        if !self.owns(caller, Ino::ROOT)? {
            return Err(VfsError::NotPermitted(
                "only the owner of the root directory and root restore what was deleted",
            ));
        }
        let (deleted_ms, ino) = parse_deleted(value)?;
        self.restore(deleted_ms, ino)
    }

    /// Lets go of what was deleted, before its time.
    ///
    /// # Errors
    /// It is not kept any more.
    pub fn purge(&self, deleted_ms: u64, ino: Ino) -> Result<(), VfsError> {
        let kept = Candidate::File { deleted_ms, ino, keep_ms: 0, is_room_short: false };
        let Verdict::Mark(expired) = may_remove(kept, Evidence::Word) else { return Err(MetaError::NotFound.into()) };
        if !self.store.let_go(expired)? {
            return Err(MetaError::NotFound.into());
        }
        self.orphaned(ino);
        Ok(())
    }

    /// The same, of what [`deleted_value`] names, for a user.
    ///
    /// # Errors
    /// As [`Volume::purge`]; `value` names nothing; the caller may not.
    pub(crate) fn purge_named(&self, caller: &Caller, value: &[u8]) -> Result<(), VfsError> {
        if !self.owns(caller, Ino::ROOT)? {
            return Err(VfsError::NotPermitted("only the owner of the root directory and root purge what was deleted"));
        }
        let (deleted_ms, ino) = parse_deleted(value)?;
        self.purge(deleted_ms, ino)
    }

    /// Lets go of what was deleted and is past its time, and before it of the oldest, until files of `short_bytes` have gone. `now_ms`
    /// is of a wall clock that does not jump forward while the volume is open.
    ///
    /// # Errors
    /// Metadata cannot be read or written.
    pub fn expire_deleted(&self, now_ms: u64, mut short_bytes: u64) -> Result<Expired, VfsError> {
        let (keep_ms, mut expired) = (self.store.keep_ms()?, Expired::default());
        loop {
            let page = self.store.deleted(None, PAGE)?;
            for Deleted { attributes, deleted_ms, .. } in &page {
                let (deleted_ms, ino, is_room_short) = (*deleted_ms, attributes.ino, short_bytes > 0);
                let seen_ms = now_ms.saturating_sub(deleted_ms);
                let kept = Candidate::File { deleted_ms, ino, keep_ms, is_room_short };
                let Verdict::Mark(over) = may_remove(kept, Evidence::Owner { seen_ms }) else { return Ok(expired) };
                if !self.store.let_go(over)? {
                    continue;
                }
                self.orphaned(attributes.ino);
                if seen_ms >= keep_ms {
                    expired.count += 1;
                } else {
                    expired.early_count += 1;
                    short_bytes = short_bytes.saturating_sub(attributes.allocated_bytes);
                }
            }
            if page.len() < PAGE {
                return Ok(expired);
            }
        }
    }
}
