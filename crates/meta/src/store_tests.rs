//! The whole store against a simple model of a POSIX tree, and what belongs to no part of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use weft_env::Env;

use super::fixture::*;
use super::*;
use crate::engines::MemoryKv;
use crate::kv::{Pair, Snapshot};
use crate::types::{NewInode, PolicyMaker, RenameFlags, SetAttributes, XattrMode};
use weft_format::records::Later;
use weft_format::{PolicyId, VolumeId};

/// A tree as a textbook has it; errors are the names of `MetaError`'s variants.
#[derive(Default)]
struct Model {
    nodes: BTreeMap<u64, Node>,
}

#[derive(Clone)]
struct Node {
    kind: Kind,
    links: u32,
    parent: u64,
    children: BTreeMap<Vec<u8>, u64>,
}

type Outcome<T> = Result<T, &'static str>;

impl Model {
    fn new() -> Self {
        let root = Node { kind: Kind::Directory, links: 2, parent: 1, children: BTreeMap::new() };
        Model { nodes: BTreeMap::from([(1, root)]) }
    }

    fn directory(&self, ino: u64) -> Outcome<&Node> {
        match self.nodes.get(&ino) {
            None => Err("NotFound"),
            Some(node) if node.kind != Kind::Directory => Err("NotDirectory"),
            Some(node) => Ok(node),
        }
    }

    fn child(&self, parent: u64, name: &[u8]) -> Outcome<Option<u64>> {
        Ok(self.directory(parent)?.children.get(name).copied())
    }

    fn may_create(&self, parent: u64, name: &[u8]) -> Outcome<()> {
        if self.directory(parent)?.links == 0 {
            return Err("NotFound");
        }
        if self.child(parent, name)?.is_some() { Err("Exists") } else { Ok(()) }
    }

    fn is_directory(&self, ino: u64) -> bool {
        self.nodes[&ino].kind == Kind::Directory
    }

    fn insert(&mut self, parent: u64, name: &[u8], ino: u64) {
        if self.is_directory(ino) {
            self.nodes.get_mut(&parent).unwrap().links += 1;
            self.nodes.get_mut(&ino).unwrap().parent = parent;
        }
        self.nodes.get_mut(&parent).unwrap().children.insert(name.to_vec(), ino);
    }

    fn take(&mut self, parent: u64, name: &[u8]) -> u64 {
        let ino = self.nodes.get_mut(&parent).unwrap().children.remove(name).unwrap();
        if self.is_directory(ino) {
            self.nodes.get_mut(&parent).unwrap().links -= 1;
        }
        ino
    }

    fn drop_link(&mut self, ino: u64) {
        let is_directory = self.is_directory(ino);
        let node = self.nodes.get_mut(&ino).unwrap();
        node.links = if is_directory { 0 } else { node.links - 1 };
    }

    fn unlink(&mut self, parent: u64, name: &[u8]) -> Outcome<()> {
        let ino = self.child(parent, name)?.ok_or("NotFound")?;
        if self.is_directory(ino) {
            return Err("IsDirectory");
        }
        self.take(parent, name);
        self.drop_link(ino);
        Ok(())
    }

    fn rmdir(&mut self, parent: u64, name: &[u8]) -> Outcome<()> {
        let ino = self.child(parent, name)?.ok_or("NotFound")?;
        if !self.is_directory(ino) {
            return Err("NotDirectory");
        }
        if !self.nodes[&ino].children.is_empty() {
            return Err("NotEmpty");
        }
        self.take(parent, name);
        self.drop_link(ino);
        Ok(())
    }

    fn link(&mut self, ino: u64, parent: u64, name: &[u8]) -> Outcome<()> {
        if self.directory(parent)?.links == 0 {
            return Err("NotFound");
        }
        let (kind, links) = self.nodes.get(&ino).map(|node| (node.kind, node.links)).ok_or("NotFound")?;
        self.may_create(parent, name)?;
        if kind == Kind::Directory {
            return Err("IsDirectory");
        }
        if links == 0 {
            return Err("NotFound");
        }
        self.nodes.get_mut(&ino).unwrap().links += 1;
        self.insert(parent, name, ino);
        Ok(())
    }

