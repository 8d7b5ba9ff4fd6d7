//! `weft node add|list|replace|move|restore|limit|drain|set|remove META`: where a volume keeps its shards; `weft node serve`: a place for other machines;
//! `weft node kinds`: what there is.

mod change;
mod key_file;
mod kinds;
mod members;
mod moving;
pub mod serve;

use crate::amount;
use crate::care::{self, count};
use crate::compose;
use crate::render;
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::time::Duration;
use weft_engine::nodes::{self, Moved};
use weft_engine::reports::{NodeLine, node_lines};
use weft_format::records::{NodeLimits, NodeRecord, NodeState};
use weft_format::{NodeId, SegmentId};
use weft_gateways::fuse::mounts;
use weft_meta::Store;
use weft_nodes::NodeUrl;

/// Segments are counted up to this many for a sentence.
const COUNT_LIMIT: usize = 1000;

/// A node that takes longer than this to say who it is, is gone.
const PROBE_DEADLINE: Duration = Duration::from_secs(10);

#[derive(Debug, clap::Subcommand)]
pub enum Arguments {
    /// Make an empty folder a node of the volume
    Add {
        /// Metadata file of the volume
        meta: PathBuf,
        /// Its name, unique in the volume
        name: String,
        /// An empty folder, or one to be made, best on a disk of its own; or an address of another kind, see `weft node kinds`
        #[arg(value_name = "FOLDER|URL")]
        place: String,
        /// For daemons: the key file that they were started with; for s3:// and others: lines `name = value`
        #[arg(long, value_name = "FILE")]
        key: Option<PathBuf>,
        /// Nodes of one domain fail together, and a file never has two shards in one; by default each node is its own
        #[arg(long)]
        domain: Option<String>,
        /// Share of the data that it takes beside others; by default its size in GiB
        #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
        weight: Option<u64>,
    },
    /// List the nodes of a volume, with their room; or with --from the daemons of a cluster, with how they are
    #[command(visible_alias = "ls")]
    List {
        /// Metadata file of the volume
        #[arg(required_unless_present = "from")]
        meta: Option<PathBuf>,
        /// Ask these daemons which others they know
        #[arg(long, value_name = "HOST:PORT|URL", value_delimiter = ',', conflicts_with = "meta")]
        from: Vec<String>,
        /// The key of their cluster
        #[arg(long, value_name = "FILE", requires = "from")]
        cluster_key: Option<PathBuf>,
        /// For programs
        #[arg(long)]
        json: bool,
    },
    /// Go on with an empty folder; `weft repair` moves there what the old one holds, or rebuilds it where that is gone
    Replace {
        /// Metadata file of the volume
        meta: PathBuf,
        /// Name of the node
        name: String,
        /// An empty folder, or one to be made; or an address of another kind, see `weft node kinds`
        #[arg(value_name = "FOLDER|URL")]
        place: String,
        /// For daemons: the key file that they were started with; for s3:// and others: lines `name = value`
        #[arg(long, value_name = "FILE")]
        key: Option<PathBuf>,
        /// Also where files are lost by it
        #[arg(long)]
        force: bool,
    },
    /// Say where a node is now, with all that it holds: its folder was moved, or its address has changed
    Move {
        /// Metadata file of the volume
        meta: PathBuf,
        /// Name of the node
        name: String,
        /// Where it is now: a folder, or an address of another kind, see `weft node kinds`
        #[arg(value_name = "FOLDER|URL")]
        place: String,
        /// A new key file, for daemons and others that have another now
        #[arg(long, value_name = "FILE")]
        key: Option<PathBuf>,
    },
    /// Take back a node that was given up and answers again; mounts and `weft care` do so by themselves
    Restore {
        /// Metadata file of the volume
        meta: PathBuf,
        /// Name of the node
        name: String,
    },
    /// Ask a node no more than this, each user of the volume by itself; a mount heeds it within a second
    Limit {
        /// Metadata file of the volume
        meta: PathBuf,
        /// Name of the node
        name: String,
        /// Shard bytes a second to and from it, as in 10M, or `none`
        #[arg(long, value_name = "RATE", value_parser = parse_limit, required_unless_present = "requests")]
        bwlimit: Option<u64>,
        /// Requests under way at one time, which for nodes elsewhere is connections, or `none`
        #[arg(long, value_name = "COUNT", value_parser = parse_requests)]
        requests: Option<u32>,
    },
    /// Let a node take nothing new, and have what it holds brought elsewhere: by the mount or by `weft care`, or by `weft repair`
    Drain {
        /// Metadata file of the volume
        meta: PathBuf,
        /// Name of the node
        name: String,
        /// Let it take new shards again
        #[arg(long)]
        undo: bool,
    },
    /// Change a node's weight or domain, or let it be read only; what is placed against the new domain is brought elsewhere as by
    /// `drain`
    Set {
        /// Metadata file of the volume
        meta: PathBuf,
        /// Name of the node
        name: String,
        /// Nodes of one domain fail together, and a file never has two shards in one
        #[arg(long, required_unless_present_any = ["weight", "read_only"])]
        domain: Option<String>,
        /// Share of the data that it takes beside others
        #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
        weight: Option<u64>,
        /// With `on` it takes nothing new, and keeps what it holds
        #[arg(long, value_name = "on|off", value_parser = parse_switch)]
        read_only: Option<bool>,
    },
    /// Forget a node that holds no shards
    #[command(visible_alias = "rm")]
    Remove {
        /// Metadata file of the volume
        meta: PathBuf,
        /// Name of the node
        name: String,
    },
    /// List the kinds of nodes there are, how their addresses are written, what they can do and cost
    Kinds {
        /// For programs
        #[arg(long)]
        json: bool,
    },
    /// Serve a folder, a device or an image file of this machine as a node for others, until a signal ends it
    Serve(serve::Arguments),
}

