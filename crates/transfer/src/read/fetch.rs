//! Stage 3: what the scheduler says is sent to nodes, and what comes back is checked and told to it. The thin, impure part: it
//! owns the clock, the bytes and the calls under way, and decides nothing.

use super::held::Held;
use super::plan::ReadPlan;
use super::{ReadReport, Suspect};
use crate::error::{Failures, ReadError, ShardFailure, SuspectKind};
use crate::fleet::{Seat, no_member, timed_out};
use crate::in_flight::{Call, InFlight};
use crate::scheduler::{Ask, Deadline, Effect, NodeView, Plans, RequestId, Scheduler, SetShape, Setback};
use crate::trace::{Event, What};
use crate::transfer::{Inner, SLOWEST_BYTES_PER_MS};
use bytes::Bytes;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};
use weft_codes::Shape;
use weft_format::records::SegmentRecord;
use weft_format::shard::{ShardError, ShardIdentity, frames_range, verify_frames};
use weft_format::{NodeId, SegmentId, ShardIndex, ShardKey};
use weft_nodes::{NodeError, NodeErrorKind};

/// One shard of a segment.
struct Source {
    node: NodeId,
    key: ShardKey,
    /// `None`: no such node now.
    seat: Option<Arc<Seat>>,
    failure: Option<(SuspectKind, String)>,
}

/// A segment that sets are read of.
pub(crate) struct Sources {
    segment: SegmentId,
    payload_bytes: u64,
    /// How many shards always suffice.
    needed: usize,
    /// By shard; `None`: the record has no place for it.
    shards: Vec<Option<Source>>,
}

impl Sources {
    /// The shards of a segment as its record names them, without those of `given_up`.
    pub(crate) fn new(
        inner: &Inner,
        segment: SegmentId,
        record: &SegmentRecord,
        shape: &Shape,
        given_up: &[usize],
    ) -> Self {
        let seats = inner.fleet.seats();
        let source = |(index, location): (usize, &Option<weft_format::records::ShardLocation>)| {
            let location = location.as_ref().filter(|_| !given_up.contains(&index))?;
            let seat = seats.get(&location.node).cloned();
            let failure = seat.is_none().then(|| no_member(location.node));
            Some(Source {
                node: location.node,
                key: ShardKey { segment, generation: location.generation, index: ShardIndex(index as u16) },
                seat,
                failure: failure.map(|error| (SuspectKind::of(error.kind), error.to_string())),
            })
        };
        Self {
            segment,
            payload_bytes: record.geometry.payload_bytes(),
            needed: shape.n - shape.tolerance,
            shards: record.shards.iter().enumerate().map(source).collect(),
        }
    }

    fn failures(&self) -> Failures {
        let failure = |(index, source): (usize, &Option<Source>)| {
            let source = source.as_ref()?;
            let (kind, detail) = source.failure.clone()?;
            Some(ShardFailure { index: ShardIndex(index as u16), node: source.node, kind, detail })
        };
        Failures(self.shards.iter().enumerate().filter_map(failure).collect())
    }

    fn unrecoverable(&self) -> ReadError {
        let usable = |source: &&Option<Source>| source.as_ref().is_some_and(|source| source.failure.is_none());
        ReadError::Unrecoverable {
            segment: self.segment,
            answered: self.shards.iter().filter(usable).count(),
            needed: self.needed,
            unplaced: self.shards.iter().filter(|source| source.is_none()).count(),
            failures: self.failures(),
        }
    }
}

/// A get under way.
struct Asked {
    ask: Ask,
    since: Instant,
    bytes: u64,
}

/// A download under way.
pub(crate) struct Download<'a, P> {
    inner: &'a Inner,
    sources: Sources,
    scheduler: Scheduler<P>,
    /// By node as the scheduler counts them.
    seats: Vec<Arc<Seat>>,
    /// By set; what is delivered is let go of.
    held: HashMap<usize, Held>,
    in_flight: InFlight<'a, Asked, Result<Bytes, NodeError>>,
    started: Instant,
    /// More than one set: gets go on while a set is computed on.
    in_background: bool,
    report: ReadReport,
}

impl<'a, P: Plans> Download<'a, P> {
    /// A download of sets of one segment.
    pub(crate) fn new(inner: &'a Inner, sources: Sources, sets: Vec<SetShape>, plans: P) -> Self {
        let (view, now_ms) = (inner.fleet.view(), inner.fleet.now_ms());
        let mut seats: Vec<Arc<Seat>> = Vec::new();
        let lane = |source: &Option<Source>| {
            let seat = source.as_ref()?.seat.as_ref()?;
            let known = seats.iter().position(|other| Arc::ptr_eq(other, seat));
            Some(known.unwrap_or_else(|| {
                seats.push(seat.clone());
                seats.len() - 1
            }))
        };
        let lanes = sources.shards.iter().map(lane).collect();
        let suspected =
            |seat: &Seat| view.members.get(&seat.id).is_some_and(|member| member.health.is_suspected(now_ms));
        let nodes = seats.iter().map(|seat| node_view(seat, suspected(seat), 0)).collect();
        let deadline = Deadline { base_us: inner.settings.node_deadline_ms * 1000, bytes_per_ms: SLOWEST_BYTES_PER_MS };
        let in_background = sets.len() > 1;
        let allowance_bytes = inner.hedging.allowance_bytes();
        let profile = inner.settings.profile;
        Self {
            inner,
            sources,
            scheduler: Scheduler::new(plans, profile, deadline, nodes, vec![lanes], sets, allowance_bytes),
            seats,
            held: HashMap::new(),
            in_flight: InFlight::new(),
            started: Instant::now(),
            in_background,
            report: ReadReport::default(),
        }
    }

