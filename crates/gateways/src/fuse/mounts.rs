//! The mount table of this machine: who is mounted where.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use weft_meta::MetaUrl;

/// What our mounts are called in the mount table.
pub const FILE_SYSTEM_TYPE: &str = "fuse.weft";

/// How long a mount may take to say that it lives.
const PROBE_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(2);

/// One line of the mount table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Where it is mounted.
    pub mountpoint: PathBuf,
    /// The file system's type, as `fuse.weft`.
    pub kind: String,
    /// What is mounted: for our mounts META, absolute.
    pub source: OsString,
    /// Its device number, `major:minor`.
    pub device: String,
    /// Nothing is written by it.
    pub is_read_only: bool,
}

impl Mount {
    /// Is it a mount of a volume?
    pub fn is_ours(&self) -> bool {
        self.kind == FILE_SYSTEM_TYPE
    }

    /// Has its process gone without unmounting? The kernel says so at once; a living process may be slow or hang, and is
    /// not waited for.
    pub fn is_dead(&self) -> bool {
        let (tell, told) = std::sync::mpsc::channel();
        let mountpoint = self.mountpoint.clone();
        // Left behind where the process hangs: it ends with ours.
        std::thread::spawn(move || {
            let dead = rustix::fs::statfs(&mountpoint).is_err_and(|error| error == rustix::io::Errno::NOTCONN);
            let _ = tell.send(dead);
        });
        told.recv_timeout(PROBE_TIMEOUT).unwrap_or(false)
    }
}

/// Everything mounted, in the order it was mounted.
///
/// # Errors
/// `/proc` is not there.
pub fn all() -> std::io::Result<Vec<Mount>> {
    Ok(parse(&std::fs::read("/proc/self/mountinfo")?))
}

/// What is mounted at `directory`, the topmost if several. A mount that is dead or hangs is found too: only the
/// directory's parent is looked at, unless nothing is mounted under that name and it may be a link.
///
/// # Errors
/// `/proc` is not there.
pub fn at(directory: &Path) -> std::io::Result<Option<Mount>> {
    let table = all()?;
    let find = |path: PathBuf| table.iter().rev().find(|mount| mount.mountpoint == path).cloned();
    Ok(find(by_parent(directory)).or_else(|| find(absolute(directory))))
}

/// Where the volume of this META is mounted on this machine.
///
/// # Errors
/// `/proc` is not there.
pub fn of_volume(meta: &MetaUrl) -> std::io::Result<Vec<Mount>> {
    let source = meta.absolute().to_os_string();
    Ok(all()?.into_iter().filter(|mount| mount.is_ours() && mount.source == source).collect())
}

/// The path as the mount table writes it: absolute, without symbolic links.
pub fn absolute(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| by_parent(path))
}

/// Absolute, with the links of its parent resolved; the path itself is not touched.
fn by_parent(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    // `absolute` leaves a trailing slash; components do not have one.
    let path: PathBuf = path.components().collect();
    match (path.parent().and_then(|parent| parent.canonicalize().ok()), path.file_name()) {
        (Some(parent), Some(name)) => parent.join(name),
        _ => path,
    }
}

/// Lines of proc_pid_mountinfo(5): `id parent major:minor root mountpoint options [tags...] - type source super-options`.
/// A line that is none is left out.
fn parse(table: &[u8]) -> Vec<Mount> {
    table.split(|&byte| byte == b'\n').filter_map(parse_line).collect()
}

fn parse_line(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|&byte| byte == b' ');
    let device = fields.nth(2)?;
    let mountpoint = fields.nth(1)?;
    let is_read_only = fields.next()?.split(|&byte| byte == b',').any(|option| option == b"ro");
    fields.by_ref().find(|field| *field == b"-")?;
    let (kind, source) = (fields.next()?, fields.next()?);
    Some(Mount {
        mountpoint: PathBuf::from(unescape(mountpoint)),
        kind: String::from_utf8_lossy(unescape(kind).as_bytes()).into_owned(),
        source: unescape(source),
        device: String::from_utf8_lossy(device).into_owned(),
        is_read_only,
    })
}

/// Blanks, newlines and backslashes are written as a backslash and three octal digits.
fn unescape(field: &[u8]) -> OsString {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, after)) = rest.split_first() {
        let octal = |digits: &[u8]| {
            let digits = std::str::from_utf8(digits).ok()?;
            u8::from_str_radix(digits, 8).ok()
        };
        match (first, after.get(..3).and_then(octal)) {
            (b'\\', Some(byte)) => {
                plain.push(byte);
                rest = &after[3..];
            }
            _ => {
                plain.push(first);
                rest = after;
            }
        }
    }
    OsString::from_vec(plain)
}

#[cfg(test)]
#[path = "mounts_tests.rs"]
mod tests;
