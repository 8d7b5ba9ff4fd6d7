//! Requests of all sorts against real daemons, made from seeds: none makes a daemon panic, none brings a byte of what is no shard, and
//! what is refused makes one line in the log, without secrets.

use bytes::Bytes;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use weft_daemon::{Daemon, DaemonNode, DaemonUrl, Key};
use weft_env::Env;
use weft_format::{NodeId, NodeIdentity, ShardKey, VolumeId};
use weft_nodes::conformance::{key, shard};
use weft_nodes::{Kinds, Node, NodeErrorKind, NodeUrl};

const IDENTITY: NodeIdentity = NodeIdentity { volume: VolumeId(1), node: NodeId(2) };
const CANARY: &str = "these bytes are no shard";
const SEEDS: std::ops::Range<u64> = 0..600;

static PANICS: AtomicUsize = AtomicUsize::new(0);
static LOG: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Keeps lines of warnings.
struct Lines;

struct Line(String);

impl tracing::field::Visit for Line {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        let _ = write!(self.0, "{field}={value:?} ");
    }
}

impl tracing::Subscriber for Lines {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() <= tracing::Level::WARN
    }

    fn event(&self, event: &tracing::Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        LOG.lock().unwrap().push(line.0);
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

struct Served {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    ended: tokio::task::JoinHandle<()>,
    folder: tempfile::TempDir,
}

/// A daemon over a folder in a folder, both with something in them that is no shard.
async fn serve(key: Option<Key>) -> Served {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let served = folder.path().join("served");
    std::fs::create_dir(&served).unwrap();
    let daemon =
        Daemon::open(Kinds::new(weft_nodes::kinds::local()), NodeUrl::folder(&served), key, &Env::system()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let ended = tokio::spawn(Arc::new(daemon).serve(listener, async {
        let _ = stopped.await;
    }));
    Served { address, stop, ended, folder }
}

impl Served {
    fn put_canaries(&self) {
        for place in ["secret", "served/secret", "served/10"] {
            std::fs::write(self.folder.path().join(place), CANARY).unwrap();
        }
    }

    async fn node(&self, key: Option<Key>) -> DaemonNode {
        let url = DaemonUrl { authority: self.address.to_string(), tls: None };
        DaemonNode::create(&url, "remote", IDENTITY, key, &Env::system()).await.unwrap()
    }

    async fn end(self) {
        let _ = self.stop.send(());
        self.ended.await.unwrap();
    }
}

/// Sends these bytes, and after a while says that no more will come; what comes back, and from which address it was asked.
async fn send(address: SocketAddr, request: &[u8]) -> (Vec<u8>, SocketAddr) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let from = stream.local_addr().unwrap();
    // It may refuse before it has read everything.
    let _ = stream.write_all(request).await;
    let mut answer = Vec::new();
    let while_open = stream.read_to_end(&mut answer);
    if tokio::time::timeout(Duration::from_millis(200), while_open).await.is_err() {
        let _ = stream.shutdown().await;
        let _ = tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut answer)).await.expect("an end");
    }
    (answer, from)
}

/// Sends many, a few dozen at a time; in the order given.
async fn send_all(address: SocketAddr, requests: Vec<Vec<u8>>) -> Vec<(Vec<u8>, SocketAddr)> {
    let mut answers = Vec::new();
    for some in requests.chunks(48) {
        let sent: Vec<_> =
            some.iter().cloned().map(|request| tokio::spawn(async move { send(address, &request).await })).collect();
        for answer in sent {
            answers.push(answer.await.unwrap());
        }
    }
    answers
}

fn pick<'a>(random: &mut StdRng, from: &[&'a str]) -> &'a str {
    from[random.random_range(0..from.len())]
}

