//! What other mounts change, soon after: open files are looked at again, and who keeps something of the volume forgets it. What the
//! metadata engine does not tell shows by time.

use crate::volume::Volume;
use std::sync::Weak;
use weft_env::sync::Receiver;
use weft_meta::Changed;
use weft_meta::kv::ChangedKeys;

/// Ends with the volume.
pub(crate) fn follow(volume: &Weak<Volume>, changes: &Receiver<ChangedKeys>) {
    while let Some(keys) = changes.recv() {
        let Some(volume) = volume.upgrade() else { return };
        for changed in keys.iter().filter_map(|key| Changed::of(key)) {
            volume.forget_changed(&changed);
        }
    }
}

impl Volume {
    /// From now on `keeper` hears what other mounts have changed, most of it within a few hundredths of a second, some of it never. It must
    /// not wait for requests to this volume. Only the first is heeded.
    pub fn tell_of_changes(&self, keeper: impl Fn(&Changed) + Send + Sync + 'static) {
        // One gateway serves a volume.
        let _ = self.keeper.set(Box::new(keeper));
    }

    fn forget_changed(&self, changed: &Changed) {
        if let Changed::Inode(ino) = changed
            && let Some(file) = self.files.peek(*ino)
        {
            file.lock().glimpse = None;
        }
        if let Some(keeper) = self.keeper.get() {
            keeper(changed);
        }
    }
}
