//! Who owns a volume: the one process that may change names, inodes and extents.
//!
//! Ownership is an advisory lock on the file `<metadata>-owner`, held for the owner's lifetime: it dies with the process,
//! `kill -9` included. The file's text only says who holds it, so that others can say so; it is never removed, because a
//! lock on a removed file protects nothing.
//!
//! Some are owners in passing, for one change: whoever wants to be the owner waits for these, and whoever asks is told of nobody.

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// An owner that has just come may not have written its text yet, and [`current_owner`] holds the lock for microseconds: so
/// a refusal is looked at again this often, with this pause.
const RETRIES: u32 = 10;
const RETRY_PAUSE: Duration = Duration::from_millis(10);

/// A passing owner's change takes milliseconds, on a slow and busy disk seconds: whoever wants to be the owner waits for so many pauses.
const PASSING_RETRIES: u32 = 1000;

/// The text is a few lines and one path; more than this is not ours.
const MAX_TEXT_BYTES: u64 = 16 << 10;

/// Who holds a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its process id, on its host.
    pub process: u32,
    /// The host's name.
    pub host: String,
    /// Since when, in seconds since 1970.
    pub started: u64,
    /// Where it has the volume mounted, if it has.
    pub mountpoint: Option<PathBuf>,
    /// Only for a moment.
    pub is_passing: bool,
}

impl Holder {
    /// This process, as of now.
    pub fn this_process(mountpoint: Option<&Path>) -> Self {
        Self {
            process: std::process::id(),
            host: host_name(),
            started: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
            mountpoint: mountpoint.map(Path::to_path_buf),
            is_passing: false,
        }
    }

    /// This process, for one change.
    pub fn passing() -> Self {
        Self { is_passing: true, ..Self::this_process(None) }
    }

    /// With the host's name, for those on others: `process 123 on h`.
    pub fn on_its_host(&self) -> String {
        format!("process {} on {}", self.process, self.host)
    }

    /// `process 123\nhost h\nstarted 1700000000\n`, then `mountpoint /x` last, since a path may hold any byte but NUL, or `passing`.
    fn to_text(&self) -> Vec<u8> {
        let mut text = format!("process {}\nhost {}\nstarted {}\n", self.process, self.host, self.started).into_bytes();
        if let Some(mountpoint) = &self.mountpoint {
            text.extend_from_slice(b"mountpoint ");
            text.extend_from_slice(mountpoint.as_os_str().as_bytes());
        } else if self.is_passing {
            text.extend_from_slice(PASSING);
        }
        text
    }

    fn from_text(text: &[u8]) -> Option<Self> {
        let mut lines = text.splitn(4, |byte| *byte == b'\n');
        let mut word = |name: &str| {
            let value = lines.next()?.strip_prefix(name.as_bytes())?;
            String::from_utf8(value.to_vec()).ok()
        };
        let process = word("process ")?.parse().ok()?;
        let host = word("host ")?;
        let started = word("started ")?.parse().ok()?;
        let last = lines.next().unwrap_or_default();
        let path = last.strip_prefix(b"mountpoint ".as_slice());
        let mountpoint = path.map(|path| OsString::from_vec(path.to_vec()).into());
        Some(Self { process, host, started, mountpoint, is_passing: last == PASSING })
    }
}

/// The last line of an owner in passing.
const PASSING: &[u8] = b"passing";

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {}", self.process)?;
        if self.host != host_name() {
            write!(f, " on {}", self.host)?;
        }
        match &self.mountpoint {
            Some(path) => write!(f, " (mounted at {})", path.display()),
            None => Ok(()),
        }
    }
}

