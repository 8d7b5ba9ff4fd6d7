//! Serving one place of this machine to users elsewhere: the daemon, its connections and its end. What requests get is in
//! `answer.rs`.

mod answer;
mod file_socket;
mod gathered;
mod per_ip_limit;
mod reply;
mod room;

use super::auth::{Key, Nonces};
use super::dial::{Dial, Tcp};
use super::gossip::{GossipSettings, Gossiper, Served};
use super::http_timer::HttpTimer;
use super::linger::Lingering;
use super::listen::{Accepted, Listen};
use super::metrics::Metrics;
use super::objects::ObjectHost;
use super::peer_pool::PeerPool;
use super::tls::{Certificate, TlsError, carrier};
use super::wire::already_a_node;
use super::write_timeout::WriteTimeout;
use file_socket::FileSocket;
#[cfg(feature = "fuzzing")]
pub(super) use file_socket::{check_request, request_seed};
use hyper::Request;
use hyper::body::{Body, Incoming};
use hyper::header::{CONNECTION, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use parking_lot::{Mutex, RwLock};
pub(super) use per_ip_limit::Sending;
use per_ip_limit::{Limits, PerIpLimit, Slot};
use room::Room;
use rustix::fd::OwnedFd;
use rustix::fs::{FlockOperation, Mode, OFlags};
use std::convert::Infallible;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use weft_cluster::gossip::Heard;
use weft_env::Env;
use weft_format::records::Secret;
use weft_nodes::error::{NodeError, NodeErrorKind};
use weft_nodes::node::{Node, NodeIdentity};
use weft_nodes::rate::Rate;
use weft_nodes::{Kinds, NodeAt, NodeUrl};

/// TLS must be agreed on in so long.
const HANDSHAKE_DEADLINE: Duration = Duration::from_secs(10);

/// A connection on which no whole request head comes for so long is closed. Longer than users keep idle ones.
const HEAD_DEADLINE: Duration = Duration::from_secs(60);

/// How long requests under way may take to end when the daemon is to end.
const GRACE: Duration = Duration::from_secs(30);

/// Who asks, by the connection.
#[derive(Clone)]
struct Peer {
    address: SocketAddr,
    /// Has the connection one address at both ends?
    is_here: bool,
    slot: Arc<Slot>,
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address.fmt(f)
    }
}

/// One place, served.
pub struct Daemon {
    kinds: Kinds,
    place: NodeUrl,
    name: String,
    key: Option<Key>,
    node: RwLock<Option<(NodeIdentity, Arc<dyn Node>)>>,
    /// Held while the place becomes a node.
    claiming: Arc<tokio::sync::Mutex<()>>,
    nonces: Mutex<Nonces>,
    began: Instant,
    env: Env,
    limits: Limits,
    tls: Option<TlsAcceptor>,
    room: Room,
    /// One at a time leaves the other cores to those who only read.
    combining: Semaphore,
    /// None unless short-circuit reads are asked for.
    file_socket: Option<FileSocket>,
    metrics: Metrics,
    /// Are these told to whoever asks on this machine?
    has_open_metrics: bool,
    gossip: Option<Gossiper>,
    /// None unless it is a member of an object store.
    objects: Option<Arc<dyn ObjectHost>>,
    /// How it reaches others.
    dial: Arc<dyn Dial>,
    /// To other nodes of chains; who asks has signed for all.
    peers: PeerPool,
    /// No second daemon serves the folder.
    _lock: Option<OwnedFd>,
}

