//! Faulty servers: for any answer of theirs a call of the node fails soon. It never reports that a shard is absent, that a shard is stored,
//! or that its list is complete.

use super::{IDENTITY, open};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use weft_nodes::{Node, NodeErrorKind, conformance};

/// The answer of a faulty server to every request.
#[derive(Clone, Copy, Debug)]
enum Fault {
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

const FAULTS: [Fault; 7] = [
    Fault::PageWith200,
    Fault::PageWith404,
    Fault::Redirect,
    Fault::Busy,
    Fault::Short,
    Fault::Endless,
    Fault::Silence,
];

const PAGE: &str = "<html><body><h1>Welcome</h1></body></html>";

/// Gives the faulty answer to every request until it is dropped; or to all but those for the identity file.
struct FaultyServer {
    address: SocketAddr,
    ends: Arc<AtomicBool>,
}

impl FaultyServer {
    fn start(fault: Fault, knows_who_it_is: bool) -> Self {
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
                    let _ = answer(stream, fault, knows_who_it_is, address);
                });
            }
        });
        Self { address, ends }
    }
}

impl Drop for FaultyServer {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address);
    }
}

fn answer(mut stream: TcpStream, fault: Fault, knows_who_it_is: bool, own: SocketAddr) -> std::io::Result<()> {
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
    let text = match fault {
        _ if asks_who && knows_who_it_is => {
            format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{identity}", identity.len())
        }
        Fault::PageWith200 => page("200 OK"),
        Fault::PageWith404 => page("404 Not Found"),
        Fault::Redirect => page(&format!("307 Temporary Redirect\r\nLocation: http://{own}/elsewhere")),
        Fault::Busy => page("503 Service Unavailable"),
        Fault::Short => format!("HTTP/1.1 206 Partial Content\r\nContent-Length: 5000\r\n\r\n{PAGE}"),
        Fault::Endless => {
            stream.write_all(b"HTTP/1.1 206 Partial Content\r\nTransfer-Encoding: chunked\r\n\r\n")?;
            loop {
                stream.write_all(format!("{:x}\r\n{}\r\n", 65_536, "x".repeat(65_536)).as_bytes())?;
            }
        }
        Fault::Silence => {
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

async fn check_refused(fault: Fault, knows_who_it_is: bool, node: &dyn Node) {
    let key = conformance::key(1, 0);
    let bytes = conformance::shard(IDENTITY.volume, key, 1000, 1);
    let parts = std::slice::from_ref(&bytes);
    let what =
        |call: &str| format!("{fault:?}, {}: {call}", if knows_who_it_is { "true identity" } else { "no identity" });
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
                assert!(knows_who_it_is && matches!(fault, Fault::PageWith404), "{}", what(call))
            }
            Err(_) => {}
            // A page of right length under right status is found out by the shard's checksums.
            Ok(answer) => assert!(
                knows_who_it_is && matches!(fault, Fault::PageWith200) && call != "remove",
                "{} was believed: {answer}",
                what(call)
            ),
        }
    }
}

async fn check_faulty(place: impl Fn(SocketAddr) -> String, keys: &str) {
    let check = |(fault, knows_who_it_is): (Fault, bool)| {
        let (server, place) = (FaultyServer::start(fault, knows_who_it_is), &place);
        async move {
            let node = open(&place(server.address), keys, IDENTITY);
            check_refused(fault, knows_who_it_is, &*node).await;
            drop(server);
        }
    };
    let all = FAULTS.into_iter().flat_map(|fault| [(fault, false), (fault, true)]);
    futures_util::future::join_all(all.map(check)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_faulty_bucket_is_not_believed() {
    check_faulty(|address| format!("s3://shards/prefix?endpoint=http://{address}"), crate::servers::S3_KEYS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_faulty_webdav_server_is_not_believed() {
    check_faulty(|address| format!("webdav://{address}/dav"), crate::servers::WEBDAV_KEYS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_faulty_webhdfs_server_is_not_believed() {
    check_faulty(|address| format!("webhdfs://{address}/weft?user=weft"), "").await;
}
