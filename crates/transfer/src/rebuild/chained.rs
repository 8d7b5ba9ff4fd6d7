//! Rebuilding one lost shard through a chain of its helpers, where they can ask each other: what comes here is one shard, and
//! not `k` of them. Li et al., Repair pipelining for erasure-coded storage, USENIX ATC 2017.
//!
//! For codes whose helpers send whole cells; where they can send less (`rebuild/combined.rs`) a chain would send more. Sums carry
//! no checks, so this too is done only where the record has the digest of what is rebuilt. Whatever stands in the way, the
//! other ways are left; then the helper that sent a wrong sum is looked for ([`faulty_helper`]).

use super::attempt::{Attempt, MismatchedSum};
use super::helpers::{Helper, combination, helpers, named, recipe, right_answer, sends_less};
use super::job::{Job, compare, new_shards};
use crate::algebra::{CombinedRecipe, Contribution};
use crate::error::RebuildError;
use crate::in_flight::{Call, InFlight};
use crate::suspect::Suspect;
use crate::transfer::Inner;
use crate::write::encode::Object;
use bytes::Bytes;
use std::ops::Range;
use std::time::Duration;
use weft_codes::Program;
use weft_format::geometry::Geometry;
use weft_format::shard::{FRAME_PAYLOAD_BYTES, ShardBuilder, frames_range};
use weft_nodes::combine::Cost;
use weft_nodes::{Link, NodeError, NodeErrorKind};

/// Bytes of the lost shard asked for at a time: short, so that each helper works on another piece, and long beside a round trip.
const PIECE_BYTES: u64 = 512 << 10;

/// Pieces under way together: one for each link of a usual chain, and some.
const PIECES_MAX: usize = 8;

/// Of the time that an answer may take, what is left for the answer that it waits for, in percent.
const TIMEOUT_LEFT_PERCENT: u32 = 90;

/// One helper of a chain, and what it is to compute of its shard.
struct Hop<'a> {
    helper: &'a Helper,
    part: &'a Contribution,
    program: Program,
}

/// A sum, as it comes from the first helper.
type Sum = Result<Bytes, NodeError>;

/// Tries a chain, if there can be one.
pub(super) async fn attempt(inner: &Inner, job: &Job<'_>) -> Result<Attempt, RebuildError> {
    let mut attempt = Attempt::default();
    let [lost] = job.lost[..] else { return Ok(attempt) };
    if job.record.shards[lost].is_none() || !inner.chains.may_be_tried(inner.fleet.now_ms()) {
        return Ok(attempt);
    }
    let helpers = helpers(inner, job);
    let Some(recipe) = recipe(job, &helpers).filter(|recipe| !sends_less(job, recipe, &helpers)) else {
        return Ok(attempt);
    };
    let Some(hops) = chain(inner, job, &recipe, &helpers) else { return Ok(attempt) };
    let (why, mismatched) = match recompute(inner, job, &hops, &mut attempt).await? {
        Ok(objects) => match compare(job, &objects) {
            Ok(()) => {
                attempt.objects = Some(objects);
                return Ok(attempt);
            }
            Err(error) => (error.to_string(), Some(objects)),
        },
        Err(error) => (error.to_string(), None),
    };
    attempt.mismatched_sum = mismatched.map(|objects| MismatchedSum { objects, recipe, helpers });
    tracing::debug!("a chain of helpers broke: {why}");
    inner.chains.rest(inner.fleet.now_ms());
    Ok(attempt)
}

/// The helper whose sum is wrong though the sum of those behind it is right. For the first stripes that came out wrong, each helper is
/// asked again, together with those behind it. `right` was rebuilt from plain frames. `None`: all of them answer correctly now, or
/// some do not answer.
pub(super) async fn faulty_helper(
    inner: &Inner,
    job: &Job<'_>,
    mismatched: &MismatchedSum,
    right: &[Object],
) -> Option<Suspect> {
    let hops = chain(inner, job, &mismatched.recipe, &mismatched.helpers)?;
    let stripes = first_difference(&job.geometry, &mismatched.objects[0].0, &right[0].0)?;
    let mut sum: Vec<u8> = Vec::new();
    for (position, hop) in hops.iter().enumerate().rev() {
        let own = combination(job, &hop.part.subs, &hop.program, stripes.clone());
        let own = right_answer(inner, hop.helper, own).await?;
        // In these fields to add is to take the exclusive or.
        sum.resize(own.len(), 0);
        sum.iter_mut().zip(&own[..]).for_each(|(sum, own)| *sum ^= own);
        let (_, call) = ask(inner, job, &hops[position..], stripes.clone()).ok()?;
        if call.await.ok()? != sum {
            return Some(named(inner, hop.helper));
        }
    }
    None
}

/// Stripes of which one is the first in which two shards differ.
fn first_difference(geometry: &Geometry, one: &[u8], other: &[u8]) -> Option<Range<u32>> {
    let differs = |index: &u32| {
        let frames = frames_range(geometry.stripe(*index).cell, geometry.payload_bytes());
        let frames = frames.start as usize..frames.end as usize;
        one[frames.clone()] != other[frames]
    };
    let first = (0..geometry.stripe_count()).find(differs)?;
    let cell = geometry.stripe(first).cell;
    // Small cells share a frame.
    let count = 1 + FRAME_PAYLOAD_BYTES as u64 / (cell.end - cell.start).max(1);
    Some(first..first.saturating_add(count as u32).min(geometry.stripe_count()))
}

