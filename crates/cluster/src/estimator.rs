//! Is a node worth asking first? A state machine of consecutive failures.
//!
//! A suspected node is not a lost one: it is asked last, and nothing it holds counts as gone. The first success heals.

/// The first suspicion lasts this long; every further failure in a row doubles it. A node that restarts is back within a
/// second or two, and one time-out a second is what a read may pay for finding out.
pub const FIRST_SUSPICION_MS: u64 = 1_000;

/// The longest suspicion: a node that came back is used again within a minute even if nothing else noticed.
pub const LONGEST_SUSPICION_MS: u64 = 60_000;

/// Silences in a row before suspicion: one slow answer under load is chance, two in a row are a pattern.
const SILENCES_BEFORE_SUSPICION: u32 = 2;

/// What was seen of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Observation {
    /// It answered, be it with "no such shard" or "full": it is there.
    Answered,
    /// It did not answer in time, or its device failed one call.
    Silent,
    /// It positively cannot be used now: its folder is gone, it refuses, or another node answers in its place.
    Refused,
}

/// Whether a node is asked first or last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// Nothing speaks against it.
    Sound,
    /// It failed lately: asked last until this time (milliseconds of the caller's clock), then tried again.
    Suspected {
        /// When it may be tried again.
        until_ms: u64,
    },
}

impl Health {
    /// Is the node to be avoided at `now_ms`?
    pub fn is_suspected(self, now_ms: u64) -> bool {
        matches!(self, Self::Suspected { until_ms } if now_ms < until_ms)
    }
}

/// The failures of one node in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimator {
    failures_in_row: u32,
    suspicions_in_row: u32,
    health: Health,
}

impl Default for Estimator {
    fn default() -> Self {
        Self { failures_in_row: 0, suspicions_in_row: 0, health: Health::Sound }
    }
}

impl Estimator {
    /// What is thought of the node now.
    pub fn health(&self) -> Health {
        self.health
    }

    /// Takes in what was seen at `now_ms`, and says what is thought then.
    pub fn observe(&mut self, observation: Observation, now_ms: u64) -> Health {
        if observation == Observation::Answered {
            *self = Self::default();
            return self.health;
        }
        // Calls that were under way when suspicion fell fail together; they are one failure, not a reason to double.
        if self.health.is_suspected(now_ms) {
            return self.health;
        }
        self.failures_in_row = self.failures_in_row.saturating_add(1);
        if observation == Observation::Refused || self.failures_in_row >= SILENCES_BEFORE_SUSPICION {
            let doublings = self.suspicions_in_row.min(16);
            let lasts_ms = (FIRST_SUSPICION_MS << doublings).min(LONGEST_SUSPICION_MS);
            self.suspicions_in_row = self.suspicions_in_row.saturating_add(1);
            self.health = Health::Suspected { until_ms: now_ms.saturating_add(lasts_ms) };
        }
        self.health
    }
}

#[cfg(test)]
#[path = "estimator_tests.rs"]
mod tests;
