//! Why nodes of a volume cannot be changed as asked.

use crate::error::EngineError;
use crate::keeper::Loss;
use crate::key_file::KeyFileError;
use crate::words::count;
use std::path::PathBuf;
use std::time::Duration;
use weft_format::records::NodeState;
use weft_meta::{MetaError, MetaUrl};
use weft_nodes::{NodeError, UrlError};

/// A refusal names the node and says how to fix it.
#[derive(Debug, thiserror::Error)]
pub enum NodesError {
    /// Names appear in tables, sentences and commands.
    #[error("`{0}` is not a name for a node: use up to 64 letters, digits, `-`, `_` and `.`")]
    Name(String),
    /// Names are unique in a volume.
    #[error("a node named {0} exists already: choose another name, or use `weft node replace`")]
    Taken(String),
    /// No node has this name.
    #[error("{meta} has no node {name}: it has {}", names(known))]
    Unknown {
        /// The volume.
        meta: MetaUrl,
        /// The request.
        name: String,
        /// All names, sorted.
        known: Vec<String>,
    },
    /// A node in memory ends with the command.
    #[error(
        "node {name}: {url} is the memory of one process, and empty in the next: give a folder, a device or an address (`weft node kinds`)"
    )]
    InMemory {
        /// The node.
        name: String,
        /// Its place.
        url: String,
    },
    /// A node inside the volume would hold data that is needed to read it.
    #[error("node {name}: {} is inside the volume itself, which is mounted at {}: give a place outside", path.display(), mountpoint.display())]
    InsideVolume {
        /// The node.
        name: String,
        /// Its place.
        path: PathBuf,
        /// Where the volume is mounted.
        mountpoint: PathBuf,
    },
    /// Its successor is there already.
    #[error(
        "node {name} is replaced already: run `weft repair {meta}`, with `--assume-lost {name}` if the old node is gone for good"
    )]
    AlreadyReplaced {
        /// The volume.
        meta: MetaUrl,
        /// The node.
        name: String,
    },
    /// Files would be lost that can be read again when the nodes are back.
    #[error(
        "giving up {} now would LOSE {} in part or whole ({}), which can be read again when the node comes back: attach it (weft node move \
         {meta} NAME FOLDER, if it is elsewhere), or use --force",
        loss.nodes.join(", "), count(loss.paths.len() as u64, "file"), first(&loss.paths)
    )]
    WouldLose {
        /// The volume.
        meta: MetaUrl,
        /// The data that would be lost.
        loss: Loss,
    },
    /// It answers, so nothing of it is lost.
    #[error(
        "node {name} answers, so none of its shards is lost: to give it up anyway, use `weft node replace {meta} {name} FOLDER`"
    )]
    Answers {
        /// The volume.
        meta: MetaUrl,
        /// The node.
        name: String,
    },
    /// Segments refer to it.
    #[error("{}", still_needed(meta, name, *state, *segment_count, *is_counted))]
    StillNeeded {
        /// The volume.
        meta: MetaUrl,
        /// The node.
        name: String,
        /// Its current state.
        state: NodeState,
        /// Segments of living files on it; 0: only of deleted ones.
        segment_count: u64,
        /// All of them were counted.
        is_counted: bool,
    },
    /// Something was written to it in between, or may be about to be.
    #[error("writes that may come to node {0} are under way: try again in a minute")]
    BeingWritten(String),
    /// A policy in use needs more failure domains than would be left.
    #[error(
        "without node {name}, the failure domains have places for {left} shards of a segment, and {code} needs {needed}: add another node \
         first with `weft node add {meta} NAME FOLDER`"
    )]
    TooFewLeft {
        /// The volume.
        meta: MetaUrl,
        /// The node.
        name: String,
        /// Places of shards without it.
        left: usize,
        /// The policy's code.
        code: String,
        /// Its shards.
        needed: usize,
    },
    /// It is there.
    #[error("node {name} is recorded at {url} already")]
    SamePlace {
        /// The node.
        name: String,
        /// Its place.
        url: String,
    },
    /// Something else is there, or nothing that answers.
    #[error("node {name} is not at {url}: {why}")]
    NotThere {
        /// The node.
        name: String,
        /// Where it should be.
        url: String,
        /// Why it was not found there.
        why: Box<ProbeError>,
    },
    /// Only a node that was given up is taken back.
    #[error("node {0} was not given up, so there is nothing to take back")]
    NotGivenUp(String),
    /// It was given up, and does not answer.
    #[error(
        "node {name} does not answer or does not identify itself: {why}; if it is elsewhere now: weft node move {meta} {name} FOLDER"
    )]
    Silent {
        /// The volume.
        meta: MetaUrl,
        /// The node.
        name: String,
        /// Why.
        why: Box<ProbeError>,
    },
    /// Its state does not allow it; a sentence.
    #[error("node {name} is {what}")]
    State {
        /// The node.
        name: String,
        /// A clause that ends in the mend, if there is one.
        what: String,
    },
    /// A key file.
    #[error(transparent)]
    KeyFile(#[from] KeyFileError),
    /// An address.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// Metadata.
    #[error(transparent)]
    Meta(#[from] MetaError),
    /// Anything else.
    #[error(transparent)]
    Engine(Box<EngineError>),
}

impl From<EngineError> for NodesError {
    fn from(error: EngineError) -> Self {
        NodesError::Engine(Box::new(error))
    }
}

/// Why a node was not found at its place.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// It takes too long.
    #[error("it did not answer within {} s", .0.as_secs())]
    Silent(Duration),
    /// It says why.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// It cannot be asked.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

fn names(known: &[String]) -> String {
    if known.is_empty() { "none".into() } else { known.join(", ") }
}

/// Files that a sentence names.
const PATHS_SHOWN: usize = 5;

fn first(paths: &[String]) -> String {
    let more = if paths.len() > PATHS_SHOWN { ", ..." } else { "" };
    format!("{}{more}", paths[..paths.len().min(PATHS_SHOWN)].join(", "))
}

fn still_needed(meta: &MetaUrl, name: &str, state: NodeState, segment_count: u64, is_counted: bool) -> String {
    let many = if is_counted { count(segment_count, "segment") } else { format!("{segment_count} or more segments") };
    match (segment_count, state) {
        (0, _) => format!(
            "segments of deleted files still refer to node {name}: `weft gc {meta}` removes them after their grace period"
        ),
        (_, NodeState::Lost) => {
            format!("node {name} is lost, and {many} must still be rebuilt: run `weft repair {meta}`")
        }
        (_, NodeState::Draining) => {
            format!("node {name} is draining, and still has shards of {many}: run `weft repair {meta}`")
        }
        _ => format!(
            "node {name} holds shards of {many}: give it a new folder with `weft node replace {meta} {name} FOLDER`, then run `weft repair {meta}`"
        ),
    }
}
