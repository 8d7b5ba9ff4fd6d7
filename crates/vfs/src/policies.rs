//! Policies in use: the record, and how large a segment of its code is.

use crate::error::VfsError;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use weft_format::PolicyId;
use weft_format::records::PolicyRecord;
use weft_meta::Store;

/// Large enough that a shard's fixed costs (a file, an fsync, a request) vanish, small enough that a segment on its way
/// is a few MiB of memory.
const SHARD_BYTES: u64 = 2 << 20;
const SEGMENT_BYTES_MIN: u64 = 8 << 20;
const SEGMENT_BYTES_MAX: u64 = 32 << 20;

/// Transfer asks for one shard more than the data need, so that losing a node right after a write loses nothing; a margin
/// of 0 lets it go on without when no more nodes answer: writers do not stop while as many nodes are away as the code can
/// lose. The missing shards are in repair's queue, and status says what is left to lose.
const WRITE_MARGIN: u16 = 0;

/// The policy that a spec string such as `rs:4+2` stands for.
///
/// # Errors
/// The code is none of ours.
pub fn policy_for(code: &str) -> Result<PolicyRecord, VfsError> {
    let parsed = weft_codes::parse(code)
        .map_err(|error| VfsError::BadPolicy { code: code.to_owned(), detail: error.to_string() })?;
    Ok(PolicyRecord::of(parsed.spec(), WRITE_MARGIN))
}

/// A policy, ready to write under.
pub(crate) struct Policy {
    pub record: PolicyRecord,
    /// Data bytes of a full segment.
    pub segment_bytes: u64,
    /// Data bytes per stored byte.
    pub efficiency: f64,
    /// Nodes that a segment's shards go to.
    pub nodes: usize,
}

/// Policies never change once they have a number, so they are cached for ever.
#[derive(Default)]
pub(crate) struct Policies {
    known: Mutex<HashMap<PolicyId, Arc<Policy>>>,
}

impl Policies {
    pub fn get(&self, store: &Store, id: PolicyId) -> Result<Arc<Policy>, VfsError> {
        if let Some(policy) = self.known.lock().get(&id) {
            return Ok(policy.clone());
        }
        let policy = Arc::new(Policy::new(store.policy(id)?)?);
        self.known.lock().insert(id, policy.clone());
        Ok(policy)
    }
}

impl Policy {
    /// # Errors
    /// The code is none of ours.
    pub fn new(record: PolicyRecord) -> Result<Self, VfsError> {
        let code = weft_codes::parse(&record.code)
            .map_err(|error| VfsError::BadPolicy { code: record.code.clone(), detail: error.to_string() })?;
        let shape = code.shape();
        let segment_bytes = (shape.k as u64 * SHARD_BYTES).clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX);
        let efficiency = shape.native_count as f64 / (shape.n * shape.alpha) as f64;
        Ok(Self { record, segment_bytes, efficiency, nodes: shape.n })
    }
}
