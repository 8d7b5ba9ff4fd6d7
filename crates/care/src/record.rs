//! What a job notes of itself in the catalogue: enough to go on after a crash, and for `weft status` to tell of it.
//!
//! JSON, so that it can be read by hand; golden bytes in `record_tests.rs`.

use crate::catalogue::{Catalogue, CatalogueError};
use serde::{Deserialize, Serialize};

/// The version written; others are refused.
const VERSION: u32 = 1;

/// The repair's name in the catalogue.
pub const REPAIR: &str = "repair";
/// The scrub's name in the catalogue.
pub const SCRUB: &str = "scrub";

/// A run of a job, under way, interrupted or ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobRecord {
    version: u32,
    /// When it began, milliseconds since the Unix epoch.
    pub started_ms: u64,
    /// When it noted this.
    pub updated_ms: u64,
    /// When it came to its end; `None`: it runs, or was interrupted.
    pub ended_ms: Option<u64>,
    /// Every segment up to this one (as text) is dealt with.
    pub cursor: Option<String>,
    /// Segments dealt with, over all interruptions.
    pub segment_count: u64,
    /// Bytes of shards rebuilt or verified, over all interruptions.
    pub bytes: u64,
    /// Shards found wanting, over all interruptions.
    pub finding_count: u64,
    /// Segments it could not deal with.
    pub failure_count: u64,
}

impl JobRecord {
    /// A job that begins now.
    pub fn begin(now_ms: u64) -> Self {
        Self { version: VERSION, started_ms: now_ms, updated_ms: now_ms, ..Self::default() }
    }

    /// The record of job `name`, if it ever ran.
    ///
    /// # Errors
    /// The catalogue cannot be read, or the record is not one of this version.
    pub fn load(catalogue: &dyn Catalogue, name: &str) -> Result<Option<Self>, CatalogueError> {
        let Some(bytes) = catalogue.job(name)? else { return Ok(None) };
        Self::decode(&bytes)
            .map(Some)
            .map_err(|detail| CatalogueError::Failed(format!("the record of the last {name} cannot be used: {detail}")))
    }

    /// The run that was interrupted, or a new one.
    pub(crate) fn resume(catalogue: &dyn Catalogue, name: &str, now_ms: u64) -> Result<Self, CatalogueError> {
        let before = Self::load(catalogue, name)?.filter(|record| record.ended_ms.is_none());
        Ok(before.unwrap_or_else(|| Self::begin(now_ms)))
    }

    pub(crate) fn store(&self, catalogue: &dyn Catalogue, name: &str) -> Result<(), CatalogueError> {
        catalogue.set_job(name, Some(&self.encode()))
    }

    fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_else(|_| unreachable!("numbers and text are always JSON"))
    }

    fn decode(bytes: &[u8]) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct VersionOnly {
            version: u32,
        }
        let damaged = |error: serde_json::Error| format!("it is damaged ({error})");
        // The version first: the other fields of a newer one may mean something else.
        let VersionOnly { version } = serde_json::from_slice(bytes).map_err(damaged)?;
        if version != VERSION {
            return Err(format!(
                "it has version {version}, this program reads version {VERSION}: use the program that wrote it"
            ));
        }
        serde_json::from_slice(bytes).map_err(damaged)
    }
}

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
