//! `weft node list --from HOST:PORT`: the daemons of a cluster, as some of them know it.

use crate::render;
use anyhow::{Result, bail};
use std::path::Path;
use weft_engine::Env;
use weft_engine::cluster::{ClusterMember, Facts, cluster_report};

/// Asks each of `from`; one that answers is enough.
pub fn list(from: &[String], cluster_key: Option<&Path>, json: bool) -> Result<()> {
    let report = weft_engine::runtime()?.block_on(cluster_report(from, cluster_key, &Env::system()))?;
    if report.members.is_empty() {
        bail!("no daemon answered: {}", report.refused.join("; "));
    }
    if json {
        println!("{}", serde_json::to_string_pretty(&report.members)?);
        return Ok(());
    }
    let header = ["WHERE", "STATE", "FREE", "OF", "LOAD", "DOMAIN", "VERSION", "NODE"].map(str::to_owned).to_vec();
    let row = |line: &ClusterMember| {
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
    let rows: Vec<_> = std::iter::once(header).chain(report.members.iter().map(row)).collect();
    print!("{}", render::table(&rows, &[2, 3, 4]));
    for member in &report.members {
        let of_member = &member.facts.address;
        member.links.iter().for_each(|link| println!("{of_member}: {}", super::link_sentence(link)));
    }
    for line in report.refused {
        println!("{line}");
    }
    Ok(())
}
