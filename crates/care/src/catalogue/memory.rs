//! A catalogue in memory: the slow, obvious reference for the real one. Care's own tests run on it.

use super::{Catalogue, CatalogueError, Renewed, Summed, Surveyed};
use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, Range};
use weft_format::records::{
    DamageRecord, DamagedShard, LeaseRecord, NodeRecord, NodeState, OpeningsRecord, PolicyRecord, RetainedRecord,
    SegmentRecord, Succession, SumsRecord, Wanted, wanted,
};
use weft_format::removal::{Expired, Item, Queued, Removable};
use weft_format::{Generation, NodeId, SegmentId, ShardKey};

/// Everything in maps under one lock.
#[derive(Debug, Default)]
pub struct MemoryCatalogue {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    nodes: BTreeMap<NodeId, NodeRecord>,
    segments: BTreeMap<SegmentId, Entry>,
    retained: BTreeMap<(SegmentId, Generation), RetainedRecord>,
    damaged: BTreeMap<SegmentId, DamageRecord>,
    jobs: BTreeMap<String, Vec<u8>>,
    lease: Option<LeaseRecord>,
    fence: Option<u64>,
    renewed: Vec<NodeId>,
    is_away: bool,
    /// How often it was asked.
    call_count: u64,
    flush_count: u64,
    /// Segments that it showed, in a survey or apart from sums.
    surveyed_count: u64,
    cannot_flush: bool,
    job_change_count: u64,
    /// Is it that of the volume's owner?
    is_owners: bool,
    /// Where the data of segments that were merged is: of which segment, from which byte on. For tests.
    merged: BTreeMap<SegmentId, (SegmentId, u64)>,
    /// Whose shards are that bear another's name.
    aliases: BTreeMap<ShardKey, SegmentId>,
    made_count: u128,
    /// `None`: all are over.
    openings: Option<OpeningsRecord>,
}

impl State {
    /// A segment, with what is counted and noted of it.
    fn surveyed(&self, segment: &SegmentId, entry: &Entry) -> Surveyed {
        Surveyed {
            segment: *segment,
            record: entry.record.clone(),
            live_bytes: if entry.dead_since_ms.is_none() { entry.live_bytes } else { 0 },
            damage: self.damaged.get(segment).cloned().unwrap_or_default(),
        }
    }

    /// Is this the record of a living segment?
    fn lives_as(&self, segment: SegmentId, record: &SegmentRecord) -> bool {
        self.segments.get(&segment).is_some_and(|entry| entry.dead_since_ms.is_none() && entry.record == *record)
    }

    fn retained_of(&self, segment: SegmentId) -> impl Iterator<Item = &RetainedRecord> {
        self.retained.range((segment, Generation(0))..=(segment, Generation(u32::MAX))).map(|(_, retained)| retained)
    }

    /// A previous generation that is as expected.
    fn find_retained(
        &mut self,
        item: Item,
        expected: &RetainedRecord,
    ) -> Result<(SegmentId, &mut RetainedRecord), CatalogueError> {
        let Item::Generation(segment, generation) = item else { return Err(of_another_kind()) };
        let found = self.retained.get_mut(&(segment, generation)).filter(|found| *found == expected);
        found.map(|found| (segment, found)).ok_or(CatalogueError::Changed(segment))
    }

    /// A record of the segment is gone: aliases that no other one of it names are, too.
    fn forget_aliases(&mut self, segment: SegmentId) {
        let records = self.segments.get(&segment).map(|entry| &entry.record).into_iter();
        let records = records.chain(self.retained_of(segment).map(|retained| &retained.record));
        let named: BTreeSet<ShardKey> =
            records.flat_map(|record| record.located(segment).map(|(_, key, _)| key)).collect();
        self.aliases.retain(|key, owner| *owner != segment || named.contains(key));
    }

    fn check_owner(&self) -> Result<(), CatalogueError> {
        if self.is_owners { Ok(()) } else { Err(CatalogueError::NotOwner) }
    }

    fn check_fence(&self) -> Result<(), CatalogueError> {
        match self.fence {
            Some(term) if self.lease.as_ref().is_none_or(|lease| lease.term != term) => Err(CatalogueError::Fenced),
            _ => Ok(()),
        }
    }
}

#[derive(Debug)]
struct Entry {
    record: SegmentRecord,
    paths: Vec<String>,
    live_bytes: u64,
    /// Policies of its files; none: whatever it has is wanted.
    policies: Vec<PolicyRecord>,
    /// Since when no file refers to it.
    dead_since_ms: Option<u64>,
}

