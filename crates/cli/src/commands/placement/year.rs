//! The chance to lose anything within a year where a volume's rule places its shards.

use super::percent;
use crate::care::parse_duration;
use anyhow::Result;
use serde::Serialize;
use weft_codes::Shape;
use weft_codes::analysis::{self, EFFORT};
use weft_engine::{Placement, PlacementReport, Risk};
use weft_lab::models::choice::{ANNUAL_FAILURE_RATE, Rates, annual_loss_of_volume};
use weft_lab::models::durability::SECONDS_PER_YEAR;
use weft_lab::plot::number;

/// The chance that anything stored by a policy is lost within a year.
#[derive(Serialize)]
pub struct AnnualLoss {
    pub policy: String,
    pub annual_loss: f64,
    #[serde(flatten)]
    pub pace: Pace,
}

/// How fast nodes fail and are rebuilt.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Pace {
    /// Of each failure unit.
    pub failures_per_year: f64,
    pub repair_ms: u64,
}

impl Default for Pace {
    /// A day to rebuild one.
    fn default() -> Self {
        Self { failures_per_year: ANNUAL_FAILURE_RATE, repair_ms: 86_400_000 }
    }
}

pub(super) fn parse_failures(text: &str) -> Result<f64, String> {
    let share = text.parse::<f64>().ok().filter(|share| *share > 0.0 && *share <= 1.0);
    share.ok_or_else(|| format!("`{text}` is not a share: write a number above 0 and up to 1, as in 0.02"))
}

pub(super) fn parse_repair(text: &str) -> Result<u64, String> {
    let time = parse_duration(text)?;
    if time > 0 { Ok(time) } else { Err("the time of a repair must be above 0".to_owned()) }
}

/// The chance of any loss within a year: failures and repairs of units, and the counted shares of fatal losses. Of more losses than were
/// looked at, all count as fatal.
pub(super) fn annual_loss(shape: &Shape, risks: &[Risk], report: &PlacementReport, pace: Pace) -> f64 {
    let looked_at = risks.iter().map(|risk| risk.fatal_share);
    let harmless = risks.first().map_or(shape.tolerance + 1, |risk| risk.failed as usize);
    let none = std::iter::repeat_n(0.0, harmless);
    // Where units hold several shards, segments are as wide as there are units.
    let width = shape.n.min(report.unit_count);
    let fatal: Vec<f64> = none.chain(looked_at).chain(std::iter::repeat(1.0)).take(width + 1).collect();
    let segments = report.segment_count.max(1);
    // Segments on the same nodes in another order lose data by other losses, unless all losses of a size are alike.
    let are_alike = fatal.iter().all(|share| *share == 0.0 || *share == 1.0);
    let sets = match are_alike {
        true => PlacementReport { segment_count: segments, ..report.clone() }.sets(shape.n),
        false => segments as f64,
    };
    let repairs_per_year = SECONDS_PER_YEAR * 1e3 / pace.repair_ms as f64;
    let rates = Rates { failures_per_year: pace.failures_per_year, repairs_per_year };
    annual_loss_of_volume(report.unit_count, &fatal, sets, rates)
}

/// Of every policy in a report that has risks.
pub(super) fn of_report(report: &PlacementReport, pace: Pace) -> Result<Vec<AnnualLoss>> {
    let of_policy = |risks: &[Risk]| {
        let policy = risks[0].policy.clone();
        let annual_loss = annual_loss(weft_codes::parse(&policy)?.shape(), risks, report, pace);
        Ok(AnnualLoss { policy, annual_loss, pace })
    };
    report.risks.chunk_by(|one, next| one.policy == next.policy).map(of_policy).collect()
}

/// Elements of a generator, and effort for a number of losses, that take milliseconds.
const ELEMENTS_AT_ONCE: usize = 1 << 14;
const EFFORT_AT_ONCE: u64 = EFFORT / 64;

/// Of codes and the segments stored by them, as far as that is known at once.
///
/// # Errors
/// The metadata cannot be read, or names a code that does not exist.
pub fn of_stored(placement: &Placement, codes: impl Iterator<Item = (String, u64)>) -> Result<Vec<AnnualLoss>> {
    let (rule, pace) = (placement.rule()?, Pace::default());
    let mut losses = Vec::new();
    for (policy, segment_count) in codes {
        let (code, report) = (weft_codes::parse(&policy)?, placement.survey(rule, segment_count)?);
        let shape = code.shape();
        let is_small = shape.contents.len().saturating_mul(shape.native_count) <= ELEMENTS_AT_ONCE;
        let is_known_at_once = shape.tolerance >= analysis::most_lost(shape) || is_small;
        let is_placed = shape.n <= report.unit_count * rule.unit_shards_of(shape.tolerance);
        if is_placed && is_known_at_once {
            let risks = report.risks_of(&policy, &*code, EFFORT_AT_ONCE)?;
            losses.push(AnnualLoss { annual_loss: annual_loss(shape, &risks, &report, pace), policy, pace });
        }
    }
    Ok(losses)
}

impl AnnualLoss {
    /// `rs:4+2: something is lost within a year with a probability of 1.2e-8, if 2.0 % of units fail and each is rebuilt within 24 h`
    pub fn line(&self) -> String {
        format!(
            "{}: something is lost within a year with a probability of {:.1e}, if {} of units fail and each is rebuilt within {} h",
            self.policy,
            self.annual_loss,
            percent(self.pace.failures_per_year),
            number(self.pace.repair_ms as f64 / 3_600_000.0)
        )
    }
}
