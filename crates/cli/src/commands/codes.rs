//! `weft codes list|show|check`: erasure codes, before trusting one with anything.

mod check;

use crate::compose;
use crate::render;
use anyhow::Result;
use check::{Check, Losses};
use serde::Serialize;
use std::process::ExitCode;
use weft_codes::{Code, Content};

#[derive(Debug, clap::Subcommand)]
pub enum Arguments {
    /// List the families of codes
    List {
        /// For programs
        #[arg(long)]
        json: bool,
    },
    /// Say what a code is: how many nodes it needs, what it costs, what it survives, what a repair reads
    Show {
        /// As in rs:4+2
        code: String,
        /// For programs
        #[arg(long)]
        json: bool,
    },
    /// Encode, lose shards, decode and compare: every pattern of losses that the code promises to survive, where there are
    /// not too many, else a sample
    Check {
        /// As in rs:4+2
        code: String,
    },
}

#[derive(Serialize)]
struct Family {
    name: &'static str,
    syntax: &'static str,
    example: &'static str,
    description: &'static str,
    source: &'static str,
}

#[derive(Serialize)]
struct Shown {
    code: String,
    nodes: usize,
    data_nodes: usize,
    tolerance: usize,
    sub_symbols: usize,
    stored_bytes_per_byte: f64,
    systematic: bool,
    /// Shards' worth of bytes read to rebuild one shard, on average.
    repair_reads_shards: f64,
    groups: Vec<Vec<usize>>,
}

pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    match arguments {
        Arguments::List { json } => list(*json)?,
        Arguments::Show { code, json } => show(&*compose::code(code)?, *json)?,
        Arguments::Check { code } => return check(&*compose::code(code)?),
    }
    Ok(ExitCode::SUCCESS)
}

fn list(json: bool) -> Result<()> {
    let families: Vec<Family> = weft_codes::families()
        .iter()
        .map(|family| Family {
            name: family.name,
            syntax: family.syntax,
            example: family.example,
            description: family.description,
            source: family.source,
        })
        .collect();
    if json {
        println!("{}", serde_json::to_string_pretty(&families)?);
        return Ok(());
    }
    let header = ["FAMILY", "WRITTEN", "EXAMPLE", "WHAT IT IS"].map(str::to_owned).to_vec();
    let row =
        |family: &Family| [family.name, family.syntax, family.example, family.description].map(str::to_owned).to_vec();
    let rows: Vec<_> = std::iter::once(header).chain(families.iter().map(row)).collect();
    print!("{}", render::table(&rows, &[]));
    Ok(())
}

fn show(code: &dyn Code, json: bool) -> Result<()> {
    let shape = code.shape();
    let shown = Shown {
        code: code.spec().to_owned(),
        nodes: shape.n,
        data_nodes: shape.k,
        tolerance: shape.tolerance,
        sub_symbols: shape.alpha,
        stored_bytes_per_byte: (shape.n * shape.alpha) as f64 / shape.native_count as f64,
        systematic: is_systematic(code),
        repair_reads_shards: check::repair_reads_shards(code)?,
        groups: shape.groups.iter().map(|group| group.shards.clone()).collect(),
    };
    if json {
        println!("{}", serde_json::to_string_pretty(&shown)?);
        return Ok(());
    }
    let any = if shown.tolerance == 1 { "any one node".to_owned() } else { format!("any {} nodes", shown.tolerance) };
    println!("{}", shown.code);
    println!("  needs {} nodes and survives the loss of {any}", shown.nodes);
    println!("  stores {:.2} bytes for each byte of data", shown.stored_bytes_per_byte);
    let reads = if shown.systematic { "reads touch only the data asked for" } else { "every read decodes" };
    println!("  {reads}");
    println!("  rebuilding a lost node reads {:.2} times its bytes", shown.repair_reads_shards);
    if shown.sub_symbols > 1 {
        println!("  each shard is cut into {} symbols a stripe", shown.sub_symbols);
    }
    for group in shown.groups {
        println!("  nodes {group:?} repair among themselves");
    }
    Ok(())
}

/// Is every native symbol stored as it is somewhere?
fn is_systematic(code: &dyn Code) -> bool {
    let shape = code.shape();
    (0..shape.native_count).all(|native| shape.contents.contains(&Content::Native(native)))
}

fn check(code: &dyn Code) -> Result<ExitCode> {
    let check = Check::new(code)?;
    let mut sound = true;
    for losses in check.promised() {
        let outcome = check.run(&losses)?;
        sound &= outcome.decoded == outcome.tried;
        let how = if matches!(losses, Losses::Sample { .. }) { "sampled patterns" } else { "patterns, all of them" };
        println!("{} lost: {} of {} {how} decoded", losses.count(), outcome.decoded, outcome.tried);
    }
    // Beyond the promise nothing is owed; it is told because codes differ.
    if let Some(beyond) = check.beyond() {
        let outcome = check.run(&beyond)?;
        let share = 100.0 * outcome.decoded as f64 / outcome.tried.max(1) as f64;
        println!("{} lost, which is not promised: {share:.0} % decoded", beyond.count());
    }
    if sound {
        println!(
            "{} keeps its promise: any {} of {} nodes may be lost",
            code.spec(),
            code.shape().tolerance,
            code.shape().n
        );
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("weft: {} does not keep its promise: do not store anything by it", code.spec());
    Ok(ExitCode::FAILURE)
}
