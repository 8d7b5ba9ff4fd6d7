use super::*;

/// Names tell 4 GiB: symbols that lie side by side beyond that are pieces of their own, and none is lost.
#[test]
#[cfg(target_pointer_width = "64")]
fn pieces_are_no_longer_than_names_can_tell() {
    let (symbol_bytes, slice_bytes) = (1 << 30, 4096);
    // Nobody touches what is only placed.
    let (start, other) = (1 << 40, 1 << 44);
    let end = start + 4 * symbol_bytes;
    let given = [(start, 4 * symbol_bytes), (end, 5 * symbol_bytes), (other, symbol_bytes)];
    let mut scratch = Scratch::default();
    scratch.place(given.into_iter(), symbol_bytes, 2, slice_bytes);
    let reaches: Vec<usize> = scratch.extents.iter().map(|extent| extent.symbol_count * extent.pitch_bytes).collect();
    assert!(reaches.iter().all(|&reach| u32::try_from(reach).is_ok()), "{reaches:?}");
    let addresses_of = |(start, extent): (&usize, &Extent)| {
        (0..extent.symbol_count).map(|index| start + index * extent.pitch_bytes).collect::<Vec<_>>()
    };
    let addresses: Vec<usize> = scratch.starts.iter().zip(&scratch.extents).flat_map(addresses_of).collect();
    let expected: Vec<usize> = (0..9).map(|index| start + index * symbol_bytes).chain([other]).collect();
    assert_eq!(addresses[..10], expected);
    assert_eq!((addresses.len(), addresses[11] - addresses[10]), (12, slice_bytes));
    assert_eq!(scratch.starts.len() - scratch.given_piece_count, 1);
}
