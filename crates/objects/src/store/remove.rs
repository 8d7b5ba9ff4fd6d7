//! Removing an object: a newer version that says so. What the older ones hold is removed by keepers.

use super::ObjectStore;
use crate::closest::closest;
use crate::error::ObjectError;
use std::collections::BTreeSet;
use weft_format::NodeId;
use weft_format::records::{ObjectRecord, ObjectState, Stamp, name_hash};

impl ObjectStore {
    /// Removes an object: from then on there is none of this name, whatever members that are away still have.
    ///
    /// # Errors
    /// It is not there, or too few members took note.
    pub async fn remove(&self, name: &str) -> Result<Stamp, ObjectError> {
        let (newest, _, findings) = self.newest(name).await?;
        let hash = name_hash(name);
        let stamp = self.version_after(Some(newest.stamp));
        let record = ObjectRecord { name: name.to_owned(), stamp, width: newest.width, state: ObjectState::Removed };
        let width = usize::from(newest.width);
        // Those that a reader asks first, but for members that are away and not yet known to be.
        let near = closest(&self.view, hash, width);
        let near: BTreeSet<NodeId> =
            near.all().filter(|node| findings.answers.contains_key(node)).take(width).collect();
        let nodes: BTreeSet<NodeId> = Self::holders(&findings).union(&near).copied().collect();
        // One of them may be lost at once, where there is to be more than one.
        let needed = (near.len() / 2 + 1).max(width.min(2));
        let (accepted, why) = self.put_record(&record, hash, nodes).await;
        match accepted.intersection(&near).count() {
            accepted if accepted >= needed => Ok(stamp),
            accepted => Err(ObjectError::NotRemoved { name: name.to_owned(), accepted, needed, why }),
        }
    }
}
