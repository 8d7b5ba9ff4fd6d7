//! Stage 3: gets to nodes, until some plan has all it reads.
//!
//! Gets run at once. One that fails makes its shard an erasure, and the rest is planned anew; one that takes much longer
//! than its node usually does makes others be asked as well, and whichever plan is complete first is followed.

use super::held::{Held, subtract};
use super::plan::{Get, ReadPlan, ShardOffer, ShardOffers};
use super::{ReadReport, Suspect};
use crate::algebra::LoadedCode;
use crate::error::{Failures, ReadError, ShardFailure, SuspectKind};
use crate::fleet::{Seat, no_member, timed_out};
use crate::in_flight::InFlight;
use crate::transfer::Inner;
use bytes::Bytes;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};
use weft_format::records::SegmentRecord;
use weft_format::shard::{ShardError, ShardIdentity, frames_range, verify_frames};
use weft_format::{NodeId, SegmentId, ShardIndex, ShardKey};
use weft_nodes::{NodeError, NodeErrorKind};

/// One shard as a session sees it.
struct Source {
    node: NodeId,
    key: ShardKey,
    seat: Option<Arc<Seat>>,
    suspected: bool,
    /// Lagging now: asked, and not answered for long.
    late: bool,
    failure: Option<(SuspectKind, String)>,
}

/// A get under way.
struct Asked {
    shard: usize,
    payload: Range<u64>,
    since: Instant,
    /// Ask others too from here on.
    hedge_at: Instant,
    /// It has failed from here on.
    fail_at: Instant,
}

/// Reading from one segment's shards: what is held, what failed, who lags.
pub(crate) struct Session<'a> {
    inner: &'a Inner,
    segment: SegmentId,
    payload_bytes: u64,
    code: Arc<LoadedCode>,
    /// By shard; `None`: the record has no place for it.
    sources: Vec<Option<Source>>,
    pub(crate) held: Held,
    pub(crate) bytes_fetched: u64,
    pub(crate) degraded: bool,
}

impl<'a> Session<'a> {
    pub(crate) fn new(inner: &'a Inner, segment: SegmentId, record: &SegmentRecord, code: Arc<LoadedCode>) -> Self {
        let (view, seats, now_ms) = (inner.fleet.view(), inner.fleet.seats(), inner.fleet.now_ms());
        let source = |(index, location): (usize, &Option<weft_format::records::ShardLocation>)| {
            let location = location.as_ref()?;
            let seat = seats.get(&location.node).cloned();
            let failure = seat.is_none().then(|| no_member(location.node));
            Some(Source {
                node: location.node,
                key: ShardKey { segment, generation: location.generation, index: ShardIndex(index as u16) },
                seat,
                suspected: view.members.get(&location.node).is_some_and(|member| member.health.is_suspected(now_ms)),
                late: false,
                failure: failure.map(|error| (SuspectKind::of(error.kind), error.to_string())),
            })
        };
        let payload_bytes = record.geometry.payload_bytes();
        Self {
            inner,
            segment,
            payload_bytes,
            code,
            sources: record.shards.iter().enumerate().map(source).collect(),
            held: Held::new(record.shards.len(), payload_bytes),
            bytes_fetched: 0,
            degraded: false,
        }
    }

    /// Takes a shard for lost, whatever its node would say.
    pub(crate) fn give_up(&mut self, shard: usize) {
        self.sources[shard] = None;
    }

    pub(crate) fn finish(self) -> ReadReport {
        ReadReport { bytes_fetched: self.bytes_fetched, degraded: self.degraded, suspects: self.suspects() }
    }

    /// Shards that failed.
    pub(crate) fn suspects(&self) -> Vec<Suspect> {
        self.failures().0.iter().map(|failure| Suspect { index: failure.index, kind: failure.kind }).collect()
    }

