//! `weft codes ...`: erasure codes, before trusting one with anything. One file per command.

mod bench;
mod chances;
mod check;
mod drawing;
mod figures;
mod layout;
mod list;
mod search_ldpc;
mod show;
mod stripe;

use anyhow::Result;
use std::process::ExitCode;

#[derive(Debug, clap::Subcommand)]
#[command(after_help = "Examples:
  weft codes list
  weft codes show rs:4+2")]
pub enum Arguments {
    /// List the families of codes, with the losses, storage and repair reads of an example of each
    List(list::Arguments),
    /// Show a code: the symbols of each node, how they are computed, the losses it survives, the reads of a repair
    Show(show::Arguments),
    /// Prove codes: lose every pattern of nodes that they promise to survive, or a sample of many, decode, rebuild and compare
    Check(check::Arguments),
    /// Measure how fast codes encode, decode and repair here, on one core and on all, beside the limits of the machine
    Bench(bench::Arguments),
    /// Search for a sparse graph of XORs; equal arguments find equal graphs
    SearchLdpc(search_ldpc::Arguments),
}

pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    match arguments {
        Arguments::List(arguments) => list::run(arguments)?,
        Arguments::Show(arguments) => show::run(arguments)?,
        Arguments::Check(arguments) => return check::run(arguments),
        Arguments::Bench(arguments) => bench::run(arguments)?,
        Arguments::SearchLdpc(arguments) => search_ldpc::run(arguments)?,
    }
    Ok(ExitCode::SUCCESS)
}
