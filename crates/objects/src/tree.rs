//! Digest trees: two members find the records in which they differ without telling each other whole lists. Pure.
//!
//! A tree has a level for each hexadecimal digit of the hash of names, from the top. A branch's digest is the sum of those of its records, so
//! it depends on no order. Members compare branches from the root and go on where digests differ.

use serde::{Deserialize, Serialize};
use weft_format::records::{ObjectId, Stamp};

/// Children of a branch.
pub const FAN_OUT: usize = 16;
/// A branch of no more records is listed as it is, ...
pub const LEAF_RECORDS: usize = 32;
/// ... and so is one at this depth, whatever it holds.
pub const DEPTH_MAX: usize = 8;

/// Bits of a name's hash.
const HASH_BITS: usize = 43;

/// A record as the tree sees it: where its name lies, and which version it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Leaf {
    /// Of the name.
    pub hash: u64,
    /// The newest version.
    pub stamp: u64,
}

impl Leaf {
    /// That of a record.
    #[must_use]
    pub fn of(id: ObjectId) -> Self {
        Self { hash: id.hash, stamp: id.stamp.0 }
    }

    /// Which version.
    #[must_use]
    pub fn stamp(self) -> Stamp {
        Stamp(self.stamp)
    }

    fn digest(self) -> u128 {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.hash.to_le_bytes()).update(&self.stamp.to_le_bytes());
        let hash = hasher.finalize();
        let (halves, _) = hash.as_bytes().as_chunks::<16>();
        halves.iter().fold(0, |sum, half| sum ^ u128::from_le_bytes(*half))
    }

    fn is_under(self, path: &[u8]) -> bool {
        path.iter().enumerate().all(|(level, digit)| self.digit(level) == *digit)
    }

    fn digit(self, level: usize) -> u8 {
        (self.hash >> (HASH_BITS - 4 * (level + 1)) & 0xf) as u8
    }
}

/// What a member says of a branch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Branch {
    /// The digests of its children.
    Children(Vec<u128>),
    /// What it holds.
    Leaves(Vec<Leaf>),
}

/// The branch at `path` of the tree of these records.
#[must_use]
pub fn branch(leaves: impl IntoIterator<Item = Leaf>, path: &[u8]) -> Branch {
    let path = &path[..path.len().min(DEPTH_MAX)];
    let mut under: Vec<Leaf> = leaves.into_iter().filter(|leaf| leaf.is_under(path)).collect();
    if under.len() <= LEAF_RECORDS || path.len() == DEPTH_MAX {
        under.sort_unstable();
        return Branch::Leaves(under);
    }
    let mut children = vec![0u128; FAN_OUT];
    for leaf in under {
        let child = &mut children[usize::from(leaf.digit(path.len()))];
        *child = child.wrapping_add(leaf.digest());
    }
    Branch::Children(children)
}

/// What to do after a member has said what it has at `path`, where `own` is what this one has there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// Branches to compare next.
    pub below: Vec<Vec<u8>>,
    /// Records that only the other has.
    pub theirs: Vec<Leaf>,
    /// Records that only this one has.
    pub ours: Vec<Leaf>,
}

/// Compares a branch. `own` has all of this member's records that both should have.
#[must_use]
pub fn difference(own: &[Leaf], path: &[u8], told: &Branch) -> Difference {
    match told {
        Branch::Leaves(theirs) => {
            let ours: Vec<Leaf> = own.iter().copied().filter(|leaf| leaf.is_under(path)).collect();
            let lacks = |of: &[Leaf], in_: &[Leaf]| of.iter().copied().filter(|leaf| !in_.contains(leaf)).collect();
            // What lies elsewhere was not asked for.
            let theirs: Vec<Leaf> = theirs.iter().copied().filter(|leaf| leaf.is_under(path)).collect();
            Difference { below: Vec::new(), theirs: lacks(&theirs, &ours), ours: lacks(&ours, &theirs) }
        }
        Branch::Children(theirs) => {
            let mut ours = vec![0u128; FAN_OUT];
            for leaf in own.iter().filter(|leaf| leaf.is_under(path)) {
                let child = &mut ours[usize::from(leaf.digit(path.len()))];
                *child = child.wrapping_add(leaf.digest());
            }
            let differs = |child: &usize| theirs.get(*child) != Some(&ours[*child]);
            let below = |child: usize| path.iter().copied().chain([child as u8]).collect();
            let is_deep = path.len() >= DEPTH_MAX;
            let below = (0..FAN_OUT).filter(|_| !is_deep).filter(differs).map(below).collect();
            Difference { below, ..Difference::default() }
        }
    }
}

#[cfg(test)]
#[path = "tree_tests.rs"]
mod tests;
