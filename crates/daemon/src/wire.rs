//! What crosses the wire, as values: requests, errors, headers. Pure.
//!
//! ```text
//! PUT    /shards/<key>                   a shard object; stored durably when answered
//! GET    /shards/<key>   Range: bytes=   bytes of it
//! GET    /shards/<key>?stat              its length and age
//! POST   /shards/<key>?combine           linear combinations of parts of it, with what another node is to add to them
//! DELETE /shards/<key>                   removes it durably
//! GET    /shards?after=<key>&limit=<n>   keys, ascending
//! POST   /short-circuit                     where open files of shards can be had, on the same machine
//! GET    /space, GET /identity           room; who the node is
//! PUT    /identity                       makes a place without an owner into this node
//! GET    /metrics                        counters for Prometheus
//! POST   /gossip                         a packet for the daemon's gossip; signed with the cluster's key
//! POST   /objects                        a question of an object store; signed with the cluster's key
//! GET    /members                        which daemons it knows; signed with the cluster's key, or the node's for its volume
//! ```

use bytes::Bytes;
use hyper::{Method, StatusCode};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use weft_cluster::gossip::Heard;
use weft_codes::{Matrix, Op, Program};
use weft_format::ShardKey;
use weft_nodes::combine::{Combination, Part};
use weft_nodes::error::{NodeError, NodeErrorKind};
use weft_nodes::node::NodeIdentity;

/// Which node answers, and which one is asked where no signature says it: `<volume>/<node>`.
pub(super) const NODE_HEADER: &str = "weft-node";
/// Name of an error's kind: an answer without it that is no success does not come from a node.
pub(super) const ERROR_HEADER: &str = "weft-error";
/// For whom: [`BACKGROUND`], or else somebody who waits.
pub(super) const CLASS_HEADER: &str = "weft-class";
pub(super) const BACKGROUND: &str = "background";
/// What the asker may do, where that is not everything; the request is signed with the grant's key.
pub(super) const GRANT_HEADER: &str = "weft-grant";
/// BLAKE3 of the request's body.
pub(super) const DIGEST_HEADER: &str = "weft-digest";
/// MAC of the answer.
pub(super) const PROOF_HEADER: &str = "weft-proof";
/// Under which addresses users reach the daemon, `host:port,...`, if there are several.
pub(super) const ADDRESSES_HEADER: &str = "weft-addresses";
/// MAC of these.
pub(super) const ADDRESSES_PROOF_HEADER: &str = "weft-addresses-proof";

pub(super) use weft_nodes::node::SHARD_BYTES_MAX;

/// A combination as text: the largest that there can be, with some room.
pub(super) const COMBINATION_BYTES_MAX: u64 = 4 << 20;

/// A question of an object store: a name, or a branch of a tree.
pub(super) const QUESTION_BYTES_MAX: u64 = 64 << 10;

/// Keys in one page.
pub(super) const PAGE_KEYS_MAX: usize = 10_000;

/// A request that makes sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Call {
    Put(ShardKey),
    Get(ShardKey, Range<u64>),
    Stat(ShardKey),
    Combine(ShardKey),
    Remove(ShardKey),
    List { after: Option<ShardKey>, limit: usize },
    Space,
    Identity,
    Claim,
    ShortCircuit,
    Metrics,
    Gossip,
    Members,
    Objects,
}

impl Call {
    /// What is asked; `Err` says why that cannot be asked.
    pub(super) fn parse(method: &Method, path: &str, query: Option<&str>, range: Option<&str>) -> Result<Self, String> {
        let not_known = || format!("{method} {path:.80} is nothing that a node can be asked");
        let call = match (method, path) {
            (&Method::GET, "/shards") => return list(query.unwrap_or_default()),
            (&Method::GET, "/space") => Call::Space,
            (&Method::GET, "/identity") => Call::Identity,
            (&Method::PUT, "/identity") => Call::Claim,
            (&Method::POST, "/short-circuit") => Call::ShortCircuit,
            (&Method::GET, "/metrics") => Call::Metrics,
            (&Method::POST, "/gossip") => Call::Gossip,
            (&Method::GET, "/members") => Call::Members,
            (&Method::POST, "/objects") => Call::Objects,
            (method, path) => {
                let name = path.strip_prefix("/shards/").ok_or_else(not_known)?;
                // Only the one way of writing a key is taken, so nothing of a path reaches the store.
                let key: ShardKey = name.parse().map_err(|error| format!("{error}"))?;
                match *method {
                    Method::GET if query == Some("stat") => return Ok(Call::Stat(key)),
                    Method::POST if query == Some("combine") => return Ok(Call::Combine(key)),
                    Method::PUT => Call::Put(key),
                    Method::GET => Call::Get(key, range.map_or(Ok(0..u64::MAX), parse_range)?),
                    Method::DELETE => Call::Remove(key),
                    _ => return Err(not_known()),
                }
            }
        };
        if query.is_some() {
            return Err(format!("{path:.80} takes no request mark"));
        }
        Ok(call)
    }

