//! Where a node is, as text; and opening what is there.

use crate::block::BlockNode;
use crate::daemon::{DaemonNode, DaemonUrl, Key, ParseKeyError};
use crate::error::{NodeError, NodeErrorKind};
use crate::folder::FolderNode;
use crate::foreign::{Credentials, CredentialsError, ForeignUrl, ForeignUrlError};
use crate::kinds;
use crate::memory::MemoryNode;
use crate::node::{Node, NodeIdentity};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use weft_format::records::Secret;
use weft_format::{NodeId, VolumeId};

/// A node's address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum NodeUrl {
    /// A folder of this machine, by absolute path.
    Folder(PathBuf),
    /// A block device or an image file of this machine, by absolute path.
    Block(PathBuf),
    /// What a daemon serves.
    Daemon(DaemonUrl),
    /// A bucket, or a folder of another kind of server.
    Foreign(ForeignUrl),
    /// This process's memory, by name.
    Memory(String),
}

/// Where our daemon listens if nothing else is said.
pub const DAEMON_PORT: u16 = 7600;

/// Room of a node in memory: enough for tests.
const MEMORY_BYTES: u64 = 256 << 20;

impl NodeUrl {
    /// Where on this machine it is; `None` for nodes elsewhere.
    pub fn path(&self) -> Option<&Path> {
        match self {
            NodeUrl::Folder(path) | NodeUrl::Block(path) => Some(path),
            NodeUrl::Daemon(_) | NodeUrl::Foreign(_) | NodeUrl::Memory(_) => None,
        }
    }

    /// An address for what was here and is lost, now that something else is here: it leads nowhere, or to another node, and
    /// differs from all others by the mark.
    pub fn former(&self, mark: &str) -> String {
        match self {
            // A `#` in a path, which makes it another one.
            NodeUrl::Folder(_) | NodeUrl::Block(_) => format!("{self}%23lost-{mark}"),
            NodeUrl::Daemon(_) | NodeUrl::Foreign(_) | NodeUrl::Memory(_) => format!("{self}#lost-{mark}"),
        }
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
    /// `weft://` without a host, or with more than a host and a port.
    #[error(
        "`{url}` names no daemon: write `weft://host:port`, or `weft+tls://host:port/sha256:HEX` as the daemon says it, or \
         `weft+tls://host:port/ca:/path/of/its/authority`"
    )]
    Authority {
        /// The whole text.
        url: String,
    },
    /// An address of storage of others that cannot be right.
    #[error("`{scheme}://`: {error}")]
    Foreign {
        /// What precedes `://`; not the rest, which may hold a password.
        scheme: String,
        /// What is wrong.
        error: ForeignUrlError,
    },
    /// `memory://` without a name.
    #[error("`{url}` names no memory: write `memory://name`, with letters, digits, `-` and `_`")]
    Memory {
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

    /// `file:///p` or `block:///p` (percent-escaped), `weft://host:port` or `weft+tls://host:port/...`, or a plain path of a folder (taken as it is and made
    /// absolute).
    fn from_str(text: &str) -> Result<Self, UrlError> {
        if text.is_empty() {
            return Err(UrlError::Empty);
        }
        let Some((scheme, rest)) = text.split_once("://") else {
            let relative = || UrlError::Relative { path: text.to_owned() };
            return std::path::absolute(text).map(NodeUrl::Folder).map_err(|_| relative());
        };
        if !matches!(scheme, "file" | "block") && has_password(rest) {
            return Err(UrlError::Password { scheme: scheme.to_owned() });
        }
        let url = || text.to_owned();
        let kind = match scheme {
            "file" => NodeUrl::Folder,
            "block" => NodeUrl::Block,
            "weft" | "weft+tls" => {
                let daemon = DaemonUrl::parse(scheme == "weft+tls", rest);
                return daemon.map(NodeUrl::Daemon).ok_or_else(|| UrlError::Authority { url: url() });
            }
            "memory" => return memory(rest).ok_or_else(|| UrlError::Memory { url: url() }),
            scheme => {
                let scheme = || scheme.to_owned();
                let parsed =
                    ForeignUrl::parse(&scheme(), rest).ok_or_else(|| UrlError::UnknownScheme { scheme: scheme() })?;
                return parsed.map(NodeUrl::Foreign).map_err(|error| UrlError::Foreign { scheme: scheme(), error });
            }
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
            NodeUrl::Daemon(url) => return url.fmt(f),
            NodeUrl::Foreign(url) => return url.fmt(f),
            NodeUrl::Memory(name) => return write!(f, "memory://{name}"),
        };
        write!(f, "{scheme}://{}", percent_encode(path.as_os_str().as_bytes()))
    }
}

