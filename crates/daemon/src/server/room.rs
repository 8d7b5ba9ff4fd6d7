//! Room for what is under way: bytes held in memory, and bytes that a rate lets through.

use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use weft_env::Clock;
use weft_nodes::rate::{Class, Rate};

/// Bytes of bodies held at once, in both directions; requests wait for room before they are read, ...
const HELD_BYTES_MAX: u64 = 512 << 20;
/// ... this long at most: then the node is busy.
const HOLD_TIMEOUT: Duration = Duration::from_secs(2);

/// With a rate, so much is under way at once; a node with more before it is busy. Less than what users wait.
const BACKLOG_MAX: Duration = Duration::from_secs(5);

const PERMIT_BYTES: u64 = 4 << 10;

/// What there is.
pub(super) struct Room {
    rate: Option<Arc<Rate>>,
    /// Bytes of bodies under way, of the foreground and of the background.
    backlog_bytes: [Arc<AtomicU64>; 2],
    held: Arc<Semaphore>,
    clock: Arc<dyn Clock>,
}

impl Room {
    /// With a rate, or without one.
    pub(super) fn new(rate: Option<Rate>, clock: &Arc<dyn Clock>) -> Self {
        let held = Arc::new(Semaphore::new((HELD_BYTES_MAX / PERMIT_BYTES) as usize));
        Self { rate: rate.map(Arc::new), backlog_bytes: Default::default(), held, clock: Arc::clone(clock) }
    }

    /// Is there a rate?
    pub(super) fn is_limited(&self) -> bool {
        self.rate.is_some()
    }

    /// Bytes of bodies under way.
    pub(super) fn load_bytes(&self) -> u64 {
        self.backlog_bytes.iter().map(|bytes| bytes.load(Ordering::Relaxed)).sum()
    }

    /// The rate at which a class sends, where there is one.
    pub(super) fn rate_of(&self, class: Class) -> Option<(Arc<Rate>, Class)> {
        self.rate.clone().map(|rate| (rate, class))
    }

    /// Waits until the rate lets so many bytes through.
    pub(super) async fn pay(&self, class: Class, bytes: u64) {
        if let Some(rate) = &self.rate {
            rate.pay(class, bytes).await;
        }
    }

    /// Waits until so many of the bytes that are to be moved may be held; not for long.
    ///
    /// # Errors
    /// Why it is busy.
    pub(super) async fn hold(&self, class: Class, bytes: u64, held_bytes: u64) -> Result<Holding, &'static str> {
        let own = &self.backlog_bytes[class as usize];
        let mut before = own.fetch_add(bytes, Ordering::Relaxed);
        let backlog = Backlog { bytes, of: Arc::clone(own) };
        if class == Class::Background {
            // The foreground is served before it, and does not mind it.
            before += self.backlog_bytes[Class::Foreground as usize].load(Ordering::Relaxed);
        }
        // Something is always let through.
        if before > 0 && self.rate.as_ref().is_some_and(|rate| rate.time_for(before + bytes) > BACKLOG_MAX) {
            return Err("more is under way than its limit of bytes a second lets through soon: ask later");
        }
        let permits = held_bytes.min(HELD_BYTES_MAX / 2).div_ceil(PERMIT_BYTES);
        let acquired = Arc::clone(&self.held).acquire_many_owned(permits as u32);
        match self.clock.timeout(HOLD_TIMEOUT, acquired).await {
            // It is never closed.
            Ok(permit) => Ok(Holding { _permit: permit.ok(), _backlog: backlog }),
            Err(_) => Err("it has no room for more bodies now: ask later"),
        }
    }
}

/// Room for a body, until it is dropped.
pub(super) struct Holding {
    _permit: Option<OwnedSemaphorePermit>,
    _backlog: Backlog,
}

impl Holding {
    /// Bytes that hold it until they are dropped.
    pub(super) fn with(self, bytes: Bytes) -> Bytes {
        Bytes::from_owner(Held { bytes, _held: self })
    }
}

/// Bytes under way, until it is dropped.
struct Backlog {
    bytes: u64,
    of: Arc<AtomicU64>,
}

impl Drop for Backlog {
    fn drop(&mut self) {
        self.of.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

struct Held {
    bytes: Bytes,
    _held: Holding,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}
