//! Compaction frees what overwriting and deleting left, and no file notices.

use crate::support::{CALLER, World};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use weft_format::removal::{Evidence, OWNER_GRACE_MS, Queued, Verdict, may_remove};
use weft_format::{Ino, ShardKey};
use weft_meta::MetaError;
use weft_nodes::wrappers::{Fault, FaultNode, Operation};
use weft_nodes::{Node, NodeErrorKind};
use weft_vfs::{AttributeChange, Compacted, Demand, Handle, VfsError, Volume};

/// Files by name, as they must read.
type Files = BTreeMap<String, Vec<u8>>;

fn open(volume: &Volume, name: &str) -> Handle {
    let found = volume.lookup(Ino::ROOT, name.as_bytes());
    match found {
        Ok(attributes) => volume.open(attributes.ino, 0).expect("opens"),
        Err(_) => volume.create(&CALLER, Ino::ROOT, name.as_bytes(), 0o644, libc::O_RDWR).expect("creates").1,
    }
}

fn unlink(volume: &Volume, name: &str) {
    let ino = volume.lookup(Ino::ROOT, name.as_bytes()).expect("is there").ino;
    volume.unlink(Ino::ROOT, name.as_bytes()).expect("unlinks");
    // However often it was looked up.
    volume.forget(ino, u64::MAX);
}

fn write(volume: &Volume, files: &mut Files, name: &str, offset: usize, data: &[u8]) {
    let handle = open(volume, name);
    volume.write(handle, offset as u64, data, false).expect("writes");
    volume.release(handle);
    let content = files.entry(name.into()).or_default();
    content.resize(content.len().max(offset + data.len()), 0);
    content[offset..offset + data.len()].copy_from_slice(data);
}

fn check(volume: &Volume, files: &Files) {
    for (name, content) in files {
        let handle = open(volume, name);
        let read = volume.read(handle, 0, 64 << 20).expect("reads");
        assert!(read[..] == content[..], "{name} differs");
        volume.release(handle);
    }
}

/// Segments full of many files, most of whose bytes are then overwritten or deleted, so that most segments are thin.
fn thin_volume(world: &World, random: &mut StdRng) -> Files {
    let volume = &world.volume;
    let mut files = Files::new();
    let piece = |random: &mut StdRng, bytes_max: usize| -> Vec<u8> {
        let (length, byte) = (random.random_range(1..bytes_max), random.random::<u8>());
        (0..length).map(|at| (at / 97) as u8 ^ byte).collect()
    };
    for _ in 0..4 {
        for number in 0..30 {
            write(volume, &mut files, &format!("f{number}"), random.random_range(0..50_000), &piece(random, 100_000));
        }
        volume.sync().expect("syncs");
    }
    for number in (0..30).filter(|number| number % 3 > 0) {
        let name = format!("f{number}");
        unlink(volume, &name);
        files.remove(&name);
    }
    // Overwritten in the middle, so that what lives lies in pieces.
    for number in (0..30).step_by(6) {
        write(volume, &mut files, &format!("f{number}"), random.random_range(0..40_000), &piece(random, 3_000));
    }
    volume.sync().expect("syncs");
    while !volume.store().orphans(1).expect("metadata can be read").is_empty() {
        // The background reclaims what was unlinked.
        std::thread::yield_now();
    }
    files
}

/// Data bytes of living segments, and how many of these are thin.
fn stored(volume: &Volume) -> (u64, usize) {
    let living = volume.store().segments_by_live(None, usize::MAX).expect("metadata can be read");
    let mut sums = (0, 0);
    for (segment, live_bytes) in living {
        let record = volume.store().segment(segment).expect("metadata can be read").expect("it lives");
        sums.0 += record.geometry.data_bytes;
        sums.1 += usize::from(live_bytes * 2 < record.geometry.data_bytes);
    }
    sums
}

