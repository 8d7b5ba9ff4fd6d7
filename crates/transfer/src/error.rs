//! Why a segment could not be written, read or rebuilt.

use crate::suspect::Suspect;
use weft_cluster::PlacementError;
use weft_format::{SegmentId, ShardIndex};
use weft_nodes::{NodeError, NodeErrorKind};

pub use crate::suspect::{Failures, ShardFailure, SuspectKind};

/// Why a segment was not written. Nothing of it is visible, and what was put has been removed as far as nodes answered.
#[derive(Clone, Debug, thiserror::Error)]
pub enum WriteError {
    /// The code's spec is not one, or needs more nodes than an index counts.
    #[error("code `{code}` cannot be used: {detail}")]
    Code {
        /// The spec.
        code: String,
        /// What is wrong with it.
        detail: String,
    },
    /// The data are too few or too many for a segment.
    #[error("segment {segment}: {detail}")]
    Size {
        /// The segment.
        segment: SegmentId,
        /// The limit passed.
        detail: String,
    },
    /// There are not enough nodes or domains.
    #[error("segment {segment} cannot be placed: {source}")]
    Placement {
        /// The segment.
        segment: SegmentId,
        /// The numbers, and the mend.
        source: PlacementError,
    },
    /// The runtime is being shut down.
    #[error("segment {segment} was not written because the program is ending: write it again after the next start")]
    Stopped {
        /// The segment.
        segment: SegmentId,
    },
    /// Nodes that are there have no room, and nothing else than their room is missing.
    #[error(
        "segment {segment} is durable on {durable} nodes and {needed} are needed, since only nodes that are away are written around, \
         and {full_count} have no room: {failures}; delete something, or add nodes or room"
    )]
    Full {
        /// The segment.
        segment: SegmentId,
        /// Shards that were stored.
        durable: usize,
        /// Shards that make a write.
        needed: usize,
        /// Nodes without room.
        full_count: usize,
        /// What each failed node said.
        failures: Failures,
    },
    /// Too many nodes failed.
    #[error(
        "segment {segment} is durable on {durable} nodes and {needed} are needed: {failures}; write again when more nodes answer"
    )]
    Quorum {
        /// The segment.
        segment: SegmentId,
        /// Shards that were stored.
        durable: usize,
        /// Shards that make a write.
        needed: usize,
        /// What each failed node said.
        failures: Failures,
    },
}

impl WriteError {
    /// Is it for want of room on nodes that are there?
    pub fn is_full(&self) -> bool {
        match self {
            Self::Full { .. } => true,
            Self::Placement { source, .. } => {
                let (PlacementError::TooFewNodes { full, .. } | PlacementError::TooFewDomains { full, .. }) = source;
                *full > 0
            }
            _ => false,
        }
    }
}

/// Why a segment was not read.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ReadError {
    /// The record names a code or geometry that cannot be.
    #[error("the record of segment {segment} is not usable: {detail}; restore the metadata from a copy")]
    Record {
        /// The segment.
        segment: SegmentId,
        /// What does not fit.
        detail: String,
    },
    /// The range is not within the segment, or `out` is not as long as the range.
    #[error("segment {segment} has {data_bytes} bytes; bytes {start}..{end} were asked for, into {out_bytes} bytes")]
    Range {
        /// The segment.
        segment: SegmentId,
        /// The segment's data.
        data_bytes: u64,
        /// First byte asked for.
        start: u64,
        /// First byte not asked for.
        end: u64,
        /// Length of the output.
        out_bytes: usize,
    },
    /// Too few shards could be used. Nothing is lost by trying again when the nodes named are back.
    #[error(
        "segment {segment} cannot be read: {answered} of its shards can be used and {needed} are needed ({failures}; \
         {unplaced} known to be missing): bring the nodes back, or restore their shards"
    )]
    Unrecoverable {
        /// The segment.
        segment: SegmentId,
        /// Shards that have not failed.
        answered: usize,
        /// Shards that always do, whichever they are.
        needed: usize,
        /// Shards that the record has no place for, or that are being rebuilt.
        unplaced: usize,
        /// Every other shard.
        failures: Failures,
    },
}

