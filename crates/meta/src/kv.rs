//! The engine's contract: a small ordered key-value store with snapshot reads and conditional commits.
//!
//! It is cut low on purpose: file-system logic is written once above it (`store/`), and an engine is a page of code that
//! passes `conformance.rs`.

use crate::deltas::{Delta, Directory};
use std::collections::BTreeSet;
use std::ops::Range;
use weft_env::sync::Receiver;

/// Failures of an engine.
#[derive(Clone, Debug, thiserror::Error)]
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

/// One key, and its value if it has one.
pub type Slot = (Vec<u8>, Option<Vec<u8>>);

/// A consistent view of the whole store at one moment.
pub trait Snapshot {
    /// The value of `key`.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, KvError>;

    /// The values of several keys, in their order: one round trip where the engine has round trips.
    fn get_many(&self, keys: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>, KvError> {
        keys.iter().map(|key| self.get(key)).collect()
    }

    /// Answers several things, and what is at the keys that their values name: one round trip where the engine can, two where it
    /// cannot follow a link by itself.
    fn fetch(&self, question: Question) -> Result<Answer, KvError> {
        fetch_by_parts(self, question)
    }

    /// Up to `limit` pairs with `start <= key < end`, ascending.
    fn scan(&self, start: &[u8], end: &[u8], limit: usize) -> Result<Vec<Pair>, KvError>;
}

/// The answer in two or three questions.
///
/// # Errors
/// Those of the questions.
pub(crate) fn fetch_by_parts<S: Snapshot + ?Sized>(snapshot: &S, question: Question) -> Result<Answer, KvError> {
    let (mut keys, links): (Vec<_>, Vec<_>) = question.keys.into_iter().map(|wanted| (wanted.key, wanted.link)).unzip();
    let mut values = snapshot.get_many(&keys)?;
    let named = |(link, value): (&Option<Link>, &Option<Vec<u8>>)| link.as_ref()?.of(value.as_deref()?);
    let linked: Vec<Vec<u8>> = links.iter().zip(&values).filter_map(named).collect();
    let Some(WantedRange { range, limit, link }) = question.range else {
        if !linked.is_empty() {
            values.extend(snapshot.get_many(&linked)?);
            keys.extend(linked);
        }
        return Ok(Answer { slots: keys.into_iter().zip(values).collect(), pairs: Vec::new() });
    };
    let pairs = snapshot.scan(&range.start, &range.end, limit)?;
    let of_range = pairs.iter().filter_map(|(_, value)| link.of(value));
    let mut found = snapshot.get_many(&linked.iter().cloned().chain(of_range).collect::<Vec<_>>())?.into_iter();
    values.extend(found.by_ref().take(linked.len()));
    keys.extend(linked);
    let mut join = |pair: Pair| {
        let value = link.of(&pair.1).and_then(|_| found.next().flatten());
        (pair, value)
    };
    let pairs = pairs.into_iter().map(&mut join).collect();
    Ok(Answer { slots: keys.into_iter().zip(values).collect(), pairs })
}

/// A key that is asked for, maybe with the key that its value names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The key.
    pub key: Vec<u8>,
    /// How its value names another.
    pub link: Option<Link>,
}

/// The first pairs of a range, each with what is at the key that its value names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedRange {
    /// From the start on, before the end.
    pub range: Range<Vec<u8>>,
    /// At most so many.
    pub limit: usize,
    /// How a value names another key.
    pub link: Link,
}

/// What is asked for in one go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Question {
    /// Keys.
    pub keys: Vec<Wanted>,
    /// A range.
    pub range: Option<WantedRange>,
}

/// What there is of it, at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Each key that was asked for, or was named by the value of one, with what it has; in any order.
    pub slots: Vec<Slot>,
    /// The pairs of the range, ascending, each with what is at the key that it names.
    pub pairs: Vec<(Pair, Option<Vec<u8>>)>,
}

/// How a value names a key: a table's first byte, then bytes of the value as they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// The table.
    pub table: u8,
    /// Where in the value the rest of the key is.
    pub at: Range<usize>,
}