fn compact(world: &World) -> Result<Compacted, VfsError> {
    // A volume learns what room there is within seconds; a test does not wait for it.
    world.runtime.block_on(world.volume.fleet().refresh_space());
    let (mut tried, mut sum) = (HashSet::new(), Compacted::default());
    loop {
        let round = world.volume.compact(Demand::Any, &mut tried)?;
        if round.chosen_count == 0 {
            return Ok(sum);
        }
        sum.chosen_count += round.chosen_count;
        sum.emptied_count += round.emptied_count;
        sum.merged_count += round.merged_count;
        sum.moved_bytes += round.moved_bytes;
        sum.freed_bytes += round.freed_bytes;
    }
}

/// What the collector does when the time in the trash is over.
fn empty_trash(world: &World) {
    let store = world.volume.store();
    for entry in store.unreferenced(None, usize::MAX).expect("metadata can be read") {
        let verdict = may_remove(entry.candidate(0), Evidence::Owner { seen_ms: OWNER_GRACE_MS });
        let (Queued::Segment { segment, .. }, Verdict::Remove(dead)) = (entry, verdict) else { panic!("{verdict:?}") };
        let record = store.segment(segment).expect("metadata can be read").expect("it waits in the trash");
        let own = |key: ShardKey| Ok::<_, MetaError>(key.segment);
        let shards = dead.shards(&record, None, own).expect("all its own");
        world.runtime.block_on(world.volume.transfer().remove(shards));
        store.drop_segment(dead, &record, None).expect("nobody needs it");
    }
}

/// The world anew, with the first node under `fault`'s command.
fn reopen_with_fault(world: &World) -> (World, Arc<FaultNode>) {
    let mut nodes = world.nodes.clone();
    let faulty = Arc::new(FaultNode::new(nodes[0].2.clone(), "n1", Box::new(|_| Fault::None)));
    nodes[0].2 = faulty.clone() as Arc<dyn Node>;
    (World::open(world.kv.clone(), nodes), faulty)
}

#[test]
fn thin_segments_shrink_and_files_stay() {
    for (seed, code) in ["rs:4+2", "raid5:4", "raid6:6", "replica:3"].into_iter().enumerate() {
        println!("seed {seed}");
        let mut random = StdRng::seed_from_u64(seed as u64);
        let world = World::new(code, 6);
        let volume = &world.volume;
        let mut files = thin_volume(&world, &mut random);
        // Open since before, so that where their bytes lay is remembered.
        let opened: Vec<_> = files.iter().map(|(name, content)| (open(volume, name), content.clone())).collect();
        check(volume, &files);
        let (before_bytes, before_thin) = stored(volume);
        let live_bytes = volume.store().statistics().expect("metadata can be read").live_bytes;
        assert!(before_thin > 0, "the test makes thin segments");
        assert_eq!(volume.compact(Demand::Worthwhile, &mut HashSet::new()).expect("looks"), Compacted::default());

        let compacted = compact(&world).expect("compacts");
        assert_eq!((compacted.chosen_count, compacted.emptied_count), (before_thin as u64, before_thin as u64));
        assert!(compacted.moved_bytes > 0 && compacted.freed_bytes > compacted.moved_bytes, "{compacted:?}");
        let (after_bytes, after_thin) = stored(volume);
        assert_eq!(after_thin, 0);
        assert!(after_bytes < before_bytes, "{after_bytes} of {before_bytes} bytes");
        assert_eq!(volume.store().statistics().expect("metadata can be read").live_bytes, live_bytes);
        world.fsck();
        empty_trash(&world);
        world.fsck();
        check(volume, &files);
        for (handle, content) in opened {
            assert!(volume.read(handle, 0, 64 << 20).expect("reads")[..] == content[..], "what was open differs");
            volume.release(handle);
        }
        for round in 0..3 {
            let name = format!("f{}", round * 3);
            write(volume, &mut files, &name, 1000, b"written afterwards");
        }
        volume.shut_down().expect("shuts down");
        let again = World::open(world.kv.clone(), world.nodes.clone());
        check(&again.volume, &files);
        again.fsck();
    }
}

