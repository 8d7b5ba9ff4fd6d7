//! A store of objects without a catalogue: names to contents, on the daemons that gossip knows and nothing else.
//!
//! A client has the list of members and a name. The members closest to the name, by weighted rendezvous ([`closest`]), hold its shards and its
//! record ([`weft_format::records::ObjectRecord`]); they are asked, and then those further away. Codes, transfer, scheduler, nodes and gossip are
//! those of a volume. What differs is where the record is kept: beside the shards, at each member that holds some.
//!
//! - [`ObjectStore`] is a client: put, get, stat, list, remove;
//! - [`Host`] is what a member knows of its own place, and what it answers ([`Question`]);
//! - [`Keeper`] is a member's care: it compares records with other members, rebuilds what is missing, and removes what is needless.
//!
//! What it never does: open a socket, decide who is a member, or overwrite anything. Names of shards carry version and attempt.
//!
//! The loop: `name -> closest members -> what they have -> the version that counts -> segments of it, by transfer`.
//!
//! Start reading at `closest.rs` and `versions.rs` (pure), then `store.rs`; `care.rs` and `tree.rs` have what `keeper.rs` decides by.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod care;
mod closest;
mod error;
mod host;
mod index;
mod keeper;
mod question;
mod store;
mod tree;
mod versions;

pub use closest::{Closest, closest};
pub use error::ObjectError;
pub use host::{Host, Rebuilds};
pub use keeper::{Keeper, KeeperSettings, Neighbourhood, Round};
pub use question::{Answer, Found, FoundRecord, FoundShard, Listed, ListedName, Question};
pub use store::{Got, Listing, MemberAt, ObjectStore, PutRequest, Questions, Stat, Stored};