/// Why ownership was not given.
#[derive(Debug, thiserror::Error)]
pub enum OwnerError {
    /// Somebody else has it.
    #[error("{} is in use by {}; {}", path.display(), name(holder), mend(holder))]
    InUse {
        /// The metadata store.
        path: PathBuf,
        /// Who; `None` if the holder has not said.
        holder: Option<Holder>,
    },
    /// The lock file cannot be opened, locked or written.
    #[error("the lock file {} cannot be used: {source}; check its permissions and its file system", path.display())]
    Io {
        /// The lock file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

fn name(holder: &Option<Holder>) -> String {
    holder.as_ref().map_or("another process".into(), Holder::to_string)
}

fn mend(holder: &Option<Holder>) -> String {
    match holder.as_ref().and_then(|holder| holder.mountpoint.as_ref()) {
        Some(path) => format!("use that mount, or end it with `weft umount {}`", path.display()),
        None => "wait until it has ended".into(),
    }
}

/// Ownership of a volume, for as long as this lives.
#[derive(Debug)]
pub struct OwnerLock {
    file: File,
}

impl OwnerLock {
    /// Takes the ownership of the store at `metadata`, after an owner in passing if there is one (and in passing after any that has not
    /// mounted it), and says in the lock file that `holder` has it.
    pub fn acquire(metadata: &Path, holder: &Holder) -> Result<Self, OwnerError> {
        let path = lock_path(metadata);
        let io = |source| OwnerError::Io { path: path.clone(), source };
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path).map_err(io)?;
        let (mut tries, mut silent_count) = (0, 0);
        while !try_lock(&file, FlockOperation::NonBlockingLockExclusive).map_err(io)? {
            let held = read_holder(&mut file).map_err(io)?;
            let retries = match &held {
                // Who passes says nothing either, as it comes and goes.
                None if silent_count < RETRIES => PASSING_RETRIES,
                // A command without a mount has mostly ended soon, too.
                Some(held) if held.is_passing || holder.is_passing && held.mountpoint.is_none() => PASSING_RETRIES,
                _ => RETRIES,
            };
            if tries >= retries {
                return Err(OwnerError::InUse { path: metadata.to_path_buf(), holder: held });
            }
            silent_count += u32::from(held.is_none());
            tries += 1;
            std::thread::sleep(RETRY_PAUSE);
        }
        file.set_len(0).and_then(|()| file.seek(SeekFrom::Start(0)).map(drop)).map_err(io)?;
        file.write_all(&holder.to_text()).map_err(io)?;
        Ok(Self { file })
    }
}

impl Drop for OwnerLock {
    fn drop(&mut self) {
        // Cosmetic: who reads the file asks the lock first.
        if let Err(error) = self.file.set_len(0) {
            tracing::debug!(%error, "the owner file keeps its text");
        }
    }
}

/// Who owns the store at `metadata` at this moment, or after an owner in passing: `Ok(None)` if nobody does. A holder that has not
/// written who it is yet, and passing ones without an end, are an error of kind `WouldBlock`.
pub fn current_owner(metadata: &Path) -> io::Result<Option<Holder>> {
    let mut file = match File::open(lock_path(metadata)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let refused = |why| Err(io::Error::new(io::ErrorKind::WouldBlock, format!("{} {why}", metadata.display())));
    let mut silent_count = 0;
    for _ in 0..PASSING_RETRIES {
        if try_lock(&file, FlockOperation::NonBlockingLockShared)? {
            return Ok(None);
        }
        match read_holder(&mut file)? {
            Some(holder) if holder.is_passing => {}
            Some(holder) => return Ok(Some(holder)),
            // Who passes says nothing either, as it comes and goes.
            None if silent_count < RETRIES => silent_count += 1,
            None => return refused("has an owner that does not say who"),
        }
        std::thread::sleep(RETRY_PAUSE);
    }
    refused("is being changed by a process that should have ended long ago, or by one after another; ask again")
}

/// `<metadata>-owner`.
fn lock_path(metadata: &Path) -> PathBuf {
    let mut name = metadata.as_os_str().to_os_string();
    name.push(OsStr::new("-owner"));
    name.into()
}

fn try_lock(file: &File, operation: FlockOperation) -> io::Result<bool> {
    match flock(file, operation) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn read_holder(file: &mut File) -> io::Result<Option<Holder>> {
    let mut text = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.take(MAX_TEXT_BYTES).read_to_end(&mut text)?;
    Ok(Holder::from_text(&text))
}

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(test)]
#[path = "owner_tests.rs"]
mod tests;
