//! What programs do: the operations, chosen at random from what the model says is there. `workload/tree.rs` has those of directories,
//! symbolic links and attributes.
//!
//! The simulator performs them on a [`weft_vfs::Volume`], `weft-sim chaos` on a mounted folder.

pub mod tree;

use crate::model::Model;
use std::ops::RangeInclusive;
use weft_format::records::SEGMENT_BYTES;

/// Names that a program uses: some in its directory, some in a directory below.
pub const NAMES: [&str; 7] = ["a", "b", "c", "d", "below/a", "below/b", "below/c"];
/// The directory below, which is always there.
pub const BELOW: &str = "below";
/// Bytes of a small write and of a large one.
const SMALL_BYTES: RangeInclusive<u64> = 1..=20_000;
const LARGE_BYTES: RangeInclusive<u64> = 1..=2 << 20;
/// How many of a thousand writes are large, ...
const LARGE_PER_MILLE: u64 = 40;
/// ... how many begin at the end of the file, ...
const APPENDING_PER_MILLE: u64 = 500;
/// Programs write small pieces at the beginning of files again and again, as databases do: where, how many bytes, and how many of a
/// thousand are followed by an fsync. So a page of the journal is in an upload in part, and written again while that is under way.
const HOT_BYTES: u64 = 6_000;
const HOT_WRITE_BYTES: RangeInclusive<u64> = 1..=800;
const HOT_SYNCED_PER_MILLE: u64 = 500;
/// Where the first segment of a large file that was written from its beginning ends: what is written there is in two uploads.
const EDGE: u64 = *SEGMENT_BYTES.start();
/// A file is written from about its beginning to behind that edge, after a small write with an fsync that ends behind the edge, too: then a
/// page of the journal lies in two uploads, and a crash may come between their commits.
const REWRITE_STARTS_BY: u64 = 6_000;
const REWRITE_BEHIND_BYTES: RangeInclusive<u64> = 6_000..=60_000;
const REWRITE_EDGE_BYTES: RangeInclusive<u64> = 1..=3_000;
/// How many of a thousand writes of a file longer than that are there, or begin at its beginning, ...
const AT_EDGE_PER_MILLE: u64 = 300;
/// ... and how many are followed by an fsync.
const SYNCED_PER_MILLE: u64 = 100;

impl Operation {
    /// Does it end with something that is durable?
    #[must_use]
    pub fn syncs(&self) -> bool {
        matches!(self, Self::Write { is_synced: true, .. } | Self::Rewrite { .. } | Self::Sync(_) | Self::SyncDirectory)
    }
}

