//! Opening a volume to change it: metadata takes a number, the nodes are told, and whoever has an older copy of the metadata changes
//! nothing any more. See `weft_format::records::OpeningsRecord`.

use crate::error::VfsError;
use crate::volume::Volume;
use std::sync::Arc;
use weft_format::records::Opening;
use weft_meta::{MetaError, Store};
use weft_transfer::{KnownOpenings, Transfer};

/// Takes the next opening, durably, and tells the nodes that answered.
///
/// # Errors
/// `Superseded`: a node knows a newer one; nothing was changed then, unless both came at the same time.
pub(crate) async fn take(store: &Store, transfer: &Transfer, known: &KnownOpenings) -> Result<(), MetaError> {
    let latest = store.openings()?.latest.map(|latest| latest.opening);
    if let Some(newer) = known.newer
        && !has_taken(store, newer)?
    {
        return Err(MetaError::Superseded(newer.refuses(latest)));
    }
    let env = store.env();
    let opening = store.take_opening(env.rng.next_u128(), env.clock.unix_ms())?;
    match transfer.publish_opening(opening, &known.held).await {
        Some(other) if !has_taken(store, other)? => Err(MetaError::Superseded(other.refuses(Some(opening)))),
        _ => Ok(()),
    }
}

/// Why metadata that is only read is not the volume's, as far as nodes that answer know; `None`: it is.
///
/// # Errors
/// Metadata cannot be read.
pub async fn refusal(store: &Store, transfer: &Transfer) -> Result<Option<String>, MetaError> {
    let latest = store.openings()?.latest.map(|latest| latest.opening);
    let (known, set_back) = tokio::join!(transfer.look_for_openings(latest), transfer.set_back(|| store.reached()));
    // The owner may have taken another one since.
    let newer = match known.newer {
        Some(newer) if !has_taken(store, newer)? => Some(newer.refuses(latest)),
        _ => None,
    };
    Ok(newer.or(set_back?.map(|set_back| set_back.why)))
}

/// Is it an opening of the same metadata, by another process? The metadata has each before the nodes do.
fn has_taken(store: &Store, other: Opening) -> Result<bool, MetaError> {
    let latest = store.openings()?.latest.map(|latest| latest.opening);
    Ok(latest.is_some_and(|latest| other == latest || other.number < latest.number))
}

/// Asks the nodes whether the opening is still the newest, and tells those of it that have not heard. If it is not, nothing is
/// changed any more, in metadata or on nodes. If it is, it is renewed where that is time.
pub(crate) async fn look(store: Arc<Store>, transfer: Transfer) -> Result<(), MetaError> {
    let Some(latest) = store.openings()?.latest.map(|latest| latest.opening) else { return Ok(()) };
    let known = transfer.look_for_openings(Some(latest)).await;
    let other = match known.newer {
        Some(newer) => Some(newer),
        None if known.lacks(latest.number) => {
            // Somebody else in this process may be renewing it, and it must be durable first: nodes that know it would take what a crash leaves for an older copy.
            store.flush()?;
            transfer.publish_opening(latest, &known.held).await
        }
        None => None,
    };
    let Some(other) = other else {
        if let Some(renewed) = store.renew_opening()? {
            // A node that knows another of this number says so at the next look.
            transfer.publish_opening(renewed, &known.held).await;
        }
        return Ok(());
    };
    if has_taken(&store, other)? {
        return Ok(());
    }
    let why = refuse(&store, &transfer, other, latest);
    Err(MetaError::Superseded(why))
}

fn refuse(store: &Store, transfer: &Transfer, other: Opening, latest: Opening) -> String {
    let why = other.refuses(Some(latest));
    if store.halted().is_none() {
        tracing::error!("{why}");
    }
    store.halt(&why);
    transfer.halt(&why);
    why
}

impl Volume {
    /// Is the metadata still the volume's? To be asked before anything is removed; the volume asks by itself every now and then.
    ///
    /// # Errors
    /// `Superseded`: it is not, and nothing is changed any more.
    pub fn check_opening(&self) -> Result<(), VfsError> {
        let work = look(self.store.clone(), self.segments.transfer().clone());
        Ok(self.segments.runtime().block_on(work)?)
    }

    /// The same, while nobody waits for it.
    pub(crate) fn watch_opening(&self) {
        let work = look(self.store.clone(), self.segments.transfer().clone());
        self.segments.runtime().spawn(async move {
            match work.await {
                // It was told when it was found.
                Ok(()) | Err(MetaError::Superseded(_)) => {}
                Err(error) => tracing::warn!("it cannot be told whether the metadata is the volume's: {error}"),
            }
        });
    }

    /// Notes which segments nobody will commit any more, for a process that collects what writers left, or removes a node.
    pub(crate) fn note_settled(&self) -> Result<(), VfsError> {
        let ids = self.write_back.segment_ids();
        if let Some(settled) = ids.news() {
            self.store.note_settled(ids.opening(), settled.below, settled.roster)?;
            ids.noted(settled);
        }
        Ok(())
    }
}
