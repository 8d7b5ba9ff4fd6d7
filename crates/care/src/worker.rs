//! The worker that cares for a volume: it looks at the nodes every second or two, and has jobs done when [`Watch`] says so. The
//! impure part: it owns the clock, the probes and the running job, and decides nothing.
//!
//! Any number of them may run, in mounts and by themselves, on any machines: all watch, and the lease lets one at a time work.
//! It ends on request; the work done until then stays. `tasks.rs` has its tasks.

mod tasks;

use crate::board::Board;
use crate::catalogue::{Catalogue, CatalogueError};
use crate::census::CareError;
use crate::collect::UnreferencedSince;
use crate::convert;
use crate::job::{Job, Progress};
use crate::record::{CareRecord, ConvertRecord, HistoryEntry, JobRecord, Requests, SCRUB};
use crate::repair;
use crate::roster::{NodeFacts, Reach, Roster, Rounds};
use crate::watch::{Found, Layout, Seen, Shares, Task, Timeouts, Transition, Verdict, Watch};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tasks::{Done, Order, name, perform};
use tokio::sync::watch::Receiver;
use weft_env::TaskSet;
use weft_format::NodeId;
use weft_format::records::NodeState;
use weft_format::removal::Item;
use weft_nodes::Space;
use weft_transfer::Transfer;

/// A node that takes longer than this to say who it is counts as silent. The next look asks it again.
const PROBE_DEADLINE: Duration = Duration::from_secs(3);

/// How often a worker notes that it is alive, and how far a running task is.
const NOTE_IDLE: Duration = Duration::from_secs(30);
const NOTE_BUSY: Duration = Duration::from_secs(2);

/// How to care.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Timeouts and intervals.
    pub timeouts: Timeouts,
    /// The name of this worker, for people.
    pub holder: String,
}

/// A worker.
pub struct Worker {
    /// The volume.
    pub catalogue: Arc<dyn Catalogue>,
    /// Moves shards.
    pub transfer: Transfer,
    /// How.
    pub options: Options,
    /// Shows its current work.
    pub board: Arc<Board>,
    /// Has the transfer's nodes follow those of the catalogue.
    pub follow_nodes: Box<dyn Fn() -> Result<(), CatalogueError> + Send + Sync>,
}

/// A task under way.
struct UnderWay {
    task: Task,
    job: Arc<Job>,
    /// One future. It ends with its worker: a set aborts what it holds when it is dropped.
    run: TaskSet<Result<Done, CareError>>,
    started_ms: u64,
    /// A more urgent task interrupts it; its outcome is ignored.
    is_interrupted: bool,
    /// People cancelled it.
    is_given_up: bool,
}

/// The result of one look.
struct Look {
    roster: Roster,
    is_marked: bool,
    is_conversion_asked: bool,
    has_age_rules: bool,
    has_retained: bool,
    requests: Requests,
}

