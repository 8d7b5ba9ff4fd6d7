use super::*;

fn stored() -> ObjectRecord {
    let geometry = Geometry::new(300_000, 4, 1, 1, 65_536).unwrap();
    let segment = ObjectSegment { geometry, digest: [7; 32], shards: (0..6).map(|i| Digest([i; 32])).collect() };
    let contents = Contents {
        code: "rs:4+2".into(),
        bytes: 300_000,
        digest: [9; 32],
        segments: vec![segment],
        alternates: vec![
            Alternate { segment: 0, index: ShardIndex(3), node: Some(NodeId(5)) },
            Alternate { segment: 0, index: ShardIndex(4), node: None },
        ],
    };
    ObjectRecord { name: "a/b".into(), stamp: Stamp(77), width: 6, state: ObjectState::Stored(contents) }
}

#[test]
fn an_id_says_what_it_was_made_of() {
    let hash = name_hash("photos/1.jpg");
    assert!(hash < 1 << 43);
    let stamp = Stamp::after(None, 1_763_683_200_000, u64::MAX);
    assert_eq!(stamp.at_ms(), 1_763_683_200_000);
    let id = ObjectId { is_data: true, hash, number: 65_535, stamp };
    assert_eq!(ObjectId::of(data_segment(hash, stamp, 65_535)), id);
    assert_eq!(ObjectId::of(record_key(hash, stamp).segment), ObjectId { is_data: false, number: 0, ..id });
    assert_eq!(id.record_key(), record_key(hash, stamp));
}

#[test]
fn a_later_version_has_a_later_stamp_whatever_the_clocks_say() {
    let ahead = Stamp::after(None, 2_000, 5 << 44);
    let next = Stamp::after(Some(ahead), 1_000, 0);
    assert!(next > ahead && next.at_ms() == 2_001);
    assert_eq!(Stamp::after(Some(ahead), 9_000, 0).at_ms(), 9_000);
    // A clock beyond all time gives the last time.
    assert_eq!(Stamp::after(None, u64::MAX, 0).at_ms(), (1 << 44) - 1);
}

#[test]
fn a_sealed_record_is_believed_under_its_own_name_only() {
    let (volume, record) = (VolumeId(3), stored());
    let key = record_key(name_hash("a/b"), Stamp(77));
    let object = record.seal(volume, key).unwrap();
    assert_eq!(ObjectRecord::unseal(volume, key, &object), Ok(record.clone()));
    assert!(ObjectRecord::unseal(VolumeId(4), key, &object).is_err());
    let elsewhere = record_key(name_hash("a/b"), Stamp(78));
    assert!(ObjectRecord::unseal(volume, elsewhere, &object).is_err());
    // Sealed well, under a name that its contents contradict.
    let moved = record.seal(volume, elsewhere).unwrap();
    assert!(ObjectRecord::unseal(volume, elsewhere, &moved).is_err());
    for at in [0, 100, 300, object.len() - 1] {
        let mut damaged = object.to_vec();
        damaged[at] ^= 1;
        assert!(ObjectRecord::unseal(volume, key, &damaged).is_err(), "byte {at}");
    }
    let given_up = ObjectRecord::given_up(Stamp(77));
    let object = given_up.seal(volume, key).unwrap();
    assert_eq!(ObjectRecord::unseal(volume, key, &object), Ok(given_up));
}

#[test]
fn a_record_takes_no_memory_for_what_its_shard_does_not_have() {
    let key = record_key(name_hash("a/b"), Stamp(77));
    let geometry = Geometry::new(60 << 20, 1 << 16, 1, 1, 1).unwrap();
    assert_eq!(geometry.payload_bytes(), 960);
    let header =
        ShardHeader { identity: ShardIdentity { volume: VolumeId(3), key }, code: RECORD_CODE.to_owned(), geometry };
    let (object, _) = ShardBuilder::new(&header).unwrap().finish();
    let refused = ObjectRecord::unseal(VolumeId(3), key, &object).unwrap_err().to_string();
    assert!(refused.contains("it is one shard of several"), "{refused}");
}

#[test]
fn what_cannot_be_is_refused() {
    let record = stored();
    let encoded = record.encode();
    assert_eq!(ObjectRecord::decode(&encoded), Ok(record.clone()));
    for length in 0..encoded.len() {
        // It never panics, and a cut record is none.
        assert!(ObjectRecord::decode(&encoded[..length]).is_err(), "{length} bytes");
    }
    let nameless = ObjectRecord { name: String::new(), ..record.clone() };
    let wide = ObjectRecord { width: 7, ..record.clone() };
    let mut longer = record;
    if let ObjectState::Stored(contents) = &mut longer.state {
        contents.bytes += 1;
    }
    for wrong in [nameless, wide, longer] {
        assert!(ObjectRecord::decode(&wrong.encode()).is_err(), "{wrong:?}");
    }
    for name in ["", "a\nb", &"x".repeat(1025)] {
        assert!(check_object_name(name).is_err(), "{name}");
    }
    assert!(check_object_name("ordner/größe 1.txt").is_ok());
}
