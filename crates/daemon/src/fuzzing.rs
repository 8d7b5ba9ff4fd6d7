//! Decoders that are nobody else's business, for `crates/fuzz`. Requests and answers are read by the HTTP library that reads them in
//! earnest, over streams in memory.

mod member;

pub use member::{MakeMember, member_answers_to, member_request, member_request_seeds};

use crate::address::DaemonUrl;
use crate::addresses::Addresses;
use crate::auth::{Asked, Key, Proof};
use crate::client::DaemonNode;
use crate::dial::{Dial, Dialed};
use crate::gossip::GossipSettings;
use crate::grant::Grant;
use crate::server::{Daemon, check_request, request_seed};
use crate::signed_request::SignedRequest;
use crate::tls::Fingerprint;
use crate::wire::CombinationBody;
use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use std::future::Future;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use weft_cluster::gossip::{Facts, Gossip};
use weft_codes::{Compiled, Matrix, Program};
use weft_env::Env;
use weft_format::geometry::Geometry;
use weft_format::shard::{ShardBuilder, ShardHeader, ShardIdentity};
use weft_format::{Generation, NodeId, NodeIdentity, SegmentId, ShardIndex, ShardKey, VolumeId};
use weft_nodes::combine::{Combination, Part};
use weft_nodes::memory::{ABOUT, MemoryNode};
use weft_nodes::{About, Kind, Kinds, Node, NodeAt, NodeError, NodeUrl, UrlError};

const IDENTITY: NodeIdentity = NodeIdentity { volume: VolumeId(1), node: NodeId(2) };
const SHARD: ShardKey = ShardKey { segment: SegmentId(7), generation: Generation::FIRST, index: ShardIndex(0) };
const PAYLOAD_BYTES: u64 = 5000;

/// Where nobody listens.
const NOWHERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// A daemon that says nothing while it could so often does not answer.
const QUIET_MAX: u32 = 50;

/// What a stream holds until it is read.
const STREAM_BYTES: usize = 64 << 10;

fn wait<T>(work: impl Future<Output = T>) -> T {
    thread_local! {
        // Its time stands still while something is to do, and else goes on to the next moment that somebody waits for.
        static RUNTIME: tokio::runtime::Runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().expect("a runtime");
    }
    RUNTIME.with(|runtime| runtime.block_on(work))
}

/// One node that is there already.
struct Kept(Arc<MemoryNode>);

#[async_trait]
impl Kind for Kept {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn parse(&self, _: &str, _: &str) -> Result<NodeUrl, UrlError> {
        Err(UrlError::Empty)
    }

    fn open(&self, _: &NodeAt<'_>) -> Result<Arc<dyn Node>, NodeError> {
        Ok(self.0.clone())
    }

    async fn create(&self, node: &NodeAt<'_>) -> Result<Arc<dyn Node>, NodeError> {
        self.open(node)
    }

    fn probe(&self, _: &NodeUrl) -> Result<Option<NodeIdentity>, NodeError> {
        Ok(Some(IDENTITY))
    }
}

fn object() -> Bytes {
    let geometry = Geometry::new(PAYLOAD_BYTES, 1, 1, 1, 64 << 10).expect("it is small");
    let identity = ShardIdentity { volume: IDENTITY.volume, key: SHARD };
    let header = ShardHeader { identity, code: "replica:1".to_owned(), geometry };
    ShardBuilder::new(&header).expect("the header is right").finish().0
}

/// All that a connection sends to a daemon with one shard.
pub fn request(bytes: &[u8]) {
    let answers = answers_to(bytes);
    assert!(answers.is_empty() || answers.starts_with(b"HTTP/1."), "it speaks HTTP");
}