/// One thing that a program does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Writes `length` bytes made from `fill`, into a new file if there is none.
    Write {
        /// The file.
        name: &'static str,
        /// Where.
        offset: u64,
        /// How many bytes.
        length: u64,
        /// What the bytes are made from.
        fill: u8,
        /// An fsync follows.
        is_synced: bool,
    },
    /// Writes `length` bytes about where the first segment ends, with an fsync, and then the file from `start` to `end` without one.
    Rewrite {
        /// The file.
        name: &'static str,
        /// Where the small write is.
        offset: u64,
        /// How many bytes it has.
        length: u64,
        /// Where the large one begins.
        start: u64,
        /// Where it ends.
        end: u64,
        /// What the bytes of the small one are made from; the large one's are made from the next number.
        fill: u8,
    },
    /// Sets the file's length.
    Truncate {
        /// The file.
        name: &'static str,
        /// Bytes.
        size: u64,
    },
    /// An fsync of the file.
    Sync(&'static str),
    /// An fsync of the directory: names only.
    SyncDirectory,
    /// Removes the name.
    Unlink(&'static str),
    /// Gives a file another name, which another file may have.
    Rename(&'static str, &'static str),
    /// Two files swap their names.
    Exchange(&'static str, &'static str),
    /// Gives a file a further name.
    Link(&'static str, &'static str),
    /// Makes a directory.
    MakeDirectory(&'static str),
    /// Removes an empty one.
    RemoveDirectory(&'static str),
    /// Makes a symbolic link with this target.
    Symlink(&'static str, &'static str),
    /// Sets the permission bits.
    SetMode(&'static str, u16),
    /// Sets the extended attribute that programs use: this number of bytes, each of which is this number.
    SetNote(&'static str, u8),
    /// Bytes of a file become zeros without being written.
    Punch {
        /// The file.
        name: &'static str,
        /// Where.
        offset: u64,
        /// How many. None are behind its end.
        length: u64,
    },
    /// Reads everything, and compares.
    ReadAll,
    /// Does nothing for this number of milliseconds.
    Pause(u64),
}

/// The bytes of a write.
#[must_use]
pub fn bytes_of(length: u64, fill: u8) -> Vec<u8> {
    (0..length).map(|at| fill.wrapping_add((at >> 6) as u8)).collect()
}

/// A program appends more than a segment to a file, without a sync: its end and what lies before it are in uploads of their own.
pub fn append_much(mut below: impl FnMut(u64) -> u64, model: &Model) -> Operation {
    let name = NAMES[below(NAMES.len() as u64) as usize];
    let offset = model.bytes(name).map_or(0, |bytes| bytes.len() as u64);
    let length = EDGE + below(LARGE_BYTES.end() - EDGE);
    Operation::Write { name, offset, length, fill: below(256) as u8, is_synced: false }
}

/// What a program does next. `below(end)` is a random number below `end`.
pub fn next(mut below: impl FnMut(u64) -> u64, model: &Model) -> Operation {
    let mut between = |range: RangeInclusive<u64>| range.start() + below(range.end() - range.start() + 1);
    let mut name = || NAMES[between(0..=NAMES.len() as u64 - 1) as usize];
    let (name, other) = (name(), name());
    let (exists, other_exists) = (model.names().contains_key(name), model.names().contains_key(other));
    match between(0..=999) {
        0..120 => {
            let (offset, length) = (between(0..=HOT_BYTES), between(HOT_WRITE_BYTES));
            let fill = between(0..=255) as u8;
            let is_synced = between(0..=999) < HOT_SYNCED_PER_MILLE;
            Operation::Write { name, offset, length, fill, is_synced }
        }
        120..450 => {
            let is_large = between(0..=999) < LARGE_PER_MILLE;
            let length = between(if is_large { LARGE_BYTES } else { SMALL_BYTES });
            let size = model.bytes(name).map_or(0, |bytes| bytes.len() as u64);
            let is_appending = between(0..=999) < APPENDING_PER_MILLE;
            let is_at_edge = size > EDGE && between(0..=999) < AT_EDGE_PER_MILLE;
            let offset = match (is_appending, is_at_edge, is_large) {
                (_, true, true) => 0,
                (_, true, false) => EDGE - between(SMALL_BYTES),
                (true, ..) => size,
                (false, ..) => between(0..=size + 5_000),
            };
            let fill = between(0..=255) as u8;
            Operation::Write { name, offset, length, fill, is_synced: between(0..=999) < SYNCED_PER_MILLE }
        }
        450..510 if exists => Operation::Truncate { name, size: between(0..=30_000) },
        510..640 if exists => Operation::Sync(name),
        640..660 => Operation::SyncDirectory,
        660..730 if exists => Operation::Unlink(name),
        730..810 if exists && name != other => Operation::Rename(name, other),
        810..830 if exists && other_exists && name != other => Operation::Exchange(name, other),
        830..850 if exists && !other_exists => Operation::Link(name, other),
        850..930 => Operation::ReadAll,
        930..938 => {
            let start = between(0..=REWRITE_STARTS_BY);
            let (before, behind) = (between(REWRITE_EDGE_BYTES), between(REWRITE_EDGE_BYTES));
            let (edge, fill) = (EDGE + start, between(0..=255) as u8);
            let end = edge + between(REWRITE_BEHIND_BYTES);
            Operation::Rewrite { name, offset: edge - before, length: before + behind, start, end, fill }
        }
        _ => Operation::Pause(between(0..=2_500)),
    }
}
