//! Why a volume cannot be opened, kept or closed.

use std::io;
use weft_care::{CareError, CatalogueError};
use weft_format::SegmentId;
use weft_meta::MetaError;
use weft_meta::engines::OpenError;
use weft_nodes::{NodeError, UrlError};
use weft_vfs::VfsError;

/// What can go wrong with a whole volume.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The system has no threads.
    #[error("no threads can be started")]
    Threads(#[source] io::Error),
    /// The clock is before 1970, or millions of years after it.
    #[error("the clock is before 1970: set it")]
    Clock,
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
    #[error("segment {0} does not exist although the file is partly in it: run `weft fsck`")]
    NoSegment(SegmentId),
    /// A place of which no node can be made; a sentence.
    #[error("{0}")]
    Place(String),
    /// A fault of this program.
    #[error("{what} panicked: the log has the place")]
    Panicked {
        /// What did.
        what: &'static str,
    },
}
