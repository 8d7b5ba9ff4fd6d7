//! Power cuts at every moment, and several processes on one device.

use super::super::device::Event;
use super::*;
use crate::conformance::{key, shard};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::fs;
use tempfile::TempDir;
use weft_format::{NodeId, VolumeId};

const IDENTITY: NodeIdentity = NodeIdentity { volume: VolumeId(1), node: NodeId(2) };
const DEVICE_BYTES: u64 = 2 << 20;
const SECTOR_BYTES: usize = 512;

fn device(folder: &TempDir) -> PathBuf {
    let path = folder.path().join("image");
    fs::File::create(&path).unwrap().set_len(DEVICE_BYTES).unwrap();
    create(&Place::new(&path, "disk", IDENTITY)).unwrap();
    path
}

/// One slot or some, decided by the number alone.
fn bytes_of(number: u64) -> Bytes {
    let spread = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    let length = if spread & 1 == 0 { spread % 2_000 } else { spread % 90_000 };
    shard(IDENTITY.volume, key(number, 0), length + 1, number)
}

/// In memory, where a sync costs nothing: what survives a crash is decided by the events here, not by a disk.
fn folder() -> TempDir {
    TempDir::new_in("/dev/shm").unwrap()
}

/// What a device may hold after the power goes at event `at`: everything synced, and of what was not, any sectors.
fn after_power_cut(blank: &[u8], events: &[Event], at: usize, random: &mut StdRng) -> Vec<u8> {
    let synced = events[..at].iter().rposition(|event| matches!(event, Event::Sync)).map_or(0, |sync| sync + 1);
    let mut image = blank.to_vec();
    for (number, event) in events[..at].iter().enumerate() {
        let Event::Write { offset, bytes } = event else { continue };
        let mut start = 0;
        while start < bytes.len() {
            let from = *offset as usize + start;
            let count = (SECTOR_BYTES - from % SECTOR_BYTES).min(bytes.len() - start);
            if number < synced || random.random_bool(0.5) {
                image[from..from + count].copy_from_slice(&bytes[start..start + count]);
            }
            start += count;
        }
    }
    image
}

#[test]
fn a_power_cut_at_any_moment_loses_nothing_that_was_acknowledged() {
    let seed = 20_261_121;
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let folder = folder();
    let path = device(&folder);
    let blank = fs::read(&path).unwrap();
    let place = Place::new(&path, "disk", IDENTITY);
    let root = place.attached().unwrap();
    *root.device.log.lock() = Some(Vec::new());
    let event_count = || root.device.log.lock().as_ref().map_or(0, Vec::len);

    // After how many events which shards were acknowledged, and which were being changed until then.
    let mut stored: BTreeMap<u64, Bytes> = BTreeMap::new();
    let mut moments = vec![(0, stored.clone(), None)];
    for number in 0..40 {
        let changed = if stored.len() > 3 && random.random_bool(0.4) {
            let victim = *stored.keys().nth(random.random_range(0..stored.len())).unwrap();
            remove(&place, key(victim, 0)).unwrap();
            (victim, stored.remove(&victim).unwrap())
        } else {
            let bytes = bytes_of(number);
            put(&place, key(number, 0), &[bytes.slice(..1), bytes.slice(1..)]).unwrap();
            stored.insert(number, bytes.clone());
            (number, bytes)
        };
        moments.push((event_count(), stored.clone(), Some(changed)));
    }
    let events = root.device.log.lock().take().unwrap();

    for _ in 0..300 {
        let at = random.random_range(0..=events.len());
        let image = after_power_cut(&blank, &events, at, &mut random);
        fs::write(folder.path().join("cut"), &image).unwrap();
        let survivor = Place::new(&folder.path().join("cut"), "disk", IDENTITY);
        let last = moments.iter().rposition(|(end, ..)| *end <= at).unwrap();
        let (acknowledged, pending) =
            (&moments[last].1, moments.get(last + 1).and_then(|(.., changed)| changed.as_ref()));
        let listed = list(&survivor, None, 1000).unwrap();
        assert!(listed.foreign.is_empty(), "nothing is taken for damage");
        let mut slots = 0;
        for key in &listed.keys {
            let number = key.segment.created_ms();
            let bytes = get(&survivor, *key, &(0..u64::MAX)).unwrap();
            slots += survivor.attached().unwrap().superblock.slots_of(bytes.len() as u64);
            let known = acknowledged.get(&number).or_else(|| pending.filter(|p| p.0 == number).map(|p| &p.1));
            assert_eq!(Some(&bytes), known, "seed {seed}, cut at {at}: shard {number} is whole or not there");
        }
        for number in acknowledged.keys().filter(|number| pending.is_none_or(|pending| pending.0 != **number)) {
            assert!(listed.keys.contains(&key(*number, 0)), "seed {seed}, cut at {at}: shard {number} is lost");
        }
        let root = survivor.attached().unwrap();
        let free = root.state.lock().index.free_count() as u64;
        assert_eq!(free + slots, u64::from(root.superblock.slot_count), "seed {seed}, cut at {at}: no slot leaks");
        // Life goes on.
        let more = bytes_of(1_000);
        put(&survivor, key(1_000, 0), std::slice::from_ref(&more)).unwrap();
        let again = Place::new(&folder.path().join("cut"), "disk", IDENTITY);
        assert_eq!(get(&again, key(1_000, 0), &(0..u64::MAX)).unwrap(), more);
        for key in &listed.keys {
            assert!(stat(&again, *key).is_ok(), "seed {seed}, cut at {at}");
        }
    }
}

