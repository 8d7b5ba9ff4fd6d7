//! What commands ask of codes and nodes by name, with the mend in the command line's words.

use anyhow::{Context, Result, anyhow};
use std::fs;
use std::sync::Arc;
use weft_codes::Code;
use weft_codes::families::Problem;
use weft_codes::families::ldpc::Graph;

/// The code that a spec string names; `ldpc:@FILE` is the code of a graph file.
pub fn code(spec: &str) -> Result<Arc<dyn Code>> {
    let Some(file) = spec.strip_prefix("ldpc:@") else {
        return Ok(weft_codes::parse(spec)?);
    };
    let text = fs::read_to_string(file).with_context(|| format!("the graph file {file} cannot be read"))?;
    let graph = Graph::from_file(&text).map_err(|problem| match problem {
        Problem::Impossible(reason) => anyhow!("the graph file {file} does not contain a graph: {reason}"),
        Problem::Syntax => {
            anyhow!("the graph file {file} does not contain a graph: begin it with a line `data+checks`")
        }
    })?;
    Ok(weft_codes::parse(&format!("ldpc:{}", graph.to_spec()))?)
}