    fn failures(&self) -> Failures {
        let failure = |(index, source): (usize, &Option<Source>)| {
            let source = source.as_ref()?;
            let (kind, detail) = source.failure.clone()?;
            Some(ShardFailure { index: ShardIndex(index as u16), node: source.node, kind, detail })
        };
        Failures(self.sources.iter().enumerate().filter_map(failure).collect())
    }

    fn offers(&self) -> ShardOffers {
        let offer = |source: &Option<Source>| {
            let source = source.as_ref().filter(|source| source.failure.is_none())?;
            let capability = source.seat.as_ref()?.node.capability();
            Some(ShardOffer {
                request_price: capability.request_price,
                kib_price: capability.kib_out_price,
                avoided: source.suspected || source.late,
            })
        };
        ShardOffers { shards: self.sources.iter().map(offer).collect() }
    }

    fn unrecoverable(&self) -> ReadError {
        let usable = |source: &&Option<Source>| source.as_ref().is_some_and(|source| source.failure.is_none());
        let shape = self.code.shape();
        let mut failures = self.failures();
        let unplaced = self.sources.iter().filter(|source| source.is_none()).count();
        failures.0.sort_by_key(|failure| failure.index);
        ReadError::Unrecoverable {
            segment: self.segment,
            answered: self.sources.iter().filter(usable).count(),
            needed: shape.n - shape.tolerance,
            unplaced,
            failures,
        }
    }

    fn source(&mut self, shard: usize) -> &mut Source {
        self.sources[shard].as_mut().expect("only shards that are offered are asked")
    }

    /// Checks what came back for a get, keeps it, or makes its shard an erasure.
    fn take_in(&mut self, asked: Asked, outcome: Result<Bytes, NodeError>) -> bool {
        let (inner, volume, payload_bytes) = (self.inner, self.inner.volume, self.payload_bytes);
        let source = self.source(asked.shard);
        let seat = source.seat.clone().expect("a shard without a node is not asked");
        inner.fleet.report_seat(&seat, outcome.as_ref().map(|_| ()).map_err(|error| error.kind));
        let raw = match outcome {
            Ok(raw) => raw,
            Err(error) => {
                source.failure = Some((SuspectKind::of(error.kind), error.to_string()));
                return false;
            }
        };
        seat.latency.observe(asked.since.elapsed().as_micros() as u64);
        source.late = false;
        let identity = ShardIdentity { volume, key: source.key };
        if let Err(error) = verify_frames(&identity, payload_bytes, asked.payload.clone(), &raw) {
            let kind = suspect_kind(&error);
            source.failure = Some((kind, format!("node {}: {error}", seat.name)));
            return false;
        }
        self.bytes_fetched += raw.len() as u64;
        self.held.insert(asked.shard, asked.payload, raw);
        true
    }

    fn ask(&mut self, in_flight: &mut InFlight<'a, Asked, Result<Bytes, NodeError>>, get: Get) {
        let range = frames_range(get.payload.clone(), self.payload_bytes);
        let bytes = range.end - range.start;
        let deadline = self.inner.deadline(bytes);
        let source = self.source(get.shard);
        let seat = source.seat.clone().expect("a shard without a node is not asked");
        let key = source.key;
        let since = Instant::now();
        let asked = Asked {
            shard: get.shard,
            payload: get.payload,
            since,
            hedge_at: since + Duration::from_micros(seat.latency.hedge_after_us(bytes)),
            fail_at: since + deadline,
        };
        in_flight.push(asked, Box::pin(async move { seat.node.get(key, range).await }));
    }
}

/// What a failed check says of a shard.
pub(crate) fn suspect_kind(error: &ShardError) -> SuspectKind {
    match error {
        ShardError::Short { .. } | ShardError::Long { .. } => SuspectKind::Length,
        _ => SuspectKind::Checksum,
    }
}

