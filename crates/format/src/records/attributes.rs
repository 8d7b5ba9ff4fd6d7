//! Inode attributes: 104 bytes, little-endian.

use super::{RecordError, damaged};
use crate::ids::{Ino, PolicyId};

const WHAT: &str = "inode";
const VERSION: u8 = 1;
const NANOSECONDS_PER_SECOND: u32 = 1_000_000_000;
/// Permission bits and suid, sgid, sticky; the file type is [`Kind`].
const MODE_MASK: u16 = 0o7777;

/// What an inode is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A named pipe.
    Fifo,
    /// A Unix-domain socket.
    Socket,
    /// A character device.
    CharDevice,
    /// A block device.
    BlockDevice,
}

impl Kind {
    const ALL: [Kind; 7] =
        [Kind::File, Kind::Directory, Kind::Symlink, Kind::Fifo, Kind::Socket, Kind::CharDevice, Kind::BlockDevice];

    /// Its byte on disk: 1 file, 2 directory, 3 symlink, 4 fifo, 5 socket, 6 character device, 7 block device.
    pub fn to_byte(self) -> u8 {
        match self {
            Kind::File => 1,
            Kind::Directory => 2,
            Kind::Symlink => 3,
            Kind::Fifo => 4,
            Kind::Socket => 5,
            Kind::CharDevice => 6,
            Kind::BlockDevice => 7,
        }
    }

    /// The inverse of [`Self::to_byte`].
    ///
    /// # Errors
    /// The byte is no kind.
    pub fn from_byte(byte: u8) -> Result<Self, RecordError> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.to_byte() == byte)
            .ok_or_else(|| damaged(WHAT, format!("kind {byte} does not exist")))
    }
}

/// A point in time, as the file system shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Timestamp {
    /// Seconds since the Unix epoch; negative before it.
    pub seconds: i64,
    /// Nanoseconds after `seconds`, below 10^9.
    pub nanoseconds: u32,
}

impl Timestamp {
    /// The next point in time.
    pub fn next(self) -> Self {
        match self.nanoseconds {
            0..999_999_999 => Self { nanoseconds: self.nanoseconds + 1, ..self },
            _ => Self { seconds: self.seconds.saturating_add(1), nanoseconds: 0 },
        }
    }
}

/// What `stat` says of an inode, and what it inherits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Its number.
    pub ino: Ino,
    /// What it is.
    pub kind: Kind,
    /// Permission bits, suid, sgid, sticky: at most `0o7777`.
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Hard links; for a directory 2 and one more for each subdirectory.
    pub nlink: u32,
    /// Device number, for devices; otherwise 0.
    pub rdev: u32,
    /// Length in bytes.
    pub size: u64,
    /// Bytes that are not holes; `st_blocks * 512`.
    pub allocated_bytes: u64,
    /// Last read.
    pub atime: Timestamp,
    /// Last change of content.
    pub mtime: Timestamp,
    /// Last change of content or attributes.
    pub ctime: Timestamp,
    /// Creation.
    pub btime: Timestamp,
    /// The policy it writes under; what is made in a directory inherits it.
    pub policy: PolicyId,
    /// A directory's parent; of anything else, the directory it was created in.
    pub parent: Ino,
}

impl Attributes {
    /// Length of the encoding.
    pub const BYTES: usize = 104;

    /// The fixed layout; FORMAT.md has the offsets.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut out = [0; Self::BYTES];
        out[0] = VERSION;
        out[1] = self.kind.to_byte();
        out[2..4].copy_from_slice(&self.mode.to_le_bytes());
        out[4..8].copy_from_slice(&self.policy.0.to_le_bytes());
        out[8..16].copy_from_slice(&self.ino.0.to_le_bytes());
        out[16..24].copy_from_slice(&self.parent.0.to_le_bytes());
        out[24..28].copy_from_slice(&self.uid.to_le_bytes());
        out[28..32].copy_from_slice(&self.gid.to_le_bytes());
        out[32..36].copy_from_slice(&self.nlink.to_le_bytes());
        out[36..40].copy_from_slice(&self.rdev.to_le_bytes());
        out[40..48].copy_from_slice(&self.size.to_le_bytes());
        out[48..56].copy_from_slice(&self.allocated_bytes.to_le_bytes());
        for (i, time) in [self.atime, self.mtime, self.ctime, self.btime].into_iter().enumerate() {
            out[56 + 8 * i..64 + 8 * i].copy_from_slice(&time.seconds.to_le_bytes());
            out[88 + 4 * i..92 + 4 * i].copy_from_slice(&time.nanoseconds.to_le_bytes());
        }
        out
    }

    /// The inverse of [`Self::encode`].
    ///
    /// # Errors
    /// Unknown version; a length other than [`Self::BYTES`]; a kind, mode or time that cannot be.
    pub fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        let version = bytes.first().copied().unwrap_or(0);
        if version != VERSION {
            let (version, newest) = (u32::from(version), u32::from(VERSION));
            return Err(RecordError::UnknownVersion { what: WHAT, version, newest });
        }
        let bytes: &[u8; Self::BYTES] =
            bytes.try_into().map_err(|_| damaged(WHAT, format!("{} bytes instead of {}", bytes.len(), Self::BYTES)))?;
        let mode = u16::from_le_bytes(field(bytes, 2));
        if mode > MODE_MASK {
            return Err(damaged(WHAT, format!("mode {mode:o} has bits beyond {MODE_MASK:o}")));
        }
        let time = |i: usize| {
            let seconds = i64::from_le_bytes(field(bytes, 56 + 8 * i));
            let nanoseconds = u32::from_le_bytes(field(bytes, 88 + 4 * i));
            if nanoseconds >= NANOSECONDS_PER_SECOND {
                return Err(damaged(WHAT, format!("a time has {nanoseconds} nanoseconds")));
            }
            Ok(Timestamp { seconds, nanoseconds })
        };
        Ok(Attributes {
            kind: Kind::from_byte(bytes[1])?,
            mode,
            policy: PolicyId(u32::from_le_bytes(field(bytes, 4))),
            ino: Ino(u64::from_le_bytes(field(bytes, 8))),
            parent: Ino(u64::from_le_bytes(field(bytes, 16))),
            uid: u32::from_le_bytes(field(bytes, 24)),
            gid: u32::from_le_bytes(field(bytes, 28)),
            nlink: u32::from_le_bytes(field(bytes, 32)),
            rdev: u32::from_le_bytes(field(bytes, 36)),
            size: u64::from_le_bytes(field(bytes, 40)),
            allocated_bytes: u64::from_le_bytes(field(bytes, 48)),
            atime: time(0)?,
            mtime: time(1)?,
            ctime: time(2)?,
            btime: time(3)?,
        })
    }
}

/// `N` bytes at a constant offset within the fixed layout.
fn field<const N: usize>(bytes: &[u8; Attributes::BYTES], offset: usize) -> [u8; N] {
    std::array::from_fn(|i| bytes[offset + i])
}
