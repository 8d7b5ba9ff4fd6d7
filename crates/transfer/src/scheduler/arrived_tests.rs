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
