//! `weft placement META`: where the shards of a volume may lie, and what that means for the chance of losing data.

mod plan;
mod year;

use crate::arguments::{META_HELP, Output, meta_url};
use crate::care::count;
use anyhow::{Context as _, Result, bail};
use serde::Serialize;
use weft_engine::{MetaUrl, Placement, PlacementReport, Risk};
use weft_format::records::PlacementRule;
use year::Pace;

pub use year::{AnnualLoss, of_stored};

/// Show or choose where shards may be stored
///
/// A failure domain is a path, outermost level first, in words of your own: `site1/rack3/host7`. After a change the mount, `weft care`
/// or `weft repair` moves the shards that violate the new rule.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  weft placement meta.db
  weft placement meta.db --unit 2
  weft placement meta.db --unit 1 --per-unit 2
  weft placement meta.db --locality 1 --unit 3
  weft placement plan meta.db --survive unit:1 --survive node:2")]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Arguments {
    #[command(subcommand)]
    plan: Option<Commands>,
    #[arg(help = META_HELP, value_parser = meta_url(), required = true)]
    meta: Option<MetaUrl>,
    /// Number of leading domain levels that form one failure unit (0 = the whole path)
    #[arg(long, value_name = "LEVELS")]
    unit: Option<u32>,
    /// Most shards of a segment in one failure unit, never more than its code can lose; shards are spread as evenly as the units allow, and
    /// never two on one node (1 at first). With --unit 1, 2 lets three sites of two nodes take the six shards of rs:4+2
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    per_unit: Option<u32>,
    /// Number of leading domain levels that form one locality; each local group of a code such as lrc:12+2+2 is stored in one (0 = anywhere)
    #[arg(long, value_name = "LEVELS")]
    locality: Option<u32>,
    /// Number of node sets that segments use; fewer sets make a loss less likely and larger (0 = each segment chooses its own)
    #[arg(long, value_name = "COUNT")]
    sets: Option<u64>,
    /// Share of the failure units that fail within a year, for the chance of a loss
    #[arg(long, value_name = "SHARE", default_value_t = 0.02, value_parser = year::parse_failures)]
    failures: f64,
    /// Time until a lost node is rebuilt, for the chance of a loss
    #[arg(long, value_name = "TIME", default_value = "1d", value_parser = year::parse_repair)]
    repair: u64,
    #[command(flatten)]
    output: Output,
}

#[derive(Debug, clap::Subcommand)]
enum Commands {
    Plan(plan::Arguments),
}

#[derive(Serialize)]
struct Answer {
    #[serde(flatten)]
    report: PlacementReport,
    annual_losses: Vec<AnnualLoss>,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    if let Some(Commands::Plan(arguments)) = &arguments.plan {
        return plan::run(arguments);
    }
    let meta = arguments.meta.as_ref().context("a volume is required")?;
    let placement = Placement::open(meta)?;
    let before = placement.rule()?;
    let rule = arguments.applied_to(before)?;
    let report = placement.report(rule)?;
    let pace = Pace { failures_per_year: arguments.failures, repair_ms: arguments.repair };
    let annual_losses = year::of_report(&report, pace)?;
    if rule != before {
        placement.set(rule)?;
    }
    let answer = Answer { report, annual_losses };
    if arguments.output.json {
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
        Ok(PlacementRule {
            unit_depth,
            unit_shards: self.per_unit.unwrap_or(rule.unit_shards),
            locality_depth,
            set_count: self.sets.unwrap_or(rule.set_count),
        })
    }
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

fn lines(Answer { report, annual_losses }: &Answer) -> Vec<String> {
    let levels = |depth: u32| match depth {
        0 => "their whole domain".to_owned(),
        depth => format!("the first {} of their domain", count(depth.into(), "level")),
    };
    let units = count(report.unit_count as u64, "such unit");
    let shards = match report.unit_shards {
        1 => "no two shards of a segment".to_owned(),
        most => format!("at most {most} shards of a segment, never more than its code can lose,"),
    };
    let mut lines = vec![format!("{shards} are on nodes that share {}; there are {units}", levels(report.unit_depth))];
    if report.locality_depth > 0 {
        let localities = match report.locality_count {
            1 => "1 locality".into(),
            localities => format!("{localities} localities"),
        };
        lines.push(format!(
            "each local group of a code is on nodes that share {}; there are {localities}, and a lost one takes its groups with it",
            levels(report.locality_depth)
        ));
    }
    lines.push(match report.set_count {
        0 => "each segment chooses its own set of nodes".into(),
        1 => "segments are stored on one set of nodes".into(),
        sets => format!("segments are stored on at most {sets} sets of nodes"),
    });
    if report.segment_count == 0 && !report.risks.is_empty() {
        lines.push("nothing is stored yet; the risks of later data:".into());
    }
    lines.extend(report.risks.iter().map(|risk| risk_line(risk, report.segment_count)));
    lines.extend(annual_losses.iter().map(|loss| loss.line()));
    lines
}

/// `rs:4+2: if 3 units fail at once, something is lost with a probability of 5 %, on average 5 % of 12 segments`
fn risk_line(risk: &Risk, segment_count: u64) -> String {
    let Risk { policy, failed, fatal_share, fatal_share_error, any_loss, lost_share } = risk;
    let mut line = format!("{policy}: if {failed} units fail at once, ");
    if segment_count > 0 {
        line += &format!("something is lost with a probability of {}, ", percent(*any_loss));
    }
    line += &format!("on average {} of ", percent(*lost_share));
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
