//! How a read went.

use crate::suspect::Suspect;

/// How a read went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadReport {
    /// Bytes that nodes sent; 0 where the cache had everything.
    pub bytes_fetched: u64,
    /// Was anything computed from other shards?
    pub degraded: bool,
    /// Shards that failed on the way.
    pub suspects: Vec<Suspect>,
}

impl ReadReport {
    pub(super) fn add(&mut self, other: &ReadReport) {
        self.bytes_fetched += other.bytes_fetched;
        self.degraded |= other.degraded;
        for suspect in &other.suspects {
            if !self.suspects.contains(suspect) {
                self.suspects.push(suspect.clone());
            }
        }
    }
}
