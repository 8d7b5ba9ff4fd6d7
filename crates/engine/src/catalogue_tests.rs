use super::*;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use weft_env::Env;
use weft_env::SystemClock;
use weft_format::geometry::Geometry;
use weft_format::records::{PolicyRecord, VolumeRecord};
use weft_format::{Generation, PolicyId, VolumeId};
use weft_meta::engines::MemoryKv;
use weft_meta::kv::{Batch, Kv, KvError, Snapshot};
use weft_meta::owner::{Holder, OwnerLock};

#[test]
fn short_lived_it_is_the_owner_while_nobody_else_is_and_what_fails_is_no_owner() {
    let folder = tempfile::tempdir().expect("a folder");
    let meta = folder.path().join("meta.db");
    let url = MetaUrl::from(meta.as_path());
    url.create().expect("made");
    let kv = url.open(Access::Owner, None, &Env::system()).expect("opened");
    let volume = VolumeRecord { volume: VolumeId(7), created_ms: 0, default_policy: PolicyId(0) };
    Store::format(kv, &volume, &PolicyRecord::of("rs:4+2", Some(1)), Timestamp::default(), &Env::system())
        .expect("formatted");
    let store = Arc::new(open_store(&url, Access::Shared, None, &Env::system()).expect("opened"));
    let catalogue = StoreCatalogue::short_lived(store, &url);
    let geometry = Geometry::new(100, 1, 1, 1, 4096).expect("a geometry");
    let record = SegmentRecord { code: "replica:2".into(), geometry, generation: Generation(1), shards: Vec::new() };
    let merged = (catalogue.new_segment(1), record);
    assert_eq!(catalogue.check_owner(), Ok(()));
    assert_eq!(catalogue.check_owner(), Ok(()), "it was given up");
    let mount = OwnerLock::acquire(&meta, &Holder::this_process(Some(Path::new("/mnt")), &SystemClock), &SystemClock)
        .expect("free");
    assert_eq!(catalogue.check_owner(), Err(CatalogueError::NotOwner));
    assert_eq!(catalogue.merge(&[], &merged), Err(CatalogueError::NotOwner));
    drop(mount);
    assert_eq!(catalogue.check_owner(), Ok(()));
    assert_eq!(catalogue.merge(&[], &merged), Err(CatalogueError::Changed(merged.0)), "no file refers to it");
    std::fs::rename(&meta, folder.path().join("elsewhere")).expect("moved");
    for failed in [catalogue.check_owner(), catalogue.merge(&[], &merged)] {
        assert!(matches!(&failed, Err(CatalogueError::Failed(why)) if why.contains("no metadata store")), "{failed:?}");
    }
}

/// An engine that counts how often it is asked to make changes durable.
#[derive(Default)]
struct CountingKv {
    inner: MemoryKv,
    flush_count: AtomicU64,
}

impl Kv for CountingKv {
    fn snapshot(&self) -> Result<Box<dyn Snapshot + '_>, KvError> {
        self.inner.snapshot()
    }

    fn commit(&self, batch: Batch) -> Result<(), KvError> {
        self.inner.commit(batch)
    }

    fn flush(&self) -> Result<(), KvError> {
        self.flush_count.fetch_add(1, Ordering::Relaxed);
        self.inner.flush()
    }
}

/// `weft status` lists dead segments, too, and a reader must not write.
#[test]
fn listing_dead_segments_makes_nothing_durable_and_a_flush_does() {
    let kv = Arc::new(CountingKv::default());
    let volume = VolumeRecord { volume: VolumeId(7), created_ms: 0, default_policy: PolicyId(0) };
    let policy = PolicyRecord::of("rs:4+2", Some(1));
    let store = Store::format(kv.clone(), &volume, &policy, Timestamp::default(), &Env::system()).expect("formatted");
    let catalogue = StoreCatalogue::new(Arc::new(store));
    let flush_count = || kv.flush_count.load(Ordering::Relaxed);
    let before = flush_count();
    assert_eq!(catalogue.unreferenced(None, 10), Ok(Vec::new()));
    assert_eq!(catalogue.survey(None, 10), Ok(Vec::new()));
    assert_eq!(flush_count(), before);
    assert_eq!(catalogue.flush(), Ok(()));
    assert_eq!(flush_count(), before + 1);
}
