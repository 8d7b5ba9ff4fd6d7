//! Proving, both ways, that whoever asks and whoever answers knows the key: pure.
//!
//! A request carries the time, a nonce and a MAC over everything in it that matters, the digest of its body included; the
//! answer carries a MAC over everything in it and the request's nonce. So nobody without the key reads, writes, changes what
//! travels, answers in the node's place, or asks again what was asked once. Nothing is hidden: who must not see the bytes
//! either is kept off the wire by other means.
//!
//! The MAC is BLAKE3's keyed mode; comparing its hashes takes constant time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};
use std::fmt;
use std::str::FromStr;
use weft_env::planted::{Planted, has_planted};
use weft_format::NodeIdentity;

/// A request older, or newer, than this is refused: clocks may differ so much, and nonces are remembered so long.
pub const SKEW_MAX_MS: u64 = 60_000;

/// Both times are cut to whole milliseconds.
const ROUNDING_MS: u64 = 2;

/// Nonces remembered; more requests than this in the time they are remembered are refused. A node answers some ten thousand
/// requests a second.
const NONCES_MAX: usize = 2_000_000;

/// What a node and its users share. Never shown: not by `Debug`, not in an error.
#[derive(Clone, PartialEq, Eq)]
pub struct Key([u8; 32]);

impl Key {
    /// From 32 random bytes.
    pub fn new(random: [u8; 32]) -> Self {
        Self(random)
    }

    /// 64 hexadecimal digits, for a file that only its owner reads.
    pub fn to_hex(&self) -> String {
        blake3::Hash::from_bytes(self.0).to_hex().to_string()
    }

    /// 16 bytes that follow from it, and from which it does not; others for each `purpose`.
    pub fn derived(&self, purpose: &str) -> [u8; 16] {
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, ..] = blake3::derive_key(purpose, &self.0);
        [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p]
    }

    /// A key for what `text` says: nobody without this key can tell it, and it tells nothing of this key.
    pub(super) fn mac(&self, purpose: &str, text: &[u8]) -> Self {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        for part in [purpose.as_bytes(), text] {
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
        }
        Self(*hasher.finalize().as_bytes())
    }

    /// Its bytes, for a record that nobody is shown.
    pub fn to_bytes(&self) -> [u8; 32] {
        self.0
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(not shown)")
    }
}

/// Text that is no key; it is not repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a key has 64 hexadecimal digits: give the file that `weft node serve` wrote")]
pub struct ParseKeyError;

impl FromStr for Key {
    type Err = ParseKeyError;

    fn from_str(text: &str) -> Result<Self, ParseKeyError> {
        blake3::Hash::from_hex(text.trim()).map(|hash| Self(*hash.as_bytes())).map_err(|_| ParseKeyError)
    }
}

/// What of a request is signed.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) method: &'a str,
    /// Path and query, as sent.
    pub(super) target: &'a str,
    /// The range header, or nothing.
    pub(super) range: &'a str,
    /// The header that says for whom, or nothing.
    pub(super) class: &'a str,
    pub(super) body_bytes: u64,
    pub(super) body: blake3::Hash,
    /// Which node is meant; none while it belongs to no volume yet.
    pub(super) node: Option<NodeIdentity>,
}

/// What of an answer is signed.
pub(super) struct Answered<'a> {
    pub(super) status: u16,
    /// Name of the error's kind, or nothing.
    pub(super) error: &'a str,
    pub(super) body: blake3::Hash,
}

/// What a request says of itself to be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Proof {
    pub(super) time_ms: u64,
    pub(super) nonce: u128,
    mac: blake3::Hash,
}

/// Why a request is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AuthError {
    /// It says nothing, or not what is to be said.
    NoProof,
    /// Another key, or something was changed.
    WrongMac,
    /// Too old, or from the future.
    WrongTime,
    /// The same was asked before.
    Repeated,
    /// It is from before the daemon began, which does not know what was asked then.
    BeforeStart,
    /// It shows a grant that is over, or of another store.
    NotGranted,
    /// So many were asked that repetitions could no longer be told.
    TooMany,
}

impl fmt::Display for AuthError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AuthError::NoProof => "the request is not signed: add the node with its key (weft node add --key FILE)",
            AuthError::WrongMac => "the request is signed with another key: use the one that the node was started with",
            AuthError::WrongTime => "the request is more than a minute off: set the clocks of both machines",
            AuthError::Repeated => "the request was made before",
            AuthError::BeforeStart => {
                "the request was signed before the daemon began, by this machine's clock: ask again, and set both clocks"
            }
            AuthError::NotGranted => "the grant is over, or of another store: ask who has the cluster's key for a new one",
            AuthError::TooMany => "more requests came than can be told apart: ask again in a minute",
        })
    }
}

