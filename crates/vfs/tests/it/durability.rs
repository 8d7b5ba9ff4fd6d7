//! What an fsync that returned has promised, whatever else went on, and what is said of nodes that fail.

use crate::support::{CALLER, World};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use weft_format::Ino;
use weft_meta::{RenameFlags, XattrMode};
use weft_nodes::wrappers::Operation;
use weft_nodes::wrappers::fault::{Call, Fault, FaultNode};
use weft_nodes::{Node, NodeErrorKind};
use weft_vfs::{AttributeChange, Handle, Settings, Volume};

/// What is in the only file after a crash that keeps what is flushed by now.
fn after_crash(world: &World, ino: Ino) -> Vec<u8> {
    let again = World::open(world.kv.after(world.kv.flushed_count()), world.nodes.clone());
    let handle = again.volume.open(ino, 0).expect("opens");
    let bytes = again.volume.read(handle, 0, 64 << 20).expect("reads").to_vec();
    again.volume.release(handle);
    bytes
}

fn truncate(volume: &Volume, ino: Ino, size: u64) {
    volume.set_attributes(ino, &AttributeChange { size: Some(size), ..AttributeChange::default() }).expect("truncates");
}

/// A volume whose nodes do what `fault` says of each put.
fn world_with(fault: impl Fn(&Call) -> Fault + Clone + Send + 'static) -> World {
    let plain = World::new("rs:4+2", 6);
    plain.volume.shut_down().expect("shuts down");
    let nodes = plain.nodes.iter().map(|(id, record, node)| {
        let fault = fault.clone();
        let script = move |call: &Call| if call.operation == Operation::Put { fault(call) } else { Fault::None };
        (*id, record.clone(), Arc::new(FaultNode::new(node.clone(), &record.name, Box::new(script))) as _)
    });
    World::open(plain.kv.clone(), nodes.collect())
}

#[test]
fn bytes_below_a_truncation_are_synced() {
    let world = World::new("rs:4+2", 6);
    let (attributes, handle) = world.volume.create(&CALLER, Ino::ROOT, b"file", 0o644, libc::O_RDWR).expect("creates");
    world.volume.write(handle, 0, &[1; 1000], false).expect("writes");
    world.volume.sync().expect("syncs");
    world.volume.write(handle, 0, &[2; 100], false).expect("writes");
    truncate(&world.volume, attributes.ino, 500);
    world.volume.fsync(handle).expect("syncs");
    let expected: Vec<u8> = [vec![2; 100], vec![1; 400]].concat();
    assert!(after_crash(&world, attributes.ino) == expected);
}

/// An fsync waits for a segment; the bytes written after it grow old meanwhile and set off.
#[test]
fn bytes_that_are_staged_during_an_fsync_are_synced() {
    let first = Arc::new(OnceLock::new());
    let world = world_with(move |call| {
        let segment = call.key.expect("a put has a key").segment;
        Fault::Delay(Duration::from_millis(if *first.get_or_init(|| segment) == segment { 1500 } else { 3000 }))
    });
    let (attributes, handle) = world.volume.create(&CALLER, Ino::ROOT, b"file", 0o644, libc::O_RDWR).expect("creates");
    let data: Vec<u8> = (0..(8 << 20) + 1000).map(|i| (i % 251) as u8 + 1).collect();
    world.volume.write(handle, 0, &data[..8 << 20], false).expect("writes");
    world.volume.write(handle, 8 << 20, &data[8 << 20..], false).expect("writes");
    world.volume.fsync(handle).expect("syncs");
    assert!(after_crash(&world, attributes.ino) == data);
}

#[test]
fn what_the_journal_holds_is_no_failure() {
    let is_away = Arc::new(AtomicBool::new(true));
    let world = world_with({
        let is_away = is_away.clone();
        move |_| if is_away.load(Ordering::SeqCst) { Fault::Fail(NodeErrorKind::Unavailable) } else { Fault::None }
    });
    let volume = &world.volume;
    let (attributes, handle) = volume.create(&CALLER, Ino::ROOT, b"file", 0o644, libc::O_RDWR).expect("creates");
    volume.write(handle, 0, b"small", false).expect("writes");
    volume.fsync(handle).expect("the journal needs no node");
    volume.sync().expect("it is durable all the same");
    volume.flush(handle).expect("nothing was lost");
    assert_eq!(after_crash(&world, attributes.ino), b"small");

    volume.write(handle, 0, &[1; 100_000], false).expect("writes");
    assert!(volume.fsync(handle).is_err(), "no node takes them");
    is_away.store(false, Ordering::SeqCst);
    volume.fsync(handle).expect("the nodes are back");
    assert!(after_crash(&world, attributes.ino) == vec![1; 100_000]);
}

