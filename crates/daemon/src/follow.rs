//! Daemons that have moved are found again, by who they are.
//!
//! Metadata knows where each daemon was. When one does not answer there, or another answers in its place, some others are
//! asked which daemons they know (`GET /members`, each with its own node's key), and the call is made again at the address that
//! the daemon has told them last. What they say is a hint: who answers there must still prove, with the key and the
//! certificate that metadata has, that it is the node. So a wrong list costs a retry, and nothing else.

use super::address::DaemonUrl;
use super::addresses::Addresses;
use super::auth::Key;
use super::client::{CAPABILITY, DaemonNode, members_over};
use super::dial::{Dial, Tcp};
use super::link_set::LinkSet;
use super::links::{Errand, PIECES_AT_ONCE, READ_TIMEOUT, WRITE_TIMEOUT, pieces};
use super::loads::{Cables, Loads};
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::FuturesUnordered;
use futures_util::{StreamExt, TryStreamExt, stream};
use parking_lot::{Mutex, RwLock};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};
use weft_cluster::gossip::Heard;
use weft_env::Env;
use weft_format::{NodeId, ShardKey};
use weft_nodes::combine::Combination;
use weft_nodes::error::{NodeError, NodeErrorKind};
use weft_nodes::node::{Capability, Link, LinkReport, Node, NodeIdentity, Page, SHARD_BYTES_MAX, ShardStat, Space};
use weft_nodes::rate::Class;

/// Members asked at once: the latest that several say is better than what one says.
const ASKED_MAX: usize = 3;

/// They are asked again after this at the earliest; until then what they said last stands.
const ASK_AGAIN: Duration = Duration::from_secs(5);

/// How long they may take.
const TIMEOUT: Duration = Duration::from_secs(3);

/// How the links of a node are is looked at this often at most, ...
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// ... and written to the file if one has come or gone, or after this: the next process begins with it, and `weft node list` shows it.
const SAVE_AGAIN: Duration = Duration::from_secs(10);

/// Where a volume's daemons are now, kept in a file.
pub struct AddressBook {
    file: Option<PathBuf>,
    /// As metadata has them.
    members: Mutex<Vec<Member>>,
    known: Mutex<Addresses>,
    asked: tokio::sync::Mutex<Option<Instant>>,
    /// When the links of each node were last looked at.
    looked: Mutex<BTreeMap<NodeId, Instant>>,
    saved: Mutex<Option<Instant>>,
    loads: Arc<Loads>,
    short_circuit: bool,
    dial: Arc<dyn Dial>,
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

    /// An empty one that is kept nowhere, whose connections `dial` makes.
    pub fn dialed_by(dial: Arc<dyn Dial>, env: &Env) -> Arc<Self> {
        Arc::new(Self { dial, ..Self::read(None, env) })
    }

