//! Policies in use: the record, its text, and how large a segment of its code is.

use crate::error::VfsError;
use bytes::Bytes;
use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::Arc;
use weft_env::sync::Mutex;
use weft_format::amount::{parse_bytes, show_bytes};
use weft_format::records::{CELL_BYTES, Later, PolicyRecord, SEGMENT_BYTES, Sizes};
use weft_format::span::{parse_ms, show_ms};
use weft_format::{PolicyId, SegmentId};
use weft_meta::Store;
use weft_transfer::WriteRequest;

/// Large enough that a shard's fixed costs (a file, an fsync, a request) vanish, small enough that a segment on its way
/// is a few MiB of memory.
const SHARD_BYTES: u64 = 2 << 20;
const SEGMENT_BYTES_MIN: u64 = 8 << 20;
const SEGMENT_BYTES_MAX: u64 = 32 << 20;

/// The policy that a text stands for: a code such as `rs:4+2`, or `replica:3 then rs:8+3 after 30d` where files that have not changed
/// for so long are to have another; either with `margin 1` at its end, where every write must survive so many losses at once, and
/// need not survive more. Without it every shard is stored but for those of nodes that are away: writers do not stop while as many
/// are away as the code can lose. `segment 64MiB` and `cell 1MiB` choose how files are cut, within [`SEGMENT_BYTES`] and [`CELL_BYTES`];
/// without them sizes suit the code.
///
/// # Errors
/// A code is none of ours, or survives no such number of losses; the rest is no such rule.
pub fn policy_for(text: &str) -> Result<PolicyRecord, VfsError> {
    let refused = |detail: String| VfsError::BadPolicy { code: text.to_owned(), detail };
    let canonical = |code: &str| match weft_codes::parse(code) {
        Ok(parsed) => Ok(parsed.spec().to_owned()),
        Err(error) => Err(refused(error.to_string())),
    };
    let mut words: Vec<&str> = text.split_ascii_whitespace().collect();
    let (mut margin, mut sizes) = (None, Sizes::default());
    while let [.., what @ ("margin" | "segment" | "cell"), value] = words[..] {
        let is_new = match what {
            "margin" => {
                let count =
                    value.parse::<u16>().map_err(|_| refused(format!("`{value}` is no number of losses like 1")))?;
                margin.replace(count).is_none()
            }
            "segment" => sizes.segment_bytes.replace(size(value, what, &SEGMENT_BYTES).map_err(&refused)?).is_none(),
            _ => {
                let range = u64::from(*CELL_BYTES.start())..=u64::from(*CELL_BYTES.end());
                let bytes = size(value, what, &range).map_err(&refused)?;
                sizes.cell_bytes.replace(u32::try_from(bytes).expect("within a range of such numbers")).is_none()
            }
        };
        if !is_new {
            return Err(refused(format!("`{what}` is said twice")));
        }
        words.truncate(words.len() - 2);
    }
    let later = match words[..] {
        [_, "then", later, "after", span] => {
            let after_ms = parse_ms(span).ok_or_else(|| refused(format!("`{span}` is no length of time like 30d")))?;
            Some(Later { code: canonical(later)?, after_ms })
        }
        [_] => None,
        _ => return Err(refused("write a code like rs:4+2, or as in `replica:3 then rs:8+3 after 30d`".into())),
    };
    let code = canonical(words[0])?;
    let tolerance = weft_codes::parse(&code).map_or(0, |code| code.shape().tolerance);
    if let Some(margin) = margin.filter(|margin| usize::from(*margin) > tolerance) {
        return Err(refused(format!("it survives any {tolerance} losses, and no margin of {margin}")));
    }
    Ok(PolicyRecord { later, sizes, ..PolicyRecord::of(code, margin) })
}

/// A number of bytes within limits, or what is wrong.
fn size(text: &str, what: &str, limits: &RangeInclusive<u64>) -> Result<u64, String> {
    let bytes = parse_bytes(text).ok_or_else(|| format!("`{text}` is no number of bytes like 64M"))?.get();
    match limits.contains(&bytes) {
        true => Ok(bytes),
        false => Err(format!("a {what} has {} to {}", show_bytes(*limits.start()), show_bytes(*limits.end()))),
    }
}

/// The inverse of [`policy_for`].
pub fn policy_text(policy: &PolicyRecord) -> String {
    let mut text = policy.code.clone();
    if let Some(later) = &policy.later {
        text += &format!(" then {} after {}", later.code, show_ms(later.after_ms));
    }
    if let Some(bytes) = policy.sizes.segment_bytes {
        text += &format!(" segment {}", show_bytes(bytes));
    }
    if let Some(bytes) = policy.sizes.cell_bytes {
        text += &format!(" cell {}", show_bytes(bytes.into()));
    }
    if let Some(margin) = policy.write_margin {
        text += &format!(" margin {margin}");
    }
    text
}

/// A policy, ready to write under.
pub(crate) struct Policy {
    pub record: PolicyRecord,
    /// Data bytes of a full segment.
    pub segment_bytes: u64,
    /// Data bytes per stored byte.
    pub efficiency: f64,
    /// Shards of a segment.
    pub width: usize,
    /// Losses of any as many of them are survived.
    pub tolerance: usize,
    /// Nodes that a segment's shards go to, now or later.
    pub nodes: usize,
}

/// Policies never change once they have a number, so they are cached for ever.
#[derive(Default)]
pub(crate) struct Policies {
    known: Mutex<HashMap<PolicyId, Arc<Policy>>>,
}

