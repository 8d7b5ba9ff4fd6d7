use super::*;
use crate::geometry::Geometry;
use crate::identity::NodeIdentity;
use crate::ids::{Generation, Ino, NodeId, PolicyId, SegmentId, ShardIndex, ShardKey, VolumeId};
use crate::shard::Digest;
use proptest::prelude::*;

fn segment() -> SegmentRecord {
    let location = |generation| ShardLocation {
        node: NodeId(5),
        generation: Generation(generation),
        digest: Digest([9; 32]),
        origin: None,
    };
    SegmentRecord {
        code: "rs:2+1".to_owned(),
        geometry: Geometry::new(100_000, 2, 1, 1, 65_536).unwrap(),
        generation: Generation(4),
        shards: vec![Some(location(0)), None, Some(location(4))],
    }
}

/// Two segments' data under one parity; one of the data shards bears its own name.
fn merged() -> SegmentRecord {
    let mut record =
        SegmentRecord { geometry: Geometry::new(100_000, 1, 1, 1, 65_536).unwrap().merged(2), ..segment() };
    let origin = Origin { segment: SegmentId(77), index: ShardIndex(9) };
    record.shards[0].as_mut().unwrap().origin = Some(origin);
    record
}

fn attributes() -> Attributes {
    let time = Timestamp { seconds: 1, nanoseconds: 2 };
    Attributes {
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
    }
}

#[test]
fn a_segment_names_its_shards() {
    let segment = segment();
    let id = SegmentId(1);
    let key =
        |generation, index| ShardKey { segment: id, generation: Generation(generation), index: ShardIndex(index) };
    assert_eq!(segment.shard_key(id, ShardIndex(0)), Some(key(0, 0)));
    assert_eq!(segment.shard_key(id, ShardIndex(1)), None);
    assert_eq!(segment.shard_key(id, ShardIndex(2)), Some(key(4, 2)));
    assert_eq!(segment.shard_key(id, ShardIndex(3)), None);
}

#[test]
fn a_merged_segment_names_shards_of_others() {
    let (record, id, node) = (merged(), SegmentId(1), NodeId(5));
    let aliased = ShardKey { segment: SegmentId(77), generation: Generation(0), index: ShardIndex(9) };
    assert_eq!(record.shard_key(id, ShardIndex(0)), Some(aliased));
    assert_eq!(record.shard_key(id, ShardIndex(2)), segment().shard_key(id, ShardIndex(2)));
    assert!(record.has_at(id, node, aliased) && !record.has_at(id, NodeId(6), aliased));
    let own = ShardKey { segment: id, generation: Generation(0), index: ShardIndex(0) };
    assert!(!record.has_at(id, node, own) && segment().has_at(id, node, own));
    assert!(!record.names(0, segment().shards[0].as_ref().unwrap()));
    assert_eq!(SegmentRecord::decode(&record.encode()), Ok(record.clone()));
    // Whoever does not know the fields would take other shards for these: an older version never has them.
    let mut older = record.encode();
    assert_eq!(std::mem::replace(&mut older[1], 1), 2);
    assert!(matches!(SegmentRecord::decode(&older), Err(RecordError::Damaged { .. })));
    for source_count in [3, u32::MAX] {
        let mut uneven = merged();
        uneven.geometry.source_count = source_count;
        assert!(matches!(SegmentRecord::decode(&uneven.encode()), Err(RecordError::Damaged { .. })));
    }
}

#[test]
fn a_segment_that_cannot_be_is_refused() {
    type Change = fn(&mut SegmentRecord);
    let changes: [(&str, Change); 6] = [
        ("no code", |record| record.code.clear()),
        ("code too long", |record| record.code = "x".repeat(97)),
        ("no data", |record| record.geometry.data_bytes = 0),
        ("unaligned", |record| record.geometry.alignment_bytes = 3),
        ("no shards", |record| record.shards.clear()),
        ("too many shards", |record| record.shards = vec![None; 65_536]),
    ];
    for (what, change) in changes {
        let mut record = segment();
        change(&mut record);
        let refused = SegmentRecord::decode(&record.encode());
        assert!(matches!(refused, Err(RecordError::Damaged { .. })), "{what}: {refused:?}");
    }
}

#[test]
fn unknown_versions_are_refused() {
    #[derive(Clone, PartialEq, prost::Message)]
    struct Newer {
        #[prost(uint32, tag = "1")]
        version: u32,
        /// Typed otherwise than in version 1: the version must be looked at first.
        #[prost(uint64, tag = "2")]
        number: u64,
        #[prost(uint64, tag = "3")]
        other: u64,
    }
    for version in [0, 3, u32::MAX] {
        let bytes = Newer { version, number: 5, other: 6 }.encode_to_vec();
        let segment = SegmentRecord::decode(&bytes).unwrap_err();
        assert!(matches!(segment, RecordError::UnknownVersion { version: found, newest: 2, .. } if found == version));
        let refusals = [
            NodeRecord::decode(&bytes).unwrap_err(),
            PolicyRecord::decode(&bytes).unwrap_err(),
            VolumeRecord::decode(&bytes).unwrap_err(),
            LeaseRecord::decode(&bytes).unwrap_err(),
            RetainedRecord::decode(&bytes).unwrap_err(),
        ];
        for refusal in refusals {
            assert!(
                matches!(refusal, RecordError::UnknownVersion { version: found, newest: 1, .. } if found == version)
            );
        }
    }
    assert!(matches!(Attributes::decode(&[]), Err(RecordError::UnknownVersion { version: 0, .. })));
    assert!(matches!(Attributes::decode(&[2; 104]), Err(RecordError::UnknownVersion { version: 2, .. })));
}

