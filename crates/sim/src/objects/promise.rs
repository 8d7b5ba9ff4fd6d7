//! What a read may give, by what clients were told: the promise of SEMANTICS.md ("Objects"). Pure.

use std::time::Duration;

/// What a client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Stores contents that no other put has.
    Put,
    /// The same, unless there is an object of this name.
    Make,
    /// Removes.
    Remove,
    /// Reads.
    Get,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Was {
    /// A put or a removal was answered.
    Done,
    /// A read gave what the put of this number stored.
    Contents(usize),
    /// A read gave that there is no such object.
    Absent,
    /// It was refused, as there is an object of this name.
    There,
}

/// An operation of a client.
#[derive(Clone, Debug)]
pub struct Operation {
    pub name: &'static str,
    pub kind: Kind,
    pub begun: Duration,
    /// `None`: it goes on, or its client was killed.
    pub ended: Option<Duration>,
    /// `None`: nothing was learned from it. A put or removal may have an effect all the same, at any time.
    pub was: Option<Was>,
}

impl Operation {
    fn changes(&self, name: &str) -> bool {
        self.name == name && self.kind != Kind::Get && self.was != Some(Was::There)
    }

    /// When it was answered with success.
    fn answered(&self) -> Option<Duration> {
        self.ended.filter(|_| self.was.is_some())
    }
}

/// May `read` have given this? A `Make` that succeeded has also read that there is no object.
pub fn is_legal(all: &[Operation], read: &Operation, was: &Was) -> bool {
    let end = read.ended.unwrap_or(Duration::MAX);
    // Answered before the read began: what was over before such a one began is replaced.
    let replacing = || all.iter().filter(|by| by.changes(read.name) && by.answered().is_some_and(|at| at < read.begun));
    let is_current = |of: &Operation| {
        let over = of.answered().unwrap_or(Duration::MAX);
        of.begun < end && !replacing().any(|by| by.begun > over)
    };
    let gives_contents =
        |put: &Operation| matches!(put.kind, Kind::Put | Kind::Make) && put.changes(read.name) && is_current(put);
    match was {
        Was::Contents(number) => all.get(*number).is_some_and(gives_contents),
        Was::There => all.iter().any(gives_contents),
        Was::Done if read.kind == Kind::Make => is_legal(all, read, &Was::Absent),
        Was::Absent => {
            let removals = all.iter().filter(|removal| removal.name == read.name && removal.kind == Kind::Remove);
            replacing().next().is_none() || removals.into_iter().any(is_current)
        }
        Was::Done => true,
    }
}

#[cfg(test)]
#[path = "promise_tests.rs"]
mod tests;
