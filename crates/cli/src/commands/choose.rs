//! `weft choose [META]`: which codes suit the nodes that there are and what is asked of them.

mod nodes_file;
mod table;

use crate::amount::parse_size;
use crate::arguments::{META_HELP, Output, meta_url};
use crate::care;
use crate::compose;
use anyhow::{Context, Result, bail};
use nodes_file::Assumed;
pub use nodes_file::NodesFile;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use weft_engine::{MetaUrl, Survey};
use weft_lab::models::choice::{self, Choice, Needs, Node};
use weft_lab::page::Ranked;

/// Rank the codes that suit your nodes and needs
///
/// Nodes come from a volume, from a JSON file, or from both. The file adds what the volume does not know
/// about its nodes, above all prices. Only `name` is required, and `room` without a volume:
///
///   {"client_speed": "125M", "repair_share": 0.2,
///    "nodes": [{"name": "nas1", "speed": "80M", "latency_ms": 10, "room": "4T", "domain": "home",
///               "price_per_gib_month": 0.004, "price_per_gib_read": 0.01,
///               "annual_failure_rate": 0.02, "computes": false}]}
///
/// Speeds are bytes a second. A domain fails as one and holds at most one shard of a segment; by default
/// each node is its own. Codes that meet the needs come first: the cheapest to store, then the cheapest
/// to repair, then the fastest to read. The chance of a loss is that of losing any data of the volume; it
/// is computed from the exact patterns of lost nodes that each code survives.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  weft choose meta.db
  weft choose meta.db --nodes prices.json --capacity 10T
  weft choose --nodes nodes.json --explain rs:4+2")]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    #[arg(help = META_HELP, value_parser = meta_url(), required_unless_present = "nodes")]
    meta: Option<MetaUrl>,
    /// JSON file of nodes, see above
    #[arg(long, value_name = "FILE")]
    nodes: Option<PathBuf>,
    /// Highest acceptable chance to lose any data within a year
    #[arg(long, value_name = "CHANCE", default_value = "1e-6", value_parser = parse_chance)]
    loss: f64,
    /// Data to be stored, as in 10T [default: a third of the room of all nodes]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    capacity: Option<std::num::NonZeroU64>,
    /// Size of a typical file: small (64K), large (64M), or as in 4M
    #[arg(long, value_name = "small|large|SIZE", default_value = "large", value_parser = parse_files)]
    files: u64,
    /// Time until the repair of a lost node begins
    #[arg(long, value_name = "TIME", default_value = "15m", value_parser = care::parse_duration)]
    detect: u64,
    /// Show how each number for this code is computed
    #[arg(long, value_name = "CODE")]
    explain: Option<String>,
    /// Show all codes, not only the first ones
    #[arg(long)]
    all: bool,
    /// Write an HTML page with pictures, all codes and how each number is computed
    #[arg(long, value_name = "FILE.html", conflicts_with = "explain")]
    page: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
}

const SMALL_FILE_BYTES: u64 = 64 << 10;
const LARGE_FILE_BYTES: u64 = 64 << 20;

fn parse_files(text: &str) -> Result<u64, String> {
    match text {
        "small" => Ok(SMALL_FILE_BYTES),
        "large" => Ok(LARGE_FILE_BYTES),
        _ => parse_size(text).map(|bytes| bytes.get()),
    }
}

fn parse_chance(text: &str) -> Result<f64, String> {
    let chance = text.parse::<f64>().ok().filter(|chance| *chance > 0.0 && *chance < 1.0);
    chance.ok_or_else(|| format!("`{text}` is not a chance: write a number between 0 and 1, as in 1e-6"))
}

/// What is compared, and where it is from.
struct Question {
    nodes: Vec<Node>,
    needs: Needs,
    /// What was measured or assumed; a sentence each.
    notes: Vec<String>,
    /// What a volume stores, by code.
    stored: Option<Stored>,
}

#[derive(Serialize)]
struct Answer<'a> {
    nodes: &'a [Node],
    needs: &'a Needs,
    notes: &'a [String],
    choices: Vec<Row<'a>>,
}

