//! Golden bytes: what outlives the process is encoded as it always was, and what was always written is still read.
//!
//! The files in `golden/` are hex, 16 bytes a line. They never change; a new version of a format gets new files.

use weft_format::geometry::Geometry;
use weft_format::records::{
    Alternate, Attributes, Contents, DamageRecord, DamagedShard, Kind, Later, Latest, LeaseRecord, NodeLimits,
    NodeRecord, NodeState, ObjectRecord, ObjectSegment, ObjectState, Opening, OpeningsRecord, Origin, PlacementRule,
    PolicyRecord, Replica, ReplicaHeader, ReplicaKind, RetainedRecord, Secret, SegmentRecord, ShardLocation, Sizes,
    Stamp, SumsRecord, Timestamp, VolumeRecord, data_segment, name_hash, opening_key, record_key, replica_id,
};
use weft_format::shard::{Digest, ShardBuilder, ShardHeader, ShardIdentity, verify_object};
use weft_format::shard_file::{FileHasher, ShardFileHeader, Sibling, Trailer};
use weft_format::{Generation, Ino, NodeId, NodeIdentity, PolicyId, SegmentId, ShardIndex, ShardKey, VolumeId};

const VOLUME: VolumeId = VolumeId(0x000102030405060708090a0b0c0d0e0f);
const SEGMENT: SegmentId = SegmentId(0x0190a1b2c3d4f0f1f2f3f4f5f6f7f8f9);
const NODE: NodeId = NodeId(0x101112131415161718191a1b1c1d1e1f);

fn header() -> ShardHeader {
    let key = ShardKey { segment: SEGMENT, generation: Generation(7), index: ShardIndex(5) };
    let geometry = Geometry::new(21_000, 4, 1, 1, 4096).unwrap();
    ShardHeader { identity: ShardIdentity { volume: VOLUME, key }, code: "rs:4+2".to_owned(), geometry }
}

/// Compares `bytes` with a golden file; the message has what to put there if it is a new one.
fn expect_golden(name: &str, golden: &str, bytes: &[u8]) {
    let line = |chunk: &[u8]| chunk.iter().map(|byte| format!("{byte:02x}")).collect::<String>() + "\n";
    let actual: String = bytes.chunks(16).map(line).collect();
    assert!(actual == golden, "{name} is not as in golden/{name}.hex but:\n{actual}");
}

macro_rules! golden {
    ($name:literal, $bytes:expr) => {
        expect_golden($name, include_str!(concat!("golden/", $name, ".hex")), $bytes)
    };
}

#[test]
fn shard_header() {
    let encoded = header().encode().unwrap();
    golden!("shard_header_v1", &encoded);
    assert_eq!(ShardHeader::decode(&encoded), Ok(header()));
}

#[test]
fn shard_header_of_a_merged_segment() {
    let header = ShardHeader { geometry: header().geometry.merged(2), code: "rs:8+3".to_owned(), ..header() };
    let encoded = header.encode().unwrap();
    golden!("shard_header_v2", &encoded);
    assert_eq!(ShardHeader::decode(&encoded), Ok(header));
}

#[test]
fn small_shard() {
    let mut builder = ShardBuilder::new(&header()).unwrap();
    // 5250 bytes: a full frame and a short one.
    let payload: Vec<u8> = (0..builder.payload_bytes()).map(|i| (i % 251) as u8).collect();
    builder.write(0, &payload).unwrap();
    let (object, digest) = builder.finish();
    golden!("shard_v1", &object);
    golden!("shard_digest_v1", &digest.0);
    let verified = verify_object(&header().identity, &object).unwrap();
    assert_eq!((verified.header, verified.digest), (header(), digest));
}

#[test]
fn shard_file_header() {
    let header = ShardFileHeader {
        set: VOLUME,
        index: ShardIndex(5),
        shard_count: 6,
        code: "rs:4+2".to_owned(),
        name: b"photos.tar".to_vec(),
        geometry: Geometry::new(4 << 20, 4, 1, 1, 65_536).unwrap(),
    };
    let encoded = header.encode().unwrap();
    golden!("shard_file_header_v2", &encoded);
    assert_eq!(ShardFileHeader::decode(&encoded), Ok(header));
}

