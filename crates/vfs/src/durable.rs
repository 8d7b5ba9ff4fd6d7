//! The steps of an fsync: what makes a file's bytes durable, decided from what it has. Pure, as `flush.rs` is.

/// What is known of a file at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing {
    /// Its size ...
    pub size: u64,
    /// ... and the one that the store has.
    pub committed_size: u64,
    /// Bytes that are durable nowhere, and in no upload.
    pub unjournaled_bytes: u64,
    /// Its size or times differ from the store's.
    pub unsaved: bool,
    /// Does an upload in flight carry bytes of it?
    pub is_in_flight: bool,
    /// How many uploads failed, or were committed in part.
    pub unstaged_count: u64,
    /// May the journal take its bytes?
    pub fits_journal: bool,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// One transaction with bytes, size and times; then it is done.
    Journal,
    /// Wait until what is in flight has settled; `sends`: upload all that is dirty before.
    Wait { sends: bool },
    /// Everything is durable.
    Done,
}

/// An fsync under way.
#[derive(Debug)]
pub(crate) struct Durable {
    /// The file's size when it began.
    size: u64,
    has_waited: bool,
    /// When all was sent: how many uploads had come back by then.
    sent_at: Option<u64>,
}

impl Durable {
    /// Of a file of this size.
    pub fn new(size: u64) -> Self {
        Self { size, has_waited: false, sent_at: None }
    }

    /// What to do next for a file that is known so. What came back while it waited is sent again.
    pub fn next(&mut self, now: &Standing) -> Step {
        let is_whole = self.sent_at.take() == Some(now.unstaged_count);
        if is_whole && now.committed_size >= self.size.min(now.size) {
            return Step::Done;
        }
        // The journal commits the size too, which must not run ahead of bytes in flight.
        if now.fits_journal && !now.is_in_flight {
            return if now.unsaved || now.unjournaled_bytes > 0 { Step::Journal } else { Step::Done };
        }
        // Few bytes stay behind for the journal, but only once: while others write, something is always in flight.
        let sends = !now.fits_journal || self.has_waited;
        self.has_waited = true;
        self.sent_at = sends.then_some(now.unstaged_count);
        Step::Wait { sends }
    }
}

#[cfg(test)]
#[path = "durable_tests.rs"]
mod tests;
