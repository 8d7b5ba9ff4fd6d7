//! Our own daemon: a place of one machine as a node for others, over HTTP/1.1.
//!
//! `weft node serve` runs a [`Daemon`] on a folder, a device or an image file; [`DaemonNode`] is the same node seen from
//! elsewhere, `weft://host:port`. HTTP with ranges, so that any tool for HTTP can look at it; each call of [`weft_nodes::Node`] is one
//! request (`wire.rs`), and an error's kind travels with it. What is not signed with the node's key (`auth.rs`), comes
//! from another node, or is longer than what was asked is not believed: a proxy's error page is not *absent*, a stranger's
//! answer is no shard.
//!
//! Bounds: bodies wait for room before they are read, connections are counted, and whoever sends too slowly is cut off. A
//! daemon told to end finishes what is under way.
//!
//! Helpers of a repair pass sums on to each other, each asked by the one before it with a request that the user of them all
//! has signed beforehand (`signed_request.rs`).
//!
//! Who is on the same machine need not have bytes sent: where both sides ask for it, the daemon of a folder hands over open files of shards
//! (`short_circuit.rs`), which it then reads by itself.
//!
//! Daemons tell each other who is there (`gossip.rs`), and a volume's users find those that have moved (`follow.rs`).
//!
//! What it never does: store a shard by itself (the kinds of `nodes` do), decide where shards go, or run commands.
//!
//! The loop: `connection -> request -> whom it is from -> a call of the node -> answer`. The client is its mirror: `call of the node ->
//! request -> answer that proves itself`.
//!
//! Start reading at `wire.rs`, then `server.rs` for the daemon and `client.rs` for its users. `kind.rs` registers both as a kind of node.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod address;
mod addresses;
mod auth;
mod client;
mod connections;
mod dial;
mod follow;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod gossip;
mod grant;
mod http_timer;
mod kind;
mod linger;
mod link;
mod link_set;
mod links;
mod listen;
mod loads;
mod metrics;
mod objects;
mod outgoing;
mod peer_pool;
mod progress;
mod server;
mod short_circuit;
mod signed_request;
mod tls;
mod wire;
mod write_timeout;

pub use address::{DAEMON_PORT, DaemonUrl};
pub use auth::{Key, ParseKeyError};
pub use client::{DaemonNode, members, members_granted};
pub use dial::{Dial, Dialed, Stream};
pub use follow::{AddressBook, LinkedNode};
pub use gossip::GossipSettings;
pub use grant::{Grant, ParseGrantError};
pub use kind::Daemons;
pub use link_set::links;
pub use links::LINKS_MAX;
pub use listen::{Accepted, Listen};
pub use loads::Cables;
pub use objects::{Counter, ObjectHost};
pub use server::Daemon;
pub use tls::{Certificate, Fingerprint, TlsError, Trust};

#[cfg(test)]
#[path = "daemon_tests.rs"]
mod tests;
