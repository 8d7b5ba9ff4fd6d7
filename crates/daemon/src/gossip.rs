//! A daemon among others: the sockets and the clock of `weft_cluster::gossip`.
//!
//! Packets are requests to the daemons' own ports, signed with the cluster's key (`auth.rs`), so there is no second port and
//! nothing is believed from who has not the key. A packet that does not arrive in time is lost, as SWIM expects of some.

use super::address::DaemonUrl;
use super::auth::Key;
use super::dial::Dial;
use super::links::Errand;
use super::peer_pool::PeerPool;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{Notify, Semaphore};
use weft_cluster::gossip::{Facts, Gossip, GossipError, HEARTBEAT_MS, Heard};
use weft_env::Env;
use weft_nodes::node::{Node, NodeIdentity};
use weft_nodes::rate::Class;

/// A packet that takes longer is lost: whoever waits for its answer has given up by then.
const PACKET_DEADLINE: Duration = Duration::from_secs(1);

/// Packets under way at once; more are lost.
const PACKETS_MAX: usize = 256;

/// How a daemon takes part.
#[derive(Clone, Debug)]
pub struct GossipSettings {
    /// What all daemons of the cluster know; none: whoever reaches this one is believed.
    pub key: Option<Key>,
    /// Where others reach this daemon.
    pub own: DaemonUrl,
    /// Host and port of its further links: other addresses under which it is reached.
    pub further: Vec<String>,
    /// Well-known members, to be asked for the others.
    pub join: Vec<DaemonUrl>,
    /// What fails together with this daemon, as its owner says.
    pub domain: String,
}

/// What a daemon serves at the moment, which it tells others.
pub(super) struct Served {
    /// Bytes of bodies under way.
    pub(super) load_bytes: u64,
    /// None: it belongs to no volume yet.
    pub(super) node: Option<(NodeIdentity, Arc<dyn Node>)>,
}

/// A daemon's part in the cluster.
pub(super) struct Gossiper {
    settings: GossipSettings,
    /// All its addresses, as its answers tell them; none if there is one.
    addresses: Option<String>,
    state: Mutex<Gossip>,
    /// Something is to be sent.
    wake: Notify,
    peers: PeerPool,
    under_way: Arc<Semaphore>,
    began: Instant,
    env: Env,
}

impl Gossiper {
    pub(super) fn new(settings: GossipSettings, dial: &Arc<dyn Dial>, env: &Env) -> Self {
        let facts = Facts {
            address: settings.own.to_string(),
            started_ms: env.clock.unix_ms(),
            domain: settings.domain.clone(),
            further: settings.further.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ..Facts::default()
        };
        let all = std::iter::once(&settings.own.authority).chain(&settings.further);
        let all = all.map(String::as_str).collect::<Vec<_>>().join(",");
        Self {
            peers: PeerPool::new(settings.key.clone(), Arc::clone(dial), env),
            addresses: (!settings.further.is_empty()).then_some(all),
            settings,
            state: Mutex::new(Gossip::new(facts, env.rng.next_u64(), 0)),
            wake: Notify::new(),
            under_way: Arc::new(Semaphore::new(PACKETS_MAX)),
            began: env.clock.now(),
            env: env.clone(),
        }
    }

    pub(super) fn key(&self) -> Option<&Key> {
        self.settings.key.as_ref()
    }

    /// Under which addresses this daemon is reached, if there are several: `host:port,...`.
    pub(super) fn addresses(&self) -> Option<&str> {
        self.addresses.as_deref()
    }

    pub(super) fn hear(&self, packet: &[u8]) -> Result<(), GossipError> {
        let heard = self.state.lock().receive(packet, self.now_ms());
        self.wake.notify_one();
        heard
    }

    /// Who is there, itself first.
    pub(super) fn members(&self) -> Vec<Heard> {
        self.state.lock().members(self.now_ms())
    }

