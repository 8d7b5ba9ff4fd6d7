//! What all workers are at.

use crate::error::EngineError;
use crate::keeper::Keeper;
use serde::Serialize;
use weft_care::balance::Estimate;
use weft_care::collect::{Kept, kept};
use weft_care::record::CareRecord;
use weft_care::{Catalogue, ConvertRecord};
use weft_format::records::NodeState;

/// A worker that has said nothing for so long is taken to be gone: it says something every half minute.
const SILENT_MS: u64 = 120_000;

/// What the worker is at, what it did, and which nodes it doubts.
#[derive(Clone, Debug, Serialize)]
pub struct CareReport {
    /// Is there a worker, as far as can be told?
    pub is_cared_for: bool,
    /// Who changes segments at this moment.
    pub lease_holder: Option<String>,
    /// What the worker said last; missing: nobody has cared for the volume yet.
    pub record: Option<CareRecord>,
    /// Replaced nodes whose shards are not all rebuilt yet.
    pub replaced: Vec<String>,
    /// What is to move for every node to hold its share.
    pub balance: Estimate,
    /// The conversion under way, or the last one.
    pub conversion: Option<ConvertRecord>,
    /// Previous generations of what was converted or moved.
    pub kept: Kept,
}

impl Keeper {
    /// What the worker is at, from what it left in metadata.
    ///
    /// # Errors
    /// Metadata cannot be read.
    pub fn care_report(&self) -> Result<CareReport, EngineError> {
        let catalogue = &*self.catalogue;
        let record = CareRecord::load(catalogue)?;
        let now_ms = self.store.env().clock.unix_ms();
        let is_there = |record: &CareRecord| !record.has_ended && now_ms.saturating_sub(record.updated_ms) < SILENT_MS;
        let nodes = catalogue.nodes()?.into_iter().map(|(_, node)| node);
        Ok(CareReport {
            is_cared_for: record.as_ref().is_some_and(is_there),
            lease_holder: catalogue.lease()?.map(|lease| lease.holder).filter(|holder| !holder.is_empty()),
            replaced: nodes.filter(|node| node.state == NodeState::Lost).map(|node| node.name).collect(),
            balance: self.estimate_balance()?,
            conversion: ConvertRecord::load(catalogue)?,
            kept: kept(catalogue)?,
            record,
        })
    }
}
