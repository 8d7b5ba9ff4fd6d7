//! The links of one daemon: connections to each of its addresses, what is known of each, and requests over all of them.
//!
//! Each link is a [`DaemonNode`], the daemon at one address. A further address is used when the daemon has proved there who it is, with the
//! key and the certificate that the first one has. It proves it again when the link was down.
//!
//! The loop: `links::choose -> request over that link -> links::judge while nothing moves -> the same request over another link, too ->
//! the first answer`. A request may so be made twice: shards have one content for each name, so that changes nothing.

use super::address::DaemonUrl;
use super::auth::Key;
use super::client::DaemonNode;
use super::connections::Watch;
use super::link::Link;
use super::links::{
    Candidate, Errand, LARGE_BYTES, LINKS_MAX, Look, SAMPLE_BYTES_MIN, Standing, Verdict, choose, is_slow, judge,
    those_with_room,
};
use super::loads::Loads;
use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use parking_lot::RwLock;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use weft_env::Env;
use weft_nodes::error::{NodeError, NodeErrorKind};
use weft_nodes::node::{LinkReport, LinkState, NodeIdentity};

/// How soon a request that waits for a probe or for its turn looks again, if nothing wakes it.
const LOOK: Duration = Duration::from_millis(50);

/// A large request waits so long for links that were never tried, as all of its bytes would take the first one: some round trips within a continent.
const FIRST_PROBE_MAX: Duration = Duration::from_millis(200);

/// How often a request takes each link, on average: what breaks it may let the probes pass that say that the link is up.
const TRIES_PER_LINK_MAX: usize = 2;

/// The links of one daemon, the address that the user was given first.
pub(super) struct LinkSet {
    links: RwLock<Arc<Vec<Arc<Link>>>>,
    /// A probe has ended, or there are other links.
    changed: Notify,
    loads: Arc<Loads>,
    env: Env,
}

/// A request that was made over a link.
struct Attempt {
    number: usize,
    /// Which link.
    at: usize,
    began: Instant,
    watch: Arc<Watch>,
}

/// Of a large put, until it has begun.
type Turn<'a> = tokio::sync::MutexGuard<'a, ()>;

/// A request does not take a link twice, unless that was away meanwhile.
type Tried = Vec<(usize, Instant)>;

impl LinkSet {
    /// The daemon at the address of `node`, with what an earlier process knew of its links.
    pub(super) fn new(node: DaemonNode, kept: &[LinkReport], loads: &Arc<Loads>) -> Arc<Self> {
        let env = node.env().clone();
        let known = kept.iter().find(|link| link.address == node.address());
        let first = Link::new(node, Standing::Up, known, loads);
        let set = Arc::new(Self {
            links: RwLock::new(Arc::new(vec![first])),
            changed: Notify::new(),
            loads: Arc::clone(loads),
            env,
        });
        set.set_further(kept.iter().map(|link| link.address.as_str()), kept);
        set
    }

    /// The same, of which others say that it has these addresses, too.
    pub(super) fn with_further(node: DaemonNode, further: &[String], loads: &Arc<Loads>) -> Arc<Self> {
        let set = Self::new(node, &[], loads);
        set.hear_of(further);
        set
    }

    /// Takes in addresses of which others say that they are the daemon's, as long as it has told none.
    pub(super) fn hear_of(&self, further: &[String]) {
        if self.is_one() && !further.is_empty() {
            self.set_further(further.iter().map(String::as_str), &[]);
        }
    }

    fn links(&self) -> Arc<Vec<Arc<Link>>> {
        Arc::clone(&self.links.read())
    }

    /// The link that the user was given.
    pub(super) fn first(&self) -> Arc<Link> {
        Arc::clone(&self.links.read()[0])
    }

    /// Is there no other than the first?
    pub(super) fn is_one(&self) -> bool {
        self.links.read().len() == 1
    }

