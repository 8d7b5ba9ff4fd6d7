//! Metadata rebuilt from nodes: `weft recover`.

use super::chain::{self, Chain};
use crate::copies::{self, RestoreReport};
use crate::engine::{Engine, Options};
use crate::error::EngineError;
use crate::keeper::Keeper;
use crate::key_file;
use crate::kinds::kinds;
use crate::runtime::runtime;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use weft_env::Env;
use weft_format::records::{NodeRecord, PlacementRule, ReplicaSlot, Secret};
use weft_format::{NodeId, SegmentId, VolumeId};
use weft_meta::{Access, MetaUrl, Store};
use weft_nodes::{Node, NodeAt, NodeIdentity};
use weft_transfer::{Fleet, FoundReplicas, Settings, Transfer, UnreadableReplica};
use weft_vfs::open::open_any_store;

/// What was rebuilt.
#[derive(Clone, Debug)]
pub struct RecoverReport {
    /// Whose metadata it is.
    pub volume: VolumeId,
    /// Files are as they were then, in milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// The newest state that nodes list is of then. It is later than `at_ms` if some of it cannot be read.
    pub newest_at_ms: u64,
    /// Pieces of the replica of which no copy can be used, and why. What they say may be later than `newest_at_ms`.
    pub unreadable: Vec<String>,
    /// Keys of the metadata that were read.
    pub slot_count: u64,
    /// Nodes that could not be asked, and why.
    pub silent: Vec<(String, String)>,
    /// Nodes of the volume that were not named, or did not answer, and are reached as metadata says.
    pub others: Vec<String>,
    /// How the volume continues.
    pub restored: RestoreReport,
    /// Why nodes do not have the new replica yet.
    pub replica_failure: Option<String>,
}

/// A node that answered.
struct Found {
    url: String,
    secret: Secret,
    identity: NodeIdentity,
    node: Arc<dyn Node>,
}

/// Rebuilds the metadata of the volume of the nodes at these addresses as the new store `meta`, which must not exist, and continues from
/// it. Nodes that want a key get the one of `key_files` that they take.
///
/// # Errors
/// No node answers; they are of two volumes; none has a whole replica. Nothing is made then.
pub fn recover(
    addresses: &[String],
    key_files: &[PathBuf],
    meta: &MetaUrl,
    env: &Env,
) -> Result<RecoverReport, EngineError> {
    copies::make_way(meta)?;
    if meta.exists() {
        return Err(EngineError::Place(format!("{meta} exists already; choose another path, or move it away")));
    }
    let runtime = runtime()?;
    let mut found = Vec::new();
    for address in addresses {
        found.push(ask(address, key_files, &runtime)?);
    }
    let volumes: BTreeSet<VolumeId> = found.iter().map(|found| found.identity.volume).collect();
    let Some(volume) = volumes.first().copied().filter(|_| volumes.len() == 1) else {
        return Err(EngineError::Place(format!("these are nodes of {} volumes: name the nodes of one", volumes.len())));
    };
    let members =
        found.iter().map(|found| (found.identity.node, record(&found.url, found), found.node.clone())).collect();
    let fleet = Arc::new(Fleet::new(members, PlacementRule::default(), env));
    let transfer = Transfer::new(volume, fleet, Settings::default(), runtime.handle());
    let state = runtime.block_on(NewestState::find(&transfer))?;
    let silent = state.listed.silent.iter().map(|(node, why)| (transfer.fleet().name(*node), why.clone())).collect();
    let slot_count = build(meta, &state, &transfer, &runtime)?;
    let reached: Vec<(NodeId, NodeRecord)> =
        found.iter().map(|found| (found.identity.node, record(&found.url, found))).collect();
    let reach = || reach_nodes(&open_any_store(meta, Access::Owner, None, env)?, &reached);
    let others = reach().inspect_err(|_| {
        // It is no volume's metadata yet, and must not be taken for it.
        let _ = meta.remove();
    })?;
    let mut restored = copies::take_over(meta)?;
    // Nodes get a new replica before the metadata is used: the machine may be lost again.
    let engine = Engine::open(meta, env, Options { is_replicated: true, ..Options::default() })?;
    let replica_failure = engine.replicate().err();
    match engine.close() {
        Ok(()) | Err(EngineError::Unreplicated(_)) => {}
        Err(error) => return Err(error),
    }
    // What the journal had is in segments now.
    let keeper = Keeper::open(meta, env)?;
    restored.tally = weft_care::glance(&*keeper.catalogue, &keeper.probe()?)?;
    let (at_ms, newest_at_ms) = (state.chain.at_ms(), state.newest_at_ms);
    let unreadable = state.listed.unreadable.into_values().map(|why| why.detail).collect();
    Ok(RecoverReport { volume, at_ms, newest_at_ms, unreadable, slot_count, silent, others, restored, replica_failure })
}

