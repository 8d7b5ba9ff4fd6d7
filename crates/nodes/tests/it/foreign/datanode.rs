//! Nodes of HDFS that are one DataNode each, against a small WebHDFS in this process: one NameNode, which always names the wrong DataNode.
//! `lab/hdfs.sh` runs the same against Hadoop.

use super::{IDENTITY, create, open};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use weft_nodes::{Node, NodeErrorKind, conformance};

/// A file, and the DataNode that its block is on.
type Files = Arc<Mutex<BTreeMap<String, (Vec<u8>, SocketAddr)>>>;

/// A NameNode and DataNodes, each on an address of this machine of its own.
struct Hdfs {
    name: SocketAddr,
    datanodes: Vec<DataNode>,
    files: Files,
    load: Arc<Load>,
    ends: Arc<AtomicBool>,
}

/// What a NameNode does not do at once.
#[derive(Default)]
struct Load {
    /// It refuses to say where blocks are.
    hides_places: AtomicBool,
    /// It refuses to remove files, and removes them later all the same.
    removes_late: AtomicBool,
    removed_late: Mutex<Vec<String>>,
}

#[derive(Clone)]
struct DataNode {
    address: SocketAddr,
    is_down: Arc<AtomicBool>,
    is_full: Arc<AtomicBool>,
}

impl Hdfs {
    fn start() -> Self {
        let (files, load, ends) = (Files::default(), Arc::<Load>::default(), Arc::new(AtomicBool::new(false)));
        let listeners: Vec<TcpListener> =
            (1..4).map(|host| TcpListener::bind((format!("127.0.0.{host}"), 0)).expect("a free port")).collect();
        let addresses: Vec<SocketAddr> =
            listeners.iter().map(|listener| listener.local_addr().expect("bound")).collect();
        let datanode =
            |address: &SocketAddr| DataNode { address: *address, is_down: Arc::default(), is_full: Arc::default() };
        let datanodes: Vec<DataNode> = addresses[1..].iter().map(datanode).collect();
        for (number, listener) in listeners.into_iter().enumerate() {
            let (files, load, ends, all) = (files.clone(), load.clone(), ends.clone(), datanodes.clone());
            std::thread::spawn(move || {
                for stream in listener.incoming() {
                    if ends.load(Ordering::Relaxed) {
                        break;
                    }
                    let request = Request::read(stream.expect("a connection"));
                    match (request, number.checked_sub(1)) {
                        (Ok(request), None) => request.answer(&at_namenode(&request, &files, &load, &all)),
                        (Ok(request), Some(own)) if !all[own].is_down.load(Ordering::Relaxed) => {
                            request.answer(&at_datanode(&request, &files, &all, own));
                        }
                        _ => {}
                    }
                }
            });
        }
        Self { name: addresses[0], datanodes, files, load, ends }
    }

    fn url(&self, folder: &str, datanode: &str) -> String {
        format!("webhdfs://{}/{folder}?user=weft&datanode={datanode}", self.name)
    }

    /// The NameNode comes to what it was asked before.
    fn remove_late(&self) {
        let mut files = self.files.lock().expect("whole");
        self.load.removed_late.lock().expect("whole").drain(..).for_each(|path| drop(files.remove(&path)));
    }

    /// By file below a folder: the DataNode that has it.
    fn places(&self, folder: &str) -> BTreeMap<String, SocketAddr> {
        let files = self.files.lock().expect("whole");
        let below = files.iter().filter(|(path, _)| path.starts_with(&format!("/{folder}/")));
        below.map(|(path, (_, place))| (path.clone(), *place)).collect()
    }
}

impl Drop for Hdfs {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        for address in self.datanodes.iter().map(|datanode| datanode.address).chain([self.name]) {
            let _ = TcpStream::connect(address);
        }
    }
}

/// A request that was read to its end.
struct Request {
    stream: TcpStream,
    method: String,
    /// In the file system.
    path: String,
    query: BTreeMap<String, String>,
    body: Vec<u8>,
}

