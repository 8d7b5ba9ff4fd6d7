//! Serving one place of this machine to users elsewhere.

use super::auth::{Answered, Asked, Doubt, Key, Nonces, Proof, sign_answer};
use super::doors::Doors;
use super::gossip::{GossipSettings, Gossiper};
use super::link::Link;
use super::metrics::Metrics;
use super::outgoing::{Outgoing, READ_BYTES, Unread};
use super::patience::Patient;
use super::tls::{Certificate, TlsError};
use super::wire::{
    BACKGROUND, BUSY, CLASS_HEADER, COMBINATION_BYTES_MAX, Call, CombinationBody, DIGEST_HEADER, ERROR_HEADER,
    ErrorBody, MembersBody, NODE_HEADER, PROOF_HEADER, PageBody, SHARD_BYTES_MAX, SpaceBody, StatBody, kind_name,
};
use crate::combine::combine_gets;
use crate::error::{NodeError, NodeErrorKind};
use crate::node::{Node, NodeIdentity};
use crate::rate::{Class, Rate};
use crate::url::{self, NodeUrl};
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_LENGTH, HeaderMap, RANGE, RETRY_AFTER};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use parking_lot::{Mutex, RwLock};
use rustix::fd::OwnedFd;
use rustix::fs::{FlockOperation, Mode, OFlags};
use std::collections::HashMap;
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU64;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::TlsAcceptor;
use weft_cluster::gossip::PACKET_BYTES_MAX;
use weft_format::ShardKey;
use weft_format::records::Secret;

/// Connections at once; more wait to be accepted.
const CONNECTIONS_MAX: usize = 1024;

/// Connections of one address at once; more are closed, so that others get some.
const PEER_CONNECTIONS_MAX: usize = 512;

/// TLS must be agreed on in so long.
const HANDSHAKE_DEADLINE: Duration = Duration::from_secs(10);

/// A connection on which no whole request head comes for so long is closed. Longer than users keep idle ones.
const HEAD_DEADLINE: Duration = Duration::from_secs(60);

/// A body of which nothing comes for so long is given up, ...
const BODY_DEADLINE: Duration = Duration::from_secs(30);
/// ... and so is one slower than this on the whole.
const BODY_BYTES_PER_SECOND_MIN: u64 = 16 << 10;

/// Bytes of bodies held at once, in both directions; requests wait for room before they are read, ...
const HELD_BYTES_MAX: u64 = 512 << 20;
/// ... this long at most: then the node is busy.
const HOLD_PATIENCE: Duration = Duration::from_secs(2);

/// With a rate, so much is under way at once; a node with more before it is busy. Less than what users wait.
const BACKLOG_MAX: Duration = Duration::from_secs(5);

/// When to ask a busy node again.
const RETRY_AFTER_SECONDS: &str = "1";
const PERMIT_BYTES: u64 = 4 << 10;

/// How long requests under way may take to end when the daemon is to end.
const GRACE: Duration = Duration::from_secs(30);

/// Other nodes that it has connections to, for chains; with more it begins anew.
const DOORS_MAX: usize = 1024;

/// An identity has some hundred bytes.
const CLAIM_BYTES_MAX: u64 = 4096;

/// One place, served.
pub struct Daemon {
    place: NodeUrl,
    name: String,
    key: Option<Key>,
    node: RwLock<Option<(NodeIdentity, Arc<dyn Node>)>>,
    nonces: Mutex<Nonces>,
    tls: Option<TlsAcceptor>,
    rate: Option<Arc<Rate>>,
    /// Bytes of bodies under way, of the foreground and of the background.
    backlog_bytes: [Arc<AtomicU64>; 2],
    held: Arc<Semaphore>,
    /// One at a time leaves the other cores to those who only read.
    combining: Semaphore,
    metrics: Metrics,
    gossip: Option<Arc<Gossiper>>,
    /// To other nodes of chains; who asks has signed for all.
    doors: Doors,
    /// No second daemon serves the folder.
    _lock: Option<OwnedFd>,
}

