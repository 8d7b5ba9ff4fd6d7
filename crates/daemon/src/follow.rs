//! Daemons that have moved are found again, by who they are.
//!
//! Metadata knows where each daemon was. When one does not answer there, or another answers in its place, some others are
//! asked which daemons they know (`GET /members`, each with its own node's key), and the call is made again at the address that
//! the daemon has told them last. What they say is a hint: who answers there must still prove, with the key and the
//! certificate that metadata has, that it is the node. So a wrong list costs a retry, and nothing else.

use super::address::DaemonUrl;
use super::auth::Key;
use super::client::{CAPABILITY, DaemonNode, members};
use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use weft_cluster::gossip::{Facts, Heard};
use weft_env::Env;
use weft_format::ShardKey;
use weft_nodes::combine::Combination;
use weft_nodes::error::{NodeError, NodeErrorKind};
use weft_nodes::node::{Capability, Link, Node, NodeIdentity, Page, ShardStat, Space};

/// Members asked at once: the latest that several say is better than what one says.
const ASKED_MAX: usize = 3;

/// They are asked again after this at the earliest; until then what they said last stands.
const ASK_AGAIN: Duration = Duration::from_secs(5);

/// How long they may take.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Where daemons said they are, the latest of each.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Addresses(BTreeMap<String, Address>);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Address {
    authority: String,
    started_ms: u64,
}

impl Addresses {
    /// From the file's text; `None`: it is none. What names no daemon is left out.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut addresses: Self = serde_json::from_slice(bytes).ok()?;
        let is_one = |authority: &str| DaemonUrl::parse("weft", authority).is_ok_and(|url| url.authority == authority);
        addresses.0.retain(|_, address| is_one(&address.authority));
        Some(addresses)
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        serde_json::to_vec_pretty(self).unwrap_or_default()
    }

    /// Takes in what a member told of `wanted` nodes; is anything new? Of others nothing is kept: a member may tell of any number.
    fn merge(&mut self, volume: &str, wanted: &BTreeSet<String>, told: Vec<Heard>) -> bool {
        let mut is_new = false;
        let is_wanted = |facts: &Facts| facts.volume == volume && wanted.contains(&facts.node);
        for facts in told.into_iter().map(|heard| heard.facts).filter(is_wanted) {
            let Ok(DaemonUrl { authority, .. }) = facts.address.parse() else { continue };
            let address = Address { authority, started_ms: facts.started_ms };
            let known = self.0.get(&facts.node);
            if known.is_none_or(|known| known.started_ms < address.started_ms) {
                self.0.insert(facts.node, address);
                is_new = true;
            }
        }
        is_new
    }
}

/// Where a volume's daemons are now, kept in a file.
pub struct AddressBook {
    file: Option<PathBuf>,
    /// As metadata has them.
    members: Mutex<Vec<Member>>,
    known: Mutex<Addresses>,
    asked: tokio::sync::Mutex<Option<Instant>>,
    short_circuit: bool,
    env: Env,
}

#[derive(Clone)]
struct Member {
    url: DaemonUrl,
    identity: NodeIdentity,
    key: Option<Key>,
    /// Are its shards read past the daemon, where that is possible?
    short_circuit: bool,
}

impl AddressBook {
    /// With what `file` has; one that is not there, or cannot be read, is an empty one.
    pub fn new(file: Option<PathBuf>, env: &Env) -> Arc<Self> {
        Arc::new(Self::read(file, env))
    }

    /// The same for nodes with short-circuit reads ([`DaemonNode::with_short_circuit`]).
    pub fn with_short_circuit(file: Option<PathBuf>, env: &Env) -> Arc<Self> {
        Arc::new(Self { short_circuit: true, ..Self::read(file, env) })
    }

