//! Where in etcd's flat list of keys the store has what.
//!
//! ```text
//! NAME/f                               the format of the store
//! NAME/s ROLE LEASE                    a session; ROLE one byte, LEASE eight, big-endian
//! NAME/a SESSION SLOT                  how many commits of a session went through one of its slots, eight and four bytes
//! NAME/l                               a commit is under way that others wait for; whose: a session
//! NAME/k ESCAPED 00 01                 the value of a key, after the byte 00
//! NAME/k ESCAPED 00 02 SESSION NUMBER  a delta that waits for it, after the byte 01; eight bytes each
//! ```
//!
//! In an escaped key the byte 00 is 00 FF, so keys keep their order, and a key with its deltas is one range.

const SESSIONS: u8 = b's';
const ATTEMPTS: u8 = b'a';
const VALUES: u8 = b'k';

const IS_VALUE: u8 = 1;
const IS_DELTA: u8 = 2;
/// The first byte of what is stored.
const VALUE_TAG: u8 = 0;
const DELTA_TAG: u8 = 1;

/// The keys of a store.
#[derive(Clone)]
pub(super) struct Layout {
    prefix: Vec<u8>,
}

/// A range of etcd's keys.
pub(super) type Bounds = (Vec<u8>, Vec<u8>);

/// What a row of the values is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Row {
    Value(Vec<u8>),
    Delta(Vec<u8>),
}

/// The first key beyond all that begin so.
fn end_of(mut prefix: Vec<u8>) -> Vec<u8> {
    // Ours end in a byte below 255.
    if let Some(last) = prefix.last_mut() {
        *last += 1;
    }
    prefix
}

impl Layout {
    pub fn new(prefix: &[u8]) -> Self {
        Self { prefix: prefix.to_vec() }
    }

    fn at(&self, parts: &[&[u8]]) -> Vec<u8> {
        [&self.prefix[..], &parts.concat()].concat()
    }

    /// All of it.
    pub fn everything(&self) -> Bounds {
        (self.prefix.clone(), end_of(self.prefix.clone()))
    }

    pub fn format(&self) -> Vec<u8> {
        self.at(&[b"f"])
    }

    pub fn lock(&self) -> Vec<u8> {
        self.at(&[b"l"])
    }

    pub fn session(&self, role: u8, lease: i64) -> Vec<u8> {
        self.at(&[&[SESSIONS, role], &lease.to_be_bytes()])
    }

    pub fn sessions(&self) -> Bounds {
        let prefix = self.at(&[&[SESSIONS]]);
        (prefix.clone(), end_of(prefix))
    }

    pub fn sessions_of(&self, role: u8) -> Bounds {
        let prefix = self.at(&[&[SESSIONS, role]]);
        (prefix.clone(), end_of(prefix))
    }

    /// The role and lease of a session's key.
    pub fn session_of(&self, key: &[u8]) -> Option<(u8, i64)> {
        let (role, lease) = key.strip_prefix(&self.prefix[..])?.strip_prefix(&[SESSIONS])?.split_first()?;
        Some((*role, i64::from_be_bytes(lease.try_into().ok()?)))
    }

    pub fn slot(&self, session: i64, slot: u32) -> Vec<u8> {
        self.at(&[&[ATTEMPTS], &session.to_be_bytes(), &slot.to_be_bytes()])
    }

    /// What the rows of `key` begin with, but for what they are.
    fn rows_of(&self, key: &[u8]) -> Vec<u8> {
        let mut row = self.at(&[&[VALUES]]);
        row.reserve(key.len() + 2);
        for byte in key {
            row.push(*byte);
            if *byte == 0 {
                row.push(u8::MAX);
            }
        }
        row
    }

    /// A key's value.
    pub fn value(&self, key: &[u8]) -> Vec<u8> {
        [&self.rows_of(key)[..], &[0, IS_VALUE]].concat()
    }

    /// A key's value and deltas.
    pub fn with_deltas(&self, key: &[u8]) -> Bounds {
        let row = self.rows_of(key);
        ([&row[..], &[0, IS_VALUE]].concat(), [&row[..], &[0, IS_DELTA + 1]].concat())
    }

    /// Its deltas.
    pub fn deltas(&self, key: &[u8]) -> Bounds {
        let row = self.rows_of(key);
        ([&row[..], &[0, IS_DELTA]].concat(), [&row[..], &[0, IS_DELTA + 1]].concat())
    }

    pub fn delta(&self, key: &[u8], session: i64, number: i64) -> Vec<u8> {
        [&self.rows_of(key)[..], &[0, IS_DELTA], &session.to_be_bytes(), &number.to_be_bytes()].concat()
    }

    /// The rows of all keys from `start` on, before `end`.
    pub fn range(&self, start: &[u8], end: &[u8]) -> Bounds {
        (self.rows_of(start), self.rows_of(end))
    }

    /// Where the rows of the key after `key` begin at the earliest.
    pub fn after(&self, key: &[u8]) -> Vec<u8> {
        [&self.rows_of(key)[..], &[0, IS_DELTA + 1]].concat()
    }

    /// The key of a row, and what it is; `None`: it is none of ours.
    pub fn row(&self, key: &[u8], value: &[u8]) -> Option<(Vec<u8>, Row)> {
        let (found, kind, rest_bytes) = self.key_of(key)?;
        let (tag, value) = value.split_first()?;
        match (kind, *tag, rest_bytes) {
            (IS_VALUE, VALUE_TAG, 0) => Some((found, Row::Value(value.to_vec()))),
            (IS_DELTA, DELTA_TAG, 16) => Some((found, Row::Delta(value.to_vec()))),
            _ => None,
        }
    }

    /// The key of a row, what it is said to be, and how many bytes follow.
    fn key_of(&self, key: &[u8]) -> Option<(Vec<u8>, u8, usize)> {
        let escaped = key.strip_prefix(&self.prefix[..])?.strip_prefix(&[VALUES])?;
        let mut found = Vec::with_capacity(escaped.len());
        let mut bytes = escaped.iter().copied();
        let kind = loop {
            match bytes.next()? {
                0 => match bytes.next()? {
                    u8::MAX => found.push(0),
                    kind => break kind,
                },
                byte => found.push(byte),
            }
        };
        Some((found, kind, bytes.len()))
    }

    /// The key of a row of which the value is not known.
    pub fn changed(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.key_of(key).map(|(key, ..)| key)
    }
}

/// A value as a row has it.
pub(super) fn stored(value: &[u8]) -> Vec<u8> {
    [&[VALUE_TAG][..], value].concat()
}

/// A delta as a row has it.
pub(super) fn stored_delta(delta: &[u8]) -> Vec<u8> {
    [&[DELTA_TAG][..], delta].concat()
}

#[cfg(test)]
#[path = "layout_tests.rs"]
mod tests;
