//! The store in a SQLite file, opened by an owner and, as another process would, beside it.

use std::path::Path;
use std::sync::Arc;
use weft_env::Env;

use weft_format::geometry::Geometry;
use weft_format::records::{
    Kind, NodeRecord, NodeState, PolicyRecord, SegmentRecord, ShardLocation, Succession, Timestamp, VolumeRecord,
};
use weft_format::removal::{Evidence, Queued, Verdict, may_remove};
use weft_format::shard::Digest;
use weft_format::{Generation, Ino, NodeId, PolicyId, SegmentId, VolumeId};
use weft_meta::engines::SqliteKv;
use weft_meta::{Access, Extent, FileCommit, NewInode, Store, fsck, keys};

fn at(seconds: i64) -> Timestamp {
    Timestamp { seconds, nanoseconds: 0 }
}

fn open(path: &Path, access: Access) -> Arc<SqliteKv> {
    Arc::new(SqliteKv::open(path, access, keys::SHARED, None, &Env::system()).unwrap())
}

fn node(number: u128) -> NodeRecord {
    NodeRecord {
        name: format!("node-{number}"),
        url: format!("file:///nodes/{number}"),
        state: NodeState::Active,
        domain: format!("host-{number}"),
        weight: 1,
        secret: Default::default(),
        limits: Default::default(),
    }
}

fn segment(nodes: [u128; 3], generation: u32) -> SegmentRecord {
    let generation = Generation(generation);
    let location = |number| ShardLocation { node: NodeId(number), generation, digest: Digest([1; 32]), origin: None };
    SegmentRecord {
        code: "rs:2+1".into(),
        geometry: Geometry {
            data_bytes: 8192,
            native_count: 2,
            alpha: 1,
            symbol_bytes: 4096,
            alignment_bytes: 64,
            source_count: 1,
        },
        generation,
        shards: nodes.into_iter().map(|number| Some(location(number))).collect(),
    }
}

fn write(store: &Store, ino: Ino, segment_id: SegmentId, now: Timestamp) {
    let extent = Extent { file_offset: 0, length: 8192, segment: segment_id, segment_offset: 0 };
    let commit = FileCommit {
        ino,
        extents: vec![extent],
        size: 8192,
        mtime: now,
        ctime: now,
        mode: None,
        journal: Vec::new(),
        journal_under: Vec::new(),
        known_mtime: None,
    };
    store.commit_files(&[(segment_id, segment([1, 2, 3], 1))], &[commit], now).unwrap();
}

/// The owner of a new volume.
fn formatted(path: &Path) -> Store {
    SqliteKv::create(path).unwrap();
    let record = VolumeRecord { volume: VolumeId(1), created_ms: 1, default_policy: PolicyId(0) };
    let policy = PolicyRecord::of("rs:2+1", Some(1));
    Store::format(open(path, Access::Owner), &record, &policy, at(1), &Env::system()).unwrap()
}

#[test]
fn care_works_beside_a_mount() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("volume.weft");
    let mount = formatted(&path);
    let care = Store::open(open(&path, Access::Shared), &Env::system()).unwrap();
    for number in 1..=3 {
        mount.add_node(NodeId(number), &node(number)).unwrap();
    }
    care.add_node(NodeId(4), &node(4)).unwrap();
    assert_eq!(mount.nodes().unwrap(), care.nodes().unwrap());

    let file = NewInode { kind: Kind::File, mode: 0o644, uid: 0, gid: 0, rdev: 0, symlink_target: Vec::new() };
    let file = mount.create(Ino::ROOT, b"file", &file, at(2)).unwrap().ino;
    let (first, second) = (SegmentId::new(1, 1), SegmentId::new(1, 2));
    write(&mount, file, first, at(3));
    mount.flush().unwrap();
    assert_eq!(care.lookup(Ino::ROOT, b"file").unwrap(), mount.attributes(file).unwrap());
    assert_eq!(care.files_of_segment(first).unwrap(), [file]);
    assert_eq!(care.path_of(file).unwrap().unwrap(), b"/file");

    // A repair moves a shard to another node: the mount sees it, with changes of its own not flushed.
    let (old, new) = (segment([1, 2, 3], 1), segment([4, 2, 3], 2));
    mount.truncate(file, 4096, at(4), at(4), None).unwrap();
    care.replace_segment(first, &old, &new, &Succession::default(), None).unwrap();
    assert_eq!(mount.segment(first).unwrap(), Some(new.clone()));
    assert!(matches!(
        mount.replace_segment(first, &old, &new, &Succession::default(), None),
        Err(weft_meta::MetaError::SegmentChanged(_))
    ));
    mount.mark_damaged(first).unwrap();
    assert_eq!(care.damaged(None, 10).unwrap(), [first]);

    // Overwritten: once that is flushed the dead segment can be forgotten.
    write(&mount, file, second, at(5));
    mount.flush().unwrap();
    let queued = Queued::Segment { segment: first, since_ms: 5000 };
    assert_eq!(care.unreferenced(None, 10).unwrap(), std::slice::from_ref(&queued));
    let verdict = may_remove(queued.candidate(0), Evidence::alone(5000, 5000, 0));
    let Verdict::Remove(dead) = verdict else { panic!("{verdict:?}") };
    care.drop_segment(dead, &new, None).unwrap();
    assert_eq!(mount.segment(first).unwrap(), None);
    let (_, node) = care.nodes().unwrap().into_iter().find(|(id, _)| *id == NodeId(4)).unwrap();
    let leaving = NodeRecord { state: NodeState::Draining, ..node.clone() };
    care.update_node(NodeId(4), &node, &leaving).unwrap();
    assert!(care.remove_node(NodeId(4), true).unwrap());

    // What is the owner's is refused to others, and nothing breaks.
    assert!(care.unlink(Ino::ROOT, b"file", at(6)).is_err());
    for store in [&mount, &care] {
        let report = fsck::check(store, &mut |_| {}).unwrap();
        assert!(report.is_clean(), "{report:?}");
    }
    drop((mount, care));
    let again = Store::open(open(&path, Access::Owner), &Env::system()).unwrap();
    assert_eq!(again.extents(file, 0..u64::MAX).unwrap().len(), 1);
    assert!(fsck::repair(&again, at(9), &mut |_| {}).unwrap().is_clean());
}

