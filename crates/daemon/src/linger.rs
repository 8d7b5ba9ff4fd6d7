//! A connection that is closed although the other side still sends. Closing it at once resets it, and a reset discards the
//! answer before the other side reads it (RFC 9112, section 9.6). So the sending half is closed first, and what still comes is
//! read and discarded until the other side closes, or for a short time.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use weft_env::{Clock, Sleep};

/// The other side stops sending when it reads the answer, one round trip later.
const LINGER: Duration = Duration::from_secs(2);

/// Bytes that are discarded at a time.
const DISCARD_BYTES: usize = 16 << 10;

/// A stream that lingers in its shutdown once `has_unread` is set.
pub(super) struct Lingering<S> {
    stream: S,
    has_unread: Arc<AtomicBool>,
    /// The end of the lingering; set when the sending half is closed.
    end: Option<Sleep>,
    clock: Arc<dyn Clock>,
}

impl<S> Lingering<S> {
    pub(super) fn new(stream: S, has_unread: Arc<AtomicBool>, clock: &Arc<dyn Clock>) -> Self {
        Self { stream, has_unread, end: None, clock: Arc::clone(clock) }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Lingering<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Lingering<S> {
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
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { stream, has_unread, end, clock } = &mut *self;
        let end = match end {
            Some(end) => end,
            None => {
                ready!(Pin::new(&mut *stream).poll_shutdown(context))?;
                if !has_unread.load(Ordering::Relaxed) {
                    return Poll::Ready(Ok(()));
                }
                end.insert(clock.sleep(LINGER))
            }
        };
        loop {
            if end.as_mut().poll(context).is_ready() {
                return Poll::Ready(Ok(()));
            }
            let mut discarded = [0; DISCARD_BYTES];
            let mut buffer = ReadBuf::new(&mut discarded);
            let read = ready!(Pin::new(&mut *stream).poll_read(context, &mut buffer));
            if read.is_err() || buffer.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

#[cfg(test)]
#[path = "linger_tests.rs"]
mod tests;
