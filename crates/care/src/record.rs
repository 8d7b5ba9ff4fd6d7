//! The records of jobs in the catalogue: a job continues from its record after a crash, and `weft status` reports it.
//!
//! JSON, so that people can read it; golden bytes in `record_tests.rs`.

#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;

use crate::catalogue::{Catalogue, CatalogueError};
use crate::job::Progress;
use crate::watch::Verdict;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The version written; others are refused.
pub(crate) const VERSION: u32 = 2;

/// The repair's name in the catalogue.
pub const REPAIR: &str = "repair";
/// The conversion's name in the catalogue.
const CONVERT: &str = "convert";
/// The scrub's name in the catalogue.
pub const SCRUB: &str = "scrub";
/// The balance's name in the catalogue.
pub const BALANCE: &str = "balance";
/// The name of what a node is owed that is back and has lost some of its shards, no record of which says so: that a repair counts them.
const COUNT: &str = "count";
/// The worker's name in the catalogue, ...
const CARE: &str = "care";
/// ... and that of the requests to it.
const REQUESTS: &str = "care-requests";

/// Ended tasks that are remembered.
const HISTORY_MAX: usize = 20;

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
    /// Shards found lost or damaged, over all interruptions.
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
        load(catalogue, name)
    }

    /// The run that was interrupted, or a new one.
    pub(crate) fn resume(catalogue: &dyn Catalogue, name: &str, now_ms: u64) -> Result<Self, CatalogueError> {
        let before = Self::load(catalogue, name)?.filter(|record| record.ended_ms.is_none());
        Ok(before.unwrap_or_else(|| Self::begin(now_ms)))
    }

    pub(crate) fn store(&self, catalogue: &dyn Catalogue, name: &str) -> Result<(), CatalogueError> {
        catalogue.set_job(name, Some(&encode(self)))
    }
}

/// From now on a repair counts all shards, whatever records say, until one has.
pub(crate) fn owe_count(catalogue: &dyn Catalogue, now_ms: u64) -> Result<(), CatalogueError> {
    JobRecord::begin(now_ms).store(catalogue, COUNT)
}

/// Must a repair count all shards?
pub(crate) fn is_count_owed(catalogue: &dyn Catalogue) -> Result<bool, CatalogueError> {
    Ok(JobRecord::load(catalogue, COUNT)?.is_some())
}

/// All shards were counted.
pub(crate) fn note_counted(catalogue: &dyn Catalogue) -> Result<(), CatalogueError> {
    if is_count_owed(catalogue)? { catalogue.set_job(COUNT, None) } else { Ok(()) }
}

/// A run of the conversion, under way, interrupted or ended; counts are over all interruptions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConvertRecord {
    version: u32,
    /// When it began, milliseconds since the Unix epoch.
    pub started_ms: u64,
    /// When it noted this.
    pub updated_ms: u64,
    /// When it came to its end; `None`: it runs, or was interrupted.
    pub ended_ms: Option<u64>,
    /// The latest request for a conversion that it knows of: see [`Requests::convert_count`].
    pub request_count: u64,
    /// Segments converted.
    pub segment_count: u64,
    /// Bytes that nodes sent to compute from.
    pub bytes_read: u64,
    /// Bytes read back and checked before they were relied on.
    pub bytes_verified: u64,
    /// Bytes stored.
    pub bytes_written: u64,
    /// Bytes saved, compared with reading the data of each segment once and writing every shard.
    pub bytes_saved: u64,
    /// Of these, the ones that were merged with others, so that their data stayed where it is.
    pub merged_count: u64,
    /// Segments shared by files that want unlike codes: left to the volume's owner, which divides them.
    pub divided_count: u64,
    /// Segments it could not convert.
    pub failure_count: u64,
}

impl ConvertRecord {
    /// The last run, if there ever was one.
    ///
    /// # Errors
    /// The catalogue cannot be read, or the record is not one of this version.
    pub fn load(catalogue: &dyn Catalogue) -> Result<Option<Self>, CatalogueError> {
        load(catalogue, CONVERT)
    }

    /// Ends a run that was interrupted for good.
    pub(crate) fn give_up(catalogue: &dyn Catalogue, now_ms: u64) -> Result<(), CatalogueError> {
        match Self::load(catalogue)? {
            Some(record) if record.ended_ms.is_none() => {
                Self { ended_ms: Some(now_ms), failure_count: 0, ..record }.store(catalogue)
            }
            _ => Ok(()),
        }
    }

    /// The run that was interrupted, or a new one.
    pub(crate) fn resume(catalogue: &dyn Catalogue, request_count: u64, now_ms: u64) -> Result<Self, CatalogueError> {
        let before = Self::load(catalogue)?.filter(|record| record.ended_ms.is_none());
        let begun = Self { version: VERSION, started_ms: now_ms, updated_ms: now_ms, ..Self::default() };
        Ok(Self { request_count, ..before.unwrap_or(begun) })
    }

