//! What of the metadata leaves the machine.

use crate::keys::Key;
use crate::kv::Slot;
use weft_format::records::{NodeRecord, Secret};

/// A key and its value as nodes may hold them: no node learns what other nodes ask of their users.
#[must_use]
pub fn without_secrets((key, value): Slot) -> Slot {
    let public = match Key::parse(&key) {
        // One that cannot be read is damaged, and says nothing to anybody.
        Some(Key::Node(_)) => value.map(|bytes| match NodeRecord::decode(&bytes) {
            Ok(record) => NodeRecord { secret: Secret::default(), ..record }.encode(),
            Err(_) => Vec::new(),
        }),
        _ => value,
    };
    (key, public)
}

/// Is what the key holds renewed while nothing happens (a lease, the state of a job)? Nodes get it with the next change of something else: an
/// idle volume leaves its disks alone.
#[must_use]
pub fn is_passing(key: &[u8]) -> bool {
    matches!(Key::parse(key), Some(Key::Lease(_) | Key::Job(_)))
}

#[cfg(test)]
#[path = "replica_tests.rs"]
mod tests;