    fn read(file: Option<PathBuf>, env: &Env) -> Self {
        let read = |file: &Path| Addresses::decode(&std::fs::read(file).ok()?);
        let known = Mutex::new(file.as_deref().and_then(read).unwrap_or_default());
        Self {
            file,
            members: Mutex::default(),
            known,
            asked: Default::default(),
            short_circuit: false,
            env: env.clone(),
        }
    }

    /// The node `identity` at `url`, followed where it goes.
    ///
    /// # Errors
    /// As [`DaemonNode::open`].
    pub fn open(
        self: &Arc<Self>,
        url: &DaemonUrl,
        name: &str,
        identity: NodeIdentity,
        key: Option<Key>,
    ) -> Result<Arc<dyn Node>, NodeError> {
        let member = Member { url: url.clone(), identity, key, short_circuit: self.short_circuit };
        let node = member.node_at(url, name, &self.env)?;
        self.members.lock().push(member.clone());
        let (name, node) = (name.to_owned(), Arc::new(RwLock::new((url.clone(), node))));
        Ok(Arc::new(Follow { name, member, node, is_background: false, book: self.clone() }))
    }

    /// Where it was last, as far as is known.
    fn last(&self, member: &Member) -> DaemonUrl {
        let known = self.known.lock();
        let authority = known.0.get(&member.identity.node.to_string()).map(|address| address.authority.clone());
        DaemonUrl { authority: authority.unwrap_or_else(|| member.url.authority.clone()), tls: member.url.tls.clone() }
    }

    /// Asks some of the other members, unless that was done just now. Those who do not answer are passed over.
    async fn ask(&self, besides: &Member) {
        // Whoever comes meanwhile waits for the same answers.
        let (clock, mut asked) = (&self.env.clock, self.asked.lock().await);
        if asked.is_some_and(|at| clock.elapsed(at) < ASK_AGAIN) {
            return;
        }
        let mut others = self.members.lock().clone();
        let wanted: BTreeSet<String> = others.iter().map(|member| member.identity.node.to_string()).collect();
        others.retain(|member| member.identity != besides.identity);
        // Start at a random member, so that one that cannot answer is not asked every time.
        let first = self.env.rng.next_u64() % others.len().max(1) as u64;
        others.rotate_left(first as usize);
        let (mut asking, mut others, mut answers) = (JoinSet::new(), others.into_iter(), 0);
        let (volume, mut is_new) = (besides.identity.volume.to_string(), false);
        loop {
            while answers + asking.len() < ASKED_MAX
                && let Some(member) = others.next()
            {
                let url = self.last(&member);
                let env = self.env.clone();
                asking.spawn(async move {
                    let told = members(&url, Some(member.identity), member.key, &env);
                    env.clock.timeout(TIMEOUT, told).await.ok()?.ok()
                });
            }
            let Some(told) = asking.join_next().await else { break };
            if let Ok(Some(told)) = told {
                answers += 1;
                is_new |= self.known.lock().merge(&volume, &wanted, told);
            }
        }
        if is_new {
            self.save();
        }
        *asked = Some(clock.now());
    }

    /// A list that cannot be written is asked for again next time.
    fn save(&self) {
        let Some(file) = &self.file else { return };
        let text = self.known.lock().encode();
        let mut fresh = file.clone().into_os_string();
        fresh.push(".new");
        let written = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh);
        let written = written.and_then(|mut file| file.write_all(&text));
        let written = written.and_then(|()| std::fs::rename(&fresh, file));
        if let Err(error) = written {
            tracing::warn!(file = %file.display(), "the addresses of daemons cannot be kept: {error}");
        }
    }
}

impl Member {
    fn node_at(&self, url: &DaemonUrl, name: &str, env: &Env) -> Result<Arc<DaemonNode>, NodeError> {
        let node = DaemonNode::open(url, name, self.identity, self.key.clone(), env)?;
        Ok(Arc::new(if self.short_circuit { node.with_short_circuit() } else { node }))
    }
}

