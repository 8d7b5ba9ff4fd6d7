//! Several processes change one volume: volumes of their own over one metadata engine and the same nodes.

use crate::support::{CALLER, VOLUME, World, memory_nodes};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use weft_env::Env;
use weft_env::sync::Receiver;
use weft_format::Ino;
use weft_format::records::{Kind, Timestamp};
use weft_meta::engines::MemoryKv;
use weft_meta::kv::{Batch, ChangedKeys, Kv, KvError, Sessions, Snapshot};
use weft_meta::{MetaError, Store};
use weft_transfer::{Fleet, Transfer};
use weft_vfs::open::{Members, start_volume};
use weft_vfs::{AttributeChange, Handle, LockRequest, SetTime, Settings, VfsError, Volume};

const SPAN: u64 = 200_000;

/// Volumes that change the same files.
struct Several {
    runtime: tokio::runtime::Runtime,
    nodes: Members,
    kv: Arc<MemoryKv>,
    volumes: Vec<Arc<Volume>>,
    /// Of each volume: how its server fails.
    servers: Vec<Arc<Mutex<Service>>>,
}

/// How a server answers commits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Service {
    #[default]
    Good,
    /// It does not, and does nothing.
    Away,
    /// It does what it is asked for, and is away before it answers.
    Unanswered,
}

/// A member whose server can fail.
struct Leaving {
    member: Box<dyn Kv>,
    server: Arc<Mutex<Service>>,
    /// It hears what others change.
    hears: bool,
}

impl Kv for Leaving {
    fn snapshot(&self) -> Result<Box<dyn Snapshot + '_>, KvError> {
        self.member.snapshot()
    }

    fn commit(&self, batch: Batch) -> Result<(), KvError> {
        let server = *self.server.lock().expect("not poisoned");
        if server != Service::Away {
            self.member.commit(batch)?;
        }
        match server {
            Service::Good => Ok(()),
            _ => Err(KvError::Failed { store: "memory".into(), detail: "it is away".into() }),
        }
    }

    fn flush(&self) -> Result<(), KvError> {
        self.member.flush()
    }

    fn sessions(&self) -> Option<&dyn Sessions> {
        Some(self)
    }
}

impl Leaving {
    fn of_member(&self) -> &dyn Sessions {
        self.member.sessions().expect("a member has them")
    }
}

impl Sessions for Leaving {
    fn own(&self) -> Result<i64, KvError> {
        self.of_member().own()
    }

    fn members(&self) -> Result<BTreeSet<i64>, KvError> {
        self.of_member().members()
    }

    fn make_sure(&self) -> Result<(), KvError> {
        self.of_member().make_sure()
    }

    fn changes(&self, tables: &'static [u8]) -> Option<Receiver<ChangedKeys>> {
        if self.hears { self.of_member().changes(tables) } else { None }
    }
}

impl Several {
    fn new(count: usize) -> Self {
        Self::that_hear(count, true)
    }

    /// Do they hear what others change?
    fn that_hear(count: usize, hears: bool) -> Self {
        let (kv, nodes) = (Arc::new(MemoryKv::new()), memory_nodes(6));
        World::<MemoryKv>::format(&kv, "rs:4+2", &nodes);
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
        let mut several = Self { runtime, nodes, kv, volumes: Vec::new(), servers: Vec::new() };
        (0..count).for_each(|_| several.join(hears));
        several
    }

    fn join(&mut self, hears: bool) {
        let env = Env::system();
        let server = Arc::<Mutex<Service>>::default();
        let member = Leaving { member: Box::new(self.kv.join()), server: server.clone(), hears };
        self.servers.push(server);
        let store = Store::open(Arc::new(member), &env).expect("it was formatted");
        let store = store.as_member().expect("it has sessions");
        let fleet = Arc::new(Fleet::new(self.nodes.clone(), Default::default(), &env));
        let handle = self.runtime.handle().clone();
        let transfer = Transfer::new(VOLUME, fleet, weft_transfer::Settings::default(), handle);
        let members = self.nodes.clone();
        let open_nodes = Box::new(move |_: &Store| Ok(members.clone()));
        self.volumes.push(start_volume(store, transfer, open_nodes, Settings::default()).expect("it starts"));
    }

