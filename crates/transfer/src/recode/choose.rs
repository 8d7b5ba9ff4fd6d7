//! Which segments may become one, and which shard of each is kept as which shard of the merged segment. Pure.
//!
//! One shard is kept for each native symbol of a source; of copies one is enough. All that are kept must lie in unlike failure
//! domains, as the shards of any segment: that decides which segments may be merged.

use crate::algebra::Algebra;
use crate::shared_shards::Fit;
use crate::write::split::recut;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use weft_cluster::View;
use weft_format::geometry::Geometry;
use weft_format::records::SegmentRecord;
use weft_format::{NodeId, SegmentId};

/// Segments of one kind that wait for others at one time; of those that find none the oldest is left to be recoded by itself. Enough
/// that shards of `rs:4+2` on twelve nodes find others on the remaining eight (one pair in seven) nearly always.
const WAITING_MAX: usize = 64;

/// So many segments may come by while one waits: bounds what is held where there are many kinds, as where few have one length.
const COME_BY_MAX: usize = 1024;

/// By shard of the wider code: which shard of which source is kept as it; `None`: it is to be computed.
pub(crate) type Kept = Vec<Option<(usize, usize)>>;

/// Which shards of `sources`, the first of a segment to be, are kept; `None`: they share failure domains, or lack a shard.
/// `domain_of`: that of a node which may keep its shard.
pub(crate) fn kept<'d>(
    fit: &Fit,
    sources: &[&SegmentRecord],
    domain_of: impl Fn(NodeId) -> Option<&'d str>,
) -> Option<Kept> {
    let domain = |&(source, index): &(usize, usize)| {
        let location = sources.get(source)?.shards.get(index)?.as_ref()?;
        Some((domain_of(location.node)?, (source, index)))
    };
    let is_of_these = |place: &&Vec<(usize, usize)>| place.iter().any(|(source, _)| *source < sources.len());
    let places = fit.places.iter().enumerate().filter(|(_, place)| is_of_these(place));
    let (wanted, choices): (Vec<usize>, Vec<Vec<_>>) =
        places.map(|(place, shards)| (place, shards.iter().filter_map(domain).collect())).unzip();
    let chosen = unlike(&choices)?;
    let mut kept = vec![None; fit.places.len()];
    wanted.into_iter().zip(chosen).for_each(|(place, shard)| kept[place] = Some(shard));
    Some(kept)
}

/// One of the choices for each, no two of one kind; `None`: there are no such. A bipartite matching by augmenting paths (Kuhn 1955).
fn unlike<K: Ord + Copy, T: Copy>(choices: &[Vec<(K, T)>]) -> Option<Vec<T>> {
    let mut taken: BTreeMap<K, usize> = BTreeMap::new();
    let mut chosen: Vec<Option<T>> = vec![None; choices.len()];
    for who in 0..choices.len() {
        let mut seen = Vec::new();
        if !settle(who, choices, &mut taken, &mut chosen, &mut seen) {
            return None;
        }
    }
    chosen.into_iter().collect()
}

/// Finds one for `who`, if need be by having others take another.
fn settle<K: Ord + Copy, T: Copy>(
    who: usize,
    choices: &[Vec<(K, T)>],
    taken: &mut BTreeMap<K, usize>,
    chosen: &mut [Option<T>],
    seen: &mut Vec<K>,
) -> bool {
    for (kind, choice) in &choices[who] {
        if seen.contains(kind) {
            continue;
        }
        seen.push(*kind);
        let holder = taken.get(kind).copied();
        if holder.is_none_or(|holder| settle(holder, choices, taken, chosen, seen)) {
            taken.insert(*kind, who);
            chosen[who] = Some(*choice);
            return true;
        }
    }
    false
}

/// The nodes that may keep a shard, by domain: those that answer and are to stay.
pub(crate) fn domain_of<'v>(view: &'v View, now_ms: u64) -> impl Fn(NodeId) -> Option<&'v str> {
    move |node| {
        let member = view.members.get(&node)?;
        (!member.state.is_leaving() && !member.health.is_suspected(now_ms)).then_some(member.domain.as_str())
    }
}

/// Segments alike enough to be merged: code, geometry, and the code that they are to have.
type Kind = (String, Vec<u32>, String);