#[test]
fn a_device_with_impossible_numbers_is_used_all_the_same() {
    let folder = folder();
    let path = device(&folder);
    let (known, more) = (bytes_of(1), bytes_of(2));
    put(&Place::new(&path, "disk", IDENTITY), key(1, 0), std::slice::from_ref(&known)).unwrap();
    let slot = 50;
    let part = Part { key: key(9, 0), part: 0, parts: 1, bytes: u64::MAX, modified_ms: 0, put: u64::MAX };
    let device = Device::open(&path).unwrap();
    device.write(Superblock::entry_offset(slot), &Entry::Part(part).encode(slot)).unwrap();
    device.write(COUNTERS_OFFSET, &layout::encode_counters(u64::MAX, true)).unwrap();
    let place = Place::new(&path, "disk", IDENTITY);
    let listed = list(&place, None, 10).unwrap();
    assert_eq!((listed.keys, listed.foreign.len()), (vec![key(1, 0)], 1));
    assert_eq!(get(&place, key(9, 0), &(0..u64::MAX)).unwrap_err().kind, NodeErrorKind::NotFound);
    device.write(COUNTERS_OFFSET, &layout::encode_counters(u64::MAX, false)).unwrap();
    put(&place, key(2, 0), std::slice::from_ref(&more)).unwrap();
    for (number, bytes) in [(1, known), (2, more)] {
        assert_eq!(get(&place, key(number, 0), &(0..u64::MAX)).unwrap(), bytes);
    }
}

/// Each opening of a device locks for itself, as another process would.
#[test]
fn several_openings_see_each_others_changes_and_share_no_slot() {
    let folder = folder();
    let path = device(&folder);
    std::thread::scope(|scope| {
        for worker in 0..4u64 {
            let path = &path;
            scope.spawn(move || {
                let place = Place::new(path, "disk", IDENTITY);
                for round in 0..60 {
                    let number = worker * 1000 + round;
                    let bytes = bytes_of(number);
                    put(&place, key(number, 0), std::slice::from_ref(&bytes)).unwrap();
                    assert_eq!(get(&place, key(number, 0), &(0..u64::MAX)).unwrap(), bytes);
                    // What another put is there too, or gone again, but never something else.
                    let other = (worker + 1) % 4 * 1000 + round;
                    match get(&place, key(other, 0), &(0..u64::MAX)) {
                        Ok(bytes) => assert_eq!(bytes, bytes_of(other)),
                        Err(error) => assert_eq!(error.kind, NodeErrorKind::NotFound, "{error}"),
                    }
                    if round >= 2 {
                        remove(&place, key(number - 2, 0)).unwrap();
                    }
                }
            });
        }
    });
    let place = Place::new(&path, "disk", IDENTITY);
    let mut left: Vec<u64> =
        list(&place, None, 1000).unwrap().keys.iter().map(|key| key.segment.created_ms()).collect();
    left.sort_unstable();
    assert_eq!(left, [58, 59, 1058, 1059, 2058, 2059, 3058, 3059]);
    for number in left {
        assert_eq!(get(&place, key(number, 0), &(0..u64::MAX)).unwrap(), bytes_of(number));
    }
}

#[test]
fn an_opening_far_behind_reads_the_whole_table() {
    let folder = folder();
    let path = device(&folder);
    let (writer, reader) = (Place::new(&path, "disk", IDENTITY), Place::new(&path, "disk", IDENTITY));
    assert!(list(&reader, None, 10).unwrap().keys.is_empty());
    let bytes = bytes_of(2);
    for number in 0..RING_ENTRIES / 2 + 10 {
        put(&writer, key(number, 0), std::slice::from_ref(&bytes)).unwrap();
        if number > 2 {
            remove(&writer, key(number - 3, 0)).unwrap();
        }
    }
    assert_eq!(list(&reader, None, 10).unwrap().keys, list(&writer, None, 10).unwrap().keys);
}
