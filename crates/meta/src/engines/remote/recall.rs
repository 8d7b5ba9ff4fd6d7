//! What a view reads from the owner's memory before it asks the server.

use super::cache::{Cache, Quiet, Seen};
use super::place::Place;
use crate::kv::{Answer, KvError, Wanted};
use std::cell::RefCell;

/// The memory, and what was read from it. Its answers are of one moment as long as [`Recall::hold`] says so.
pub(in crate::engines) struct Recall<'e> {
    cache: Option<&'e Cache>,
    place: &'e Place,
    seen: RefCell<Vec<Seen>>,
}

impl<'e> Recall<'e> {
    pub fn new(cache: Option<&'e Cache>, place: &'e Place) -> Self {
        Self { cache, place, seen: RefCell::default() }
    }

    /// What was read is still so.
    ///
    /// # Errors
    /// [`KvError::Conflict`]: it may not be.
    pub fn hold(&self) -> Result<(), KvError> {
        let Some(cache) = self.cache else { return Ok(()) };
        let seen = self.seen.borrow();
        let holds = seen.is_empty() || self.place.is_sure() && seen.iter().all(|seen| cache.holds(seen));
        if holds { Ok(()) } else { Err(KvError::Conflict) }
    }

    /// The values of all these keys, if all are known.
    ///
    /// # Errors
    /// As [`Self::hold`].
    pub fn values<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) -> Result<Option<Vec<Option<Vec<u8>>>>, KvError> {
        let Some(cache) = self.cache.filter(|_| self.place.is_sure()) else { return Ok(None) };
        let (mut values, mut seen) = (Vec::new(), Vec::new());
        for key in keys {
            let Some((value, at)) = cache.get(key) else { return Ok(None) };
            values.push(value);
            seen.push(at);
        }
        let is_first = self.seen.borrow().is_empty();
        self.seen.borrow_mut().extend(seen);
        match self.hold() {
            // Nothing was answered yet: the server is asked.
            Err(KvError::Conflict) if is_first => {
                self.seen.borrow_mut().clear();
                Ok(None)
            }
            held => held.map(|()| Some(values)),
        }
    }

    /// The answer to a question without a range, if all of it is known.
    ///
    /// # Errors
    /// As [`Self::hold`].
    pub fn answer(&self, keys: &[Wanted]) -> Result<Option<Answer>, KvError> {
        let seen = self.seen.borrow().len();
        let Some(values) = self.values(keys.iter().map(|wanted| &*wanted.key))? else { return Ok(None) };
        let named = |(wanted, value): (&Wanted, &Option<Vec<u8>>)| wanted.link.as_ref()?.of(value.as_deref()?);
        let linked: Vec<Vec<u8>> = keys.iter().zip(&values).filter_map(named).collect();
        let Some(found) = self.values(linked.iter().map(Vec::as_slice))? else {
            self.seen.borrow_mut().truncate(seen);
            return Ok(None);
        };
        let keys = keys.iter().map(|wanted| wanted.key.clone()).chain(linked);
        Ok(Some(Answer { slots: keys.zip(values.into_iter().chain(found)).collect(), pairs: Vec::new() }))
    }

    /// Before the server is asked; `None`: its answers are not to be kept.
    pub fn quiet(&self) -> Option<Quiet> {
        self.cache.and_then(Cache::quiet)
    }

    /// The server answered a question that was asked after `since`.
    pub fn fill<'k>(&self, slots: impl Iterator<Item = (&'k [u8], Option<&'k [u8]>)>, since: Option<Quiet>) {
        if let (Some(cache), Some(since)) = (self.cache, since) {
            slots.for_each(|(key, value)| cache.fill(key, value, since));
        }
    }
}
