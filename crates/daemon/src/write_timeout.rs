//! A connection whose other side must take what it asked for: one that takes nothing, or a drip, is cut off.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use weft_env::{Clock, Sleep};

/// All the waiting for the other side to take an answer comes to this at most, ...
const WAIT: Duration = Duration::from_secs(30);
/// ... and its bytes at this rate more.
const BYTES_PER_SECOND_MIN: u64 = 16 << 10;

/// A stream that does not wait for ever for what it sends to be taken. Only waiting counts, and it counts from the last
/// request on.
pub(super) struct WriteTimeout<S> {
    stream: S,
    /// Since when it waits.
    waiting: Option<Instant>,
    waited: Duration,
    sent_bytes: u64,
    /// When it has waited long enough, and what wakes it then.
    alarm: Option<(Instant, Sleep)>,
    clock: Arc<dyn Clock>,
}

impl<S> WriteTimeout<S> {
    pub(super) fn new(stream: S, clock: &Arc<dyn Clock>) -> Self {
        let clock = Arc::clone(clock);
        Self { stream, waiting: None, waited: Duration::ZERO, sent_bytes: 0, alarm: None, clock }
    }

    /// Goes by how a write went.
    fn judge(&mut self, context: &mut Context<'_>, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match written {
            Poll::Pending => {
                let Self { waiting, waited, sent_bytes, alarm, clock, .. } = self;
                let since = *waiting.get_or_insert_with(|| clock.now());
                let allowed = WAIT + Duration::from_secs(*sent_bytes / BYTES_PER_SECOND_MIN);
                let end = since + allowed.saturating_sub(*waited);
                let alarm = match alarm {
                    Some((at, alarm)) if *at == end => alarm,
                    _ => &mut alarm.insert((end, clock.sleep_until(end))).1,
                };
                let late = || io::Error::new(io::ErrorKind::TimedOut, "an answer was not taken");
                alarm.as_mut().poll(context).map(|()| Err(late()))
            }
            Poll::Ready(result) => {
                let clock = &self.clock;
                self.waited += self.waiting.take().map_or(Duration::ZERO, |since| clock.elapsed(since));
                self.sent_bytes += result.as_ref().map_or(0, |count| *count as u64);
                Poll::Ready(result)
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeout<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            (self.waited, self.sent_bytes) = (Duration::ZERO, 0);
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.judge(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.judge(context, written)
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

#[cfg(test)]
#[path = "write_timeout_tests.rs"]
mod tests;
