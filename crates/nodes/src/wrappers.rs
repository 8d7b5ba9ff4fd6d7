//! Nodes around a node: each adds one thing, and neither the node nor its caller knows of it.
//!
//! They compose. A usual pile, from the caller down: record, retry, limit, verify, the node; tests put [`fault`] lowest.

pub mod fault;
pub mod limit;
pub mod record;
pub mod retry;
pub mod shape;
pub mod verify;

pub use fault::{Fault, FaultNode};
pub use limit::{LimitNode, Limits};
pub use record::{Counts, RecordNode};
pub use retry::{RetryNode, RetryPolicy};
pub use shape::{Line, ShapeNode};
pub use verify::VerifyNode;

/// The methods of [`crate::Node`] that ask the node something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// [`crate::Node::put`]
    Put,
    /// [`crate::Node::get`]
    Get,
    /// [`crate::Node::combine`]
    Combine,
    /// [`crate::Node::stat`]
    Stat,
    /// [`crate::Node::list`]
    List,
    /// [`crate::Node::remove`]
    Remove,
    /// [`crate::Node::space`]
    Space,
    /// [`crate::Node::identity`]
    Identity,
}

/// SplitMix64 (Steele, Lea, Flood 2014): small, seedable, good enough for jitter and for choosing faults.
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
#[path = "wrappers_tests.rs"]
mod tests;
