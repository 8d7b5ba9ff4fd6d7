//! Stage 4: shards to nodes, all at once, with alternates for nodes that fail.
//!
//! What keeps a shard from its node is one of four things, which are not the same:
//!
//! - *away*: the node answers neither the put nor, asked beside it, whether it is there. It is written around.
//! - *busy*: it says so, or is slow and answers that question. It is waited for, for a bounded time.
//! - *full*: it says so. Another node takes the shard, or the write fails for want of room.
//! - *refusing*: it says why it takes nothing (its permissions, its disk, another node in its place). What it holds can be had as
//!   little, so it counts as away.

use super::encode::Object;
use super::place::{Placed, Units, held_by, suspected};
use super::split::Split;
use crate::error::{WriteError, timed_out};
use crate::fleet::NodeHandle;
use crate::in_flight::{Call, InFlight, until};
use crate::remove::{withdraw, withdraw_one};
use crate::suspect::{Failures, ShardFailure, SuspectKind};
use crate::transfer::Inner;
use bytes::Bytes;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use weft_cluster::View;
use weft_env::planted::{Planted, has_planted};
use weft_format::records::NodeState;
use weft_format::{NodeId, ShardKey};
use weft_nodes::{Node, NodeError, NodeErrorKind};

/// Once enough shards are durable, silence of the others is waited for this long at least: a sync on a busy disk takes tens of
/// milliseconds, and a missing shard costs a repair.
const LAGGARD_FLOOR: Duration = Duration::from_millis(500);

/// Where only as many as decoding needs are durable, the rest is worth a longer wait: a node that is silent for so long counts
/// as away. With the time the others took this is what an application waits at the most when nodes fall silent.
const SILENCE_FLOOR: Duration = Duration::from_millis(1_500);

/// ... and as long again as the others took, times this: what is slow for all is not one node's lag.
const LAGGARD_FACTOR: u32 = 3;

/// Where fewer are durable than decoding needs, a write that fails costs more than a write that waits.
const SILENCE_MAX: Duration = Duration::from_secs(5);

/// Nodes that were suspected when the write began are waited for no longer than the others took, and at least this long: one
/// that is back answers within it, and one that hangs must not cost every write the full timeout.
const SUSPECT_FLOOR: Duration = Duration::from_millis(20);

/// A node that lags and answers is asked again this often whether it is still there.
const LIVING_EVERY: Duration = Duration::from_secs(1);

/// A shard on its way.
struct Attempt {
    index: usize,
    node: NodeId,
    key: ShardKey,
    /// `None`: it is no member any more.
    handle: Option<Arc<NodeHandle>>,
    /// Was it suspected when the write began?
    is_suspected: bool,
    /// What limits on this side hold back is no silence of the node.
    held_back: Duration,
    began: Instant,
    /// From when on the node is to be heard of, ...
    since: Instant,
    /// ... and when it was asked whether it is there.
    asked: Option<Instant>,
    /// Has it been heard of while it lagged?
    is_living: bool,
}

type PutCall = Call<'static, Result<(), NodeError>>;

/// A write under way.
struct Writing<'w> {
    inner: &'w Arc<Inner>,
    split: &'w Split,
    encoded: &'w [Object],
    view: &'w View,
    /// Nodes that had no room for a shard before any was sent.
    full: BTreeSet<NodeId>,
    /// Nodes that failed lately: some are not asked for that.
    suspected: BTreeSet<NodeId>,
    assigned: Vec<Option<NodeId>>,
    stored: Vec<Option<NodeId>>,
    alternates: Vec<NodeId>,
    failures: Failures,
    attempts: InFlight<'static, Attempt, Result<(), NodeError>>,
    began: Instant,
    /// How long it took until as many were durable as the write cannot do without, ...
    least_took: Option<Duration>,
    /// ... and one more.
    quorum_took: Option<Duration>,
    was_told: bool,
}

/// Where each shard was stored; `None`: nowhere, since nodes are away.
pub(crate) async fn put(
    inner: &Arc<Inner>,
    split: &Split,
    encoded: &[Object],
    placed: Placed,
) -> Result<Vec<Option<NodeId>>, WriteError> {
    let Placed { nodes, alternates, view, full } = placed;
    let mut writing = Writing {
        inner,
        split,
        encoded,
        view: &view,
        full,
        suspected: suspected(&view, inner.fleet.now_ms()),
        assigned: vec![None; nodes.len()],
        stored: vec![None; nodes.len()],
        alternates,
        failures: Failures::default(),
        attempts: InFlight::new(),
        began: inner.fleet.clock().now(),
        least_took: None,
        quorum_took: None,
        was_told: false,
    };
    for (index, node) in nodes.into_iter().enumerate() {
        if let Some(node) = node {
            writing.start(index, node);
        }
    }
    while !writing.attempts.is_empty() {
        let wake_at = writing.wake_at();
        let ended = tokio::select! {
            biased;
            ended = writing.attempts.next() => ended,
            () = until(wake_at, inner.fleet.clock()) => None,
        };
        match ended {
            Some((attempt, Ok(()))) if has_planted(Planted::MetadataBeforeShards) => {
                writing.stored[attempt.index] = Some(attempt.node);
                return Ok(writing.assigned);
            }
            Some((attempt, outcome)) => writing.ended(&attempt, outcome),
            None => writing.look(inner.fleet.clock().now()),
        }
    }
    let Some(error) = writing.shortage() else { return Ok(writing.stored) };
    let written = writing.stored.into_iter().enumerate();
    withdraw(inner, written.filter_map(|(index, node)| Some((split.key(index), node?))).collect()).await;
    Err(error)
}

