//! How long a history is, and which of its faults strike.

use std::collections::BTreeSet;

/// The most faults of a history.
pub const FAULTS_MAX: u64 = 30;
/// The most of a brief one.
pub const BRIEF_FAULTS_MAX: u64 = 4;

/// How much of a history happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Length {
    /// Faults that strike, at most.
    pub faults: u64,
    /// Of these, the ones that do not, by their number from 0. The others stay what they are.
    pub without: BTreeSet<u64>,
    /// A brief one has few steps between faults, and does not wait for what takes hours: many small histories try more orders of a few
    /// events than a large one does.
    pub is_brief: bool,
    /// Are nodes reached over HTTP?
    pub is_over_http: bool,
}

impl Length {
    /// The first `faults` of the history.
    #[must_use]
    pub fn of(faults: u64) -> Self {
        Self { faults, without: BTreeSet::new(), is_brief: false, is_over_http: false }
    }

    /// The same, with nodes that are reached over HTTP.
    #[must_use]
    pub fn over_http(self) -> Self {
        Self { is_over_http: true, ..self }
    }

    /// A whole one, or a brief one.
    #[must_use]
    pub fn whole(is_brief: bool) -> Self {
        Self { is_brief, ..Self::of(if is_brief { BRIEF_FAULTS_MAX } else { FAULTS_MAX }) }
    }
}
