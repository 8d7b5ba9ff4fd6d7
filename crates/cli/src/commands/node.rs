//! `weft node add|list|replace|move|restore|limit|drain|set|remove META`: where a volume keeps its shards; `weft node serve`: a place for other machines;
//! `weft node kinds`: what there is.

mod kinds;
mod members;
pub mod serve;

use crate::amount;
use crate::arguments::{KeyFile, META_HELP, Meta, Output, meta_url};
use crate::care::{self, count};
use crate::render;
use anyhow::Result;
use std::num::NonZeroU64;
use std::path::PathBuf;
use weft_engine::MetaUrl;
use weft_engine::nodes::{Changes, Displaced, Moved, NewNode, NodeTable, OldNode, Place};
use weft_engine::reports::{LinkLine, NodeLine};
use weft_format::records::{NodeLimits, NodeState, Timestamp};
use weft_gateways::fuse::mounts;

#[derive(Debug, clap::Subcommand)]
#[command(after_help = "Examples:
  weft node add meta.db disk1 /mnt/disk1
  weft node list meta.db")]
pub enum Arguments {
    /// Add a node to a volume: a folder, a device or an address
    #[command(after_help = "Examples:
  weft node add meta.db disk1 /mnt/disk1
  weft node add meta.db nas1 weft+tls://nas:7600/sha256:0c1f --key disk.key --domain home/nas")]
    Add {
        #[command(flatten)]
        meta: Meta,
        /// Name of the node, unique in the volume
        name: String,
        /// An empty or new folder, best on a disk of its own; or an address of another kind (`weft node kinds`)
        #[arg(value_name = "FOLDER|URL")]
        place: String,
        #[command(flatten)]
        key: KeyFile,
        /// Failure domain, outermost level first, as in site1/rack3/host7: nodes of one domain fail together. A segment has one shard in each,
        /// unless `weft placement` says otherwise [default: the node's name]
        #[arg(long)]
        domain: Option<String>,
        /// Share of the data that the node takes, relative to other nodes [default: its size in GiB]
        #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
        weight: Option<u64>,
    },
    /// List the nodes of a volume with their free space; with --from the daemons of a cluster with their state
    #[command(
        visible_alias = "ls",
        after_help = "Examples:
  weft node list meta.db
  weft node list --from nas:7600 --cluster-key all.key"
    )]
    List {
        #[arg(help = META_HELP, value_parser = meta_url(), required_unless_present = "from")]
        meta: Option<MetaUrl>,
        /// Ask these daemons for all members that they know
        #[arg(long, value_name = "HOST:PORT|URL", value_delimiter = ',', conflicts_with = "meta")]
        from: Vec<String>,
        /// Key of the cluster
        #[arg(long, value_name = "FILE", requires = "from")]
        cluster_key: Option<PathBuf>,
        #[command(flatten)]
        output: Output,
    },
    /// Replace a node by an empty place; `weft repair` then moves the shards there, or rebuilds them if the old place is gone
    #[command(after_help = "Example:
  weft node replace meta.db disk2 /mnt/disk7")]
    Replace {
        #[command(flatten)]
        meta: Meta,
        /// Name of the node
        name: String,
        /// An empty or new folder; or an address of another kind (`weft node kinds`)
        #[arg(value_name = "FOLDER|URL")]
        place: String,
        #[command(flatten)]
        key: KeyFile,
        /// Replace the node even if this loses files
        #[arg(long)]
        force: bool,
    },
    /// Record the new place of a node whose folder was moved, or whose address has changed
    #[command(after_help = "Example:
  weft node move meta.db disk2 /media/usb/disk2")]
    Move {
        #[command(flatten)]
        meta: Meta,
        /// Name of the node
        name: String,
        /// The new place: a folder, or an address of another kind (`weft node kinds`)
        #[arg(value_name = "FOLDER|URL")]
        place: String,
        #[command(flatten)]
        key: KeyFile,
    },
    /// Take back a node that was given up and answers again; a mount and `weft care` do this by themselves
    #[command(after_help = "Example:
  weft node restore meta.db disk2")]
    Restore {
        #[command(flatten)]
        meta: Meta,
        /// Name of the node
        name: String,
    },
    /// Limit the traffic of a node, for each user of the volume; a mount follows within a second
    #[command(after_help = "Examples:
  weft node limit meta.db cloud --bwlimit 2M --requests 8
  weft node limit meta.db cloud --bwlimit none")]
    Limit {
        #[command(flatten)]
        meta: Meta,
        /// Name of the node
        name: String,
        /// Shard bytes per second to and from the node, as in 10M, or `none`
        #[arg(long, value_name = "RATE", value_parser = parse_limit, required_unless_present = "requests")]
        bwlimit: Option<u64>,
        /// Requests in flight at a time, which is connections for remote nodes, or `none`
        #[arg(long, value_name = "COUNT", value_parser = parse_requests)]
        requests: Option<u32>,
    },
    /// Stop placing shards on a node and migrate those it has; the mount, `weft care` or `weft repair` does the work
    #[command(after_help = "Examples:
  weft node drain meta.db disk1
  weft node drain meta.db disk1 --undo")]
    Drain {
        #[command(flatten)]
        meta: Meta,
        /// Name of the node
        name: String,
        /// Place shards on the node again
        #[arg(long)]
        undo: bool,
    },
    /// Change a node's weight or failure domain, or make it read-only
    ///
    /// Shards whose place violates the new domain are migrated as by `weft node drain`.
    #[command(after_help = "Examples:
  weft node set meta.db nas1 --weight 4000
  weft node set meta.db nas1 --domain site1/rack3/host7
  weft node set meta.db nas1 --read-only on")]
    Set {
        #[command(flatten)]
        meta: Meta,
        /// Name of the node
        name: String,
        /// Failure domain, outermost level first, as in site1/rack3/host7: nodes of one domain fail together. A segment has one shard in each,
        /// unless `weft placement` says otherwise
        #[arg(long, required_unless_present_any = ["weight", "read_only"])]
        domain: Option<String>,
        /// Share of the data that the node takes, relative to other nodes
        #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
        weight: Option<u64>,
        /// `on`: the node keeps its shards and takes no new ones
        #[arg(long, value_name = "on|off", value_parser = parse_switch)]
        read_only: Option<bool>,
    },
    /// Remove a node that holds no shards
    #[command(
        visible_alias = "rm",
        after_help = "Example:
  weft node remove meta.db disk1"
    )]
    Remove {
        #[command(flatten)]
        meta: Meta,
        /// Name of the node
        name: String,
    },
    /// List the kinds of nodes with the form of their addresses, their abilities and their costs
    #[command(after_help = "Example:
  weft node kinds")]
    Kinds {
        #[command(flatten)]
        output: Output,
    },
    /// Serve a folder, a device or an image file of this machine as a node, until a signal ends it
    Serve(serve::Arguments),
}