impl MemoryCatalogue {
    /// From now on every call fails, or works again.
    pub fn set_away(&self, is_away: bool) {
        self.state.lock().is_away = is_away;
    }

    /// How often it was asked for something, or told.
    pub fn call_count(&self) -> u64 {
        self.state.lock().call_count
    }

    /// How many segments it showed, in a survey or apart from sums.
    pub fn surveyed_count(&self) -> u64 {
        self.state.lock().surveyed_count
    }

    /// How often it was asked to make changes durable.
    pub fn flush_count(&self) -> u64 {
        self.state.lock().flush_count
    }

    /// From now on nothing becomes durable, or everything does again.
    pub fn set_cannot_flush(&self, cannot_flush: bool) {
        self.state.lock().cannot_flush = cannot_flush;
    }

    /// How often a job noted something of itself.
    pub fn job_change_count(&self) -> u64 {
        self.state.lock().job_change_count
    }

    fn reach(&self) -> Result<MutexGuard<'_, State>, CatalogueError> {
        let mut state = self.state.lock();
        state.call_count += 1;
        if state.is_away { Err(CatalogueError::Failed("it is away".into())) } else { Ok(state) }
    }

    /// Adds a node, or changes it.
    pub fn set_node(&self, node: NodeId, record: NodeRecord) {
        self.state.lock().nodes.insert(node, record);
    }

    /// As the commit of a file: the segment becomes visible, and belongs to `path`.
    pub fn commit(&self, segment: SegmentId, record: SegmentRecord, path: &str) {
        let live_bytes = record.geometry.data_bytes;
        let entry = Entry { record, paths: vec![path.into()], live_bytes, policies: Vec::new(), dead_since_ms: None };
        self.state.lock().segments.insert(segment, entry);
    }

    /// From now on it is that of the volume's owner, which may merge segments, or not.
    pub fn set_owner(&self, is_owners: bool) {
        self.state.lock().is_owners = is_owners;
    }

    /// Where the data of a segment is that may have been merged into another: of which segment, and from which byte on.
    pub fn located(&self, segment: SegmentId) -> (SegmentId, u64) {
        self.state.lock().merged.get(&segment).copied().unwrap_or((segment, 0))
    }

    /// From now on this is known of the volume's openings.
    pub fn set_openings(&self, openings: OpeningsRecord) {
        self.state.lock().openings = Some(openings);
    }

    /// Nodes for which [`Catalogue::renew_node`] was called.
    pub fn renewed(&self) -> Vec<NodeId> {
        self.state.lock().renewed.clone()
    }

    /// As overwriting parts of its files.
    pub fn set_live_bytes(&self, segment: SegmentId, live_bytes: u64) {
        if let Some(entry) = self.state.lock().segments.get_mut(&segment) {
            entry.live_bytes = live_bytes;
        }
    }

    /// As setting the policies of its files.
    pub fn set_policies(&self, segment: SegmentId, policies: &[PolicyRecord]) {
        if let Some(entry) = self.state.lock().segments.get_mut(&segment) {
            entry.policies = policies.to_vec();
        }
    }

    /// As deleting its files: the segment goes to the trash.
    pub fn kill(&self, segment: SegmentId, now_ms: u64) {
        if let Some(entry) = self.state.lock().segments.get_mut(&segment) {
            entry.paths.clear();
            entry.dead_since_ms = Some(now_ms);
        }
    }
}

fn of_another_kind() -> CatalogueError {
    CatalogueError::Failed("the item to remove is of another kind".into())
}

fn page<K: Ord + Clone, V, T>(
    map: &BTreeMap<K, V>,
    after: Option<K>,
    limit: usize,
    item: impl Fn(&K, &V) -> T,
) -> Vec<T> {
    let start = after.map_or(Bound::Unbounded, Bound::Excluded);
    map.range((start, Bound::Unbounded)).take(limit).map(|(key, value)| item(key, value)).collect()
}

impl Catalogue for MemoryCatalogue {
    fn nodes(&self) -> Result<Vec<(NodeId, NodeRecord)>, CatalogueError> {
        Ok(page(&self.reach()?.nodes, None, usize::MAX, |id, record| (*id, record.clone())))
    }