/// Is there a password, as in `user:password@host`? It may hold any character, also those that end a host.
fn has_password(rest: &str) -> bool {
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

/// A name of letters, digits, `-` and `_`; what follows `#` is a mark that only tells addresses apart.
fn memory(rest: &str) -> Option<NodeUrl> {
    let name = rest.split_once('#').map_or(rest, |(name, _)| name);
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (!name.is_empty() && name.bytes().all(allowed)).then(|| NodeUrl::Memory(name.to_owned()))
}

/// What cannot stand in an address for itself, as `%` and two hex digits.
pub(crate) fn percent_encode(text: &[u8]) -> String {
    let mut out = String::with_capacity(text.len());
    for &byte in text {
        match byte {
            b'/' | b'-' | b'_' | b'.' | b'~' | b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => out.push(byte as char),
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}

/// The inverse of [`percent_encode`]; `None` for a broken escape.
pub(crate) fn percent_decode(text: &[u8]) -> Option<Vec<u8>> {
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

/// Opens the node at `url`; `secret` is what it asks of its users. Does no I/O: a node that is away now is `Unavailable` at
/// each call until it is back, and one that is not `identity` is `WrongNode`.
///
/// # Errors
/// `Denied`: the secret is none for this kind, or the certificates to trust cannot be read; `Unavailable`: this program was
/// built without this kind.
pub fn open(url: &NodeUrl, name: &str, identity: NodeIdentity, secret: &Secret) -> Result<Arc<dyn Node>, NodeError> {
    Ok(match url {
        NodeUrl::Daemon(url) => Arc::new(DaemonNode::open(url, name, identity, key(name, secret)?)?),
        NodeUrl::Folder(path) => Arc::new(FolderNode::open(path, name, identity)),
        NodeUrl::Block(path) => Arc::new(BlockNode::open(path, name, identity)),
        NodeUrl::Memory(_) => memory_node(name, identity),
        NodeUrl::Foreign(url) => foreign_node(url, name, identity, secret)?,
    })
}

/// Makes a new, empty node at `url` and opens it; `secret` is what it asks of its users.
///
/// # Errors
/// The place is in use, or cannot be written; as [`open`].
pub async fn create(
    url: &NodeUrl,
    name: &str,
    identity: NodeIdentity,
    secret: &Secret,
) -> Result<Arc<dyn Node>, NodeError> {
    match url {
        NodeUrl::Daemon(url) => Ok(Arc::new(DaemonNode::create(url, name, identity, key(name, secret)?).await?)),
        NodeUrl::Folder(path) => blocking(path, name, move |path, name| FolderNode::create(path, name, identity)).await,
        NodeUrl::Block(path) => blocking(path, name, move |path, name| BlockNode::create(path, name, identity)).await,
        NodeUrl::Memory(_) => Ok(memory_node(name, identity)),
        NodeUrl::Foreign(url) => create_foreign(url, name, identity, secret).await,
    }
}

/// Takes a node up again of which its place has lost all but some shards. False: it is not so.
///
/// # Errors
/// The place cannot be reached or written; as [`open`].
pub async fn put_back(url: &NodeUrl, name: &str, identity: NodeIdentity, secret: &Secret) -> Result<bool, NodeError> {
    match url {
        NodeUrl::Folder(path) => {
            let (path, owned_name) = (path.to_owned(), name.to_owned());
            let put_back = move || FolderNode::put_back(&path, &owned_name, identity);
            let stopped = |error| NodeError::new(NodeErrorKind::Io, name, format!("it was stopped: {error}"));
            tokio::task::spawn_blocking(put_back).await.map_err(stopped)?
        }
        // A daemon that is told again who it is does the same, where it can.
        NodeUrl::Daemon(url) => {
            let node = DaemonNode::create(url, name, identity, key(name, secret)?).await?;
            Ok(node.space().await.is_ok())
        }
        NodeUrl::Block(_) | NodeUrl::Memory(_) | NodeUrl::Foreign(_) => Ok(false),
    }
}

/// What the text of a key file for `url` becomes in the node's record.
///
/// # Errors
/// The text is none for this kind, or it takes none; nothing of the text is repeated.
pub fn secret_of(url: &NodeUrl, key_file: &str) -> Result<Secret, SecretError> {
    match url {
        NodeUrl::Daemon(_) => Ok(Secret(key_file.parse::<Key>()?.to_bytes().to_vec())),
        NodeUrl::Foreign(url) => Ok(Secret(Credentials::parse(key_file, url.secret_names())?.to_bytes())),
        NodeUrl::Folder(_) | NodeUrl::Block(_) | NodeUrl::Memory(_) => Err(CredentialsError::NoneTaken.into()),
    }
}

/// A key file that does not fit; nothing of it is repeated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// For a daemon.
    #[error(transparent)]
    Key(#[from] ParseKeyError),
    /// For a foreign service.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
}

pub(crate) fn key(name: &str, secret: &Secret) -> Result<Option<Key>, NodeError> {
    match secret.0.as_slice() {
        [] => Ok(None),
        bytes => bytes.try_into().map(|bytes| Some(Key::new(bytes))).map_err(|_| damaged_secret(name)),
    }
}

fn damaged_secret(name: &str) -> NodeError {
    NodeError::new(NodeErrorKind::Denied, name, "its key is damaged: give it again (weft node replace)")
}

/// The memory of this process by identity: opening a node again finds what was put.
fn memory_node(name: &str, identity: NodeIdentity) -> Arc<dyn Node> {
    static NODES: Mutex<BTreeMap<(VolumeId, NodeId), Arc<MemoryNode>>> = Mutex::new(BTreeMap::new());
    let mut nodes = NODES.lock();
    let node = nodes.entry((identity.volume, identity.node));
    node.or_insert_with(|| Arc::new(MemoryNode::new(name, identity, MEMORY_BYTES))).clone()
}

#[cfg(feature = "foreign")]
fn foreign_node(
    url: &ForeignUrl,
    name: &str,
    identity: NodeIdentity,
    secret: &Secret,
) -> Result<Arc<dyn Node>, NodeError> {
    let credentials = usable_credentials(url, name, secret)?;
    Ok(Arc::new(crate::foreign::ForeignNode::open(url, name, identity, &credentials)?))
}

#[cfg(feature = "foreign")]
async fn create_foreign(
    url: &ForeignUrl,
    name: &str,
    identity: NodeIdentity,
    secret: &Secret,
) -> Result<Arc<dyn Node>, NodeError> {
    let credentials = usable_credentials(url, name, secret)?;
    Ok(Arc::new(crate::foreign::ForeignNode::create(url, name, identity, &credentials).await?))
}

#[cfg(feature = "foreign")]
fn usable_credentials(url: &ForeignUrl, name: &str, secret: &Secret) -> Result<Credentials, NodeError> {
    require_built_in(url, name)?;
    Credentials::from_bytes(&secret.0, url.secret_names()).map_err(|_| damaged_secret(name))
}

#[cfg(not(feature = "foreign"))]
fn foreign_node(url: &ForeignUrl, name: &str, _: NodeIdentity, _: &Secret) -> Result<Arc<dyn Node>, NodeError> {
    require_built_in(url, name)?;
    unreachable!("no kind of foreign node is built in")
}

#[cfg(not(feature = "foreign"))]
async fn create_foreign(
    url: &ForeignUrl,
    name: &str,
    identity: NodeIdentity,
    secret: &Secret,
) -> Result<Arc<dyn Node>, NodeError> {
    foreign_node(url, name, identity, secret)
}

fn require_built_in(url: &ForeignUrl, name: &str) -> Result<(), NodeError> {
    let kind = url.kind();
    if kinds::KINDS.iter().any(|known| known.name == kind && known.is_built_in) {
        return Ok(());
    }
    let detail =
        format!("this program was built without {kind}: build it with `cargo build --release --features {kind}`");
    Err(NodeError::new(NodeErrorKind::Unavailable, name, detail))
}

/// Runs `create` where it may wait for a disk.
async fn blocking<N: Node + 'static>(
    path: &Path,
    name: &str,
    create: impl FnOnce(&Path, &str) -> Result<N, NodeError> + Send + 'static,
) -> Result<Arc<dyn Node>, NodeError> {
    let (path, owned_name) = (path.to_owned(), name.to_owned());
    match tokio::task::spawn_blocking(move || create(&path, &owned_name)).await {
        Ok(created) => Ok(Arc::new(created?)),
        Err(stopped) => Err(NodeError::new(NodeErrorKind::Io, name, format!("creating it was stopped: {stopped}"))),
    }
}

/// Which node is at `url`, a place of this machine; `None` if it is there and is none.
///
/// # Errors
/// The place is not there, cannot be read, or is no place of this machine.
pub fn probe(url: &NodeUrl) -> Result<Option<NodeIdentity>, NodeError> {
    match url {
        NodeUrl::Folder(path) => FolderNode::probe(path),
        NodeUrl::Block(path) => BlockNode::probe(path),
        NodeUrl::Daemon(_) | NodeUrl::Foreign(_) | NodeUrl::Memory(_) => {
            let detail = "a daemon serves a folder or a device of its own machine: give that";
            Err(NodeError::new(NodeErrorKind::Unavailable, &url.to_string(), detail))
        }
    }
}

#[cfg(test)]
#[path = "url_tests.rs"]
mod tests;
