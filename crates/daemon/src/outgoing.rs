//! The body of an answer: what is in memory at once, what is on the node piece by piece, and both within a rate.

use super::server::Sending;
use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use weft_format::ShardKey;
use weft_nodes::error::{NodeError, NodeErrorKind};
use weft_nodes::node::Node;
use weft_nodes::rate::{Class, Rate};
use weft_nodes::system::INLINE_READ_BYTES;

/// Pieces that take turns: little enough that nobody waits long for one, enough that turns cost nothing.
const TURN_BYTES: usize = 64 << 10;

/// What is read from the node at a time: it stays in the cache until it is sent. A block's share of a read-ahead is one piece.
pub(super) const READ_BYTES: u64 = INLINE_READ_BYTES;

type Doing<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// What is left to be sent.
pub(super) struct Outgoing {
    left_bytes: u64,
    /// Of that, what is in memory and goes first.
    held: Bytes,
    unread: Option<Unread>,
    reading: Option<Doing<Result<Bytes, NodeError>>>,
    rate: Option<(Arc<Rate>, Class)>,
    /// The turn of the next piece.
    turn: Option<Doing<()>>,
    _sending: Option<Sending>,
}

/// A part of a shard that is still to be read.
pub(super) struct Unread {
    pub(super) node: Arc<dyn Node>,
    pub(super) key: ShardKey,
    pub(super) range: Range<u64>,
}

impl Unread {
    /// Reads the next piece, which must be there.
    fn next(&mut self) -> Doing<Result<Bytes, NodeError>> {
        let end = self.range.end.min(self.range.start + READ_BYTES);
        let (node, key, piece) = (Arc::clone(&self.node), self.key, self.range.start..end);
        self.range.start = end;
        Box::pin(async move {
            let bytes = node.get(key, piece.clone()).await?;
            if bytes.len() as u64 == piece.end - piece.start {
                return Ok(bytes);
            }
            Err(NodeError::new(NodeErrorKind::Io, "here", format!("shard {key} became shorter while it was sent")))
        })
    }
}

impl Outgoing {
    /// `held`, then what is read.
    pub(super) fn new(held: Bytes, unread: Option<Unread>, rate: Option<(Arc<Rate>, Class)>) -> Self {
        let unread_bytes = unread.as_ref().map_or(0, |unread| unread.range.end - unread.range.start);
        Self {
            left_bytes: held.len() as u64 + unread_bytes,
            held,
            unread,
            reading: None,
            rate,
            turn: None,
            _sending: None,
        }
    }
}

impl Outgoing {
    /// The same, for a connection that is at work until it is sent.
    pub(super) fn until_sent(self, sending: Sending) -> Self {
        Self { _sending: Some(sending), ..self }
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = NodeError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, NodeError>>> {
        let this = &mut *self;
        if this.held.is_empty() {
            let Some(unread) = this.unread.as_mut().filter(|_| this.left_bytes > 0) else { return Poll::Ready(None) };
            let reading = this.reading.get_or_insert_with(|| unread.next());
            let read = ready!(reading.as_mut().poll(context));
            this.reading = None;
            match read {
                Ok(bytes) => this.held = bytes,
                // The connection ends here, which tells the user that this was not all.
                Err(error) => return Poll::Ready(Some(Err(error))),
            }
        }
        let piece = match this.rate.clone() {
            None => std::mem::take(&mut this.held),
            Some((rate, class)) => {
                let piece_bytes = this.held.len().min(TURN_BYTES);
                let turn =
                    this.turn.get_or_insert_with(|| Box::pin(async move { rate.pay(class, piece_bytes as u64).await }));
                ready!(turn.as_mut().poll(context));
                this.turn = None;
                this.held.split_to(piece_bytes)
            }
        };
        this.left_bytes -= piece.len() as u64;
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.left_bytes == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left_bytes)
    }
}
