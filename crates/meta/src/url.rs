//! Where the metadata of a volume is: `FILE`, or `ENGINE:PLACE` as in `sqlite:FILE` and `postgres://HOST/DATABASE`.
//!
//! [`MetaUrl::parse`] is the one place that selects an engine; [`engines::KINDS`](crate::engines::KINDS) lists the engines of this build.

use crate::engines::{EngineKind, KINDS, LEFT_OUT, OpenError, Pieces};
use crate::kv::Kv;
use crate::owner::{Holder, Session};
use crate::types::Access;
use crate::unfinished::marked;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weft_env::{Clock, Env};

/// The place of a volume's metadata, and the engine that keeps it there.
#[derive(Clone)]
pub struct MetaUrl {
    kind: &'static EngineKind,
    /// What follows the scheme; its meaning is the engine's.
    place: OsString,
}

/// Why a text is no place of metadata.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MetaUrlError {
    /// This program was built without it.
    #[error(
        "this program was built without the metadata engine `{0}`: build it with `cargo build --release --features shared`"
    )]
    LeftOut(String),
    /// Another program's engine.
    #[error(
        "this build has no metadata engine `{scheme}`, it has {}: give a file, as in `meta.db`; a file whose name has a colon is written `./{text}`",
        schemes()
    )]
    UnknownEngine {
        /// What precedes the colon.
        scheme: String,
        /// All of it.
        text: String,
    },
    /// The engine cannot use it.
    #[error("`{text}` is no place of a volume's metadata: {why}")]
    Place {
        /// All of it.
        text: String,
        /// A clause that ends in the mend.
        why: &'static str,
    },
}

fn schemes() -> String {
    KINDS.iter().map(|kind| format!("`{}`", kind.scheme)).collect::<Vec<_>>().join(", ")
}

/// The letters before the first colon, if they can be a scheme: a path with a slash before its colon has none.
fn split_scheme(text: &[u8]) -> Option<(&str, &[u8])> {
    let colon = text.iter().position(|byte| *byte == b':')?;
    let scheme = std::str::from_utf8(&text[..colon]).ok()?;
    let may_follow = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && scheme.chars().all(may_follow);
    is_scheme.then(|| (scheme, &text[colon + 1..]))
}

/// An address for a message: `***` in the place of a password, which does not belong there.
#[must_use]
pub fn without_password(text: &str) -> String {
    let (before, query) = text.split_once('?').map_or((text, None), |(before, query)| (before, Some(query)));
    let mut shown = match before.split_once("//").and_then(|(scheme, rest)| Some((scheme, rest.rsplit_once('@')?))) {
        Some((scheme, (user, rest))) if user.contains(':') => {
            format!("{scheme}//{}:***@{rest}", user.split(':').next().unwrap_or_default())
        }
        _ => before.to_owned(),
    };
    for (place, part) in query.into_iter().flat_map(|query| query.split('&')).enumerate() {
        shown.push(if place == 0 { '?' } else { '&' });
        shown.push_str(if part.starts_with("password=") { "password=***" } else { part });
    }
    shown
}

impl MetaUrl {
    /// Reads an address. Without a scheme it is a file of the first engine.
    ///
    /// # Errors
    /// [`MetaUrlError`]: no such engine, or a place that it cannot use.
    pub fn parse(text: &OsStr) -> Result<Self, MetaUrlError> {
        let shown = || without_password(&text.to_string_lossy());
        let (kind, place) = match split_scheme(text.as_bytes()) {
            None => (KINDS[0], text.as_bytes()),
            Some((scheme, place)) => {
                let kind = KINDS.iter().find(|kind| kind.scheme == scheme);
                let unknown = || {
                    if LEFT_OUT.contains(&scheme) {
                        return MetaUrlError::LeftOut(scheme.to_owned());
                    }
                    MetaUrlError::UnknownEngine { scheme: scheme.to_owned(), text: shown() }
                };
                (*kind.ok_or_else(unknown)?, place)
            }
        };
        let place = OsStr::from_bytes(place);
        match (kind.refuse)(place) {
            Some(why) => Err(MetaUrlError::Place { text: shown(), why }),
            None => Ok(Self { kind, place: place.to_owned() }),
        }
    }

    /// The same place for every process of this machine: for files absolute and without symbolic links.
    #[must_use]
    pub fn absolute(&self) -> Self {
        Self { kind: self.kind, place: (self.kind.absolute)(&self.place) }
    }