    /// Is `ino` `of` or above it?
    fn is_above(&self, ino: u64, mut of: u64) -> bool {
        while of != ino && of != 1 {
            of = self.nodes[&of].parent;
        }
        of == ino
    }

    fn rename(&mut self, old: (u64, &[u8]), new: (u64, &[u8]), flags: RenameFlags) -> Outcome<()> {
        self.directory(old.0)?;
        if old.0 != new.0 && self.directory(new.0)?.links == 0 {
            return Err("NotFound");
        }
        let from = self.child(old.0, old.1)?.ok_or("NotFound")?;
        let to = self.child(new.0, new.1)?;
        if flags.no_replace && to.is_some() {
            return Err("Exists");
        }
        if flags.exchange && to.is_none() {
            return Err("NotFound");
        }
        if to == Some(from) {
            return Ok(());
        }
        if self.is_directory(from) && self.is_above(from, new.0) {
            return Err("Invalid");
        }
        if let Some(to) = to {
            if flags.exchange {
                if self.is_directory(to) && self.is_above(to, old.0) {
                    return Err("Invalid");
                }
                self.take(old.0, old.1);
                self.take(new.0, new.1);
                self.insert(old.0, old.1, to);
                self.insert(new.0, new.1, from);
                return Ok(());
            }
            // What is on the way to what moves holds it.
            if old.0 != new.0 && self.is_directory(to) && self.is_above(to, old.0) {
                return Err("NotEmpty");
            }
            match (self.is_directory(from), self.is_directory(to)) {
                (true, false) => return Err("NotDirectory"),
                (false, true) => return Err("IsDirectory"),
                (true, true) if !self.nodes[&to].children.is_empty() => return Err("NotEmpty"),
                _ => {}
            }
            self.take(new.0, new.1);
            self.drop_link(to);
        }
        self.take(old.0, old.1);
        self.insert(new.0, new.1, from);
        Ok(())
    }

    #[track_caller]
    fn assert_same(&self, store: &Store, context: &str) {
        for (ino, node) in &self.nodes {
            let attributes = store.attributes(Ino(*ino)).unwrap();
            assert_eq!((attributes.kind, attributes.nlink), (node.kind, node.links), "inode {ino}, {context}");
            if node.kind == Kind::Directory {
                assert_eq!(attributes.parent.0, node.parent, "parent of {ino}, {context}");
                let listed = store.read_directory(Ino(*ino), 0, usize::MAX).unwrap().entries;
                assert!(listed.is_sorted_by_key(|entry| entry.cookie));
                let listed: BTreeMap<_, _> =
                    listed.into_iter().map(|entry| (entry.name, entry.attributes.ino.0)).collect();
                assert_eq!(listed, node.children, "entries of {ino}, {context}");
            }
        }
        let orphans: Vec<u64> = store.orphans(usize::MAX).unwrap().into_iter().map(|ino| ino.0).collect();
        let expected: Vec<u64> = self.nodes.iter().filter(|(_, node)| node.links == 0).map(|(ino, _)| *ino).collect();
        assert_eq!(orphans, expected, "{context}");
        assert_eq!(store.statistics().unwrap().inodes, self.nodes.len() as u64, "{context}");
    }
}

#[track_caller]
fn assert_agree<T: std::fmt::Debug>(got: Result<T, MetaError>, expected: Outcome<()>, context: &str) {
    let got = got.map(drop).map_err(|error| kind_of(&error));
    assert_eq!(got, expected.map_err(str::to_string), "{context}");
}

