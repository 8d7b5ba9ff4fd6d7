//! Servers that lie: whatever they answer, a node of theirs ends in an error soon, and never says that a shard is absent,
//! that it has what it was given, or that its list is complete.

use super::{IDENTITY, open};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use weft_nodes::{Node, NodeErrorKind, conformance};

/// What a liar answers to every request.
#[derive(Clone, Copy, Debug)]
enum Lie {
    /// A page that says that all is well, as a proxy or a hotel has it.
    PageWith200,
    /// The same with 404: as it looks when the server behind a proxy is gone.
    PageWith404,
    /// Elsewhere, and there the same.
    Redirect,
    /// Too much to do.
    Busy,
    /// Fewer bytes than announced, then the end.
    Short,
    /// More bytes than there can be.
    Endless,
    /// Nothing.
    Silence,
}

const LIES: [Lie; 7] =
    [Lie::PageWith200, Lie::PageWith404, Lie::Redirect, Lie::Busy, Lie::Short, Lie::Endless, Lie::Silence];

const PAGE: &str = "<html><body><h1>Welcome</h1></body></html>";

/// Answers every request with a lie until it is dropped; or all but those for the identity file.
struct Liar {
    address: SocketAddr,
    ends: Arc<AtomicBool>,
}

impl Liar {
    fn start(lie: Lie, knows_who_it_is: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound");
        let ends = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&ends);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if ended.load(Ordering::Relaxed) {
                    break;
                }
                let stream = stream.expect("a connection");
                std::thread::spawn(move || {
                    // A client that has heard enough goes away.
                    let _ = answer(stream, lie, knows_who_it_is, address);
                });
            }
        });
        Self { address, ends }
    }
}

impl Drop for Liar {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address);
    }
}

fn answer(mut stream: TcpStream, lie: Lie, knows_who_it_is: bool, own: SocketAddr) -> std::io::Result<()> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    let page = |status: &str| {
        format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/html\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{PAGE}",
            PAGE.len()
        )
    };
    let head_text = String::from_utf8_lossy(&head).into_owned();
    let asks_who =
        head_text.starts_with("GET") && head_text.lines().next().is_some_and(|line| line.contains("weft-node.json"));
    let identity = IDENTITY.encode();
    let text = match lie {
        _ if asks_who && knows_who_it_is => {
            format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{identity}", identity.len())
        }
        Lie::PageWith200 => page("200 OK"),
        Lie::PageWith404 => page("404 Not Found"),
        Lie::Redirect => page(&format!("307 Temporary Redirect\r\nLocation: http://{own}/elsewhere")),
        Lie::Busy => page("503 Service Unavailable"),
        Lie::Short => format!("HTTP/1.1 206 Partial Content\r\nContent-Length: 5000\r\n\r\n{PAGE}"),
        Lie::Endless => {
            stream.write_all(b"HTTP/1.1 206 Partial Content\r\nTransfer-Encoding: chunked\r\n\r\n")?;
            loop {
                stream.write_all(format!("{:x}\r\n{}\r\n", 65_536, "x".repeat(65_536)).as_bytes())?;
            }
        }
        Lie::Silence => {
            // Until the client has had enough.
            stream.read_to_end(&mut head)?;
            return Ok(());
        }
    };
    stream.write_all(text.as_bytes())?;
    stream.shutdown(std::net::Shutdown::Write)?;
    stream.read_to_end(&mut head)?;
    Ok(())
}

/// How a call ended; an answer that was believed is named.
async fn ended<T: std::fmt::Debug>(
    what: String,
    call: impl Future<Output = Result<T, weft_nodes::NodeError>>,
) -> Result<String, NodeErrorKind> {
    let ended = call.await;
    println!("{what}: {ended:?}");
    ended.map(|answer| format!("{answer:?}")).map_err(|error| error.kind)
}

async fn check_refused(lie: Lie, knows_who_it_is: bool, node: &dyn Node) {
    let key = conformance::key(1, 0);
    let bytes = conformance::shard(IDENTITY.volume, key, 1000, 1);
    let parts = std::slice::from_ref(&bytes);
    let what = |call: &str| format!("{lie:?}, {}: {call}", if knows_who_it_is { "true identity" } else { "all lies" });
    let (get, behind, stat, put, list, remove, space) = tokio::join!(
        ended(what("get"), node.get(key, 0..100)),
        ended(what("get behind"), node.get(key, 5000..6000)),
        ended(what("stat"), node.stat(key)),
        ended(what("put"), node.put(key, parts)),
        ended(what("list"), node.list(None, 10)),
        ended(what("remove"), node.remove(key)),
        ended(what("space"), node.space()),
    );
    for (call, ended) in [("put", put), ("list", list), ("get behind", behind)] {
        let absent = ended == Err(NodeErrorKind::NotFound);
        assert!(ended.is_err(), "{} was believed", what(call));
        assert!(!absent || (call == "get behind" && knows_who_it_is), "{} was taken for absent", what(call));
    }
    assert!(space.is_ok() == knows_who_it_is, "{}: {space:?}", what("space"));
    for (call, ended) in [("get", get), ("stat", stat), ("remove", remove)] {
        match ended {
            // Who knows who it is, is asked for a shard, and says 404: that is how absence looks.
            Err(NodeErrorKind::NotFound) => {
                assert!(knows_who_it_is && matches!(lie, Lie::PageWith404), "{}", what(call))
            }
            Err(_) => {}
            // A page of right length under right status is found out by the shard's checksums.
            Ok(answer) => assert!(
                knows_who_it_is && matches!(lie, Lie::PageWith200) && call != "remove",
                "{} was believed: {answer}",
                what(call)
            ),
        }
    }
}

async fn check_liars(place: impl Fn(SocketAddr) -> String, keys: &str) {
    let check = |(lie, knows_who_it_is): (Lie, bool)| {
        let (liar, place) = (Liar::start(lie, knows_who_it_is), &place);
        async move {
            let node = open(&place(liar.address), keys, IDENTITY);
            check_refused(lie, knows_who_it_is, &*node).await;
            drop(liar);
        }
    };
    let liars = LIES.into_iter().flat_map(|lie| [(lie, false), (lie, true)]);
    futures_util::future::join_all(liars.map(check)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_that_lies_is_not_believed() {
    check_liars(|address| format!("s3://shards/prefix?endpoint=http://{address}"), crate::servers::S3_KEYS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webdav_server_that_lies_is_not_believed() {
    check_liars(|address| format!("webdav://{address}/dav"), crate::servers::WEBDAV_KEYS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhdfs_server_that_lies_is_not_believed() {
    check_liars(|address| format!("webhdfs://{address}/weft?user=weft"), "").await;
}
