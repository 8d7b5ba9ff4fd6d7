//! Segments that are merged: files look elsewhere for their bytes from one moment on, and notice nothing.

use crate::support::{CALLER, World};
use std::collections::BTreeMap;
use weft_format::records::SegmentRecord;
use weft_format::{Ino, SegmentId};
use weft_meta::MetaError;
use weft_vfs::merge::may_merge;
use weft_vfs::{VfsError, Volume};

const FILE_BYTES: usize = 700_000;

fn content(number: usize) -> Vec<u8> {
    (0..FILE_BYTES).map(|at| (at * 31 / 7 + number * 5) as u8).collect()
}

fn write(volume: &Volume, name: &str, offset: u64, data: &[u8]) {
    let found = volume.lookup(Ino::ROOT, name.as_bytes()).ok().map(|found| volume.open(found.ino, 0).expect("opens"));
    let make = || volume.create(&CALLER, Ino::ROOT, name.as_bytes(), 0o644, libc::O_RDWR).expect("creates").1;
    let handle = found.unwrap_or_else(make);
    volume.write(handle, offset, data, false).expect("writes");
    volume.release(handle);
    volume.sync().expect("syncs");
}

fn read(volume: &Volume, name: &str) -> Vec<u8> {
    let ino = volume.lookup(Ino::ROOT, name.as_bytes()).expect("is there").ino;
    let handle = volume.open(ino, 0).expect("opens");
    let bytes = volume.read(handle, 0, 8 << 20).expect("reads").to_vec();
    volume.release(handle);
    bytes
}

type Segments = Vec<(SegmentId, SegmentRecord)>;

/// A volume of files that have a segment each, four of which are stored as one, too.
fn prepared() -> (World, Segments, (SegmentId, SegmentRecord)) {
    let world = World::new("replica:3", 9);
    let volume = &world.volume;
    for number in 0..8 {
        write(volume, &format!("f{number}"), 0, &content(number));
    }
    let (transfer, mut candidates) = (volume.transfer(), volume.transfer().merge_candidates());
    let living = volume.store().segments_by_live(None, usize::MAX).expect("metadata can be read");
    let records: BTreeMap<SegmentId, SegmentRecord> = living
        .iter()
        .map(|(segment, _)| (*segment, volume.store().segment(*segment).expect("metadata").expect("it lives")))
        .collect();
    let offered = records.iter().flat_map(|(segment, record)| candidates.offer(*segment, record.clone(), "rs:4+2"));
    let group = offered.into_iter().find(|group| group.len() == 4).expect("four of eight");
    let sources: Vec<_> = group.iter().map(|segment| (*segment, records[segment].clone())).collect();
    let merged = SegmentId::new(group[0].created_ms(), 99);
    let recoded = world.runtime.block_on(transfer.merge(merged, &sources, "rs:4+2")).expect("merged");
    (world, sources, (merged, recoded.record))
}

fn check(world: &World) {
    for number in 0..8 {
        assert!(read(&world.volume, &format!("f{number}")) == content(number), "f{number} differs");
    }
    world.fsck();
}

/// Of the file whose bytes are these of the segment's, in lengths of a file.
fn number_of(volume: &Volume, segment: SegmentId, source: u64) -> usize {
    let is_its = |number: &usize| {
        let ino = volume.lookup(Ino::ROOT, format!("f{number}").as_bytes()).expect("is there").ino;
        let extents = volume.store().extents(ino, 0..u64::MAX).expect("metadata can be read");
        extents.iter().any(|extent| (extent.segment, extent.segment_offset) == (segment, source * FILE_BYTES as u64))
    };
    (0..8).find(is_its).expect("a file")
}

fn delete(volume: &Volume, name: &str) {
    let ino = volume.lookup(Ino::ROOT, name.as_bytes()).expect("is there").ino;
    volume.unlink(Ino::ROOT, name.as_bytes()).expect("unlinks");
    volume.forget(ino, u64::MAX);
    while !volume.store().orphans(1).expect("metadata can be read").is_empty() {
        std::thread::yield_now();
    }
}

fn is_changed(outcome: Result<(), VfsError>) -> bool {
    matches!(outcome, Err(VfsError::Meta(MetaError::SegmentChanged(_))))
}

#[test]
fn files_read_the_same_before_and_after_and_may_be_written() {
    let (world, sources, merged) = prepared();
    let volume = &world.volume;
    // Open all the while, with what it knows of extents.
    let ino = volume.lookup(Ino::ROOT, b"f3").expect("is there").ino;
    let handle = volume.open(ino, 0).expect("opens");
    assert!(volume.read(handle, 0, 1 << 20).expect("reads")[..] == content(3)[..]);
    assert!(sources.iter().all(|(source, _)| may_merge(volume.store(), *source).expect("metadata can be read")));
    volume.merge(&sources, &merged, None).expect("merged");
    assert!(volume.read(handle, 0, 1 << 20).expect("reads")[..] == content(3)[..]);
    volume.release(handle);
    check(&world);
    let store = volume.store();
    assert_eq!(store.live_bytes(merged.0).expect("metadata can be read"), 4 * FILE_BYTES as u64);
    assert_eq!(store.unreferenced(None, 9).expect("metadata can be read").len(), 4);
    // Again is too late.
    assert!(is_changed(volume.merge(&sources, &merged, None)));
    // Overwritten in the middle, and written as before.
    write(volume, "f3", 1000, &[7; 50_000]);
    let mut expected = content(3);
    expected[1000..51_000].fill(7);
    assert!(read(volume, "f3") == expected);
    world.fsck();
}

#[test]
fn what_is_written_or_deleted_meanwhile_stays_so() {
    let (world, sources, merged) = prepared();
    let volume = &world.volume;
    let written = number_of(volume, sources[0].0, 0);
    write(volume, &format!("f{written}"), 0, &[9; 100_000]);
    volume.merge(&sources, &merged, None).expect("merged");
    let mut expected = content(written);
    expected[..100_000].fill(9);
    assert!(read(volume, &format!("f{written}")) == expected);
    assert_eq!(volume.store().live_bytes(merged.0).expect("metadata can be read"), 4 * FILE_BYTES as u64 - 100_000);
    world.fsck();
    // One whose file is gone is no source of anything.
    let (world, sources, merged) = prepared();
    let volume = &world.volume;
    delete(volume, &format!("f{}", number_of(volume, sources[1].0, 0)));
    assert!(is_changed(volume.merge(&sources, &merged, None)));
    world.fsck();
}