/// Random operations on few names in few directories, so that every case of every operation comes often.
fn run_against_model(seed: u64, operations: u32) {
    let (store, _) = volume();
    let mut model = Model::new();
    let mut random = Random(seed);
    let names: [&[u8]; 4] = [b"a", b"b", b"c", b"d"];
    for step in 0..operations {
        let inos: Vec<u64> = model.nodes.keys().copied().collect();
        // Mostly directories, and sometimes what is none, or is gone.
        let directories: Vec<u64> = inos.iter().copied().filter(|ino| model.is_directory(*ino)).collect();
        let place = |random: &mut Random| match random.below(12) {
            0 => *random.pick(&inos),
            1 => 4000,
            _ => *random.pick(&directories),
        };
        let (parent, other) = (place(&mut random), place(&mut random));
        let (name, new_name) = (*random.pick(&names), *random.pick(&names));
        let now = at(i64::from(step) + 10);
        let context = format!("seed {seed}, step {step}");
        match random.below(10) {
            0..=2 => {
                let kind = *random.pick(&[Kind::File, Kind::Directory, Kind::Directory, Kind::Symlink, Kind::Fifo]);
                let expected = model.may_create(parent, name);
                let made = store.create(Ino(parent), name, &new_inode(kind), now);
                if let (Ok(made), Ok(())) = (&made, &expected) {
                    let links = if kind == Kind::Directory { 2 } else { 1 };
                    model.nodes.insert(made.ino.0, Node { kind, links, parent, children: BTreeMap::new() });
                    model.insert(parent, name, made.ino.0);
                }
                assert_agree(made, expected, &context);
            }
            3 => {
                let ino = *random.pick(&inos);
                let got = store.link(Ino(ino), Ino(parent), name, now);
                assert_agree(got, model.link(ino, parent, name), &context);
            }
            4 => assert_agree(store.unlink(Ino(parent), name, now), model.unlink(parent, name), &context),
            5 => assert_agree(store.rmdir(Ino(parent), name, now), model.rmdir(parent, name), &context),
            6..=8 => {
                let flags = match random.below(4) {
                    0 => RenameFlags { no_replace: true, ..RenameFlags::default() },
                    1 => RenameFlags { exchange: true, ..RenameFlags::default() },
                    _ => RenameFlags::default(),
                };
                let got = store.rename(Ino(parent), name, Ino(other), new_name, flags, now);
                assert_agree(got, model.rename((parent, name), (other, new_name), flags), &context);
            }
            _ => {
                let orphans: Vec<u64> =
                    model.nodes.iter().filter(|(_, node)| node.links == 0).map(|(ino, _)| *ino).collect();
                for ino in orphans {
                    assert_eq!(store.reclaim(&[unused(Ino(ino))], now).unwrap(), 1);
                    model.nodes.remove(&ino);
                }
            }
        }
        if step % 16 == 0 {
            model.assert_same(&store, &context);
        }
        if step % 64 == 0 {
            assert_clean(&store);
        }
    }
    model.assert_same(&store, &format!("seed {seed}, at the end"));
    assert_clean(&store);
    for (ino, node) in &model.nodes {
        let path = store.path_of(Ino(*ino)).unwrap();
        match path {
            Some(path) => {
                let parts = path.split(|byte| *byte == b'/').filter(|part| !part.is_empty());
                let found = parts.fold(1, |at, part| model.nodes[&at].children[part]);
                assert_eq!(found, *ino, "seed {seed}: {}", path.escape_ascii());
            }
            None => assert_eq!(node.links, 0, "seed {seed}: inode {ino} has a path"),
        }
    }
}

#[test]
fn agrees_with_the_model_of_a_tree() {
    for seed in 1..=12 {
        run_against_model(seed, 1500);
    }
}

