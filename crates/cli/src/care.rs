//! What `status`, `info`, `repair`, `scrub` and `gc` share: a volume opened beside whoever has it mounted, and a job that
//! is watched while it runs.

use crate::render;
use crate::signals::Ending;
use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};
use std::collections::BTreeSet;
use std::future::Future;
use std::ops::Range;
use std::process::ExitCode;
use std::time::Duration;
use weft_engine::MetaUrl;
use weft_engine::care::{Away, BalanceEstimate, ConvertRecord, DEGRADED_NAMED, Job, Kept, Progress, Tally};
pub use weft_engine::words::count;
use weft_engine::{EngineError, Keeper};

/// Status when some file survives fewer losses than it should.
pub const DEGRADED: u8 = 2;
/// Status when some file cannot be read.
pub const UNREADABLE: u8 = 3;

/// How often progress is drawn on a terminal, and told elsewhere.
const DRAW_EVERY: Duration = Duration::from_millis(200);
const TELL_EVERY: Duration = Duration::from_secs(10);

/// Segments in hand get so long to be finished when a signal asks for the end: others wait for the lease.
const HURRY: Duration = Duration::from_secs(3);

/// Says for whom a job waits.
pub fn waits(bar: &ProgressBar) -> impl FnOnce(&str) {
    |other| bar.suspend(|| eprintln!("waiting for {other}, which is changing segments"))
}

/// Runs a job to its end and shows how far it is. A signal ends it after the segments in hand, a second one or [`HURRY`] later at once;
/// either way the lease is given back.
pub fn watch<T>(
    keeper: &Keeper,
    job: &Job,
    bar: &ProgressBar,
    work: impl Future<Output = Result<T, EngineError>>,
) -> Result<T> {
    let ended = keeper.runtime.block_on(async {
        tokio::pin!(work);
        let every = if bar.is_hidden() { TELL_EVERY } else { DRAW_EVERY };
        let mut tick = tokio::time::interval_at(tokio::time::Instant::now() + every, every);
        let (mut ending, mut hurry) = (Ending::catch()?, None);
        loop {
            tokio::select! {
                ended = &mut work => break anyhow::Ok(ended),
                _ = tick.tick() => draw(bar, &job.progress()),
                () = ending.asked() => match hurry {
                    // Nothing is lost by an end at once either: the job is resumed just the same.
                    Some(_) => job.abandon(),
                    None => {
                        hurry = Some(tokio::time::Instant::now() + HURRY);
                        job.cancel();
                    }
                },
                () = tokio::time::sleep_until(hurry.unwrap_or_else(tokio::time::Instant::now)), if hurry.is_some() => {
                    job.abandon();
                }
            }
        }
    });
    bar.finish_and_clear();
    Ok(ended??)
}

/// `1.2 GiB of shards must move until every node holds its share to within a shard (exact shares: at least 1.1 GiB)`
pub fn balance_sentence(estimate: &BalanceEstimate) -> String {
    if estimate.segment_count == 0 {
        return "a node does not hold its share, and no shard may move that brings it nearer: nodes do not answer or have no room, or the failure \
                domains are too few"
            .to_owned();
    }
    let (bytes, least) = (render::bytes(estimate.bytes_to_move), render::bytes(estimate.least_bytes));
    format!(
        "{bytes} of shards must move until every node holds its share to within a shard (exact shares: at least {least})"
    )
}

fn draw(bar: &ProgressBar, progress: &Progress) {
    let line = progress_line(progress);
    if bar.is_hidden() {
        eprintln!("{line}");
        return;
    }
    let (done, total) = match progress.bytes_total {
        0 => (progress.segments_done, progress.segments_total),
        _ => (progress.bytes_done, progress.bytes_total),
    };
    bar.set_length(total.max(done).max(1));
    bar.set_position(done);
    bar.set_message(line);
}

/// `rebuilding: 12 of 40 segments, 1.2 GiB of 4.0 GiB, 85.0 MiB/s, 33 s left, read 4.8 GiB, written 1.2 GiB`
pub fn progress_line(progress: &Progress) -> String {
    let mut parts = match progress.segments_total {
        0 if progress.segments_done == 0 => Vec::new(),
        0 => vec![count(progress.segments_done, "segment")],
        total => vec![format!("{} of {}", progress.segments_done, count(total, "segment"))],
    };
    if progress.bytes_total > 0 {
        let (done, total) = (render::bytes(progress.bytes_done), render::bytes(progress.bytes_total));
        parts.push(format!("{done} of {total}"));
        parts.push(format!("{}/s", render::bytes(progress.bytes_per_second())));
    }
    if let Some(left_ms) = progress.left_ms() {
        parts.push(format!("{} left", duration(left_ms)));
    }
    if progress.bytes_read + progress.bytes_written > 0 {
        parts.push(format!("read {}", render::bytes(progress.bytes_read)));
        parts.push(format!("written {}", render::bytes(progress.bytes_written)));
    }
    if progress.failures > 0 {
        parts.push(format!("{} failed", progress.failures));
    }
    if !progress.paths.is_empty() {
        let paths: Vec<String> = progress.paths.iter().map(|path| render::line(path)).collect();
        parts.push(format!("now at {}", paths.join(", ")));
    }
    let parts = parts.join(", ");
    if parts.is_empty() { progress.phase.to_string() } else { format!("{}: {parts}", progress.phase) }
}

