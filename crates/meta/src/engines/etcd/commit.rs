//! How a batch is committed: by one transaction, which compares everything with one state.
//!
//! ```text
//! compare: the session is there; its slot has counted n; nobody has the lock; the checks; the directories as they are known here
//! success: the slot counts n + 1; the changes
//! failure: the session, the slot, the lock, and the directories as they are
//! ```
//!
//! A lost answer leaves unknown whether the transaction ran. So it is sent again: if it ran, the slot has counted. One that is given up has
//! its slot counted by hand, so that a copy of it that arrives later changes nothing.
//!
//! A session that is over is refused twice: its key is gone, and so is the lease that its slot would go with.
//!
//! A batch with more checks than a transaction takes has the *lock* first: while it is there no other commit goes through, so its checks
//! may be looked at one after another. The lock goes with the session's lease.

use super::Engine;
use super::layout::{Row, stored};
use super::plan::{Plan, delete, nested};
use super::protocol::{Compare, KeyValue, Operation, Outcome, Put, Range, Request, Than, Transaction};
use super::session::Own;
use crate::deltas::merge;
use crate::engines::remote::failure::{Failure, MISSING, TIMEOUT};
use std::time::Duration;
use weft_env::sync::Mutex;

/// A commit that others wait for takes some round trips.
const LOOK_EVERY: Duration = Duration::from_millis(5);
const BUSY: &str = "a large change of another process is not done after a minute; try again";
/// Questions of one transaction.
const QUESTIONS_MAX: usize = 100;
/// How often a commit learns that a directory's row is another one, as deltas are folded, before its operation runs again.
const BASES_MAX: usize = 8;

/// What a slot has after a commit was given up; after one that was done it is empty.
const GIVEN_UP: &[u8] = b"given up";
/// Each member is asked whether a commit was done, before its operation fails.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(10);
/// A copy of a request for the lock may come so much later.
pub(super) const LATE_MAX: Duration = Duration::from_secs(60);
/// Questions of a refusal, which leave room for changes that are transactions themselves.
const REFUSAL_QUESTIONS_MAX: usize = 60;

/// Rows of a key that are taken in at once.
const TAKEN_MAX: i64 = 1000;

/// Counts commits of a session, one at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    pub number: u32,
    /// Commits that went through it.
    pub count: i64,
    /// What is sent through it now may have run without an answer, or may still run.
    pub is_doubtful: bool,
}

/// The slots of this process's session.
#[derive(Default)]
pub(super) struct Slots(Mutex<Known>);

#[derive(Default)]
struct Known {
    made: u32,
    free: Vec<Slot>,
    /// What was last sent through them is not known to have run.
    unsettled: Vec<Slot>,
}

impl Slots {
    fn take(&self) -> Slot {
        let mut known = self.0.lock();
        known.free.pop().unwrap_or_else(|| {
            known.made += 1;
            Slot { number: known.made, count: 0, is_doubtful: false }
        })
    }

    fn give_back(&self, slot: Slot) {
        self.0.lock().free.push(Slot { is_doubtful: false, ..slot });
    }

    fn leave(&self, slot: Slot) {
        self.0.lock().unsettled.push(slot);
    }

    fn take_unsettled(&self) -> Vec<Slot> {
        std::mem::take(&mut self.0.lock().unsettled)
    }
}

/// What came of sending a commit.
enum Sent {
    Done,
    /// These are the rows of the directories and of the keys that deltas are left at.
    Refused(Vec<Option<KeyValue>>),
    /// Somebody has the lock.
    Locked(KeyValue),
}

/// A value that is changed by what it is: its row as it was read, and what takes its place.
struct Merged {
    key: Vec<u8>,
    mod_revision: i64,
    value: Vec<u8>,
    /// Rows of deltas that the value has taken in.
    deltas: Vec<Vec<u8>>,
}

