//! Daemons as a kind of node.

use super::address::DaemonUrl;
use super::auth::Key;
use super::client::{CAPABILITY, DaemonNode};
use super::follow::AddressBook;
use async_trait::async_trait;
use std::sync::Arc;
use weft_env::Env;
use weft_format::records::Secret;
use weft_nodes::{About, Kind, Node, NodeAt, NodeError, NodeErrorKind, NodeUrl, SecretError, UrlError};

/// What is known of daemons.
static ABOUT: About = About {
    name: "daemon",
    what: "what `weft node serve` serves on another machine",
    url: "weft+tls://HOST:PORT or weft://HOST:PORT",
    schemes: &["weft", "weft+tls"],
    is_path: false,
    feature: None,
    is_built_in: true,
    is_lasting: true,
    capability: &CAPABILITY,
    prices_because: "a round trip in a local network costs as much as 4 KiB",
    durable: "as the folder or device that it serves",
    tested_against: Some("itself"),
};

/// Daemons as nodes.
pub struct Daemons {
    env: Env,
    book: Option<Arc<AddressBook>>,
}

impl Daemons {
    /// Each where its URL says.
    #[must_use]
    pub fn new(env: &Env) -> Self {
        Self { env: env.clone(), book: None }
    }

    /// The same; a daemon that has moved is followed where it goes.
    pub fn followed(book: Arc<AddressBook>, env: &Env) -> Self {
        Self { book: Some(book), ..Self::new(env) }
    }
}

#[async_trait]
impl Kind for Daemons {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn parse(&self, scheme: &str, rest: &str) -> Result<NodeUrl, UrlError> {
        Ok(NodeUrl::elsewhere(ABOUT.name, DaemonUrl::parse(scheme, rest)?.to_string()))
    }

    fn open(&self, node: &NodeAt<'_>) -> Result<Arc<dyn Node>, NodeError> {
        let (url, key) = (read(node)?, key(node)?);
        match &self.book {
            Some(book) => book.open(&url, node.name, node.identity, key),
            None => Ok(Arc::new(DaemonNode::open(&url, node.name, node.identity, key, &self.env)?)),
        }
    }

    async fn create(&self, node: &NodeAt<'_>) -> Result<Arc<dyn Node>, NodeError> {
        Ok(Arc::new(DaemonNode::create(&read(node)?, node.name, node.identity, key(node)?, &self.env).await?))
    }

    /// A daemon that is told again who it is does it, where it can.
    async fn put_back(&self, node: &NodeAt<'_>) -> Result<bool, NodeError> {
        Ok(self.create(node).await?.space().await.is_ok())
    }

    fn secret_of(&self, _: &NodeUrl, key_file: &str) -> Result<Secret, SecretError> {
        let key: Key = key_file.parse().map_err(|error: super::ParseKeyError| SecretError::Unfit(error.to_string()))?;
        Ok(Secret(key.to_bytes().to_vec()))
    }
}

fn read(node: &NodeAt<'_>) -> Result<DaemonUrl, NodeError> {
    let unfit = |error: UrlError| NodeError::new(NodeErrorKind::Unavailable, node.name, error.to_string());
    node.url.to_string().parse().map_err(unfit)
}

fn key(node: &NodeAt<'_>) -> Result<Option<Key>, NodeError> {
    match node.secret.0.as_slice() {
        [] => Ok(None),
        bytes => bytes.try_into().map(|bytes| Some(Key::new(bytes))).map_err(|_| NodeError::damaged_secret(node.name)),
    }
}

#[cfg(test)]
#[path = "kind_tests.rs"]
mod tests;