/// A daemon's node, wherever it is.
#[derive(Clone)]
struct Follow {
    name: String,
    member: Member,
    /// Where it is, shared by those who wait and those who do not.
    node: Arc<RwLock<(DaemonUrl, Arc<DaemonNode>)>>,
    is_background: bool,
    book: Arc<AddressBook>,
}

impl Follow {
    fn of_class(&self, node: Arc<DaemonNode>) -> Arc<dyn Node> {
        let background = if self.is_background { node.in_background() } else { None };
        background.unwrap_or(node)
    }

    /// Makes the call, and if nobody or somebody else is there, again where the node was heard of last: first by the list at
    /// hand, then by what others say now.
    async fn call<T, F>(&self, call: impl Fn(Arc<dyn Node>) -> F + Send + Sync) -> Result<T, NodeError>
    where
        F: Future<Output = Result<T, NodeError>> + Send,
    {
        let (url, node) = self.node.read().clone();
        let error = match call(self.of_class(node)).await {
            Err(error) if is_not_there(&error) => error,
            answered => return answered,
        };
        let mut tried = vec![url.authority];
        for is_asked in [false, true] {
            if is_asked {
                self.book.ask(&self.member).await;
            }
            for url in [self.book.last(&self.member), self.member.url.clone()] {
                if tried.contains(&url.authority) {
                    continue;
                }
                tried.push(url.authority.clone());
                let node = self.member.node_at(&url, &self.name, &self.book.env)?;
                let answered = call(self.of_class(node.clone())).await;
                if answered.as_ref().err().is_none_or(|error| !is_not_there(error)) {
                    tracing::info!(node = self.name, "is at {url} now");
                    *self.node.write() = (url, node);
                    return answered;
                }
            }
        }
        Err(error)
    }
}

fn is_not_there(error: &NodeError) -> bool {
    matches!(error.kind, NodeErrorKind::Unavailable | NodeErrorKind::WrongNode)
}

#[async_trait]
impl Node for Follow {
    fn capability(&self) -> &Capability {
        &CAPABILITY
    }

    fn in_background(&self) -> Option<Arc<dyn Node>> {
        Some(Arc::new(Self { is_background: true, ..self.clone() }))
    }

    async fn put(&self, key: ShardKey, parts: &[Bytes]) -> Result<(), NodeError> {
        self.call(|node| async move { node.put(key, parts).await }).await
    }

    async fn get(&self, key: ShardKey, range: Range<u64>) -> Result<Bytes, NodeError> {
        let (start, end) = (range.start, range.end);
        self.call(|node| async move { node.get(key, start..end).await }).await
    }

    async fn combine(&self, key: ShardKey, combination: &Combination) -> Result<Bytes, NodeError> {
        self.call(|node| async move { node.combine(key, combination).await }).await
    }

    fn link(&self, key: ShardKey, combination: &Combination, onward: Option<&Link>, timeout: Duration) -> Option<Link> {
        let node = self.node.read().1.clone();
        self.of_class(node).link(key, combination, onward, timeout)
    }

    async fn pull(&self, link: Link) -> Result<Bytes, NodeError> {
        // It was made for where the node was then.
        let node = self.node.read().1.clone();
        node.pull(link).await
    }

    async fn stat(&self, key: ShardKey) -> Result<ShardStat, NodeError> {
        self.call(|node| async move { node.stat(key).await }).await
    }

    async fn list(&self, after: Option<ShardKey>, limit: usize) -> Result<Page, NodeError> {
        self.call(|node| async move { node.list(after, limit).await }).await
    }

    async fn remove(&self, key: ShardKey) -> Result<(), NodeError> {
        self.call(|node| async move { node.remove(key).await }).await
    }

    async fn space(&self) -> Result<Space, NodeError> {
        self.call(|node| async move { node.space().await }).await
    }

    async fn identity(&self) -> Result<NodeIdentity, NodeError> {
        self.call(|node| async move { node.identity().await }).await
    }
}

#[cfg(test)]
#[path = "follow_tests.rs"]
mod tests;