pub fn run(arguments: &Arguments) -> Result<()> {
    match arguments {
        Arguments::Add { meta, name, place, key, domain, weight } => {
            let (nodes, mountpoints) = (NodeTable::open(meta)?, mountpoints(meta)?);
            let (domain, weight) = (domain.as_deref(), *weight);
            nodes.add(&NewNode { name, place: place_of(place, key, &mountpoints), domain, weight })?;
            println!("Added node {name}");
            tell_balance(&nodes, meta)
        }
        Arguments::List { meta: Some(meta), output, .. } => list(meta, output.json),
        Arguments::List { meta: None, from, cluster_key, output } => {
            members::list(from, cluster_key.as_deref(), output.json)
        }
        Arguments::Replace { meta, name, place, key, force } => {
            replace(meta, name, &place_of(place, key, &mountpoints(meta)?), *force)
        }
        Arguments::Move { meta, name, place, key } => move_node(meta, name, &place_of(place, key, &mountpoints(meta)?)),
        Arguments::Restore { meta, name } => restore(meta, name),
        Arguments::Limit { meta, name, bwlimit, requests } => limit(meta, name, *bwlimit, *requests),
        Arguments::Drain { meta, name, undo } => drain(meta, name, *undo),
        Arguments::Set { meta, name, domain, weight, read_only } => {
            set(meta, name, Changes { domain: domain.as_deref(), weight: *weight, is_read_only: *read_only })
        }
        Arguments::Remove { meta, name } => {
            let place = NodeTable::open(meta)?.remove(name)?;
            println!("Removed node {name}; the rest of {place} can be deleted");
            Ok(())
        }
        Arguments::Kinds { output } => kinds::list(output.json),
        Arguments::Serve(arguments) => serve::serve(arguments),
    }
}

/// Where the volume is mounted on this machine.
pub fn mountpoints(meta: &MetaUrl) -> Result<Vec<PathBuf>> {
    Ok(mounts::of_volume(meta)?.into_iter().map(|mount| mount.mountpoint).collect())
}

fn place_of<'p>(address: &'p str, key: &'p KeyFile, mountpoints: &'p [PathBuf]) -> Place<'p> {
    Place { address, key_file: key.key.as_deref(), mountpoints }
}

/// What to do about a node that is elsewhere.
pub fn moved_sentence(Moved { node, folder }: &Moved, meta: &MetaUrl) -> String {
    let folder = folder.display();
    format!("node {node} is at {folder} now: weft node move {meta} {node} {folder}")
}

fn list(meta: &MetaUrl, json: bool) -> Result<()> {
    let nodes = NodeTable::open(meta)?;
    let lines = nodes.list()?;
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
        let limits = NodeLimits { requests: line.requests_max, bytes_per_second: line.bytes_per_second_max };
        if let Some(limits) = limits_sentence(limits) {
            println!("{}: limited to {limits}", line.name);
        }
        if let Some(error) = line.error {
            println!("{}: {error}", line.name);
        }
        line.links.iter().for_each(|link| println!("{}: {}", line.name, link_sentence(link)));
    }
    nodes.moved()?.iter().for_each(|moved| println!("{}", moved_sentence(moved, meta)));
    Ok(())
}

