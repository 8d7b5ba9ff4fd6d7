//! The composition root: from the path of META to a volume that works.

use anyhow::{Context, Result, anyhow, bail};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use tokio::runtime::Runtime;
use weft_codes::Code;
use weft_codes::families::Problem;
use weft_codes::families::ldpc::Graph;
use weft_format::NodeId;
use weft_format::records::{NodeRecord, NodeState};
use weft_meta::{Access, Store};
use weft_transfer::DiskRoom;
use weft_vfs::{Reader, Settings, Volume};

/// A volume open in this process, as its only owner or as one of its readers.
pub struct Opened {
    pub volume: Arc<Volume>,
    /// Runs transfers as long as the volume lives.
    pub runtime: Runtime,
}

impl Opened {
    /// Opens it. `mountpoint` is what others are told who find it in use.
    pub fn open(
        meta: &Path,
        mountpoint: Option<&Path>,
        transfer: weft_transfer::Settings,
        disk_cache: Option<&DiskRoom>,
    ) -> Result<Self> {
        Self::open_as(meta, mountpoint, Settings::default(), transfer, disk_cache)
    }

    /// The same with settings of the volume.
    pub fn open_as(
        meta: &Path,
        mountpoint: Option<&Path>,
        settings: Settings,
        transfer: weft_transfer::Settings,
        disk_cache: Option<&DiskRoom>,
    ) -> Result<Self> {
        let runtime = runtime()?;
        let volume = weft_vfs::open::open_volume(meta, mountpoint, settings, transfer, disk_cache, runtime.handle())?;
        Ok(Self { volume, runtime })
    }

    /// Ends it; what was written is durable.
    pub fn close(self) -> Result<()> {
        self.volume.shut_down().context("not everything could be written")
    }
}

/// A volume open in this process for reading.
pub struct OpenedReader {
    pub reader: Reader,
    /// Runs transfers as long as the reader lives.
    _runtime: Runtime,
}

impl OpenedReader {
    pub fn open(meta: &Path, transfer: weft_transfer::Settings) -> Result<Self> {
        let runtime = runtime()?;
        let reader = weft_vfs::open::open_reader(meta, transfer, runtime.handle())?;
        Ok(Self { reader, _runtime: runtime })
    }
}

/// The threads on which transfers run, with as many open files as are allowed at all: the usual 1,024 are for programs
/// that call `select`.
pub fn runtime() -> Result<Runtime> {
    let allowed = getrlimit(Resource::Nofile);
    // As many as there are will have to do, else.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: allowed.maximum, ..allowed });
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().thread_name("transfer").build();
    runtime.context("no threads can be started")
}

/// The metadata beside whoever has the volume mounted.
pub fn open_shared(meta: &Path) -> Result<Store> {
    Ok(weft_vfs::open::open_store(meta, Access::Shared, None)?)
}

/// The code that a spec string names; `ldpc:@FILE` is the code of a graph file.
pub fn code(spec: &str) -> Result<Arc<dyn Code>> {
    let Some(file) = spec.strip_prefix("ldpc:@") else {
        return Ok(weft_codes::parse(spec)?);
    };
    let text = fs::read_to_string(file).with_context(|| format!("the graph file {file} cannot be read"))?;
    let graph = Graph::from_file(&text).map_err(|problem| match problem {
        Problem::Impossible(reason) => anyhow!("the graph file {file} holds no graph: {reason}"),
        Problem::Syntax => anyhow!("the graph file {file} holds no graph: begin with a line `data+checks`"),
    })?;
    Ok(weft_codes::parse(&format!("ldpc:{}", graph.to_spec()))?)
}

/// Nodes that take new shards.
pub fn active_nodes(nodes: &[(NodeId, NodeRecord)]) -> usize {
    nodes.iter().filter(|(_, node)| node.state == NodeState::Active).count()
}

/// Refuses a volume with fewer nodes than its root directory's code has shards: nothing could be written.
pub fn require_nodes(meta: &Path, store: &Store, spec: &str) -> Result<()> {
    let needed = code(spec)?.shape().n;
    let there = active_nodes(&store.nodes()?);
    if there >= needed {
        return Ok(());
    }
    let missing = needed - there;
    let (meta, nodes) = (meta.display(), if there == 1 { "node" } else { "nodes" });
    bail!(
        "{spec} needs {needed} nodes and {meta} has {there} {nodes}: add {missing} more with `weft node add {meta} NAME FOLDER`"
    )
}
