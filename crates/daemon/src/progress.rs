//! A stream that says when bytes last moved through it.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use weft_env::Clock;

/// When bytes moved, and how many. Of a connection, or of all connections of a link.
pub(super) struct Progress {
    clock: Arc<dyn Clock>,
    epoch: Instant,
    /// Microseconds since the epoch, and 1; 0: never.
    moved_us: AtomicU64,
    received_us: AtomicU64,
    bytes: AtomicU64,
}

impl Progress {
    pub(super) fn new(clock: &Arc<dyn Clock>) -> Self {
        let (epoch, zero) = (clock.now(), || AtomicU64::new(0));
        Self { clock: Arc::clone(clock), epoch, moved_us: zero(), received_us: zero(), bytes: zero() }
    }

    fn moment(&self, us: &AtomicU64) -> Option<Instant> {
        let us = us.load(Ordering::Relaxed).checked_sub(1)?;
        Some(self.epoch + Duration::from_micros(us))
    }

    /// When bytes were last sent or received. A sent byte is one that the system took: when a line is cut it takes some more.
    pub(super) fn moved(&self) -> Option<Instant> {
        self.moment(&self.moved_us)
    }

    /// When bytes were last received.
    pub(super) fn received(&self) -> Option<Instant> {
        self.moment(&self.received_us)
    }

    /// Bytes that moved so far, in both directions.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    fn add(&self, bytes: usize, is_received: bool) {
        let us = self.clock.elapsed(self.epoch).as_micros() as u64 + 1;
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.moved_us.store(us, Ordering::Relaxed);
        if is_received {
            self.received_us.store(us, Ordering::Relaxed);
        }
    }
}

/// A stream of a connection of a link.
pub(super) struct Counted<S> {
    stream: S,
    of: [Arc<Progress>; 2],
}

impl<S> Counted<S> {
    /// What moves counts for both.
    pub(super) fn new(stream: S, of: [Arc<Progress>; 2]) -> Self {
        Self { stream, of }
    }

    fn sent(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(bytes @ 1..)) = &written {
            self.of.iter().for_each(|progress| progress.add(*bytes, false));
        }
        written
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Counted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        let bytes = buffer.filled().len() - before;
        if bytes > 0 {
            self.of.iter().for_each(|progress| progress.add(bytes, true));
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Counted<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.sent(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.sent(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
