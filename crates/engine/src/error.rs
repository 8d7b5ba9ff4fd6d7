//! Why a volume cannot be opened, kept or closed.

use crate::words::count;
use std::io;
use weft_care::{CareError, CatalogueError};
use weft_format::SegmentId;
use weft_meta::engines::OpenError;
use weft_meta::{MetaError, MetaUrl};
use weft_nodes::{NodeError, UrlError};
use weft_vfs::VfsError;

/// Errors of a whole volume.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The system has no threads.
    #[error("no threads can be started")]
    Threads(#[source] io::Error),
    /// Metadata.
    #[error(transparent)]
    Meta(#[from] MetaError),
    /// A metadata file.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A call on the volume.
    #[error(transparent)]
    Volume(#[from] VfsError),
    /// At its end.
    #[error("not everything could be written")]
    Unwritten(#[source] VfsError),
    /// At its end: everything is written, and some of the metadata is here only.
    #[error(
        "the nodes lack the last changes of the metadata ({0}): everything is written, and would be lost with the metadata's disk; mount it \
         again when the nodes answer"
    )]
    Unreplicated(String),
    /// Segments, as care sees them.
    #[error(transparent)]
    Catalogue(#[from] CatalogueError),
    /// A job of care.
    #[error(transparent)]
    Care(#[from] CareError),
    /// A node.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// The address of a node.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// The name of a code.
    #[error(transparent)]
    Code(#[from] weft_codes::SpecError),
    /// Metadata that does not fit together.
    #[error("segment {0} does not exist, but the file refers to it: run `weft fsck`")]
    NoSegment(SegmentId),
    /// A place of which no node can be made; a sentence.
    #[error("{0}")]
    Place(String),
    /// Nothing could be written.
    #[error(
        "{code} needs {needed} nodes and {meta} has {}: add {} more with `weft node add {meta} NAME FOLDER`",
        count(*there as u64, "node"), needed - there
    )]
    TooFewNodes {
        /// The volume.
        meta: MetaUrl,
        /// The code.
        code: String,
        /// Nodes that it needs.
        needed: usize,
        /// Nodes that take shards.
        there: usize,
    },
    /// A placement rule leaves too few failure units.
    #[error(
        "{policy} has {needed} shards, but with {levels} levels there are {units} failure units with places for {places}: choose other \
         levels, more shards in a unit (`--per-unit`, no more than the code can lose), or a code with fewer shards"
    )]
    TooFewUnits {
        /// The policy's code.
        policy: String,
        /// Its shards.
        needed: usize,
        /// Levels of a unit by the rule.
        levels: u32,
        /// Units by the rule.
        units: usize,
        /// Places for shards of a segment in these.
        places: usize,
    },
    /// Its holder has not given its name.
    #[error("whether the volume is in use cannot be determined")]
    UnknownOwner,
    /// The analysis of a code.
    #[error(transparent)]
    Analysis(#[from] weft_codes::ProgramError),
    /// A fault of this program.
    #[error("{what} panicked: see the log for the place in the code")]
    Panicked {
        /// What did.
        what: &'static str,
    },
}
