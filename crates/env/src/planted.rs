//! Bugs that a simulator switches on, to see that it finds them. A program without the feature `planted` has none of them.
//!
//! Each takes one mechanism away that keeps a promise. A mechanism without which nothing goes wrong is not needed, or the simulator has a
//! hole.

use std::cell::Cell;

thread_local! {
    static PLANTED: Cell<Option<Planted>> = Cell::new(of_environment());
}

/// A process of `weft-sim chaos`, or of `weft-sim replay`, gets its bug from the variable `WEFT_PLANTED`, if it is built with the feature.
fn of_environment() -> Option<Planted> {
    let name = if cfg!(feature = "planted") { std::env::var("WEFT_PLANTED").ok()? } else { return None };
    Planted::OF_VOLUME
        .into_iter()
        .chain(Planted::OF_MOUNTS)
        .chain(Planted::OF_ENGINE)
        .chain(Planted::OF_OBJECTS)
        .chain(Planted::OF_HTTP)
        .find(|bug| format!("{bug:?}") == name)
}

/// A bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// fsync answers before the bytes are safe.
    EarlyFsync,
    /// fsync puts bytes into the journal and does not wait until that is durable.
    UnflushedFsync,
    /// A file takes another's name before its own bytes are safe.
    RenameBeforeBytes,
    /// Uploads of one file are committed in any order.
    CommitsOutOfOrder,
    /// A file's end is committed before what lies before it, where the upload of that failed.
    EndBeforeBeginning,
    /// What the journal held is not taken over at the next mount.
    JournalNotReplayed,
    /// The journal drops a page when some of its bytes are in a segment.
    JournalDroppedEarly,
    /// A segment is committed when its first shard is stored.
    MetadataBeforeShards,
    /// The collector takes a writer of whom nothing is heard for one that has ended.
    CollectorTrustsSilence,
    /// The collector removes a shard when it sees for the first time that nothing names it.
    OrphanInOneLook,
    /// A worker that has lost its lease replaces what others have made since.
    LateWriter,
    /// Two attempts to store a shard use one name, and the one that is too late removes what it stored.
    NameUsedTwice,
    /// A conversion takes shards of the former code for those of the new one.
    GenerationsMixed,
    /// A repair stores a shard where another of the segment is.
    RepairLowersRedundancy,
    /// Where a file's bytes are is not looked up again after they moved.
    CacheNotRevalidated,
    /// A metadata operation that met another is applied by both of its attempts.
    RetryAppliedTwice,
    /// What a file no longer refers to is counted as in use.
    CounterDrifting,
    /// A call to a node that never answers never ends.
    EndlessCalls,
    /// A node leaves the volume while an upload is on its way to it.
    NodeLeavesEarly,
    /// A full node is taken for one that is away, and written around.
    FullTakenForAway,
    /// Nodes are not asked whether they know newer metadata.
    OlderCopyChanges,
    /// What waits for the metadata's replica is answered before nodes have it.
    ReplicaToldEarly,
    /// A snapshot of the metadata is taken for one of the moment at which its last part was read.
    SnapshotDropsChanges,
    /// Metadata is rebuilt from what an older opening stored on the nodes.
    OlderOpeningRecovered,

    /// What is known of an open file counts until the feed says that another mount has changed it, and the feed may say nothing.
    FeedBelieved,

    /// The writer changes the file under views that have no read transaction.
    ViewNotPinned,
    /// A view puts what it has read into the cache when the file has something newer.
    CacheFilledLate,
    /// What is pending is forgotten before the cache has it.
    FrozenForgottenEarly,
    /// A commit looks at its checks once, and not again when it has the lock.
    CheckedOnce,
    /// A commit does not wait for a batch of the same keys that is being written through.
    KeysNotHeld,
    /// A batch that is written through is answered before the file has it.
    AnsweredEarly,
    /// A flush is acknowledged when the writer begins.
    FiledEarly,
    /// A record of the intent log is acknowledged before it is synced.
    RecordNotSynced,
    /// A half of the intent log begins before the other is synced.
    HalvesUnordered,
    /// A half of the intent log is used again before the file has it.
    HalfUsedEarly,
    /// What is filed was not logged before.
    FiledUnlogged,
    /// Records that a dead owner has left are not filed.
    RecordsNotFiled,
    /// The witness names a record before it is synced.
    WitnessAhead,
    /// A transaction of SQLite ends before its log is synced.
    TransactionNotSynced,
    /// The intent log is emptied before SQLite's log is synced.
    LogCutEarly,

    /// A version of an object is as late as its client's clock says, whatever was there before.
    VersionByClock,
    /// A put is answered when one member has its record.
    PutToldEarly,
    /// A put counts members that took the record, also those that have lost their shard since.
    MembersCounted,
    /// What is left of an upload is removed, and nothing is kept that refuses the rest of it.
    GiveUpForgotten,
    /// The record of a removal goes after a while, like that of an older version, and is compared with nobody.
    RemovalForgotten,
    /// An older version goes before the newer one has enough shards.
    OlderGoneEarly,
    /// Of two copies of a shard each member takes the other's for the one that stays, and does not read it.
    CopiesOfEachOther,
    /// Two shards of a segment that came to lie at one member stay there.
    TwoAtOneMember,

    /// A daemon answers a put before its node has the shard.
    PutAnsweredEarly,
    /// A user of a daemon takes an answer that the node's key does not prove.
    AnswerUnproved,
    /// A user of a daemon takes the answer of another node for that of its own.
    AnyNodeAnswers,
    /// A daemon does a signed request however old it is.
    LateRequestDone,
}

