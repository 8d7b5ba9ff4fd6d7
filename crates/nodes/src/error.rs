//! What can go wrong with a node, as kind x node x operation, so that callers decide by kind and people read a sentence.

/// What a failure means to the caller. *Unknown is not absent*: only `NotFound` says that a shard is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NodeErrorKind {
    /// The node is up and is the right one, and it has no such shard. The only positive answer among these.
    NotFound,
    /// A shard of this name exists already with other bytes; names are never used twice, so this is a mistake.
    Exists,
    /// The node cannot be asked now: its folder is gone, it is silent, it refuses. Nothing is known of its shards.
    Unavailable,
    /// The disk that the node was on is there, and the node was deleted from it: what it held is lost, and a new node may be made
    /// there.
    Wiped,
    /// Something answers in the node's place, but it is another node, or a node of another volume.
    WrongNode,
    /// No space left, or no quota.
    Full,
    /// Permission refused.
    Denied,
    /// The bytes that came back are not what was stored.
    Corrupt,
    /// The deadline passed, or the connection ended before an answer began. What was asked may have been done.
    TimedOut,
    /// It has too much to do now, and is well: ask others, and this one later.
    Busy,
    /// The node cannot do this, or not so much of it at once.
    Unsupported,
    /// Anything else the device or the network reports (EIO and the like).
    Io,
}

impl NodeErrorKind {
    /// May the same call succeed if made again soon, unchanged?
    pub fn is_transient(self) -> bool {
        matches!(self, Self::Unavailable | Self::TimedOut | Self::Busy | Self::Io)
    }
}

/// A failed call to a node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("node {node}: {detail}")]
pub struct NodeError {
    /// What it means.
    pub kind: NodeErrorKind,
    /// The node's name, as the user knows it.
    pub node: String,
    /// One clause that names the thing and, where there is one, the mend.
    pub detail: String,
}

impl NodeError {
    /// A failure of `node`; `detail` is one clause that names the thing and, where there is one, the mend.
    pub fn new(kind: NodeErrorKind, node: &str, detail: impl Into<String>) -> Self {
        Self { kind, node: node.to_owned(), detail: detail.into() }
    }

    /// What a node's record has in place of its secret is none.
    pub fn damaged_secret(node: &str) -> Self {
        Self::new(NodeErrorKind::Denied, node, "its key is damaged: give it again (weft node replace)")
    }
}
