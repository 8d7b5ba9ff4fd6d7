use super::*;

/// `(set, kind, after, upto, bytes)` in one part.
fn piece(set: u64, kind: ReplicaKind, after: u64, upto: u64, bytes: u64) -> (SegmentId, ReplicaHeader) {
    let header =
        ReplicaHeader { lineage: 1, opening: 3, kind, set, part: 0, is_last: true, after, upto, at_ms: upto, bytes };
    (SegmentId(u128::from(set)), header)
}

fn snapshot(set: u64, after: u64, upto: u64) -> (SegmentId, ReplicaHeader) {
    piece(set, ReplicaKind::Snapshot, after, upto, 100)
}

fn changes(set: u64, after: u64, upto: u64) -> (SegmentId, ReplicaHeader) {
    piece(set, ReplicaKind::Changes, after, upto, 10)
}

fn found(pieces: &[(SegmentId, ReplicaHeader)]) -> Option<(u64, Vec<u64>)> {
    let chain = newest(&pieces.iter().copied().collect(), None)?;
    Some((chain.upto(), chain.pieces().map(|id| id.0 as u64).collect()))
}

#[test]
fn the_newest_state_has_no_gap() {
    assert_eq!(found(&[]), None);
    assert_eq!(found(&[changes(1, 0, 5)]), None, "without a snapshot there is nothing");
    assert_eq!(found(&[snapshot(1, 5, 5)]), Some((5, vec![1])));
    assert_eq!(found(&[snapshot(1, 5, 7)]), None, "it is of no one moment");
    assert_eq!(found(&[snapshot(1, 5, 7), changes(2, 5, 6)]), None);
    assert_eq!(found(&[snapshot(1, 5, 7), changes(2, 5, 6), changes(3, 6, 9)]), Some((9, vec![1, 2, 3])));
    assert_eq!(found(&[snapshot(1, 5, 5), changes(2, 5, 6), changes(3, 7, 9)]), Some((6, vec![1, 2])), "7 is missing");
    // A merged set takes the place of those that it has.
    assert_eq!(
        found(&[snapshot(1, 5, 5), changes(2, 5, 6), changes(3, 6, 9), changes(4, 5, 11), changes(5, 9, 12)]),
        Some((12, vec![1, 4, 5]))
    );
    // A newer snapshot under way changes nothing.
    let mut part = snapshot(6, 12, 12);
    part.1.is_last = false;
    assert_eq!(found(&[snapshot(1, 5, 5), changes(2, 5, 12), part]), Some((12, vec![1, 2])));
}

#[test]
fn a_part_that_is_missing_is_found_out() {
    let part = |id: u64, part: u32, is_last: bool| {
        let (_, header) = snapshot(1, 5, 5);
        (SegmentId(u128::from(id)), ReplicaHeader { part, is_last, ..header })
    };
    assert_eq!(found(&[part(1, 0, false), part(2, 1, false), part(3, 2, true)]), Some((5, vec![1, 2, 3])));
    assert_eq!(found(&[part(1, 0, false), part(3, 2, true)]), None);
    assert_eq!(found(&[part(1, 0, false), part(2, 1, false)]), None);
    assert_eq!(found(&[part(1, 0, false), part(2, 1, true), part(9, 1, true)]).map(|found| found.1.len()), Some(2));
}

#[test]
fn a_later_opening_wins_over_a_longer_past() {
    let mut fork = changes(3, 5, 9);
    let mut newer = changes(4, 5, 7);
    (fork.1.opening, newer.1.opening) = (3, 4);
    assert_eq!(found(&[snapshot(1, 5, 5), fork, newer]), Some((7, vec![1, 4])));
    let mut restored = snapshot(7, 1, 1);
    (restored.1.lineage, restored.1.opening) = (2, 5);
    assert_eq!(found(&[snapshot(1, 5, 5), fork, newer, restored]), Some((1, vec![7])), "it was continued from a copy");
}

#[test]
fn each_change_is_stored_about_once_for_each_level() {
    let (mut sets, mut stored): (Vec<u64>, u64) = (Vec::new(), 0);
    for _ in 0..10_000 {
        let first = merged_from(&sets);
        let merged = sets.drain(first..).sum::<u64>() + 1000;
        stored += merged;
        sets.push(merged);
    }
    assert!(sets.len() < 80, "{}", sets.len());
    assert!(stored < 10_000 * 1000 * 6, "each is stored {} times", stored / 10_000_000);
    // The same few keys again and again: the merged set is as short as each.
    let (mut sets, mut stored) = (Vec::new(), 0);
    for _ in 0..10_000 {
        sets.truncate(merged_from(&sets));
        stored += 1000;
        sets.push(1000);
    }
    assert!(sets.len() <= 16 && stored == 10_000_000);
}

#[test]
fn when_more_has_changed_than_there_is_all_is_stored() {
    let chain = |bytes: u64| Chain {
        lineage: 1,
        snapshot: whole_set(&[(0, snapshot(1, 5, 5))].into()).expect("whole"),
        changes: vec![Set { bytes, ..whole_set(&[(0, changes(2, 5, 9))].into()).expect("whole") }],
    };
    let sizes = ReplicaSizes::default();
    assert!(is_snapshot_due(None, 10, sizes));
    assert!(!is_snapshot_due(Some(&chain(1000)), 10, sizes));
    assert_eq!(changes_from(&chain(1000), None), 9);
    assert!(is_snapshot_due(Some(&chain(sizes.changed_bytes_min + 1)), 10, sizes));
    assert!(is_snapshot_due(Some(&chain(1000)), 6 + TRANSACTIONS_MAX, sizes), "its list of changes is long");
}

#[test]
fn what_a_snapshot_under_way_will_replace_is_not_merged_with_what_follows_it() {
    let set = |after: u64| whole_set(&[(0, changes(after, after, after + 1))].into()).expect("whole");
    let chain = Chain {
        lineage: 1,
        snapshot: whole_set(&[(0, snapshot(1, 5, 5))].into()).expect("whole"),
        changes: (5..5 + MERGED_COUNT as u64 + 2).map(set).collect(),
    };
    assert_eq!(changes_from(&chain, None), 5, "all are of one level");
    assert_eq!(changes_from(&chain, Some(8)), chain.upto(), "those since then are too few");
    assert_eq!(changes_from(&chain, Some(7)), 7);
}

#[test]
fn what_is_needless_is_of_the_same_lineage_and_no_later() {
    let (mut other, later) = (snapshot(9, 1, 1), changes(8, 12, 20));
    other.1.lineage = 2;
    let pieces: Pieces = [snapshot(1, 5, 5), changes(2, 5, 6), changes(3, 5, 9), later, other].into_iter().collect();
    let chain = newest(&pieces, Some(1)).expect("a chain");
    assert_eq!(superseded(&chain, &pieces).map(|id| id.0).collect::<Vec<_>>(), [2]);
}
