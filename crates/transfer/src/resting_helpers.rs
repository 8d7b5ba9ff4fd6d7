//! Nodes whose combinations were found to be wrong: what follows from their shards is computed from their frames for a while.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use weft_format::NodeId;

/// A node that was found out is asked for no combinations for this long: each wrong one costs a rebuild and a comparison.
const REST_MS: u64 = 3_600_000;

/// By node: when it may be asked again, in milliseconds of the fleet's clock.
#[derive(Default)]
pub(crate) struct RestingHelpers(Mutex<BTreeMap<NodeId, u64>>);

impl RestingHelpers {
    pub(crate) fn found(&self, node: NodeId, now_ms: u64) {
        self.0.lock().insert(node, now_ms + REST_MS);
    }

    pub(crate) fn may_be_asked(&self, node: NodeId, now_ms: u64) -> bool {
        self.0.lock().get(&node).is_none_or(|until_ms| *until_ms <= now_ms)
    }
}
