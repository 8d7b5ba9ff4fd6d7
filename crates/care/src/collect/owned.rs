//! Whose a shard is: the segment's in its name, or, where an alias says so, that of the segment which its own was merged into.

use crate::catalogue::{Catalogue, CatalogueError};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use weft_format::{SegmentId, ShardKey};

/// Whose shards are, asked for once for each segment in their names. True of the moment at which it was asked: to be made anew for
/// whatever is about to be removed.
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
