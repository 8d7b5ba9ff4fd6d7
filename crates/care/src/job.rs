//! A running job as its starter sees it: it reads the progress, and can pause, resume and cancel the job.

use crate::catalogue::{Catalogue, CatalogueError};
use parking_lot::Mutex;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use weft_env::Clock;
use weft_format::SegmentId;

/// Files named for the segments being processed; finding one reads directories.
const PATHS_SHOWN: usize = 3;

/// The starter's request to the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Request {
    Run,
    Pause,
    Cancel,
    Abandon,
}

/// The job was cancelled between two segments. What it did stands, and a later run goes on from there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the job was stopped; run it again to resume")]
pub struct Cancelled;

/// How far a job has come. Counts only what this run did.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Progress {
    /// Its current phase, in a word or two.
    pub phase: Cow<'static, str>,
    /// Segments dealt with in this phase, whatever the outcome.
    pub segments_done: u64,
    /// Segments in all, as far as is known.
    pub segments_total: u64,
    /// Bytes of shards rebuilt or verified in this phase.
    pub bytes_done: u64,
    /// Bytes of shards to rebuild or verify in all, as far as is known.
    pub bytes_total: u64,
    /// Bytes read from nodes.
    pub bytes_read: u64,
    /// Bytes written to nodes.
    pub bytes_written: u64,
    /// Segments that could not be dealt with in this run.
    pub failures: u64,
    /// Bytes of shards read and checked against the metadata.
    #[serde(default)]
    pub bytes_verified: u64,
    /// Some files of the segments in hand.
    #[serde(default)]
    pub paths: Vec<String>,
    /// Is it paused?
    pub paused: bool,
    /// Time spent working in this phase, pauses left out, in milliseconds.
    pub worked_ms: u64,
}

impl Progress {
    /// Bytes dealt with per second of work; 0 before the first.
    pub fn bytes_per_second(&self) -> u64 {
        per_second(self.bytes_done, self.worked_ms)
    }

    /// Milliseconds of work left at the rate so far; `None` before anything is done.
    pub fn left_ms(&self) -> Option<u64> {
        // By bytes where there are bytes: segments are unlike in size.
        let (done, total) = match self.bytes_total {
            0 => (self.segments_done, self.segments_total),
            _ => (self.bytes_done, self.bytes_total),
        };
        let left = u128::from(total.saturating_sub(done)) * u128::from(self.worked_ms);
        (done > 0).then(|| u64::try_from(left / u128::from(done)).unwrap_or(u64::MAX))
    }
}

fn per_second(bytes: u64, elapsed_ms: u64) -> u64 {
    u64::try_from(u128::from(bytes) * 1000 / u128::from(elapsed_ms.max(1))).unwrap_or(u64::MAX)
}

/// Shared between the one who started a job and the job.
pub struct Job {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    request: watch::Sender<Request>,
}

struct State {
    progress: Progress,
    /// Segments that are being dealt with.
    in_hand: BTreeSet<SegmentId>,
    /// Work done before `since`.
    worked: Duration,
    /// Since when it works; `None` while paused.
    since: Option<Instant>,
}

impl Job {
    /// One that begins now.
    pub fn new(clock: &Arc<dyn Clock>) -> Self {
        let state = State {
            progress: Progress { phase: "beginning".into(), ..Progress::default() },
            in_hand: BTreeSet::new(),
            worked: Duration::ZERO,
            since: Some(clock.now()),
        };
        Self { clock: clock.clone(), state: Mutex::new(state), request: watch::Sender::new(Request::Run) }
    }

    /// The clock that it goes by.
    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// Starts no new segment until [`Self::resume`]; those in hand are finished.
    pub fn pause(&self) {
        if self.request.send_if_modified(|request| replace_if(request, Request::Run, Request::Pause)) {
            let mut state = self.state.lock();
            state.worked = state.worked_by(self.clock.now());
            state.since = None;
        }
    }

