//! Directories in which other mounts have changed names lately: the kernel asks for each name in them.
//!
//! The kernel could be made to forget single names, and must not be: it waits for requests that hold the directory, and where the process is
//! killed while it waits, these requests are never answered, the dead process never ends, and programs hang until somebody ends the mount by
//! force. So a name is kept for a short time, or not at all.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long the kernel may keep a name in other directories.
const KEEP: Duration = Duration::from_secs(1);

/// Who works in a directory changes it again within this time as a rule.
const LATELY: Duration = Duration::from_secs(10);

/// More directories than this, of some 50 bytes each, count as all.
const DIRECTORIES: usize = 4096;

/// See the module's head. Directories are named by their inode numbers.
#[derive(Debug, Default)]
pub(super) struct ChangedNames(Mutex<Changes>);

#[derive(Debug, Default)]
struct Changes {
    /// When a name of the directory was last changed.
    at: HashMap<u64, Instant>,
    /// When there last were too many directories.
    everywhere: Option<Instant>,
}

impl ChangedNames {
    /// Another mount has changed a name in the directory.
    pub(super) fn note(&self, directory: u64, now: Instant) {
        let mut changes = self.lock();
        if changes.at.len() >= DIRECTORIES && !changes.at.contains_key(&directory) {
            changes.at.retain(|_, at| is_recent(*at, now));
            if changes.at.len() >= DIRECTORIES {
                changes.at.clear();
                changes.everywhere = Some(now);
            }
        }
        changes.at.insert(directory, now);
    }

    /// How long the kernel may keep a name of this directory.
    pub(super) fn keep(&self, directory: u64, now: Instant) -> Duration {
        let changes = self.lock();
        let of_directory = changes.at.get(&directory).copied();
        let is_changed = of_directory.into_iter().chain(changes.everywhere).any(|at| is_recent(at, now));
        if is_changed { Duration::ZERO } else { KEEP }
    }

    fn lock(&self) -> MutexGuard<'_, Changes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_recent(at: Instant, now: Instant) -> bool {
    now.saturating_duration_since(at) < LATELY
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_kept_but_where_others_have_changed_some_lately() {
        let (names, start) = (ChangedNames::default(), Instant::now());
        assert_eq!(names.keep(1, start), KEEP);
        names.note(1, start);
        assert_eq!((names.keep(1, start), names.keep(2, start)), (Duration::ZERO, KEEP));
        let later = start + LATELY;
        assert_eq!(names.keep(1, later - Duration::from_nanos(1)), Duration::ZERO);
        assert_eq!(names.keep(1, later), KEEP);
    }

    #[test]
    fn too_many_directories_count_as_all_for_a_while() {
        let (names, start) = (ChangedNames::default(), Instant::now());
        (0..DIRECTORIES as u64).for_each(|directory| names.note(directory, start));
        let unchanged = DIRECTORIES as u64 + 1;
        assert_eq!(names.keep(unchanged, start), KEEP);
        // Those of long ago make room.
        let later = start + LATELY;
        names.note(unchanged, later);
        assert_eq!((names.keep(unchanged, later), names.keep(0, later)), (Duration::ZERO, KEEP));
        (0..DIRECTORIES as u64).for_each(|directory| names.note(directory, later));
        assert_eq!(names.keep(u64::MAX, later), Duration::ZERO);
        assert_eq!(names.keep(u64::MAX, later + LATELY), KEEP);
        assert!(names.lock().at.len() <= DIRECTORIES);
    }
}