    fn set_server(&self, volume: usize, service: Service) {
        *self.servers[volume].lock().expect("not poisoned") = service;
    }

    fn end(self) {
        for volume in &self.volumes {
            volume.shut_down().expect("everything is written");
        }
        let findings = weft_meta::fsck::check(self.volumes[0].store(), &mut |_| {}).expect("metadata can be read");
        assert!(findings.is_clean(), "fsck: {findings:#?}");
        assert_eq!(self.volumes[0].store().openings().expect("read").beside, []);
    }
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}: it does not come about");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn open(volume: &Volume, name: &str, flags: i32) -> (Ino, Handle) {
    let ino = volume.lookup(Ino::ROOT, name.as_bytes()).expect("it is there").ino;
    volume.forget(ino, 1);
    (ino, volume.open(ino, flags).expect("opened"))
}

fn close(volume: &Volume, handle: Handle) {
    volume.flush(handle).expect("flushed");
    volume.release(handle);
}

fn lock(owner: u64, handle: Handle, is_exclusive: bool) -> LockRequest {
    LockRequest { owner, handle, pid: 1, first: 0, last: u64::MAX, is_exclusive }
}

fn read_all(volume: &Volume, name: &str) -> Vec<u8> {
    let (ino, handle) = open(volume, name, libc::O_RDONLY);
    let size = volume.attributes(ino).expect("stats").size;
    let bytes = volume.read(handle, 0, 1 << 30).expect("reads");
    assert_eq!(bytes.len() as u64, size);
    close(volume, handle);
    bytes.to_vec()
}

