//! What the kernel keeps of the volume, and how it is told to forget what has changed without its doing.
//!
//! The kernel drops by itself what its own requests make stale, with three exceptions, which are the calls below. Those that
//! wait for pages or directories that other requests hold must not run on a thread that answers requests: all of these
//! threads could wait for one another. And a process that is killed while it waits so does not end, because those requests are never
//! answered: so they are few, none is for what other mounts change, and `guard.rs` ends the mount then.

use super::changed_names::ChangedNames;
use fuser::{INodeNo, Notifier};
use std::ffi::OsStr;
use std::io;
use std::ops::Range;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use weft_meta::Changed;

/// The kernel's caches of one mount. Before [`KernelCache::connect`] they are empty.
#[derive(Clone, Debug, Default)]
pub(super) struct KernelCache(Arc<Kept>);

#[derive(Debug, Default)]
struct Kept {
    notifier: OnceLock<Notifier>,
    names: ChangedNames,
}

impl KernelCache {
    /// From now on the kernel is told.
    pub(super) fn connect(&self, notifier: Notifier) {
        // Connected once, by the one who mounts.
        let _ = self.0.notifier.set(notifier);
    }

    /// Attributes changed beside those that the request was about: the mode by a write that clears set-user-id, the access
    /// time by an open. Waits for nothing.
    pub(super) fn forget_attributes(&self, node: INodeNo) {
        // A negative offset spares the pages.
        self.tell("attributes", |notifier| notifier.inval_inode(node, -1, 0));
    }

    /// Bytes were written around the page cache. Waits until requests under way for these pages are answered. The kernel
    /// drops the pages itself before a direct write and, if it is recent, after a synchronous one; after an asynchronous one
    /// it does not.
    pub(super) fn forget_bytes(&self, node: INodeNo, range: Range<u64>) {
        let (offset, length) = (range.start as i64, (range.end - range.start) as i64);
        self.tell("pages", |notifier| notifier.inval_inode(node, offset, length));
    }

    /// A name came about that the kernel may know as absent. Waits until requests that change the directory are answered.
    pub(super) fn forget_name(&self, parent: INodeNo, name: &OsStr) {
        self.tell("a name", |notifier| notifier.inval_entry(parent, name));
        self.forget_attributes(parent);
    }

    /// Another mount has changed something. Waits for nothing.
    pub(super) fn forget_changed(&self, changed: &Changed, now: Instant) {
        match changed {
            Changed::Inode(ino) => self.forget_attributes(INodeNo(ino.0)),
            Changed::Name(parent, _) => self.0.names.note(parent.0, now),
        }
    }

    /// How long the kernel may keep a name that other mounts may change, too.
    pub(super) fn keep_name(&self, parent: INodeNo, now: Instant) -> Duration {
        self.0.names.keep(parent.0, now)
    }

    fn tell(&self, what: &str, tell: impl FnOnce(&Notifier) -> io::Result<()>) {
        // What the kernel does not know at all is no error to fuser.
        if let Some(Err(error)) = self.0.notifier.get().map(tell) {
            tracing::warn!("the kernel did not forget {what}: {error}");
        }
    }
}
