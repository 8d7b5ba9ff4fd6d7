use super::*;
use proptest::prelude::*;

fn geometry(data_bytes: u64, native_count: u32, alpha: u32, symbol_bytes: u32, alignment_bytes: u32) -> Geometry {
    Geometry { data_bytes, native_count, alpha, symbol_bytes, alignment_bytes, source_count: 1 }
}

#[test]
fn ten_megabytes_in_rs_4_2() {
    let geometry = Geometry::new(10_000_000, 4, 1, 1, CELL_BYTES_TARGET).unwrap();
    assert_eq!(geometry.symbol_bytes, 65_536);
    assert_eq!(geometry.stripe_count(), 39);
    let last = geometry.stripe(38);
    assert_eq!(last.data, 9_961_472..10_000_000);
    assert_eq!(last.symbol_bytes, 9_632);
    assert_eq!(last.cell, 2_490_368..2_500_000);
    assert_eq!(geometry.payload_bytes(), 2_500_000);
}

#[test]
fn the_last_stripe_may_leave_natives_empty() {
    let geometry = geometry(1, 4, 1, 64, 8);
    geometry.validate().unwrap();
    let stripe = geometry.stripe(0);
    assert_eq!(stripe.symbol_bytes, 8);
    assert_eq!(geometry.native_range(&stripe, 0), 0..1);
    assert_eq!(geometry.native_range(&stripe, 3), 1..1);
    assert_eq!(geometry.payload_bytes(), 8);
}

#[test]
fn past_the_last_stripe_there_is_nothing() {
    let stripe = geometry(100, 2, 3, 8, 8).stripe(u32::MAX);
    assert!(stripe.data.is_empty() && stripe.cell.is_empty());
    assert_eq!(stripe.symbol_bytes, 0);
}

#[test]
fn new_keeps_alignment_and_cell_target() {
    // alpha, alignment -> symbol bytes of a 64 KiB cell.
    for (alpha, alignment, expected) in [(1, 1, 65_536), (3, 1, 21_824), (3, 8, 21_824), (7, 24, 9_360), (2_048, 1, 32)]
    {
        assert_eq!(Geometry::new(1, 4, alpha, alignment, CELL_BYTES_TARGET).unwrap().symbol_bytes, expected);
    }
    assert_eq!(Geometry::new(1, 4, 100, 4_096, CELL_BYTES_TARGET).unwrap().symbol_bytes, 4_096);
}

#[test]
fn hostile_numbers_are_refused() {
    for (data_bytes, native_count, alpha, symbol_bytes, alignment_bytes) in [
        (0, 4, 1, 64, 1),
        (MAX_SEGMENT_BYTES + 1, 4, 1, 64, 1),
        (u64::MAX, u32::MAX, u32::MAX, u32::MAX, 1),
        (1, 0, 1, 64, 1),
        (1, 1, 0, 64, 1),
        (1, 1, 1, 0, 1),
        (1, 1, 1, 64, 0),
        (1, 1, 1, 65, 2),
        (MAX_SEGMENT_BYTES, 1, u32::MAX, 1, 1),
        (MAX_SEGMENT_BYTES, 1, 3, 64, 64),
        (1, 1, 1, u32::MAX, u32::MAX),
    ] {
        let hostile = geometry(data_bytes, native_count, alpha, symbol_bytes, alignment_bytes);
        assert!(hostile.validate().is_err(), "{hostile:?}");
    }
    assert_eq!(Geometry::new(1, 1, 0, 1, 1), Err(GeometryError::Zero { what: "number of symbols per cell" }));
}

fn valid() -> impl Strategy<Value = Geometry> {
    (1u64..200_000, 1u32..20, 1u32..10, 1u32..9, 1u32..200).prop_map(
        |(data_bytes, native_count, alpha, alignment_bytes, units)| {
            geometry(data_bytes, native_count, alpha, units * alignment_bytes, alignment_bytes)
        },
    )
}

