//! How a volume is put together: metadata, nodes, transfer, volume. Programs that look or repair beside a mount use the
//! parts; a mount or `weft put` opens the whole.

use crate::error::VfsError;
use crate::node_watcher::OpenNodes;
use crate::openings;
use crate::reader::Reader;
use crate::volume::{Settings, Volume};
use std::collections::HashMap;
use std::num::NonZeroU64;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use weft_env::sync::Mutex;
use weft_env::{Env, Runtime};
use weft_format::NodeId;
use weft_format::records::{NodeLimits, NodeRecord};
use weft_meta::engines::OpenError;
use weft_meta::owner::OwnerError;
use weft_meta::{Access, MetaError, MetaUrl, Store};
use weft_nodes::wrappers::{LimitNode, Limits};
use weft_nodes::{Kinds, Node, NodeAt, NodeIdentity};
use weft_transfer::{DiskRoom, Fleet, Transfer};

pub use crate::node_watcher::Members;
pub use crate::openings::refusal;

/// Opens the metadata at `url`. `mountpoint` is what others are told about an owner. All that is
/// opened over it has its `env`.
///
/// # Errors
/// [`MetaError::InUse`], for an owner; [`MetaError::Refused`]: missing, not ours, of a newer format, or an unfinished copy.
pub fn open_store(url: &MetaUrl, access: Access, mountpoint: Option<&Path>, env: &Env) -> Result<Store, MetaError> {
    let store = open_any_store(url, access, mountpoint, env)?;
    if store.is_unfinished()? {
        let sentence =
            "the command that made it of a copy has not come to its end; run that command again, it starts over";
        return Err(MetaError::Refused(format!("{url} is not the volume's metadata yet: {sentence}")));
    }
    Ok(store)
}

/// The same. It may be an unfinished copy, for who finishes or removes it.
///
/// # Errors
/// As there.
pub fn open_any_store(url: &MetaUrl, access: Access, mountpoint: Option<&Path>, env: &Env) -> Result<Store, MetaError> {
    let kv = url.open(access, mountpoint, env).map_err(|error| match error {
        OpenError::Owner(OwnerError::InUse { .. }) => MetaError::InUse(error.to_string()),
        other => MetaError::Refused(other.to_string()),
    })?;
    let store = Store::open(kv, env)?.at(url);
    if access == Access::Member { store.as_member() } else { Ok(store) }
}

/// A node, and the record that it was opened by.
type Opened = (NodeRecord, Arc<dyn Node>);

/// Opens the nodes that metadata names, anew whenever these change. One that is reached as before stays open: it knows what it has
/// seen, such as that its folder was deleted under it, and has its connections.
pub struct Opener {
    kinds: Kinds,
    opened: Mutex<HashMap<NodeId, Opened>>,
}

impl Opener {
    /// Of nodes of these kinds.
    pub fn new(kinds: Kinds) -> Self {
        Self { kinds, opened: Mutex::default() }
    }

    /// The nodes of `store` at this moment. A node that is away now is opened all the same: it answers when it is back.
    ///
    /// # Errors
    /// Metadata cannot be read, or names a node that this program cannot open.
    pub fn members(&self, store: &Store) -> Result<Members, MetaError> {
        let mut opened = self.opened.lock();
        let mut members = Members::new();
        for (id, record) in store.nodes()? {
            let node = match opened.get(&id) {
                Some((before, node)) if is_reached_alike(before, &record) => node.clone(),
                _ => self.open(store, id, &record)?,
            };
            members.push((id, record, node));
        }
        *opened = members.iter().map(|(id, record, node)| (*id, (record.clone(), node.clone()))).collect();
        Ok(members)
    }

    fn open(&self, store: &Store, id: NodeId, record: &NodeRecord) -> Result<Arc<dyn Node>, MetaError> {
        let refused = |error: &dyn std::fmt::Display| MetaError::Refused(format!("node {}: {error}", record.name));
        let url = self.kinds.parse(&record.url).map_err(|error| refused(&error))?;
        let identity = NodeIdentity { volume: store.volume().volume, node: id };
        let node = NodeAt { url: &url, name: &record.name, identity, secret: &record.secret };
        let node = self.kinds.open(&node).map_err(|error| MetaError::Refused(error.to_string()))?;
        Ok(limited(node, record.limits))
    }
}

/// Is a node opened by either record the same?
fn is_reached_alike(one: &NodeRecord, other: &NodeRecord) -> bool {
    (&one.name, &one.url, &one.secret, one.limits) == (&other.name, &other.url, &other.secret, other.limits)
}

/// The node within its limits; itself where it has none.
fn limited(node: Arc<dyn Node>, limits: NodeLimits) -> Arc<dyn Node> {
    if limits == NodeLimits::default() {
        return node;
    }
    let bytes_per_second = NonZeroU64::new(limits.bytes_per_second);
    Arc::new(LimitNode::new(node, Limits { concurrent_calls: limits.requests, bytes_per_second }))
}

/// Whoever opens a volume waits no longer than this for all nodes together to say how much room they have; the others are asked
/// again in the background.
const GREETING: Duration = Duration::from_secs(2);

