//! A member's own place as its keeper uses it: the disk takes its time, while others are answered from what is noted of it.

use super::VOLUME;
use super::line::{Machines, Noise, steps_of_put};
use super::removals::{is_needed_copy, why_needed};
use crate::ambush::{ProcessId, Step};
use crate::scheduler::{clock_of, running};
use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use weft_format::{NodeIdentity, ShardKey};
use weft_nodes::NodeError;
use weft_nodes::node::{Capability, Node, Page, ShardStat, Space};

/// See the module's head.
pub struct OwnPlace {
    process: ProcessId,
    place: Arc<dyn Node>,
    noise: Arc<Mutex<Noise>>,
    /// All there are, and which of them this is.
    machines: Machines,
    at: usize,
}

impl OwnPlace {
    pub fn new(
        process: ProcessId,
        place: Arc<dyn Node>,
        noise: Arc<Mutex<Noise>>,
        machines: Machines,
        at: usize,
    ) -> Self {
        Self { process, place, noise, machines, at }
    }

    async fn take_time(&self) {
        let disk_ms_max = self.noise.lock().disk_ms_max;
        if disk_ms_max > 0 {
            let time = Duration::from_millis(running().below(disk_ms_max));
            clock_of(self.process).sleep(time).await;
        }
    }
}

#[async_trait]
impl Node for OwnPlace {
    fn capability(&self) -> &Capability {
        self.place.capability()
    }

    async fn put(&self, key: ShardKey, parts: &[Bytes]) -> Result<(), NodeError> {
        let steps = steps_of_put(key);
        running().reach(self.process, &steps, false);
        self.take_time().await;
        let done = self.place.put(key, parts).await;
        running().reach(self.process, &steps, true);
        done
    }

    async fn get(&self, key: ShardKey, range: Range<u64>) -> Result<Bytes, NodeError> {
        self.take_time().await;
        self.place.get(key, range).await
    }

    async fn stat(&self, key: ShardKey) -> Result<ShardStat, NodeError> {
        self.place.stat(key).await
    }

    async fn list(&self, after: Option<ShardKey>, limit: usize) -> Result<Page, NodeError> {
        self.place.list(after, limit).await
    }

    async fn remove(&self, key: ShardKey) -> Result<(), NodeError> {
        let is_copy = is_needed_copy(VOLUME, &self.machines.stored(), self.at, key);
        let steps: &[Step] = if is_copy { &[Step::Remove, Step::RemoveCopy] } else { &[Step::Remove] };
        running().reach(self.process, steps, false);
        self.take_time().await;
        if let Some(why) = why_needed(VOLUME, &self.machines.stored(), self.at, key) {
            running().complain(format!("m{}: {why}", self.at + 1));
        }
        running().tell(|| format!("m{} removes {key}", self.at + 1));
        let done = self.place.remove(key).await;
        running().reach(self.process, steps, true);
        done
    }

    async fn space(&self) -> Result<Space, NodeError> {
        self.place.space().await
    }

    async fn identity(&self) -> Result<NodeIdentity, NodeError> {
        self.place.identity().await
    }
}
