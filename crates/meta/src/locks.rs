//! Locks of programs on parts of files: who gets one, and what is left when a part is unlocked. Pure.

/// A lock of a part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileLock {
    /// The process that serves the program.
    pub session: i64,
    /// The program's open file or process, as its kernel numbers them.
    pub owner: u64,
    /// For people, on its machine.
    pub pid: u32,
    /// The first byte.
    pub first: u64,
    /// The last byte; `u64::MAX` means the end.
    pub last: u64,
    /// Nobody else has a lock there; otherwise others share it.
    pub is_exclusive: bool,
}

impl FileLock {
    fn has_owner_of(&self, other: &Self) -> bool {
        (self.session, self.owner) == (other.session, other.owner)
    }

    fn overlaps(&self, other: &Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }

    fn excludes(&self, other: &Self) -> bool {
        !self.has_owner_of(other) && self.overlaps(other) && (self.is_exclusive || other.is_exclusive)
    }
}

/// The first lock that keeps `wanted` from being given.
pub fn in_the_way<'l>(locks: &'l [FileLock], wanted: &FileLock) -> Option<&'l FileLock> {
    locks.iter().find(|lock| lock.excludes(wanted))
}

/// Takes from what the owner of `part` has everything within it.
pub fn unlock(locks: &mut Vec<FileLock>, part: &FileLock) {
    let parts = std::mem::take(locks).into_iter().flat_map(|lock| {
        if !lock.has_owner_of(part) || !lock.overlaps(part) {
            return [Some(lock), None];
        }
        let before = part.first.checked_sub(1).filter(|_| lock.first < part.first);
        let after = part.last.checked_add(1).filter(|_| part.last < lock.last);
        [before.map(|last| FileLock { last, ..lock }), after.map(|first| FileLock { first, ..lock })]
    });
    *locks = parts.flatten().collect();
}

/// Gives `wanted`, in the place of what its owner has there. Neighbours of one owner and kind become one.
pub fn lock(locks: &mut Vec<FileLock>, wanted: FileLock) {
    unlock(locks, &wanted);
    let mut joined = wanted;
    locks.retain(|lock| {
        let is_like = lock.has_owner_of(&wanted) && lock.is_exclusive == wanted.is_exclusive;
        let touches = lock.last.checked_add(1) == Some(joined.first) || joined.last.checked_add(1) == Some(lock.first);
        if is_like && touches {
            (joined.first, joined.last) = (joined.first.min(lock.first), joined.last.max(lock.last));
        }
        !(is_like && touches)
    });
    locks.push(joined);
    locks.sort_unstable_by_key(|lock| (lock.first, lock.session, lock.owner));
}

#[cfg(test)]
#[path = "locks_tests.rs"]
mod tests;
