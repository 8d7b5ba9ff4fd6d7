//! Storage of others as a node: buckets, WebDAV, SFTP, HDFS, through Apache OpenDAL.
//!
//! ```text
//! bucket:  <prefix>/weft-node.json, <prefix>/<segment>.<generation>.<index>
//! folder:  as a folder node has it, so that a folder may be a node of its own machine today and be reached by SFTP tomorrow
//! ```
//!
//! One adapter for all services. OpenDAL is asked for single operations only: no retries and no deadlines of its own, since
//! the callers of nodes and `node.rs` here have them.
//!
//! What it never does: take an error page, a redirect, a cut list or a missing bucket for *absent*; follow a redirect where
//! the protocol has none; put what a service says into an error without cutting it short; show a credential.
//!
//! - `about.rs`: the kinds, as data. `url.rs`, `service.rs`: addresses, and the table of services.
//! - `credentials.rs`: what a key file holds.
//! - `node.rs`: the seven methods. `list.rs`: what is a complete list. `used.rs`: what a quota is compared with.
//! - `answer.rs`: what of an HTTP answer is believed. `failure.rs`: what an error means.
//! - `datanode.rs`, `places.rs`: nodes of HDFS that are one DataNode each.
//!
//! Start reading at `service.rs`, then `node.rs`.

mod about;
#[cfg(feature = "foreign")]
mod answer;
mod credentials;
#[cfg(feature = "foreign")]
mod datanode;
#[cfg(feature = "foreign")]
mod failure;
#[cfg(all(test, feature = "foreign"))]
mod faults;
#[cfg(all(feature = "fuzzing", feature = "foreign"))]
pub(crate) mod fuzzing;
#[cfg(feature = "foreign")]
mod list;
#[cfg(feature = "foreign")]
mod node;
#[cfg(feature = "foreign")]
mod places;
mod service;
mod url;
#[cfg(feature = "foreign")]
mod used;

use crate::error::NodeError;
use crate::kind::{About, Kind, NodeAt, SecretError};
use crate::node::Node;
use crate::url::{NodeUrl, UrlError};
use async_trait::async_trait;
pub use credentials::{Credentials, CredentialsError};
#[cfg(feature = "foreign")]
pub use node::ForeignNode;
use std::sync::Arc;
pub use url::{ForeignUrl, ForeignUrlError};
use weft_format::records::Secret;

/// All services that this program knows, whether they are built in or not.
pub fn kinds() -> impl Iterator<Item = Arc<dyn Kind>> {
    about::KINDS.iter().map(|about| Arc::new(Foreign(about)) as Arc<dyn Kind>)
}

/// A service as nodes.
struct Foreign(&'static About);

impl Foreign {
    fn read(&self, url: &NodeUrl, name: &str) -> Result<ForeignUrl, NodeError> {
        let unfit = |why: String| NodeError::new(crate::NodeErrorKind::Unavailable, name, why);
        let parsed = ForeignUrl::parse(url.scheme(), url.rest());
        let parsed = parsed.ok_or_else(|| unfit(format!("`{}` is no service", url.scheme())))?;
        parsed.map_err(|error| unfit(error.to_string()))
    }
}

#[async_trait]
impl Kind for Foreign {
    fn about(&self) -> &'static About {
        self.0
    }

    fn parse(&self, scheme: &str, rest: &str) -> Result<NodeUrl, UrlError> {
        let parsed = ForeignUrl::parse(scheme, rest);
        let parsed = parsed.ok_or_else(|| UrlError::UnknownScheme { scheme: scheme.to_owned() })?;
        let url = parsed.map_err(|error| UrlError::Unfit(format!("`{scheme}://`: {error}")))?;
        Ok(NodeUrl::elsewhere(self.0.name, url.to_string()))
    }

    #[cfg(feature = "foreign")]
    fn open(&self, node: &NodeAt<'_>) -> Result<Arc<dyn Node>, NodeError> {
        let url = self.read(node.url, node.name)?;
        Ok(Arc::new(ForeignNode::open(&url, node.name, node.identity, &usable(&url, node)?)?))
    }

    #[cfg(feature = "foreign")]
    async fn create(&self, node: &NodeAt<'_>) -> Result<Arc<dyn Node>, NodeError> {
        let url = self.read(node.url, node.name)?;
        Ok(Arc::new(ForeignNode::create(&url, node.name, node.identity, &usable(&url, node)?).await?))
    }

    #[cfg(not(feature = "foreign"))]
    fn open(&self, node: &NodeAt<'_>) -> Result<Arc<dyn Node>, NodeError> {
        let detail = format!("{} cannot be opened by this program", node.url);
        Err(NodeError::new(crate::NodeErrorKind::Unavailable, node.name, detail))
    }

    #[cfg(not(feature = "foreign"))]
    async fn create(&self, node: &NodeAt<'_>) -> Result<Arc<dyn Node>, NodeError> {
        self.open(node)
    }

    fn secret_of(&self, url: &NodeUrl, key_file: &str) -> Result<Secret, SecretError> {
        let unfit = |error: &dyn std::fmt::Display| SecretError::Unfit(error.to_string());
        let url = self.read(url, self.0.name).map_err(|error| unfit(&error))?;
        if url.secret_names().next().is_none() {
            return Err(SecretError::NoneTaken);
        }
        let credentials = Credentials::parse(key_file, url.secret_names()).map_err(|error| unfit(&error))?;
        Ok(Secret(credentials.to_bytes()))
    }
}

#[cfg(feature = "foreign")]
fn usable(url: &ForeignUrl, node: &NodeAt<'_>) -> Result<Credentials, NodeError> {
    Credentials::from_bytes(&node.secret.0, url.secret_names()).map_err(|_| NodeError::damaged_secret(node.name))
}

#[cfg(all(test, feature = "foreign"))]
#[path = "foreign_tests.rs"]
mod tests;
