//! What happened in downloads, for whoever wants to see it: which block from which node when, what came late, failed, was
//! asked elsewhere, and when its set was decoded.

use parking_lot::Mutex;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use weft_format::SegmentId;

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A get was sent.
    Asked {
        /// Bytes asked for, checks included.
        bytes: u64,
        /// Because another was late with the same work.
        instead: bool,
    },
    /// Its answer came and is sound.
    Arrived {
        /// Bytes that came.
        bytes: u64,
    },
    /// It failed.
    Failed {
        /// How, in a sentence.
        detail: String,
    },
    /// The node has too much to do: it is asked again soon, and others now.
    Busy,
    /// It takes longer than it should.
    Late,
    /// Its answer was no longer wanted.
    Dropped,
    /// All that is needed of a set has come.
    Ready {
        /// Is anything computed?
        degraded: bool,
    },
    /// The set's data is computed and copied.
    Delivered,
}

/// One get of a download.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Which get.
    pub request: u64,
    /// Of which shard.
    pub shard: usize,
    /// The node's name.
    pub node: String,
    /// Which bytes of the shard's payload.
    pub payload: Range<u64>,
}

/// Something that happened in a download.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// When its download began.
    pub began: Instant,
    /// When it happened.
    pub at: Instant,
    /// The segment that is read.
    pub segment: SegmentId,
    /// The set of stripes that are computed together.
    pub set: usize,
    /// The get; `None`: it is of the set as a whole.
    pub block: Option<Block>,
    /// What happened.
    pub what: What,
}

impl Event {
    pub(crate) fn new(
        (began, at): (Instant, Instant),
        segment: SegmentId,
        set: usize,
        block: Option<(u64, usize, String, Range<u64>)>,
        what: What,
    ) -> Self {
        let block = block.map(|(request, shard, node, payload)| Block { request, shard, node, payload });
        Self { began, at, segment, set, block, what }
    }
}

/// Keeps events while it is on.
#[derive(Debug, Default)]
pub(crate) struct Tracer {
    on: AtomicBool,
    events: Mutex<Vec<Event>>,
}

impl Tracer {
    pub(crate) fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    pub(crate) fn start(&self) {
        self.events.lock().clear();
        self.on.store(true, Ordering::Relaxed);
    }

    pub(crate) fn tell(&self, event: Event) {
        self.events.lock().push(event);
    }

    /// What happened since the start; nothing more is kept.
    pub(crate) fn finish(&self) -> Vec<Event> {
        self.on.store(false, Ordering::Relaxed);
        std::mem::take(&mut self.events.lock())
    }
}
