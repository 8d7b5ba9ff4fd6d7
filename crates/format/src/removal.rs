//! When what nothing refers to may be removed: all rules about evidence and grace, on this page.
//!
//! ```text
//! referenced -> retained (a kept file, a previous generation: it may be restored)
//!            -> going    (an inode without a name, a dead segment, a marked generation, a shard that no record names)
//!            -> removed
//! ```
//!
//! Metadata has one queue of what is unreferenced and since when; shards that no record names are found by listing nodes. For each step
//! [`may_remove`] is asked, with what is known at that moment. Whatever removes takes the [`Removable`] that it gives, which nothing
//! else makes; whatever marks takes the [`Expired`]. Five rules hold for all:
//!
//! 1. **Restoring and removing exclude each other.** Only what is going is removed. What is retained is marked first, durably, by a
//!    change of the same record that restoring changes, and nothing that is going is ever referenced again.
//! 2. **A late writer loses nothing.** A shard that no record names goes only when the openings say that nobody will commit it.
//! 3. **While others use the volume no wall clock is believed.** Who removes has itself seen the item unreferenced for the whole grace
//!    time, by a clock that never jumps. Ages by the wall clock count only where nobody else can use the volume.
//! 4. **Silence is no absence.** Metadata forgets an item when each node has said that its shard is gone, or was given up.
//! 5. **Looked at again.** What is decided is read anew right before it is removed, after the reading that found it is durable.

use crate::ids::{Generation, Ino, NodeId, SegmentId, ShardKey};
use crate::records::{Fate, RetainedRecord, SegmentRecord};

/// The owner of a volume knows how long its reads last, and nobody else reads by an old mapping: a node that is silent is given up sooner
/// than this. In milliseconds.
pub const OWNER_GRACE_MS: u64 = 30_000;

/// Beside others, and where the user says nothing else: longer than any write, repair or read takes from its first shard to its last
/// word. In milliseconds.
pub const GRACE_MS: u64 = 10 * 60 * 1000;

/// For so long the previous generation of a converted segment can be restored: time to see that a code was a mistake, short enough that
/// the room of both generations is not taken for long. In milliseconds.
pub const RESTORABLE_MS: u64 = 60 * 60 * 1000;

/// What may be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Item {
    /// A deleted file that is kept with its place: when it was deleted, in milliseconds since the Unix epoch, and its inode.
    File(u64, Ino),
    /// An inode without a name.
    Inode(Ino),
    /// A segment that no file refers to: its shards, then its record.
    Segment(SegmentId),
    /// A previous generation of a segment: shards that its record names no longer.
    Generation(SegmentId, Generation),
    /// A shard at a node.
    Shard(NodeId, ShardKey),
}

/// An item, and what its removal depends on, as read a moment ago.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Candidate {
    /// A kept file.
    File {
        /// When it was deleted, milliseconds since the Unix epoch.
        deleted_ms: u64,
        /// Its inode.
        ino: Ino,
        /// For how long the volume keeps deleted files.
        keep_ms: u64,
        /// Its room is needed now.
        is_room_short: bool,
    },
    /// An inode without a name; that it has none is checked again where it is removed.
    Inode {
        /// Which.
        ino: Ino,
        /// Is it open, or known to the kernel?
        is_in_use: bool,
    },
    /// A segment.
    Segment {
        /// Which.
        segment: SegmentId,
        /// Bytes of it that files refer to.
        live_bytes: u64,
    },
    /// A piece of the metadata's replica.
    Replica {
        /// Where.
        node: NodeId,
        /// Under which name.
        key: ShardKey,
        /// Nodes have a whole replica of a later moment without it.
        is_superseded: bool,
    },
    /// A shard, or a record, of an object in a store without a catalogue, at the member that decides about it.
    Object {
        /// That member.
        node: NodeId,
        /// Its name.
        key: ShardKey,
        /// Why it may go.
        why: Needless,
        /// For how long that is to be so first.
        keep_ms: u64,
    },
    /// A previous generation.
    Generation {
        /// Of which segment.
        segment: SegmentId,
        /// Which.
        generation: Generation,
        /// For how long it can be restored at least.
        keep_ms: u64,
        /// It is marked: it can be restored no more.
        is_going: bool,
    },
    /// A shard.
    Shard {
        /// Where.
        node: NodeId,
        /// Its name.
        key: ShardKey,
        /// Does a record name it there, or a previous generation?
        is_named: bool,
        /// May a writer commit it yet?
        fate: Fate,
        /// Might a repair that runs now commit it?
        may_be_a_repairs: bool,
    },
}

/// Why nothing of an object's version is needed at a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Needless {
    /// It is needed.
    No,
    /// The member has given the upload up: it takes no record of the version any more.
    GivenUp,
    /// A later version is there, and can be read with a margin; or the object was removed by a later one.
    Superseded,
    /// Another member holds the same, and was found to be sound.
    Copy,
    /// It is damaged, and what should be in it lies at the same member under another name.
    Replaced,
}

