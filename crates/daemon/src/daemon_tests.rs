//! A real daemon on a real socket, and things that are no daemons.

use super::*;
use bytes::Bytes;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use weft_cluster::gossip::{Heard, Liveness};
use weft_env::Env;
use weft_format::{NodeId, ShardKey, VolumeId};
use weft_nodes::conformance::{self, key, shard};
use weft_nodes::error::{NodeError, NodeErrorKind};
use weft_nodes::node::{Node, NodeIdentity};
use weft_nodes::{Kinds, NodeUrl};

#[path = "chain_tests.rs"]
mod chain_tests;

#[path = "claim_tests.rs"]
mod claim_tests;

pub(super) const IDENTITY: NodeIdentity = NodeIdentity { volume: VolumeId(1), node: NodeId(2) };
const STRANGER: NodeIdentity = NodeIdentity { volume: VolumeId(9), node: NodeId(2) };

/// What a daemon may serve.
pub(super) fn kinds() -> Kinds {
    Kinds::new(weft_nodes::kinds::local())
}

pub(super) fn secret() -> Option<Key> {
    Some(Key::new([7; 32]))
}

pub(super) struct Served {
    pub(super) folder: TempDir,
    pub(super) address: SocketAddr,
    tls: Option<Trust>,
    stop: Option<oneshot::Sender<()>>,
    ended: tokio::task::JoinHandle<()>,
}

pub(super) async fn serve(key: Option<Key>) -> Served {
    serve_as(key, None, |daemon| daemon).await
}

pub(super) async fn serve_as(key: Option<Key>, tls: Option<Trust>, adapt: impl FnOnce(Daemon) -> Daemon) -> Served {
    let folder = TempDir::new_in("/dev/shm").unwrap();
    let daemon =
        adapt(Daemon::open(kinds(), NodeUrl::folder(folder.path()), key, &Env::system()).unwrap()).with_open_metrics();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, ended) = start(daemon, listener);
    Served { folder, address, tls, stop: Some(stop), ended }
}

/// What ends it, and when it has ended.
fn start(daemon: Daemon, listener: TcpListener) -> (oneshot::Sender<()>, tokio::task::JoinHandle<()>) {
    let (stop, stopped) = oneshot::channel();
    let ended = tokio::spawn(Arc::new(daemon).serve(listener, async {
        let _ = stopped.await;
    }));
    (stop, ended)
}

impl Served {
    pub(super) async fn node(&self, key: Option<Key>) -> DaemonNode {
        DaemonNode::create(&self.url(), "remote", IDENTITY, key, &Env::system()).await.unwrap()
    }

    pub(super) fn url(&self) -> DaemonUrl {
        DaemonUrl { authority: self.address.to_string(), tls: self.tls.clone() }
    }

    pub(super) async fn end(mut self) -> TempDir {
        self.pause().await;
        self.folder
    }

    /// Ends it; its folder and address stay.
    pub(super) async fn pause(&mut self) {
        let _ = self.stop.take().map(|stop| stop.send(()));
        (&mut self.ended).await.unwrap();
    }

    /// Serves the folder again at the same address, with short-circuit reads.
    pub(super) async fn resume(&mut self, key: Option<Key>) {
        let daemon = Daemon::open(kinds(), NodeUrl::folder(self.folder.path()), key, &Env::system()).unwrap();
        let daemon = daemon.with_open_metrics().with_short_circuit();
        let listener = TcpListener::bind(self.address).await.unwrap();
        let (stop, ended) = start(daemon, listener);
        (self.stop, self.ended) = (Some(stop), ended);
    }

    /// The file of a shard.
    pub(super) fn path_of(&self, key: ShardKey) -> PathBuf {
        self.folder.path().join(format!("{:02x}/{key}", key.segment.0 as u8))
    }

    /// Sends bytes as they are; what comes back until the daemon closes the connection, as it is asked to.
    pub(super) async fn raw(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let request = request.replace("host: x\r\n", "host: x\r\nconnection: close\r\n");
        // It may refuse before it has read everything.
        let _ = stream.write_all(request.as_bytes()).await;
        let mut answer = Vec::new();
        let _ = tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut answer)).await.expect("closed");
        String::from_utf8_lossy(&answer).into_owned()
    }
}

pub(super) fn bytes_of(number: u64, data_bytes: u64) -> Bytes {
    shard(IDENTITY.volume, key(number, 0), data_bytes, number)
}