    fn forget_node(&self, node: NodeId) -> Result<(), CatalogueError> {
        let mut state = self.reach()?;
        let used = state.segments.values().any(|e| e.record.shards.iter().flatten().any(|shard| shard.node == node));
        if !used {
            state.nodes.remove(&node);
        }
        Ok(())
    }

    fn openings(&self) -> Result<OpeningsRecord, CatalogueError> {
        let all_over = OpeningsRecord { over: vec![(0, u32::MAX)], ..OpeningsRecord::default() };
        Ok(self.reach()?.openings.clone().unwrap_or(all_over))
    }

    fn segment(&self, segment: SegmentId) -> Result<Option<SegmentRecord>, CatalogueError> {
        Ok(self.reach()?.segments.get(&segment).map(|entry| entry.record.clone()))
    }

    fn survey(&self, after: Option<SegmentId>, limit: usize) -> Result<Vec<Surveyed>, CatalogueError> {
        let mut state = self.reach()?;
        let page = page(&state.segments, after, limit, |segment, entry| state.surveyed(segment, entry));
        state.surveyed_count += page.len() as u64;
        Ok(page)
    }

    fn sums(&self) -> Result<SumsRecord, CatalogueError> {
        let mut sums = SumsRecord::default();
        self.reach()?.segments.values().for_each(|entry| sums.add(&entry.record));
        Ok(sums)
    }

    fn summed(
        &self,
        apart_on: &BTreeSet<NodeId>,
        listed: Option<(NodeId, usize)>,
    ) -> Result<Option<Summed>, CatalogueError> {
        let sums = self.sums()?;
        let mut state = self.reach()?;
        let is_apart = |surveyed: &Surveyed| {
            surveyed.live_bytes == 0
                || state.damaged.contains_key(&surveyed.segment)
                || surveyed.record.shards.iter().any(Option::is_none)
                || surveyed.record.nodes().any(|node| apart_on.contains(&node))
        };
        let all = state.segments.iter().map(|(segment, entry)| state.surveyed(segment, entry));
        let (apart, others): (Vec<_>, Vec<_>) = all.partition(is_apart);
        let of_node = |(node, limit): (NodeId, usize)| {
            let others = others.iter().filter(move |surveyed| surveyed.record.nodes().any(|own| own == node));
            others.map(|surveyed| surveyed.segment).take(limit)
        };
        let listed = listed.into_iter().flat_map(of_node).collect();
        state.surveyed_count += apart.len() as u64;
        Ok(Some(Summed { sums, apart, listed }))
    }

    fn live_bytes(&self, segment: SegmentId) -> Result<u64, CatalogueError> {
        let state = self.reach()?;
        let live = state.segments.get(&segment).filter(|entry| entry.dead_since_ms.is_none());
        Ok(live.map_or(0, |entry| entry.live_bytes))
    }

    fn replace_segment(
        &self,
        segment: SegmentId,
        expected: &SegmentRecord,
        new: &SegmentRecord,
        succession: &Succession,
    ) -> Result<(), CatalogueError> {
        let mut state = self.reach()?;
        state.check_fence()?;
        let is_kept = |restored: &RetainedRecord| {
            !restored.is_going
                && state.retained.get(&(segment, restored.record.generation)).is_some_and(|found| found == restored)
        };
        let may_restore = succession.restored.as_ref().is_none_or(is_kept);
        match state.segments.get_mut(&segment) {
            Some(entry) if entry.record == *expected && may_restore => entry.record = new.clone(),
            _ => return Err(CatalogueError::Changed(segment)),
        }
        if let Some(restored) = &succession.restored {
            state.retained.remove(&(segment, restored.record.generation));
        }
        if let Some(retained) = &succession.retained {
            state.retained.insert((segment, retained.record.generation), retained.clone());
        }
        state.forget_aliases(segment);
        Ok(())
    }

    fn unreferenced(&self, after: Option<Item>, limit: usize) -> Result<Vec<Queued>, CatalogueError> {
        let state = self.reach()?;
        let dead = state
            .segments
            .iter()
            .filter_map(|(segment, entry)| Some(Queued::Segment { segment: *segment, since_ms: entry.dead_since_ms? }));
        let generations = state
            .retained
            .iter()
            .map(|((segment, _), retained)| Queued::Generation { segment: *segment, retained: retained.clone() });
        let rest = dead.chain(generations).filter(|entry| after.is_none_or(|after| entry.item() > after));
        Ok(rest.take(limit).collect())
    }

