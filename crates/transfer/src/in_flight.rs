//! Calls under way, polled together by whoever awaits them: nothing is spawned, and dropping them cancels them.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;
use std::time::Instant;
use weft_env::Clock;

/// A call, boxed so that unlike calls can wait together. What other crates await is one too: an `async fn` is compiled in each crate that
/// awaits it, with all that it awaits in turn, and as that crate is optimised; a box is compiled here.
pub type Call<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Calls under way, each with a tag that tells whose it is.
pub(crate) struct InFlight<'a, G, T> {
    calls: Vec<(G, Call<'a, T>)>,
}

impl<'a, G, T> InFlight<'a, G, T> {
    pub(crate) fn new() -> Self {
        Self { calls: Vec::new() }
    }

    pub(crate) fn push(&mut self, tag: G, call: Call<'a, T>) {
        self.calls.push((tag, call));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    pub(crate) fn tags(&self) -> impl Iterator<Item = &G> {
        self.calls.iter().map(|(tag, _)| tag)
    }

    pub(crate) fn tags_mut(&mut self) -> impl Iterator<Item = &mut G> {
        self.calls.iter_mut().map(|(tag, _)| tag)
    }

    /// The next call that ends; `None` where none is under way. Losing the returned future loses nothing.
    pub(crate) async fn next(&mut self) -> Option<(G, T)> {
        if self.calls.is_empty() {
            return None;
        }
        // Every wake polls every call: there are as many as a code has shards, and a poll without news costs nanoseconds.
        let (position, value) = poll_fn(|context| {
            for (position, (_, call)) in self.calls.iter_mut().enumerate() {
                if let Poll::Ready(value) = call.as_mut().poll(context) {
                    return Poll::Ready((position, value));
                }
            }
            Poll::Pending
        })
        .await;
        let (tag, _) = self.calls.swap_remove(position);
        Some((tag, value))
    }

    /// Takes out the calls whose tag says so.
    pub(crate) fn take(&mut self, out: impl Fn(&G) -> bool) -> Vec<(G, Call<'a, T>)> {
        let (taken, kept) = std::mem::take(&mut self.calls).into_iter().partition(|(tag, _)| out(tag));
        self.calls = kept;
        taken
    }
}

/// Waits until the moment; for ever where there is none.
pub(crate) async fn until(moment: Option<Instant>, clock: &dyn Clock) {
    match moment {
        Some(moment) => clock.sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
