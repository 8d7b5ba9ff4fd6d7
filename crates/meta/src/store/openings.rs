//! Openings: each time that an owner opens the volume. See `weft_format::records::OpeningsRecord`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use weft_format::records::{Opening, OpeningsRecord, Reached};

use super::Store;
use super::txn::Txn;
use super::values::damaged;
use crate::keys::Key;
use crate::kv::Batch;
use crate::{MetaError, is_passing};

/// The name of the note that nodes have later changes: `LINEAGE TRANSACTION`.
const SET_BACK: &str = "set-back";
/// The name of the note of which opening began after which transaction: a line `NUMBER TRANSACTION` for each.
const STARTS: &str = "opening-starts";
/// The number of openings that are noted, the latest.
const STARTS_MAX: usize = 256;

/// A process that goes on changing the volume takes the next number after this time. A copy of the metadata that is older by so much is
/// recognised, also where it is of the same opening; and nodes get a few dozen bytes a minute. In milliseconds.
pub const RENEW_MS: u64 = 60_000;

/// Does it change more than what is renewed while nothing happens?
pub(super) fn lasts(batch: &Batch) -> bool {
    let keys = batch.writes.iter().map(|(key, _)| key).chain(batch.deltas.iter().map(|(key, _)| key));
    let of_openings = Key::Openings.encode();
    keys.into_iter().any(|key| !is_passing(key) && *key != of_openings)
}

fn starts_of(note: Option<Vec<u8>>) -> BTreeMap<u32, u64> {
    let note = note.unwrap_or_default();
    let line = |line: &str| {
        let (number, began) = line.split_once(' ')?;
        Some((number.parse().ok()?, began.parse().ok()?))
    };
    String::from_utf8_lossy(&note).lines().filter_map(line).collect()
}

impl Store {
    /// What is known of the volume's openings.
    ///
    /// # Errors
    /// Those of the engine, and damage.
    pub fn openings(&self) -> Result<OpeningsRecord, MetaError> {
        self.view(|txn| txn.openings())
    }

    /// One more opening, durably. The process's, before it changes anything else.
    ///
    /// # Errors
    /// Those of the engine, and damage.
    pub fn take_opening(&self, tag: u128, began_ms: u64) -> Result<Opening, MetaError> {
        let ended = match self.session {
            Some(_) => self.ended_of(self.openings()?.current().map(|current| current.session).collect())?,
            None => {
                self.clear_all_notes()?;
                BTreeSet::new()
            }
        };
        let opening = self.next_opening(|openings| match self.session {
            // One that was there alone has ended, as the engine let this one in.
            Some(session) => {
                openings.joined_by(session, |session| session == 0 || ended.contains(&session), tag, began_ms)
            }
            None => openings.followed_by(tag, began_ms),
        })?;
        // A process takes one.
        let _ = self.opening.set(opening.number);
        Ok(opening)
    }

    /// The next number for a process that goes on, durably, if it has changed something since the last one and that was taken [`RENEW_MS`]
    /// ago: nodes are to be told of it. The process's segments keep the number that it began with.
    ///
    /// # Errors
    /// Those of the engine, and damage.
    pub fn renew_opening(&self) -> Result<Option<Opening>, MetaError> {
        let now_ms = self.env.clock.unix_ms();
        // A clock that was set back makes it due, too.
        let is_due = |openings: &OpeningsRecord| {
            openings.latest.is_some_and(|latest| now_ms.abs_diff(latest.opening.began_ms) >= RENEW_MS)
        };
        if !self.has_changed.load(Ordering::Acquire) || !is_due(&self.openings()?) {
            return Ok(None);
        }
        let tag = self.env.rng.next_u128();
        // What is changed from now on counts for the next one.
        self.has_changed.store(false, Ordering::Release);
        let renewed = self.transact(|txn| {
            let openings = txn.openings()?;
            if !is_due(&openings) {
                return Ok(None);
            }
            let openings = openings.renewed(self.session.unwrap_or(0), tag, now_ms);
            txn.put(Key::Openings, openings.encode());
            Ok(openings.latest.map(|latest| latest.opening))
        });
        let renewed = renewed.and_then(|renewed| self.flush().map(|()| renewed));
        if renewed.is_err() {
            self.has_changed.store(true, Ordering::Release);
        }
        renewed
    }

    /// The number of the opening that this process has taken, or of the latest.
    ///
    /// # Errors
    /// Those of the engine, and damage.
    pub fn own_opening(&self) -> Result<u32, MetaError> {
        let latest = self.openings()?.number();
        Ok(self.opening.get().copied().unwrap_or(latest))
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
            let mut openings = txn.openings()?;
            if let Some(current) = openings.current_mut(number)
                && (current.settled_below < below || current.roster < roster)
            {
                current.settled_below = current.settled_below.max(below);
                current.roster = current.roster.max(roster);
                txn.put(Key::Openings, openings.encode());
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

    /// After which transaction each of the latest openings began, by their numbers, of which renewed ones have none; of an engine without a history nothing. What nodes have
    /// of an opening beyond the next one's beginning is of a past that the store has lost.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn opening_starts(&self) -> Result<BTreeMap<u32, u64>, MetaError> {
        Ok(starts_of(self.job(STARTS)?))
    }

    /// How far the metadata has come. `None`: nobody has opened it yet, or its engine has no history.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn reached(&self) -> Result<Option<Reached>, MetaError> {
        let Some(history) = self.history() else { return Ok(None) };
        let Some((opening, _)) = self.opening_starts()?.pop_last() else { return Ok(None) };
        let (lineage, last) = (history.lineage()?, history.last()?);
        let noted = self.job(SET_BACK)?.map(|note| String::from_utf8_lossy(&note).into_owned());
        let later = noted.and_then(|note| note.strip_prefix(&format!("{lineage} "))?.parse().ok());
        Ok(Some(Reached { lineage, opening, last, later }))
    }

    /// How far it had come when this process, its owner, opened it.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn reached_before(&self) -> Result<Option<Reached>, MetaError> {
        let reached = self.reached()?;
        let entered_at = self.history().and_then(|history| history.entered_at());
        Ok(reached.map(|reached| Reached { last: entered_at.unwrap_or(reached.last), ..reached }))
    }

    /// Notes that the metadata was set back: nodes have its changes up to the transaction `later`. To open it and be refused counts as transactions,
    /// too, so that it could seem to have come as far. A copy that is a store of its own is not bound by it.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn note_set_back(&self, later: u64) -> Result<(), MetaError> {
        let Some(history) = self.history() else { return Ok(()) };
        self.set_job(SET_BACK, Some(format!("{} {later}", history.lineage()?).as_bytes()))?;
        self.flush()
    }

    fn next_opening(&self, next: impl Fn(&OpeningsRecord) -> OpeningsRecord) -> Result<Opening, MetaError> {
        let began = self.history().map(|history| history.last()).transpose()?;
        let opening = self.transact(|txn| {
            let openings = next(&txn.openings()?);
            txn.put(Key::Openings, openings.encode());
            let latest = openings.latest.ok_or_else(|| damaged(&Key::Openings, "it has no opening"))?;
            if let Some(began) = began {
                let key = Key::Job(STARTS.as_bytes());
                let mut starts = starts_of(txn.get(key)?);
                starts.insert(latest.opening.number, began);
                while starts.len() > STARTS_MAX {
                    starts.pop_first();
                }
                let lines = starts.iter().map(|(number, began)| format!("{number} {began}\n"));
                txn.put(key, lines.collect::<String>().into_bytes());
            }
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