fn refusal<T>(result: Result<T, NodeError>) -> (NodeErrorKind, String) {
    let error = result.err().expect("refused");
    (error.kind, error.detail)
}

async fn conforms(key: fn() -> Option<Key>) {
    let daemons = tokio::sync::Mutex::new(Vec::new());
    conformance::check_all(|| async {
        let served = serve(key()).await;
        let node = served.node(key()).await;
        daemons.lock().await.push(served);
        Arc::new(node) as Arc<dyn Node>
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn conforms_without_a_key() {
    conforms(|| None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn conforms_with_a_key() {
    conforms(secret).await;
}

#[tokio::test]
async fn nothing_is_read_or_written_without_the_key() {
    let served = serve(secret()).await;
    let node = served.node(secret()).await;
    node.put(key(1, 0), &[bytes_of(1, 100)]).await.unwrap();
    for wrong in [None, Some(Key::new([8; 32]))] {
        let stranger = DaemonNode::open(&served.url(), "stranger", IDENTITY, wrong, &Env::system()).unwrap();
        assert_eq!(refusal(stranger.get(key(1, 0), 0..10).await).0, NodeErrorKind::Denied);
        assert_eq!(refusal(stranger.put(key(2, 0), &[bytes_of(2, 1)]).await).0, NodeErrorKind::Denied);
        assert_eq!(refusal(stranger.remove(key(1, 0)).await).0, NodeErrorKind::Denied);
        assert_eq!(refusal(stranger.list(None, 1).await).0, NodeErrorKind::Denied);
        assert_eq!(refusal(stranger.space().await).0, NodeErrorKind::Denied);
    }
    assert_eq!(node.list(None, 10).await.unwrap().keys, [key(1, 0)]);
}

#[tokio::test]
async fn a_daemon_belongs_to_one_volume_and_says_so_after_a_restart() {
    let served = serve(None).await;
    let address = served.url();
    let unclaimed = DaemonNode::open(&address, "remote", IDENTITY, None, &Env::system()).unwrap();
    assert_eq!(refusal(unclaimed.space().await).0, NodeErrorKind::WrongNode);
    let node = served.node(None).await;
    node.put(key(1, 0), &[bytes_of(1, 100)]).await.unwrap();
    assert_eq!(
        refusal(DaemonNode::create(&address, "other", STRANGER, None, &Env::system()).await).0,
        NodeErrorKind::WrongNode
    );
    let sibling = NodeIdentity { node: NodeId(5), ..IDENTITY };
    assert_eq!(
        refusal(DaemonNode::create(&address, "other", sibling, None, &Env::system()).await).0,
        NodeErrorKind::Exists
    );
    let stranger = DaemonNode::open(&address, "other", STRANGER, None, &Env::system()).unwrap();
    assert_eq!(refusal(stranger.stat(key(1, 0)).await).0, NodeErrorKind::WrongNode);

    let folder = served.end().await;
    assert_eq!(refusal(node.stat(key(1, 0)).await).0, NodeErrorKind::Unavailable);
    let again = Daemon::open(kinds(), NodeUrl::folder(folder.path()), None, &Env::system()).unwrap();
    assert_eq!(again.identity(), Some(IDENTITY));
    let (kind, detail) = refusal(Daemon::open(kinds(), NodeUrl::folder(folder.path()), None, &Env::system()).map(drop));
    assert!(kind == NodeErrorKind::Exists && detail.contains("another daemon"), "{detail}");
}

/// Its address was another's before. Who asks that one, without a key, must not change what is here.
#[tokio::test]
async fn a_daemon_does_nothing_that_is_asked_of_another_node() {
    let served = serve(None).await;
    let node = served.node(None).await;
    node.put(key(1, 0), &[bytes_of(1, 100)]).await.unwrap();
    let sibling = NodeIdentity { node: NodeId(5), ..IDENTITY };
    let other = DaemonNode::open(&served.url(), "other", sibling, None, &Env::system()).unwrap();
    assert_eq!(refusal(other.remove(key(1, 0)).await).0, NodeErrorKind::WrongNode);
    assert_eq!(refusal(other.put(key(2, 0), &[bytes_of(2, 100)]).await).0, NodeErrorKind::WrongNode);
    assert_eq!(node.list(None, 10).await.unwrap().keys, [key(1, 0)]);
}

#[tokio::test]
async fn a_daemon_whose_folder_goes_has_lost_nothing() {
    let served = serve(None).await;
    let node = served.node(None).await;
    node.put(key(1, 0), &[bytes_of(1, 100)]).await.unwrap();
    let (path, elsewhere) = (served.folder.path().to_owned(), served.folder.path().with_extension("elsewhere"));
    std::fs::rename(&path, &elsewhere).unwrap();
    for number in [1, 2] {
        assert_eq!(refusal(node.get(key(number, 0), 0..10).await).0, NodeErrorKind::Unavailable);
    }
    std::fs::rename(&elsewhere, &path).unwrap();
    assert_eq!(node.get(key(1, 0), 0..u64::MAX).await.unwrap(), bytes_of(1, 100));
}

#[tokio::test]
async fn a_daemon_whose_folder_was_wiped_becomes_another_node() {
    let served = serve(None).await;
    let node = served.node(None).await;
    node.put(key(1, 0), &[bytes_of(1, 100)]).await.unwrap();
    std::fs::remove_dir_all(served.folder.path()).unwrap();
    assert_eq!(refusal(node.space().await).0, NodeErrorKind::Wiped);
    assert_eq!(
        refusal(DaemonNode::create(&served.url(), "other", STRANGER, None, &Env::system()).await).0,
        NodeErrorKind::WrongNode,
        "of another volume"
    );
    let sibling = NodeIdentity { node: NodeId(5), ..IDENTITY };
    let new = DaemonNode::create(&served.url(), "new", sibling, None, &Env::system()).await.unwrap();
    new.put(key(1, 0), &[bytes_of(1, 100)]).await.unwrap();
    assert_eq!(refusal(node.get(key(1, 0), 0..10).await).0, NodeErrorKind::WrongNode);
}

#[tokio::test]
async fn requests_that_make_no_sense_are_refused_and_leave_nothing() {
    let served = serve(None).await;
    let node = served.node(None).await;
    let name = key(1, 0);
    for (request, status) in [
        ("GET /shards/../weft-node.json HTTP/1.1\r\nhost: x\r\n\r\n".to_owned(), "400"),
        ("GET /shards/%2e%2e%2fweft-node.json HTTP/1.1\r\nhost: x\r\n\r\n".to_owned(), "400"),
        (format!("POST /shards/{name} HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n"), "400"),
        (format!("PUT /shards/{name} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"), "411"),
        (format!("PUT /shards/{name} HTTP/1.1\r\nhost: x\r\ncontent-length: 99999999999\r\n\r\n"), "413"),
        (format!("PUT /shards/{name} HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\nweft-digest: zz\r\n\r\nx"), "400"),
        (
            format!(
                "PUT /shards/{name} HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\nweft-digest: {}\r\n\r\nx",
                blake3::hash(b"y").to_hex()
            ),
            "400",
        ),
        (format!("GET /shards/{name} HTTP/1.1\r\nhost: x\r\nrange: bytes=9-1\r\n\r\n"), "400"),
        ("GET /shards HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\n\r\nabc".to_owned(), "400"),
        ("PUT /identity HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}".to_owned(), "400"),
        ("no http at all\r\n\r\n".to_owned(), "400"),
        (format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(500_000)), ""),
    ] {
        let answer = served.raw(&request).await;
        assert!(answer.split(' ').nth(1).unwrap_or_default().starts_with(status), "{request:.60} got {answer:.80}");
    }
    // A body that never comes whole.
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    let request = format!("PUT /shards/{name} HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\nabc");
    stream.write_all(request.as_bytes()).await.unwrap();
    drop(stream);
    assert!(node.list(None, 10).await.unwrap().keys.is_empty());
    let metrics = served.raw("GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert!(metrics.contains("weft_node_requests_total{request=\"put\",status=\"413\"} 1"), "{metrics}");
}

/// Answers every connection with these bytes, then is silent.
async fn faulty(answer: Vec<u8>) -> DaemonNode {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 4096];
            let _ = stream.read(&mut request).await;
            let _ = stream.write_all(&answer).await;
            open.push(stream);
        }
    });
    DaemonNode::open(&DaemonUrl { authority: address, tls: None }, "faulty", IDENTITY, None, &Env::system()).unwrap()
}