impl Worker {
    /// Cares until `stop` says so.
    pub async fn run(self, mut stop: Receiver<bool>) {
        let clock = self.transfer.fleet().env().clock.clone();
        let (began, now_ms) = (clock.now(), clock.unix_ms());
        // Wall clocks may jump; this one goes on from where the wall clock was.
        let at_ms = || clock.elapsed(began).as_millis() as u64;
        let wall_ms = || now_ms + at_ms();
        let mut watch = Watch::new(self.options.timeouts, self.scrubbed_before_ms(now_ms), 0);
        let mut record = CareRecord::new(&self.options.holder);
        let (mut noted, mut has_changed) = (began, true);
        let mut under_way: Option<UnderWay> = None;
        let (mut rounds, mut requests) = (Rounds::default(), Requests::default());
        let mut complaint = String::new();
        let unreferenced_since = Arc::new(UnreferencedSince::default());
        while !*stop.borrow() {
            tokio::select! {
                biased;
                // An error means that the sender is gone.
                changed = stop.changed() => if changed.is_err() { break },
                () = clock.sleep(Duration::from_millis(self.options.timeouts.look_every_ms)) => {}
            }
            if let Some(ended) = take_ended(&mut under_way) {
                self.board.ended(&ended.0.job.progress());
                self.give_up(&ended.0, wall_ms());
                take_in(ended, &mut watch, &mut record, at_ms(), wall_ms());
                has_changed = true;
            }
            let look = match self.look(&mut rounds).await {
                Ok(look) => look,
                Err(error) => {
                    // Once for each outage: metadata may be away for long.
                    if complaint != error.to_string() {
                        complaint = error.to_string();
                        tracing::warn!("the state of the volume cannot be read: {error}");
                    }
                    continue;
                }
            };
            complaint.clear();
            self.forget_left_nodes(&look);
            let Look { is_marked, is_conversion_asked, has_age_rules, has_retained, .. } = look;
            let nodes = &sights(&look.roster)[..];
            let seen = Seen { nodes, is_marked, is_conversion_asked, has_age_rules, has_retained };
            let transitions = watch.see(seen, at_ms());
            watch.see_layout(layout(&look.roster));
            watch.see_shares(shares(&look.roster, &watch.given_up()));
            transitions.iter().for_each(|transition| tell(*transition, &look.roster, &self.options.timeouts));
            has_changed |= !transitions.is_empty() || look.requests != requests;
            let is_cancelled = look.requests.cancel_count > requests.cancel_count;
            requests = look.requests;
            match &mut under_way {
                Some(now) => {
                    if watch.interrupts(now.task, at_ms()) {
                        now.is_interrupted = true;
                        now.job.cancel();
                    } else if is_cancelled {
                        now.is_given_up = true;
                        now.job.cancel();
                    }
                    if requests.is_paused { now.job.pause() } else { now.job.resume() }
                }
                None if !requests.is_paused => {
                    if let Some(task) = watch.next(at_ms()) {
                        watch.begun(task);
                        let (given_up, request_count) = (watch.given_up(), requests.convert_count);
                        let (now_ms, at_ms, unreferenced_since) = (wall_ms(), at_ms(), unreferenced_since.clone());
                        under_way = Some(self.begin(Order {
                            task,
                            given_up,
                            request_count,
                            now_ms,
                            at_ms,
                            unreferenced_since,
                        }));
                        has_changed = true;
                    }
                }
                None => {}
            }
            let at_work = under_way.as_ref().map(|now| (name(now.task), now.job.progress()));
            let verdicts = watch.verdicts().map(|(_, verdict)| verdict);
            self.board.show(at_work, requests.is_paused, verdicts, &look.roster);
            let every = if under_way.is_some() { NOTE_BUSY } else { NOTE_IDLE };
            if has_changed || clock.elapsed(noted) >= every {
                (noted, has_changed) = (clock.now(), false);
                record.is_paused = requests.is_paused;
                record.now = under_way.as_ref().map(|now| (name(now.task).into(), self.progress(&now.job)));
                record.doubted = doubted(&watch, &look.roster);
                self.note(&mut record, wall_ms());
            }
        }
        if let Some(mut now) = under_way {
            now.job.cancel();
            // Segments in hand are finished; a panic was told where it happened.
            let _ = now.run.join_next().await;
        }
        record.now = None;
        record.has_ended = true;
        self.note(&mut record, wall_ms());
    }

    fn scrubbed_before_ms(&self, now_ms: u64) -> Option<u64> {
        let record = JobRecord::load(&*self.catalogue, SCRUB).ok()??;
        Some(now_ms.saturating_sub(record.ended_ms?))
    }

    async fn look(&self, rounds: &mut Rounds) -> Result<Look, CatalogueError> {
        (self.follow_nodes)()?;
        let mut roster = rounds.probe(PROBE_DEADLINE, &*self.catalogue, &self.transfer).await?;
        roster.take_back(&*self.catalogue)?;
        let is_marked = !self.catalogue.damaged(None, 1)?.is_empty();
        let requests = Requests::load(&*self.catalogue)?;
        let is_conversion_asked = convert::is_asked(&*self.catalogue, &requests)?;
        let has_age_rules = self.catalogue.has_age_rules()?;
        let has_retained = !self.catalogue.unreferenced(Some(Item::BEFORE_GENERATIONS), 1)?.is_empty();
        Ok(Look { roster, is_marked, is_conversion_asked, has_age_rules, has_retained, requests })
    }

    /// Nodes that are empty leave when the owner has followed the node table, which may be some time after the task that emptied them.
    fn forget_left_nodes(&self, look: &Look) {
        let is_one_leaving = look.roster.nodes.values().any(|facts| facts.record.state.is_leaving());
        if look.requests.is_paused || !is_one_leaving {
            return;
        }
        match repair::forget_left_nodes(&*self.catalogue) {
            Ok(names) => names.iter().for_each(|name| tracing::info!("node {name} holds nothing and is forgotten")),
            Err(error) => tracing::warn!("nodes that hold nothing could not be forgotten: {error}"),
        }
    }

    /// A cancelled conversion does not start again until people request one.
    fn give_up(&self, ended: &UnderWay, now_ms: u64) {
        if ended.is_given_up
            && ended.task == Task::Convert
            && let Err(error) = ConvertRecord::give_up(&*self.catalogue, now_ms)
        {
            tracing::warn!("the conversion could not be cancelled: {error}");
        }
    }

    fn begin(&self, order: Order) -> UnderWay {
        let (task, started_ms) = (order.task, order.now_ms);
        let job = Arc::new(Job::new(&self.transfer.fleet().env().clock));
        let (catalogue, transfer, options) = (self.catalogue.clone(), self.transfer.clone(), self.options.clone());
        let of_run = job.clone();
        let mut run = TaskSet::new(self.transfer.runtime());
        run.spawn(async move { perform(catalogue, &transfer, order, &options.holder, &of_run).await });
        tracing::debug!(task = name(task), "begins");
        UnderWay { task, job, run, started_ms, is_interrupted: false, is_given_up: false }
    }