    pub(crate) fn store(&self, catalogue: &dyn Catalogue) -> Result<(), CatalogueError> {
        catalogue.set_job(CONVERT, Some(&encode(self)))
    }
}

/// The last report of the worker that cares for the volume; if there are several, of the one that reported last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CareRecord {
    version: u32,
    /// Its name, for people.
    pub holder: String,
    /// When it reported this, milliseconds since the Unix epoch.
    pub updated_ms: u64,
    /// Has it ended?
    pub has_ended: bool,
    /// Is it paused by a request?
    pub is_paused: bool,
    /// The running task, and its progress.
    pub now: Option<(String, Progress)>,
    /// Nodes that are not sound, by name.
    pub doubted: Vec<(String, Verdict)>,
    /// Tasks that ended, the latest first.
    pub history: Vec<HistoryEntry>,
}

/// A task that a worker ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HistoryEntry {
    /// Its name.
    pub task: String,
    /// When it began, milliseconds since the Unix epoch.
    pub started_ms: u64,
    /// When it ended.
    pub ended_ms: u64,
    /// Is nothing left to be done of it?
    pub is_well: bool,
    /// The outcome, for people.
    pub what: String,
}

impl CareRecord {
    pub(crate) fn new(holder: &str) -> Self {
        Self {
            version: VERSION,
            holder: holder.into(),
            updated_ms: 0,
            has_ended: false,
            is_paused: false,
            now: None,
            doubted: Vec::new(),
            history: Vec::new(),
        }
    }

    /// The last report, if there is one.
    ///
    /// # Errors
    /// The catalogue cannot be read, or the record is not one of this version.
    pub fn load(catalogue: &dyn Catalogue) -> Result<Option<Self>, CatalogueError> {
        load(catalogue, CARE)
    }

    /// Stores it. The history of this worker and of others is kept.
    pub(crate) fn store(&mut self, catalogue: &dyn Catalogue) -> Result<(), CatalogueError> {
        if let Ok(Some(before)) = Self::load(catalogue) {
            self.history = united(std::mem::take(&mut self.history), before.history);
        }
        catalogue.set_job(CARE, Some(&encode(self)))
    }
}

/// The tasks of both, the latest first.
fn united(mut one: Vec<HistoryEntry>, other: Vec<HistoryEntry>) -> Vec<HistoryEntry> {
    one.extend(other);
    // Equal ones next to each other, whatever their order is otherwise.
    one.sort_by(|a, b| (b.ended_ms, b.started_ms, &b.task, &b.what).cmp(&(a.ended_ms, a.started_ms, &a.task, &a.what)));
    one.dedup();
    one.truncate(HISTORY_MAX);
    one
}

/// The requests of people to all workers of the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Requests {
    version: u32,
    /// The running task is paused, and no other begins.
    pub is_paused: bool,
    /// Rises with each request to cancel the running task.
    pub cancel_count: u64,
    /// Rises whenever files get another policy and are to be converted.
    pub convert_count: u64,
}

impl Default for Requests {
    fn default() -> Self {
        Self { version: VERSION, is_paused: false, cancel_count: 0, convert_count: 0 }
    }
}

impl Requests {
    /// The current requests.
    ///
    /// # Errors
    /// The catalogue cannot be read, or the record is not one of this version.
    pub fn load(catalogue: &dyn Catalogue) -> Result<Self, CatalogueError> {
        Ok(load(catalogue, REQUESTS)?.unwrap_or_default())
    }

    /// Changes the requests for all workers. What others ask for at the same time stays.
    ///
    /// # Errors
    /// The catalogue cannot be read or written, or the record is not one of this version.
    pub fn change(catalogue: &dyn Catalogue, change: impl Fn(&mut Self)) -> Result<(), CatalogueError> {
        loop {
            let before = catalogue.job(REQUESTS)?;
            let mut requests = decoded::<Self>(before.as_deref(), REQUESTS)?.unwrap_or_default();
            change(&mut requests);
            if catalogue.replace_job(REQUESTS, before.as_deref(), &encode(&requests))? {
                return Ok(());
            }
        }
    }
}

pub(crate) fn load<T: DeserializeOwned>(catalogue: &dyn Catalogue, name: &str) -> Result<Option<T>, CatalogueError> {
    decoded(catalogue.job(name)?.as_deref(), name)
}

fn decoded<T: DeserializeOwned>(bytes: Option<&[u8]>, name: &str) -> Result<Option<T>, CatalogueError> {
    let Some(bytes) = bytes else { return Ok(None) };
    decode(bytes)
        .map(Some)
        .map_err(|detail| CatalogueError::Failed(format!("the record of the last {name} cannot be used: {detail}")))
}

pub(crate) fn encode(record: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(record).unwrap_or_else(|_| unreachable!("numbers and text are always JSON"))
}

fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
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

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
