//! The rule for the placement of a volume's shards, and its effect on the chance of losing data.

mod plan;

pub use plan::{DescribedNode, Layout, Plan, PlannedCode, Wish};

use crate::error::EngineError;
use crate::nodes::{active_count, places};
use crate::open_store;
use serde::Serialize;
use std::collections::BTreeSet;
use weft_cluster::{loss_risk, set_count};
use weft_codes::analysis::{self, EFFORT, Survival};
use weft_codes::{Code, Erasures};
use weft_env::Env;
use weft_format::records::{NodeState, PlacementRule};
use weft_meta::{MetaUrl, Store};

/// Segments counted together.
const PAGE: usize = 4096;

/// Samples are drawn with this, so that the same question has the same answer.
const SEED: u64 = 1;

/// Numbers of failed units looked at beyond what the code always survives.
const SIZES_MAX: usize = 4;

/// The placement rule of a volume.
pub struct Placement {
    store: Store,
}

/// A rule, and its effect with the current nodes.
#[derive(Clone, Debug, Serialize)]
pub struct PlacementReport {
    /// Leading levels of a domain that fail as one; 0: all.
    pub unit_depth: u32,
    /// Shards of a segment in one such unit at most; a code never has more there than it can lose.
    pub unit_shards: u32,
    /// Leading levels of a domain that form a locality; 0: none do.
    pub locality_depth: u32,
    /// Sets of nodes that segments use at most; 0: any number.
    pub set_count: u64,
    /// Failure units of the nodes that take shards.
    pub unit_count: usize,
    /// Localities of these nodes.
    pub locality_count: usize,
    /// Segments stored.
    pub segment_count: u64,
    /// The effect of losses beyond the code's tolerance, by policy.
    pub risks: Vec<Risk>,
}

/// The effect of losing more failure units than the code always survives, at once and for good.
#[derive(Clone, Debug, Serialize)]
pub struct Risk {
    /// The policy's code.
    pub policy: String,
    /// Units gone.
    pub failed: u64,
    /// Share of the ways to lose so many shards of a segment that lose data.
    pub fatal_share: f64,
    /// The true share is within this of `fatal_share`, 19 times of 20; 0: all ways were tried.
    pub fatal_share_error: f64,
    /// Probability that anything is lost.
    pub any_loss: f64,
    /// Mean share of all segments that is lost.
    pub lost_share: f64,
}

impl Placement {
    /// Opens the metadata at `meta`, beside the owner of the volume.
    ///
    /// # Errors
    /// Metadata is missing, not ours or of another format.
    pub fn open(meta: &MetaUrl) -> Result<Self, EngineError> {
        Ok(Self { store: open_store(meta, &Env::system())? })
    }

    /// The rule that holds now.
    ///
    /// # Errors
    /// Metadata cannot be read.
    pub fn rule(&self) -> Result<PlacementRule, EngineError> {
        Ok(self.store.placement_rule()?)
    }

    /// The effect of `rule`, with the risks of every policy that has enough failure units.
    ///
    /// # Errors
    /// [`EngineError::TooFewUnits`]: a policy has enough nodes, and would have too few units by this rule, which does not hold yet.
    pub fn report(&self, rule: PlacementRule) -> Result<PlacementReport, EngineError> {
        let mut report = self.survey(rule, self.segment_count()?)?;
        let specs: BTreeSet<String> = self.store.policies()?.into_iter().map(|(_, policy)| policy.code).collect();
        let (is_new, nodes) = (rule != self.store.placement_rule()?, self.store.nodes()?);
        for policy in specs {
            let code = weft_codes::parse(&policy)?;
            let (needed, places) = (code.shape().n, places(nodes.iter().map(|(_, node)| node), &rule, &*code));
            if needed <= places {
                report.risks.extend(report.risks_of(&policy, &*code, EFFORT)?);
            } else if is_new && needed <= active_count(&nodes) {
                // Too few nodes are a fact; too few units of enough nodes are a mistake in the rule.
                let (levels, units) = (rule.unit_depth, report.unit_count);
                return Err(EngineError::TooFewUnits { policy, needed, levels, units, places });
            }
        }
        Ok(report)
    }

    /// The effect of `rule` for this many segments, without risks.
    ///
    /// # Errors
    /// Metadata cannot be read.
    pub fn survey(&self, rule: PlacementRule, segment_count: u64) -> Result<PlacementReport, EngineError> {
        let nodes = self.store.nodes()?;
        let active = nodes.iter().filter(|(_, node)| node.state == NodeState::Active);
        let domains: Vec<&str> = active.map(|(_, node)| &*node.domain).collect();
        let distinct =
            |part: &dyn Fn(&str) -> &str| domains.iter().map(|domain| part(domain)).collect::<BTreeSet<_>>().len();
        Ok(PlacementReport {
            unit_depth: rule.unit_depth,
            unit_shards: rule.unit_shards,
            locality_depth: rule.locality_depth,
            set_count: rule.set_count,
            unit_count: distinct(&|domain| rule.unit(domain)),
            locality_count: if rule.locality_depth > 0 { distinct(&|domain| rule.locality(domain)) } else { 0 },
            segment_count,
            risks: Vec::new(),
        })
    }

