//! The kinds of nodes: what is known of each, and the registry that reads addresses and opens what is there.
//!
//! A kind is a value that implements [`Kind`], in a file of its own, with its facts ([`About`]) and its page in `docs/nodes`. Whoever
//! puts a volume together puts the kinds together too ([`Kinds`]); nobody else names one. `weft node kinds` prints them.

use crate::block::Blocks;
use crate::error::{NodeError, NodeErrorKind};
use crate::folder::Folders;
use crate::memory::Memories;
use crate::node::{Capability, Node, NodeIdentity};
use crate::url::{NodeUrl, UrlError, has_password};
use async_trait::async_trait;
use std::sync::Arc;
use weft_format::records::Secret;

/// What is known of a kind of node, as data.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// Its name, and its page's: `docs/nodes/NAME.md`.
    pub name: &'static str,
    /// What it is, in one clause.
    pub what: &'static str,
    /// The form of its address; capitals stand for what the user says.
    pub url: &'static str,
    /// What precedes `://` in its addresses.
    pub schemes: &'static [&'static str],
    /// Is its address a path of this machine, in which any character may stand?
    pub is_path: bool,
    /// The cargo feature that brings it, where not every program has it.
    pub feature: Option<&'static str>,
    /// Is it in this program?
    pub is_built_in: bool,
    /// Does what it stores outlive the process? A volume takes no other.
    pub is_lasting: bool,
    /// What it can do, and its prices.
    pub capability: &'static Capability,
    /// Why the prices are what they are.
    pub prices_because: &'static str,
    /// What a shard has survived once a put is answered.
    pub durable: &'static str,
    /// The server that the conformance suite runs against, with its version; `None`: no server could be had.
    pub tested_against: Option<&'static str>,
}

/// One KiB takes 10 microseconds, the unit of prices: about what it takes from a disk or over a gigabit network. A request costs the
/// time to its first byte.
pub const LOCAL: Capability = Capability {
    combines: false,
    range_granularity_bytes: 1,
    lists_in_order: false,
    puts_atomically: true,
    puts_conditionally: true,
    latency_us: 100,
    request_price: 1,
    kib_out_price: 1,
    kib_in_price: 1,
};

/// A node by its address.
#[derive(Clone, Copy, Debug)]
pub struct NodeAt<'a> {
    /// Where it is.
    pub url: &'a NodeUrl,
    /// What errors call it.
    pub name: &'a str,
    /// Who it is.
    pub identity: NodeIdentity,
    /// What it asks of its users.
    pub secret: &'a Secret,
}

/// One kind of node.
#[async_trait]
pub trait Kind: Send + Sync {
    /// What is known of it.
    fn about(&self) -> &'static About;

    /// Reads an address: `rest` is what follows `scheme://`, and `scheme` is one of [`About::schemes`].
    ///
    /// # Errors
    /// It is no address of this kind; a sentence that repeats no secret.
    fn parse(&self, scheme: &str, rest: &str) -> Result<NodeUrl, UrlError>;

    /// Opens a node whose address is of this kind. Does no I/O: a node that is away now is `Unavailable` at each call until it is back,
    /// and one with another identity is `WrongNode`.
    ///
    /// # Errors
    /// `Denied`: the secret is none for this kind, or the certificates to trust cannot be read.
    fn open(&self, node: &NodeAt<'_>) -> Result<Arc<dyn Node>, NodeError>;

    /// Makes a new, empty node there and opens it.
    ///
    /// # Errors
    /// The place is in use, or cannot be written; as [`Kind::open`].
    async fn create(&self, node: &NodeAt<'_>) -> Result<Arc<dyn Node>, NodeError>;

    /// Takes a node up again of which its place has lost all but some shards. False: it is not so, or cannot be done.
    ///
    /// # Errors
    /// The place cannot be reached or written; as [`Kind::open`].
    async fn put_back(&self, _node: &NodeAt<'_>) -> Result<bool, NodeError> {
        Ok(false)
    }

    /// What the text of a key file for `url` becomes in the node's record.
    ///
    /// # Errors
    /// The text is none for this kind, or it takes none; nothing of the text is repeated.
    fn secret_of(&self, _url: &NodeUrl, _key_file: &str) -> Result<Secret, SecretError> {
        Err(SecretError::NoneTaken)
    }

    /// Which node is at `url`, a place of this machine; `None` if it is there and is none.
    ///
    /// # Errors
    /// The place is not there, cannot be read, or is no place of this machine.
    fn probe(&self, url: &NodeUrl) -> Result<Option<NodeIdentity>, NodeError> {
        let detail = "a daemon serves a folder or a device of its own machine: give that";
        Err(NodeError::new(NodeErrorKind::Unavailable, &url.to_string(), detail))
    }
}

/// A key file that does not fit; nothing of it is repeated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// The kind asks nothing of its users.
    #[error("this kind of node takes no key file: leave out --key")]
    NoneTaken,
    /// It holds something else; a sentence.
    #[error("{0}")]
    Unfit(String),
}

/// A registry of kinds: reads addresses, and opens what is there.
#[derive(Clone)]
pub struct Kinds(Arc<[Arc<dyn Kind>]>);

impl Kinds {
    /// These kinds, the nearest first. No two have a scheme in common.
    pub fn new(kinds: Vec<Arc<dyn Kind>>) -> Self {
        Self(kinds.into())
    }

