//! Rebuilding from combinations: nodes that can compute send what the code's plan takes of them and not what it is made of.
//!
//! Combinations carry no checks. So this is done only where the record has the digests of all that is rebuilt: what does not
//! match them was never there. Then the shards are rebuilt from plain frames, and the answers compared with those of the
//! nodes' own frames: a node that sent another one is named ([`faulty_helpers`]).
//!
//! Whatever stands in the way of combining, the plain way is left.

use super::chained::MismatchedSum;
use super::{Job, compare, new_shards};
use crate::algebra::CombinedRecipe;
use crate::error::{RebuildError, SuspectKind};
use crate::fleet::NodeHandle;
use crate::in_flight::InFlight;
use crate::read::Suspect;
use crate::read::locate::BATCH_DATA_BYTES;
use crate::transfer::Inner;
use crate::write::encode::Object;
use bytes::Bytes;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use weft_codes::{Offer, Offers, Wanted, executor};
use weft_format::shard::ShardBuilder;
use weft_format::{ShardIndex, ShardKey};
use weft_nodes::combine::{Cost, combine_gets};
use weft_nodes::{Combination, NodeError, NodeErrorKind, Part};

/// How an attempt ended.
#[derive(Default)]
pub(super) struct Attempt {
    /// The lost shards, as the record's digests say; none where combining brings nothing, or did not lead to them.
    pub(super) objects: Option<Vec<Object>>,
    /// Bytes that nodes sent, here or to each other.
    pub(super) bytes_read: u64,
    /// Bytes of these that came here.
    pub(super) bytes_received: u64,
    /// Bytes that nodes read to send those.
    pub(super) bytes_read_by_nodes: u64,
    /// Helpers that failed.
    pub(super) suspects: Vec<Suspect>,
    /// Answers from which no shard that matches its digest was rebuilt.
    pub(super) mismatched: Vec<Answer>,
    /// A chain's sum of which the same is true.
    pub(super) mismatched_sum: Option<MismatchedSum>,
}

/// A combination that a node sent.
pub(super) struct Answer {
    shard: usize,
    combination: Combination,
    digest: blake3::Hash,
}

/// A survivor that can be asked.
pub(super) struct Helper {
    pub(super) handle: Arc<NodeHandle>,
    pub(super) key: ShardKey,
    pub(super) combines: bool,
}

/// Tries helpers until those of some plan have answered. `attempt` is how others ended.
pub(super) async fn attempt(inner: &Inner, job: &Job<'_>, mut attempt: Attempt) -> Result<Attempt, RebuildError> {
    let mut helpers = helpers(inner, job);
    if job.lost.iter().any(|shard| job.record.shards[*shard].is_none()) {
        return Ok(attempt);
    }
    while let Some(recipe) = recipe(job, &helpers).filter(|recipe| sends_less(job, recipe, &helpers)) {
        let mut answers = Vec::new();
        match recompute(inner, job, &recipe, &helpers, &mut attempt, &mut answers).await? {
            Ok(objects) if compare(job, &objects).is_ok() => attempt.objects = Some(objects),
            Ok(_) => attempt.mismatched = answers,
            Err((shard, error)) => {
                // Each failure takes something away from the next plan, so this ends.
                let refuses = matches!(error.kind, NodeErrorKind::Unsupported | NodeErrorKind::Io);
                match &mut helpers[shard] {
                    Some(helper) if refuses && helper.combines => helper.combines = false,
                    helper => *helper = None,
                }
                if !refuses && error.kind != NodeErrorKind::Busy {
                    let index = ShardIndex(shard as u16);
                    attempt.suspects.push(Suspect { index, kind: SuspectKind::of(error.kind), frames: None });
                }
                tracing::debug!(%error, "a helper of a repair failed");
                continue;
            }
        }
        break;
    }
    Ok(attempt)
}