    /// Takes part, for ever.
    pub(super) async fn run(&self, served: impl Fn() -> Served + Send) {
        let mut told_at = self.began;
        let mut join_at = self.began;
        let mut joining = FuturesUnordered::new();
        let well_known: Vec<String> = self.settings.join.iter().map(DaemonUrl::to_string).collect();
        loop {
            let now = self.env.clock.now();
            if told_at <= now {
                told_at = now + Duration::from_millis(HEARTBEAT_MS);
                self.say(&served()).await;
                self.close_doors();
            }
            if join_at <= now && joining.is_empty() {
                let to_join = self.state.lock().whom_to_join(&well_known, self.now_ms());
                join_at = now + Duration::from_millis(to_join.again_after_ms);
                for url in self.settings.join.iter().filter(|url| to_join.ask.contains(&url.to_string())) {
                    joining.push(self.join(url));
                }
            }
            let due_ms = {
                let mut state = self.state.lock();
                state.tick(self.now_ms());
                state.due_ms()
            };
            self.send();
            let due = (self.began + Duration::from_millis(due_ms)).min(told_at);
            // While questions are under way no others are due.
            let due = if joining.is_empty() { due.min(join_at) } else { due };
            tokio::select! {
                biased;
                Some(()) = joining.next() => {}
                () = self.wake.notified() => {}
                () = self.env.clock.sleep_until(due) => {}
            }
        }
    }

    /// Says goodbye and waits until that is heard, or lost.
    pub(super) async fn leave(&self) {
        self.state.lock().leave(self.now_ms());
        self.send();
        let _ = self.env.clock.timeout(PACKET_DEADLINE, self.under_way.acquire_many(PACKETS_MAX as u32)).await;
    }

    fn now_ms(&self) -> u64 {
        self.env.clock.elapsed(self.began).as_millis() as u64
    }

    /// Has the next heartbeat say what is so now.
    async fn say(&self, served: &Served) {
        let space = match &served.node {
            Some((_, node)) => self.env.clock.timeout(PACKET_DEADLINE, node.space()).await.ok().and_then(Result::ok),
            None => None,
        };
        self.state.lock().say(|facts| {
            facts.load_bytes = served.load_bytes;
            if let Some((identity, _)) = &served.node {
                (facts.volume, facts.node) = (identity.volume.to_string(), identity.node.to_string());
            }
            // What cannot be told now stays as it was.
            if let Some(space) = space {
                (facts.total_bytes, facts.free_bytes) = (space.total_bytes, space.free_bytes);
            }
        });
    }

    /// Asks a well-known member for the others, and is announced.
    async fn join(&self, url: &DaemonUrl) {
        match self.peers.members(url).await {
            Ok(members) => {
                let facts = members.into_iter().map(|heard| heard.facts).collect();
                self.state.lock().join(facts, self.now_ms());
                self.wake.notify_one();
            }
            Err(error) => tracing::warn!("{url} was asked for the other daemons in vain: {error}"),
        }
    }

    /// Sends what is to be sent, each packet on its own.
    fn send(&self) {
        let outgoing = self.state.lock().take_outgoing();
        for (address, packet) in outgoing {
            // Its first cable may be cut.
            let further = self.state.lock().further(&address);
            let peer = self.peers.get(&address, &further);
            let (Some(peer), Ok(permit)) = (peer, Arc::clone(&self.under_way).try_acquire_owned()) else { continue };
            let clock = self.env.clock.clone();
            self.env.spawner.task(Box::pin(async move {
                let errand = Errand { class: Class::Foreground, bytes: 0, timeout: PACKET_DEADLINE, is_put: false };
                let told = peer.call(errand, |node| {
                    let packet = packet.clone();
                    async move { node.tell(packet).await }
                });
                let told = clock.timeout(PACKET_DEADLINE, told).await;
                if let Ok(Err(error)) = told {
                    tracing::debug!("a packet of gossip was lost: {error}");
                }
                drop(permit);
            }));
        }
    }

    /// Forgets connections to who is no member any more.
    fn close_doors(&self) {
        let members = self.members();
        self.peers.keep(|address| members.iter().any(|heard| heard.facts.address == address));
    }
}

#[cfg(test)]
#[path = "gossip_tests.rs"]
mod tests;