#[test]
fn format_wants_an_empty_engine_and_open_a_volume() {
    let kv = Arc::new(MemoryKv::new());
    let refused = Store::open(kv.clone(), &Env::system()).err().unwrap();
    assert_eq!(kind_of(&refused), "Refused");
    let record = VolumeRecord { volume: VolumeId(9), created_ms: 5, default_policy: PolicyId(0) };
    Store::format(kv.clone(), &record, &default_policy(), at(1), &Env::system()).unwrap();
    let again = Store::format(kv.clone(), &record, &default_policy(), at(1), &Env::system()).err().unwrap();
    assert_eq!(kind_of(&again), "Refused");

    let store = Store::open(kv.clone(), &Env::system()).unwrap();
    assert_eq!(*store.volume(), record);
    let root = store.attributes(Ino::ROOT).unwrap();
    assert_eq!((root.kind, root.mode, root.nlink, root.parent), (Kind::Directory, 0o755, 2, Ino::ROOT));
    assert_eq!(store.policy(root.policy).unwrap(), default_policy());
    assert_clean(&store);

    // A version that does not exist yet.
    let mut newer = record.encode();
    newer[1] = 99;
    let batch = Batch { writes: vec![(Key::Volume.encode(), Some(newer))], ..Batch::default() };
    kv.commit(batch).unwrap();
    let refused = Store::open(kv, &Env::system()).err().unwrap();
    assert!(refused.to_string().contains("version 99"), "{refused}");
}

#[test]
fn numbers_are_reserved_in_blocks_and_never_given_out_twice() {
    let (store, kv) = volume();
    let first = make(&store, Ino::ROOT, "a", Kind::File);
    let commits = kv.commits.load(std::sync::atomic::Ordering::Relaxed);
    let second = make(&store, Ino::ROOT, "b", Kind::File);
    assert_eq!(kv.commits.load(std::sync::atomic::Ordering::Relaxed), commits + 1);
    assert_eq!(second.0, first.0 + 1);
    let reopened = Store::open(kv, &Env::system()).unwrap();
    let third = make(&reopened, Ino::ROOT, "c", Kind::File);
    assert_eq!(third.0, first.0 + NUMBER_BLOCK);
    assert_clean(&reopened);
}

#[test]
fn a_create_costs_two_reads_and_five_changes() {
    let (store, kv) = volume();
    make(&store, Ino::ROOT, "a", Kind::File);
    make(&store, Ino::ROOT, "b", Kind::File);
    assert_eq!(*kv.last.lock(), (2, 5));
}

#[test]
fn times_and_modes_that_cannot_be_are_refused() {
    let (store, _) = volume();
    let never = Timestamp { seconds: 0, nanoseconds: 1_000_000_000 };
    let made = store.create(Ino::ROOT, b"a", &new_inode(Kind::File), never);
    assert_eq!(kind_of(&made.unwrap_err()), "Invalid");
    let inode = NewInode { mode: 0o10000, ..new_inode(Kind::File) };
    assert_eq!(kind_of(&store.create(Ino::ROOT, b"a", &inode, at(1)).unwrap_err()), "Invalid");
    assert_clean(&store);
}

/// An engine in which somebody else always comes first.
struct ContestedKv {
    inner: MemoryKv,
    conflicts: Mutex<u32>,
}

impl Kv for ContestedKv {
    fn snapshot(&self) -> Result<Box<dyn Snapshot + '_>, KvError> {
        self.inner.snapshot()
    }

    fn commit(&self, batch: Batch) -> Result<(), KvError> {
        let mut conflicts = self.conflicts.lock();
        if *conflicts > 0 {
            *conflicts -= 1;
            return Err(KvError::Conflict);
        }
        self.inner.commit(batch)
    }

    fn flush(&self) -> Result<(), KvError> {
        Ok(())
    }
}

