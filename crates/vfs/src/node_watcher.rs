//! The node list as it was taken in last: it has the fleet follow what other programs change in metadata.

use std::sync::Arc;
use weft_format::NodeId;
use weft_format::records::NodeRecord;
use weft_meta::{MetaError, Roster, Store};
use weft_nodes::Node;
use weft_transfer::Fleet;

/// Nodes that metadata names, opened.
pub type Members = Vec<(NodeId, NodeRecord, Arc<dyn Node>)>;

/// Gives the nodes that metadata names as things that can be asked; called when the set of nodes changes.
pub type OpenNodes = Box<dyn Fn(&Store) -> Result<Members, MetaError> + Send + Sync>;

/// What a fleet has of the node table.
pub struct NodeWatcher {
    known: Option<Roster>,
    open_nodes: OpenNodes,
}

impl NodeWatcher {
    /// Of a fleet whose nodes were opened by `open_nodes`.
    pub fn new(open_nodes: OpenNodes) -> Self {
        Self { known: None, open_nodes }
    }

    /// Has `fleet` follow `store` where that has changed; says whether it had.
    ///
    /// # Errors
    /// Metadata cannot be read, or names a node that cannot be opened: the fleet stays as it was, and it is tried again.
    pub fn follow(&mut self, store: &Store, fleet: &Fleet) -> Result<bool, MetaError> {
        let fresh = store.roster()?;
        if self.known.as_ref() == Some(&fresh) {
            return Ok(false);
        }
        fleet.set((self.open_nodes)(store)?, fresh.rule);
        // The fleet was made of the first one a moment ago.
        if self.known.is_some() {
            tracing::info!(nodes = fresh.nodes.len(), "the node list changed");
        }
        self.known = Some(fresh);
        Ok(true)
    }

    /// The number of changes of the node table that the fleet has followed.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.known.as_ref().map_or(0, |known| known.changes)
    }
}