    /// Continues after [`Self::pause`].
    pub fn resume(&self) {
        if self.request.send_if_modified(|request| replace_if(request, Request::Pause, Request::Run)) {
            self.state.lock().since = Some(self.clock.now());
        }
    }

    /// Ends the job after the segments in hand, for good.
    pub fn cancel(&self) {
        self.request.send_replace(Request::Cancel);
    }

    /// Ends the job now. Unfinished segments stay as they are; shards stored for them in vain are collected later.
    pub fn abandon(&self) {
        self.request.send_replace(Request::Abandon);
    }

    /// How far it has come.
    pub fn progress(&self) -> Progress {
        let state = self.state.lock();
        let worked = state.worked_by(self.clock.now());
        Progress {
            paused: state.since.is_none(),
            worked_ms: u64::try_from(worked.as_millis()).unwrap_or(u64::MAX),
            ..state.progress.clone()
        }
    }

    /// As [`Self::progress`], with some files of the segments in hand.
    ///
    /// # Errors
    /// The catalogue cannot be read.
    pub fn progress_with_paths(&self, catalogue: &dyn Catalogue) -> Result<Progress, CatalogueError> {
        let in_hand: Vec<SegmentId> = self.state.lock().in_hand.iter().copied().take(PATHS_SHOWN).collect();
        let mut paths = BTreeSet::new();
        for segment in in_hand {
            paths.extend(catalogue.paths(segment, 1)?);
        }
        Ok(Progress { paths: paths.into_iter().collect(), ..self.progress() })
    }

    /// A segment is taken in hand ...
    pub(crate) fn take(&self, segment: SegmentId) {
        self.state.lock().in_hand.insert(segment);
    }

    /// ... and is dealt with.
    pub(crate) fn leave(&self, segment: SegmentId) {
        self.state.lock().in_hand.remove(&segment);
    }

    /// Begins another phase of the job, with this much work as far as is known.
    pub(crate) fn begin(&self, phase: &'static str, segments_total: u64, bytes_total: u64) {
        let mut state = self.state.lock();
        state.worked = Duration::ZERO;
        state.since = state.since.map(|_| self.clock.now());
        state.progress = Progress {
            phase: phase.into(),
            segments_done: 0,
            segments_total,
            bytes_done: 0,
            bytes_total,
            ..state.progress.clone()
        };
    }

    pub(crate) fn update(&self, change: impl FnOnce(&mut Progress)) {
        change(&mut self.state.lock().progress);
    }

    /// Where a job may be held or ended: between two segments.
    pub(crate) async fn checkpoint(&self) -> Result<(), Cancelled> {
        let mut request = self.request.subscribe();
        // The sender lives as long as `self`, so waiting cannot fail.
        let now =
            request.wait_for(|request| *request != Request::Pause).await.map_or(Request::Cancel, |request| *request);
        if matches!(now, Request::Cancel | Request::Abandon) { Err(Cancelled) } else { Ok(()) }
    }

    /// Waits for so long; a cancelled job does not.
    pub(crate) async fn rest(&self, time: Duration) -> Result<(), Cancelled> {
        let mut request = self.request.subscribe();
        let cancelled = request.wait_for(|request| matches!(request, Request::Cancel | Request::Abandon));
        match self.clock.timeout(time, cancelled).await {
            Ok(_) => Err(Cancelled),
            Err(_) => Ok(()),
        }
    }
}

impl Job {
    /// Returns once the job is abandoned.
    pub(crate) async fn abandoned(&self) {
        // The sender lives as long as `self`, so waiting cannot fail.
        let _ = self.request.subscribe().wait_for(|request| *request == Request::Abandon).await;
    }
}

impl State {
    fn worked_by(&self, now: Instant) -> Duration {
        self.worked + self.since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }
}

fn replace_if(request: &mut Request, from: Request, to: Request) -> bool {
    let hit = *request == from;
    if hit {
        *request = to;
    }
    hit
}

#[cfg(test)]
#[path = "job_tests.rs"]
mod tests;