pub fn run(arguments: &Arguments) -> Result<()> {
    match arguments {
        Arguments::Add { meta, name, place, key, domain, weight } => {
            add(meta, name, place, key.as_deref(), domain.as_deref(), *weight)?;
            println!("Added node {name}");
            change::tell_balance(meta)
        }
        Arguments::List { meta: Some(meta), json, .. } => list(meta, *json),
        Arguments::List { meta: None, from, cluster_key, json } => members::list(from, cluster_key.as_deref(), *json),
        Arguments::Replace { meta, name, place, key, force } => replace(meta, name, place, key.as_deref(), *force),
        Arguments::Move { meta, name, place, key } => moving::move_node(meta, name, place, key.as_deref()),
        Arguments::Restore { meta, name } => moving::restore(meta, name),
        Arguments::Limit { meta, name, bwlimit, requests } => change::limit(meta, name, *bwlimit, *requests),
        Arguments::Drain { meta, name, undo } => change::drain(meta, name, *undo),
        Arguments::Set { meta, name, domain, weight, read_only } => {
            let changes = change::Changes { domain: domain.as_deref(), weight: *weight, read_only: *read_only };
            change::set(meta, name, &changes)
        }
        Arguments::Remove { meta, name } => remove(meta, name),
        Arguments::Kinds { json } => kinds::list(*json),
        Arguments::Serve(arguments) => serve::serve(arguments),
    }
}

/// Makes a folder a node, and says so in metadata.
pub fn add(
    meta: &Path,
    name: &str,
    place: &str,
    key_file: Option<&Path>,
    domain: Option<&str>,
    weight: Option<u64>,
) -> Result<()> {
    check_name(name)?;
    let url = weft_engine::kinds().parse(place)?;
    let secret = key_file::secret(&url, key_file)?;
    let store = weft_engine::open_store(meta)?;
    if store.nodes()?.iter().any(|(_, node)| node.name == name) {
        bail!("there is a node named {name} already: choose another name, or `weft node replace`");
    }
    refuse_unfit(meta, name, &url)?;
    let (node, space) = nodes::create(&store, name, &url, &secret)?;
    let record = NodeRecord {
        name: name.to_owned(),
        url: url.to_string(),
        state: NodeState::Active,
        domain: domain.unwrap_or(name).to_owned(),
        weight: weight.unwrap_or_else(|| nodes::default_weight(space)),
        secret,
        limits: Default::default(),
    };
    store.add_node(node, &record)?;
    Ok(store.flush()?)
}

/// Names appear in tables, sentences and commands.
fn check_name(name: &str) -> Result<()> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.len() > 64 || !name.chars().all(allowed) || name.starts_with('-') {
        bail!("`{name}` is no name for a node: use up to 64 letters, digits, `-`, `_` and `.`");
    }
    Ok(())
}

