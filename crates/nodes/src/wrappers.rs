//! Nodes around a node: each adds one thing, and neither the node nor its caller knows of it.
//!
//! [`limit`] and [`shape`] are for programs. [`fault`] and [`record`] are for tests, and come with the feature `conformance`.

#[cfg(any(test, feature = "conformance"))]
pub mod fault;
pub mod limit;
#[cfg(any(test, feature = "conformance"))]
pub mod record;
pub mod shape;

#[cfg(any(test, feature = "conformance"))]
pub use fault::{Fault, FaultNode};
pub use limit::{LimitNode, Limits};
#[cfg(any(test, feature = "conformance"))]
pub use record::{Counts, RecordNode};
pub use shape::{Line, ShapeNode};

/// The methods of [`crate::Node`] that ask the node something.
#[cfg(any(test, feature = "conformance"))]
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
