//! Records of the metadata that more than one crate reads.

use weft_format::geometry::Geometry;
use weft_format::records::{
    Alternate, Attributes, Contents, DamageRecord, DamagedShard, Kind, Later, Latest, LeaseRecord, NodeLimits,
    NodeRecord, NodeState, ObjectRecord, ObjectSegment, ObjectState, Opening, OpeningsRecord, Origin, PlacementRule,
    PolicyRecord, Replica, ReplicaHeader, ReplicaKind, RetainedRecord, Secret, SegmentRecord, ShardLocation, Sizes,
    Stamp, Timestamp, VolumeRecord,
};
use weft_format::shard::Digest;
use weft_format::{Generation, Ino, NodeId, NodeIdentity, PolicyId, SegmentId, ShardIndex, ShardKey, VolumeId};

/// What is accepted is encoded to something that is read as the same.
macro_rules! same_again {
    ($record:ident, $bytes:expr) => {
        if let Ok(record) = $record::decode($bytes) {
            assert_eq!($record::decode(record.encode().as_ref()).as_ref(), Ok(&record));
        }
    };
}

/// The first byte says which record the others are to be.
pub(super) fn record(bytes: &[u8]) {
    let Some((what, bytes)) = bytes.split_first() else { return };
    match what % 14 {
        0 => {
            if let Ok(attributes) = Attributes::decode(bytes) {
                assert_eq!(attributes.encode(), bytes);
            }
        }
        1 => {
            same_again!(DamageRecord, bytes);
            if let Ok(mut record) = DamageRecord::decode(bytes) {
                // A newer finding of the same shard and frames.
                let shards = record.shards().to_vec();
                record.add(shards);
                assert_eq!(DamageRecord::decode(&record.encode()), Ok(record));
            }
        }
        2 => same_again!(LeaseRecord, bytes),
        3 => same_again!(NodeRecord, bytes),
        4 => {
            same_again!(OpeningsRecord, bytes);
            if let Ok(record) = OpeningsRecord::decode(bytes) {
                let next = record.followed_by(1, 2);
                let _ = (next.restored(u32::MAX, 3, 4), next.number());
            }
        }
        5 => same_again!(Opening, bytes),
        6 => {
            same_again!(PlacementRule, bytes);
            if let Ok(rule) = PlacementRule::decode(bytes) {
                let domain = "site1/rack3/host7";
                assert!(domain.starts_with(rule.unit(domain)) && domain.starts_with(rule.locality(domain)));
            }
        }
        7 => same_again!(PolicyRecord, bytes),
        8 => same_again!(RetainedRecord, bytes),
        9 => {
            same_again!(SegmentRecord, bytes);
            if let Ok(record) = SegmentRecord::decode(bytes) {
                assert!(record.located(SegmentId(1)).count() <= record.shards.len());
                assert!(record.stored_bytes() >= record.shard_bytes() || record.nodes().next().is_none());
            }
        }
        10 => same_again!(VolumeRecord, bytes),
        11 => same_again!(NodeIdentity, bytes),
        12 => {
            same_again!(Replica, bytes);
            let _ = ReplicaHeader::decode(bytes);
        }
        _ => same_again!(ObjectRecord, bytes),
    }
}

fn segment() -> SegmentRecord {
    let location = |generation, origin| ShardLocation {
        node: NodeId(5),
        generation: Generation(generation),
        digest: Digest([9; 32]),
        origin,
    };
    let origin = Some(Origin { segment: SegmentId(77), index: ShardIndex(9) });
    SegmentRecord {
        code: "rs:2+1".to_owned(),
        geometry: Geometry::new(100_000, 1, 1, 1, 65_536).expect("it is small").merged(2),
        generation: Generation(4),
        shards: vec![Some(location(0, origin)), None, Some(location(4, None))],
    }
}