    fn retained_of(&self, segment: SegmentId) -> Result<Vec<RetainedRecord>, CatalogueError> {
        Ok(self.reach()?.retained_of(segment).cloned().collect())
    }

    fn mark_going(&self, expired: Expired, expected: &RetainedRecord) -> Result<RetainedRecord, CatalogueError> {
        let mut state = self.reach()?;
        state.check_fence()?;
        let (_, found) = state.find_retained(expired.item(), expected)?;
        found.is_going = true;
        Ok(found.clone())
    }

    fn drop_generation(&self, going: Removable, expected: &RetainedRecord) -> Result<(), CatalogueError> {
        let mut state = self.reach()?;
        state.check_fence()?;
        let (segment, _) = state.find_retained(going.item(), expected)?;
        state.retained.remove(&(segment, expected.record.generation));
        state.forget_aliases(segment);
        Ok(())
    }

    fn damaged(&self, after: Option<SegmentId>, limit: usize) -> Result<Vec<SegmentId>, CatalogueError> {
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        Ok(self.reach()?.damaged.range((start, Bound::Unbounded)).take(limit).map(|(id, _)| *id).collect())
    }

    fn note_damage(&self, segment: SegmentId, found: &[DamagedShard]) -> Result<(), CatalogueError> {
        let mut state = self.reach()?;
        let damage = state.damaged.entry(segment).or_default();
        damage.add(found.iter().cloned());
        damage.is_suspected |= found.is_empty();
        Ok(())
    }

    fn replace_damage(
        &self,
        segment: SegmentId,
        before: Option<&DamageRecord>,
        after: Option<&DamageRecord>,
    ) -> Result<bool, CatalogueError> {
        let mut state = self.reach()?;
        if state.damaged.get(&segment) != before {
            return Ok(false);
        }
        match after {
            Some(damage) => drop(state.damaged.insert(segment, damage.clone())),
            None => drop(state.damaged.remove(&segment)),
        }
        Ok(true)
    }

    fn damage(&self, segment: SegmentId) -> Result<Option<DamageRecord>, CatalogueError> {
        Ok(self.reach()?.damaged.get(&segment).cloned())
    }

    fn places(&self, segment: SegmentId, data: &[Range<u64>]) -> Result<Vec<(String, Range<u64>)>, CatalogueError> {
        // A file and its segment are the same here.
        let paths = self.paths(segment, usize::MAX)?;
        Ok(paths.iter().flat_map(|path| data.iter().map(move |range| (path.clone(), range.clone()))).collect())
    }

    fn flush(&self) -> Result<(), CatalogueError> {
        let mut state = self.reach()?;
        state.flush_count += 1;
        if state.cannot_flush { Err(CatalogueError::Failed("its disk is full".into())) } else { Ok(()) }
    }

    fn drop_segment(&self, dead: Removable, expected: &SegmentRecord) -> Result<(), CatalogueError> {
        let Item::Segment(segment) = dead.item() else { return Err(of_another_kind()) };
        let mut state = self.reach()?;
        state.check_fence()?;
        match state.segments.get(&segment) {
            Some(entry) if entry.record == *expected && entry.dead_since_ms.is_some() => {
                state.segments.remove(&segment);
                state.damaged.remove(&segment);
                state.forget_aliases(segment);
                Ok(())
            }
            _ => Err(CatalogueError::Changed(segment)),
        }
    }

    fn paths(&self, segment: SegmentId, limit: usize) -> Result<Vec<String>, CatalogueError> {
        let state = self.reach()?;
        Ok(state.segments.get(&segment).map_or(Vec::new(), |e| e.paths.iter().take(limit).cloned().collect()))
    }

    fn wanted_code(&self, segment: SegmentId, now_ms: u64) -> Result<Wanted, CatalogueError> {
        let state = self.reach()?;
        let living = state.segments.get(&segment).filter(|entry| entry.dead_since_ms.is_none());
        let Some(entry) = living else { return Ok(Wanted::AsIs) };
        let age_ms = now_ms.saturating_sub(segment.created_ms());
        let users: Vec<_> = entry.policies.iter().map(|policy| (policy.clone(), age_ms)).collect();
        Ok(wanted(&entry.record.code, &users))
    }

    fn has_age_rules(&self) -> Result<bool, CatalogueError> {
        let state = self.reach()?;
        Ok(state.segments.values().flat_map(|entry| &entry.policies).any(|policy| policy.later.is_some()))
    }

