//! `weft status META`: how safe everything is.

use super::placement::{self, AnnualLoss};
use crate::care::{self, Owner, count};
use crate::compose;
use crate::render;
use anyhow::Result;
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;
use weft_care::collect::{GRACE_MS, Kept, kept};
use weft_care::record::{REPAIR, SCRUB};
use weft_care::{
    Away, Catalogue, ConvertRecord, Dead, JobRecord, Liars, Lies, NodeFacts, Reach, Roster, Tally, Trashed,
};
use weft_cluster::usable_room;
use weft_codes::analysis;
use weft_engine::Keeper;
use weft_format::{Ino, NodeId};

/// Marks of damage counted.
const COUNT_LIMIT: usize = 100_000;
/// Trash entries read at once.
const TRASH_PAGE: usize = 1024;

/// How safe everything is: how many more nodes may go, what is degraded, which nodes answer
///
/// Status: 0 when everything is whole, 2 when some file survives fewer losses than it should, 3 when some file cannot be
/// read, 1 when that could not be found out.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Metadata file of the volume
    meta: PathBuf,
    /// For programs
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Status {
    /// Further losses of nodes that every file survives; missing where some file cannot be read, or there is none.
    survives_losses: Option<usize>,
    summary: String,
    volume: String,
    in_use_by: Option<String>,
    inode_count: u64,
    live_bytes: u64,
    room: Room,
    nodes: Vec<Node>,
    tally: Tally,
    /// The chance of any loss within a year, by code; empty while shards are missing.
    annual_losses: Vec<AnnualLoss>,
    marked_count: usize,
    trash: Waiting,
    last_repair: Option<JobRecord>,
    last_scrub: Option<JobRecord>,
    last_conversion: Option<ConvertRecord>,
    /// Former shards of what was converted or moved.
    kept: Kept,
    /// Nodes that are elsewhere than metadata has them; a sentence each.
    moved: Vec<String>,
}

/// Dead segments, which are not free room yet.
#[derive(Serialize)]
struct Waiting {
    #[serde(flatten)]
    dead: Dead,
    /// From then on `weft gc` removes all of them; missing if there are none.
    due_ms: Option<u64>,
}

/// What files of the root directory's policy can use of what the nodes have.
#[derive(Serialize)]
struct Room {
    policy: String,
    total_bytes: u64,
    free_bytes: u64,
}

#[derive(Serialize)]
struct Node {
    name: String,
    url: String,
    state: &'static str,
    domain: String,
    answers: bool,
    /// It is there, and does not let this user in.
    refuses: bool,
    /// Silent for so long that what it held is rebuilt on others.
    is_given_up: bool,
    total_bytes: Option<u64>,
    free_bytes: Option<u64>,
    trouble: Option<String>,
    /// What it computed for repairs lately that is none of its shards.
    lies: Option<Lies>,
}

pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let keeper = Keeper::open(&arguments.meta)?;
    let roster = keeper.runtime.block_on(Roster::look(&*keeper.catalogue, &keeper.transfer))?;
    let (tally, dead) = weft_care::glance_with_dead(&*keeper.catalogue, &roster)?;
    let statistics = keeper.store.statistics()?;
    let all_can_be_read = tally.lost_count + tally.out_of_reach_count == 0;
    // The chain begins with every shard in its place.
    let is_whole = tally.whole_count == tally.segment_count;
    let stored = tally.codes.iter().filter(|_| is_whole).map(|(code, of_code)| (code.clone(), of_code.segment_count));
    let annual_losses = placement::of_stored(&keeper.store, stored)?;
    let status = Status {
        annual_losses,
        survives_losses: tally.margin.filter(|_| all_can_be_read),
        summary: care::survival(&tally),
        volume: keeper.store.volume().volume.to_string(),
        in_use_by: match care::owner(&arguments.meta) {
            Owner::Nobody => None,
            Owner::Somebody(holder) => Some(holder.to_string()),
            Owner::Unknown => Some("somebody who does not say who it is".into()),
        },
        inode_count: statistics.inodes,
        live_bytes: statistics.live_bytes,
        room: room(&keeper)?,
        nodes: nodes(&roster, &keeper.given_up()?, &Liars::load(&*keeper.catalogue, weft_engine::now_ms()?)?),
        marked_count: keeper.catalogue.damaged(None, COUNT_LIMIT)?.len(),
        trash: waiting(&*keeper.catalogue, dead)?,
        last_repair: JobRecord::load(&*keeper.catalogue, REPAIR)?,
        last_scrub: JobRecord::load(&*keeper.catalogue, SCRUB)?,
        last_conversion: ConvertRecord::load(&*keeper.catalogue)?,
        kept: kept(&*keeper.catalogue)?,
        moved: crate::commands::sentences_of_moved(&keeper.store, &arguments.meta)?,
        tally,
    };
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&status)?);
    } else {
        print!("{}", text(arguments, &status, &roster));
    }
    Ok(care::exit_code(&status.tally))
}

