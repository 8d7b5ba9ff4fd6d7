//! What must hold at the end of a history, by the disks themselves.

use crate::metadata::place_of;
use crate::world::World;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use weft_env::Env;
use weft_format::records::{OPENINGS, SegmentRecord, Timestamp, Wanted, is_replica};
use weft_format::removal::Queued;
use weft_format::shard::Digest;
use weft_format::{NodeId, SegmentId, ShardIndex, ShardKey};
use weft_meta::engines::MemoryKv;
use weft_meta::{MetaError, Store};

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
        self.wait_until("conversion", TIME_TO_HEAL, || or_why(self.unconverted(&self.disk.durable())))
    }

    /// What nothing needs goes, in time.
    ///
    /// # Errors
    /// It does not.
    pub fn wait_until_collected(&self) -> Result<(), String> {
        let until = self.scheduler.now() + TIME_TO_COLLECT;
        self.wait("collecting", 20 * STEPS_TO_HEAL, || self.scheduler.now() >= until)?;
        self.wait_until("collecting", TIME_TO_COLLECT, || or_why(self.unneeded(&self.disk.durable())))
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
        let sound: Vec<BTreeSet<ShardKey>> = self.places.all().iter().map(|place| place.sound_keys()).collect();
        let is_sound =
            |place: usize, key: ShardKey, _: Digest| sound.get(place).is_some_and(|keys| keys.contains(&key));
        self.without_shards(metadata, is_sound).unwrap_or_else(|error| vec![(cannot_be_read(&error), None)])
    }

    /// Shards of living segments whose bytes are not those that their records say.
    #[must_use]
    pub fn unlike(&self, metadata: &MemoryKv) -> Vec<String> {
        let places = self.places.all();
        let is_alike =
            |place: usize, key: ShardKey, digest: Digest| places.get(place).is_some_and(|place| place.has(key, digest));
        match self.without_shards(metadata, is_alike) {
            Ok(unlike) => unlike.into_iter().map(|(what, _)| what).collect(),
            Err(error) => vec![cannot_be_read(&error)],
        }
    }

    /// Shards of living segments that are not there, with their place if the record names one.
    fn without_shards(
        &self,
        metadata: &MemoryKv,
        is_there: impl Fn(usize, ShardKey, Digest) -> bool,
    ) -> Result<Vec<(String, Option<usize>)>, MetaError> {
        let store = Store::open(Arc::new(metadata.fork()), &Env::system())?;
        let members: BTreeSet<NodeId> = store.nodes()?.into_iter().map(|(id, _)| id).collect();
        let mut lacks = Vec::new();
        for_each_segment(&store, |segment, record| {
            if store.live_bytes(segment)? == 0 {
                return Ok(());
            }
            for (index, location) in record.shards.iter().enumerate() {
                let place = location.as_ref().map(|location| place_of(location.node));
                let is_there =
                    location.as_ref().filter(|location| members.contains(&location.node)).is_some_and(|location| {
                        let key = location.key(segment, ShardIndex(index as u16));
                        is_there(place_of(location.node), key, location.digest)
                    });
                if !is_there {
                    let where_to = place.map_or_else(|| "nowhere".into(), |place| format!("not on place{place}"));
                    lacks.push((format!("shard {index} of {segment} ({}) is {where_to}", record.code), place));
                }
            }
            Ok(())
        })?;
        Ok(lacks)
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
        let mut there =
            nodes.iter().map(|(id, _)| self.places.all()[place_of(*id)].clone()).filter(|place| !place.is_wiped());
        there.all(|place| place.keys().iter().any(is_newer))
    }

    /// Living segments whose files all want another code.
    fn unconverted(&self, metadata: &MemoryKv) -> Result<Vec<String>, MetaError> {
        let store = Store::open(Arc::new(metadata.fork()), &Env::system())?;
        let mut unconverted = Vec::new();
        for_each_segment(&store, |segment, record| {
            let is_alive = store.live_bytes(segment)? > 0;
            // No policy of the plan depends on the time.
            if is_alive && let Wanted::Code(code) = store.wanted_code(segment, Timestamp::default())? {
                unconverted.push(format!("{segment} is {}, its files want {code}", record.code));
            }
            Ok(())
        })?;
        Ok(unconverted)
    }

    /// Dead segments, previous generations that are to go, and shards that no record names.
    fn unneeded(&self, metadata: &MemoryKv) -> Result<Vec<String>, MetaError> {
        let store = Store::open(Arc::new(metadata.fork()), &Env::system())?;
        let mut named = BTreeSet::new();
        let mut unneeded = Vec::new();
        for_each_segment(&store, |segment, record| {
            let retained = store.retained_of(segment)?;
            for record in std::iter::once(record).chain(retained.iter().map(|retained| &retained.record)) {
                for (index, location) in record.shards.iter().enumerate() {
                    named.extend(location.as_ref().map(|location| location.key(segment, ShardIndex(index as u16))));
                }
            }
            Ok(())
        })?;
        let queue = store.unreferenced(None, 1000)?;
        let is_going = |queued: &&Queued| match queued {
            Queued::Segment { .. } => true,
            // Until then it may be restored, and clocks may say that this is for long.
            Queued::Generation { retained, .. } => retained.is_going,
        };
        unneeded.extend(queue.iter().filter(is_going).map(|queued| format!("{queued:?}")));
        if self.has_recovered {
            // Shards of a past that the metadata does not know stay.
            return Ok(unneeded);
        }
        // What is left on a place that is no node any more is its owner's.
        let nodes = store.nodes()?;
        let members = nodes.iter().filter_map(|(id, _)| self.places.all().get(place_of(*id)).cloned());
        for place in members {
            let orphans = place
                .keys()
                .into_iter()
                .filter(|key| key.segment != OPENINGS && !is_replica(key.segment) && !named.contains(key));
            unneeded.extend(orphans.map(|key| format!("orphan {key:?} on {}", place.name())));
        }
        Ok(unneeded)
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

fn or_why(found: Result<Vec<String>, MetaError>) -> Vec<String> {
    found.unwrap_or_else(|error| vec![cannot_be_read(&error)])
}

/// What is said where a check cannot be made.
fn cannot_be_read(error: &MetaError) -> String {
    format!("the metadata cannot be read: {error}")
}

fn for_each_segment(
    store: &Store,
    mut each: impl FnMut(SegmentId, &SegmentRecord) -> Result<(), MetaError>,
) -> Result<(), MetaError> {
    let mut after = None;
    loop {
        let page = store.segments(after, 100)?;
        let Some((last, _)) = page.last() else { return Ok(()) };
        after = Some(*last);
        page.iter().try_for_each(|(segment, record)| each(*segment, record))?;
    }
}