impl Planted {
    /// Those that histories of a whole volume show.
    pub const OF_VOLUME: [Planted; 24] = [
        Self::EarlyFsync,
        Self::UnflushedFsync,
        Self::RenameBeforeBytes,
        Self::CommitsOutOfOrder,
        Self::JournalNotReplayed,
        Self::JournalDroppedEarly,
        Self::MetadataBeforeShards,
        Self::CollectorTrustsSilence,
        Self::OrphanInOneLook,
        Self::LateWriter,
        Self::NameUsedTwice,
        Self::GenerationsMixed,
        Self::RepairLowersRedundancy,
        Self::CacheNotRevalidated,
        Self::RetryAppliedTwice,
        Self::CounterDrifting,
        Self::EndlessCalls,
        Self::NodeLeavesEarly,
        Self::EndBeforeBeginning,
        Self::FullTakenForAway,
        Self::OlderCopyChanges,
        Self::ReplicaToldEarly,
        Self::SnapshotDropsChanges,
        Self::OlderOpeningRecovered,
    ];
    /// Those that histories of several mounts with care show. The others of a volume need what these histories do not have.
    pub const OF_MOUNTS: [Planted; 9] = [
        Self::FeedBelieved,
        Self::CacheNotRevalidated,
        Self::CounterDrifting,
        Self::EarlyFsync,
        Self::FullTakenForAway,
        Self::MetadataBeforeShards,
        Self::RetryAppliedTwice,
        Self::OrphanInOneLook,
        Self::NodeLeavesEarly,
    ];
    /// Those that histories of the SQLite engine show.
    pub const OF_ENGINE: [Planted; 15] = [
        Self::ViewNotPinned,
        Self::CacheFilledLate,
        Self::FrozenForgottenEarly,
        Self::CheckedOnce,
        Self::KeysNotHeld,
        Self::AnsweredEarly,
        Self::FiledEarly,
        Self::RecordNotSynced,
        Self::HalvesUnordered,
        Self::HalfUsedEarly,
        Self::FiledUnlogged,
        Self::RecordsNotFiled,
        Self::WitnessAhead,
        Self::TransactionNotSynced,
        Self::LogCutEarly,
    ];
    /// Those that histories of a store of objects show.
    pub const OF_OBJECTS: [Planted; 8] = [
        Self::VersionByClock,
        Self::PutToldEarly,
        Self::MembersCounted,
        Self::GiveUpForgotten,
        Self::RemovalForgotten,
        Self::OlderGoneEarly,
        Self::CopiesOfEachOther,
        Self::TwoAtOneMember,
    ];
    /// Those that histories show in which nodes are reached over HTTP.
    pub const OF_HTTP: [Planted; 4] =
        [Self::PutAnsweredEarly, Self::AnswerUnproved, Self::AnyNodeAnswers, Self::LateRequestDone];
}

/// Has a simulator switched this bug on?
#[inline]
#[must_use]
pub fn has_planted(bug: Planted) -> bool {
    cfg!(feature = "planted") && PLANTED.get() == Some(bug)
}

/// Does `work` with the bug in the calling thread, whatever the environment says. After it there is none.
pub fn with_planted<T>(bug: Planted, work: impl FnOnce() -> T) -> T {
    PLANTED.set(Some(bug));
    let result = work();
    PLANTED.set(None);
    result
}
