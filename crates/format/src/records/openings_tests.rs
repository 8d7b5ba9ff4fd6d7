use super::*;

fn key(opening: u32, count: u32, generation: u32) -> ShardKey {
    let segment = SegmentId::of_opening(1_700_000_000_000, opening, count, 0xabcd);
    ShardKey { segment, generation: Generation(generation), index: ShardIndex(0) }
}

fn opened(times: u32) -> OpeningsRecord {
    (0..times).fold(OpeningsRecord::default(), |record, number| record.followed_by(number.into(), 7))
}

fn settled(record: &OpeningsRecord, below: u32) -> OpeningsRecord {
    let latest = record.latest.map(|latest| Latest { settled_below: below, ..latest });
    OpeningsRecord { latest, ..record.clone() }
}

#[test]
fn an_id_says_by_which_opening_it_was_given_out() {
    let id = SegmentId::of_opening(0x0190_a1b2_c3d4, 0x0102_0304, 0x0a0b_0c0d, 0xbeef);
    assert_eq!(id.to_string(), "0190a1b2c3d4010203040a0b0c0dbeef");
    assert_eq!((id.created_ms(), id.opening(), id.count()), (0x0190_a1b2_c3d4, 0x0102_0304, 0x0a0b_0c0d));
}

#[test]
fn finding_04_of_the_latest_opening_only_what_is_settled_is_over() {
    let record = settled(&opened(3), 10);
    assert_eq!(record.number(), 3);
    assert_eq!(record.fate(key(3, 9, 1)), Fate::Over);
    assert_eq!(record.fate(key(3, 10, 1)), Fate::Open, "its writer may sleep for a week");
    assert_eq!(record.fate(key(3, SegmentId::OF_WORKERS, 1)), Fate::Over, "workers are fenced by their lease");
    for earlier in [1, 2] {
        assert_eq!(record.fate(key(earlier, 1 << 30, 1)), Fate::Over, "its owner has ended");
    }
    assert_eq!(record.over, [(1, 2)]);
}

#[test]
fn finding_05_what_is_of_an_opening_of_other_metadata_is_unknown() {
    let copy = settled(&opened(3), 10);
    assert_eq!(copy.fate(key(4, 0, 1)), Fate::Unknown);
    assert_eq!(copy.fate(key(0, 0, 1)), Fate::Unknown);
    // Made the volume's metadata when nodes had seen six more.
    let restored = copy.restored(9, 5, 8).followed_by(6, 9);
    assert_eq!((restored.number(), restored.restored_by), (11, 10));
    for number in 4..=9 {
        assert_eq!(restored.fate(key(number, 0, 1)), Fate::Unknown);
    }
    assert_eq!(restored.fate(key(3, 9, 1)), Fate::Over);
    assert_eq!(restored.fate(key(3, 10, 1)), Fate::Unknown, "the original went on with it");
    assert_eq!(restored.fate(key(2, 10, 77)), Fate::Unknown, "a conversion by the original, perhaps");
    assert_eq!(restored.fate(key(10, 10, 77)), Fate::Over);
    assert_eq!(restored.fate(key(11, 0, 1)), Fate::Open);
    // An opening is given out twice by nobody, whatever nodes say.
    assert_eq!(copy.restored(1, 5, 8).number(), 4);
    // A node may lie.
    assert_eq!(copy.restored(u32::MAX, 5, 8).followed_by(6, 9).number(), u32::MAX);
}

#[test]
fn a_record_is_read_as_it_was_written_and_a_wrong_one_refused() {
    for record in [OpeningsRecord::default(), opened(1), settled(&opened(4), 77), opened(4).restored(9, 5, 8)] {
        assert_eq!(OpeningsRecord::decode(&record.encode()), Ok(record));
    }
    let wrong = [
        OpeningsRecord { over: vec![(3, 2)], ..opened(5) },
        OpeningsRecord { over: vec![(1, 2), (2, 3)], ..opened(5) },
        OpeningsRecord { over: vec![(1, 5)], ..opened(5) },
        OpeningsRecord { left: vec![(5, 1)], ..opened(5) },
        OpeningsRecord { restored_by: 6, ..opened(5) },
    ];
    for record in wrong {
        let refused = OpeningsRecord::decode(&record.encode());
        assert!(matches!(refused, Err(RecordError::Damaged { .. })), "{record:?}: {refused:?}");
    }
    let opening = Opening { number: 3, tag: 1 << 100, began_ms: 9 };
    assert_eq!(Opening::decode(&opening.encode()), Ok(opening));
    assert!(Opening::decode(&Opening { number: 0, ..opening }.encode()).is_err());
}
