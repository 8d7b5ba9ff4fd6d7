//! What a volume wants of the places of its shards.

use super::{RecordError, VERSION, damaged, decode_versions};
use prost::Message as _;

const WHAT: &str = "placement";

/// The version of a rule with several shards in a unit. A program that does not know it would move them apart, and refuse writes.
const VERSION_SHARED: u32 = 2;

/// What a volume wants of the places of its shards. A node's domain is a path, outermost level first: `site1/rack3/host7`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PlacementRule {
    /// How many levels of a domain fail as one. 0: all levels.
    pub unit_depth: u32,
    /// Shards of a segment in one such unit at most; 1 at least.
    pub unit_shards: u32,
    /// How many levels make the locality in which a local group of a code is to lie. 0: groups are not kept together.
    pub locality_depth: u32,
    /// Distinct sets of nodes that segments may lie on. 0: each segment chooses its own.
    pub set_count: u64,
}

impl Default for PlacementRule {
    fn default() -> Self {
        Self { unit_depth: 0, unit_shards: 1, locality_depth: 0, set_count: 0 }
    }
}

impl PlacementRule {
    /// Shards of a segment that one unit may take, where the loss of any `tolerance` of them is survived: never more than these, so
    /// that the loss of a unit loses no data.
    pub fn unit_shards_of(&self, tolerance: usize) -> usize {
        tolerance.min(self.unit_shards as usize).max(1)
    }

    /// The part of a domain that fails as one.
    pub fn unit<'d>(&self, domain: &'d str) -> &'d str {
        outermost(domain, self.unit_depth).unwrap_or(domain)
    }

    /// The part of a domain that is its locality; nothing where groups are not kept together.
    pub fn locality<'d>(&self, domain: &'d str) -> &'d str {
        outermost(domain, self.locality_depth).unwrap_or("")
    }
}

/// The first `depth` levels of a domain, all where it has fewer; `None` for none.
fn outermost(domain: &str, depth: u32) -> Option<&str> {
    let last = depth.checked_sub(1)? as usize;
    Some(domain.match_indices('/').nth(last).map_or(domain, |(at, _)| &domain[..at]))
}

#[derive(Clone, PartialEq, prost::Message)]
struct Message {
    #[prost(uint32, tag = "1")]
    version: u32,
    #[prost(uint32, tag = "2")]
    unit_depth: u32,
    #[prost(uint32, tag = "3")]
    locality_depth: u32,
    #[prost(uint64, tag = "4")]
    set_count: u64,
    #[prost(uint32, tag = "5")]
    unit_shards: u32,
}

impl PlacementRule {
    /// Protocol-buffer bytes; FORMAT.md has the fields.
    pub fn encode(&self) -> Vec<u8> {
        let Self { unit_depth, unit_shards, locality_depth, set_count } = *self;
        let (version, unit_shards) = if unit_shards > 1 { (VERSION_SHARED, unit_shards) } else { (VERSION, 0) };
        Message { version, unit_depth, locality_depth, set_count, unit_shards }.encode_to_vec()
    }

    /// The inverse of [`Self::encode`].
    ///
    /// # Errors
    /// Unknown version; several shards in a unit in version 1, or not several in version 2.
    pub fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        let message: Message = decode_versions(WHAT, VERSION_SHARED, bytes)?;
        let Message { version, unit_depth, locality_depth, set_count, unit_shards } = message;
        let unit_shards = match (version, unit_shards) {
            (VERSION, 0) => 1,
            (VERSION_SHARED, 2..) => unit_shards,
            _ => return Err(damaged(WHAT, format!("{unit_shards} shards in a unit in version {version}"))),
        };
        Ok(Self { unit_depth, unit_shards, locality_depth, set_count })
    }
}
