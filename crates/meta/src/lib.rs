//! Names, inodes, extents, segments, policies, nodes: typed records and transactions over a small ordered key-value
//! engine.
//!
//! What it never does: node I/O, algebra, caching of file bytes, errno. It imports `format` only.
//!
//! The loop of every operation: `snapshot -> decide -> commit if nothing it read has changed, else again`.
//!
//! Start reading at `kv.rs` (the engine's contract), then `keys.rs` and `store.rs`. `url.rs` selects an engine, `engines.rs` lists them.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![cfg_attr(
    not(feature = "shared"),
    allow(dead_code, unused_imports, reason = "some of it serves those engines alone")
)]

#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
pub mod deltas;
mod descriptor;
pub mod engines;
pub mod error;
pub mod fsck;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
pub mod guard;
pub mod keys;
pub mod kv;
pub mod locks;
pub mod owner;
pub mod pages;
mod replica;
#[cfg(feature = "servers")]
#[doc(hidden)]
pub mod servers;
pub mod store;
pub mod types;
pub mod unfinished;
pub mod url;

pub use error::MetaError;
pub use guard::{Denied, Guard, Renaming};
pub use locks::FileLock;
pub use replica::{is_passing, without_secrets};
pub use store::journal::{Appended, CopiedPage};
pub use store::leases::Fence;
pub use store::sessions::{Changed, Holding};
pub use store::{Guarded, MERGE_MOVES_MAX, Store};
pub use types::{
    Access, CAPABILITY_XATTR, Deleted, Entry, Extent, ExtentMove, FileCommit, FileData, JournalPage, Listing, NewInode,
    Owner, PolicyMaker, RenameFlags, RenameOutcome, Roster, SetAttributes, Statistics, Summed, SurveyedSegment,
    UnlinkOutcome, XattrMode,
};
pub use url::{MetaUrl, MetaUrlError, without_password};
