//! Rebuilding from combinations: nodes that can compute send what the code's plan takes of them and not what it is made of.
//!
//! Combinations carry no checks. So this is done only where the record has the digests of all that is rebuilt: what does not
//! match them was never there. Then the shards are rebuilt from plain frames, and the answers compared with those of the
//! nodes' own frames: a node that sent another one is named ([`faulty_helpers`]).
//!
//! Whatever stands in the way of combining, the plain way is left.

use super::attempt::{Answer, Attempt};
use super::helpers::{Helper, ask, combination, helpers, named, recipe, right_answer, sends_less};
use super::job::{Job, compare, new_shards};
use crate::algebra::CombinedRecipe;
use crate::error::RebuildError;
use crate::in_flight::InFlight;
use crate::read::locate::BATCH_DATA_BYTES;
use crate::suspect::{Suspect, SuspectKind};
use crate::transfer::Inner;
use crate::write::encode::Object;
use bytes::Bytes;
use std::collections::BTreeSet;
use std::ops::Range;
use weft_codes::executor;
use weft_format::ShardIndex;
use weft_format::shard::ShardBuilder;
use weft_nodes::{NodeError, NodeErrorKind};

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
    faulty.into_iter().filter_map(|shard| helpers[shard].as_ref()).map(|helper| named(inner, helper)).collect()
}
