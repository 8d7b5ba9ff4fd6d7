//! Files of real daemons, and of sockets that are none.

use super::*;
use crate::Key;
use crate::tests::{IDENTITY, Served, bytes_of, secret, serve_as};
use crate::{Daemon, DaemonNode};
use std::num::NonZeroU64;
use std::path::Path;
use tokio::net::UnixListener;
use weft_env::Env;
use weft_nodes::conformance::key;
use weft_nodes::error::NodeErrorKind;
use weft_nodes::node::Node;

/// A daemon that allows it.
async fn serve(key: Option<Key>) -> Served {
    serve_as(key, None, Daemon::with_short_circuit).await
}

/// A user who asks for it.
async fn short_circuit_node(served: &Served, key: Option<Key>) -> DaemonNode {
    served.node(key).await.with_short_circuit()
}

/// How many requests of a kind a daemon has answered with this status, or files handed over.
async fn count(served: &Served, series: &str) -> u64 {
    let metrics = served.raw("GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n").await;
    let line = metrics.lines().find(|line| line.starts_with(series));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(0)
}

async fn gets(served: &Served) -> u64 {
    count(served, "weft_node_requests_total{request=\"get\"").await
}

async fn opened(served: &Served) -> u64 {
    count(served, "weft_node_short_circuit_files_total").await
}

/// Reads until the node has a file.
async fn read_by_file(served: &Served, node: &dyn Node, number: u64) {
    while opened(served).await == 0 {
        node.get(key(number, 0), 0..1).await.unwrap();
    }
}

fn is_open(path: &Path) -> bool {
    let entries = std::fs::read_dir("/proc/self/fd").unwrap();
    // A removed file's name is followed by a word.
    let paths = entries.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    paths.into_iter().any(|open| open.to_string_lossy().starts_with(&*path.to_string_lossy()))
}

/// Until this process has the file open no more.
async fn closed(path: &Path) {
    while is_open(path) {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn what_is_read_by_file_is_what_would_be_sent() {
    for key_of_node in [None, secret()] {
        let served = serve(key_of_node.clone()).await;
        let node = short_circuit_node(&served, key_of_node).await;
        let bytes = bytes_of(1, 500_000);
        node.put(key(1, 0), std::slice::from_ref(&bytes)).await.unwrap();
        read_by_file(&served, &node, 1).await;
        let before = gets(&served).await;
        let end = bytes.len() as u64;
        for range in [0..end, 0..1, 5..4101, end - 1..end, end - 1..end + 9, end..end + 5, end + 7..end + 9, 3..400_000]
        {
            let wanted = bytes.slice(range.start.min(end) as usize..range.end.min(end) as usize);
            assert_eq!(node.get(key(1, 0), range).await.unwrap(), wanted);
        }
        assert_eq!((gets(&served).await, opened(&served).await), (before, 1));
        // The background's reads are the same node's.
        let background = node.in_background().unwrap();
        assert_eq!(background.get(key(1, 0), 0..end).await.unwrap(), bytes);
        assert_eq!(gets(&served).await, before);
    }
}

#[tokio::test]
async fn a_shard_that_is_gone_or_another_is_not_read_from_an_old_file() {
    let served = serve(None).await;
    let node = short_circuit_node(&served, None).await;
    for number in 1..=3 {
        node.put(key(number, 0), &[bytes_of(number, 1000)]).await.unwrap();
    }
    read_by_file(&served, &node, 1).await;
    node.remove(key(1, 0)).await.unwrap();
    assert_eq!(node.get(key(1, 0), 0..10).await.unwrap_err().kind, NodeErrorKind::NotFound);

    // Somebody puts another file in its place.
    node.get(key(2, 0), 0..10).await.unwrap();
    let path = served.path_of(key(2, 0));
    std::fs::write(served.folder.path().join("new"), b"something else").unwrap();
    std::fs::rename(served.folder.path().join("new"), &path).unwrap();
    assert_eq!(node.get(key(2, 0), 0..14).await.unwrap(), b"something else"[..]);
    // What rots in the file rots in what is read.
    std::fs::write(&path, b"nothing at all").unwrap();
    assert_eq!(node.get(key(2, 0), 0..14).await.unwrap(), b"nothing at all"[..]);

    // The whole folder goes.
    node.get(key(3, 0), 0..10).await.unwrap();
    for entry in std::fs::read_dir(served.folder.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) }.unwrap();
    }
    assert_eq!(node.get(key(3, 0), 0..10).await.unwrap_err().kind, NodeErrorKind::Wiped);
}

