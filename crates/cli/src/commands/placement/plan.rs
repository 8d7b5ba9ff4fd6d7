//! `weft placement plan`: which codes survive what is wished, with how many shards in a failure unit, and what each costs.

use crate::amount::parse_size;
use crate::arguments::{META_HELP, Output, meta_url};
use crate::commands::choose::NodesFile;
use crate::render;
use anyhow::Result;
use serde::Serialize;
use std::path::PathBuf;
use weft_engine::{DescribedNode, Layout, MetaUrl, Plan, PlannedCode, Wish};
use weft_lab::models::choice;

/// List the codes that survive the losses you name, with what each costs
///
/// `unit:1` is the loss of any one failure unit with all its nodes, `node:2` that of any two nodes. Each wish counts by itself: both
/// together mean a unit or two nodes. A unit is made of nodes that share the first --unit levels of their domain; for sites with hosts
/// give nodes domains such as site1/host7 and choose --unit 1.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  weft placement plan meta.db --survive unit:1 --survive node:2
  weft placement plan meta.db --unit 1 --survive unit:1 --room 10T
  weft placement plan --nodes nodes.json --unit 1 --survive unit:1")]
pub struct Arguments {
    #[arg(help = META_HELP, value_parser = meta_url(), required_unless_present = "nodes")]
    meta: Option<MetaUrl>,
    /// JSON file of nodes instead of a volume, see `weft choose --help`
    #[arg(long, value_name = "FILE", conflicts_with = "meta")]
    nodes: Option<PathBuf>,
    /// Losses to survive: unit:COUNT or node:COUNT
    #[arg(long, value_name = "unit|node:COUNT", required = true, value_parser = parse_wish)]
    survive: Vec<Wish>,
    /// Number of leading domain levels that form one failure unit (0 = the whole path) [default: as the volume has it]
    #[arg(long, value_name = "LEVELS")]
    unit: Option<u32>,
    /// Data that has to fit, as in 10T
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    room: Option<std::num::NonZeroU64>,
    /// Show all codes, not only the first ones
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    output: Output,
}

/// Codes that are shown unless all are wanted.
const SHOWN: usize = 12;

fn parse_wish(text: &str) -> Result<Wish, String> {
    let wrong = || format!("`{text}` is not a loss: write unit:1 or node:2");
    let (what, count) = text.split_once(':').ok_or_else(wrong)?;
    let count = count.parse().ok().filter(|count| *count > 0).ok_or_else(wrong)?;
    match what {
        "unit" => Ok(Wish::Units(count)),
        "node" => Ok(Wish::Nodes(count)),
        _ => Err(wrong()),
    }
}

#[derive(Serialize)]
struct Answer<'a> {
    wishes: &'a [Wish],
    #[serde(flatten)]
    plan: Plan,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let layout = match (&arguments.meta, &arguments.nodes) {
        (Some(meta), _) => Layout::of_volume(meta, arguments.unit)?,
        (None, Some(path)) => Layout::described(&described(path)?, arguments.unit.unwrap_or(0)),
        (None, None) => anyhow::bail!("nodes are required: name a volume, or give --nodes FILE"),
    };
    let mut plan = layout.plan(&arguments.survive, &choice::specs(layout.node_count()));
    if let Some(room) = arguments.room {
        let fits = plan.codes.iter().map(|code| code.room_bytes).max();
        plan.codes.retain(|code| code.room_bytes >= room.get());
        if let Some(most) = fits.filter(|_| plan.codes.is_empty()) {
            let (most, room) = (render::bytes(most), render::bytes(room.get()));
            plan.shortfall = Some(format!(
                "at most {most} of data fit with these losses survived, and {room} are wanted: add nodes or room"
            ));
        }
    }
    let answer = Answer { wishes: &arguments.survive, plan };
    if arguments.output.json {
        println!("{}", serde_json::to_string_pretty(&answer)?);
    } else {
        print!("{}", text(arguments, &answer.plan));
    }
    Ok(())
}

fn described(path: &std::path::Path) -> Result<Vec<DescribedNode>> {
    let nodes = NodesFile::read(path)?.to_nodes(&mut Default::default())?;
    let node =
        |node: choice::Node| DescribedNode { name: node.name, domain: node.domain, room_bytes: node.room_bytes as u64 };
    Ok(nodes.into_iter().map(node).collect())
}

fn text(arguments: &Arguments, plan: &Plan) -> String {
    if let Some(shortfall) = &plan.shortfall {
        return format!("{shortfall}\n");
    }
    let header = [
        "CODE",
        "SHARDS",
        "PER UNIT",
        "UNITS TO LOSE",
        "NODES TO LOSE",
        "STORED",
        "REPAIR READS",
        "OPERATIONS",
        "ROOM",
    ];
    let row = |code: &PlannedCode| {
        vec![
            code.code.clone(),
            code.shard_count.to_string(),
            code.unit_shards.to_string(),
            code.survives_units.to_string(),
            code.survives_nodes.to_string(),
            format!("{:.2}", code.stored_per_byte),
            format!("{:.2}", code.repair_read_per_byte),
            format!("{:.1}", code.operations),
            render::bytes(code.room_bytes),
        ]
    };
    let shown = if arguments.all { plan.codes.len() } else { SHOWN };
    let header = header.map(str::to_owned).to_vec();
    let rows: Vec<_> = std::iter::once(header).chain(plan.codes.iter().take(shown).map(row)).collect();
    let mut text = render::table(&rows, &[1, 2, 3, 4, 5, 6, 7, 8]);
    if plan.codes.len() > shown {
        text += &format!("{} more: --all\n", plan.codes.len() - shown);
    }
    text += "STORED is for each byte of data, REPAIR READS for each byte of a lost node, OPERATIONS to encode a symbol of data\n";
    if let Some(first) = plan.codes.first() {
        let meta = arguments.meta.as_ref().map_or("META".to_owned(), |meta| meta.to_string());
        let unit = arguments.unit.map_or(String::new(), |levels| format!(" --unit {levels}"));
        text += &format!(
            "for the first: weft placement {meta}{unit} --per-unit {} && weft policy set {meta} / {}\n",
            first.unit_shards, first.code
        );
    }
    text
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