/// After each commit from `first` on that a crash may leave last, what is in the only file.
fn after_every_crash(world: &World, first: usize, ino: Ino) -> Vec<Vec<u8>> {
    let crash = |count| {
        let again = World::open(world.kv.after(count), world.nodes.clone());
        let handle = again.volume.open(ino, 0).expect("opens");
        let bytes = again.volume.read(handle, 0, 64 << 20).expect("reads").to_vec();
        again.volume.release(handle);
        bytes
    };
    (first..=world.kv.committed_count()).map(crash).collect()
}

/// What an fsync put into the journal sets off to nodes, and is overwritten in part while it is on its way.
#[test]
fn finding_01_bytes_that_were_synced_outlast_their_overwriting_on_the_way() {
    let (volume, is_first) = (Arc::new(OnceLock::<(Arc<Volume>, Handle)>::new()), Arc::new(AtomicBool::new(true)));
    let world = world_with({
        let volume = volume.clone();
        move |_| {
            if let Some((volume, handle)) = volume.get()
                && is_first.swap(false, Ordering::SeqCst)
            {
                volume.write(*handle, 1000, &[2; 5000], false).expect("writes");
            }
            Fault::None
        }
    });
    let (attributes, handle) = world.volume.create(&CALLER, Ino::ROOT, b"file", 0o644, libc::O_RDWR).expect("creates");
    world.volume.write(handle, 0, &[1; 20_000], false).expect("writes");
    world.volume.fsync(handle).expect("syncs");
    let synced = world.kv.flushed_count();
    assert!(volume.set((world.volume.clone(), handle)).is_ok());
    world.volume.sync().expect("syncs");
    let newest: Vec<u8> = [vec![1; 1000], vec![2; 5000], vec![1; 14_000]].concat();
    let crashes = after_every_crash(&world, synced, attributes.ino);
    assert!(crashes.iter().all(|bytes| *bytes == [1; 20_000] || *bytes == newest), "synced bytes are gone");
    assert!(*crashes.last().expect("there is one") == newest);
}

/// The first segment of a file finds no room and the second does; room is made, and the volume ends.
#[test]
fn finding_08_a_file_never_has_an_end_without_its_beginning() {
    let (is_full, first) = (Arc::new(AtomicBool::new(true)), Arc::new(OnceLock::new()));
    let world = world_with({
        let is_full = is_full.clone();
        move |call| {
            let segment = call.key.expect("a put has a key").segment;
            let is_refused = *first.get_or_init(|| segment) == segment && is_full.load(Ordering::SeqCst);
            if is_refused { Fault::Fail(NodeErrorKind::Full) } else { Fault::None }
        }
    });
    let (attributes, handle) = world.volume.create(&CALLER, Ino::ROOT, b"file", 0o644, libc::O_RDWR).expect("creates");
    let data: Vec<u8> = (0..20u32 << 20).map(|i| (i % 251) as u8 + 1).collect();
    let begun = world.kv.committed_count();
    for (i, piece) in data.chunks(1 << 20).enumerate() {
        world.volume.write(handle, (i << 20) as u64, piece, false).expect("writes");
    }
    let error = world.volume.fsync(handle).expect_err("the first segment finds no room");
    assert_eq!(error.errno(), libc::ENOSPC);
    is_full.store(false, Ordering::SeqCst);
    // Once more it may tell of an attempt that began before.
    if world.volume.fsync(handle).is_err() {
        world.volume.fsync(handle).expect("there is room again");
    }
    for bytes in after_every_crash(&world, begun, attributes.ino) {
        assert!(data.starts_with(&bytes), "{} bytes, and not the first ones", bytes.len());
    }
    assert!(after_crash(&world, attributes.ino) == data);
}

