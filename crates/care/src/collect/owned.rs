//! Which segment a shard belongs to: the segment in its name, or, if an alias says so, the segment into which that was merged.

use crate::catalogue::{Catalogue, CatalogueError};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use weft_format::{SegmentId, ShardKey};

/// Owners of shards. Each segment in a name is looked up once. The answer holds for the moment of the lookup: look up again before a
/// removal.
pub(super) struct Owners<'c> {
    catalogue: &'c dyn Catalogue,
    aliases: HashMap<SegmentId, Vec<(ShardKey, SegmentId)>>,
}

impl<'c> Owners<'c> {
    pub fn of(catalogue: &'c dyn Catalogue) -> Self {
        Self { catalogue, aliases: HashMap::new() }
    }

    /// The segment that this shard belongs to.
    pub fn owner(&mut self, key: ShardKey) -> Result<SegmentId, CatalogueError> {
        let aliases = match self.aliases.entry(key.segment) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => unknown.insert(self.catalogue.aliases(key.segment)?),
        };
        let alias = aliases.iter().find(|(shard, _)| *shard == key);
        Ok(alias.map_or(key.segment, |(_, owner)| *owner))
    }
}