/// Which node is there, with the first of the keys that it takes.
fn ask(address: &str, key_files: &[PathBuf], runtime: &tokio::runtime::Runtime) -> Result<Found, EngineError> {
    let kinds = kinds();
    let url = kinds.parse(address)?;
    let mut secrets = Vec::new();
    for file in key_files {
        let text = key_file::read(file).map_err(|error| EngineError::Place(error.to_string()))?;
        secrets.extend(kinds.secret_of(&url, &text));
    }
    secrets.push(Secret::default());
    let open = |identity, secret: &Secret| kinds.open(&NodeAt { url: &url, name: address, identity, secret });
    // Places of this machine say which node they are without being opened as one; the others are asked as a stranger.
    let of_place = kinds.probe(&url).ok().flatten();
    let nobody = NodeIdentity { volume: VolumeId(0), node: NodeId(0) };
    let mut refusal = None;
    for secret in secrets {
        let ask = || open(nobody, &secret).and_then(|node| runtime.block_on(async move { node.identity().await }));
        match of_place.map_or_else(ask, Ok) {
            Ok(identity) => {
                let node = open(identity, &secret)?;
                return Ok(Found { url: url.to_string(), node, secret, identity });
            }
            Err(error) => refusal = refusal.or(Some(error)),
        }
    }
    Err(refusal.map_or_else(|| EngineError::Place(format!("{address} is no node")), EngineError::from))
}

fn record(name: &str, found: &Found) -> NodeRecord {
    NodeRecord { secret: found.secret.clone(), ..NodeRecord::of(name, &found.url) }
}

fn nothing_whole(listed: &FoundReplicas) -> String {
    let unreadable = listed.unreadable.values().map(|why| why.detail.clone());
    let whys: Vec<String> = listed.silent.values().cloned().chain(unreadable).collect();
    let whys = if whys.is_empty() { String::new() } else { format!(" ({})", whys.join("; ")) };
    match listed.pieces.len() + listed.unreadable.len() {
        0 => format!(
            "these nodes hold no replica of the metadata{whys}: name more nodes of the volume, or use a copy with `weft restore`"
        ),
        pieces => format!(
            "these nodes hold {pieces} pieces of the metadata's replica, and not all of a snapshot with what follows it{whys}: name more \
             nodes of the volume, or use a copy with `weft restore`"
        ),
    }
}

/// The newest state of the metadata that nodes have, all of which can be read.
#[derive(Debug)]
pub struct NewestState {
    chain: Chain,
    listed: FoundReplicas,
    /// That of the newest state that nodes list, whether it can be read or not.
    newest_at_ms: u64,
}