impl Engine {
    /// Commits what is planned, or finds that it was.
    pub(super) async fn commit_plan(&self, plan: &Plan) -> Result<(), Failure> {
        let own = self.own().await?;
        let mut unsettled = self.slots.take_unsettled();
        while let Some(slot) = unsettled.pop() {
            if let Err(failure) = self.settle(own, slot, TIMEOUT).await {
                self.slots.leave(slot);
                unsettled.into_iter().for_each(|slot| self.slots.leave(slot));
                if failure == Failure::Fenced {
                    self.place.lose();
                }
                return Err(failure);
            }
        }
        let mut slot = self.slots.take();
        let committed = match plan.is_small() {
            true => self.commit_small(plan, own, &mut slot).await,
            false => self.commit_large(plan, own, &mut slot).await,
        };
        let committed = match committed {
            // A refusal may be of a copy, and an error may have come after it was done: a server without room says so then.
            Err(failure) if slot.is_doubtful && failure != Failure::Fenced => {
                match self.settle(own, slot, SETTLE_TIMEOUT).await {
                    Ok(true) => Ok(()),
                    Ok(false) => Err(failure),
                    Err(_) => {
                        self.slots.leave(slot);
                        // It may have been done, so what the answer to a copy says is no outcome.
                        Err(match failure {
                            Failure::Conflict | Failure::Damaged(_) => Failure::Lost("it does not answer".into()),
                            failure => failure,
                        })
                    }
                }
            }
            committed => {
                self.slots.give_back(slot);
                committed
            }
        };
        match &committed {
            Ok(()) => {
                self.forget_bases(&plan.written);
                self.note_waiting(plan.deltas.iter().map(|(key, _)| key.clone()));
            }
            Err(Failure::Fenced) => self.place.lose(),
            Err(_) => {}
        }
        committed
    }

    async fn commit_small(&self, plan: &Plan, own: Own, slot: &mut Slot) -> Result<(), Failure> {
        let deadline = self.server.env.clock.now() + TIMEOUT;
        let mut bases: Vec<Vec<u8>> = plan.directories.iter().map(|check| self.base(check)).collect();
        let mut rounds = 0;
        loop {
            let merged = self.merged(plan).await?;
            let mut checks = plan.checks.clone();
            checks.push(Compare::is_absent(self.layout.lock()));
            self.check_rows(plan, &bases, &merged, &mut checks);
            let mut changes = plan.changes.clone();
            self.change_rows(plan, own, *slot, merged, &mut changes);
            match self.send(plan, own, slot, checks, nested(changes)).await? {
                Sent::Done => return Ok(()),
                Sent::Locked(_) if self.server.env.clock.now() > deadline => {
                    return Err(Failure::Failed(BUSY.into()));
                }
                Sent::Locked(lock) => {
                    self.free_lock_of(own, &lock).await?;
                    self.server.env.clock.sleep(LOOK_EVERY).await;
                }
                Sent::Refused(rows) => {
                    rounds += 1;
                    let has_learned = self.learn(plan, &mut bases, rows)?;
                    // What is merged was read before it was sent.
                    let may_go = has_learned || !plan.merged.is_empty();
                    if rounds > BASES_MAX || !may_go {
                        return self.refuse(plan).await;
                    }
                }
            }
        }
    }

    /// With the lock.
    async fn commit_large(&self, plan: &Plan, own: Own, slot: &mut Slot) -> Result<(), Failure> {
        let _turn = self.locking.lock().await;
        // Also if it is dropped midway.
        self.expect_late_lock();
        let committed = match self.lock(own).await {
            Ok(lock) => {
                let committed = self.commit_locked(plan, own, slot, lock).await;
                match &committed {
                    Ok(()) | Err(Failure::Lost(_) | Failure::Fenced) => committed,
                    Err(_) => self.unlock(lock).await.and(committed),
                }
            }
            Err(failure) => Err(failure),
        };
        // Its last request was sent just now.
        self.expect_late_lock();
        committed
    }

    /// A copy of a request that was sent before now may take the lock for a while, or has it.
    fn expect_late_lock(&self) {
        *self.large_until.lock() = Some(self.server.env.clock.now() + LATE_MAX);
    }

    async fn commit_locked(&self, plan: &Plan, own: Own, slot: &mut Slot, lock: i64) -> Result<(), Failure> {
        if !self.all_hold(&plan.checks).await? {
            return Err(Failure::Conflict);
        }
        for check in &plan.directories {
            if !check.holds(self.stored(&check.key).await?.as_deref()) {
                return Err(Failure::Conflict);
            }
        }
        for (key, _) in &plan.deltas {
            if self.stored(key).await?.is_none() {
                return Err(Failure::Damaged(MISSING.into()));
            }
        }
        let merged = self.merged(plan).await?;
        let mut changes = plan.changes.clone();
        self.change_rows(plan, own, *slot, merged, &mut changes);
        changes.push(delete(self.layout.lock(), Vec::new()));
        let is_mine = Compare::is(self.layout.lock(), Than::Create(lock));
        // What is folded meanwhile changes no sum, and is taken out with its deltas.
        match self.send(plan, own, slot, vec![is_mine], nested(changes)).await? {
            Sent::Done => Ok(()),
            Sent::Refused(_) | Sent::Locked(_) => Err(Failure::Conflict),
        }
    }

