//! Names, inodes, extents, segments, policies, nodes: typed records and transactions over a small ordered key-value
//! engine.
//!
//! What it never does: node I/O, algebra, caching of file bytes, errno. It imports `format` only.
//!
//! The loop of every operation: `snapshot -> decide -> commit if nothing it read has changed, else again`.
//!
//! Start reading at `kv.rs` (the engine's contract), then `keys.rs` and `store.rs`.

pub mod error;
pub mod kv;
pub mod types;

pub use error::MetaError;
pub use types::{
    Access, Extent, FileCommit, JournalPage, NewInode, Entry, RenameFlags, RenameOutcome, SetAttributes, UnlinkOutcome,
    XattrMode,
};
