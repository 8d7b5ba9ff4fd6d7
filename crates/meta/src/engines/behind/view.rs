//! Reading: the memtable as it was, over a snapshot of the engine below.

use super::{Engine, MARK, State, TRIES};
use crate::engines::memtable::{Memtable, Overlay, Shared};
use crate::kv::{Answer, KvError, Link, Pair, Question, Sessions, Snapshot, Wanted, fetch_by_parts};
use std::cell::{Cell, OnceCell, RefCell};
use std::ops::Range;
use weft_env::planted::{Planted, has_planted};

/// The store at one moment: that of the first question.
pub(super) struct View<'e> {
    engine: &'e Engine,
    taken: RefCell<Taken<'e>>,
    was_asked: Cell<bool>,
}

impl<'e> View<'e> {
    pub fn new(engine: &'e Engine) -> Result<Self, KvError> {
        Ok(Self { engine, taken: RefCell::new(Taken::new(engine)?), was_asked: Cell::new(false) })
    }

    /// As long as nothing was answered, the moment may be a later one.
    fn answer<T>(&self, answer: impl Fn(&Taken<'e>) -> Result<T, KvError>) -> Result<T, KvError> {
        if self.was_asked.get() {
            return answer(&self.taken.borrow());
        }
        for tried in 1..=TRIES {
            self.taken.borrow().may_be_late.set(tried == TRIES);
            let answered = answer(&self.taken.borrow());
            if !matches!(answered, Err(KvError::Conflict)) {
                self.was_asked.set(true);
                return answered;
            }
            let taken = Taken::new(self.engine)?;
            *self.taken.borrow_mut() = taken;
        }
        Err(KvError::Conflict)
    }
}

impl Snapshot for View<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, KvError> {
        self.answer(|taken| taken.get(key))
    }

    fn get_many(&self, keys: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>, KvError> {
        self.answer(|taken| taken.get_many(keys))
    }

    fn fetch(&self, question: Question) -> Result<Answer, KvError> {
        self.answer(|taken| taken.fetch(question.clone()))
    }

    fn scan(&self, start: &[u8], end: &[u8], limit: usize) -> Result<Vec<Pair>, KvError> {
        self.answer(|taken| taken.scan(start, end, limit))
    }
}

/// The store at one moment.
pub(super) struct Taken<'e> {
    engine: &'e Engine,
    memtable: Memtable,
    /// How many batches it sees.
    seen: u64,
    below: OnceCell<Box<dyn Snapshot + 'e>>,
    /// Questions that the snapshot below has answered. With the second it has a moment for good.
    answered: Cell<u32>,
    /// That moment is one at which the server had nothing that is not seen here.
    is_fixed: Cell<bool>,
    /// Something was answered.
    was_asked: Cell<bool>,
    /// Rather than a conflict, ...
    may_be_late: Cell<bool>,
    /// ... the first question was answered by the engine below alone, of a later moment: there is no second.
    is_spent: Cell<bool>,
}

impl<'e> Taken<'e> {
    pub fn new(engine: &'e Engine) -> Result<Self, KvError> {
        engine.settle()?;
        let taken = Self::now(engine);
        let sessions = engine.below.sessions().filter(|_| !taken.memtable.is_empty());
        match sessions.map_or(Ok(()), Sessions::make_sure) {
            Ok(()) => Ok(taken),
            // What was pending never happened.
            Err(displaced @ KvError::Displaced { .. }) => {
                engine.state.lock().stop(&displaced);
                Ok(Self::now(engine))
            }
            Err(error) => Err(error),
        }
    }