    /// The next set that has all its plan reads; `None`: all are delivered.
    ///
    /// # Errors
    /// `Unrecoverable`: what is left does not suffice.
    pub(crate) async fn next(&mut self) -> Result<Option<(usize, ReadPlan)>, ReadError> {
        self.scheduler.dispatch(self.now_us());
        loop {
            while let Some(effect) = self.scheduler.effect() {
                match effect {
                    Effect::Ask(ask) => self.ask(ask),
                    Effect::Drop { request, late } => self.give_up(request, late),
                    Effect::Late { request } => self.tell(request, What::Late),
                    Effect::Expired { request } => self.expire(request),
                    Effect::Ready { set, plan } => {
                        self.report.degraded |= !plan.computed.is_empty();
                        self.tell_set(set, What::Ready { degraded: !plan.computed.is_empty() });
                        return Ok(Some((set, plan)));
                    }
                    Effect::Stuck => return Err(self.sources.unrecoverable()),
                }
            }
            if self.scheduler.is_done() {
                return Ok(None);
            }
            let wake_at = self.scheduler.wake_at_us().map(|us| self.started + Duration::from_micros(us));
            let ended = tokio::select! {
                biased;
                ended = self.in_flight.next(), if !self.in_flight.is_empty() => ended,
                () = until(wake_at) => None,
            };
            match ended {
                Some((asked, outcome)) => self.take_in(asked, outcome),
                None => self.scheduler.wake(self.now_us()),
            }
        }
    }

    /// What has come of a set.
    pub(crate) fn held(&self, set: usize) -> &Held {
        self.held.get(&set).unwrap_or(&NOTHING)
    }

    /// Lets go of a set.
    pub(crate) fn delivered(&mut self, set: usize) {
        self.held.remove(&set);
        self.tell_set(set, What::Delivered);
        let now_us = self.now_us();
        self.scheduler.delivered(set, now_us);
    }

    pub(crate) fn finish(self) -> ReadReport {
        self.inner.hedging.settle(self.report.bytes_fetched, self.scheduler.allowance_bytes());
        let failures = self.sources.failures().0.into_iter();
        let suspects = failures.map(|failure| Suspect { index: failure.index, kind: failure.kind }).collect();
        ReadReport { suspects, ..self.report }
    }

    fn now_us(&self) -> u64 {
        self.started.elapsed().as_micros() as u64
    }

    fn source(&mut self, shard: usize) -> &mut Source {
        self.sources.shards[shard].as_mut().expect("only shards that are offered are asked")
    }

    fn seat(&mut self, shard: usize) -> Arc<Seat> {
        self.source(shard).seat.clone().expect("a shard without a node is not asked")
    }