    fn read(file: Option<PathBuf>, env: &Env) -> Self {
        let read = |file: &Path| Addresses::decode(&std::fs::read(file).ok()?);
        let known = Mutex::new(file.as_deref().and_then(read).unwrap_or_default());
        Self {
            file,
            members: Mutex::default(),
            known,
            asked: Default::default(),
            looked: Mutex::default(),
            saved: Mutex::default(),
            loads: Arc::default(),
            short_circuit: false,
            dial: Arc::new(Tcp),
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
        let links = self.links_at(&member, url, name)?;
        let mut members = self.members.lock();
        // Nodes are opened again now and then.
        members.retain(|known| known.identity != identity);
        members.push(member.clone());
        drop(members);
        let (name, at) = (name.to_owned(), Arc::new(RwLock::new((url.clone(), links))));
        Ok(Arc::new(LinkedNode { name, at, class: Class::Foreground, follow: Some((member, self.clone())) }))
    }

    /// The daemon at `url`, with the links that it was known to have.
    fn links_at(&self, member: &Member, url: &DaemonUrl, name: &str) -> Result<Arc<LinkSet>, NodeError> {
        let node = DaemonNode::open(url, name, member.identity, member.key.clone(), &self.env)?;
        let node = node.dialed_by(Arc::clone(&self.dial));
        let node = if member.short_circuit { node.with_short_circuit() } else { node };
        Ok(LinkSet::new(node, &self.known.lock().links(&member.identity.node.to_string()), &self.loads))
    }

    /// Keeps how the links of a member are, unless that was done just now.
    fn keep(&self, member: &Member, url: &DaemonUrl, links: &LinkSet) {
        let (now, node) = (self.env.clock.now(), member.identity.node);
        let looked = self.looked.lock().get(&node).copied();
        if links.is_one() || looked.is_some_and(|looked| now < looked + LOOK_AGAIN) {
            return;
        }
        self.looked.lock().insert(node, now);
        let is_new = self.known.lock().keep(&node.to_string(), &url.authority, &links.reports());
        let saved = *self.saved.lock();
        if is_new || saved.is_none_or(|saved| saved + SAVE_AGAIN <= now) {
            *self.saved.lock() = Some(now);
            self.save();
        }
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
        let (mut asking, mut others, mut answers) = (FuturesUnordered::new(), others.into_iter(), 0);
        let (volume, mut all_told) = (besides.identity.volume.to_string(), Vec::new());
        loop {
            while answers + asking.len() < ASKED_MAX
                && let Some(member) = others.next()
            {
                asking.push(clock.timeout(TIMEOUT, self.told_by(member)));
            }
            let Some(told) = asking.next().await else { break };
            if let Ok(Ok(told)) = told {
                answers += 1;
                all_told.extend(told);
            }
        }
        // Together: one who has not heard of a move must not have the last word.
        if self.known.lock().merge(&volume, &wanted, all_told) {
            self.save();
        }
        *asked = Some(clock.now());
    }

    /// Which daemons a member knows.
    async fn told_by(&self, member: Member) -> Result<Vec<Heard>, NodeError> {
        let url = self.last(&member);
        let (identity, key) = (Some(member.identity), member.key);
        members_over(&self.dial, &url, identity, key, &self.env).await
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

/// A daemon's node, over all its links and wherever it is.
#[derive(Clone)]
pub struct LinkedNode {
    name: String,
    /// Where it is, shared by those who wait and those who do not.
    at: Arc<RwLock<(DaemonUrl, Arc<LinkSet>)>>,
    class: Class,
    /// By what it is found when it has moved; none: it is not.
    follow: Option<(Member, Arc<AddressBook>)>,
}

impl LinkedNode {
    /// The daemon that `node` asks, and that is reached at the addresses `further`, too; it is not followed.
    #[must_use]
    pub fn new(node: DaemonNode, further: &[String], cables: &Cables) -> Self {
        let (name, url) = (node.name().to_owned(), node.url().clone());
        let links = LinkSet::with_further(node, further, &cables.0);
        Self { name, at: Arc::new(RwLock::new((url, links))), class: Class::Foreground, follow: None }
    }

    /// Asks what only members of an object store are asked.
    ///
    /// # Errors
    /// It does not answer, is none, or refuses.
    pub async fn ask_objects(&self, question: Bytes) -> Result<Bytes, NodeError> {
        self.call(self.errand(0, READ_TIMEOUT), |node| {
            let question = question.clone();
            async move { node.ask_objects(question).await }
        })
        .await
    }

    fn links_now(&self) -> Arc<LinkSet> {
        Arc::clone(&self.at.read().1)
    }

    fn errand(&self, bytes: u64, timeout: Duration) -> Errand {
        Errand { class: self.class, bytes, timeout, is_put: false }
    }

    /// Makes the call, and if nobody or somebody else is there, again where the node was heard of last: first by the list at
    /// hand, then by what others say now.
    async fn call<T, F>(
        &self,
        errand: Errand,
        call: impl Fn(Arc<DaemonNode>) -> F + Send + Sync,
    ) -> Result<T, NodeError>
    where
        F: Future<Output = Result<T, NodeError>> + Send,
    {
        let (url, links) = self.at.read().clone();
        let answered = links.call(errand, &call).await;
        let Some((member, book)) = &self.follow else { return answered };
        let error = match answered {
            Err(error) if is_not_there(&error) => error,
            answered => {
                book.keep(member, &url, &links);
                return answered;
            }
        };
        let mut tried = vec![url.authority];
        for is_asked in [false, true] {
            if is_asked {
                book.ask(member).await;
            }
            for url in [book.last(member), member.url.clone()] {
                if tried.contains(&url.authority) {
                    continue;
                }
                tried.push(url.authority.clone());
                let links = book.links_at(member, &url, &self.name)?;
                let answered = links.call(errand, &call).await;
                if answered.as_ref().err().is_none_or(|error| !is_not_there(error)) {
                    tracing::info!(node = self.name, "is at {url} now");
                    *self.at.write() = (url, links);
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

/// What may take as long as a walk through the whole node is made over another link only if its own one is silent.
const NO_HEDGE: Duration = Duration::MAX;

#[async_trait]
impl Node for LinkedNode {
    fn capability(&self) -> &Capability {
        &CAPABILITY
    }

    fn in_background(&self) -> Option<Arc<dyn Node>> {
        Some(Arc::new(Self { class: Class::Background, ..self.clone() }))
    }

    async fn links(&self) -> Vec<LinkReport> {
        self.links_now().probed().await
    }

    async fn put(&self, key: ShardKey, parts: &[Bytes]) -> Result<(), NodeError> {
        let bytes = parts.iter().map(|part| part.len() as u64).sum();
        let errand = Errand { is_put: true, ..self.errand(bytes, WRITE_TIMEOUT) };
        self.call(errand, |node| async move { node.put(key, parts).await }).await
    }

    async fn get(&self, key: ShardKey, range: Range<u64>) -> Result<Bytes, NodeError> {
        let get = |range: Range<u64>| async move {
            let bytes = range.end.saturating_sub(range.start).min(SHARD_BYTES_MAX);
            self.call(self.errand(bytes, READ_TIMEOUT), |node| {
                let range = range.clone();
                async move { node.get(key, range).await }
            })
            .await
        };
        let pieces = pieces(&range, self.links_now().up_count());
        if pieces.len() == 1 {
            return get(range).await;
        }
        // Where the shard ends early the pieces after its end are empty, and those that were not asked for yet are left out.
        let has_ended = &AtomicBool::new(false);
        let read = |piece: Range<u64>| async move {
            let wanted = piece.end - piece.start;
            let bytes = get(piece).await?;
            has_ended.fetch_or((bytes.len() as u64) < wanted, Ordering::Relaxed);
            Ok(bytes)
        };
        let pieces = pieces.into_iter().take_while(|_| !has_ended.load(Ordering::Relaxed));
        let parts: Vec<Bytes> = stream::iter(pieces.map(read)).buffered(PIECES_AT_ONCE).try_collect().await?;
        Ok(parts.concat().into())
    }

    async fn combine(&self, key: ShardKey, combination: &Combination) -> Result<Bytes, NodeError> {
        self.call(self.errand(0, NO_HEDGE), |node| async move { node.combine(key, combination).await }).await
    }

    fn link(&self, key: ShardKey, combination: &Combination, onward: Option<&Link>, timeout: Duration) -> Option<Link> {
        self.links_now().best().of_class(self.class).link(key, combination, onward, timeout)
    }

    async fn pull(&self, link: Link) -> Result<Bytes, NodeError> {
        // Its signature is good for one time, and it was made for where the node was then.
        self.links_now().best().of_class(self.class).pull(link).await
    }

    async fn stat(&self, key: ShardKey) -> Result<ShardStat, NodeError> {
        self.call(self.errand(0, READ_TIMEOUT), |node| async move { node.stat(key).await }).await
    }

    async fn list(&self, after: Option<ShardKey>, limit: usize) -> Result<Page, NodeError> {
        self.call(self.errand(0, NO_HEDGE), |node| async move { node.list(after, limit).await }).await
    }

    async fn remove(&self, key: ShardKey) -> Result<(), NodeError> {
        let asked = AtomicU32::new(0);
        let removed = self.call(self.errand(0, WRITE_TIMEOUT), |node| {
            asked.fetch_add(1, Ordering::Relaxed);
            async move { node.remove(key).await }
        });
        match removed.await {
            // An earlier attempt of this call has removed it, and its answer was lost.
            Err(error) if error.kind == NodeErrorKind::NotFound && asked.load(Ordering::Relaxed) > 1 => Ok(()),
            removed => removed,
        }
    }

    async fn space(&self) -> Result<Space, NodeError> {
        self.call(self.errand(0, NO_HEDGE), |node| async move { node.space().await }).await
    }

    async fn identity(&self) -> Result<NodeIdentity, NodeError> {
        self.call(self.errand(0, READ_TIMEOUT), |node| async move { node.identity().await }).await
    }
}
