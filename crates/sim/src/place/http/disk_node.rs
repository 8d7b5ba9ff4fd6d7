//! The disk of a place, as its daemon has it: each call takes a moment before and after it does its work, in which the daemon may be killed or
//! its client go.

use crate::ambush::{ProcessId, Step};
use crate::place::{Place, State};
use crate::scheduler::running;
use async_trait::async_trait;
use bytes::Bytes;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use weft_env::{Clock, Env};
use weft_format::ShardKey;
use weft_nodes::memory::ABOUT;
use weft_nodes::node::{Capability, Node, NodeIdentity, Page, ShardStat, Space};
use weft_nodes::{About, Kind, NodeAt, NodeError, NodeUrl, UrlError};

/// A disk takes up to so long, twice for each call.
const DISK_US_MAX: u64 = 1_000;

/// A disk, and its daemon.
#[derive(Clone)]
pub(super) struct Disk {
    place: Arc<Place>,
    daemon: ProcessId,
    clock: Arc<dyn Clock>,
}

/// Where the disk of `place` is.
pub(super) fn url(place: &Place) -> NodeUrl {
    NodeUrl::elsewhere(ABOUT.name, format!("memory:{}", place.name()))
}

impl Disk {
    pub(super) fn new(place: Arc<Place>, daemon: ProcessId, env: &Env) -> Self {
        Self { place, daemon, clock: env.clock.clone() }
    }

    async fn work<T: Send>(
        &self,
        work: impl FnOnce(&Place, &mut State, u64) -> Result<T, NodeError> + Send,
    ) -> Result<T, NodeError> {
        self.pause().await;
        let done = self.place.perform(work);
        self.pause().await;
        done
    }

    /// The same, of what changes something: there a fault may wait.
    async fn change(
        &self,
        step: Step,
        work: impl FnOnce(&Place, &mut State, u64) -> Result<(), NodeError> + Send,
    ) -> Result<(), NodeError> {
        self.pause().await;
        running().reach(self.daemon, &[step], false);
        let done = self.place.perform(work);
        running().reach(self.daemon, &[step], true);
        self.pause().await;
        done
    }

    async fn pause(&self) {
        let time = Duration::from_micros(running().below(DISK_US_MAX));
        self.clock.sleep(time).await;
    }
}

#[async_trait]
impl Kind for Disk {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn parse(&self, _: &str, _: &str) -> Result<NodeUrl, UrlError> {
        Err(UrlError::Empty)
    }

    fn open(&self, _: &NodeAt<'_>) -> Result<Arc<dyn Node>, NodeError> {
        Ok(Arc::new(self.clone()))
    }

    async fn create(&self, node: &NodeAt<'_>) -> Result<Arc<dyn Node>, NodeError> {
        self.open(node)
    }

    fn probe(&self, _: &NodeUrl) -> Result<Option<NodeIdentity>, NodeError> {
        Ok((!self.place.is_wiped()).then(|| self.place.known_as()))
    }
}

#[async_trait]
impl Node for Disk {
    fn capability(&self) -> &Capability {
        &weft_nodes::kinds::LOCAL
    }

    async fn put(&self, key: ShardKey, parts: &[Bytes]) -> Result<(), NodeError> {
        let bytes = Bytes::from(parts.concat());
        let put = self.change(Step::Put, |place, state, now_ms| place.put(state, key, &bytes, now_ms)).await;
        // Only a daemon whose machine has power comes here.
        if put.is_ok() {
            self.place.synced(key);
        }
        put
    }

    async fn get(&self, key: ShardKey, range: Range<u64>) -> Result<Bytes, NodeError> {
        self.work(|place, state, _| place.get(state, key, &range)).await
    }

    async fn stat(&self, key: ShardKey) -> Result<ShardStat, NodeError> {
        self.work(|place, state, _| place.stat(state, key)).await
    }

    async fn list(&self, after: Option<ShardKey>, limit: usize) -> Result<Page, NodeError> {
        self.work(|_, state, _| Ok(state.list(after, limit))).await
    }

    async fn remove(&self, key: ShardKey) -> Result<(), NodeError> {
        self.change(Step::Remove, |place, state, _| {
            place.remove(state, key);
            Ok(())
        })
        .await
    }

    async fn space(&self) -> Result<Space, NodeError> {
        self.work(|_, state, _| Ok(state.space())).await
    }

    async fn identity(&self) -> Result<NodeIdentity, NodeError> {
        self.work(|place, _, _| Ok(place.known_as())).await
    }
}