/// What the daemon says to it.
#[must_use]
pub fn answers_to(bytes: &[u8]) -> Vec<u8> {
    wait(async {
        let node = MemoryNode::new("memory", IDENTITY, 1 << 20).that_combines();
        node.put(SHARD, &[object()]).await.expect("there is room");
        let kinds = Kinds::new(vec![Arc::new(Kept(Arc::new(node)))]);
        let place = NodeUrl::elsewhere(ABOUT.name, "memory://x".to_owned());
        let env = Env::seeded(1);
        let daemon = Daemon::open(kinds, place, None, &env).expect("it is there").with_short_circuit();
        converse(daemon.with_gossip(gossips(None)), &env, bytes).await
    })
}

fn gossips(key: Option<Key>) -> GossipSettings {
    let own = DaemonUrl { authority: NOWHERE.to_string(), tls: None };
    let (further, join, domain) = (vec!["127.0.0.2:1".to_owned()], Vec::new(), "d".to_owned());
    GossipSettings { key, own, further, join, domain }
}

/// What `daemon` says to all that a connection sends.
async fn converse(daemon: Daemon, env: &Env, bytes: &[u8]) -> Vec<u8> {
    let (mut user, served) = duplex(STREAM_BYTES);
    let asking = async move {
        // The daemon may refuse before it has read everything.
        let _ = user.write_all(bytes).await;
        let (mut answers, mut quiet_count, mut some) = (Vec::new(), 0, [0; 4096]);
        // To close would cut off what is under way.
        while quiet_count < QUIET_MAX {
            tokio::select! {
                biased;
                came = user.read(&mut some) => match came {
                    Ok(count) if count > 0 => {
                        answers.extend_from_slice(&some[..count]);
                        quiet_count = 0;
                    }
                    _ => break,
                },
                () = tokio::task::yield_now() => quiet_count += 1,
            }
        }
        // Combinations are computed by another thread.
        if answers.is_empty() && is_whole_combination(bytes) {
            let came = env.clock.timeout(Duration::from_secs(1), user.read(&mut some)).await;
            answers.extend_from_slice(&some[..came.ok().and_then(Result::ok).unwrap_or(0)]);
        }
        let _ = user.shutdown().await;
        let _ = user.read_to_end(&mut answers).await;
        answers
    };
    tokio::join!(Arc::new(daemon).converse_over(served, NOWHERE), asking).1
}

/// Has a request for a combination all of its body?
fn is_whole_combination(request: &[u8]) -> bool {
    let request = String::from_utf8_lossy(request);
    let Some((head, body)) = request.split_once("\r\n\r\n") else { return false };
    let length = head.split_once("content-length: ").and_then(|(_, rest)| rest.split("\r\n").next()?.parse().ok());
    head.contains("?combine") && length.is_some_and(|length: usize| length <= body.len())
}

/// A request of each kind.
#[must_use]
pub fn request_seeds() -> Vec<Vec<u8>> {
    let combination = CombinationBody::encode(&combination_of_one(), None);
    let mut seeds: Vec<Vec<u8>> = Vec::new();
    let mut add = |head: &str, body: &[u8]| {
        let length = if body.is_empty() { String::new() } else { format!("content-length: {}\r\n", body.len()) };
        seeds.push([format!("{head}host: x\r\n{length}\r\n").as_bytes(), body].concat());
    };
    let other = ShardKey { segment: SegmentId(8), ..SHARD };
    add(&format!("PUT /shards/{other} HTTP/1.1\r\nweft-class: background\r\n"), b"some bytes");
    add(&format!("GET /shards/{SHARD} HTTP/1.1\r\nrange: bytes=256-511\r\n"), b"");
    add(&format!("GET /shards/{SHARD}?stat HTTP/1.1\r\n"), b"");
    add(&format!("POST /shards/{SHARD}?combine HTTP/1.1\r\n"), &combination);
    add(&format!("DELETE /shards/{SHARD} HTTP/1.1\r\n"), b"");
    add(&format!("GET /shards?after={SHARD}&limit=9 HTTP/1.1\r\n"), b"");
    for target in ["POST /short-circuit", "GET /space", "GET /identity", "GET /metrics", "GET /members"] {
        add(&format!("{target} HTTP/1.1\r\n"), b"");
    }
    add("PUT /identity HTTP/1.1\r\n", IDENTITY.encode().as_bytes());
    let mut member = Gossip::new(Facts { address: "weft://b:1".to_owned(), ..Facts::default() }, 1, 0);
    member.join(vec![Facts { address: format!("weft://{NOWHERE}"), ..Facts::default() }], 0);
    for (_, packet) in member.take_outgoing() {
        add("POST /gossip HTTP/1.1\r\n", &packet);
    }
    let asked = Asked {
        method: "GET",
        target: "/space",
        range: "",
        class: "",
        body_bytes: 0,
        body: blake3::hash(&[]),
        node: Some(IDENTITY),
    };
    let proof = Proof::of(&Key::new([7; 32]), &asked, 1_700_000_000_000, 5).encode();
    add(&format!("GET /space HTTP/1.1\r\nauthorization: {proof}\r\nweft-digest: {}\r\n", asked.body), b"");
    seeds
}