    /// The address as commands take it; [`MetaUrl::parse`] reads it back.
    #[must_use]
    pub fn to_os_string(&self) -> OsString {
        let mut text = Vec::new();
        if !std::ptr::eq(self.kind, KINDS[0]) {
            text.extend_from_slice(self.kind.scheme.as_bytes());
            text.push(b':');
        } else if split_scheme(self.place.as_bytes()).is_some() {
            text.extend_from_slice(b"./");
        }
        text.extend_from_slice(self.place.as_bytes());
        OsString::from_vec(text)
    }

    /// Makes an empty store.
    ///
    /// # Errors
    /// [`OpenError`]: something is there already, or nothing can be made there.
    pub fn create(&self) -> Result<(), OpenError> {
        (self.kind.create)(&self.place)
    }

    /// Is a store there, as far as can be told without opening it?
    #[must_use]
    pub fn exists(&self) -> bool {
        (self.kind.exists)(&self.place)
    }

    /// Removes a store that nobody has used yet.
    ///
    /// # Errors
    /// It is not there, or not this user's.
    pub fn remove(&self) -> io::Result<()> {
        (self.kind.remove)(&self.place)
    }

    /// Opens the store. Others are told about `mountpoint` while this process owns it.
    ///
    /// # Errors
    /// [`OpenError`]: missing, not ours, of another format, or owned by somebody else.
    pub fn open(&self, access: Access, mountpoint: Option<&Path>, env: &Env) -> Result<Arc<dyn Kv>, OpenError> {
        (self.kind.open)(&self.place, access, mountpoint, env)
    }

    /// Copies what is durable, as of one moment and beside the owner, to the new file `to`.
    ///
    /// # Errors
    /// [`OpenError`]; nothing is made then.
    pub fn back_up(&self, to: &Path, clock: &dyn Clock) -> Result<(), OpenError> {
        (self.kind.back_up)(&self.place, to, clock)
    }

    /// Makes a store, where there is none, of these pieces. It is unfinished: see [`crate::Store::finish_copy`].
    ///
    /// # Errors
    /// [`OpenError`], or what a piece says; nothing is made then.
    pub fn load(&self, pieces: &mut Pieces<'_>) -> Result<(), OpenError> {
        (self.kind.load)(&self.place, &mut marked(pieces))
    }

    /// Makes a store, where there is none, from a backup. It is unfinished, too.
    ///
    /// # Errors
    /// [`OpenError`]; nothing is made then.
    pub fn restore(&self, backup: &Path, clock: &dyn Clock) -> Result<(), OpenError> {
        (self.kind.restore)(backup, &self.place, clock)
    }

    /// The process that owns the volume now, or after a short-lived owner: `None` if nobody does.
    ///
    /// # Errors
    /// The store cannot be asked, or its owner has not said who it is (`WouldBlock`).
    pub fn current_owner(&self, clock: &dyn Clock) -> io::Result<Option<Holder>> {
        (self.kind.current_owner)(&self.place, clock)
    }

    /// May several processes change the volume together?
    #[must_use]
    pub fn has_sessions(&self) -> bool {
        self.kind.has_sessions
    }

    /// The processes that change the volume.
    ///
    /// # Errors
    /// The store cannot be asked.
    pub fn sessions(&self, clock: &dyn Clock) -> Result<Vec<Session>, OpenError> {
        (self.kind.sessions)(&self.place, clock)
    }

    /// From now on the store refuses everything that this session tries to change; false: there is none.
    ///
    /// # Errors
    /// The engine's sessions cannot be evicted, or it cannot be asked.
    pub fn evict(&self, session: i64) -> Result<bool, OpenError> {
        (self.kind.evict)(&self.place, session)
    }

    /// A file of this machine for notes about the volume, told apart by `suffix`; nothing that is needed is kept in it.
    #[must_use]
    pub fn note_file(&self, suffix: &str) -> PathBuf {
        (self.kind.note_file)(&self.place, suffix)
    }
}

/// The file at this path, whatever its name looks like.
impl From<PathBuf> for MetaUrl {
    fn from(file: PathBuf) -> Self {
        Self { kind: KINDS[0], place: file.into_os_string() }
    }
}

/// The file at this path, whatever its name looks like.
impl From<&Path> for MetaUrl {
    fn from(file: &Path) -> Self {
        file.to_path_buf().into()
    }
}

impl fmt::Display for MetaUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_os_string().display().fmt(f)
    }
}

impl fmt::Debug for MetaUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MetaUrl({self})")
    }
}

impl PartialEq for MetaUrl {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.kind, other.kind) && self.place == other.place
    }
}

impl Eq for MetaUrl {}

#[cfg(test)]
#[path = "url_tests.rs"]
mod tests;
