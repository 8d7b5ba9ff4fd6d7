//! Keeps a daemon busy, for `lab/daemon.sh`: prints how many shards of 1 MiB a second are got or put.
//!
//! ```text
//! daemon_client get|put URL KEYFILE|- WORKERS SECONDS    the daemon's shards as lab/daemon.sh names them; or new ones
//! daemon_client local URL KEYFILE|- WORKERS SECONDS      the same shards, by short-circuit reads
//! daemon_client raw FOLDER WORKERS SECONDS               the disk's bound: write, fsync, rename, fsync of the folder
//! ```

use bytes::Bytes;
use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use weft_daemon::{DaemonNode, DaemonUrl, Key};
use weft_env::Env;
use weft_format::{Generation, NodeId, NodeIdentity, SegmentId, ShardIndex, ShardKey, VolumeId};
use weft_nodes::Node;

/// As lab/daemon.sh claims the daemon.
const IDENTITY: NodeIdentity = NodeIdentity {
    volume: VolumeId(0x0001_0203_0405_0607_0809_0a0b_0c0d_0e0f),
    node: NodeId(0x1011_1213_1415_1617_1819_1a1b_1c1d_1e1f),
};
const SHARD_BYTES: u64 = 1 << 20;

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let per_second = match arguments[..] {
        ["raw", folder, workers, seconds] => raw(folder.into(), workers.parse()?, seconds.parse()?)?,
        [what @ ("get" | "put" | "local"), url, key_file, workers, seconds] => {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
            runtime.block_on(ask(what, url, key_file, workers.parse()?, seconds.parse()?))?
        }
        _ => return Err("see the head of crates/daemon/examples/daemon_client.rs".into()),
    };
    println!("{per_second:.1}");
    Ok(())
}

async fn ask(what: &str, url: &str, key_file: &str, workers: u64, seconds: f64) -> Result<f64, Failure> {
    let url: DaemonUrl = url.parse()?;
    let key_text = if key_file == "-" { None } else { Some(fs::read_to_string(key_file)?) };
    let secret = key_text.map(|text| text.parse::<Key>()).transpose()?;
    let puts = what == "put";
    let node = DaemonNode::open(&url, "measured", IDENTITY, secret, &Env::system())?;
    let node = Arc::new(if what == "local" { node.with_short_circuit() } else { node });
    let (next, bytes) = (Arc::new(AtomicU64::new(0)), Bytes::from(vec![0x5a; SHARD_BYTES as usize]));
    let began = Instant::now();
    let end = began + Duration::from_secs_f64(seconds);
    let mut working = tokio::task::JoinSet::new();
    for _ in 0..workers {
        let (node, next, bytes) = (node.clone(), next.clone(), bytes.clone());
        working.spawn(async move {
            let mut done = 0u64;
            while Instant::now() < end {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if puts {
                    let milliseconds = began.elapsed().as_millis() as u64;
                    node.put(key(SegmentId::new(milliseconds, number.into())), std::slice::from_ref(&bytes)).await?;
                } else {
                    let name = format!("0190a1b2c3d4f0f1f2f3f4f5f6f7f8{}", 16 + number % 64);
                    node.get(key(name.parse()?), 0..SHARD_BYTES).await?;
                }
                done += 1;
            }
            Ok::<u64, Failure>(done)
        });
    }
    let mut done = 0;
    while let Some(worker) = working.join_next().await {
        done += worker??;
    }
    Ok(done as f64 / began.elapsed().as_secs_f64())
}

fn key(segment: SegmentId) -> ShardKey {
    ShardKey { segment, generation: Generation(0), index: ShardIndex(0) }
}

fn raw(folder: PathBuf, workers: u64, seconds: f64) -> Result<f64, Failure> {
    let bytes = vec![0x5a; SHARD_BYTES as usize];
    let began = Instant::now();
    let end = began + Duration::from_secs_f64(seconds);
    let worker = |worker: u64| -> Result<u64, std::io::Error> {
        let (mut done, place) = (0, File::open(&folder)?);
        while Instant::now() < end {
            let (temporary, name) = (folder.join(format!("{worker}.new")), folder.join(format!("{worker}.{done}")));
            let mut file = File::create(&temporary)?;
            file.write_all(&bytes)?;
            file.sync_all()?;
            fs::rename(temporary, name)?;
            place.sync_all()?;
            done += 1;
        }
        Ok(done)
    };
    let done: Result<u64, std::io::Error> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..workers).map(|number| scope.spawn(move || worker(number))).collect();
        threads.into_iter().map(|thread| thread.join().expect("it does not panic")).sum()
    });
    Ok(done? as f64 / began.elapsed().as_secs_f64())
}