#[test]
fn a_conflict_is_tried_again_but_not_for_ever() {
    let kv = Arc::new(ContestedKv { inner: MemoryKv::new(), conflicts: Mutex::new(0) });
    let record = VolumeRecord { volume: VolumeId(9), created_ms: 5, default_policy: PolicyId(0) };
    let store = Store::format(kv.clone(), &record, &default_policy(), at(1), &Env::system()).unwrap();
    // It has numbers to give out from here on.
    make(&store, Ino::ROOT, "first", Kind::File);
    let attempts = Company::Beside.attempts() + Company::Alone.attempts();
    *kv.conflicts.lock() = attempts - 1;
    make(&store, Ino::ROOT, "a", Kind::File);
    *kv.conflicts.lock() = attempts;
    let error = store.create(Ino::ROOT, b"b", &new_inode(Kind::File), at(1)).unwrap_err();
    assert!(matches!(error, MetaError::Engine(KvError::Conflict)));
    assert_clean(&store);
}

#[test]
fn threads_create_in_one_directory() {
    let (store, _) = volume();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let store = &store;
            scope.spawn(move || {
                for number in 0..100 {
                    make(store, Ino::ROOT, &format!("{thread}-{number}"), Kind::Directory);
                }
            });
        }
    });
    assert_eq!(store.attributes(Ino::ROOT).unwrap().nlink, 402);
    assert_eq!(store.read_directory(Ino::ROOT, 0, 1000).unwrap().entries.len(), 400);
    assert_clean(&store);
}

type Deed = Box<dyn FnOnce() + Send>;

/// An engine shared by several stores, which counts conflicts; `before_commit` is what somebody else does first, once.
#[derive(Default)]
struct SharedKv {
    inner: MemoryKv,
    conflicts: AtomicU64,
    before_commit: Mutex<Option<Deed>>,
}

impl Kv for SharedKv {
    fn snapshot(&self) -> Result<Box<dyn Snapshot + '_>, KvError> {
        self.inner.snapshot()
    }

    fn commit(&self, batch: Batch) -> Result<(), KvError> {
        let before = self.before_commit.lock().take();
        if let Some(before) = before {
            before();
        }
        let committed = self.inner.commit(batch);
        self.conflicts.fetch_add(u64::from(matches!(committed, Err(KvError::Conflict))), Ordering::Relaxed);
        committed
    }

    fn flush(&self) -> Result<(), KvError> {
        Ok(())
    }
}

fn shared_volume() -> (Store, Arc<SharedKv>) {
    let kv = Arc::new(SharedKv::default());
    let record = VolumeRecord { volume: VolumeId(9), created_ms: 5, default_policy: PolicyId(0) };
    (Store::format(kv.clone(), &record, &default_policy(), at(1), &Env::system()).unwrap(), kv)
}

#[test]
fn sixteen_stores_on_one_engine_create_without_a_conflict_in_one_directory_and_in_their_own() {
    const STORES: u32 = 16;
    const EACH: u32 = 100;
    let (store, kv) = shared_volume();
    let together = make(&store, Ino::ROOT, "together", Kind::Directory);
    let stores: Vec<Store> = (0..STORES).map(|_| Store::open(kv.clone(), &Env::system()).unwrap()).collect();
    let own: Vec<Ino> =
        stores.iter().enumerate().map(|(i, store)| make(store, Ino::ROOT, &format!("{i}"), Kind::Directory)).collect();
    // Each has numbers to give out now, so that nothing but creates happens.
    let before = kv.conflicts.load(Ordering::Relaxed);
    std::thread::scope(|scope| {
        for (i, (store, own)) in stores.iter().zip(&own).enumerate() {
            scope.spawn(move || {
                for number in 0..EACH {
                    make(store, *own, &format!("{number}"), Kind::File);
                    make(store, together, &format!("{i}-{number}"), Kind::Directory);
                }
            });
        }
    });
    assert_eq!(kv.conflicts.load(Ordering::Relaxed), before);
    let attributes = store.attributes(together).unwrap();
    assert_eq!(attributes.nlink, 2 + STORES * EACH);
    assert_eq!(store.statistics().unwrap().inodes, u64::from(2 + STORES + 2 * STORES * EACH));
    assert_clean(&store);
}