#[test]
fn shard_file_trailer() {
    let sibling = |index: u8| {
        let name = if index == 1 { Vec::new() } else { format!("photos.tar.{index}.weft").into_bytes() };
        Sibling { digest: [0xa0 + index; 32], name }
    };
    let siblings: Vec<Sibling> = (0..3).map(sibling).collect();
    let bytes = Sibling::encode_all(&siblings).unwrap();
    let mut hasher = FileHasher::default();
    hasher.update(&bytes);
    let trailer = Trailer {
        set: VOLUME,
        index: ShardIndex(2),
        shard_count: 3,
        file_bytes: 20_000_000,
        digest: std::array::from_fn(|i| i as u8),
        siblings_bytes: bytes.len() as u32,
        siblings_digest: hasher.finish(),
    };
    let encoded = trailer.encode().unwrap();
    golden!("shard_file_trailer_v2", &[&encoded[..], &bytes].concat());
    assert_eq!(Trailer::decode(&encoded), Ok(trailer.clone()));
    assert_eq!(trailer.siblings(&bytes), Ok(siblings));
}

#[test]
fn segment_record() {
    let location = |generation, byte| {
        Some(ShardLocation { node: NODE, generation: Generation(generation), digest: Digest([byte; 32]), origin: None })
    };
    let record = SegmentRecord {
        code: "rs:1+2".to_owned(),
        geometry: Geometry::new(10_000_000, 1, 1, 1, 65_536).unwrap(),
        generation: Generation(2),
        shards: vec![location(0, 0xaa), None, location(2, 0xbb)],
    };
    golden!("segment_record_v1", &record.encode());
    assert_eq!(SegmentRecord::decode(&record.encode()), Ok(record));
}

#[test]
fn segment_record_of_a_merged_segment() {
    let location = |generation, byte, origin| {
        Some(ShardLocation { node: NODE, generation: Generation(generation), digest: Digest([byte; 32]), origin })
    };
    let origin = |segment, index| Some(Origin { segment: SegmentId(segment), index: ShardIndex(index) });
    let record = SegmentRecord {
        code: "rs:2+1".to_owned(),
        geometry: Geometry::new(8 << 20, 1, 1, 1, 65_536).unwrap().merged(2),
        generation: Generation(6),
        shards: vec![location(1, 0xaa, origin(SEGMENT.0, 0)), location(5, 0xbb, origin(9, 2)), location(6, 0xcc, None)],
    };
    golden!("segment_record_v2", &record.encode());
    assert_eq!(SegmentRecord::decode(&record.encode()), Ok(record));
}

#[test]
fn node_record() {
    let record = NodeRecord {
        name: "disk1".to_owned(),
        url: "file:///mnt/disk1".to_owned(),
        state: NodeState::Draining,
        domain: "host/rack".to_owned(),
        weight: 1_863,
        secret: Default::default(),
        limits: Default::default(),
    };
    golden!("node_record_v1", &record.encode());
    assert_eq!(NodeRecord::decode(&record.encode()), Ok(record.clone()));
    let read_only = NodeRecord { state: NodeState::ReadOnly, ..record };
    golden!("node_record_v1_read_only", &read_only.encode());
    assert_eq!(NodeRecord::decode(&read_only.encode()), Ok(read_only));
}

#[test]
fn node_record_with_a_secret() {
    let record = NodeRecord {
        name: "remote".to_owned(),
        url: "weft://nas:7600".to_owned(),
        state: NodeState::Active,
        domain: "nas".to_owned(),
        weight: 1,
        secret: Secret(vec![0xab; 32]),
        limits: Default::default(),
    };
    golden!("node_record_v1_with_secret", &record.encode());
    assert_eq!(NodeRecord::decode(&record.encode()), Ok(record.clone()));
    let shown = format!("{record:?}");
    assert!(shown.contains("not shown") && !shown.contains("171"), "{shown}");
    let limits = NodeLimits { requests: 4, bytes_per_second: 50 << 20 };
    let limited = NodeRecord { limits, ..record };
    golden!("node_record_v1_with_limits", &limited.encode());
    assert_eq!(NodeRecord::decode(&limited.encode()), Ok(limited));
}

#[test]
fn placement_rule() {
    let rule = PlacementRule { unit_depth: 2, unit_shards: 1, locality_depth: 1, set_count: 8_300 };
    golden!("placement_rule_v1", &rule.encode());
    assert_eq!(PlacementRule::decode(&rule.encode()), Ok(rule));
    let rule = PlacementRule { unit_shards: 2, ..rule };
    golden!("placement_rule_v2", &rule.encode());
    assert_eq!(PlacementRule::decode(&rule.encode()), Ok(rule));
}

