//! Where a node is, as text.

use crate::error::{NodeError, NodeErrorKind};
use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The kind of nodes that are folders of this machine: a plain path is an address of one.
pub(crate) const FOLDER_KIND: &str = "folder";

/// An address of a node, as its kind has read it ([`crate::Kinds::parse`]).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NodeUrl {
    kind: &'static str,
    text: String,
    place: Place,
}

/// Where on this machine a node is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// In this folder, by absolute path: shards are files in it.
    Folder(PathBuf),
    /// On this block device, or in this image file, by absolute path.
    Device(PathBuf),
    /// On another machine, or not on a disk.
    Elsewhere,
}

impl NodeUrl {
    /// The address `scheme://path` of a kind that keeps shards at a path of this machine.
    pub fn local(kind: &'static str, scheme: &str, place: Place) -> Self {
        let path = match &place {
            Place::Folder(path) | Place::Device(path) => percent_encode(path.as_os_str().as_bytes()),
            Place::Elsewhere => String::new(),
        };
        Self { kind, text: format!("{scheme}://{path}"), place }
    }

    /// An address of a kind that keeps shards elsewhere. `text` is what people and metadata see, without secrets; one place has one
    /// text.
    pub fn elsewhere(kind: &'static str, text: String) -> Self {
        Self { kind, text, place: Place::Elsewhere }
    }

    /// The address of a folder node.
    pub fn folder(path: &Path) -> Self {
        Self::local(FOLDER_KIND, "file", Place::Folder(path.to_owned()))
    }

    /// The name of its kind.
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// What follows `://`.
    pub fn rest(&self) -> &str {
        self.text.split_once("://").map_or("", |(_, rest)| rest)
    }

    /// What precedes `://`.
    pub fn scheme(&self) -> &str {
        self.text.split_once("://").map_or("", |(scheme, _)| scheme)
    }

    /// Where on this machine it is.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// The path where it is on this machine; `None` for nodes elsewhere.
    pub fn path(&self) -> Option<&Path> {
        match &self.place {
            Place::Folder(path) | Place::Device(path) => Some(path),
            Place::Elsewhere => None,
        }
    }

    /// The same, for kinds that need one.
    pub(crate) fn local_path(&self) -> Result<&Path, NodeError> {
        let detail = "it is no path of this machine: give one";
        self.path().ok_or_else(|| NodeError::new(NodeErrorKind::Unavailable, &self.text, detail))
    }

    /// The folder of this machine in which its shards are files.
    pub fn files(&self) -> Option<&Path> {
        match &self.place {
            Place::Folder(path) => Some(path),
            Place::Device(_) | Place::Elsewhere => None,
        }
    }

    /// An address for what was here and is lost, now that something else is here: it leads nowhere, or to another node, and
    /// differs from all others by the mark.
    pub fn former(&self, mark: &str) -> String {
        match self.place {
            // A `#` in a path, which makes it another one.
            Place::Folder(_) | Place::Device(_) => format!("{self}%23lost-{mark}"),
            Place::Elsewhere => format!("{self}#lost-{mark}"),
        }
    }
}

impl fmt::Display for NodeUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Text that is no address of a node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// Nothing.
    #[error("a node's address is empty: give a folder, such as `/mnt/disk1`, or a device, such as `block:///dev/sdb`")]
    Empty,
    /// Where everybody sees it, and not repeated.
    #[error(
        "an address of `{scheme}://` holds what looks like a password, and addresses are shown: leave it out, and give it with \
         --key FILE"
    )]
    Password {
        /// What precedes `://`.
        scheme: String,
    },
    /// Another program's scheme.
    #[error(
        "nodes of the scheme `{scheme}` do not exist: give a folder, such as `/mnt/disk1` or `file:///mnt/disk1`, a device, \
         such as `block:///dev/sdb`, a daemon, such as `weft://host:7600`, or see `weft node kinds`"
    )]
    UnknownScheme {
        /// What precedes `://`; not the rest, which may hold a password.
        scheme: String,
    },
    /// `file://host/path`.
    #[error("`{url}` names a place on another machine: write three slashes for this machine, `file:///path`")]
    OtherHost {
        /// The whole text.
        url: String,
    },
    /// A percent sign without two hex digits after it, or one that makes a zero byte.
    #[error("`{url}` has a broken percent escape: write `%25` for a percent sign")]
    Escape {
        /// The whole text.
        url: String,
    },
    /// An address that its kind cannot read.
    #[error("{0}")]
    Unfit(String),
    /// The current folder cannot be told.
    #[error("`{path}` is relative and the current folder cannot be told: give an absolute path")]
    Relative {
        /// What was given.
        path: String,
    },
}

/// Is there a password, as in `user:password@host`? It may hold any character, also those that end a host.
pub(crate) fn has_password(rest: &str) -> bool {
    let Some((user, _)) = rest.rsplit_once('@') else { return false };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    match authority.rsplit_once('@') {
        Some((user, _)) => user.contains(':'),
        // `host:22/folder@2` has none.
        None => {
            let port = authority.rsplit_once(':').map(|(_, port)| port);
            user.contains(':')
                && port.is_some_and(|port| port.is_empty() || !port.bytes().all(|byte| byte.is_ascii_digit()))
        }
    }
}

/// The path in an address `scheme://rest` of this machine.
///
/// # Errors
/// It is another machine's, or has a broken percent escape.
pub(crate) fn path_of(scheme: &str, rest: &str) -> Result<PathBuf, UrlError> {
    let url = || format!("{scheme}://{rest}");
    if !rest.starts_with('/') {
        return Err(UrlError::OtherHost { url: url() });
    }
    let path = percent_decode(rest.as_bytes()).ok_or_else(|| UrlError::Escape { url: url() })?;
    Ok(PathBuf::from(OsString::from_vec(path)))
}

/// What cannot stand in an address for itself, as `%` and two hex digits.
pub fn percent_encode(text: &[u8]) -> String {
    let mut out = String::with_capacity(text.len());
    for &byte in text {
        match byte {
            b'/' | b'-' | b'_' | b'.' | b'~' | b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => out.push(byte as char),
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}

/// The inverse of [`percent_encode`]; `None` for a broken escape or a zero byte.
pub fn percent_decode(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        let (decoded, after) = if byte == b'%' {
            let (digits, after) = after.split_first_chunk::<2>()?;
            let value = |digit: u8| char::from(digit).to_digit(16);
            (u8::try_from(value(digits[0])? * 16 + value(digits[1])?).ok()?, after)
        } else {
            (byte, after)
        };
        // A path cannot hold a zero byte.
        if decoded == 0 {
            return None;
        }
        out.push(decoded);
        rest = after;
    }
    Some(out)
}

#[cfg(test)]
#[path = "url_tests.rs"]
mod tests;