fn waiting(catalogue: &dyn Catalogue, dead: Dead) -> Result<Waiting> {
    let mut last: Option<Trashed> = None;
    while let Some(end) = catalogue.trash(u64::MAX, last.as_ref(), TRASH_PAGE)?.pop() {
        last = Some(end);
    }
    let due_ms = last.filter(|_| dead.segment_count > 0).map(|last| last.since_ms.saturating_add(GRACE_MS));
    Ok(Waiting { dead, due_ms })
}

/// Data bytes that fit, and that fit beside what there is: of nodes of unlike room only what the code's width can use.
fn room(keeper: &Keeper) -> Result<Room> {
    let root = keeper.store.attributes(Ino::ROOT)?;
    let policy = keeper.store.policy(root.policy)?.code;
    let code = compose::code(&policy)?;
    let factor = analysis::storage_factor(code.shape());
    let usable = usable_room(&keeper.transfer.fleet().view(), code.shape().n);
    let data = |bytes: u64| (bytes as f64 / factor) as u64;
    Ok(Room { policy, total_bytes: data(usable.total_bytes), free_bytes: data(usable.free_bytes) })
}

/// Nodes by name.
fn named(roster: &Roster, text: String) -> String {
    let nodes: Vec<_> = roster.nodes.iter().map(|(id, facts)| (*id, facts.record.clone())).collect();
    weft_engine::nodes::with_names(&nodes, text)
}

fn is_given_up(nodes: &[Node], name: &str) -> bool {
    nodes.iter().any(|node| node.name == name && node.is_given_up)
}

fn nodes(roster: &Roster, given_up: &BTreeSet<NodeId>, liars: &Liars) -> Vec<Node> {
    let node = |(id, facts): (&NodeId, &NodeFacts)| {
        let (space, trouble) = match &facts.reach {
            Reach::Answers(space) => (Some(space), None),
            Reach::OutOfReach(why) | Reach::Refuses(why) | Reach::Wiped(why) => {
                (None, Some(named(roster, why.clone())))
            }
        };
        Node {
            name: facts.record.name.clone(),
            url: facts.record.url.clone(),
            state: care::state_name(facts.record.state),
            domain: facts.record.domain.clone(),
            answers: facts.answers(),
            refuses: facts.refuses(),
            // What a worker said some seconds ago.
            is_given_up: given_up.contains(id) && !facts.answers(),
            total_bytes: space.map(|space| space.total_bytes),
            free_bytes: space.map(|space| space.free_bytes),
            trouble,
            lies: liars.of(*id).cloned(),
        }
    };
    let mut nodes: Vec<Node> = roster.nodes.iter().map(node).collect();
    nodes.sort_by(|a, b| a.name.cmp(&b.name));
    nodes
}