    /// Name for counters.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Call::Put(_) => "put",
            Call::Get(..) => "get",
            Call::Stat(_) => "stat",
            Call::Combine(_) => "combine",
            Call::Remove(_) => "remove",
            Call::List { .. } => "list",
            Call::Space => "space",
            Call::Identity => "identity",
            Call::Claim => "claim",
            Call::ShortCircuit => "short-circuit",
            Call::Metrics => "metrics",
            Call::Gossip => "gossip",
            Call::Members => "members",
            Call::Objects => "objects",
        }
    }
}

fn list(query: &str) -> Result<Call, String> {
    let (mut after, mut limit) = (None, None);
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("after", key)) if after.is_none() => after = Some(key.parse().map_err(|error| format!("{error}"))?),
            Some(("limit", count)) if limit.is_none() => limit = Some(number(count).ok_or("limit is a number")?),
            _ => return Err("a listing is asked by after=<key> and limit=<number>".to_owned()),
        }
    }
    let limit = limit.map_or(PAGE_KEYS_MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    Ok(Call::List { after, limit: limit.min(PAGE_KEYS_MAX) })
}

/// What [`NODE_HEADER`] says of a node.
pub(super) fn node_text(identity: NodeIdentity) -> String {
    format!("{}/{}", identity.volume, identity.node)
}

/// The inverse of [`node_text`].
pub(super) fn node_of(text: &str) -> Option<NodeIdentity> {
    let (volume, node) = text.split_once('/')?;
    Some(NodeIdentity { volume: volume.parse().ok()?, node: node.parse().ok()? })
}

/// The range header for these bytes, which must be some.
pub(super) fn range_header(range: &Range<u64>) -> String {
    match range.end {
        u64::MAX => format!("bytes={}-", range.start),
        end => format!("bytes={}-{}", range.start, end - 1),
    }
}

fn parse_range(text: &str) -> Result<Range<u64>, String> {
    let parse = || {
        let (start, last) = text.strip_prefix("bytes=")?.split_once('-')?;
        let end = if last.is_empty() { u64::MAX } else { number(last)?.checked_add(1)? };
        let start = number(start)?;
        (start < end).then_some(start..end)
    };
    parse().ok_or_else(|| "a range is written bytes=FIRST-LAST or bytes=FIRST-, one at a time".to_owned())
}

/// Plain digits.
fn number(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// An error's body.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ErrorBody {
    pub(super) detail: String,
}

/// A page of keys.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct PageBody {
    pub(super) keys: Vec<String>,
    pub(super) foreign: Vec<String>,
    pub(super) more: bool,
}

/// Length and age of a shard.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct StatBody {
    pub(super) bytes: u64,
    pub(super) modified_ms: u64,
}

/// Room.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SpaceBody {
    pub(super) total_bytes: u64,
    pub(super) free_bytes: u64,
}

/// Where open files of shards can be had, and what shows that one may have them.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ShortCircuitBody {
    pub(super) socket: String,
    pub(super) ticket: String,
}

/// Who is there, as far as a daemon knows; itself first.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct MembersBody {
    pub(super) members: Vec<Heard>,
}

/// A combination as it is asked for.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CombinationBody {
    payload_bytes: u64,
    input_count: usize,
    output_count: usize,
    temporary_count: usize,
    ops: Vec<OpBody>,
    parts: Vec<PartBody>,
    /// What is to be added; the body for that follows this text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    onward: Option<OnwardBody>,
}

/// The request that brings what is to be added, without its body.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OnwardBody {
    pub(super) url: String,
    pub(super) volume: String,
    pub(super) node: String,
    pub(super) shard: String,
    pub(super) in_background: bool,
    /// Its authorization, signed by whoever asks for all.
    pub(super) proof: Option<String>,
    pub(super) timeout_ms: u64,
    pub(super) body_bytes: u64,
}

/// One operation, on symbols by number: inputs, outputs and temporaries in turn.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
enum OpBody {
    Copy { from: usize, to: usize },
    Xor { from: Vec<usize>, to: usize },
    Dot { from: Vec<usize>, to: Vec<usize>, rows: Vec<Vec<u8>> },
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PartBody {
    starts: Vec<u64>,
    bytes: u32,
}

impl CombinationBody {
    fn of(combination: &Combination, onward: Option<OnwardBody>) -> Self {
        let op = |op: &Op| match op {
            Op::Copy { from, to } => OpBody::Copy { from: *from, to: *to },
            Op::Xor { from, to } => OpBody::Xor { from: from.clone(), to: *to },
            Op::Dot { from, to, coefficients } => {
                let rows = (0..coefficients.rows()).map(|row| coefficients.row(row).to_vec()).collect();
                OpBody::Dot { from: from.clone(), to: to.clone(), rows }
            }
        };
        let Program { input_count, output_count, temporary_count, ref ops } = combination.program;
        let parts = combination.parts.iter().map(|part| PartBody { starts: part.starts.clone(), bytes: part.bytes });
        Self {
            payload_bytes: combination.payload_bytes,
            input_count,
            output_count,
            temporary_count,
            ops: ops.iter().map(op).collect(),
            parts: parts.collect(),
            onward,
        }
    }

