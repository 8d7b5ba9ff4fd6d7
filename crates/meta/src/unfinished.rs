//! The mark of a store that was made of a copy and is not the volume's metadata yet.
//!
//! The store is there, whole, before its nodes were asked what happened since the copy was made. If the process ends in between, nothing
//! but the mark keeps others from working with a store that does not know where the shards are now.

use crate::engines::Pieces;
use crate::keys::Key;
use crate::kv::{Pair, Slot};
use crate::{MetaError, Store};

const NAME: &str = "unfinished-copy";

/// The record.
pub(crate) fn mark() -> Slot {
    (Key::Job(NAME.as_bytes()).encode(), Some(Vec::new()))
}

/// Is this record the mark? Copies are alike but for it.
#[must_use]
pub fn is_mark((key, _): &Pair) -> bool {
    *key == mark().0
}

/// The pieces, and the mark.
pub(crate) fn marked<'p>(pieces: &'p mut Pieces<'_>) -> impl FnMut() -> Result<Option<Vec<Slot>>, String> + 'p {
    let mut last = Some(vec![mark()]);
    move || Ok(pieces()?.or_else(|| last.take()))
}

impl Store {
    /// Was it made of a copy by a command that has not come to its end?
    ///
    /// # Errors
    /// Those of the engine.
    pub fn is_unfinished(&self) -> Result<bool, MetaError> {
        Ok(self.job(NAME)?.is_some())
    }

    /// It is the volume's metadata from now on, durably.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn finish_copy(&self) -> Result<(), MetaError> {
        self.set_job(NAME, None)?;
        self.flush()
    }
}
