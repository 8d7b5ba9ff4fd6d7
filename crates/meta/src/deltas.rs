//! Changes of a value that its writer need not have read, and the check of a directory that leaves them out.
//!
//! Without them all creates of a volume conflict in its usage, and all of a directory in its times. Both are sums or maxima: the order in
//! which they are applied does not matter. Engines call [`Delta::apply`] and [`Directory::holds`] when they apply a batch, and know
//! nothing else of what is in a value.

use crate::store::values::Usage;
use std::ops::Range;
use weft_format::records::{Attributes, SumsRecord, Timestamp};

/// Clocks of machines, and threads that took the time before others, differ by less than this. A directory's time that is further ahead of
/// a change was set by somebody.
const SKEW_S: i64 = 10;

/// The first bytes of deltas that are kept.
const USAGE: u8 = 1;
const NAMES: u8 = 2;
const SEGMENTS: u8 = 3;

/// A change that is applied to the value that is there when the batch is committed. Those of one key commute, up to times that are
/// further apart than clocks are.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "a batch has few of them, and a copy is cheaper than a box")]
pub enum Delta {
    /// Of the volume's usage: so much more, or less.
    Usage {
        /// Inodes.
        inodes: i64,
        /// Bytes that extents refer to.
        live_bytes: i64,
    },
    /// Of sums over segments: so much more, or less, by code.
    Segments(SumsRecord),
    /// Of a directory's attributes: its names changed.
    Names {
        /// When: neither its mtime nor its ctime goes back, unless somebody set them ahead.
        changed: Timestamp,
        /// Subdirectories more, or less.
        subdirectories: i64,
    },
    /// Of a directory's attributes: they were set. Its links, mtime and ctime change only if they differ here.
    Attributes {
        /// As they were read.
        before: Attributes,
        /// As they become.
        after: Attributes,
    },
}

impl Delta {
    /// Its bytes, for an engine that keeps deltas beside the value for a while; `None` of one that must be applied where it is
    /// committed. FORMAT.md has the layout.
    #[must_use]
    pub fn encode(&self) -> Option<Vec<u8>> {
        match self {
            Delta::Usage { inodes, live_bytes } => {
                Some([&[USAGE][..], &inodes.to_le_bytes(), &live_bytes.to_le_bytes()].concat())
            }
            Delta::Names { changed: Timestamp { seconds, nanoseconds }, subdirectories } => {
                let fields = [&[NAMES][..], &seconds.to_le_bytes(), &nanoseconds.to_le_bytes()];
                Some([&fields.concat()[..], &subdirectories.to_le_bytes()].concat())
            }
            Delta::Segments(sums) => Some([&[SEGMENTS][..], &sums.encode()].concat()),
            Delta::Attributes { .. } => None,
        }
    }

