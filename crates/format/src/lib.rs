//! Every byte that outlives the process or crosses the wire: ids, shard header and frames, checksums, records, versions.
//!
//! What it never does: I/O, algebra, policy. It imports no other crate of ours, and every other crate of ours but `codes`
//! may import it.
//!
//! The loop: a writer asks [`geometry`] where bytes go, lays them out as [`shard`] says, and keeps a [`records`] entry; a
//! reader asks the same geometry which byte range of which shard to fetch, and has [`shard`] check every frame of it.
//!
//! Start reading at `ids.rs`, then `geometry.rs`, `shard.rs`, `records.rs`; `removal.rs` has the rules by which any of it is removed. FORMAT.md has the bytes with worked sizes.

pub mod amount;
pub mod geometry;
pub mod identity;
pub mod ids;
pub mod records;
pub mod removal;
pub mod shard;
pub mod shard_file;
pub mod span;

pub use identity::NodeIdentity;
pub use ids::{Generation, Ino, NodeId, PolicyId, SegmentId, ShardIndex, ShardKey, VolumeId};
