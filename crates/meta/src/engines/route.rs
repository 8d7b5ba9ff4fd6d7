//! Which way a batch of the owner goes: behind, by a memtable, or through to the store, because it depends on what other processes do.

use crate::keys::SharedPrefix;
use crate::kv::Batch;

/// How a batch becomes visible.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// By the memtable; these keys with a fresh id are expected absent.
    Behind { claims: Vec<Vec<u8>> },
    /// By a transaction of its own, durable before commit returns.
    Through,
}

/// The way of an owner's batch; `sqlite.rs` says why.
pub(super) fn route(batch: &Batch, shared_keys: &[SharedPrefix]) -> Route {
    let sharing = |key: &[u8]| shared_keys.iter().find(|shared| key.starts_with(shared.prefix));
    let mut claims = Vec::new();
    for (key, expected) in &batch.checks {
        match (sharing(key), expected) {
            (None, _) => {}
            (Some(shared), None) if shared.fresh_ids => claims.push(key.clone()),
            (Some(_), _) => return Route::Through,
        }
    }
    if batch.directories.iter().any(|check| sharing(&check.key).is_some())
        || batch.deltas.iter().any(|(key, _)| sharing(key).is_some())
    {
        return Route::Through;
    }
    for (key, value) in &batch.writes {
        if sharing(key).is_some_and(|shared| !shared.fresh_ids || value.is_none()) {
            return Route::Through;
        }
    }
    Route::Behind { claims }
}

/// Does the owner's commit of this batch wait for the disk? It does if the batch depends on keys that other processes change. No
/// operation that users wait for may make such a batch.
pub fn is_written_through(batch: &Batch, shared_keys: &[SharedPrefix]) -> bool {
    route(batch, shared_keys) == Route::Through
}

#[cfg(test)]
#[path = "route_tests.rs"]
mod tests;
