//! Attributes as a caller sets them, and what the volume holds in all.

use weft_format::Ino;
use weft_format::records::Attributes;

use super::Store;
use crate::MetaError;
use crate::keys::Key;
use crate::types::{CAPABILITY_XATTR, SetAttributes, Statistics};

impl Store {
    /// Changes what is given and returns the result.
    ///
    /// # Errors
    /// `NotFound`, `Invalid` (a mode with bits beyond `0o7777`, a time with 10^9 nanoseconds).
    pub fn set_attributes(&self, ino: Ino, change: &SetAttributes) -> Result<Attributes, MetaError> {
        self.change_attributes(ino, |_| Ok(*change))
    }

    /// The same, of what `decide` says by the attributes before. A transaction that is tried again asks again.
    ///
    /// # Errors
    /// As [`Store::set_attributes`], and those of `decide`.
    pub fn change_attributes(
        &self,
        ino: Ino,
        decide: impl Fn(&Attributes) -> Result<SetAttributes, MetaError>,
    ) -> Result<Attributes, MetaError> {
        self.transact_by_key(|txn| {
            let mut attributes = txn.inode(ino)?;
            let change = decide(&attributes)?;
            if change == SetAttributes::default() {
                return Ok(attributes);
            }
            attributes.mode = change.mode.unwrap_or(attributes.mode);
            attributes.uid = change.uid.unwrap_or(attributes.uid);
            attributes.gid = change.gid.unwrap_or(attributes.gid);
            attributes.atime = change.atime.unwrap_or(attributes.atime);
            attributes.mtime = change.mtime.unwrap_or(attributes.mtime);
            attributes.ctime = change.ctime.unwrap_or(attributes.ctime);
            txn.put_inode(&attributes);
            let capability = Key::Xattr(ino, CAPABILITY_XATTR);
            if change.removes_capability && txn.get(capability)?.is_some() {
                txn.remove(capability);
            }
            Ok(attributes)
        })
    }

    /// What the volume holds: one read. The count lies in one record that every create, reclaim and commit of data
    /// changes in its own transaction, so it is exact also after a crash. They add to it without having read it, so that none waits for
    /// another.
    ///
    /// # Errors
    /// Those of the engine, and damage.
    pub fn statistics(&self) -> Result<Statistics, MetaError> {
        let usage = self.view(|txn| txn.usage())?;
        Ok(Statistics { inodes: usage.inodes, live_bytes: usage.live_bytes })
    }
}

#[cfg(test)]
#[path = "attributes_tests.rs"]
mod tests;