#[test]
fn sums_record() {
    let shard = |node| {
        Some(ShardLocation { node: NodeId(node), generation: Generation(0), digest: Digest([0; 32]), origin: None })
    };
    let segment = |code: &str, nodes: [u128; 3], data_bytes| SegmentRecord {
        code: code.into(),
        geometry: Geometry::new(data_bytes, 2, 1, 1, 4096).unwrap(),
        generation: Generation(0),
        shards: nodes.map(shard).into(),
    };
    let mut sums = SumsRecord::default();
    sums.add(&segment("rs:2+1", [1, 2, 3], 10_000));
    sums.add(&segment("rs:2+1", [1, 2, 2], 300));
    sums.subtract(&segment("xor:2+1", [1, 2, 3], 10_000));
    golden!("sums_record_v2", &sums.encode());
    assert_eq!(SumsRecord::decode(&sums.encode()), Ok(sums));
}

#[test]
fn damage_record() {
    let shard = |index: u16, frames| {
        let key = ShardKey { segment: SEGMENT, generation: Generation(7), index: ShardIndex(index) };
        DamagedShard {
            index: ShardIndex(index),
            node: NODE,
            key,
            complaint: "a checksum does not fit".to_owned(),
            frames,
        }
    };
    let missing = DamagedShard { complaint: String::new(), ..shard(4, None) };
    let record = DamageRecord::new([shard(1, Some(vec![3..4, 300..320])), shard(2, Some(Vec::new())), missing]);
    golden!("damage_record_v1", &record.encode());
    assert_eq!(DamageRecord::decode(&record.encode()), Ok(record));
}

#[test]
fn policy_record() {
    let record = PolicyRecord::of("rs:4+2", Some(1));
    golden!("policy_record_v1", &record.encode());
    assert_eq!(PolicyRecord::decode(&record.encode()), Ok(record));
    let later = Some(Later { code: "rs:8+3".to_owned(), after_ms: 2_592_000_000 });
    let aging = PolicyRecord { later, ..PolicyRecord::of("replica:3", None) };
    golden!("policy_record_v1_with_age_rule", &aging.encode());
    assert_eq!(PolicyRecord::decode(&aging.encode()), Ok(aging));
    // A margin of 0 is said, and not the same as none.
    let sizes = Sizes { segment_bytes: Some(64 << 20), cell_bytes: Some(1 << 20) };
    let sized = PolicyRecord { sizes, ..PolicyRecord::of("rs:4+2", None) };
    golden!("policy_record_v1_with_sizes", &sized.encode());
    assert_eq!(PolicyRecord::decode(&sized.encode()), Ok(sized.clone()));
    for sizes in [
        Sizes { segment_bytes: Some((64 << 20) + 1), cell_bytes: None },
        Sizes { segment_bytes: Some(1000), cell_bytes: None },
        Sizes { segment_bytes: None, cell_bytes: Some(4095) },
        Sizes { segment_bytes: None, cell_bytes: Some(u32::MAX) },
    ] {
        let beyond = PolicyRecord { sizes, ..sized.clone() };
        assert!(PolicyRecord::decode(&beyond.encode()).is_err(), "{sizes:?}");
    }
    let bare = PolicyRecord::of("rs:4+2", Some(0));
    golden!("policy_record_v1_with_margin_0", &bare.encode());
    assert_eq!(PolicyRecord::decode(&bare.encode()), Ok(bare));
}

#[test]
fn volume_record() {
    let record = VolumeRecord { volume: VOLUME, created_ms: 1_763_683_200_000, default_policy: PolicyId(3) };
    golden!("volume_record_v1", &record.encode());
    assert_eq!(VolumeRecord::decode(&record.encode()), Ok(record));
}

#[test]
fn lease_record() {
    let record = LeaseRecord { term: 7, holder: "process 4242 on host".to_owned(), beat: 300, ttl_ms: 10_000 };
    golden!("lease_record_v1", &record.encode());
    assert_eq!(LeaseRecord::decode(&record.encode()), Ok(record));
}

#[test]
fn object_record() {
    let stamp = Stamp::after(None, 1_763_683_200_000, 0xf0f1_f2f3_f4f5_f6f7);
    let segment = ObjectSegment {
        geometry: Geometry::new(21_000, 2, 1, 1, 4096).unwrap(),
        digest: [0x44; 32],
        shards: vec![Digest([1; 32]), Digest([2; 32]), Digest([3; 32])],
    };
    let contents = Contents {
        code: "rs:2+1".to_owned(),
        bytes: 21_000,
        digest: [0x55; 32],
        segments: vec![segment],
        alternates: vec![
            Alternate { segment: 0, index: ShardIndex(1), node: Some(NODE) },
            Alternate { segment: 0, index: ShardIndex(2), node: None },
        ],
    };
    let stored = ObjectRecord { name: "run/7.root".to_owned(), stamp, width: 3, state: ObjectState::Stored(contents) };
    golden!("object_record_v1_stored", &stored.encode());
    let removed = ObjectRecord { state: ObjectState::Removed, ..stored.clone() };
    golden!("object_record_v1_removed", &removed.encode());
    let given_up = ObjectRecord::given_up(stamp);
    golden!("object_record_v1_given_up", &given_up.encode());
    for record in [stored, removed, given_up] {
        assert_eq!(ObjectRecord::decode(&record.encode()), Ok(record));
    }
    // Names of shards are bytes that outlive the process, too.
    let hash = name_hash("run/7.root");
    assert_eq!(record_key(hash, stamp).to_string(), "582a88fa8870000019aa3b5ec00f0f1f.1.0");
    assert_eq!(data_segment(hash, stamp, 5).to_string(), "d82a88fa8870000519aa3b5ec00f0f1f");
}

