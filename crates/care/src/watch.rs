//! Decides which task a volume needs, and when. Pure: takes observations of nodes, outcomes of tasks and the time; returns transitions of
//! nodes and the next task. Times are of a monotonic clock.
//!
//! ```text
//! silent:   suspected at once, and people are told; given up after `give_up_after_ms`: rebuilt elsewhere, but never forgotten
//! refuses:  suspected, and never given up: nothing is known of the state of its shards
//! wiped:    nothing of the node is left on its own disk: rebuilt after `wiped_after_ms`
//! answers:  used again; shards that were not rebuilt meanwhile count as before
//! ```
//!
//! A repair is due when the losses, the nodes' failure units or the rule differ from those at the start of the last repair, or when a segment is marked. A conversion is due
//! when people request one, and from time to time where there are age rules. A task that could not do everything is retried after a
//! growing delay, and as soon as a node is back. Between two repairs that marks alone caused, other tasks that are due have as long as the
//! first of them took, ten minutes at most, since reads of a node that goes bad may mark segments without end. Balance is due when the shares of nodes differ from those at the start of the last
//! balance, and once a day because writing and deleting shift it too. It runs after repair, and not while a node is suspected.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use weft_format::NodeId;
use weft_format::records::{NodeState, PlacementRule};
use weft_format::removal::GRACE_MS;

/// Timeouts and intervals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// From one look at the nodes to the next.
    pub look_every_ms: u64,
    /// A node that is silent for so long is given up.
    pub give_up_after_ms: u64,
    /// A node that is wiped for so long is given up. It leaves time to move a folder away and back.
    pub wiped_after_ms: u64,
    /// Delay before the first retry of a task that could not do everything; it doubles with each retry.
    pub retry_after_ms: u64,
    /// From the end of a scrub to the next; `None`: never.
    pub scrub_every_ms: Option<u64>,
    /// From the end of a collection to the next; each looks twice, since an item is removed only when it is seen again.
    pub collect_every_ms: u64,
    /// From one look at the balance to the next, where no node has come, gone or changed; `None`: never.
    pub balance_every_ms: Option<u64>,
    /// From the end of a conversion to the next, where there are age rules.
    pub convert_every_ms: u64,
    /// How often previous generations are looked at, while there are any.
    pub discard_every_ms: u64,
}

impl Default for Timeouts {
    /// A quarter of an hour is longer than a machine takes to restart. Orphans are few, and finding them lists all shards. Age rules
    /// speak of days.
    fn default() -> Self {
        Self {
            look_every_ms: 1_000,
            give_up_after_ms: 15 * 60 * 1000,
            wiped_after_ms: 4_000,
            retry_after_ms: 30_000,
            scrub_every_ms: Some(30 * 86_400 * 1000),
            collect_every_ms: 86_400 * 1000,
            balance_every_ms: Some(86_400 * 1000),
            convert_every_ms: 3_600_000,
            discard_every_ms: 600_000,
        }
    }
}

/// The longest delay between retries.
const RETRY_MS_MAX: u64 = 3_600_000;

/// After a repair that marks caused, other tasks have no longer than this: what was marked meanwhile may survive no further loss.
const OTHERS_MAX_MS: u64 = 600_000;

/// A repair is retried at once when a node is back that was away for so long. Shorter absences do not count: the node may flap.
const AWAY_MS: u64 = 3_000;

/// How a node was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// It answers.
    Answering,
    /// It does not, or another does in its place.
    Silent,
    /// It is there and refuses this user: never given up, since it has no defect.
    Refusing,
    /// Its disk is there, and nothing of the node is left.
    Wiped,
}

/// The verdict on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It answers.
    Sound,
    /// It is silent or wiped, for a short time so far.
    Suspected,
    /// Its shards are rebuilt elsewhere.
    GivenUp,
}

