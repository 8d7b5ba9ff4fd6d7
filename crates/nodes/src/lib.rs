//! What a node is, and the kinds that need no server of ours: folders, devices, storage of others, memory.
//!
//! A node stores immutable shards under names that are never used twice. It knows no stripe, no code, no file. The trait
//! is small ([`Node`], eight methods that a node must have); what a node can do beyond it is data ([`Capability`]); what every node must do is
//! a library of tests (`conformance`). Wrappers ([`wrappers`]) add limits, faults and records of calls without any node knowing of them.
//!
//! What it never does: decide where shards go (cluster), what to read (codes, transfer), what a silence means (care), or which kinds a
//! program has: whoever opens a volume puts a registry together ([`Kinds`]).
//!
//! The loop: `text -> Kinds::parse -> NodeUrl -> Kinds::open -> Node -> calls`.
//!
//! Start reading at `node.rs`, then `folder.rs` (or `block.rs`, `foreign.rs`), then `conformance.rs`. `kinds.rs` has the registry.
//! `waiter.rs` lets a thread that asks nodes over sockets wait for these itself.

pub mod block;
mod calls;
mod combination;
pub mod combine;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
pub mod error;
pub mod folder;
pub mod foreign;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod kind;
pub mod kinds;
pub mod memory;
pub mod node;
pub mod rate;
pub mod system;
pub mod url;
pub mod waiter;
pub mod wrappers;

pub use block::BlockNode;
pub use combine::{Combination, Part};
pub use error::{NodeError, NodeErrorKind};
pub use folder::{FolderNode, IDENTITY_FILE, Neighbours};
pub use kinds::{About, Kind, Kinds, NodeAt, SecretError};
pub use memory::MemoryNode;
pub use node::{Capability, Link, Node, NodeIdentity, Page, ShardStat, Space};
pub use rate::{BACKGROUND_PERCENT, Class, Rate};
pub use url::{NodeUrl, UrlError};
pub use waiter::block_on;