const OPENING: Opening =
    Opening { number: 7, tag: 0xf0f1_f2f3_f4f5_f6f7_f8f9_fafb_fcfd_feff, began_ms: 1_763_683_200_000 };

#[test]
fn opening() {
    golden!("opening_v1", &OPENING.encode());
    assert_eq!(Opening::decode(&OPENING.encode()), Ok(OPENING));
    assert_eq!(opening_key(7).to_string(), "ffffffffffffffffffffffffffffffff.7.0");
}

#[test]
fn openings_record() {
    let latest = Latest { opening: Opening { number: 12, ..OPENING }, session: 0, settled_below: 300, roster: 9 };
    let (over, left) = (vec![(1, 6), (10, 11)], vec![(7, 77)]);
    let record = OpeningsRecord { latest: Some(latest), beside: Vec::new(), over, left, restored_by: 10 };
    golden!("openings_record_v1", &record.encode());
    assert_eq!(OpeningsRecord::decode(&record.encode()), Ok(record.clone()));
    let beside = vec![Latest { opening: Opening { number: 9, ..OPENING }, session: 40, settled_below: 5, roster: 8 }];
    let shared = OpeningsRecord { latest: Some(Latest { session: 41, ..latest }), beside, ..record };
    golden!("openings_record_shared_v1", &shared.encode());
    assert_eq!(OpeningsRecord::decode(&shared.encode()), Ok(shared));
}

#[test]
fn retained_record() {
    let place = |number: u8| {
        Some(ShardLocation {
            node: NODE,
            generation: Generation(u32::from(number)),
            digest: Digest([number; 32]),
            origin: None,
        })
    };
    let record = SegmentRecord {
        code: "replica:3".to_owned(),
        geometry: Geometry::new(21_000, 1, 1, 1, 4096).unwrap(),
        generation: Generation(7),
        shards: vec![place(7), None, place(3)],
    };
    let retained = RetainedRecord { record, since_ms: 1_763_683_200_000, keep_ms: 3_600_000, is_going: true };
    golden!("retained_record_v1", &retained.encode());
    assert_eq!(RetainedRecord::decode(&retained.encode()), Ok(retained));
}

#[test]
fn attributes() {
    let time = |seconds| Timestamp { seconds, nanoseconds: 999_999_999 };
    let attributes = Attributes {
        ino: Ino(0x0102030405060708),
        kind: Kind::File,
        mode: 0o4755,
        uid: 1000,
        gid: 100,
        nlink: 2,
        rdev: 0x0801,
        size: 10_000_000,
        allocated_bytes: 9_998_336,
        atime: time(1_763_683_200),
        mtime: time(-1),
        ctime: time(i64::MAX),
        btime: time(0),
        policy: PolicyId(3),
        parent: Ino::ROOT,
    };
    golden!("attributes_v1", &attributes.encode());
    assert_eq!(Attributes::decode(&attributes.encode()), Ok(attributes));
}

#[test]
fn node_identity() {
    let identity = NodeIdentity { volume: VOLUME, node: NODE };
    assert_eq!(identity.encode(), include_str!("golden/node_identity_v1.json"));
    assert_eq!(NodeIdentity::decode(identity.encode().as_bytes()), Ok(identity));
}

#[test]
fn replica() {
    let header = ReplicaHeader {
        lineage: 0x0102_0304_0506_0708,
        opening: 7,
        kind: ReplicaKind::Changes,
        set: 9,
        part: 1,
        is_last: true,
        after: 300,
        upto: 301,
        at_ms: 1_763_683_200_000,
        bytes: 11,
    };
    let slots = vec![(b"\x02key".to_vec(), Some(b"value".to_vec())), (b"\x03x".to_vec(), None)];
    let replica = Replica { header, slots };
    golden!("replica_v1", &replica.encode());
    assert_eq!(Replica::decode(&replica.encode()), Ok(replica));
    assert_eq!(replica_id(7, 0xabcd, 0x12).to_string(), "fffffffffffe0000000700002af34012");
}
