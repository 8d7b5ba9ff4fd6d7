//! What must hold at the end of a history, by the disks themselves.

use crate::world::{World, place_of};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use weft_env::Env;
use weft_format::records::{OPENINGS, Timestamp, Wanted, is_replica};
use weft_format::removal::Queued;
use weft_format::{NodeId, SegmentId, ShardIndex, ShardKey};
use weft_meta::Store;
use weft_meta::engines::MemoryKv;

/// Without faults, everything is well again within this number of steps.
pub const STEPS_TO_HEAL: u64 = 5_000_000;
/// Longer than the grace time and two collections take.
const TIME_TO_COLLECT: Duration = Duration::from_secs(40 * 60);
/// Time enough for a scrub to find what has rotted, for nodes to be given up, and for retries.
const TIME_TO_HEAL: Duration = Duration::from_secs(4 * 3600);

impl World {
    /// The workers repair what faults have left, without being asked.
    ///
    /// # Errors
    /// They do not.
    pub fn wait_until_whole(&self) -> Result<(), String> {
        self.wait_until("repair", TIME_TO_HEAL, || {
            self.lacks(&self.disk.durable()).into_iter().map(|(what, _)| what).collect()
        })
    }

    /// Each segment gets the code that its files want.
    ///
    /// # Errors
    /// It does not.
    pub fn wait_until_converted(&self) -> Result<(), String> {
        self.wait_until("conversion", TIME_TO_HEAL, || self.unconverted(&self.disk.durable()))
    }

    /// What nothing needs goes, in time.
    ///
    /// # Errors
    /// It does not.
    pub fn wait_until_collected(&self) -> Result<(), String> {
        let until = self.scheduler.now() + TIME_TO_COLLECT;
        self.wait("collecting", 20 * STEPS_TO_HEAL, || self.scheduler.now() >= until)?;
        self.wait_until("collecting", TIME_TO_COLLECT, || self.unneeded(&self.disk.durable()))
    }

    fn wait_until(&self, what: &str, time: Duration, left: impl Fn() -> Vec<String>) -> Result<(), String> {
        let until = self.scheduler.now() + time;
        loop {
            let mut left = left();
            if left.is_empty() {
                return Ok(());
            }
            if self.scheduler.now() > until {
                let count = left.len();
                left.truncate(5);
                self.tell_of_care();
                return Err(format!("{what}: {} s after the last fault {count} are left: {left:?}", time.as_secs()));
            }
            let next = self.scheduler.now() + Duration::from_secs(5);
            self.wait(what, STEPS_TO_HEAL, || self.scheduler.now() >= next)?;
        }
    }

    /// Has people told what the workers noted last.
    fn tell_of_care(&self) {
        let Ok(store) = Store::open(Arc::new(self.disk.durable()), &Env::system()) else { return };
        let nodes: Vec<String> = store
            .nodes()
            .unwrap_or_default()
            .iter()
            .map(|(id, node)| format!("{} is {:?} at place{}", node.name, node.state, place_of(*id)))
            .collect();
        self.scheduler.tell(|| format!("nodes: {}", nodes.join(", ")));
        let catalogue = weft_engine::StoreCatalogue::new(Arc::new(store));
        let asked = weft_care::record::Requests::load(&catalogue);
        self.scheduler.tell(|| format!("asked: {asked:?}"));
        let waiting = self.scheduler.waiting();
        self.scheduler.tell(|| format!("waiting: {waiting:?}"));
        let record = weft_care::record::CareRecord::load(&catalogue);
        if let Ok(Some(record)) = record {
            self.scheduler.tell(|| format!("now: {:?}; not sound: {:?}", record.now, record.doubted));
            for entry in record.history.iter().rev() {
                self.scheduler.tell(|| {
                    format!("{} ended at {}, well: {}: {}", entry.task, entry.ended_ms, entry.is_well, entry.what)
                });
            }
        }
    }

    /// Shards of living segments that are not where their records say, or on a node that is none any more, or rotten, with their place if
    /// the record names one.
    #[must_use]
    pub fn lacks(&self, metadata: &MemoryKv) -> Vec<(String, Option<usize>)> {
        let Ok(store) = Store::open(Arc::new(metadata.fork()), &Env::system()) else { return Vec::new() };
        let members: BTreeSet<NodeId> = store.nodes().unwrap_or_default().into_iter().map(|(id, _)| id).collect();
        let sound: Vec<BTreeSet<ShardKey>> = self.places.all().iter().map(|place| place.sound_keys()).collect();
        let mut lacks = Vec::new();
        for_each_segment(&store, |segment, record| {
            if store.live_bytes(segment).is_ok_and(|bytes| bytes == 0) {
                return;
            }
            for (index, location) in record.shards.iter().enumerate() {
                let place = location.as_ref().map(|location| place_of(location.node));
                let is_there =
                    location.as_ref().filter(|location| members.contains(&location.node)).is_some_and(|location| {
                        let key = location.key(segment, ShardIndex(index as u16));
                        sound.get(place_of(location.node)).is_some_and(|keys| keys.contains(&key))
                    });
                if !is_there {
                    let where_to = place.map_or_else(|| "nowhere".into(), |place| format!("not on place{place}"));
                    lacks.push((format!("shard {index} of {segment} ({}) is {where_to}", record.code), place));
                }
            }
        });
        lacks
    }