/// What is answered.
struct Reply {
    status: StatusCode,
    error: &'static str,
    body: Bytes,
    /// What of the body is still to be read.
    unread: Option<Box<Unread>>,
    /// What it holds of [`Daemon::held`] until it is sent.
    held: Option<Holding>,
}

impl Reply {
    fn ok(body: impl Into<Bytes>) -> Self {
        Self { status: StatusCode::OK, error: "", body: body.into(), unread: None, held: None }
    }

    fn json(body: &impl serde::Serialize) -> Self {
        Self::ok(serde_json::to_vec(body).expect("numbers and strings are JSON"))
    }

    fn refused(status: StatusCode, error: &'static str, detail: impl Into<String>) -> Self {
        Self { status, error, ..Self::json(&ErrorBody { detail: detail.into() }) }
    }

    /// Why it is no answer of the node, if it is none: what was asked makes no sense, or not from whom it came.
    fn complaint(&self) -> Option<String> {
        let is_node = !self.error.is_empty() || !self.status.is_client_error();
        if is_node || self.status == StatusCode::RANGE_NOT_SATISFIABLE {
            return None;
        }
        serde_json::from_slice(&self.body).map(|body: ErrorBody| body.detail).ok()
    }

    fn invalid(detail: impl Into<String>) -> Self {
        Self::refused(StatusCode::BAD_REQUEST, "", detail)
    }
}

impl From<NodeError> for Reply {
    fn from(error: NodeError) -> Self {
        let (name, status) = kind_name(error.kind);
        Self::refused(status, name, error.detail)
    }
}

/// Who asks, as the key says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asker {
    /// A user of the node.
    User,
    /// Another daemon of the cluster, or its owner.
    Member,
}

/// What headers say of a body.
struct Announced {
    bytes: u64,
    digest: Option<blake3::Hash>,
}

impl Daemon {
    /// A daemon for a folder, a device or an image file of this machine, which may be a node already or become one when it
    /// is added to a volume. Without a key everybody who reaches it is believed.
    ///
    /// # Errors
    /// The place is not there, cannot be read, or is served by another daemon.
    pub fn open(place: NodeUrl, key: Option<Key>) -> Result<Self, NodeError> {
        let name = place.to_string();
        let lock = match &place {
            NodeUrl::Folder(folder) => Some(lock(folder, &name)?),
            _ => None,
        };
        let node = match url::probe(&place)? {
            Some(identity) => Some((identity, url::open(&place, &name, identity, &Secret::default())?)),
            None => None,
        };
        Ok(Self {
            place,
            name,
            key,
            node: RwLock::new(node),
            nonces: Mutex::default(),
            tls: None,
            rate: None,
            backlog_bytes: Default::default(),
            held: Arc::new(Semaphore::new((HELD_BYTES_MAX / PERMIT_BYTES) as usize)),
            combining: Semaphore::new(1),
            metrics: Metrics::default(),
            gossip: None,
            doors: Doors::default(),
            _lock: lock,
        })
    }

    /// The same, speaking TLS only.
    ///
    /// # Errors
    /// The certificate and the key do not belong together.
    pub fn with_tls(mut self, certificate: &Certificate) -> Result<Self, TlsError> {
        self.tls = Some(TlsAcceptor::from(certificate.server()?));
        Ok(self)
    }

    /// The same, sending and receiving so much at most, all connections together and each its share.
    pub fn with_bytes_per_second(mut self, bytes_per_second: NonZeroU64) -> Self {
        self.rate = Some(Arc::new(Rate::new(bytes_per_second)));
        self
    }

    /// The same, telling other daemons of itself and listening to what they tell.
    pub fn with_gossip(mut self, settings: GossipSettings) -> Self {
        self.gossip = Some(Arc::new(Gossiper::new(settings)));
        self
    }

    /// Who it is, once it belongs to a volume.
    pub fn identity(&self) -> Option<NodeIdentity> {
        self.node.read().as_ref().map(|(identity, _)| *identity)
    }

