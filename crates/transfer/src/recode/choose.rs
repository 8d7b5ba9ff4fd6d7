//! Which segments may become one, and which shard of each is kept as which shard of the merged segment. Pure.
//!
//! One shard is kept for each native symbol of a source; of copies one is enough. All that are kept must lie on unlike nodes, and no
//! more of them in one failure domain than of any segment of that code: that decides which segments may be merged.

use crate::algebra::Algebra;
use crate::shared_shards::Fit;
use crate::write::split::recut;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use weft_cluster::View;
use weft_codes::Shape;
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

/// Which shards of `sources`, the first of a segment to be, are kept, at most `domain_shards` in one failure domain; `None`: they lie too
/// close together, or lack a shard. `domain_of`: that of a node which may keep its shard.
pub(crate) fn kept<'d>(
    fit: &Fit,
    sources: &[&SegmentRecord],
    domain_shards: usize,
    domain_of: impl Fn(NodeId) -> Option<&'d str>,
) -> Option<Kept> {
    let place = |&(source, index): &(usize, usize)| {
        let location = sources.get(source)?.shards.get(index)?.as_ref()?;
        Some((Place { domain: domain_of(location.node)?, node: location.node }, (source, index)))
    };
    let is_of_these = |place: &&Vec<(usize, usize)>| place.iter().any(|(source, _)| *source < sources.len());
    let places = fit.places.iter().enumerate().filter(|(_, place)| is_of_these(place));
    let (wanted, choices): (Vec<usize>, Vec<Vec<_>>) =
        places.map(|(at, shards)| (at, shards.iter().filter_map(place).collect())).unzip();
    let chosen = apart(&choices, domain_shards)?;
    let mut kept = vec![None; fit.places.len()];
    wanted.into_iter().zip(chosen).for_each(|(place, shard)| kept[place] = Some(shard));
    Some(kept)
}

/// A node, and what it fails together with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place<'d> {
    domain: &'d str,
    node: NodeId,
}

/// One of the choices for each, no two on one node and at most `domain_shards` in one domain; `None`: there are no such. A bipartite
/// matching by augmenting paths (Kuhn 1955), where a domain is as many as it may hold.
fn apart<T: Copy>(choices: &[Vec<(Place<'_>, T)>], domain_shards: usize) -> Option<Vec<T>> {
    let mut matching = Matching { choices, domain_shards, taken: BTreeMap::new(), chosen: vec![None; choices.len()] };
    for who in 0..choices.len() {
        if !matching.settle(who, &mut Seen::default()) {
            return None;
        }
    }
    matching.chosen.into_iter().collect()
}

struct Matching<'c, 'd, T> {
    choices: &'c [Vec<(Place<'d>, T)>],
    domain_shards: usize,
    /// Who has which place.
    taken: BTreeMap<Place<'d>, usize>,
    chosen: Vec<Option<T>>,
}

/// What was tried for one.
#[derive(Default)]
struct Seen<'d> {
    nodes: Vec<NodeId>,
    domains: Vec<&'d str>,
}

impl<'d, T: Copy> Matching<'_, 'd, T> {
    /// Finds a place for `who`, if need be by having others take another.
    fn settle(&mut self, who: usize, seen: &mut Seen<'d>) -> bool {
        let choices = self.choices;
        for (place, choice) in &choices[who] {
            if seen.nodes.contains(&place.node) {
                continue;
            }
            seen.nodes.push(place.node);
            if self.make_room(*place, seen) {
                self.taken.insert(*place, who);
                self.chosen[who] = Some(*choice);
                return true;
            }
        }
        false
    }

    /// Can this place be had? Then its holder has another, or one of its domain has, whose place is free now.
    fn make_room(&mut self, place: Place<'d>, seen: &mut Seen<'d>) -> bool {
        if let Some(holder) = self.taken.get(&place).copied() {
            return self.settle(holder, seen);
        }
        let of_domain = self.taken.iter().filter(|(taken, _)| taken.domain == place.domain);
        let holders: Vec<(Place<'d>, usize)> = of_domain.map(|(taken, holder)| (*taken, *holder)).collect();
        if holders.len() < self.domain_shards {
            return true;
        }
        if seen.domains.contains(&place.domain) {
            return false;
        }
        seen.domains.push(place.domain);
        for (taken, holder) in holders {
            if !seen.nodes.contains(&taken.node) {
                seen.nodes.push(taken.node);
                if self.settle(holder, seen) {
                    self.taken.remove(&taken);
                    return true;
                }
            }
        }
        false
    }
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
        let fit = fit(&self.algebra, &self.view, &record, code);
        let Some((fit, domain_shards)) = fit else { return vec![vec![segment]] };
        let Geometry { data_bytes, native_count, alpha, symbol_bytes, alignment_bytes, source_count } = record.geometry;
        // At most 64 MiB.
        let lengths = vec![data_bytes as u32, native_count, alpha, symbol_bytes, alignment_bytes, source_count];
        let kind = (record.code.clone(), lengths, code.to_owned());
        self.came.push_back((segment, kind.clone()));
        let waiting = self.waiting.entry(kind.clone()).or_default();
        waiting.push((segment, record));
        let mut settled = Vec::new();
        if let Some(group) = group(&fit, waiting, domain_shards, domain_of(&self.view, self.now_ms)) {
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

/// How segments that lie like this one fit into `code`, and how many of its shards one failure domain may keep; `None`: they do not fit,
/// or would be too long.
pub(crate) fn fit(algebra: &Algebra, view: &View, record: &SegmentRecord, code: &str) -> Option<(Arc<Fit>, usize)> {
    let (old, new) = (algebra.load_for(record).ok()?, algebra.load(code).ok()?);
    // Where groups are to lie together, shards that stay where they are would not.
    if view.rule.locality_depth > 0 && !new.shape().groups.is_empty() {
        return None;
    }
    let fit = algebra.fit(&old, &new)?;
    recut(&record.geometry, new.shape(), fit.source_count as u32).map(|_| (fit, domain_shards(view, new.shape())))
}

/// Shards of a segment that one failure domain may have: no more than an even spread needs, or care would move them apart again.
fn domain_shards(view: &View, shape: &Shape) -> usize {
    view.rule.unit_shards_of(shape.tolerance).min(view.even_load(shape.n))
}

/// The last of them, with the first others that it may be merged with.
fn group<'d>(
    fit: &Fit,
    waiting: &[(SegmentId, SegmentRecord)],
    domain_shards: usize,
    domain_of: impl Fn(NodeId) -> Option<&'d str>,
) -> Option<Vec<SegmentId>> {
    let (last, others) = waiting.split_last()?;
    let mut group = vec![last];
    let may_be = |group: &[&(SegmentId, SegmentRecord)]| {
        let records: Vec<&SegmentRecord> = group.iter().map(|(_, record)| record).collect();
        kept(fit, &records, domain_shards, &domain_of).is_some()
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