    fn ask(&mut self, ask: Ask) {
        let range = frames_range(ask.payload.clone(), self.sources.payload_bytes);
        let (seat, key) = (self.seat(ask.shard), self.source(ask.shard).key);
        let bytes = range.end - range.start;
        self.trace(&ask, What::Asked { bytes, instead: ask.instead });
        seat.under_way.fetch_add(1, Ordering::Relaxed);
        let get = Get { seat: seat.clone() };
        let get = async move {
            let _counted = get;
            seat.node.get(key, range).await
        };
        let call: Call<'a, _> = match self.in_background {
            true => Box::pin(Background(self.inner.runtime.spawn(get)).join()),
            false => Box::pin(get),
        };
        self.in_flight.push(Asked { ask, since: Instant::now(), bytes }, call);
    }

    /// Checks what came back for a get, keeps it, or makes its shard an erasure.
    fn take_in(&mut self, asked: Asked, outcome: Result<Bytes, NodeError>) {
        let (volume, payload_bytes) = (self.inner.volume, self.sources.payload_bytes);
        let Ask { request, set, shard, ref payload, .. } = asked.ask;
        let seat = self.seat(shard);
        self.inner.fleet.report_seat(&seat, outcome.as_ref().map(|_| ()).map_err(|error| error.kind));
        let identity = ShardIdentity { volume, key: self.source(shard).key };
        let checked = outcome.map_err(|error| (SuspectKind::of(error.kind), error.to_string())).and_then(|raw| {
            verify_frames(&identity, payload_bytes, payload.clone(), &raw)
                .map_err(|error| (suspect_kind(&error), format!("node {}: {error}", seat.name)))?;
            Ok(raw)
        });
        let now_us = self.now_us();
        match checked {
            Ok(raw) => {
                self.observe(&seat, &asked);
                self.trace(&asked.ask, What::Arrived { bytes: raw.len() as u64 });
                self.report.bytes_fetched += raw.len() as u64;
                let shard_count = self.sources.shards.len();
                let held = self.held.entry(set).or_insert_with(|| Held::new(shard_count));
                held.insert(shard, asked.ask.payload, raw);
                self.scheduler.arrived(request, now_us);
            }
            Err((kind, detail)) => {
                self.trace(&asked.ask, What::Failed { detail: detail.clone() });
                self.source(shard).failure = Some((kind, detail));
                self.scheduler.failed(request, Setback::Lost, now_us);
            }
        }
    }

    /// What a node took is learned, by the fleet and by the scheduler.
    fn observe(&mut self, seat: &Arc<Seat>, asked: &Asked) {
        let now_us = self.inner.fleet.now_us();
        seat.estimate.lock().observe(asked.bytes, asked.since.elapsed().as_micros() as u64, now_us);
        if let Some(node) = self.seats.iter().position(|other| Arc::ptr_eq(other, seat)) {
            let own = self.in_flight.tags().filter(|other| {
                self.sources.shards[other.ask.shard].as_ref().is_some_and(|source| source.node == seat.id)
            });
            let own = own.count() as u32;
            self.scheduler.set_view(node, node_view(seat, false, own));
        }
    }

    fn give_up(&mut self, request: RequestId, late: bool) {
        for (asked, call) in self.in_flight.take(|asked| asked.ask.request == request) {
            drop(call);
            self.trace(&asked.ask, What::Dropped);
            if late {
                // A read that could do without a laggard tells the fleet: next time it is asked last.
                let seat = self.seat(asked.ask.shard);
                self.observe(&seat, &asked);
                self.inner.fleet.report_seat(&seat, Err(NodeErrorKind::TimedOut));
            }
        }
    }

    fn expire(&mut self, request: RequestId) {
        for (asked, call) in self.in_flight.take(|asked| asked.ask.request == request) {
            drop(call);
            let seat = self.seat(asked.ask.shard);
            self.observe(&seat, &asked);
            let error = timed_out(&seat.name, asked.since.elapsed().as_millis() as u64);
            self.trace(&asked.ask, What::Failed { detail: error.to_string() });
            self.inner.fleet.report_seat(&seat, Err(error.kind));
            self.source(asked.ask.shard).failure = Some((SuspectKind::of(error.kind), error.to_string()));
        }
    }

    fn tell(&mut self, request: RequestId, what: What) {
        let ask = self.in_flight.tags().find(|asked| asked.ask.request == request).map(|asked| asked.ask.clone());
        if let Some(ask) = ask {
            self.trace(&ask, what);
        }
    }

    fn trace(&mut self, ask: &Ask, what: What) {
        if self.inner.tracer.is_on() {
            let node = self.seat(ask.shard).name.clone();
            let payload: Range<u64> = ask.payload.clone();
            let of = Some((ask.request, ask.shard, node, payload));
            self.inner.tracer.tell(Event::new(self.started, self.sources.segment, ask.set, of, what));
        }
    }

    fn tell_set(&mut self, set: usize, what: What) {
        if self.inner.tracer.is_on() {
            self.inner.tracer.tell(Event::new(self.started, self.sources.segment, set, None, what));
        }
    }
}

static NOTHING: Held = Held::nothing();

/// Counts a get as under way to its node for as long as it lives.
struct Get {
    seat: Arc<Seat>,
}

impl Drop for Get {
    fn drop(&mut self) {
        self.seat.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A get that goes on while nobody looks, and ends when nobody wants it any more.
struct Background(JoinHandle<Result<Bytes, NodeError>>);

impl Background {
    async fn join(mut self) -> Result<Bytes, NodeError> {
        match (&mut self.0).await {
            Ok(outcome) => outcome,
            Err(stopped) => std::panic::resume_unwind(stopped.into_panic()),
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn node_view(seat: &Seat, suspected: bool, own_load: u32) -> NodeView {
    let capability = seat.node.capability();
    NodeView {
        estimate: *seat.estimate.lock(),
        load: seat.under_way.load(Ordering::Relaxed).saturating_sub(own_load),
        request_price: capability.request_price,
        kib_price: capability.kib_out_price,
        suspected,
    }
}

/// What a failed check says of a shard.
pub(crate) fn suspect_kind(error: &ShardError) -> SuspectKind {
    match error {
        ShardError::Short { .. } | ShardError::Long { .. } => SuspectKind::Length,
        _ => SuspectKind::Checksum,
    }
}

async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
