//! What a member's keeper may remove of its own: a look at all disks at that moment, which no member has. Pure.

use super::line::Stored;
use std::collections::{BTreeMap, BTreeSet};
use weft_format::records::{
    ObjectId, ObjectRecord, ObjectSegment, ObjectState, Stamp, data_segment, name_hash, record_key,
};
use weft_format::shard::{ShardIdentity, verify_object};
use weft_format::{SegmentId, ShardIndex, ShardKey, VolumeId};

/// Why the shard or record `key` on disk `at` is needed; `None`: it may go.
///
/// It may if it is damaged, or if a newer version is there: a removal, or contents that can be read. So may a shard of which there is another, or
/// whose version cannot be read anyway, or has no record on any disk; and every record but that of a removal. What has come after a member gave its
/// version up does not count.
pub fn why_needed(volume: VolumeId, disks: &[Stored], at: usize, key: ShardKey) -> Option<String> {
    let id = ObjectId::of(key.segment);
    let is_sound = |disk: &Stored, key: ShardKey| {
        disk.get(&key).is_some_and(|object| verify_object(&ShardIdentity { volume, key }, object).is_ok())
    };
    if id.is_data && (!is_sound(&disks[at], key) || has_given_up(volume, &disks[at], id.hash, id.stamp)) {
        return None;
    }
    let sound = |segment: SegmentId, but: Option<ShardKey>| -> BTreeSet<ShardIndex> {
        let counts = |number: usize, disk: &Stored, held: &ShardKey| {
            let of = ObjectId::of(segment);
            let is_other = held.segment == segment && (number, Some(*held)) != (at, but);
            is_other && is_sound(disk, *held) && !has_given_up(volume, disk, of.hash, of.stamp)
        };
        let keys = disks.iter().enumerate();
        let keys = keys.flat_map(|(number, disk)| disk.keys().filter(move |held| counts(number, disk, held)));
        keys.map(|key| key.index).collect()
    };
    if id.is_data && sound(key.segment, Some(key)).contains(&key.index) {
        return None;
    }
    let records = disks.iter().flatten().filter_map(|(key, object)| {
        let of = ObjectId::of(key.segment);
        let is_its = !of.is_data && of.hash == id.hash;
        is_its.then(|| ObjectRecord::unseal(volume, *key, object).ok()).flatten()
    });
    let records: Vec<ObjectRecord> = records.collect();
    let can_be_read = |stamp: Stamp| {
        // Some may have given it up.
        let contents = records.iter().filter(|record| record.stamp == stamp).find_map(ObjectRecord::contents);
        // Codes of histories are Reed-Solomon: as many shards as there are native symbols.
        let is_there = |(number, part): (u32, &ObjectSegment)| {
            sound(data_segment(id.hash, stamp, number), None).len() >= part.geometry.native_count as usize
        };
        contents.is_some_and(|contents| (0..).zip(&contents.segments).all(is_there))
    };
    let is_newer = |record: &ObjectRecord| {
        record.stamp > id.stamp && (record.state == ObjectState::Removed || can_be_read(record.stamp))
    };
    if !id.is_data {
        let held = disks[at].get(&key).and_then(|object| ObjectRecord::unseal(volume, key, object).ok());
        let is_needed = held.is_some_and(|held| held.state == ObjectState::Removed) && !records.iter().any(is_newer);
        return is_needed.then(|| format!("{key} says that an object was removed, and nothing newer is there"));
    }
    let is_needed = can_be_read(id.stamp) && !records.iter().any(is_newer);
    is_needed.then(|| format!("{key} is removed, which no other member has, and nothing newer can be read"))
}

