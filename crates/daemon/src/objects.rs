//! What a daemon that is a member of an object store answers beyond shards. What questions say is between the members: the daemon knows no
//! object.

use super::grant::Grant;
use bytes::Bytes;
use weft_format::ShardKey;
use weft_nodes::error::NodeError;

/// Answers the questions of an object store, and knows which names shards are of.
pub trait ObjectHost: Send + Sync {
    /// What is asked by who has the cluster's key, or a grant.
    ///
    /// # Errors
    /// It is no question, is not granted, or cannot be answered now.
    fn answer(&self, question: &[u8], grant: Option<&Grant>) -> Result<Vec<u8>, NodeError>;

    /// Is this shard or record of a name that may be read?
    fn may_get(&self, key: ShardKey, grant: &Grant) -> bool;

    /// Is what is to be stored of a name that may be written?
    fn may_put(&self, key: ShardKey, object: &[Bytes], grant: &Grant) -> bool;

    /// What `/metrics` shows of its care.
    fn counters(&self) -> Vec<Counter>;
}

/// A number that only rises, from 0 when the daemon begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter {
    /// As Prometheus has it.
    pub name: &'static str,
    /// What it counts, a sentence.
    pub help: &'static str,
    /// How much that is.
    pub value: u64,
}
