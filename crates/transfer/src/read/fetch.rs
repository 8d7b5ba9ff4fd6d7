//! Stage 3: what the scheduler says is sent to nodes, and what comes back is checked and told to it. The thin, impure part: it
//! owns the clock, the bytes and the calls under way, and decides nothing.

use super::held::Held;
use super::report::ReadReport;
use crate::error::{ReadError, timed_out};
use crate::fleet::{NodeHandle, no_member};
use crate::in_flight::{Call, InFlight, until};
use crate::read_plan::ReadPlan;
use crate::scheduler::{Ask, Deadline, Effect, NodeView, Plans, RequestId, Scheduler, SetShape, Setback};
use crate::soundness::{check_frames, frames_of};
use crate::suspect::{Failures, ShardFailure, Suspect, SuspectKind};
use crate::throttle::ForegroundCall;
use crate::trace::{Event, What};
use crate::transfer::Inner;
use crate::uplink::{InFlightBytes, SLOWEST_BYTES_PER_MS};
use bytes::Bytes;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use weft_codes::Shape;
use weft_env::Task;
use weft_format::records::SegmentRecord;
use weft_format::shard::{ShardIdentity, frames_range, verify_frames};
use weft_format::{NodeId, SegmentId, ShardIndex, ShardKey};
use weft_nodes::{Class, NodeError, NodeErrorKind};

/// When nothing has come for so long, all nodes that were not heard of are asked whether they are there, ...
const QUIET: Duration = Duration::from_millis(1_500);
/// ... and those that do not say so within this time are silent: one wait for all of them, however many they are.
const QUIET_DEADLINE: Duration = Duration::from_secs(2);

/// One shard of a segment.
struct Source {
    node: NodeId,
    key: ShardKey,
    /// `None`: no such node now.
    handle: Option<Arc<NodeHandle>>,
    failure: Option<Failure>,
}

/// Why a shard cannot be used.
#[derive(Clone)]
struct Failure {
    kind: SuspectKind,
    detail: String,
    /// Frames that failed, where others may be sound.
    frames: Option<Vec<Range<u64>>>,
}

impl Failure {
    fn of(error: &NodeError) -> Self {
        Self { kind: SuspectKind::of(error.kind), detail: error.to_string(), frames: None }
    }
}

/// A segment that sets are read of.
pub(crate) struct Sources {
    segment: SegmentId,
    payload_bytes: u64,
    /// How many shards always suffice.
    needed: usize,
    /// By shard; `None`: the record has no place for it.
    shards: Vec<Option<Source>>,
    report: ReadReport,
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
        let handles = inner.fleet.handles(inner.class);
        let source = |(index, location): (usize, &Option<weft_format::records::ShardLocation>)| {
            let location = location.as_ref().filter(|_| !given_up.contains(&index))?;
            let handle = handles.get(&location.node).cloned();
            let failure = handle.is_none().then(|| no_member(location.node));
            Some(Source {
                node: location.node,
                key: location.key(segment, ShardIndex(index as u16)),
                handle,
                failure: failure.as_ref().map(Failure::of),
            })
        };
        Self {
            segment,
            payload_bytes: record.geometry.payload_bytes(),
            needed: shape.n - shape.tolerance,
            shards: record.shards.iter().enumerate().map(source).collect(),
            report: ReadReport::default(),
        }
    }

    fn failures(&self) -> Failures {
        let failure = |(index, source): (usize, &Option<Source>)| {
            let source = source.as_ref()?;
            let Failure { kind, detail, frames } = source.failure.clone()?;
            Some(ShardFailure { index: ShardIndex(index as u16), node: source.node, kind, detail, frames })
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
    handle: Arc<NodeHandle>,
    since: Instant,
    bytes: u64,
    /// Bytes that were under way to the node then.
    ahead_bytes: u64,
}

/// A download under way.
pub(crate) struct Download<'a, P> {
    inner: &'a Inner,
    /// The segments read.
    sources: Vec<Sources>,
    /// By set: of which of them it is.
    segments: Vec<usize>,
    scheduler: Scheduler<P>,
    /// By node as the scheduler counts them.
    handles: Vec<Arc<NodeHandle>>,
    /// By set; what is delivered is let go of.
    held: HashMap<usize, Held>,
    in_flight: InFlight<'a, Asked, Result<Bytes, NodeError>>,
    started: Instant,
    /// Since when nothing has come, ...
    quiet_since: Instant,
    /// ... and when all nodes were asked about it.
    asked_all: Option<Instant>,
    /// What limits on this side hold back is no silence.
    held_back: Duration,
    fetched_bytes: u64,
    /// More than one set: gets go on while a set is computed on.
    in_background: bool,
}

