//! Whether an fsync waits until nodes have the metadata.

use crate::error::EngineError;
use crate::open_store;
use weft_env::Env;
use weft_meta::MetaUrl;

/// Does it? `None`: the metadata engine keeps copies by itself, and nodes have none.
///
/// # Errors
/// Metadata cannot be read.
pub fn is_in_step(meta: &MetaUrl) -> Result<Option<bool>, EngineError> {
    let store = open_store(meta, &Env::system())?;
    if store.history().is_none() {
        return Ok(None);
    }
    Ok(Some(store.is_in_step()?))
}

/// Chooses it, for every process from now on.
///
/// # Errors
/// Metadata cannot be changed.
pub fn set_in_step(meta: &MetaUrl, is_in_step: bool) -> Result<(), EngineError> {
    Ok(open_store(meta, &Env::system())?.set_in_step(is_in_step)?)
}
