//! `weft format META`: a new, empty volume.

use crate::arguments::Meta;
use crate::care::count;
use crate::compose;
use anyhow::Result;
use weft_engine::MetaUrl;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  weft format meta.db
  weft format meta.db --policy raid6:6 --write-margin 1")]
pub struct Arguments {
    #[command(flatten)]
    meta: Meta,
    /// Code of all files, unless a directory has its own (`weft codes list`)
    #[arg(long, value_name = "CODE", default_value = "rs:4+2")]
    policy: String,
    /// Losses that new data must survive at once even if nodes are away or full [default: every shard is stored except those of nodes
    /// that are away]
    #[arg(long, value_name = "COUNT")]
    write_margin: Option<u16>,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let meta = &arguments.meta;
    let (spec, nodes) = format(meta, &arguments.policy, arguments.write_margin)?;
    let nodes = count(nodes as u64, "node");
    println!("Made the volume {} with policy {spec}: add at least {nodes} with", meta);
    println!("  weft node add {} NAME FOLDER", meta);
    Ok(())
}

/// Makes the volume; gives the canonical spec of its code and the nodes that it needs.
pub fn format(meta: &MetaUrl, spec: &str, write_margin: Option<u16>) -> Result<(String, usize)> {
    let code = compose::code(spec)?;
    weft_engine::format(meta, &*code, write_margin, &weft_engine::Env::system())?;
    Ok((code.spec().to_owned(), code.shape().n))
}
