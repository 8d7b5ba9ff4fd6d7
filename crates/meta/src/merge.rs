//! Changes of a value that its writer need not have read, and the check of a directory that leaves them out.
//!
//! Without them all creates of a volume conflict in its usage, and all of a directory in its times. Both are sums or maxima: the order in
//! which they are applied does not matter. Engines call [`Merge::apply`] and [`Directory::holds`] when they apply a batch, and know
//! nothing else of what is in a value.

use crate::store::values::Usage;
use weft_format::records::{Attributes, Timestamp};

/// A change that is applied to the value that is there when the batch is committed. Merges of one key commute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merge {
    /// Of the volume's usage: so much more, or less.
    Usage {
        /// Inodes.
        inodes: i64,
        /// Bytes that extents refer to.
        live_bytes: i64,
    },
    /// Of a directory's attributes: its names changed.
    Names {
        /// When: neither its mtime nor its ctime goes back.
        changed: Timestamp,
        /// Subdirectories more, or less.
        subdirectories: i64,
    },
}

impl Merge {
    /// The value after it.
    ///
    /// # Errors
    /// A clause: the value is damaged, or would count less than nothing.
    pub fn apply(&self, value: &[u8]) -> Result<Vec<u8>, String> {
        match *self {
            Merge::Usage { inodes, live_bytes } => {
                let usage = Usage::decode(value).map_err(|error| error.to_string())?;
                let changed = || {
                    let inodes = usage.inodes.checked_add_signed(inodes)?;
                    Some(Usage { inodes, live_bytes: usage.live_bytes.checked_add_signed(live_bytes)? })
                };
                Ok(changed().ok_or("the volume's usage counts less than there is")?.encode())
            }
            Merge::Names { changed, subdirectories } => {
                let mut directory = Attributes::decode(value).map_err(|error| error.to_string())?;
                if subdirectories != 0 {
                    let nlink = i64::from(directory.nlink) + subdirectories;
                    // Two are its own name and its `.`.
                    let nlink = u32::try_from(nlink).ok().filter(|nlink| *nlink >= 2);
                    directory.nlink =
                        nlink.ok_or("a directory's link count is lower than its subdirectories make it")?;
                }
                directory.mtime = directory.mtime.max(changed);
                directory.ctime = directory.ctime.max(changed);
                Ok(directory.encode().to_vec())
            }
        }
    }
}

/// The check that a directory is still there, and what it was, but for what [`Merge::Names`] changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    /// Of its attributes.
    pub key: Vec<u8>,
    /// What was read there.
    pub value: Vec<u8>,
}

impl Directory {
    /// Does it hold of what is there now?
    #[must_use]
    pub fn holds(&self, found: Option<&[u8]>) -> bool {
        let Some(found) = found else { return false };
        if found == self.value {
            return true;
        }
        let (Ok(expected), Ok(found)) = (Attributes::decode(&self.value), Attributes::decode(found)) else {
            return false;
        };
        let has_names = |directory: &Attributes| directory.nlink > 0;
        let expected_now = Attributes { nlink: found.nlink, mtime: found.mtime, ctime: found.ctime, ..expected };
        has_names(&expected) == has_names(&found) && expected_now == found
    }
}

#[cfg(test)]
#[path = "merge_tests.rs"]
mod tests;
