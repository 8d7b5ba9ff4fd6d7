//! How creates grow with the stores on one engine that takes a round trip for each call:
//! `cargo run --release -p weft-meta --example many_stores [-- ROUND_TRIP_US | postgres://... | etcd://...]`. Of a server each client
//! has connections of its own, and each measurement a place of its own, which stays.
//!
//! In directories of their own they should grow with the stores, and in one directory nearly so; so should those of many threads of one
//! store.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use weft_env::Env;
use weft_format::records::{Kind, PolicyRecord, Timestamp, VolumeRecord};
use weft_format::{Ino, PolicyId, VolumeId};
use weft_meta::engines::MemoryKv;
use weft_meta::kv::{Answer, Batch, Kv, KvError, Pair, Question, Snapshot};
use weft_meta::{Access, MetaUrl, NewInode, Store};

const FOR: Duration = Duration::from_secs(2);
const CLIENTS: [usize; 5] = [1, 2, 4, 8, 16];

/// Memory at the other end of a line: each question and each commit takes a round trip.
struct Remote {
    inner: MemoryKv,
    round_trip: Duration,
    conflicts: AtomicU64,
}

impl Kv for Remote {
    fn snapshot(&self) -> Result<Box<dyn Snapshot + '_>, KvError> {
        Ok(Box::new(RemoteSnapshot { inner: self.inner.snapshot()?, round_trip: self.round_trip }))
    }

    fn commit(&self, batch: Batch) -> Result<(), KvError> {
        std::thread::sleep(self.round_trip);
        let committed = self.inner.commit(batch);
        self.conflicts.fetch_add(u64::from(committed.is_err()), Ordering::Relaxed);
        committed
    }

    fn flush(&self) -> Result<(), KvError> {
        Ok(())
    }
}

struct RemoteSnapshot<'k> {
    inner: Box<dyn Snapshot + 'k>,
    round_trip: Duration,
}

impl Snapshot for RemoteSnapshot<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, KvError> {
        std::thread::sleep(self.round_trip);
        self.inner.get(key)
    }

    fn get_many(&self, keys: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>, KvError> {
        std::thread::sleep(self.round_trip);
        self.inner.get_many(keys)
    }

    fn fetch(&self, question: Question) -> Result<Answer, KvError> {
        std::thread::sleep(self.round_trip);
        self.inner.fetch(question)
    }

    fn scan(&self, start: &[u8], end: &[u8], limit: usize) -> Result<Vec<Pair>, KvError> {
        std::thread::sleep(self.round_trip);
        self.inner.scan(start, end, limit)
    }
}

fn main() {
    let place = std::env::args().nth(1).unwrap_or_else(|| "500".into());
    println!("creates a second, all together, at {place} (us for a round trip, or a server)");
    println!(
        "{:>8} {:>18} {:>18} {:>18} {:>18}",
        "clients", "own directories", "one directory", "threads, own", "threads, one"
    );
    for clients in CLIENTS {
        let rates =
            [(true, true), (true, false), (false, true), (false, false)].map(|(has_stores, has_directories)| {
                let (rate, conflicts, refused) = measure(clients, has_stores, has_directories, &place);
                let troubles = if conflicts + refused > 0 {
                    format!(" ({conflicts} conflicts, {refused} refused)")
                } else {
                    String::new()
                };
                format!("{rate:.0}{troubles}")
            });
        println!("{clients:>8} {:>18} {:>18} {:>18} {:>18}", rates[0], rates[1], rates[2], rates[3]);
    }
}

/// Creates a second, conflicts, and creates that were refused: of stores of their own or threads of one, in directories of their own or
/// one.
fn measure(clients: usize, has_stores: bool, has_directories: bool, place: &str) -> (f64, u64, u64) {
    let memory = place.parse().ok().map(|round_trip_us| {
        let round_trip = Duration::from_micros(round_trip_us);
        Arc::new(Remote { inner: MemoryKv::new(), round_trip, conflicts: AtomicU64::new(0) })
    });
    let url = || {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a clock after 1970");
        let (name, is_etcd) = (format!("bench_{}", since.as_micros()), place.starts_with("etcd:"));
        let url = if is_etcd { format!("{place}/{name}") } else { format!("{place}?schema={name}") };
        let url = MetaUrl::parse(url.as_ref()).expect("microseconds or an address");
        url.create().expect("a new place");
        url
    };
    let url = memory.is_none().then(url);
    let open = || -> Arc<dyn Kv> {
        match (&memory, &url) {
            (Some(memory), _) => memory.clone(),
            (None, Some(url)) => url.open(Access::Shared, None, &Env::system()).expect("it opens"),
            (None, None) => unreachable!("one of both"),
        }
    };
    let conflicts = || memory.as_ref().map_or(0, |memory| memory.conflicts.load(Ordering::Relaxed));
    let kv = open();
    let volume = VolumeRecord { volume: VolumeId(1), created_ms: 0, default_policy: PolicyId(0) };
    let first =
        Store::format(kv, &volume, &PolicyRecord::of("rs:4+2", Some(1)), now(), &Env::system()).expect("a volume");
    let first = Arc::new(first);
    let client = |number: usize| {
        let store = match has_stores {
            true => Arc::new(Store::open(open(), &Env::system()).expect("the volume")),
            false => Arc::clone(&first),
        };
        let own = || make(&store, Ino::ROOT, &format!("directory {number}"), Kind::Directory).expect("a directory");
        let directory = if has_directories { own() } else { Ino::ROOT };
        // It takes its numbers before time counts.
        make(&store, directory, &format!("{number}"), Kind::File).expect("a file");
        (store, directory)
    };
    let ready: Vec<_> = (0..clients).map(client).collect();
    let before = conflicts();
    let (made, refused) = (AtomicU64::new(0), AtomicU64::new(0));
    let began = Instant::now();
    std::thread::scope(|scope| {
        for (number, (store, directory)) in ready.iter().enumerate() {
            let (made, refused) = (&made, &refused);
            scope.spawn(move || {
                for turn in 0.. {
                    let name = format!("{number}-{turn}");
                    let count = if make(store, *directory, &name, Kind::File).is_some() { made } else { refused };
                    count.fetch_add(1, Ordering::Relaxed);
                    if began.elapsed() > FOR {
                        return;
                    }
                }
            });
        }
    });
    let rate = made.into_inner() as f64 / began.elapsed().as_secs_f64();
    (rate, conflicts() - before, refused.into_inner())
}

fn make(store: &Store, parent: Ino, name: &str, kind: Kind) -> Option<Ino> {
    let new = NewInode { kind, mode: 0o755, uid: 0, gid: 0, rdev: 0, symlink_target: Vec::new() };
    store.create(parent, name.as_bytes(), &new, now()).ok().map(|attributes| attributes.ino)
}

fn now() -> Timestamp {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a clock after 1970");
    Timestamp { seconds: now.as_secs() as i64, nanoseconds: now.subsec_nanos() }
}
