//! Who has a volume open for writing.

use weft_env::SystemClock;
use weft_meta::MetaUrl;
use weft_meta::owner::Holder;

/// Who has a volume. Where that cannot be told it counts as in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// Nobody.
    Nobody,
    /// This process.
    Somebody(Holder),
    /// Somebody who has not said who.
    Unknown,
}

/// Who has the volume now.
#[must_use]
pub fn current_owner(meta: &MetaUrl) -> Owner {
    match meta.current_owner(&SystemClock) {
        Ok(None) => Owner::Nobody,
        Ok(Some(holder)) => Owner::Somebody(holder),
        Err(_) => Owner::Unknown,
    }
}