/// What is closed by one is what the next one opens, however it was written.
#[test]
fn a_file_is_opened_as_it_was_closed_anywhere() {
    let several = Several::new(3);
    let seed = std::env::var("WEFT_SEED").map_or(1, |seed| seed.parse().expect("WEFT_SEED is a number"));
    println!("WEFT_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let (attributes, handle) = several.volumes[0].create(&CALLER, Ino::ROOT, b"f", 0o644, libc::O_RDWR).expect("made");
    close(&several.volumes[0], handle);
    let (ino, mut model) = (attributes.ino, Vec::new());
    for step in 0..250 {
        let volume = &several.volumes[random.random_range(0..3)];
        let (_, handle) = open(volume, "f", libc::O_RDWR);
        for _ in 0..random.random_range(1..4) {
            let (offset, byte) = (random.random_range(0..SPAN), random.random());
            let length =
                if random.random_bool(0.8) { random.random_range(1..6000) } else { random.random_range(1..100_000) };
            match random.random_range(0..10) {
                0..=4 => {
                    volume.write(handle, offset, &vec![byte; length], false).expect("written");
                    let end = offset as usize + length;
                    model.resize(model.len().max(end), 0);
                    model[offset as usize..end].fill(byte);
                }
                5 | 6 if model.len() < 4 * SPAN as usize => {
                    volume.append(handle, &vec![byte; length], false).expect("appended");
                    model.resize(model.len() + length, byte);
                }
                7 => {
                    let change = AttributeChange { size: Some(offset), ..AttributeChange::default() };
                    volume.set_attributes(ino, &change).expect("truncated");
                    model.resize(offset as usize, 0);
                }
                8 => {
                    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
                    volume.allocate(handle, offset, length as u64, mode, false).expect("punched");
                    let end = model.len().min(offset as usize + length);
                    model[(offset as usize).min(end)..end].fill(0);
                }
                _ => {
                    volume.allocate(handle, offset, length as u64, 0, false).expect("allocated");
                    model.resize(model.len().max(offset as usize + length), 0);
                }
            }
            if random.random_bool(0.3) {
                volume.fsync(handle).expect("synced");
            }
            let read = volume.read(handle, 0, 8 * SPAN as u32).expect("reads its own");
            assert!(read == model, "step {step}: its own bytes differ");
        }
        close(volume, handle);
        let other = &several.volumes[random.random_range(0..3)];
        let read = read_all(other, "f");
        let wrong = || read.iter().zip(&model).position(|(found, expected)| found != expected);
        assert!(read == model, "step {step}: {} bytes of {}, differing at {:?}", read.len(), model.len(), wrong());
    }
    let journal = || several.volumes[0].store().journal(None, 1).expect("read").len();
    until("what is journaled goes to segments", || journal() == 0);
    assert!(read_all(&several.volumes[1], "f") == model);
    several.end();
}

/// Returns when a file that lost its name now is reclaimed: files that lost theirs before and are still there are held.
fn reclaim_another(volume: &Volume) {
    let (attributes, handle) = volume.create(&CALLER, Ino::ROOT, b"another", 0o644, libc::O_RDWR).expect("made");
    close(volume, handle);
    volume.unlink(Ino::ROOT, b"another").expect("unlinked");
    volume.forget(attributes.ino, 1);
    until("another is reclaimed", || volume.attributes(attributes.ino).is_err());
}

#[test]
fn a_file_lives_as_long_as_anybody_has_it_open() {
    let several = Several::new(2);
    let [one, other] = &several.volumes[..] else { unreachable!() };
    let (attributes, writing) = one.create(&CALLER, Ino::ROOT, b"f", 0o644, libc::O_RDWR).expect("made");
    let ino = attributes.ino;
    one.write(writing, 0, b"before", false).expect("written");
    close(one, writing);
    let (_, held) = open(other, "f", libc::O_RDWR);
    one.unlink(Ino::ROOT, b"f").expect("unlinked");
    reclaim_another(one);
    assert_eq!(&other.read(held, 0, 100).expect("it lives")[..], b"before");
    other.write(held, 6, b" and after", false).expect("written");
    other.fsync(held).expect("synced");
    // Who comes by a name of before does not open it, though it lives; who has it open may open it again.
    let is_stale = |volume: &Volume| matches!(volume.open(ino, libc::O_RDONLY), Err(VfsError::Stale));
    assert!(is_stale(one));
    let again = other.open(ino, libc::O_RDONLY).expect("opened");
    close(other, held);
    reclaim_another(one);
    assert_eq!(&other.read(again, 0, 100).expect("read")[..], b"before and after");
    close(other, again);
    until("it is reclaimed", || one.attributes(ino).is_err());
    assert!(is_stale(one) && is_stale(other));
    several.end();
}

#[test]
fn one_of_many_makes_a_name_and_appended_records_are_whole() {
    const RECORDS: usize = 40;
    let several = Several::new(3);
    let made = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for (number, volume) in several.volumes.iter().enumerate() {
            let made = &made;
            scope.spawn(move || {
                for round in 0..30 {
                    let name = format!("n{round}");
                    match volume.create(&CALLER, Ino::ROOT, name.as_bytes(), 0o644, libc::O_EXCL) {
                        Ok((_, handle)) => {
                            made.fetch_add(1, Ordering::Relaxed);
                            close(volume, handle);
                        }
                        Err(error) => assert_eq!(error.errno(), libc::EEXIST, "{error}"),
                    }
                }
                let (_, log) = open(volume, "n0", libc::O_WRONLY | libc::O_APPEND);
                for record in 0..RECORDS {
                    // Some by way of the journal, some in segments.
                    let length = if record % 8 == 0 { 70_000 } else { 100 };
                    let mut bytes = vec![number as u8 + 1; length];
                    bytes[..4].copy_from_slice(&(length as u32).to_be_bytes());
                    volume.append(log, &bytes, false).expect("appended");
                }
                close(volume, log);
            });
        }
    });
    assert_eq!(made.into_inner(), 30);
    let log = read_all(&several.volumes[0], "n0");
    let (mut rest, mut counts) = (&log[..], [0; 3]);
    while let Some((length, _)) = rest.split_first_chunk::<4>() {
        let (record, after) = rest.split_at(u32::from_be_bytes(*length) as usize);
        assert!(record[4..].iter().all(|byte| *byte == record[4]), "a record is torn");
        counts[record[4] as usize - 1] += 1;
        rest = after;
    }
    assert_eq!(counts, [RECORDS; 3]);
    several.end();
}

