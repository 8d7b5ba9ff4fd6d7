//! The live nodes: who they are (membership) and how to reach them.

use std::sync::Arc;
use weft_cluster::View;
use weft_format::NodeId;
use weft_format::records::NodeRecord;
use weft_nodes::{Node, NodeErrorKind};

/// The live nodes of a volume.
pub struct Fleet {}

#[allow(unused_variables)]
impl Fleet {
    /// The nodes that metadata names, each opened.
    pub fn new(members: Vec<(NodeId, NodeRecord, Arc<dyn Node>)>) -> Self {
        unimplemented!()
    }

    /// Replaces the whole table, at run time. What was seen of nodes that stay is kept.
    pub fn set(&self, members: Vec<(NodeId, NodeRecord, Arc<dyn Node>)>) {
        unimplemented!()
    }

    /// A node by id; `None`: no member.
    pub fn get(&self, id: NodeId) -> Option<Arc<dyn Node>> {
        unimplemented!()
    }

    /// The node's name as the user knows it, or its id.
    pub fn name(&self, id: NodeId) -> String {
        unimplemented!()
    }

    /// Takes in how a call to a node ended.
    pub fn report(&self, id: NodeId, outcome: Result<(), NodeErrorKind>) {
        unimplemented!()
    }

    /// Members, their health and room.
    pub fn view(&self) -> Arc<View> {
        unimplemented!()
    }

    /// Asks every node for its room, all at once; doubles as a health probe. A node that does not answer within the deadline
    /// is reported as silent.
    pub async fn refresh_space(&self) {
        unimplemented!()
    }
}