#[tokio::test]
async fn what_is_no_answer_of_the_node_is_neither_a_shard_nor_its_absence() {
    let ours = format!("weft-node: {}/{}", IDENTITY.volume, IDENTITY.node);
    let theirs = format!("weft-node: {}/{}", STRANGER.volume, STRANGER.node);
    for (what, answer) in [
        ("an error page with a good status", "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nsorry".to_owned()),
        ("a proxy's 404", "HTTP/1.1 404 Not Found\r\ncontent-length: 5\r\n\r\nsorry".to_owned()),
        (
            "a 404 of ours that is none of the node's",
            format!("HTTP/1.1 404 Not Found\r\n{ours}\r\ncontent-length: 0\r\n\r\n"),
        ),
        (
            "another node's absence",
            format!("HTTP/1.1 404 Not Found\r\n{theirs}\r\nweft-error: not-found\r\ncontent-length: 2\r\n\r\n{{}}"),
        ),
        (
            "a redirect",
            format!("HTTP/1.1 302 Found\r\n{ours}\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n"),
        ),
        ("another node's bytes", format!("HTTP/1.1 206 Partial Content\r\n{theirs}\r\ncontent-length: 3\r\n\r\nabc")),
        ("more than asked", format!("HTTP/1.1 206 Partial Content\r\n{ours}\r\ncontent-length: 11\r\n\r\nabcdefghijk")),
        ("no end", format!("HTTP/1.1 206 Partial Content\r\n{ours}\r\ncontent-length: 99999999999\r\n\r\nabc")),
        (
            "no length",
            format!(
                "HTTP/1.1 206 Partial Content\r\n{ours}\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
            ),
        ),
        ("another status", format!("HTTP/1.1 500 Oh\r\n{ours}\r\ncontent-length: 0\r\n\r\n")),
        ("no HTTP", "SSH-2.0-OpenSSH_9.2\r\n".to_owned()),
    ] {
        let node = faulty(answer.into_bytes()).await;
        let (kind, detail) = refusal(node.get(key(1, 0), 0..10).await);
        let is_no_answer = matches!(kind, NodeErrorKind::WrongNode | NodeErrorKind::Io | NodeErrorKind::Unavailable);
        assert!(is_no_answer, "{what}: {kind:?} {detail}");
        assert!(!detail.is_empty());
    }
}

