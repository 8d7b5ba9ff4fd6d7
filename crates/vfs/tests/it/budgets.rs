//! The cost of each operation of a volume in counts, compared with the table in `budgets.txt`. Times differ from machine to machine;
//! counts do not, so an operation that becomes more expensive is seen here first.
//!
//! If a count differs from the table the test fails and prints the new table. If the change is intended, copy it to the file and say
//! why in the commit.

use crate::support::{CALLER, World, memory_nodes};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};
use weft_format::Ino;
use weft_format::records::Kind;
use weft_meta::engines::{MemoryKv, is_written_through};
use weft_meta::keys::SHARED;
use weft_meta::kv::{Answer, Batch, Kv, KvError, Pair, Question, Snapshot};
use weft_meta::{RenameFlags, XattrMode};
use weft_nodes::Node;
use weft_nodes::wrappers::record::RecordNode;
use weft_vfs::open::Members;
use weft_vfs::{AttributeChange, Handle, Volume};

const TABLE: &str = include_str!("budgets.txt");

/// Counted runs of each operation, each on a new object. The median counts, because work on a timer may come between; the first run
/// fills caches and is not counted.
const REPEATS: u32 = 3;

/// Threads that finish the work of an operation. The others work on a timer and are not counted.
const FINISHERS: [&str; 2] = ["weft-commit", "weft-reclaim"];

/// The columns, in the table's order. A get counts once, of one key or of several.
const COLUMNS: [&str; 13] = [
    "gets",
    "scans",
    "commits",
    "keys",
    "bytes",
    "commits behind",
    "keys behind",
    "bytes behind",
    "written through",
    "fsyncs",
    "node puts",
    "node gets",
    "node bytes put",
];
const GETS: usize = 0;
const SCANS: usize = 1;
const COMMITS: usize = 2;
const KEYS: usize = 3;
const BYTES: usize = 4;
/// From [`COMMITS`], [`KEYS`] and [`BYTES`] to the same of [`FINISHERS`].
const BEHIND: usize = 3;
const THROUGH: usize = 8;
const FSYNCS: usize = 9;
const PUTS: usize = 10;
const NODE_GETS: usize = 11;
const PUT_BYTES: usize = 12;

/// What a delta is on its way: a key of nine bytes, and about as much as a time and two numbers.
const DELTA_BYTES: usize = 32;

type Counts = [u64; COLUMNS.len()];

/// An engine that counts what the test's thread and the finishers ask of it.
struct CountingKv {
    inner: MemoryKv,
    caller: ThreadId,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    counts: Counts,
    /// There are commits since the last flush.
    is_pending: bool,
}

impl CountingKv {
    fn new() -> Self {
        Self { inner: MemoryKv::new(), caller: thread::current().id(), seen: Mutex::default() }
    }

    /// The offset of the caller's columns: the test's own or those of the finishers; `None`: it is not counted.
    fn behind(&self) -> Option<usize> {
        let current = thread::current();
        if current.id() == self.caller {
            return Some(0);
        }
        current.name().is_some_and(|name| FINISHERS.contains(&name)).then_some(BEHIND)
    }

    fn count(&self, column: usize) {
        if self.behind() == Some(0) {
            self.seen.lock().counts[column] += 1;
        }
    }
}

impl Kv for CountingKv {
    fn snapshot(&self) -> Result<Box<dyn Snapshot + '_>, KvError> {
        Ok(Box::new(CountingSnapshot { inner: self.inner.snapshot()?, kv: self }))
    }

    fn commit(&self, batch: Batch) -> Result<(), KvError> {
        if let Some(behind) = self.behind() {
            let mut seen = self.seen.lock();
            let sizes = batch.writes.iter().map(|(key, value)| key.len() + value.as_ref().map_or(0, Vec::len));
            seen.counts[COMMITS + behind] += 1;
            seen.counts[KEYS + behind] += batch.changed_keys().count() as u64;
            seen.counts[BYTES + behind] += (sizes.sum::<usize>() + DELTA_BYTES * batch.deltas.len()) as u64;
            seen.counts[THROUGH] += u64::from(is_written_through(&batch, SHARED));
        }
        self.seen.lock().is_pending = true;
        self.inner.commit(batch)
    }

    fn flush(&self) -> Result<(), KvError> {
        let is_needed = std::mem::take(&mut self.seen.lock().is_pending);
        if is_needed {
            self.count(FSYNCS);
        }
        self.inner.flush()
    }
}

