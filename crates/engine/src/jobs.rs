//! Jobs of care that a front end runs itself: repair, scrub, collection. Each waits for those of other processes, and ends when it loses the
//! right to change segments.

use crate::error::EngineError;
use crate::keeper::Keeper;
use crate::runtime::holder;
use std::future::Future;
use std::sync::Arc;
use weft_care::collect::{self, Beside, UnreferencedSince};
use weft_care::lease::alone;
use weft_care::record::REPAIR;
use weft_care::{CareError, Catalogue, ConvertRecord, Job, JobRecord, openings, repair, scrub};
use weft_meta::{MetaError, Store};
use weft_vfs::open::own_store;

/// Keeps others from writing while it lives.
pub struct Hold(#[expect(dead_code, reason = "held for its lock")] Store);

impl Keeper {
    /// The repair that has started and has not ended, here or elsewhere.
    ///
    /// # Errors
    /// Metadata cannot be read.
    pub fn unfinished_repair(&self) -> Result<Option<JobRecord>, EngineError> {
        Ok(JobRecord::load(&*self.catalogue, REPAIR)?.filter(|record| record.ended_ms.is_none()))
    }

    /// The work and the cost of a repair.
    ///
    /// # Errors
    /// Metadata cannot be read.
    pub fn estimate_repair(&self, options: &repair::Options) -> Result<repair::Estimate, EngineError> {
        Ok(self.runtime.block_on(repair::estimate(&*self.catalogue, &self.transfer, options))?)
    }

    /// Rebuilds lost shards, the most endangered segments first. It calls `waits` with the process for which it waits.
    ///
    /// # Errors
    /// Metadata fails, or the job is cancelled. Rebuilt shards stay.
    pub async fn repair(
        &self,
        job: &Job,
        options: repair::Options,
        waits: impl FnOnce(&str),
    ) -> Result<repair::Report, EngineError> {
        let work =
            repair::repair(self.shared_catalogue(), &self.transfer, job, options, self.store.env().clock.unix_ms());
        self.after_others(job, waits, work).await
    }

    /// Reads every shard, and repairs damaged ones if the options say so. It calls `tell` with each finding.
    ///
    /// # Errors
    /// Metadata fails, or the job is cancelled. A later scrub resumes it.
    pub async fn scrub(
        &self,
        job: &Job,
        options: scrub::Options,
        tell: impl FnMut(&scrub::Finding),
        waits: impl FnOnce(&str),
    ) -> Result<scrub::Report, EngineError> {
        let work =
            scrub::scrub(self.shared_catalogue(), &self.transfer, job, options, self.store.env().clock.unix_ms(), tell);
        self.after_others(job, waits, work).await
    }

    /// Compares the metadata with its checksums. A sentence for each fault. `progress` gets the number of records read.
    ///
    /// # Errors
    /// Metadata cannot be read.
    pub fn verify_metadata(&self, progress: &mut dyn FnMut(u64)) -> Result<Vec<String>, EngineError> {
        Ok(self.store.verify(progress)?)
    }

    /// Keeps others from writing, as an opening of its own, after which nobody commits what others stored. `None`: somebody has the
    /// volume.
    ///
    /// # Errors
    /// Metadata is a copy, or cannot be written.
    pub fn hold(&self) -> Result<Option<Hold>, EngineError> {
        match own_store(&self.meta, &self.transfer) {
            Ok(store) => Ok(Some(Hold(store))),
            Err(MetaError::InUse(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes dead segments and orphans that are older than `grace_ms`; with `dry_run` only counts them. Without a hold it removes
    /// nothing beside others, since it has not watched them.
    ///
    /// # Errors
    /// Metadata fails, or the job is cancelled.
    pub async fn collect(
        &self,
        job: &Job,
        hold: Option<&Hold>,
        (grace_ms, dry_run): (u64, bool),
        waits: impl FnOnce(&str),
    ) -> Result<collect::Report, EngineError> {
        let unreferenced_since = UnreferencedSince::default();
        let in_use = hold.is_none().then_some(Beside { unreferenced_since: &unreferenced_since, at_ms: 0 });
        let options = collect::Options { grace_ms, in_use, dry_run };
        let work =
            collect::collect(self.shared_catalogue(), &self.transfer, job, options, self.store.env().clock.unix_ms());
        self.after_others(job, waits, work).await
    }

    /// Segments that files of unlike policies share, as the last conversion counted them.
    ///
    /// # Errors
    /// Metadata cannot be read.
    pub fn divided_count(&self) -> Result<u64, EngineError> {
        Ok(ConvertRecord::load(&*self.catalogue)?.map_or(0, |last| last.divided_count))
    }

    fn shared_catalogue(&self) -> Arc<dyn Catalogue> {
        self.catalogue.clone()
    }

    async fn after_others<T>(
        &self,
        job: &Job,
        waits: impl FnOnce(&str),
        work: impl Future<Output = Result<T, CareError>>,
    ) -> Result<T, EngineError> {
        let guarded = openings::guarded(&*self.catalogue, &self.transfer, job, work);
        Ok(alone(&*self.catalogue, &holder(&*self.store.env().clock), job, waits, guarded).await?)
    }
}