/// An entry of the queue: what is unreferenced, and since when, by the wall clock of whoever put it there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Queued {
    /// A segment that no file refers to. A crash may still bring back what killed it, until that is durable.
    Segment {
        /// Which.
        segment: SegmentId,
        /// Milliseconds since the Unix epoch.
        since_ms: u64,
    },
    /// A previous generation of a segment; its record says since when.
    Generation {
        /// Of which segment.
        segment: SegmentId,
        /// What is known of it.
        retained: RetainedRecord,
    },
}

impl Queued {
    /// What it is.
    #[must_use]
    pub fn item(&self) -> Item {
        self.candidate(0).item()
    }

    /// Since when, milliseconds since the Unix epoch.
    #[must_use]
    pub fn since_ms(&self) -> u64 {
        match self {
            Self::Segment { since_ms, .. } => *since_ms,
            Self::Generation { retained, .. } => retained.since_ms,
        }
    }

    /// To be decided on; `live_bytes`: what files refer to of a segment, as read a moment ago.
    #[must_use]
    pub fn candidate(&self, live_bytes: u64) -> Candidate {
        match self {
            Self::Segment { segment, .. } => Candidate::Segment { segment: *segment, live_bytes },
            Self::Generation { segment, retained } => Candidate::Generation {
                segment: *segment,
                generation: retained.record.generation,
                keep_ms: retained.keep_ms,
                is_going: retained.is_going,
            },
        }
    }
}

/// By whose evidence something is unreferenced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// The volume's owner, and owners before it, have seen it so for so many milliseconds, by clocks that never jump forward.
    Owner {
        /// For how long.
        seen_ms: u64,
    },
    /// A process that works beside others has itself seen it so, by a clock that never jumps.
    Beside {
        /// For how long.
        seen_ms: u64,
    },
    /// Nobody else can use the volume. By the machine's clock it is so for so long.
    Alone {
        /// For how long; `None`: since a moment to come, which is no age.
        age_ms: Option<u64>,
        /// What is younger is to be left alone.
        grace_ms: u64,
    },
    /// Somebody said so, of this very item.
    Word,
    /// Whoever stored the shard: it gives its own attempt up, or has committed another shard in the place of this damaged one.
    Author,
}

/// What to do with an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may be removed.
    Remove(Removable),
    /// It is to be marked first, so that nobody restores it from then on.
    Mark(Expired),
    /// Its time is not over.
    Wait,
    /// It is needed, or it is not for this one to remove.
    Keep,
    /// Other metadata of the volume stored it, of which this one can say nothing.
    Unknown,
}

/// An item that may be removed. Only [`may_remove`] says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Removable(Item);

/// A retained item whose time is over. Only [`may_remove`] says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Expired(Item);

/// May this be removed, by this evidence?
#[must_use]
pub fn may_remove(candidate: Candidate, by: Evidence) -> Verdict {
    match candidate {
        Candidate::Inode { is_in_use: true, .. } | Candidate::Shard { is_named: true, .. } => return Verdict::Keep,
        Candidate::Segment { live_bytes, .. } if live_bytes > 0 => return Verdict::Keep,
        Candidate::Replica { is_superseded: false, .. } => return Verdict::Keep,
        Candidate::Object { why: Needless::No, .. } => return Verdict::Keep,
        // An author is the late writer itself.
        Candidate::Shard { fate: Fate::Unknown, .. } if by != Evidence::Author => return Verdict::Unknown,
        Candidate::Shard { fate: Fate::Open, .. } | Candidate::Shard { may_be_a_repairs: true, .. }
            if by != Evidence::Author =>
        {
            return Verdict::Wait;
        }
        _ => {}
    }
    let Some(grace_ms) = grace_ms(&candidate, by) else { return Verdict::Keep };
    let known_ms = match by {
        Evidence::Owner { seen_ms } | Evidence::Beside { seen_ms } => Some(seen_ms),
        Evidence::Alone { age_ms, .. } => age_ms,
        Evidence::Word | Evidence::Author => Some(u64::MAX),
    };
    match candidate {
        // What was begun is brought to its end.
        Candidate::Generation { is_going: true, .. } => Verdict::Remove(Removable(candidate.item())),
        _ if known_ms.is_none_or(|known_ms| known_ms < grace_ms) => Verdict::Wait,
        Candidate::File { .. } | Candidate::Generation { is_going: false, .. } => {
            Verdict::Mark(Expired(candidate.item()))
        }
        _ => Verdict::Remove(Removable(candidate.item())),
    }
}