    /// Sends a commit until there is an answer.
    async fn send(
        &self,
        plan: &Plan,
        own: Own,
        slot: &mut Slot,
        checks: Vec<Compare>,
        changes: Vec<Request>,
    ) -> Result<Sent, Failure> {
        let session = self.layout.session(own.role, own.lease);
        let counter = self.layout.slot(own.session, slot.number);
        let mut compare = vec![
            Compare::is(session.clone(), Than::Create(own.session)),
            Compare::is(counter.clone(), Than::Version(slot.count)),
        ];
        compare.extend(checks);
        let counted = Put { key: counter.clone(), value: Vec::new(), lease: own.lease };
        let success = [Request::Put(counted)].into_iter().chain(changes).map(Operation::from).collect();
        let rows = plan.directories.iter().map(|check| &check.key).chain(plan.deltas.iter().map(|(key, _)| key));
        let rows = rows.map(|key| self.layout.value(key));
        let questions = [session, counter, self.layout.lock()].into_iter().chain(rows);
        let failure = questions.take(REFUSAL_QUESTIONS_MAX).map(|key| Range::of(key).into()).collect();
        let (outcome, was_lost) = self.server.transact_told(Transaction { compare, success, failure }).await;
        slot.is_doubtful |= was_lost || outcome.is_err();
        self.sent(own, slot, outcome?)
    }

    fn sent(&self, own: Own, slot: &mut Slot, outcome: Outcome) -> Result<Sent, Failure> {
        if outcome.succeeded {
            self.made.note(outcome.revision());
            slot.count += 1;
            return Ok(Sent::Done);
        }
        let mut rows = outcome.rows();
        let mut next = || rows.next().flatten();
        let (session, counter, lock) = (next(), next(), next());
        if session.is_none_or(|session| session.create_revision != own.session) {
            return Err(Failure::Fenced);
        }
        if counter.is_some_and(|counter| counter.version > slot.count) {
            slot.count += 1;
            return Ok(Sent::Done);
        }
        match lock {
            Some(lock) => Ok(Sent::Locked(lock)),
            None => Ok(Sent::Refused(rows.collect())),
        }
    }

    /// What a commit asks of rows that may change meanwhile without harm.
    fn check_rows(&self, plan: &Plan, bases: &[Vec<u8>], merged: &[Merged], checks: &mut Vec<Compare>) {
        let is_merged = |key: &[u8]| merged.iter().any(|merged| merged.key == key);
        for (check, base) in plan.directories.iter().zip(bases) {
            if !is_merged(&check.key) {
                checks.push(Compare::is(self.layout.value(&check.key), Than::Value(stored(base))));
            }
        }
        for merged in merged {
            checks.push(Compare::is(self.layout.value(&merged.key), Than::Mod(merged.mod_revision)));
        }
        for (key, _) in &plan.deltas {
            checks.push(Compare::is_there(self.layout.value(key)));
        }
    }

    fn change_rows(&self, plan: &Plan, own: Own, slot: Slot, merged: Vec<Merged>, changes: &mut Vec<Request>) {
        // One slot's commits come one after another, so this is no other's.
        let number = i64::from(slot.number) << 40 | slot.count;
        changes.extend(plan.left(&self.layout, own.session, number));
        for Merged { key, value, deltas, .. } in merged {
            changes.push(Request::Put(Put { key: self.layout.value(&key), value: stored(&value), lease: 0 }));
            changes.extend(deltas.into_iter().map(|row| delete(row, Vec::new())));
        }
    }

    /// The rows of directories as they are: true if one is not what was believed, and still what it must be.
    fn learn(&self, plan: &Plan, bases: &mut [Vec<u8>], rows: Vec<Option<KeyValue>>) -> Result<bool, Failure> {
        let mut has_learned = false;
        for ((check, base), row) in plan.directories.iter().zip(bases).zip(rows) {
            let Some(row) = row else { return Err(Failure::Conflict) };
            let Some((_, Row::Value(value))) = self.layout.row(&row.key, &row.value) else {
                return Err(Failure::Damaged("the row of a directory is none of WeftFS".into()));
            };
            if !check.holds(Some(&value)) {
                return Err(Failure::Conflict);
            }
            if *base != value {
                self.note_base(&check.key, &value);
                *base = value;
                has_learned = true;
            }
        }
        Ok(has_learned)
    }

    /// Why a commit was refused that is not in conflict with a directory.
    async fn refuse(&self, plan: &Plan) -> Result<(), Failure> {
        for (key, _) in &plan.deltas {
            if self.stored(key).await?.is_none() && self.all_hold(&plan.checks).await? {
                return Err(Failure::Damaged(MISSING.into()));
            }
        }
        Err(Failure::Conflict)
    }

