//! A place as one process sees it: a node, reached by messages of the simulator's, or over HTTP by the product's own client.

use crate::ambush::{ProcessId, Step};
use crate::place::{MESSAGE_US_MAX, Place, State};
use crate::scheduler::{Scheduler, running};
use async_trait::async_trait;
use bytes::Bytes;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use weft_format::ShardKey;
use weft_format::records::{OPENINGS, is_replica};
use weft_nodes::NodeError;
use weft_nodes::node::{Capability, Node, NodeIdentity, Page, ShardStat, Space};

const CAPABILITY: Capability = weft_nodes::kinds::LOCAL;
/// A call takes no longer, whatever the node does: that is the longest deadline of `weft_transfer`, and some time to see it.
pub(crate) const LONGEST_CALL: Duration = Duration::from_secs(1_300);
pub(crate) const LOOKS_AGAIN: Duration = Duration::from_secs(60);

/// A place as one process sees it. Where it stores or removes something, a fault may wait.
pub struct SimNode {
    place: Arc<Place>,
    way: Arc<dyn Node>,
    process: ProcessId,
}

impl SimNode {
    /// As `process` sees it.
    #[must_use]
    pub fn seen_by(place: Arc<Place>, process: ProcessId) -> Arc<dyn Node> {
        let way = match place.machine() {
            Some(machine) => machine.client(&place, process),
            None => Arc::new(Messages { place: place.clone(), process }),
        };
        Arc::new(Self { place, way, process })
    }

    async fn change(&self, steps: &[Step], done: impl Future<Output = Result<(), NodeError>>) -> Result<(), NodeError> {
        running().reach(self.process, steps, false);
        let done = done.await;
        running().reach(self.process, steps, true);
        done
    }
}

#[async_trait]
impl Node for SimNode {
    fn capability(&self) -> &Capability {
        &CAPABILITY
    }

    fn in_background(&self) -> Option<Arc<dyn Node>> {
        Some(Arc::new(Self { place: self.place.clone(), way: self.way.in_background()?, process: self.process }))
    }

    async fn put(&self, key: ShardKey, parts: &[Bytes]) -> Result<(), NodeError> {
        let is_shard = key.segment != OPENINGS && !is_replica(key.segment);
        let steps: &[Step] = if is_shard { &[Step::Put, Step::ShardPut] } else { &[Step::Put] };
        self.change(steps, self.way.put(key, parts)).await?;
        self.place.put_was_answered(key);
        Ok(())
    }

    async fn get(&self, key: ShardKey, range: Range<u64>) -> Result<Bytes, NodeError> {
        self.way.get(key, range).await
    }

    async fn stat(&self, key: ShardKey) -> Result<ShardStat, NodeError> {
        self.way.stat(key).await
    }

    async fn list(&self, after: Option<ShardKey>, limit: usize) -> Result<Page, NodeError> {
        running().reach(self.process, &[Step::List], false);
        self.way.list(after, limit).await
    }

    async fn remove(&self, key: ShardKey) -> Result<(), NodeError> {
        self.change(&[Step::Remove], self.way.remove(key)).await
    }

    async fn space(&self) -> Result<Space, NodeError> {
        self.way.space().await
    }

    async fn identity(&self) -> Result<NodeIdentity, NodeError> {
        self.way.identity().await
    }
}

/// A request is a message, and so is its answer.
struct Messages {
    place: Arc<Place>,
    process: ProcessId,
}