    fn now(engine: &'e Engine) -> Self {
        let mut state = engine.state.lock();
        let (memtable, seen) = (state.memtable.clone(), state.committed);
        *state.views.entry(seen).or_default() += 1;
        drop(state);
        let (below, answered, is_fixed, was_asked, may_be_late, is_spent) = Default::default();
        Self { engine, memtable, seen, below, answered, is_fixed, was_asked, may_be_late, is_spent }
    }

    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// Asks the engine below; `is_changed` says whether the answer is about something that later batches changed. If nothing of the memtable
    /// `is_mixed` with it, it is of one moment all the same.
    fn ask<T>(
        &self,
        is_mixed: bool,
        question: impl FnOnce(&dyn Snapshot) -> Result<T, KvError>,
        is_changed: impl FnOnce(&State, &T) -> bool,
    ) -> Result<T, KvError> {
        let below = match self.below.get() {
            Some(below) => below,
            None => {
                let snapshot = self.engine.below.snapshot()?;
                self.below.get_or_init(|| snapshot)
            }
        };
        let answer = question(&**below)?;
        if self.is_fixed.get() {
            return Ok(answer);
        }
        self.answered.set(self.answered.get() + 1);
        let state = self.engine.state.lock();
        if state.begun <= self.seen {
            self.is_fixed.set(self.answered.get() > 1);
            return Ok(answer);
        }
        if !is_changed(&state, &answer) || has_planted(Planted::ViewNotPinned) {
            return Ok(answer);
        }
        if is_mixed || self.was_asked.get() || !self.may_be_late.get() {
            return Err(KvError::Conflict);
        }
        self.is_spent.set(true);
        Ok(answer)
    }

    /// What `answer` finds, unless there is no moment any more that it could be of.
    fn answer<T>(&self, answer: impl FnOnce() -> Result<T, KvError>) -> Result<T, KvError> {
        if self.is_spent.get() {
            return Err(KvError::Conflict);
        }
        let answered = answer()?;
        self.was_asked.set(true);
        Ok(answered)
    }

    fn are_changed<'k>(&self, state: &State, mut keys: impl Iterator<Item = &'k Vec<u8>>) -> bool {
        keys.any(|key| state.is_changed(key, self.seen))
    }

    fn pending(&self, key: &[u8]) -> Option<Option<Vec<u8>>> {
        self.memtable.get(key).map(owned)
    }

    fn has_pending(&self, range: &Range<Vec<u8>>) -> bool {
        range.start < range.end && self.memtable.range(&range.start, &range.end).next().is_some()
    }
}

