//! Rebuilding lost shards: plan the cheapest reads, fetch, compute, check against what the record says, put, and give a new
//! record. A batch of stripes at a time, so that beside the rebuilt shards themselves little is held.
//!
//! A survivor whose frames fail their checks is an erasure like any other, and is reported; nothing is ever computed from
//! unchecked bytes. But where nodes combine, each for itself (`rebuild/combined.rs`) or in a chain (`rebuild/chained.rs`), what is
//! computed is checked instead.

mod attempt;
mod chained;
mod combined;
mod copied;
mod helpers;
pub(crate) mod job;

use crate::arrived::Arrived;
use crate::error::{ReadError, RebuildError};
use crate::in_flight::Call;
use crate::read::decode;
use crate::read::fetch::{Download, Sources};
use crate::read::held::Held;
use crate::read::locate::BATCH_DATA_BYTES;
use crate::read_plan::{Computed, ReadPlan, ShardOffer, ShardOffers, compute, merged};
use crate::salvage;
use crate::scheduler::Plans;
use crate::suspect::{Failures, ShardFailure, Suspect};
use crate::transfer::{Inner, Transfer};
use crate::write::encode::Object;
use crate::write::place::{Wanted as WantedPlaces, held_by, refresh_space};
use crate::write::put::store;
use attempt::Attempt;
use job::{Job, compare, job, new_shards};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use weft_codes::Wanted;
use weft_env::planted::{Planted, has_planted};
use weft_format::geometry::Stripe;
use weft_format::records::{SegmentRecord, ShardLocation};
use weft_format::shard::{ShardBuilder, object_bytes};
use weft_format::{NodeId, SegmentId, ShardIndex};

/// What a rebuild leaves behind: commit `record`, and only then remove what it replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rebuilt {
    /// The record with the new locations, one generation later. The rebuilt shards have names that no other attempt uses.
    pub record: SegmentRecord,
    /// Bytes that nodes sent, to this engine or, in a chain, to each other.
    pub bytes_read: u64,
    /// Bytes that nodes read to send those; more where they combine.
    pub bytes_read_by_nodes: u64,
    /// Bytes stored, headers and checksums included.
    pub bytes_written: u64,
    /// Where the rebuilt shards are.
    pub placed: Vec<(ShardIndex, NodeId)>,
    /// Shards that were rebuilt and that no node took; the record has them where they were.
    pub not_stored: Failures,
    /// Shards taken for survivors that turned out lost, damaged or out of reach.
    pub also_lost: Vec<Suspect>,
}

impl Transfer {
    /// Rebuilds the shards `lost` from the others, checks them, and stores them on nodes of free domains under new
    /// names. Overwrites nothing, removes nothing: several may be under way, and one of their records can be committed.
    ///
    /// # Errors
    /// [`RebuildError`]; the segment is as it was.
    pub fn rebuild<'a>(
        &'a self,
        segment: SegmentId,
        record: &'a SegmentRecord,
        lost: &'a [ShardIndex],
    ) -> Call<'a, Result<Rebuilt, RebuildError>> {
        self.rebuild_elsewhere(segment, record, lost, BTreeSet::new())
    }

    /// As [`Self::rebuild`], on other nodes than those `avoided`.
    fn rebuild_elsewhere<'a>(
        &'a self,
        segment: SegmentId,
        record: &'a SegmentRecord,
        lost: &'a [ShardIndex],
        avoided: BTreeSet<NodeId>,
    ) -> Call<'a, Result<Rebuilt, RebuildError>> {
        Box::pin(async move {
            let job = job(&self.inner, segment, record, lost)?;
            let payload_bytes = job.geometry.payload_bytes();
            let window_bytes = self.inner.settings.profile.window_bytes.max(BATCH_DATA_BYTES);
            let batch_bytes = window_bytes.min(job.geometry.data_bytes) * 2;
            let written_bytes = object_bytes(payload_bytes) * job.lost.len() as u64;
            let _admitted = self.inner.admit(record.nodes(), written_bytes + batch_bytes, written_bytes).await;
            let mut effort = chained::attempt(&self.inner, &job).await?;
            if effort.objects.is_none() {
                effort = combined::attempt(&self.inner, &job, effort).await?;
            }
            let objects = match effort.objects.take() {
                Some(objects) => objects,
                None => {
                    let objects = match recompute_plainly(&self.inner, &job, &mut effort).await {
                        Err(RebuildError::Read(ReadError::Unrecoverable { failures, .. })) => {
                            piece_together(&self.inner, &job, &failures, &mut effort).await?
                        }
                        outcome => outcome?,
                    };
                    effort.suspects.extend(combined::faulty_helpers(&self.inner, &job, &effort.mismatched).await);
                    if let Some(mismatched) = effort.mismatched_sum.take() {
                        effort.suspects.extend(chained::faulty_helper(&self.inner, &job, &mismatched, &objects).await);
                    }
                    objects
                }
            };
            self.inner.charge(effort.bytes_received);
            let stored = put_all(&self.inner, &job, &objects, avoided, false).await?;
            Ok(finish(&job, effort, &objects, stored))
        })
    }
}

