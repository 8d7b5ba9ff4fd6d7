//! Which programs of this process have asked for locks.

use crate::request::Handle;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use weft_env::sync::Mutex;
use weft_format::Ino;

/// Who asked for locks of one file. Held while the engine is asked, so that what is asked for one owner is done in one order.
type Owners = Arc<Mutex<HashMap<u64, Owner>>>;

/// What is known of one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner {
    /// Through which handle it asked last.
    pub handle: Handle,
    /// It was given a lock.
    pub had_lock: bool,
    /// It may have had a lock alone, and written under it.
    pub may_have_written: bool,
}

/// Who asked for locks through this process: others need not be asked about when a file is closed.
#[derive(Default)]
pub(crate) struct Lockers {
    files: Mutex<HashMap<Ino, Owners>>,
    /// Owners whose locks are to go, and could not, because the engine was away: nobody else asks for it again.
    pub left: Mutex<HashSet<(Ino, u64)>>,
}

impl Lockers {
    pub fn of(&self, ino: Ino) -> Owners {
        self.files.lock().entry(ino).or_default().clone()
    }

    pub fn known(&self, ino: Ino) -> Option<Owners> {
        self.files.lock().get(&ino).cloned()
    }

    /// Nobody asks for locks of the file any more.
    pub fn forget_unused(&self, ino: Ino) {
        let mut files = self.files.lock();
        // A thread that is about to use it has it, too.
        let is_unused = |owners: &Owners| Arc::strong_count(owners) == 1 && owners.lock().is_empty();
        if files.get(&ino).is_some_and(is_unused) {
            files.remove(&ino);
        }
    }
}
