//! Who owns a volume: the one process that may change names, inodes and extents.
//!
//! Ownership is an advisory lock on the metadata file itself, whatever name led to it, held for the owner's lifetime: it
//! dies with the process, `kill -9` included. Who holds it is said in the file `<metadata>-owner`, which only those can open who
//! may write the metadata: after the witness (`engines/sqlite/witness.rs`), which is its first line.
//!
//! Some are short-lived owners, for one change: whoever wants to be the owner waits for these, and whoever asks is told of nobody.

use crate::descriptor::Descriptor;
use rustix::fs::{FlockOperation, OFlags};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::{File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;
use weft_env::Clock;

/// An owner that has just come may not have written its text yet, and [`current_owner`] holds the lock for microseconds: so
/// a refusal is looked at again this often, with this pause.
const RETRIES: u32 = 10;
const RETRY_PAUSE: Duration = Duration::from_millis(10);

/// A short-lived owner's change takes milliseconds, on a slow and busy disk seconds: whoever wants to be the owner waits for so many pauses.
const SHORT_LIVED_RETRIES: u32 = 1000;

/// What the owner file's name adds to that of the metadata.
const OWNER: &str = "-owner";

/// The text is a few lines and one path; more than this is not ours.
const MAX_TEXT_BYTES: usize = 16 << 10;
/// Within one sector, so that a power cut leaves the former one or this.
pub(crate) const WITNESS_BYTES: usize = 256;

/// Where it begins.
const TEXT_AT: u64 = WITNESS_BYTES as u64;

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
    pub is_short_lived: bool,
}

impl Holder {
    /// This process, as of now.
    pub fn this_process(mountpoint: Option<&Path>, clock: &dyn Clock) -> Self {
        Self {
            process: std::process::id(),
            host: host_name(),
            started: clock.unix_time().as_secs(),
            mountpoint: mountpoint.map(Path::to_path_buf),
            is_short_lived: false,
        }
    }

    /// This process, for one change.
    pub fn short_lived(clock: &dyn Clock) -> Self {
        Self { is_short_lived: true, ..Self::this_process(None, clock) }
    }

    /// Does it run on this host? Its process number and paths are of its host.
    pub fn is_here(&self) -> bool {
        self.host == host_name()
    }

    /// With the host's name, for those on others: `process 123 on h`.
    pub fn on_its_host(&self) -> String {
        format!("process {} on {}", self.process, self.host)
    }

    /// `process 123\nhost h\nstarted 1700000000\n`, then `mountpoint /x` last, since a path may hold any byte but NUL, or `short-lived`.
    pub(crate) fn to_text(&self) -> Vec<u8> {
        let mut text = format!("process {}\nhost {}\nstarted {}\n", self.process, self.host, self.started).into_bytes();
        if let Some(mountpoint) = &self.mountpoint {
            text.extend_from_slice(b"mountpoint ");
            text.extend_from_slice(mountpoint.as_os_str().as_bytes());
        } else if self.is_short_lived {
            text.extend_from_slice(SHORT_LIVED);
        }
        text
    }

    pub(crate) fn from_text(text: &[u8]) -> Option<Self> {
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
        Some(Self { process, host, started, mountpoint, is_short_lived: last == SHORT_LIVED })
    }
}

/// The last line of a short-lived owner.
const SHORT_LIVED: &[u8] = b"short-lived";

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

/// What a session may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Records of nodes and segments.
    Helper,
    /// Everything, together with others.
    Member,
    /// Everything, alone.
    Owner,
}

impl Role {
    /// As engines keep it.
    pub(crate) fn number(self) -> u8 {
        match self {
            Role::Helper => 0,
            Role::Member => 1,
            Role::Owner => 2,
        }
    }

    /// The inverse of [`Self::number`].
    pub(crate) fn of(number: u8) -> Self {
        match number {
            2 => Role::Owner,
            1 => Role::Member,
            _ => Role::Helper,
        }
    }

    /// An owner is alone but for helpers.
    pub(crate) fn is_kept_out_by(self, other: Self) -> bool {
        self != Role::Helper && other != Role::Helper && (self == Role::Owner || other == Role::Owner)
    }
}

/// A process that changes a volume.
#[derive(Clone, Debug, PartialEq)]
pub struct Session {
    /// Unique in the store; 0 where the engine has no sessions but the owner.
    pub id: i64,
    /// The process.
    pub holder: Holder,
    /// What it may change.
    pub role: Role,
    /// Since its last sign of life; 0 where the system tells that it lives.
    pub silent: Duration,
}

/// Why ownership was not given.
#[derive(Debug, thiserror::Error)]
pub enum OwnerError {
    /// Somebody else has it.
    #[error("{place} is in use by {}; {}", name(holder), mend(holder))]
    InUse {
        /// The metadata store.
        place: String,
        /// Who; `None` if the holder has not said.
        holder: Option<Holder>,
    },
    /// The metadata has other names, each of which would have a log of its own.
    #[error(
        "{} has {count} names (hard links), and its log is found by name: two of them would be two volumes; remove all names but one",
        path.display()
    )]
    Linked {
        /// The metadata store.
        path: PathBuf,
        /// How many.
        count: u64,
    },
    /// The metadata cannot be locked, or its owner file cannot be used.
    #[error("{} cannot be used: {source}; check its permissions and its file system", path.display())]
    Io {
        /// Which of both.
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
    text: File,
    /// Has the lock.
    _store: Descriptor,
}