impl Taken<'_> {
    fn values(&self, keys: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>, KvError> {
        let mut values: Vec<_> = keys.iter().map(|key| self.pending(key)).collect();
        let missing: Vec<Vec<u8>> =
            keys.iter().zip(&values).filter(|(_, value)| value.is_none()).map(|(key, _)| key.clone()).collect();
        if !missing.is_empty() {
            let answer = self.ask(
                missing.len() < keys.len(),
                |below| below.get_many(&missing),
                |state, _| self.are_changed(state, missing.iter()),
            )?;
            for (value, found) in values.iter_mut().filter(|value| value.is_none()).zip(answer) {
                *value = Some(found);
            }
        }
        Ok(values.into_iter().map(Option::flatten).collect())
    }

    /// What is asked for, nothing of whose range is pending.
    fn fetched(&self, question: Question) -> Result<Answer, KvError> {
        let (mut slots, mut wanted) = (Vec::new(), Vec::new());
        for asked in question.keys {
            let Some(value) = self.pending(&asked.key) else {
                wanted.push(asked);
                continue;
            };
            let named = asked.link.zip(value.as_deref()).and_then(|(link, value)| link.of(value));
            slots.push((asked.key, value));
            if let Some(key) = named {
                match self.pending(&key) {
                    Some(value) => slots.push((key, value)),
                    None => wanted.push(Wanted { key, link: None }),
                }
            }
        }
        let range = question.range.as_ref().map(|wanted| (wanted.range.clone(), wanted.limit, wanted.link.clone()));
        if wanted.is_empty() && range.is_none() {
            return Ok(Answer { slots, pairs: Vec::new() });
        }
        let asked = Question { keys: wanted, range: question.range };
        let mut answer = self.ask(
            !self.memtable.is_empty(),
            |below| below.fetch(asked),
            |state, answer| {
                let keys = answer.slots.iter().map(|(key, _)| key).filter(|key| self.memtable.get(key).is_none());
                let of_range = range.as_ref().is_some_and(|(range, limit, link)| {
                    let named = answer.pairs.iter().filter_map(|((_, value), _)| link.of(value));
                    let named: Vec<_> = named.filter(|key| self.memtable.get(key).is_none()).collect();
                    let looked_at = looked_at(range, *limit, answer.pairs.iter().map(|(pair, _)| pair));
                    state.is_changed_within(&looked_at, self.seen) || self.are_changed(state, named.iter())
                });
                of_range || self.are_changed(state, keys)
            },
        )?;
        for (key, value) in &mut answer.slots {
            if let Some(pending) = self.pending(key) {
                *value = pending;
            }
        }
        let link = range.map(|(_, _, link)| link);
        for ((_, value), named) in &mut answer.pairs {
            let key = link.as_ref().and_then(|link: &Link| link.of(value));
            if let Some(pending) = key.and_then(|key| self.pending(&key)) {
                *named = pending;
            }
        }
        answer.slots.extend(slots);
        Ok(answer)
    }

    fn pairs(&self, start: &[u8], end: &[u8], limit: usize) -> Result<Vec<Pair>, KvError> {
        if start >= end || limit == 0 {
            return Ok(Vec::new());
        }
        let removed = self.memtable.range(start, end).filter(|(_, value)| value.is_none()).count();
        let range = start.to_vec()..end.to_vec();
        let has_mark = range.contains(&MARK.to_vec());
        let asked = limit.saturating_add(removed + usize::from(has_mark));
        let below = self.ask(
            !self.memtable.is_empty(),
            |below| below.scan(start, end, asked),
            |state, pairs| state.is_changed_within(&looked_at(&range, asked, pairs.iter()), self.seen),
        )?;
        let below = below.into_iter().filter(|(key, _)| **key != MARK).map(|(key, value)| (key, Some(value)));
        let pending = self.memtable.range(start, end);
        let pending = pending.map(|(key, value)| (key.to_vec(), value.map(<[u8]>::to_vec)));
        let pairs = Overlay { upper: pending.peekable(), lower: below.peekable() };
        Ok(pairs.filter_map(|(key, value)| Some((key, value?))).take(limit).collect())
    }
}

impl Snapshot for Taken<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, KvError> {
        Ok(self.get_many(&[key.to_vec()])?.pop().flatten())
    }

    fn get_many(&self, keys: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>, KvError> {
        self.answer(|| self.values(keys))
    }

    fn fetch(&self, question: Question) -> Result<Answer, KvError> {
        if question.range.as_ref().is_some_and(|wanted| self.has_pending(&wanted.range)) {
            return fetch_by_parts(self, question);
        }
        self.answer(|| self.fetched(question))
    }

    fn scan(&self, start: &[u8], end: &[u8], limit: usize) -> Result<Vec<Pair>, KvError> {
        self.answer(|| self.pairs(start, end, limit))
    }
}

/// The part of the range that these first pairs say something about.
fn looked_at<'p>(
    range: &Range<Vec<u8>>,
    limit: usize,
    pairs: impl ExactSizeIterator<Item = &'p Pair>,
) -> Range<Vec<u8>> {
    let is_cut = pairs.len() >= limit;
    match pairs.last().filter(|_| is_cut) {
        // Up to the last pair, and it.
        Some((last, _)) => range.start.clone()..[last, &[0][..]].concat(),
        None => range.clone(),
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let mut state = self.engine.state.lock();
        if let Some(count) = state.views.get_mut(&self.seen) {
            *count -= 1;
            if *count == 0 {
                state.views.remove(&self.seen);
            }
        }
        state.forget_recent();
    }
}

fn owned(value: &Option<Shared>) -> Option<Vec<u8>> {
    value.as_ref().map(|value| value.to_vec())
}
