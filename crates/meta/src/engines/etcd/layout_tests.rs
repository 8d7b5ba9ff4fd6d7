use super::*;
use proptest::prelude::*;

fn key() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop_oneof![Just(0), Just(1), Just(2), Just(3), Just(254), Just(255), any::<u8>()], 0..6)
}

#[test]
fn a_store_has_its_keys_where_the_format_says() {
    let layout = Layout::new(b"weft/");
    assert_eq!(layout.everything(), (b"weft/".to_vec(), b"weft0".to_vec()));
    assert_eq!(layout.session(2, 5), b"weft/s\x02\0\0\0\0\0\0\0\x05");
    assert_eq!(layout.session_of(&layout.session(2, -5)), Some((2, -5)));
    assert_eq!(layout.slot(1, 2), b"weft/a\0\0\0\0\0\0\0\x01\0\0\0\x02");
    assert_eq!(layout.value(b"a\0b"), b"weft/ka\0\xffb\0\x01");
    assert_eq!(layout.delta(b"a", 1, 2), b"weft/ka\0\x02\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x02");
}

proptest! {
    #[test]
    fn keys_keep_their_order_and_their_deltas(a in key(), b in key()) {
        let layout = Layout::new(b"weft/");
        let (value, delta) = (layout.value(&a), layout.delta(&a, 1, 2));
        prop_assert_eq!(layout.row(&value, &stored(b"v")), Some((a.clone(), Row::Value(b"v".to_vec()))));
        prop_assert_eq!(layout.row(&delta, &stored_delta(b"d")), Some((a.clone(), Row::Delta(b"d".to_vec()))));
        let (start, end) = layout.with_deltas(&a);
        for row in [&layout.value(&b), &layout.delta(&b, i64::MAX, -1)] {
            prop_assert_eq!((&start..&end).contains(&row), a == b);
            prop_assert_eq!((&layout.range(&a, b"\xff\xff").0..&layout.range(b"", b"\xff\xff\xff\xff\xff\xff\xff").1).contains(&row), a <= b);
            prop_assert_eq!(*row < layout.range(&a, &a).1, b < a);
            prop_assert_eq!(*row >= layout.after(&a), b > a);
        }
    }

    #[test]
    fn what_is_no_row_is_none(key in prop::collection::vec(any::<u8>(), 0..24), value in prop::collection::vec(any::<u8>(), 0..4)) {
        let layout = Layout::new(b"weft/");
        let key = [&b"weft/k"[..], &key].concat();
        if let Some((found, Row::Value(bytes))) = layout.row(&key, &value) {
            prop_assert_eq!((layout.value(&found), stored(&bytes)), (key, value));
        }
    }
}
