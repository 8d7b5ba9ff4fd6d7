//! Requests to a daemon with keys that is a member of an object store.

use super::{IDENTITY, Kept, converse, gossips, object, wait};
use crate::auth::{Asked, Key, Proof};
use crate::grant::Grant;
use crate::objects::ObjectHost;
use crate::server::Daemon;
use crate::wire::{CLASS_HEADER, DIGEST_HEADER, GRANT_HEADER};
use bytes::Bytes;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use weft_env::{Clock, Env, Sleep, SystemClock};
use weft_format::records::{ObjectRecord, Stamp, data_segment, name_hash, record_key};
use weft_format::{Generation, NodeIdentity, ShardIndex, ShardKey};
use weft_nodes::memory::{ABOUT, MemoryNode};
use weft_nodes::{Kinds, Node, NodeError, NodeUrl};

const NOW_MS: u64 = 1_700_000_000_000;
const NAME: &str = "run/7";
const STAMP: Stamp = Stamp(9);

/// A node as a member, as others store there, and what answers them.
pub type Member = (Arc<dyn Node>, Arc<dyn ObjectHost>);

/// What makes one: members are not this crate's.
pub type MakeMember =
    fn(NodeIdentity, Arc<dyn Node>) -> Pin<Box<dyn Future<Output = Result<Member, NodeError>> + Send>>;

/// The runtime's time, on a day that is always the same: signatures have the time in them.
struct SameDay;

impl Clock for SameDay {
    fn now(&self) -> Instant {
        SystemClock.now()
    }

    fn unix_time(&self) -> Duration {
        Duration::from_millis(NOW_MS)
    }

    fn sleep_until(&self, moment: Instant) -> Sleep {
        SystemClock.sleep_until(moment)
    }

    fn block(&self, time: Duration) {
        SystemClock.block(time);
    }
}

/// With whose key a request is signed here, by its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Signed {
    Not,
    ByUser,
    ByMember,
    /// With that of the grant that it shows.
    ByGrantee,
}

impl Signed {
    fn by(what: u8) -> Self {
        [Self::Not, Self::ByUser, Self::ByMember, Self::ByGrantee][usize::from(what % 4)]
    }
}

fn node_key() -> Key {
    Key::new([7; 32])
}

fn cluster_key() -> Key {
    Key::new([8; 32])
}

/// A request, after a byte that says with which key it is signed. Without a signature nothing is done, and who signs gets a proof.
pub fn member_request(bytes: &[u8], member: MakeMember) {
    let answers = member_answers_to(bytes, member);
    assert!(answers.is_empty() || answers.starts_with(b"HTTP/1."), "it speaks HTTP");
    if answers.starts_with(b"HTTP/1.1 2") {
        assert_ne!(bytes.first().map(|what| Signed::by(*what)), Some(Signed::Not), "it was not signed");
        let proof = b"weft-proof: ";
        assert!(answers.windows(proof.len()).any(|part| part == proof), "what is done is proved");
    }
}

/// What the daemon says to it.
#[must_use]
pub fn member_answers_to(bytes: &[u8], member: MakeMember) -> Vec<u8> {
    let Some((what, request)) = bytes.split_first() else { return Vec::new() };
    let request = signed(Signed::by(*what), request).unwrap_or_else(|| request.to_vec());
    wait(async {
        let env = Env { clock: Arc::new(SameDay), ..Env::seeded(1) };
        let node = MemoryNode::new("memory", IDENTITY, 1 << 20).that_combines();
        node.put(data_shard(), &[object()]).await.expect("there is room");
        let (key, record) = record(STAMP);
        node.put(key, &[record]).await.expect("there is room");
        let node: Arc<MemoryNode> = Arc::new(node);
        let kinds = Kinds::new(vec![Arc::new(Kept(node.clone()))]);
        let place = NodeUrl::elsewhere(ABOUT.name, "memory://x".to_owned());
        let (node, host) = member(IDENTITY, node).await.expect("its node is in memory");
        let daemon = Daemon::open(kinds, place, Some(node_key()), &env).expect("it is there");
        let daemon = daemon.with_gossip(gossips(Some(cluster_key()))).with_objects(node, host);
        converse(daemon, &env, &request).await
    })
}