impl Writing<'_> {
    fn start(&mut self, index: usize, node: NodeId) {
        let (inner, key, object) = (self.inner, self.split.key(index), self.encoded[index].0.clone());
        let health = self.view.members.get(&node).map(|member| member.health);
        let handle = inner.fleet.handle(inner.class, node);
        let held_back = handle.as_ref().map(|handle| handle.node.held_back(object.len() as u64)).unwrap_or_default();
        let now = inner.fleet.clock().now();
        let attempt = Attempt {
            index,
            node,
            key,
            is_suspected: health.is_some_and(|health| health.is_suspected(inner.fleet.now_ms())),
            held_back,
            began: now,
            since: now,
            asked: None,
            is_living: false,
            handle,
        };
        self.assigned[index] = Some(node);
        self.attempts.push(attempt, store(inner.clone(), node, key, object));
    }

    fn ended(&mut self, attempt: &Attempt, outcome: Result<(), NodeError>) {
        if let Err(error) = outcome {
            return self.failed(attempt, error);
        }
        self.stored[attempt.index] = Some(attempt.node);
        let (durable, took) = (self.durable(), self.inner.fleet.clock().elapsed(self.began));
        if durable >= self.split.least {
            self.least_took.get_or_insert(took);
        }
        if durable >= self.split.quorum {
            self.quorum_took.get_or_insert(took);
        }
    }

    /// Another node may take the shard, of a domain that may hold one more.
    fn failed(&mut self, attempt: &Attempt, error: NodeError) {
        self.failures.0.push(ShardFailure::of_call(attempt.index, attempt.node, error));
        self.assigned[attempt.index] = None;
        let held = held_by(self.view, self.assigned.iter().flatten().copied());
        let unit_shards = self.split.unit_shards(self.view);
        let may_hold_more = |domain: &str| held.get(domain).is_none_or(|held| *held < unit_shards);
        let is_free = |node: &NodeId| self.domain(*node).is_some_and(may_hold_more);
        if let Some(position) = self.alternates.iter().position(is_free) {
            let alternate = self.alternates.remove(position);
            self.start(attempt.index, alternate);
        }
    }

    fn domain(&self, node: NodeId) -> Option<&str> {
        Some(self.view.members.get(&node)?.domain.as_str())
    }

    fn durable(&self) -> usize {
        self.stored.iter().flatten().count()
    }

    fn wake_at(&self) -> Option<Instant> {
        let next = |attempt: &Attempt| {
            let (ask_at, judge_at) = self.moments(attempt);
            if attempt.asked.is_none() { ask_at } else { judge_at }
        };
        self.attempts.tags().map(next).min()
    }

    /// When to ask a node that lags whether it is there, and when to go by the answer.
    fn moments(&self, attempt: &Attempt) -> (Instant, Instant) {
        let since = attempt.since + attempt.held_back;
        let (from, timeout) = match self.quorum_took.or(self.least_took) {
            _ if attempt.is_living => (attempt.since, LIVING_EVERY),
            None => (since, SILENCE_MAX + self.inner.uplink.wait(0, self.inner.fleet.now_ms())),
            Some(took) => {
                let floor = if self.quorum_took.is_some() { LAGGARD_FLOOR } else { SILENCE_FLOOR };
                let timeout =
                    if attempt.is_suspected { SUSPECT_FLOOR.max(took) } else { floor.max(took * LAGGARD_FACTOR) };
                (since.max(self.began + took), timeout)
            }
        };
        // A suspected node is asked at once: it has little time to answer.
        let ask_at = if attempt.is_suspected && !attempt.is_living { attempt.since } else { from + timeout / 4 };
        let judge_at = (from + timeout).max(attempt.asked.unwrap_or(ask_at) + timeout * 3 / 4);
        (ask_at, judge_at)
    }

    /// Asks nodes that lag whether they are there, and gives up those that did not say so.
    fn look(&mut self, now: Instant) {
        let mut given_up = Vec::new();
        let mut due: Vec<(usize, bool)> = Vec::new();
        for attempt in self.attempts.tags() {
            let (ask_at, judge_at) = self.moments(attempt);
            match attempt.asked {
                None if ask_at <= now => due.push((attempt.index, false)),
                Some(_) if judge_at <= now => due.push((attempt.index, true)),
                _ => {}
            }
        }
        for (index, is_judged) in due {
            let Some(attempt) = self.attempts.tags_mut().find(|attempt| attempt.index == index) else { continue };
            let Some(handle) = attempt.handle.clone() else { continue };
            if !is_judged {
                attempt.asked = Some(now);
                self.inner.fleet.ask_if_there(&handle, &self.inner.runtime);
                continue;
            }
            if !handle.was_heard_since(attempt.since)
                || self.inner.has_waited(&handle, attempt.began + attempt.held_back)
            {
                given_up.push(index);
                continue;
            }
            (attempt.since, attempt.asked, attempt.is_living) = (now, None, true);
            if !std::mem::replace(&mut self.was_told, true) {
                tracing::warn!(segment = %self.split.segment, node = handle.name, "is busy or slow: the write waits for it");
            }
        }
        for index in given_up {
            for (attempt, call) in self.attempts.take(|attempt| attempt.index == index) {
                let name = self.inner.fleet.name(attempt.node);
                let error = timed_out(&name, self.inner.fleet.clock().elapsed(attempt.began).as_millis() as u64);
                self.failed(&attempt, error);
                leave_behind(self.inner, attempt, call);
            }
        }
    }

    /// Why too few shards are stored; `None`: they are enough.
    fn shortage(&self) -> Option<WriteError> {
        let durable = self.durable();
        let full_kind = SuspectKind::Unknown(NodeErrorKind::Full);
        let is_away = |failure: &&ShardFailure| failure.kind != full_kind || has_planted(Planted::FullTakenForAway);
        let failed = || self.failures.0.iter();
        let refused: BTreeSet<NodeId> =
            failed().filter(|failure| failure.kind == full_kind).map(|failure| failure.node).collect();
        // Nodes that were not asked since they failed lately are away as well. Those that were given up are counted with their domains.
        let is_silent = |node: &&NodeId| {
            let is_active = self.view.members.get(node).is_some_and(|member| member.state == NodeState::Active);
            is_active && !refused.contains(node) && !self.stored.contains(&Some(**node))
        };
        let silent = self.suspected.iter().filter(is_silent).copied();
        let away: BTreeSet<NodeId> = failed().filter(is_away).map(|failure| failure.node).chain(silent).collect();
        let full = &self.full | &refused;
        let domains = |nodes: &BTreeSet<NodeId>| nodes.iter().filter_map(|node| self.domain(*node)).collect::<Vec<_>>();
        let stored: Vec<&str> = self.stored.iter().flatten().filter_map(|node| self.domain(*node)).collect();
        let units = Units::of(self.view, self.split.unit_shards(self.view));
        let (away_count, full_count) = units.missing(&stored, &domains(&away), &domains(&full));
        let needed = units.needed(self.split, away_count);
        if durable >= needed {
            return None;
        }
        let (segment, failures) = (self.split.segment, self.failures.clone());
        Some(match durable + full_count >= needed {
            true => WriteError::Full { segment, durable, needed, full_count, failures },
            false => WriteError::Quorum { segment, durable, needed, failures },
        })
    }
}

/// Puts one object on one node. One that is busy is asked again, and what is to be stored is kept meanwhile.
pub(crate) fn store(inner: Arc<Inner>, node: NodeId, key: ShardKey, object: Bytes) -> PutCall {
    Box::pin(async move {
        let bytes = object.len() as u64;
        let put = |node: Arc<dyn Node>| {
            let object = object.clone();
            async move { node.put(key, &[object]).await }
        };
        let outcome = inner.change_while_busy(node, bytes, put).await;
        if let (Ok(()), Some(handle)) = (&outcome, inner.fleet.handle(inner.class, node)) {
            handle.has_stored();
        }
        outcome
    })
}

/// Lets a laggard end in the background. What it stores no record will name, so it is removed again.
fn leave_behind(inner: &Arc<Inner>, attempt: Attempt, call: PutCall) {
    let Attempt { index, node, key, .. } = attempt;
    tracing::warn!(shard = %key, node = inner.fleet.name(node), index, "lags behind the others and is not heard of: left for repair");
    inner.fleet.report(node, Err(NodeErrorKind::TimedOut));
    let inner = inner.clone();
    inner.runtime.clone().spawn(async move {
        if call.await.is_ok() {
            withdraw_one(&inner, node, key).await;
        }
    });
}
