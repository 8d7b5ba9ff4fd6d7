//! A volume opened beside the owner, to look at segments and to change where their shards are.

use crate::catalogue::StoreCatalogue;
use crate::error::EngineError;
use crate::open_store;
use crate::runtime::runtime;
use std::collections::BTreeSet;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::runtime::Runtime;
use weft_care::balance::{self, Estimate};
use weft_care::record::CareRecord;
use weft_care::watch::Opinion;
use weft_format::NodeId;
use weft_meta::Store;
use weft_transfer::Transfer;
use weft_vfs::open::{Opener, open_transfer};

/// A volume opened for caring. Its transfers are background work.
pub struct Keeper {
    /// Metadata.
    pub store: Arc<Store>,
    /// The same, as care sees it.
    pub catalogue: Arc<StoreCatalogue>,
    /// Moves segments.
    pub transfer: Transfer,
    /// Runs transfers as long as the keeper lives.
    pub runtime: Runtime,
    /// Opens nodes that come later.
    pub opener: Arc<Opener>,
    /// Where the metadata is.
    pub(crate) meta: PathBuf,
}

impl Keeper {
    /// Opens the volume with the metadata at `meta`.
    ///
    /// # Errors
    /// Metadata is missing, not ours or of a newer format; a node of it cannot be opened by this program.
    pub fn open(meta: &Path) -> Result<Keeper, EngineError> {
        Keeper::limited(meta, None)
    }

    /// The same. It sends and receives at most `bwlimit` bytes a second.
    ///
    /// # Errors
    /// As [`Keeper::open`].
    pub fn limited(meta: &Path, bwlimit: Option<NonZeroU64>) -> Result<Keeper, EngineError> {
        let runtime = runtime()?;
        let store = Arc::new(open_store(meta)?);
        let settings = weft_transfer::Settings { bytes_per_second: bwlimit, ..weft_transfer::Settings::default() };
        let opener = Arc::new(crate::opener(&store));
        let transfer = open_transfer(&store, &opener, settings, runtime.handle())?.in_background();
        let catalogue = Arc::new(StoreCatalogue::new(store.clone()));
        Ok(Keeper { store, catalogue, transfer, runtime, opener, meta: meta.to_path_buf() })
    }

    /// Nodes that a worker has given up.
    ///
    /// # Errors
    /// Metadata cannot be read.
    pub fn given_up(&self) -> Result<BTreeSet<NodeId>, EngineError> {
        let doubted = CareRecord::load(&*self.catalogue)?.map_or(Vec::new(), |record| record.doubted);
        let is_given_up =
            |name: &str| doubted.iter().any(|(node, opinion)| node == name && *opinion == Opinion::GivenUp);
        let nodes = self.store.nodes()?.into_iter();
        Ok(nodes.filter(|(_, record)| is_given_up(&record.name)).map(|(id, _)| id).collect())
    }

    /// What must move for every node to hold its share, but for nodes that a worker has given up.
    ///
    /// # Errors
    /// Metadata cannot be read.
    pub fn estimate_balance(&self) -> Result<Estimate, EngineError> {
        let given_up = self.given_up()?;
        let work = balance::estimate(&*self.catalogue, &self.transfer, &given_up);
        Ok(self.runtime.block_on(work)?)
    }
}
