//! The node list as it was taken in last: it has the fleet follow what other programs change in metadata.

use crate::volume::OpenNodes;
use weft_cluster::View;
use weft_format::NodeId;
use weft_format::records::{NodeRecord, PlacementRule};
use weft_meta::{MetaError, Store};
use weft_transfer::Fleet;

/// The records of nodes and the rule that a fleet has.
#[derive(Debug, Default)]
pub struct Roll(Option<(Vec<(NodeId, NodeRecord)>, PlacementRule)>);

impl Roll {
    /// Has `fleet` follow `store` where that has changed; says whether it had.
    ///
    /// # Errors
    /// Metadata cannot be read, or names a node that cannot be opened: the fleet stays as it was, and it is tried again.
    pub fn follow(&mut self, store: &Store, fleet: &Fleet, open_nodes: &OpenNodes) -> Result<bool, MetaError> {
        let fresh = (store.nodes()?, store.placement_rule()?);
        let is_known = match &self.0 {
            Some(known) => *known == fresh,
            // The fleet was made of them a moment ago: opened anew, nodes would have forgotten what they have seen.
            None => are_members(&fleet.view(), &fresh.0, fresh.1),
        };
        if !is_known {
            tracing::info!(nodes = fresh.0.len(), "the node list changed");
            fleet.set(open_nodes(store)?, fresh.1);
        }
        self.0 = Some(fresh);
        Ok(!is_known)
    }
}

fn are_members(view: &View, nodes: &[(NodeId, NodeRecord)], rule: PlacementRule) -> bool {
    let is_member = |(id, record): &(NodeId, NodeRecord)| {
        view.members.get(id).is_some_and(|member| {
            (member.name.as_str(), member.state, member.domain.as_str())
                == (record.name.as_str(), record.state, rule.unit(&record.domain))
                && member.weight == record.weight.max(1)
        })
    };
    view.rule == rule && view.members.len() == nodes.len() && nodes.iter().all(is_member)
}