/// A change of the verdict on a node, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transition {
    /// It has stopped answering.
    Suspected(NodeId),
    /// It was silent for too long.
    GivenUp(NodeId),
    /// It answers again.
    Back(NodeId),
}

/// A task of the worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Replace a wiped node by a new one.
    Renew(NodeId),
    /// Rebuild lost shards and move misplaced ones.
    Repair,
    /// Bring shards to nodes that hold less than their share.
    Balance,
    /// Remove previous generations whose time is over.
    Discard,
    /// Give segments the code that their files' policies want.
    Convert,
    /// Read everything.
    Scrub,
    /// Remove unreferenced items.
    Collect,
}

/// The result of one look.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen<'s> {
    /// How all nodes were found.
    pub nodes: &'s [(NodeId, NodeState, Found)],
    /// Is a segment marked?
    pub is_marked: bool,
    /// Was a conversion asked for that has not ended yet?
    pub is_conversion_asked: bool,
    /// Are files to have another code as they age?
    pub has_age_rules: bool,
    /// Are previous generations kept?
    pub has_retained: bool,
}

/// When a task that could not do all of it is tried again.
#[derive(Clone, Copy, Debug, Default)]
struct Retry {
    failures: u32,
    at_ms: Option<u64>,
}

impl Retry {
    /// `after_ms`: after the first failure; twice as long after each other.
    fn ended(&mut self, is_well: bool, after_ms: u64, now_ms: u64) {
        if is_well {
            *self = Self::default();
            return;
        }
        let wait_ms = after_ms.saturating_mul(1 << self.failures.min(20)).min(RETRY_MS_MAX);
        *self = Self { failures: self.failures + 1, at_ms: Some(now_ms + wait_ms) };
    }

    /// Is something left to be done of it?
    fn is_wanted(&self) -> bool {
        self.at_ms.is_some()
    }

    /// Has it rested long enough?
    fn may_begin(&self, now_ms: u64) -> bool {
        self.at_ms.is_none_or(|at_ms| now_ms >= at_ms)
    }
}

/// One node's history.
#[derive(Clone, Copy, Debug)]
struct Watched {
    state: NodeState,
    verdict: Verdict,
    found: Found,
    /// Since when it was found so.
    since_ms: u64,
    /// A new one was made in its place, or could not be.
    is_renewed: bool,
}

/// The cause of a repair: nodes with shards that are lost or to be moved.
type Losses = BTreeMap<NodeId, NodeState>;

/// Where nodes are: the failure unit of each, and the rule for units. What is well placed by one may be misplaced by another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// By node.
    pub units: BTreeMap<NodeId, String>,
    /// The volume's rule.
    pub rule: PlacementRule,
}

/// The weight and the domain of each node that takes new shards; they decide on its share.
pub type Shares = BTreeMap<NodeId, (u64, String)>;

/// The watch over a volume.
#[derive(Clone, Debug)]
pub struct Watch {
    timeouts: Timeouts,
    nodes: BTreeMap<NodeId, Watched>,
    is_marked: bool,
    is_conversion_asked: bool,
    has_age_rules: bool,
    /// Since when there are previous generations.
    retained_since_ms: Option<u64>,
    layout: Layout,
    /// The losses and the layout at the last repair's beginning; `None`: there was none yet.
    repaired: Option<(Losses, Layout)>,
    repair_retry: Retry,
    /// When the repair began that marks alone caused, if it did.
    marks_began_ms: Option<u64>,
    /// Until then marks alone cause no other while another task is due.
    others_until_ms: u64,
    /// When nodes were looked at last.
    seen_ms: u64,
    convert_retry: Retry,
    convert_ms: u64,
    discard_ms: u64,
    scrub_ms: Option<u64>,
    collect_ms: u64,
    /// Was the last collection the first look of two?
    is_seen_once: bool,
    shares: Shares,
    /// The shares at the beginning of the balance under way, and of the last that ended.
    balancing: Shares,
    balanced: Option<Shares>,
    balance_ms: u64,
}

