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
fn slices_end_at_frames_and_skip_the_checks() {
    // Two full frames and one of 10 bytes, the checks filled with 0xff.
    let payload: Vec<u8> = (0..2 * FRAME + 10).map(|i| (i % 251) as u8).collect();
    let raw: Vec<u8> = payload.chunks(FRAME as usize).flat_map(|frame| [frame, &[0xff; 8]].concat()).collect();
    let mut held = Held::new(1, payload.len() as u64);
    held.insert(0, FRAME..payload.len() as u64, Bytes::from(raw[FRAME as usize + 8..].to_vec()));
    held.insert(0, 0..FRAME, Bytes::from(raw[..FRAME as usize + 8].to_vec()));
    assert_eq!(held.slice(0, 5), &payload[5..FRAME as usize]);
    assert_eq!(held.slice(0, 2 * FRAME + 3), &payload[2 * FRAME as usize + 3..]);
    let mut out = vec![0; payload.len() - 7];
    held.copy(0, 7, &mut out);
    assert_eq!(out, &payload[7..]);
    assert!(held.lacks(0, 0..payload.len() as u64).is_empty());
}