/// A reader gets a warning that the metadata is not the volume's if nodes say so within this time.
const READER_GREETING: Duration = Duration::from_millis(300);

/// The engine that moves segments between this process and the nodes. Asks none of them anything.
///
/// # Errors
/// As [`Opener::members`].
pub fn open_transfer(
    store: &Store,
    opener: &Opener,
    settings: weft_transfer::Settings,
    runtime: impl Into<Runtime>,
) -> Result<Transfer, MetaError> {
    let fleet = Arc::new(Fleet::new(opener.members(store)?, store.placement_rule()?, store.env()));
    Ok(Transfer::new(store.volume().volume, fleet, settings, runtime))
}

/// Asks the nodes for their room and whether they know of later metadata, and takes the next opening.
async fn begin(store: &Store, transfer: &Transfer) -> Result<(), MetaError> {
    let latest = store.openings()?.latest.map(|latest| latest.opening);
    let greeting = transfer.fleet().refresh_space_within(GREETING);
    let (looks, set_back) = (transfer.look_for_openings(latest), transfer.set_back(|| store.reached_before()));
    let ((), known, set_back) = tokio::join!(greeting, looks, set_back);
    if let (None, Some(set_back)) = (known.newer, set_back?) {
        if let Err(error) = store.note_set_back(set_back.later) {
            tracing::debug!(%error, "that the metadata was set back is not noted: nodes say so again");
        }
        return Err(MetaError::Superseded(set_back.why));
    }
    openings::take(store, transfer, &known).await
}

/// Warns a reader that the metadata is not the volume's, where that is known soon.
async fn tell_reader(store: &Store, transfer: &Transfer) -> Result<(), MetaError> {
    match store.env().clock.timeout(READER_GREETING, openings::refusal(store, transfer)).await {
        Ok(why) => {
            if let Some(why) = why? {
                tracing::warn!("{why}");
            }
            Ok(())
        }
        Err(_) => Ok(()),
    }
}

/// The metadata at `url`, owned by this process for a change without a volume: it has taken an opening.
///
/// # Errors
/// As [`open_store`]; `Superseded`: nodes know a newer opening.
pub fn own_store(url: &MetaUrl, transfer: &Transfer) -> Result<Store, MetaError> {
    let store = open_store(url, Access::Owner, None, transfer.fleet().env())?;
    transfer.runtime().block_on(begin(&store, transfer))?;
    Ok(store)
}

/// Opens a volume for reading, which nobody is kept from.
///
/// # Errors
/// As [`open_store`] and [`Opener::members`].
pub fn open_reader(
    url: &MetaUrl,
    opener: &Opener,
    transfer_settings: weft_transfer::Settings,
    env: &Env,
    runtime: impl Into<Runtime>,
) -> Result<Reader, VfsError> {
    let store = open_store(url, Access::Shared, None, env)?;
    let transfer = open_transfer(&store, opener, transfer_settings, runtime)?;
    let runtime = transfer.runtime().clone();
    runtime.block_on(tell_reader(&store, &transfer))?;
    Ok(Reader::new(store, transfer, runtime))
}

/// Opens a volume as its only owner or, if the settings say so, together with others or only to read it. Segments move as the
/// settings of transfer say, and a folder may keep what is read.
///
/// # Errors
/// As [`open_store`] and [`Opener::members`]; `Superseded`: nodes know a newer opening; the disk cache cannot be used.
pub fn open_volume(
    url: &MetaUrl,
    mountpoint: Option<&Path>,
    opener: Opener,
    settings: Settings,
    (transfer_settings, disk_cache): (weft_transfer::Settings, Option<&DiskRoom>),
    env: &Env,
    runtime: impl Into<Runtime>,
) -> Result<Arc<Volume>, VfsError> {
    let access = match (settings.read_only, settings.is_shared) {
        (true, _) => Access::Shared,
        (false, true) => Access::Member,
        (false, false) => Access::Owner,
    };
    let store = open_store(url, access, mountpoint, env)?;
    let mut transfer = open_transfer(&store, &opener, transfer_settings, runtime)?;
    if let Some(room) = disk_cache {
        transfer = transfer.with_disk_cache(room).map_err(|error| MetaError::Refused(error.to_string()))?;
    }
    let open_nodes = Box::new(move |store: &Store| opener.members(store));
    start_volume(store, transfer, open_nodes, settings)
}

/// Starts a volume over metadata and nodes that are open.
///
/// # Errors
/// `Superseded`: nodes know a newer opening; metadata cannot be read.
pub fn start_volume(
    store: Store,
    transfer: Transfer,
    open_nodes: OpenNodes,
    settings: Settings,
) -> Result<Arc<Volume>, VfsError> {
    let runtime = transfer.runtime().clone();
    if settings.read_only {
        let greeting = transfer.fleet().refresh_space_within(GREETING);
        runtime.block_on(async { tokio::join!(greeting, tell_reader(&store, &transfer)).1 })?;
    } else {
        runtime.block_on(begin(&store, &transfer))?;
    }
    Volume::start(store, transfer, open_nodes, runtime, settings)
}

#[cfg(test)]
#[path = "open_tests.rs"]
mod tests;
