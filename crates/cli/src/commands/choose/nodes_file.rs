//! The JSON file of nodes, and what is assumed where neither it nor a volume knows.

use crate::amount::{parse_rate, parse_size};
use anyhow::{Context, Result, anyhow, bail};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use weft_engine::NodeFigures;
use weft_lab::models::choice::{ANNUAL_FAILURE_RATE, Node};

/// What reads assume of a node that has not answered yet.
const SPEED: f64 = 10e6;
const LATENCY_MS: f64 = 10.0;
/// A gigabit.
const CLIENT_SPEED: f64 = 125e6;
/// Beside users, the background takes a fifth of a node's time.
const REPAIR_SHARE: f64 = 0.2;

/// The file as a whole.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodesFile {
    #[serde(default)]
    nodes: Vec<NodeLines>,
    client_speed: Option<String>,
    repair_share: Option<f64>,
}

/// One node of it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NodeLines {
    name: String,
    speed: Option<String>,
    latency_ms: Option<f64>,
    room: Option<String>,
    domain: Option<String>,
    price_per_gib_month: Option<f64>,
    price_per_gib_read: Option<f64>,
    annual_failure_rate: Option<f64>,
    computes: Option<bool>,
}

/// Which values of nodes nobody has said or measured.
#[derive(Debug, Default)]
pub struct Assumed {
    values: BTreeSet<(&'static str, String)>,
}

impl Assumed {
    fn value(&mut self, given: Option<f64>, assumed: f64, sentence: &'static str, node: &str) -> f64 {
        given.unwrap_or_else(|| {
            self.values.insert((sentence, node.to_owned()));
            assumed
        })
    }

    /// A sentence for each kind of value, with the nodes it is about.
    pub fn notes(&self) -> Vec<String> {
        let kinds: BTreeSet<&str> = self.values.iter().map(|(kind, _)| *kind).collect();
        let nodes = |kind: &str| {
            let of_kind = self.values.iter().filter(|(of, _)| *of == kind);
            of_kind.map(|(_, node)| node.as_str()).collect::<Vec<_>>().join(", ")
        };
        kinds.into_iter().map(|kind| format!("assumed {kind}: {}", nodes(kind))).collect()
    }
}

impl NodesFile {
    /// Reads a file.
    ///
    /// # Errors
    /// A sentence with the file's name.
    pub fn read(path: &Path) -> Result<NodesFile> {
        let text = fs::read_to_string(path).with_context(|| format!("{} cannot be read", path.display()))?;
        let file: NodesFile = serde_json::from_str(&text)
            .map_err(|error| anyhow!("{} is not a file of nodes ({error}): see weft choose --help", path.display()))?;
        let mut names = BTreeSet::new();
        if let Some(twice) = file.nodes.iter().find(|node| !names.insert(&node.name)) {
            bail!("{} has two nodes {}: give each a name of its own", path.display(), twice.name);
        }
        file.nodes.iter().try_for_each(NodeLines::check)?;
        Ok(file)
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.nodes.iter().map(|node| node.name.as_str())
    }

    /// The nodes that it has, where there is no volume.
    ///
    /// # Errors
    /// A node without room.
    pub fn to_nodes(&self, assumed: &mut Assumed) -> Result<Vec<Node>> {
        if let Some(node) = self.nodes.iter().find(|node| node.room.is_none()) {
            bail!("node {} has no room: give it one, as in \"room\": \"4T\"", node.name);
        }
        let known = |node: &NodeLines| NodeFigures {
            name: node.name.clone(),
            domain: node.name.clone(),
            ..NodeFigures::default()
        };
        Ok(self.nodes.iter().map(|node| self.completed(known(node), assumed)).collect())
    }

    /// A node with what the file says of it, which counts more than what is `known`.
    pub fn completed(&self, known: NodeFigures, assumed: &mut Assumed) -> Node {
        let lines = self.nodes.iter().find(|node| node.name == known.name);
        let said = |value: fn(&NodeLines) -> Option<f64>| lines.and_then(value);
        let name = &known.name;
        let speed = said(NodeLines::bytes_per_second).or(known.bytes_per_second);
        let latency = said(|node| node.latency_ms).or(known.latency_ms);
        Node {
            bytes_per_second: assumed.value(speed, SPEED, "a speed of 10 MB/s", name),
            latency_ms: assumed.value(latency, LATENCY_MS, "a latency of 10 ms", name),
            price_per_gib_month: said(|node| node.price_per_gib_month).unwrap_or(0.0),
            price_per_gib_read: said(|node| node.price_per_gib_read).unwrap_or(0.0),
            annual_failure_rate: assumed.value(
                said(|node| node.annual_failure_rate),
                ANNUAL_FAILURE_RATE,
                "that 2 % of such nodes fail in a year",
                name,
            ),
            domain: lines.and_then(|node| node.domain.clone()).unwrap_or(known.domain),
            room_bytes: said(NodeLines::room_bytes).unwrap_or(known.room_bytes),
            computes: lines.and_then(|node| node.computes).unwrap_or(known.computes),
            name: known.name,
        }
    }

    /// # Errors
    /// It is no rate.
    pub fn client_bytes_per_second(&self) -> Result<f64> {
        let Some(text) = &self.client_speed else { return Ok(CLIENT_SPEED) };
        Ok(parse_rate(text).map_err(|error| anyhow!("client_speed: {error}"))?.get() as f64)
    }

    pub fn repair_share(&self) -> f64 {
        self.repair_share.unwrap_or(REPAIR_SHARE)
    }
}

impl NodeLines {
    fn check(&self) -> Result<()> {
        let of = |what: &str, error: String| anyhow!("{what} of node {}: {error}", self.name);
        self.speed.as_deref().map(parse_rate).transpose().map_err(|error| of("speed", error))?;
        self.room.as_deref().map(parse_size).transpose().map_err(|error| of("room", error))?;
        Ok(())
    }

    fn bytes_per_second(&self) -> Option<f64> {
        Some(parse_rate(self.speed.as_deref()?).ok()?.get() as f64)
    }

    fn room_bytes(&self) -> Option<f64> {
        Some(parse_size(self.room.as_deref()?).ok()?.get() as f64)
    }
}
