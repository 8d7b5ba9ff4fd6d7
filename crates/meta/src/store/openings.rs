//! Openings: each time that an owner opens the volume. See `weft_format::records::OpeningsRecord`.

use weft_format::records::{Latest, Opening, OpeningsRecord};

use super::Store;
use super::txn::Txn;
use super::values::damaged;
use crate::MetaError;
use crate::keys::Key;

impl Store {
    /// What is known of the volume's openings.
    ///
    /// # Errors
    /// Those of the engine, and damage.
    pub fn openings(&self) -> Result<OpeningsRecord, MetaError> {
        self.view(|txn| txn.openings())
    }

    /// One more opening, durably. The owner's, before it changes anything else.
    ///
    /// # Errors
    /// Those of the engine, and damage.
    pub fn take_opening(&self, tag: u128, began_ms: u64) -> Result<Opening, MetaError> {
        self.next_opening(|openings| openings.followed_by(tag, began_ms))
    }

    /// An opening after all that nodes have seen, durably: from now on this is the volume's metadata, and was a copy before.
    ///
    /// # Errors
    /// Those of the engine, and damage.
    pub fn restore_opening(&self, newest_seen: u32, tag: u128, began_ms: u64) -> Result<Opening, MetaError> {
        self.next_opening(|openings| openings.restored(newest_seen, tag, began_ms))
    }

    /// Notes that the segments of an opening with a smaller count are committed or given up, and that the others were placed, or will be,
    /// by the node table after at least `roster` changes. Durable with the commits before it, and after them.
    ///
    /// # Errors
    /// Those of the engine, and damage.
    pub fn note_settled(&self, number: u32, below: u32, roster: u64) -> Result<(), MetaError> {
        self.transact(|txn| {
            let openings = txn.openings()?;
            if let Some(latest) = openings.latest
                && latest.opening.number == number
                && (latest.settled_below < below || latest.roster < roster)
            {
                let settled_below = latest.settled_below.max(below);
                let latest = Some(Latest { settled_below, roster: latest.roster.max(roster), ..latest });
                txn.put(Key::Openings, OpeningsRecord { latest, ..openings }.encode());
            }
            Ok(())
        })
    }

    /// Refuses every change from now on, for this reason: nodes know a newer opening.
    pub fn halt(&self, why: &str) {
        // Who was first has said why.
        let _ = self.halted.set(why.to_owned());
    }

    /// Why changes are refused, if they are.
    pub fn halted(&self) -> Option<&str> {
        self.halted.get().map(String::as_str)
    }

    fn next_opening(&self, next: impl Fn(&OpeningsRecord) -> OpeningsRecord) -> Result<Opening, MetaError> {
        let opening = self.transact(|txn| {
            let openings = next(&txn.openings()?);
            txn.put(Key::Openings, openings.encode());
            let latest = openings.latest.ok_or_else(|| damaged(&Key::Openings, "it has no opening"))?;
            Ok(latest.opening)
        })?;
        self.flush()?;
        Ok(opening)
    }
}

impl Txn<'_> {
    pub(super) fn openings(&mut self) -> Result<OpeningsRecord, MetaError> {
        let key = Key::Openings;
        let Some(bytes) = self.get(key)? else { return Ok(OpeningsRecord::default()) };
        OpeningsRecord::decode(&bytes).map_err(|error| damaged(&key, error))
    }
}

#[cfg(test)]
#[path = "openings_tests.rs"]
mod tests;
