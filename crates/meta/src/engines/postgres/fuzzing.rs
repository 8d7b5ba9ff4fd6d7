//! What a server answers about its state, for `crates/fuzz`.

use super::feed::{keys_of, notifications};
use std::collections::BTreeSet;

/// A notification.
pub(crate) fn notification(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    let Some((session, keys)) = keys_of(text) else { return };
    let keys: BTreeSet<Vec<u8>> = keys.into_iter().collect();
    let mut again = BTreeSet::new();
    for text in notifications(session, keys.clone()) {
        let (from, keys) = keys_of(&text).expect("it was made here");
        assert_eq!(from, session);
        again.extend(keys);
    }
    assert_eq!(again, keys);
}

pub(crate) fn notification_seeds() -> Vec<Vec<u8>> {
    let keys = BTreeSet::from([b"\x02\0\0\0\0\0\0\0\x01".to_vec(), b"key".to_vec()]);
    notifications(-7, keys).into_iter().map(String::into_bytes).collect()
}