/// Finds segments to be merged among those that come by.
pub struct MergeCandidates {
    algebra: Arc<Algebra>,
    view: Arc<View>,
    now_ms: u64,
    waiting: BTreeMap<Kind, Vec<(SegmentId, SegmentRecord)>>,
    /// The latest that came, those that wait among them.
    came: VecDeque<(SegmentId, Kind)>,
}

impl MergeCandidates {
    pub(crate) fn new(algebra: Arc<Algebra>, view: Arc<View>, now_ms: u64) -> Self {
        Self { algebra, view, now_ms, waiting: BTreeMap::new(), came: VecDeque::new() }
    }

    /// Takes in a segment that is to have `code`; gives back what is settled by it: segments to be merged, in their order, and
    /// such as stay alone.
    pub fn offer(&mut self, segment: SegmentId, record: SegmentRecord, code: &str) -> Vec<Vec<SegmentId>> {
        let Some(fit) = fit(&self.algebra, &self.view, &record, code) else { return vec![vec![segment]] };
        let Geometry { data_bytes, native_count, alpha, symbol_bytes, alignment_bytes, source_count } = record.geometry;
        // At most 64 MiB.
        let lengths = vec![data_bytes as u32, native_count, alpha, symbol_bytes, alignment_bytes, source_count];
        let kind = (record.code.clone(), lengths, code.to_owned());
        self.came.push_back((segment, kind.clone()));
        let waiting = self.waiting.entry(kind.clone()).or_default();
        waiting.push((segment, record));
        let mut settled = Vec::new();
        if let Some(group) = group(&fit, waiting, domain_of(&self.view, self.now_ms)) {
            waiting.retain(|(segment, _)| !group.contains(segment));
            settled.push(group);
        } else if waiting.len() > WAITING_MAX {
            settled.extend(waiting.drain(..1).map(|(segment, _)| vec![segment]));
        }
        if waiting.is_empty() {
            self.waiting.remove(&kind);
        }
        if self.came.len() > COME_BY_MAX
            && let Some((oldest, kind)) = self.came.pop_front()
        {
            settled.extend(self.let_go(oldest, &kind).map(|segment| vec![segment]));
        }
        settled
    }

    /// Has a segment wait no longer; `None`: it does not.
    fn let_go(&mut self, segment: SegmentId, kind: &Kind) -> Option<SegmentId> {
        let waiting = self.waiting.get_mut(kind)?;
        let at = waiting.iter().position(|(other, _)| *other == segment)?;
        waiting.remove(at);
        if waiting.is_empty() {
            self.waiting.remove(kind);
        }
        Some(segment)
    }

    /// Those that found no others.
    pub fn rest(self) -> impl Iterator<Item = SegmentId> {
        self.waiting.into_values().flatten().map(|(segment, _)| segment)
    }
}

/// How segments that lie like this one fit into `code`; `None`: they do not, or would be too long.
pub(crate) fn fit(algebra: &Algebra, view: &View, record: &SegmentRecord, code: &str) -> Option<Arc<Fit>> {
    let (old, new) = (algebra.load_for(record).ok()?, algebra.load(code).ok()?);
    // Where groups are to lie together, shards that stay where they are would not.
    if view.rule.locality_depth > 0 && !new.shape().groups.is_empty() {
        return None;
    }
    let fit = algebra.fit(&old, &new)?;
    recut(&record.geometry, new.shape(), fit.source_count as u32).map(|_| fit)
}

/// The last of them, with the first others that it may be merged with.
fn group<'d>(
    fit: &Fit,
    waiting: &[(SegmentId, SegmentRecord)],
    domain_of: impl Fn(NodeId) -> Option<&'d str>,
) -> Option<Vec<SegmentId>> {
    let (last, others) = waiting.split_last()?;
    let mut group = vec![last];
    let may_be = |group: &[&(SegmentId, SegmentRecord)]| {
        let records: Vec<&SegmentRecord> = group.iter().map(|(_, record)| record).collect();
        kept(fit, &records, &domain_of).is_some()
    };
    if !may_be(&group) {
        return None;
    }
    for other in others {
        if group.len() == fit.source_count {
            break;
        }
        let mut longer = [&group[..], &[other]].concat();
        longer.sort_by_key(|(segment, _)| *segment);
        if may_be(&longer) {
            group = longer;
        }
    }
    (group.len() == fit.source_count).then(|| group.into_iter().map(|(segment, _)| *segment).collect())
}

#[cfg(test)]
#[path = "choose_tests.rs"]
mod tests;