/// Is the shard `key` on disk `at` needed, and does another disk have it, too?
pub fn is_needed_copy(volume: VolumeId, disks: &[Stored], at: usize, key: ShardKey) -> bool {
    let is_same = |held: &ShardKey| (held.segment, held.index) == (key.segment, key.index);
    let mut without = disks.to_vec();
    for (_, disk) in without.iter_mut().enumerate().filter(|(number, _)| *number != at) {
        disk.retain(|held, _| !is_same(held));
    }
    why_needed(volume, disks, at, key).is_none() && why_needed(volume, &without, at, key).is_some()
}

/// Disks that have a shard which is needed, and which no other disk has.
pub fn holders_of_needed(volume: VolumeId, disks: &[Stored]) -> Vec<usize> {
    let is_needed =
        |at: usize, key: &ShardKey| ObjectId::of(key.segment).is_data && why_needed(volume, disks, at, *key).is_some();
    (0..disks.len()).filter(|at| disks[*at].keys().any(|key| is_needed(*at, key))).collect()
}

/// How many disks have the word that their member gave this version up.
pub fn refusing_count(volume: VolumeId, disks: &[Stored], name: &str, stamp: Stamp) -> usize {
    disks.iter().filter(|disk| has_given_up(volume, disk, name_hash(name), stamp)).count()
}

fn has_given_up(volume: VolumeId, disk: &Stored, hash: u64, stamp: Stamp) -> bool {
    let key = record_key(hash, stamp);
    let held = disk.get(&key).and_then(|object| ObjectRecord::unseal(volume, key, object).ok());
    held.is_some_and(|held| held.state == ObjectState::GivenUp)
}

/// Which disks have each shard.
fn holders(disks: &[Stored]) -> BTreeMap<(SegmentId, ShardIndex), BTreeSet<usize>> {
    let mut holders: BTreeMap<(SegmentId, ShardIndex), BTreeSet<usize>> = BTreeMap::new();
    for (at, disk) in disks.iter().enumerate() {
        for key in disk.keys().filter(|key| ObjectId::of(key.segment).is_data) {
            holders.entry((key.segment, key.index)).or_default().insert(at);
        }
    }
    holders
}

/// A disk that alone has a shard of a segment of which two others have the same one. If it is lost, and no disk has nothing of the segment, one of
/// the two may get its shard.
pub fn beside_a_copy(disks: &[Stored]) -> Option<usize> {
    let holders = holders(disks);
    let has_copy = |segment: SegmentId| holders.iter().any(|((of, _), at)| *of == segment && at.len() == 2);
    let mut alone = holders.iter().filter(|((segment, _), at)| at.len() == 1 && has_copy(*segment));
    alone.find_map(|(_, at)| at.first().copied())
}

/// A disk that has a shard in common with just one other, which alone has another shard of the segment. If it is lost, that one alone has two.
pub fn other_of_two(disks: &[Stored]) -> Option<usize> {
    let holders = holders(disks);
    let is_alone = |segment: SegmentId, disk: usize| {
        holders.iter().any(|((of, _), at)| *of == segment && at.len() == 1 && at.contains(&disk))
    };
    holders.iter().filter(|(_, at)| at.len() == 2).find_map(|((segment, _), at)| {
        let (one, other) = (*at.first()?, *at.last()?);
        match (is_alone(*segment, one), is_alone(*segment, other)) {
            (true, false) => Some(other),
            (false, true) => Some(one),
            _ => None,
        }
    })
}

/// Disks that alone have two shards of one segment: with one of them two are lost.
pub fn two_at_one(disks: &[Stored]) -> Vec<String> {
    let mut alone: BTreeMap<(SegmentId, usize), usize> = BTreeMap::new();
    for ((segment, _), at) in holders(disks).into_iter().filter(|(_, at)| at.len() == 1) {
        *alone.entry((segment, at.into_iter().next().unwrap_or_default())).or_default() += 1;
    }
    let two = alone.into_iter().filter(|(_, count)| *count > 1);
    two.map(|((segment, at), count)| format!("m{} alone has {count} shards of {segment}", at + 1)).collect()
}

#[cfg(test)]
#[path = "removals_tests.rs"]
mod tests;
