//! A volume put together: metadata, nodes, transfer, files, and the background work that keeps it whole.
//!
//! Every face of WeftFS (the command line, a mount, later S3 or NFS) opens a volume here and calls what it gets:
//!
//! - [`Engine`] owns a volume, for reading and writing, with its trash emptier and its worker if they are wanted;
//! - [`VolumeReader`] only reads, beside the owner;
//! - [`Keeper`] looks at segments and repairs them, beside the owner;
//! - [`reports`] tells how safe a volume is, its nodes, its care, and where a file is;
//! - [`format()`] makes a volume, [`nodes`] makes nodes of it and replaces them.
//!
//! What it never does: print, parse arguments, catch signals, or know a protocol.
//!
//! The loop: `open -> the face calls the volume, background work runs beside it -> close, and everything is durable`.
//!
//! Start reading at `engine.rs`, then `catalogue.rs` (where care and metadata meet) and `caring.rs`. `examples/second_face.rs` is
//! a face of its own in thirty lines.

mod caring;
mod catalogue;
mod engine;
mod error;
mod keeper;
mod kinds;
mod making;
pub mod nodes;
mod reader;
pub mod reports;
mod runtime;
mod trash_emptier;

pub use caring::{Caring, Metrics};
pub use catalogue::StoreCatalogue;
pub use engine::{Engine, Options};
pub use error::EngineError;
pub use keeper::Keeper;
pub use kinds::{kinds, opener};
pub use making::format;
pub use reader::VolumeReader;
pub use runtime::{holder, now_ms, runtime};

use std::path::Path;
use weft_meta::{Access, MetaError, Store};

/// The metadata at `meta`, beside the owner of the volume.
///
/// # Errors
/// [`MetaError::Refused`]: it is missing, not ours, or of a newer format.
pub fn open_store(meta: &Path) -> Result<Store, MetaError> {
    weft_vfs::open::open_store(meta, Access::Shared, None)
}
