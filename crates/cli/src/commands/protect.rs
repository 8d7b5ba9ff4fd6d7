//! `weft protect META [--sync|--async]`: how far an fsync goes.

use crate::arguments::Meta;
use anyhow::{Result, bail};
use weft_engine::protection::{is_in_step, set_in_step};

/// Show or choose whether an fsync waits until nodes have the names, too
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  weft protect meta.db
  weft protect meta.db --sync")]
pub struct Arguments {
    #[command(flatten)]
    meta: Meta,
    /// An fsync waits until the names that it makes durable are on the nodes: the metadata's disk and any m nodes may then be lost without a
    /// loss. It takes as long as the slowest of m + 1 nodes
    #[arg(long)]
    sync: bool,
    /// An fsync waits for the metadata's disk only; names reach the nodes about a second later. The default
    #[arg(long, conflicts_with = "sync")]
    r#async: bool,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let meta = &*arguments.meta;
    let Some(before) = is_in_step(meta)? else {
        bail!("{meta} is on a server, which keeps its own copies: give it a synchronous standby");
    };
    let now = arguments.sync || before && !arguments.r#async;
    if now != before {
        set_in_step(meta, now)?;
    }
    match now {
        true => println!("An fsync waits until the names are on the nodes"),
        false => println!("An fsync waits for the metadata's disk; the names are on the nodes about a second later"),
    }
    Ok(())
}