impl<'a, P: Plans> Download<'a, P> {
    /// A download of sets of these segments; `allowance_bytes` is what it may cost beyond the least.
    pub(crate) fn new(
        inner: &'a Inner,
        sources: Vec<Sources>,
        sets: Vec<SetShape>,
        plans: P,
        allowance_bytes: u64,
    ) -> Self {
        let (view, now_ms, now) = (inner.fleet.view(), inner.fleet.now_ms(), inner.fleet.clock().now());
        let mut handles: Vec<Arc<NodeHandle>> = Vec::new();
        let mut lane = |source: &Option<Source>| {
            let handle = source.as_ref()?.handle.as_ref()?;
            let known = handles.iter().position(|other| Arc::ptr_eq(other, handle));
            Some(known.unwrap_or_else(|| {
                handles.push(handle.clone());
                handles.len() - 1
            }))
        };
        let mut lanes = Vec::new();
        for segment in &sources {
            lanes.push(segment.shards.iter().map(&mut lane).collect());
        }
        let suspected =
            |handle: &NodeHandle| view.members.get(&handle.id).is_some_and(|member| member.health.is_suspected(now_ms));
        let now_us = inner.fleet.now_us();
        let nodes = handles.iter().map(|handle| node_view(handle, suspected(handle), (0, 0), now_us)).collect();
        let bytes = sets.iter().map(|set| set.block_bytes).sum();
        let held_back: Duration = handles.iter().map(|handle| handle.node.held_back(bytes)).max().unwrap_or_default();
        let base_us = inner.settings.node_deadline_ms * 1000 + held_back.as_micros() as u64;
        let deadline = Deadline { base_us, bytes_per_ms: SLOWEST_BYTES_PER_MS };
        let in_background = sets.len() > 1;
        let profile = inner.settings.profile;
        Self {
            inner,
            sources,
            segments: sets.iter().map(|set| set.segment).collect(),
            scheduler: Scheduler::new(plans, profile, deadline, nodes, lanes, sets, allowance_bytes),
            handles,
            held: HashMap::new(),
            in_flight: InFlight::new(),
            started: now,
            quiet_since: now,
            asked_all: None,
            held_back,
            fetched_bytes: 0,
            in_background,
        }
    }

    /// The next set that has all its plan reads; `None`: all are delivered.
    ///
    /// # Errors
    /// `Unrecoverable`: what is left does not suffice.
    pub(crate) async fn next(&mut self) -> Result<Option<(usize, ReadPlan)>, ReadError> {
        self.see_uplink();
        self.scheduler.dispatch(self.now_us());
        loop {
            while let Some(effect) = self.scheduler.effect() {
                match effect {
                    Effect::Ask(ask) => self.ask(ask),
                    Effect::Drop { request, late } => self.give_up(request, late),
                    Effect::Late { request } => self.tell(request, What::Late),
                    Effect::Expired { request } => self.expire(request),
                    Effect::Ready { set, plan } => {
                        self.of(set).report.degraded |= !plan.computed.is_empty();
                        self.tell_set(set, What::Ready { degraded: !plan.computed.is_empty() });
                        return Ok(Some((set, plan)));
                    }
                    Effect::Stuck { set } => return Err(self.of(set).unrecoverable()),
                }
            }
            if self.scheduler.is_done() {
                return Ok(None);
            }
            let silence_at = self.silence_at();
            let wake_at = self.scheduler.wake_at_us().map(|us| self.started + Duration::from_micros(us));
            let wake_at = wake_at.into_iter().chain(silence_at).min();
            let ended = tokio::select! {
                biased;
                ended = self.in_flight.next(), if !self.in_flight.is_empty() => ended,
                () = until(wake_at, self.inner.fleet.clock()) => None,
            };
            match ended {
                Some((asked, outcome)) => self.take_in(asked, outcome),
                None => {
                    if silence_at.is_some_and(|at| at <= self.inner.fleet.clock().now()) {
                        self.look_for_silence();
                    }
                    let wait = self.inner.uplink.wait(0, self.inner.fleet.now_ms());
                    self.scheduler.wait_longer(wait.as_micros() as u64);
                    self.see_uplink();
                    self.scheduler.wake(self.now_us());
                }
            }
        }
    }