impl NewestState {
    /// Asks the nodes of `transfer`, and reads each piece: where one is lost, an older state is taken.
    ///
    /// # Errors
    /// They have no whole one; a node that has a piece of it stopped answering.
    pub async fn find(transfer: &Transfer) -> Result<Self, EngineError> {
        let mut listed = transfer.find_replicas(&BTreeMap::new()).await;
        let (mut newest_at_ms, mut sound) = (None, BTreeSet::new());
        loop {
            if let Some(why) = listed.unreadable.values().find(|why| !why.is_lost) {
                return Err(EngineError::Place(format!(
                    "a piece of the metadata's replica cannot be read now: {why}: try again, or leave out the node that does not answer"
                )));
            }
            let headers = listed.pieces.iter().map(|(id, piece)| (*id, piece.header)).collect();
            let Some(chain) = chain::newest(&headers, None) else {
                return Err(EngineError::Place(nothing_whole(&listed)));
            };
            let newest_at_ms = *newest_at_ms.get_or_insert(chain.at_ms());
            match read_all(&chain, &listed, &mut sound, transfer).await {
                Ok(()) => return Ok(Self { chain, listed, newest_at_ms }),
                Err((piece, why)) => {
                    listed.pieces.remove(&piece);
                    listed.unreadable.insert(piece, why);
                }
            }
        }
    }

    /// Its pieces, in the order in which they are applied.
    pub fn pieces(&self) -> impl Iterator<Item = SegmentId> + '_ {
        self.chain.pieces()
    }

    /// What one of them says.
    ///
    /// # Errors
    /// Why no copy of it can be used; a clause.
    pub async fn read(&self, transfer: &Transfer, piece: SegmentId) -> Result<Vec<ReplicaSlot>, String> {
        let read = transfer.read_replica(&self.listed.pieces[&piece]).await;
        Ok(read.map_err(|why| why.to_string())?.slots)
    }
}

/// Reads what is not known to be sound; the first piece that is not.
async fn read_all(
    chain: &Chain,
    listed: &FoundReplicas,
    sound: &mut BTreeSet<SegmentId>,
    transfer: &Transfer,
) -> Result<(), (SegmentId, UnreadableReplica)> {
    for piece in chain.pieces() {
        if !sound.contains(&piece) {
            transfer.read_replica(&listed.pieces[&piece]).await.map_err(|why| (piece, why))?;
            sound.insert(piece);
        }
    }
    Ok(())
}

/// Makes the store of the pieces, one after the other.
fn build(
    meta: &MetaUrl,
    state: &NewestState,
    transfer: &Transfer,
    runtime: &tokio::runtime::Runtime,
) -> Result<u64, EngineError> {
    let mut slot_count = 0;
    let mut pieces = state.pieces();
    meta.load(&mut || {
        let Some(piece) = pieces.next() else { return Ok(None) };
        let slots = runtime.block_on(state.read(transfer, piece))?;
        slot_count += slots.len() as u64;
        Ok(Some(slots))
    })?;
    Ok(slot_count)
}

/// Lets a store that this process owns reach the nodes where they are now. The names of the others.
///
/// # Errors
/// The metadata's.
pub fn reach_nodes(store: &Store, found: &[(NodeId, NodeRecord)]) -> Result<Vec<String>, EngineError> {
    let (mut changes, mut others) = (Vec::new(), Vec::new());
    for (id, before) in store.nodes()? {
        match found.iter().find(|(node, _)| *node == id) {
            Some((_, found)) => {
                let now = NodeRecord { url: found.url.clone(), secret: found.secret.clone(), ..before.clone() };
                changes.push((id, before, now));
            }
            None => others.push(before.name),
        }
    }
    others.sort();
    // One that was added after that moment may hold what was moved to it.
    for (node, found) in found.iter().filter(|(node, _)| changes.iter().all(|(id, ..)| id != node)) {
        let name = format!("recovered-{}", &node.to_string()[..8]);
        store.add_node(*node, &NodeRecord { name, ..found.clone() })?;
    }
    let changes: Vec<_> = changes.iter().map(|(id, before, now)| (*id, before, now)).collect();
    store.update_nodes(&changes)?;
    store.flush()?;
    Ok(others)
}

#[cfg(test)]
#[path = "recover_tests.rs"]
mod tests;