impl Watch {
    /// Begins to watch. `scrubbed_before_ms`: how long ago the last scrub ended.
    pub fn new(timeouts: Timeouts, scrubbed_before_ms: Option<u64>, now_ms: u64) -> Self {
        let scrub_ms = timeouts
            .scrub_every_ms
            .map(|every_ms| now_ms + every_ms.saturating_sub(scrubbed_before_ms.unwrap_or_default().min(every_ms)));
        Self {
            timeouts,
            nodes: BTreeMap::new(),
            is_marked: false,
            is_conversion_asked: false,
            has_age_rules: false,
            retained_since_ms: None,
            layout: Layout::default(),
            repaired: None,
            repair_retry: Retry::default(),
            marks_began_ms: None,
            others_until_ms: now_ms,
            seen_ms: now_ms,
            convert_retry: Retry::default(),
            convert_ms: now_ms,
            discard_ms: now_ms,
            scrub_ms,
            collect_ms: now_ms + timeouts.collect_every_ms,
            is_seen_once: false,
            shares: Shares::new(),
            balancing: Shares::new(),
            balanced: None,
            balance_ms: now_ms,
        }
    }

    /// Takes in the result of a look.
    pub fn see(&mut self, seen: Seen<'_>, now_ms: u64) -> Vec<Transition> {
        let mut transitions = Vec::new();
        self.seen_ms = now_ms;
        let Seen { nodes, is_marked, is_conversion_asked, has_age_rules, has_retained } = seen;
        (self.is_marked, self.is_conversion_asked) = (is_marked, is_conversion_asked);
        self.has_age_rules = has_age_rules;
        self.retained_since_ms = has_retained.then(|| self.retained_since_ms.unwrap_or(now_ms));
        let present: BTreeSet<NodeId> = nodes.iter().map(|(id, ..)| *id).collect();
        self.nodes.retain(|id, _| present.contains(id));
        for (id, state, found) in nodes {
            let fresh =
                Watched { state: *state, verdict: Verdict::Sound, found: *found, since_ms: now_ms, is_renewed: false };
            let watched = self.nodes.entry(*id).or_insert(fresh);
            let away_ms = if watched.found == Found::Answering { 0 } else { now_ms - watched.since_ms };
            if watched.found != *found {
                (watched.found, watched.since_ms) = (*found, now_ms);
            }
            watched.state = *state;
            let timeout_ms = match found {
                Found::Answering | Found::Refusing => u64::MAX,
                Found::Silent => self.timeouts.give_up_after_ms,
                Found::Wiped => self.timeouts.wiped_after_ms,
            };
            let verdict = match found {
                Found::Answering => Verdict::Sound,
                Found::Refusing => Verdict::Suspected,
                // Between silence and being wiped nothing is forgiven.
                _ if watched.verdict == Verdict::GivenUp || now_ms - watched.since_ms >= timeout_ms => Verdict::GivenUp,
                _ => Verdict::Suspected,
            };
            // The repair may have lacked this node.
            if verdict == Verdict::Sound && away_ms >= AWAY_MS {
                self.repair_retry.at_ms = self.repair_retry.at_ms.map(|at_ms| at_ms.min(now_ms));
            }
            // A node that the user gave up is not reported.
            if verdict != watched.verdict && *state != NodeState::Lost {
                transitions.push(match verdict {
                    Verdict::Sound => Transition::Back(*id),
                    Verdict::Suspected => Transition::Suspected(*id),
                    Verdict::GivenUp => Transition::GivenUp(*id),
                });
            }
            watched.verdict = verdict;
        }
        transitions
    }

    /// Takes in where nodes are.
    pub fn see_layout(&mut self, layout: Layout) {
        self.layout = layout;
    }

    /// Takes in which nodes take new shards, but for those that are given up.
    pub fn see_shares(&mut self, shares: Shares) {
        self.shares = shares;
    }

