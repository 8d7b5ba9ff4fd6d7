//! How many bytes are stored, for a quota.
//!
//! A list of everything may take minutes, and those who ask wait for seconds. So one task counts for all of them, and goes on when they leave.

use super::failure::Refusal;
use super::list::{self, Found};
use super::service::Layout;
use crate::error::NodeErrorKind;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use opendal::Operator;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout};
use weft_format::ShardKey;

/// What is stored is counted again after this long, for what other processes did.
const COUNTED_FOR: Duration = Duration::from_secs(3600);

/// The first count is waited for this long: a small store is counted by then.
const FIRST_WAIT: Duration = Duration::from_secs(1);

/// The bytes that a node stores, as far as they are known. The count ends with this.
#[derive(Default)]
pub(super) struct Used(Arc<Mutex<State>>);

/// After a list that failed the next one is begun no sooner: each may be paid for, and the reason is known for this long.
const AGAIN_AFTER: Duration = Duration::from_secs(60);

#[derive(Default)]
struct State {
    count: Option<Count>,
    /// When the last list failed, and why; none if it did not.
    failed: Option<(Instant, Arc<opendal::Error>)>,
    counting: Option<Counting>,
}

#[derive(Clone, Copy)]
struct Count {
    at: Instant,
    bytes: u64,
}

/// A list that a task makes.
struct Counting {
    task: AbortHandle,
    ended: Shared<BoxFuture<'static, Result<(), Arc<opendal::Error>>>>,
    /// The bytes of shards that were stored meanwhile, and none of those that were removed: the list may have them or not.
    changes: HashMap<ShardKey, u64>,
}

impl Used {
    /// Bytes stored, by the last count; `None`: there is none yet.
    pub(super) async fn bytes(&self, operator: &Operator, layout: Layout) -> Result<Option<u64>, Arc<opendal::Error>> {
        let ended = {
            let mut state = self.0.lock();
            if state.count.is_none_or(|count| count.at.elapsed() >= COUNTED_FOR) {
                self.begin(&mut state, operator, layout);
            }
            match (state.count, &state.counting, &state.failed) {
                (None, Some(counting), _) => counting.ended.clone(),
                (None, None, Some((_, why))) => return Err(Arc::clone(why)),
                (count, _, _) => return Ok(count.map(|count| count.bytes)),
            }
        };
        if let Ok(ended) = timeout(FIRST_WAIT, ended).await {
            ended?;
        }
        Ok(self.0.lock().count.map(|count| count.bytes))
    }

    /// Counts in a task, unless one does, or has failed just now.
    fn begin(&self, state: &mut State, operator: &Operator, layout: Layout) {
        // One that ended and is still here ended with the runtime that it was on.
        if state.counting.as_ref().is_some_and(|counting| !counting.task.is_finished()) {
            return;
        }
        if state.failed.as_ref().is_some_and(|(at, _)| at.elapsed() < AGAIN_AFTER) {
            return;
        }
        let (operator, used, at) = (operator.clone(), Arc::clone(&self.0), Instant::now());
        let task = tokio::spawn(async move {
            let found = list::everything(&operator, layout).await;
            let mut state = used.lock();
            let changes = state.counting.take().map(|counting| counting.changes).unwrap_or_default();
            match found {
                Ok(found) => {
                    state.count = Some(Count { at, bytes: bytes_of(&found, &changes) });
                    state.failed = None;
                    Ok(())
                }
                Err(error) => {
                    let error = Arc::new(error);
                    tracing::warn!("the stored bytes cannot be counted for the quota: {error}");
                    state.failed = Some((Instant::now(), Arc::clone(&error)));
                    Err(error)
                }
            }
        });
        state.counting = Some(Counting {
            task: task.abort_handle(),
            ended: task.map(|ended| ended.unwrap_or_else(|_| Err(Arc::new(cut_off())))).boxed().shared(),
            changes: HashMap::new(),
        });
    }

    /// By a list that was made just now.
    pub(super) fn is_counted(&self, found: &Found) {
        self.0.lock().count = Some(Count { at: Instant::now(), bytes: bytes_of(found, &HashMap::new()) });
    }

    /// A shard was stored.
    pub(super) fn add(&self, key: ShardKey, bytes: u64) {
        self.change(key, bytes, |used| used.saturating_add(bytes));
    }

    /// A shard was removed.
    pub(super) fn subtract(&self, key: ShardKey, bytes: u64) {
        self.change(key, 0, |used| used.saturating_sub(bytes));
    }

    fn change(&self, key: ShardKey, bytes_then: u64, changed: impl FnOnce(u64) -> u64) {
        let State { count, counting, .. } = &mut *self.0.lock();
        if let Some(count) = count {
            count.bytes = changed(count.bytes);
        }
        if let Some(counting) = counting {
            counting.changes.insert(key, bytes_then);
        }
    }
}

impl Drop for Used {
    fn drop(&mut self) {
        if let Some(counting) = &self.0.lock().counting {
            counting.task.abort();
        }
    }
}

fn bytes_of(found: &Found, changes: &HashMap<ShardKey, u64>) -> u64 {
    let unchanged = found.shards.iter().filter(|shard| !changes.contains_key(&shard.key));
    unchanged.map(|shard| shard.bytes).chain(changes.values().copied()).sum()
}

fn cut_off() -> opendal::Error {
    let detail = "the count of stored bytes was cut off: ask again".to_owned();
    Refusal { kind: NodeErrorKind::Busy, detail }.into()
}
