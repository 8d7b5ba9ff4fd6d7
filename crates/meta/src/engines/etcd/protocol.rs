//! The messages of etcd's protocol (version 3, <https://etcd.io/docs/v3.4/dev-guide/api_reference_v3/>) that this program needs, with the
//! fields that it uses; numbers are the protocol's.

use prost::{Enumeration, Message, Oneof};

/// A key with its value.
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct KeyValue {
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    #[prost(int64, tag = "2")]
    pub create_revision: i64,
    #[prost(int64, tag = "3")]
    pub mod_revision: i64,
    #[prost(int64, tag = "4")]
    pub version: i64,
    #[prost(bytes = "vec", tag = "5")]
    pub value: Vec<u8>,
    #[prost(int64, tag = "6")]
    pub lease: i64,
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct Header {
    /// Of the store when the answer was made.
    #[prost(int64, tag = "3")]
    pub revision: i64,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct Range {
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    /// Empty: the key alone.
    #[prost(bytes = "vec", tag = "2")]
    pub range_end: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub limit: i64,
    /// 0: the newest.
    #[prost(int64, tag = "4")]
    pub revision: i64,
    /// 1: ascending, ...
    #[prost(int32, tag = "5")]
    pub sort_order: i32,
    /// ... 2: by the revision in which a key was made.
    #[prost(int32, tag = "6")]
    pub sort_target: i32,
    /// The asked member answers from what it has.
    #[prost(bool, tag = "7")]
    pub serializable: bool,
    #[prost(bool, tag = "8")]
    pub keys_only: bool,
}

impl Range {
    /// What is at a key.
    pub fn of(key: Vec<u8>) -> Self {
        Self { key, ..Self::default() }
    }

    /// The oldest first. The limit counts after that.
    pub fn oldest_first(self) -> Self {
        Self { sort_order: 1, sort_target: 2, ..self }
    }
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct Found {
    #[prost(message, optional, tag = "1")]
    pub header: Option<Header>,
    #[prost(message, repeated, tag = "2")]
    pub kvs: Vec<KeyValue>,
    /// There are more than the limit.
    #[prost(bool, tag = "3")]
    pub more: bool,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct Put {
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub value: Vec<u8>,
    /// The key goes with it; 0: with none.
    #[prost(int64, tag = "3")]
    pub lease: i64,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct Delete {
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    /// Empty: the key alone.
    #[prost(bytes = "vec", tag = "2")]
    pub range_end: Vec<u8>,
}

/// The answer to a change, of which nothing is read.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct Done {}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct Operation {
    #[prost(oneof = "Request", tags = "1, 2, 3, 4")]
    pub request: Option<Request>,
}

#[derive(Clone, PartialEq, Eq, Oneof)]
pub(super) enum Request {
    #[prost(message, tag = "1")]
    Range(Range),
    #[prost(message, tag = "2")]
    Put(Put),
    #[prost(message, tag = "3")]
    Delete(Delete),
    #[prost(message, tag = "4")]
    Transaction(Transaction),
}

impl From<Range> for Operation {
    fn from(range: Range) -> Self {
        Request::Range(range).into()
    }
}

impl From<Request> for Operation {
    fn from(request: Request) -> Self {
        Self { request: Some(request) }
    }
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct OperationAnswer {
    #[prost(oneof = "Answer", tags = "1, 2, 3, 4")]
    pub answer: Option<Answer>,
}

#[derive(Clone, PartialEq, Eq, Oneof)]
pub(super) enum Answer {
    #[prost(message, tag = "1")]
    Range(Found),
    #[prost(message, tag = "2")]
    Put(Done),
    #[prost(message, tag = "3")]
    Delete(Done),
    #[prost(message, tag = "4")]
    Transaction(Outcome),
}

/// How two things compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
#[repr(i32)]
pub(super) enum Relation {
    Equal = 0,
    Greater = 1,
}

/// What of a key is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
#[repr(i32)]
pub(super) enum Target {
    Version = 0,
    Create = 1,
    Mod = 2,
    Value = 3,
}

/// With a range it must hold of each key in it. A key that is missing has the numbers 0 and no value.
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct Compare {
    #[prost(enumeration = "Relation", tag = "1")]
    pub relation: i32,
    #[prost(enumeration = "Target", tag = "2")]
    pub target: i32,
    #[prost(bytes = "vec", tag = "3")]
    pub key: Vec<u8>,
    #[prost(oneof = "Than", tags = "4, 5, 6, 7")]
    pub than: Option<Than>,
    #[prost(bytes = "vec", tag = "64")]
    pub range_end: Vec<u8>,
}

#[derive(Clone, PartialEq, Eq, Oneof)]
pub(super) enum Than {
    #[prost(int64, tag = "4")]
    Version(i64),
    #[prost(int64, tag = "5")]
    Create(i64),
    #[prost(int64, tag = "6")]
    Mod(i64),
    #[prost(bytes, tag = "7")]
    Value(Vec<u8>),
}

impl Compare {
    /// Of a key, or of each key from it on before `range_end`.
    pub fn new(key: Vec<u8>, range_end: Vec<u8>, relation: Relation, than: Than) -> Self {
        let target = match than {
            Than::Version(_) => Target::Version,
            Than::Create(_) => Target::Create,
            Than::Mod(_) => Target::Mod,
            Than::Value(_) => Target::Value,
        };
        Self { relation: relation as i32, target: target as i32, key, than: Some(than), range_end }
    }

    pub fn is(key: Vec<u8>, than: Than) -> Self {
        Self::new(key, Vec::new(), Relation::Equal, than)
    }

    pub fn is_absent(key: Vec<u8>) -> Self {
        Self::is(key, Than::Create(0))
    }

    pub fn is_empty(key: Vec<u8>, range_end: Vec<u8>) -> Self {
        Self::new(key, range_end, Relation::Equal, Than::Create(0))
    }

    pub fn is_there(key: Vec<u8>) -> Self {
        Self::new(key, Vec::new(), Relation::Greater, Than::Version(0))
    }
}

/// Asks for the changes of a range of keys from now on.
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct WatchRange {
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub range_end: Vec<u8>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct Watch {
    #[prost(message, optional, tag = "1")]
    pub create: Option<WatchRange>,
}

/// A change. Of a removed row the value is empty.
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct Event {
    #[prost(message, optional, tag = "2")]
    pub row: Option<KeyValue>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct Watched {
    #[prost(bool, tag = "4")]
    pub is_canceled: bool,
    #[prost(string, tag = "6")]
    pub why: String,
    #[prost(message, repeated, tag = "11")]
    pub events: Vec<Event>,
}

/// If all comparisons hold, the first operations, else the others.
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct Transaction {
    #[prost(message, repeated, tag = "1")]
    pub compare: Vec<Compare>,
    #[prost(message, repeated, tag = "2")]
    pub success: Vec<Operation>,
    #[prost(message, repeated, tag = "3")]
    pub failure: Vec<Operation>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct Outcome {
    #[prost(message, optional, tag = "1")]
    pub header: Option<Header>,
    #[prost(bool, tag = "2")]
    pub succeeded: bool,
    #[prost(message, repeated, tag = "3")]
    pub answers: Vec<OperationAnswer>,
}

impl Outcome {
    pub fn revision(&self) -> i64 {
        self.header.unwrap_or_default().revision
    }

    /// The first row that each question found, in their order.
    pub fn rows(self) -> impl Iterator<Item = Option<KeyValue>> {
        self.found().map(|found| found.kvs.into_iter().next())
    }

    /// What each question found, in their order.
    pub fn found(self) -> impl Iterator<Item = Found> {
        self.answers.into_iter().filter_map(|answer| match answer.answer {
            Some(Answer::Range(found)) => Some(found),
            _ => None,
        })
    }
}

/// Forgets what was before a revision.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct Compaction {
    #[prost(int64, tag = "1")]
    pub revision: i64,
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct Grant {
    #[prost(int64, tag = "1")]
    pub seconds: i64,
    /// 0: the server chooses.
    #[prost(int64, tag = "2")]
    pub lease: i64,
}

/// Of a grant, a sign of life or a question.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct Granted {
    #[prost(int64, tag = "2")]
    pub lease: i64,
    /// Left; 0 or less: it is over.
    #[prost(int64, tag = "3")]
    pub seconds: i64,
    /// Of a question: at most.
    #[prost(int64, tag = "4")]
    pub granted_seconds: i64,
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct Lease {
    #[prost(int64, tag = "1")]
    pub lease: i64,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct Login {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub password: String,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct Token {
    #[prost(string, tag = "2")]
    pub token: String,
}