/// Each counts up in a file under a lock: no count is lost, so each saw what the one before had closed.
#[test]
fn a_lock_keeps_others_out_and_shows_what_was_closed_under_it() {
    const COUNTS: u64 = 60;
    let several = Several::new(3);
    let (attributes, handle) =
        several.volumes[0].create(&CALLER, Ino::ROOT, b"count", 0o644, libc::O_RDWR).expect("made");
    several.volumes[0].write(handle, 0, &0u64.to_be_bytes(), false).expect("written");
    close(&several.volumes[0], handle);
    let ino = attributes.ino;
    std::thread::scope(|scope| {
        for volume in &several.volumes {
            scope.spawn(move || {
                for _ in 0..COUNTS {
                    let wanted = LockRequest {
                        owner: 5,
                        handle: Handle(1),
                        pid: 1,
                        first: 0,
                        last: u64::MAX,
                        is_exclusive: true,
                    };
                    while volume.lock(ino, wanted).expect("asked").is_some() {
                        std::thread::sleep(Duration::from_micros(200));
                    }
                    let handle = volume.open(ino, libc::O_RDWR).expect("opened");
                    let before = volume.read(handle, 0, 8).expect("read");
                    let before = u64::from_be_bytes(before[..].try_into().expect("eight bytes"));
                    volume.write(handle, 0, &(before + 1).to_be_bytes(), false).expect("written");
                    close(volume, handle);
                    volume.unlock_all(ino, 5).expect("unlocked");
                }
            });
        }
    });
    assert_eq!(read_all(&several.volumes[1], "count"), (3 * COUNTS).to_be_bytes());
    several.end();
}

/// A kernel gives the number of an open file that is closed to another at once, and the end of the first may be heard of later.
#[test]
fn a_late_release_takes_no_lock_of_another() {
    let several = Several::new(1);
    let volume = &several.volumes[0];
    let ino = volume.make_node(&CALLER, Ino::ROOT, b"f", Kind::File, 0o644, 0).expect("made").ino;
    let lock = |handle| LockRequest { owner: 9, handle: Handle(handle), pid: 1, first: 0, last: 9, is_exclusive: true };
    let locks = || volume.store().locks(ino).expect("read").len();
    assert_eq!(volume.lock(ino, lock(1)).expect("asked"), None);
    assert_eq!(volume.lock(ino, lock(2)).expect("asked"), None);
    volume.unlock_released(ino, Handle(1)).expect("asked");
    assert_eq!(locks(), 1);
    volume.unlock_released(ino, Handle(2)).expect("asked");
    assert_eq!(locks(), 0);
    several.end();
}

/// A process that was evicted changes nothing, and what it held is free.
#[test]
fn a_volume_whose_session_ended_changes_nothing() {
    let several = Several::new(2);
    let [one, other] = &several.volumes[..] else { unreachable!() };
    let (attributes, handle) = one.create(&CALLER, Ino::ROOT, b"f", 0o644, libc::O_RDWR).expect("made");
    let ino = attributes.ino;
    let lock = |owner| LockRequest { owner, handle: Handle(1), pid: 1, first: 0, last: 9, is_exclusive: true };
    assert_eq!(one.lock(ino, lock(1)).expect("locked"), None);
    one.write(handle, 0, b"never seen", false).expect("in memory");
    assert!(other.lock(ino, lock(2)).expect("asked").is_some());
    several.kv.evict(one.store().lock_session());
    until("its lock is free", || other.lock(ino, lock(2)).expect("asked").is_none());
    let refused = one.flush(handle).expect_err("refused");
    assert_eq!(refused.errno(), libc::EROFS, "{refused}");
    let refused = one.make_node(&CALLER, Ino::ROOT, b"d", Kind::Directory, 0o755, 0).expect_err("refused");
    assert!(matches!(refused, VfsError::Meta(MetaError::Superseded(_))), "{refused}");
    assert!(one.rename(Ino::ROOT, b"f", Ino::ROOT, b"g", Default::default()).is_err());
    assert!(one.unlink(Ino::ROOT, b"f").is_err());
    assert_eq!(read_all(other, "f"), b"");
    until("the other keeps house", || other.keeps_house());
    assert_eq!(other.store().openings().expect("read").current().count(), 1);
    // It goes on.
    let (_, handle) = open(other, "f", libc::O_RDWR);
    other.write(handle, 0, b"seen", false).expect("written");
    close(other, handle);
    assert_eq!(read_all(other, "f"), b"seen");
    assert!(one.lookup(Ino::ROOT, b"f").is_ok(), "it still reads");
}

