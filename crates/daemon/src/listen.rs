//! Where a daemon's connections come from: a TCP listener, or a simulator.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};

/// What gives a daemon its connections.
pub trait Listen: Send {
    /// What carries the bytes of a connection.
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// Waits for the next connection. Dropped, it loses none.
    ///
    /// # Errors
    /// There is none for now, as without descriptors: it is to be asked again a moment later.
    fn accept(&mut self) -> impl Future<Output = io::Result<Accepted<Self::Stream>>> + Send;
}

/// A connection that somebody made.
pub struct Accepted<S> {
    /// Its bytes.
    pub stream: S,
    /// Who made it.
    pub peer: SocketAddr,
    /// Has it one address at both ends?
    pub is_here: bool,
}

impl Listen for TcpListener {
    type Stream = TcpStream;

    async fn accept(&mut self) -> io::Result<Accepted<TcpStream>> {
        let (stream, peer) = TcpListener::accept(self).await?;
        let is_here = stream.local_addr().is_ok_and(|own| own.ip() == peer.ip());
        // Without it small answers wait for acknowledgements of earlier ones.
        let _ = stream.set_nodelay(true);
        Ok(Accepted { stream, peer, is_here })
    }
}