impl Request {
    fn read(mut stream: TcpStream) -> std::io::Result<Self> {
        let (mut head, mut byte) = (Vec::new(), [0]);
        while !head.ends_with(b"\r\n\r\n") {
            stream.read_exact(&mut byte)?;
            head.push(byte[0]);
        }
        let head = String::from_utf8_lossy(&head).into_owned();
        let length = head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
        let mut body = vec![0; length.unwrap_or(0)];
        stream.read_exact(&mut body)?;
        let mut words = head.split_whitespace();
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let path = path.trim_start_matches("/webhdfs/v1").trim_end_matches('/');
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        Ok(Self {
            method: method.to_owned(),
            path: format!("/{}", path.trim_start_matches('/')),
            query: pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            body,
            stream,
        })
    }

    fn number(&self, name: &str) -> Option<usize> {
        self.query.get(name)?.parse().ok()
    }

    fn answer(&self, answer: &Answer) {
        let Answer { status, header, body } = answer;
        let head = format!("HTTP/1.1 {status}\r\n{header}Content-Length: {}\r\nConnection: close\r\n\r\n", body.len());
        // A client that has heard enough goes away.
        let _ = (&self.stream).write_all(&[head.as_bytes(), body].concat());
    }
}

struct Answer {
    status: &'static str,
    header: String,
    body: Vec<u8>,
}

fn json(status: &'static str, body: &str) -> Answer {
    Answer { status, header: "Content-Type: application/json\r\n".to_owned(), body: body.as_bytes().to_vec() }
}