#[test]
fn finding_08_a_volume_that_ends_says_what_it_could_not_write() {
    let world = world_with(|_| Fault::Fail(NodeErrorKind::Full));
    let (_, handle) = world.volume.create(&CALLER, Ino::ROOT, b"large", 0o644, libc::O_RDWR).expect("creates");
    let (small, small_handle) =
        world.volume.create(&CALLER, Ino::ROOT, b"small", 0o644, libc::O_RDWR).expect("creates");
    world.volume.write(handle, 0, &[1; 100_000], false).expect("writes");
    world.volume.write(small_handle, 0, &[2; 1000], false).expect("writes");
    let said = world.volume.shut_down().expect_err("no node takes it").to_string();
    assert!(said.starts_with("100000 bytes of 1 files could not be written and are lost: "), "{said}");
    // What is small enough outlasts it in the journal.
    assert_eq!(after_crash(&world, small.ino), [2; 1000]);
}

#[test]
fn finding_08_who_closes_is_told_that_there_are_too_few_domains() {
    let mut nodes = crate::support::memory_nodes(6);
    nodes.iter_mut().for_each(|(_, record, _)| record.domain = "one".into());
    let world = World::open(World::new("rs:4+2", 6).kv, nodes);
    let (small, handle) = world.volume.create(&CALLER, Ino::ROOT, b"small", 0o644, libc::O_RDWR).expect("creates");
    world.volume.write(handle, 0, &[2; 1000], false).expect("writes");
    world.volume.flush(handle).expect("the journal takes it");
    assert_eq!(after_crash_of_all(&world, small.ino), [2; 1000]);
    let (_, handle) = world.volume.create(&CALLER, Ino::ROOT, b"large", 0o644, libc::O_RDWR).expect("creates");
    world.volume.write(handle, 0, &[1; 100_000], false).expect("writes");
    world.volume.flush(handle).expect_err("there are no places for it");
    world.volume.shut_down().expect_err("it is lost");
}

/// Whatever is written, cut, punched, synced and refused by nodes, a crash at any moment leaves of each byte what it was at the last
/// fsync that returned 0 or at some moment since.
#[test]
fn finding_01_a_crash_at_any_moment_leaves_what_was_there_since_the_last_fsync() {
    for seed in 0..6 {
        println!("seed {seed}");
        let mut random = StdRng::seed_from_u64(seed);
        let world = world_with(|call| {
            // Whole segments are refused, a third of them.
            let segment = call.key.expect("a put has a key").segment;
            if segment.0 % 3 == 0 { Fault::Fail(NodeErrorKind::Full) } else { Fault::None }
        });
        let (attributes, handle) =
            world.volume.create(&CALLER, Ino::ROOT, b"file", 0o644, libc::O_RDWR).expect("creates");
        // As programs saw the file; and how many commits were durable when an fsync of it returned.
        let mut seen: Vec<Vec<u8>> = vec![Vec::new()];
        let mut synced = vec![(world.kv.committed_count(), 0)];
        for _ in 0..80 {
            let mut now = seen.last().expect("there is one").clone();
            let (offset, length) = (random.random_range(0..30_000usize), random.random_range(1..6000usize));
            match random.random_range(0..10) {
                0..=3 => {
                    let byte = random.random_range(1..=255);
                    world.volume.write(handle, offset as u64, &vec![byte; length], false).expect("writes");
                    now.resize(now.len().max(offset + length), 0);
                    now[offset..offset + length].fill(byte);
                }
                4 => {
                    truncate(&world.volume, attributes.ino, offset as u64);
                    now.resize(offset, 0);
                }
                5 => {
                    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
                    world.volume.allocate(handle, offset as u64, length as u64, mode, false).expect("punches");
                    let end = now.len().min(offset + length);
                    now[offset.min(end)..end].fill(0);
                }
                6..=7 => {
                    // Whether it succeeds is not asked.
                    let _ = world.volume.sync();
                }
                _ if world.volume.fsync(handle).is_ok() => synced.push((world.kv.flushed_count(), seen.len())),
                _ => {}
            }
            assert!(world.volume.read(handle, 0, 64 << 10).expect("reads") == now);
            seen.push(now);
        }
        for _ in 0..12 {
            let count = random.random_range(synced[0].0..=world.kv.committed_count());
            let (_, first) = synced.iter().rfind(|(durable, _)| *durable <= count).expect("the first one is");
            let again = World::open(world.kv.after(count), world.nodes.clone());
            let handle = again.volume.open(attributes.ino, 0).expect("opens");
            let found = again.volume.read(handle, 0, 64 << 10).expect("reads");
            // What was there just before the fsync is what it made durable.
            let since = &seen[first.saturating_sub(1)..];
            let was_there = |at: usize| since.iter().any(|bytes| bytes.get(at) == Some(&found[at]));
            let wrong = (0..found.len()).find(|at| !was_there(*at));
            assert_eq!(wrong, None, "of {} bytes after {count} commits", found.len());
            assert!(since.iter().map(Vec::len).min() <= Some(found.len()), "{} bytes are too few", found.len());
        }
        world.fsck();
    }
}

