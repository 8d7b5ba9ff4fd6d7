use super::*;

const LONG: usize = KEPT_BYTES_MIN;

#[test]
fn long_parts_are_kept_and_short_ones_are_joined_in_their_order() {
    let all: Bytes = (0..LONG * 5).map(|at| (at ^ (at >> 8)) as u8).collect::<Vec<_>>().into();
    let (mut gathered, mut rest, mut came) = (Gathered::default(), all.clone(), Vec::new());
    for bytes in [1, 2, LONG, 3, LONG - 1, LONG - 1, LONG, 1] {
        let part = rest.split_to(bytes);
        came.push(part.as_ptr());
        gathered.add(part);
    }
    let parts = gathered.finish();
    let lengths: Vec<usize> = parts.iter().map(Bytes::len).collect();
    assert_eq!(lengths, [3, LONG, LONG + 2, LONG - 1, LONG, 1]);
    assert!(parts.concat() == all[..all.len() - rest.len()]);
    assert_eq!([parts[1].as_ptr(), parts[4].as_ptr()], [came[2], came[6]], "they are not copied");
}
