//! Nodes that sent wrong combinations to a repair: the combination did not follow from the shards that the node has. The shards
//! themselves are sound, so no scrub finds such a node; `weft status` names it.

use crate::catalogue::{Catalogue, CatalogueError};
use crate::record::{self, VERSION};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use weft_format::NodeId;

/// Name of the record in the catalogue.
const NAME: &str = "faulty-helpers";

/// Long enough for people to see it, and over some time after the node was mended.
const REMEMBERED_MS: u64 = 30 * 24 * 3600 * 1000;

/// The record of faulty helpers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultyHelpers {
    version: u32,
    /// By the text of their ids.
    nodes: BTreeMap<String, Faults>,
}

/// The faults of one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Faults {
    /// Repairs to which it sent wrong combinations.
    pub count: u64,
    /// The last time, milliseconds since the Unix epoch.
    pub last_ms: u64,
}

impl Default for FaultyHelpers {
    fn default() -> Self {
        Self { version: VERSION, nodes: BTreeMap::new() }
    }
}

impl FaultyHelpers {
    /// Those of the last 30 days before `now_ms`.
    ///
    /// # Errors
    /// The catalogue cannot be read, or the record is not one of this version.
    pub fn load(catalogue: &dyn Catalogue, now_ms: u64) -> Result<Self, CatalogueError> {
        let mut helpers: Self = record::load(catalogue, NAME)?.unwrap_or_default();
        helpers.nodes.retain(|_, faults| faults.last_ms.saturating_add(REMEMBERED_MS) > now_ms);
        Ok(helpers)
    }

    /// The faults of this node.
    pub fn of(&self, node: NodeId) -> Option<&Faults> {
        self.nodes.get(&node.to_string())
    }

    /// Notes a fault of each of these. When several processes do so at once, one of the notes may be lost.
    pub(crate) fn note(catalogue: &dyn Catalogue, nodes: &[NodeId], now_ms: u64) -> Result<(), CatalogueError> {
        if nodes.is_empty() {
            return Ok(());
        }
        let mut helpers = Self::load(catalogue, now_ms)?;
        for node in nodes {
            let faults = helpers.nodes.entry(node.to_string()).or_insert(Faults { count: 0, last_ms: 0 });
            *faults = Faults { count: faults.count + 1, last_ms: now_ms };
        }
        catalogue.set_job(NAME, Some(&record::encode(&helpers)))
    }
}

#[cfg(test)]
#[path = "faulty_helpers_tests.rs"]
mod tests;
