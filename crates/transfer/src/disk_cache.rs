//! Decoded data kept in a file of this machine's disk, for nodes that are far or slow: what was read once is not fetched again,
//! also not by the next mount.
//!
//! A piece is [`PIECE_BYTES`] of a segment's data, aligned. Segments never change, so a piece is never stale. Each carries a
//! digest over what it is and its bytes, which is compared whenever it is read: what was torn by a crash, rotted or replaced
//! is a miss. Nothing is ever synced, and losing the file loses nothing.
//!
//! ```text
//! <folder>/pieces.weft:
//!     page of 4096 bytes   "weft pieces 1\n", volume (16 bytes), number of slots (8), BLAKE3 of these (32)
//!     slots x 64 bytes     segment (16), number of the piece (8), its bytes (8), digest (16), digest of this entry (16)
//!     slots x 64 KiB       the pieces, from the next multiple of 4096 on
//! ```
//! Numbers are little-endian. An entry is cleared before its slot is written anew, and written after it.

#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod index;

use bytes::Bytes;
use index::Index;
use parking_lot::Mutex;
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use weft_format::{SegmentId, VolumeId};
use weft_nodes::IDENTITY_FILE;

/// A cell of most codes: what a small read of a slow node is widened to costs little more than the small read.
pub(crate) const PIECE_BYTES: u64 = 64 << 10;

const FILE: &str = "pieces.weft";
const MAGIC: &[u8; 14] = b"weft pieces 1\n";
const PAGE_BYTES: u64 = 4096;
const ENTRY_BYTES: u64 = 64;
const DIGEST_BYTES: usize = 16;

/// Of what is to be written, so much waits at most; the rest is not kept. A slow disk must not fill memory.
const WAITING_BYTES_MAX: u64 = 32 << 20;

/// Where a cache is and how large it may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskRoom {
    /// A folder, made if it is not there; nothing else should be in it.
    pub folder: PathBuf,
    /// Bytes that the file may have.
    pub bytes: u64,
}

