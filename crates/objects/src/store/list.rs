//! Listing: each member says which names it knows, and the newest version of each counts.

use super::ObjectStore;
use crate::error::ObjectError;
use crate::index::LISTED_MAX;
use crate::question::{Answer, Listed, ListedName, Question};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use std::collections::BTreeMap;
use weft_cluster::gossip::Liveness;
use weft_format::NodeId;

/// Objects by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// In order.
    pub objects: Vec<ListedName>,
    /// Members that did not answer: objects that only they know are not listed.
    pub silent: usize,
}

impl ObjectStore {
    /// The objects whose names begin with `prefix`.
    ///
    /// # Errors
    /// No member answers.
    pub async fn list(&self, prefix: &str) -> Result<Listing, ObjectError> {
        let members = self.members.values().filter(|member| member.liveness != Liveness::Dead);
        let mut nodes: Vec<NodeId> = members.map(|member| member.id).collect();
        let asked = nodes.len();
        let (mut listing, mut after) = (Listing::default(), String::new());
        loop {
            let question =
                &Question::List { prefix: prefix.to_owned(), after: after.clone(), limit: LISTED_MAX as u32 };
            let ask = |node: NodeId| async move { (node, self.ask(node, question).await) };
            let mut answers: FuturesUnordered<_> = nodes.iter().copied().map(ask).collect();
            let (mut pages, mut why) = (BTreeMap::new(), "there is none".to_owned());
            while let Some((node, answer)) = answers.next().await {
                match answer {
                    Ok(Answer::Listed(listed)) => drop(pages.insert(node, listed)),
                    Ok(_) => why = "its answer is to another question".to_owned(),
                    Err(error) => why = error.to_string(),
                }
            }
            if pages.is_empty() {
                return Err(ObjectError::Silent { why });
            }
            nodes = pages.keys().copied().collect();
            listing.silent = asked - nodes.len();
            let (objects, next) = merged(pages.into_values(), prefix, &after);
            listing.objects.extend(objects.into_iter().filter(|object| object.bytes.is_some()));
            match next {
                Some(next) => after = next,
                None => return Ok(listing),
            }
        }
    }
}

/// The newest version of each name that all pages reach, and after which name to go on; names that were not asked for are left out.
fn merged(pages: impl Iterator<Item = Listed>, prefix: &str, after: &str) -> (Vec<ListedName>, Option<String>) {
    let mut newest: BTreeMap<String, ListedName> = BTreeMap::new();
    let mut reach: Option<String> = None;
    for page in pages {
        let is_asked =
            |name: &ListedName| name.name.starts_with(prefix) && (name.name.as_str() > after || after.is_empty());
        let names: Vec<ListedName> = page.names.into_iter().filter(is_asked).collect();
        if let Some(last) = names.last().filter(|_| page.more) {
            reach = Some(reach.map_or_else(|| last.name.clone(), |reach| reach.min(last.name.clone())));
        }
        for name in names {
            let known = newest.entry(name.name.clone()).or_insert_with(|| name.clone());
            if known.stamp < name.stamp {
                *known = name;
            }
        }
    }
    let is_reached = |name: &String| reach.as_ref().is_none_or(|reach| name <= reach);
    (newest.into_values().filter(|name| is_reached(&name.name)).collect(), reach)
}

#[cfg(test)]
#[path = "list_tests.rs"]
mod tests;