/// The clock moves on by itself when nothing happens.
#[tokio::test(start_paused = true)]
async fn silence_and_drips_end_at_the_deadline() {
    let began = tokio::time::Instant::now();
    let node = faulty(Vec::new()).await;
    assert_eq!(refusal(node.get(key(1, 0), 0..10).await).0, NodeErrorKind::TimedOut);
    assert_eq!(refusal(node.put(key(1, 0), &[bytes_of(1, 100)]).await).0, NodeErrorKind::TimedOut);
    let half = format!(
        "HTTP/1.1 206 Partial Content\r\nweft-node: {}/{}\r\ncontent-length: 10\r\n\r\nabc",
        IDENTITY.volume, IDENTITY.node
    );
    let node = faulty(half.into_bytes()).await;
    assert_eq!(refusal(node.get(key(1, 0), 0..10).await).0, NodeErrorKind::TimedOut);
    assert!(began.elapsed() < Duration::from_secs(120), "{:?}", began.elapsed());
}

#[tokio::test]
async fn an_answer_without_the_nodes_signature_is_not_believed() {
    let answer = format!(
        "HTTP/1.1 404 Not Found\r\nweft-node: {}/{}\r\nweft-error: not-found\r\ncontent-length: 2\r\n\r\n{{}}",
        IDENTITY.volume, IDENTITY.node
    );
    let listener = faulty(answer.into_bytes()).await;
    assert_eq!(refusal(listener.get(key(1, 0), 0..10).await).0, NodeErrorKind::NotFound, "without a key it is");
    let url = DaemonUrl { authority: listener.address().to_owned(), tls: None };
    let node = DaemonNode::open(&url, "faulty", IDENTITY, secret(), &Env::system()).unwrap();
    assert_eq!(refusal(node.get(key(1, 0), 0..10).await).0, NodeErrorKind::WrongNode);
}

#[tokio::test]
async fn what_is_under_way_is_finished_before_the_end() {
    let served = serve(None).await;
    let node = Arc::new(served.node(None).await);
    let bytes = bytes_of(1, 3_000_000);
    let head = format!("PUT /shards/{} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", key(1, 0), bytes.len());
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(&bytes[..1000]).await.unwrap();
    // The daemon has the request when it answers another that came later.
    node.space().await.unwrap();
    let ending = tokio::spawn(served.end());
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!ending.is_finished(), "a put is under way");
    stream.write_all(&bytes[1000..]).await.unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 201");
    let folder = ending.await.unwrap();
    let local = weft_nodes::FolderNode::open(folder.path(), "local", IDENTITY);
    assert_eq!(local.get(key(1, 0), 0..u64::MAX).await.unwrap(), bytes);
}

