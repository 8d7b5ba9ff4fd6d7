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
fn openings_of_several_processes_go_on_beside_each_other() {
    let joined = |record: &OpeningsRecord, session: i64, live: &[i64]| {
        record.joined_by(session, |session| !live.contains(&session), 1, 7)
    };
    let alone = opened(2);
    let one = joined(&alone, 10, &[10]);
    assert_eq!((one.number(), one.beside.len(), &one.over[..]), (3, 0, &[(1, 2)][..]), "who was alone has ended");
    let two = joined(&one, 11, &[10, 11]);
    let three = joined(&two, 12, &[10, 11, 12]);
    assert_eq!(three.current().map(|current| current.session).collect::<Vec<_>>(), [10, 11, 12]);
    for opening in 3..=5 {
        assert_eq!(three.fate(key(opening, 0, 1)), Fate::Open, "{opening}");
    }
    assert!(!three.follows(1));
    let mut settled = three.clone();
    settled.current_mut(4).expect("it is current").settled_below = 9;
    assert_eq!([8, 9].map(|count| settled.fate(key(4, count, 1))), [Fate::Over, Fate::Open]);
    // The one in the middle ends, then the latest.
    let ended = settled.without(|session| session == 11);
    assert_eq!((&ended.over[..], ended.fate(key(4, 9, 1))), (&[(1, 2), (4, 4)][..], Fate::Over));
    let ended = ended.without(|session| session == 12);
    assert_eq!((ended.number(), ended.fate(key(5, 0, 1)), ended.fate(key(3, 0, 1))), (5, Fate::Over, Fate::Open));
    assert!(!ended.follows(1), "the first has not followed");
    let next = joined(&ended, 13, &[10, 13]);
    assert_eq!((&next.over[..], next.current().count()), (&[(1, 2), (4, 5)][..], 2));
    assert_eq!(next.followed_by(1, 7).over, [(1, 6)]);
    assert_eq!(OpeningsRecord::decode(&next.encode()), Ok(next.clone()));
    assert_eq!(next.restored(9, 5, 8).left.len(), 2);
    let wrong = OpeningsRecord { beside: next.latest.into_iter().collect(), ..next };
    assert!(OpeningsRecord::decode(&wrong.encode()).is_err());
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

#[test]
fn a_renewed_opening_leaves_what_the_process_stores_under_the_number_that_it_began_with() {
    let renewed = settled(&opened(3), 10).renewed(0, 5, 8).renewed(0, 6, 9);
    assert_eq!((renewed.number(), &renewed.over[..]), (5, &[(1, 2), (4, 4)][..]));
    assert_eq!([9, 10].map(|count| renewed.fate(key(3, count, 1))), [Fate::Over, Fate::Open]);
    assert_eq!(renewed.fate(key(5, 0, 1)), Fate::Over, "it has no segments");
    assert!(!renewed.follows(1), "the process places segments yet");
    assert_eq!(OpeningsRecord::decode(&renewed.encode()).expect("whole"), renewed);
    let followed = renewed.followed_by(7, 10);
    assert_eq!((followed.number(), &followed.over[..], followed.beside.len()), (6, &[(1, 5)][..], 0));
    // Of several processes each renews for all: a copy is older by any of them.
    let joined =
        OpeningsRecord::default().joined_by(10, |_| false, 1, 7).renewed(10, 2, 8).joined_by(11, |_| false, 3, 9);
    assert_eq!(joined.current().map(|current| current.session).collect::<Vec<_>>(), [10, 11]);
    assert_eq!(joined.without(|session| session == 10).over, [(1, 2)]);
}
