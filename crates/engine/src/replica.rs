//! The metadata's replica on the volume's nodes: kept by the process that owns the volume, and read by `weft recover`.
//!
//! ```text
//! the store's file changes -> what changed since the last piece, as a change set -> copies on nodes   (replicator.rs, keeping.rs)
//! much has changed         -> a snapshot, a page after each change set; when it is whole older pieces go (chain.rs decides)
//! metadata is gone         -> list nodes, newest snapshot and the change sets after it -> a new store  (recover.rs)
//! ```
//!
//! Only the owner of the volume stores and removes pieces, so no two processes do. A piece says what it is, and metadata says nothing of
//! pieces. It never removes what the newest whole state needs, and never decides by a clock of the wall.
//!
//! Start reading at `chain.rs`, which decides without I/O.

pub mod chain;
mod keeping;
mod note;
pub mod recover;
mod replicator;

pub use chain::ReplicaSizes;
pub use note::ReplicaStatus;
pub(crate) use note::replica_status;
#[cfg(feature = "fuzzing")]
pub(crate) use note::{check_note, note_seed};
pub use recover::{NewestState, RecoverReport, reach_nodes, recover};
pub use replicator::Replicator;
