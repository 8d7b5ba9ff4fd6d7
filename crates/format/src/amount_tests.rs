use super::*;
use proptest::prelude::*;

proptest! {
    #[test]
    fn what_is_shown_is_read_again(bytes in 1u64.., shift in 0u32..64) {
        let bytes = (bytes >> shift << shift).max(1);
        prop_assert_eq!(parse_bytes(&show_bytes(bytes)).map(NonZeroU64::get), Some(bytes));
    }
}

#[test]
fn shown_in_the_largest_unit_that_fits() {
    for (bytes, text) in
        [(0, "0B"), (1, "1B"), (4095, "4095B"), (4096, "4KiB"), (3 << 29, "1536MiB"), (1 << 60, "1EiB")]
    {
        assert_eq!(show_bytes(bytes), text);
    }
}