/// A node inside the volume itself would hold what it is needed to read, and one in memory would hold it until the end of one
/// command.
fn refuse_unfit(meta: &Path, name: &str, url: &NodeUrl) -> Result<()> {
    if weft_engine::kinds().about_of(url).is_some_and(|about| !about.is_lasting) {
        bail!(
            "node {name}: {url} is the memory of one process and empty in the next: give a folder, a device or an address, see \
             `weft node kinds`"
        );
    }
    let Some(path) = url.path() else { return Ok(()) };
    let path = mounts::absolute(path);
    for mount in mounts::of_volume(meta)? {
        if path.starts_with(&mount.mountpoint) {
            let mountpoint = mount.mountpoint.display();
            bail!(
                "node {name}: {} lies in this very volume, mounted at {mountpoint}: give one outside of it",
                path.display()
            );
        }
    }
    Ok(())
}

fn find(store: &Store, meta: &Path, name: &str) -> Result<(NodeId, NodeRecord)> {
    let nodes = store.nodes()?;
    let mut known: Vec<String> = nodes.iter().map(|(_, node)| node.name.clone()).collect();
    known.sort();
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    let found = nodes.into_iter().find(|(_, node)| node.name == name);
    found.with_context(|| format!("{} has no node {name}: it has {known}", meta.display()))
}

/// What to do about a node that is elsewhere.
pub fn moved_sentence(Moved { node, folder }: &Moved, meta: &Path) -> String {
    let (meta, folder) = (meta.display(), folder.display());
    format!("node {node} is at {folder} now: weft node move {meta} {node} {folder}")
}

fn list(meta: &Path, json: bool) -> Result<()> {
    let store = weft_engine::open_store(meta)?;
    let lines = node_lines(&store)?;
    if json {
        println!("{}", serde_json::to_string_pretty(&lines)?);
        return Ok(());
    }
    let header = ["NAME", "STATE", "FREE", "OF", "DOMAIN", "WEIGHT", "WHERE"].map(str::to_owned).to_vec();
    let bytes = |count: Option<u64>| count.map_or("-".to_owned(), render::bytes);
    let row = |line: &NodeLine| {
        let state = match line.error {
            Some(_) if line.refuses => format!("{}, denied", line.state),
            Some(_) => format!("{}, away", line.state),
            None => line.state.to_owned(),
        };
        let room = (bytes(line.free_bytes), bytes(line.total_bytes));
        vec![line.name.clone(), state, room.0, room.1, line.domain.clone(), line.weight.to_string(), line.url.clone()]
    };
    let rows: Vec<_> = std::iter::once(header).chain(lines.iter().map(row)).collect();
    print!("{}", render::table(&rows, &[2, 3, 5]));
    for line in lines {
        if let Some(limits) =
            limits_sentence(NodeLimits { requests: line.requests_max, bytes_per_second: line.bytes_per_second_max })
        {
            println!("{}: asked for {limits}", line.name);
        }
        if let Some(error) = line.error {
            println!("{}: {error}", line.name);
        }
    }
    nodes::moved(&store)?.iter().for_each(|moved| println!("{}", moved_sentence(moved, meta)));
    Ok(())
}

/// `10.0 MiB/s and 4 requests at a time at most`; `None`: no limits.
fn limits_sentence(limits: NodeLimits) -> Option<String> {
    let bytes = (limits.bytes_per_second > 0).then(|| format!("{}/s", render::bytes(limits.bytes_per_second)));
    let requests = (limits.requests > 0).then(|| format!("{} at a time", count(limits.requests.into(), "request")));
    let parts: Vec<String> = [bytes, requests].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| format!("{} at most", parts.join(" and ")))
}

fn parse_limit(text: &str) -> Result<u64, String> {
    if text == "none" { Ok(0) } else { amount::parse_rate(text).map(NonZeroU64::get) }
}

fn parse_switch(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(format!("`{text}` is neither `on` nor `off`")),
    }
}

fn parse_requests(text: &str) -> Result<u32, String> {
    let wrong = || format!("`{text}` is no number of requests: write 1 or more, or `none`");
    if text == "none" { Ok(0) } else { text.parse().ok().filter(|count| *count > 0).ok_or_else(wrong) }
}

