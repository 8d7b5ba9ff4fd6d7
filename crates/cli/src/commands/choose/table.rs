//! The ranked codes as text.

use super::Stored;
use crate::care::count;
use crate::render;
use std::collections::BTreeSet;
use weft_engine::MetaUrl;
use weft_lab::models::choice::{Choice, Needs, Node};

/// Rows of codes that meet the needs, and of others.
const MEETING_SHOWN: usize = 12;
const SHORT_SHOWN: usize = 4;

const HEADER: [&str; 13] = [
    "CODE",
    "NODES",
    "SURVIVES",
    "STORED",
    "LOSS/YEAR",
    "REPAIR",
    "RECEIVES",
    "READ",
    "DEGRADED",
    "CPU/GIB",
    "MONTH",
    "EGRESS",
    "FALLS SHORT",
];

/// What is asked, in a sentence.
pub(super) fn heading(nodes: &[Node], needs: &Needs) -> String {
    let domains: BTreeSet<&str> = nodes.iter().map(|node| &*node.domain).collect();
    format!(
        "{} in {}; {} of data in files of {}; any loss at most {:e} a year; a repair begins after {}",
        count(nodes.len() as u64, "node"),
        count(domains.len() as u64, "domain"),
        render::bytes(needs.capacity_bytes as u64),
        render::bytes(needs.file_bytes as u64),
        needs.annual_loss_max,
        seconds(needs.detection_seconds)
    )
}

/// The table: all codes, or the first of each kind.
pub(super) fn of(choices: &[Choice], all: bool) -> String {
    let limit = |most: usize| if all { usize::MAX } else { most };
    let meeting = choices.iter().filter(|choice| choice.shortfall.is_none()).take(limit(MEETING_SHOWN));
    let short = choices.iter().filter(|choice| choice.shortfall.is_some()).take(limit(SHORT_SHOWN));
    let rows = std::iter::once(HEADER.map(str::to_owned).to_vec()).chain(meeting.chain(short).map(row));
    let rows: Vec<Vec<String>> = rows.collect();
    let left_out = choices.len() + 1 - rows.len();
    let mut text = render::table(&rows, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
    if left_out > 0 {
        text += &format!("{left_out} more: --all\n");
    }
    text
}

fn row(choice: &Choice) -> Vec<String> {
    let sampled = if choice.is_exact { "" } else { "~" };
    vec![
        choice.code.clone(),
        choice.width.to_string(),
        format!("any {}", choice.tolerance),
        format!("{:.2}", choice.stored_per_byte),
        format!("{sampled}{:.1e}", choice.annual_loss),
        seconds(choice.repair.seconds()),
        render::bytes(choice.repair.bytes as u64),
        seconds(choice.read_seconds),
        seconds(choice.degraded_read_seconds),
        format!("{:.2} s", choice.cpu_seconds_per_gib),
        format!("{:.2}", choice.month_price),
        format!("{:.2}", choice.repair.price),
        choice.shortfall.clone().unwrap_or_default(),
    ]
}

/// Letters of the longest bar.
const BAR_WIDTH: usize = 24;

/// The first codes as bars: what they store, and the nines of their safety. For a terminal.
pub(super) fn bars(choices: &[Choice]) -> String {
    let shown: Vec<&Choice> = choices.iter().filter(|choice| choice.shortfall.is_none()).take(MEETING_SHOWN).collect();
    let nines = |choice: &Choice| -choice.annual_loss.max(f64::MIN_POSITIVE).log10();
    let most = |value: &dyn Fn(&Choice) -> f64| shown.iter().map(|choice| value(choice)).fold(0.0, f64::max);
    let (most_stored, most_nines) = (most(&|choice| choice.stored_per_byte), most(&nines));
    let row = |choice: &&Choice| {
        vec![
            choice.code.clone(),
            format!("{:.2}", choice.stored_per_byte),
            bar(choice.stored_per_byte / most_stored),
            format!("{:.1}", nines(choice)),
            bar(nines(choice) / most_nines),
        ]
    };
    let header = ["CODE", "STORED", "", "NINES", ""].map(str::to_owned).to_vec();
    let rows: Vec<Vec<String>> = std::iter::once(header).chain(shown.iter().map(row)).collect();
    if shown.is_empty() { String::new() } else { render::table(&rows, &[1, 3]) }
}

/// A part of the longest bar, in eighths of a letter.
fn bar(part: f64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (part.clamp(0.0, 1.0) * (8 * BAR_WIDTH) as f64).round() as usize;
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}

/// A time in the unit that suits it.
fn seconds(seconds: f64) -> String {
    match seconds {
        short if short < 1.0 => format!("{:.1} ms", short * 1e3),
        few if few < 120.0 => format!("{few:.1} s"),
        minutes if minutes < 7200.0 => format!("{:.0} min", minutes / 60.0),
        hours if hours < 172_800.0 => format!("{:.1} h", hours / 3600.0),
        days => format!("{:.1} d", days / 86_400.0),
    }
}

/// What to do next.
pub(super) fn advice(choices: &[Choice], meta: Option<&MetaUrl>, stored: Option<&Stored>) -> Vec<String> {
    let Some(first) = choices.iter().find(|choice| choice.shortfall.is_none()) else {
        return vec![
            "no code meets the needs on these nodes: add nodes or room, or choose --loss or --capacity otherwise"
                .to_owned(),
        ];
    };
    let meta = meta.map_or("META".to_owned(), |meta| meta.to_string());
    let code = &first.code;
    let mut lines = vec![
        format!("for new files: weft policy set {meta} / {code}"),
        format!("for all files: weft policy set {meta} / {code} --convert"),
    ];
    let conversion = stored.map(|stored| stored.conversion_to(first)).filter(|conversion| conversion.read_bytes > 0);
    lines.extend(conversion.map(|conversion| {
        let (read, written) = (render::bytes(conversion.read_bytes), render::bytes(conversion.written_bytes));
        format!("converting what is stored now reads at most {read} and writes at most {written}")
    }));
    lines.push(format!("how the numbers are computed: --explain {code}"));
    lines
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