/// The conversion under way, or the last one.
pub fn conversion_line(record: &ConvertRecord) -> String {
    let ConvertRecord { segment_count, bytes_read, bytes_written, bytes_saved, .. } = *record;
    let [read, written, saved] = [bytes_read, bytes_written, bytes_saved].map(render::bytes);
    let done = format!("{}, {read} read, {written} written, {saved} saved", count(segment_count, "segment"));
    let mut line = match record.ended_ms {
        Some(ended_ms) => format!("last conversion: ended {}, {done}", moment(ended_ms)),
        None => format!("conversion is running or was interrupted: {done} by {}", moment(record.updated_ms)),
    };
    if record.merged_count > 0 {
        line +=
            &format!("; {} merged into wider ones, without moving their data", count(record.merged_count, "segment"));
    }
    if record.failure_count > 0 {
        line += &format!("; {} not converted yet", count(record.failure_count, "segment"));
    }
    if record.divided_count > 0 {
        let shared = count(record.divided_count, "segment");
        line += &format!("; {shared} shared by files of different policies: the mount or weft gc divides them");
    }
    line
}

/// What previous generations take; `None`: nothing.
pub fn kept_line(kept: Kept) -> Option<String> {
    let line = || {
        let segments = count(kept.generation_count, "segment");
        format!("the previous shards of {segments} are still kept: {}", render::bytes(kept.bytes))
    };
    (kept.generation_count > 0).then(line)
}

/// A bar on standard error; hidden, so that lines are written instead, where that is no terminal.
pub fn progress_bar() -> ProgressBar {
    // Cut to the terminal's width: a line that wraps would be drawn anew below itself.
    let style = ProgressStyle::with_template("{wide_bar} {percent:>3}%\n{wide_msg}");
    ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// Shows how many records of metadata were read, on a terminal. `total`: `None` where nobody knows it.
pub fn show_records(bar: &ProgressBar, phase: &str, records: u64, total: Option<u64>) {
    bar.set_length(total.unwrap_or(0).max(records).max(1));
    bar.set_position(if total.is_some() { records } else { 0 });
    bar.set_message(match total {
        Some(total) => format!("{phase}: {records} of {}", count(total, "record")),
        None => format!("{phase}: {}", count(records, "record")),
    });
}

/// The number of further losses that every file survives, as a sentence: the first line of `weft status`.
pub fn survival(tally: &Tally) -> String {
    let of_the_others = || match tally.margin {
        None => String::new(),
        Some(margin) => format!("; every other file survives {}", losses(margin, tally.unit_margin)),
    };
    if tally.lost_count > 0 {
        let files = count(tally.lost_paths.len() as u64, "file");
        let verb = if tally.lost_paths.len() == 1 { "is" } else { "are" };
        return format!("{files} {verb} LOST in part or whole{}", of_the_others());
    }
    if tally.out_of_reach_count > 0 {
        let files = count(tally.out_of_reach_paths.len() as u64, "file");
        let until = match (tally.silent_shard_count, tally.refused_shard_count) {
            (0, 1..) => "by this user, who may not read some nodes",
            _ => "until nodes answer again",
        };
        return format!("{files} cannot be read {until}{}", of_the_others());
    }
    match tally.margin {
        None => "there are no stored files yet".into(),
        Some(margin) => format!("every file survives {}", losses(margin, tally.unit_margin)),
    }
}

/// Of failure units it is said where they are not as many as of nodes.
pub fn losses(nodes: usize, units: Option<usize>) -> String {
    match (nodes, units.filter(|units| *units != nodes)) {
        (0, _) => "the loss of 0 more nodes: the next one lost may take data with it".into(),
        (1, None) => "the loss of any 1 more node".into(),
        (_, None) => format!("the loss of any {nodes} more nodes"),
        (_, Some(units)) => {
            format!(
                "the loss of any {}, or of any {}",
                count(nodes as u64, "more node"),
                count(units as u64, "failure unit")
            )
        }
    }
}

/// The status that goes with a count.
pub fn exit_code(tally: &Tally) -> ExitCode {
    if tally.lost_count + tally.out_of_reach_count > 0 {
        ExitCode::from(UNREADABLE)
    } else if !tally.is_whole() {
        ExitCode::from(DEGRADED)
    } else {
        ExitCode::SUCCESS
    }
}

/// Names told of files that have the same trouble.
pub const PATHS_SHOWN: usize = 5;

/// What is wrong according to a count, a line each; of lost files so many names.
pub fn troubles(tally: &Tally, lost_shown: usize) -> Vec<String> {
    let mut lines = Vec::new();
    // `named` is of how many segments, and how many files, paths are known.
    let mut say = |segment_count: u64, what: &str, (paths, named): (&BTreeSet<String>, usize), shown: usize| {
        if segment_count > 0 {
            let is_all = segment_count <= named as u64 && paths.len() < named;
            let least = if is_all { "" } else { "at least " };
            let (segments, files) = (count(segment_count, "segment"), count(paths.len() as u64, "file"));
            lines.push(format!("{segments} {what}, of {least}{files}:"));
            lines.extend(paths.iter().take(shown).map(|path| format!("  {}", render::line(path))));
            if paths.len() > shown {
                lines.push(format!("  ... and {} more", paths.len() - shown));
            }
        }
    };
    let lost = tally.lost_bytes.iter().map(|(path, bytes)| format!("{path}: {}", byte_ranges(bytes))).collect();
    say(tally.lost_count, "LOST", (&lost, usize::MAX), lost_shown);
    say(tally.out_of_reach_count, "out of reach", (&tally.out_of_reach_paths, usize::MAX), PATHS_SHOWN);
    say(tally.degraded_count, "degraded", (&tally.degraded_paths, DEGRADED_NAMED), PATHS_SHOWN);
    let short = "written with less redundancy since nodes were away";
    say(tally.short_count, short, (&tally.short_paths, DEGRADED_NAMED), PATHS_SHOWN);
    if tally.crowded_count > 0 {
        let units: Vec<String> = tally.crowded_units.iter().map(|unit| render::line(unit)).collect();
        lines.push(format!(
            "{} with more shards in one failure unit than may be lost ({}): care moves them as far as there are other units; add nodes in \
             others, or choose a code with more parities",
            count(tally.crowded_count, "segment"),
            units.join(", ")
        ));
    }
    lines
}

/// Runs of bytes shown of one file.
const RUNS_SHOWN: usize = 8;

/// `bytes 0..4096, 8192..12288 and 3 more runs`, in order, those that touch as one.
pub fn byte_ranges(ranges: &[Range<u64>]) -> String {
    let mut ranges = ranges.to_vec();
    ranges.sort_by_key(|range| range.start);
    let mut runs: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match runs.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => runs.push(range),
        }
    }
    let shown: Vec<String> = runs.iter().take(RUNS_SHOWN).map(|run| format!("{}..{}", run.start, run.end)).collect();
    let more = match runs.len().saturating_sub(RUNS_SHOWN) {
        0 => String::new(),
        more => format!(" and {} more", count(more as u64, "run")),
    };
    format!("bytes {}{more}", shown.join(", "))
}

