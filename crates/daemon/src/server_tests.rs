//! Connections that make way, on real sockets, and bodies that come in small parts.

use super::*;
use crate::DaemonNode;
use crate::tests::{IDENTITY, Served, bytes_of, kinds, serve_as, until};
use async_trait::async_trait;
use bytes::Bytes;
use std::ops::Range;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio::net::{TcpSocket, TcpStream};
use weft_env::Env;
use weft_format::ShardKey;
use weft_nodes::conformance::key;
use weft_nodes::kinds::LOCAL;
use weft_nodes::node::{Capability, Page, ShardStat, Space};

/// Longer than what buffers of sockets hold.
const SHARD_BYTES: u64 = 16 << 20;

const LIMITS: Limits = Limits { connections: 2, per_ip: 2, refused: 4 };

async fn serve() -> Served {
    serve_as(None, None, |daemon| Daemon { limits: LIMITS, ..daemon }).await
}

/// A connection of this test's own, whose buffer is small.
async fn connect(served: &Served) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(64 << 10).unwrap();
    socket.connect(served.address).await.unwrap()
}

fn user(served: &Served) -> DaemonNode {
    DaemonNode::open(&served.url(), "another", IDENTITY, None, &Env::system()).unwrap()
}

async fn ask(stream: &mut (impl AsyncWrite + Unpin), head: &str) {
    stream.write_all(format!("{head} HTTP/1.1\r\nhost: x\r\n").as_bytes()).await.unwrap();
}

async fn is_busy(node: &DaemonNode) -> bool {
    node.space().await.is_err_and(|error| error.kind == NodeErrorKind::Busy)
}

/// The head is answered, and most of the body is still to be sent: nobody takes such a place.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_being_sent_is_not_cut_for_another_connection() {
    let served = serve().await;
    let shard = bytes_of(1, SHARD_BYTES);
    served.node(None).await.put(key(1, 0), std::slice::from_ref(&shard)).await.unwrap();
    // The connection that put it may not count as idle yet, so that one more than all others is told to come again.
    let begin = async || loop {
        let mut stream = connect(&served).await;
        ask(&mut stream, &format!("GET /shards/{}", key(1, 0))).await;
        let range = format!("range: bytes=0-{}\r\n\r\n", shard.len() - 1);
        stream.write_all(range.as_bytes()).await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        if head.starts_with(b"HTTP/1.1 206") {
            return stream;
        }
        assert!(head.starts_with(b"HTTP/1.1 429"), "{}", String::from_utf8_lossy(&head));
    };
    let mut slow = Vec::new();
    for _ in 0..LIMITS.connections {
        slow.push(begin().await);
    }
    let other = user(&served);
    assert!(is_busy(&other).await && is_busy(&other).await);
    let refused = other.put(key(1, 1), &[bytes_of(1, 8 << 20)]).await.unwrap_err();
    assert_eq!(refused.kind, NodeErrorKind::Busy, "{refused}");
    for mut stream in slow {
        let mut body = vec![0; shard.len()];
        stream.read_exact(&mut body).await.unwrap();
        assert!(body == shard, "the whole shard arrives");
    }
    // What is sent is idle.
    until(async || other.space().await.is_ok()).await;
}

/// The bodies of two connections never come.
#[tokio::test(flavor = "multi_thread")]
async fn bodies_that_never_come_keep_nobody_out() {
    let served = serve().await;
    served.node(None).await;
    let mut silent = Vec::new();
    for index in 0..LIMITS.connections {
        let mut stream = connect(&served).await;
        ask(&mut stream, &format!("PUT /shards/{}", key(1, index as u16))).await;
        stream.write_all(b"content-length: 9\r\n\r\n").await.unwrap();
        silent.push(stream);
    }
    let other = user(&served);
    until(async || other.space().await.is_ok()).await;
    // The one that makes way is told, and not reset. Which of the two it is depends on whose request came first.
    let read = async |mut stream: TcpStream| {
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    };
    let (second, first) = (silent.pop().unwrap(), silent.pop().unwrap());
    let answer = tokio::select! {
        answer = read(first) => answer,
        answer = read(second) => answer,
    };
    assert!(answer.starts_with("HTTP/1.1 429") && answer.contains("ask later"), "{answer}");
}

/// A node that only takes, and keeps the parts as they are.
#[derive(Default)]
struct Taker(Mutex<Vec<Bytes>>);

#[async_trait]
impl Node for Taker {
    fn capability(&self) -> &Capability {
        &LOCAL
    }

    async fn put(&self, _: ShardKey, parts: &[Bytes]) -> Result<(), NodeError> {
        self.0.lock().extend_from_slice(parts);
        Ok(())
    }

    async fn get(&self, _: ShardKey, _: Range<u64>) -> Result<Bytes, NodeError> {
        unreachable!("it is not asked")
    }

    async fn stat(&self, _: ShardKey) -> Result<ShardStat, NodeError> {
        unreachable!("it is not asked")
    }

    async fn list(&self, _: Option<ShardKey>, _: usize) -> Result<Page, NodeError> {
        unreachable!("it is not asked")
    }

    async fn remove(&self, _: ShardKey) -> Result<(), NodeError> {
        unreachable!("it is not asked")
    }

    async fn space(&self) -> Result<Space, NodeError> {
        unreachable!("it is not asked")
    }

    async fn identity(&self) -> Result<NodeIdentity, NodeError> {
        unreachable!("it is not asked")
    }
}

/// Each part of a body has a buffer of several KiB, though it may be one byte.
#[tokio::test]
async fn a_body_that_comes_byte_by_byte_holds_no_buffer_for_each() {
    let folder = tempfile::TempDir::new_in("/dev/shm").unwrap();
    let daemon = Daemon::open(kinds(), NodeUrl::folder(folder.path()), None, &Env::system()).unwrap();
    let taker = Arc::new(Taker::default());
    *daemon.node.write() = Some((IDENTITY, taker.clone()));
    let (graceful, limit) = (GracefulShutdown::new(), PerIpLimit::new(LIMITS, &daemon.env.clock));
    let address: SocketAddr = ([127, 0, 0, 1], 1).into();
    let peer = Peer { address, is_here: true, slot: Arc::new(limit.admit(address.ip()).unwrap()) };
    // What is read at once is one byte.
    let (mut user, stream) = duplex(1);
    let asking = async {
        let body = [7; 300];
        ask(&mut user, &format!("PUT /shards/{}", key(1, 0))).await;
        user.write_all(b"connection: close\r\ncontent-length: 300\r\n\r\n").await.unwrap();
        user.write_all(&body).await.unwrap();
        let mut answer = Vec::new();
        user.read_to_end(&mut answer).await.unwrap();
        assert!(answer.starts_with(b"HTTP/1.1 201"), "{}", String::from_utf8_lossy(&answer));
        assert_eq!(*taker.0.lock(), [Bytes::copy_from_slice(&body)]);
    };
    tokio::join!(Arc::new(daemon).converse(stream, peer, graceful.watcher(), Arc::default()), asking);
}