#[test]
fn a_crash_at_any_commit_loses_nothing() {
    let mut random = StdRng::seed_from_u64(1);
    let world = World::new("rs:4+2", 6);
    let files = thin_volume(&world, &mut random);
    let before = world.kv.committed_count();
    let compacted = compact(&world).expect("compacts");
    assert!(compacted.emptied_count > 0);
    let after = world.kv.committed_count();
    assert!(after > before);
    for crash_at in before..=after {
        println!("a crash after {crash_at} commits of {before}..={after}");
        let again = World::open(world.kv.after(crash_at), world.nodes.clone());
        check(&again.volume, &files);
        again.fsck();
        // What the crash left half done can be done again.
        compact(&again).expect("compacts");
        check(&again.volume, &files);
        again.fsck();
        assert_eq!(stored(&again.volume).1, 0);
    }
}

/// Bytes are cut, punched, deleted and synced anew exactly between the copying of the old ones and the move.
#[test]
fn what_changes_meanwhile_stays_changed() {
    let mut random = StdRng::seed_from_u64(2);
    let first = World::new("rs:4+2", 6);
    let mut files = thin_volume(&first, &mut random);
    let (world, faulty) = reopen_with_fault(&first);
    let volume = &world.volume;
    let (reached, copied) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel::<()>();
    let mut once = Some((reached, may_go_on));
    faulty.set_script(Box::new(move |call| {
        if call.operation == Operation::Put
            && let Some((reached, may_go_on)) = once.take()
        {
            reached.send(()).expect("the test waits");
            may_go_on.recv().expect("the test goes on");
        }
        Fault::None
    }));
    std::thread::scope(|scope| {
        let compacting = scope.spawn(|| compact(&world).expect("compacts"));
        copied.recv().expect("compaction writes a segment");
        let names: Vec<String> = files.keys().cloned().collect();
        for (name, change) in names.iter().zip([0, 1, 2, 3, 4].into_iter().cycle()) {
            let handle = open(volume, name);
            let ino = volume.lookup(Ino::ROOT, name.as_bytes()).expect("is there").ino;
            let content = files.get_mut(name).expect("known");
            match change {
                0 => {
                    let change = AttributeChange { size: Some(1000), ..AttributeChange::default() };
                    volume.set_attributes(ino, &change).expect("truncates");
                    content.resize(1000, 0);
                }
                1 => {
                    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
                    volume.allocate(handle, 500, 20_000, mode, false).expect("punches");
                    let end = content.len().min(20_500);
                    content[500.min(end)..end].fill(0);
                }
                2 => {
                    unlink(volume, name);
                    files.remove(name);
                }
                3 => {
                    // Little enough for the journal: it asks no node.
                    volume.write(handle, 3, b"new", false).expect("writes");
                    volume.fsync(handle).expect("syncs");
                    content[3..6].copy_from_slice(b"new");
                }
                _ => {}
            }
            volume.release(handle);
        }
        go_on.send(()).expect("compaction waits");
        compacting.join().expect("compaction ends");
    });
    check(volume, &files);
    world.fsck();
    volume.shut_down().expect("shuts down");
    world.fsck();
    let again = World::open(world.kv.clone(), first.nodes.clone());
    check(&again.volume, &files);
}