fn object() -> ObjectRecord {
    let segment = ObjectSegment {
        geometry: Geometry::new(21_000, 2, 1, 1, 4096).expect("it is small"),
        digest: [0x44; 32],
        shards: vec![Digest([1; 32]), Digest([2; 32]), Digest([3; 32])],
    };
    let contents = Contents {
        code: "rs:2+1".to_owned(),
        bytes: 21_000,
        digest: [0x55; 32],
        segments: vec![segment],
        alternates: vec![
            Alternate { segment: 0, index: ShardIndex(1), node: Some(NodeId(0x101112131415161718191a1b1c1d1e1f)) },
            Alternate { segment: 0, index: ShardIndex(2), node: None },
        ],
    };
    let stamp = Stamp::after(None, 1_763_683_200_000, 0xf0f1_f2f3_f4f5_f6f7);
    ObjectRecord { name: "run/7.root".to_owned(), stamp, width: 3, state: ObjectState::Stored(contents) }
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let time = Timestamp { seconds: 1, nanoseconds: 2 };
    let attributes = Attributes {
        ino: Ino(7),
        kind: Kind::Directory,
        mode: 0o1777,
        uid: 1,
        gid: 2,
        nlink: 3,
        rdev: 4,
        size: 5,
        allocated_bytes: 6,
        atime: time,
        mtime: time,
        ctime: time,
        btime: time,
        policy: PolicyId(8),
        parent: Ino::ROOT,
    };
    let key = ShardKey { segment: SegmentId(7), generation: Generation(2), index: ShardIndex(1) };
    let damaged = |index, frames| DamagedShard {
        index: ShardIndex(index),
        node: NodeId(5),
        key,
        complaint: "frame 3 is damaged".to_owned(),
        frames,
    };
    let damage = DamageRecord::new([damaged(1, Some(vec![3..4, 9..20])), damaged(2, None)]);
    let lease = LeaseRecord { term: 3, holder: "process 5 on h".to_owned(), beat: 9, ttl_ms: 30_000 };
    let node = NodeRecord {
        name: "n1".to_owned(),
        url: "file:///mnt/disk1".to_owned(),
        state: NodeState::Draining,
        domain: "rack1/host2".to_owned(),
        weight: 100,
        secret: Secret(vec![7; 32]),
        limits: NodeLimits { requests: 4, bytes_per_second: 1 << 20 },
    };
    let opening = Opening { number: 9, tag: 5, began_ms: 6 };
    let openings = OpeningsRecord {
        latest: Some(Latest { opening, session: 9, settled_below: 3, roster: 2 }),
        beside: vec![Latest { opening: Opening { number: 8, ..opening }, session: 7, settled_below: 1, roster: 2 }],
        over: vec![(1, 2), (4, 7)],
        left: vec![(3, 4)],
        restored_by: 4,
    };
    let rule = PlacementRule { unit_depth: 2, unit_shards: 2, locality_depth: 1, set_count: 9 };
    let policy = PolicyRecord {
        later: Some(Later { code: "rs:8+3".to_owned(), after_ms: 5 }),
        sizes: Sizes { segment_bytes: Some(8 << 20), cell_bytes: Some(4096) },
        ..PolicyRecord::of("replica:3", Some(1))
    };
    let retained = RetainedRecord { record: segment(), since_ms: 5, keep_ms: 6, is_going: true };
    let volume = VolumeRecord { volume: VolumeId(1), created_ms: 2, default_policy: PolicyId(3) };
    let identity = NodeIdentity { volume: VolumeId(1), node: NodeId(2) };
    let (kind, is_last) = (ReplicaKind::Snapshot, true);
    let header = ReplicaHeader {
        lineage: 1,
        opening: 2,
        kind,
        set: 3,
        part: 4,
        is_last,
        after: 5,
        upto: 6,
        at_ms: 7,
        bytes: 11,
    };
    let records = [
        attributes.encode().to_vec(),
        damage.encode(),
        lease.encode(),
        node.encode(),
        openings.encode(),
        opening.encode(),
        rule.encode(),
        policy.encode(),
        retained.encode(),
        segment().encode(),
        volume.encode(),
        identity.encode().into_bytes(),
        Replica { header, slots: vec![(vec![1], Some(vec![2; 9])), (vec![3], None)] }.encode(),
        object().encode(),
    ];
    records.into_iter().zip(0..).map(|(record, what): (_, u8)| [&[what][..], &record].concat()).collect()
}
