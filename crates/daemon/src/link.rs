//! One link of a daemon: the connections to one of its addresses, and what is known of it. `link_set.rs` has several.

use super::client::DaemonNode;
use super::connections::Watch;
use super::links::{
    Candidate, Errand, Latency, PROBE_DEADLINE, PROBE_OF_USED, PROBE_WISHED, Standing, has_room, probe_again,
};
use super::loads::{Load, Loads, UnderWay};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};
use weft_nodes::error::NodeError;
use weft_nodes::node::{LinkReport, LinkState};
use weft_nodes::rate::Class;

/// See the module's head.
pub(super) struct Link {
    node: DaemonNode,
    loads: Arc<Loads>,
    /// The cable to its host.
    remote: Arc<Load>,
    /// What is under way over this link, of all that is on the cable.
    own: Arc<Load>,
    /// The same for each class, where nobody looks how a request is going.
    of_class: [Arc<DaemonNode>; 2],
    state: Mutex<State>,
}

struct State {
    standing: Standing,
    latency: Latency,
    /// As users see it, and since when.
    shown: LinkState,
    since_ms: u64,
    why: Option<String>,
    /// A probe is under way since then.
    probe_began: Option<Instant>,
    probe_ended: Option<Instant>,
    /// Probes in vain, one after the other.
    failures: u32,
    /// When it was last up after it was not.
    up_since: Instant,
}

impl Link {
    /// What an earlier process knew of it stands until it is known better.
    pub(super) fn new(
        node: DaemonNode,
        standing: Standing,
        kept: Option<&LinkReport>,
        loads: &Arc<Loads>,
    ) -> Arc<Self> {
        let (now, now_ms) = (node.env().clock.now(), node.env().clock.unix_ms());
        let kept_us = kept.and_then(|kept| kept.latency_us);
        let state = State {
            standing,
            latency: Latency::remembered(kept_us.map(Duration::from_micros)),
            shown: kept
                .map_or(if standing == Standing::Up { LinkState::Up } else { LinkState::Down }, |kept| kept.state),
            since_ms: kept.map_or(now_ms, |kept| kept.since_ms),
            why: None,
            probe_began: None,
            probe_ended: None,
            failures: 0,
            up_since: now,
        };
        let of_class =
            [Class::Foreground, Class::Background].map(|class| Arc::new(node.watched(&Arc::default(), class)));
        let host = node.address().rsplit_once(':').map_or("", |(host, _)| host);
        let (loads, remote) = (Arc::clone(loads), loads.of(host));
        remote.add_link(node.connections().progress(), kept.and_then(|kept| kept.bytes_per_second), now);
        Arc::new(Self { node, loads, remote, own: Arc::default(), of_class, state: Mutex::new(state) })
    }

    /// Host and port.
    pub(super) fn address(&self) -> &str {
        self.node.address()
    }

    /// The daemon by this link alone, for requests that `watch` looks at.
    pub(super) fn watched(&self, watch: &Arc<Watch>, class: Class) -> Arc<DaemonNode> {
        Arc::new(self.node.watched(watch, class))
    }

    pub(super) fn node(&self) -> &DaemonNode {
        &self.node
    }

    /// The daemon by this link alone.
    pub(super) fn of_class(&self, class: Class) -> Arc<DaemonNode> {
        Arc::clone(&self.of_class[class as usize])
    }

    pub(super) fn now(&self) -> Instant {
        self.node.env().clock.now()
    }

    /// The cable of the own address that leads there.
    fn local(&self) -> Option<Arc<Load>> {
        // One that is a daemon's host, too, is another cable.
        Some(self.loads.of(&format!("own {}", self.node.connections().local()?)))
    }

    /// When bytes last came over it.
    pub(super) fn received(&self) -> Option<Instant> {
        self.node.connections().progress().received()
    }

    /// The cable to its host.
    pub(super) fn remote(&self) -> &Load {
        &self.remote
    }

    pub(super) fn standing(&self) -> Standing {
        self.state.lock().standing
    }

    /// When the probe began that is under way. One whose runtime has ended never ends.
    pub(super) fn probe_began(&self, now: Instant) -> Option<Instant> {
        self.state.lock().probe_began.filter(|began| now.saturating_duration_since(*began) < 2 * PROBE_DEADLINE)
    }

    pub(super) fn doubt(&self) {
        let mut state = self.state.lock();
        if state.standing == Standing::Up {
            state.standing = Standing::Doubted;
        }
    }

