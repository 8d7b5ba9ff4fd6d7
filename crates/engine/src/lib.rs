//! A volume put together: metadata, nodes, transfer, files, and the background work that keeps it whole.
//!
//! Every front end of WeftFS (the command line, a mount, later S3 or NFS) opens a volume here and calls what it gets:
//!
//! - [`Engine`] owns a volume, for reading and writing, with its trash emptier and its worker if they are wanted;
//! - [`VolumeReader`] only reads, beside the owner;
//! - [`Keeper`] looks at segments, repairs, scrubs and collects, beside the owner; [`Compaction`] compacts, as the owner;
//! - [`reports`] has the data of `status`, `care status`, `node list` and `info`, [`check()`] finds contradictions in the metadata;
//! - [`format()`] makes a volume, [`copies`] copies its metadata and continues from a copy;
//! - [`Serving`] serves a place of this machine as a node for others, [`cluster`] says which daemons there are;
//! - [`objects`] stores objects on daemons alone, without a volume;
//! - [`nodes::NodeTable`] changes the nodes, [`Placement`] the placement rule, [`survey()`] measures nodes;
//! - [`files`] walks and copies trees of files and sets policies, [`trash`] restores deleted files.
//!
//! A call returns a public struct or a typed error; a volume is named by a [`MetaUrl`].
//!
//! What it never does: print, parse arguments, catch signals, or know a protocol.
//!
//! The loop: `open -> the face calls the volume, background work runs beside it -> close, and everything is durable`.
//!
//! Start reading at `engine.rs`, then `catalogue.rs` (where care and metadata meet) and `caring.rs`. `examples/second_face.rs` is
//! a face of its own in thirty lines.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod bench;
pub mod care;
mod caring;
mod catalogue;
mod checking;
pub mod cluster;
mod compaction;
mod control;
pub mod copies;
pub mod dump;
pub mod ended;
mod engine;
mod error;
pub mod files;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod jobs;
mod keeper;
pub mod key_file;
mod kinds;
mod making;
pub mod nodes;
mod object_member;
pub mod objects;
mod owner;
mod placement;
pub mod protection;
mod reader;
pub mod replica;
pub mod reports;
mod runtime;
mod serving;
mod survey;
pub mod transfers;
pub mod trash;
mod trash_emptier;
pub mod words;

pub use caring::{Caring, Metrics};
pub use catalogue::StoreCatalogue;
pub use checking::{CheckReport, Finding, check};
pub use compaction::Compaction;
pub use control::{CareRequest, request_care};
pub use engine::{Engine, Options};
pub use error::EngineError;
pub use jobs::Hold;
pub use keeper::{Keeper, Loss};
pub use kinds::{kinds, opener};
pub use making::{format, is_blank};
pub use owner::{Owner, current_owner, holder_here};
pub use placement::{DescribedNode, Layout, Placement, PlacementReport, Plan, PlannedCode, Risk, Wish};
pub use reader::VolumeReader;
pub use runtime::{Threads, holder, runtime};
pub use serving::{Encryption, ServeError, ServeSettings, Serving};
pub use survey::{NodeFigures, Survey, survey};
pub use trash_emptier::TrashEmptier;

pub use weft_cluster::set_count;
pub use weft_daemon::DAEMON_PORT;
pub use weft_env::{Clock, Env, SystemClock};
pub use weft_format::Ino;
pub use weft_meta::fsck::Progress as CheckProgress;
pub use weft_meta::owner::Holder;
use weft_meta::{Access, MetaError, Store};
pub use weft_meta::{MetaUrl, without_password};
pub use weft_vfs::Settings as VolumeSettings;
pub use weft_vfs::{Caller, Volume};

/// The metadata at `meta`, beside the owner of the volume.
///
/// # Errors
/// [`MetaError::Refused`]: it is missing, not ours, or of a newer format.
pub fn open_store(meta: &MetaUrl, env: &Env) -> Result<Store, MetaError> {
    weft_vfs::open::open_store(meta, Access::Shared, None, env)
}
