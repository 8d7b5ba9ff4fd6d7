//! Who may need shards that bear another segment's name.

use super::segment::SegmentRecord;
use crate::ids::{NodeId, SegmentId, ShardKey};

/// A segment, and the records by which it names shards.
pub type Naming = (SegmentId, Vec<SegmentRecord>);

/// A whole and all that was joined into it: each of these may name shards that bear the name of another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Borrowers {
    /// By its record, and what is kept of former ones.
    pub whole: Naming,
    /// They are dead: by what is kept of them alone.
    pub parts: Vec<Naming>,
}

impl Borrowers {
    /// One that names this shard at this node, the whole before others; `except`: one that counts for nothing.
    pub fn of(&self, node: NodeId, key: ShardKey, except: Option<SegmentId>) -> Option<SegmentId> {
        let names = |(segment, records): &&Naming| {
            Some(*segment) != except && records.iter().any(|record| record.has_at(*segment, node, key))
        };
        std::iter::once(&self.whole).chain(&self.parts).find(names).map(|(segment, _)| *segment)
    }
}