    /// The verdicts on all nodes.
    pub fn verdicts(&self) -> impl Iterator<Item = (NodeId, Verdict)> {
        self.nodes.iter().map(|(id, watched)| (*id, watched.verdict))
    }

    /// Nodes to be taken for lost.
    pub fn given_up(&self) -> BTreeSet<NodeId> {
        self.verdicts().filter(|(_, verdict)| *verdict == Verdict::GivenUp).map(|(id, _)| id).collect()
    }

    /// The next task, if none is running.
    pub fn next(&self, now_ms: u64) -> Option<Task> {
        let is_wiped = |watched: &Watched| {
            !watched.state.is_leaving()
                && watched.found == Found::Wiped
                && watched.verdict == Verdict::GivenUp
                && !watched.is_renewed
        };
        if let Some((id, _)) = self.nodes.iter().find(|(_, watched)| is_wiped(watched)) {
            return Some(Task::Renew(*id));
        }
        let may_begin = self.repair_retry.may_begin(now_ms);
        let is_wanted = self.has_changed() || self.repair_retry.is_wanted() && may_begin;
        // The renewed node will take its shards again in a moment. Until then there may be no place to rebuild them.
        let is_awaited = self.nodes.values().any(|watched| {
            !watched.state.is_leaving() && watched.found == Found::Wiped && watched.verdict == Verdict::Suspected
        });
        let may_repair = !is_awaited && !self.nodes.is_empty();
        if is_wanted && may_repair {
            return Some(Task::Repair);
        }
        let by_marks = (self.is_marked && may_begin && may_repair).then_some(Task::Repair);
        match self.next_other(now_ms) {
            Some(other) if by_marks.is_none() || now_ms < self.others_until_ms => Some(other),
            _ => by_marks,
        }
    }

    /// The next task beside repairs.
    fn next_other(&self, now_ms: u64) -> Option<Task> {
        if self.retained_since_ms.is_some() && now_ms >= self.discard_ms {
            return Some(Task::Discard);
        }
        let is_due = self.has_age_rules && now_ms >= self.convert_ms;
        let is_wanted = is_due || self.is_conversion_asked || self.convert_retry.is_wanted();
        if is_wanted && self.convert_retry.may_begin(now_ms) {
            return Some(Task::Convert);
        }
        if now_ms >= self.collect_ms {
            return Some(Task::Collect);
        }
        if self.wants_balance(now_ms) {
            return Some(Task::Balance);
        }
        self.scrub_ms.filter(|scrub_ms| now_ms >= *scrub_ms).map(|_| Task::Scrub)
    }

    fn wants_balance(&self, now_ms: u64) -> bool {
        let has_changed = self.balanced.as_ref() != Some(&self.shares);
        let is_in_doubt = self.verdicts().any(|(_, verdict)| verdict == Verdict::Suspected);
        let is_due = has_changed || now_ms >= self.balance_ms;
        self.timeouts.balance_every_ms.is_some() && is_due && !is_in_doubt && !self.shares.is_empty()
    }

    /// Must the running task give way to a more urgent one?
    pub fn interrupts(&self, task: Task, now_ms: u64) -> bool {
        match task {
            // A new repair knows all losses, and takes the most endangered segments first.
            Task::Repair => self.has_changed(),
            // Shards that moved just now are retained for a while.
            Task::Balance if self.is_before(now_ms, |task| task == Task::Discard) => {
                let is_due = |since_ms| now_ms >= since_ms + self.timeouts.discard_every_ms;
                self.retained_since_ms.is_some_and(is_due) || self.balancing != self.shares
            }
            // Dead data takes the room that moves need.
            Task::Balance if self.is_before(now_ms, |task| task != Task::Balance && task != Task::Scrub) => true,
            Task::Balance => self.balancing != self.shares,
            // It resumes where it stopped. New nodes and requests of people must not wait for days.
            Task::Scrub => self.is_before(now_ms, |task| task != Task::Scrub && task != Task::Collect),
            Task::Collect | Task::Convert => {
                self.is_before(now_ms, |task| matches!(task, Task::Renew(_) | Task::Repair))
            }
            // The repair for the other node counts its losses again.
            Task::Renew(node) => self.is_before(now_ms, |task| matches!(task, Task::Renew(other) if other != node)),
            Task::Discard => false,
        }
    }