impl Messages {
    /// Sends a request; what it does is done when it arrives, and goes on if the answer is no longer awaited. What a put `stores` is durable when
    /// it is answered; a machine that loses its power before does not answer.
    async fn call<T: Send + 'static>(
        &self,
        stores: Option<ShardKey>,
        work: impl Fn(&Place, &mut State, u64) -> Result<T, NodeError> + Send + 'static,
    ) -> Result<T, NodeError> {
        let (tell, told) = oneshot::channel();
        {
            let scheduler = running();
            let (place, process) = (self.place.clone(), self.process);
            let delay = place.delay();
            let (lost, doubled) = place.noise();
            let is_doubled = scheduler.chance(doubled);
            let mut tell = Some(tell);
            let arrive = move |is_first: bool| {
                let scheduler = running();
                if !place.hears(process) || scheduler.chance(lost) {
                    tell.take().into_iter().for_each(|tell| is_given_up(&scheduler, process, tell));
                    return;
                }
                let done = place.perform(&work);
                let stored = stores.filter(|_| done.is_ok());
                let sync = move |place: &Place| stored.iter().for_each(|key| place.synced(*key));
                if !is_first {
                    return sync(&place);
                }
                let tell = tell.take();
                if !place.is_heard_by(process) || scheduler.chance(lost) {
                    sync(&place);
                    tell.into_iter().for_each(|tell| is_given_up(&scheduler, process, tell));
                    return;
                }
                let (place, power_cuts) = (place.clone(), place.power_cuts());
                scheduler.after(Duration::from_micros(scheduler.below(MESSAGE_US_MAX)), move || {
                    if place.power_cuts() != power_cuts {
                        tell.into_iter().for_each(|tell| is_given_up(&running(), process, tell));
                        return;
                    }
                    sync(&place);
                    if let Some(tell) = tell {
                        // Nobody may wait any more.
                        let _ = tell.send(done);
                    }
                });
            };
            if is_doubled {
                let mut arrive = arrive;
                scheduler.after(delay, move || {
                    arrive(true);
                    let again = running().below(2_000_000);
                    running().after(Duration::from_micros(again), move || arrive(false));
                });
            } else {
                let mut arrive = arrive;
                scheduler.after(delay, move || arrive(true));
            }
        }
        match told.await {
            Ok(answer) => answer,
            Err(_) => std::future::pending().await,
        }
    }
}

/// Nobody ever answers, and nobody says so. Complains of who still waits when each call of the product has ended.
fn is_given_up<T: 'static>(scheduler: &Scheduler, process: ProcessId, tell: oneshot::Sender<T>) {
    look_later(scheduler, LONGEST_CALL, move |scheduler| {
        let is_over = tell.is_closed() || !scheduler.is_alive(process);
        if !is_over && scheduler.has_run_for(process, LONGEST_CALL) {
            scheduler.complain(format!("{process:?} waits for a node for {} s", LONGEST_CALL.as_secs()));
        }
        is_over
    });
}

/// Has `is_over` asked after `time`, and again after each minute until it says so.
fn look_later(scheduler: &Scheduler, time: Duration, is_over: impl Fn(&Scheduler) -> bool + 'static) {
    scheduler.after(time, move || {
        let scheduler = running();
        if is_over(&scheduler) {
            // What is dropped would wake who waits.
            std::mem::forget(is_over);
        } else {
            look_later(&scheduler, LOOKS_AGAIN, is_over);
        }
    });
}

#[async_trait]
impl Node for Messages {
    fn capability(&self) -> &Capability {
        &CAPABILITY
    }

    async fn put(&self, key: ShardKey, parts: &[Bytes]) -> Result<(), NodeError> {
        let bytes = Bytes::from(parts.concat());
        self.call(Some(key), move |place, state, now_ms| place.put(state, key, &bytes, now_ms)).await
    }

    async fn get(&self, key: ShardKey, range: Range<u64>) -> Result<Bytes, NodeError> {
        self.call(None, move |place, state, _| place.get(state, key, &range)).await
    }

    async fn stat(&self, key: ShardKey) -> Result<ShardStat, NodeError> {
        self.call(None, move |place, state, _| place.stat(state, key)).await
    }

    async fn list(&self, after: Option<ShardKey>, limit: usize) -> Result<Page, NodeError> {
        self.call(None, move |_, state, _| Ok(state.list(after, limit))).await
    }

    async fn remove(&self, key: ShardKey) -> Result<(), NodeError> {
        self.call(None, move |place, state, _| {
            place.remove(state, key);
            Ok(())
        })
        .await
    }

    async fn space(&self) -> Result<Space, NodeError> {
        self.call(None, |_, state, _| Ok(state.space())).await
    }

    async fn identity(&self) -> Result<NodeIdentity, NodeError> {
        self.call(None, |place, _, _| Ok(place.known_as())).await
    }
}