    /// Do all these comparisons hold, each at some moment?
    async fn all_hold(&self, checks: &[Compare]) -> Result<bool, Failure> {
        for compare in checks.chunks(QUESTIONS_MAX) {
            let compare = compare.to_vec();
            // Without a question a member answers from what it has, which may be old.
            let question: Vec<Operation> = vec![Range::of(self.layout.lock()).into()];
            let transaction = Transaction { compare, success: question.clone(), failure: question };
            if !self.server.transact(transaction).await?.succeeded {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The stored value of a key, without deltas.
    async fn stored(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
        let found = self.server.ask(Range::of(self.layout.value(key))).await?;
        Ok(found.kvs.into_iter().next().and_then(|row| match self.layout.row(&row.key, &row.value) {
            Some((_, Row::Value(value))) => Some(value),
            _ => None,
        }))
    }

    /// What becomes of values that are changed by what they are.
    async fn merged(&self, plan: &Plan) -> Result<Vec<Merged>, Failure> {
        let mut all = Vec::new();
        for (key, delta) in &plan.merged {
            let taken = self.taken(key).await?;
            let mut checks = plan.directories.iter().filter(|check| check.key == *key);
            if !checks.all(|check| check.holds(taken.as_ref().map(|taken| &taken.value[..]))) {
                return Err(Failure::Conflict);
            }
            let mut merged = taken.ok_or_else(|| Failure::Damaged(MISSING.into()))?;
            merged.value = delta.apply(Some(&merged.value)).map_err(Failure::Damaged)?;
            all.push(merged);
        }
        Ok(all)
    }

    /// A key's value with its deltas taken in; `None`: there is none.
    async fn taken(&self, key: &[u8]) -> Result<Option<Merged>, Failure> {
        let (start, end) = self.layout.with_deltas(key);
        // The value is older than its deltas, and what a delta takes away was added by an older one.
        let rows = Range { key: start, range_end: end, limit: TAKEN_MAX, ..Range::default() }.oldest_first();
        let found = self.server.ask(rows).await?;
        let (mut value, mut mod_revision, mut deltas, mut rows) = (None, 0, Vec::new(), Vec::new());
        for row in found.kvs {
            match self.layout.row(&row.key, &row.value) {
                Some((_, Row::Value(bytes))) => (value, mod_revision) = (Some(bytes), row.mod_revision),
                Some((_, Row::Delta(bytes))) => {
                    deltas.push(bytes);
                    rows.push(row.key);
                }
                None => return Err(Failure::Damaged("a row is none of WeftFS".into())),
            }
        }
        let value = merge(value, &deltas).map_err(Failure::Damaged)?;
        Ok(value.map(|value| Merged { key: key.to_vec(), mod_revision, value, deltas: rows }))
    }

    /// Takes the deltas that wait for a key into its value, some at a time. To be done twice, or by two, changes nothing.
    pub(super) async fn fold(&self, key: &[u8]) -> Result<(), Failure> {
        let Some(mut merged) = self.taken(key).await? else { return Ok(()) };
        if merged.deltas.is_empty() {
            return Ok(());
        }
        let at = self.layout.value(key);
        let compare = vec![Compare::is(at.clone(), Than::Mod(merged.mod_revision))];
        let deltas = std::mem::take(&mut merged.deltas).into_iter().map(|row| delete(row, Vec::new())).collect();
        let put = Request::Put(Put { key: at, value: stored(&merged.value), lease: 0 });
        let success = nested(deltas).into_iter().chain([put]).map(Operation::from).collect();
        let outcome = self.server.transact(Transaction { compare, success, failure: Vec::new() }).await?;
        if outcome.succeeded {
            self.made.note(outcome.revision());
            self.note_base(key, &merged.value);
        }
        Ok(())
    }

    /// After a conflict: deltas that wait for what was compared are taken in, so that the next attempt compares values.
    pub(super) async fn fold_compared(&self, plan: &Plan) -> Result<(), Failure> {
        for keys in plan.compared.chunks(QUESTIONS_MAX) {
            let questions = keys.iter().map(|key| {
                let (key, range_end) = self.layout.deltas(key);
                Operation::from(Request::Range(Range { key, range_end, limit: 1, keys_only: true, ..Range::default() }))
            });
            let transaction = Transaction { success: questions.collect(), ..Transaction::default() };
            let found = self.server.transact(transaction).await?.found();
            for (key, _) in keys.iter().zip(found).filter(|(_, found)| !found.kvs.is_empty()) {
                self.fold(key).await?;
            }
        }
        Ok(())
    }

    /// Takes the lock; one commit of this process at a time does. The revision in which it was made.
    async fn lock(&self, own: Own) -> Result<i64, Failure> {
        let deadline = self.server.env.clock.now() + TIMEOUT;
        let (session, lock) = (self.layout.session(own.role, own.lease), self.layout.lock());
        let put = Put { key: lock.clone(), value: own.session.to_be_bytes().to_vec(), lease: own.lease };
        loop {
            let outcome = self.server.transact(Transaction {
                compare: vec![
                    Compare::is(session.clone(), Than::Create(own.session)),
                    Compare::is_absent(lock.clone()),
                ],
                success: vec![Request::Put(put.clone()).into()],
                failure: vec![Range::of(session.clone()).into(), Range::of(lock.clone()).into()],
            });
            let outcome = outcome.await?;
            if outcome.succeeded {
                return Ok(outcome.revision());
            }
            let mut rows = outcome.rows();
            let mut next = || rows.next().flatten();
            if next().is_none_or(|session| session.create_revision != own.session) {
                return Err(Failure::Fenced);
            }
            // Of an attempt whose answer was lost.
            if let Some(lock) = next().filter(|lock| lock.value == own.session.to_be_bytes()) {
                return Ok(lock.create_revision);
            }
            if self.server.env.clock.now() > deadline {
                return Err(Failure::Failed(BUSY.into()));
            }
            self.server.env.clock.sleep(LOOK_EVERY).await;
        }
    }

    async fn unlock(&self, lock: i64) -> Result<(), Failure> {
        let key = self.layout.lock();
        let compare = vec![Compare::is(key.clone(), Than::Create(lock))];
        let success = vec![delete(key, Vec::new()).into()];
        self.server.transact(Transaction { compare, success, failure: Vec::new() }).await.map(drop)
    }

    /// One that a lost commit of this process has left.
    async fn free_lock_of(&self, own: Own, lock: &KeyValue) -> Result<(), Failure> {
        if lock.value != own.session.to_be_bytes() {
            return Ok(());
        }
        // Who has it in this process goes on first.
        let _turn = self.locking.lock().await;
        self.unlock(lock.create_revision).await
    }

    /// For a while after a large commit, and until the servers have answered once after that: a late copy of a request may have taken the
    /// lock.
    pub(super) async fn free_late_lock(&self) -> Result<(), Failure> {
        let Ok(_turn) = self.locking.try_lock() else { return Ok(()) };
        let Some(until) = *self.large_until.lock() else { return Ok(()) };
        let Some(own) = *self.own.lock().await else { return Ok(()) };
        let is_last = self.server.env.clock.now() > until;
        let found = self.server.ask(Range::of(self.layout.lock())).await?;
        if let Some(lock) = found.kvs.first().filter(|lock| lock.value == own.session.to_be_bytes()) {
            self.unlock(lock.create_revision).await?;
        }
        if is_last {
            *self.large_until.lock() = None;
        }
        Ok(())
    }

    /// Of a commit whose outcome is not known: did it run? If it did not, it never will.
    async fn settle(&self, own: Own, slot: Slot, timeout: Duration) -> Result<bool, Failure> {
        let session = self.layout.session(own.role, own.lease);
        let key = self.layout.slot(own.session, slot.number);
        // First the question alone: servers without room count nothing.
        let found = self.server.ask_for(Range::of(key.clone()), timeout).await?;
        let counted = found.kvs.into_iter().next().filter(|counter| counter.version > slot.count);
        let counted = match counted {
            Some(counter) => counter,
            None => {
                let given_up = Put { key: key.clone(), value: GIVEN_UP.to_vec(), lease: own.lease };
                let transaction = Transaction {
                    compare: vec![
                        Compare::is(session.clone(), Than::Create(own.session)),
                        Compare::is(key.clone(), Than::Version(slot.count)),
                    ],
                    success: vec![Request::Put(given_up).into()],
                    failure: vec![Range::of(session).into(), Range::of(key).into()],
                };
                let outcome = self.server.transact_for(transaction, timeout).await?;
                if outcome.succeeded {
                    self.slots.give_back(Slot { count: slot.count + 1, ..slot });
                    return Ok(false);
                }
                let mut rows = outcome.rows();
                let mut next = || rows.next().flatten();
                // With the session its slots are gone, and what is on its way is refused.
                let (Some(_), Some(counter)) = (next(), next()) else { return Err(Failure::Fenced) };
                counter
            }
        };
        self.slots.give_back(Slot { count: slot.count + 1, ..slot });
        // A copy of this question may have counted, too.
        Ok(counted.value != GIVEN_UP)
    }
}

#[cfg(test)]
#[path = "commit_tests.rs"]
mod tests;