/// A daemon with a certificate of its own, and what trusts it.
fn certificate() -> (Certificate, Trust) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), Certificate::generate().unwrap()).unwrap();
    let certificate = Certificate::open(file.path(), file.path()).unwrap();
    let trust = Trust::Certificate(certificate.fingerprint());
    (certificate, trust)
}

async fn serve_tls(key: Option<Key>) -> Served {
    let (certificate, trust) = certificate();
    serve_as(key, Some(trust), |daemon| daemon.with_tls(&certificate).unwrap()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn conforms_over_tls() {
    let daemons = tokio::sync::Mutex::new(Vec::new());
    conformance::check_all(|| async {
        let served = serve_tls(secret()).await;
        let node = served.node(secret()).await;
        daemons.lock().await.push(served);
        Arc::new(node) as Arc<dyn Node>
    })
    .await;
}

#[tokio::test]
async fn nothing_is_said_to_who_has_the_wrong_certificate_or_none() {
    let served = serve_tls(secret()).await;
    let node = served.node(secret()).await;
    node.put(key(1, 0), &[bytes_of(1, 100)]).await.unwrap();
    let (_, another) = certificate();
    let at = |tls| DaemonUrl { authority: served.address.to_string(), tls };
    for (tls, why) in [(Some(another.clone()), "fingerprint"), (None, "started with TLS")] {
        let node = DaemonNode::open(&at(tls), "remote", IDENTITY, secret(), &Env::system()).unwrap();
        let (kind, detail) = refusal(node.get(key(1, 0), 0..10).await);
        assert!(matches!(kind, NodeErrorKind::WrongNode | NodeErrorKind::Unavailable), "{kind:?}");
        assert!(detail.contains(why), "{detail}");
    }
    // A daemon without TLS, and who insists on it.
    let plain = serve(secret()).await;
    let url = DaemonUrl { authority: plain.address.to_string(), tls: Some(another) };
    let node = DaemonNode::open(&url, "remote", IDENTITY, secret(), &Env::system()).unwrap();
    let (kind, detail) = refusal(node.get(key(1, 0), 0..10).await);
    assert!(matches!(kind, NodeErrorKind::WrongNode | NodeErrorKind::Io | NodeErrorKind::Unavailable), "{detail}");
    assert!(plain.folder.path().read_dir().unwrap().next().is_none(), "nothing came through");
}

/// An authority, and a certificate by it for `localhost`.
#[tokio::test]
async fn a_certificate_by_an_authority_is_for_its_name() {
    let folder = TempDir::new().unwrap();
    let file = |name: &str, text: String| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let authority_key = rcgen::KeyPair::generate().unwrap();
    let mut parameters = rcgen::CertificateParams::default();
    parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority = parameters.self_signed(&authority_key).unwrap();
    let issuer = rcgen::Issuer::new(parameters, authority_key);
    let own_key = rcgen::KeyPair::generate().unwrap();
    let own =
        rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap().signed_by(&own_key, &issuer).unwrap();
    let (chain, own_key) = (file("chain", own.pem()), file("key", own_key.serialize_pem()));
    let trust = Trust::Authority(file("authority", authority.pem()));
    let certificate = Certificate::open(&chain, &own_key).unwrap();
    let served = serve_as(None, Some(trust.clone()), |daemon| daemon.with_tls(&certificate).unwrap()).await;
    let at = |host: &str, tls| DaemonUrl { authority: format!("{host}:{}", served.address.port()), tls: Some(tls) };
    let node =
        DaemonNode::create(&at("localhost", trust.clone()), "remote", IDENTITY, None, &Env::system()).await.unwrap();
    node.put(key(1, 0), &[bytes_of(1, 100)]).await.unwrap();
    for (url, why) in [(at("127.0.0.1", trust), "127.0.0.1"), (at("localhost", Trust::System), "authority")] {
        match DaemonNode::open(&url, "remote", IDENTITY, None, &Env::system()) {
            Ok(node) => {
                let (kind, detail) = refusal(node.get(key(1, 0), 0..10).await);
                assert!(kind == NodeErrorKind::WrongNode && detail.contains(why), "{detail}");
            }
            // A machine may trust nobody.
            Err(error) => assert_eq!(error.kind, NodeErrorKind::Denied),
        }
    }
    let missing = at("localhost", Trust::Authority(folder.path().join("missing")));
    assert_eq!(
        refusal(DaemonNode::open(&missing, "remote", IDENTITY, None, &Env::system()).map(drop)).0,
        NodeErrorKind::Denied
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_of_bytes_a_second_is_kept_shared_and_said() {
    let rate = std::num::NonZeroU64::new(4 << 20).unwrap();
    let served = serve_as(None, None, |daemon| daemon.with_bytes_per_second(rate)).await;
    let nodes = [Arc::new(served.node(None).await), Arc::new(served.node(None).await)];
    let bytes = bytes_of(1, 1 << 20);
    nodes[0].put(key(1, 0), std::slice::from_ref(&bytes)).await.unwrap();
    let began = std::time::Instant::now();
    let gets = nodes.clone().map(|node| tokio::spawn(async move { node.get(key(1, 0), 0..u64::MAX).await.unwrap() }));
    for get in gets {
        assert_eq!(get.await.unwrap(), bytes);
    }
    // The put's last piece and two MiB at 4 MiB/s: a limit lasts on any machine.
    assert!(began.elapsed() >= Duration::from_millis(450), "{:?}", began.elapsed());
    // So many at once are more than it sends in five seconds.
    let mut many = tokio::task::JoinSet::new();
    for _ in 0..30 {
        let node = nodes[0].clone();
        many.spawn(async move { node.get(key(1, 0), 0..u64::MAX).await });
    }
    let refused = loop {
        if let Err(error) = many.join_next().await.expect("some are refused").unwrap() {
            break error;
        }
    };
    assert_eq!(refused.kind, NodeErrorKind::Busy, "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limited_daemon_serves_those_first_who_wait() {
    let rate = std::num::NonZeroU64::new(8 << 20).unwrap();
    let served = serve_as(secret(), None, |daemon| daemon.with_bytes_per_second(rate)).await;
    let foreground: Arc<dyn Node> = Arc::new(served.node(secret()).await);
    let background = foreground.in_background().expect("a daemon serves by class");
    let bytes = bytes_of(1, 256 << 10);
    foreground.put(key(1, 0), std::slice::from_ref(&bytes)).await.unwrap();
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let reader = |node: &Arc<dyn Node>| {
        let (node, stop) = (Arc::clone(node), Arc::clone(&stop));
        tokio::spawn(async move {
            let mut bytes = 0;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                // The background may be told to come later.
                bytes += node.get(key(1, 0), 0..u64::MAX).await.map_or(0, |got| got.len());
            }
            bytes
        })
    };
    let (users, others) = ([0; 2].map(|_| reader(&foreground)), [0; 6].map(|_| reader(&background)));
    tokio::time::sleep(Duration::from_secs(2)).await;
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    let (mut of_users, mut of_others) = (0, 0);
    for user in users {
        of_users += user.await.unwrap();
    }
    for other in others {
        of_others += other.await.unwrap();
    }
    println!("{of_users} bytes for users, {of_others} for others");
    // Four fifths and one fifth (asserted in simulated time, `rate_tests.rs`) as far as a busy machine goes; without classes it would be
    // the two against the six.
    assert!(of_users > of_others, "{of_users} and {of_others}");
    assert!(of_others > 0);
    served.end().await;
}

/// A daemon that gossips, as [`serve_as`] starts others.
async fn serve_member(key: Option<Key>, cluster: Option<Key>, join: &[&Served]) -> Served {
    let folder = TempDir::new_in("/dev/shm").unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let own = DaemonUrl { authority: address.to_string(), tls: None };
    let join = join.iter().map(|member| member.url()).collect();
    let settings = GossipSettings { key: cluster, own, further: Vec::new(), join, domain: "rack1".to_owned() };
    let daemon =
        Daemon::open(kinds(), NodeUrl::folder(folder.path()), key, &Env::system()).unwrap().with_gossip(settings);
    let (stop, stopped) = oneshot::channel();
    let ended = tokio::spawn(Arc::new(daemon).serve(listener, async {
        let _ = stopped.await;
    }));
    Served { folder, address, tls: None, stop: Some(stop), ended }
}

/// Asks until it is so; the test's time-out is ours: 30 s.
pub(super) async fn until(mut is_so: impl AsyncFnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
    while !is_so().await {
        assert!(tokio::time::Instant::now() < deadline, "it is not so after 30 s");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn alive(members: &[Heard]) -> usize {
    members.iter().filter(|heard| heard.liveness == Liveness::Alive).count()
}

#[tokio::test]
async fn daemons_find_each_other_through_one_and_say_goodbye() {
    let cluster = || Some(Key::new([8; 32]));
    let first = serve_member(secret(), cluster(), &[]).await;
    let second = serve_member(secret(), cluster(), &[&first]).await;
    let third = serve_member(secret(), cluster(), &[&first]).await;
    let of_second = || async { members(&second.url(), None, cluster(), &Env::system()).await.unwrap() };
    until(async || alive(&of_second().await) == 3).await;
    assert!(of_second().await.iter().all(|heard| heard.facts.domain == "rack1" && !heard.facts.version.is_empty()));

    // Once it is a node it says so, with its room.
    third.node(secret()).await;
    let is_told = |heard: &Heard| heard.facts.node == IDENTITY.node.to_string() && heard.facts.total_bytes > 0;
    until(async || of_second().await.iter().any(is_told)).await;
    // Its users learn of the members of its volume, with the node's key; strangers of nobody.
    let of_volume = members(&third.url(), Some(IDENTITY), secret(), &Env::system()).await.unwrap();
    assert_eq!(
        of_volume.iter().map(|heard| heard.facts.address.as_str()).collect::<Vec<_>>(),
        [third.url().to_string()]
    );
    for (identity, key) in [(None, None), (None, Some(Key::new([1; 32]))), (Some(STRANGER), secret())] {
        assert!(members(&third.url(), identity, key, &Env::system()).await.is_err());
    }
    // The node's key is no ticket to the cluster.
    let intruder = serve_member(secret(), secret(), &[&first]).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(alive(&members(&intruder.url(), None, secret(), &Env::system()).await.unwrap()), 1);
    assert_eq!(of_second().await.len(), 3);

    first.end().await;
    until(async || alive(&of_second().await) == 2).await;
    for member in [second, third, intruder] {
        member.end().await;
    }
}

#[tokio::test]
async fn a_daemon_that_does_not_gossip_says_so() {
    let served = serve(None).await;
    let error = members(&served.url(), None, None, &Env::system()).await.unwrap_err();
    assert_eq!(error.kind, NodeErrorKind::Unsupported);
    served.end().await;
}

#[tokio::test]
async fn a_daemon_that_moved_is_found_by_its_node_and_a_wrong_list_costs_a_retry() {
    let content = shard(IDENTITY.volume, key(1, 0), 10_000, 7);
    let other = NodeIdentity { volume: IDENTITY.volume, node: NodeId(3) };
    let neighbour = serve_member(None, None, &[]).await;
    DaemonNode::create(&neighbour.url(), "neighbour", other, None, &Env::system()).await.unwrap();
    let moved = serve_member(None, None, &[&neighbour]).await;
    moved.node(None).await.put(key(1, 0), std::slice::from_ref(&content)).await.unwrap();
    let stranger = serve_member(None, None, &[]).await;
    DaemonNode::create(&stranger.url(), "stranger", STRANGER, None, &Env::system()).await.unwrap();
    let is_told = |heard: &Heard| heard.facts.node == IDENTITY.node.to_string();
    until(async || members(&neighbour.url(), None, None, &Env::system()).await.unwrap().iter().any(is_told)).await;

    // Metadata knows a port where nobody is, and the list one where somebody else is.
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("addresses");
    let wrong = format!(r#"{{"{}":{{"authority":"{}","started_ms":1}}}}"#, IDENTITY.node, stranger.address);
    std::fs::write(&file, wrong).unwrap();
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let book = AddressBook::new(Some(file.clone()), &Env::system());
    let at = |address: SocketAddr| DaemonUrl { authority: address.to_string(), tls: None };
    let open = |address, identity| book.open(&at(address), "node", identity, None).unwrap();
    let node = open(nobody, IDENTITY);
    assert_eq!(node.stat(key(1, 0)).await.unwrap_err().kind, NodeErrorKind::Unavailable, "nobody to ask");
    // It asks again after a while; another book at once, and the list that it leaves is right.
    let book = AddressBook::new(Some(file.clone()), &Env::system());
    let open = |address, identity| book.open(&at(address), "node", identity, None).unwrap();
    let (node, _neighbour) = (open(nobody, IDENTITY), open(neighbour.address, other));
    assert_eq!(node.get(key(1, 0), 0..1 << 20).await.unwrap(), content);
    assert!(std::fs::read_to_string(&file).unwrap().contains(&moved.address.to_string()));
    for served in [neighbour, moved, stranger] {
        served.end().await;
    }
}

#[tokio::test]
async fn finding_15_a_list_that_does_not_go_on_is_no_list() {
    let ours = format!("weft-node: {}/{}", IDENTITY.volume, IDENTITY.node);
    let page = |keys: &[ShardKey]| {
        let keys: Vec<String> = keys.iter().map(|key| format!("\"{key}\"")).collect();
        let body = format!("{{\"keys\":[{}],\"foreign\":[],\"more\":true}}", keys.join(","));
        format!("HTTP/1.1 200 OK\r\n{ours}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
    };
    let one = key(1, 0);
    for (after, keys) in [(None, vec![]), (Some(one), vec![one]), (None, vec![one, one]), (Some(key(2, 0)), vec![one])]
    {
        let node = faulty(page(&keys).into_bytes()).await;
        assert_eq!(refusal(node.list(after, 10).await).0, NodeErrorKind::WrongNode, "{after:?} {keys:?}");
    }
    let node = faulty(page(&[one, key(2, 0)]).into_bytes()).await;
    assert_eq!(node.list(None, 10).await.unwrap().keys.len(), 2);
}

#[tokio::test]
async fn finding_17_a_daemon_with_a_key_tells_its_counters_to_who_signs() {
    let daemon = |key, adapt: fn(Daemon) -> Daemon| {
        let folder = TempDir::new_in("/dev/shm").unwrap();
        (adapt(Daemon::open(kinds(), NodeUrl::folder(folder.path()), key, &Env::system()).unwrap()), folder)
    };
    for (key, adapt, is_told) in [
        (secret(), (|daemon| daemon) as fn(Daemon) -> Daemon, false),
        (secret(), |daemon| daemon.with_open_metrics(), true),
        (None, |daemon| daemon, true),
    ] {
        let (daemon, folder) = daemon(key, adapt);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, ended) = start(daemon, listener);
        let served = Served { folder, address, tls: None, stop: Some(stop), ended };
        let answer = served.raw("GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n").await;
        assert_eq!(answer.contains("weft_node_requests_total"), is_told, "{answer}");
        assert_eq!(answer.starts_with("HTTP/1.1 401"), !is_told, "{answer}");
    }
}

/// Awaits what comes first: the daemon says that it is there while it takes a shard within its limit.
#[tokio::test(flavor = "multi_thread")]
async fn finding_25_a_daemon_at_its_limit_says_that_it_is_there() {
    let rate = std::num::NonZeroU64::new(64 << 10).unwrap();
    let served = serve_as(secret(), None, |daemon| daemon.with_bytes_per_second(rate)).await;
    let node = Arc::new(served.node(secret()).await);
    // Eight seconds at this rate, and two at once are more than it takes in five.
    let mut puts = tokio::task::JoinSet::new();
    for index in 0..2 {
        let node = Arc::clone(&node);
        puts.spawn(async move { node.put(key(1, index), &[bytes_of(1, 512 << 10)]).await });
    }
    let refused = puts.join_next().await.expect("two were begun").unwrap().unwrap_err();
    assert_eq!(refused.kind, NodeErrorKind::Busy, "{refused}");
    node.space().await.unwrap();
    assert!(puts.try_join_next().is_none(), "it was asked while it took the other");
}

/// A daemon refuses before it reads the body. The reason must arrive although the body is still being sent, and no later
/// request may meet the connection that the daemon closes.
#[tokio::test(flavor = "multi_thread")]
async fn finding_25_a_refusal_is_heard_by_who_still_sends() {
    for served in [serve(secret()).await, serve_tls(secret()).await] {
        let node = served.node(secret()).await;
        let wrong_key =
            DaemonNode::open(&served.url(), "remote", IDENTITY, Some(Key::new([8; 32])), &Env::system()).unwrap();
        for index in 0..20 {
            let refused = wrong_key.put(key(1, index), &[bytes_of(1, 8 << 20)]).await.unwrap_err();
            assert_eq!(refused.kind, NodeErrorKind::Denied, "{refused}");
            let refused = wrong_key.space().await.unwrap_err();
            assert_eq!(refused.kind, NodeErrorKind::Denied, "{refused}");
        }
        node.space().await.unwrap();
        served.end().await;
    }
}
