use super::*;

fn piece() -> Replica {
    let header = ReplicaHeader {
        lineage: u64::MAX,
        opening: 7,
        kind: ReplicaKind::Changes,
        set: 9,
        part: 1,
        is_last: true,
        after: 10,
        upto: 12,
        at_ms: 13,
        bytes: 303,
    };
    let slots = vec![(b"a".to_vec(), Some(Vec::new())), (b"b".to_vec(), None), (b"c".to_vec(), Some(vec![5; 300]))];
    Replica { header, slots }
}

#[test]
fn a_piece_is_read_as_it_was_written() {
    let bytes = piece().encode();
    assert_eq!(Replica::decode(&bytes), Ok(piece()));
    assert_eq!(ReplicaHeader::decode(&bytes[..80]), Ok(piece().header));
}

#[test]
fn what_is_cut_or_in_no_order_is_refused() {
    let bytes = piece().encode();
    let whole_slots =
        |end: usize| Replica::decode(&bytes[..end]).is_ok_and(|cut| piece().slots.starts_with(&cut.slots));
    for end in 0..bytes.len() {
        assert!(Replica::decode(&bytes[..end]).is_err() || whole_slots(end), "{end}");
    }
    let mut turned = piece();
    turned.slots.swap(0, 1);
    assert!(Replica::decode(&turned.encode()).is_err());
    let backwards = Replica { header: ReplicaHeader { upto: 9, ..piece().header }, slots: Vec::new() };
    assert!(Replica::decode(&backwards.encode()).is_err());
}

#[test]
fn ids_of_pieces_are_those_of_no_segment_and_no_opening() {
    let id = replica_id(7, u64::MAX, u64::MAX);
    assert!(is_replica(id) && is_replica(first_replica()) && first_replica() < id);
    assert_eq!(id.opening(), 7);
    assert!(!is_replica(super::super::OPENINGS) && !is_replica(SegmentId::new(1_700_000_000_000, u128::MAX)));
}

#[test]
fn ids_of_pieces_ascend_as_openings_and_moments_do() {
    let last = |last| Reached { lineage: 1, opening: 7, last, later: None }.last_id();
    let ids = [
        replica_id(7, 0, 0),
        replica_id(7, 0, 1),
        last(0),
        replica_id(7, 1, 0),
        last(1),
        replica_id(7, 1 << 33, 0),
        replica_id(8, 0, 0),
    ];
    assert!(ids.is_sorted_by(|one, next| one < next), "{ids:?}");
    assert!(ids.iter().all(|id| is_replica(*id)));
}