/// The time of the one who creates is behind, so that nothing in the directory's own record changes.
#[test]
fn a_directory_in_which_another_store_makes_a_name_is_not_removed() {
    let (store, kv) = shared_volume();
    let directory = make(&store, Ino::ROOT, "directory", Kind::Directory);
    let other = Store::open(kv.clone(), &Env::system()).unwrap();
    *kv.before_commit.lock() = Some(Box::new(move || {
        other.create(directory, b"file", &new_inode(Kind::File), at(0)).unwrap();
    }));
    assert_eq!(kind_of(&store.rmdir(Ino::ROOT, b"directory", at(9)).unwrap_err()), "NotEmpty");
    assert_clean(&store);
}

#[test]
fn no_name_is_made_in_a_directory_that_another_store_removes() {
    let (store, kv) = shared_volume();
    let directory = make(&store, Ino::ROOT, "directory", Kind::Directory);
    let other = Store::open(kv.clone(), &Env::system()).unwrap();
    *kv.before_commit.lock() = Some(Box::new(move || {
        other.rmdir(Ino::ROOT, b"directory", at(1)).unwrap();
    }));
    let made = store.create(directory, b"file", &new_inode(Kind::File), at(9));
    assert_eq!(kind_of(&made.unwrap_err()), "NotFound");
    assert_clean(&store);
}

/// Names are made in it before each commit, so who would conflict with them would never come to an end.
#[test]
fn a_directory_is_changed_while_others_make_names_in_it_all_the_time() {
    let (store, kv) = shared_volume();
    let parent = make(&store, Ino::ROOT, "parent", Kind::Directory);
    let directory = make(&store, parent, "directory", Kind::Directory);
    let changes: [(&str, &dyn Fn()); 5] = [
        ("chmod", &|| {
            let change = SetAttributes { mode: Some(0o700), ctime: Some(at(50)), ..SetAttributes::default() };
            let set = store.set_attributes(directory, &change).unwrap();
            assert_eq!(set.mode, 0o700);
        }),
        ("xattr", &|| store.set_xattr(directory, b"user.a", b"1", XattrMode::Any, at(50)).unwrap()),
        ("rename", &|| {
            store.rename(parent, b"directory", Ino::ROOT, b"moved", RenameFlags::default(), at(50)).unwrap();
        }),
        ("policy", &|| {
            store.set_policy(directory, &PolicyRecord::of("rs:2+1", Some(1)), at(50)).unwrap();
        }),
        ("utimens", &|| {
            let change = SetAttributes { mtime: Some(at(7)), ..SetAttributes::default() };
            store.set_attributes(directory, &change).unwrap();
        }),
    ];
    for (name, change) in changes {
        let before = kv.conflicts.load(Ordering::Relaxed);
        let other = Store::open(kv.clone(), &Env::system()).unwrap();
        // It takes its numbers now.
        make(&other, Ino::ROOT, &format!("numbers for {name}"), Kind::File);
        *kv.before_commit.lock() = Some(Box::new(move || {
            other.create(directory, name.as_bytes(), &new_inode(Kind::Directory), at(51)).unwrap();
        }));
        change();
        assert_eq!(kv.conflicts.load(Ordering::Relaxed), before, "{name}");
    }
    let attributes = store.attributes(directory).unwrap();
    assert_eq!((attributes.mode, attributes.nlink, attributes.parent), (0o700, 7, Ino::ROOT));
    assert_eq!((attributes.mtime, attributes.ctime), (at(7), at(51)));
    assert_clean(&store);
}