impl Daemon {
    /// A daemon for a folder, a device or an image file of this machine, which may be a node already or become one when it
    /// is added to a volume. Without a key everybody who reaches it is believed.
    ///
    /// # Errors
    /// The place is not there, cannot be read, or is served by another daemon.
    pub fn open(kinds: Kinds, place: NodeUrl, key: Option<Key>, env: &Env) -> Result<Self, NodeError> {
        let name = place.to_string();
        let dial: Arc<dyn Dial> = Arc::new(Tcp);
        let lock = place.files().map(|folder| lock(folder, &name)).transpose()?;
        let secret = Secret::default();
        let open = |identity| kinds.open(&NodeAt { url: &place, name: &name, identity, secret: &secret });
        let node = match kinds.probe(&place)? {
            Some(identity) => Some((identity, open(identity)?)),
            None => None,
        };
        Ok(Self {
            kinds,
            place,
            name,
            key,
            node: RwLock::new(node),
            claiming: Arc::default(),
            nonces: Mutex::default(),
            began: env.clock.now(),
            env: env.clone(),
            limits: Limits::default(),
            tls: None,
            room: Room::new(None, &env.clock),
            combining: Semaphore::new(1),
            file_socket: None,
            metrics: Metrics::default(),
            has_open_metrics: false,
            gossip: None,
            objects: None,
            peers: PeerPool::new(None, Arc::clone(&dial), env),
            dial,
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
        self.room = Room::new(Some(Rate::new(bytes_per_second)), &self.env.clock);
        self
    }

    /// The same, handing open files of shards to users on its machine, who then read past it.
    pub fn with_short_circuit(mut self) -> Self {
        self.file_socket = Some(FileSocket::new(&*self.env.rng));
        self
    }

    /// The same, telling its counters to whoever asks on its machine, as a scraper that cannot sign.
    pub fn with_open_metrics(mut self) -> Self {
        self.has_open_metrics = true;
        self
    }

    /// The same, reaching other daemons over connections that `dial` makes; to be called before [`Self::with_gossip`].
    pub fn dialed_by(self, dial: Arc<dyn Dial>) -> Self {
        Self { peers: PeerPool::new(None, Arc::clone(&dial), &self.env), dial, ..self }
    }

    /// The same, telling other daemons of itself and listening to what they tell.
    pub fn with_gossip(mut self, settings: GossipSettings) -> Self {
        self.gossip = Some(Gossiper::new(settings, &self.dial, &self.env));
        self
    }

    /// Makes a place that belongs to no volume into the node `identity`.
    ///
    /// # Errors
    /// `Exists`, `WrongNode`: it is another node already; and whatever making a node there meets.
    pub async fn become_node(&self, identity: NodeIdentity) -> Result<(), NodeError> {
        match self.identity() {
            Some(own) if own == identity => Ok(()),
            Some(own) => Err(already_a_node(&self.name, own, identity)),
            None => self.make(identity).await,
        }
    }

    async fn make(&self, identity: NodeIdentity) -> Result<(), NodeError> {
        let secret = Secret::default();
        let node = NodeAt { url: &self.place, name: &self.name, identity, secret: &secret };
        let node = match self.kinds.create(&node).await {
            // An earlier attempt made it, and nobody heard of that.
            Err(error) if error.kind == NodeErrorKind::Exists && self.is_at_place(identity) => {
                self.kinds.open(&node)?
            }
            made => made?,
        };
        *self.node.write() = Some((identity, node));
        Ok(())
    }

    fn is_at_place(&self, identity: NodeIdentity) -> bool {
        self.kinds.probe(&self.place).is_ok_and(|found| found == Some(identity))
    }

    /// The node that it serves, once it belongs to a volume.
    pub fn node(&self) -> Option<Arc<dyn Node>> {
        self.served().map(|(_, node)| node)
    }

    /// The same as a member of an object store, with the cluster's key for all requests, through `node`, which is the place as `host` sees it.
    pub fn with_objects(mut self, node: Arc<dyn Node>, host: Arc<dyn ObjectHost>) -> Self {
        if let Some((_, served)) = self.node.get_mut() {
            *served = node;
        }
        self.objects = Some(host);
        self
    }

    /// Says who the members are, as this one knows them now, itself first; nothing while it does not gossip.
    pub fn heard(&self) -> Vec<Heard> {
        self.gossip.as_ref().map(|gossip| gossip.members()).unwrap_or_default()
    }

    /// Who it is, once it belongs to a volume.
    pub fn identity(&self) -> Option<NodeIdentity> {
        self.node.read().as_ref().map(|(identity, _)| *identity)
    }

    /// Serves until `stop` is over and what was under way then has ended, or half a minute later.
    pub async fn serve(self: Arc<Self>, mut listener: impl Listen, stop: impl Future<Output = ()>) {
        let (graceful, limit) = (GracefulShutdown::new(), PerIpLimit::new(self.limits, &self.env.clock));
        let mut serving_files = JoinSet::new();
        if self.file_socket().is_some() {
            serving_files.spawn(Arc::clone(&self).serve_files());
        }
        let gossiping = async {
            match &self.gossip {
                Some(gossip) => gossip.run(|| self.for_gossip()).await,
                None => std::future::pending().await,
            }
        };
        let accepting = async {
            loop {
                self.accept(&mut listener, &limit, &graceful).await;
            }
        };
        tokio::select! {
            biased;
            () = stop => {}
            // Polled before connections, of which there may always be another.
            () = gossiping => {}
            () = accepting => {}
        }
        serving_files.shutdown().await;
        if let Some(gossip) = &self.gossip {
            gossip.leave().await;
        }
        if self.env.clock.timeout(GRACE, graceful.shutdown()).await.is_err() {
            tracing::warn!(node = self.name, "requests under way were cut off");
        }
    }

    /// Serves the next connection.
    async fn accept(
        self: &Arc<Self>,
        listener: &mut impl Listen,
        limit: &Arc<PerIpLimit>,
        graceful: &GracefulShutdown,
    ) {
        match listener.accept().await {
            Ok(accepted) => {
                let peer = accepted.peer;
                let Some(slot) = limit.admit(peer.ip()) else {
                    tracing::warn!(node = self.name, %peer, "closed: too many ask for a connection while all are at work");
                    return;
                };
                let (daemon, watcher, slot) = (Arc::clone(self), graceful.watcher(), Arc::new(slot));
                self.env.spawner.task(Box::pin(async move {
                    let name = daemon.name.clone();
                    tokio::select! {
                        biased;
                        () = daemon.connection(accepted, watcher, Arc::clone(&slot)) => {}
                        () = slot.expired() => {
                            tracing::debug!(node = name, %peer, "a connection without a place was closed");
                        }
                    }
                }));
            }
            Err(error) => {
                tracing::warn!(node = self.name, "a connection could not be accepted: {error}");
                // Out of descriptors, most likely; trying at once would only burn time.
                self.env.clock.sleep(Duration::from_millis(100)).await;
            }
        }
    }

    async fn connection<S>(self: Arc<Self>, accepted: Accepted<S>, watcher: Watcher, slot: Arc<Slot>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let Accepted { stream, peer, is_here } = accepted;
        let peer = Peer { address: peer, is_here, slot };
        let has_unread = Arc::new(AtomicBool::new(false));
        let clock = &self.env.clock;
        let stream = WriteTimeout::new(Lingering::new(stream, Arc::clone(&has_unread), clock), clock);
        let Some(acceptor) = self.tls.clone() else {
            return self.converse(stream, peer, watcher, has_unread).await;
        };
        match self.env.clock.timeout(HANDSHAKE_DEADLINE, acceptor.accept(carrier(stream))).await {
            Ok(Ok(stream)) => self.converse(stream, peer, watcher, has_unread).await,
            Ok(Err(error)) => tracing::warn!(node = self.name, %peer, "refused: TLS is not agreed on: {error}"),
            Err(_) => tracing::warn!(node = self.name, %peer, "refused: TLS is not agreed on in time"),
        }
    }

    /// One connection from this machine, over a stream that is no socket.
    #[cfg(feature = "fuzzing")]
    pub(super) async fn converse_over(
        self: Arc<Self>,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        address: SocketAddr,
    ) {
        let (graceful, limit) = (GracefulShutdown::new(), PerIpLimit::new(self.limits, &self.env.clock));
        let Some(slot) = limit.admit(address.ip()) else { return };
        let peer = Peer { address, is_here: true, slot: Arc::new(slot) };
        self.converse(stream, peer, graceful.watcher(), Arc::default()).await;
    }

    async fn converse<S>(self: Arc<Self>, stream: S, peer: Peer, watcher: Watcher, has_unread: Arc<AtomicBool>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let stream = Flushing { stream, slot: Arc::clone(&peer.slot) };
        let (daemon, asker) = (Arc::clone(&self), peer.clone());
        let service = service_fn(move |request: Request<Incoming>| {
            let (daemon, peer, has_unread) = (Arc::clone(&daemon), asker.clone(), Arc::clone(&has_unread));
            async move {
                let (has_body, has_place) = (!request.body().is_end_stream(), peer.slot.begin());
                let mut answer = match has_place {
                    true => daemon.answer(request, &peer).await,
                    false => daemon.refuse_for_now(),
                };
                let is_given = answer.status().is_success();
                if !has_place || has_body && !is_given {
                    // The body may not have been read, and what is left of it is no request.
                    answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                    has_unread.store(true, Ordering::Relaxed);
                }
                peer.slot.answered(is_given);
                let sending = Sending(Arc::clone(&peer.slot));
                Ok::<_, Infallible>(answer.map(|body| body.until_sent(sending)))
            }
        });
        let mut server = http1::Builder::new();
        server.timer(HttpTimer::new(&self.env.clock)).header_read_timeout(HEAD_DEADLINE);
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

    fn for_gossip(&self) -> Served {
        Served { load_bytes: self.room.load_bytes(), node: self.served() }
    }

    /// The node that it serves, once it belongs to a volume.
    fn served(&self) -> Option<(NodeIdentity, Arc<dyn Node>)> {
        self.node.read().clone()
    }
}

/// A stream that says when what was written to it is sent.
struct Flushing<S> {
    stream: S,
    slot: Arc<Slot>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Flushing<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Flushing<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(context))?;
        self.slot.flushed();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

fn lock(folder: &std::path::Path, name: &str) -> Result<OwnedFd, NodeError> {
    let failed = |errno| weft_nodes::system::failure(name, folder, errno, "opening it");
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

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
