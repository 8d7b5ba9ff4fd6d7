//! A volume that this process owns, or reads as a mount does, with its background work.

use crate::caring::{Caring, Metrics};
use crate::error::EngineError;
use crate::keeper::Keeper;
use crate::kinds::kinds_of;
use crate::replica::{ReplicaSizes, Replicator};
use crate::reports::StatusReport;
use crate::runtime::{Threads, runtime};
use crate::trash_emptier::TrashEmptier;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::runtime::Handle;
use weft_env::Env;
use weft_meta::MetaUrl;
use weft_transfer::DiskRoom;
use weft_vfs::Volume;
use weft_vfs::open::Opener;

/// How a volume is opened. By default nothing works in its background.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The name that other processes report while this one has the volume.
    pub mountpoint: Option<PathBuf>,
    /// How the volume behaves.
    pub volume: weft_vfs::Settings,
    /// How segments move.
    pub transfer: weft_transfer::Settings,
    /// A folder that caches data that was read.
    pub disk_cache: Option<DiskRoom>,
    /// Read shards of daemons on this machine past them, where they allow it.
    pub short_circuit: bool,
    /// Empty the trash. Only the owner may.
    pub empties_trash: bool,
    /// Keep a replica of the metadata on the nodes. Only the owner may.
    pub is_replicated: bool,
    /// Watch nodes, repair, scrub, balance and convert. Only the owner may.
    pub is_cared_for: bool,
}

/// An open volume.
pub struct Engine {
    volume: Arc<Volume>,
    trash_emptier: Option<TrashEmptier>,
    caring: Option<Caring>,
    replicator: Option<Replicator>,
    meta: MetaUrl,
    /// Runs transfers as long as the volume lives.
    runtime: Threads,
}

impl Engine {
    /// Opens the volume with the metadata at `meta`: as its only owner, or beside the owner if the settings say that it is only read.
    ///
    /// # Errors
    /// Another process owns it; metadata is missing, not ours, of a newer format, or an old copy; the disk cache cannot be used.
    pub fn open(meta: &MetaUrl, env: &Env, options: Options) -> Result<Engine, EngineError> {
        let runtime = runtime()?;
        let Options {
            mountpoint,
            volume: settings,
            transfer,
            disk_cache,
            short_circuit,
            empties_trash,
            is_replicated,
            is_cared_for,
        } = options;
        let (mountpoint, disk_cache) = (mountpoint.as_deref(), disk_cache.as_ref());
        let opener = Opener::new(kinds_of(Some(meta), short_circuit, env));
        let transfer = (transfer, disk_cache);
        let volume = weft_vfs::open::open_volume(meta, mountpoint, opener, settings, transfer, env, runtime.handle())?;
        let mut engine =
            Engine { volume, trash_emptier: None, caring: None, replicator: None, meta: meta.clone(), runtime };
        let handle = engine.runtime.handle();
        if empties_trash {
            engine.trash_emptier = Some(TrashEmptier::start(&engine.volume, &handle.into())?);
        }
        if is_replicated || !engine.volume.is_read_only() && engine.volume.store().is_in_step()? {
            let volume = &engine.volume;
            engine.replicator =
                Replicator::start(volume.store(), volume.transfer(), ReplicaSizes::default(), &handle.into())?;
        }
        if is_cared_for {
            engine.caring = Some(Caring::of_volume(&engine.volume, handle)?);
        }
        Ok(engine)
    }

    /// Its files.
    #[must_use]
    pub fn volume(&self) -> &Arc<Volume> {
        &self.volume
    }

    /// The threads on which it works.
    #[must_use]
    pub fn handle(&self) -> &Handle {
        self.runtime.handle()
    }

    /// The metrics of its worker for Prometheus; `None`: it has no worker.
    #[must_use]
    pub fn metrics(&self) -> Option<Metrics> {
        self.caring.as_ref().map(Caring::metrics)
    }

    /// How safe every file is, after all nodes were asked.
    ///
    /// # Errors
    /// As of [`Keeper::status`].
    pub fn status(&self) -> Result<StatusReport, EngineError> {
        Keeper::of(self.volume.store().clone(), &self.meta, None)?.status()
    }

    /// Waits until nodes have all metadata that was committed before.
    ///
    /// # Errors
    /// Why they have not; a clause.
    pub fn replicate(&self) -> Result<(), String> {
        self.replicator.as_ref().map_or(Ok(()), Replicator::catch_up)
    }

    /// Ends the background work after the segments in hand, and writes everything.
    ///
    /// # Errors
    /// [`EngineError::Unwritten`]: some bytes are lost. [`EngineError::Unreplicated`]: none is, and nodes lack changes of the metadata.
    pub fn close(self) -> Result<(), EngineError> {
        drop(self.trash_emptier);
        if let Some(caring) = self.caring
            && let Err(error) = caring.end(self.runtime.handle())
        {
            tracing::error!("{error}");
        }
        let mut closed = self.volume.shut_down().map_err(EngineError::Unwritten);
        if let Some(replicator) = self.replicator {
            if let Err(why) = replicator.end() {
                let unreplicated = EngineError::Unreplicated(why);
                tracing::warn!("{unreplicated}");
                closed = closed.and(Err(unreplicated));
            }
            // The replica's last round may have written to the store after the volume closed it, and others may hold the volume still.
            if let Err(error) = self.volume.store().close() {
                tracing::warn!("the metadata is durable, and stays in two files until it is opened again: {error}");
            }
        }
        closed
    }
}
