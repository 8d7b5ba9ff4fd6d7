//! A kind of node: its facts ([`About`]), and how its addresses are read and its nodes opened ([`Kind`]). `kinds.rs` has the registry.

use crate::error::{NodeError, NodeErrorKind};
use crate::node::{Capability, Node, NodeIdentity};
use crate::url::{NodeUrl, UrlError};
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

/// Runs `create` where it may wait for a disk.
pub(crate) async fn blocking<T: Send + 'static>(
    name: &str,
    create: impl FnOnce() -> Result<T, NodeError> + Send + 'static,
) -> Result<T, NodeError> {
    let stopped =
        |error| NodeError::new(NodeErrorKind::Io, name, format!("the call was stopped before its end: {error}"));
    tokio::task::spawn_blocking(create).await.map_err(stopped)?
}
