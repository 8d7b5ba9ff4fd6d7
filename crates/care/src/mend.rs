//! Makes one segment whole: `look -> decide -> rebuild -> commit -> remove the replaced shards`, until nothing is left to do.
//!
//! It may be dropped at any await, and any process may run it again: rebuilt shards have names that were never used, the record
//! changes in one conditional step, and nothing is removed before that step is durable. Shards left by a dropped run are
//! orphans for the collector.

use crate::catalogue::{Catalogue, CatalogueError};
use crate::clock::JobClock;
use crate::damage::{self, Noted, believed};
use crate::faulty_helpers::FaultyHelpers;
use crate::look::by_shard;
use crate::roster::Roster;
use crate::standing::{Loss, Standing, mark_overfull, standings};
use std::collections::BTreeMap;
use std::sync::Arc;
use weft_env::planted::{Planted, has_planted};
use weft_format::records::{DamageRecord, RetainedRecord, SegmentRecord, Succession};
use weft_format::removal::{Candidate, Evidence, Verdict, may_remove};
use weft_format::{NodeId, SegmentId, ShardIndex};
use weft_transfer::{
    Damage, ReadError, RebuildError, Rebuilt, Relocation, ShardHealth, Suspect, Transfer, error::SuspectKind,
};

pub use crate::look::Look;

/// Rounds beyond one per shard: for records that change meanwhile and survivors that turn out bad.
const SPARE_ROUNDS: usize = 8;

/// The work done for one segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mended {
    /// The segment was deleted before it could be helped, or no file refers to it.
    pub gone: bool,
    /// The defects found by the first look: shard, name of its node, verdict.
    pub found: Vec<(ShardIndex, String, Standing)>,
    /// Shards rebuilt.
    pub rebuilt_count: u64,
    /// Sound shards that were brought to another node.
    pub moved_count: u64,
    /// Bytes that nodes sent, for looking and for rebuilding.
    pub bytes_read: u64,
    /// Bytes that nodes read for that; more where they combine.
    pub bytes_read_by_nodes: u64,
    /// Bytes read and checked against the metadata.
    pub bytes_verified: u64,
    /// Bytes stored.
    pub bytes_written: u64,
    /// Why it is not whole now.
    pub failure: Option<String>,
}

/// The context of mending, shared by all segments of a run.
#[derive(Clone)]
pub(crate) struct Mender {
    pub catalogue: Arc<dyn Catalogue>,
    pub transfer: Transfer,
    pub roster: Arc<Roster>,
    pub clock: JobClock,
}

/// A record, and the result of a look at its shards.
struct Inspected {
    record: SegmentRecord,
    found: Vec<Option<ShardHealth>>,
}