fn refused(status: &'static str, exception: &str) -> Answer {
    let words = format!(r#""exception":"{exception}","javaClassName":"java.io.{exception}","message":"no""#);
    json(status, &format!(r#"{{"RemoteException":{{{words}}}}}"#))
}

fn status_of(name: &str, file: Option<usize>) -> String {
    let (kind, length) = if let Some(length) = file { ("FILE", length) } else { ("DIRECTORY", 0) };
    format!(r#"{{"length":{length},"modificationTime":1,"pathSuffix":"{name}","type":"{kind}"}}"#)
}

fn at_namenode(request: &Request, files: &Files, load: &Load, datanodes: &[DataNode]) -> Answer {
    let mut files = files.lock().expect("whole");
    let path = &request.path;
    let below = format!("{}/", path.trim_end_matches('/'));
    let is_folder = files.keys().any(|file| file.starts_with(&below));
    let absent = || refused("404 Not Found", "FileNotFoundException");
    let operation = request.query.get("op").map(String::as_str).unwrap_or_default();
    let sent_on = |address: &SocketAddr| {
        let settings: String = request.query.iter().map(|(name, value)| format!("{name}={value}&")).collect();
        format!("http://{address}/webhdfs/v1{path}?{settings}namenoderpcaddress=nn:8020")
    };
    match (request.method.as_str(), operation) {
        // It names the last one, also if others are wanted.
        ("PUT", "CREATE") if request.query.get("replication").is_some_and(|copies| copies == "1") => {
            json("200 OK", &format!(r#"{{"Location":"{}"}}"#, sent_on(&datanodes[datanodes.len() - 1].address)))
        }
        ("PUT", "MKDIRS") => json("200 OK", r#"{"boolean":true}"#),
        ("DELETE", "DELETE") if load.removes_late.load(Ordering::Relaxed) => {
            load.removed_late.lock().expect("whole").push(path.clone());
            refused("503 Service Unavailable", "RetriableException")
        }
        ("GET", "GETFILEBLOCKLOCATIONS") if load.hides_places.load(Ordering::Relaxed) => {
            refused("503 Service Unavailable", "RetriableException")
        }
        ("DELETE", "DELETE") => json("200 OK", &format!(r#"{{"boolean":{}}}"#, files.remove(path).is_some())),
        ("GET", "GETFILESTATUS") => match files.get(path) {
            Some((bytes, _)) => json("200 OK", &format!(r#"{{"FileStatus":{}}}"#, status_of("", Some(bytes.len())))),
            None if is_folder => json("200 OK", &format!(r#"{{"FileStatus":{}}}"#, status_of("", None))),
            None => absent(),
        },
        ("GET", "LISTSTATUS_BATCH") if is_folder => {
            let mut entries: BTreeMap<&str, Option<usize>> = BTreeMap::new();
            for (file, (bytes, _)) in files.iter() {
                let Some(rest) = file.strip_prefix(&below) else { continue };
                let (name, length) = match rest.split_once('/') {
                    Some((folder, _)) => (folder, None),
                    None => (rest, Some(bytes.len())),
                };
                entries.insert(name, length);
            }
            let entries: Vec<String> = entries.into_iter().map(|(name, length)| status_of(name, length)).collect();
            let list = format!(r#"{{"FileStatuses":{{"FileStatus":[{}]}}}}"#, entries.join(","));
            json("200 OK", &format!(r#"{{"DirectoryListing":{{"partialListing":{list},"remainingEntries":0}}}}"#))
        }
        ("GET", "GETFILEBLOCKLOCATIONS") => match files.get(path) {
            Some((_, place)) => {
                let block = format!(r#"{{"hosts":["{0}"],"names":["{0}:9866"],"offset":0,"length":1}}"#, place.ip());
                json("200 OK", &format!(r#"{{"BlockLocations":{{"BlockLocation":[{block}]}}}}"#))
            }
            None => absent(),
        },
        ("GET", "OPEN") => match files.get(path) {
            None => absent(),
            Some((_, place)) => {
                let datanode = datanodes.iter().find(|datanode| datanode.address == *place).expect("one of these");
                match datanode.is_down.load(Ordering::Relaxed) {
                    true => refused("403 Forbidden", "IOException"),
                    false => Answer {
                        status: "307 Temporary Redirect",
                        header: format!("Location: {}\r\n", sent_on(place)),
                        body: Vec::new(),
                    },
                }
            }
        },
        _ => absent(),
    }
}

fn at_datanode(request: &Request, files: &Files, datanodes: &[DataNode], own: usize) -> Answer {
    let mut files = files.lock().expect("whole");
    match request.method.as_str() {
        "PUT" => {
            // One that is full has HDFS choose another.
            let is_full = datanodes[own].is_full.load(Ordering::Relaxed);
            let place = if is_full { (own + 1) % datanodes.len() } else { own };
            files.insert(request.path.clone(), (request.body.clone(), datanodes[place].address));
            json("201 Created", "")
        }
        _ => {
            let bytes = &files[&request.path].0;
            let start = request.number("offset").unwrap_or(0).min(bytes.len());
            let end = request.number("length").map_or(bytes.len(), |length| (start + length).min(bytes.len()));
            Answer { status: "200 OK", header: String::new(), body: bytes[start..end].to_vec() }
        }
    }
}

async fn put(node: &dyn Node, segment: u64) -> Result<(), weft_nodes::NodeError> {
    let key = conformance::key(segment, 0);
    node.put(key, &[conformance::shard(IDENTITY.volume, key, 5000, 1)]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_bound_node_stores_is_on_its_datanode_or_nowhere() {
    let hdfs = Hdfs::start();
    let (first, second) = (&hdfs.datanodes[0], &hdfs.datanodes[1]);
    let node = create(&hdfs.url("one", &first.address.to_string()), "").await.expect("created");
    put(&*node, 1).await.expect("stored");
    put(&*node, 1).await.expect("the same again");
    let places = hdfs.places("one");
    assert_eq!(places.len(), 2, "its identity and a shard: {places:?}");
    assert!(places.values().all(|place| *place == first.address), "{places:?}");
    let key = conformance::key(1, 0);
    assert_eq!(node.get(key, 0..u64::MAX).await.expect("read"), conformance::shard(IDENTITY.volume, key, 5000, 1));
    assert_eq!(node.list(None, 9).await.expect("listed").keys, [key]);
    // HDFS would store it elsewhere.
    first.is_full.store(true, Ordering::Relaxed);
    let full = put(&*node, 2).await.expect_err("no room");
    assert_eq!(full.kind, NodeErrorKind::Full, "{full}");
    let said = format!("on `{}` and not on DataNode {}", second.address.ip(), first.address);
    assert!(full.to_string().contains(&said), "{full}");
    assert_eq!(hdfs.places("one"), places, "it was removed again");
    let refused = create(&hdfs.url("two", &first.address.to_string()), "").await.err().expect("no room");
    assert_eq!(refused.kind, NodeErrorKind::Full, "{refused}");
    assert_eq!(hdfs.places("two"), BTreeMap::new());
    first.is_full.store(false, Ordering::Relaxed);
    put(&*node, 2).await.expect("room again");
    // HDFS's balancer moves a shard: it is read there, and a put that comes twice does not remove it.
    let moved = format!("/one/{}", node_path(&hdfs, 1));
    hdfs.files.lock().expect("whole").get_mut(&moved).expect("stored").1 = second.address;
    node.get(key, 0..100).await.expect("read");
    assert_eq!(put(&*node, 1).await.expect_err("elsewhere").kind, NodeErrorKind::Full);
    assert!(hdfs.places("one").contains_key(&moved), "it stays");
}

/// The path of a shard below its node.
fn node_path(hdfs: &Hdfs, segment: u64) -> String {
    let name = conformance::key(segment, 0).to_string();
    let places = hdfs.places("one");
    let path = places.keys().find(|path| path.ends_with(&name)).expect("stored");
    path.trim_start_matches("/one/").to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_removal_comes_after_a_put_that_is_repeated() {
    let hdfs = Hdfs::start();
    let first = &hdfs.datanodes[0];
    let node = create(&hdfs.url("one", &first.address.to_string()), "").await.expect("created");
    let (hides_places, removes_late) = (&hdfs.load.hides_places, &hdfs.load.removes_late);
    hides_places.store(true, Ordering::Relaxed);
    removes_late.store(true, Ordering::Relaxed);
    assert_eq!(put(&*node, 1).await.expect_err("not placed").kind, NodeErrorKind::Busy, "it may be repeated at once");
    hides_places.store(false, Ordering::Relaxed);
    put(&*node, 1).await.expect("placed");
    hdfs.remove_late();
    node.stat(conformance::key(1, 0)).await.expect("an acknowledged shard stays");
    // It is elsewhere, and may be removed at any time.
    first.is_full.store(true, Ordering::Relaxed);
    let unsure = put(&*node, 2).await.expect_err("elsewhere");
    assert_eq!(unsure.kind, NodeErrorKind::Io, "it must not be repeated here at once: {unsure}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_datanode_that_is_down_or_unknown_is_named_and_nothing_is_stored_elsewhere() {
    let hdfs = Hdfs::start();
    let first = &hdfs.datanodes[0];
    let url = hdfs.url("one", &first.address.to_string());
    let node = create(&url, "").await.expect("created");
    put(&*node, 1).await.expect("stored");
    first.is_down.store(true, Ordering::Relaxed);
    let away = put(&*node, 2).await.expect_err("it is down");
    assert!(away.kind.is_transient() && away.to_string().contains(&format!("DataNode {}", first.address)), "{away}");
    assert_eq!(hdfs.places("one").len(), 2);
    let key = conformance::key(1, 0);
    let again = open(&url, "", IDENTITY);
    for error in [
        node.get(key, 0..9).await.expect_err("down"),
        again.get(key, 0..9).await.expect_err("down"),
        again.space().await.map(drop).expect_err("down"),
        again.put(key, &[]).await.expect_err("down"),
    ] {
        assert_eq!(error.kind, NodeErrorKind::Unavailable, "nothing is known of its shards: {error}");
    }
    first.is_down.store(false, Ordering::Relaxed);
    put(&*node, 2).await.expect("it is back");
    // Nobody listens there.
    let nobody = TcpListener::bind("127.0.0.4:0").and_then(|listener| listener.local_addr()).expect("a free port");
    let unknown = create(&hdfs.url("two", &nobody.to_string()), "").await.err().expect("unknown");
    assert_eq!(unknown.kind, NodeErrorKind::Unavailable, "{unknown}");
    assert!(unknown.to_string().contains(&format!("DataNode {nobody}: it cannot be reached")), "{unknown}");
    assert_eq!(hdfs.places("two"), BTreeMap::new());
}
