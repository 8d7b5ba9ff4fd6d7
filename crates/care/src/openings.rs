//! Asks the nodes whether the metadata is still the volume's, before a change and during it.

use crate::catalogue::{Catalogue, CatalogueError};
use crate::census::CareError;
use crate::job::Job;
use std::future::Future;
use std::time::Duration;
use weft_env::planted::{Planted, has_planted};
use weft_format::records::Opening;
use weft_transfer::{SetBack, Transfer};

/// A job that is running asks again this often.
pub const LOOK_EVERY: Duration = Duration::from_secs(20);

/// The owner opens in metadata first and then tells the nodes: so often a newer opening may come between the two looks.
const TRIES: usize = 3;

/// Asks the nodes that answer whether they know a newer opening than the metadata. If they do, `transfer` changes nothing any more. If they
/// do not, the opening is renewed where that is time.
///
/// # Errors
/// `Superseded`; the catalogue cannot be read.
pub async fn check(catalogue: &dyn Catalogue, transfer: &Transfer) -> Result<(), CatalogueError> {
    if has_planted(Planted::OlderCopyChanges) {
        return Ok(());
    }
    let mut known = latest(catalogue)?;
    for _ in 0..TRIES {
        let found = transfer.look_for_openings(known).await;
        let Some(newer) = found.newer else {
            if let Some(renewed) = catalogue.renew_opening()? {
                // A node that knows another of this number says so at the next look.
                transfer.publish_opening(renewed, &found.held).await;
            }
            return Ok(());
        };
        let before = std::mem::replace(&mut known, latest(catalogue)?);
        if known == before {
            let why = newer.refuses(known);
            transfer.halt(&why);
            return Err(CatalogueError::Superseded(why));
        }
    }
    Ok(())
}

/// Asks the nodes whether the metadata was set back to an earlier moment.
async fn check_history(catalogue: &dyn Catalogue, transfer: &Transfer) -> Result<(), CatalogueError> {
    match transfer.set_back(|| catalogue.reached()).await? {
        None => Ok(()),
        Some(SetBack { why, .. }) => {
            transfer.halt(&why);
            Err(CatalogueError::Superseded(why))
        }
    }
}

/// Does `work` while the metadata is the volume's. It asks before the work and from time to time during it, and cancels the job when the
/// answer is no.
///
/// # Errors
/// Those of the work; `Superseded`.
pub async fn guarded<T>(
    catalogue: &dyn Catalogue,
    transfer: &Transfer,
    job: &Job,
    work: impl Future<Output = Result<T, CareError>>,
) -> Result<T, CareError> {
    check(catalogue, transfer).await?;
    check_history(catalogue, transfer).await?;
    tokio::pin!(work);
    loop {
        tokio::select! {
            biased;
            outcome = &mut work => return outcome,
            () = transfer.fleet().env().clock.sleep(LOOK_EVERY) => match check(catalogue, transfer).await {
                Err(error @ CatalogueError::Superseded(_)) => {
                    job.cancel();
                    let _ = work.await;
                    return Err(error.into());
                }
                Err(error) => tracing::warn!("whether the metadata belongs to the volume cannot be determined: {error}"),
                Ok(()) => {}
            },
        }
    }
}

fn latest(catalogue: &dyn Catalogue) -> Result<Option<Opening>, CatalogueError> {
    Ok(catalogue.openings()?.latest.map(|latest| latest.opening))
}
