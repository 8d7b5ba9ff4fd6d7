//! The engine in the list of engines: what an address of it is, and how it is opened.

use super::{OpenError, SqliteKv, making};
use crate::engines::EngineKind;
use crate::keys;
use crate::kv::Kv;
use crate::owner::{Role, Session, current_owner};
use crate::types::Access;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use weft_env::{Clock, Env};

/// A place is the path of a file.
pub(crate) static KIND: EngineKind = EngineKind {
    scheme: "sqlite",
    has_sessions: false,
    refuse,
    absolute,
    create: |file| SqliteKv::create(Path::new(file)),
    exists: |file| Path::new(file).exists(),
    remove: |file| making::remove(Path::new(file)),
    open,
    back_up: |file, to, clock| SqliteKv::back_up(Path::new(file), to, clock),
    load: |file, pieces| making::load(Path::new(file), pieces),
    restore: |backup, file, clock| SqliteKv::restore(backup, Path::new(file), clock),
    current_owner: |file, clock| current_owner(Path::new(file), clock),
    sessions,
    evict,
    note_file,
};

/// The owner.
fn sessions(file: &OsStr, clock: &dyn Clock) -> Result<Vec<Session>, OpenError> {
    let path = super::file::probe(Path::new(file))?;
    let owner = current_owner(&path, clock).map_err(|error| super::file::failed(&path, error))?;
    let session = |holder| Session { id: 0, holder, role: Role::Owner, silent: Duration::ZERO };
    Ok(owner.into_iter().map(session).collect())
}

fn evict(file: &OsStr, _: i64) -> Result<bool, OpenError> {
    let why = "its owner is a process of this machine, and its place is free when it has ended; end it, or unmount it with `weft umount --force DIRECTORY`";
    Err(OpenError::Refused { place: file.display().to_string(), why: why.into() })
}

fn refuse(file: &OsStr) -> Option<&'static str> {
    match file.as_encoded_bytes() {
        b"" => Some("no file is named; write FILE or sqlite:FILE"),
        [b'/', b'/', ..] => Some("its file is on this machine; write sqlite:/PATH with one slash"),
        _ => None,
    }
}

/// As the mount table writes it: a file that is there without symbolic links.
fn absolute(file: &OsStr) -> OsString {
    let file = Path::new(file);
    let found = file.canonicalize().or_else(|_| std::path::absolute(file));
    found.unwrap_or_else(|_| file.to_owned()).into_os_string()
}

fn open(file: &OsStr, access: Access, mountpoint: Option<&Path>, env: &Env) -> Result<Arc<dyn Kv>, OpenError> {
    Ok(Arc::new(SqliteKv::open(Path::new(file), access, keys::SHARED, mountpoint, env)?))
}

/// Beside the file, with its name and the suffix.
fn note_file(file: &OsStr, suffix: &str) -> PathBuf {
    let mut name = file.to_owned();
    name.push(suffix);
    name.into()
}
