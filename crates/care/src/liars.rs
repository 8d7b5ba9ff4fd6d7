//! Nodes that a repair found to lie: what they computed was none of the shards that they have. Their shards are well, so nothing
//! else tells; `weft status` names them.

use crate::catalogue::{Catalogue, CatalogueError};
use crate::record::{self, VERSION};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use weft_format::NodeId;

/// Their record's name in the catalogue.
const LIARS: &str = "liars";

/// Long enough to be read of, and over some time after the node was mended.
const REMEMBERED_MS: u64 = 30 * 24 * 3600 * 1000;

/// Who lied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Liars {
    version: u32,
    /// By the text of their ids.
    nodes: BTreeMap<String, Lies>,
}

/// What one node was found to have done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lies {
    /// Repairs in which it lied.
    pub count: u64,
    /// The last time, milliseconds since the Unix epoch.
    pub last_ms: u64,
}

impl Default for Liars {
    fn default() -> Self {
        Self { version: VERSION, nodes: BTreeMap::new() }
    }
}

impl Liars {
    /// Those of the last 30 days before `now_ms`.
    ///
    /// # Errors
    /// The catalogue cannot be read, or the record is not one of this version.
    pub fn load(catalogue: &dyn Catalogue, now_ms: u64) -> Result<Self, CatalogueError> {
        let mut liars: Self = record::load(catalogue, LIARS)?.unwrap_or_default();
        liars.nodes.retain(|_, lies| lies.last_ms.saturating_add(REMEMBERED_MS) > now_ms);
        Ok(liars)
    }

    /// What this node did.
    pub fn of(&self, node: NodeId) -> Option<&Lies> {
        self.nodes.get(&node.to_string())
    }

    /// Notes that these have lied. Of several at once that note something, one may be forgotten.
    pub(crate) fn note(catalogue: &dyn Catalogue, nodes: &[NodeId], now_ms: u64) -> Result<(), CatalogueError> {
        if nodes.is_empty() {
            return Ok(());
        }
        let mut liars = Self::load(catalogue, now_ms)?;
        for node in nodes {
            let lies = liars.nodes.entry(node.to_string()).or_insert(Lies { count: 0, last_ms: 0 });
            *lies = Lies { count: lies.count + 1, last_ms: now_ms };
        }
        catalogue.set_job(LIARS, Some(&record::encode(&liars)))
    }
}

#[cfg(test)]
#[path = "liars_tests.rs"]
mod tests;