#[derive(Serialize)]
struct Row<'a> {
    #[serde(flatten)]
    choice: &'a Choice,
    /// Of what the volume stores by other codes; missing without a volume.
    conversion: Option<Conversion>,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let question = question(arguments)?;
    if let Some(spec) = &arguments.explain {
        return explain(&question, spec);
    }
    let choices = choice::rank(&question.nodes, &question.needs)?;
    let heading = table::heading(&question.nodes, &question.needs);
    if let Some(path) = &arguments.page {
        write_page(path, &heading, &question, &choices)?;
    }
    if arguments.output.json {
        let row =
            |choice| Row { choice, conversion: question.stored.as_ref().map(|stored| stored.conversion_to(choice)) };
        let choices = choices.iter().map(row).collect();
        let answer = Answer { nodes: &question.nodes, needs: &question.needs, notes: &question.notes, choices };
        println!("{}", serde_json::to_string_pretty(&answer)?);
        return Ok(());
    }
    println!("{heading}");
    question.notes.iter().for_each(|note| println!("{note}"));
    println!("\n{}", table::of(&choices, arguments.all));
    if std::io::stdout().is_terminal() {
        println!("{}", table::bars(&choices));
    }
    table::advice(&choices, arguments.meta.as_ref(), question.stored.as_ref())
        .iter()
        .for_each(|line| println!("{line}"));
    Ok(())
}

fn write_page(path: &Path, heading: &str, question: &Question, choices: &[Choice]) -> Result<()> {
    let Question { nodes, needs, notes, .. } = question;
    let page = weft_lab::page::choices(&Ranked { heading, notes, nodes, needs, choices })?;
    std::fs::write(path, page).with_context(|| format!("{} cannot be written", path.display()))
}

fn explain(question: &Question, spec: &str) -> Result<()> {
    let code = compose::code(spec)?;
    let choice = choice::choice(&question.nodes, &question.needs, &*code)?;
    println!("{}", choice.code);
    choice::explain(&choice, &question.nodes, &question.needs).iter().for_each(|line| println!("  {line}"));
    question.notes.iter().for_each(|note| println!("{note}"));
    Ok(())
}

fn question(arguments: &Arguments) -> Result<Question> {
    let file = arguments.nodes.as_deref().map(NodesFile::read).transpose()?.unwrap_or_default();
    let volume = arguments.meta.as_ref().map(weft_engine::survey).transpose()?;
    let mut assumed = Assumed::default();
    let (nodes, mut notes, stored) = match volume {
        None => (file.to_nodes(&mut assumed)?, Vec::new(), None),
        Some(volume) => {
            require_known(&file, &volume, arguments.nodes.as_deref())?;
            let notes = notes(&volume);
            let nodes = volume.nodes.into_iter().map(|known| file.completed(known, &mut assumed)).collect();
            (nodes, notes, Some(Stored { by_code: volume.data_bytes_by_code }))
        }
    };
    notes.extend(assumed.notes());
    let room_bytes: f64 = nodes.iter().map(|node: &Node| node.room_bytes).sum();
    let capacity_bytes = arguments.capacity.map_or(room_bytes / 3.0, |bytes| bytes.get() as f64);
    let needs = Needs {
        annual_loss_max: arguments.loss,
        capacity_bytes,
        file_bytes: arguments.files as f64,
        detection_seconds: arguments.detect as f64 / 1e3,
        client_bytes_per_second: file.client_bytes_per_second()?,
        repair_share: file.repair_share(),
    };
    Ok(Question { nodes, needs, notes, stored })
}

/// How the nodes of a volume were measured.
fn notes(volume: &Survey) -> Vec<String> {
    let mut notes = vec![
        "latencies are medians of three requests; speeds are limits of nodes, or one read of up to 1 MiB of a shard"
            .to_owned(),
    ];
    if !volume.silent.is_empty() {
        let silent = volume.silent.join(", ");
        notes.push(format!("these nodes do not answer now, so their weight counts as their room: {silent}"));
    }
    notes
}

/// Data bytes by code.
struct Stored {
    by_code: BTreeMap<String, u64>,
}

/// What converting all that a volume stores moves at most: shards that both codes share, and segments that can be merged, save some of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
struct Conversion {
    read_bytes: u64,
    written_bytes: u64,
}

impl Stored {
    fn conversion_to(&self, choice: &Choice) -> Conversion {
        let others = self.by_code.iter().filter(|(code, _)| **code != choice.code);
        let read_bytes = others.map(|(_, bytes)| bytes).sum::<u64>();
        Conversion { read_bytes, written_bytes: (read_bytes as f64 * choice.stored_per_byte) as u64 }
    }
}

/// A name in the file that no node has is a slip of the pen.
fn require_known(file: &NodesFile, volume: &Survey, path: Option<&Path>) -> Result<()> {
    let is_known = |name: &str| volume.nodes.iter().any(|node| node.name == name);
    match file.names().find(|name| !is_known(name)) {
        Some(name) => bail!(
            "{} names the node {name}, which the volume does not have: correct the name, or leave out META",
            path.unwrap_or(Path::new("the file")).display()
        ),
        None => Ok(()),
    }
}

#[cfg(test)]
#[path = "choose_tests.rs"]
mod tests;