#[tokio::test]
async fn a_daemon_that_ends_leaves_no_file_open_and_the_next_one_hands_them_over_again() {
    let mut served = serve(secret()).await;
    let node = short_circuit_node(&served, secret()).await;
    node.put(key(1, 0), &[bytes_of(1, 1000)]).await.unwrap();
    read_by_file(&served, &node, 1).await;
    served.pause().await;
    // The disk could be unmounted now.
    closed(&served.path_of(key(1, 0))).await;
    assert_eq!(node.get(key(1, 0), 0..10).await.unwrap_err().kind, NodeErrorKind::Unavailable);

    served.resume(secret()).await;
    read_by_file(&served, &node, 1).await;
    assert_eq!(node.get(key(1, 0), 0..1000).await.unwrap(), bytes_of(1, 1000).slice(..1000));
    drop(node);
    served.pause().await;
    closed(&served.path_of(key(1, 0))).await;
}

#[tokio::test]
async fn what_is_removed_is_closed() {
    let served = serve(None).await;
    let node = short_circuit_node(&served, None).await;
    let short_circuit = Arc::new(ShortCircuit::new(&Env::system().clock));
    assert!(short_circuit.may_ask());
    short_circuit.answered(node.terms().await.ok()).await;
    for number in 1..=3 {
        node.put(key(number, 0), &[bytes_of(number, 1000)]).await.unwrap();
        assert!(short_circuit.get(key(number, 0), &(0..10)).await.is_some());
        assert!(is_open(&served.path_of(key(number, 0))));
    }
    // By this user, and by somebody else.
    short_circuit.forget(key(1, 0));
    std::fs::remove_file(served.path_of(key(2, 0))).unwrap();
    short_circuit.session().unwrap().files.forget_removed();
    let open: Vec<u64> = (1..=3).filter(|number| is_open(&served.path_of(key(*number, 0)))).collect();
    assert_eq!(open, [3]);
}

#[tokio::test]
async fn with_a_limit_every_byte_passes_the_daemon() {
    let served =
        serve_as(None, None, |daemon| daemon.with_short_circuit().with_bytes_per_second(NonZeroU64::MAX)).await;
    let node = short_circuit_node(&served, None).await;
    node.put(key(1, 0), &[bytes_of(1, 1000)]).await.unwrap();
    for _ in 0..50 {
        node.get(key(1, 0), 0..10).await.unwrap();
    }
    while count(&served, "weft_node_requests_total{request=\"short-circuit\",status=\"501\"}").await == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!((gets(&served).await, opened(&served).await), (50, 0));
}

#[tokio::test]
async fn no_file_is_had_without_the_ticket() {
    let served = serve(secret()).await;
    let node = short_circuit_node(&served, secret()).await;
    node.put(key(1, 0), &[bytes_of(1, 100)]).await.unwrap();
    let stranger =
        crate::DaemonNode::open(&served.url(), "stranger", IDENTITY, Some(Key::new([8; 32])), &Env::system()).unwrap();
    assert_eq!(stranger.terms().await.unwrap_err().kind, NodeErrorKind::Denied);
    let ShortCircuitBody { socket, ticket } = node.terms().await.unwrap();
    let name = key(1, 0).to_string();
    assert!(ask(&*Env::system().clock, &socket, &ticket, &name).await.is_some_and(|(_, file)| file.is_some()));
    let mut other = ticket.clone();
    other.replace_range(..1, if ticket.starts_with('0') { "1" } else { "0" });
    for (ticket, what) in [
        (other.as_str(), name.as_str()),
        ("", &name),
        (&ticket[1..], &name),
        (&ticket.to_uppercase(), "../weft-node.json"),
        (&ticket, "../weft-node.json"),
        (&ticket, "weft-node.json"),
        (&ticket, &format!("{name}/..")),
        (&ticket, &key(2, 0).to_string()),
        (&ticket, &"x".repeat(300)),
        (&ticket, "\u{0}"),
    ] {
        assert!(ask(&*Env::system().clock, &socket, ticket, what).await.is_none(), "{what}");
    }
    // Whoever says nothing, or half of it, keeps nobody else from being served.
    let mut silent = Vec::new();
    for _ in 0..300 {
        let Ok(stream) = UnixStream::connect(address(&socket)).await else { break };
        let _ = stream.try_write(&ticket.as_bytes()[..20]);
        silent.push(stream);
    }
    while ask(&*Env::system().clock, &socket, &ticket, &name).await.is_none() {}
}

