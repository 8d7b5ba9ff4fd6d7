//! A volume opened beside the owner, to look at segments and to change where their shards are.

use crate::catalogue::StoreCatalogue;
use crate::error::EngineError;
use crate::open_store;
use crate::runtime::{Threads, runtime};
use std::collections::BTreeSet;
use std::num::NonZeroU64;
use std::sync::Arc;
use weft_care::Roster;
use weft_care::balance::{self, Estimate};
use weft_care::record::CareRecord;
use weft_care::watch::Verdict;
use weft_env::Env;
use weft_format::NodeId;
use weft_meta::{MetaUrl, Store};
use weft_transfer::Transfer;
use weft_vfs::open::{Opener, open_transfer};

/// The losses from giving up some nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// By name.
    pub nodes: Vec<String>,
    /// Paths of files that would lose bytes, sorted.
    pub paths: Vec<String>,
}

/// A volume opened for caring. Its transfers are background work.
pub struct Keeper {
    /// Metadata.
    pub store: Arc<Store>,
    /// The same, as care sees it.
    pub catalogue: Arc<StoreCatalogue>,
    /// Moves segments.
    pub transfer: Transfer,
    /// Runs transfers as long as the keeper lives.
    pub runtime: Threads,
    /// Opens nodes that come later.
    pub opener: Arc<Opener>,
    /// Where the metadata is.
    pub(crate) meta: MetaUrl,
}

impl Keeper {
    /// Opens the volume with the metadata at `meta`.
    ///
    /// # Errors
    /// Metadata is missing, not ours or of a newer format; a node of it cannot be opened by this program.
    pub fn open(meta: &MetaUrl, env: &Env) -> Result<Keeper, EngineError> {
        Keeper::limited(meta, env, None)
    }

    /// The same. It sends and receives at most `bwlimit` bytes a second.
    ///
    /// # Errors
    /// As [`Keeper::open`].
    pub fn limited(meta: &MetaUrl, env: &Env, bwlimit: Option<NonZeroU64>) -> Result<Keeper, EngineError> {
        Keeper::of(Arc::new(open_store(meta, env)?), meta, bwlimit)
    }

    /// The same, of a volume whose metadata at `meta` is open already.
    pub(crate) fn of(store: Arc<Store>, meta: &MetaUrl, bwlimit: Option<NonZeroU64>) -> Result<Keeper, EngineError> {
        let runtime = runtime()?;
        let settings = weft_transfer::Settings { bytes_per_second: bwlimit, ..weft_transfer::Settings::default() };
        let opener = Arc::new(crate::opener(&store));
        let transfer = open_transfer(&store, &opener, settings, runtime.handle())?.in_background();
        let catalogue = Arc::new(StoreCatalogue::new(store.clone()));
        Ok(Keeper { store, catalogue, transfer, runtime, opener, meta: meta.clone() })
    }

    /// Nodes that a worker has given up.
    ///
    /// # Errors
    /// Metadata cannot be read.
    pub fn given_up(&self) -> Result<BTreeSet<NodeId>, EngineError> {
        let doubted = CareRecord::load(&*self.catalogue)?.map_or(Vec::new(), |record| record.doubted);
        let is_given_up =
            |name: &str| doubted.iter().any(|(node, verdict)| node == name && *verdict == Verdict::GivenUp);
        let nodes = self.store.nodes()?.into_iter();
        Ok(nodes.filter(|(_, record)| is_given_up(&record.name)).map(|(id, _)| id).collect())
    }

    /// All nodes, after each was probed.
    ///
    /// # Errors
    /// Metadata cannot be read.
    pub fn probe(&self) -> Result<Roster, EngineError> {
        Ok(self.runtime.block_on(Roster::probe(&*self.catalogue, &self.transfer))?)
    }

    /// Files that would lose bytes, beyond those that are lost already, if these nodes were gone for good.
    ///
    /// # Errors
    /// Metadata cannot be read.
    pub fn loss_without(&self, nodes: &[NodeId]) -> Result<Loss, EngineError> {
        let mut roster = self.probe()?;
        let before = weft_care::glance(&*self.catalogue, &roster)?;
        roster.presume_lost(&nodes.iter().copied().collect());
        let after = weft_care::glance(&*self.catalogue, &roster)?;
        let paths = after.lost_since(&before).into_iter().collect();
        Ok(Loss { nodes: nodes.iter().map(|id| roster.name(*id)).collect(), paths })
    }

    /// The moves needed for every node to hold its share, except nodes that a worker has given up.
    ///
    /// # Errors
    /// Metadata cannot be read.
    pub fn estimate_balance(&self) -> Result<Estimate, EngineError> {
        let given_up = self.given_up()?;
        let work = balance::estimate(&*self.catalogue, &self.transfer, &given_up);
        Ok(self.runtime.block_on(work)?)
    }
}