    /// What is known of each.
    pub fn about(&self) -> impl Iterator<Item = &'static About> {
        self.0.iter().map(|kind| kind.about())
    }

    /// What is known of the kind of this address.
    pub fn about_of(&self, url: &NodeUrl) -> Option<&'static About> {
        self.about().find(|about| about.name == url.kind())
    }

    /// Reads an address: `scheme://...` of one of the kinds, or a plain path of a folder, taken as it is and made absolute.
    ///
    /// # Errors
    /// It is none; a sentence that repeats no secret.
    pub fn parse(&self, text: &str) -> Result<NodeUrl, UrlError> {
        if text.is_empty() {
            return Err(UrlError::Empty);
        }
        if text.contains('\0') {
            return Err(UrlError::Unfit("an address has a zero byte, and no path can: leave it out".to_owned()));
        }
        let Some((scheme, rest)) = text.split_once("://") else {
            let path = std::path::absolute(text).map_err(|_| UrlError::Relative { path: text.to_owned() })?;
            return Ok(NodeUrl::folder(&path));
        };
        let kind = self.0.iter().find(|kind| kind.about().schemes.contains(&scheme));
        if !kind.is_some_and(|kind| kind.about().is_path) && has_password(rest) {
            return Err(UrlError::Password { scheme: scheme.to_owned() });
        }
        kind.ok_or_else(|| UrlError::UnknownScheme { scheme: scheme.to_owned() })?.parse(scheme, rest)
    }

    /// As [`Kind::open`].
    ///
    /// # Errors
    /// `Unavailable`: this program was built without this kind; as [`Kind::open`].
    pub fn open(&self, node: &NodeAt<'_>) -> Result<Arc<dyn Node>, NodeError> {
        self.built_in(node.url, node.name)?.open(node)
    }

    /// As [`Kind::create`].
    ///
    /// # Errors
    /// As [`Kinds::open`] and [`Kind::create`].
    pub async fn create(&self, node: &NodeAt<'_>) -> Result<Arc<dyn Node>, NodeError> {
        self.built_in(node.url, node.name)?.create(node).await
    }

    /// As [`Kind::put_back`].
    ///
    /// # Errors
    /// As [`Kinds::open`] and [`Kind::put_back`].
    pub async fn put_back(&self, node: &NodeAt<'_>) -> Result<bool, NodeError> {
        self.built_in(node.url, node.name)?.put_back(node).await
    }

    /// As [`Kind::secret_of`].
    ///
    /// # Errors
    /// As [`Kind::secret_of`].
    pub fn secret_of(&self, url: &NodeUrl, key_file: &str) -> Result<Secret, SecretError> {
        self.of(url).ok_or(SecretError::NoneTaken)?.secret_of(url, key_file)
    }

    /// As [`Kind::probe`].
    ///
    /// # Errors
    /// As [`Kinds::open`] and [`Kind::probe`].
    pub fn probe(&self, url: &NodeUrl) -> Result<Option<NodeIdentity>, NodeError> {
        self.built_in(url, &url.to_string())?.probe(url)
    }

    fn of(&self, url: &NodeUrl) -> Option<&dyn Kind> {
        self.0.iter().find(|kind| kind.about().name == url.kind()).map(|kind| &**kind)
    }

    /// The kind of `url`, if this program can open its nodes.
    fn built_in(&self, url: &NodeUrl, name: &str) -> Result<&dyn Kind, NodeError> {
        let refused = |detail: String| NodeError::new(NodeErrorKind::Unavailable, name, detail);
        let kind =
            self.of(url).ok_or_else(|| refused(format!("{url} is read by another program, which knows its kind")))?;
        match kind.about() {
            About { is_built_in: true, .. } => Ok(kind),
            About { name, feature, .. } => {
                let feature = feature.unwrap_or(name);
                Err(refused(format!(
                    "this program was built without {name}: build it with `cargo build --release --features {feature}`"
                )))
            }
        }
    }
}

/// The kinds that keep shards on this machine.
pub fn local() -> Vec<Arc<dyn Kind>> {
    vec![Arc::new(Folders::default()), Arc::new(Blocks), Arc::new(Memories)]
}

/// Runs `create` where it may wait for a disk.
pub(crate) async fn blocking<T: Send + 'static>(
    name: &str,
    create: impl FnOnce() -> Result<T, NodeError> + Send + 'static,
) -> Result<T, NodeError> {
    let stopped =
        |error| NodeError::new(NodeErrorKind::Io, name, format!("the call was stopped before its end: {error}"));
    tokio::task::spawn_blocking(create).await.map_err(stopped)?
}

#[cfg(test)]
#[path = "kinds_tests.rs"]
mod tests;
