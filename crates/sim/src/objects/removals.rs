//! What a member's keeper may remove of its own: a look at all disks at that moment, which no member has. Pure.

use super::line::Stored;
use std::collections::BTreeSet;
use weft_format::records::{ObjectId, ObjectRecord, ObjectState, Stamp};
use weft_format::shard::{ShardIdentity, verify_object};
use weft_format::{SegmentId, ShardIndex, ShardKey, VolumeId};

/// Why the shard `key` on disk `at` is needed, as no other disk has it; `None`: it may go.
///
/// It may if it is damaged or a record, if its version cannot be read anyway, if no disk has a record of the version, or if a newer one is
/// there: a removal, or contents that can be read.
pub fn is_needed(volume: VolumeId, disks: &[Stored], at: usize, key: ShardKey) -> Option<String> {
    let id = ObjectId::of(key.segment);
    let is_sound = |disk: &Stored, key: ShardKey| {
        disk.get(&key).is_some_and(|object| verify_object(&ShardIdentity { volume, key }, object).is_ok())
    };
    if !id.is_data || !is_sound(&disks[at], key) {
        return None;
    }
    let sound = |segment: SegmentId, but: Option<usize>| -> BTreeSet<ShardIndex> {
        let disks = disks.iter().enumerate().filter(|(number, _)| Some(*number) != but);
        let keys =
            disks.flat_map(|(_, disk)| disk.keys().filter(|key| key.segment == segment && is_sound(disk, **key)));
        keys.map(|key| key.index).collect()
    };
    if sound(key.segment, Some(at)).contains(&key.index) {
        return None;
    }
    let records = disks.iter().flatten().filter_map(|(key, object)| {
        let of = ObjectId::of(key.segment);
        let is_its = !of.is_data && of.hash == id.hash;
        is_its.then(|| ObjectRecord::unseal(volume, *key, object).ok()).flatten()
    });
    let records: Vec<ObjectRecord> = records.collect();
    let can_be_read = |stamp: Stamp| {
        let contents = records.iter().find(|record| record.stamp == stamp).and_then(ObjectRecord::contents)?;
        let least = data_shards(&contents.code);
        let segments = (0..contents.segments.len() as u32).map(|number| ObjectId { number, stamp, ..id }.segment());
        Some(segments.into_iter().all(|segment| sound(segment, None).len() >= least))
    };
    let is_newer = |record: &ObjectRecord| {
        let is_there = record.state == ObjectState::Removed || can_be_read(record.stamp) == Some(true);
        record.stamp > id.stamp && is_there
    };
    let is_needed = can_be_read(id.stamp) == Some(true) && !records.iter().any(is_newer);
    is_needed.then(|| format!("{key} is removed, which no other member has, and nothing newer can be read"))
}

/// Of a code of the histories, `rs:k+m`: k.
fn data_shards(code: &str) -> usize {
    let data = code.split([':', '+']).nth(1).and_then(|data| data.parse().ok());
    data.expect("histories have Reed-Solomon codes")
}
