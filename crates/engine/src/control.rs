//! Requests of people to all workers of a volume.

use crate::catalogue::StoreCatalogue;
use crate::error::EngineError;
use crate::open_store;
use std::sync::Arc;
use weft_care::record::Requests;
use weft_env::Env;
use weft_meta::MetaUrl;

/// A request to every worker of a volume, wherever it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CareRequest {
    /// Hold the task in progress, and begin none.
    Pause,
    /// Continue after a pause.
    Resume,
    /// Give up the task in progress; it begins again when there is reason to.
    Cancel,
    /// Convert segments whose policies want another code.
    Convert,
}

/// Leaves a request in metadata; workers read it within seconds.
///
/// # Errors
/// Metadata cannot be written.
pub fn request_care(meta: &MetaUrl, request: CareRequest) -> Result<(), EngineError> {
    let catalogue = StoreCatalogue::new(Arc::new(open_store(meta, &Env::system())?));
    let change = |requests: &mut Requests| match request {
        CareRequest::Pause => requests.is_paused = true,
        CareRequest::Resume => requests.is_paused = false,
        CareRequest::Cancel => requests.cancel_count += 1,
        CareRequest::Convert => requests.convert_count += 1,
    };
    Ok(Requests::change(&catalogue, change)?)
}
