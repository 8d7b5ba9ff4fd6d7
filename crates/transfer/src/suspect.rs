//! Shards that could not be used: what was wrong with each, for those who read on without it and for care.

use std::fmt;
use std::ops::Range;
use weft_format::records::{DamagedShard, SegmentRecord};
use weft_format::shard::ShardError;
use weft_format::{NodeId, SegmentId, ShardIndex};
use weft_nodes::{NodeError, NodeErrorKind};

/// What was wrong with one shard of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SuspectKind {
    /// The node is up and has no such shard: the shard is lost.
    NotFound,
    /// The node could not be asked, so nothing is known of the shard.
    Unknown(NodeErrorKind),
    /// The shard is shorter or longer than its geometry says.
    Length,
    /// A frame's checksum does not match, or the header is not what it should be: damaged, misplaced, or of another
    /// generation.
    Checksum,
    /// Well formed, but not the bytes that the record names.
    Digest,
    /// The shard is well, and its node sent combinations that are none of it.
    Combination,
}

impl SuspectKind {
    /// What a failed call says of the shard.
    pub fn of(kind: NodeErrorKind) -> Self {
        match kind {
            NodeErrorKind::NotFound => Self::NotFound,
            NodeErrorKind::Corrupt => Self::Checksum,
            other => Self::Unknown(other),
        }
    }

    /// What a failed check says of the shard.
    pub(crate) fn of_check(error: &ShardError) -> Self {
        match error {
            ShardError::Short { .. } | ShardError::Long { .. } => Self::Length,
            _ => Self::Checksum,
        }
    }

    /// Is the shard positively gone or damaged (and not merely out of reach)?
    pub fn is_loss(self) -> bool {
        !matches!(self, Self::Unknown(_) | Self::Combination)
    }
}

/// A shard that could not be used, where it should be, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardFailure {
    /// Which shard.
    pub index: ShardIndex,
    /// The node that should have it.
    pub node: NodeId,
    /// Decide by this.
    pub kind: SuspectKind,
    /// Show this; names the node as the user knows it.
    pub detail: String,
    /// Frames that failed, ascending, where it is known that others may be sound.
    pub frames: Option<Vec<Range<u64>>>,
}

impl ShardFailure {
    /// Of a call to the node of shard `index`.
    pub(crate) fn of_call(index: usize, node: NodeId, error: NodeError) -> Self {
        let index = ShardIndex(index as u16);
        Self { index, node, kind: SuspectKind::of(error.kind), detail: error.to_string(), frames: None }
    }
}

/// Shard failures as a sentence.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failures(pub Vec<ShardFailure>);

impl fmt::Display for Failures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("no node failed");
        }
        for (i, failure) in self.0.iter().enumerate() {
            let separator = if i == 0 { "" } else { "; " };
            write!(f, "{separator}shard {}: {}", failure.index, failure.detail)?;
        }
        Ok(())
    }
}

/// A shard that was asked for and could not be used; care looks after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suspect {
    /// Which shard of the segment.
    pub index: ShardIndex,
    /// What was wrong.
    pub kind: SuspectKind,
    /// Frames that failed, ascending, where it is known that others may be sound.
    pub frames: Option<Vec<Range<u64>>>,
}

impl Suspect {
    /// The same, as a reader tells it.
    pub fn of(failure: &ShardFailure) -> Self {
        Self { index: failure.index, kind: failure.kind, frames: failure.frames.clone() }
    }

    /// Is something the matter with the shard, as far as one who was refused it can tell? Of a bad place on a disk a reader knows too
    /// little to say what is lost.
    pub fn wants_a_look(&self) -> bool {
        self.kind.is_loss() || self.kind == SuspectKind::Unknown(NodeErrorKind::Io)
    }

    /// What is to be noted of a shard of the segment with this record; `None`: nothing is known to be wrong with it.
    pub fn damage(&self, segment: SegmentId, record: &SegmentRecord) -> Option<DamagedShard> {
        let location = record.shards.get(self.index.as_usize())?.as_ref()?;
        let complaint = match self.kind {
            SuspectKind::NotFound => "",
            SuspectKind::Length => "its length is wrong",
            SuspectKind::Checksum => "a checksum does not fit",
            SuspectKind::Digest => "it is not what the metadata's digest says",
            SuspectKind::Unknown(_) | SuspectKind::Combination => return None,
        };
        let (node, key) = (location.node, location.key(segment, self.index));
        Some(DamagedShard { index: self.index, node, key, complaint: complaint.into(), frames: self.frames.clone() })
    }
}