/// Survivors on nodes that are well, by shard.
pub(super) fn helpers(inner: &Inner, job: &Job<'_>) -> Vec<Option<Helper>> {
    let (view, handles, now_ms) = (inner.fleet.view(), inner.fleet.handles(inner.class), inner.fleet.now_ms());
    let helper = |shard: usize| {
        let location = job.record.shards[shard].as_ref().filter(|_| !job.lost.contains(&shard))?;
        let suspected = view.members.get(&location.node).is_some_and(|member| member.health.is_suspected(now_ms));
        let handle = handles.get(&location.node).filter(|_| !suspected)?.clone();
        let key = location.key(job.segment, ShardIndex(shard as u16));
        Some(Helper { combines: handle.node.capability().combines, handle, key })
    };
    (0..job.record.shards.len()).map(helper).collect()
}

/// The cheapest plan.
pub(super) fn recipe(job: &Job<'_>, helpers: &[Option<Helper>]) -> Option<Arc<CombinedRecipe>> {
    let symbol_kib = u64::from(job.geometry.symbol_bytes).div_ceil(1024);
    let offer = |helper: &Option<Helper>| {
        let helper = helper.as_ref()?;
        let capability = helper.handle.node.capability();
        let symbol_price = (capability.kib_out_price * symbol_kib).max(1);
        Some(Offer { combines: helper.combines, request_price: capability.request_price, symbol_price })
    };
    let offers = Offers(helpers.iter().map(offer).collect());
    job.code.combined_recipe(&Wanted::Shards(job.lost.clone()), &offers)
}

/// Does in this plan some node that combines send less than its whole cells?
pub(super) fn sends_less(job: &Job<'_>, recipe: &CombinedRecipe, helpers: &[Option<Helper>]) -> bool {
    recipe.helpers.iter().any(|helper| {
        let combines = helpers[helper.shard].as_ref().is_some_and(|helper| helper.combines);
        combines && helper.program.output_count < job.geometry.alpha as usize
    })
}

/// Computes the lost shards; or says which shard's node failed, and how.
async fn recompute(
    inner: &Inner,
    job: &Job<'_>,
    recipe: &CombinedRecipe,
    helpers: &[Option<Helper>],
    attempt: &mut Attempt,
    answers: &mut Vec<Answer>,
) -> Result<Result<Vec<Object>, (usize, NodeError)>, RebuildError> {
    let mut builders = new_shards(inner, job)?;
    for stripes in job.batches(BATCH_DATA_BYTES) {
        let mut asked = InFlight::new();
        for (position, part) in recipe.helpers.iter().enumerate() {
            let helper = helpers[part.shard].as_ref().expect("plans read what is offered");
            let combination = combination(job, &part.subs, &part.program, stripes.clone());
            asked.push(position, Box::pin(ask(inner, helper, combination)));
        }
        let mut brought = vec![Bytes::new(); recipe.helpers.len()];
        while let Some((position, (combination, outcome))) = asked.next().await {
            let shard = recipe.helpers[position].shard;
            let (sent, cost, is_combined) = match outcome {
                Ok(sent) => sent,
                Err(error) => return Ok(Err((shard, error))),
            };
            let bytes = if is_combined { cost.sent_bytes } else { cost.read_bytes };
            (attempt.bytes_read, attempt.bytes_received) = (attempt.bytes_read + bytes, attempt.bytes_received + bytes);
            attempt.bytes_read_by_nodes += cost.read_bytes;
            if is_combined {
                answers.push(Answer { shard, combination, digest: blake3::hash(&sent) });
            }
            brought[position] = sent;
        }
        fill(job, recipe, stripes, &brought, &mut builders);
        // Between batches others may run.
        tokio::task::yield_now().await;
    }
    Ok(Ok(builders.into_iter().map(ShardBuilder::finish).collect()))
}

/// What a helper of the plan is asked for, of these stripes.
pub(super) fn combination(
    job: &Job<'_>,
    subs: &[usize],
    program: &weft_codes::Program,
    stripes: Range<u32>,
) -> Combination {
    let part = |index: u32| {
        let stripe = job.geometry.stripe(index);
        let starts = subs.iter().map(|sub| job.geometry.symbol_range(&stripe, *sub as u32).start).collect();
        Part { starts, bytes: stripe.symbol_bytes }
    };
    let payload_bytes = job.geometry.payload_bytes();
    Combination { payload_bytes, program: program.clone(), parts: stripes.map(part).collect() }
}

type Sent = Result<(Bytes, Cost, bool), NodeError>;

