//! What other processes change: the servers tell who watches ranges of keys, own changes too, which are left out by their revisions.
//!
//! What changes within some milliseconds is sent on together: then the answers to own commits are there as well, as a rule. One that comes later
//! makes an own change look like that of another, which costs a question and is not wrong.

use super::Engine;
use super::protocol::{KeyValue, WatchRange};
use crate::engines::remote::failure::Failure;
use crate::kv::ChangedKeys;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use weft_env::sync::{Mutex, Sender};

/// Changes within this time are sent on together.
const GATHERING: Duration = Duration::from_millis(10);
/// After a watch has ended.
const PAUSE: Duration = Duration::from_secs(1);
/// Own changes that are remembered: those of some seconds.
const REVISIONS_MAX: usize = 4096;

/// Revisions that this process has made.
#[derive(Default)]
pub(super) struct Made {
    /// Somebody wants to know of others'.
    matter: AtomicBool,
    last: Mutex<VecDeque<i64>>,
}

impl Made {
    /// False: it has begun before.
    pub fn begin(&self) -> bool {
        !self.matter.swap(true, Ordering::AcqRel)
    }

    pub fn note(&self, revision: i64) {
        if self.matter.load(Ordering::Acquire) {
            let mut last = self.last.lock();
            if last.len() == REVISIONS_MAX {
                last.pop_front();
            }
            last.push_back(revision);
        }
    }

    /// What others have changed of these rows.
    fn without_own(&self, rows: Vec<KeyValue>) -> Vec<KeyValue> {
        let own: BTreeSet<i64> = self.last.lock().iter().copied().collect();
        rows.into_iter().filter(|row| !own.contains(&row.mod_revision)).collect()
    }
}

/// Listens until the store is closed, or nobody wants to know any more.
pub(super) async fn listen(engine: Arc<Engine>, tables: &'static [u8], heard: Sender<ChangedKeys>) {
    while !engine.is_closed.load(Ordering::Acquire) {
        match engine.listen(tables, &heard).await {
            Ok(()) => return,
            Err(failure) => tracing::debug!(?failure, "changes of others are not heard; they show by time"),
        }
        if !engine.goes_on(PAUSE).await {
            return;
        }
    }
}

impl Engine {
    /// Until nobody wants to know any more.
    async fn listen(&self, tables: &[u8], heard: &Sender<ChangedKeys>) -> Result<(), Failure> {
        let ranges = tables.iter().map(|table| {
            let (key, range_end) = self.layout.range(&[*table], &[*table + 1]);
            WatchRange { key, range_end }
        });
        let mut answers = self.server.watch(ranges.collect()).await?;
        let mut rows: Vec<KeyValue> = Vec::new();
        while !self.is_closed.load(Ordering::Acquire) {
            let answer = tokio::select! {
                answer = answers.message() => answer.map_err(|status| Failure::Lost(status.message().to_owned()))?,
                () = self.server.env.clock.sleep(GATHERING), if !rows.is_empty() => {
                    let others = self.made.without_own(std::mem::take(&mut rows));
                    let keys: BTreeSet<Vec<u8>> = others.iter().filter_map(|row| self.layout.changed(&row.key)).collect();
                    if !keys.is_empty() && heard.send(keys.into_iter().collect()).is_err() {
                        return Ok(());
                    }
                    continue;
                }
                () = self.closing.notified() => return Ok(()),
            };
            let answer = answer.ok_or_else(|| Failure::Lost("it ended the watch".into()))?;
            if answer.is_canceled {
                return Err(Failure::Lost(answer.why));
            }
            rows.extend(answer.events.into_iter().filter_map(|event| event.row));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_revisions_are_left_out_as_far_as_they_are_remembered() {
        let row = |mod_revision| KeyValue { mod_revision, ..KeyValue::default() };
        let made = Made::default();
        made.note(1);
        assert_eq!(made.without_own(vec![row(1)]), [row(1)], "nobody wants to know yet");
        assert!(made.begin() && !made.begin());
        for revision in 2..=REVISIONS_MAX as i64 + 2 {
            made.note(revision);
        }
        let last = REVISIONS_MAX as i64 + 2;
        assert_eq!(made.without_own(vec![row(2), row(3), row(last), row(last + 1)]), [row(2), row(last + 1)]);
    }
}
