//! Keys for a part of an object store: pure.
//!
//! A grant says what its owner may do with which names, and until when. Its key is a MAC of that under the cluster's key. So each member can
//! compute the key of any grant that a request shows, nobody keeps a list, and nobody without the cluster's key can make a grant or change one.

use super::auth::Key;
use std::fmt;
use std::str::FromStr;
use weft_format::VolumeId;

/// What a file with a grant begins with.
const MARK: &str = "weft-grant1";

/// Longest prefix of names.
const PREFIX_BYTES_MAX: usize = 1024;

/// What may be done with some names of an object store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Of which store.
    pub store: VolumeId,
    /// Read objects.
    pub may_read: bool,
    /// Put and remove objects.
    pub may_write: bool,
    /// List names.
    pub may_list: bool,
    /// Until when, milliseconds since the Unix epoch by each member's clock.
    pub until_ms: u64,
    /// What the names begin with.
    pub prefix: String,
}

impl Grant {
    /// The key that goes with it.
    #[must_use]
    pub fn key(&self, cluster: &Key) -> Key {
        cluster.mac("weft grant 1", self.to_string().as_bytes())
    }

    /// As a line for a file that only its owner reads.
    #[must_use]
    pub fn to_line(&self, cluster: &Key) -> String {
        format!("{MARK} {self} {}", self.key(cluster).to_hex())
    }

    /// The inverse of [`Self::to_line`].
    ///
    /// # Errors
    /// It is no grant; the text is not repeated.
    pub fn of_line(line: &str) -> Result<(Self, Key), ParseGrantError> {
        let mut parts = line.trim().split(' ');
        let (Some(MARK), Some(grant), Some(key), None) = (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(ParseGrantError);
        };
        Ok((grant.parse()?, key.parse().map_err(|_| ParseGrantError)?))
    }
}

/// `<rights>:<until>:<store>:<prefix in hexadecimal>`, as in the header of requests.
impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { store, may_read, may_write, may_list, until_ms, prefix } = self;
        for (may, letter) in [(may_read, 'r'), (may_write, 'w'), (may_list, 'l')] {
            if *may {
                write!(f, "{letter}")?;
            }
        }
        write!(f, ":{until_ms}:{store}:")?;
        prefix.bytes().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Text that is no grant; it is not repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is neither a key of 64 hexadecimal digits nor a line that `weft object grant` printed")]
pub struct ParseGrantError;

impl FromStr for Grant {
    type Err = ParseGrantError;

    fn from_str(text: &str) -> Result<Self, ParseGrantError> {
        let parse = || {
            let mut parts = text.split(':');
            let (rights, until, store, prefix) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
            let bytes = (prefix.len() <= 2 * PREFIX_BYTES_MAX && prefix.is_ascii()).then_some(prefix.as_bytes())?;
            let (pairs, rest) = bytes.as_chunks::<2>();
            let byte = |pair: &[u8; 2]| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok();
            let prefix: Vec<u8> = pairs.iter().map(byte).collect::<Option<_>>().filter(|_| rest.is_empty())?;
            let grant = Self {
                store: store.parse().ok()?,
                may_read: rights.contains('r'),
                may_write: rights.contains('w'),
                may_list: rights.contains('l'),
                until_ms: until.parse().ok()?,
                prefix: String::from_utf8(prefix).ok()?,
            };
            // One grant, one text: the key is of the text.
            (parts.next().is_none() && grant.to_string() == text).then_some(grant)
        };
        parse().ok_or(ParseGrantError)
    }
}

#[cfg(test)]
#[path = "grant_tests.rs"]
mod tests;
