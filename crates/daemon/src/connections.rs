//! Connections to one daemon, kept for the next request.
//!
//! A request is driven by who asks, wherever that is polled: no task of its own stands between a thread and its socket. One
//! would cost a small read two changes of threads, which is more than all else it costs. The runtime's own thread that watches sockets
//! would cost two more, so a thread that waits for its sockets itself (`waiter.rs`) has connections that the runtime does not know.

use super::dial::{Dial, Dialed, Stream};
use super::progress::{Counted, Progress};
use super::tls::carrier;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING};
use hyper::http::response;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio_rustls::TlsConnector;
use weft_env::Clock;
use weft_nodes::waiter::{self, OwnSocket};

/// No connection in so long: nobody is there.
const CONNECT_DEADLINE: Duration = Duration::from_secs(2);

/// Idle connections are kept so long: less than daemons keep them.
const IDLE: Duration = Duration::from_secs(20);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConnectionError {
    /// There is no connection.
    #[error("no connection: {0}")]
    Connect(#[source] io::Error),
    /// It broke.
    #[error("the connection broke: {0}")]
    Request(#[source] hyper::Error),
    /// It had carried another request before, and broke: the daemon may have closed it as idle while this request was on its way.
    #[error("the idle connection broke: {0}")]
    Idle(#[source] hyper::Error),
    /// The answer broke off in the middle.
    #[error("the answer was cut off: {0}")]
    Answer(#[source] hyper::Error),
    /// It is longer than any right answer, or of no length.
    #[error("the answer is longer than what was asked")]
    TooLong,
}

/// The connections to one address of a daemon. Those that no request uses are kept for a while.
pub(super) struct Connections {
    /// Host and port.
    authority: String,
    /// For whom a certificate by an authority must be: the host that the user was given, at whichever of its addresses the daemon is asked.
    host: String,
    tls: Option<TlsConnector>,
    dial: Arc<dyn Dial>,
    /// The one that was used last is last.
    idle: Mutex<Vec<(Connection, Instant)>>,
    is_local: AtomicBool,
    /// Whom the last one led to, and from which address.
    peer: Mutex<Option<(SocketAddr, IpAddr)>>,
    /// What moves over all of them.
    progress: Arc<Progress>,
    clock: Arc<dyn Clock>,
}

/// How one request is going.
#[derive(Default)]
pub(super) struct Watch {
    /// What moves for it; none while it has no connection.
    progress: Mutex<Option<Arc<Progress>>>,
    is_refused: AtomicBool,
}

impl Watch {
    pub(super) fn progress(&self) -> Option<Arc<Progress>> {
        self.progress.lock().clone()
    }

    fn see(&self, connection: &Connection) {
        *self.progress.lock() = Some(Arc::clone(&connection.progress));
    }

    /// The node itself has answered with an error.
    pub(super) fn refuse(&self) {
        self.is_refused.store(true, Ordering::Relaxed);
    }

    /// Has the node itself answered with an error?
    pub(super) fn is_refused(&self) -> bool {
        self.is_refused.load(Ordering::Relaxed)
    }
}

impl Connections {
    pub(super) fn new(authority: &str, tls: Option<ClientConfig>, dial: Arc<dyn Dial>, clock: &Arc<dyn Clock>) -> Self {
        let tls = tls.map(|config| TlsConnector::from(Arc::new(config)));
        let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        Self::made(authority, host, tls, dial, Arc::clone(clock))
    }

    fn made(
        authority: &str,
        host: String,
        tls: Option<TlsConnector>,
        dial: Arc<dyn Dial>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            authority: authority.to_owned(),
            host,
            tls,
            dial,
            idle: Mutex::default(),
            is_local: AtomicBool::new(false),
            peer: Mutex::default(),
            progress: Arc::new(Progress::new(&clock)),
            clock,
        }
    }

    /// Connections to the same daemon at another of its addresses.
    pub(super) fn at(&self, authority: &str) -> Self {
        Self::made(authority, self.host.clone(), self.tls.clone(), Arc::clone(&self.dial), Arc::clone(&self.clock))
    }

    /// Connections to the same address that `dial` makes.
    pub(super) fn dialed_by(&self, dial: Arc<dyn Dial>) -> Self {
        Self::made(&self.authority, self.host.clone(), self.tls.clone(), dial, Arc::clone(&self.clock))
    }

    /// What moves over all of them.
    pub(super) fn progress(&self) -> &Arc<Progress> {
        &self.progress
    }

    /// Whom the last one led to.
    pub(super) fn peer(&self) -> Option<SocketAddr> {
        self.peer.lock().map(|(peer, _)| peer)
    }

    /// From which address the last one went.
    pub(super) fn local(&self) -> Option<IpAddr> {
        self.peer.lock().map(|(_, local)| local)
    }

    /// Closes those that no request uses.
    pub(super) fn clear(&self) {
        let _closed = std::mem::take(&mut *self.idle.lock());
    }

    /// Did the last one have one address at both ends? Then, but for relays, both are on one machine.
    pub(super) fn is_local(&self) -> bool {
        self.is_local.load(Ordering::Relaxed)
    }

    /// Sends a request, whose URI is a path, and receives the answer, of at most `bytes_max` bytes; `watch` sees what moves. Dropped in
    /// the middle, it closes its connection.
    pub(super) async fn ask(
        &self,
        mut request: Request<Parts>,
        bytes_max: u64,
        watch: &Watch,
    ) -> Result<(response::Parts, Bytes), ConnectionError> {
        while let Some(mut connection) = self.take() {
            watch.see(&connection);
            match connection.send(request).await {
                Ok(answer) => return self.receive(connection, answer, bytes_max).await,
                // The daemon had closed it.
                Err(NoAnswer::Unsent(unsent, _)) => request = *unsent,
                Err(NoAnswer::Broken(error)) => return Err(ConnectionError::Idle(error)),
            }
        }
        let mut connection = self.connect().await?;
        watch.see(&connection);
        match connection.send(request).await {
            Ok(answer) => self.receive(connection, answer, bytes_max).await,
            Err(NoAnswer::Unsent(_, error) | NoAnswer::Broken(error)) => Err(ConnectionError::Request(error)),
        }
    }

    fn take(&self) -> Option<Connection> {
        let mut idle = self.idle.lock();
        let oldest = self.clock.now() - IDLE;
        let expired_count = idle.iter().take_while(|(_, since)| *since < oldest).count();
        let _expired: Vec<_> = idle.drain(..expired_count).collect();
        let waits_here = waiter::is_here();
        let at = idle.iter().rposition(|(connection, _)| connection.own.is_some() == waits_here)?;
        let (connection, _) = idle.remove(at);
        connection.own.iter().for_each(|own| own.look_again());
        Some(connection)
    }

    async fn connect(&self) -> Result<Connection, ConnectionError> {
        let late = || io::Error::new(io::ErrorKind::TimedOut, format!("none within {} s", CONNECT_DEADLINE.as_secs()));
        let dialed = self.clock.timeout(CONNECT_DEADLINE, self.dial.dial(&self.authority)).await;
        let Dialed { stream: plain, ends, own } =
            dialed.unwrap_or_else(|_| Err(late())).map_err(ConnectionError::Connect)?;
        self.is_local.store(ends.is_some_and(|(peer, own)| peer.ip() == own), Ordering::Relaxed);
        *self.peer.lock() = ends;
        let progress = Arc::new(Progress::new(&self.clock));
        let plain: Box<dyn Stream> = Box::new(Counted::new(plain, [Arc::clone(&progress), Arc::clone(&self.progress)]));
        let stream = match &self.tls {
            None => plain,
            Some(tls) => {
                let name = ServerName::try_from(self.host.clone()).map_err(|error| io::Error::other(error.to_string()));
                let name = name.map_err(ConnectionError::Connect)?;
                Box::new(tls.connect(name, carrier(plain)).await.map_err(ConnectionError::Connect)?)
            }
        };
        let (sender, driver) = http1::handshake(TokioIo::new(stream)).await.map_err(ConnectionError::Request)?;
        Ok(Connection { sender, driver: Some(driver), own, progress })
    }

    async fn receive(
        &self,
        mut connection: Connection,
        answer: Response<Incoming>,
        bytes_max: u64,
    ) -> Result<(response::Parts, Bytes), ConnectionError> {
        let (head, body) = answer.into_parts();
        let length = head.headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
        let length = length.or((head.status == StatusCode::NO_CONTENT).then_some(0));
        // A body in chunks keeps to no length, whatever stands beside it.
        let is_bounded = |length: &u64| *length <= bytes_max && !head.headers.contains_key(TRANSFER_ENCODING);
        let length = length.filter(is_bounded).ok_or(ConnectionError::TooLong)?;
        let body = connection.drive(collect(body, length as usize)).await.map_err(ConnectionError::Answer)?;
        // The daemon closes it after a refusal, maybe before all of the request is sent.
        if head.headers.get(CONNECTION).is_none_or(|value| value != "close") {
            self.idle.lock().push((connection, self.clock.now()));
        }
        Ok((head, body))
    }
}

/// The bytes of an answer: as they came if they came at once.
async fn collect(mut body: Incoming, bytes: usize) -> Result<Bytes, hyper::Error> {
    let mut all = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(part) = frame?.into_data() else { continue };
        if part.len() == bytes {
            return Ok(part);
        }
        all.reserve(bytes - all.len());
        all.extend_from_slice(&part);
    }
    Ok(all.freeze())
}

struct Connection {
    sender: SendRequest<Parts>,
    /// Moves the bytes. None: the connection has ended.
    driver: Option<http1::Connection<TokioIo<Box<dyn Stream>>, Parts>>,
    /// None: the runtime watches its socket.
    own: Option<Arc<OwnSocket>>,
    /// What moves over it.
    progress: Arc<Progress>,
}

enum NoAnswer {
    /// Not a byte of it was sent.
    Unsent(Box<Request<Parts>>, hyper::Error),
    Broken(hyper::Error),
}

impl Connection {
    async fn send(&mut self, request: Request<Parts>) -> Result<Response<Incoming>, NoAnswer> {
        let Self { sender, driver, .. } = self;
        drive(driver, async {
            if let Err(error) = sender.ready().await {
                return Err(NoAnswer::Unsent(Box::new(request), error));
            }
            let sent = sender.try_send_request(request).await;
            sent.map_err(|mut refused| match refused.take_message() {
                Some(unsent) => NoAnswer::Unsent(Box::new(unsent), refused.into_error()),
                None => NoAnswer::Broken(refused.into_error()),
            })
        })
        .await
    }

    async fn drive<T>(&mut self, work: impl Future<Output = T>) -> T {
        drive(&mut self.driver, work).await
    }
}

/// Does `work` with a connection, and moves its bytes meanwhile.
async fn drive<T>(driver: &mut Option<impl Future + Unpin>, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    poll_fn(|context| {
        // What is asked goes to the driver, ...
        if let Poll::Ready(done) = work.as_mut().poll(context) {
            return Poll::Ready(done);
        }
        // ... which ends when the other side closes; whoever waits for it then learns that.
        if driver.as_mut().is_some_and(|driver| Pin::new(driver).poll(context).is_ready()) {
            *driver = None;
        }
        work.as_mut().poll(context)
    })
    .await
}

/// A body of parts, sent without joining them.
pub(super) struct Parts {
    parts: VecDeque<Bytes>,
    left_bytes: u64,
}

impl Parts {
    pub(super) fn of(parts: &[Bytes]) -> Self {
        Self { parts: parts.iter().cloned().collect(), left_bytes: parts.iter().map(|part| part.len() as u64).sum() }
    }
}

impl Body for Parts {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(loop {
            match self.parts.pop_front() {
                Some(part) if part.is_empty() => {}
                Some(part) => {
                    self.left_bytes -= part.len() as u64;
                    break Some(Ok(Frame::data(part)));
                }
                None => break None,
            }
        })
    }

    fn is_end_stream(&self) -> bool {
        self.left_bytes == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left_bytes)
    }
}

#[cfg(test)]
#[path = "connections_tests.rs"]
mod tests;