#[test]
fn only_what_the_new_record_does_not_name_is_retained() {
    let previous = segment();
    let mut new = previous.clone();
    new.generation = Generation(previous.generation.0 + 1);
    assert_eq!(RetainedRecord::of(&previous, &new, 5, 6), None);
    let index = previous.shards.iter().position(Option::is_some).unwrap();
    new.shards[index].as_mut().unwrap().generation = new.generation;
    let retained = RetainedRecord::of(&previous, &new, 5, 6).unwrap();
    let places: Vec<_> = retained.record.shards.iter().flatten().collect();
    assert_eq!(places, [previous.shards[index].as_ref().unwrap()]);
    assert_eq!((retained.since_ms, retained.keep_ms, retained.is_going), (5, 6, false));
    assert_eq!(RetainedRecord::decode(&retained.encode()), Ok(retained.clone()));
    let empty = RetainedRecord { record: SegmentRecord { shards: vec![None; 3], ..previous }, ..retained };
    assert!(matches!(RetainedRecord::decode(&empty.encode()), Err(RecordError::Damaged { .. })));
}

#[test]
fn a_shared_segment_gets_the_code_that_suits_all_its_files() {
    let plain = |code: &str, age_ms| (PolicyRecord::of(code, None), age_ms);
    let aging = |age_ms| {
        let later = Some(Later { code: "rs:8+3".into(), after_ms: 100 });
        (PolicyRecord { later, ..PolicyRecord::of("replica:3", None) }, age_ms)
    };
    let code = |code: &str| Wanted::Code(code.into());
    assert_eq!(wanted("rs:4+2", &[]), Wanted::AsIs, "of nobody any more");
    assert_eq!(wanted("rs:4+2", &[plain("rs:4+2", 0)]), Wanted::AsIs);
    assert_eq!(wanted("rs:4+2", &[plain("rs:8+3", 0), plain("rs:8+3", 5)]), code("rs:8+3"));
    assert_eq!(wanted("rs:4+2", &[plain("rs:8+3", 0), plain("rs:4+2", 0)]), Wanted::Divided);
    assert_eq!(wanted("rs:4+2", &[plain("rs:8+3", 0), plain("raid5:5", 0)]), Wanted::Divided);
    assert_eq!(wanted("replica:3", &[aging(99)]), Wanted::AsIs);
    assert_eq!(wanted("replica:3", &[aging(100)]), code("rs:8+3"));
    assert_eq!(wanted("rs:8+3", &[aging(0)]), Wanted::AsIs, "it changed elsewhere: nothing goes back");
    assert_eq!(wanted("rs:4+2", &[aging(0)]), code("replica:3"));
    assert_eq!(wanted("replica:3", &[aging(100), plain("rs:8+3", 0)]), code("rs:8+3"));
    assert_eq!(wanted("replica:3", &[aging(100), plain("replica:3", 0)]), Wanted::Divided);
    assert_eq!(wanted("replica:3", &[aging(0), plain("rs:8+3", 0)]), code("rs:8+3"));
}

#[test]
fn every_kind_has_a_byte_of_its_own() {
    for byte in 0..=u8::MAX {
        match Kind::from_byte(byte) {
            Ok(kind) => assert_eq!(kind.to_byte(), byte),
            Err(_) => assert!(!(1..=7).contains(&byte)),
        }
    }
}

#[test]
fn attributes_that_cannot_be_are_refused() {
    let good = attributes().encode();
    assert_eq!(Attributes::decode(&good), Ok(attributes()));
    for (offset, value) in [(1, 0), (1, 8), (3, 0x10), (91, 0x3c), (103, 0xff)] {
        let mut bad = good;
        bad[offset] = value;
        assert!(matches!(Attributes::decode(&bad), Err(RecordError::Damaged { .. })), "byte {offset} = {value}");
    }
    for length in 1..104 {
        assert!(matches!(Attributes::decode(&good[..length]), Err(RecordError::Damaged { .. })));
    }
    assert!(Attributes::decode(&[good.as_slice(), &[0]].concat()).is_err());
}