/// The table of grace times: for how long an item is to be known as unreferenced, by this evidence, before it goes, in milliseconds;
/// `None`: not by this evidence.
fn grace_ms(candidate: &Candidate, by: Evidence) -> Option<u64> {
    use {Candidate as C, Evidence as E};
    match (candidate, by) {
        (C::Generation { keep_ms, .. }, E::Beside { .. }) => Some(GRACE_MS.max(*keep_ms)),
        (C::Generation { keep_ms, .. }, E::Alone { grace_ms, .. }) => Some(grace_ms.max(*keep_ms)),
        (C::File { is_room_short: true, .. }, E::Owner { .. }) => Some(0),
        (C::File { keep_ms, .. }, E::Owner { .. }) => Some(*keep_ms),
        (C::File { .. }, E::Word) => Some(0),
        (C::Inode { .. }, E::Owner { .. }) => Some(0),
        (C::Segment { .. }, E::Owner { .. }) => Some(OWNER_GRACE_MS),
        (C::Segment { .. } | C::Shard { .. }, E::Beside { .. }) => Some(GRACE_MS),
        (C::Segment { .. } | C::Shard { .. }, E::Alone { grace_ms, .. }) => Some(grace_ms),
        (C::Shard { .. }, E::Author) => Some(0),
        // Who reads one for a recovery has listed the nodes, and lists them again.
        (C::Replica { .. }, E::Beside { .. }) => Some(0),
        (C::Replica { .. }, _) => None,
        // Nobody stores under these names again: each version has its own.
        (C::Object { keep_ms, .. }, E::Beside { .. }) => Some(*keep_ms),
        (C::Object { .. }, _) => None,
        // Who owns a volume empties its own trash; all else is a worker's, or that of who has the volume alone.
        (C::Generation { .. } | C::Shard { .. }, E::Owner { .. }) => None,
        (C::File { .. } | C::Inode { .. }, E::Beside { .. } | E::Alone { .. }) => None,
        (C::Inode { .. } | C::Segment { .. } | C::Generation { .. } | C::Shard { .. }, E::Word) => None,
        (C::File { .. } | C::Inode { .. } | C::Segment { .. } | C::Generation { .. }, E::Author) => None,
    }
}

impl Item {
    /// In the order of the queue: previous generations come after this, dead segments before.
    pub const BEFORE_GENERATIONS: Self = Self::Generation(SegmentId(0), Generation(0));
}

impl Evidence {
    /// Of one who has the volume alone, at `now_ms` of the machine's clock.
    #[must_use]
    pub fn alone(since_ms: u64, now_ms: u64, grace_ms: u64) -> Self {
        Self::Alone { age_ms: now_ms.checked_sub(since_ms), grace_ms }
    }
}

impl Candidate {
    /// A shard that this process stored in vain, or whose place another has.
    #[must_use]
    pub fn own_shard(node: NodeId, key: ShardKey) -> Self {
        Self::Shard { node, key, is_named: false, fate: Fate::Open, may_be_a_repairs: false }
    }

    /// What it is.
    #[must_use]
    pub fn item(&self) -> Item {
        match *self {
            Self::File { deleted_ms, ino, .. } => Item::File(deleted_ms, ino),
            Self::Inode { ino, .. } => Item::Inode(ino),
            Self::Segment { segment, .. } => Item::Segment(segment),
            Self::Generation { segment, generation, .. } => Item::Generation(segment, generation),
            Self::Shard { node, key, .. } | Self::Replica { node, key, .. } | Self::Object { node, key, .. } => {
                Item::Shard(node, key)
            }
        }
    }
}

impl Expired {
    /// What it is.
    #[must_use]
    pub fn item(&self) -> Item {
        self.0
    }
}

impl Removable {
    /// What it is.
    #[must_use]
    pub fn item(&self) -> Item {
        self.0
    }

    /// The shards that go with a dead segment or a previous generation, whose `record` this is: those that belong to the segment, and
    /// that `present`, what it is now, does not name. A dead segment has no present. `owner`: the segment that a shard belongs to.
    ///
    /// # Errors
    /// Those of `owner`.
    pub fn shards<E>(
        &self,
        record: &SegmentRecord,
        present: Option<&SegmentRecord>,
        mut owner: impl FnMut(ShardKey) -> Result<SegmentId, E>,
    ) -> Result<Vec<Removable>, E> {
        let (Item::Segment(segment) | Item::Generation(segment, _)) = self.0 else { return Ok(Vec::new()) };
        let mut shards = Vec::new();
        for (_, key, location) in record.located(segment) {
            let is_named = present.is_some_and(|present| present.has_at(segment, location.node, key));
            if !is_named && owner(key)? == segment {
                shards.push(Removable(Item::Shard(location.node, key)));
            }
        }
        Ok(shards)
    }
}

#[cfg(test)]
#[path = "removal_tests.rs"]
mod tests;