    /// How many may be used.
    pub(super) fn up_count(&self) -> usize {
        self.links().iter().filter(|link| link.standing() == Standing::Up).count()
    }

    /// Keeps the first link and has these beside it, each once.
    fn set_further<'a>(&self, addresses: impl Iterator<Item = &'a str>, kept: &[LinkReport]) {
        let mut links = self.links.write();
        let first = Arc::clone(&links[0]);
        // The name that the user was given may stand for one of the addresses.
        let peer = first.node().connections().peer().map(|peer| peer.to_string());
        let mut new = vec![Arc::clone(&first)];
        for address in addresses.filter_map(|text| DaemonUrl::parse("weft", text).ok()).map(|url| url.authority) {
            let is_known = new.iter().any(|link| link.address() == address) || peer.as_ref() == Some(&address);
            if is_known || new.len() == LINKS_MAX {
                continue;
            }
            let known = links.iter().find(|link| link.address() == address);
            let made = || {
                let kept = kept.iter().find(|link| link.address == address);
                Link::new(first.node().at(&address), Standing::New, kept, &self.loads)
            };
            new.push(known.map_or_else(made, Arc::clone));
        }
        *links = Arc::new(new);
    }

    /// Takes in the addresses that the daemon has told since this was done last.
    fn learn(self: &Arc<Self>) {
        let Some(told) = self.first().node().told().take_new() else { return };
        self.set_further(told.split(','), &[]);
        for link in self.links().iter() {
            self.probe(link);
        }
        self.changed.notify_waiters();
    }

    /// Has a link probed, unless that is being done.
    fn probe(self: &Arc<Self>, link: &Arc<Link>) {
        if !link.begin_probe(self.env.clock.now()) {
            return;
        }
        let (set, link) = (Arc::clone(self), Arc::clone(link));
        self.env.spawner.task(Box::pin(async move {
            link.prove().await;
            set.changed.notify_waiters();
            set.learn();
        }));
    }

    fn probe_those(self: &Arc<Self>, links: &[Arc<Link>], is_probed: impl Fn(&Link) -> bool) {
        links.iter().filter(|link| is_probed(link)).for_each(|link| self.probe(link));
    }

    fn choose(&self, links: &[Arc<Link>], tried: &Tried, bytes: u64) -> Option<usize> {
        match tried.len() >= TRIES_PER_LINK_MAX * links.len() {
            true => None,
            false => choose(&self.candidates(links, tried), bytes),
        }
    }

    fn candidates(&self, links: &[Arc<Link>], tried: &Tried) -> Vec<Candidate> {
        let now = self.env.clock.now();
        let best = links.iter().filter_map(|link| link.remote().speed().bytes_per_second()).max();
        let tried = |at| tried.iter().filter(|(other, _)| *other == at).map(|(_, began)| *began).max();
        links.iter().enumerate().map(|(at, link)| link.candidate(now, best, tried(at))).collect()
    }

    /// The link that a large put takes; `None`: it waits for room.
    fn choose_with_room(&self, links: &[Arc<Link>], bytes: u64) -> Option<usize> {
        let candidates = self.candidates(links, &Tried::new());
        let has_room = |at: usize| links[at].has_room(bytes, self.env.clock.now());
        match choose(&candidates, bytes) {
            None => Some(0),
            Some(at) if has_room(at) => Some(at),
            Some(_) => choose(&those_with_room(&candidates, has_room), bytes),
        }
    }

    /// A link that a request takes which can be made once only.
    pub(super) fn best(&self) -> Arc<Link> {
        let links = self.links();
        Arc::clone(&links[self.choose(&links, &Tried::new(), 0).unwrap_or(0)])
    }

    /// Makes a request, which may be made several times, over the link where its answer is expected first, and over another one as well
    /// if that falls silent. An error that the node itself says ends it; another one is that of the last link that was left.
    pub(super) async fn call<T, F>(
        self: &Arc<Self>,
        errand: Errand,
        call: impl Fn(Arc<DaemonNode>) -> F + Send + Sync,
    ) -> Result<T, NodeError>
    where
        F: Future<Output = Result<T, NodeError>> + Send,
    {
        let links = self.links();
        let answered = match links.len() {
            1 => call(links[0].of_class(errand.class)).await,
            _ => self.call_over(&links, errand, call).await,
        };
        self.learn();
        answered
    }

    async fn call_over<T, F>(
        self: &Arc<Self>,
        links: &[Arc<Link>],
        errand: Errand,
        call: impl Fn(Arc<DaemonNode>) -> F + Send + Sync,
    ) -> Result<T, NodeError>
    where
        F: Future<Output = Result<T, NodeError>> + Send,
    {
        let now = self.env.clock.now();
        self.probe_those(links, |link| link.is_due(now));
        if errand.bytes >= LARGE_BYTES {
            let _ = self.env.clock.timeout(FIRST_PROBE_MAX, self.meet(links)).await;
        }
        let (mut under_way, mut attempts, mut tried) = (FuturesUnordered::new(), Vec::<Attempt>::new(), Tried::new());
        let (first, mut turn) = self.turn(links, errand).await;
        let mut next = Some(first);
        loop {
            if let Some(at) = next.take() {
                let (link, watch, number) = (&links[at], Arc::<Watch>::default(), tried.len());
                let (under, began) = (link.begin(errand, &watch), self.env.clock.now());
                // It counts, so the next one may look for room.
                drop(turn.take());
                let (asked, of) = (call(link.watched(&watch, errand.class)), Arc::clone(&watch));
                under_way.push(async move {
                    let answered = asked.await;
                    if answered.is_ok() {
                        under.stored();
                    }
                    drop(under);
                    (number, of.is_refused(), answered)
                });
                tried.push((at, began));
                attempts.push(Attempt { number, at, began, watch });
            }
            let changed = self.changed.notified();
            let attempt = attempts
                .last()
                .unwrap_or_else(|| unreachable!("the last one that fails is the end, or another follows"));
            let wait = match self.judge(links, attempt, &tried, errand) {
                Verdict::Wait(time) => time,
                Verdict::Probe => {
                    let now = self.env.clock.now();
                    self.probe_those(links, |link| link.may_be_probed(now));
                    LOOK
                }
                verdict @ (Verdict::Leave | Verdict::Hedge) => {
                    self.leave(&links[attempt.at], attempt, verdict, errand);
                    next = self.choose(links, &tried, errand.bytes);
                    continue;
                }
            };
            let (number, is_refused, answered) = tokio::select! {
                biased;
                Some(done) = under_way.next() => done,
                () = self.env.clock.sleep(wait) => continue,
                () = changed => continue,
            };
            let error = match answered {
                Err(error) if !is_refused && is_of_link(&error) => error,
                answered => return answered,
            };
            for failed in attempts.extract_if(.., |attempt| attempt.number == number) {
                links[failed.at].doubt();
                self.probe(&links[failed.at]);
            }
            if attempts.is_empty() {
                next = self.other(links, &tried, errand).await;
                if next.is_none() {
                    return Err(error);
                }
            }
        }
    }

    /// The link that a request takes first. A large put waits for room, and others wait behind it until it has begun.
    async fn turn<'a>(&self, links: &'a [Arc<Link>], errand: Errand) -> (usize, Option<Turn<'a>>) {
        if !errand.is_large_put() {
            return (self.choose(links, &Tried::new(), errand.bytes).unwrap_or(0), None);
        }
        let turn = links[0].remote().turn[errand.class as usize].lock().await;
        loop {
            let ended = self.loads.ended.notified();
            if let Some(at) = self.choose_with_room(links, errand.bytes) {
                return (at, Some(turn));
            }
            tokio::select! {
                () = ended => {}
                () = self.env.clock.sleep(LOOK) => {}
            }
        }
    }

    /// Waits until each link was tried.
    async fn meet(&self, links: &[Arc<Link>]) {
        loop {
            let changed = self.changed.notified();
            if links.iter().all(|link| link.standing() != Standing::New) {
                return;
            }
            changed.await;
        }
    }

    /// Another link for a request, which is looked for where none is known to be up.
    async fn other(&self, links: &[Arc<Link>], tried: &Tried, errand: Errand) -> Option<usize> {
        if let Some(at) = self.choose(links, tried, errand.bytes) {
            return Some(at);
        }
        let rest = links.iter().enumerate().filter(|(at, _)| tried.iter().all(|(other, _)| other != at));
        join_all(rest.map(|(_, link)| link.prove())).await;
        self.choose(links, tried, errand.bytes)
    }

    fn judge(&self, links: &[Arc<Link>], attempt: &Attempt, tried: &Tried, errand: Errand) -> Verdict {
        let (now, link) = (self.env.clock.now(), &links[attempt.at]);
        let age =
            |moment: Option<Instant>| now.saturating_duration_since(attempt.began.max(moment.unwrap_or(attempt.began)));
        let probe = link.probe_began(now).map(|began| {
            let is_heard = |link: &Arc<Link>| link.received().is_some_and(|received| received >= began);
            let others = links.iter().enumerate().filter(|(at, _)| *at != attempt.at);
            (now.saturating_duration_since(began), others.into_iter().any(|(_, link)| is_heard(link)))
        });
        let allowance = link.latency().allowance();
        judge(&Look {
            quiet: age(attempt.watch.progress().and_then(|progress| progress.moved())),
            unheard: age(link.received()),
            idle: age(Some(link.remote().carried(now))),
            standing: link.standing(),
            probe,
            allowance,
            has_other: self.choose(links, tried, errand.bytes).is_some(),
            timeout: errand.timeout,
        })
    }

    fn leave(&self, link: &Link, attempt: &Attempt, verdict: Verdict, errand: Errand) {
        match verdict {
            Verdict::Leave => link.doubt(),
            _ if errand.bytes >= SAMPLE_BYTES_MIN => link.remote().stands_still(attempt.began, self.env.clock.now()),
            _ => {}
        }
    }

    /// How the links are, each probed now; nothing if there is one.
    pub(super) async fn probed(self: &Arc<Self>) -> Vec<LinkReport> {
        self.learn();
        let links = self.links();
        if links.len() > 1 {
            join_all(links.iter().map(|link| link.prove())).await;
        }
        self.reports()
    }

    /// How the links are as far as is known; nothing if there is one.
    pub(super) fn reports(&self) -> Vec<LinkReport> {
        let links = self.links();
        let mut reports: Vec<LinkReport> = links.iter().filter(|_| links.len() > 1).map(|link| link.report()).collect();
        let best = reports.iter().filter_map(|report| report.bytes_per_second).max();
        for report in &mut reports {
            if report.state == LinkState::Up && is_slow(report.bytes_per_second, best) {
                report.state = LinkState::Slow;
            }
        }
        reports
    }
}

/// How the links of a daemon are that is reached at `further`, too, by rumour: each is probed, which takes a second at most. Nothing, if there is one.
///
/// # Errors
/// The address cannot be used.
pub async fn links(
    url: &DaemonUrl,
    identity: Option<NodeIdentity>,
    further: &[String],
    key: Option<Key>,
    env: &Env,
) -> Result<Vec<LinkReport>, NodeError> {
    let node = DaemonNode::open_unidentified(url, &url.to_string(), identity, key, env)?;
    Ok(LinkSet::with_further(node, further, &Arc::default()).probed().await)
}

/// May it be otherwise over another link, where the node itself has not said it?
fn is_of_link(error: &NodeError) -> bool {
    use NodeErrorKind::{Io, TimedOut, Unavailable, WrongNode};
    matches!(error.kind, Io | TimedOut | Unavailable | WrongNode)
}

#[cfg(test)]
#[path = "link_set_tests.rs"]
mod tests;
