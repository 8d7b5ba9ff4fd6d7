//! Where a node is, as text; and opening what is there.

use crate::block::BlockNode;
use crate::error::{NodeError, NodeErrorKind};
use crate::folder::FolderNode;
use crate::node::{Node, NodeIdentity};
use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

/// A node's address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum NodeUrl {
    /// A folder of this machine, by absolute path.
    Folder(PathBuf),
    /// A block device or an image file of this machine, by absolute path.
    Block(PathBuf),
}

impl NodeUrl {
    /// Where on this machine it is; `None` for nodes elsewhere.
    pub fn path(&self) -> Option<&Path> {
        match self {
            NodeUrl::Folder(path) | NodeUrl::Block(path) => Some(path),
        }
    }
}

/// Text that is no address of a node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// Nothing.
    #[error("a node's address is empty: give a folder, such as `/mnt/disk1`, or a device, such as `block:///dev/sdb`")]
    Empty,
    /// Another program's scheme.
    #[error(
        "`{url}`: nodes of the scheme `{scheme}` do not exist: give a folder, such as `/mnt/disk1` or `file:///mnt/disk1`, \
         or a device, such as `block:///dev/sdb`"
    )]
    UnknownScheme {
        /// The whole text.
        url: String,
        /// What precedes `://`.
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
    /// The current folder cannot be told.
    #[error("`{path}` is relative and the current folder cannot be told: give an absolute path")]
    Relative {
        /// What was given.
        path: String,
    },
}

impl FromStr for NodeUrl {
    type Err = UrlError;

    /// `file:///p` or `block:///p` (percent-escaped), or a plain path of a folder (taken as it is and made absolute).
    fn from_str(text: &str) -> Result<Self, UrlError> {
        if text.is_empty() {
            return Err(UrlError::Empty);
        }
        let Some((scheme, rest)) = text.split_once("://") else {
            let relative = || UrlError::Relative { path: text.to_owned() };
            return std::path::absolute(text).map(NodeUrl::Folder).map_err(|_| relative());
        };
        let url = || text.to_owned();
        let kind = match scheme {
            "file" => NodeUrl::Folder,
            "block" => NodeUrl::Block,
            scheme => return Err(UrlError::UnknownScheme { url: url(), scheme: scheme.to_owned() }),
        };
        if !rest.starts_with('/') {
            return Err(UrlError::OtherHost { url: url() });
        }
        let path = percent_decode(rest.as_bytes()).ok_or_else(|| UrlError::Escape { url: url() })?;
        Ok(kind(PathBuf::from(OsString::from_vec(path))))
    }
}

impl fmt::Display for NodeUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, path) = match self {
            NodeUrl::Folder(path) => ("file", path),
            NodeUrl::Block(path) => ("block", path),
        };
        write!(f, "{scheme}://")?;
        path.as_os_str().as_bytes().iter().try_for_each(|&byte| match byte {
            b'/' | b'-' | b'_' | b'.' | b'~' | b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => write!(f, "{}", byte as char),
            other => write!(f, "%{other:02X}"),
        })
    }
}

fn percent_decode(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let (digits, after) = rest.split_first_chunk::<2>()?;
        let value = |digit: u8| char::from(digit).to_digit(16);
        let decoded = value(digits[0])? * 16 + value(digits[1])?;
        // A path cannot hold a zero byte.
        out.push(u8::try_from(decoded).ok().filter(|&byte| byte != 0)?);
        rest = after;
    }
    Some(out)
}

/// Opens the node at `url`. Does no I/O: a node that is away now is `Unavailable` at each call until it is back, and one
/// that is not `identity` is `WrongNode`.
///
/// # Errors
/// None for folders and devices.
pub fn open(url: &NodeUrl, name: &str, identity: NodeIdentity) -> Result<Arc<dyn Node>, NodeError> {
    Ok(match url {
        NodeUrl::Folder(path) => Arc::new(FolderNode::open(path, name, identity)),
        NodeUrl::Block(path) => Arc::new(BlockNode::open(path, name, identity)),
    })
}

/// Makes a new, empty node at `url` and opens it.
///
/// # Errors
/// The place is in use, or cannot be written.
pub async fn create(url: &NodeUrl, name: &str, identity: NodeIdentity) -> Result<Arc<dyn Node>, NodeError> {
    let (url, owned_name) = (url.clone(), name.to_owned());
    let create = move || -> Result<Arc<dyn Node>, NodeError> {
        Ok(match url {
            NodeUrl::Folder(path) => Arc::new(FolderNode::create(&path, &owned_name, identity)?),
            NodeUrl::Block(path) => Arc::new(BlockNode::create(&path, &owned_name, identity)?),
        })
    };
    match tokio::task::spawn_blocking(create).await {
        Ok(created) => created,
        Err(stopped) => Err(NodeError::new(NodeErrorKind::Io, name, format!("creating it was stopped: {stopped}"))),
    }
}

#[cfg(test)]
#[path = "url_tests.rs"]
mod tests;
