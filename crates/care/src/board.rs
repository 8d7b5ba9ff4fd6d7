//! The metrics of a worker and of its volume, for Prometheus.

use crate::catalogue::{Catalogue, CatalogueError};
use crate::census::Tally;
use crate::glance::glance;
use crate::job::Progress;
use crate::roster::Roster;
use crate::watch::Verdict;
use parking_lot::Mutex;
use std::fmt::Write;
use std::time::{Duration, Instant};

/// Counting all segments reads all records, so it is done no more often.
const COUNT_EVERY: Duration = Duration::from_secs(60);

/// The metrics of one worker.
#[derive(Default)]
pub struct Board {
    shown: Mutex<Shown>,
    /// The last count, and when that was.
    tally: Mutex<Option<(Instant, Tally)>>,
}

#[derive(Clone, Default)]
struct Shown {
    now: Option<(&'static str, Progress)>,
    is_paused: bool,
    doubted: Vec<Verdict>,
    roster: Roster,
    /// Of tasks that have ended.
    read_bytes: u64,
    written_bytes: u64,
    verified_bytes: u64,
}

impl Board {
    /// Takes in the result of a look, and the running task.
    pub(crate) fn show(
        &self,
        now: Option<(&'static str, Progress)>,
        is_paused: bool,
        doubted: impl Iterator<Item = Verdict>,
        roster: &Roster,
    ) {
        let mut shown = self.shown.lock();
        (shown.now, shown.is_paused, shown.doubted) = (now, is_paused, doubted.collect());
        shown.roster.clone_from(roster);
    }

    /// Takes in how far a task had come when it ended.
    pub(crate) fn ended(&self, progress: &Progress) {
        let mut shown = self.shown.lock();
        shown.read_bytes += progress.bytes_read;
        shown.written_bytes += progress.bytes_written;
        shown.verified_bytes += progress.bytes_verified;
        shown.now = None;
        // Its findings and repairs count at once. A count that is being made now is current anyway.
        if let Some(mut tally) = self.tally.try_lock() {
            *tally = None;
        }
    }

    /// In the text format of Prometheus, `now`. May take as long as reading all segments' records.
    ///
    /// # Errors
    /// The catalogue cannot be read.
    pub fn text(&self, catalogue: &dyn Catalogue, now: Instant) -> Result<String, CatalogueError> {
        let shown = self.shown.lock().clone();
        let mut last = self.tally.lock();
        let tally = match &*last {
            Some((counted, tally)) if now.saturating_duration_since(*counted) < COUNT_EVERY => tally.clone(),
            // Before the first look nothing is known of the nodes; they are not lost.
            _ if shown.roster.nodes.is_empty() => Tally::default(),
            _ => {
                let tally = glance(catalogue, &shown.roster)?;
                *last = Some((now, tally.clone()));
                tally
            }
        };
        Ok(text(&shown, &tally))
    }
}

fn text(shown: &Shown, tally: &Tally) -> String {
    let mut text = String::new();
    let mut series = |name: &str, kind: &str, help: &str, values: &[(String, u64)]| {
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (labels, value) in values {
            let _ = writeln!(text, "{name}{labels} {value}");
        }
    };
    let one = |value: u64| vec![(String::new(), value)];
    let nothing = Progress::default();
    let (task, progress) = shown.now.as_ref().map_or(("", &nothing), |(task, progress)| (*task, progress));
    let of_task = |value: u64| match task {
        "" => Vec::new(),
        task => vec![(format!("{{task=\"{task}\",phase=\"{}\"}}", progress.phase), value)],
    };
    series("weft_care_paused", "gauge", "Is the worker held?", &one(shown.is_paused.into()));
    series("weft_care_segments_done", "gauge", "Segments dealt with in this phase.", &of_task(progress.segments_done));
    series("weft_care_segments", "gauge", "Segments of this phase.", &of_task(progress.segments_total));
    series("weft_care_bytes_done", "gauge", "Bytes dealt with in this phase.", &of_task(progress.bytes_done));
    series("weft_care_bytes", "gauge", "Bytes of this phase.", &of_task(progress.bytes_total));
    series(
        "weft_care_bytes_per_second",
        "gauge",
        "Bytes a second in this phase.",
        &of_task(progress.bytes_per_second()),
    );
    let left = progress.left_ms().map(|left_ms| of_task(left_ms / 1000)).unwrap_or_default();
    series("weft_care_left_seconds", "gauge", "Seconds left of this phase at this rate.", &left);
    let read_bytes = shown.read_bytes + progress.bytes_read;
    series("weft_care_read_bytes_total", "counter", "Bytes that nodes sent.", &one(read_bytes));
    let written_bytes = shown.written_bytes + progress.bytes_written;
    series("weft_care_written_bytes_total", "counter", "Bytes stored on nodes.", &one(written_bytes));
    let verified_bytes = shown.verified_bytes + progress.bytes_verified;
    let help = "Bytes of shards read and checked against the metadata.";
    series("weft_care_verified_bytes_total", "counter", help, &one(verified_bytes));
    let doubted = |verdict| shown.doubted.iter().filter(|found| **found == verdict).count() as u64;
    let verdicts = [("suspected", Verdict::Suspected), ("given-up", Verdict::GivenUp)];
    let nodes = verdicts.map(|(name, verdict)| (format!("{{verdict=\"{name}\"}}"), doubted(verdict)));
    series("weft_nodes_doubted", "gauge", "Nodes that do not answer, by the worker's verdict.", &nodes);
    let mut margins: Vec<(String, u64)> =
        tally.margins.iter().map(|(margin, count)| (format!("{{margin=\"{margin}\"}}"), *count)).collect();
    margins.push(("{margin=\"out-of-reach\"}".into(), tally.out_of_reach_count));
    margins.push(("{margin=\"lost\"}".into(), tally.lost_count));
    series("weft_segments", "gauge", "Segments by the further losses of nodes that they survive.", &margins);
    text
}

#[cfg(test)]
#[path = "board_tests.rs"]
mod tests;