    /// Makes `rule` the volume's. Care moves the shards that violate it.
    ///
    /// # Errors
    /// Metadata cannot be written.
    pub fn set(&self, rule: PlacementRule) -> Result<(), EngineError> {
        self.store.set_placement_rule(rule)?;
        Ok(self.store.flush()?)
    }

    fn segment_count(&self) -> Result<u64, EngineError> {
        let (mut count, mut after) = (0, None);
        loop {
            let page = self.store.segments(after, PAGE)?;
            count += page.len() as u64;
            after = page.last().map(|(segment, _)| *segment);
            if page.len() < PAGE {
                return Ok(count);
            }
        }
    }
}

impl PlacementReport {
    /// From the first number of failed units that can lose data on, until every way to lose so many shards does. `effort` bounds the
    /// patterns of losses that are tried; beyond that they are sampled.
    ///
    /// # Errors
    /// The code has no generator that can be analysed.
    pub fn risks_of(&self, policy: &str, code: &dyn Code, effort: u64) -> Result<Vec<Risk>, EngineError> {
        let shape = code.shape();
        // A code of which less is left than was stored with one loss more than it promises needs no matrix: those of wide Clay
        // codes take gigabytes.
        let erasures = (shape.tolerance < analysis::most_lost(shape)).then(|| Erasures::new(code)).transpose()?;
        let sets = self.sets(shape.n);
        let (mut fatal, mut shares) = (vec![0.0; shape.tolerance + 1], Vec::new());
        for failed in (shape.tolerance + 1..=shape.n).take(SIZES_MAX) {
            let survival = match &erasures {
                Some(erasures) => analysis::survival(erasures, failed, effort, SEED),
                None => analysis::none_survive(shape.n, failed),
            };
            fatal.push(1.0 - survival.share());
            shares.push(share_error(&survival));
            if survival.decodable == 0 {
                break;
            }
        }
        // Where units hold several shards, every unit has shards of every segment.
        let is_shared = shape.n > self.unit_count;
        let (width, by_units) = match is_shared {
            true => (self.unit_count, of_units(shape.n, self.unit_count, &fatal)),
            false => (shape.n, fatal),
        };
        let harmless =
            if is_shared { by_units.iter().take_while(|share| **share == 0.0).count() } else { shape.tolerance + 1 };
        let error = shares.iter().copied().fold(0.0, f64::max);
        let risk = |failed: usize| {
            let risk = loss_risk(self.unit_count as u64, failed as u64, width as u64, &by_units, sets);
            Risk {
                policy: policy.to_owned(),
                failed: failed as u64,
                fatal_share: by_units[failed],
                fatal_share_error: if is_shared { error } else { shares[failed - harmless] },
                any_loss: risk.any_loss,
                lost_share: risk.lost_share,
            }
        };
        let certain = by_units.iter().position(|share| *share >= 1.0).unwrap_or(by_units.len() - 1);
        Ok((harmless..=certain).take(SIZES_MAX).map(risk).collect())
    }

    /// Distinct sets of units that segments of `n` shards lie on, or that hold one shard more of them than the others.
    #[must_use]
    pub fn sets(&self, n: usize) -> f64 {
        let more = n - n.saturating_sub(1) / self.unit_count.max(1) * self.unit_count;
        set_count(self.unit_count as u64, more as u64, self.segment_count, self.set_count)
    }
}

/// By number of failed units, the share of the ways to lose these that lose data, where `n` shards are spread evenly over all `units`, and
/// `fatal` says the same by lost shards; where that ends, all ways do.
fn of_units(n: usize, units: usize, fatal: &[f64]) -> Vec<f64> {
    let full = n.saturating_sub(1) / units.max(1);
    let more = n - full * units;
    let fatal_share = |lost: usize| fatal.get(lost).copied().unwrap_or(1.0);
    // Of the failed units some are among those with one shard more.
    let share = |failed: usize| {
        let chance =
            |of_these: usize| choose(more, of_these) * choose(units - more, failed - of_these) / choose(units, failed);
        (0..=failed).map(|of_these| chance(of_these) * fatal_share(full * failed + of_these)).sum::<f64>().min(1.0)
    };
    (0..=units).map(share).collect()
}

/// `n` choose `k`, 0 where there is no way.
fn choose(n: usize, k: usize) -> f64 {
    if k > n { 0.0 } else { (0..k).map(|i| (n - i) as f64 / (i + 1) as f64).product() }
}

/// Distance of the true share from a sampled one, 19 times of 20.
fn share_error(survival: &Survival) -> f64 {
    if survival.is_exact() || survival.tried == 0 {
        return 0.0;
    }
    let (share, tried) = (survival.share(), survival.tried as f64);
    // An event in no sample may still happen three times in as many (the rule of three).
    (1.96 * (share * (1.0 - share) / tried).sqrt()).max(3.0 / tried)
}

#[cfg(test)]
#[path = "placement_tests.rs"]
mod tests;
