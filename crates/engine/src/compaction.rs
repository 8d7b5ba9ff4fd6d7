//! The owner rewrites segments that are mostly dead, small segments, and segments that files of unlike policies share.

use crate::engine::{Engine, Options};
use crate::error::EngineError;
use crate::owner::{Owner, current_owner};
use serde::Serialize;
use std::collections::HashSet;
use std::num::NonZeroU64;
use weft_env::Env;
use weft_meta::MetaUrl;
use weft_transfer::Settings;
use weft_vfs::{Demand, Volume};

/// The result of a compaction.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Compaction {
    /// Segments that were mostly dead and now have no living byte.
    pub segment_count: u64,
    /// Small segments whose bytes are now in larger ones.
    pub merged_count: u64,
    /// Living bytes that were moved to new segments.
    pub moved_bytes: u64,
    /// Bytes of shards that will be removed with the emptied segments.
    pub freed_bytes: u64,
    /// The process that has the volume: only its owner compacts it.
    pub left_to: Option<String>,
    /// Why it ended early.
    pub failure: Option<String>,
}

impl Compaction {
    /// Compacts a volume, as its owner for the time it takes, until nothing is left to compact or `attend`, which hears after each round
    /// how many segments were looked at, says no. `bwlimit` is bytes a second.
    #[must_use]
    pub fn run(meta: &MetaUrl, bwlimit: Option<NonZeroU64>, mut attend: impl FnMut(&Compaction, u64) -> bool) -> Self {
        let mut compaction = Self::default();
        if let Err(error) = compaction.try_run(meta, bwlimit, &mut attend) {
            compaction.failure = Some(error.to_string());
        }
        compaction
    }

    fn try_run(
        &mut self,
        meta: &MetaUrl,
        bwlimit: Option<NonZeroU64>,
        attend: &mut dyn FnMut(&Compaction, u64) -> bool,
    ) -> Result<(), EngineError> {
        match current_owner(meta) {
            Owner::Nobody => {}
            Owner::Somebody(holder) => {
                let and = match holder.mountpoint {
                    Some(_) => "which compacts by itself when it is idle and enough bytes are dead",
                    None => "run gc again when that has ended",
                };
                self.left_to = Some(format!("the volume is in use by {holder}, {and}"));
                return Ok(());
            }
            Owner::Unknown => return Err(EngineError::UnknownOwner),
        }
        let transfer = Settings { bytes_per_second: bwlimit, ..Settings::default() };
        let engine = Engine::open(meta, &Env::system(), Options { transfer, ..Options::default() })?;
        let outcome = self.rounds(engine.volume(), attend);
        engine.close()?;
        outcome
    }

    /// Work done before a failure counts.
    fn rounds(&mut self, volume: &Volume, attend: &mut dyn FnMut(&Compaction, u64) -> bool) -> Result<(), EngineError> {
        let mut tried = HashSet::new();
        loop {
            let round = volume.compact(Demand::Any, &mut tried)?;
            if round.chosen_count == 0 {
                return Ok(());
            }
            self.segment_count += round.emptied_count - round.merged_count;
            self.merged_count += round.merged_count;
            self.moved_bytes += round.moved_bytes;
            self.freed_bytes += round.freed_bytes;
            if !attend(self, tried.len() as u64) {
                return Ok(());
            }
        }
    }
}