struct CountingSnapshot<'k> {
    inner: Box<dyn Snapshot + 'k>,
    kv: &'k CountingKv,
}

impl Snapshot for CountingSnapshot<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, KvError> {
        self.kv.count(GETS);
        self.inner.get(key)
    }

    fn get_many(&self, keys: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>, KvError> {
        self.kv.count(GETS);
        self.inner.get_many(keys)
    }

    fn fetch(&self, question: Question) -> Result<Answer, KvError> {
        self.kv.count(GETS);
        self.inner.fetch(question)
    }

    fn scan(&self, start: &[u8], end: &[u8], limit: usize) -> Result<Vec<Pair>, KvError> {
        self.kv.count(SCANS);
        self.inner.scan(start, end, limit)
    }
}

/// A volume with counters on everything, and the rows measured so far.
struct Bench {
    kv: Arc<CountingKv>,
    nodes: Members,
    records: Vec<Arc<RecordNode>>,
    world: Option<World<CountingKv>>,
    lines: Vec<(&'static str, Counts)>,
}

impl Bench {
    fn new() -> Self {
        let kv = Arc::new(CountingKv::new());
        let (mut records, mut nodes) = (Vec::new(), Members::new());
        for (id, record, node) in memory_nodes(6) {
            let counting = Arc::new(RecordNode::new(node, 0));
            records.push(counting.clone());
            nodes.push((id, record, counting as Arc<dyn Node>));
        }
        World::format(&kv, "rs:4+2", &nodes);
        let world = Some(World::open(kv.clone(), nodes.clone()));
        Self { kv, nodes, records, world, lines: Vec::new() }
    }

    fn volume(&self) -> &Volume {
        &self.world.as_ref().expect("open between two rows").volume
    }

    /// Opens the volume again: all caches are empty.
    fn reopen(&mut self) {
        self.volume().shut_down().expect("shuts down");
        self.world = None;
        self.world = Some(World::open(self.kv.clone(), self.nodes.clone()));
    }

    fn counts(&self) -> Counts {
        let mut counts = self.kv.seen.lock().counts;
        for record in &self.records {
            let of_node = record.counts();
            counts[PUTS] += of_node.puts;
            counts[NODE_GETS] += of_node.gets;
            counts[PUT_BYTES] += of_node.bytes_written;
        }
        counts
    }

