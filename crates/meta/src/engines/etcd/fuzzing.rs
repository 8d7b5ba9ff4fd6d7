//! Keys and values of a server, for `crates/fuzz`.

use super::layout::{Layout, Row, stored, stored_delta};

const PREFIX: &[u8] = b"weft/";

/// A key behind the store's prefix, after its length, and what is stored under it.
pub(crate) fn row(bytes: &[u8]) {
    let Some((&length, rest)) = bytes.split_first() else { return };
    let Some((key, value)) = rest.split_at_checked(usize::from(length)) else { return };
    let (layout, key) = (Layout::new(PREFIX), [PREFIX, key].concat());
    if let Some((role, lease)) = layout.session_of(&key) {
        assert_eq!(layout.session(role, lease), key);
    }
    let changed = layout.changed(&key);
    match layout.row(&key, value) {
        Some((found, Row::Value(bytes))) => {
            assert_eq!((layout.value(&found), &stored(&bytes)[..], changed), (key, value, Some(found)));
        }
        Some((found, Row::Delta(bytes))) => {
            let (start, end) = layout.deltas(&found);
            assert!(key >= start && key < end, "it is among the deltas of its key");
            assert_eq!((&stored_delta(&bytes)[..], changed), (value, Some(found)));
        }
        None => {}
    }
}

pub(crate) fn row_seeds() -> Vec<Vec<u8>> {
    let layout = Layout::new(b"");
    let row = |key: Vec<u8>, value: Vec<u8>| [&[key.len() as u8][..], &key, &value].concat();
    vec![
        row(layout.session(2, -5), Vec::new()),
        row(layout.value(b"a\0b"), stored(b"value")),
        row(layout.delta(b"a\0b", 1, 2), stored_delta(b"delta")),
    ]
}
