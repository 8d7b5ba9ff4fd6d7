//! What a file-system call answers besides success: a sentence for people, an errno for the kernel. No other crate of ours
//! knows errno.

use std::sync::Arc;
use weft_format::Ino;
use weft_meta::kv::KvError;
use weft_meta::{Denied, MetaError};
use weft_transfer::{ReadError, WriteError};

/// A failed call on a [`crate::Volume`].
#[derive(Debug, thiserror::Error)]
pub enum VfsError {
    /// Metadata says no.
    #[error(transparent)]
    Meta(#[from] MetaError),
    /// A file's bytes cannot be had now.
    #[error("inode {ino}: {source}")]
    Read {
        /// The file.
        ino: Ino,
        /// Why.
        source: ReadError,
    },
    /// Bytes written earlier could not be made durable on enough nodes. They are kept and tried again.
    #[error("{0}")]
    Write(#[from] WriteError),
    /// Compaction found no node for some shards of a new segment.
    #[error("a compacted segment would miss {missing_count} shards: compact when every node answers")]
    ShortCopy {
        /// How many.
        missing_count: usize,
    },
    /// The same as `Write`, told to whoever syncs or writes next.
    #[error("an earlier write failed: {0}")]
    Earlier(Arc<VfsError>),
    /// No node has taken anything for a long while, and memory for dirty bytes is used up.
    #[error("nothing could be written for {seconds} s; look at `weft status`")]
    Stalled {
        /// How long the writer waited.
        seconds: u64,
    },
    /// The nodes have less room than was asked for.
    #[error("the nodes have no room for {bytes} more bytes")]
    NoRoom {
        /// Asked for.
        bytes: u64,
    },
    /// A fault of this program.
    #[error("{what} panicked: the log has the place; unmount and mount again")]
    Panicked {
        /// What did.
        what: &'static str,
    },
    /// What a volume that ends could not write.
    #[error("{bytes} bytes of {file_count} files could not be written and are lost: {source}")]
    Dropped {
        /// How many files.
        file_count: u64,
        /// How many bytes of them.
        bytes: u64,
        /// The first failure.
        source: Box<VfsError>,
    },
    /// A handle that is not open.
    #[error("handle {0} is not open")]
    BadHandle(u64),
    /// An argument that POSIX refuses.
    #[error("invalid argument: {0}")]
    Invalid(&'static str),
    /// Not for this caller.
    #[error("operation not permitted: {0}")]
    NotPermitted(&'static str),
    /// A symbolic link, which is not followed.
    #[error("a symbolic link is not followed here: read it, and look up its target")]
    Symlink,
    /// A pipe, socket or device: it is used by the machine that shows it.
    #[error("a pipe, socket or device has no bytes in a volume")]
    NoBytes,
    /// `.` or `..` where a name is changed.
    #[error("`.` and `..` cannot be renamed")]
    Dots,
    /// Not a name of an extended attribute.
    #[error("an extended attribute's name has 1 to 255 bytes")]
    XattrName,
    /// A change of a volume that is open for reading only.
    #[error("the volume is open for reading only")]
    ReadOnly,
    /// Not for this kind of file, or not by this file system.
    #[error("not supported: {0}")]
    NotSupported(&'static str),
    /// `SEEK_DATA` or `SEEK_HOLE` past the end.
    #[error("no data at or after the offset")]
    NoSuchOffset,
    /// Larger than a file can be (2^63 - 1 bytes).
    #[error("file too large")]
    TooLarge,
    /// Another process has removed the file: its name, if there is one, means another now.
    #[error("the file was removed by another process")]
    Stale,
    /// The volume is shutting down.
    #[error("the volume is being unmounted")]
    ShuttingDown,
    /// The policy of a directory names a code that this program does not have.
    #[error("policy `{code}` cannot be used: {detail}")]
    BadPolicy {
        /// Its code.
        code: String,
        /// What is wrong with it.
        detail: String,
    },
}

impl From<Denied> for VfsError {
    fn from(denied: Denied) -> Self {
        Self::Meta(denied.into())
    }
}

impl VfsError {
    /// The errno that a POSIX caller expects.
    pub fn errno(&self) -> i32 {
        match self {
            Self::Meta(error) => meta_errno(error),
            Self::Read { .. } => libc::EIO,
            Self::Write(error) if error.is_full() => libc::ENOSPC,
            Self::Write(_) | Self::Stalled { .. } | Self::ShortCopy { .. } => libc::EIO,
            Self::Earlier(error) => error.errno(),
            Self::Dropped { source, .. } => source.errno(),
            Self::Panicked { .. } => libc::EIO,
            Self::BadHandle(_) => libc::EBADF,
            Self::Invalid(_) | Self::BadPolicy { .. } => libc::EINVAL,
            Self::NotPermitted(_) => libc::EPERM,
            Self::Symlink => libc::ELOOP,
            Self::NoBytes => libc::ENXIO,
            Self::Dots => libc::EBUSY,
            Self::XattrName => libc::ERANGE,
            Self::ReadOnly => libc::EROFS,
            Self::NotSupported(_) => libc::EOPNOTSUPP,
            Self::NoRoom { .. } => libc::ENOSPC,
            Self::NoSuchOffset => libc::ENXIO,
            Self::TooLarge => libc::EFBIG,
            Self::Stale => libc::ESTALE,
            Self::ShuttingDown => libc::ENOTCONN,
        }
    }
}

fn meta_errno(error: &MetaError) -> i32 {
    match error {
        MetaError::NotFound => libc::ENOENT,
        MetaError::Exists => libc::EEXIST,
        MetaError::NotDirectory => libc::ENOTDIR,
        MetaError::IsDirectory => libc::EISDIR,
        MetaError::NotEmpty => libc::ENOTEMPTY,
        MetaError::NameTooLong { .. } => libc::ENAMETOOLONG,
        MetaError::InvalidName | MetaError::Invalid { .. } => libc::EINVAL,
        MetaError::TooManyLinks(_) => libc::EMLINK,
        MetaError::TooManyLocks(_) => libc::ENOLCK,
        MetaError::NoAttribute => libc::ENODATA,
        MetaError::TooLarge => libc::EFBIG,
        MetaError::AttributeTooLarge { .. } => libc::E2BIG,
        MetaError::TooManyPolicies { .. } => libc::EDQUOT,
        MetaError::Engine(KvError::Full { .. }) => libc::ENOSPC,
        MetaError::Denied(Denied::Mode) => libc::EACCES,
        MetaError::Denied(Denied::Privilege) => libc::EPERM,
        MetaError::Superseded(_) => libc::EROFS,
        MetaError::SegmentChanged(_) | MetaError::Engine(KvError::Conflict) => libc::EAGAIN,
        _ => libc::EIO,
    }
}
