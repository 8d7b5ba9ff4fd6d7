//! What commands ask of codes and nodes by name, with the mend in the command line's words.

use anyhow::{Context, Result, anyhow, bail};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use weft_codes::Code;
use weft_codes::families::Problem;
use weft_codes::families::ldpc::Graph;
use weft_format::NodeId;
use weft_format::records::{NodeRecord, NodeState};
use weft_meta::Store;

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
