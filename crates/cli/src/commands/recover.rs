//! `weft recover NODE... META`: the metadata is gone, and is rebuilt from the nodes.

use super::restore;
use crate::arguments::meta_url;
use crate::care::{count, moment};
use anyhow::Result;
use std::path::PathBuf;
use std::process::ExitCode;
use weft_engine::{Env, MetaUrl, replica};

/// Rebuild a volume's metadata from its nodes
///
/// A mount keeps a copy of all names and of the places of all data on the nodes, about a second behind. The command reads the newest that
/// the named nodes have, writes it to META and continues from it, as `weft restore` does from a backup. Name all nodes that are left; as
/// many may be lost as the volume's codes survive. Nothing is removed from nodes. The exit status is that of `weft status`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  weft recover /mnt/disk1 /mnt/disk2 weft+tls://nas:7600/sha256:0c1f meta.db --key nas.key")]
pub struct Arguments {
    /// The nodes: folders, devices or addresses
    #[arg(required = true)]
    nodes: Vec<String>,
    /// The metadata to write: FILE, postgres://HOST/DATABASE or etcd://HOST/NAME
    #[arg(value_parser = meta_url())]
    meta: MetaUrl,
    /// A file with the key of nodes that ask for one; give it several times if they have several
    #[arg(long, value_name = "FILE")]
    key: Vec<PathBuf>,
}

pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let Arguments { nodes, meta, key } = arguments;
    let report = replica::recover(nodes, key, meta, &Env::system())?;
    println!(
        "Rebuilt {meta} with {}: files are as they were {}",
        count(report.slot_count, "record"),
        moment(report.at_ms)
    );
    for (node, why) in &report.silent {
        println!("{node} could not be asked, and may know a later state: {why}");
    }
    if !report.others.is_empty() {
        println!(
            "nodes that were not named: {}; a daemon among them needs its key again: `weft node move {meta} NAME ADDRESS --key FILE`",
            report.others.join(", ")
        );
    }
    if let Some(why) = &report.replica_failure {
        println!("the nodes do not have a new replica of it yet: {why}; a mount tries again");
    }
    Ok(restore::say(meta, &report.restored))
}
