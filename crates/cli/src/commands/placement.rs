//! `weft placement META`: what a volume wants of the places of its shards, and what that means for the chance of losing data.

mod year;

use crate::care::count;
use crate::compose;
use anyhow::{Result, bail};
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use weft_cluster::{loss_risk, set_count};
use weft_codes::analysis::{self, EFFORT, Survival};
use weft_codes::{Code, Erasures};
use weft_format::records::{NodeState, PlacementRule};
use weft_meta::Store;
use year::Pace;

pub use year::{AnnualLoss, of_stored};

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
    /// Share of the nodes that fail within a year, for the chance of a loss
    #[arg(long, value_name = "SHARE", default_value_t = 0.02, value_parser = year::parse_failures)]
    failures: f64,
    /// Time until a lost node is rebuilt, for the chance of a loss
    #[arg(long, value_name = "TIME", default_value = "1d", value_parser = year::parse_repair)]
    repair: u64,
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
    annual_losses: Vec<AnnualLoss>,
}

/// Samples are drawn with this, so that the same question has the same answer.
const SEED: u64 = 1;

/// Numbers of failed units looked at beyond what the code always survives.
const SIZES_MAX: usize = 4;

/// If more failure units than the code always survives are gone at once, for good.
#[derive(Serialize)]
struct Risk {
    policy: String,
    failed: u64,
    /// Of the ways in which a segment can lose so many shards, the share that loses data.
    fatal_share: f64,
    /// How far the true share may lie from that, 19 times of 20; 0: all ways were tried.
    fatal_share_error: f64,
    /// How likely it is that anything is lost.
    any_loss: f64,
    /// The share of all segments that is then lost, in the mean.
    lost_share: f64,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let store = weft_engine::open_store(&arguments.meta)?;
    let before = store.placement_rule()?;
    let rule = arguments.applied_to(before)?;
    let answer = Answer::of(&store, rule, segment_count(&store)?)?;
    let active_count = compose::active_nodes(&store.nodes()?);
    let (possible, short): (Vec<_>, Vec<_>) =
        codes(&store)?.into_iter().partition(|(_, code)| code.shape().n <= answer.unit_count);
    // Too few nodes are a fact; too few units of enough nodes are a mistake in what is asked for.
    if rule != before
        && let Some((policy, code)) = short.first().filter(|_| answer.unit_count < active_count)
    {
        let (levels, units) = (rule.unit_depth, answer.unit_count);
        bail!("{policy} needs {} failure units, and with {levels} levels there are {units}", code.shape().n);
    }
    let (mut risks, mut annual_losses) = (Vec::new(), Vec::new());
    let pace = Pace { failures_per_year: arguments.failures, repair_ms: arguments.repair };
    for (policy, code) in possible {
        let of_policy = risks_of(&policy, &*code, &answer, EFFORT)?;
        let annual_loss = year::annual_loss(code.shape(), &of_policy, &answer, pace);
        annual_losses.push(AnnualLoss { policy, annual_loss, pace });
        risks.extend(of_policy);
    }
    let answer = Answer { risks, annual_losses, ..answer };
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

impl Answer {
    /// Of the nodes of a volume that take shards, without risks.
    fn of(store: &Store, rule: PlacementRule, segment_count: u64) -> Result<Answer> {
        let nodes = store.nodes()?;
        let active = nodes.iter().filter(|(_, node)| node.state == NodeState::Active);
        let domains: Vec<&str> = active.map(|(_, node)| &*node.domain).collect();
        let distinct =
            |part: &dyn Fn(&str) -> &str| domains.iter().map(|domain| part(domain)).collect::<BTreeSet<_>>().len();
        Ok(Answer {
            unit_depth: rule.unit_depth,
            locality_depth: rule.locality_depth,
            set_count: rule.set_count,
            unit_count: distinct(&|domain| rule.unit(domain)),
            locality_count: if rule.locality_depth > 0 { distinct(&|domain| rule.locality(domain)) } else { 0 },
            segment_count,
            risks: Vec::new(),
            annual_losses: Vec::new(),
        })
    }
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
fn codes(store: &Store) -> Result<Vec<(String, Arc<dyn Code>)>> {
    let specs: BTreeSet<String> = store.policies()?.into_iter().map(|(_, policy)| policy.code).collect();
    specs.into_iter().map(|spec| Ok((spec.clone(), compose::code(&spec)?))).collect()
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

/// From the first number of failed units that can lose data on, until every way to lose so many shards does.
fn risks_of(policy: &str, code: &dyn Code, answer: &Answer, effort: u64) -> Result<Vec<Risk>> {
    let shape = code.shape();
    // A code of which less is left than was stored with one loss more than it promises needs no matrix: those of wide Clay
    // codes take gigabytes.
    let erasures = (shape.tolerance < analysis::most_lost(shape)).then(|| Erasures::new(code)).transpose()?;
    let (units, n) = (answer.unit_count as u64, shape.n as u64);
    let sets = set_count(units, n, answer.segment_count, answer.set_count);
    let (mut fatal, mut risks) = (vec![0.0; shape.tolerance + 1], Vec::new());
    for failed in (shape.tolerance + 1..=shape.n).take(SIZES_MAX) {
        let survival = match &erasures {
            Some(erasures) => analysis::survival(erasures, failed, effort, SEED),
            None => analysis::none_survive(shape.n, failed),
        };
        let fatal_share = 1.0 - survival.share();
        fatal.push(fatal_share);
        let risk = loss_risk(units, failed as u64, n, &fatal, sets);
        risks.push(Risk {
            policy: policy.to_owned(),
            failed: failed as u64,
            fatal_share,
            fatal_share_error: share_error(&survival),
            any_loss: risk.any_loss,
            lost_share: risk.lost_share,
        });
        if survival.decodable == 0 {
            break;
        }
    }
    Ok(risks)
}

/// How far the true share may lie from a sampled one, 19 times of 20.
fn share_error(survival: &Survival) -> f64 {
    if survival.is_exact() || survival.tried == 0 {
        return 0.0;
    }
    let (share, tried) = (survival.share(), survival.tried as f64);
    // What no sample met may still be three in as many (the rule of three).
    (1.96 * (share * (1.0 - share) / tried).sqrt()).max(3.0 / tried)
}

/// A share as people read it: two digits, and never rounded to nothing or to all.
fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent <= 0.0 {
        return "0 %".into();
    }
    if percent < 1e-6 {
        return "less than 0.000001 %".into();
    }
    // Rounding of sums of many shares makes no other than 100 %.
    if percent > 100.0 - 1e-9 {
        return "100 %".into();
    }
    let decimals = (1.0 - percent.log10().floor()).clamp(0.0, 7.0) as usize;
    match format!("{percent:.decimals$}") {
        whole if whole.starts_with("100") => "more than 99 %".into(),
        rounded => format!("{rounded} %"),
    }
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
    if answer.segment_count == 0 && !answer.risks.is_empty() {
        lines.push("nothing is stored yet that could be lost; of what will be:".into());
    }
    lines.extend(answer.risks.iter().map(|risk| risk_line(risk, answer.segment_count)));
    lines.extend(answer.annual_losses.iter().map(|loss| loss.line()));
    lines
}

/// `rs:4+2: if 3 units are gone at once, something is lost with a probability of 5 %, in the mean 5 % of 12 segments`
fn risk_line(risk: &Risk, segment_count: u64) -> String {
    let Risk { policy, failed, fatal_share, fatal_share_error, any_loss, lost_share } = risk;
    let mut line = format!("{policy}: if {failed} units are gone at once, ");
    if segment_count > 0 {
        line += &format!("something is lost with a probability of {}, ", percent(*any_loss));
    }
    line += &format!("in the mean {} of ", percent(*lost_share));
    line += &if segment_count > 0 { count(segment_count, "segment") } else { "the segments".into() };
    if *fatal_share < 1.0 {
        line += &format!("; of the ways to lose {failed} shards of a segment {} lose data", percent(*fatal_share));
    }
    if *fatal_share_error > 0.0 {
        line += &format!(", give or take {} (sampled)", percent(*fatal_share_error));
    }
    line
}

#[cfg(test)]
#[path = "placement_tests.rs"]
mod tests;