fn combination(random: &mut StdRng) -> String {
    let number = |random: &mut StdRng| match random.random_range(0..8) {
        0 => u64::MAX.to_string(),
        1 => "-1".to_owned(),
        2 => "1e9".to_owned(),
        3 => (1u64 << 40).to_string(),
        _ => random.random_range(0..5).to_string(),
    };
    let n = |random: &mut StdRng| number(random);
    let op = match random.random_range(0..5) {
        0 => format!(r#"{{"copy":{{"from":{},"to":{}}}}}"#, n(random), n(random)),
        1 => format!(r#"{{"xor":{{"from":[{},{}],"to":{}}}}}"#, n(random), n(random), n(random)),
        2 => format!(r#"{{"dot":{{"from":[{}],"to":[{}],"rows":[[{}]]}}}}"#, n(random), n(random), n(random)),
        3 => r#"{"dot":{"from":[0,1],"to":[2],"rows":[[1,2],[3]]}}"#.to_owned(),
        _ => r#"{"xor":{"from":[0,0],"to":1}}"#.to_owned(),
    };
    let text = format!(
        r#"{{"payload_bytes":{},"input_count":{},"output_count":{},"temporary_count":{},"ops":[{op}],"parts":[{{"starts":[{}],"bytes":{}}}]}}"#,
        pick(random, &["20000", "20000", "1", "99999999999", "18446744073709551615"]),
        n(random),
        n(random),
        n(random),
        n(random),
        n(random),
    );
    match random.random_range(0..6) {
        0 => "[".repeat(random.random_range(1..5000)),
        1 => text.chars().take(random.random_range(0..text.len())).collect(),
        2 => text.replace("ops", "o\\nps"),
        _ => text,
    }
}

/// A request, most often a wrong one.
fn request(random: &mut StdRng, name: ShardKey) -> Vec<u8> {
    let targets = [
        format!("/shards/{name}"),
        format!("/shards/{name}?stat"),
        format!("/shards/{name}?combine"),
        format!("/shards/{name}?combine"),
        format!("/shards/{name}/../../secret"),
        format!("/shards?after={name}&limit=3"),
    ];
    let targets: Vec<&str> = targets.iter().map(String::as_str).collect();
    let others = [
        "/",
        "*",
        "",
        "/shards",
        "/shards/",
        "/shards?limit=99999999999999999999",
        "/shards?after=../secret",
        "/space",
        "/identity",
        "/short-circuit",
        "/session?x",
        "/metrics",
        "/secret",
        "/../secret",
        "/shards/../secret",
        "/shards/../../secret",
        "/shards/%2e%2e/secret",
        "/shards/..%2fsecret",
        "/shards/%2e%2e%2f%2e%2e%2fsecret",
        "//secret",
        "/shards//secret",
        "/shards/secret",
        "/10",
        "/shards/10/secret",
        "http://x/shards/../secret",
        "\\..\\secret",
        "/shards/\u{e9}",
        "/shards/%00",
        "/x y",
    ];
    let target = if random.random() { pick(random, &targets) } else { pick(random, &others) };
    let method = pick(random, &["GET", "GET", "PUT", "POST", "POST", "DELETE", "HEAD", "PATCH", "G\0T", "get", ""]);
    let mut body = match random.random_range(0..4) {
        0 => Vec::new(),
        1 => (0..random.random_range(0..5000)).map(|_| random.random()).collect(),
        _ => combination(random).into_bytes(),
    };
    let length = match random.random_range(0..8) {
        0 => "99999999999".to_owned(),
        1 => (body.len() + 10).to_string(),
        2 => "-1".to_owned(),
        3 => format!("{0}\r\ncontent-length: 7", body.len()),
        4 => format!("0{}", body.len()),
        _ => body.len().to_string(),
    };
    let extra = pick(
        random,
        &[
            "",
            "",
            "",
            "range: bytes=0-99\r\n",
            "range: bytes=5-\r\n",
            "range: bytes=-5\r\n",
            "range: bytes=9-1\r\n",
            "range: bytes=0-18446744073709551615\r\n",
            "range: bytes=0-1,3-4\r\n",
            "transfer-encoding: chunked\r\n",
            "authorization: weft1 0:0:0\r\n",
            "authorization: \u{7f}\r\n",
            "weft-digest: zz\r\n",
            "expect: 100-continue\r\n",
            "weft-digest: 0000000000000000000000000000000000000000000000000000000000000000\r\n",
            "broken\r\n",
            "a: b\r\n c\r\n",
        ],
    );
    let mut all = format!(
        "{method} {target} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n{extra}\r\n"
    )
    .into_bytes();
    all.append(&mut body);
    if random.random_range(0..10) == 0 {
        let at = random.random_range(0..all.len());
        all[at] ^= 1 << random.random_range(0..8);
    }
    if random.random_range(0..10) == 0 {
        all.truncate(random.random_range(0..all.len()));
    }
    all
}

fn contains(answer: &[u8], what: &[u8]) -> bool {
    answer.windows(what.len()).any(|window| window == what)
}

fn status(answer: &[u8]) -> Option<u16> {
    std::str::from_utf8(answer.get(9..12)?).ok()?.parse().ok()
}

/// Lines of this daemon about this peer, once there is one or none is to be expected any more.
async fn lines_of(served: &Served, peer: SocketAddr, expected: bool) -> Vec<String> {
    for _ in 0..2000 {
        let (peer, node) = (format!("peer={peer} "), served.folder.path().to_string_lossy());
        let of = |line: &&String| line.contains(&peer) && line.contains(&*node);
        let found: Vec<String> = LOG.lock().unwrap().iter().filter(of).cloned().collect();
        if !found.is_empty() || !expected {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Vec::new()
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_of_all_sorts_do_no_harm() {
    tracing::subscriber::set_global_default(Lines).unwrap();
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |what| {
        PANICS.fetch_add(1, Ordering::SeqCst);
        before(what);
    }));
    let secret = Key::new(*b"a secret of thirty-two bytes....");
    for secret in [None, Some(secret)] {
        let served = serve(secret.clone()).await;
        let node = served.node(secret.clone()).await;
        served.put_canaries();
        let name = key(1, 0);
        let bytes = shard(IDENTITY.volume, name, 20_000, 1);
        node.put(name, std::slice::from_ref(&bytes)).await.unwrap();
        let payload = &bytes[256..280];
        let requests: Vec<_> = SEEDS.map(|seed| request(&mut StdRng::seed_from_u64(seed), name)).collect();
        let answers = send_all(served.address, requests.clone()).await;
        for (seed, (request, (answer, from))) in requests.iter().zip(answers).enumerate() {
            let said = String::from_utf8_lossy(request);
            assert!(!contains(&answer, CANARY.as_bytes()), "seed {seed}: {said}");
            if secret.is_some() {
                assert!(!contains(&answer, payload), "seed {seed}: {said}");
                assert!(status(&answer).is_none_or(|status| status >= 400), "seed {seed}: {said}");
            }
            // What makes no sense to the node, or not from whom it comes. What is no HTTP at all is the protocol's to refuse.
            let refused = contains(&answer, b"detail") && !contains(&answer, b"weft-error");
            let lines = lines_of(&served, from, refused).await;
            assert!(!refused || !lines.is_empty(), "seed {seed}: {said}");
        }
        let folder = served.folder.path().to_string_lossy().into_owned();
        let line_count = LOG.lock().unwrap().iter().filter(|line| line.contains(&folder)).count();
        assert!(line_count <= requests.len(), "{line_count} lines for {} requests", requests.len());
        // Unsigned, some of them were right.
        if secret.is_none() {
            let _ = node.remove(name).await;
            node.put(name, std::slice::from_ref(&bytes)).await.unwrap();
        }
        assert_eq!(node.get(name, 0..u64::MAX).await.unwrap(), bytes);
        served.end().await;
    }
    let secret = Key::new(*b"a secret of thirty-two bytes....");
    let log = LOG.lock().unwrap().join("\n");
    assert!(!log.contains(&secret.to_hex()) && !log.contains(CANARY) && !log.contains('\r'));
    assert_eq!(PANICS.load(Ordering::SeqCst), 0);
}

/// Passes connections on and keeps what was asked.
async fn eavesdrop(to: SocketAddr) -> (SocketAddr, Arc<Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let keep = heard.clone();
    tokio::spawn(async move {
        while let Ok((user, _)) = listener.accept().await {
            let daemon = TcpStream::connect(to).await.unwrap();
            tokio::spawn(pass_on(user, daemon, keep.clone()));
        }
    });
    (address, heard)
}

async fn pass_on(mut user: TcpStream, mut daemon: TcpStream, keep: Arc<Mutex<Vec<u8>>>) {
    let (mut asked, mut answered) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        tokio::select! {
            Ok(count) = user.read(&mut asked) => {
                keep.lock().unwrap().extend_from_slice(&asked[..count]);
                if count == 0 || daemon.write_all(&asked[..count]).await.is_err() { break }
            }
            Ok(count) = daemon.read(&mut answered) => {
                if count == 0 || user.write_all(&answered[..count]).await.is_err() { break }
            }
            else => break,
        }
    }
}

/// What was signed is done once, and nothing that differs from it in a bit.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_heard_cannot_be_said_again_nor_otherwise() {
    let secret = || Some(Key::new(*b"a secret of thirty-two bytes...."));
    let served = serve(secret()).await;
    served.node(secret()).await;
    let (address, heard) = eavesdrop(served.address).await;
    let url = DaemonUrl { authority: address.to_string(), tls: None };
    let node = DaemonNode::open(&url, "overheard", IDENTITY, secret(), &Env::system()).unwrap();
    let name = key(1, 0);
    let bytes = shard(IDENTITY.volume, name, 3_000, 1);
    let mut requests: Vec<Bytes> = Vec::new();
    let mut take = || requests.push(std::mem::take(&mut *heard.lock().unwrap()).into());
    node.put(name, std::slice::from_ref(&bytes)).await.unwrap();
    take();
    node.get(name, 0..100).await.unwrap();
    take();
    node.remove(name).await.unwrap();
    take();
    node.put(name, std::slice::from_ref(&bytes)).await.unwrap();
    for (number, request) in requests.iter().enumerate() {
        let again = send(served.address, request).await.0;
        assert_eq!(status(&again), Some(401), "request {number} again");
        let changed = |seed| {
            let mut random = StdRng::seed_from_u64(seed);
            let mut changed = request.to_vec();
            let at = random.random_range(0..changed.len());
            changed[at] ^= 1 << random.random_range(0..8);
            changed
        };
        let answers = send_all(served.address, (0..200).map(changed).collect()).await;
        for (seed, (answer, _)) in answers.iter().enumerate() {
            assert!(status(answer).is_none_or(|status| status >= 400), "request {number}, seed {seed}");
        }
    }
    let url = DaemonUrl { authority: served.address.to_string(), tls: None };
    let again = DaemonNode::open(&url, "remote", IDENTITY, secret(), &Env::system()).unwrap();
    assert_eq!(again.get(name, 0..u64::MAX).await.unwrap(), bytes);
    served.end().await;
}

/// A daemon that is killed while it is asked: nothing follows for its shards.
#[tokio::test]
async fn a_connection_that_ends_before_an_answer_says_nothing_of_shards() {
    let served = serve(None).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (to, is_dying) = (served.address, Arc::new(AtomicBool::new(false)));
    let of_relay = is_dying.clone();
    let relay = tokio::spawn(async move {
        while let Ok((mut user, _)) = listener.accept().await {
            if of_relay.load(Ordering::SeqCst) {
                let _ = user.read(&mut [0; 1 << 16]).await;
                continue;
            }
            // One request on each connection.
            let mut daemon = TcpStream::connect(to).await.unwrap();
            let mut buffer = vec![0; 1 << 16];
            let count = user.read(&mut buffer).await.unwrap();
            daemon.write_all(&buffer[..count]).await.unwrap();
            let count = daemon.read(&mut buffer).await.unwrap();
            user.write_all(&buffer[..count]).await.unwrap();
        }
    });
    let url = DaemonUrl { authority: address.to_string(), tls: None };
    let node = DaemonNode::create(&url, "remote", IDENTITY, None, &Env::system()).await.unwrap();
    is_dying.store(true, Ordering::SeqCst);
    let key = key(1, 0);
    let error = node.get(key, 0..1).await.unwrap_err();
    assert_eq!(error.kind, NodeErrorKind::TimedOut, "{error}");
    relay.abort();
    served.end().await;
}

/// Passes one request on each connection on, and closes it in the middle of a second one, as a daemon that takes it for idle.
async fn closing_relay(daemon: SocketAddr) -> (SocketAddr, tokio::task::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let relay = tokio::spawn(async move {
        while let Ok((mut user, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut buffer = vec![0; 1 << 16];
                let mut daemon = TcpStream::connect(daemon).await.unwrap();
                let count = user.read(&mut buffer).await.unwrap();
                daemon.write_all(&buffer[..count]).await.unwrap();
                let count = daemon.read(&mut buffer).await.unwrap();
                user.write_all(&buffer[..count]).await.unwrap();
                let _ = user.read(&mut buffer).await;
            });
        }
    });
    (address, relay)
}

#[tokio::test]
async fn what_changes_nothing_is_asked_again_when_an_idle_connection_closes() {
    let served = serve(Some(Key::new([7; 32]))).await;
    let (address, relay) = closing_relay(served.address).await;
    let url = DaemonUrl { authority: address.to_string(), tls: None };
    let node = DaemonNode::create(&url, "remote", IDENTITY, Some(Key::new([7; 32])), &Env::system()).await.unwrap();
    // Each of these finds the connection of the one before.
    for _ in 0..3 {
        assert_eq!(node.identity().await.unwrap(), IDENTITY);
    }
    // A put may have been done.
    let error = node.put(key(1, 0), &[Bytes::from_static(b"x")]).await.unwrap_err();
    assert_eq!(error.kind, NodeErrorKind::TimedOut, "{error}");
    relay.abort();
    served.end().await;
}