    /// Asks who is there, and takes in what that says of the link.
    pub(super) async fn prove(&self) {
        let began = self.now();
        self.state.lock().probe_began = Some(began);
        let is_new = self.standing() != Standing::Up;
        let asked = async {
            if is_new {
                // It makes a connection first, which takes longer than a request.
                self.node.prove().await?;
            }
            let asked_at = self.now();
            self.node.prove().await?;
            Ok(self.node.env().clock.elapsed(asked_at))
        };
        let proved = self.node.env().clock.timeout(PROBE_DEADLINE, asked).await;
        let (now, now_ms) = (self.now(), self.node.env().clock.unix_ms());
        let was_heard = self.received().is_some_and(|received| received >= began);
        let mut state = self.state.lock();
        (state.probe_began, state.probe_ended) = (None, Some(now));
        let took = if let Ok(Ok(took)) = &proved { *took } else { now.saturating_duration_since(began) };
        let why = match proved {
            Ok(Ok(_)) => None,
            // It is full of other bytes.
            Err(_) if was_heard && state.standing != Standing::New => None,
            Ok(Err(NodeError { detail, .. })) => Some(detail),
            Err(_) => Some(format!("no answer within {} s", PROBE_DEADLINE.as_secs())),
        };
        let shown = match &why {
            None => {
                state.latency.answered(took);
                if state.standing != Standing::Up {
                    state.up_since = now;
                }
                (state.standing, state.failures) = (Standing::Up, 0);
                LinkState::Up
            }
            Some(_) => {
                (state.standing, state.failures) = (Standing::Down, state.failures.saturating_add(1));
                self.node.connections().clear();
                LinkState::Down
            }
        };
        state.why = why;
        if state.shown != shown {
            (state.shown, state.since_ms) = (shown, now_ms);
            match &state.why {
                None => tracing::info!(node = self.node.name(), "its link {} is up", self.node.address()),
                Some(why) => {
                    tracing::warn!(node = self.node.name(), "its link {} is down: {why}", self.node.address());
                }
            }
        }
    }

    pub(super) fn begin(self: &Arc<Self>, errand: Errand, watch: &Arc<Watch>) -> Under {
        let (bytes, is_large_put) = (errand.bytes, errand.is_large_put());
        let request = Arc::new(UnderWay { bytes, is_large_put, began: self.now(), watch: Arc::clone(watch) });
        let loads = [Some(Arc::clone(&self.remote)), Some(Arc::clone(&self.own)), self.local()];
        loads.iter().flatten().for_each(|load| load.begin(&request));
        Under { link: Arc::clone(self), request, loads }
    }

    /// May a large put begin? One to this daemon always may, so that a slow one on the same cable is in nobody's way.
    pub(super) fn has_room(&self, bytes: u64, now: Instant) -> bool {
        let (speed, alone) = (self.remote.speed().bytes_per_second(), self.remote.alone().bytes_per_second(now));
        self.own.moving_puts(now).is_empty() || has_room(&self.remote.moving_puts(now), bytes, speed, alone)
    }

    /// Is it to be probed without anybody's wish?
    pub(super) fn is_due(&self, now: Instant) -> bool {
        let state = self.state.lock();
        let pause = match state.standing {
            Standing::Up => PROBE_OF_USED,
            Standing::New | Standing::Doubted | Standing::Down => probe_again(state.failures.saturating_sub(1)),
        };
        state.probe_ended.is_none_or(|ended| ended + pause <= now)
    }

    /// May a request wish that it is probed? One that is down was not probed just now.
    pub(super) fn may_be_probed(&self, now: Instant) -> bool {
        let state = self.state.lock();
        let ended = state.probe_ended.filter(|_| state.standing == Standing::Down);
        ended.is_none_or(|ended| ended + PROBE_WISHED <= now)
    }

    /// Has its next probe begun? False: one is under way.
    pub(super) fn begin_probe(&self, now: Instant) -> bool {
        if self.probe_began(now).is_some() {
            return false;
        }
        self.state.lock().probe_began = Some(now);
        true
    }

    /// For a choice among links of which the fastest has carried `best`, by a request that was made over this one at `tried`.
    pub(super) fn candidate(&self, now: Instant, best: Option<u64>, tried: Option<Instant>) -> Candidate {
        let in_flight_bytes = self.remote.bytes() + self.local().map_or(0, |local| local.bytes());
        let state = self.state.lock();
        Candidate {
            is_usable: state.standing == Standing::Up && tried.is_none_or(|tried| tried < state.up_since),
            in_flight_bytes,
            bytes_per_second: self.remote.speed().expected_bytes_per_second(now).min(best),
            latency: state.latency.mean().unwrap_or_default(),
        }
    }

    pub(super) fn latency(&self) -> Latency {
        self.state.lock().latency
    }

    pub(super) fn report(&self) -> LinkReport {
        let state = self.state.lock();
        LinkReport {
            address: self.node.address().to_owned(),
            state: state.shown,
            since_ms: state.since_ms,
            bytes_per_second: self.remote.speed().bytes_per_second(),
            latency_us: state.latency.mean().map(|latency| latency.as_micros() as u64),
            why: state.why.clone(),
        }
    }
}

/// A request under way over a link, until it is dropped.
pub(super) struct Under {
    link: Arc<Link>,
    request: Arc<UnderWay>,
    loads: [Option<Arc<Load>>; 3],
}

impl Under {
    /// It has succeeded, if it was a put.
    pub(super) fn stored(&self) {
        self.link.remote.stored(&self.request, self.link.now());
    }
}

impl Drop for Under {
    fn drop(&mut self) {
        let now = self.link.now();
        self.loads.iter().flatten().for_each(|load| load.end(&self.request, now));
        self.link.loads.ended.notify_waiters();
    }
}