/// Fetches until all that a plan reads is held, and gives that plan. `make_plan` says what would do with given offers.
///
/// # Errors
/// `Unrecoverable`: what is left does not suffice.
pub(crate) async fn fetch<'a>(
    session: &mut Session<'a>,
    make_plan: impl Fn(&ShardOffers, &Held) -> Option<ReadPlan>,
) -> Result<ReadPlan, ReadError> {
    let mut in_flight = InFlight::new();
    let mut plans: Vec<ReadPlan> = Vec::new();
    loop {
        if plans.is_empty() {
            let plan = make_plan(&session.offers(), &session.held).ok_or_else(|| session.unrecoverable())?;
            start(session, &mut in_flight, &plan);
            plans.push(plan);
        }
        if let Some(complete) = plans.iter().position(|plan| is_held(session, plan)) {
            let plan = plans.swap_remove(complete);
            session.degraded |= !plan.computed.is_empty();
            give_up_laggards(session, &in_flight);
            return Ok(plan);
        }
        let wake_at = in_flight.tags().map(|asked: &Asked| wake_at(session, asked)).min();
        let ended = tokio::select! {
            biased;
            ended = in_flight.next() => ended,
            () = sleep_until(wake_at.unwrap_or_else(Instant::now)) => None,
        };
        match ended {
            Some((asked, outcome)) => {
                let shard = asked.shard;
                if !session.take_in(asked, outcome) {
                    plans.retain(|plan| plan.gets.iter().all(|get| get.shard != shard));
                    drop(in_flight.take(|asked| asked.shard == shard));
                }
            }
            None => {
                let now = Instant::now();
                for (asked, _) in in_flight.take(|asked| asked.fail_at <= now) {
                    let shard = asked.shard;
                    let name = session.source(shard).seat.as_ref().map_or(String::new(), |seat| seat.name.clone());
                    let waited_ms = (now - asked.since).as_millis() as u64;
                    session.take_in(asked, Err(timed_out(&name, waited_ms)));
                    plans.retain(|plan| plan.gets.iter().all(|get| get.shard != shard));
                }
                let late: Vec<usize> =
                    in_flight.tags().filter(|asked| asked.hedge_at <= now).map(|asked| asked.shard).collect();
                let newly_late =
                    late.into_iter().filter(|shard| !std::mem::replace(&mut session.source(*shard).late, true));
                if newly_late.count() > 0
                    && let Some(plan) = make_plan(&session.offers(), &session.held)
                {
                    start(session, &mut in_flight, &plan);
                    plans.push(plan);
                }
            }
        }
    }
}

/// When a get under way next wants attention.
fn wake_at(session: &Session<'_>, asked: &Asked) -> Instant {
    let late = session.sources[asked.shard].as_ref().is_some_and(|source| source.late);
    if late { asked.fail_at } else { asked.hedge_at.min(asked.fail_at) }
}

/// Asks for what the plan reads and is neither held nor under way.
fn start<'a>(
    session: &mut Session<'a>,
    in_flight: &mut InFlight<'a, Asked, Result<Bytes, NodeError>>,
    plan: &ReadPlan,
) {
    for get in &plan.gets {
        for part in session.held.lacks(get.shard, get.payload.clone()) {
            let under_way =
                in_flight.tags().filter(|asked| asked.shard == get.shard).map(|asked| asked.payload.clone());
            for payload in subtract(part, under_way.collect::<Vec<_>>().into_iter()) {
                session.ask(in_flight, Get { shard: get.shard, payload });
            }
        }
    }
}

fn is_held(session: &Session<'_>, plan: &ReadPlan) -> bool {
    plan.gets.iter().all(|get| session.held.lacks(get.shard, get.payload.clone()).is_empty())
}

/// A read that could do without a laggard tells the fleet: next time it is asked last.
fn give_up_laggards(session: &Session<'_>, in_flight: &InFlight<'_, Asked, Result<Bytes, NodeError>>) {
    for asked in in_flight.tags() {
        if let Some(Source { late: true, seat: Some(seat), .. }) = &session.sources[asked.shard] {
            session.inner.fleet.report_seat(seat, Err(NodeErrorKind::TimedOut));
        }
    }
}