    /// Waits until the finishers have done the rest of the last operation.
    fn settle(&self) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !self.volume().store().orphans(1).expect("read").is_empty() {
            assert!(Instant::now() < deadline, "what was deleted is not reclaimed");
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Measures a row: `operation` on the object that `prepare` makes for a number, in a volume without pending work.
    fn row<T>(&mut self, name: &'static str, prepare: impl Fn(&Volume, u32) -> T, operation: impl Fn(&Volume, &T)) {
        self.measure(name, false, prepare, operation);
    }

    /// The same with empty caches.
    fn cold_row<T>(
        &mut self,
        name: &'static str,
        prepare: impl Fn(&Volume, u32) -> T,
        operation: impl Fn(&Volume, &T),
    ) {
        self.measure(name, true, prepare, operation);
    }

    fn measure<T>(
        &mut self,
        name: &'static str,
        is_cold: bool,
        prepare: impl Fn(&Volume, u32) -> T,
        operation: impl Fn(&Volume, &T),
    ) {
        let mut seen: Vec<Counts> = Vec::new();
        for repeat in 0..=REPEATS {
            self.volume().sync().expect("syncs");
            if is_cold {
                self.reopen();
            }
            let prepared = prepare(self.volume(), repeat);
            self.settle();
            self.volume().store().flush().expect("flushes");
            let before = self.counts();
            operation(self.volume(), &prepared);
            let asked = self.counts();
            self.settle();
            let mut after = self.counts();
            // Without the reads of the settling itself.
            for column in [GETS, SCANS] {
                after[column] = asked[column];
            }
            if repeat > 0 {
                seen.push(std::array::from_fn(|column| after[column] - before[column]));
            }
        }
        let median = std::array::from_fn(|column| {
            let mut counts: Vec<u64> = seen.iter().map(|counts| counts[column]).collect();
            counts.sort_unstable();
            counts[counts.len() / 2]
        });
        self.lines.push((name, median));
    }

    /// The measured table.
    fn table(&self) -> String {
        let name_width = self.lines.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        let mut text = format!("{:name_width$}", "");
        for column in COLUMNS {
            write!(text, "  {column}").expect("a string takes everything");
        }
        text.push('\n');
        for (name, counts) in &self.lines {
            write!(text, "{name:name_width$}").expect("a string takes everything");
            for (column, count) in COLUMNS.iter().zip(counts) {
                write!(text, "  {count:>width$}", width = column.len()).expect("a string takes everything");
            }
            text.push('\n');
        }
        text
    }
}

/// Discards an answer.
fn ignore<T>(_: T) {}

/// A name of its own for each row and number.
fn name(row: &str, number: u32) -> Vec<u8> {
    format!("{row} {number}").into_bytes()
}

fn create(volume: &Volume, name: &[u8]) -> (Ino, Handle) {
    let (attributes, handle) = volume.create(&CALLER, Ino::ROOT, name, 0o644, libc::O_RDWR).expect("creates");
    (attributes.ino, handle)
}

fn close(volume: &Volume, (ino, handle): (Ino, Handle)) {
    volume.release(handle);
    volume.forget(ino, 1);
}

/// A closed file with this many bytes, which are on the nodes.
fn stored(volume: &Volume, name: &[u8], bytes: usize) -> Ino {
    let file = create(volume, name);
    if bytes > 0 {
        volume.write(file.1, 0, &vec![7; bytes], false).expect("writes");
    }
    close(volume, file);
    volume.sync().expect("syncs");
    file.0
}

/// The same, open.
fn stored_open(volume: &Volume, name: &[u8], bytes: usize) -> Handle {
    let ino = stored(volume, name, bytes);
    volume.open(ino, 0).expect("opens")
}

fn names(bench: &mut Bench) {
    bench.row("create", |_, n| name("create", n), |volume, name| ignore(create(volume, name)));
    let make = |volume: &Volume, name: &[u8], kind| volume.make_node(&CALLER, Ino::ROOT, name, kind, 0o755, 0);
    bench.row(
        "mkdir",
        |_, n| name("mkdir", n),
        |volume, name| ignore(make(volume, name, Kind::Directory).expect("made")),
    );
    bench.row(
        "symlink",
        |_, n| name("symlink", n),
        |volume, name| ignore(volume.symlink(&CALLER, Ino::ROOT, name, b"target").expect("made")),
    );
    bench.row(
        "link",
        |volume, n| (stored(volume, &name("link", n), 0), name("link to", n)),
        |volume, (ino, name)| ignore(volume.link(*ino, Ino::ROOT, name).expect("linked")),
    );
    let file = |row: &'static str, bytes: usize| {
        move |volume: &Volume, n| {
            let name = name(row, n);
            (stored(volume, &name, bytes), name)
        }
    };
    let empty = |row| file(row, 0);
    bench.row("lookup", empty("lookup"), |volume, (_, name)| ignore(volume.lookup(Ino::ROOT, name).expect("found")));
    bench.row("lookup of nothing", |_, _| (), |volume, ()| ignore(volume.lookup(Ino::ROOT, b"nothing").unwrap_err()));
    bench.row("stat", empty("stat"), |volume, (ino, _)| ignore(volume.attributes(*ino).expect("stat")));
    let unlink = |volume: &Volume, (_, name): &(Ino, Vec<u8>)| volume.unlink(Ino::ROOT, name).expect("gone");
    bench.row("unlink, no bytes", empty("unlink"), unlink);
    bench.row("unlink, 4 KiB", file("unlink small", 4 << 10), unlink);
    bench.row("unlink, 1 MiB", file("unlink large", 1 << 20), unlink);
    bench.row(
        "unlink, one name of two",
        |volume, n| {
            let (ino, name) = (stored(volume, &name("two", n), 0), name("two names", n));
            volume.link(ino, Ino::ROOT, &name).expect("linked");
            (ino, name)
        },
        unlink,
    );
    bench.row(
        "rmdir",
        |volume, n| {
            let name = name("rmdir", n);
            let made = make(volume, &name, Kind::Directory).expect("made");
            volume.forget(made.ino, 1);
            name
        },
        |volume, name| volume.remove_directory(Ino::ROOT, name).expect("gone"),
    );
    let rename = |volume: &Volume, from: &[u8], to: &[u8]| {
        volume.rename(Ino::ROOT, from, Ino::ROOT, to, RenameFlags::default()).expect("renamed");
    };
    bench.row(
        "rename",
        |volume, n| {
            stored(volume, &name("rename", n), 0);
            (name("rename", n), name("renamed", n))
        },
        |volume, (from, to)| rename(volume, from, to),
    );
    bench.row(
        "rename over",
        |volume, n| {
            stored(volume, &name("new", n), 0);
            stored(volume, &name("old", n), 0);
            (name("new", n), name("old", n))
        },
        |volume, (from, to)| rename(volume, from, to),
    );
    bench.row(
        "write 4 KiB, rename over",
        |volume, n| {
            stored(volume, &name("saved", n), 0);
            let file = create(volume, &name("saving", n));
            (file.1, name("saving", n), name("saved", n))
        },
        |volume, (handle, from, to)| {
            volume.write(*handle, 0, &[1; 4 << 10], false).expect("writes");
            rename(volume, from, to);
        },
    );
    bench.row("chmod", empty("chmod"), |volume, (ino, _)| {
        let change = AttributeChange { mode: Some(0o600), ..AttributeChange::default() };
        volume.set_attributes(*ino, &change).expect("changed");
    });
    let set =
        |volume: &Volume, ino: Ino| volume.set_xattr(&CALLER, ino, b"user.a", b"value", XattrMode::Any).expect("set");
    bench.row("setxattr", empty("setxattr"), move |volume, (ino, _)| set(volume, *ino));
    let with_xattr = |row: &'static str| {
        move |volume: &Volume, n| {
            let ino = stored(volume, &name(row, n), 0);
            set(volume, ino);
            ino
        }
    };
    bench.row("getxattr", with_xattr("getxattr"), |volume, ino| {
        ignore(volume.get_xattr(*ino, b"user.a").expect("there"))
    });
    bench.row("getxattr of nothing", with_xattr("no xattr"), |volume, ino| {
        ignore(volume.get_xattr(*ino, b"security.capability").unwrap_err());
    });
    bench.row("listxattr", with_xattr("listxattr"), |volume, ino| ignore(volume.list_xattrs(*ino).expect("listed")));
    bench.row("removexattr", with_xattr("removexattr"), |volume, ino| {
        volume.remove_xattr(*ino, b"user.a").expect("gone")
    });
    bench.row(
        "readdir of 1,000",
        |volume, n| {
            let directory = make(volume, &name("readdir", n), Kind::Directory).expect("made").ino;
            for number in 0..1000 {
                let made = volume.make_node(&CALLER, directory, &name("entry", number), Kind::File, 0o644, 0);
                volume.forget(made.expect("made").ino, 1);
            }
            directory
        },
        |volume, directory| {
            let (mut after, mut listed) = (0, 0);
            loop {
                // About as many as the kernel takes at once.
                let page = volume.read_directory(*directory, after, 128).expect("listed");
                let Some(last) = page.last() else { break };
                (after, listed) = (last.cookie, listed + page.len());
            }
            assert_eq!(listed, 1002);
        },
    );
    bench.row(
        "fsync of a directory",
        |_, n| name("synced", n),
        |volume, name| {
            create(volume, name);
            volume.sync_directory(Ino::ROOT).expect("syncs");
        },
    );
    bench.row("statfs", |_, _| (), |volume, ()| ignore(volume.statfs().expect("statfs")));
}