/// The node's own combination where it combines, and else one computed here from its checked frames; and which of them it is.
async fn ask(inner: &Inner, helper: &Helper, combination: Combination) -> (Combination, Sent) {
    let Helper { handle, key, combines } = helper;
    let cost = combination.cost().map_err(|error| {
        NodeError::new(NodeErrorKind::Unsupported, &handle.name, format!("shard {key} is not combined: {error}"))
    });
    let cost = match cost {
        Ok(cost) => cost,
        Err(error) => return (combination, Err(error)),
    };
    let bytes = if *combines { cost.sent_bytes } else { cost.read_bytes };
    let call = inner.call(handle.id, bytes, |node| {
        let combination = &combination;
        async move {
            match combines {
                true => node.combine(*key, combination).await,
                false => combine_gets(&*node, &handle.name, inner.volume, *key, combination).await,
            }
        }
    });
    let sent = match call.await {
        Ok(sent) if sent.len() as u64 == cost.sent_bytes => Ok((sent, cost, *combines)),
        Ok(_) => {
            Err(NodeError::new(NodeErrorKind::Io, &handle.name, format!("what it made of shard {key} is too short")))
        }
        Err(error) => Err(error),
    };
    (combination, sent)
}

/// Runs the plan's program over what helpers sent, stripe by stripe, into the new shards.
fn fill(job: &Job<'_>, recipe: &CombinedRecipe, stripes: Range<u32>, brought: &[Bytes], builders: &mut [ShardBuilder]) {
    let alpha = job.geometry.alpha as usize;
    let mut ends = vec![0; brought.len()];
    for index in stripes {
        let stripe = job.geometry.stripe(index);
        let symbol_bytes = stripe.symbol_bytes as usize;
        let begins = ends.clone();
        let input = |&(helper, output): &(usize, usize)| {
            let start: usize = begins[helper] + output * symbol_bytes;
            &brought[helper][start..start + symbol_bytes]
        };
        let inputs: Vec<&[u8]> = recipe.inputs.iter().map(input).collect();
        let mut symbols = vec![0; job.lost.len() * alpha * symbol_bytes];
        let mut outputs: Vec<&mut [u8]> = symbols.chunks_exact_mut(symbol_bytes).collect();
        executor().run(&recipe.program, &inputs, &mut outputs).expect("one slice per input and output, of one length");
        for (builder, cell) in builders.iter_mut().zip(symbols.chunks_exact(alpha * symbol_bytes)) {
            builder.write(stripe.cell.start, cell).expect("a cell lies within its shard");
        }
        for (end, helper) in ends.iter_mut().zip(&recipe.helpers) {
            *end += helper.program.output_count * symbol_bytes;
        }
    }
}

/// The shards whose nodes sent other combinations than follow from the frames that they have.
pub(super) async fn faulty_helpers(inner: &Inner, job: &Job<'_>, mismatched: &[Answer]) -> Vec<Suspect> {
    let mut faulty: BTreeSet<usize> = BTreeSet::new();
    let helpers = helpers(inner, job);
    for answer in mismatched {
        let Some(helper) = helpers[answer.shard].as_ref().filter(|_| !faulty.contains(&answer.shard)) else { continue };
        if let Some(right) = right_answer(inner, helper, answer.combination.clone()).await
            && blake3::hash(&right) != answer.digest
        {
            faulty.insert(answer.shard);
        }
    }
    faulty.into_iter().filter_map(|shard| helpers[shard].as_ref()).map(named).collect()
}

/// What follows from the frames that the node has; `None`: it does not send them.
pub(super) async fn right_answer(inner: &Inner, helper: &Helper, combination: Combination) -> Option<Bytes> {
    let plainly = Helper { handle: helper.handle.clone(), key: helper.key, combines: false };
    let (_, sent) = ask(inner, &plainly, combination).await;
    sent.ok().map(|(right, ..)| right)
}

/// A helper found out.
pub(super) fn named(helper: &Helper) -> Suspect {
    let (node, shard) = (&helper.handle.name, helper.key);
    tracing::warn!(%node, %shard, "it sent a combination that is none of its shard: see what runs there");
    Suspect { index: shard.index, kind: SuspectKind::Combination, frames: None }
}
