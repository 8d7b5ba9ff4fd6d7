//! How a volume is put together: metadata, nodes, transfer, volume. Programs that look or repair beside a mount use the
//! parts; a mount or `weft put` opens the whole.

use crate::error::VfsError;
use crate::volume::{Settings, Volume};
use std::num::NonZeroU64;
use std::path::Path;
use std::sync::Arc;
use weft_format::NodeId;
use weft_format::records::{NodeLimits, NodeRecord};
use weft_meta::engines::SqliteKv;
use weft_meta::{Access, MetaError, Store, keys};
use weft_nodes::daemon::AddressBook;
use weft_nodes::wrappers::{LimitNode, Limits};
use weft_nodes::{Node, NodeIdentity, NodeUrl};
use weft_transfer::{DiskRoom, Fleet, Transfer};

/// Nodes that metadata names, opened.
pub type Members = Vec<(NodeId, NodeRecord, Arc<dyn Node>)>;

/// Opens the metadata at `path`. `mountpoint` is what others are told about an owner.
///
/// # Errors
/// Missing, not ours, of a newer format, or (for an owner) in use.
pub fn open_store(path: &Path, access: Access, mountpoint: Option<&Path>) -> Result<Store, MetaError> {
    let kv = SqliteKv::open(path, access, keys::SHARED, mountpoint)
        .map_err(|error| MetaError::Refused(error.to_string()))?;
    Ok(Store::open(Arc::new(kv))?.in_file(path))
}

/// Opens every node that metadata names. A node that is away now is opened all the same: it answers when it is back. Daemons are
/// followed where they go; what is known of that is kept beside the metadata.
///
/// # Errors
/// Metadata cannot be read, or names a node that this program cannot open.
pub fn open_members(store: &Store) -> Result<Members, MetaError> {
    let volume = store.volume().volume;
    let file = store.file().map(|file| {
        let mut file = file.as_os_str().to_owned();
        file.push("-addresses");
        file.into()
    });
    let book = AddressBook::new(file);
    let open = |(id, record): (NodeId, NodeRecord)| {
        let refused = |error: &dyn std::fmt::Display| MetaError::Refused(format!("node {}: {error}", record.name));
        let url: NodeUrl = record.url.parse().map_err(|error| refused(&error))?;
        let identity = NodeIdentity { volume, node: id };
        let node = book
            .open(&url, &record.name, identity, &record.secret)
            .map_err(|error| MetaError::Refused(error.to_string()))?;
        let node = limited(node, record.limits);
        Ok((id, record, node))
    };
    store.nodes()?.into_iter().map(open).collect()
}

/// The node within its limits; itself where it has none.
fn limited(node: Arc<dyn Node>, limits: NodeLimits) -> Arc<dyn Node> {
    if limits == NodeLimits::default() {
        return node;
    }
    let bytes_per_second = NonZeroU64::new(limits.bytes_per_second);
    Arc::new(LimitNode::new(node, Limits { concurrent_calls: limits.requests, bytes_per_second }))
}

/// The engine that moves segments between this process and the nodes.
///
/// # Errors
/// As [`open_members`].
pub fn open_transfer(
    store: &Store,
    settings: weft_transfer::Settings,
    runtime: &tokio::runtime::Handle,
) -> Result<Transfer, MetaError> {
    let fleet = Arc::new(Fleet::new(open_members(store)?, store.placement_rule()?));
    runtime.block_on(fleet.refresh_space());
    Ok(Transfer::new(store.volume().volume, fleet, settings, runtime.clone()))
}

/// Opens a volume as its only owner.
///
/// # Errors
/// As [`open_store`] and [`open_members`]; the disk cache cannot be used.
pub fn open_volume(
    path: &Path,
    mountpoint: Option<&Path>,
    settings: Settings,
    transfer_settings: weft_transfer::Settings,
    disk_cache: Option<&DiskRoom>,
    runtime: &tokio::runtime::Handle,
) -> Result<Arc<Volume>, VfsError> {
    let store = open_store(path, Access::Owner, mountpoint)?;
    let mut transfer = open_transfer(&store, transfer_settings, runtime)?;
    if let Some(room) = disk_cache {
        transfer = transfer.with_disk_cache(room).map_err(|error| MetaError::Refused(error.to_string()))?;
    }
    Volume::start(store, transfer, Box::new(open_members), runtime.clone(), settings)
}