/// What stores data in a new segment as a policy says.
pub(crate) fn write_request(policy: &PolicyRecord, segment: SegmentId, data: Vec<Bytes>) -> WriteRequest {
    let PolicyRecord { code, write_margin, sizes, .. } = policy.clone();
    WriteRequest { segment, code, write_margin, cell_bytes: sizes.cell_bytes, data }
}

impl Policies {
    pub fn get(&self, store: &Store, id: PolicyId) -> Result<Arc<Policy>, VfsError> {
        if let Some(policy) = self.known.lock().get(&id) {
            return Ok(policy.clone());
        }
        let policy = Arc::new(Policy::new(store.policy(id)?)?);
        self.known.lock().insert(id, policy.clone());
        Ok(policy)
    }
}

impl Policy {
    /// # Errors
    /// The code is none of ours.
    pub fn new(record: PolicyRecord) -> Result<Self, VfsError> {
        let parse = |code: &str| {
            weft_codes::parse(code)
                .map_err(|error| VfsError::BadPolicy { code: code.to_owned(), detail: error.to_string() })
        };
        let code = parse(&record.code)?;
        let shape = code.shape();
        let later = record.later.as_ref().map(|later| parse(&later.code)).transpose()?;
        let suitable = || (shape.k as u64 * SHARD_BYTES).clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX);
        let segment_bytes = record.sizes.segment_bytes.unwrap_or_else(suitable);
        let segment_bytes =
            later.as_ref().map_or(segment_bytes, |later| cut_evenly(segment_bytes, later.shape().alpha));
        let efficiency = shape.native_count as f64 / (shape.n * shape.alpha) as f64;
        let (width, nodes) = (shape.n, later.map_or(shape.n, |later| later.shape().n.max(shape.n)));
        Ok(Self { record, segment_bytes, efficiency, width, tolerance: shape.tolerance, nodes })
    }

    /// The same margin and sizes for good, with another code.
    ///
    /// # Errors
    /// The code is none of ours.
    pub fn with_code(&self, code: &str) -> Result<Self, VfsError> {
        Self::new(PolicyRecord { sizes: self.record.sizes, ..PolicyRecord::of(code, self.record.write_margin) })
    }
}

/// As much or a little less: whole pages, and a whole number of symbols of a later code's cells. A conversion keeps copies as the data of
/// such a code only then.
fn cut_evenly(segment_bytes: u64, later_alpha: usize) -> u64 {
    const PAGE_BYTES: u64 = 4096;
    let later_alpha = later_alpha as u64;
    let unit = PAGE_BYTES.max(1 << later_alpha.trailing_zeros()) * (later_alpha >> later_alpha.trailing_zeros());
    match segment_bytes.is_multiple_of(later_alpha) || segment_bytes < unit {
        true => segment_bytes,
        false => segment_bytes - segment_bytes % unit,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_policies() {
        let texts = [
            "rs:4+2",
            "replica:3 then rs:8+3 after 30d",
            "embr:n=4,k=3 then rs:4+2 after 90s",
            "rs:4+2 margin 0",
            "replica:3 then rs:8+3 after 30d margin 2",
            "rs:4+2 segment 64MiB cell 1MiB margin 1",
            "rs:4+2 segment 1048577B",
            "clay:4+2 then rs:8+3 after 30d cell 4KiB",
        ];
        for text in texts {
            let policy = policy_for(text).expect("a policy");
            assert_eq!(policy_text(&policy), text);
        }
        assert_eq!(
            policy_text(&policy_for(" rs:4+2  then raid6:6 after 24h ").expect("a policy")),
            "rs:4+2 then raid6:6 after 1d"
        );
        for text in [
            "",
            "rs",
            "rs:4+2 then rs:8+3",
            "rs:4+2 then rs:8+3 after x",
            "rs:4+2 after 3d",
            "x then rs:4+2 after 1d",
            "margin 1",
            "rs:4+2 margin",
            "rs:4+2 margin x",
            "rs:4+2 margin 3",
            "rs:4+2 margin 1 margin 1",
            "rs:4+2 segment 1000",
            "rs:4+2 segment 65MiB",
            "rs:4+2 cell 4095",
            "rs:4+2 cell x",
            "rs:4+2 cell",
            "segment 1MiB",
        ] {
            assert!(matches!(policy_for(text), Err(VfsError::BadPolicy { .. })), "{text}");
        }
        let sized = Policy::new(policy_for("rs:4+2 margin 1 cell 1M segment 64M").expect("a policy")).expect("known");
        assert_eq!((sized.segment_bytes, sized.record.sizes.cell_bytes), (64 << 20, Some(1 << 20)));
        assert_eq!(
            policy_text(&sized.record),
            "rs:4+2 segment 64MiB cell 1MiB margin 1",
            "in any order, and written in one"
        );
        assert_eq!(sized.with_code("rs:8+3").expect("known").segment_bytes, 64 << 20);
        let wide = Policy::new(policy_for("replica:3 then rs:8+3 after 30d").expect("a policy")).expect("known");
        assert_eq!(wide.nodes, 11, "what cannot be written later is not promised");
        assert_eq!(wide.segment_bytes, 8 << 20);
        let bytes_of = |text: &str| Policy::new(policy_for(text).expect("a policy")).expect("known").segment_bytes;
        assert_eq!(bytes_of("replica:3 then clay:4+2 after 30d"), 8 << 20, "eight symbols a cell");
        // 3 times 9 symbols.
        assert_eq!(bytes_of("replica:3 then clay:6+3 after 30d"), (8 << 20) / (27 * 4096) * 27 * 4096);
        assert_eq!(bytes_of("replica:3 segment 1048577B"), 1_048_577, "as it is said, where nothing comes later");
    }
}
