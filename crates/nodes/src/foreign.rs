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
//! - `url.rs`, `service.rs`: addresses, and the table of services.
//! - `credentials.rs`: what a key file holds.
//! - `node.rs`: the seven methods. `list.rs`: what is a complete list. `answer.rs`: what of an HTTP answer is believed.
//!   `failure.rs`: what an error means.
//!
//! Start reading at `service.rs`, then `node.rs`.

#[cfg(feature = "foreign")]
mod answer;
mod credentials;
#[cfg(feature = "foreign")]
mod failure;
#[cfg(feature = "foreign")]
mod list;
#[cfg(feature = "foreign")]
mod node;
mod service;
mod url;

pub use credentials::{Credentials, CredentialsError};
#[cfg(feature = "foreign")]
pub use node::ForeignNode;
pub use url::{ForeignUrl, ForeignUrlError};

#[cfg(all(test, feature = "foreign"))]
#[path = "foreign_tests.rs"]
mod tests;