#[test]
fn writers_and_readers_go_on_meanwhile() {
    let mut random = StdRng::seed_from_u64(3);
    let world = World::new("rs:4+2", 6);
    let mut files = thin_volume(&world, &mut random);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let compacting = scope.spawn(|| {
            for _ in 0..10 {
                compact(&world).expect("compacts");
            }
            done.store(true, Ordering::Release);
        });
        let mut step = 0;
        // Compaction gives way to users: it ends when these do, at the latest.
        while step < 200 || (!done.load(Ordering::Acquire) && step < 1000) {
            step += 1;
            let name = format!("f{}", random.random_range(0..10) * 3);
            let data = vec![step as u8; random.random_range(1..30_000)];
            write(&world.volume, &mut files, &name, random.random_range(0..100_000), &data);
            if step % 10 == 0 {
                world.volume.sync().expect("syncs");
            }
            check(&world.volume, &BTreeMap::from([(name.clone(), files[&name].clone())]));
        }
        compacting.join().expect("compaction ends");
    });
    world.volume.sync().expect("syncs");
    check(&world.volume, &files);
    world.fsck();
}

#[test]
fn nothing_is_moved_to_where_it_would_be_less_safe() {
    let mut random = StdRng::seed_from_u64(4);
    let first = World::new("rs:4+2", 6);
    let files = thin_volume(&first, &mut random);
    let (world, faulty) = reopen_with_fault(&first);
    let before = stored(&world.volume);
    faulty.set_script(Box::new(|call| match call.operation {
        Operation::Put => Fault::Fail(NodeErrorKind::Io),
        _ => Fault::None,
    }));
    let refused = compact(&world).expect_err("a shard has no place");
    assert!(matches!(refused, VfsError::ShortCopy { missing_count: 1 }), "{refused}");
    assert_eq!(stored(&world.volume), before);
    check(&world.volume, &files);
    faulty.set_script(Box::new(|_| Fault::None));
    compact(&world).expect("compacts");
    assert_eq!(stored(&world.volume).1, 0);
    check(&world.volume, &files);
    world.fsck();
}

/// Shards of living segments on all nodes.
fn shard_count(volume: &Volume) -> usize {
    let living = volume.store().segments_by_live(None, usize::MAX).expect("metadata can be read");
    let record = |(segment, _)| volume.store().segment(segment).expect("metadata can be read").expect("it lives");
    living.into_iter().map(|entry| record(entry).shards.len()).sum()
}

#[test]
fn files_that_trickle_in_do_not_stay_a_segment_each() {
    let world = World::new("rs:4+2", 6);
    let volume = &world.volume;
    let mut files = Files::new();
    for number in 0..200 {
        write(volume, &mut files, &format!("mail{number}"), 0, &vec![number as u8; 3000 + number * 10]);
        volume.sync().expect("syncs");
    }
    assert_eq!(shard_count(volume), 200 * 6);
    let opened: Vec<_> = files.iter().map(|(name, content)| (open(volume, name), content.clone())).collect();
    world.runtime.block_on(volume.fleet().refresh_space());
    // As a volume does by itself, until it finds nothing to do.
    let mut moved_bytes = 0;
    for _ in 0..10 {
        let compacted = volume.compact(Demand::Worthwhile, &mut HashSet::new()).expect("compacts");
        assert_eq!((compacted.emptied_count, compacted.merged_count), (compacted.chosen_count, compacted.chosen_count));
        moved_bytes += compacted.moved_bytes;
    }
    let data_bytes: u64 = files.values().map(|content| content.len() as u64).sum();
    assert!(moved_bytes <= 2 * data_bytes, "{moved_bytes} bytes moved of {data_bytes}");
    assert!(shard_count(volume) <= 2 * 6, "{} shards", shard_count(volume));
    world.fsck();
    empty_trash(&world);
    check(volume, &files);
    for (handle, content) in opened {
        assert!(volume.read(handle, 0, 64 << 20).expect("reads")[..] == content[..], "what was open differs");
        volume.release(handle);
    }
    // More files come: merged segments are not merged again with every few of them.
    for number in 0..15 {
        write(volume, &mut files, &format!("later{number}"), 0, &[number as u8; 3000]);
        volume.sync().expect("syncs");
    }
    let compacted = volume.compact(Demand::Worthwhile, &mut HashSet::new()).expect("looks");
    assert_eq!(compacted, Compacted::default());
    check(volume, &files);
    world.fsck();
}