/// An fsync never says that bytes are durable which a close of somebody else, or of another descriptor, has given up.
#[test]
fn all_who_have_a_file_open_learn_what_a_close_gives_up() {
    let several = Several::new(2);
    let volume = &several.volumes[0];
    let (_, closing) = volume.create(&CALLER, Ino::ROOT, b"f", 0o644, libc::O_RDWR).expect("made");
    let other = open(volume, "f", libc::O_RDWR).1;
    let open_for_reading = || open(volume, "f", libc::O_RDONLY);
    let reader = open_for_reading().1;
    // In the metadata's journal, and in segments.
    for length in [10, 300_000] {
        volume.fsync(closing).expect("synced");
        let before = read_all(&several.volumes[1], "f");
        volume.write(other, 0, &vec![1; length], false).expect("written");
        let (ino, passing) = open_for_reading();
        assert_eq!(volume.lock(ino, lock(7, passing, false)).expect("asked"), None);
        several.set_server(0, Service::Away);
        volume.flush(reader).expect("who only read has nothing to commit");
        let error = volume.flush(closing).expect_err("nothing can be committed");
        assert_eq!(error.errno(), libc::EIO, "{error}");
        several.set_server(0, Service::Good);
        volume.fsync(other).expect_err("its bytes were given up");
        volume.fsync(other).expect("it was told");
        // It is open still in a program that has forked, for example.
        volume.fsync(closing).expect_err("the bytes were given up after this");
        volume.fsync(closing).expect("it was told");
        volume.flush(reader).expect_err("all who have it open learn of it");
        let later = open(volume, "f", libc::O_RDWR).1;
        volume.fsync(later).expect("it wrote nothing that is lost");
        close(volume, later);
        assert!(read_all(&several.volumes[1], "f") == before);
        assert!(read_all(volume, "f") == before, "{length}");
        volume.write(other, 5, &vec![2; length], false).expect("written");
        several.set_server(0, Service::Away);
        volume.flush(reader).expect("who only read has nothing to commit");
        // Nor when its last descriptor and its lock go.
        volume.unlock_all(ino, 7).expect_err("the server is away");
        volume.release(passing);
        several.set_server(0, Service::Good);
        volume.fsync(other).expect("nothing was given up");
        assert!(read_all(&several.volumes[1], "f")[5..] == vec![2; length]);
    }
    for handle in [closing, other, reader] {
        close(volume, handle);
    }
    several.end();
}

/// A kernel drops its pages of a file where it is shown a time that it has not seen. So each commit of another has to show itself by one, also
/// where bytes of this process lie over it.
#[test]
fn an_open_file_shows_by_its_time_that_another_has_changed_it() {
    let several = Several::that_hear(2, false);
    let [one, other] = &several.volumes[..] else { unreachable!() };
    let (attributes, handle) = one.create(&CALLER, Ino::ROOT, b"f", 0o644, libc::O_RDWR).expect("made");
    let ino = attributes.ino;
    one.write(handle, 0, &[0; 10_000], false).expect("written");
    one.fsync(handle).expect("synced");
    for looks_between in [true, false] {
        let theirs = open(other, "f", libc::O_RDWR).1;
        one.write(handle, 0, b"a", false).expect("written");
        let shown = one.attributes(ino).expect("stats").mtime;
        other.write(theirs, 5000, b"b", false).expect("written");
        other.flush(theirs).expect("committed");
        let shown_there = other.attributes(ino).expect("stats").mtime;
        if looks_between {
            assert_ne!(one.attributes(ino).expect("stats").mtime, shown);
        }
        one.fsync(handle).expect("synced");
        let both: Vec<_> = several.volumes.iter().map(|volume| volume.attributes(ino).expect("stats").mtime).collect();
        assert_eq!(both[0], both[1]);
        assert!(both[0] > shown && both[0] > shown_there, "{both:?} after {shown:?} and {shown_there:?}");
        assert_eq!(one.read(handle, 5000, 1).expect("read"), &b"b"[..]);
        close(other, theirs);
    }
    // What is given up is in the kernel's pages still.
    let shown = one.attributes(ino).expect("stats").mtime;
    one.write(handle, 0, b"c", false).expect("written");
    several.set_server(0, Service::Away);
    one.flush(handle).expect_err("it is given up");
    several.set_server(0, Service::Good);
    assert_ne!(one.attributes(ino).expect("stats").mtime, shown);
    one.fsync(handle).expect_err("it learns of it");
    // But a time that is set is shown.
    let change = AttributeChange { mtime: Some(SetTime::To(shown)), ..AttributeChange::default() };
    assert_eq!(one.set_attributes(ino, &change).expect("set").mtime, shown);
    close(one, handle);
    several.end();
}

