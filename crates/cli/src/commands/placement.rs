//! `weft placement META`: what a volume wants of the places of its shards, and what that means for the chance of losing data.

use crate::care::count;
use crate::compose;
use anyhow::{Result, bail};
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::PathBuf;
use weft_cluster::{loss_risk, set_count};
use weft_codes::Shape;
use weft_format::records::{NodeState, PlacementRule};
use weft_meta::Store;

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
    let before = store.placement_rule()?;
    let rule = arguments.applied_to(before)?;
    let nodes = store.nodes()?;
    let domains: Vec<&str> =
        nodes.iter().filter(|(_, node)| node.state == NodeState::Active).map(|(_, node)| &*node.domain).collect();
    let distinct =
        |part: &dyn Fn(&str) -> &str| domains.iter().map(|domain| part(domain)).collect::<BTreeSet<_>>().len();
    let answer = Answer {
        unit_depth: rule.unit_depth,
        locality_depth: rule.locality_depth,
        set_count: rule.set_count,
        unit_count: distinct(&|domain| rule.unit(domain)),
        locality_count: if rule.locality_depth > 0 { distinct(&|domain| rule.locality(domain)) } else { 0 },
        segment_count: segment_count(&store)?,
        risks: Vec::new(),
    };
    let (possible, short): (Vec<_>, Vec<_>) =
        codes(&store)?.into_iter().partition(|(_, shape)| shape.n <= answer.unit_count);
    // Too few nodes are a fact; too few units of enough nodes are a mistake in what is asked for.
    if rule != before
        && let Some((policy, shape)) = short.first().filter(|_| answer.unit_count < domains.len())
    {
        let (levels, units) = (rule.unit_depth, answer.unit_count);
        bail!("{policy} needs {} failure units, and with {levels} levels there are {units}", shape.n);
    }
    let risks = possible.into_iter().map(|(policy, shape)| risk(policy, &shape, &answer)).collect();
    let answer = Answer { risks, ..answer };
    if rule != before {
        store.set_placement_rule(rule)?;
        store.flush()?;
    }
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&answer)?);
    } else {
        lines(&answer).iter().for_each(|line| println!("{line}"));
    }
    Ok(())
}

impl Arguments {
    /// The rule that is asked for where `rule` holds now.
    fn applied_to(&self, rule: PlacementRule) -> Result<PlacementRule> {
        let (unit_depth, locality_depth) =
            (self.unit.unwrap_or(rule.unit_depth), self.locality.unwrap_or(rule.locality_depth));
        if locality_depth > 0 && unit_depth > 0 && locality_depth >= unit_depth {
            bail!(
                "a locality of {locality_depth} levels cannot hold several failure units of {unit_depth}: choose --locality \
                 below --unit"
            );
        }
        Ok(PlacementRule { unit_depth, locality_depth, set_count: self.sets.unwrap_or(rule.set_count) })
    }
}

/// The codes of the volume's policies.
fn codes(store: &Store) -> Result<Vec<(String, Shape)>> {
    let shape = |code: String| Ok((code.clone(), compose::code(&code)?.shape().clone()));
    store.policies()?.into_iter().map(|(_, policy)| shape(policy.code)).collect()
}

fn segment_count(store: &Store) -> Result<u64> {
    let (mut count, mut after) = (0, None);
    loop {
        let page = store.segments(after, PAGE)?;
        count += page.len() as u64;
        after = page.last().map(|(segment, _)| *segment);
        if page.len() < PAGE {
            return Ok(count);
        }
    }
}

fn risk(policy: String, shape: &Shape, answer: &Answer) -> Risk {
    let (units, n, tolerance) = (answer.unit_count as u64, shape.n as u64, shape.tolerance as u64);
    let sets = set_count(units, n, answer.segment_count, answer.set_count);
    let risk = loss_risk(units, tolerance + 1, n, tolerance, sets);
    Risk { policy, failed: tolerance + 1, any_loss: risk.any_loss, lost_share: risk.lost_share }
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
        let localities = match answer.locality_count {
            1 => "1 locality".into(),
            localities => format!("{localities} localities"),
        };
        lines.push(format!(
            "each local group of a code on nodes that share {}; there are {localities}, and one that is lost takes its groups with it",
            levels(answer.locality_depth)
        ));
    }
    lines.push(match answer.set_count {
        0 => "each segment chooses its own set of nodes".into(),
        1 => "segments lie on one set of nodes".into(),
        sets => format!("segments lie on at most {sets} sets of nodes"),
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