#[test]
fn a_policy_that_another_store_takes_is_not_removed() {
    let (store, kv) = shared_volume();
    let directory = make(&store, Ino::ROOT, "directory", Kind::Directory);
    let policy = |after_ms| PolicyRecord { later: Some(Later { code: "rs:2+1".into(), after_ms }), ..default_policy() };
    // All but the last are unused, and the table is full for users.
    for number in 1..1000 {
        store.set_policy(directory, &policy(number), at(5)).unwrap();
    }
    let other = Store::open(kv.clone(), &Env::system()).unwrap();
    let file = make(&other, Ino::ROOT, "file", Kind::File);
    let taken = Arc::new(Mutex::new(None));
    let takes = taken.clone();
    *kv.before_commit.lock() = Some(Box::new(move || {
        *takes.lock() = Some(other.set_policy_as(PolicyMaker::User, file, &policy(3), at(6)).unwrap());
    }));
    store.set_policy_as(PolicyMaker::User, directory, &policy(5000), at(7)).unwrap();
    assert_eq!(store.policies().unwrap().len(), 101, "900 go at once, and one comes");
    let taken = taken.lock().expect("taken");
    assert_eq!(store.policy(taken).unwrap(), policy(3));
    assert_eq!(store.attributes(file).unwrap().policy, taken);
    assert_clean(&store);
}

#[test]
fn a_create_tells_that_the_usage_record_is_missing() {
    let (store, kv) = volume();
    kv.commit(Batch { writes: vec![(Key::Usage.encode(), None)], ..Batch::default() }).unwrap();
    let error = store.create(Ino::ROOT, b"a", &new_inode(Kind::File), at(1)).unwrap_err();
    assert!(matches!(error, MetaError::Engine(KvError::Damaged { .. })), "{error}");
    crate::fsck::repair(&store, at(1), &mut |_| {}).unwrap();
    make(&store, Ino::ROOT, "a", Kind::File);
    assert_clean(&store);
}

/// Clocks differ: the latest name counts, and nobody conflicts for being late.
#[test]
fn a_name_that_comes_late_takes_no_time_back() {
    let (store, kv) = shared_volume();
    let directory = make(&store, Ino::ROOT, "directory", Kind::Directory);
    let other = Store::open(kv.clone(), &Env::system()).unwrap();
    store.create(directory, b"a", &new_inode(Kind::File), at(100)).unwrap();
    *kv.before_commit.lock() = Some(Box::new(move || {
        other.create(directory, b"c", &new_inode(Kind::File), at(102)).unwrap();
    }));
    store.create(directory, b"b", &new_inode(Kind::File), at(95)).unwrap();
    let attributes = store.attributes(directory).unwrap();
    assert_eq!((attributes.mtime, attributes.ctime), (at(102), at(102)));
    assert_eq!(kv.conflicts.load(Ordering::Relaxed), 0);
    assert_clean(&store);
}

/// Times that were set to later than now are what they are set to, and the next name sets them to now.
#[test]
fn a_time_in_the_future_does_not_stay() {
    let (store, _) = volume();
    let directory = make(&store, Ino::ROOT, "directory", Kind::Directory);
    let later = SetAttributes { mtime: Some(at(5000)), ..SetAttributes::default() };
    store.set_attributes(directory, &later).unwrap();
    store.create(directory, b"below", &new_inode(Kind::Directory), at(70)).unwrap();
    let attributes = store.attributes(directory).unwrap();
    assert_eq!((attributes.mtime, attributes.ctime, attributes.nlink), (at(70), at(70), 3));
    assert_clean(&store);
}

#[test]
fn pauses_grow_and_end() {
    assert_eq!(pause(1, u32::MAX), Duration::from_micros(50));
    assert_eq!(pause(2, u32::MAX), Duration::from_micros(100));
    assert_eq!(pause(ATTEMPTS, u32::MAX), Duration::from_millis(20));
    assert_eq!(pause(ATTEMPTS, 0), Duration::ZERO);
    assert!(pause(3, u32::MAX / 2) < Duration::from_micros(101));
}

