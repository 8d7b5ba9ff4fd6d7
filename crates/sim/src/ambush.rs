//! A fault that waits for its process at a certain step, and strikes just before or just after it: at a commit, for example, when all
//! that the commit is about is done. Faults between any two steps meet such a moment seldom.

use std::time::Duration;

/// A simulated process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId(pub u32);

/// What a process is about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It commits metadata.
    Commit,
    /// It commits metadata, records of segments among it.
    SegmentCommit,
    /// It commits metadata, records of segments and pages of the journal among it: what an fsync put there is in a segment now.
    JournalCommit,
    /// It commits metadata, the record of a segment that is as long as any among it: what follows in the file is in another.
    WholeSegmentCommit,
    /// It has a node store something.
    Put,
    /// It has a node store a shard of a segment.
    ShardPut,
    /// It has a node remove a shard.
    Remove,
    /// It has a node list what it has.
    List,
    /// A member removes a shard that another has as well.
    RemoveCopy,
    /// It has a member store the record of an object.
    Record,
}

/// What happens to the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stroke {
    /// It is killed.
    Kill,
    /// It stops, and goes on after this time.
    Stop(Duration),
    /// The disk has no room for what it commits. The next commit of a segment succeeds, and then it is killed.
    Refuse,
    /// It goes on, and no node answers anybody for this time.
    Silence(Duration),
}

/// See the module's head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ambush {
    /// For whom: the first of these that comes.
    pub processes: Vec<ProcessId>,
    /// Where.
    pub step: Step,
    /// Behind the step, not before it.
    pub is_behind: bool,
    /// The number of such steps that it lets pass.
    pub passed_by: u64,
    /// What it meets.
    pub stroke: Stroke,
}

impl Ambush {
    /// The process is at a step, which may be of several kinds. Is it struck?
    pub fn meets(&mut self, process: ProcessId, steps: &[Step], is_behind: bool) -> bool {
        if !self.processes.contains(&process) || !steps.contains(&self.step) || self.is_behind != is_behind {
            return false;
        }
        let is_struck = self.passed_by == 0;
        self.passed_by = self.passed_by.saturating_sub(1);
        is_struck
    }
}

#[cfg(test)]
#[path = "ambush_tests.rs"]
mod tests;