    /// When to do something about silence; `None`: nothing is waited for, or a time-out of the profile decides.
    fn silence_at(&self) -> Option<Instant> {
        if self.in_flight.is_empty() || self.inner.settings.profile.timeout_ms.is_some() {
            return None;
        }
        // This client's uplink may have much else to do.
        let wait = self.inner.uplink.wait(0, self.inner.fleet.now_ms()) + self.held_back;
        Some(self.asked_all.map_or(self.quiet_since + QUIET, |asked| asked + QUIET_DEADLINE) + wait)
    }

    /// Asks all nodes of which nothing was heard whether they are there; later gives up those that did not say so.
    fn look_for_silence(&mut self) {
        let unheard = |handle: &Arc<NodeHandle>| !handle.was_heard_since(self.quiet_since);
        let silent: Vec<usize> = (0..self.handles.len()).filter(|node| unheard(&self.handles[*node])).collect();
        if self.asked_all.is_none() {
            self.asked_all = Some(self.now());
            silent.iter().for_each(|node| self.inner.fleet.ask_if_there(&self.handles[*node], &self.inner.runtime));
            return;
        }
        let waited_ms = self.inner.fleet.clock().elapsed(self.quiet_since).as_millis() as u64;
        (self.quiet_since, self.asked_all) = (self.now(), None);
        for node in &silent {
            let handle = &self.handles[*node];
            let error = timed_out(&handle.name, waited_ms);
            self.inner.fleet.report_of(handle, Err(error.kind));
            let sources = self.sources.iter_mut().flat_map(|segment| segment.shards.iter_mut().flatten());
            for source in sources.filter(|source| source.node == handle.id && source.failure.is_none()) {
                source.failure = Some(Failure::of(&error));
            }
        }
        if !silent.is_empty() {
            let now_us = self.now_us();
            self.scheduler.silent(&silent, now_us);
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

    /// How it went, by segment.
    pub(crate) fn finish(mut self) -> Vec<ReadReport> {
        let report = |segment: Sources| {
            let failures = segment.failures().0.into_iter();
            let suspects = failures.map(|failure| Suspect::of(&failure)).collect();
            ReadReport { suspects, ..segment.report }
        };
        std::mem::take(&mut self.sources).into_iter().map(report).collect()
    }

    /// The scheduler knows how busy this client's uplink is.
    fn see_uplink(&mut self) {
        let view = self.inner.uplink.view(self.inner.fleet.now_ms());
        let now_us = self.now_us();
        self.scheduler.set_uplink(view, now_us);
    }

    fn now(&self) -> Instant {
        self.inner.fleet.clock().now()
    }

    fn now_us(&self) -> u64 {
        self.inner.fleet.clock().elapsed(self.started).as_micros() as u64
    }

    /// The segment that a set is of.
    fn of(&mut self, set: usize) -> &mut Sources {
        &mut self.sources[self.segments[set]]
    }

    fn source(&mut self, ask: &Ask) -> &mut Source {
        self.of(ask.set).shards[ask.shard].as_mut().expect("only shards that are offered are asked")
    }

    fn handle(&mut self, ask: &Ask) -> Arc<NodeHandle> {
        self.source(ask).handle.clone().expect("a shard without a node is not asked")
    }

    fn ask(&mut self, ask: Ask) {
        let range = frames_range(ask.payload.clone(), self.of(ask.set).payload_bytes);
        let (handle, key) = (self.handle(&ask), self.source(&ask).key);
        let bytes = range.end - range.start;
        self.trace(&ask, What::Asked { bytes, instead: ask.instead });
        let (counted, ahead_bytes) = Counted::new(self.inner, handle.clone(), bytes);
        let get = async move { counted.handle.node.get(key, range).await };
        let call: Call<'a, _> = match self.in_background {
            true => Box::pin(Background(self.inner.runtime.spawn(get)).join()),
            false => Box::pin(get),
        };
        self.in_flight.push(Asked { ask, handle, since: self.now(), bytes, ahead_bytes }, call);
    }

    /// Checks what came back for a get, keeps it, or makes its shard an erasure.
    fn take_in(&mut self, asked: Asked, outcome: Result<Bytes, NodeError>) {
        let Ask { request, set, shard, ref payload, .. } = asked.ask;
        let (volume, payload_bytes) = (self.inner.volume, self.of(set).payload_bytes);
        let handle = asked.handle.clone();
        self.inner.fleet.report_of(&handle, outcome.as_ref().map(|_| ()).map_err(|error| error.kind));
        if let Ok(bytes) = &outcome {
            self.inner.uplink.moved(bytes.len() as u64, self.inner.fleet.now_ms());
        }
        self.see_uplink();
        let identity = ShardIdentity { volume, key: self.source(&asked.ask).key };
        if outcome.as_ref().is_err_and(|error| error.kind == NodeErrorKind::Busy) {
            self.trace(&asked.ask, What::Busy);
            let now_us = self.now_us();
            if let (true, Err(error)) = (self.scheduler.failed(request, Setback::Busy, now_us), outcome) {
                self.source(&asked.ask).failure = Some(Failure::of(&error));
            }
            return;
        }
        let checked = outcome.map_err(|error| Failure::of(&error)).and_then(|raw| {
            match verify_frames(&identity, payload_bytes, payload.clone(), &raw) {
                Ok(_) => Ok(raw),
                Err(error) => Err(Failure {
                    kind: SuspectKind::of_check(&error),
                    detail: format!("node {}: {error}", handle.name),
                    frames: Some(unsound_of(&identity, payload_bytes, payload, &raw)),
                }),
            }
        });
        let now_us = self.now_us();
        match checked {
            Ok(raw) => {
                self.observe(&asked);
                (self.quiet_since, self.asked_all) = (self.now(), None);
                self.trace(&asked.ask, What::Arrived { bytes: raw.len() as u64 });
                self.of(set).report.bytes_fetched += raw.len() as u64;
                self.fetched_bytes += raw.len() as u64;
                let shard_count = self.of(set).shards.len();
                let held = self.held.entry(set).or_insert_with(|| Held::new(shard_count));
                held.insert(shard, asked.ask.payload, raw);
                self.scheduler.arrived(request, now_us);
            }
            Err(failure) => {
                self.trace(&asked.ask, What::Failed { detail: failure.detail.clone() });
                self.source(&asked.ask).failure = Some(failure);
                self.scheduler.failed(request, Setback::Lost, now_us);
            }
        }
    }

    /// What a node took is learned, by the fleet and by the scheduler.
    fn observe(&mut self, asked: &Asked) {
        let handle = &asked.handle;
        let now_us = self.inner.fleet.now_us();
        handle.estimate.lock().observe(
            asked.bytes + asked.ahead_bytes,
            self.inner.fleet.clock().elapsed(asked.since).as_micros() as u64,
            now_us,
        );
        if let Some(node) = self.handles.iter().position(|other| Arc::ptr_eq(other, handle)) {
            let is_own = |other: &&Asked| Arc::ptr_eq(&other.handle, handle);
            let own = self.in_flight.tags().filter(is_own).map(|own| own.bytes);
            let own = own.fold((0, 0), |(count, bytes), own| (count + 1, bytes + own));
            // Not suspected, be it ever so late: within a download its times say enough.
            self.scheduler.set_view(node, node_view(handle, false, own, now_us));
        }
    }

    fn give_up(&mut self, request: RequestId, late: bool) {
        for (asked, call) in self.in_flight.take(|asked| asked.ask.request == request) {
            drop(call);
            self.trace(&asked.ask, What::Dropped);
            if late {
                // A read that could do without a laggard tells the fleet: next time it is asked last.
                self.observe(&asked);
                self.inner.fleet.report_of(&asked.handle, Err(NodeErrorKind::TimedOut));
            }
        }
    }

    fn expire(&mut self, request: RequestId) {
        for (asked, call) in self.in_flight.take(|asked| asked.ask.request == request) {
            drop(call);
            self.observe(&asked);
            let error = timed_out(&asked.handle.name, self.inner.fleet.clock().elapsed(asked.since).as_millis() as u64);
            self.trace(&asked.ask, What::Failed { detail: error.to_string() });
            self.inner.fleet.report_of(&asked.handle, Err(error.kind));
            self.source(&asked.ask).failure = Some(Failure::of(&error));
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
            let (node, segment) = (self.handle(ask).name.clone(), self.of(ask.set).segment);
            let payload: Range<u64> = ask.payload.clone();
            let of = Some((ask.request, ask.shard, node, payload));
            self.inner.tracer.tell(Event::new((self.started, self.now()), segment, ask.set, of, what));
        }
    }

    fn tell_set(&mut self, set: usize, what: What) {
        if self.inner.tracer.is_on() {
            let segment = self.of(set).segment;
            self.inner.tracer.tell(Event::new((self.started, self.now()), segment, set, None, what));
        }
    }
}

/// However it ends, what hedging did not spend goes back.
impl<P> Drop for Download<'_, P> {
    fn drop(&mut self) {
        self.inner.hedge_budget.settle(self.fetched_bytes, self.scheduler.allowance_bytes());
    }
}

