//! Leases: who alone may repair, collect or convert, for now; and the fence that keeps out who was before.

use weft_format::records::LeaseRecord;

use super::Store;
use super::txn::Txn;
use super::values::damaged;
use crate::MetaError;
use crate::keys::Key;

/// Names a term of a lease, under which changes are made: see [`Store::replace_segment`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    /// The lease.
    pub name: String,
    /// Its term.
    pub term: u64,
}

impl Store {
    /// A lease; `None`: nobody ever had it.
    ///
    /// # Errors
    /// Those of the engine, and damage.
    pub fn lease(&self, name: &str) -> Result<Option<LeaseRecord>, MetaError> {
        self.view(|txn| txn.lease(name))
    }

    /// Puts `new` in the place of `expected`, durably; false: somebody else was quicker.
    ///
    /// # Errors
    /// Those of the engine, and damage.
    pub fn replace_lease(
        &self,
        name: &str,
        expected: Option<&LeaseRecord>,
        new: &LeaseRecord,
    ) -> Result<bool, MetaError> {
        let replaced = self.transact_shared(|txn| {
            txn.free_room();
            if txn.lease(name)?.as_ref() != expected {
                return Ok(false);
            }
            txn.put(Key::Lease(name.as_bytes()), new.encode());
            Ok(true)
        })?;
        self.flush()?;
        Ok(replaced)
    }
}

impl Txn<'_> {
    fn lease(&mut self, name: &str) -> Result<Option<LeaseRecord>, MetaError> {
        let key = Key::Lease(name.as_bytes());
        let bytes = self.get(key)?;
        bytes.map(|bytes| LeaseRecord::decode(&bytes).map_err(|error| damaged(&key, error))).transpose()
    }

    /// # Errors
    /// `Fenced`: the lease has another term now.
    pub(super) fn check(&mut self, fence: Option<&Fence>) -> Result<(), MetaError> {
        let Some(Fence { name, term }) = fence else { return Ok(()) };
        match self.lease(name)? {
            Some(lease) if lease.term == *term => Ok(()),
            _ => Err(MetaError::Fenced { lease: name.clone() }),
        }
    }
}

#[cfg(test)]
#[path = "leases_tests.rs"]
mod tests;
