//! Moving segments: bytes to shards on nodes, and back.
//!
//! What it never does: know an inode, a name, or the metadata engine. It is given a segment's record and gives one back.
//!
//! Two walks: `write.rs` (split, encode, place, put, receipt) and `read.rs` (locate, plan, fetch, decode, deliver); each
//! stage is a file in the folder of the same name. `rebuild.rs` is a read of lost shards followed by a put, `recode.rs` gives a
//! segment another code, `objects.rs` has the same stages in memory, without nodes, and `shard_files.rs` makes files and streams of them.
//!
//! Start reading at `write.rs`.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod algebra;
mod arrived;
mod bounded;
mod cache;
mod chains;
mod disk_cache;
pub mod error;
pub mod fleet;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod hedge_budget;
mod in_flight;
pub mod objects;
mod openings;
pub mod read;
mod read_plan;
pub mod readahead;
pub mod rebuild;
pub mod recode;
pub mod remove;
mod replicas;
mod resting_helpers;
mod salvage;
pub mod scheduler;
pub mod shard_files;
mod shared_shards;
mod soundness;
mod survivors;
mod suspect;
mod throttle;
pub mod trace;
pub mod transfer;
mod uplink;
pub mod verify;
pub mod worth;
pub mod write;

pub use cache::BLOCK_BYTES;
pub use disk_cache::{DiskCacheError, DiskRoom};
pub use error::{Failures, ReadError, RebuildError, RecodeError, ShardFailure, SuspectKind, WriteError};
pub use fleet::Fleet;
pub use in_flight::Call;
pub use openings::KnownOpenings;
pub use read::{ReadPart, ReadReport, Suspect};
pub use readahead::Readahead;
pub use rebuild::Rebuilt;
pub use recode::{MergeCandidates, Recoded};
pub use remove::Removal;
pub use replicas::{FoundReplica, FoundReplicas, SetBack, UnreadableReplica};
pub use scheduler::Profile;
pub use soundness::{Soundness, Usable};
pub use transfer::{Settings, Transfer};
pub use verify::{Damage, SegmentHealth, ShardHealth};
pub use weft_cluster::{Balance, Holdings, Load, PASSES, Relocation, even_load};
pub use write::{Receipt, WriteRequest};

#[cfg(test)]
#[path = "shapes_tests.rs"]
mod shapes_tests;