impl Mender {
    /// Looks at a segment and, if `heal`, repairs it as far as possible, `relocations` included. A failure of one segment is part of the
    /// answer.
    ///
    /// # Errors
    /// The catalogue cannot be read or written.
    pub async fn mend(
        &self,
        segment: SegmentId,
        look: Look,
        heal: bool,
        relocations: &[Relocation],
    ) -> Result<Mended, CatalogueError> {
        let mut mended = Mended::default();
        let mut before: Option<Inspected> = None;
        let (mut look, mut mismatch_count) = (look, 0);
        // As it was before the look, or as it was made since.
        let mut noted: Option<DamageRecord> = None;
        // Written with less redundancy, and marked for nothing else.
        let mut is_short = false;
        // Some stripe cannot be had, so lost shards are rebuilt one by one: these need it, and failed so.
        let mut hopeless: Option<BTreeMap<ShardIndex, String>> = None;
        let mut round = 0;
        loop {
            let Some(record) = self.live(segment)? else {
                return Ok(Mended { gone: true, failure: None, ..mended });
            };
            let found = match &before {
                None => {
                    noted = self.catalogue.damage(segment)?;
                    self.look(segment, &record, look, &mut mended).await
                }
                Some(before) => before.carried_over(&record),
            };
            let has_damage = noted.as_ref().is_some_and(|noted| !noted.shards().is_empty());
            let now_noted = damage::note(&*self.catalogue, segment, &record, noted.as_ref(), &found, look)?;
            let mut found = believed(segment, &record, &noted.clone().unwrap_or_default(), &found, look);
            let mut verdicts = standings(&record, &self.roster, &found);
            is_short |= before.is_none() && !has_damage && verdicts.contains(&Standing::Lost(Loss::NeverStored));
            relocations.iter().for_each(|relocation| mark_overfull(&record, relocation, &mut verdicts));
            if before.is_none() && (mended.found.is_empty() || look == Look::Everything) {
                mended.found = self.complaints(&record, &verdicts);
            }
            let (targets, moving) = targets(&verdicts, hopeless.as_ref());
            let mut is_outdated = match now_noted {
                Noted::As(now) => {
                    noted = now;
                    false
                }
                Noted::Otherwise => true,
            };
            if !is_outdated && (targets.is_empty() || !heal) {
                mended.failure = hopeless.as_ref().and_then(|hopeless| hopeless.values().next().cloned());
                let is_known = look == Look::Everything || look == Look::Lengths && is_short && !has_damage;
                let is_whole = is_known && verdicts.iter().all(Standing::is_there);
                if !is_whole || self.catalogue.replace_damage(segment, noted.as_ref(), None)? {
                    return Ok(mended);
                }
                is_outdated = true;
            }
            if round == record.shards.len() + SPARE_ROUNDS {
                mended.failure =
                    Some(format!("segment {segment} changes faster than it can be repaired; run the repair again"));
                return Ok(mended);
            }
            round += 1;
            if is_outdated {
                // Somebody has found something since this look began.
                before = None;
                continue;
            }
            let rebuilt = match (&targets[..], moving) {
                ([target], true) => {
                    let destination = verdicts[target.as_usize()].destination();
                    self.transfer.relocate(segment, &record, *target, destination).await
                }
                _ => self.transfer.rebuild(segment, &record, &targets).await,
            };
            match rebuilt {
                Ok(rebuilt) => {
                    mended.bytes_read += rebuilt.bytes_read;
                    mended.bytes_read_by_nodes += rebuilt.bytes_read_by_nodes;
                    mended.bytes_written += rebuilt.bytes_written;
                    note(&mut found, &rebuilt.also_lost);
                    FaultyHelpers::note(
                        &*self.catalogue,
                        &faulty_helpers(&record, &rebuilt.also_lost),
                        self.clock.now_ms(),
                    )?;
                    let succession = self.succession(&record, &rebuilt.record, moving);
                    let replaced = self.catalogue.replace_segment(segment, &record, &rebuilt.record, &succession);
                    if replaced.is_err() {
                        withdraw_late_if_planted(&self.transfer, segment, &record, &rebuilt.record).await;
                    }
                    match replaced {
                        Ok(()) => {
                            let count = if moving { &mut mended.moved_count } else { &mut mended.rebuilt_count };
                            *count += rebuilt.placed.len() as u64;
                            self.remove_replaced(segment, &record, &rebuilt, &verdicts).await;
                            if rebuilt.record.shards.iter().any(Option::is_none) {
                                // It has a mark for that now.
                                noted = self.catalogue.damage(segment)?;
                            }
                        }
                        // Another process was quicker: look again. The shards stored here are orphans.
                        Err(CatalogueError::Changed(_)) => {}
                        Err(error) => return Err(error),
                    }
                }
                // A survivor passes its checksums and is still wrong: find out which.
                Err(RebuildError::Mismatch { .. }) if mismatch_count == 0 => {
                    mismatch_count += 1;
                    (before, look) = (None, Look::Everything);
                    continue;
                }
                // Too few shards are left as far as is known: find out what is left of every stripe.
                Err(RebuildError::Read(_)) if look != Look::Everything => {
                    (before, look) = (None, Look::Everything);
                    continue;
                }
                // What is lost of one shard may keep others from being rebuilt together with it. Shards that are lost whole would fail alone, too.
                Err(error @ RebuildError::Read(ReadError::Unrecoverable { .. }))
                    if !moving
                        && (hopeless.is_some() || targets.len() > 1 && verdicts.iter().any(is_partly_damaged)) =>
                {
                    let hopeless = hopeless.get_or_insert_default();
                    if let [target] = targets[..] {
                        hopeless.insert(target, error.to_string());
                    }
                }
                Err(error) => {
                    mended.failure = Some(error.to_string());
                    return Ok(mended);
                }
            }
            before = Some(Inspected { record, found });
        }
    }

    /// A sound shard that moves is retained, so that current readers can finish; a lost shard cannot be retained.
    fn succession(&self, previous: &SegmentRecord, new: &SegmentRecord, is_moving: bool) -> Succession {
        let retained = is_moving.then(|| RetainedRecord::of(previous, new, self.clock.now_ms(), 0)).flatten();
        Succession { retained, restored: None }
    }

    /// The record of a segment that files refer to.
    fn live(&self, segment: SegmentId) -> Result<Option<SegmentRecord>, CatalogueError> {
        match self.catalogue.live_bytes(segment)? {
            0 => Ok(None),
            _ => self.catalogue.segment(segment),
        }
    }

    async fn look(
        &self,
        segment: SegmentId,
        record: &SegmentRecord,
        look: Look,
        mended: &mut Mended,
    ) -> Vec<Option<ShardHealth>> {
        let health = match look {
            Look::Record => return Vec::new(),
            Look::Lengths => self.transfer.census(segment, record).await,
            Look::Everything => self.transfer.verify(segment, record).await,
        };
        mended.bytes_read += health.bytes_verified;
        mended.bytes_read_by_nodes += health.bytes_verified;
        mended.bytes_verified += health.bytes_verified;
        by_shard(health)
    }