impl Proof {
    /// The proof for a request; `nonce` is random.
    pub(super) fn of(key: &Key, asked: &Asked<'_>, time_ms: u64, nonce: u128) -> Self {
        let mut hasher = blake3::Hasher::new_keyed(&key.0);
        let node = asked.node.map(|node| [node.volume.to_bytes(), node.node.to_bytes()].concat()).unwrap_or_default();
        for part in [
            &b"weft request 1"[..],
            asked.method.as_bytes(),
            asked.target.as_bytes(),
            asked.range.as_bytes(),
            asked.class.as_bytes(),
            &node,
        ] {
            // Lengths, so that no two requests read the same.
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
        }
        hasher.update(&asked.body_bytes.to_le_bytes()).update(asked.body.as_bytes());
        hasher.update(&time_ms.to_le_bytes()).update(&nonce.to_le_bytes());
        Self { time_ms, nonce, mac: hasher.finalize() }
    }

    /// As it stands in the header.
    pub(super) fn encode(&self) -> String {
        format!("weft1 {}:{:032x}:{}", self.time_ms, self.nonce, self.mac.to_hex())
    }

    /// The inverse of [`Self::encode`].
    pub(super) fn decode(text: &str) -> Option<Self> {
        let mut parts = text.strip_prefix("weft1 ")?.split(':');
        let (time_ms, nonce, mac) = (parts.next()?, parts.next()?, parts.next()?);
        let is_plain = |digits: &str| !digits.starts_with('+');
        if parts.next().is_some() || nonce.len() != 32 || !is_plain(time_ms) || !is_plain(nonce) {
            return None;
        }
        Some(Self {
            time_ms: time_ms.parse().ok()?,
            nonce: u128::from_str_radix(nonce, 16).ok()?,
            mac: blake3::Hash::from_hex(mac).ok()?,
        })
    }
}

/// The MAC of an answer to the request with this nonce.
pub(super) fn sign_answer(key: &Key, nonce: u128, answered: &Answered<'_>) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new_keyed(&key.0);
    for part in [&b"weft answer 1"[..], answered.error.as_bytes()] {
        hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
    }
    hasher
        .update(&answered.status.to_le_bytes())
        .update(answered.body.as_bytes())
        .update(&nonce.to_le_bytes())
        .finalize()
}

/// The MAC of the addresses that an answer to the request with this nonce tells.
pub(super) fn sign_addresses(key: &Key, nonce: u128, addresses: &str) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new_keyed(&key.0);
    for part in [&b"weft addresses 1"[..], addresses.as_bytes()] {
        hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
    }
    hasher.update(&nonce.to_le_bytes()).finalize()
}

/// The nonces of late, so that none is accepted twice. They are forgotten with the daemon, so what was signed before it began is refused:
/// it may have been answered by the one before.
#[derive(Debug, Default)]
pub(super) struct Nonces {
    seen: HashSet<u128>,
    /// When each was accepted, the earliest first: the clock may have been set back since the others.
    by_time: BinaryHeap<Reverse<(u64, u128)>>,
}

impl Nonces {
    /// Is the request believable at `now_ms`, when the daemon has been up for `uptime_ms` by a clock that does not jump? Only what is
    /// right takes a place among the nonces.
    pub(super) fn check(
        &mut self,
        key: &Key,
        asked: &Asked<'_>,
        proof: Option<Proof>,
        now_ms: u64,
        uptime_ms: u64,
    ) -> Result<(), AuthError> {
        let proof = proof.ok_or(AuthError::NoProof)?;
        if Proof::of(key, asked, proof.time_ms, proof.nonce) != proof {
            return Err(AuthError::WrongMac);
        }
        if proof.time_ms.abs_diff(now_ms) > SKEW_MAX_MS && !has_planted(Planted::LateRequestDone) {
            return Err(AuthError::WrongTime);
        }
        if proof.time_ms.saturating_add(uptime_ms).saturating_add(ROUNDING_MS) < now_ms {
            return Err(AuthError::BeforeStart);
        }
        // What was accepted at some time stays acceptable for twice the skew at most.
        while let Some(&Reverse((time_ms, nonce))) = self.by_time.peek()
            && now_ms.saturating_sub(time_ms) > 2 * SKEW_MAX_MS
        {
            self.by_time.pop();
            self.seen.remove(&nonce);
        }
        if self.seen.contains(&proof.nonce) {
            return Err(AuthError::Repeated);
        }
        if self.seen.len() >= NONCES_MAX {
            return Err(AuthError::TooMany);
        }
        self.seen.insert(proof.nonce);
        self.by_time.push(Reverse((now_ms, proof.nonce)));
        Ok(())
    }
}

#[cfg(test)]
#[path = "auth_tests.rs"]
mod tests;
