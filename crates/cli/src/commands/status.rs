//! `weft status META`: how safe everything is.

use super::placement::{self, AnnualLoss};
use crate::arguments::{Meta, Output};
use crate::care::{self, count};
use crate::render;
use anyhow::Result;
use serde::Serialize;
use std::process::ExitCode;
use weft_engine::care::{JobRecord, Tally};
use weft_engine::replica::ReplicaStatus;
use weft_engine::reports::{NodeStatus, StatusReport};
use weft_engine::{Keeper, Placement};

/// Show how many more nodes may be lost, which files are degraded or lost, and which nodes answer
///
/// Exit status: 0 if nothing is missing, 2 if some file survives fewer losses than it should, 3 if some file cannot be
/// read, 1 if the state could not be determined.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  weft status meta.db
  weft status --json meta.db")]
pub struct Arguments {
    #[command(flatten)]
    meta: Meta,
    #[command(flatten)]
    output: Output,
}

/// The report, and what is said of it here.
#[derive(Serialize)]
struct Status {
    summary: String,
    #[serde(flatten)]
    report: StatusReport,
    /// The chance of any loss within a year, by code; empty while shards are missing.
    annual_losses: Vec<AnnualLoss>,
}

pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let keeper = Keeper::open(&arguments.meta, &weft_engine::Env::system())?;
    let report = keeper.status()?;
    let tally = &report.tally;
    // The chain begins with every shard in its place.
    let is_whole = tally.whole_count == tally.segment_count;
    let stored = tally.codes.iter().filter(|_| is_whole).map(|(code, of_code)| (code.clone(), of_code.segment_count));
    let annual_losses = placement::of_stored(&Placement::open(&arguments.meta)?, stored)?;
    let status = Status { summary: care::survival(tally), annual_losses, report };
    if arguments.output.json {
        println!("{}", serde_json::to_string_pretty(&status)?);
    } else {
        print!("{}", text(arguments, &status));
    }
    Ok(care::exit_code(&status.report.tally))
}

fn is_given_up(nodes: &[NodeStatus], name: &str) -> bool {
    nodes.iter().any(|node| node.name == name && node.is_given_up)
}

fn text(arguments: &Arguments, Status { summary, report: status, annual_losses }: &Status) -> String {
    let meta = &*arguments.meta;
    let tally = &status.tally;
    let mut text = format!("{summary}\n\n");
    text.extend(status.superseded.iter().map(|why| format!("{why}\n\n")));
    text += &format!("volume {meta}, {}", count(status.inode_count, "inode"));
    text += &format!(", {} in use", render::bytes(status.live_bytes));
    text += &format!(", room for {} more by {}", render::bytes(status.room.free_bytes), status.room.policy);
    let members = status.sessions.iter().filter(|session| session.role == "member").count();
    if members > 0 {
        text += &format!("; changed by {}", count(members as u64, "mount"));
    } else if let Some(who) = &status.in_use_by {
        text += &format!("; open by {who}, whose writes of the last second may not be counted");
    }
    text += "\n\n";
    if members > 0 {
        text += &super::session::table(&status.sessions);
        text += "\n";
    }
    text += &node_table(&status.nodes);
    if !tally.codes.is_empty() {
        text += "\n";
        text += &code_table(tally);
    }
    text.extend(annual_losses.iter().map(|loss| format!("{}\n", loss.line())));
    let mut notes = care::troubles(tally, care::PATHS_SHOWN);
    let to_do = [
        (tally.lost_shard_count, "lost"),
        (tally.unwritten_shard_count, "not written yet"),
        (tally.misplaced_shard_count, "to be moved"),
    ];
    for (shards, what) in to_do {
        if shards > 0 {
            notes.push(format!("{} {what}: weft repair {meta}", count(shards, "shard")));
        }
    }
    if status.marked_count > 0 {
        notes.push(format!("{} marked as damaged: weft repair {meta}", count(status.marked_count as u64, "segment")));
    }
    if tally.silent_shard_count > 0 {
        notes.push(format!("{} on nodes that do not answer:", count(tally.silent_shard_count, "shard")));
    }
    if tally.refused_shard_count > 0 {
        let shards = count(tally.refused_shard_count, "shard");
        notes.push(format!("this user may not read {shards}: run this as their owner"));
    }
    let (given_up, silent) =
        status.away.iter().cloned().partition::<Vec<_>, _>(|away| is_given_up(&status.nodes, &away.name));
    notes.extend(care::silent_nodes(&arguments.meta, &silent));
    notes.extend(care::given_up_nodes(&arguments.meta, &given_up));
    notes.extend(status.moved.iter().map(|moved| super::moved_sentence(moved, &arguments.meta)));
    for (node, faults) in status.nodes.iter().filter_map(|node| Some((node, node.faults.as_ref()?))) {
        notes.push(format!(
            "node {} sent wrong data to {}, last at {}; none of it was used: check the program that runs there, or replace the node",
            node.name,
            count(faults.count, "repair"),
            care::moment(faults.last_ms)
        ));
    }
    if let Some(due_ms) = status.trash.due_ms {
        let (bytes, segments) =
            (render::bytes(status.trash.dead.bytes), count(status.trash.dead.segment_count, "segment"));
        let until = match status.in_use_by {
            Some(_) => "a mount removes them within a minute".to_owned(),
            None => format!("a mount removes them within a minute, or weft gc {meta} after {}", care::moment(due_ms)),
        };
        notes.push(format!("{segments} ({bytes}) deleted or overwritten, but not free yet: {until}"));
    }
    for (name, record) in [("repair", &status.last_repair), ("scrub", &status.last_scrub)] {
        notes.extend(record.as_ref().map(|record| job_line(name, record)));
    }
    notes.extend(status.last_conversion.as_ref().map(care::conversion_line));
    notes.extend(care::kept_line(status.kept));
    notes.extend(status.replica.as_ref().filter(|_| !status.nodes.is_empty()).map(replica_line));
    if !notes.is_empty() {
        text += "\n";
    }
    for note in notes {
        text += &note;
        text += "\n";
    }
    text
}