/// What is in a file after a crash that keeps every commit.
fn after_crash_of_all(world: &World, ino: Ino) -> Vec<u8> {
    after_every_crash(world, world.kv.committed_count(), ino).remove(0)
}

/// A metadata disk without room refuses attempt after attempt; none leaves its shards behind.
#[test]
fn finding_08_what_metadata_refuses_leaves_nothing_on_the_nodes() {
    let world = World::new("rs:4+2", 6);
    let shard_count = || -> usize {
        let list =
            |node: &Arc<dyn Node>| world.runtime.block_on(node.list(None, usize::MAX)).expect("lists").keys.len();
        world.nodes.iter().map(|(_, _, node)| list(node)).sum()
    };
    let (attributes, handle) = world.volume.create(&CALLER, Ino::ROOT, b"file", 0o644, libc::O_RDWR).expect("creates");
    world.volume.write(handle, 0, &[1; 100_000], false).expect("writes");
    world.kv.refuse_commits_of(Some("weft-commit"));
    let error = world.volume.fsync(handle).expect_err("metadata has no room");
    assert_eq!(error.errno(), libc::ENOSPC);
    let began = Instant::now();
    while shard_count() > 0 {
        assert!(began.elapsed() < Duration::from_secs(60), "{} shards are left", shard_count());
        std::thread::sleep(Duration::from_millis(5));
    }
    world.kv.refuse_commits_of(None);
    world.volume.fsync(handle).expect("syncs");
    assert!(after_crash(&world, attributes.ino) == vec![1; 100_000]);
}

/// An fsync of many small pieces is several transactions. One that fails midway has left pages in the journal, which must not come
/// over bytes that are written and synced later.
#[test]
fn what_a_failed_fsync_left_in_the_journal_covers_nothing_newer() {
    const PIECES: u64 = 500;
    let world = World::new("rs:4+2", 6);
    let (attributes, handle) = world.volume.create(&CALLER, Ino::ROOT, b"file", 0o644, libc::O_RDWR).expect("creates");
    for piece in 0..PIECES {
        world.volume.write(handle, piece * 4096, b"former", false).expect("writes");
    }
    world.kv.refuse_commits_after("program", 1);
    let fsync = || world.volume.fsync(handle).expect_err("metadata has no room");
    let error = std::thread::scope(|scope| {
        let program = std::thread::Builder::new().name("program".into()).spawn_scoped(scope, fsync);
        program.expect("it starts").join().expect("it ends")
    });
    assert_eq!(error.errno(), libc::ENOSPC);
    world.kv.refuse_commits_of(None);
    let newer = vec![b'n'; PIECES as usize * 4096];
    world.volume.write(handle, 0, &newer, false).expect("writes");
    world.volume.fsync(handle).expect("syncs");
    assert!(after_crash(&world, attributes.ino) == newer);
}

/// A descriptor's ctime says when the file changed last, while its bytes wait, when they are stored, and afterwards.
#[test]
fn the_time_of_a_changed_attribute_stays_when_bytes_are_stored_that_were_written_before() {
    let world = World::new("rs:4+2", 6);
    let volume = &world.volume;
    let (attributes, handle) = volume.create(&CALLER, Ino::ROOT, b"file", 0o644, libc::O_RDWR).expect("creates");
    let ctime = || volume.attributes(attributes.ino).expect("it is there").ctime;
    let syncs_with = |change: &dyn Fn()| {
        volume.write(handle, 0, b"bytes", false).expect("writes");
        let written = ctime();
        change();
        let changed = ctime();
        assert!(changed > written);
        volume.fsync(handle).expect("syncs");
        assert_eq!(ctime(), changed);
    };
    syncs_with(&|| volume.set_xattr(&CALLER, attributes.ino, b"user.a", b"b", XattrMode::Any).expect("sets"));
    syncs_with(&|| volume.remove_xattr(attributes.ino, b"user.a").expect("removes"));
    let (_, other) = volume.create(&CALLER, Ino::ROOT, b"other", 0o644, libc::O_RDWR).expect("creates");
    let exchange = RenameFlags { exchange: true, ..RenameFlags::default() };
    syncs_with(&|| volume.rename(Ino::ROOT, b"other", Ino::ROOT, b"file", exchange).expect("renames"));
    volume.release(other);
}

