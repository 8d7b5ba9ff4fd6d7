//! Which keys cannot be on the server: in a domain that was empty when this process began to make its keys, those that it has not made.
//!
//! The names of a new directory are such a domain, and the extended attributes of a new file. Each create asks twice whether there is the name,
//! and each open whether there are capabilities; where the domain is new the owner knows it without the server.

use crate::keys::{DOMAIN_BYTES, domain};
use std::collections::{HashMap, HashSet};

/// Domains and keys that are noted, of some thirty bytes each. When there are half as many, those are kept that are noted in from then on, and the
/// others until there are half as many again.
const NOTED_MAX: usize = 1_000_000;

/// The hashes of the keys that were made in a domain, or may have been.
type Made = Option<Box<HashSet<u64>>>;
type Domains = HashMap<[u8; DOMAIN_BYTES], Made>;

/// Domains that were empty.
#[derive(Default)]
pub(super) struct Fresh {
    recent: Domains,
    older: Domains,
    /// Domains and keys among the recent.
    count: usize,
}

fn of(key: &[u8]) -> Option<[u8; DOMAIN_BYTES]> {
    domain(key).try_into().ok()
}

fn noted(made: &Made) -> usize {
    1 + made.as_ref().map_or(0, |made| made.len())
}

impl Fresh {
    /// No key of the domain of `key` is on the server, and nobody but this process makes one.
    pub fn begin(&mut self, key: &[u8]) {
        let Some(domain) = of(key) else { return };
        // One that was begun before is not new: nothing is known of it.
        if self.take(domain).is_none() {
            self.keep(domain, None);
        }
    }

    /// A key with this hash may be there from now on.
    pub fn note(&mut self, key: &[u8], hash: u64) {
        let Some(domain) = of(key) else { return };
        if let Some(mut made) = self.take(domain) {
            made.get_or_insert_default().insert(hash);
            self.keep(domain, made);
        }
    }

    /// Is the key with this hash certainly not there?
    pub fn lacks(&self, key: &[u8], hash: u64) -> bool {
        let domain = of(key);
        let made = domain.and_then(|domain| self.recent.get(&domain).or_else(|| self.older.get(&domain)));
        made.is_some_and(|made| made.as_ref().is_none_or(|made| !made.contains(&hash)))
    }

    fn take(&mut self, domain: [u8; DOMAIN_BYTES]) -> Option<Made> {
        let recent = self.recent.remove(&domain).inspect(|made| self.count -= noted(made));
        recent.or_else(|| self.older.remove(&domain))
    }

    fn keep(&mut self, domain: [u8; DOMAIN_BYTES], made: Made) {
        if noted(&made) > NOTED_MAX / 2 {
            return;
        }
        self.count += noted(&made);
        self.recent.insert(domain, made);
        if self.count > NOTED_MAX / 2 {
            (self.older, self.count) = (std::mem::take(&mut self.recent), 0);
        }
    }
}

#[cfg(test)]
#[path = "fresh_tests.rs"]
mod tests;
