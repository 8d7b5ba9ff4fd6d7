//! Decoders that are nobody else's business, for `crates/fuzz`.

use crate::deleted::{deleted_value, parse_deleted};
use weft_format::Ino;

/// The value of an attribute that restores or purges what was deleted.
pub fn deleted(bytes: &[u8]) {
    if let Ok((deleted_ms, ino)) = parse_deleted(bytes) {
        let again = parse_deleted(deleted_value(deleted_ms, ino).as_bytes());
        assert!(again.is_ok_and(|again| again == (deleted_ms, ino)));
    }
}

/// One.
#[must_use]
pub fn deleted_seeds() -> Vec<Vec<u8>> {
    vec![deleted_value(1_700_000_000_000, Ino(77)).into_bytes()]
}
