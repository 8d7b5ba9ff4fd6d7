//! `weft recover NODE... META`: the metadata is gone, and is rebuilt from the nodes.

use super::restore;
use crate::arguments::{Output, meta_url};
use crate::care::{self, count, duration, moment};
use anyhow::Result;
use std::path::PathBuf;
use std::process::ExitCode;
use weft_engine::{Env, MetaUrl, replica};

/// Pieces shown.
const SHOWN: usize = 5;

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
    #[command(flatten)]
    output: Output,
}

pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let Arguments { nodes, meta, key, output } = arguments;
    let report = replica::recover(nodes, key, meta, &Env::system())?;
    if output.json {
        println!("{:#}", json(&report));
        return Ok(care::exit_code(&report.restored.tally));
    }
    println!(
        "Rebuilt {meta} with {}: files are as they were {}",
        count(report.slot_count, "record"),
        moment(report.at_ms)
    );
    if report.newest_at_ms > report.at_ms {
        let behind = duration(report.newest_at_ms - report.at_ms);
        println!("that is {behind} before the newest state that the nodes list, which cannot be read whole");
    }
    for why in report.unreadable.iter().take(SHOWN) {
        println!("a piece of the replica cannot be read from any copy: {why}");
    }
    if let more @ 1.. = report.unreadable.len().saturating_sub(SHOWN) {
        println!("so it is with {}", count(more as u64, "more piece"));
    }
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

fn json(report: &replica::RecoverReport) -> serde_json::Value {
    let silent = |(node, why): &(String, String)| serde_json::json!({ "node": node, "why": why });
    serde_json::json!({
        "volume": report.volume.to_string(),
        "record_count": report.slot_count,
        "at_ms": report.at_ms,
        "newest_at_ms": report.newest_at_ms,
        "unreadable": report.unreadable,
        "silent": report.silent.iter().map(silent).collect::<Vec<_>>(),
        "others": report.others,
        "replica_failure": report.replica_failure,
        "restored": restore::json(&report.restored),
    })
}