/// Makes one connection.
struct Once(Mutex<Option<DuplexStream>>);

#[async_trait]
impl Dial for Once {
    async fn dial(&self, _: &str) -> io::Result<Dialed> {
        self.0.lock().take().map(Dialed::over).ok_or_else(|| io::ErrorKind::ConnectionRefused.into())
    }
}

/// Answers as `given`, once a request came.
async fn answer_once(mut stream: DuplexStream, given: &[u8]) {
    let (mut head, mut some) = (Vec::new(), [0; 4096]);
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut some).await {
            Ok(count) if count > 0 => head.extend_from_slice(&some[..count]),
            _ => return,
        }
    }
    let _ = stream.write_all(given).await;
    let _ = stream.shutdown().await;
}

/// What a daemon answers to the request that the first byte chooses.
pub fn answer(bytes: &[u8]) {
    let _ = is_answer(bytes);
}

/// Is it believed?
#[must_use]
pub fn is_answer(bytes: &[u8]) -> bool {
    let Some((what, given)) = bytes.split_first() else { return false };
    wait(async {
        let (here, there) = duplex(STREAM_BYTES);
        let url = DaemonUrl { authority: NOWHERE.to_string(), tls: None };
        let node = DaemonNode::open(&url, "daemon", IDENTITY, None, &Env::seeded(1)).expect("it does no I/O");
        let node = node.dialed_by(Arc::new(Once(Mutex::new(Some(here)))));
        let asking = async {
            match what % 10 {
                0 => node.put(SHARD, &[object()]).await.is_ok(),
                1 => {
                    let got = node.get(SHARD, 100..300).await;
                    got.inspect(|got| assert!(got.len() <= 200)).is_ok()
                }
                2 => node.stat(SHARD).await.is_ok(),
                3 => {
                    let listed = node.list(Some(SHARD), 10).await;
                    let fits = |keys: &[ShardKey]| keys.len() <= 10 && keys.iter().all(|key| *key > SHARD);
                    listed.inspect(|page| assert!(fits(&page.keys))).is_ok()
                }
                4 => {
                    let combination = combination_of_one();
                    let sent_bytes = combination.cost().expect("it is small").sent_bytes;
                    let combined = node.combine(SHARD, &combination).await;
                    combined.inspect(|sum| assert_eq!(sum.len() as u64, sent_bytes)).is_ok()
                }
                5 => node.space().await.is_ok(),
                6 => node.members().await.is_ok(),
                7 => node.terms().await.is_ok(),
                8 => node.ask_objects(Bytes::from_static(b"question")).await.is_ok(),
                _ => node.identity().await.is_ok(),
            }
        };
        tokio::join!(asking, answer_once(there, given)).0
    })
}