fn bytes(bench: &mut Bench) {
    let write = |volume: &Volume, handle: Handle, offset: u64, bytes: usize| {
        volume.write(handle, offset, &vec![3; bytes], false).expect("writes");
    };
    let write_synced = move |volume: &Volume, handle: Handle, offset: u64, bytes: usize| {
        write(volume, handle, offset, bytes);
        volume.fsync(handle).expect("syncs");
    };
    let empty = |row: &'static str| move |volume: &Volume, n| stored_open(volume, &name(row, n), 0);
    let full = |row: &'static str| move |volume: &Volume, n| stored_open(volume, &name(row, n), 1 << 20);
    bench.row(
        "open",
        |volume, n| stored(volume, &name("open", n), 4 << 10),
        |volume, ino| ignore(volume.open(*ino, 0).expect("opens")),
    );
    bench.row("write 4 KiB", empty("write"), move |volume, handle| write(volume, *handle, 0, 4 << 10));
    bench.row("write 4 KiB, fsync", empty("small"), move |volume, handle| write_synced(volume, *handle, 0, 4 << 10));
    bench.row("write 64 KiB, fsync", empty("middle"), move |volume, handle| write_synced(volume, *handle, 0, 64 << 10));
    bench.row("write 1 MiB, fsync", empty("large"), move |volume, handle| write_synced(volume, *handle, 0, 1 << 20));
    bench.row("overwrite 4 KiB, fsync", full("over"), move |volume, handle| {
        write_synced(volume, *handle, 64 << 10, 4 << 10);
    });
    bench.row(
        "overwrite the same 4 KiB, fsync",
        move |volume, n| {
            let handle = stored_open(volume, &name("again", n), 1 << 20);
            write_synced(volume, handle, 64 << 10, 4 << 10);
            handle
        },
        move |volume, handle| write_synced(volume, *handle, 64 << 10, 4 << 10),
    );
    bench.row("overwrite 1 MiB, fsync", full("over all"), move |volume, handle| {
        write_synced(volume, *handle, 0, 1 << 20);
    });
    bench.row("fsync of nothing new", full("clean"), |volume, handle| volume.fsync(*handle).expect("syncs"));
    bench.row(
        "sync of 100 files of 4 KiB",
        |volume, n| {
            for number in 0..100 {
                let file = create(volume, &name(&format!("sync {n}"), number));
                write(volume, file.1, 0, 4 << 10);
                close(volume, file);
            }
        },
        |volume, ()| volume.sync().expect("syncs"),
    );
    let cut = |size| {
        move |volume: &Volume, ino: &Ino| {
            volume
                .set_attributes(*ino, &AttributeChange { size: Some(size), ..AttributeChange::default() })
                .expect("cut");
        }
    };
    bench.row("truncate to nothing", |volume, n| stored(volume, &name("cut", n), 1 << 20), cut(0));
    bench.row("truncate to a half", |volume, n| stored(volume, &name("half", n), 1 << 20), cut(512 << 10));
    bench.row("punch 64 KiB", full("punch"), |volume, handle| {
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        volume.allocate(*handle, 64 << 10, 64 << 10, mode, false).expect("punched");
    });
    bench.row("close", full("close"), |volume, handle| {
        volume.flush(*handle).expect("closes");
        volume.release(*handle);
    });
    let read = |bytes: u32| {
        move |volume: &Volume, handle: &Handle| {
            assert_eq!(volume.read(*handle, 0, bytes).expect("reads").len(), bytes as usize);
        }
    };
    bench.row(
        "read 4 KiB, just written",
        |volume, n| {
            let handle = stored_open(volume, &name("warm", n), 0);
            write(volume, handle, 0, 4 << 10);
            handle
        },
        read(4 << 10),
    );
    let found = |volume: &Volume, n| {
        let ino = volume.lookup(Ino::ROOT, &name("cold", n)).expect("found").ino;
        volume.open(ino, 0).expect("opens")
    };
    for number in 0..=REPEATS {
        stored(bench.volume(), &name("cold", number), 1 << 20);
    }
    bench.cold_row("read 4 KiB, cold", found, read(4 << 10));
    bench.cold_row("read 128 KiB, cold", found, read(128 << 10));
}

