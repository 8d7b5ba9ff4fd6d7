use super::*;
use bytes::Bytes;
use weft_format::Generation;
use weft_format::geometry::Geometry;
use weft_format::records::Contents;
use weft_format::shard::{Digest, ShardBuilder, ShardHeader};

const VOLUME: VolumeId = VolumeId(3);
const NAME: &str = "a";
const OLD: Stamp = Stamp(7 << 20);
const NEW: Stamp = Stamp(8 << 20);

fn geometry() -> Geometry {
    Geometry::new(100, 2, 1, 1, 64).expect("small")
}

fn shard(stamp: Stamp, index: u16) -> (ShardKey, Bytes) {
    let segment = data_segment(name_hash(NAME), stamp, 0);
    let key = ShardKey { segment, generation: Generation::FIRST, index: ShardIndex(index) };
    let header =
        ShardHeader { identity: ShardIdentity { volume: VOLUME, key }, code: "rs:2+1".into(), geometry: geometry() };
    let mut builder = ShardBuilder::new(&header).expect("a header");
    builder.write(0, &[5; 50]).expect("as long as a cell");
    (key, builder.finish().0)
}

fn record(stamp: Stamp, state: ObjectState) -> (ShardKey, Bytes) {
    let record = ObjectRecord { name: NAME.into(), stamp, width: 3, state };
    let key = record_key(name_hash(NAME), stamp);
    (key, record.seal(VOLUME, key).expect("short"))
}

fn contents() -> ObjectState {
    let segment = ObjectSegment { geometry: geometry(), digest: [7; 32], shards: vec![Digest([1; 32]); 3] };
    ObjectState::Stored(Contents {
        code: "rs:2+1".into(),
        bytes: 100,
        digest: [9; 32],
        segments: vec![segment],
        alternates: Vec::new(),
    })
}

/// Three members, each with its shard of the old version and its record.
fn whole() -> Vec<Stored> {
    (0..3).map(|index| Stored::from([shard(OLD, index), record(OLD, contents())])).collect()
}

fn is_needed_at(disks: &[Stored], at: usize) -> bool {
    why_needed(VOLUME, disks, at, shard(OLD, at as u16).0).is_some()
}

#[test]
fn the_only_one_is_needed() {
    assert!(is_needed_at(&whole(), 1));
}

#[test]
fn a_sound_copy_elsewhere_is_enough() {
    let mut disks = whole();
    let (key, object) = shard(OLD, 1);
    disks[2].insert(key, object.clone());
    assert!(!is_needed_at(&disks, 1));
    let mut rotten = object.to_vec();
    *rotten.last_mut().expect("not empty") ^= 1;
    disks[2].insert(key, rotten.into());
    assert!(is_needed_at(&disks, 1));
}

#[test]
fn a_copy_is_needed_if_it_would_be_alone() {
    let mut disks = whole();
    let (key, object) = shard(OLD, 1);
    let is_copy = |disks: &[Stored], at| is_needed_copy(VOLUME, disks, at, key);
    assert!(!is_copy(&disks, 1));
    assert_eq!(holders_of_needed(VOLUME, &disks), [0, 1, 2]);
    disks[2].insert(key, object);
    assert!(is_copy(&disks, 1) && is_copy(&disks, 2));
    assert_eq!(holders_of_needed(VOLUME, &disks), [0, 2]);
    disks[0].extend([record(NEW, ObjectState::Removed)]);
    assert!(!is_copy(&disks, 1));
    assert!(holders_of_needed(VOLUME, &disks).is_empty());
}

#[test]
fn what_is_damaged_or_of_no_version_may_go() {
    let mut disks = whole();
    let (key, object) = shard(OLD, 1);
    let mut rotten = object.to_vec();
    *rotten.last_mut().expect("not empty") ^= 1;
    disks[1].insert(key, rotten.into());
    assert!(!is_needed_at(&disks, 1));
    let mut half = whole();
    half.iter_mut().for_each(|disk| drop(disk.remove(&record(OLD, contents()).0)));
    assert!(!is_needed_at(&half, 1));
    let mut unreadable = whole();
    unreadable.truncate(2);
    unreadable[0].remove(&shard(OLD, 0).0);
    assert!(!is_needed_at(&unreadable, 1));
}

#[test]
fn a_newer_version_is_enough_if_it_can_be_read() {
    let mut removed = whole();
    removed[0].extend([record(NEW, ObjectState::Removed)]);
    assert!(!is_needed_at(&removed, 1));
    let mut given_up = whole();
    given_up[0].extend([record(NEW, ObjectState::GivenUp)]);
    assert!(is_needed_at(&given_up, 1));
    let mut replaced = whole();
    replaced[0].extend([record(NEW, contents()), shard(NEW, 0)]);
    assert!(is_needed_at(&replaced, 1));
    replaced[2].extend([shard(NEW, 2)]);
    assert!(!is_needed_at(&replaced, 1));
    // One that was stopped for long has given it up.
    replaced.insert(0, Stored::from([record(NEW, ObjectState::GivenUp)]));
    assert!(why_needed(VOLUME, &replaced, 2, shard(OLD, 1).0).is_none());
}

#[test]
fn a_removal_is_kept_until_something_newer_is_there() {
    let mut disks = whole();
    let (key, object) = record(NEW, ObjectState::Removed);
    disks[0].insert(key, object.clone());
    disks[1].insert(key, object);
    let is_needed = |disks: &[Stored]| why_needed(VOLUME, disks, 0, key).is_some();
    assert!(is_needed(&disks));
    assert!(why_needed(VOLUME, &disks, 0, record(OLD, contents()).0).is_none());
    let newest = Stamp(9 << 20);
    disks[2].extend([record(newest, contents()), shard(newest, 0)]);
    assert!(is_needed(&disks));
    disks[1].extend([shard(newest, 1)]);
    assert!(!is_needed(&disks));
}

#[test]
fn two_shards_at_one_disk_are_told_unless_another_has_one_of_them() {
    let mut disks = whole();
    assert!(two_at_one(&disks).is_empty());
    let (key, object) = shard(OLD, 1);
    disks[0].insert(key, object);
    assert!(two_at_one(&disks).is_empty());
    disks[1].remove(&key);
    assert_eq!(two_at_one(&disks).len(), 1);
}

#[test]
fn those_that_gave_a_version_up_are_counted() {
    let mut disks = whole();
    disks[1].extend([record(NEW, ObjectState::GivenUp)]);
    disks[2].extend([record(NEW, contents())]);
    let count = |stamp| refusing_count(VOLUME, &disks, NAME, stamp);
    assert_eq!((count(NEW), count(OLD)), (1, 0));
}

/// The fourth member has a copy of what the first one has; the second one's shard comes to lie beside it; then the first one's is lost.
#[test]
fn whose_loss_crowds_a_member_is_seen_on_the_disks() {
    let copied = shard(OLD, 0);
    let mut disks = whole();
    assert_eq!((beside_a_copy(&disks), other_of_two(&disks)), (None, None));
    disks.push(Stored::from([copied]));
    assert_eq!((beside_a_copy(&disks), other_of_two(&disks)), (Some(1), None));
    disks[1].clear();
    disks[3].extend([shard(OLD, 1)]);
    assert_eq!(other_of_two(&disks), Some(0));
    disks[0].clear();
    assert_eq!(two_at_one(&disks).len(), 1);
}
