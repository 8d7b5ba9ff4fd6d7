//! Notes of damaged shards, and their effect. A job that finds damage notes it. Verdicts use the note until a job has read the whole shard and
//! finds otherwise, or the segment's record names another place for the shard. All is pure except [`note`].

use crate::catalogue::{Catalogue, CatalogueError};
use crate::look::Look;
use crate::roster::Roster;
use crate::standing::{Standing, standings};
use weft_format::SegmentId;
use weft_format::records::{DamageRecord, DamagedShard, SegmentRecord};
use weft_transfer::{Damage, ShardHealth};

/// The health of a segment's shards, by index, from the results `found` now and the defects `noted` before. A look at lengths alone does
/// not prove that a shard is sound.
pub fn believed(
    segment: SegmentId,
    record: &SegmentRecord,
    noted: &DamageRecord,
    found: &[Option<ShardHealth>],
    look: Look,
) -> Vec<Option<ShardHealth>> {
    let mut believed: Vec<Option<ShardHealth>> =
        (0..record.shards.len()).map(|index| found.get(index).cloned().flatten()).collect();
    for shard in noted.shards() {
        let index = shard.index.as_usize();
        let is_there = record
            .shards
            .get(index)
            .and_then(Option::as_ref)
            .is_some_and(|location| location.node == shard.node && location.key(segment, shard.index) == shard.key);
        let is_newer = match believed.get(index) {
            Some(None) => true,
            Some(Some(ShardHealth::Sound)) => look != Look::Everything,
            // A shard that cannot be looked at now is as it was noted.
            Some(Some(ShardHealth::Unknown(_))) => false,
            Some(Some(ShardHealth::Missing | ShardHealth::Damaged(_))) | None => false,
        };
        if is_there && is_newer {
            believed[index] = Some(match &shard.frames {
                None if shard.complaint.is_empty() => ShardHealth::Missing,
                frames => ShardHealth::Damaged(Damage { how: shard.complaint.clone(), frames: frames.clone() }),
            });
        }
    }
    believed
}

/// The note after a look: the defects found, and the previous notes of shards that could not be looked at.
fn to_note(
    segment: SegmentId,
    record: &SegmentRecord,
    noted: &DamageRecord,
    found: &[Option<ShardHealth>],
    look: Look,
) -> DamageRecord {
    let believed = believed(segment, record, noted, found, look);
    let mut damage = DamageRecord::default();
    damage.is_suspected = noted.is_suspected;
    for (index, key, location) in record.located(segment) {
        let shard = |complaint: &str, frames| DamagedShard {
            index,
            node: location.node,
            key,
            complaint: complaint.to_owned(),
            frames,
        };
        match believed.get(index.as_usize()).and_then(Option::as_ref) {
            Some(ShardHealth::Missing) => damage.add([shard("", None)]),
            Some(ShardHealth::Damaged(Damage { how, frames })) => damage.add([shard(how, frames.clone())]),
            Some(ShardHealth::Unknown(_)) => {
                let before = noted.shards().iter().find(|before| before.index == index);
                damage.add(before.filter(|before| before.node == location.node && before.key == key).cloned());
            }
            Some(ShardHealth::Sound) | None => {}
        }
    }
    damage
}

/// Notes the defects that a look found, so that they count from now on. `noted` was there before the look.
pub(crate) fn note(
    catalogue: &dyn Catalogue,
    segment: SegmentId,
    record: &SegmentRecord,
    noted: Option<&DamageRecord>,
    found: &[Option<ShardHealth>],
    look: Look,
) -> Result<Noted, CatalogueError> {
    let damage = to_note(segment, record, &noted.cloned().unwrap_or_default(), found, look);
    // Where there is nothing, all shards with noted defects were rebuilt elsewhere, or are sound.
    let damage = Some(damage).filter(|damage| !damage.shards().is_empty() || damage.is_suspected);
    if damage.as_ref() == noted || catalogue.replace_damage(segment, noted, damage.as_ref())? {
        return Ok(Noted::As(damage));
    }
    Ok(Noted::Otherwise)
}

/// What is noted of a segment after a look.
pub(crate) enum Noted {
    /// What the look found.
    As(Option<DamageRecord>),
    /// What somebody else has noted since the look began.
    Otherwise,
}

/// The verdicts on a segment's shards by their notes, without a look.
pub fn noted_standings(
    segment: SegmentId,
    record: &SegmentRecord,
    roster: &Roster,
    noted: &DamageRecord,
) -> Vec<Standing> {
    standings(record, roster, &believed(segment, record, noted, &[], Look::Record))
}

#[cfg(test)]
#[path = "damage_tests.rs"]
mod tests;