proptest! {
    #[test]
    fn stripes_tile_data_and_payload(geometry in valid()) {
        geometry.validate().unwrap();
        let (mut data, mut payload) = (0, 0);
        for index in 0..geometry.stripe_count() {
            let stripe = geometry.stripe(index);
            prop_assert_eq!(stripe.data.start, data);
            prop_assert_eq!(stripe.cell.start, payload);
            prop_assert!(!stripe.data.is_empty());
            prop_assert!(stripe.symbol_bytes <= geometry.symbol_bytes);
            prop_assert_eq!(stripe.symbol_bytes % geometry.alignment_bytes, 0);
            prop_assert_eq!(stripe.cell.end - stripe.cell.start, u64::from(stripe.symbol_bytes) * u64::from(geometry.alpha));
            let mut native_end = stripe.data.start;
            for native in 0..geometry.native_count {
                let range = geometry.native_range(&stripe, native);
                prop_assert_eq!(range.start, native_end);
                native_end = range.end;
            }
            prop_assert_eq!(native_end, stripe.data.end);
            prop_assert_eq!(geometry.symbol_range(&stripe, geometry.alpha - 1).end, stripe.cell.end);
            (data, payload) = (stripe.data.end, stripe.cell.end);
        }
        prop_assert_eq!(data, geometry.data_bytes);
        prop_assert_eq!(payload, geometry.payload_bytes());
    }

    #[test]
    fn pieces_tile_any_range(geometry in valid(), a in 0u64..250_000, b in 0u64..250_000) {
        let range = a.min(b)..a.max(b);
        let mut at = range.start.min(geometry.data_bytes);
        for piece in geometry.pieces(range.clone()) {
            prop_assert_eq!(piece.data_offset, at);
            let native = geometry.native_range(&geometry.stripe(piece.stripe), piece.native);
            prop_assert_eq!(native.start + u64::from(piece.within_symbol.start), at);
            prop_assert!(!piece.within_symbol.is_empty());
            at = native.start + u64::from(piece.within_symbol.end);
            prop_assert!(at <= native.end);
        }
        prop_assert_eq!(at, range.end.min(geometry.data_bytes));
        let stripes: Vec<_> = geometry.stripes_of(range.clone()).collect();
        prop_assert_eq!(geometry.stripes().count() as u32, geometry.stripe_count());
        let expected: Vec<_> = (0..geometry.stripe_count())
            .map(|index| geometry.stripe(index))
            .filter(|stripe| stripe.data.start < range.end && range.start < stripe.data.end && !range.is_empty())
            .collect();
        prop_assert_eq!(stripes, expected);
    }

    #[test]
    fn sources_lie_as_they_would_by_themselves(source in valid(), count in 2u32..9, twice: bool, a in 0u64..2_000_000, b in 0u64..2_000_000) {
        let merged = if twice { source.merged(1).merged(count) } else { source.merged(count) };
        merged.validate().unwrap();
        prop_assert_eq!(merged.source(), source);
        prop_assert_eq!((merged.payload_bytes(), merged.stripe_count()), (source.payload_bytes(), source.stripe_count()));
        for (stripe, of_source) in merged.stripes().zip(source.stripes()) {
            prop_assert_eq!(&stripe, &of_source);
            for native in 0..merged.native_count {
                let before = u64::from(native / source.native_count) * source.data_bytes;
                let range = source.native_range(&stripe, native % source.native_count);
                prop_assert_eq!(merged.native_range(&stripe, native), before + range.start..before + range.end);
            }
        }
        let range = a.min(b)..a.max(b);
        let of_sources = (0..count).flat_map(|number| {
            let before = u64::from(number) * source.data_bytes;
            let within = range.start.saturating_sub(before)..range.end.saturating_sub(before);
            source.pieces(within).map(move |piece| Piece {
                native: number * source.native_count + piece.native,
                data_offset: before + piece.data_offset,
                ..piece
            })
        });
        prop_assert_eq!(merged.pieces(range.clone()).collect::<Vec<_>>(), of_sources.collect::<Vec<_>>());
    }

    #[test]
    fn whole_stripes_are_all_of_those_that_a_range_touches(source in valid(), count in 1u32..5, a in 0u64..1_000_000, b in 0u64..1_000_000) {
        let geometry = source.merged(count);
        let range = a.min(b)..a.max(b);
        let stripe_of = |piece: &Piece| (piece.data_offset / source.data_bytes, piece.stripe);
        let touched: std::collections::BTreeSet<_> = geometry.pieces(range.clone()).map(|piece| stripe_of(&piece)).collect();
        let mut whole = geometry.clip(range.clone());
        for piece in geometry.pieces(0..geometry.data_bytes).filter(|piece| touched.contains(&stripe_of(piece))) {
            whole.start = whole.start.min(piece.data_offset);
            whole.end = whole.end.max(piece.data_offset + piece.within_symbol.len() as u64);
        }
        prop_assert_eq!(geometry.whole_stripes(range), whole);
    }

    #[test]
    fn validate_never_panics_and_bounds_all(data_bytes: u64, native_count: u32, alpha: u32, symbol_bytes: u32, alignment_bytes: u32) {
        let any = geometry(data_bytes % (2 * MAX_SEGMENT_BYTES), native_count, alpha, symbol_bytes, alignment_bytes);
        if any.validate().is_ok() {
            prop_assert!(any.payload_bytes() <= MAX_PAYLOAD_BYTES);
            prop_assert!(any.stripe(0).data.end <= any.data_bytes);
        }
    }
}
