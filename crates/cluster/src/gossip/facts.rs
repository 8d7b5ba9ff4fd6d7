//! What members say of themselves, and what was heard of whom.

use super::Peer;
use super::arrivals::Arrivals;
use foca::{BroadcastHandler, Invalidates};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The longest text in facts.
const TEXT_BYTES_MAX: usize = 256;

/// The most addresses that facts have beside the first.
const FURTHER_MAX: usize = 7;

/// Members that are remembered; a cluster larger than this is not thought of.
const MEMBERS_MAX: usize = 100_000;

/// Nobody has heard of a member for so long: it is forgotten.
const FORGOTTEN_AFTER_MS: u64 = 24 * 3600 * 1000;

/// What a member says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// Where its daemon is: an address for `weft node add`.
    pub address: String,
    /// When it was started, milliseconds since the Unix epoch, or a little more.
    pub started_ms: u64,
    /// Counts what it said since then.
    pub sequence: u64,
    /// The volume that it belongs to, as text; empty: none yet.
    pub volume: String,
    /// Which node of that it is, as text; empty: none yet.
    pub node: String,
    /// What fails together with it, as its owner says.
    pub domain: String,
    /// Bytes it can hold in all.
    pub total_bytes: u64,
    /// Bytes still free.
    pub free_bytes: u64,
    /// How busy it is: bytes of shards it has under way.
    pub load_bytes: u64,
    /// Its program's version.
    pub version: String,
    /// Host and port of its further links: other addresses under which it is reached.
    #[serde(default)]
    pub further: Vec<String>,
}

impl Facts {
    /// Which of two sayings of one member is the later.
    fn age(&self) -> (u64, u64) {
        (self.started_ms, self.sequence)
    }

    /// `None`: too long to be told.
    pub(super) fn encode(&self) -> Option<Vec<u8>> {
        self.is_sensible().then(|| postcard::to_allocvec(self).ok()).flatten()
    }

    fn is_sensible(&self) -> bool {
        let texts = [&self.address, &self.volume, &self.node, &self.domain, &self.version];
        let mut texts = texts.into_iter().chain(&self.further);
        self.further.len() <= FURTHER_MAX && texts.all(|text| text.len() <= TEXT_BYTES_MAX)
    }
}

/// A member that was heard of.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) facts: Facts,
    pub(super) arrivals: Arrivals,
}

/// All that were heard of, by address; not the member itself.
#[derive(Debug)]
pub(super) struct Rumours {
    own_address: String,
    pub(super) known: BTreeMap<String, Known>,
    /// Whose news came since they were taken from here.
    pub(super) speakers: Vec<Peer>,
    pub(super) now_ms: u64,
}

impl Rumours {
    pub(super) fn new(own_address: &str, now_ms: u64) -> Self {
        Self { own_address: own_address.to_owned(), known: BTreeMap::new(), speakers: Vec::new(), now_ms }
    }

    /// Is it news?
    pub(super) fn hear(&mut self, facts: Facts) -> bool {
        if facts.address == self.own_address || !facts.is_sensible() {
            return false;
        }
        let is_full = self.known.len() >= MEMBERS_MAX;
        match self.known.get_mut(&facts.address) {
            Some(known) if known.facts.age() >= facts.age() => return false,
            Some(known) => {
                known.arrivals.heard(self.now_ms, facts.started_ms != known.facts.started_ms);
                known.facts = facts;
            }
            None if is_full => return false,
            None => {
                let arrivals = Arrivals::new(self.now_ms);
                self.known.insert(facts.address.clone(), Known { facts, arrivals });
            }
        }
        true
    }

    pub(super) fn forget_old(&mut self) {
        let now_ms = self.now_ms;
        self.known.retain(|_, known| known.arrivals.silence_ms(now_ms) < FORGOTTEN_AFTER_MS);
    }
}

/// Through which foca tells of facts that came.
pub(super) struct Listener(pub(super) Arc<Mutex<Rumours>>);

/// The member that facts are of: newer ones take the place of older ones that are still to be told.
pub(super) struct Whose(String);

impl Invalidates for Whose {
    fn invalidates(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl BroadcastHandler<Peer> for Listener {
    type Key = Whose;
    type Error = postcard::Error;

    fn receive_item(&mut self, data: &[u8], sender: Option<&Peer>) -> Result<Option<Whose>, postcard::Error> {
        let facts: Facts = postcard::from_bytes(data)?;
        let peer = Peer { address: facts.address.clone(), started_ms: facts.started_ms };
        let whose = Whose(peer.address.clone());
        if sender.is_some() {
            let mut rumours = self.0.lock();
            if !rumours.hear(facts) {
                return Ok(None);
            }
            rumours.speakers.push(peer);
        }
        // Its own are told without being heard.
        Ok(Some(whose))
    }
}
