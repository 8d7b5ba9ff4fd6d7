//! Why an object could not be stored, read, listed or removed.

use std::io;
use weft_format::records::{OBJECT_SEGMENTS_MAX, ObjectNameError};
use weft_transfer::{ReadError, WriteError};

/// Why; each ends as one sentence.
#[derive(Debug, thiserror::Error)]
pub enum ObjectError {
    /// No name.
    #[error(transparent)]
    Name(#[from] ObjectNameError),
    /// No code.
    #[error("code `{code}` cannot be used: {detail}")]
    Code {
        /// The spec.
        code: String,
        /// What is wrong with it.
        detail: String,
    },
    /// Too few members.
    #[error(
        "{name} is not stored: {code} needs {needed} members in domains of their own, and {there} are there: start more daemons, or choose a code with fewer shards"
    )]
    TooFewMembers {
        /// The object.
        name: String,
        /// The code.
        code: String,
        /// Members that it needs at least.
        needed: usize,
        /// Members that are there.
        there: usize,
    },
    /// It is there.
    #[error("{name} exists (version {version}): give --replace to store a newer version")]
    Exists {
        /// The object.
        name: String,
        /// Its newest version.
        version: String,
    },
    /// It is not there.
    #[error("{name} does not exist: {answered} members were asked, and none has it")]
    NotFound {
        /// The object.
        name: String,
        /// Members that answered.
        answered: usize,
    },
    /// It was not found, and too many members are silent to say that it does not exist.
    #[error(
        "{name} is not at the {answered} members that answered, and {silent} did not answer ({why}): try again when they are back"
    )]
    Unknown {
        /// The object.
        name: String,
        /// Members that answered.
        answered: usize,
        /// Members that did not.
        silent: usize,
        /// What one of them said.
        why: String,
    },
    /// It is to be a new one, and too many members are silent to say that there is none.
    #[error(
        "{name} is not stored: members that do not answer ({silent}; {why}) may have an object of this name: try again when they are back, or give --replace"
    )]
    MayExist {
        /// The object.
        name: String,
        /// Members that did not answer.
        silent: usize,
        /// What one of them said.
        why: String,
    },
    /// No member answers at all.
    #[error("no member answers ({why}): see that the daemons run, and that the cluster key is theirs")]
    Silent {
        /// What one of them said.
        why: String,
    },
    /// The source of a put.
    #[error("the bytes to store cannot be read")]
    Source(#[source] io::Error),
    /// The target of a get.
    #[error("the object cannot be written to its destination")]
    Target(#[source] io::Error),
    /// Too much for one object.
    #[error("{name} is not stored: an object has at most {OBJECT_SEGMENTS_MAX} segments, and this one is longer")]
    TooLong {
        /// The object.
        name: String,
    },
    /// Shards were not stored. The version is not visible.
    #[error("{name} is not stored: {error}")]
    Write {
        /// The object.
        name: String,
        /// Why.
        error: Box<WriteError>,
    },
    /// The record was stored at too few members, after all shards.
    #[error(
        "{name} may be stored as version {version} or not: members that took its record keep {kept} shards of a segment, and {needed} are needed ({why}); look with `weft object stat`, or put it again with --replace"
    )]
    NotCommitted {
        /// The object.
        name: String,
        /// The version.
        version: String,
        /// Shards of a segment at members that took the record.
        kept: usize,
        /// How many must be.
        needed: usize,
        /// What one of the others said.
        why: String,
    },
    /// Too few members took the record of a removal.
    #[error(
        "{name} may be removed or not: {accepted} members took note of it, and {needed} are needed ({why}); remove it again"
    )]
    NotRemoved {
        /// The object.
        name: String,
        /// Members that took the record.
        accepted: usize,
        /// Members that must.
        needed: usize,
        /// What one of the others said.
        why: String,
    },
    /// Too few shards can be used.
    #[error("{name} (version {version}) cannot be read: {silence}{error}")]
    Read {
        /// The object.
        name: String,
        /// The version.
        version: String,
        /// Members of which nothing is known, a beginning of a clause; or empty.
        silence: String,
        /// Why.
        error: Box<ReadError>,
    },
    /// Its bytes are not those that were put.
    #[error(
        "{name} (version {version}) cannot be read: segment {segment}, decoded from its shards, differs from the stored one, and no digest says which shard is wrong"
    )]
    Forged {
        /// The object.
        name: String,
        /// The version.
        version: String,
        /// Which segment.
        segment: usize,
    },
    /// The record cannot be had, though members say that they have it.
    #[error("the record of {name} (version {version}) cannot be read: {why}")]
    NoRecord {
        /// The object.
        name: String,
        /// The version.
        version: String,
        /// What the last member said.
        why: String,
    },
}
