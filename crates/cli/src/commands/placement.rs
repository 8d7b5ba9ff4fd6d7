//! `weft placement META`: what a volume wants of the places of its shards, and what that means for the chance of losing data.

use crate::care::count;
use crate::compose;
use anyhow::{Result, bail};
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::PathBuf;
use weft_cluster::{loss_risk, set_count};
use weft_format::records::NodeState;

/// Segments counted together.
const PAGE: usize = 4096;

/// Say or choose where shards may lie
///
/// Domains are paths, outermost level first, in words of your own: `site1/rack3/host7`. What lies otherwise when this is changed is
/// brought elsewhere by the mount, by `weft care`, or by `weft repair`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Metadata file of the volume
    meta: PathBuf,
    /// How many levels of a domain fail as one: no file has two shards in what shares them; 0: all levels
    #[arg(long, value_name = "LEVELS")]
    unit: Option<u32>,
    /// How many levels make a locality, in which each local group of a code such as lrc:12+2+2 is to lie; 0: groups lie anywhere
    #[arg(long, value_name = "LEVELS")]
    locality: Option<u32>,
    /// On how many sets of nodes files may lie; fewer make a loss less likely and larger; 0: each segment chooses its own
    #[arg(long, value_name = "COUNT")]
    sets: Option<u64>,
    /// For programs
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Answer {
    unit_depth: u32,
    locality_depth: u32,
    set_count: u64,
    /// What fails as one, and what is a locality, of the nodes there are.
    unit_count: usize,
    locality_count: usize,
    segment_count: u64,
    /// By policy.
    risks: Vec<Risk>,
}

/// If one failure unit more than the code survives is gone at once, for good.
#[derive(Serialize)]
struct Risk {
    policy: String,
    failed: u64,
    /// How likely it is that anything is lost.
    any_loss: f64,
    /// The share of all segments that is then lost, in the mean.
    lost_share: f64,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let store = compose::open_shared(&arguments.meta)?;
    let mut rule = store.placement_rule()?;
    let before = rule;
    rule.unit_depth = arguments.unit.unwrap_or(rule.unit_depth);
    rule.locality_depth = arguments.locality.unwrap_or(rule.locality_depth);
    rule.set_count = arguments.sets.unwrap_or(rule.set_count);
    if rule.locality_depth > 0 && rule.unit_depth > 0 && rule.locality_depth >= rule.unit_depth {
        bail!(
            "a locality of {} levels cannot hold several failure units of {}: choose --locality below --unit",
            rule.locality_depth,
            rule.unit_depth
        );
    }
    let nodes = store.nodes()?;
    let domains = || nodes.iter().filter(|(_, node)| node.state == NodeState::Active).map(|(_, node)| &node.domain);
    let units: BTreeSet<&str> = domains().map(|domain| rule.unit(domain)).collect();
    let localities: BTreeSet<&str> = domains().map(|domain| rule.locality(domain)).collect();
    let mut segment_count = 0;
    let mut after = None;
    loop {
        let page = store.segments(after, PAGE)?;
        segment_count += page.len() as u64;
        after = page.last().map(|(segment, _)| *segment);
        if page.len() < PAGE {
            break;
        }
    }
    let mut risks = Vec::new();
    for (_, policy) in store.policies()? {
        let code = compose::code(&policy.code)?;
        let (n, tolerance) = (code.shape().n, code.shape().tolerance);
        if rule != before && units.len() < n && units.len() < domains().count() {
            bail!(
                "{} needs {n} failure units, and with {} levels there are {}",
                policy.code,
                rule.unit_depth,
                units.len()
            );
        }
        if units.len() >= n {
            let (units, n, tolerance) = (units.len() as u64, n as u64, tolerance as u64);
            let sets = set_count(units, n, segment_count, rule.set_count);
            let risk = loss_risk(units, tolerance + 1, n, tolerance, sets);
            risks.push(Risk {
                policy: policy.code,
                failed: tolerance + 1,
                any_loss: risk.any_loss,
                lost_share: risk.lost_share,
            });
        }
    }
    if rule != before {
        store.set_placement_rule(rule)?;
        store.flush()?;
    }
    let answer = Answer {
        unit_depth: rule.unit_depth,
        locality_depth: rule.locality_depth,
        set_count: rule.set_count,
        unit_count: units.len(),
        locality_count: if rule.locality_depth > 0 { localities.len() } else { 0 },
        segment_count,
        risks,
    };
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&answer)?);
    } else {
        lines(&answer).iter().for_each(|line| println!("{line}"));
    }
    Ok(())
}

fn lines(answer: &Answer) -> Vec<String> {
    let levels = |depth: u32| match depth {
        0 => "their whole domain".to_owned(),
        depth => format!("the first {} of their domain", count(depth.into(), "level")),
    };
    let units = count(answer.unit_count as u64, "such unit");
    let mut lines =
        vec![format!("no two shards of a file on nodes that share {}; there are {units}", levels(answer.unit_depth))];
    if answer.locality_depth > 0 {
        let localities = count(answer.locality_count as u64, "locality").replace("localitys", "localities");
        lines.push(format!(
            "each local group of a code on nodes that share {}; there are {localities}, and one that is lost takes its groups with it",
            levels(answer.locality_depth)
        ));
    }
    lines.push(match answer.set_count {
        0 => "each segment chooses its own set of nodes".into(),
        sets => {
            format!("segments lie on at most {}", count(sets, "set of nodes").replace("set of nodess", "sets of nodes"))
        }
    });
    for Risk { policy, failed, any_loss, lost_share } in &answer.risks {
        lines.push(format!(
            "{policy}: if {failed} units are gone at once, something is lost with a probability of {:.3} %, in the mean {:.2e} of \
             {}",
            any_loss * 100.0,
            lost_share,
            count(answer.segment_count, "segment"),
        ));
    }
    lines
}