/// A time that a program sets is the file's, also if the program has written just before.
#[test]
fn a_time_that_is_set_stays() {
    let several = Several::new(2);
    let volume = &several.volumes[0];
    let (attributes, handle) = volume.create(&CALLER, Ino::ROOT, b"f", 0o644, libc::O_RDWR).expect("made");
    volume.write(handle, 0, b"copied", false).expect("written");
    let mtime = Timestamp { seconds: 1_000_000_000, nanoseconds: 999_999_999 };
    let change = AttributeChange { mtime: Some(SetTime::To(mtime)), ..AttributeChange::default() };
    assert_eq!(volume.set_attributes(attributes.ino, &change).expect("set").mtime, mtime);
    close(volume, handle);
    assert_eq!(several.volumes[1].attributes(attributes.ino).expect("stats").mtime, mtime);
    several.end();
}

/// Who was shown by its time that a file has changed reads what it is now, though others' bytes were looked up a moment ago.
#[test]
fn what_is_read_is_no_older_than_the_time_that_was_shown() {
    let several = Several::that_hear(2, false);
    let [one, other] = &several.volumes[..] else { unreachable!() };
    let (attributes, handle) = one.create(&CALLER, Ino::ROOT, b"f", 0o644, libc::O_RDWR).expect("made");
    one.write(handle, 0, &[0; 10_000], false).expect("written");
    one.fsync(handle).expect("synced");
    assert_eq!(one.read(handle, 0, 1).expect("read"), &[0][..]);
    let theirs = open(other, "f", libc::O_RDWR).1;
    other.write(theirs, 5000, b"b", false).expect("written");
    close(other, theirs);
    one.attributes(attributes.ino).expect("stats");
    assert_eq!(one.read(handle, 5000, 1).expect("read"), &b"b"[..]);
    close(one, handle);
    several.end();
}

/// What could not be unlocked is unlocked later, unless the same program has got a lock meanwhile: that one stays.
#[test]
fn a_late_unlock_takes_no_lock_that_was_given_after_it() {
    let several = Several::new(2);
    let [one, other] = &several.volumes[..] else { unreachable!() };
    let ino = one.make_node(&CALLER, Ino::ROOT, b"f", Kind::File, 0o644, 0).expect("made").ino;
    let get = |volume: &Volume| volume.lock(ino, lock(9, Handle(1), true));
    assert_eq!(get(one).expect("asked"), None);
    several.set_server(0, Service::Away);
    one.unlock_all(ino, 9).expect_err("the server is away");
    several.set_server(0, Service::Good);
    assert_eq!(get(one).expect("asked"), None);
    // Two rounds of the house, and a moment.
    std::thread::sleep(Duration::from_millis(1_300));
    assert!(get(other).expect("asked").is_some());
    one.unlock_all(ino, 9).expect("unlocked");
    assert_eq!(get(other).expect("asked"), None);
    other.unlock_all(ino, 9).expect("unlocked");
    // A lock that was given without an answer is taken away again: its program, which has waited for it, does not know that it has it.
    assert_eq!(get(other).expect("asked"), None);
    assert!(get(one).expect("asked").is_some());
    other.unlock_all(ino, 9).expect("unlocked");
    // It had one before, which it gave up itself.
    assert_eq!(get(one).expect("asked"), None);
    one.unlock(ino, lock(9, Handle(1), false)).expect("unlocked");
    several.set_server(0, Service::Unanswered);
    get(one).expect_err("nobody answers");
    several.set_server(0, Service::Good);
    until("nobody has it", || get(other).expect("asked").is_none());
    other.unlock_all(ino, 9).expect("unlocked");
    several.end();
}
