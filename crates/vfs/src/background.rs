//! What a volume does by itself: dirty bytes that have waited long enough are uploaded, what lost its last name is reclaimed,
//! damage that reads found is noted, changes of the node list by other programs are taken in, and segments that are mostly
//! dead are compacted.

use crate::compact::Demand;
use crate::compact::rounds::Pace;
use crate::feed;
use crate::files::Reclaimable;
use crate::house;
use crate::volume::Volume;
use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;
use weft_env::sync::Receiver;
use weft_env::{Clock, Thread};
use weft_format::removal::Removable;

const TICK: Duration = Duration::from_millis(200);
/// A node added or replaced by another program is used within this time.
const NODE_WATCH: Duration = Duration::from_secs(1);
/// Room on nodes is asked anew this often; placement needs it roughly.
const SPACE_WATCH: Duration = Duration::from_secs(10);
/// The nodes are asked this often whether another copy of the metadata has taken the volume over.
const OPENING_WATCH: Duration = Duration::from_secs(20);
/// What is deleted within this time is reclaimed together: with `rm -rf` that is a transaction for dozens of files, and nobody wakes a
/// thread for each.
const GATHERING: Duration = Duration::from_millis(20);
/// A time without a call of this length counts as quiet.
const QUIET: Duration = Duration::from_secs(1);

/// Returns the thread that ends when the write-back stops; the others end with the volume.
pub(crate) fn start(volume: &Arc<Volume>, reclaims: Receiver<Reclaimable>) -> Thread {
    let (ticking, reclaiming, compacting) = (Arc::downgrade(volume), Arc::downgrade(volume), Arc::downgrade(volume));
    let clock = || volume.store.env().clock.clone();
    let (tick_clock, reclaim_clock, compact_clock) = (clock(), clock(), clock());
    let spawn = |name: &str, body: Box<dyn FnOnce() + Send>| {
        volume.store.env().spawner.thread(name, body).expect("a thread starts when the volume opens")
    };
    if !volume.read_only {
        spawn("weft-reclaim", Box::new(move || reclaim(&reclaiming, &reclaims, &*reclaim_clock)));
        spawn("weft-compact", Box::new(move || compact(&compacting, &*compact_clock)));
    }
    if volume.is_shared() {
        let (keeping, clock) = (Arc::downgrade(volume), clock());
        spawn("weft-house", Box::new(move || house::keep(&keeping, &*clock)));
        if let Some(changes) = volume.store.changes() {
            let following = Arc::downgrade(volume);
            spawn("weft-feed", Box::new(move || feed::follow(&following, &changes)));
        }
    }
    spawn("weft-tick", Box::new(move || tick(&ticking, &*tick_clock)))
}

fn tick(volume: &Weak<Volume>, clock: &dyn Clock) {
    let (mut nodes_seen, mut space_seen, mut opening_seen) = (clock.now(), clock.now(), clock.now());
    loop {
        // The write-back outlives the wait, the volume need not: whoever drops the volume ends this thread.
        let Some(write_back) = volume.upgrade().map(|volume| volume.write_back.clone()) else { return };
        if !write_back.wait_for_work(TICK) {
            return;
        }
        if let Err(error) = write_back.upload_due(false) {
            tracing::error!("dirty bytes could not be uploaded: {error}");
        }
        let Some(volume) = volume.upgrade() else { return };
        if !volume.read_only {
            volume.segments.note_suspects();
        }
        if clock.elapsed(nodes_seen) >= NODE_WATCH {
            nodes_seen = clock.now();
            if let Err(error) = watch_nodes(&volume) {
                tracing::warn!("the node list could not be read: {error}");
            }
            if !volume.read_only
                && let Err(error) = volume.note_settled()
            {
                tracing::debug!("which segments are settled could not be noted: {error}");
            }
        }
        if clock.elapsed(space_seen) >= SPACE_WATCH {
            space_seen = clock.now();
            refresh_space(&volume);
        }
        if !volume.read_only && clock.elapsed(opening_seen) >= OPENING_WATCH {
            opening_seen = clock.now();
            volume.watch_opening();
        }
    }
}

/// Nothing waits for the answers, dirty bytes least of all: a silent node takes seconds.
fn refresh_space(volume: &Volume) {
    let fleet = volume.fleet().clone();
    volume.segments.runtime().spawn(async move { fleet.refresh_space().await });
}

fn watch_nodes(volume: &Volume) -> Result<(), weft_meta::MetaError> {
    if volume.follow_nodes()? {
        refresh_space(volume);
    }
    Ok(())
}

fn reclaim(volume: &Weak<Volume>, reclaims: &Receiver<Reclaimable>, clock: &dyn Clock) {
    while let Some(first) = reclaims.recv() {
        clock.block(GATHERING);
        let gathered: Vec<Reclaimable> = std::iter::once(first).chain(reclaims.try_iter()).collect();
        let Some(volume) = volume.upgrade() else { return };
        let unused: Vec<Removable> = gathered.iter().map(|reclaimable| reclaimable.unused).collect();
        volume.reclaim_each(&unused);
    }
}

fn compact(volume: &Weak<Volume>, clock: &dyn Clock) {
    let mut pace = Pace::new(clock.now());
    let mut tried = HashSet::new();
    loop {
        clock.block(QUIET);
        let Some(volume) = volume.upgrade() else { return };
        if volume.compaction.is_stopping() {
            return;
        }
        let began = clock.now();
        if !volume.keeps_house() || !pace.is_time(began, volume.calls.load(Ordering::Relaxed)) {
            continue;
        }
        let more = match volume.compact(Demand::Worthwhile, &mut tried) {
            Ok(compacted) => {
                tracing::debug!(?compacted, "compaction");
                compacted.chosen_count > 0
            }
            Err(error) => {
                tracing::warn!("compaction: {error}");
                false
            }
        };
        if !more {
            tried.clear();
        }
        pace.ended(began, clock.now(), more);
    }
}