    fn progress(&self, job: &Job) -> Progress {
        // Without the names of files rather than not at all.
        job.progress_with_paths(&*self.catalogue).unwrap_or_else(|_| job.progress())
    }

    fn note(&self, record: &mut CareRecord, now_ms: u64) {
        record.updated_ms = now_ms;
        if let Err(error) = record.store(&*self.catalogue) {
            tracing::warn!("the record of this worker could not be written: {error}");
        }
    }
}

fn take_ended(under_way: &mut Option<UnderWay>) -> Option<(UnderWay, Result<Done, CareError>)> {
    let outcome = match under_way.as_mut()?.run.try_join_next()? {
        Ok(outcome) => outcome,
        Err(stopped) => stopped.go_on(),
    };
    Some((under_way.take()?, outcome))
}

/// Takes in how a task ended.
fn take_in(
    ended: (UnderWay, Result<Done, CareError>),
    watch: &mut Watch,
    record: &mut CareRecord,
    at_ms: u64,
    now_ms: u64,
) {
    let (now, outcome) = ended;
    if now.is_interrupted {
        tracing::info!("{} interrupted by a more urgent task", name(now.task));
        watch.interrupted(now.task);
        return;
    }
    let (is_well, what) = match outcome {
        Ok(Done { is_well, what }) => (is_well, what),
        Err(CareError::Cancelled(_)) if now.is_given_up && now.task == Task::Convert => {
            (true, "cancelled on request".into())
        }
        // This includes a task that lost its lease: its new holder may have done the rest, or may have failed as well.
        Err(error) => (false, error.to_string()),
    };
    match is_well {
        true if what.is_empty() => tracing::debug!("{}: nothing to do", name(now.task)),
        true => tracing::info!("{}: {what}", name(now.task)),
        false => tracing::warn!("{}: {what}", name(now.task)),
    }
    watch.ended(now.task, is_well, at_ms);
    if !what.is_empty() {
        let entry =
            HistoryEntry { task: name(now.task).into(), started_ms: now.started_ms, ended_ms: now_ms, is_well, what };
        record.history.push(entry);
    }
}

fn sights(roster: &Roster) -> Vec<(NodeId, NodeState, Found)> {
    let found = |reach: &Reach| match reach {
        Reach::Answers(Space { .. }) => Found::Answering,
        Reach::OutOfReach(_) => Found::Silent,
        Reach::Refuses(_) => Found::Refusing,
        Reach::Wiped(_) => Found::Wiped,
    };
    roster.nodes.iter().map(|(id, facts)| (*id, facts.record.state, found(&facts.reach))).collect()
}

fn layout(roster: &Roster) -> Layout {
    let unit = |facts: &NodeFacts| roster.rule.unit(&facts.record.domain).to_owned();
    Layout { units: roster.nodes.iter().map(|(id, facts)| (*id, unit(facts))).collect(), rule: roster.rule }
}

fn shares(roster: &Roster, given_up: &BTreeSet<NodeId>) -> Shares {
    let takes =
        roster.nodes.iter().filter(|(id, facts)| facts.record.state == NodeState::Active && !given_up.contains(id));
    takes.map(|(id, facts)| (*id, (facts.record.weight, roster.rule.unit(&facts.record.domain).to_owned()))).collect()
}

/// Nodes that were replaced for good are not reported.
fn doubted(watch: &Watch, roster: &Roster) -> Vec<(String, Verdict)> {
    let is_replaced = |id: &NodeId| roster.nodes.get(id).is_some_and(|facts| facts.record.state == NodeState::Lost);
    let doubted = watch.verdicts().filter(|(id, verdict)| *verdict != Verdict::Sound && !is_replaced(id));
    doubted.map(|(id, verdict)| (roster.name(id), verdict)).collect()
}

fn tell(transition: Transition, roster: &Roster, timeouts: &Timeouts) {
    let (Transition::Suspected(id) | Transition::GivenUp(id) | Transition::Back(id)) = transition;
    let name = roster.name(id);
    let reach = roster.nodes.get(&id).map(|facts| &facts.reach);
    match (transition, reach) {
        (Transition::Suspected(_), Some(Reach::Wiped(_))) => {
            let seconds = timeouts.wiped_after_ms / 1000;
            tracing::warn!(
                "node {name} was deleted or emptied: unless it is back within {seconds} s, it is made anew and rebuilt"
            );
        }
        (Transition::GivenUp(_), Some(Reach::Wiped(_))) => {
            tracing::warn!("node {name} was deleted or emptied: it is made anew, and its shards are rebuilt");
        }
        (Transition::Suspected(_), Some(Reach::OutOfReach(why) | Reach::Refuses(why))) => {
            tracing::warn!("{why}; its shards do not count as lost yet");
        }
        (Transition::GivenUp(_), Some(Reach::OutOfReach(why))) => {
            tracing::warn!("{why}; it is given up, and its shards are rebuilt on other nodes");
        }
        _ => tracing::info!("node {name} answers again"),
    }
}

#[cfg(test)]
#[path = "worker_tests.rs"]
mod tests;
