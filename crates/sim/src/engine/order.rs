//! What the engine promises of the order of transactions: each is done at one moment, a view is the state at one moment, and what is found
//! after a crash is the state at one moment, which no transaction that was to survive comes after.

use crate::linear::{Call, Model, is_linearizable};
use std::collections::BTreeMap;

/// A key.
pub type Key = Vec<u8>;
/// What there is.
pub type Contents = BTreeMap<Key, u64>;

/// What is asked of a store.
#[derive(Clone, Debug)]
pub enum Asked {
    /// A batch.
    Commit {
        /// Keys, and what they must have.
        checks: Vec<(Key, Option<u64>)>,
        /// Keys, and what they get.
        writes: Vec<(Key, Option<u64>)>,
        /// Counters, and what is added.
        adds: Vec<(Key, u64)>,
        /// It survives the crash.
        is_kept: bool,
    },
    /// What a view shows at these keys.
    Look(Vec<Key>),
    /// What a view shows, all of it.
    LookAtAll,
    /// What is found after a crash.
    Find,
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answered {
    /// It is committed.
    Done,
    /// A check did not hold.
    Conflict,
    /// What is there.
    Values(Vec<Option<u64>>),
    /// Everything.
    All(Contents),
    /// Everything that is found, and how many commits are in it that survive for sure.
    Found(Contents, usize),
}

/// One call.
pub type Asking = Call<Asked, Answered>;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Store {
    contents: Contents,
    kept: usize,
}

impl Model for Store {
    type Operation = Asked;
    type Answer = Answered;

    fn apply(&mut self, asked: &Asked) -> Answered {
        match asked {
            Asked::Commit { checks, writes, adds, is_kept } => {
                if checks.iter().any(|(key, expected)| self.contents.get(key) != expected.as_ref()) {
                    return Answered::Conflict;
                }
                for (key, value) in writes {
                    match value {
                        Some(value) => self.contents.insert(key.clone(), *value),
                        None => self.contents.remove(key),
                    };
                }
                for (key, added) in adds {
                    *self.contents.entry(key.clone()).or_default() += added;
                }
                self.kept += usize::from(*is_kept);
                Answered::Done
            }
            Asked::Look(keys) => Answered::Values(keys.iter().map(|key| self.contents.get(key).copied()).collect()),
            Asked::LookAtAll => Answered::All(self.contents.clone()),
            Asked::Find => Answered::Found(self.contents.clone(), self.kept),
        }
    }

    fn only_reads(asked: &Asked, answered: &Answered) -> bool {
        !matches!(asked, Asked::Commit { .. }) || *answered == Answered::Conflict
    }
}

/// Is there an order of the calls that explains all answers, and what was found then?
#[must_use]
pub fn is_explained(start: &Contents, calls: &[Asking], found: &Contents) -> bool {
    let kept = calls.iter().filter(|call| matches!(call.operation, Asked::Commit { is_kept: true, .. })).count();
    let answer = Some(Answered::Found(found.clone(), kept));
    // At any moment: a crash takes what is not durable.
    let find = Call { began: 0, ended: u64::MAX, operation: Asked::Find, answer };
    let calls: Vec<Asking> = calls.iter().cloned().chain([find]).collect();
    is_linearizable(&Store { contents: start.clone(), kept: 0 }, &calls)
}

/// What is left of the calls if one sees only some keys.
#[must_use]
pub fn seen_at(calls: &[Asking], is_seen: impl Fn(&Key) -> bool) -> Vec<Asking> {
    calls.iter().filter_map(|call| call_seen_at(call, &is_seen)).collect()
}

/// See [`seen_at`].
#[must_use]
pub fn contents_at(contents: &Contents, is_seen: impl Fn(&Key) -> bool) -> Contents {
    contents.iter().filter(|(key, _)| is_seen(key)).map(|(key, value)| (key.clone(), *value)).collect()
}

fn call_seen_at(call: &Asking, is_seen: &impl Fn(&Key) -> bool) -> Option<Asking> {
    let seen = |slots: &[(Key, Option<u64>)]| slots.iter().filter(|(key, _)| is_seen(key)).cloned().collect::<Vec<_>>();
    let (operation, answer) = match (&call.operation, &call.answer) {
        (Asked::Commit { checks, writes, adds, is_kept }, answer) => {
            let (seen_checks, seen_writes) = (seen(checks), seen(writes));
            let seen_adds: Vec<_> = adds.iter().filter(|(key, _)| is_seen(key)).cloned().collect();
            // The check that did not hold may be of another key.
            let is_hidden = answer == &Some(Answered::Conflict) && seen_checks.len() < checks.len();
            if is_hidden || seen_checks.is_empty() && seen_writes.is_empty() && seen_adds.is_empty() {
                return None;
            }
            let seen = Asked::Commit { checks: seen_checks, writes: seen_writes, adds: seen_adds, is_kept: *is_kept };
            (seen, answer.clone())
        }
        (Asked::Look(keys), Some(Answered::Values(values))) => {
            let found = keys.iter().zip(values).filter(|(key, _)| is_seen(key));
            let (keys, values) = found.map(|(key, value)| (key.clone(), *value)).unzip();
            (Asked::Look(keys), Some(Answered::Values(values)))
        }
        (Asked::LookAtAll, Some(Answered::All(contents))) => {
            (Asked::LookAtAll, Some(Answered::All(contents_at(contents, is_seen))))
        }
        _ => return None,
    };
    Some(Call { began: call.began, ended: call.ended, operation, answer })
}

#[cfg(test)]
#[path = "order_tests.rs"]
mod tests;