    /// The body of a request for `combination`, and for `onward`, a head and a body, added to it.
    pub(super) fn encode(combination: &Combination, onward: Option<(OnwardBody, &Bytes)>) -> Bytes {
        let (onward, onward_body) = onward.map_or((None, &[][..]), |(head, body)| (Some(head), body));
        let mut body = serde_json::to_vec(&Self::of(combination, onward)).expect("numbers and strings are JSON");
        body.extend_from_slice(onward_body);
        body.into()
    }

    /// The inverse of [`Self::encode`]: what is asked for, unchecked, the head of what is to be added, and its body. `Err` says what is wrong.
    pub(super) fn decode(body: &Bytes) -> Result<(Combination, Option<OnwardBody>, Bytes), String> {
        let mut texts = serde_json::Deserializer::from_slice(body).into_iter::<Self>();
        let head = texts.next().ok_or("no combination: the body is empty")?;
        let mut head = head.map_err(|error| format!("no combination: {error}"))?;
        let (onward, rest) = (head.onward.take(), body.slice(texts.byte_offset()..));
        if rest.len() as u64 != onward.as_ref().map_or(0, |onward| onward.body_bytes) {
            return Err("the body goes on behind the combination".to_owned());
        }
        Ok((head.combination().ok_or("a matrix has rows of several lengths")?, onward, rest))
    }

    /// What it asks for, unchecked; none where the rows of a matrix differ in length.
    fn combination(self) -> Option<Combination> {
        let op = |op| match op {
            OpBody::Copy { from, to } => Some(Op::Copy { from, to }),
            OpBody::Xor { from, to } => Some(Op::Xor { from, to }),
            OpBody::Dot { from, to, rows } => {
                let coefficients = Matrix::from_rows(from.len(), &rows)?;
                Some(Op::Dot { from, to, coefficients })
            }
        };
        let Self { input_count, output_count, temporary_count, .. } = self;
        let ops = self.ops.into_iter().map(op).collect::<Option<_>>()?;
        let parts = self.parts.into_iter().map(|PartBody { starts, bytes }| Part { starts, bytes }).collect();
        let program = Program { input_count, output_count, temporary_count, ops };
        Some(Combination { payload_bytes: self.payload_bytes, program, parts })
    }
}

/// The one kind after which to ask again is said.
pub(super) const BUSY: &str = "busy";

/// Kinds of errors as they are called on the wire, and with which status they come.
const KINDS: [(NodeErrorKind, &str, StatusCode); 12] = [
    (NodeErrorKind::NotFound, "not-found", StatusCode::NOT_FOUND),
    (NodeErrorKind::Exists, "exists", StatusCode::CONFLICT),
    (NodeErrorKind::Unavailable, "unavailable", StatusCode::SERVICE_UNAVAILABLE),
    (NodeErrorKind::Wiped, "wiped", StatusCode::GONE),
    (NodeErrorKind::WrongNode, "wrong-node", StatusCode::MISDIRECTED_REQUEST),
    (NodeErrorKind::Full, "full", StatusCode::INSUFFICIENT_STORAGE),
    (NodeErrorKind::Denied, "denied", StatusCode::FORBIDDEN),
    (NodeErrorKind::Corrupt, "corrupt", StatusCode::INTERNAL_SERVER_ERROR),
    (NodeErrorKind::TimedOut, "timed-out", StatusCode::GATEWAY_TIMEOUT),
    (NodeErrorKind::Busy, BUSY, StatusCode::SERVICE_UNAVAILABLE),
    (NodeErrorKind::Unsupported, "unsupported", StatusCode::NOT_IMPLEMENTED),
    (NodeErrorKind::Io, "io", StatusCode::INTERNAL_SERVER_ERROR),
];

/// What an error's kind is called, and its status.
pub(super) fn kind_name(kind: NodeErrorKind) -> (&'static str, StatusCode) {
    let found = KINDS.iter().find(|(known, ..)| *known == kind);
    found.map_or(("io", StatusCode::INTERNAL_SERVER_ERROR), |(_, name, status)| (name, *status))
}

/// The kind that is called so, with the status that goes with it.
pub(super) fn kind_of(name: &str, status: StatusCode) -> Option<NodeErrorKind> {
    KINDS.iter().find(|(_, known, of_kind)| *known == name && *of_kind == status).map(|(kind, ..)| *kind)
}

/// The error where `name` is to become node `wanted` and is `own`.
pub(super) fn already_a_node(name: &str, own: NodeIdentity, wanted: NodeIdentity) -> NodeError {
    if own.volume == wanted.volume {
        let detail = format!("{name} is node {} of this volume already: give another place", own.node);
        NodeError::new(NodeErrorKind::Exists, name, detail)
    } else {
        let detail = format!("{name} is a node of volume {}: give another place", own.volume);
        NodeError::new(NodeErrorKind::WrongNode, name, detail)
    }
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