/// An answer to each request; the last two are refused.
#[must_use]
pub fn answer_seeds() -> Vec<Vec<u8>> {
    let node = format!("weft-node: {}/{}", IDENTITY.volume, IDENTITY.node);
    let answer = |what: u8, status: &str, body: &[u8]| {
        let head = format!("HTTP/1.1 {status}\r\n{node}\r\ncontent-length: {}\r\n\r\n", body.len());
        [&[what][..], head.as_bytes(), body].concat()
    };
    let json = |what, body: &str| answer(what, "200 OK", body.as_bytes());
    let member = "\"address\":\"weft://h:1\",\"started_ms\":1,\"sequence\":2,\"volume\":\"\",\"node\":\"\",\"domain\":\"d\",\
                  \"total_bytes\":1,\"free_bytes\":1,\"load_bytes\":0,\"version\":\"1\",\"liveness\":\"alive\",\"phi\":0.5";
    let next = ShardKey { segment: SegmentId(8), ..SHARD };
    vec![
        answer(0, "201 Created", b""),
        answer(1, "206 Partial Content", &[5; 200]),
        answer(1, "416 Range Not Satisfiable", b""),
        json(2, r#"{"bytes":5,"modified_ms":6}"#),
        json(3, &format!(r#"{{"keys":["{next}"],"foreign":["x"],"more":true}}"#)),
        answer(4, "200 OK", &[1; 200]),
        json(5, r#"{"total_bytes":5,"free_bytes":4}"#),
        json(6, &format!("{{\"members\":[{{{member}}}]}}")),
        json(7, r#"{"socket":"weft-1","ticket":"2"}"#),
        answer(8, "200 OK", b"an answer"),
        answer(9, "200 OK", IDENTITY.encode().as_bytes()),
        answer(1, "404 Not Found\r\nweft-error: not-found", br#"{"detail":"it is not there"}"#),
        // A length that the chunks do not keep to.
        format!(
            "\x01HTTP/1.1 206 Partial Content\r\n{node}\r\ncontent-length: 4\r\ntransfer-encoding: chunked\r\n\r\n\
             3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n"
        )
        .into_bytes(),
    ]
}

fn combination_of_one() -> Combination {
    let matrix = Matrix::from_fn(1, 2, |_, column| column as u8 + 1);
    let parts = vec![Part { starts: vec![0, 4096], bytes: 100 }, Part { starts: vec![1, 2], bytes: 100 }];
    Combination { payload_bytes: PAYLOAD_BYTES, program: Program::from_matrix(&matrix), parts }
}

/// A combination, and the request for what is to be added to it. What passes its checks is compiled.
pub fn combination(bytes: &[u8]) {
    let Ok((combination, onward, rest)) = CombinationBody::decode(&Bytes::copy_from_slice(bytes)) else { return };
    let again = CombinationBody::decode(&CombinationBody::encode(&combination, None)).map(|(again, ..)| again);
    assert_eq!(again.as_ref(), Ok(&combination));
    if let Some(request) = onward.and_then(|onward| SignedRequest::of(onward, rest, 1)) {
        let again = SignedRequest::of(request.head(), request.body.clone(), 1).expect("it was one");
        assert_eq!(again.head().url, request.url.to_string());
    }
    let Ok(cost) = combination.cost() else { return };
    assert!(cost.sent_bytes <= 64 << 20 && cost.read_bytes <= 64 << 20);
    assert!(Compiled::new(combination.program).is_ok(), "the program was checked");
}

/// A combination by itself, one with operations of every kind, and a link of a chain.
#[must_use]
pub fn combination_seeds() -> Vec<Vec<u8>> {
    let every_kind = br#"{"payload_bytes":9,"input_count":2,"output_count":2,"temporary_count":1,"ops":[
        {"xor":{"from":[0,1],"to":4}},{"copy":{"from":4,"to":2}},{"dot":{"from":[0,4],"to":[3],"rows":[[2,3]]}}],
        "parts":[{"starts":[0,1],"bytes":8}]}"#;
    let combination = combination_of_one();
    let body = CombinationBody::encode(&combination, None);
    let link = SignedRequest {
        url: DaemonUrl { authority: "host:7600".to_owned(), tls: None },
        node: IDENTITY,
        shard: SHARD,
        class: weft_nodes::rate::Class::Background,
        proof: None,
        body: body.clone(),
        answer_bytes: 1,
        timeout: Duration::from_secs(1),
    };
    vec![
        body.to_vec(),
        every_kind.to_vec(),
        CombinationBody::encode(&combination, Some((link.head(), &link.body))).to_vec(),
    ]
}

/// Texts that prove something: a key, a request's proof, a certificate's fingerprint.
pub fn proof(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    if let Ok(key) = text.parse::<Key>() {
        assert!(key.to_hex().parse() == Ok(key));
    }
    if let Some(proof) = Proof::decode(text) {
        assert_eq!(Proof::decode(&proof.encode()), Some(proof));
    }
    if let Ok(fingerprint) = text.parse::<Fingerprint>() {
        assert_eq!(fingerprint.to_string(), text);
    }
}

/// One of each.
#[must_use]
pub fn proof_seeds() -> Vec<Vec<u8>> {
    let key = Key::new([7; 32]);
    let body = blake3::hash(&[]);
    let asked = Asked { method: "GET", target: "/space", range: "", class: "", body_bytes: 0, body, node: None };
    let proof = Proof::of(&key, &asked, 1_700_000_000_000, 5).encode();
    vec![format!("{}\n", key.to_hex()).into_bytes(), proof.into_bytes(), "ab".repeat(32).into_bytes()]
}

/// The file of an address book.
pub fn addresses(bytes: &[u8]) {
    let Some(addresses) = Addresses::decode(bytes) else { return };
    assert_eq!(Addresses::decode(&addresses.encode()), Some(addresses));
}

/// Two nodes.
#[must_use]
pub fn addresses_seeds() -> Vec<Vec<u8>> {
    let text = r#"{"00000000000000000000000000000002":{"authority":"10.0.0.1:7600","started_ms":5},
        "00000000000000000000000000000003":{"authority":"[::1]:7601","started_ms":6,"links":[
        {"authority":"[::1]:7601","is_up":true,"since_ms":1,"bytes_per_second":5,"latency_us":6},
        {"authority":"10.0.0.2:7601","is_up":false,"since_ms":2}]}}"#;
    vec![text.as_bytes().to_vec()]
}

/// A grant as a request's header has it, the line of its file, and what is sent to the socket of open files: the first byte says which.
pub fn grant(bytes: &[u8]) {
    let Some((what, bytes)) = bytes.split_first() else { return };
    match (what % 3, str::from_utf8(bytes)) {
        (0, Ok(text)) => {
            if let Ok(grant) = text.parse::<Grant>() {
                assert_eq!(grant.to_string(), text, "one grant has one text");
            }
        }
        (1, Ok(text)) => {
            if let Ok((grant, key)) = Grant::of_line(text) {
                let cluster = Key::new([8; 32]);
                assert!(Grant::of_line(&grant.to_line(&cluster)) == Ok((grant.clone(), grant.key(&cluster))));
                assert_eq!(key.to_hex().len(), 64);
            }
        }
        (2, _) => wait(check_request(bytes)),
        _ => {}
    }
}

/// One of each.
#[must_use]
pub fn grant_seeds() -> Vec<Vec<u8>> {
    let prefix = "run/7 ".to_owned();
    let store = IDENTITY.volume;
    let grant = Grant { store, may_read: true, may_write: false, may_list: true, until_ms: 1_700_000_000_000, prefix };
    let whole = Grant { may_write: true, prefix: String::new(), ..grant.clone() };
    vec![
        format!("\x00{grant}").into_bytes(),
        format!("\x00{whole}").into_bytes(),
        format!("\x01{}\n", grant.to_line(&Key::new([8; 32]))).into_bytes(),
        [&[2][..], &request_seed(SHARD)].concat(),
        b"\x02\x01\n".to_vec(),
    ]
}