/// Care goes on when the opening is old, and the mount beside it knows the next one and keeps it.
#[test]
fn care_renews_the_opening_beside_a_mount() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("volume.weft");
    let mount = formatted(&path);
    // Long ago.
    let first = mount.take_opening(11, 1).unwrap().number;
    let care = Store::open(open(&path, Access::Shared), &Env::system()).unwrap();
    care.add_node(NodeId(1), &node(1)).unwrap();
    let renewed = care.renew_opening().unwrap().expect("it is time");
    assert_eq!(renewed.number, first + 1);
    assert_eq!(mount.openings().unwrap().latest.map(|latest| latest.opening), Some(renewed));
    mount.note_settled(first, 5, 0).unwrap();
    mount.note_settled(renewed.number, 5, 0).unwrap();
    drop((mount, care));
    let again = Store::open(open(&path, Access::Owner), &Env::system()).unwrap();
    assert_eq!(again.openings().unwrap().number(), renewed.number);
}

/// A deletion does not wait for other processes, and obeys a setting that they made before it.
#[test]
fn what_is_deleted_is_kept_as_soon_as_somebody_has_said_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("volume.weft");
    let mount = formatted(&path);
    let care = Store::open(open(&path, Access::Shared), &Env::system()).unwrap();
    let file = NewInode { kind: Kind::File, mode: 0o644, uid: 0, gid: 0, rdev: 0, symlink_target: Vec::new() };
    for round in 0..50 {
        let keeps = round % 3 != 0;
        care.set_keep_ms(u64::from(keeps) * 1000).unwrap();
        let name = format!("file {round}");
        mount.create(Ino::ROOT, name.as_bytes(), &file, at(2)).unwrap();
        assert_eq!(mount.unlink(Ino::ROOT, name.as_bytes(), at(3 + round)).unwrap().is_kept, keeps, "round {round}");
    }
    mount.flush().unwrap();
    assert_eq!(care.deleted(None, 100).unwrap().len(), 33);
    assert!(fsck::check(&care, &mut |_| {}).unwrap().is_clean());
}

/// A process that comes reads what was flushed before, and what is flushed while it is there.
#[test]
fn a_flush_is_seen_by_all_who_are_there_and_all_who_come() {
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    use weft_meta::conformance::{get, set};
    use weft_meta::kv::Kv;

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("volume.weft");
    SqliteKv::create(&path).unwrap();
    let owner = open(&path, Access::Owner);
    let (flushed, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 1_u64.. {
                owner.commit(set(b"inode/1", &number.to_be_bytes())).unwrap();
                owner.flush().unwrap();
                flushed.store(number, Ordering::SeqCst);
                if is_over.load(Ordering::SeqCst) {
                    break;
                }
            }
        });
        for _ in 0..20 {
            let expected = flushed.load(Ordering::SeqCst);
            let beside = open(&path, Access::Shared);
            let read = || get(&*beside, b"inode/1").map_or(0, |value| u64::from_be_bytes(value.try_into().unwrap()));
            assert!(read() >= expected, "{expected} was flushed before");
            for _ in 0..50 {
                let expected = flushed.load(Ordering::SeqCst);
                assert!(read() >= expected, "{expected} was flushed meanwhile");
            }
            drop(beside);
            // Alone for a while: flushes go to the log again.
            std::thread::sleep(std::time::Duration::from_millis(3));
        }
        is_over.store(true, Ordering::SeqCst);
    });
}
