use super::*;
use weft_format::geometry::Geometry;
use weft_format::records::{Kind, PolicyRecord, VolumeRecord};
use weft_format::{PolicyId, VolumeId};
use weft_meta::engines::SqliteKv;
use weft_meta::keys;
use weft_meta::owner::{Holder, OwnerLock};

#[test]
fn in_passing_it_is_the_owner_while_nobody_else_is_and_what_fails_is_no_owner() {
    let folder = tempfile::tempdir().expect("a folder");
    let meta = folder.path().join("meta.db");
    SqliteKv::create(&meta).expect("made");
    let kv = Arc::new(SqliteKv::open(&meta, Access::Owner, keys::SHARED, None).expect("opened"));
    let volume = VolumeRecord { volume: VolumeId(7), created_ms: 0, default_policy: PolicyId(0) };
    Store::format(kv, &volume, &PolicyRecord::of("rs:4+2", Some(1)), Timestamp::default()).expect("formatted");
    let store = Arc::new(open_store(&meta, Access::Shared, None).expect("opened"));
    let catalogue = StoreCatalogue::in_passing(store, &meta);
    let geometry = Geometry::new(100, 1, 1, 1, 4096).expect("a geometry");
    let record = SegmentRecord { code: "replica:2".into(), geometry, generation: Generation(1), shards: Vec::new() };
    let whole = (catalogue.new_segment(1), record);
    assert_eq!(catalogue.check_owner(), Ok(()));
    assert_eq!(catalogue.check_owner(), Ok(()), "it was given up");
    let mount = OwnerLock::acquire(&meta, &Holder::this_process(Some(Path::new("/mnt")))).expect("free");
    assert_eq!(catalogue.check_owner(), Err(CatalogueError::NotOwner));
    assert_eq!(catalogue.join(&[], &whole), Err(CatalogueError::NotOwner));
    assert_eq!(catalogue.unjoin(&whole, &[]), Err(CatalogueError::NotOwner));
    drop(mount);
    assert_eq!(catalogue.check_owner(), Ok(()));
    assert_eq!(catalogue.unjoin(&whole, &[]), Err(CatalogueError::Changed(whole.0)), "there is no such segment");
    std::fs::rename(&meta, folder.path().join("elsewhere")).expect("moved");
    for failed in [catalogue.check_owner(), catalogue.join(&[], &whole)] {
        assert!(matches!(&failed, Err(CatalogueError::Failed(why)) if why.contains("no metadata store")), "{failed:?}");
    }
}

/// Whoever is told of a dead segment removes its shards, so a crash must not bring the file back.
#[test]
fn what_is_listed_as_dead_is_durably_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let meta = folder.path().join("meta.db");
    SqliteKv::create(&meta).expect("made");
    let kv = Arc::new(SqliteKv::open(&meta, Access::Owner, keys::SHARED, None).expect("opened"));
    let volume = VolumeRecord { volume: VolumeId(7), created_ms: 0, default_policy: PolicyId(0) };
    let policy = PolicyRecord::of("rs:4+2", Some(1));
    let store = Arc::new(Store::format(kv, &volume, &policy, Timestamp::default()).expect("formatted"));
    let new =
        weft_meta::NewInode { kind: Kind::File, mode: 0o644, uid: 0, gid: 0, rdev: 0, symlink_target: Vec::new() };
    let ino = store.create(Ino::ROOT, b"file", &new, Timestamp::default()).expect("made").ino;
    let geometry = Geometry::new(100, 1, 1, 1, 4096).expect("a geometry");
    let record = SegmentRecord { code: "replica:2".into(), geometry, generation: Generation(1), shards: Vec::new() };
    let segment = SegmentId::new(1, 1);
    let commit = weft_meta::FileCommit {
        ino,
        extents: vec![Extent { file_offset: 0, length: 100, segment, segment_offset: 0 }],
        size: 100,
        mtime: Timestamp::default(),
        ctime: Timestamp::default(),
        mode: None,
        journal: Vec::new(),
        journal_under: Vec::new(),
    };
    store.commit_files(&[(segment, record)], &[commit], Timestamp::default()).expect("committed");
    store.flush().expect("durable");
    let beside = open_store(&meta, Access::Shared, None).expect("opened");
    store.unlink(Ino::ROOT, b"file", Timestamp::default()).expect("deleted");
    assert!(store.reclaim(ino, Timestamp::default()).expect("reclaimed").done);
    let dead = StoreCatalogue::new(store.clone()).trash(u64::MAX, None, 10).expect("listed");
    assert_eq!(dead.len(), 1);
    assert_eq!(beside.trash(u64::MAX, None, 10).expect("listed"), [(0, segment)]);
    assert!(beside.lookup(Ino::ROOT, b"file").is_err());
}