    /// Serves until `stop` is over and what was under way then has ended, or half a minute later.
    pub async fn serve(self: Arc<Self>, listener: TcpListener, stop: impl Future<Output = ()>) {
        let (graceful, connections) = (GracefulShutdown::new(), Arc::new(Semaphore::new(CONNECTIONS_MAX)));
        let peers = Arc::new(Mutex::new(HashMap::new()));
        let mut stop = std::pin::pin!(stop);
        let gossip = self.gossip.clone().map(|gossip| tokio::spawn(gossip.run(Arc::downgrade(&self))));
        loop {
            let accept = async {
                // It is never closed.
                let permit = Arc::clone(&connections).acquire_owned().await.ok();
                (permit, listener.accept().await)
            };
            let (permit, accepted) = tokio::select! {
                () = &mut stop => break,
                accepted = accept => accepted,
            };
            match accepted {
                Ok((stream, peer)) => {
                    let Some(guest) = Guest::of(&peers, peer.ip()) else {
                        tracing::warn!(node = self.name, %peer, "refused: it has {PEER_CONNECTIONS_MAX} connections");
                        continue;
                    };
                    let (daemon, watcher) = (Arc::clone(&self), graceful.watcher());
                    tokio::spawn(async move {
                        daemon.connection(stream, peer, watcher).await;
                        drop((permit, guest));
                    });
                }
                Err(error) => {
                    tracing::warn!(node = self.name, "a connection could not be accepted: {error}");
                    // Out of descriptors, most likely; trying at once would only burn time.
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
        if let (Some(gossip), Some(running)) = (&self.gossip, gossip) {
            running.abort();
            gossip.leave().await;
        }
        if tokio::time::timeout(GRACE, graceful.shutdown()).await.is_err() {
            tracing::warn!(node = self.name, "requests under way were cut off");
        }
    }

    async fn connection(self: Arc<Self>, stream: TcpStream, peer: SocketAddr, watcher: Watcher) {
        // Without it small answers wait for acknowledgements of earlier ones.
        let _ = stream.set_nodelay(true);
        let stream = Patient::new(stream);
        let Some(acceptor) = self.tls.clone() else { return self.converse(stream, peer, watcher).await };
        match tokio::time::timeout(HANDSHAKE_DEADLINE, acceptor.accept(stream)).await {
            Ok(Ok(stream)) => self.converse(stream, peer, watcher).await,
            Ok(Err(error)) => tracing::warn!(node = self.name, %peer, "refused: TLS is not agreed on: {error}"),
            Err(_) => tracing::warn!(node = self.name, %peer, "refused: TLS is not agreed on in time"),
        }
    }

    async fn converse<S>(self: Arc<Self>, stream: S, peer: SocketAddr, watcher: Watcher)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let daemon = Arc::clone(&self);
        let service = service_fn(move |request| {
            let daemon = Arc::clone(&daemon);
            async move { Ok::<_, Infallible>(daemon.answer(request, peer).await) }
        });
        let mut server = http1::Builder::new();
        server.timer(TokioTimer::new()).header_read_timeout(HEAD_DEADLINE);
        if let Err(error) = watcher.watch(server.serve_connection(TokioIo::new(stream), service)).await {
            // Peers may go as they like; what is no HTTP, or was not taken or sent in time, may be an attack.
            let source = std::error::Error::source(&error).and_then(|source| source.downcast_ref::<std::io::Error>());
            let is_late =
                error.is_timeout() || source.is_some_and(|error| error.kind() == std::io::ErrorKind::TimedOut);
            match is_late || error.is_parse() {
                true => tracing::warn!(node = self.name, %peer, "a connection was ended: {error}"),
                false => tracing::debug!(node = self.name, %peer, "a connection was ended: {error}"),
            }
        }
    }

    async fn answer(&self, request: Request<Incoming>, peer: SocketAddr) -> Response<Outgoing> {
        let began = Instant::now();
        let proof = proof_of(request.headers());
        let class = class_of(request.headers());
        let mut asker = Asker::User;
        let (name, reply) = self.reply(request, proof, class, peer, &mut asker).await;
        if let Some(why) = reply.complaint() {
            // What was asked may be repeated in it, and must not make lines of its own.
            tracing::warn!(node = self.name, %peer, "refused: {}", why.escape_debug());
        }
        let unread_bytes = reply.unread.as_ref().map_or(0, |unread| unread.range.end - unread.range.start);
        self.metrics.answered(name, reply.status, reply.body.len() as u64 + unread_bytes, began.elapsed());
        self.respond(reply, proof, class.unwrap_or_default(), asker)
    }

    async fn reply(
        &self,
        request: Request<Incoming>,
        proof: Option<Proof>,
        class: Option<Class>,
        peer: SocketAddr,
        asker: &mut Asker,
    ) -> (&'static str, Reply) {
        let (head, body) = request.into_parts();
        let header = |name| head.headers.get(name).and_then(|value| value.to_str().ok());
        let range = header(RANGE.as_str());
        let Some(class) = class else {
            return ("invalid", Reply::invalid("a request is in the `background`, or says nothing"));
        };
        let call = match Call::parse(&head.method, head.uri.path(), head.uri.query(), range) {
            Ok(call) => call,
            Err(why) => return ("invalid", Reply::invalid(why)),
        };
        let name = call.name();
        let announced = match announced(&head.headers) {
            Ok(announced) => announced,
            Err(refused) => return (name, refused),
        };
        // Numbers of requests are no secret to who is on this machine anyway.
        let is_open = call == Call::Metrics && peer.ip().is_loopback();
        let asked = Asked {
            method: head.method.as_str(),
            target: head.uri.path_and_query().map_or("", |target| target.as_str()),
            range: range.unwrap_or_default(),
            class: header(CLASS_HEADER).unwrap_or_default(),
            body_bytes: announced.bytes,
            body: announced.digest.unwrap_or_else(|| blake3::hash(&[])),
            node: None,
        };
        let believed = if is_open { Ok(Asker::User) } else { self.believe(&call, asked, proof) };
        match believed {
            Ok(believed) => *asker = believed,
            Err(doubt) => {
                let status =
                    if doubt == Doubt::TooMany { StatusCode::TOO_MANY_REQUESTS } else { StatusCode::UNAUTHORIZED };
                return (name, Reply::refused(status, "", doubt.to_string()));
            }
        }
        let done = self.perform(call, class, announced, body, *asker).await;
        (name, done.unwrap_or_else(|refused| refused))
    }

    /// Whose key is a request signed with? Packets of gossip are for members only; who the members are, for users too.
    fn believe(&self, call: &Call, asked: Asked<'_>, proof: Option<Proof>) -> Result<Asker, Doubt> {
        let check = |key: Option<&Key>, asked: &Asked<'_>| match key {
            Some(key) => self.nonces.lock().check(key, asked, proof, now_ms()),
            None => Ok(()),
        };
        let of_node = Asked { node: self.identity(), ..asked };
        match (call, &self.gossip) {
            (Call::Gossip, Some(gossip)) => check(gossip.key(), &asked).map(|()| Asker::Member),
            (Call::Members, Some(gossip)) => match check(gossip.key(), &asked) {
                Ok(()) => Ok(Asker::Member),
                Err(_) => check(self.key.as_ref(), &of_node).map(|()| Asker::User),
            },
            _ => check(self.key.as_ref(), &of_node).map(|()| Asker::User),
        }
    }

    async fn perform(
        &self,
        call: Call,
        class: Class,
        announced: Announced,
        body: Incoming,
        asker: Asker,
    ) -> Result<Reply, Reply> {
        let takes_body = matches!(call, Call::Put(_) | Call::Combine(_) | Call::Claim | Call::Gossip);
        if !takes_body && announced.bytes > 0 {
            return Err(Reply::invalid("this request takes no body"));
        }
        match call {
            Call::Put(key) => {
                let node = self.node()?;
                let (parts, _held) = self.receive(class, announced, body, SHARD_BYTES_MAX).await?;
                node.put(key, &parts).await?;
                Ok(Reply { status: StatusCode::CREATED, ..Reply::ok("") })
            }
            Call::Get(key, range) => self.get(self.node()?, class, key, range).await,
            Call::Combine(key) => {
                let node = self.node()?;
                let (parts, _held) = self.receive(class, announced, body, COMBINATION_BYTES_MAX).await?;
                self.combine(&*node, class, key, &parts.concat().into()).await
            }
            Call::Stat(key) => {
                let stat = self.node()?.stat(key).await?;
                Ok(Reply::json(&StatBody { bytes: stat.bytes, modified_ms: stat.modified_ms }))
            }
            Call::Remove(key) => {
                self.node()?.remove(key).await?;
                Ok(Reply { status: StatusCode::NO_CONTENT, ..Reply::ok("") })
            }
            Call::List { after, limit } => {
                let page = self.node()?.list(after, limit).await?;
                let keys = page.keys.iter().map(ToString::to_string).collect();
                Ok(Reply::json(&PageBody { keys, foreign: page.foreign, more: page.more }))
            }
            Call::Space => {
                let space = self.node()?.space().await?;
                Ok(Reply::json(&SpaceBody { total_bytes: space.total_bytes, free_bytes: space.free_bytes }))
            }
            Call::Identity => Ok(Reply::ok(self.node()?.identity().await?.encode())),
            Call::Claim => {
                let (parts, _held) = self.receive(class, announced, body, CLAIM_BYTES_MAX).await?;
                self.claim(&parts.concat()).await
            }
            Call::Metrics => Ok(Reply::ok(self.metrics.text())),
            Call::Gossip => {
                let gossip = self.gossip()?;
                let (parts, _held) = self.receive(class, announced, body, PACKET_BYTES_MAX as u64).await?;
                gossip.hear(&parts.concat()).map_err(|error| Reply::invalid(error.to_string()))?;
                Ok(Reply { status: StatusCode::NO_CONTENT, ..Reply::ok("") })
            }
            Call::Members => {
                let mut members = self.gossip()?.members();
                if asker == Asker::User {
                    let volume = self.identity().map(|identity| identity.volume.to_string());
                    members.retain(|heard| volume.as_ref() == Some(&heard.facts.volume));
                }
                Ok(Reply::json(&MembersBody { members }))
            }
        }
    }

    fn gossip(&self) -> Result<&Gossiper, Reply> {
        self.gossip.as_deref().ok_or_else(|| {
            let detail = "it does not gossip: start it with --advertise and the address that others know it by";
            NodeError::new(NodeErrorKind::Unsupported, &self.name, detail).into()
        })
    }

    /// Bytes of bodies under way.
    pub(super) fn load_bytes(&self) -> u64 {
        self.backlog_bytes.iter().map(|bytes| bytes.load(Ordering::Relaxed)).sum()
    }

    /// The node that it serves, once it belongs to a volume.
    pub(super) fn served(&self) -> Option<(NodeIdentity, Arc<dyn Node>)> {
        self.node.read().clone()
    }

    fn node(&self) -> Result<Arc<dyn Node>, Reply> {
        self.served().map(|(_, node)| node).ok_or_else(|| {
            let detail = format!("{} belongs to no volume yet: add it with `weft node add`", self.name);
            Reply::from(NodeError::new(NodeErrorKind::WrongNode, &self.name, detail))
        })
    }

    async fn get(&self, node: Arc<dyn Node>, class: Class, key: ShardKey, range: Range<u64>) -> Result<Reply, Reply> {
        let bytes = node.stat(key).await?.bytes;
        let range = range.start..range.end.min(bytes);
        if range.is_empty() {
            return Ok(Reply { status: StatusCode::RANGE_NOT_SATISFIABLE, ..Reply::ok("") });
        }
        // The signature goes ahead of the bytes, so these must be there; without one they are sent as they are read.
        let first_bytes = if self.key.is_some() { u64::MAX } else { READ_BYTES };
        let first = range.start..range.end.min(range.start.saturating_add(first_bytes));
        let held_bytes = (range.end - range.start).min(first_bytes.saturating_mul(2));
        let held = self.hold(class, range.end - range.start, held_bytes).await?;
        let body = node.get(key, first.clone()).await?;
        let is_whole = first.end == range.end || body.len() as u64 != first.end - first.start;
        let unread = (!is_whole).then(|| Box::new(Unread { node, key, range: first.end..range.end }));
        Ok(Reply { status: StatusCode::PARTIAL_CONTENT, unread, held: Some(held), ..Reply::ok(body) })
    }

    async fn combine(&self, node: &dyn Node, class: Class, key: ShardKey, body: &Bytes) -> Result<Reply, Reply> {
        let (combination, onward, onward_body) = CombinationBody::decode(body).map_err(Reply::invalid)?;
        let cost = combination.cost().map_err(|error| Reply::invalid(error.to_string()))?;
        let link = onward.map(|onward| {
            let link = Link::of(onward, onward_body, cost.sent_bytes);
            link.ok_or_else(|| Reply::invalid("what is to be added cannot be asked for"))
        });
        let link = link.transpose()?;
        let volume = node.identity().await?.volume;
        // As they are read, without their checks, and what is computed and added.
        let held = self.hold(class, cost.sent_bytes, 2 * cost.read_bytes + 2 * cost.sent_bytes).await?;
        let computed = async {
            let _turn = self.combining.acquire().await;
            combine_gets(node, &self.name, volume, key, &combination).await.map_err(Reply::from)
        };
        let added = async {
            match link {
                Some(link) => self.pull(class, link).await.map(Some),
                None => Ok(None),
            }
        };
        let body = match tokio::try_join!(computed, added)? {
            (own, None) => own,
            (own, Some(added)) => own.iter().zip(&added).map(|(own, added)| own ^ added).collect(),
        };
        self.metrics.combined(cost.read_bytes);
        Ok(Reply { held: Some(held), ..Reply::ok(body) })
    }

    /// Asks another node for what is to be added to a combination.
    async fn pull(&self, class: Class, link: Link) -> Result<Bytes, Reply> {
        let unsupported = |detail: String| Reply::from(NodeError::new(NodeErrorKind::Unsupported, &self.name, detail));
        if self.key.is_none() {
            // Anybody could have it ask whomever they like.
            return Err(unsupported("it has no key, and asks nobody for others: start it with --key".to_owned()));
        }
        if self.doors.count() >= DOORS_MAX {
            self.doors.keep(|_| false);
        }
        let address = link.url.to_string();
        let bytes = link.answer_bytes;
        let door = self.doors.to(&address).ok_or_else(|| unsupported(format!("{address} cannot be asked")))?;
        let added = door.pull(link).await.map_err(|error| unsupported(error.to_string()))?;
        if let Some(rate) = &self.rate {
            rate.pay(class, bytes).await;
        }
        Ok(added)
    }

    /// Waits until so many of the bytes that are to be moved may be held; not for long.
    async fn hold(&self, class: Class, bytes: u64, held_bytes: u64) -> Result<Holding, Reply> {
        let busy = |why: &str| Reply::from(NodeError::new(NodeErrorKind::Busy, &self.name, why));
        let own = &self.backlog_bytes[class as usize];
        let mut before = own.fetch_add(bytes, Ordering::Relaxed);
        let backlog = Backlog { bytes, of: Arc::clone(own) };
        if class == Class::Background {
            // The foreground is served before it, and does not mind it.
            before += self.backlog_bytes[Class::Foreground as usize].load(Ordering::Relaxed);
        }
        // Something is always let through.
        if before > 0 && self.rate.as_ref().is_some_and(|rate| rate.time_for(before + bytes) > BACKLOG_MAX) {
            return Err(busy("more is under way than its limit of bytes a second lets through soon: ask later"));
        }
        let permits = held_bytes.min(HELD_BYTES_MAX / 2).div_ceil(PERMIT_BYTES);
        let acquired = Arc::clone(&self.held).acquire_many_owned(permits as u32);
        match tokio::time::timeout(HOLD_PATIENCE, acquired).await {
            // It is never closed.
            Ok(permit) => Ok(Holding { _permit: permit.ok(), _backlog: backlog }),
            Err(_) => Err(busy("it has no room for more bodies now: ask later")),
        }
    }

    /// The whole body, if it is as announced.
    async fn receive(
        &self,
        class: Class,
        announced: Announced,
        mut body: Incoming,
        bytes_max: u64,
    ) -> Result<(Vec<Bytes>, Holding), Reply> {
        if announced.bytes > bytes_max {
            let detail = format!("a body of {} bytes is more than {bytes_max}", announced.bytes);
            return Err(Reply::refused(StatusCode::PAYLOAD_TOO_LARGE, "", detail));
        }
        let held = self.hold(class, announced.bytes, announced.bytes).await?;
        let deadline =
            Instant::now() + BODY_DEADLINE + Duration::from_secs(announced.bytes / BODY_BYTES_PER_SECOND_MIN);
        let (mut parts, mut bytes) = (Vec::new(), 0);
        // Only signed requests announce what their bodies are.
        let mut digests = announced.digest.map(|announced| (announced, blake3::Hasher::new()));
        loop {
            let patience = BODY_DEADLINE.min(deadline.saturating_duration_since(Instant::now()));
            let frame = match tokio::time::timeout(patience, body.frame()).await {
                Ok(Some(Ok(frame))) => frame,
                Ok(None) => break,
                Ok(Some(Err(error))) => return Err(Reply::invalid(format!("the body was cut off: {error}"))),
                Err(_) => return Err(Reply::refused(StatusCode::REQUEST_TIMEOUT, "", "the body came too slowly")),
            };
            if let Ok(part) = frame.into_data() {
                bytes += part.len() as u64;
                if let Some((_, found)) = &mut digests {
                    found.update(&part);
                }
                if let Some(rate) = &self.rate {
                    rate.pay(class, part.len() as u64).await;
                }
                parts.push(part);
            }
        }
        if bytes != announced.bytes || digests.is_some_and(|(announced, found)| announced != found.finalize()) {
            return Err(Reply::invalid("the body is not what was announced"));
        }
        Ok((parts, held))
    }

    async fn claim(&self, identity: &[u8]) -> Result<Reply, Reply> {
        let identity = NodeIdentity::decode(identity).map_err(|error| Reply::invalid(error.to_string()))?;
        match self.identity() {
            Some(own) if own == identity => return Ok(Reply::ok("")),
            Some(own) if own.volume != identity.volume || !self.is_wiped().await => {
                return Err(already_a_node(&self.name, own, identity).into());
            }
            // What it was is lost, and it may become another.
            Some(_) | None => {}
        }
        let node = url::create(&self.place, &self.name, identity, &Secret::default()).await?;
        *self.node.write() = Some((identity, node));
        tracing::info!(node = self.name, "is node {} of volume {} now", identity.node, identity.volume);
        Ok(Reply::ok(""))
    }

    async fn is_wiped(&self) -> bool {
        let Ok(node) = self.node() else { return false };
        node.identity().await.is_err_and(|error| error.kind == NodeErrorKind::Wiped)
    }

    fn respond(&self, reply: Reply, proof: Option<Proof>, class: Class, asker: Asker) -> Response<Outgoing> {
        let mut response = Response::builder().status(reply.status);
        if let Some(identity) = self.identity() {
            response = response.header(NODE_HEADER, format!("{}/{}", identity.volume, identity.node));
        }
        if !reply.error.is_empty() {
            response = response.header(ERROR_HEADER, reply.error);
        }
        if reply.error == BUSY {
            response = response.header(RETRY_AFTER, RETRY_AFTER_SECONDS);
        }
        let key = match (asker, &self.gossip) {
            (Asker::Member, Some(gossip)) => gossip.key(),
            _ => self.key.as_ref(),
        };
        if let (Some(key), Some(proof)) = (key, proof) {
            let answered =
                Answered { status: reply.status.as_u16(), error: reply.error, body: blake3::hash(&reply.body) };
            let signed = sign_answer(key, proof.nonce, &answered);
            response = response.header(PROOF_HEADER, signed.to_hex().as_str());
        }
        let body = match reply.held {
            Some(held) => Bytes::from_owner(Held { bytes: reply.body, _held: held }),
            None => reply.body,
        };
        response
            .body(Outgoing::new(body, reply.unread.map(|unread| *unread), self.rate.clone().map(|rate| (rate, class))))
            .expect("statuses and headers made here are valid")
    }
}

/// Room for a body, until it is dropped.
struct Holding {
    _permit: Option<OwnedSemaphorePermit>,
    _backlog: Backlog,
}

/// Bytes under way, until it is dropped.
struct Backlog {
    bytes: u64,
    of: Arc<AtomicU64>,
}

impl Drop for Backlog {
    fn drop(&mut self) {
        self.of.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// One of an address's connections, until it is dropped.
struct Guest {
    address: IpAddr,
    of: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

impl Guest {
    /// `None`: the address has enough.
    fn of(peers: &Arc<Mutex<HashMap<IpAddr, usize>>>, address: IpAddr) -> Option<Self> {
        let mut counts = peers.lock();
        let count = counts.entry(address).or_default();
        if *count == PEER_CONNECTIONS_MAX {
            return None;
        }
        *count += 1;
        Some(Self { address, of: Arc::clone(peers) })
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let mut counts = self.of.lock();
        if let Some(count) = counts.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.address);
            }
        }
    }
}

/// Bytes that count as held until they are dropped.
struct Held {
    bytes: Bytes,
    _held: Holding,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

pub(super) fn already_a_node(name: &str, own: NodeIdentity, wanted: NodeIdentity) -> NodeError {
    if own.volume == wanted.volume {
        let detail = format!("{name} is node {} of this volume already: give another place", own.node);
        NodeError::new(NodeErrorKind::Exists, name, detail)
    } else {
        let detail = format!("{name} is a node of volume {}: give another place", own.volume);
        NodeError::new(NodeErrorKind::WrongNode, name, detail)
    }
}

fn proof_of(headers: &HeaderMap) -> Option<Proof> {
    Proof::decode(headers.get(AUTHORIZATION)?.to_str().ok()?)
}

/// For whom a request is; `None`: it says something else.
fn class_of(headers: &HeaderMap) -> Option<Class> {
    match headers.get(CLASS_HEADER) {
        None => Some(Class::Foreground),
        Some(value) => (value == BACKGROUND).then_some(Class::Background),
    }
}

fn announced(headers: &HeaderMap) -> Result<Announced, Reply> {
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let bytes = match text(CONTENT_LENGTH.as_str()) {
        Some(length) => length.parse().map_err(|_| Reply::invalid("the length of the body is no number"))?,
        None if headers.contains_key(hyper::header::TRANSFER_ENCODING) => {
            return Err(Reply::refused(StatusCode::LENGTH_REQUIRED, "", "a body has a length"));
        }
        None => 0,
    };
    let digest = match text(DIGEST_HEADER) {
        Some(hex) => Some(blake3::Hash::from_hex(hex).map_err(|_| Reply::invalid("the digest of the body is none"))?),
        None => None,
    };
    Ok(Announced { bytes, digest })
}

fn lock(folder: &std::path::Path, name: &str) -> Result<OwnedFd, NodeError> {
    let failed = |errno| crate::system::failure(name, folder, errno, "opening it");
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = rustix::fs::open(folder, flags, Mode::empty()).map_err(|errno| match errno {
        rustix::io::Errno::NOENT => {
            let detail = format!("{} is not there: make the folder, or mount its disk", folder.display());
            NodeError::new(NodeErrorKind::Unavailable, name, detail)
        }
        errno => failed(errno),
    })?;
    match rustix::fs::flock(&opened, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(opened),
        Err(rustix::io::Errno::WOULDBLOCK) => {
            let detail = format!("{} is served by another daemon: end that first", folder.display());
            Err(NodeError::new(NodeErrorKind::Exists, name, detail))
        }
        Err(errno) => Err(failed(errno)),
    }
}

pub(super) fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_millis() as u64)
}
