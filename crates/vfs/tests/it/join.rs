//! Segments that are joined: files look elsewhere for their bytes from one moment on, and notice nothing.

use crate::support::{CALLER, World};
use std::collections::BTreeMap;
use weft_format::records::{RetiredRecord, SegmentRecord, Unjoined};
use weft_format::{Ino, SegmentId};
use weft_meta::MetaError;
use weft_vfs::join::may_join;
use weft_vfs::{VfsError, Volume};

const FILE_BYTES: usize = 700_000;

fn content(number: usize) -> Vec<u8> {
    (0..FILE_BYTES).map(|at| (at * 31 / 7 + number * 5) as u8).collect()
}

fn write(volume: &Volume, name: &str, offset: u64, data: &[u8]) {
    let found = volume.lookup(Ino::ROOT, name.as_bytes()).ok().map(|found| volume.open(found.ino, 0).expect("opens"));
    let make = || volume.create(&CALLER, Ino::ROOT, name.as_bytes(), 0o644, 0).expect("creates").1;
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

type Segments = Vec<(SegmentId, RetiredRecord)>;

/// A volume of files that have a segment each, four of which are stored as one, too.
fn prepared() -> (World, Segments, (SegmentId, SegmentRecord)) {
    let world = World::new("replica:3", 9);
    let volume = &world.volume;
    for number in 0..8 {
        write(volume, &format!("f{number}"), 0, &content(number));
    }
    let (transfer, mut joiner) = (volume.transfer(), volume.transfer().joiner());
    let living = volume.store().segments_by_live(None, usize::MAX).expect("metadata can be read");
    let records: BTreeMap<SegmentId, SegmentRecord> = living
        .iter()
        .map(|(segment, _)| (*segment, volume.store().segment(*segment).expect("metadata").expect("it lives")))
        .collect();
    let offered = records.iter().flat_map(|(segment, record)| joiner.offer(*segment, record.clone(), "rs:4+2"));
    let group = offered.into_iter().find(|group| group.len() == 4).expect("four of eight");
    let parts: Vec<_> = group.iter().map(|segment| (*segment, records[segment].clone())).collect();
    let whole = SegmentId::new(group[0].created_ms(), 99);
    let recoded = world.runtime.block_on(transfer.join(whole, &parts, "rs:4+2")).expect("joined");
    let kept = |(part, record)| (part, RetiredRecord::whole(record, 0, 3_600_000));
    (world, parts.into_iter().map(kept).collect(), (whole, recoded.record))
}

fn check(world: &World) {
    for number in 0..8 {
        assert!(read(&world.volume, &format!("f{number}")) == content(number), "f{number} differs");
    }
    world.fsck();
}

/// Of the file whose bytes are these of the segment's, in lengths of a file.
fn number_of(volume: &Volume, segment: SegmentId, part: u64) -> usize {
    let is_its = |number: &usize| {
        let ino = volume.lookup(Ino::ROOT, format!("f{number}").as_bytes()).expect("is there").ino;
        let extents = volume.store().extents(ino, 0..u64::MAX).expect("metadata can be read");
        extents.iter().any(|extent| (extent.segment, extent.segment_offset) == (segment, part * FILE_BYTES as u64))
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
    let (world, parts, whole) = prepared();
    let volume = &world.volume;
    // Open all the while, with what it knows of extents.
    let ino = volume.lookup(Ino::ROOT, b"f3").expect("is there").ino;
    let handle = volume.open(ino, 0).expect("opens");
    assert!(volume.read(handle, 0, 1 << 20).expect("reads")[..] == content(3)[..]);
    assert!(parts.iter().all(|(part, _)| may_join(volume.store(), *part).expect("metadata can be read")));
    volume.join(&parts, &whole, None).expect("joined");
    assert!(volume.read(handle, 0, 1 << 20).expect("reads")[..] == content(3)[..]);
    volume.release(handle);
    check(&world);
    let store = volume.store();
    assert_eq!(store.live_bytes(whole.0).expect("metadata can be read"), 4 * FILE_BYTES as u64);
    assert_eq!(store.trash(u64::MAX, None, 9).expect("metadata can be read").len(), 4);
    // Again is too late.
    assert!(is_changed(volume.join(&parts, &whole, None)));
    // Overwritten in the middle, and written as before.
    write(volume, "f3", 1000, &[7; 50_000]);
    let mut expected = content(3);
    expected[1000..51_000].fill(7);
    assert!(read(volume, "f3") == expected);
    world.fsck();
}

#[test]
fn what_is_written_or_deleted_meanwhile_stays_so() {
    let (world, parts, whole) = prepared();
    let volume = &world.volume;
    let written = number_of(volume, parts[0].0, 0);
    write(volume, &format!("f{written}"), 0, &[9; 100_000]);
    volume.join(&parts, &whole, None).expect("joined");
    let mut expected = content(written);
    expected[..100_000].fill(9);
    assert!(read(volume, &format!("f{written}")) == expected);
    assert_eq!(volume.store().live_bytes(whole.0).expect("metadata can be read"), 4 * FILE_BYTES as u64 - 100_000);
    world.fsck();
    // One whose file is gone is no part of anything.
    let (world, parts, whole) = prepared();
    let volume = &world.volume;
    delete(volume, &format!("f{}", number_of(volume, parts[1].0, 0)));
    assert!(is_changed(volume.join(&parts, &whole, None)));
    world.fsck();
}

/// What the parts become again.
fn taken_back(world: &World, parts: &Segments) -> Vec<Unjoined> {
    let (mut offset, mut taken) = (0, Vec::new());
    for (former, kept) in parts {
        let new = SegmentId::new(former.created_ms(), 1000 + taken.len() as u128);
        let work = world.volume.transfer().unjoin(new, *former, &kept.record);
        let recoded = world.runtime.block_on(work).expect("sound");
        assert_eq!(recoded.bytes_written, 0);
        taken.push(Unjoined { offset, former: (*former, kept.clone()), segment: (new, recoded.record) });
        offset += kept.record.geometry.data_bytes;
    }
    taken
}

#[test]
fn what_was_joined_is_taken_apart_again_under_those_who_read_and_write() {
    let (world, parts, whole) = prepared();
    let volume = &world.volume;
    volume.join(&parts, &whole, None).expect("joined");
    let [overwritten, deleted, open, _] = [0, 1, 2, 3].map(|part| number_of(volume, whole.0, part));
    // Overwritten across its middle and at its end, deleted, and open all the while.
    let mut expected = content(overwritten);
    for (at, bytes) in [(100_000, [3; 200_000].as_slice()), (FILE_BYTES - 5, &[4; 5])] {
        write(volume, &format!("f{overwritten}"), at as u64, bytes);
        expected[at..at + bytes.len()].copy_from_slice(bytes);
    }
    delete(volume, &format!("f{deleted}"));
    let ino = volume.lookup(Ino::ROOT, format!("f{open}").as_bytes()).expect("is there").ino;
    let handle = volume.open(ino, 0).expect("opens");
    assert!(volume.read(handle, 0, 1 << 20).expect("reads")[..] == content(open)[..]);
    let taken = taken_back(&world, &parts);
    volume.unjoin(&whole, &taken, None).expect("taken apart");
    assert!(volume.read(handle, 0, 1 << 20).expect("reads")[..] == content(open)[..]);
    volume.release(handle);
    for number in (0..8).filter(|number| *number != deleted) {
        let right = if number == overwritten { expected.clone() } else { content(number) };
        assert!(read(volume, &format!("f{number}")) == right, "f{number} differs");
    }
    world.fsck();
    let store = volume.store();
    let live = |segment: SegmentId| store.live_bytes(segment).expect("metadata can be read");
    let live_bytes: Vec<u64> = taken.iter().map(|part| live(part.segment.0)).collect();
    assert_eq!(live_bytes, [FILE_BYTES as u64 - 200_005, 0, FILE_BYTES as u64, FILE_BYTES as u64]);
    assert_eq!(live(whole.0), 0);
    // What nobody refers to was not made a segment, and goes in its time.
    assert_eq!(store.segment(taken[1].segment.0).expect("metadata can be read"), None);
    let kept = |part: &(SegmentId, RetiredRecord)| store.retired_of(part.0).expect("metadata can be read").len();
    assert_eq!(parts.iter().map(kept).collect::<Vec<_>>(), [0, 1, 0, 0]);
    assert!(is_changed(volume.unjoin(&whole, &taken, None)), "again is too late");
}

#[test]
fn a_file_whose_pieces_lie_over_two_parts_finds_each_and_too_many_pieces_are_left() {
    let (world, parts, whole) = prepared();
    let volume = &world.volume;
    volume.join(&parts, &whole, None).expect("joined");
    let taken = taken_back(&world, &parts);
    // Every other page of a file anew: more pieces than one step takes.
    let number = number_of(volume, whole.0, 3);
    let mut expected = content(number);
    for page in 0..84 {
        write(volume, &format!("f{number}"), page * 8192, &[page as u8; 4096]);
        expected[page as usize * 8192..][..4096].fill(page as u8);
    }
    let mut early = taken.clone();
    // As one extent over both would be cut.
    let (left, right) = (taken[0].range(), taken[1].range());
    assert_eq!(left.end, right.start);
    early.truncate(2);
    assert!(is_changed(volume.unjoin(&whole, &early, None)), "the others would be left");
    volume.unjoin(&whole, &taken, None).expect("84 pieces and three more");
    assert!(read(volume, &format!("f{number}")) == expected);
    world.fsck();
}
