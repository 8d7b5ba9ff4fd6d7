//! The nodes of a volume, with their room.

use crate::error::EngineError;
use crate::nodes::{state_name, with_names};
use crate::runtime::runtime;
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use weft_care::roster::LOOK_DEADLINE;
use weft_env::Clock;
use weft_format::NodeId;
use weft_format::records::{NodeRecord, NodeState};
use weft_meta::Store;
use weft_nodes::node::{LinkReport, LinkState};
use weft_nodes::{NodeError, NodeErrorKind, Space};
use weft_vfs::open::Members;

/// A node as metadata has it, and its room.
#[derive(Clone, Debug, Serialize)]
pub struct NodeLine {
    /// Unique in the volume.
    pub name: String,
    /// For ever the same.
    pub id: String,
    /// Its place.
    pub url: String,
    /// `active`, `read-only`, `draining` or `lost`.
    pub state: &'static str,
    /// Its failure domain.
    pub domain: String,
    /// The failure unit that it is in: the part of its domain that fails as one.
    pub unit: String,
    /// Share of the data that it takes beside others.
    pub weight: u64,
    /// Missing where the node does not answer.
    pub total_bytes: Option<u64>,
    /// Likewise.
    pub free_bytes: Option<u64>,
    /// 0: no limit.
    pub bytes_per_second_max: u64,
    /// 0: no limit.
    pub requests_max: u32,
    /// It is there, and does not let this user in.
    pub refuses: bool,
    /// Why the node does not answer.
    pub error: Option<String>,
    /// Its links, if it has several: the addresses under which its daemon is reached.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<LinkLine>,
}

/// A link of a node.
#[derive(Clone, Debug, Serialize)]
pub struct LinkLine {
    /// Host and port.
    pub address: String,
    /// `up`, `slow` (it answers, and carries less than a quarter of what the best link does) or `down`.
    pub state: &'static str,
    /// Since when it carries requests, or does not; milliseconds since the Unix epoch.
    pub since_ms: u64,
    /// What it carried, as the process measured that used it last; missing if none has.
    pub bytes_per_second: Option<u64>,
    /// How long a short request takes, in microseconds.
    pub latency_us: Option<u64>,
    /// Why it is down.
    pub error: Option<String>,
}

impl LinkLine {
    pub(crate) fn of(link: LinkReport) -> Self {
        Self {
            address: link.address,
            state: match link.state {
                LinkState::Up => "up",
                LinkState::Slow => "slow",
                LinkState::Down => "down",
            },
            since_ms: link.since_ms,
            bytes_per_second: link.bytes_per_second,
            latency_us: link.latency_us,
            error: link.why,
        }
    }
}

/// All nodes by name, after they were asked for their room.
///
/// # Errors
/// Metadata cannot be read, or a node of it cannot be opened by this program.
pub fn node_lines(store: &Store) -> Result<Vec<NodeLine>, EngineError> {
    let (nodes, rule) = (store.nodes()?, store.placement_rule()?);
    let members = crate::opener(store).members(store)?;
    let spaces = runtime()?.block_on(spaces_of(members, LOOK_DEADLINE, &store.env().clock));
    let line = |Asked { id, record, space, links }: Asked| NodeLine {
        links: links.into_iter().map(LinkLine::of).collect(),
        name: record.name,
        id: id.to_string(),
        url: record.url,
        state: state_name(record.state),
        unit: rule.unit(&record.domain).to_owned(),
        domain: record.domain,
        weight: record.weight,
        total_bytes: space.as_ref().ok().map(|space| space.total_bytes),
        free_bytes: space.as_ref().ok().map(|space| space.free_bytes),
        bytes_per_second_max: record.limits.bytes_per_second,
        requests_max: record.limits.requests,
        refuses: space.as_ref().is_err_and(|error| error.kind == NodeErrorKind::Denied),
        // A node that was given up is not expected to answer.
        error: space.err().filter(|_| record.state != NodeState::Lost).map(|error| with_names(&nodes, error.detail)),
    };
    let mut lines: Vec<NodeLine> = spaces.into_iter().map(line).collect();
    lines.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(lines)
}

/// What a node said.
struct Asked {
    id: NodeId,
    record: NodeRecord,
    space: Result<Space, NodeError>,
    links: Vec<LinkReport>,
}

/// How much room each of the members has, or why that is not known: all are asked at once, and `deadline` is for all together. Then how
/// their links are, which takes a second more at most.
async fn spaces_of(members: Members, deadline: Duration, clock: &Arc<dyn Clock>) -> Vec<Asked> {
    let mut asked = JoinSet::new();
    for (id, record, node) in members {
        let clock = clock.clone();
        asked.spawn(async move {
            let space = match clock.timeout(deadline, node.space()).await {
                Ok(space) => space,
                Err(_) => {
                    let why = format!("no answer within {} s: its state is not known yet", deadline.as_secs());
                    Err(NodeError::new(NodeErrorKind::TimedOut, &record.name, why))
                }
            };
            let links = node.links().await;
            Asked { id, record, space, links }
        });
    }
    asked.join_all().await
}

#[cfg(test)]
#[path = "nodes_tests.rs"]
mod tests;