/// Computes the lost shards from checked frames of survivors, and checks them.
async fn recompute_plainly(inner: &Inner, job: &Job<'_>, effort: &mut Attempt) -> Result<Vec<Object>, RebuildError> {
    let mut builders = new_shards(inner, job)?;
    let batches: Vec<Range<u32>> = job.batches(BATCH_DATA_BYTES).collect();
    let sets = batches.iter().map(|stripes| job.shape(stripes)).collect();
    let sources = vec![Sources::new(inner, job.segment, job.record, job.code.shape(), &job.lost)];
    // Nobody waits for it: it reads what the code's repair reads, and asks others only where a node is silent.
    let mut download = Download::new(inner, sources, sets, RebuildPlans { job, batches: &batches }, 0);
    while let Some((set, plan)) = download.next().await? {
        for computed in &plan.computed {
            fill(job, download.held(set), computed, &mut builders);
        }
        bracket(job, download.held(set), &plan, &builders)?;
        download.delivered(set);
        // Between batches others may run: a batch is a millisecond of computing.
        tokio::task::yield_now().await;
    }
    let objects: Vec<Object> = builders.into_iter().map(ShardBuilder::finish).collect();
    compare(job, &objects)?;
    let report = download.finish().remove(0);
    effort.bytes_read += report.bytes_fetched;
    effort.bytes_received += report.bytes_fetched;
    effort.bytes_read_by_nodes += report.bytes_fetched;
    let known: Vec<ShardIndex> = effort.suspects.iter().map(|suspect| suspect.index).collect();
    effort.suspects.extend(report.suspects.into_iter().filter(|suspect| !known.contains(&suspect.index)));
    Ok(objects)
}

/// Computes the lost shards, stripe by stripe, from all that is sound of the survivors and of themselves, and checks them.
async fn piece_together(
    inner: &Inner,
    job: &Job<'_>,
    failures: &Failures,
    effort: &mut Attempt,
) -> Result<Vec<Object>, RebuildError> {
    let salvaged = salvage::rebuild(inner, job, new_shards(inner, job)?, failures).await?;
    compare(job, &salvaged.objects)?;
    effort.bytes_read += salvaged.bytes_fetched;
    effort.bytes_received += salvaged.bytes_fetched;
    effort.bytes_read_by_nodes += salvaged.bytes_fetched;
    let of_others = salvaged.suspects.into_iter().filter(|suspect| !job.lost.contains(&suspect.index.as_usize()));
    let found: Vec<Suspect> = of_others.collect();
    effort.suspects.retain(|known| found.iter().all(|suspect| suspect.index != known.index));
    effort.suspects.extend(found);
    Ok(salvaged.objects)
}

/// The batches of a rebuild, to be planned.
struct RebuildPlans<'a> {
    job: &'a Job<'a>,
    batches: &'a [Range<u32>],
}

impl Plans for RebuildPlans<'_> {
    fn plan(&self, set: usize, offers: &ShardOffers, arrived: &Arrived) -> Option<ReadPlan> {
        plan_batch(self.job, self.batches[set].clone(), offers, arrived)
    }
}

fn plan_batch(job: &Job<'_>, stripes: Range<u32>, offers: &ShardOffers, arrived: &Arrived) -> Option<ReadPlan> {
    let mut plan = ReadPlan::default();
    let wanted = Wanted::Shards(job.lost.clone());
    for index in stripes {
        let stripe = job.geometry.stripe(index);
        let columns = 0..stripe.symbol_bytes;
        let computed = compute(&job.code, &job.geometry, stripe, columns, &wanted, offers, arrived)?;
        plan.gets.extend(computed.reads(&job.geometry));
        plan.computed.push(computed);
    }
    plan.gets = merged(std::mem::take(&mut plan.gets), offers, arrived);
    Some(plan)
}

