//! The process that has a volume open for writing.

use weft_env::SystemClock;
use weft_meta::MetaUrl;
use weft_meta::owner::{Holder, Role};

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

/// The process of this machine that changes the volume and for which `is_it` holds.
#[must_use]
pub fn holder_here(meta: &MetaUrl, is_it: impl Fn(&Holder) -> bool) -> Option<Holder> {
    let sessions = meta.sessions(&SystemClock).ok()?.into_iter();
    let holders = sessions.filter(|session| session.role != Role::Helper).map(|session| session.holder);
    holders.into_iter().find(|holder| holder.is_here() && is_it(holder))
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
