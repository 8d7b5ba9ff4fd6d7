//! The body of an answer: at once, or piece by piece within a rate.

use crate::rate::Rate;
use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// Pieces that take turns: little enough that nobody waits long for one, enough that turns cost nothing.
const PIECE_BYTES: usize = 64 << 10;

/// What is left to be sent.
pub(super) struct Outgoing {
    rest: Bytes,
    rate: Option<Arc<Rate>>,
    /// The turn of the next piece.
    turn: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl Outgoing {
    pub(super) fn new(body: Bytes, rate: Option<Arc<Rate>>) -> Self {
        Self { rest: body, rate, turn: None }
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.rest.is_empty() {
            return Poll::Ready(None);
        }
        let Some(rate) = self.rate.clone() else {
            return Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut self.rest)))));
        };
        let piece_bytes = self.rest.len().min(PIECE_BYTES);
        let turn = self.turn.get_or_insert_with(|| Box::pin(async move { rate.pay(piece_bytes).await }));
        ready!(turn.as_mut().poll(context));
        self.turn = None;
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(piece_bytes)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest.len() as u64)
    }
}
