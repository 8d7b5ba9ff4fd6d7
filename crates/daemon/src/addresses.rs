//! Where a volume's daemons said they are, and how their links were: the file of an address book. Pure.

use super::address::DaemonUrl;
use super::links::LINKS_MAX;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use weft_cluster::gossip::{Heard, Liveness};
use weft_nodes::node::{LinkReport, LinkState};

/// Where daemons said they are, the latest of each, by node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Addresses(pub(super) BTreeMap<String, Address>);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Address {
    pub(super) authority: String,
    /// The latest start that it was told of, there or where it was before.
    pub(super) started_ms: u64,
    /// Its links, the first one included, if there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    links: Vec<Kept>,
}

/// A link as a process saw it last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Kept {
    authority: String,
    /// Did it carry requests, and since when?
    is_up: bool,
    since_ms: u64,
    /// 0: not measured.
    #[serde(default)]
    bytes_per_second: u64,
    #[serde(default)]
    latency_us: u64,
}

impl Addresses {
    /// From the file's text; `None`: it is none. What names no daemon is left out.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut addresses: Self = serde_json::from_slice(bytes).ok()?;
        let is_one = |authority: &str| DaemonUrl::parse("weft", authority).is_ok_and(|url| url.authority == authority);
        addresses.0.retain(|_, address| is_one(&address.authority));
        for address in addresses.0.values_mut() {
            address.links.retain(|link| is_one(&link.authority));
            address.links.truncate(LINKS_MAX);
        }
        Some(addresses)
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        serde_json::to_vec_pretty(self).unwrap_or_default()
    }

    /// Takes in what members told of `wanted` nodes; is anything new? Of others nothing is kept: a member may tell of any number. Where a node was
    /// started last it is, unless it is dead there and alive elsewhere: its clock may have been behind when it was started again.
    pub(super) fn merge(&mut self, volume: &str, wanted: &BTreeSet<String>, told: Vec<Heard>) -> bool {
        let mut is_new = false;
        let is_wanted = |heard: &Heard| heard.facts.volume == volume && wanted.contains(&heard.facts.node);
        let place = |heard: Heard| {
            let DaemonUrl { authority, .. } = heard.facts.address.parse().ok()?;
            Some((authority, heard))
        };
        let mut told: Vec<(String, Heard)> = told.into_iter().filter(is_wanted).filter_map(place).collect();
        // Who is alive has the last word, the latest of them the first.
        told.sort_by_key(|(_, heard)| (heard.liveness == Liveness::Alive, Reverse(heard.facts.started_ms)));
        let of = |authority: &str, node: &str| (authority.to_owned(), node.to_owned());
        let there = told.iter().filter(|(_, heard)| heard.liveness != Liveness::Dead);
        let there: BTreeSet<_> = there.map(|(authority, heard)| of(authority, &heard.facts.node)).collect();
        for (authority, Heard { facts, liveness, .. }) in told {
            let known = self.0.get(&facts.node);
            let is_later = known.is_none_or(|known| known.started_ms < facts.started_ms);
            // Those that are dead for a day are not told of any more.
            let has_moved = known.is_some_and(|known| {
                liveness == Liveness::Alive
                    && known.authority != authority
                    && !there.contains(&of(&known.authority, &facts.node))
            });
            if !is_later && !has_moved {
                continue;
            }
            let started_ms = known.map_or(0, |known| known.started_ms).max(facts.started_ms);
            let further = facts.further.iter().filter_map(|text| Some(DaemonUrl::parse("weft", text).ok()?.authority));
            let link = |authority: String| {
                let known = known.into_iter().flat_map(|known| &known.links).find(|link| link.authority == authority);
                known.cloned().unwrap_or(Kept {
                    authority,
                    is_up: true,
                    since_ms: facts.started_ms,
                    bytes_per_second: 0,
                    latency_us: 0,
                })
            };
            let links: Vec<Kept> = further.take(LINKS_MAX - 1).map(link).collect();
            self.0.insert(facts.node.clone(), Address { authority, started_ms, links });
            is_new = true;
        }
        is_new
    }

    /// Keeps how the links of a node are, which was reached at `authority`. Is one new, or up or down otherwise than before?
    pub(super) fn keep(&mut self, node: &str, authority: &str, links: &[LinkReport]) -> bool {
        let kept = |link: &LinkReport| Kept {
            authority: link.address.clone(),
            is_up: link.state != LinkState::Down,
            since_ms: link.since_ms,
            bytes_per_second: link.bytes_per_second.unwrap_or_default(),
            latency_us: link.latency_us.unwrap_or_default(),
        };
        let links: Vec<Kept> = links.iter().take(LINKS_MAX).map(kept).collect();
        let new = || Address { authority: authority.to_owned(), started_ms: 0, links: Vec::new() };
        let known = self.0.entry(node.to_owned()).or_insert_with(new);
        let states = |links: &[Kept]| links.iter().map(|link| (link.authority.clone(), link.is_up)).collect::<Vec<_>>();
        let is_new = states(&known.links) != states(&links);
        known.links = links;
        is_new
    }

    /// How the links of a node were.
    pub(super) fn links(&self, node: &str) -> Vec<LinkReport> {
        let report = |link: &Kept| LinkReport {
            address: link.authority.clone(),
            state: if link.is_up { LinkState::Up } else { LinkState::Down },
            since_ms: link.since_ms,
            bytes_per_second: Some(link.bytes_per_second).filter(|speed| *speed > 0),
            latency_us: Some(link.latency_us).filter(|latency| *latency > 0),
            why: None,
        };
        self.0.get(node).into_iter().flat_map(|address| &address.links).map(report).collect()
    }
}

#[cfg(test)]
#[path = "addresses_tests.rs"]
mod tests;