impl Link {
    /// The key that `value` names; `None`: it is too short.
    #[must_use]
    pub fn of(&self, value: &[u8]) -> Option<Vec<u8>> {
        Some([&[self.table], value.get(self.at.clone())?].concat())
    }
}

/// What a scan found: the first `limit` pairs of the range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeCheck {
    /// Keys from the start on, before the end.
    pub range: Range<Vec<u8>>,
    /// At most so many were asked for.
    pub limit: usize,
    /// Those that there were.
    pub found: Vec<Pair>,
}

/// A conditional, atomic change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// Each key must still have this value (`None`: be absent) when the batch is applied.
    pub checks: Vec<Slot>,
    /// Each of these directories must still be what it was.
    pub directories: Vec<Directory>,
    /// Each of these ranges must still begin so. An engine that one store alone writes need not look, if nobody else changes these keys:
    /// a store runs what scans alone.
    pub ranges: Vec<RangeCheck>,
    /// Values to set, or to remove (`None`).
    pub writes: Vec<Slot>,
    /// Changes of what is there after that, each of another key that is not written. A key without a value is damage: one that may be
    /// missing is checked, too. So is a sum below zero, which an engine may notice when it is read.
    pub deltas: Vec<(Vec<u8>, Delta)>,
}

impl Batch {
    /// Does it change nothing?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty() && self.deltas.is_empty()
    }

    /// Does it change nothing and check nothing?
    #[must_use]
    pub fn asks_nothing(&self) -> bool {
        self.is_empty() && self.checks.is_empty() && self.directories.is_empty() && self.ranges.is_empty()
    }

    /// The keys that it depends on or changes, but for those of ranges.
    pub fn keys(&self) -> impl Iterator<Item = &Vec<u8>> {
        let checked = self.checks.iter().map(|(key, _)| key).chain(self.directories.iter().map(|check| &check.key));
        checked.chain(self.changed_keys())
    }

    /// The keys of these tables that it changes.
    pub fn changed_in(&self, tables: &[u8]) -> Vec<Vec<u8>> {
        self.changed_keys().filter(|key| key.first().is_some_and(|table| tables.contains(table))).cloned().collect()
    }

    /// The keys that it changes.
    pub fn changed_keys(&self) -> impl Iterator<Item = &Vec<u8>> {
        self.writes.iter().map(|(key, _)| key).chain(self.deltas.iter().map(|(key, _)| key))
    }
}

/// The largest commit of an engine, in what [`Kv::share_of_commit`] counts in.
pub const WHOLE_COMMIT: u64 = 1_000_000;

/// An ordered, transactional key-value engine.
pub trait Kv: Send + Sync {
    /// A view of everything committed so far through this engine, and at least everything that other processes had
    /// flushed when it was taken. All its answers are of one moment: that of the call, or one until the second question. Keep it short: an
    /// engine may hold resources while it lives. An engine that cannot keep to the moment answers [`KvError::Conflict`]: ask a new one.
    fn snapshot(&self) -> Result<Box<dyn Snapshot + '_>, KvError>;

    /// Applies the batch atomically if every check holds. On return it is visible to every later snapshot of this engine;
    /// it becomes durable, and visible to other processes, in commit order, at the latest by the next [`Kv::flush`].
    fn commit(&self, batch: Batch) -> Result<(), KvError>;

    /// The same for a batch that frees room, or that is needed to free some: an engine takes it when there is no space for others.
    fn commit_freeing(&self, batch: Batch) -> Result<(), KvError> {
        self.commit(batch)
    }

    /// How much of the largest commit that the engine takes this write needs, at most, in millionths; 0: commits may be of any size.
    fn share_of_commit(&self, key: &[u8], value: Option<&[u8]>) -> u64 {
        let _ = (key, value);
        0
    }

    /// No key is in the store that has its first nine bytes in common with `key`, and nobody but this process makes one: an engine on a server
    /// need not ask it for those that this process has not made.
    fn note_empty(&self, key: &[u8]) {
        let _ = key;
    }

    /// Returns when everything committed before the call is durable. Concurrent calls share one physical flush.
    fn flush(&self) -> Result<(), KvError>;

    /// Flushes, and leaves the store as one that may be moved: for who will not write any more, and need not be dropped for it.
    fn close(&self) -> Result<(), KvError> {
        self.flush()
    }