/// The old id stays, under another name, until repair has moved what it holds, or rebuilt it where the old place does not
/// answer any more; the new one has the name.
fn replace(meta: &Path, name: &str, place: &str, key_file: Option<&Path>, force: bool) -> Result<()> {
    let url = weft_engine::kinds().parse(place)?;
    let secret = key_file::secret(&url, key_file)?;
    let store = weft_engine::open_store(meta)?;
    let (old_id, old) = find(&store, meta, name)?;
    if nodes::is_replaced(old_id, &old) {
        bail!(
            "node {name} is replaced already: run `weft repair {}`, if it is gone for good with `--assume-lost {name}`",
            meta.display()
        );
    }
    refuse_unfit(meta, name, &url)?;
    let answers = answers(&store, old_id)?;
    if !answers && !force {
        care::refuse_losses(meta, &[old_id])?;
    }
    let (id, space) = nodes::create(&store, name, &url, &secret)?;
    let retired = match answers {
        true => nodes::emptied(old_id, &old),
        false => nodes::lost(old_id, &old, &url),
    };
    let new = NodeRecord {
        name: name.to_owned(),
        url: url.to_string(),
        state: NodeState::Active,
        domain: old.domain.clone(),
        weight: nodes::default_weight(space),
        secret,
        limits: old.limits,
    };
    let empty = nodes::succeed(&store, (old_id, &old), &retired, (id, &new))?;
    println!("Node {name} is at {url} now");
    let meta = meta.display();
    match retired.state {
        _ if empty => {}
        NodeState::Lost => println!("What it held is rebuilt by: weft repair {meta}"),
        _ => println!("Keep the old place, {}, until this has moved what it holds: weft repair {meta}", place_of(&old)),
    }
    Ok(())
}

/// Is its place there, and its own?
fn answers(store: &Store, id: NodeId) -> Result<bool> {
    let Some((_, _, node)) = weft_engine::opener(store).members(store)?.into_iter().find(|(member, ..)| *member == id)
    else {
        return Ok(false);
    };
    weft_engine::runtime()?.block_on(async {
        let answer = tokio::time::timeout(PROBE_DEADLINE, node.space()).await;
        Ok(answer.is_ok_and(|space| space.is_ok()))
    })
}

fn place_of(record: &NodeRecord) -> String {
    let url = weft_engine::kinds().parse(&record.url).ok();
    url.as_ref().and_then(NodeUrl::files).map_or_else(|| record.url.clone(), |folder| folder.display().to_string())
}

fn remove(meta: &Path, name: &str) -> Result<()> {
    let store = weft_engine::open_store(meta)?;
    let (id, record) = find(&store, meta, name)?;
    let segments = store.segments_on_node(id, None, COUNT_LIMIT)?;
    if !segments.is_empty() {
        bail!(still_needed(&store, meta, &record, &segments)?);
    }
    if !record.state.is_leaving() {
        keep_enough(&store, meta, name)?;
    }
    if !store.remove_node(id)? {
        bail!("something was written to node {name} just now: try again");
    }
    store.flush()?;
    println!("Removed node {name}; what is left in {} can be deleted", place_of(&record));
    Ok(())
}

/// Why a node that segments refer to cannot be removed, and what to do.
fn still_needed(store: &Store, meta: &Path, node: &NodeRecord, segments: &[SegmentId]) -> Result<String> {
    let mut live = 0;
    for segment in segments {
        live += usize::from(store.live_bytes(*segment)? > 0);
    }
    let many = match segments.len() {
        COUNT_LIMIT => format!("{live} or more segments"),
        _ => count(live as u64, "segment"),
    };
    let (meta, name) = (meta.display(), &node.name);
    Ok(match (live, node.state) {
        (0, _) => format!(
            "node {name} is still named by segments of deleted files: `weft gc {meta}` clears them away after their grace time"
        ),
        (_, NodeState::Lost) => {
            format!("node {name} is lost and still has {many} to be rebuilt: run `weft repair {meta}`")
        }
        (_, NodeState::Draining) => {
            format!("node {name} is being emptied and still has shards of {many}: run `weft repair {meta}`")
        }
        _ => format!(
            "node {name} holds shards of {many}: give it a new folder with \
             `weft node replace {meta} {name} FOLDER`, then run `weft repair {meta}`"
        ),
    })
}

/// Refuses to go below what a policy in use needs.
fn keep_enough(store: &Store, meta: &Path, name: &str) -> Result<()> {
    let (nodes, rule) = (store.nodes()?, store.placement_rule()?);
    let others = nodes.iter().filter(|(_, node)| node.state == NodeState::Active && node.name != name);
    let left = others.map(|(_, node)| rule.unit(&node.domain)).collect::<BTreeSet<_>>().len();
    for (_, policy) in store.policies()? {
        let needed = compose::code(&policy.code)?.shape().n;
        if left < needed {
            let (meta, code) = (meta.display(), policy.code);
            bail!(
                "without node {name} there are nodes in {left} failure domains and {code} needs {needed}: add another first with \
                 `weft node add {meta} NAME FOLDER`"
            );
        }
    }
    Ok(())
}
