//! What a metadata operation can answer besides success. The gateway maps each to its errno; nobody else knows errno.

use crate::guard::Denied;
use crate::kv::KvError;
use weft_format::{Ino, SegmentId};

/// A failed metadata operation; nothing of it was applied.
#[derive(Debug, thiserror::Error)]
pub enum MetaError {
    /// No such name, or no such inode any more.
    #[error("no such file or directory")]
    NotFound,
    /// The name is taken.
    #[error("the name exists already")]
    Exists,
    /// A directory was needed.
    #[error("not a directory")]
    NotDirectory,
    /// Something other than a directory was needed.
    #[error("is a directory")]
    IsDirectory,
    /// The directory has entries.
    #[error("the directory is not empty")]
    NotEmpty,
    /// Longer than 255 bytes.
    #[error("the name is {bytes} bytes long; at most 255 are allowed")]
    NameTooLong {
        /// Its length.
        bytes: usize,
    },
    /// Empty, `.`, `..`, or with a slash or NUL.
    #[error("the name is not allowed")]
    InvalidName,
    /// A directory cannot move into itself, or arguments contradict each other.
    #[error("invalid argument: {what}")]
    Invalid {
        /// Which.
        what: &'static str,
    },
    /// 2^32 - 1 hard links.
    #[error("too many links to inode {0}")]
    TooManyLinks(Ino),
    /// 1,000 locks of parts of it.
    #[error("inode {0} has too many locks: end some, or lock larger parts")]
    TooManyLocks(Ino),
    /// No such extended attribute.
    #[error("no such extended attribute")]
    NoAttribute,
    /// Policies are few.
    #[error("the volume has {count} policies, and this user makes no more: use one of them, or ask root for another")]
    TooManyPolicies {
        /// How many there are.
        count: usize,
    },
    /// Longer than 64 KiB.
    #[error("the extended attribute's value is {bytes} bytes long; at most 65536 are allowed")]
    AttributeTooLarge {
        /// Its length.
        bytes: usize,
    },
    /// Offset or size beyond what a file can have (2^63 - 1).
    #[error("file too large")]
    TooLarge,
    /// A segment changed under a repair, a move or a collection: read its record again and decide again.
    #[error("segment {0} changed meanwhile; its record must be read again")]
    SegmentChanged(SegmentId),
    /// What was to be done, another may do now.
    #[error("the lease `{lease}` has another holder now, which goes on with the work")]
    Fenced {
        /// Its name.
        lease: String,
    },
    /// Nodes know a newer opening of the volume, or the engine another owner: nothing may be changed here; the sentence says so, and the
    /// mend.
    #[error("{0}")]
    Superseded(String),
    /// The metadata is durable here, and not on the nodes, where an fsync waits for those. A clause says why.
    #[error("the names are durable here, and not on the nodes yet: {0}; see `weft status`")]
    Behind(String),
    /// Another process owns the volume; the sentence says who, and the mend.
    #[error("{0}")]
    InUse(String),
    /// The store is not a WeftFS volume, or of a newer format; the sentence says which and the mend.
    #[error("{0}")]
    Refused(String),
    /// A record that does not decode: run `weft fsck`.
    #[error("metadata record {key} is damaged ({detail}); run `weft fsck`")]
    Damaged {
        /// The key, printable.
        key: String,
        /// What is wrong with it.
        detail: String,
    },
    /// The caller may not.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// The engine's own answer.
    #[error(transparent)]
    Engine(KvError),
}

impl From<KvError> for MetaError {
    fn from(error: KvError) -> Self {
        match error {
            KvError::Displaced { sentence } => Self::Superseded(sentence),
            error => Self::Engine(error),
        }
    }
}
