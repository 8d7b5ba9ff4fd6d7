use super::*;

#[test]
fn slices_end_at_frames_and_skip_the_checks() {
    // Two full frames and one of 10 bytes, the checks filled with 0xff.
    let payload: Vec<u8> = (0..2 * FRAME + 10).map(|i| (i % 251) as u8).collect();
    let raw: Vec<u8> = payload.chunks(FRAME as usize).flat_map(|frame| [frame, &[0xff; 8]].concat()).collect();
    let mut held = Held::new(1);
    held.insert(0, FRAME..payload.len() as u64, Bytes::from(raw[FRAME as usize + 8..].to_vec()));
    held.insert(0, 0..FRAME, Bytes::from(raw[..FRAME as usize + 8].to_vec()));
    assert_eq!(held.slice(0, 5), &payload[5..FRAME as usize]);
    assert_eq!(held.slice(0, 2 * FRAME + 3), &payload[2 * FRAME as usize + 3..]);
    let mut out = vec![0; payload.len() - 7];
    held.copy(0, 7, &mut out);
    assert_eq!(out, &payload[7..]);
}
