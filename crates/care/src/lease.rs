//! The right to change segments: one process at a time has it, over all machines.
//!
//! [`Tenant`] is pure: takes the lease as found and the time, and returns the lease to write. Times are of a clock
//! of this process that never goes back; wall clocks may jump as they like. A holder that cannot renew stops by itself, and
//! one that does not notice is kept out by the term: see [`Catalogue::set_fence`].

use crate::catalogue::{Catalogue, CatalogueError};
use crate::census::CareError;
use crate::job::{Cancelled, Job};
use std::future::Future;
use std::time::Duration;
use weft_format::records::LeaseRecord;

/// How long a holder that gives no sign of life keeps the lease.
pub const TTL_MS: u32 = 10_000;

/// How often it is looked at: three signs of life may be lost.
const BEAT: Duration = Duration::from_millis(2_500);

/// A process that has, or wants, the lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenant {
    holder: String,
    /// The lease found last, and when it was first found so.
    seen: Option<(LeaseRecord, u64)>,
    /// The lease written last, and when.
    own: Option<(LeaseRecord, u64)>,
}

impl Tenant {
    /// `holder` names it to others.
    pub fn new(holder: impl Into<String>) -> Self {
        Self { holder: holder.into(), seen: None, own: None }
    }

    /// The lease to write in place of the found one; `None`: another process has it.
    pub fn claim(&mut self, found: Option<&LeaseRecord>, now_ms: u64) -> Option<LeaseRecord> {
        if let (Some(found), Some((own, _))) = (found, &self.own)
            && found == own
        {
            return Some(LeaseRecord { beat: own.beat + 1, ..own.clone() });
        }
        self.own = None;
        let term = found.map_or(0, |found| found.term);
        let is_free = match found {
            None => true,
            Some(found) if found.holder.is_empty() => true,
            Some(found) => {
                let since_ms = match &self.seen {
                    Some((seen, since_ms)) if seen == found => *since_ms,
                    _ => now_ms,
                };
                self.seen = Some((found.clone(), since_ms));
                now_ms - since_ms >= u64::from(found.ttl_ms)
            }
        };
        is_free.then(|| LeaseRecord { term: term + 1, holder: self.holder.clone(), beat: 0, ttl_ms: TTL_MS })
    }

    /// The claimed lease is written.
    pub fn granted(&mut self, own: LeaseRecord, now_ms: u64) {
        self.own = Some((own, now_ms));
    }

    /// The term under which it may act at this moment.
    pub fn term(&self, now_ms: u64) -> Option<u64> {
        let (own, written_ms) = self.own.as_ref()?;
        (now_ms < written_ms + u64::from(own.ttl_ms)).then_some(own.term)
    }

    /// The lease to leave behind, and the one that it replaces.
    fn farewell(self) -> Option<(LeaseRecord, LeaseRecord)> {
        let (own, _) = self.own?;
        let free = LeaseRecord { holder: String::new(), ..own.clone() };
        Some((own, free))
    }
}

/// Does `work` while no other process does such. Waits for its turn; `waiting` is told, once, for whom. When the lease is lost on
/// the way the job is cancelled. An abandoned job gives the lease back at once.
///
/// # Errors
/// Those of the work; `Fenced` where the lease was lost; the catalogue fails before the work begins.
pub async fn alone<T>(
    catalogue: &dyn Catalogue,
    holder: &str,
    job: &Job,
    waiting: impl FnOnce(&str),
    work: impl Future<Output = Result<T, CareError>>,
) -> Result<T, CareError> {
    let clock = job.clock();
    let began = clock.now();
    let now_ms = || clock.elapsed(began).as_millis() as u64;
    let mut tenant = Tenant::new(holder);
    let mut waiting = Some(waiting);
    let term = loop {
        let found = renew(catalogue, &mut tenant, now_ms())?;
        if let Some(term) = tenant.term(now_ms()) {
            break term;
        }
        if let (Some(waiting), Some(found)) = (waiting.take(), found) {
            waiting(&found.holder);
        }
        job.rest(BEAT / 5).await?;
    };
    catalogue.set_fence(Some(term));
    let outcome = {
        tokio::pin!(work);
        let mut beat = clock.sleep(Duration::ZERO);
        loop {
            tokio::select! {
                biased;
                outcome = &mut work => break outcome,
                // The fence stays: work that is still running commits nothing once another process has the lease.
                () = job.abandoned() => {
                    give_back(catalogue, tenant);
                    return Err(Cancelled.into());
                }
                () = &mut beat => {
                    beat = clock.sleep(BEAT);
                    // Where metadata cannot be reached for a while the time goes on, and the term ends.
                    if let Err(error) = renew(catalogue, &mut tenant, now_ms()) {
                        tracing::warn!("the lease could not be renewed: {error}");
                    }
                    if tenant.term(now_ms()) != Some(term) {
                        job.cancel();
                    }
                }
            }
        }
    };
    catalogue.set_fence(None);
    let is_lost = tenant.term(now_ms()) != Some(term);
    give_back(catalogue, tenant);
    match outcome {
        Err(CareError::Cancelled(_)) if is_lost => Err(CatalogueError::Fenced.into()),
        outcome => outcome,
    }
}

fn give_back(catalogue: &dyn Catalogue, tenant: Tenant) {
    if let Some((own, free)) = tenant.farewell()
        && let Err(error) = catalogue.replace_lease(Some(&own), &free)
    {
        tracing::warn!("the lease could not be released; others wait {} s for it: {error}", TTL_MS / 1000);
    }
}

/// The lease as found.
fn renew(catalogue: &dyn Catalogue, tenant: &mut Tenant, now_ms: u64) -> Result<Option<LeaseRecord>, CatalogueError> {
    let found = catalogue.lease()?;
    if let Some(new) = tenant.claim(found.as_ref(), now_ms)
        && catalogue.replace_lease(found.as_ref(), &new)?
    {
        tenant.granted(new, now_ms);
    }
    Ok(found)
}

#[cfg(test)]
#[path = "lease_tests.rs"]
mod tests;