impl ReadError {
    /// The segment that cannot be read.
    pub fn segment(&self) -> SegmentId {
        match self {
            Self::Unrecoverable { segment, .. } | Self::Record { segment, .. } | Self::Range { segment, .. } => {
                *segment
            }
        }
    }

    /// Shards that could not be used.
    pub fn suspects(&self) -> Vec<Suspect> {
        match self {
            Self::Unrecoverable { failures, .. } => failures.0.iter().map(Suspect::of).collect(),
            Self::Record { .. } | Self::Range { .. } => Vec::new(),
        }
    }
}

/// Why a segment has no other code now. It is as it was.
#[derive(Clone, Debug, thiserror::Error)]
pub enum RecodeError {
    /// The record names a code or geometry that cannot be.
    #[error("the record of segment {segment} is not usable: {detail}; restore the metadata from a copy")]
    Record {
        /// The segment.
        segment: SegmentId,
        /// What does not fit.
        detail: String,
    },
    /// The wanted code's spec is not one.
    #[error("code `{code}` cannot be used: {detail}")]
    Code {
        /// The spec.
        code: String,
        /// What is wrong with it.
        detail: String,
    },
    /// Its data cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Its new shards cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// Segments that are to be merged do not suit each other, or their nodes.
    #[error(
        "{source_count} segments cannot be merged into segment {segment} of `{code}` as they lie now; each can be converted by itself"
    )]
    Unfit {
        /// What they were to be.
        segment: SegmentId,
        /// How many.
        source_count: usize,
        /// Under which code.
        code: String,
    },
    /// A shard that was to be kept is lost or damaged.
    #[error(
        "the shard chosen as shard {index} of segment {segment} is not sound; repair it, or convert the segments by themselves"
    )]
    Unsound {
        /// What it was to be of.
        segment: SegmentId,
        /// As which shard.
        index: ShardIndex,
    },
    /// Not every node took its new shard: it would be less safe than before.
    #[error(
        "{missing_count} new shards of segment {segment} could not be stored, and it keeps its old ones; more nodes must answer"
    )]
    Short {
        /// The segment.
        segment: SegmentId,
        /// Shards without a place.
        missing_count: usize,
    },
    /// What was stored did not read back as it should.
    #[error("new shard {index} of segment {segment} does not read back ({detail}), and the segment keeps its old ones")]
    Unverified {
        /// The segment.
        segment: SegmentId,
        /// The shard.
        index: ShardIndex,
        /// How it was found.
        detail: String,
    },
}

/// Why shards were not rebuilt. The segment is as it was.
#[derive(Clone, Debug, thiserror::Error)]
pub enum RebuildError {
    /// The survivors do not suffice, or the record is not usable.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A shard was asked for that the code has not.
    #[error("segment {segment} has shards 0 to {}, not {index}: ask for one of those", .count - 1)]
    NoSuchShard {
        /// The segment.
        segment: SegmentId,
        /// What was asked for.
        index: usize,
        /// Shards of the segment.
        count: usize,
    },
    /// No place for the rebuilt shards.
    #[error("a rebuilt shard of segment {segment} cannot be placed: {source}")]
    Placement {
        /// The segment.
        segment: SegmentId,
        /// The numbers, and the mend.
        source: PlacementError,
    },
    /// What was rebuilt is not what the record says was there. Nothing was stored.
    #[error(
        "shard {index} of segment {segment} was rebuilt from checked survivors and does not match {against}: \
         a survivor or the record is wrong; verify the segment"
    )]
    Mismatch {
        /// The segment.
        segment: SegmentId,
        /// The shard.
        index: ShardIndex,
        /// What it was compared with.
        against: &'static str,
    },
    /// The nodes chosen failed.
    #[error("rebuilt shards of segment {segment} could not be stored: {failures}; try again when more nodes answer")]
    Put {
        /// The segment.
        segment: SegmentId,
        /// What each node said.
        failures: Failures,
    },
}

/// The error of a call that took too long.
pub(crate) fn timed_out(name: &str, deadline_ms: u64) -> NodeError {
    NodeError {
        kind: NodeErrorKind::TimedOut,
        node: name.into(),
        detail: format!("no answer within {deadline_ms} ms; see whether it is overloaded or out of reach"),
    }
}