impl OwnerLock {
    /// Takes the ownership of the store at `metadata`, after a short-lived owner if there is one (and a short-lived one after any that has not
    /// mounted it), and says in the owner file that `holder` has it.
    pub fn acquire(metadata: &Path, holder: &Holder, clock: &dyn Clock) -> Result<Self, OwnerError> {
        let metadata = &real(metadata).map_err(|source| OwnerError::Io { path: metadata.to_path_buf(), source })?;
        let io = |source| OwnerError::Io { path: metadata.clone(), source };
        let text_io = |source| OwnerError::Io { path: companion(metadata), source };
        let store = Descriptor::open(metadata).map_err(io)?;
        let text = open_companion(metadata).map_err(text_io)?;
        let (mut tries, mut silent_count) = (0, 0);
        while !store.lock(FlockOperation::NonBlockingLockExclusive).map_err(io)? {
            let held = read_holder(&text).map_err(text_io)?;
            let retries = match &held {
                // Who passes says nothing either, as it comes and goes.
                None if silent_count < RETRIES => SHORT_LIVED_RETRIES,
                // A command without a mount has mostly ended soon, too.
                Some(held) if held.is_short_lived || holder.is_short_lived && held.mountpoint.is_none() => {
                    SHORT_LIVED_RETRIES
                }
                _ => RETRIES,
            };
            if tries >= retries {
                return Err(OwnerError::InUse { place: metadata.display().to_string(), holder: held });
            }
            silent_count += u32::from(held.is_none());
            tries += 1;
            clock.block(RETRY_PAUSE);
        }
        let count = store.metadata().map_err(io)?.nlink();
        if count != 1 {
            return Err(OwnerError::Linked { path: metadata.clone(), count });
        }
        let written = forget_holder(&text).and_then(|()| text.write_all_at(&holder.to_text(), TEXT_AT));
        written.map_err(text_io)?;
        Ok(Self { text, _store: store })
    }
}

/// The text goes, the witness stays; there is room for it.
fn forget_holder(text: &File) -> io::Result<()> {
    text.set_len(TEXT_AT)
}

impl Drop for OwnerLock {
    fn drop(&mut self) {
        // Cosmetic: who reads the file asks the lock first.
        if let Err(error) = forget_holder(&self.text) {
            tracing::debug!(%error, "the owner file keeps its text");
        }
    }
}

/// Who owns the store at `metadata` at this moment, or after a short-lived owner: `Ok(None)` if nobody does. A holder that has not
/// written who it is yet, and short-lived ones without an end, are an error of kind `WouldBlock`.
pub fn current_owner(metadata: &Path, clock: &dyn Clock) -> io::Result<Option<Holder>> {
    let metadata = &real(metadata)?;
    let store = Descriptor::open(metadata)?;
    let refused = |why| Err(io::Error::new(io::ErrorKind::WouldBlock, format!("{} {why}", metadata.display())));
    let mut silent_count = 0;
    for _ in 0..SHORT_LIVED_RETRIES {
        if store.lock(FlockOperation::NonBlockingLockShared)? {
            return Ok(None);
        }
        // Under another name of the store, or removed: somebody has it all the same.
        let held = match File::open(companion(metadata)) {
            Ok(text) => read_holder(&text)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        match held {
            Some(holder) if holder.is_short_lived => {}
            Some(holder) => return Ok(Some(holder)),
            // Who passes says nothing either, as it comes and goes.
            None if silent_count < RETRIES => silent_count += 1,
            None => return refused("has an owner that does not say who"),
        }
        clock.block(RETRY_PAUSE);
    }
    refused("is still locked by a short-lived process, or by several in a row; try again")
}

/// Companions lie beside the file itself, not beside a symbolic link to it: SQLite's log does, too.
fn real(metadata: &Path) -> io::Result<PathBuf> {
    metadata.canonicalize()
}

/// `<metadata>-owner`.
pub(crate) fn companion(metadata: &Path) -> PathBuf {
    beside(metadata, OWNER)
}

fn beside(metadata: &Path, suffix: &str) -> PathBuf {
    let mut name = metadata.as_os_str().to_os_string();
    name.push(OsStr::new(suffix));
    name.into()
}

/// The owner file, made if it is not there.
pub(crate) fn open_companion(metadata: &Path) -> io::Result<File> {
    open_beside(metadata, OWNER, companion_mode)
}

/// A file beside the metadata, made if it is not there, with a mode that follows from that of the metadata.
pub(crate) fn open_beside(metadata: &Path, suffix: &str, mode: fn(u32) -> u32) -> io::Result<File> {
    let store = metadata.metadata()?;
    let mode = mode(store.mode());
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(mode)
        .custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
    let file = options.open(beside(metadata, suffix))?;
    let found = file.metadata()?;
    if rustix::process::geteuid().is_root() && owner(&found) != owner(&store) {
        // As SQLite does with the log: the owner of the store must be able to open it.
        std::os::unix::fs::fchown(&file, Some(store.uid()), Some(store.gid()))?;
    }
    if found.mode() & 0o777 & !mode != 0 {
        file.set_permissions(Permissions::from_mode(mode))?;
    }
    Ok(file)
}

fn owner(metadata: &Metadata) -> (u32, u32) {
    (metadata.uid(), metadata.gid())
}

/// Of a store of this mode: all may read and write it who may write the store, and nobody else.
pub(crate) fn companion_mode(store_mode: u32) -> u32 {
    let writers = store_mode & 0o222;
    writers | writers << 1
}

fn read_holder(file: &File) -> io::Result<Option<Holder>> {
    let mut text = vec![0; MAX_TEXT_BYTES];
    let mut length = 0;
    loop {
        match file.read_at(&mut text[length..], TEXT_AT + length as u64) {
            Ok(0) => break,
            Ok(bytes) => length += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Holder::from_text(&text[..length]))
}

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(test)]
#[path = "owner_tests.rs"]
mod tests;