    /// The processes that change the store together; `None`: the engine has none but the owner.
    fn sessions(&self) -> Option<&dyn Sessions> {
        None
    }

    /// What it can say of its past; `None`: nothing, so no replica of it can be kept.
    fn history(&self) -> Option<&dyn History> {
        None
    }

    /// Reads all that is stored and compares it with its checksums: a clause for each fault, up to some number; empty where the
    /// engine finds none, or keeps nothing that could be damaged. `progress` gets the number of records read so far, and at the end of all.
    fn verify(&self, progress: &mut dyn FnMut(u64)) -> Result<Vec<String>, KvError> {
        let _ = progress;
        Ok(Vec::new())
    }
}

/// The processes that change one store together. Each has a session until it leaves, or others see that it gives no sign of life. From then
/// on the engine refuses what it tries to commit. Numbers of sessions are positive, and none is given out twice.
pub trait Sessions: Send + Sync {
    /// This process's.
    ///
    /// # Errors
    /// Those of the engine: it is over, for example.
    fn own(&self) -> Result<i64, KvError>;

    /// Those of all that change names now. One that was known before and is not among them has ended.
    ///
    /// # Errors
    /// Those of the engine.
    fn members(&self) -> Result<BTreeSet<i64>, KvError>;

    /// Returns if nobody else can have taken this process's place yet. The engine asks where it has not heard for a while.
    ///
    /// # Errors
    /// [`KvError::Displaced`]: somebody has; others of the engine.
    fn make_sure(&self) -> Result<(), KvError> {
        self.own().map(drop)
    }

    /// Keys that others of them change in tables with these first bytes, some milliseconds after each commit. It ends with the store.
    /// Nothing is promised: who listens must find out by time, too. `None`: the engine has no such feed. Asked for once.
    fn changes(&self, tables: &'static [u8]) -> Option<Receiver<ChangedKeys>> {
        let _ = tables;
        None
    }
}

/// Keys that some commits have changed.
pub type ChangedKeys = Vec<Vec<u8>>;

/// What some transactions changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changes {
    /// The last of them, and the moment of the values.
    pub upto: u64,
    /// The changed keys, ascending.
    pub slots: Vec<Slot>,
}

/// A part of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The last transaction before it was read.
    pub upto: u64,
    /// Pairs, ascending.
    pub pairs: Vec<Pair>,
    /// Where the next page starts; `None`: there is none.
    pub next: Option<Vec<u8>>,
}

/// What an engine can say of its past: what a replica of the store is made of.
///
/// Transactions of a store are numbered from 1 on. The numbers are of one *lineage*: a copy of a store has another. A replica is a copy of
/// the store's pairs, read page by page while the store changes, and then the changes since the first page was read:
///
/// ```text
/// after = last(); page, page, ..., page of the last key at transaction upto
/// changes_after(after): the values of all changed keys at a moment from upto on -> together the store at that moment
/// ```
///
/// It is of what is durable in the store: what only a memory or a log of the owner has comes within a tenth of a second.
pub trait History: Send + Sync {
    /// Whose transactions are counted.
    ///
    /// # Errors
    /// Those of the engine; so with the others.
    fn lineage(&self) -> Result<u64, KvError>;

    /// The last transaction.
    fn last(&self) -> Result<u64, KvError>;

    /// The last transaction before an owner's first one, which may be of opening alone; `None`: this process is no owner, or opening changes nothing.
    fn entered_at(&self) -> Option<u64> {
        None
    }

    /// What transactions after this one changed; `None`: more than `keys_max` keys, or some of it is forgotten.
    fn changes_after(&self, after: u64, keys_max: usize) -> Result<Option<Changes>, KvError>;

    /// The pairs from `start` on, until they have `bytes_max` bytes.
    fn page(&self, start: &[u8], bytes_max: usize) -> Result<Page, KvError>;

    /// Waits until what was committed through this engine is in the store, and counted.
    fn settle(&self) -> Result<(), KvError>;

    /// Nobody will ask for changes after an earlier transaction than this one.
    fn forget(&self, upto: u64) -> Result<(), KvError>;
}