    fn check_owner(&self) -> Result<(), CatalogueError> {
        self.reach()?.check_owner()
    }

    fn may_merge(&self, _: SegmentId) -> Result<bool, CatalogueError> {
        Ok(true)
    }

    fn new_segment(&self, created_ms: u64) -> SegmentId {
        let mut state = self.state.lock();
        state.made_count += 1;
        // Far from the ids in tests.
        SegmentId::new(created_ms, (1 << 64) + state.made_count)
    }

    fn merge(
        &self,
        sources: &[(SegmentId, SegmentRecord)],
        merged: &(SegmentId, SegmentRecord),
    ) -> Result<(), CatalogueError> {
        let mut state = self.reach()?;
        state.check_owner()?;
        state.check_fence()?;
        if let Some((source, _)) = sources.iter().find(|(source, record)| !state.lives_as(*source, record)) {
            return Err(CatalogueError::Changed(*source));
        }
        let (segment, record) = merged.clone();
        let (mut paths, mut policies, mut live_bytes, mut before) = (Vec::new(), Vec::new(), 0, 0);
        for (source, source_record) in sources {
            for earlier in state.merged.values_mut().filter(|(merged, _)| merged == source) {
                *earlier = (segment, before + earlier.1);
            }
            state.merged.insert(*source, (segment, before));
            before += source_record.geometry.data_bytes;
            let Some(entry) = state.segments.get_mut(source) else { continue };
            live_bytes += entry.live_bytes;
            paths.append(&mut entry.paths);
            policies.append(&mut entry.policies);
            entry.dead_since_ms = Some(segment.created_ms());
        }
        let keys = record.located(segment).map(|(_, key, _)| key).filter(|key| key.segment != segment);
        state.aliases.extend(keys.map(|key| (key, segment)));
        state.segments.insert(segment, Entry { record, paths, live_bytes, policies, dead_since_ms: None });
        Ok(())
    }

    fn aliases(&self, segment: SegmentId) -> Result<Vec<(ShardKey, SegmentId)>, CatalogueError> {
        let state = self.reach()?;
        let of_segment = state.aliases.iter().filter(|(key, _)| key.segment == segment);
        Ok(of_segment.map(|(key, owner)| (*key, *owner)).collect())
    }

    fn job(&self, name: &str) -> Result<Option<Vec<u8>>, CatalogueError> {
        Ok(self.reach()?.jobs.get(name).cloned())
    }

    fn set_job(&self, name: &str, record: Option<&[u8]>) -> Result<(), CatalogueError> {
        let mut state = self.reach()?;
        state.job_change_count += 1;
        match record {
            Some(bytes) => state.jobs.insert(name.into(), bytes.to_vec()),
            None => state.jobs.remove(name),
        };
        Ok(())
    }

    fn replace_job(&self, name: &str, expected: Option<&[u8]>, new: &[u8]) -> Result<bool, CatalogueError> {
        let mut state = self.reach()?;
        let is_expected = state.jobs.get(name).map(Vec::as_slice) == expected;
        if is_expected {
            state.job_change_count += 1;
            state.jobs.insert(name.into(), new.to_vec());
        }
        Ok(is_expected)
    }

    fn lease(&self) -> Result<Option<LeaseRecord>, CatalogueError> {
        Ok(self.reach()?.lease.clone())
    }

    fn replace_lease(&self, expected: Option<&LeaseRecord>, new: &LeaseRecord) -> Result<bool, CatalogueError> {
        let mut state = self.reach()?;
        let is_expected = state.lease.as_ref() == expected;
        if is_expected {
            state.lease = Some(new.clone());
        }
        Ok(is_expected)
    }

    fn set_fence(&self, term: Option<u64>) {
        self.state.lock().fence = term;
    }

    fn renew_node(&self, node: NodeId) -> Result<Renewed, CatalogueError> {
        let mut state = self.reach()?;
        if let Some(record) = state.nodes.get_mut(&node) {
            record.state = NodeState::Lost;
        }
        state.renewed.push(node);
        Ok(Renewed::Anew)
    }

    fn restore_node(&self, node: NodeId) -> Result<(), CatalogueError> {
        if let Some(record) = self.reach()?.nodes.get_mut(&node).filter(|record| record.state == NodeState::Lost) {
            record.state = NodeState::Active;
        }
        Ok(())
    }
}
