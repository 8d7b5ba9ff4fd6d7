//! POSIX semantics: the [`Volume`]. The only crate where metadata and transfer meet, and the only one that knows errno.
//!
//! What it never does: speak a protocol (gateways do), lay out bytes (format and transfer do), decide about segments after
//! they are written (care does).
//!
//! The write loop: dirty bytes of a file -> a segment of its own, or a segment shared by many small files -> transfer.write
//! -> one metadata commit. The read loop: extents and dirty bytes -> transfer.read -> bytes.
//!
//! Who calls is trusted: the kernel has checked the caller before FUSE calls the volume. Every other gateway uses
//! [`Volume::as_caller`], whose operations check first.
//!
//! Start reading at `volume.rs`, then `write_back.rs` and what it asks, `flush.rs`; for access `access.rs`, then `checked.rs`.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod access;
mod background;
mod buffer;
mod checked;
mod compact;
mod data;
mod deleted;
mod durable;
pub mod error;
mod extents;
mod feed;
mod files;
mod flush;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod glimpse;
mod house;
mod lifecycle;
mod listings;
mod lockers;
mod locks;
pub mod merge;
mod names;
pub mod node_watcher;
pub mod open;
mod open_file;
mod openings;
mod policies;
mod ranges;
mod reader;
pub mod request;
mod segment_ids;
mod segments;
mod shared;
pub mod volume;
mod write_back;

pub use access::{Caller, Capabilities, Wanted};
pub use checked::{Checked, DirectoryName};
pub use compact::{Compacted, Demand};
pub use deleted::{Expired, PURGE_XATTR, RESTORE_XATTR, deleted_value};
pub use error::VfsError;
pub use locks::LockRequest;
pub use names::{POLICY_XATTR, SYNC_XATTR};
pub use policies::{policy_for, policy_text};
pub use reader::{ReadFile, Reader};
pub use request::{AttributeChange, DirectoryEntry, Handle, SetTime, Statfs};
pub use volume::{Settings, Volume};
