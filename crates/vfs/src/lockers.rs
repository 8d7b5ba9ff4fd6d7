//! Which programs of this process have asked for locks.

use crate::request::Handle;
use std::collections::HashMap;
use std::sync::Arc;
use weft_env::sync::Mutex;
use weft_format::Ino;

/// Who asked for locks of one file, and through which handle last. Held while the engine is asked, so that what is asked for one owner is done
/// in one order.
type Owners = Arc<Mutex<HashMap<u64, Handle>>>;

/// Who asked for locks through this process: others need not be asked about when a file is closed.
#[derive(Default)]
pub(crate) struct Lockers {
    files: Mutex<HashMap<Ino, Owners>>,
    /// What could not be unlocked, because the engine was away: nobody else asks for it again.
    pub left: Mutex<Vec<(Ino, u64, Handle)>>,
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
