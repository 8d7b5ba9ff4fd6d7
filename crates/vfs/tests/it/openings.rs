//! Segments know the opening in which they were written, and metadata which of them nobody will commit any more.

use crate::support::{CALLER, RecordingKv, VOLUME, World, memory_nodes};
use std::sync::Arc;
use weft_env::Env;
use weft_format::records::{PolicyRecord, Timestamp, VolumeRecord};
use weft_format::{Ino, PolicyId};
use weft_meta::{MetaError, Store};
use weft_vfs::VfsError;

/// A volume of memory nodes that was opened once.
fn opened() -> World {
    let kv = Arc::new(RecordingKv::default());
    let record = VolumeRecord { volume: VOLUME, created_ms: 0, default_policy: PolicyId(0) };
    let store =
        Store::format(kv.clone(), &record, &PolicyRecord::of("rs:4+2", Some(1)), Timestamp::default(), &Env::system())
            .expect("made");
    let nodes = memory_nodes(6);
    for (id, record, _) in &nodes {
        store.add_node(*id, record).expect("added");
    }
    store.take_opening(11, 1).expect("opened");
    World::open(kv, nodes)
}

fn write(world: &World, name: &str, bytes: usize) -> Result<(), VfsError> {
    let (attributes, handle) = world.volume.create(&CALLER, Ino::ROOT, name.as_bytes(), 0o644, libc::O_RDWR)?;
    world.volume.write(handle, 0, &vec![7; bytes], false)?;
    let synced = world.volume.fsync(handle);
    world.volume.release(handle);
    world.volume.forget(attributes.ino, 1);
    synced
}

#[test]
fn finding_04_segments_bear_their_opening_and_what_is_settled_is_noted() {
    let world = opened();
    for name in ["a", "b", "c"] {
        write(&world, name, 100_000).expect("written");
    }
    let segments = world.volume.store().segments(None, 10).expect("read");
    assert!(segments.len() >= 3 && segments.iter().all(|(id, _)| id.opening() == 1), "{segments:?}");
    let last = segments.iter().map(|(id, _)| id.count()).max().expect("there are segments");
    world.volume.shut_down().expect("written");
    let openings = world.volume.store().openings().expect("read");
    let settled_below = openings.latest.expect("it was opened").settled_below;
    assert!(settled_below > last, "nothing is under way any more: {settled_below}");
}

#[test]
fn finding_05_a_mount_whose_metadata_is_older_than_what_nodes_know_changes_nothing_and_reads_on() {
    let world = opened();
    write(&world, "before", 100_000).expect("written");
    world.volume.check_opening().expect("it is the newest");
    // A copy of the metadata is opened elsewhere.
    let copy = Store::open(world.kv.after(world.kv.committed_count()), &Env::system()).expect("a copy");
    let latest = copy.openings().expect("read").latest.map(|latest| latest.opening);
    let newer = copy.take_opening(22, 2).expect("opened");
    let transfer = world.volume.transfer();
    world.runtime.block_on(async {
        let known = transfer.look_for_openings(latest).await;
        assert_eq!(transfer.publish_opening(newer, &known.held).await, None);
    });
    let refused = world.volume.check_opening();
    assert!(matches!(refused, Err(VfsError::Meta(MetaError::Superseded(_)))), "{refused:?}");
    let error = write(&world, "after", 100_000).expect_err("nothing is changed");
    assert_eq!(error.errno(), libc::EROFS);
    let before = world.volume.lookup(Ino::ROOT, b"before").expect("there");
    let handle = world.volume.open(before.ino, libc::O_RDONLY).expect("opened");
    assert_eq!(world.volume.read(handle, 0, 10).expect("read").to_vec(), [7; 10]);
}

/// Or they would take what a crash leaves for an older copy.
#[test]
fn nodes_hear_of_a_renewed_opening_when_it_is_durable() {
    let world = opened();
    let first = world.volume.store().openings().expect("read").latest.expect("it was opened").opening;
    let transfer = world.volume.transfer();
    world.runtime.block_on(async {
        let known = transfer.look_for_openings(Some(first)).await;
        assert_eq!(transfer.publish_opening(first, &known.held).await, None);
    });
    write(&world, "before", 100_000).expect("written");
    world.kv.refuse_flushes(true);
    let is_refused_by_nodes = || {
        let left = Store::open(world.kv.after(world.kv.flushed_count()), &Env::system()).expect("opened");
        let latest = left.openings().expect("read").latest.map(|latest| latest.opening);
        world.runtime.block_on(transfer.look_for_openings(latest)).newer.is_some()
    };
    // The first look commits the next opening, and the second one finds it.
    for look in 1..=2 {
        assert!(world.volume.check_opening().is_err(), "look {look}");
        assert_eq!(world.volume.store().openings().expect("read").number(), 2);
        assert!(!is_refused_by_nodes(), "look {look}");
    }
    world.kv.refuse_flushes(false);
    world.volume.check_opening().expect("it is the newest");
    assert!(!is_refused_by_nodes());
}

#[test]
fn a_copy_of_the_same_opening_is_soon_an_older_one_and_the_mount_goes_on() {
    let world = opened();
    write(&world, "before", 100_000).expect("written");
    let copy = Store::open(world.kv.after(world.kv.committed_count()), &Env::system()).expect("a copy");
    // The opening began in 1970, and something has changed.
    world.volume.check_opening().expect("it is the newest");
    let transfer = world.volume.transfer();
    let known_of = |store: &Store| {
        let latest = store.openings().expect("read").latest.map(|latest| latest.opening);
        world.runtime.block_on(transfer.look_for_openings(latest))
    };
    let newer = known_of(&copy).newer.expect("nodes know a newer opening");
    assert!(newer.refuses(None).contains("an older copy"), "{newer:?}");
    assert_eq!((newer.number, known_of(world.volume.store()).newer), (2, None));
    write(&world, "after", 100_000).expect("written");
    let segments = world.volume.store().segments(None, 10).expect("read");
    assert!(segments.len() >= 2 && segments.iter().all(|(id, _)| id.opening() == 1), "{segments:?}");
    // It was renewed a moment ago.
    world.volume.check_opening().expect("it is the newest");
    assert_eq!(world.volume.store().openings().expect("read").number(), 2);
}
