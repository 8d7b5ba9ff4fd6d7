//! What a volume wants of the places of its shards.

use super::{RecordError, VERSION, decode_message};
use prost::Message as _;

const WHAT: &str = "placement";

/// What a volume wants of the places of its shards. A node's domain is a path, outermost level first: `site1/rack3/host7`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PlacementRule {
    /// How many levels of a domain fail as one: no two shards of a segment share these. 0: all levels.
    pub unit_depth: u32,
    /// How many levels make the locality in which a local group of a code is to lie. 0: groups are not kept together.
    pub locality_depth: u32,
    /// Distinct sets of nodes that segments may lie on. 0: each segment chooses its own.
    pub set_count: u64,
}

impl PlacementRule {
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
}

impl PlacementRule {
    /// Protocol-buffer bytes; FORMAT.md has the fields.
    pub fn encode(&self) -> Vec<u8> {
        let Self { unit_depth, locality_depth, set_count } = *self;
        Message { version: VERSION, unit_depth, locality_depth, set_count }.encode_to_vec()
    }

    /// The inverse of [`Self::encode`].
    ///
    /// # Errors
    /// Unknown version.
    pub fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        let Message { unit_depth, locality_depth, set_count, .. } = decode_message(WHAT, bytes)?;
        Ok(Self { unit_depth, locality_depth, set_count })
    }
}