fn text(arguments: &Arguments, status: &Status, roster: &Roster) -> String {
    let meta = arguments.meta.display();
    let tally = &status.tally;
    let mut text = format!("{}\n\n", status.summary);
    text += &format!("volume {meta}, {}", count(status.inode_count, "inode"));
    text += &format!(", {} in use", render::bytes(status.live_bytes));
    text += &format!(", room for {} more by {}", render::bytes(status.room.free_bytes), status.room.policy);
    if let Some(who) = &status.in_use_by {
        text += &format!("; open by {who}: what it wrote in the last second may not be counted");
    }
    text += "\n\n";
    text += &node_table(&status.nodes);
    if !tally.codes.is_empty() {
        text += "\n";
        text += &code_table(tally);
    }
    text.extend(status.annual_losses.iter().map(|loss| format!("{}\n", loss.line())));
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
        notes.push(format!("{shards} that this user may not read: look again as who owns them"));
    }
    let away = roster.out_of_reach().into_iter().map(|away| Away { why: named(roster, away.why), ..away });
    let (given_up, silent) = away.partition::<Vec<_>, _>(|away| is_given_up(&status.nodes, &away.name));
    notes.extend(care::silent_nodes(&arguments.meta, &silent));
    notes.extend(care::given_up_nodes(&arguments.meta, &given_up));
    notes.extend(status.moved.iter().cloned());
    for (node, lies) in status.nodes.iter().filter_map(|node| Some((node, node.lies.as_ref()?))) {
        notes.push(format!(
            "node {} lied in {}, last at {}: it sent combinations that are none of its shards; nothing of them was used: see what \
             runs there, or replace it",
            node.name,
            count(lies.count, "repair"),
            care::moment(lies.last_ms)
        ));
    }
    if let Some(due_ms) = status.trash.due_ms {
        let (bytes, segments) =
            (render::bytes(status.trash.dead.bytes), count(status.trash.dead.segment_count, "segment"));
        let until = match status.in_use_by {
            Some(_) => "a mount removes them within a minute".to_owned(),
            None => format!("a mount removes them within a minute, or weft gc {meta} after {}", care::moment(due_ms)),
        };
        notes.push(format!("{segments} ({bytes}) deleted or overwritten and not free room yet: {until}"));
    }
    for (name, record) in [("repair", &status.last_repair), ("scrub", &status.last_scrub)] {
        notes.extend(record.as_ref().map(|record| job_line(name, record)));
    }
    notes.extend(status.last_conversion.as_ref().map(care::conversion_line));
    notes.extend(care::kept_line(status.kept));
    if !notes.is_empty() {
        text += "\n";
    }
    for note in notes {
        text += &note;
        text += "\n";
    }
    text
}

fn node_table(nodes: &[Node]) -> String {
    let bytes = |bytes: Option<u64>| bytes.map_or("-".into(), render::bytes);
    let header = ["NODE", "STATE", "FREE", "OF", "WHERE"].map(str::to_owned).to_vec();
    let row = |node: &Node| {
        let state = match node.answers {
            _ if node.is_given_up => "GIVEN UP".into(),
            // Nothing is expected of one that was replaced.
            _ if node.refuses => format!("{}, DENIED", node.state),
            false if node.state != "lost" => format!("{}, AWAY", node.state),
            _ => node.state.to_owned(),
        };
        let state = if node.lies.is_some() { format!("{state}, LIES") } else { state };
        vec![node.name.clone(), state, bytes(node.free_bytes), bytes(node.total_bytes), node.url.clone()]
    };
    let rows: Vec<_> = std::iter::once(header).chain(nodes.iter().map(row)).collect();
    render::table(&rows, &[2, 3])
}

fn code_table(tally: &Tally) -> String {
    let header = ["CODE", "SEGMENTS", "DATA", "STORED", "DEGRADED"].map(str::to_owned).to_vec();
    let rows: Vec<_> = std::iter::once(header)
        .chain(tally.codes.iter().map(|(code, of_code)| {
            vec![
                code.clone(),
                of_code.segment_count.to_string(),
                render::bytes(of_code.data_bytes),
                render::bytes(of_code.stored_bytes),
                of_code.degraded_count.to_string(),
            ]
        }))
        .collect();
    render::table(&rows, &[1, 2, 3, 4])
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
            format!("last {name}: ended {}, {done}, {found} found wanting, {left}", care::moment(ended_ms))
        }
        None => format!(
            "{name} under way or interrupted: {done} by {}; start it again to go on",
            care::moment(record.updated_ms)
        ),
    }
}