#[test]
fn identities_that_cannot_be_are_refused() {
    let identity = NodeIdentity { volume: VolumeId(1), node: NodeId(u128::MAX) };
    assert_eq!(NodeIdentity::decode(identity.encode().as_bytes()), Ok(identity));
    let id = "00000000000000000000000000000001";
    for bad in [
        String::new(),
        "{}".to_owned(),
        "[1]".to_owned(),
        format!(r#"{{"weft_node_version":1,"volume":"{id}"}}"#),
        format!(r#"{{"weft_node_version":1,"volume":"{id}","node":"1"}}"#),
        format!(r#"{{"weft_node_version":1,"volume":"{id}","node":"{id}","more":1}}"#),
        format!(r#"{{"weft_node_version":-1,"volume":"{id}","node":"{id}"}}"#),
        format!("{}{}", identity.encode(), " ".repeat(4096)),
    ] {
        assert!(matches!(NodeIdentity::decode(bad.as_bytes()), Err(RecordError::Damaged { .. })), "{bad}");
    }
    let newer = format!(r#"{{"weft_node_version":2,"volume":"{id}","node":"{id}","more":1}}"#);
    assert!(matches!(NodeIdentity::decode(newer.as_bytes()), Err(RecordError::UnknownVersion { version: 2, .. })));
}

fn any_location() -> impl Strategy<Value = Option<ShardLocation>> {
    proptest::option::of((any::<u128>(), 0u32..=1000, any::<[u8; 32]>()).prop_map(|(node, generation, digest)| {
        ShardLocation { node: NodeId(node), generation: Generation(generation), digest: Digest(digest), origin: None }
    }))
}

proptest! {
    #[test]
    fn segments_round_trip(
        code in "[!-~]{1,96}",
        data_bytes in 1u64..=64 << 20,
        shards in proptest::collection::vec(any_location(), 1..40),
    ) {
        let geometry = Geometry::new(data_bytes, 4, 2, 8, 65_536).unwrap();
        let record = SegmentRecord { code, geometry, generation: Generation(1000), shards };
        prop_assert_eq!(SegmentRecord::decode(&record.encode()), Ok(record));
    }

    #[test]
    fn hostile_bytes_never_panic(mut bytes: Vec<u8>) {
        for _ in 0..2 {
            let _ = SegmentRecord::decode(&bytes);
            let _ = NodeRecord::decode(&bytes);
            let _ = PolicyRecord::decode(&bytes);
            let _ = VolumeRecord::decode(&bytes);
            let _ = LeaseRecord::decode(&bytes);
            let _ = RetainedRecord::decode(&bytes);
            let _ = Attributes::decode(&bytes);
            let _ = NodeIdentity::decode(&bytes);
            // The same behind a version that is believed.
            bytes.splice(0..0, [8, 1]);
        }
    }

    #[test]
    fn damaged_segments_never_panic(offset: prop::sample::Index, byte: u8) {
        let mut bytes = segment().encode();
        let at = offset.index(bytes.len());
        bytes[at] = byte;
        if let Ok(record) = SegmentRecord::decode(&bytes) {
            prop_assert!(record.geometry.validate().is_ok());
        }
    }
}

#[test]
fn a_rule_cuts_domains_at_its_levels() {
    let rule = |unit_depth, locality_depth| PlacementRule { unit_depth, locality_depth, ..PlacementRule::default() };
    let domain = "site1/rack3/host7";
    let cut = |rule: PlacementRule| (rule.unit(domain), rule.locality(domain));
    assert_eq!(cut(rule(0, 0)), (domain, ""));
    assert_eq!(cut(rule(2, 1)), ("site1/rack3", "site1"));
    assert_eq!(cut(rule(3, 2)), (domain, "site1/rack3"));
    assert_eq!(cut(rule(9, 9)), (domain, domain));
    assert_eq!((rule(1, 1).unit("nas"), rule(1, 1).unit("")), ("nas", ""));
}

#[test]
fn a_unit_takes_no_more_shards_than_the_code_can_lose() {
    let of =
        |unit_shards, tolerance| PlacementRule { unit_shards, ..PlacementRule::default() }.unit_shards_of(tolerance);
    assert_eq!([of(1, 0), of(1, 4), of(2, 0), of(2, 1), of(2, 2), of(2, 4), of(9, 4)], [1, 1, 1, 1, 2, 2, 4]);
}

#[test]
fn rules_without_shared_units_are_what_older_programs_read() {
    let old = PlacementRule { unit_depth: 1, ..PlacementRule::default() };
    assert_eq!(old.encode(), [8, 1, 16, 1], "version 1, and no field that it does not have");
    assert_eq!(PlacementRule::decode(&old.encode()), Ok(old));
    let shared = PlacementRule { unit_shards: 2, ..old };
    assert_eq!(shared.encode()[..2], [8, 2], "a version that older programs refuse");
    assert_eq!(PlacementRule::decode(&shared.encode()), Ok(shared));
    // Neither version says what it does not have.
    for bytes in [[8, 1, 40, 2], [8, 2, 40, 0], [8, 2, 40, 1]] {
        assert!(matches!(PlacementRule::decode(&bytes), Err(RecordError::Damaged { .. })), "{bytes:?}");
    }
    assert!(matches!(PlacementRule::decode(&[8, 3]), Err(RecordError::UnknownVersion { version: 3, newest: 2, .. })));
}
