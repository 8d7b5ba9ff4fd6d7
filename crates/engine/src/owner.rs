//! The process that has a volume open for writing.

use weft_env::SystemClock;
use weft_meta::MetaUrl;
use weft_meta::owner::Holder;

/// The owner of a volume. A volume whose owner is not known counts as in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// No process.
    Nobody,
    /// This process.
    Somebody(Holder),
    /// A process that has not given its name.
    Unknown,
}

/// The current owner of the volume.
#[must_use]
pub fn current_owner(meta: &MetaUrl) -> Owner {
    match meta.current_owner(&SystemClock) {
        Ok(None) => Owner::Nobody,
        Ok(Some(holder)) => Owner::Somebody(holder),
        Err(_) => Owner::Unknown,
    }
}