/// Why nodes that are silent are not rebuilt, and what to do; a line each.
pub fn silent_nodes(meta: &MetaUrl, nodes: &[Away]) -> Vec<String> {
    let line = |Away { name, why, refuses }: &Away| match refuses {
        true => format!("{why}; the node itself is healthy: run this as a user who may read and write it"),
        false => format!(
            "{why}; its shards do not count as lost. If it is gone for good: weft node replace {meta} {name} FOLDER, or weft repair {meta} --assume-lost {name}"
        ),
    };
    nodes.iter().map(line).collect()
}

/// Nodes that are silent and given up; a line each.
pub fn given_up_nodes(meta: &MetaUrl, nodes: &[Away]) -> Vec<String> {
    let line = |Away { name, why, .. }: &Away| {
        format!(
            "{why}; it was given up, and its shards are rebuilt on other nodes as far as they have room. It is taken back if it answers \
             again. If it is gone for good: weft node replace {meta} {name} FOLDER"
        )
    };
    nodes.iter().map(line).collect()
}

/// `850 ms`, `42 s`, `3 min 20 s`, `2 h 5 min`, `3 d 4 h`.
pub fn duration(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0 => format!("{ms} ms"),
        1..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds / 3600 % 24),
    }
}

/// A length of time as users write it: `30s`, `10m`, `2h`, `1d`; a bare number is seconds. In milliseconds.
pub fn parse_duration(text: &str) -> Result<u64, String> {
    let ms = weft_format::span::parse_ms(text);
    ms.ok_or_else(|| format!("`{text}` is not a duration: write it as in 30s, 10m, 2h or 1d"))
}

/// `2026-11-20 12:57:03 UTC`.
pub fn moment(ms: u64) -> String {
    let seconds = i64::try_from(ms / 1000).unwrap_or(i64::MAX);
    format!("{} UTC", render::time(weft_format::records::Timestamp { seconds, nanoseconds: 0 }))
}

#[cfg(test)]
#[path = "care_tests.rs"]
mod tests;
