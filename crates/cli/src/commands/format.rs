//! `weft format META`: a new, empty volume.

use crate::care::count;
use crate::compose;
use anyhow::Result;
use std::path::{Path, PathBuf};

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Metadata file to make
    meta: PathBuf,
    /// How files are protected, unless a directory says otherwise (`weft codes list`)
    #[arg(long, value_name = "CODE", default_value = "rs:4+2")]
    policy: String,
    /// Losses that what is written must survive at once, though nodes are away or full; without it every shard is stored but for
    /// those of nodes that are away
    #[arg(long, value_name = "COUNT")]
    write_margin: Option<u16>,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let meta = &arguments.meta;
    let (spec, nodes) = format(meta, &arguments.policy, arguments.write_margin)?;
    let nodes = count(nodes as u64, "node");
    println!("Made the volume {} with policy {spec}: add at least {nodes} with", meta.display());
    println!("  weft node add {} NAME FOLDER", meta.display());
    Ok(())
}

/// Makes the volume; gives the canonical spec of its code and the nodes that it needs.
pub fn format(meta: &Path, spec: &str, write_margin: Option<u16>) -> Result<(String, usize)> {
    let code = compose::code(spec)?;
    weft_engine::format(meta, &*code, write_margin)?;
    Ok((code.spec().to_owned(), code.shape().n))
}
