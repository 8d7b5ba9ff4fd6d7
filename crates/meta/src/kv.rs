//! The engine's contract: a small ordered key-value store with snapshot reads and conditional commits.
//!
//! It is cut low on purpose: file-system logic is written once above it (`store/`), and an engine is a page of code that
//! passes `conformance.rs`.

/// Failures of an engine.
#[derive(Debug, thiserror::Error)]
pub enum KvError {
    /// A check of the batch did not hold: somebody else wrote first. Run the operation again on a new snapshot.
    #[error("the metadata changed under the operation; it must be tried again")]
    Conflict,
    /// No space left for metadata. Nothing of the batch was applied.
    #[error("the metadata store {store} has no space left; free some on its disk and try again")]
    Full {
        /// Path or URL of the store.
        store: String,
    },
    /// What is stored is not what was written. Nothing of a batch was applied.
    #[error(
        "the metadata store {store} is damaged: {detail}; `weft fsck` says how far it goes, and a backup brings back what was lost"
    )]
    Damaged {
        /// Path or URL of the store.
        store: String,
        /// What is wrong, and with which record where one is known.
        detail: String,
    },
    /// The store may be read and not written: it is a copy, or older than what was left here; the sentence says which, and the mend.
    #[error("{sentence}")]
    Displaced {
        /// All there is to say.
        sentence: String,
    },
    /// The engine failed. Nothing of the batch was applied, or (after a failed flush) the engine refuses further writes.
    #[error("the metadata store {store} failed: {detail}")]
    Failed {
        /// Path or URL of the store.
        store: String,
        /// What the engine says.
        detail: String,
    },
}

/// One key and its value.
pub type Pair = (Vec<u8>, Vec<u8>);

/// A consistent view of the whole store at one moment.
pub trait Snapshot {
    /// The value of `key`.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, KvError>;

    /// The values of several keys, in their order: one round trip where the engine has round trips.
    fn get_many(&self, keys: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>, KvError> {
        keys.iter().map(|key| self.get(key)).collect()
    }

    /// Up to `limit` pairs with `start <= key < end`, ascending.
    fn scan(&self, start: &[u8], end: &[u8], limit: usize) -> Result<Vec<Pair>, KvError>;
}

/// A conditional, atomic change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// Each key must still have this value (`None`: be absent) when the batch is applied.
    pub checks: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    /// Values to set, or to remove (`None`).
    pub writes: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

/// A range of keys that processes beside the owner change too (see [`crate::types::Access::Shared`]). All other keys are
/// the owner's alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedPrefix {
    /// Every key that begins with this.
    pub prefix: &'static [u8],
    /// Each key here names an id that is given out once and never again (a segment's, say), so nobody else can be making
    /// the key that the owner makes, and the owner need not wait until other processes know of it.
    pub fresh_ids: bool,
}

/// An ordered, transactional key-value engine.
pub trait Kv: Send + Sync {
    /// A view of everything committed so far through this engine, and at least everything that other processes had
    /// flushed when it was taken. Keep it short: an engine may hold resources while it lives.
    fn snapshot(&self) -> Result<Box<dyn Snapshot + '_>, KvError>;

    /// Applies the batch atomically if every check holds. On return it is visible to every later snapshot of this engine;
    /// it becomes durable, and visible to other processes, in commit order, at the latest by the next [`Kv::flush`].
    fn commit(&self, batch: Batch) -> Result<(), KvError>;

    /// The same for a batch that frees room, or that is needed to free some: an engine takes it when there is no space for others.
    fn commit_freeing(&self, batch: Batch) -> Result<(), KvError> {
        self.commit(batch)
    }

    /// Returns when everything committed before the call is durable. Concurrent calls share one physical flush.
    fn flush(&self) -> Result<(), KvError>;

    /// Flushes, and leaves the store as one that may be moved: for who will not write any more, and need not be dropped for it.
    fn close(&self) -> Result<(), KvError> {
        self.flush()
    }

    /// Reads all that is stored and compares it with its checksums: a clause for each fault, up to some number; empty where the
    /// engine finds none, or keeps nothing that could be damaged.
    fn verify(&self) -> Result<Vec<String>, KvError> {
        Ok(Vec::new())
    }
}
