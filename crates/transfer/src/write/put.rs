//! Stage 4: shards to nodes, all at once, with alternates for nodes that fail.

use super::encode::Object;
use super::place::Placed;
use super::split::Split;
use crate::error::{Failures, ShardFailure, SuspectKind, WriteError};
use crate::in_flight::{Call, InFlight, until};
use crate::transfer::Inner;
use bytes::Bytes;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use weft_format::{NodeId, ShardIndex, ShardKey};
use weft_nodes::{NodeError, NodeErrorKind};

/// Once enough shards are durable, the others are waited for this long at least: a sync on a busy disk takes tens of
/// milliseconds, and a missing shard costs a repair.
const LAGGARD_FLOOR: Duration = Duration::from_millis(500);

/// Where only as many as decoding needs are durable, the rest is worth more patience: whoever is silent for so long counts
/// as away. With the time the others took this is what an application waits at the most when nodes fall silent.
const SILENCE_FLOOR: Duration = Duration::from_millis(1_500);

/// ... and as long again as the others took, times this: what is slow for all is not one node's lag.
const LAGGARD_FACTOR: u32 = 3;

/// Nodes that were suspected when the write began are waited for no longer than the others took, and at least this long: one
/// that is back answers within it, and one that hangs must not cost every write the full patience.
const SUSPECT_FLOOR: Duration = Duration::from_millis(20);

/// A shard on its way.
struct Attempt {
    index: usize,
    node: NodeId,
    key: ShardKey,
}

type PutCall = Call<'static, Result<(), NodeError>>;

/// Where each shard was stored; `None`: nowhere.
pub(crate) async fn put(
    inner: &Arc<Inner>,
    split: &Split,
    encoded: &[Object],
    placed: Placed,
) -> Result<Vec<Option<NodeId>>, WriteError> {
    let Placed { nodes, alternates, view } = placed;
    let mut assigned = nodes.clone();
    let mut stored: Vec<Option<NodeId>> = vec![None; nodes.len()];
    let mut alternates = alternates.into_iter().collect::<Vec<_>>();
    let mut failures = Failures::default();
    let mut attempts = InFlight::new();
    let start = |attempts: &mut InFlight<'static, Attempt, _>, index: usize, node: NodeId| {
        let key = split.key(index);
        attempts.push(Attempt { index, node, key }, store(inner.clone(), node, key, encoded[index].0.clone()));
    };
    for (index, node) in nodes.iter().enumerate() {
        if let Some(node) = node {
            start(&mut attempts, index, *node);
        }
    }
    let suspected_at_ms = inner.fleet.now_ms();
    let suspected =
        |node: NodeId| view.members.get(&node).is_some_and(|member| member.health.is_suspected(suspected_at_ms));
    let started = Instant::now();
    let mut durable = 0;
    let (mut least_took, mut quorum_took): (Option<Duration>, Option<Duration>) = (None, None);
    let mut give_up_at = None;
    loop {
        let ended = tokio::select! {
            biased;
            ended = attempts.next() => ended,
            () = until(give_up_at) => None,
        };
        let Some((Attempt { index, node, .. }, outcome)) = ended else { break };
        match outcome {
            Ok(()) => {
                stored[index] = Some(node);
                durable += 1;
                if durable >= split.least {
                    least_took.get_or_insert(started.elapsed());
                }
                if durable >= split.quorum {
                    quorum_took.get_or_insert(started.elapsed());
                }
            }
            Err(error) => {
                failures.0.push(failure(index, node, error));
                assigned[index] = None;
                let used: BTreeSet<&str> = assigned
                    .iter()
                    .flatten()
                    .filter_map(|node| Some(view.members.get(node)?.domain.as_str()))
                    .collect();
                let free = |node: &NodeId| view.members.get(node).is_some_and(|m| !used.contains(m.domain.as_str()));
                if let Some(position) = alternates.iter().position(free) {
                    let alternate = alternates.remove(position);
                    assigned[index] = Some(alternate);
                    start(&mut attempts, index, alternate);
                }
            }
        }
        let floor = if quorum_took.is_some() { LAGGARD_FLOOR } else { SILENCE_FLOOR };
        if let Some(took) = quorum_took.or(least_took) {
            let only_suspects = attempts.tags().all(|attempt| suspected(attempt.node));
            let patience = if only_suspects { SUSPECT_FLOOR.max(took) } else { floor.max(took * LAGGARD_FACTOR) };
            give_up_at = Some(started + took + patience);
        }
    }
    let laggards = attempts.take(|_| true);
    if durable >= split.least {
        leave_behind(inner, laggards);
        return Ok(stored);
    }
    let written = stored.iter().enumerate().filter_map(|(index, node)| Some((split.key(index), (*node)?)));
    withdraw(inner, written.collect()).await;
    Err(WriteError::Quorum { segment: split.segment, durable, needed: split.least, failures })
}

/// Puts one object on one node.
pub(crate) fn store(inner: Arc<Inner>, node: NodeId, key: ShardKey, object: Bytes) -> PutCall {
    Box::pin(async move {
        let bytes = object.len() as u64;
        inner.change(node, bytes, async move |node| node.put(key, &[object]).await).await
    })
}

pub(crate) fn failure(index: usize, node: NodeId, error: NodeError) -> ShardFailure {
    let index = ShardIndex(index as u16);
    ShardFailure { index, node, kind: SuspectKind::of(error.kind), detail: error.to_string(), frames: None }
}

/// Lets laggards end in the background. What they store no record will name, so it is removed again.
fn leave_behind(inner: &Arc<Inner>, laggards: Vec<(Attempt, PutCall)>) {
    for (Attempt { index, node, key }, call) in laggards {
        tracing::warn!(shard = %key, node = inner.fleet.name(node), index, "lags behind the others: left for repair");
        inner.fleet.report(node, Err(NodeErrorKind::TimedOut));
        let inner = inner.clone();
        inner.runtime.clone().spawn(async move {
            if call.await.is_ok() {
                remove_orphan(&inner, node, key).await;
            }
        });
    }
}

/// Removes what a failed write or rebuild has stored, as far as nodes answer; the rest are orphans for the collector.
pub(crate) async fn withdraw(inner: &Inner, written: Vec<(ShardKey, NodeId)>) {
    let mut removals = InFlight::new();
    for (key, node) in written {
        removals.push((), Box::pin(remove_orphan(inner, node, key)));
    }
    while removals.next().await.is_some() {}
}

async fn remove_orphan(inner: &Inner, node: NodeId, key: ShardKey) {
    if let Err(error) = inner.change(node, 0, async move |node| node.remove(key).await).await {
        tracing::warn!(shard = %key, %error, "an unreferenced shard was not removed: left for the collector");
    }
}
