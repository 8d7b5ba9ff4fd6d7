//! What a folder node adds to the system calls it cannot do without: `cargo bench -p weft-nodes`.
//!
//! Each line is the best of several rounds, in microseconds a call, beside the limit: reading an open file, or creating,
//! writing and syncing a file and its directory.

use bytes::Bytes;
use std::fs::{self, File};
use std::hint::black_box;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;
use weft_format::{NodeId, NodeIdentity, VolumeId};
use weft_nodes::conformance::key;
use weft_nodes::{FolderNode, Node};

const IDENTITY: NodeIdentity = NodeIdentity { volume: VolumeId(1), node: NodeId(2) };
const ROUNDS: u16 = 5;
const READS: u16 = 1000;

#[tokio::main]
async fn main() {
    for (place, writes) in [(Path::new("/dev/shm"), 500), (&std::env::temp_dir(), 20)] {
        println!("{}", place.display());
        for bytes in [4 << 10, 64 << 10, 1 << 20] {
            measure(place, bytes, writes).await;
        }
    }
}

async fn measure(place: &Path, bytes: usize, writes: u16) {
    let temporary = tempfile::tempdir_in(place).expect("a temporary folder");
    let node = FolderNode::create(&temporary.path().join("node"), "node", IDENTITY).expect("an empty folder");
    let bare = temporary.path().join("bare");
    fs::create_dir(&bare).expect("a new folder");
    let content = Bytes::from(vec![7; bytes]);
    let microseconds = |start: Instant, calls: u16| start.elapsed().as_secs_f64() * 1e6 / f64::from(calls);
    let [mut put, mut bare_put, mut get, mut bare_get] = [f64::MAX; 4];
    for round in 0..ROUNDS {
        let keys = (0..writes).map(|call| key(u64::from(round), call));
        let start = Instant::now();
        for key in keys.clone() {
            node.put(key, std::slice::from_ref(&content)).await.expect("room for a shard");
        }
        put = put.min(microseconds(start, writes));

        let folder = File::open(&bare).expect("a folder");
        let start = Instant::now();
        for call in 0..writes {
            let mut file = File::create_new(bare.join(call.to_string())).expect("a new file");
            file.write_all(&content).and_then(|()| file.sync_all()).expect("room for a file");
            folder.sync_all().expect("a durable folder");
        }
        bare_put = bare_put.min(microseconds(start, writes));

        let start = Instant::now();
        for _ in 0..READS {
            black_box(node.get(key(u64::from(round), 0), 0..bytes as u64).await.expect("a stored shard"));
        }
        get = get.min(microseconds(start, READS));

        let file = File::open(bare.join("0")).expect("the file above");
        let start = Instant::now();
        for _ in 0..READS {
            let mut buffer = vec![0; bytes];
            file.read_exact_at(&mut buffer, 0).expect("the bytes above");
            black_box(buffer);
        }
        bare_get = bare_get.min(microseconds(start, READS));

        for key in keys {
            node.remove(key).await.expect("a stored shard");
        }
        fs::remove_dir_all(&bare).and_then(|()| fs::create_dir(&bare)).expect("an empty folder");
    }
    println!("  {bytes:>8} bytes: put {put:8.1} (bare {bare_put:8.1})   get {get:8.1} (bare {bare_get:8.1})");
}