/// The cells of the file's table by operation.
fn expected() -> Vec<(String, Vec<u64>)> {
    let rows = TABLE.lines().skip(1).map(|line| {
        let mut words: Vec<&str> = line.split_whitespace().collect();
        let counts = words.split_off(words.len().saturating_sub(COLUMNS.len()));
        (words.join(" "), counts.iter().map(|count| count.parse().expect("a count")).collect())
    });
    rows.collect()
}

#[test]
fn every_operation_costs_what_the_table_says() {
    let mut bench = Bench::new();
    names(&mut bench);
    bytes(&mut bench);
    let (measured, expected) = (&bench.lines, expected());
    let mut differing = BTreeSet::new();
    for (index, (name, counts)) in measured.iter().enumerate() {
        let row = expected.get(index).filter(|(row, _)| row == name);
        let is_kept = row.is_some_and(|(_, row)| {
            // The choice of nodes for a read depends on the times of their answers.
            (0..COLUMNS.len()).all(|column| match column {
                NODE_GETS => counts[column] <= row[column],
                _ => counts[column] == row[column],
            })
        });
        if !is_kept {
            differing.insert(*name);
        }
    }
    let rows = (measured.len(), expected.len());
    assert!(
        differing.is_empty() && rows.0 == rows.1,
        "different from the table: {differing:?} {rows:?}\n{}",
        bench.table()
    );
    // Limits for every table.
    for (name, counts) in measured {
        assert_eq!(counts[THROUGH], 0, "{name}: it must not wait for a transaction of its own");
        assert!(counts[FSYNCS] <= 1, "{name}: one fsync is enough");
    }
    bench.world.expect("open").fsck();
}