/// Writes one stripe's cells into the new shards.
fn fill(job: &Job<'_>, held: &Held, computed: &Computed, builders: &mut [ShardBuilder]) {
    let alpha = job.geometry.alpha as usize;
    decode::run(
        &job.geometry,
        |shard, at| held.slice(shard, at),
        computed,
        |output, column, bytes| {
            let symbol = job.geometry.symbol_range(&computed.stripe, (output % alpha) as u32);
            let offset = symbol.start + u64::from(column);
            builders[output / alpha].write(offset, bytes).expect("a symbol lies within its shard");
        },
    );
}

/// Where the record has no digest to compare with: computes one of the shards just read from another subset, which the new
/// shards are part of, and compares. Costs no reads; done where the code has such a subset at hand.
fn bracket(job: &Job<'_>, held: &Held, plan: &ReadPlan, builders: &[ShardBuilder]) -> Result<(), RebuildError> {
    let unknown = job.lost.iter().find(|shard| job.record.shards[**shard].is_none());
    let Some(unknown) = unknown else { return Ok(()) };
    for computed in &plan.computed {
        let Some(check) = bracketing(job, computed) else { continue };
        let probe = check.probe;
        let slice = |shard: usize, at: u64| match job.lost.iter().position(|lost| *lost == shard) {
            Some(position) => {
                let frame_bytes = weft_format::shard::FRAME_PAYLOAD_BYTES as u64;
                &builders[position].frame((at / frame_bytes) as usize)[(at % frame_bytes) as usize..]
            }
            None => held.slice(shard, at),
        };
        let mut same = true;
        decode::run(&job.geometry, slice, &check.computed, |output, column, bytes| {
            let symbol = job.geometry.symbol_range(&check.computed.stripe, output as u32);
            same &= held.equals(probe, symbol.start + u64::from(column), bytes);
        });
        if !same {
            return Err(job.mismatch(*unknown, "the shards it was rebuilt from, computed back from it"));
        }
    }
    Ok(())
}

/// A shard that was read whole, to be computed from others at hand.
struct Bracketing {
    probe: usize,
    computed: Computed,
}

fn bracketing(job: &Job<'_>, computed: &Computed) -> Option<Bracketing> {
    let alpha = job.geometry.alpha as usize;
    let whole = |shard: usize| computed.recipe.reads.iter().filter(|(read, _)| *read == shard).count() == alpha;
    let read: Vec<usize> = (0..job.record.shards.len()).filter(|shard| whole(*shard)).collect();
    let offer = |shard: usize, probe: usize| {
        let at_hand = shard != probe && (read.contains(&shard) || job.lost.contains(&shard));
        at_hand.then_some(ShardOffer { request_price: 1, kib_price: 1, reluctance: 0 })
    };
    let uses_new = |check: &Computed| check.recipe.reads.iter().any(|(shard, _)| job.lost.contains(shard));
    let checks = read.iter().filter_map(|probe| {
        let offers = ShardOffers::plain((0..job.record.shards.len()).map(|shard| offer(shard, *probe)).collect());
        let (stripe, columns): (Stripe, _) = (computed.stripe.clone(), computed.columns.clone());
        let nothing = Arrived::nothing(job.record.shards.len(), job.geometry.payload_bytes());
        let wanted = Wanted::Shards(vec![*probe]);
        let check = compute(&job.code, &job.geometry, stripe, columns, &wanted, &offers, &nothing)?;
        Some(Bracketing { probe: *probe, computed: check })
    });
    checks.into_iter().find(|check| uses_new(&check.computed))
}

