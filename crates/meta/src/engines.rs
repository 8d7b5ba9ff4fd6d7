//! The engines: [`memory`] for tests and as the oracle, [`sqlite`] the default, [`postgres`] and [`etcd`] for many machines, whose owner
//! writes [`behind`]. All pass `conformance.rs`.
//!
//! A volume names its engine by a [`MetaUrl`](crate::MetaUrl). A new engine is a file here and one line in [`KINDS`].

pub mod behind;
#[cfg(feature = "shared")]
pub mod etcd;
pub mod memory;
mod memtable;
mod opening;
#[cfg(feature = "shared")]
pub mod postgres;
#[cfg(feature = "shared")]
mod remote;
mod route;
pub mod sqlite;

pub use memory::MemoryKv;
pub use opening::OpenError;
pub use route::is_written_through;
pub use sqlite::SqliteKv;

use crate::kv::{Kv, Slot};
use crate::owner::{Holder, Session};
use crate::types::Access;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weft_env::{Clock, Env};

/// An engine that keeps volumes beyond the life of a process. Functions take the place: what follows the scheme in an address.
pub struct EngineKind {
    /// What an address of it begins with, before the colon.
    pub scheme: &'static str,
    /// Several processes may change a store together.
    pub(crate) has_sessions: bool,
    /// Why a place is none; a clause that ends in the mend.
    pub(crate) refuse: fn(&OsStr) -> Option<&'static str>,
    /// The place as every process of this machine can use it.
    pub(crate) absolute: fn(&OsStr) -> OsString,
    /// See [`MetaUrl::create`](crate::MetaUrl::create); so with the others.
    pub(crate) create: fn(&OsStr) -> Result<(), OpenError>,
    pub(crate) exists: fn(&OsStr) -> bool,
    pub(crate) remove: fn(&OsStr) -> io::Result<()>,
    pub(crate) open: Open,
    pub(crate) back_up: fn(&OsStr, &Path, &dyn Clock) -> Result<(), OpenError>,
    pub(crate) load: fn(&OsStr, &mut Pieces<'_>) -> Result<(), OpenError>,
    pub(crate) restore: fn(&Path, &OsStr, &dyn Clock) -> Result<(), OpenError>,
    pub(crate) current_owner: fn(&OsStr, &dyn Clock) -> io::Result<Option<Holder>>,
    pub(crate) sessions: fn(&OsStr, &dyn Clock) -> Result<Vec<Session>, OpenError>,
    pub(crate) evict: fn(&OsStr, i64) -> Result<bool, OpenError>,
    pub(crate) note_file: fn(&OsStr, &str) -> PathBuf,
}

/// Slots of a store that is being made, some at a time; a later value of a key takes the place of an earlier one. Or why there are no more.
pub type Pieces<'p> = dyn FnMut() -> Result<Option<Vec<Slot>>, String> + 'p;

/// Opens a place; others are told about the mountpoint.
type Open = fn(&OsStr, Access, Option<&Path>, &Env) -> Result<Arc<dyn Kv>, OpenError>;

/// The engines of this build. The first takes addresses without a scheme.
pub static KINDS: &[&EngineKind] = &[
    &sqlite::KIND,
    #[cfg(feature = "shared")]
    &postgres::KIND,
    #[cfg(feature = "shared")]
    &etcd::KIND,
];

/// The schemes of engines that this program could have, and was built without.
pub(crate) const LEFT_OUT: &[&str] = if cfg!(feature = "shared") { &[] } else { &["postgres", "etcd"] };
