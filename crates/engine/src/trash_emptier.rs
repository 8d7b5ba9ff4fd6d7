//! The owner of a volume empties its trash: the room of overwritten and deleted data is freed within a minute, not when somebody
//! runs `weft gc`, even if no mount lasts a minute.

use crate::catalogue::StoreCatalogue;
use crate::error::EngineError;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use weft_care::Job;
use weft_care::collect::{Beside, UnreferencedSince};
use weft_env::sync::{RecvTimeoutError, Sender, channel};
use weft_env::{Clock, Runtime, Thread};
use weft_format::removal::Queued;
use weft_vfs::Volume;

/// How often dead segments are looked for.
const EVERY: Duration = Duration::from_secs(10);

/// Room is short when less than this part of it is free.
const SHORT_SHARE: u64 = 20;
/// The room of a released file is free this much later: when its segments are dead for [`weft_format::removal::OWNER_GRACE_MS`], and looked for.
const EARLY_EVERY: Duration = Duration::from_secs(60);

/// A thread that empties the trash until this is dropped.
pub struct TrashEmptier {
    stop: Option<Sender<()>>,
    thread: Option<Thread>,
}

impl TrashEmptier {
    /// Of a volume that this process owns.
    ///
    /// # Errors
    /// [`EngineError::Threads`].
    pub fn start(volume: &Arc<Volume>, runtime: &Runtime) -> Result<TrashEmptier, EngineError> {
        let unreferenced_since =
            UnreferencedSince::load(&StoreCatalogue::new(volume.store().clone())).unwrap_or_else(|error| {
                tracing::warn!("the grace time of dead segments starts again from zero: {error}");
                UnreferencedSince::default()
            });
        let env = volume.store().env().clone();
        let (clock, spawner) = (env.clock, env.spawner);
        let (volume, runtime) = (Arc::downgrade(volume), runtime.clone());
        let (stop, stopped) = channel();
        let began_ms = clock.unix_ms();
        let body = move || {
            let (began, mut early) = (clock.now(), Early::default());
            let mut is_ending = false;
            // Also at the start and at the end: a mount of a few seconds has no other looks.
            loop {
                let at_ms = clock.elapsed(began).as_millis() as u64;
                let beside = Beside { unreferenced_since: &unreferenced_since, at_ms };
                // A jump of the clock ends no grace time sooner, in whichever direction.
                let expired = expire(&volume, &mut early, clock.unix_ms().min(began_ms + at_ms), &*clock);
                // What nobody can let go keeps nothing else from being removed.
                let emptied = empty_once(&volume, &runtime, beside, is_ending);
                for error in [expired.err(), emptied.err()].into_iter().flatten() {
                    tracing::warn!("shards of deleted files could not be removed: {error}");
                }
                if is_ending {
                    break;
                }
                is_ending = stopped.recv_for(EVERY, &*clock) != Err(RecvTimeoutError::Timeout);
            }
        };
        let thread = spawner.thread("trash-emptier", Box::new(body));
        let thread = thread.map_err(EngineError::Threads)?;
        Ok(TrashEmptier { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for TrashEmptier {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that empties the trash panicked");
        }
    }
}

/// When deleted files were let go for their room last.
#[derive(Default)]
struct Early(Option<Instant>);

/// Lets go of deleted files that are past their time, and of the oldest where room is short.
fn expire(volume: &Weak<Volume>, early: &mut Early, now_ms: u64, clock: &dyn Clock) -> Result<(), EngineError> {
    let Some(volume) = volume.upgrade().filter(|volume| volume.keeps_house()) else { return Ok(()) };
    let room = volume.statfs()?;
    let short_blocks = (room.blocks / SHORT_SHARE).saturating_sub(room.blocks_available);
    let may_go_early = early.0.is_none_or(|last| clock.elapsed(last) >= EARLY_EVERY);
    let short_bytes = if may_go_early { short_blocks * u64::from(room.block_bytes) } else { 0 };
    let expired = volume.expire_deleted(now_ms, short_bytes)?;
    if expired.early_count > 0 {
        early.0 = Some(clock.now());
        tracing::warn!("the volume is nearly full: removed {} kept files early", expired.early_count);
    }
    Ok(())
}

fn empty_once(
    volume: &Weak<Volume>,
    runtime: &Runtime,
    beside: Beside<'_>,
    is_ending: bool,
) -> Result<(), EngineError> {
    let Some(volume) = volume.upgrade().filter(|volume| volume.keeps_house()) else { return Ok(()) };
    let catalogue = Arc::new(StoreCatalogue::new(volume.store().clone()));
    if matches!(volume.store().unreferenced(None, 1)?.first(), Some(Queued::Segment { .. })) {
        volume.check_opening()?;
        let transfer = volume.transfer().in_background();
        let job = Job::new(&volume.store().env().clock);
        let work = weft_care::collect::empty_trash(catalogue.clone(), &transfer, &job, beside);
        let trash = runtime.block_on(work)?;
        if trash.segment_count > 0 {
            tracing::debug!(segments = trash.segment_count, bytes = trash.bytes, "trash emptied");
        }
    }
    Ok(beside.note(&*catalogue, is_ending)?)
}