/// Nodes are away, and a program writes single bytes, each apart from the others: most of the memory they take is not theirs.
#[test]
fn small_pieces_that_no_node_takes_fill_no_more_memory_than_large_ones() {
    let world = world_with(|_| Fault::Fail(NodeErrorKind::Unavailable));
    world.volume.shut_down().expect("shuts down");
    let settings = Settings { dirty_bytes: 16 << 20, ..Settings::default() };
    let world = World::open_with(world.kv.clone(), world.nodes.clone(), settings);
    let (_, handle) = world.volume.create(&CALLER, Ino::ROOT, b"file", 0o644, libc::O_RDWR).expect("creates");
    let taken = (0..2_000_000).take_while(|piece| world.volume.write(handle, piece * 2, b"x", false).is_ok()).count();
    // 16 MiB, at some 256 bytes each.
    assert!(taken < 75_000, "{taken} pieces were taken");
}

#[test]
fn finding_33_a_panic_of_a_commit_leaves_nobody_waiting() {
    let world = World::new("rs:4+2", 6);
    let (attributes, handle) = world.volume.create(&CALLER, Ino::ROOT, b"file", 0o644, libc::O_RDWR).expect("creates");
    world.volume.write(handle, 0, &[1; 100_000], false).expect("writes");
    world.kv.panic_at_next_commit_of("weft-commit");
    world.volume.fsync(handle).expect_err("its commit panicked");
    // The bytes are kept.
    world.volume.fsync(handle).expect("syncs");
    assert!(after_crash(&world, attributes.ino) == vec![1; 100_000]);
}

#[test]
fn finding_33_every_descriptor_is_told_that_a_write_failed() {
    let is_away = Arc::new(AtomicBool::new(true));
    let world = world_with({
        let is_away = is_away.clone();
        move |_| if is_away.load(Ordering::SeqCst) { Fault::Fail(NodeErrorKind::Unavailable) } else { Fault::None }
    });
    let volume = &world.volume;
    let (attributes, one) = volume.create(&CALLER, Ino::ROOT, b"file", 0o644, libc::O_RDWR).expect("creates");
    let other = volume.open(attributes.ino, 0).expect("opens");
    volume.write(one, 0, &[1; 100_000], false).expect("writes");
    volume.fsync(one).expect_err("no node takes them");
    is_away.store(false, Ordering::SeqCst);
    volume.fsync(one).expect("it was told");
    volume.fsync(other).expect_err("the other descriptor was not");
    volume.fsync(other).expect("now it was");
}

/// After every fsync a crash leaves the very file, whatever was written, cut and punched before it.
#[test]
fn an_fsync_makes_the_whole_file_durable() {
    for seed in 0..8 {
        println!("seed {seed}");
        let mut random = StdRng::seed_from_u64(seed);
        let world = World::new("rs:2+1", 3);
        let (attributes, handle) =
            world.volume.create(&CALLER, Ino::ROOT, b"file", 0o644, libc::O_RDWR).expect("creates");
        let mut model: Vec<u8> = Vec::new();
        for _ in 0..120 {
            let (offset, length) = (random.random_range(0..60_000usize), random.random_range(1..6000usize));
            match random.random_range(0..10) {
                0..=3 => {
                    let byte = random.random();
                    world.volume.write(handle, offset as u64, &vec![byte; length], false).expect("writes");
                    model.resize(model.len().max(offset + length), 0);
                    model[offset..offset + length].fill(byte);
                }
                4 => {
                    truncate(&world.volume, attributes.ino, offset as u64);
                    model.resize(offset, 0);
                }
                5 => {
                    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
                    world.volume.allocate(handle, offset as u64, length as u64, mode, false).expect("punches");
                    let end = model.len().min(offset + length);
                    model[offset.min(end)..end].fill(0);
                }
                6 => world.volume.sync().expect("syncs"),
                _ => {
                    world.volume.fsync(handle).expect("syncs");
                    assert!(after_crash(&world, attributes.ino) == model);
                }
            }
        }
        world.fsck();
    }
}
