//! `weft node list --from HOST:PORT`: the daemons of a cluster, as some of them know it.

use super::serve;
use crate::render;
use anyhow::{Context, Result, bail};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;
use tokio::task::JoinSet;
use tokio::time::timeout;
use weft_cluster::gossip::{Facts, Heard, Liveness};
use weft_daemon::Key;
use weft_engine::care::LOOK_DEADLINE;
use weft_engine::key_file;

/// One line of the list.
#[derive(Serialize)]
struct Line {
    #[serde(flatten)]
    facts: Facts,
    /// As most of those asked hold it.
    state: Liveness,
    /// How unusual its silence is to those asked, at most.
    phi: f64,
    /// How many of those asked know it.
    known_by: usize,
}

/// Asks each of `from`; one that answers is enough.
pub fn list(from: &[String], cluster_key: Option<&Path>, json: bool) -> Result<()> {
    let parse = |file: &Path| -> Result<Key> {
        key_file::read(file)?.parse().with_context(|| format!("{} does not contain a key", file.display()))
    };
    let key = cluster_key.map(parse).transpose()?;
    let urls = from.iter().map(|text| serve::daemon_url(text)).collect::<Result<Vec<_>>>()?;
    let answers = weft_engine::runtime()?.block_on(async {
        let mut asked = JoinSet::new();
        for url in urls {
            let key = key.clone();
            asked.spawn(async move {
                match timeout(LOOK_DEADLINE, weft_daemon::members(&url, None, key)).await {
                    Ok(heard) => heard.map_err(|error| error.to_string()),
                    Err(_) => Err(format!("{url} did not answer within {} s", LOOK_DEADLINE.as_secs())),
                }
            });
        }
        asked.join_all().await
    });
    let (told, refused): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
    let told: Vec<Vec<Heard>> = told.into_iter().flatten().collect();
    let mut refused: Vec<String> = refused.into_iter().filter_map(Result::err).collect();
    refused.sort();
    if told.is_empty() {
        bail!("no daemon answered: {}", refused.join("; "));
    }
    let lines = merged(told);
    if json {
        println!("{}", serde_json::to_string_pretty(&lines)?);
        return Ok(());
    }
    let header = ["WHERE", "STATE", "FREE", "OF", "LOAD", "DOMAIN", "VERSION", "NODE"].map(str::to_owned).to_vec();
    let row = |line: &Line| {
        let Facts { address, total_bytes, free_bytes, load_bytes, domain, version, node, .. } = &line.facts;
        let or_none = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
        let [free, total, load] = [free_bytes, total_bytes, load_bytes].map(|bytes| render::bytes(*bytes));
        vec![
            address.clone(),
            line.state.to_string(),
            free,
            total,
            load,
            or_none(domain),
            version.clone(),
            or_none(node),
        ]
    };
    let rows: Vec<_> = std::iter::once(header).chain(lines.iter().map(row)).collect();
    print!("{}", render::table(&rows, &[2, 3, 4]));
    for line in refused {
        println!("{line}");
    }
    Ok(())
}

/// What several told, by address: the latest facts, and the state that most hold.
fn merged(told: Vec<Vec<Heard>>) -> Vec<Line> {
    let mut by_address: BTreeMap<String, Vec<Heard>> = BTreeMap::new();
    for heard in told.into_iter().flatten() {
        by_address.entry(heard.facts.address.clone()).or_default().push(heard);
    }
    let line = |mut heard: Vec<Heard>| {
        heard.sort_by_key(|heard| (heard.facts.started_ms, heard.facts.sequence));
        let votes = |liveness| heard.iter().filter(|heard| heard.liveness == liveness).count();
        let state = [Liveness::Dead, Liveness::Suspect, Liveness::Alive].into_iter().max_by_key(|of| votes(*of))?;
        let phi = heard.iter().map(|heard| heard.phi).fold(0.0, f64::max);
        let known_by = heard.len();
        Some(Line { facts: heard.pop()?.facts, state, phi, known_by })
    };
    by_address.into_values().filter_map(line).collect()
}