    /// The inverse of [`Self::encode`]; `None`: these bytes are no delta.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (tag, rest) = bytes.split_first()?;
        match *tag {
            USAGE => {
                let (inodes, live_bytes) = rest.split_first_chunk()?;
                let live_bytes = i64::from_le_bytes(live_bytes.try_into().ok()?);
                Some(Delta::Usage { inodes: i64::from_le_bytes(*inodes), live_bytes })
            }
            NAMES => {
                let (seconds, rest) = rest.split_first_chunk()?;
                let (nanoseconds, subdirectories) = rest.split_first_chunk()?;
                let (seconds, nanoseconds) = (i64::from_le_bytes(*seconds), u32::from_le_bytes(*nanoseconds));
                let subdirectories = i64::from_le_bytes(subdirectories.try_into().ok()?);
                let changed = Timestamp { seconds, nanoseconds };
                (nanoseconds < 1_000_000_000).then_some(Delta::Names { changed, subdirectories })
            }
            SEGMENTS => {
                let sums = SumsRecord::decode(rest).ok()?;
                // One without changes, or in other bytes, is not ours.
                (!sums.is_empty() && sums.encode() == rest).then_some(Delta::Segments(sums))
            }
            _ => None,
        }
    }

    /// The value after it. Checks come before deltas, so a value that is missing is damage.
    ///
    /// # Errors
    /// A clause: the value is missing or damaged, or would count less than nothing.
    pub fn apply(&self, value: Option<&[u8]>) -> Result<Vec<u8>, String> {
        let missing = || match self {
            Delta::Usage { .. } => "the record of the volume's usage is missing",
            Delta::Segments(_) => "a record of sums over segments is missing",
            Delta::Names { .. } | Delta::Attributes { .. } => "a directory's record is missing",
        };
        let value = value.ok_or_else(missing)?;
        let found = || Attributes::decode(value).map_err(|error| error.to_string());
        match self {
            Delta::Segments(changes) => {
                let sums = SumsRecord::decode(value).map_err(|error| error.to_string())?;
                Ok(sums.plus(changes).ok_or("sums over segments count more than there can be")?.encode())
            }
            &Delta::Usage { inodes, live_bytes } => {
                let usage = Usage::decode(value).map_err(|error| error.to_string())?;
                let changed = || {
                    let inodes = usage.inodes.checked_add_signed(inodes)?;
                    Some(Usage { inodes, live_bytes: usage.live_bytes.checked_add_signed(live_bytes)? })
                };
                Ok(changed().ok_or("the volume's usage counts less than there is")?.encode())
            }
            &Delta::Names { changed, subdirectories } => {
                let mut directory = found()?;
                // Of one that is removed nobody counts them: some may have come and gone while it was.
                if subdirectories != 0 && directory.nlink > 0 {
                    let nlink = i64::from(directory.nlink) + subdirectories;
                    // Two are its own name and its `.`.
                    let nlink = u32::try_from(nlink).ok().filter(|nlink| *nlink >= 2);
                    directory.nlink =
                        nlink.ok_or("a directory's link count is lower than its subdirectories make it")?;
                }
                let soon = Timestamp { seconds: changed.seconds.saturating_add(SKEW_S), ..changed };
                let is_ahead = directory.mtime > soon || directory.ctime > soon;
                let becomes = |time: Timestamp| if is_ahead { changed } else { time.max(changed) };
                (directory.mtime, directory.ctime) = (becomes(directory.mtime), becomes(directory.ctime));
                Ok(directory.encode().to_vec())
            }
            &Delta::Attributes { before, after } => {
                let found = found()?;
                let mut directory = Attributes {
                    nlink: changed_or(found.nlink, before.nlink, after.nlink),
                    mtime: changed_or(found.mtime, before.mtime, after.mtime),
                    ctime: changed_or(found.ctime, before.ctime, after.ctime),
                    ..after
                };
                if found.ctime != before.ctime {
                    // Names changed meanwhile, maybe a little later.
                    directory.ctime = directory.ctime.max(found.ctime);
                }
                Ok(directory.encode().to_vec())
            }
        }
    }
}

/// Deltas, in the order in which they were kept, applied to a value.
pub(crate) fn merge(mut value: Option<Vec<u8>>, deltas: &[Vec<u8>]) -> Result<Option<Vec<u8>>, String> {
    for bytes in deltas {
        let delta = Delta::decode(bytes).ok_or("a delta that waits for its key is damaged")?;
        value = Some(delta.apply(value.as_deref())?);
    }
    Ok(value)
}

/// What a field becomes that was to change from `before` to `after`.
fn changed_or<T: PartialEq>(found: T, before: T, after: T) -> T {
    if before == after { found } else { after }
}

/// The check that a directory is still there, and what it was but for its links and times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    /// Of its attributes.
    pub key: Vec<u8>,
    /// What was read there.
    pub value: Vec<u8>,
}

impl Directory {
    /// Where a directory's attributes have its links, mtime and ctime.
    pub(crate) const VARIABLE: [Range<usize>; 3] = [32..36, 64..80, 92..100];
    /// The first of them: the links.
    pub(crate) const LINKS: Range<usize> = 32..36;

    /// What it asks of a value, for engines that compare within a server: its bytes but for those of [`Self::VARIABLE`], which are 0, and
    /// whether the directory has no links any more; `None`: the value must be the same.
    pub(crate) fn masked(&self) -> Option<(Vec<u8>, bool)> {
        let attributes = Attributes::decode(&self.value).ok()?;
        let mut masked = self.value.clone();
        for range in Self::VARIABLE {
            masked[range].fill(0);
        }
        Some((masked, attributes.nlink == 0))
    }

    /// Does it hold of what is there now?
    #[must_use]
    pub fn holds(&self, found: Option<&[u8]>) -> bool {
        let Some(found) = found else { return false };
        if found == self.value {
            return true;
        }
        let (Ok(expected), Ok(found)) = (Attributes::decode(&self.value), Attributes::decode(found)) else {
            return false;
        };
        let has_names = |directory: &Attributes| directory.nlink > 0;
        let expected_now = Attributes { nlink: found.nlink, mtime: found.mtime, ctime: found.ctime, ..expected };
        has_names(&expected) == has_names(&found) && expected_now == found
    }
}

#[cfg(test)]
#[path = "deltas_tests.rs"]
mod tests;
