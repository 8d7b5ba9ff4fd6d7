//! A node of HDFS bound to one DataNode, so that each node of a volume is a disk of its own. Pure; `places.rs` asks.
//!
//! WebHDFS has two steps: the NameNode names a DataNode, and the client sends the bytes there. A DataNode takes a file whichever one the
//! NameNode has named, and HDFS keeps the first copy, here the only one, where the file came in. So bytes go to the DataNode of the
//! address, in place of the one named. If that DataNode has no room HDFS stores elsewhere without a word: so the NameNode is asked
//! where the blocks are before a put is done.

use super::url::ForeignUrl;
use http::{Method, Uri};
use serde::Deserialize;
use std::fmt;

/// A DataNode's HTTP address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DataNode {
    /// As the NameNode names it: a host name or an address.
    host: String,
    /// Host and port.
    authority: String,
}

impl fmt::Display for DataNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DataNode {}", self.authority)
    }
}

/// Where the blocks of a file are.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Place {
    Here,
    /// On these other DataNodes, or on none.
    Elsewhere(Vec<String>),
}

impl DataNode {
    /// The one that an address names, if it names one.
    pub(super) fn of(url: &ForeignUrl) -> Option<Self> {
        let (given, default_port) = url.datanode()?;
        Self::at(given, default_port)
    }

    #[cfg(feature = "fuzzing")]
    pub(super) fn named(given: &str) -> Option<Self> {
        Self::at(given, 9864)
    }

    fn at(given: &str, default_port: u16) -> Option<Self> {
        let authority: http::uri::Authority = given.parse().ok()?;
        let host = authority.host().trim_matches(['[', ']']).to_owned();
        let authority = match authority.port() {
            Some(_) => given.to_owned(),
            None => format!("{given}:{default_port}"),
        };
        Some(Self { host, authority })
    }

    /// The address to send a file's bytes to, if this one has a DataNode take in a file: the same on this DataNode.
    pub(super) fn instead(&self, method: &Method, uri: &Uri) -> Option<Uri> {
        let query = uri.query()?;
        let has = |wanted: &str| query.split('&').any(|setting| setting.eq_ignore_ascii_case(wanted));
        // Only what a NameNode sends to a DataNode names the NameNode.
        let is_sent_on = query.split('&').any(|setting| setting.starts_with("namenoderpcaddress="));
        if *method != Method::PUT || !is_sent_on || !has("op=CREATE") {
            return None;
        }
        let mut parts = uri.clone().into_parts();
        parts.authority = Some(self.authority.parse().ok()?);
        Uri::from_parts(parts).ok()
    }

    /// Where the blocks of a file are, by the NameNode's answer; `None`: that is none.
    pub(super) fn place(&self, answer: &[u8]) -> Option<Place> {
        let answer: Answer = serde_json::from_slice(answer).ok()?;
        let is_here = |block: &Block| {
            let address =
                |name: &String| name.rsplit_once(':').map_or(name.as_str(), |(address, _)| address).to_owned();
            let is_this = |name: &str| name.trim_matches(['[', ']', '/']).eq_ignore_ascii_case(&self.host);
            block.hosts.iter().any(|host| is_this(host)) || block.names.iter().any(|name| is_this(&address(name)))
        };
        let blocks = answer.block_locations.block_location;
        if !blocks.is_empty() && blocks.iter().all(is_here) {
            return Some(Place::Here);
        }
        let elsewhere = blocks.iter().filter(|block| !is_here(block));
        let mut names: Vec<String> = elsewhere.flat_map(|block| block.hosts.iter().cloned()).collect();
        names.sort_unstable();
        names.dedup();
        Some(Place::Elsewhere(names))
    }
}

/// What GETFILEBLOCKLOCATIONS answers.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Answer {
    block_locations: Blocks,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Blocks {
    block_location: Vec<Block>,
}

#[derive(Deserialize)]
struct Block {
    hosts: Vec<String>,
    /// Addresses with ports of HDFS's own protocol.
    names: Vec<String>,
}

#[cfg(test)]
#[path = "datanode_tests.rs"]
mod tests;