#[test]
fn milliseconds_of_strange_times() {
    assert_eq!(milliseconds(Timestamp { seconds: 2, nanoseconds: 3_999_999 }), 2003);
    assert_eq!(milliseconds(at(-5)), 0);
    assert_eq!(milliseconds(at(i64::MAX)), u64::MAX);
}

/// Damage anywhere is an answer, never a panic: every value of a small volume is emptied, cut short, lengthened and
/// flipped.
#[test]
fn damaged_values_are_told_apart() {
    let small = || {
        let (store, kv) = volume();
        let file = make(&store, Ino::ROOT, "file", Kind::File);
        write(&store, file, 0, 100, 1);
        (store, kv, file)
    };
    let all = |kv: &StrictKv| -> Vec<Pair> { kv.snapshot().unwrap().scan(&[], &[u8::MAX], usize::MAX).unwrap() };
    for index in 0..all(&small().1).len() {
        for damage in 0..4 {
            let (store, kv, file) = small();
            let (key, mut value) = all(&kv).swap_remove(index);
            match damage {
                0 => value.clear(),
                1 => drop(value.pop()),
                2 => value.push(1),
                _ => value[0] ^= 0x80,
            }
            kv.commit(Batch { writes: vec![(key.clone(), Some(value))], ..Batch::default() }).unwrap();
            let report = crate::fsck::check(&store, &mut |_| {}).unwrap();
            assert!(!report.findings.is_empty(), "{}, damage {damage}", crate::keys::printable(&key));
            crate::fsck::repair(&store, at(1), &mut |_| {}).unwrap();
            drop(store.lookup(Ino::ROOT, b"file"));
            drop(store.read_directory(Ino::ROOT, 0, 10));
            drop(store.extents(file, 0..1000));
            drop(store.truncate(file, 50, at(1), at(1), None));
            drop(store.unlink(Ino::ROOT, b"file", at(1)));
            drop(store.reclaim(&[unused(file)], at(1)));
        }
    }
}

#[test]
fn finding_29_what_frees_room_is_told_to_the_engine_and_nothing_else() {
    let (store, kv) = volume();
    let directory = make(&store, Ino::ROOT, "directory", Kind::Directory);
    let file = make(&store, Ino::ROOT, "file", Kind::File);
    let kept = make(&store, Ino::ROOT, "kept", Kind::File);
    let segment = segment_id(1);
    write(&store, file, 0, 8000, 1);
    store.set_xattr(file, b"user.a", b"1", XattrMode::Any, at(1)).unwrap();
    store.set_keep_ms(1000).unwrap();
    store.unlink(Ino::ROOT, b"kept", at(2)).unwrap();
    kv.fill();
    let is_full = |error: MetaError| matches!(error, MetaError::Engine(KvError::Full { .. }));
    assert!(is_full(store.create(Ino::ROOT, b"new", &new_inode(Kind::File), at(3)).unwrap_err()));
    assert!(is_full(store.set_xattr(file, b"user.b", b"2", XattrMode::Any, at(3)).unwrap_err()));
    assert!(is_full(store.mark_damaged(segment).unwrap_err()));

    store.set_job("job", Some(b"what frees room goes on")).unwrap();
    store.set_keep_ms(0).unwrap();
    assert!(store.let_go(purged(2000, kept)).unwrap());
    store.remove_xattr(file, b"user.a", at(3)).unwrap();
    store.punch(file, 0..4096, at(3), at(3)).unwrap();
    store.truncate(file, 0, at(3), at(3), None).unwrap();
    store.rmdir(Ino::ROOT, b"directory", at(3)).unwrap();
    store.unlink(Ino::ROOT, b"file", at(3)).unwrap();
    for ino in [file, directory, kept] {
        assert_eq!(store.reclaim(&[unused(ino)], at(3)).unwrap(), 1);
    }
    let record = store.segment(segment).unwrap().expect("in the trash");
    store.drop_segment(dead(segment), &record, None).unwrap();
    assert_clean(&store);
}
