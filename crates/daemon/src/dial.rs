//! How a user of daemons makes its connections: by TCP, or in a simulator by streams of its own.

use async_trait::async_trait;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use weft_nodes::waiter::{self, OwnSocket, OwnStream};

/// What is spoken through, with TLS or without.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// Makes connections.
#[async_trait]
pub trait Dial: Send + Sync {
    /// A connection to `authority`, host and port. Who dials gives it a deadline.
    ///
    /// # Errors
    /// Nobody listens there, or the system gives no connection.
    async fn dial(&self, authority: &str) -> io::Result<Dialed>;
}

/// A connection that was made.
pub struct Dialed {
    pub(super) stream: Box<dyn Stream>,
    /// Whom it leads to, and from which address.
    pub(super) ends: Option<(SocketAddr, IpAddr)>,
    /// None: who polls the stream need not watch a socket.
    pub(super) own: Option<Arc<OwnSocket>>,
}

impl Dialed {
    /// Over a stream that is no socket.
    #[must_use]
    pub fn over(stream: impl Stream + 'static) -> Self {
        Self { stream: Box::new(stream), ends: None, own: None }
    }
}

/// Over TCP.
pub(super) struct Tcp;

#[async_trait]
impl Dial for Tcp {
    async fn dial(&self, authority: &str) -> io::Result<Dialed> {
        let stream = TcpStream::connect(authority).await?;
        // An answer's last packet must not wait for an acknowledgement.
        stream.set_nodelay(true)?;
        let ends = stream.peer_addr().ok().zip(stream.local_addr().ok().map(|own| own.ip()));
        // A thread that waits for its sockets itself has connections that the runtime does not know.
        if waiter::is_here() {
            let own = OwnStream::new(stream.into_std()?);
            let socket = own.socket();
            return Ok(Dialed { stream: Box::new(own), ends, own: Some(socket) });
        }
        Ok(Dialed { stream: Box::new(stream), ends, own: None })
    }
}
