//! What an error of OpenDAL means for a node.

use crate::error::NodeErrorKind;
use opendal::{Error, ErrorKind};
use std::error::Error as _;

/// Longest part of a service's own words that goes into an error: it may be a page of HTML.
const WORDS_MAX: usize = 200;

/// An answer that was not taken, with what that means.
#[derive(Debug, thiserror::Error)]
#[error("{detail}")]
pub(super) struct Refusal {
    pub(super) kind: NodeErrorKind,
    /// One clause.
    pub(super) detail: String,
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        let is_transient = refusal.kind.is_transient();
        Error::new(ErrorKind::Unexpected, refusal.detail.clone()).set_source(refusal).with_temporary(is_transient)
    }
}

/// An answer that goes on.
pub(super) fn too_long() -> Error {
    let detail = "its answer goes on beyond what was asked for".to_owned();
    Refusal { kind: NodeErrorKind::Corrupt, detail }.into()
}

/// A transfer that ended before its object did.
pub(super) fn broke_off() -> Error {
    let detail = "the transfer broke off: see whether the server and the network are well, and try again".to_owned();
    Refusal { kind: NodeErrorKind::Io, detail }.into()
}

/// Kind and sentence; `NotFound` is what the service says, to be believed only once the node itself was found.
pub(super) fn meaning(error: &Error) -> (NodeErrorKind, String) {
    if let Some(refusal) = error.source().and_then(|source| source.downcast_ref::<Refusal>()) {
        return (refusal.kind, refusal.detail.clone());
    }
    let (kind, what) = match error.kind() {
        ErrorKind::NotFound => {
            (NodeErrorKind::NotFound, "there is no such bucket or folder: make it, or correct the address")
        }
        ErrorKind::PermissionDenied if is_hdfs_unable(error) => {
            (NodeErrorKind::Unavailable, "HDFS cannot do it now: see whether its DataNodes are up and have room")
        }
        ErrorKind::PermissionDenied => (
            NodeErrorKind::Denied,
            "it refuses access: give a key file (--key FILE) whose credentials may list, read, write and remove there",
        ),
        ErrorKind::AlreadyExists | ErrorKind::ConditionNotMatch => {
            (NodeErrorKind::Exists, "other bytes have that name there: see what else writes to it")
        }
        // A bucket that does not exist, a region that is not known: nothing is known of its shards.
        ErrorKind::ConfigInvalid => (
            NodeErrorKind::Unavailable,
            "its address or key file is incomplete: see `weft node kinds` for what this kind needs",
        ),
        ErrorKind::RateLimited => (NodeErrorKind::Busy, "it refuses for load: ask later"),
        _ if is_ssh(error) => (
            NodeErrorKind::Unavailable,
            "no SSH connection: see whether `ssh` reaches that host with the same user and key, without a question",
        ),
        _ => (NodeErrorKind::Io, "the request failed: see whether the server is well, and try again"),
    };
    (kind, format!("{what} (it says: {})", words(error)))
}

/// WebHDFS refuses with one status what is not allowed, what it cannot do, such as reading from a DataNode that is down, and a range that
/// begins beyond a file's end. The exception that it names tells them apart.
fn is_hdfs_unable(error: &Error) -> bool {
    const NOT_ALLOWED: [&str; 4] = ["AccessControl", "Authoriz", "Security", "Token"];
    let Some((_, said)) = error.message().split_once("WebHdfsError { exception: \"") else { return false };
    let (name, rest) = said.split_once('"').unwrap_or((said, ""));
    !NOT_ALLOWED.iter().any(|word| name.contains(word)) && !rest.contains("out of the range")
}

/// Did the ssh program below a connection by SFTP fail?
fn is_ssh(error: &Error) -> bool {
    let text = format!("{} {}", error.message(), error.source().map(ToString::to_string).unwrap_or_default());
    ["ssh", "SSH", "sftp connect"].iter().any(|word| text.contains(word))
}

/// What the service or the library says, in one short line. Not the context of the error, which has addresses with tokens.
fn words(error: &Error) -> String {
    let mut text = error.message().to_owned();
    if let Some(source) = error.source() {
        text = format!("{text}: {source}");
    }
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let line: String = line.chars().filter(|c| !c.is_control()).take(WORDS_MAX).collect();
    if line.is_empty() { error.kind().to_string() } else { line }
}

#[cfg(test)]
#[path = "failure_tests.rs"]
mod tests;
