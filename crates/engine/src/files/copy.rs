//! Copying between trees: files, directories, links, with modes and times.
//!
//! A file gets its name only when it is complete. Until it has its attributes, only its owner can open it.

use super::error::refused;
use super::{Attributes, Entry, FileId, Result, Sink, Tree, Visit, Walk};
use std::io::Read;
use std::path::{Path, PathBuf};
use weft_env::Env;
use weft_format::records::{Kind, Timestamp};

/// Bytes moved at a time: one request of a mount.
const CHUNK_BYTES: usize = 1 << 20;

/// Read, write and execute, of user, group and others.
const PERMISSIONS: u16 = 0o777;

/// The mode of a file from a stream: no access for others.
const STREAM_MODE: u16 = 0o600;

/// The observer of a copy's progress.
pub trait Progress {
    /// A file begins.
    fn begin(&self, _from: &Path) {}
    /// So many more bytes were copied.
    fn advance(&self, _bytes: u64) {}
}

/// No observer.
impl Progress for () {}

/// How to copy.
#[derive(Clone, Copy)]
pub struct Copying<'p> {
    /// Owners, set-user-id, set-group-id and sticky bits too. Otherwise what is made belongs to whoever copies, who would lend
    /// their own rights by these bits.
    pub preserve: bool,
    /// The observer.
    pub progress: &'p dyn Progress,
}

impl Copying<'_> {
    fn attributes(self, entry: &Entry) -> Attributes {
        Attributes {
            kind: entry.kind,
            mode: if self.preserve { entry.mode } else { entry.mode & PERMISSIONS },
            owner: self.preserve.then_some((entry.uid, entry.gid)),
            modified: entry.modified,
        }
    }
}

/// Copies the entry at `from_path` to `to_path`: into an existing directory under its own entries, over a file that is
/// there. Directories get their attributes last, so that a read-only one can be filled.
///
/// # Errors
/// An entry cannot be copied; entries copied before stay.
pub fn copy(from: &dyn Tree, from_path: &Path, to: &dyn Tree, to_path: &Path, how: Copying<'_>) -> Result<()> {
    let mut walk = Walk::new(from, from_path)?;
    let mut top: Option<FileId> = None;
    while let Some((visit, path, entry)) = walk.step()? {
        let target = match path.strip_prefix(from_path) {
            Ok(below) if below != Path::new("") => to_path.join(below),
            _ => to_path.to_path_buf(),
        };
        match visit {
            Visit::Enter => {
                let there = make_directory(to, &target)?;
                // All that is made lies below the first.
                if *top.get_or_insert(there) == entry.id {
                    return refused(format!(
                        "{} cannot be copied into itself: choose another place",
                        from_path.display()
                    ));
                }
            }
            Visit::Leave => to.set(&target, &how.attributes(&entry))?,
            Visit::Other => copy_other(from, &path, &entry, to, &target, how)?,
        }
    }
    Ok(())
}

/// A directory that is there, perhaps since before.
fn make_directory(to: &dyn Tree, path: &Path) -> Result<FileId> {
    match to.entry(path)? {
        Some(there) if there.kind == Kind::Directory => return Ok(there.id),
        Some(_) => return refused(format!("{} exists and is not a directory: remove it first", path.display())),
        None => to.make_directory(path)?,
    }
    Ok(super::require(to, path)?.id)
}

fn copy_other(
    from: &dyn Tree,
    from_path: &Path,
    entry: &Entry,
    to: &dyn Tree,
    to_path: &Path,
    how: Copying<'_>,
) -> Result<()> {
    let there = refuse_directory(to, to_path)?;
    match entry.kind {
        Kind::File => {
            how.progress.begin(from_path);
            let mut source = from.read(from_path)?;
            return copy_file(&mut *source, to, to_path, there.as_ref(), &how.attributes(entry), how.progress);
        }
        // A file makes way for a file by itself.
        _ => there.map_or(Ok(()), |there| to.remove(to_path, there.kind))?,
    }
    match entry.kind {
        Kind::Symlink => to.make_link(to_path, &from.read_link(from_path)?)?,
        kind => to.make_special(to_path, kind)?,
    }
    to.set(to_path, &how.attributes(entry))
}

/// The entry at a path, if it is no directory.
fn refuse_directory(to: &dyn Tree, path: &Path) -> Result<Option<Entry>> {
    let there = to.entry(path)?;
    if there.as_ref().is_some_and(|there| there.kind == Kind::Directory) {
        return refused(format!("{} exists and is a directory: remove it first", path.display()));
    }
    Ok(there)
}

/// Copies a stream into a file, with the mode of the file that is there.
///
/// # Errors
/// The stream breaks, or the file cannot be made.
pub fn copy_bytes(source: &mut dyn Read, to: &dyn Tree, to_path: &Path, progress: &dyn Progress) -> Result<()> {
    let there = refuse_directory(to, to_path)?;
    let mode = there.as_ref().filter(|there| there.kind == Kind::File).map_or(STREAM_MODE, |there| there.mode);
    let attributes = Attributes { kind: Kind::File, mode: mode & PERMISSIONS, owner: None, modified: now() };
    copy_file(source, to, to_path, there.as_ref(), &attributes, progress)
}

fn now() -> Timestamp {
    let since = Env::system().clock.unix_time();
    Timestamp { seconds: since.as_secs() as i64, nanoseconds: since.subsec_nanos() }
}

fn copy_file(
    source: &mut dyn Read,
    to: &dyn Tree,
    to_path: &Path,
    there: Option<&Entry>,
    attributes: &Attributes,
    progress: &dyn Progress,
) -> Result<()> {
    let temporary = temporary(to_path);
    let mut make = || {
        let sink = to.make_file(&temporary)?;
        // The policy of a file applies to data written to it.
        if to.is_volume() && there.is_some_and(|there| there.kind == Kind::File) {
            let policy = to.policy(to_path)?;
            if policy != to.policy(&temporary)? {
                to.set_policy(&temporary, &policy)?;
            }
        }
        fill(source, sink, attributes, progress)?;
        to.rename(&temporary, to_path)
    };
    make().inspect_err(|_| {
        // The reader should learn why the file was not made.
        let _ = to.remove(&temporary, Kind::File);
    })
}

/// A name in the same directory for a file that is not whole.
fn temporary(path: &Path) -> PathBuf {
    path.with_file_name(format!(".weft-unfinished-{:016x}", Env::system().rng.next_u64()))
}

fn fill(
    source: &mut dyn Read,
    mut sink: Box<dyn Sink + '_>,
    attributes: &Attributes,
    progress: &dyn Progress,
) -> Result<()> {
    let mut buffer = vec![0; CHUNK_BYTES];
    loop {
        let bytes = source.read(&mut buffer)?;
        if bytes == 0 {
            return sink.finish(attributes);
        }
        // Holes are read as zeros; written, they would take room. Small pieces of a stream are written as they are.
        if bytes == CHUNK_BYTES && is_zero(&buffer) {
            sink.skip(bytes as u64)?;
        } else {
            sink.write_all(&buffer[..bytes])?;
        }
        progress.advance(bytes as u64);
    }
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|&byte| byte == 0)
}