/// The helpers in the order in which they ask each other, those of a domain together: a sum leaves each domain once. `None`: not all
/// of them compute, on whole cells.
fn chain<'a>(
    inner: &Inner,
    job: &Job<'_>,
    recipe: &'a CombinedRecipe,
    helpers: &'a [Option<Helper>],
) -> Option<Vec<Hop<'a>>> {
    let sums = recipe.program.program().to_matrix().ok()?;
    let hop = |(position, part): (usize, &'a Contribution)| {
        let helper = helpers[part.shard].as_ref().filter(|helper| helper.combines)?;
        let is_whole = part.program.output_count == job.geometry.alpha as usize;
        // Which column of the sums takes which of its outputs.
        let column = |output| recipe.inputs.iter().position(|input| *input == (position, output));
        let columns: Vec<usize> = (0..part.program.output_count).map(column).collect::<Option<_>>()?;
        let own = part.program.to_matrix().ok()?;
        let program = Program::from_matrix(&sums.select_columns(&columns).multiply(&own));
        is_whole.then_some(Hop { helper, part, program })
    };
    let mut hops: Vec<Hop<'_>> = recipe.helpers.iter().enumerate().map(hop).collect::<Option<_>>()?;
    let view = inner.fleet.view();
    hops.sort_by_key(|hop| view.members.get(&hop.helper.handle.id).map(|member| member.domain.clone()));
    (hops.len() > 1).then_some(hops)
}

/// Computes the lost shard; or says how the chain broke.
async fn recompute(
    inner: &Inner,
    job: &Job<'_>,
    hops: &[Hop<'_>],
    attempt: &mut Attempt,
) -> Result<Result<Vec<Object>, NodeError>, RebuildError> {
    let mut builders = new_shards(inner, job)?;
    let mut pieces = job.batches(PIECE_BYTES * job.code.shape().k as u64);
    let mut asked = InFlight::new();
    loop {
        while asked.tags().count() < PIECES_MAX
            && let Some(stripes) = pieces.next()
        {
            let (cost, call) = match ask(inner, job, hops, stripes.clone()) {
                Ok(asked) => asked,
                Err(error) => return Ok(Err(error)),
            };
            attempt.bytes_read_by_nodes += cost.read_bytes;
            asked.push((stripes, cost.sent_bytes), call);
        }
        let Some(((stripes, sent_bytes), sum)) = asked.next().await else { break };
        let sum = match sum {
            Ok(sum) if sum.len() as u64 == sent_bytes => sum,
            Ok(_) => return Ok(Err(refusal(&hops[0], "its sum has another length"))),
            Err(error) => return Ok(Err(error)),
        };
        attempt.bytes_received += sent_bytes;
        attempt.bytes_read += sent_bytes * hops.len() as u64;
        let mut rest = &sum[..];
        for index in stripes {
            let stripe = job.geometry.stripe(index);
            let (cell, others) = rest.split_at(job.geometry.alpha as usize * stripe.symbol_bytes as usize);
            builders[0].write(stripe.cell.start, cell).expect("a cell lies within its shard");
            rest = others;
        }
    }
    Ok(Ok(builders.into_iter().map(ShardBuilder::finish).collect()))
}

/// The sum for these stripes, asked of the first helper; what it costs all of them to read, and each to send.
fn ask<'a>(
    inner: &'a Inner,
    job: &Job<'_>,
    hops: &[Hop<'_>],
    stripes: Range<u32>,
) -> Result<(Cost, Call<'a, Sum>), NodeError> {
    let combinations: Vec<_> =
        hops.iter().map(|hop| combination(job, &hop.part.subs, &hop.program, stripes.clone())).collect();
    let mut all = Cost { read_bytes: 0, sent_bytes: 0 };
    for (hop, combination) in hops.iter().zip(&combinations) {
        let cost = combination.cost().map_err(|error| refusal(hop, error))?;
        all = Cost { read_bytes: all.read_bytes + cost.read_bytes, sent_bytes: cost.sent_bytes };
    }
    let timeout = inner.deadline(all.sent_bytes);
    let mut link: Option<Link> = None;
    for (position, (hop, combination)) in hops.iter().zip(&combinations).enumerate().rev() {
        let timeout = shortened(timeout, position + 1);
        let Helper { handle, key, .. } = hop.helper;
        let onward = handle.node.link(*key, combination, link.as_ref(), timeout);
        link = Some(onward.ok_or_else(|| refusal(hop, "others cannot ask it"))?);
    }
    let link = link.expect("a chain has helpers");
    let first = hops[0].helper.handle.id;
    let call = inner.call(first, all.sent_bytes, async move |node| node.pull(link).await);
    Ok((all, Box::pin(call)))
}

/// What is left of `timeout` for a helper that is so many helpers away: each one gives up before the one that asks it does.
fn shortened(timeout: Duration, distance: usize) -> Duration {
    (0..distance).fold(timeout, |timeout, _| timeout * TIMEOUT_LEFT_PERCENT / 100)
}

fn refusal(hop: &Hop<'_>, why: impl std::fmt::Display) -> NodeError {
    let Helper { handle, key, .. } = hop.helper;
    NodeError::new(NodeErrorKind::Unsupported, &handle.name, format!("shard {key} is no part of a chain: {why}"))
}