    /// Does every node know a newer opening of the volume than this metadata does?
    #[must_use]
    pub fn is_known_to_be_older(&self, metadata: &MemoryKv) -> bool {
        let open = |kv: MemoryKv| Store::open(Arc::new(kv), &Env::system()).ok();
        let (Some(older), Some(now)) = (open(metadata.fork()), open(self.disk.durable())) else { return false };
        let known =
            older.openings().ok().and_then(|openings| openings.latest).map_or(0, |latest| latest.opening.number);
        let is_newer = |key: &ShardKey| key.segment == OPENINGS && key.generation.0 > known;
        let nodes = now.nodes().unwrap_or_default();
        nodes.iter().all(|(id, _)| self.places.all()[place_of(*id)].keys().iter().any(is_newer))
    }

    /// Living segments whose files all want another code.
    fn unconverted(&self, metadata: &MemoryKv) -> Vec<String> {
        let Ok(store) = Store::open(Arc::new(metadata.fork()), &Env::system()) else { return Vec::new() };
        let mut unconverted = Vec::new();
        for_each_segment(&store, |segment, record| {
            let is_alive = store.live_bytes(segment).is_ok_and(|bytes| bytes > 0);
            // No policy of the plan depends on the time.
            if is_alive && let Ok(Wanted::Code(code)) = store.wanted_code(segment, Timestamp::default()) {
                unconverted.push(format!("{segment} is {}, its files want {code}", record.code));
            }
        });
        unconverted
    }

    /// Shards that no record names, and dead segments.
    fn unneeded(&self, metadata: &MemoryKv) -> Vec<String> {
        let Ok(store) = Store::open(Arc::new(metadata.fork()), &Env::system()) else { return Vec::new() };
        let mut named = BTreeSet::new();
        let mut unneeded = Vec::new();
        for_each_segment(&store, |segment, record| {
            let retained = store.retained_of(segment).unwrap_or_default();
            for record in std::iter::once(record).chain(retained.iter().map(|retained| &retained.record)) {
                for (index, location) in record.shards.iter().enumerate() {
                    named.extend(location.as_ref().map(|location| location.key(segment, ShardIndex(index as u16))));
                }
            }
        });
        if let Ok(queue) = store.unreferenced(None, 1000) {
            let dead = queue.iter().filter(|queued| matches!(queued, Queued::Segment { .. }));
            unneeded.extend(dead.map(|queued| format!("{queued:?}")));
        }
        // What is left on a place that is no node any more is its owner's.
        let nodes = store.nodes().unwrap_or_default();
        let members = nodes.iter().filter_map(|(id, _)| self.places.all().get(place_of(*id)).cloned());
        for place in members {
            let orphans = place
                .keys()
                .into_iter()
                .filter(|key| key.segment != OPENINGS && !is_replica(key.segment) && !named.contains(key));
            unneeded.extend(orphans.map(|key| format!("orphan {key:?} on {}", place.name())));
        }
        unneeded
    }

    /// Metadata agrees with itself.
    ///
    /// # Errors
    /// What does not.
    pub fn check_metadata(&self) -> Result<(), String> {
        let store = Store::open(Arc::new(self.disk.durable()), &Env::system()).map_err(|error| error.to_string())?;
        let report = weft_meta::fsck::check(&store, &mut |_| {}).map_err(|error| error.to_string())?;
        let findings: Vec<String> = report.findings.iter().map(|(finding, _)| finding.to_string()).collect();
        if findings.is_empty() { Ok(()) } else { Err(format!("fsck: {findings:?}")) }
    }
}

fn for_each_segment(store: &Store, mut each: impl FnMut(SegmentId, &weft_format::records::SegmentRecord)) {
    let mut after = None;
    while let Ok(page) = store.segments(after, 100)
        && let Some((last, _)) = page.last()
    {
        after = Some(*last);
        page.iter().for_each(|(segment, record)| each(*segment, record));
    }
}
