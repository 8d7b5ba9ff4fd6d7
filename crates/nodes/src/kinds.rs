//! The registry of the kinds of nodes: it reads addresses and opens what is there.
//!
//! A kind is a value that implements [`Kind`], in a file of its own, with its facts ([`About`]) and its page in `docs/nodes`. Whoever
//! puts a volume together puts the kinds together too ([`Kinds`]); nobody else names one. `weft node kinds` prints them.

use crate::block::Blocks;
use crate::error::{NodeError, NodeErrorKind};
use crate::folder::Folders;
use crate::memory::Memories;
use crate::node::{Node, NodeIdentity};
use crate::url::{NodeUrl, UrlError, has_password};
use std::sync::Arc;
use weft_format::records::Secret;

pub use crate::kind::{About, Kind, LOCAL, NodeAt, SecretError};

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

#[cfg(test)]
#[path = "kinds_tests.rs"]
mod tests;