    /// Is a task of this kind due before the running one?
    fn is_before(&self, now_ms: u64, is_more_urgent: impl Fn(Task) -> bool) -> bool {
        self.next(now_ms).is_some_and(is_more_urgent)
    }

    /// A task begins.
    pub fn begun(&mut self, task: Task) {
        match task {
            Task::Repair => {
                let is_by_marks = !self.has_changed() && !self.repair_retry.is_wanted();
                self.marks_began_ms = is_by_marks.then_some(self.seen_ms);
                self.repaired = Some((self.losses(), self.layout.clone()));
            }
            Task::Balance => self.balancing = self.shares.clone(),
            Task::Renew(_) | Task::Discard | Task::Convert | Task::Scrub | Task::Collect => {}
        }
    }

    /// A task has ended in favour of a more urgent one, which may turn out not to be wanted any more.
    pub fn interrupted(&mut self, task: Task) {
        if task == Task::Repair {
            self.repaired = None;
        }
    }

    /// A task has ended; `is_well`: nothing is left to be done. Not called for an interrupted task.
    pub fn ended(&mut self, task: Task, is_well: bool, now_ms: u64) {
        match task {
            Task::Renew(node) => {
                if let Some(watched) = self.nodes.get_mut(&node) {
                    watched.is_renewed = true;
                }
                if !is_well {
                    // Its shards may not have been counted.
                    self.repaired = None;
                }
            }
            Task::Repair => {
                self.repair_retry.ended(is_well, self.timeouts.retry_after_ms, now_ms);
                if let Some(began_ms) = self.marks_began_ms {
                    let took_ms = now_ms.saturating_sub(began_ms).min(OTHERS_MAX_MS);
                    self.others_until_ms = now_ms + took_ms.max(self.timeouts.retry_after_ms);
                }
            }
            Task::Discard => self.discard_ms = now_ms + self.timeouts.discard_every_ms,
            Task::Convert => {
                self.convert_retry.ended(is_well, self.timeouts.retry_after_ms, now_ms);
                self.convert_ms = now_ms + self.timeouts.convert_every_ms;
            }
            Task::Scrub => self.scrub_ms = self.timeouts.scrub_every_ms.map(|every_ms| now_ms + every_ms),
            Task::Balance => {
                self.balanced = Some(std::mem::take(&mut self.balancing));
                // Also after it was cancelled.
                let wait_ms = if is_well { self.timeouts.balance_every_ms.unwrap_or(u64::MAX) } else { RETRY_MS_MAX };
                self.balance_ms = now_ms.saturating_add(wait_ms);
            }
            Task::Collect => {
                self.is_seen_once = !self.is_seen_once;
                let every_ms = self.timeouts.collect_every_ms;
                self.collect_ms = now_ms + if self.is_seen_once { GRACE_MS.min(every_ms) } else { every_ms };
            }
        }
    }

    /// Is there something to repair that the last repair did not know when it began?
    fn has_changed(&self) -> bool {
        !matches!(&self.repaired, Some((losses, layout)) if *losses == self.losses() && *layout == self.layout)
    }

    fn losses(&self) -> Losses {
        let state = |watched: &Watched| match watched.verdict {
            Verdict::GivenUp => NodeState::Lost,
            _ => watched.state,
        };
        self.nodes.iter().map(|(id, watched)| (*id, state(watched))).collect()
    }
}

#[cfg(test)]
#[path = "watch_tests.rs"]
mod tests;