static NOTHING: Held = Held::nothing();

/// Counts a get as under way to its node for as long as it lives.
struct Counted {
    handle: Arc<NodeHandle>,
    bytes: u64,
    _foreground: Option<ForegroundCall>,
    _in_flight_bytes: InFlightBytes,
}

impl Counted {
    /// And how many bytes were under way before.
    fn new(inner: &Inner, handle: Arc<NodeHandle>, bytes: u64) -> (Self, u64) {
        handle.under_way.fetch_add(1, Ordering::Relaxed);
        let ahead_bytes = handle.under_way_bytes.fetch_add(bytes, Ordering::Relaxed);
        let foreground = (inner.class == Class::Foreground).then(|| ForegroundCall::new(&handle.traffic));
        (
            Self {
                handle,
                bytes,
                _foreground: foreground,
                _in_flight_bytes: inner.uplink.enter(bytes, inner.fleet.now_ms()),
            },
            ahead_bytes,
        )
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.handle.under_way.fetch_sub(1, Ordering::Relaxed);
        self.handle.under_way_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// A get that goes on while nobody looks, and ends when nobody wants it any more.
struct Background(Task<Result<Bytes, NodeError>>);

impl Background {
    async fn join(mut self) -> Result<Bytes, NodeError> {
        match (&mut self.0).await {
            Ok(outcome) => outcome,
            Err(stopped) => stopped.go_on(),
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// `own` are the gets, and their bytes, that the scheduler knows of; `now_us` is the fleet's.
fn node_view(handle: &NodeHandle, suspected: bool, own: (u32, u64), now_us: u64) -> NodeView {
    let capability = handle.node.capability();
    NodeView {
        estimate: *handle.estimate.lock(),
        load: handle.under_way.load(Ordering::Relaxed).saturating_sub(own.0),
        load_bytes: handle.under_way_bytes.load(Ordering::Relaxed).saturating_sub(own.1),
        rumoured_us: handle.rumoured_us(now_us),
        request_price: capability.request_price,
        kib_price: capability.kib_out_price,
        suspected,
    }
}

/// The frames asked for that fail their checks.
fn unsound_of(identity: &ShardIdentity, payload_bytes: u64, payload: &Range<u64>, raw: &[u8]) -> Vec<Range<u64>> {
    let runs = check_frames(identity, payload_bytes, frames_of(payload), raw).into_iter();
    runs.filter(|(_, is_sound)| !is_sound).map(|(run, _)| run).collect()
}
