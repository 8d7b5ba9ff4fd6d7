use super::*;

#[test]
fn subtracting_leaves_what_no_hole_covers() {
    let left = |range, holes: &[Range<u64>]| {
        let left = subtract(range, holes.iter().cloned());
        left.into_iter().map(|part| (part.start, part.end)).collect::<Vec<_>>()
    };
    assert_eq!(left(0..10, &[]), [(0, 10)]);
    assert_eq!(left(0..10, &[2..4, 6..8]), [(0, 2), (4, 6), (8, 10)]);
    assert_eq!(left(3..7, &[0..4, 6..9]), [(4, 6)]);
    assert_eq!(left(3..7, &[8..9, 0..2]), [(3, 7)]);
    assert_eq!(left(3..7, &[7..9, 0..3]), [(3, 7)]);
    assert_eq!(left(0..10, &[0..4, 4..10]), []);
}

#[test]
fn parts_that_touch_become_one_whatever_their_order() {
    let mut arrived = Arrived::nothing(1, 100_000);
    for part in [20..30, 60..70, 30..40, 5..10, 39..61] {
        arrived.insert(0, part);
    }
    assert_eq!(arrived.shards[0], [5..10, 20..70]);
    assert!(arrived.covers(0, &(20..70)) && arrived.covers(0, &(6..9)));
    assert!(!arrived.covers(0, &(9..21)) && !arrived.covers(0, &(65..71)));
    assert!(arrived.touches(0, &(9..11)) && arrived.touches(0, &(0..100)));
    assert!(!arrived.touches(0, &(10..20)) && !arrived.touches(0, &(70..80)));
    assert_eq!(arrived.lacks(0, 0..80), [0..5, 10..20, 70..80]);
}