    fn complaints(&self, record: &SegmentRecord, verdicts: &[Standing]) -> Vec<(ShardIndex, String, Standing)> {
        let at = |index: usize| match &record.shards[index] {
            Some(location) => self.roster.name(location.node),
            None => "-".into(),
        };
        let wrong = (0u16..).zip(verdicts).filter(|(_, verdict)| **verdict != Standing::Sound);
        wrong.map(|(index, verdict)| (ShardIndex(index), at(usize::from(index)), verdict.clone())).collect()
    }

    /// Removes damaged shards whose successors are committed, where their nodes answer. A sound shard that moved is kept for a
    /// while, see [`Self::succession`].
    async fn remove_replaced(
        &self,
        segment: SegmentId,
        record: &SegmentRecord,
        rebuilt: &Rebuilt,
        verdicts: &[Standing],
    ) {
        for (index, _) in &rebuilt.placed {
            let damaged =
                matches!(verdicts.get(index.as_usize()), Some(Standing::Lost(Loss::Damaged(_) | Loss::DamagedAway(_))));
            let (Some(old), Some(location)) =
                (record.shard_key(segment, *index), record.shards.get(index.as_usize()).and_then(Option::as_ref))
            else {
                continue;
            };
            if !damaged || rebuilt.record.shard_key(segment, *index) == Some(old) {
                continue;
            }
            let Verdict::Remove(shard) = may_remove(Candidate::own_shard(location.node, old), Evidence::Author) else {
                continue;
            };
            if let Err(error) = self.transfer.remove_shard(shard).await {
                tracing::warn!(%error, shard = %old, "leaving a replaced, damaged shard to the collector");
            }
        }
    }
}

/// The shards to rebuild in one step, and whether they only move. Lost shards come first. Sound shards move one by one, so that each has
/// its helpers, and so do lost ones where some are `hopeless`, which are left out.
fn targets(verdicts: &[Standing], hopeless: Option<&BTreeMap<ShardIndex, String>>) -> (Vec<ShardIndex>, bool) {
    let which = |wanted: fn(&Standing) -> bool| {
        (0u16..).zip(verdicts).filter(move |(_, verdict)| wanted(verdict)).map(|(index, _)| ShardIndex(index))
    };
    let is_left_out = |index: &ShardIndex| hopeless.is_some_and(|hopeless| hopeless.contains_key(index));
    let at_once = if hopeless.is_some() { 1 } else { verdicts.len() };
    let lost = which(|verdict| matches!(verdict, Standing::Lost(_))).filter(|index| !is_left_out(index));
    let lost: Vec<_> = lost.take(at_once).collect();
    if !lost.is_empty() {
        return (lost, false);
    }
    (which(|verdict| matches!(verdict, Standing::Misplaced(_))).take(1).collect(), true)
}

fn is_partly_damaged(verdict: &Standing) -> bool {
    matches!(verdict, Standing::Lost(Loss::Damaged(Damage { frames: Some(_), .. })))
}

/// Nodes whose combinations do not follow from their shards.
fn faulty_helpers(record: &SegmentRecord, suspects: &[Suspect]) -> Vec<NodeId> {
    let faulty = suspects.iter().filter(|suspect| suspect.kind == SuspectKind::Combination);
    faulty.filter_map(|suspect| Some(record.shards[suspect.index.as_usize()].as_ref()?.node)).collect()
}

/// Adds the findings of a rebuild.
fn note(found: &mut Vec<Option<ShardHealth>>, suspects: &[Suspect]) {
    for suspect in suspects {
        let index = suspect.index.as_usize();
        if found.len() <= index {
            found.resize(index + 1, None);
        }
        let damaged = |how: &str| ShardHealth::Damaged(Damage { how: how.into(), frames: suspect.frames.clone() });
        found[index] = Some(match suspect.kind {
            SuspectKind::NotFound => ShardHealth::Missing,
            SuspectKind::Unknown(kind) => ShardHealth::Unknown(kind),
            SuspectKind::Length => damaged("its length is wrong"),
            SuspectKind::Checksum => damaged("a checksum is wrong"),
            // The node is faulty, not its shard: see [`faulty_helpers`].
            SuspectKind::Combination => continue,
            SuspectKind::Digest => damaged("it does not match the digest in the metadata"),
        });
    }
}

impl Inspected {
    /// The findings for the places that `now` still names.
    fn carried_over(&self, now: &SegmentRecord) -> Vec<Option<ShardHealth>> {
        let same = |index: usize| now.shards.get(index) == self.record.shards.get(index);
        self.found.iter().enumerate().map(|(index, found)| found.clone().filter(|_| same(index))).collect()
    }
}

/// Where that is planted, an attempt that is too late removes what it has stored, under names that others have used since.
pub(crate) async fn withdraw_late_if_planted(
    transfer: &Transfer,
    segment: SegmentId,
    before: &SegmentRecord,
    stored: &SegmentRecord,
) {
    if has_planted(Planted::NameUsedTwice) {
        transfer.withdraw(segment, &stored.beyond(before)).await;
    }
}