/// Are the names as safe as the data?
fn replica_line(replica: &ReplicaStatus) -> String {
    let why = replica.failure.as_ref().map_or(String::new(), |why| format!(": {why}"));
    match replica.at_ms {
        None => format!("the nodes have no replica of the metadata yet{why}; a mount keeps one, about a second behind"),
        Some(_) if replica.missing_keys == 0 => {
            "the nodes have a replica of all metadata: `weft recover` reads it".into()
        }
        Some(at_ms) => format!(
            "the nodes have a replica of the metadata of {}; {} changed since{why}",
            care::moment(at_ms),
            count(replica.missing_keys, "record")
        ),
    }
}

fn node_table(nodes: &[NodeStatus]) -> String {
    let bytes = |bytes: Option<u64>| bytes.map_or("-".into(), render::bytes);
    let header = ["NODE", "STATE", "FREE", "OF", "WHERE"].map(str::to_owned).to_vec();
    let row = |node: &NodeStatus| {
        let state = match node.answers {
            _ if node.is_given_up => "GIVEN UP".into(),
            // Nothing is expected of one that was replaced.
            _ if node.refuses => format!("{}, DENIED", node.state),
            false if node.state != "lost" => format!("{}, AWAY", node.state),
            _ => node.state.to_owned(),
        };
        let state = if node.faults.is_some() { format!("{state}, FAULTY") } else { state };
        vec![node.name.clone(), state, bytes(node.free_bytes), bytes(node.total_bytes), node.url.clone()]
    };
    let rows: Vec<_> = std::iter::once(header).chain(nodes.iter().map(row)).collect();
    render::table(&rows, &[2, 3])
}

fn code_table(tally: &Tally) -> String {
    // Where units hold one shard of a segment each, they are as many as nodes.
    let has_shared_units = tally.codes.values().any(|of_code| of_code.margin != of_code.unit_margin);
    let losses = |margin: Option<usize>| margin.map_or("-".to_owned(), |margin| margin.to_string());
    let mut header = vec!["CODE", "SEGMENTS", "DATA", "STORED", "DEGRADED"];
    header.extend(has_shared_units.then_some(["NODES TO LOSE", "UNITS TO LOSE"]).into_iter().flatten());
    let rows = tally.codes.iter().map(|(code, of_code)| {
        let mut row = vec![
            code.clone(),
            of_code.segment_count.to_string(),
            render::bytes(of_code.data_bytes),
            render::bytes(of_code.stored_bytes),
            of_code.degraded_count.to_string(),
        ];
        let margins = [of_code.margin, of_code.unit_margin].map(losses);
        row.extend(margins.into_iter().filter(|_| has_shared_units));
        row
    });
    let header = header.into_iter().map(str::to_owned).collect();
    let rows: Vec<_> = std::iter::once(header).chain(rows).collect();
    render::table(&rows, &[1, 2, 3, 4, 5, 6])
}

fn job_line(name: &str, record: &JobRecord) -> String {
    let done = format!("{}, {}", count(record.segment_count, "segment"), render::bytes(record.bytes));
    let found = count(record.finding_count, "shard");
    match record.ended_ms {
        Some(ended_ms) => {
            let left = match record.failure_count {
                0 => "none left".to_owned(),
                failures => format!("{} left", count(failures, "segment")),
            };
            format!("last {name}: ended {}, {done}, {found} found lost or damaged, {left}", care::moment(ended_ms))
        }
        None => format!(
            "{name} is running or was interrupted ({done} by {}); run it again to resume",
            care::moment(record.updated_ms)
        ),
    }
}
