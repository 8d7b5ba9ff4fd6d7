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

#[cfg(test)]
#[path = "replica_tests.rs"]
mod tests;
