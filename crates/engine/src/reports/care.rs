//! The current work of all workers.

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

/// The worker's current task, its history, and the nodes that are not sound.
#[derive(Clone, Debug, Serialize)]
pub struct CareReport {
    /// Is there a worker, as far as can be told?
    pub is_cared_for: bool,
    /// The process that may change segments at the moment.
    pub lease_holder: Option<String>,
    /// The worker's last report; missing: no worker has cared for the volume yet.
    pub record: Option<CareRecord>,
    /// Replaced nodes whose shards are not all rebuilt yet.
    pub replaced: Vec<String>,
    /// The moves needed for every node to hold its share.
    pub balance: Estimate,
    /// The conversion under way, or the last one.
    pub conversion: Option<ConvertRecord>,
    /// Previous generations of converted and moved segments.
    pub kept: Kept,
}

impl Keeper {
    /// The worker's current task, from its record in metadata.
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