#[tokio::test]
async fn a_socket_that_hands_over_something_else_is_passed_by() {
    let folder = tempfile::tempdir().unwrap();
    let directory = OwnedFd::from(std::fs::File::open(folder.path()).unwrap());
    let (pipe, _write_end) = rustix::pipe::pipe().unwrap();
    for (answer, file) in
        [(GIVEN, None), (GIVEN, Some(&directory)), (GIVEN, Some(&pipe)), (REFUSED, None), (b'?', None)]
    {
        let socket = socket_name(rand::random());
        let listener = UnixListener::bind(address(&socket)).unwrap();
        let serving = async {
            let (guarded, _) = listener.accept().await.unwrap();
            receive(&guarded).await.unwrap();
            give(&guarded, None).await.unwrap();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                receive(&stream).await.unwrap();
                let files: Vec<_> = file.iter().map(|file| file.as_fd()).collect();
                send(&stream, &[answer], &files).await.unwrap();
            }
        };
        let short_circuit = Arc::new(ShortCircuit::new(&Env::system().clock));
        assert!(short_circuit.may_ask() && !short_circuit.may_ask());
        let reading = async {
            short_circuit.answered(Some(ShortCircuitBody { socket: socket.clone(), ticket: "t".to_owned() })).await;
            short_circuit.get(key(1, 0), &(0..10)).await
        };
        let got = tokio::select! {
            got = reading => got,
            _ = serving => None,
        };
        assert_eq!(got, None);
    }
    // Nobody is there: elsewhere.
    let short_circuit = Arc::new(ShortCircuit::new(&Env::system().clock));
    assert!(short_circuit.may_ask());
    short_circuit
        .answered(Some(ShortCircuitBody { socket: socket_name(rand::random()), ticket: "t".to_owned() }))
        .await;
    assert!(!short_circuit.may_ask(), "it is not asked at each read");
}

#[tokio::test]
async fn finding_16_short_circuit_reads_are_off_unless_both_sides_ask_for_it() {
    let quiet = serve_as(None, None, |daemon| daemon).await;
    let node = short_circuit_node(&quiet, None).await;
    assert_eq!(node.terms().await.unwrap_err().kind, NodeErrorKind::Unsupported);
    let allowing = serve(None).await;
    let plain = allowing.node(None).await;
    plain.put(key(1, 0), &[bytes_of(1, 1000)]).await.unwrap();
    for _ in 0..50 {
        plain.get(key(1, 0), 0..10).await.unwrap();
    }
    assert_eq!(count(&allowing, "weft_node_requests_total{request=\"short-circuit\"").await, 0, "it does not ask");
    assert_eq!((gets(&allowing).await, opened(&allowing).await), (50, 0));
}

#[tokio::test]
async fn finding_16_no_socket_is_told_anything_that_is_no_daemons() {
    // A hostile daemon names the socket of something else on this machine.
    for name in ["weft-victim".to_owned(), format!("victim-{:032x}", rand::random::<u128>())] {
        let listener = UnixListener::bind(address(&name)).unwrap();
        let short_circuit = Arc::new(ShortCircuit::new(&Env::system().clock));
        assert!(short_circuit.may_ask());
        short_circuit.answered(Some(ShortCircuitBody { socket: name, ticket: "t".to_owned() })).await;
        assert!(short_circuit.session().is_none());
        // Whoever had connected would be waiting here.
        let accepted = std::future::poll_fn(|context| std::task::Poll::Ready(listener.poll_accept(context).is_ready()));
        assert!(!accepted.await, "nobody connects to it");
    }
    assert!(is_socket_name(&socket_name(0)) && is_socket_name(&socket_name(u128::MAX)));
    for name in [
        "",
        "weft-",
        "/org/freedesktop",
        "weft-0123456789abcdef0123456789abcde",
        "weft-0123456789ABCDEF0123456789abcdef",
    ] {
        assert!(!is_socket_name(name), "{name}");
    }
    // Only who can do all that this user can is believed.
    assert_eq!([(0, 0), (0, 1000), (1000, 1000)].map(|(peer, own)| is_trusted(peer, own)), [true; 3]);
    assert_eq!([(1000, 0), (1001, 1000)].map(|(peer, own)| is_trusted(peer, own)), [false; 2]);
}