/// `link 10.0.0.2:7600 is up since 2026-11-20 12:57:03: 110.0 MiB/s, 0.2 ms`.
fn link_sentence(link: &LinkLine) -> String {
    let since = render::time(Timestamp { seconds: (link.since_ms / 1000) as i64, nanoseconds: 0 });
    let speed = link.bytes_per_second.map(|speed| format!("{}/s", render::bytes(speed)));
    let latency = link.latency_us.map(|latency_us| format!("{:.1} ms", latency_us as f64 / 1000.0));
    let facts: Vec<String> = match &link.error {
        Some(error) => vec![error.clone()],
        None => [speed, latency].into_iter().flatten().collect(),
    };
    let facts = if facts.is_empty() { String::new() } else { format!(": {}", facts.join(", ")) };
    format!("link {} is {} since {since}{facts}", link.address, link.state)
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
    let wrong = || format!("`{text}` is not a number of requests: write 1 or more, or `none`");
    if text == "none" { Ok(0) } else { text.parse().ok().filter(|count| *count > 0).ok_or_else(wrong) }
}

fn replace(meta: &MetaUrl, name: &str, place: &Place<'_>, force: bool) -> Result<()> {
    let replaced = NodeTable::open(meta)?.replace(name, place, force)?;
    println!("Node {name} is at {} now", replaced.url);
    if let Some(old_weight) = replaced.old_weight {
        println!(
            "Its weight is its size in GiB. To keep that of before: weft node set {meta} {name} --weight {old_weight}"
        );
    }
    match replaced.old {
        OldNode::Gone => {}
        OldNode::Lost => println!("Rebuild its shards with: weft repair {meta}"),
        OldNode::Emptied => {
            println!(
                "Move its shards with: weft repair {meta}. Keep the old place, {}, until then",
                replaced.old_place
            );
        }
    }
    Ok(())
}

fn move_node(meta: &MetaUrl, name: &str, place: &Place<'_>) -> Result<()> {
    let moved = NodeTable::open(meta)?.move_to(name, place)?;
    println!("Node {name} is at {} now", moved.url);
    match moved.displaced {
        None => {}
        Some(Displaced { name: other, url: Some(url) }) => {
            println!("Node {other}, whose place this was, is at {url} now");
        }
        Some(Displaced { name: other, url: None }) => println!(
            "This was the place of node {other}, whose new place is unknown: weft node move {meta} {other} FOLDER"
        ),
    }
    if moved.is_given_up {
        println!("The node was given up; take it back with: weft node restore {meta} {name}");
    }
    Ok(())
}

fn restore(meta: &MetaUrl, name: &str) -> Result<()> {
    match NodeTable::open(meta)?.restore(name)? {
        NodeState::Draining => {
            println!("Node {name} is back. Another node replaces it; move its shards there with: weft repair {meta}");
        }
        _ => println!("Node {name} is back, and its shards count again"),
    }
    Ok(())
}

fn limit(meta: &MetaUrl, name: &str, bytes_per_second: Option<u64>, requests: Option<u32>) -> Result<()> {
    match limits_sentence(NodeTable::open(meta)?.limit(name, bytes_per_second, requests)?) {
        Some(limits) => println!("Node {name} is limited to {limits}"),
        None => println!("Node {name} has no limits"),
    }
    Ok(())
}

fn drain(meta: &MetaUrl, name: &str, undo: bool) -> Result<()> {
    NodeTable::open(meta)?.drain(name, undo)?;
    match undo {
        true => println!("Node {name} takes new shards again"),
        false => println!(
            "The shards of node {name} are migrated while the volume is mounted or cared for (weft care {meta}), or now by: weft repair {meta}. \
             Then the node is removed"
        ),
    }
    Ok(())
}

fn set(meta: &MetaUrl, name: &str, changes: Changes<'_>) -> Result<()> {
    let nodes = NodeTable::open(meta)?;
    let node = nodes.set(name, &changes)?;
    if changes.domain.is_some() || changes.weight.is_some() {
        println!("Node {name} has domain {} and weight {} now", node.domain, node.weight);
    }
    match changes.is_read_only {
        Some(true) => println!("Node {name} takes no new shards; its shards stay and are read"),
        Some(false) => println!("Node {name} takes new shards again"),
        None => {}
    }
    tell_balance(&nodes, meta)
}

/// Says what moves for the nodes as they are now.
fn tell_balance(nodes: &NodeTable, meta: &MetaUrl) -> Result<()> {
    if let Some(estimate) = nodes.balance()?.filter(|estimate| estimate.segment_count > 0) {
        let sentence = care::balance_sentence(&estimate);
        println!("{sentence}. The mount or weft care {meta} does that");
    }
    Ok(())
}
