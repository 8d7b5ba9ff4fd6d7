//! The values that go into and come out of the calls of a [`crate::Volume`].

use weft_env::Env;
use weft_format::records::{Attributes, Timestamp};

/// An open file or directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Handle(pub u64);

/// A time to set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// The time of the call.
    Now,
    /// This time.
    To(Timestamp),
}

/// Attributes to change; `None` stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttributeChange {
    /// Permission bits.
    pub mode: Option<u16>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Length: a truncation, or a hole at the end.
    pub size: Option<u64>,
    /// Last read.
    pub atime: Option<SetTime>,
    /// Last change of content.
    pub mtime: Option<SetTime>,
    /// Last change of attributes, where a kernel decides it.
    pub ctime: Option<Timestamp>,
    /// A kernel asks that a truncation clear set-user-id and set-group-id.
    pub clear_suid: bool,
}

/// One line of a directory listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// Where a later listing continues.
    pub cookie: u64,
    /// The name; `.` and `..` come first.
    pub name: Vec<u8>,
    /// What `stat` would say.
    pub attributes: Attributes,
}

/// What `statfs` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statfs {
    /// Bytes a block, for the counts below.
    pub block_bytes: u32,
    /// Blocks of data that the nodes can hold under the default policy.
    pub blocks: u64,
    /// Blocks free.
    pub blocks_free: u64,
    /// Blocks free to unprivileged users; the same.
    pub blocks_available: u64,
    /// Inodes in use and free.
    pub files: u64,
    /// Inodes free.
    pub files_free: u64,
    /// Longest name.
    pub name_bytes_max: u32,
}

/// The wall clock, as a file's time.
pub(crate) fn now(env: &Env) -> Timestamp {
    let since = env.clock.unix_time();
    Timestamp { seconds: since.as_secs() as i64, nanoseconds: since.subsec_nanos() }
}

/// Milliseconds since the Unix epoch, as ids carry them.
pub(crate) fn milliseconds(time: Timestamp) -> u64 {
    time.seconds.max(0) as u64 * 1000 + u64::from(time.nanoseconds / 1_000_000)
}
