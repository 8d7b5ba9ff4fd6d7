//! The helpers of a rebuild: survivors on nodes that can be asked, what a plan takes of each, and what each answers.

use super::job::Job;
use crate::algebra::CombinedRecipe;
use crate::fleet::NodeHandle;
use crate::suspect::{Suspect, SuspectKind};
use crate::transfer::Inner;
use bytes::Bytes;
use std::ops::Range;
use std::sync::Arc;
use weft_codes::{Offer, Offers, Wanted};
use weft_format::{ShardIndex, ShardKey};
use weft_nodes::combine::{Cost, combine_gets};
use weft_nodes::{Combination, NodeError, NodeErrorKind, Part};

/// A survivor that can be asked.
pub(super) struct Helper {
    pub(super) handle: Arc<NodeHandle>,
    pub(super) key: ShardKey,
    pub(super) combines: bool,
}

/// Survivors on nodes that are well, by shard.
pub(super) fn helpers(inner: &Inner, job: &Job<'_>) -> Vec<Option<Helper>> {
    let (view, handles, now_ms) = (inner.fleet.view(), inner.fleet.handles(inner.class), inner.fleet.now_ms());
    let helper = |shard: usize| {
        let location = job.record.shards[shard].as_ref().filter(|_| !job.lost.contains(&shard))?;
        let suspected = view.members.get(&location.node).is_some_and(|member| member.health.is_suspected(now_ms));
        let handle = handles.get(&location.node).filter(|_| !suspected)?.clone();
        let key = location.key(job.segment, ShardIndex(shard as u16));
        let combines = handle.node.capability().combines && inner.resting_helpers.may_be_asked(handle.id, now_ms);
        Some(Helper { combines, handle, key })
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

pub(super) type Sent = Result<(Bytes, Cost, bool), NodeError>;

/// The node's own combination where it combines, and else one computed here from its checked frames; and which of them it is.
pub(super) async fn ask(inner: &Inner, helper: &Helper, combination: Combination) -> (Combination, Sent) {
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
            Err(NodeError::new(NodeErrorKind::Io, &handle.name, format!("its combination of shard {key} is too short")))
        }
        Err(error) => Err(error),
    };
    (combination, sent)
}

/// What follows from the frames that the node has; `None`: it does not send them.
pub(super) async fn right_answer(inner: &Inner, helper: &Helper, combination: Combination) -> Option<Bytes> {
    let plainly = Helper { handle: helper.handle.clone(), key: helper.key, combines: false };
    let (_, sent) = ask(inner, &plainly, combination).await;
    sent.ok().map(|(right, ..)| right)
}

/// A helper found out. For a while it is only read.
pub(super) fn named(inner: &Inner, helper: &Helper) -> Suspect {
    let (node, shard) = (&helper.handle.name, helper.key);
    inner.resting_helpers.found(helper.handle.id, inner.fleet.now_ms());
    tracing::warn!(%node, %shard, "its combination does not belong to its shard: check the program that runs there");
    Suspect { index: shard.index, kind: SuspectKind::Combination, frames: None }
}