/// Why a cache cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DiskCacheError {
    /// Another process has it.
    #[error("the cache {} is used by another mount: give each its own folder", .0.display())]
    InUse(PathBuf),
    /// Less than a few pieces.
    #[error("a cache of {0} bytes holds nothing: give it 1M at least")]
    TooSmall(u64),
    /// What is there is not to be written.
    #[error("the cache {} {what}: remove it, or give another folder", .file.display())]
    Unsafe {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The folder holds shards.
    #[error("the cache cannot be in {}, which is a node: give a folder outside of it", .0.display())]
    InNode(PathBuf),
    /// The file cannot be opened or made.
    #[error("the cache {} cannot be used ({source}): give another folder", .file.display())]
    Io {
        /// Which file or folder.
        file: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

/// Which piece of which segment.
pub(crate) type PieceKey = (SegmentId, u64);
type Digest = [u8; DIGEST_BYTES];

/// See the module's head. Its methods wait for the disk.
pub(crate) struct DiskCache {
    file: File,
    slot_count: u64,
    index: Mutex<Index<Digest>>,
    waiting_bytes: AtomicU64,
}

impl DiskCache {
    /// Opens it with what an earlier mount of the volume left, or empties it if it is of another volume or size.
    pub(crate) fn open(room: &DiskRoom, volume: VolumeId) -> Result<Self, DiskCacheError> {
        let slot_count = room.bytes.saturating_sub(2 * PAGE_BYTES) / (ENTRY_BYTES + PIECE_BYTES);
        if room.bytes < 1 << 20 || u32::try_from(slot_count).is_err() {
            return Err(DiskCacheError::TooSmall(room.bytes));
        }
        let path = room.folder.join(FILE);
        let failed = |file: &Path| {
            let file = file.to_owned();
            move |source| DiskCacheError::Io { file, source }
        };
        if let Some(node) = node_around(&room.folder) {
            return Err(DiskCacheError::InNode(node));
        }
        // What users may not read must not be readable here.
        DirBuilder::new().recursive(true).mode(0o700).create(&room.folder).map_err(failed(&room.folder))?;
        // Neither a link that somebody made is followed, nor a pipe waited for.
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600).custom_flags(flags.bits() as i32);
        let file = match options.open(&path) {
            Err(error) if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => {
                return Err(DiskCacheError::Unsafe { file: path, what: "is a symbolic link" });
            }
            opened => opened.map_err(failed(&path))?,
        };
        if let Some(what) = fault(&file.metadata().map_err(failed(&path))?) {
            return Err(DiskCacheError::Unsafe { file: path, what });
        }
        match file.try_lock() {
            Ok(()) => {}
            Err(std::fs::TryLockError::WouldBlock) => return Err(DiskCacheError::InUse(room.folder.clone())),
            Err(std::fs::TryLockError::Error(source)) => return Err(failed(&path)(source)),
        }
        let mut cache = Self {
            file,
            slot_count,
            index: Mutex::new(Index::new(slot_count as u32)),
            waiting_bytes: AtomicU64::new(0),
        };
        cache.load(volume).map_err(failed(&path))?;
        Ok(cache)
    }

    fn load(&mut self, volume: VolumeId) -> io::Result<()> {
        let head = head(volume, self.slot_count);
        let mut found = vec![0; head.len()];
        let length = self.slot_at(self.slot_count);
        let is_ours =
            self.file.metadata()?.len() == length && self.file.read_exact_at(&mut found, 0).is_ok() && found == head;
        if !is_ours {
            self.file.set_len(0)?;
            self.file.set_len(length)?;
            return self.file.write_all_at(&head, 0);
        }
        let mut entries = vec![0; (self.slot_count * ENTRY_BYTES) as usize];
        self.file.read_exact_at(&mut entries, PAGE_BYTES)?;
        let index = self.index.get_mut();
        for (slot, entry) in entries.chunks_exact(ENTRY_BYTES as usize).enumerate() {
            if let Some((key, bytes, digest)) = decode(entry) {
                index.insert(slot as u32, key, bytes, digest);
            }
        }
        Ok(())
    }

    fn slot_at(&self, slot: u64) -> u64 {
        (PAGE_BYTES + self.slot_count * ENTRY_BYTES).next_multiple_of(PAGE_BYTES) + slot * PIECE_BYTES
    }

    /// A piece as it was kept; `None`: it was not, or is damaged.
    pub(crate) fn get(&self, key: PieceKey, piece_bytes: u64) -> Option<Bytes> {
        let (slot, bytes, expected) = self.index.lock().find(&key)?;
        let mut piece = vec![0; bytes as usize];
        let is_read = bytes == piece_bytes && self.file.read_exact_at(&mut piece, self.slot_at(slot.into())).is_ok();
        if is_read && digest(&key, &piece) == expected {
            return Some(piece.into());
        }
        // Damaged; or given to another piece this very moment, which is then not forgotten.
        self.index.lock().forget(slot, &key);
        None
    }

    /// May so many bytes wait to be kept? Then they do until [`Self::put`] has been called for all of them.
    pub(crate) fn make_way(&self, bytes: u64) -> bool {
        let before = self.waiting_bytes.fetch_add(bytes, Ordering::Relaxed);
        let may = before + bytes <= WAITING_BYTES_MAX;
        if !may {
            self.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
        may
    }

    /// Keeps a piece, in place of another that was not used of late if need be. A disk that is full keeps less.
    pub(crate) fn put(&self, key: PieceKey, piece: &[u8]) {
        self.waiting_bytes.fetch_sub(piece.len() as u64, Ordering::Relaxed);
        let Some(slot) = self.index.lock().take(&key) else { return };
        let digest = digest(&key, piece);
        match self.write(slot, &key, piece, &digest) {
            Ok(()) => self.index.lock().insert(slot, key, piece.len() as u64, digest),
            Err(error) => {
                tracing::debug!(%error, "a piece was not kept on disk");
                self.index.lock().give_back(slot);
            }
        }
    }

    fn write(&self, slot: u32, key: &PieceKey, piece: &[u8], digest: &Digest) -> io::Result<()> {
        let entry_at = PAGE_BYTES + u64::from(slot) * ENTRY_BYTES;
        self.file.write_all_at(&[0; ENTRY_BYTES as usize], entry_at)?;
        self.file.write_all_at(piece, self.slot_at(slot.into()))?;
        self.file.write_all_at(&encode(key, piece.len() as u64, digest), entry_at)
    }
}

/// Why a file that is there must not hold what users read. Closing it to others would not do: they may have it open.
fn fault(metadata: &Metadata) -> Option<&'static str> {
    match metadata {
        _ if !metadata.is_file() => Some("is no regular file"),
        _ if metadata.uid() != rustix::process::geteuid().as_raw() => Some("belongs to another user"),
        _ if metadata.mode() & 0o077 != 0 => Some("can be opened by other users"),
        _ if metadata.nlink() != 1 => Some("has another name elsewhere"),
        _ => None,
    }
}

/// The node that a folder is or lies in.
fn node_around(folder: &Path) -> Option<PathBuf> {
    let absolute = std::path::absolute(folder).ok()?;
    // Links on the way lead to where the cache would really be.
    let there = absolute.ancestors().find_map(|above| above.canonicalize().ok())?;
    let mut above = there.ancestors().chain(absolute.ancestors());
    above.find(|above| above.join(IDENTITY_FILE).exists()).map(Path::to_path_buf)
}

fn short(hash: &blake3::Hash) -> Digest {
    hash.as_bytes()[..DIGEST_BYTES].try_into().expect("it is longer")
}

/// Over what the piece is, too: a piece in another's slot is damaged.
fn digest(key: &PieceKey, piece: &[u8]) -> Digest {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&key.0.to_bytes()).update(&key.1.to_le_bytes()).update(piece);
    short(&hasher.finalize())
}

fn head(volume: VolumeId, slot_count: u64) -> Vec<u8> {
    let mut head = [&MAGIC[..], &volume.to_bytes(), &slot_count.to_le_bytes()].concat();
    head.extend_from_slice(blake3::hash(&head).as_bytes());
    head
}

fn encode(key: &PieceKey, bytes: u64, digest: &Digest) -> Vec<u8> {
    let mut entry = [&key.0.to_bytes()[..], &key.1.to_le_bytes(), &bytes.to_le_bytes(), digest].concat();
    entry.extend_from_slice(&short(&blake3::hash(&entry)));
    entry
}

fn decode(entry: &[u8]) -> Option<(PieceKey, u64, Digest)> {
    let (fields, check) = entry.split_at(entry.len() - DIGEST_BYTES);
    if short(&blake3::hash(fields)) != check {
        return None;
    }
    let (segment, rest) = fields.split_first_chunk::<16>()?;
    let (number, rest) = rest.split_first_chunk::<8>()?;
    let (bytes, digest) = rest.split_first_chunk::<8>()?;
    let bytes = u64::from_le_bytes(*bytes);
    let key = (SegmentId::from_bytes(*segment), u64::from_le_bytes(*number));
    (bytes <= PIECE_BYTES).then_some((key, bytes, digest.try_into().ok()?))
}

#[cfg(test)]
#[path = "disk_cache_tests.rs"]
mod tests;