/// Stores each object on a node that is not `avoided`, trying others where one fails. Where `moves` is set, they are sound where they
/// are, and go only to domains that have no more than they need to.
async fn put_all(
    inner: &Arc<Inner>,
    job: &Job<'_>,
    objects: &[Object],
    avoided: BTreeSet<NodeId>,
    moves: bool,
) -> Result<(Vec<Option<NodeId>>, Failures), RebuildError> {
    refresh_space(inner);
    let mut stored: Vec<Option<NodeId>> = vec![None; objects.len()];
    let mut failures = Failures::default();
    // The others keep their nodes and domains, even those that are out of reach now: unknown is not absent.
    let others = job.record.shards.iter().enumerate();
    let other = |(shard, location): (usize, &Option<ShardLocation>)| {
        location.as_ref().filter(|_| !job.lost.contains(&shard)).map(|location| location.node)
    };
    let mut nodes: Vec<Option<NodeId>> = others.map(other).collect();
    let groups: Vec<Vec<usize>> = job.code.shape().groups.iter().map(|group| group.shards.clone()).collect();
    let mut failed = avoided;
    loop {
        let waiting: Vec<usize> = (0..objects.len()).filter(|position| stored[*position].is_none()).collect();
        if waiting.is_empty() {
            break;
        }
        let view = inner.fleet.view();
        let held = held_by(&view, nodes.iter().flatten().copied());
        let excluded: BTreeSet<NodeId> = nodes.iter().flatten().chain(&failed).copied().collect();
        let (held, excluded, nodes_kept) = match has_planted(Planted::RepairLowersRedundancy) {
            true => (BTreeMap::new(), failed.clone(), vec![None; nodes.len()]),
            false => (held, excluded, nodes.clone()),
        };
        let allowed = view.rule.unit_shards_of(job.code.shape().tolerance);
        let unit_shards = if moves { allowed.min(view.even_load(nodes.len())) } else { allowed };
        let wanted = WantedPlaces {
            segment: job.segment,
            shard_bytes: object_bytes(job.geometry.payload_bytes()),
            excluded_nodes: &excluded,
            held: &held,
            unit_shards,
            now_ms: inner.fleet.now_ms(),
        };
        let lost: Vec<usize> = waiting.iter().map(|position| job.lost[*position]).collect();
        let home = |shard: &usize| job.record.shards[*shard].as_ref().map(|location| location.node);
        let homes: Vec<Option<NodeId>> = lost.iter().map(home).collect();
        let places = wanted.choose_lost(&view, &groups, &nodes_kept, &lost, &homes);
        if places.iter().all(Option::is_none) {
            if failures.0.is_empty() && stored.iter().all(Option::is_none) {
                let source = wanted.choose(&view, waiting.len()).expect_err("fewer could not be placed either");
                return Err(RebuildError::Placement { segment: job.segment, source });
            }
            break;
        }
        let mut puts = crate::in_flight::InFlight::new();
        let placed = waiting.into_iter().zip(places).filter_map(|(position, place)| Some((position, place?)));
        for (position, node) in placed {
            let key = job.key(job.lost[position]);
            puts.push((position, node), store(inner.clone(), node, key, objects[position].0.clone()));
        }
        while let Some(((position, node), outcome)) = puts.next().await {
            match outcome {
                Ok(()) => {
                    stored[position] = Some(node);
                    nodes[job.lost[position]] = Some(node);
                }
                Err(error) => {
                    failures.0.push(ShardFailure::of_call(job.lost[position], node, error));
                    failed.insert(node);
                }
            }
        }
    }
    if !objects.is_empty() && stored.iter().all(Option::is_none) {
        return Err(RebuildError::Put { segment: job.segment, failures });
    }
    Ok((stored, failures))
}

fn finish(
    job: &Job<'_>,
    effort: Attempt,
    objects: &[Object],
    (stored, failures): (Vec<Option<NodeId>>, Failures),
) -> Rebuilt {
    let mut record = job.record.clone();
    record.generation = job.next;
    let mut placed = Vec::new();
    let mut bytes_written = 0;
    for ((shard, (object, digest)), node) in job.lost.iter().zip(objects).zip(stored) {
        let Some(node) = node else { continue };
        record.shards[*shard] = Some(ShardLocation { node, generation: job.attempt, digest: *digest, origin: None });
        placed.push((ShardIndex(*shard as u16), node));
        bytes_written += object.len() as u64;
    }
    let is_placed = |index: &ShardIndex| placed.iter().any(|(placed, _)| placed == index);
    let not_stored = Failures(failures.0.into_iter().filter(|failure| !is_placed(&failure.index)).collect());
    let Attempt { bytes_read, bytes_read_by_nodes, suspects: also_lost, .. } = effort;
    Rebuilt { record, bytes_read, bytes_read_by_nodes, bytes_written, placed, not_stored, also_lost }
}
