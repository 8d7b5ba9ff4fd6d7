//! What a node is, and the kinds of node.
//!
//! A node stores immutable shards under names that are never used twice. It knows no stripe, no code, no file. The trait
//! is small ([`Node`], eight methods that a node must have); what a node can do beyond it is data ([`Capability`]); what every node must do is
//! a library of tests ([`conformance`]). Wrappers ([`wrappers`]) add verifying, retrying, limiting, faults and records of
//! calls without any node knowing of them.
//!
//! What it never does: decide where shards go (cluster), what to read (codes, transfer), or what a silence means (care).
//!
//! Start reading at `node.rs`, then `folder.rs` (or `block.rs`, `daemon.rs`, `foreign.rs`), then `conformance.rs`. `kinds.rs`
//! lists the kinds with what each can do. `waiter.rs` lets a thread that asks daemons wait for its sockets itself.

pub mod block;
pub mod combine;
pub mod conformance;
pub mod daemon;
pub mod error;
pub mod folder;
pub mod foreign;
pub mod kinds;
pub mod memory;
pub mod node;
pub mod rate;
mod system;
pub mod url;
mod waiter;
pub mod wrappers;

pub use block::BlockNode;
pub use combine::{Combination, Part};
pub use daemon::{Certificate, Daemon, DaemonNode, DaemonUrl, Key, Link};
pub use error::{NodeError, NodeErrorKind};
pub use folder::{FolderNode, IDENTITY_FILE, Neighbours};
pub use kinds::{KINDS, Kind};
pub use memory::MemoryNode;
pub use node::{Capability, Node, NodeIdentity, Page, ShardStat, Space};
pub use rate::{BACKGROUND_PERCENT, Class, Rate};
pub use url::{NodeUrl, UrlError, create, open, put_back, secret_of};
pub use waiter::block_on;
