//! Which keys cannot be on the server: in a domain that was empty when this process began to make its keys, those that it has not made.
//!
//! A new directory is such a domain. Each create asks twice whether there is the name, and of a new directory the owner knows that without
//! the server.

use crate::keys::domain;
use std::collections::{HashMap, HashSet};

/// Keys and domains that are noted, of some ten bytes each. Beyond that all of it is forgotten, and the server is asked.
const NOTED_MAX: usize = 2_000_000;

/// Domains that were empty, each with the hashes of the keys that were made there since, or may have been.
#[derive(Default)]
pub(super) struct Fresh {
    domains: HashMap<Vec<u8>, HashSet<u64>>,
    count: usize,
}

impl Fresh {
    /// No key of the domain of `key` is on the server, and nobody but this process makes one.
    pub fn begin(&mut self, key: &[u8]) {
        self.domains.insert(domain(key).to_vec(), HashSet::new());
        self.add(1);
    }

    /// A key with this hash may be there from now on.
    pub fn note(&mut self, key: &[u8], hash: u64) {
        if let Some(made) = self.domains.get_mut(domain(key))
            && made.insert(hash)
        {
            self.add(1);
        }
    }

    /// Is the key with this hash certainly not there?
    pub fn lacks(&self, key: &[u8], hash: u64) -> bool {
        self.domains.get(domain(key)).is_some_and(|made| !made.contains(&hash))
    }

    fn add(&mut self, count: usize) {
        self.count += count;
        if self.count > NOTED_MAX {
            *self = Self::default();
        }
    }
}

#[cfg(test)]
#[test]
fn what_is_too_much_is_forgotten() {
    let key = [3; 12];
    let mut fresh = Fresh::default();
    fresh.begin(&key);
    assert!(fresh.lacks(&key, 1) && !fresh.lacks(&[4; 12], 1));
    (1..NOTED_MAX as u64).for_each(|hash| fresh.note(&key, hash));
    assert!(!fresh.lacks(&key, 1) && fresh.lacks(&key, 0));
    fresh.note(&key, 0);
    assert!(!fresh.lacks(&key, NOTED_MAX as u64), "nothing is known any more");
}