fn data_shard() -> ShardKey {
    ShardKey { segment: data_segment(name_hash(NAME), STAMP, 0), generation: Generation::FIRST, index: ShardIndex(0) }
}

/// The record of a version, and its name.
fn record(stamp: Stamp) -> (ShardKey, Bytes) {
    let key = record_key(name_hash(NAME), stamp);
    let record = ObjectRecord { name: NAME.to_owned(), ..ObjectRecord::given_up(stamp) };
    (key, record.seal(IDENTITY.volume, key).expect("it is small"))
}

/// The same with a signature; `None`: it has no head.
fn signed(by: Signed, request: &[u8]) -> Option<Vec<u8>> {
    let end = request.windows(4).position(|end| end == b"\r\n\r\n")?;
    let (head, body) = (str::from_utf8(&request[..end]).ok()?, &request[end + 4..]);
    let (line, headers) = head.split_once("\r\n").unwrap_or((head, ""));
    let mut words = line.split(' ');
    let (method, target) = (words.next()?, words.next()?);
    let header = |name: &str| {
        let mut named = headers.split("\r\n").filter_map(|line| line.split_once(':'));
        named.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    };
    let grant: Option<Grant> = header(GRANT_HEADER).and_then(|grant| grant.parse().ok());
    let key = match by {
        Signed::Not => return None,
        Signed::ByUser => node_key(),
        Signed::ByMember => cluster_key(),
        Signed::ByGrantee => grant?.key(&cluster_key()),
    };
    let announced = header(DIGEST_HEADER).and_then(|digest| blake3::Hash::from_hex(digest).ok());
    let digest = announced.unwrap_or_else(|| blake3::hash(body));
    let is_between_members = matches!(target, "/gossip" | "/members");
    let asked = Asked {
        method,
        target,
        range: header("range").unwrap_or_default(),
        class: header(CLASS_HEADER).unwrap_or_default(),
        body_bytes: header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0),
        body: digest,
        node: (by == Signed::ByUser || !is_between_members).then_some(IDENTITY),
    };
    let proof = Proof::of(&key, &asked, NOW_MS, 5).encode();
    let added = format!("{line}\r\nauthorization: {proof}\r\n{DIGEST_HEADER}: {digest}\r\n{headers}\r\n\r\n");
    Some([added.as_bytes(), body].concat())
}

/// A request of each kind that members answer, `questions` among them, by each who may ask.
#[must_use]
pub fn member_request_seeds(questions: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut seeds: Vec<Vec<u8>> = Vec::new();
    let mut add = |by: u8, head: &str, body: &[u8]| {
        let length = if body.is_empty() { String::new() } else { format!("content-length: {}\r\n", body.len()) };
        seeds.push([&[by][..], format!("{head}host: x\r\n{length}\r\n").as_bytes(), body].concat());
    };
    let grant = Grant {
        store: IDENTITY.volume,
        may_read: true,
        may_write: true,
        may_list: true,
        until_ms: NOW_MS + 1,
        prefix: "run/".to_owned(),
    };
    let granted = format!("{GRANT_HEADER}: {grant}\r\n");
    let (shard, other) = (data_shard(), ShardKey { index: ShardIndex(1), ..data_shard() });
    add(1, &format!("GET /shards/{shard} HTTP/1.1\r\nrange: bytes=256-511\r\n"), b"");
    add(1, "GET /members HTTP/1.1\r\n", b"");
    add(2, &format!("PUT /shards/{other} HTTP/1.1\r\nweft-class: background\r\n"), b"some bytes");
    add(3, &format!("PUT /shards/{other} HTTP/1.1\r\n{granted}"), b"some bytes");
    add(3, &format!("GET /shards/{shard} HTTP/1.1\r\nrange: bytes=0-99\r\n{granted}"), b"");
    add(3, &format!("GET /members HTTP/1.1\r\n{granted}"), b"");
    let (key, record) = record(Stamp(10));
    add(3, &format!("PUT /shards/{key} HTTP/1.1\r\n{granted}"), &record);
    for question in questions {
        add(2, "POST /objects HTTP/1.1\r\n", question);
        add(3, &format!("POST /objects HTTP/1.1\r\n{granted}"), question);
    }
    add(0, &format!("GET /shards/{shard} HTTP/1.1\r\n"), b"");
    seeds
}
