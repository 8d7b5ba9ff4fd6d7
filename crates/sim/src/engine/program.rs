//! What the threads of a process do with the engine, and what they were answered.

use super::order::{Answered, Asked, Asking, Contents, Key, contents_at, is_explained, seen_at};
use crate::linear::Call;
use crate::scheduler::running;
use crate::weights::chosen;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use weft_env::{Clock, Spawner, Thread, steps};
use weft_meta::deltas::Delta;
use weft_meta::keys::SharedPrefix;
use weft_meta::kv::{Batch, Kv, KvError, Pair, Snapshot};

/// Keys that other processes may change, too: some with ids that are used once.
pub const SHARED: &[SharedPrefix] =
    &[SharedPrefix { prefix: b"s", fresh_ids: false }, SharedPrefix { prefix: b"f", fresh_ids: true }];
/// The groups of keys.
pub const GROUPS: [u8; 2] = *b"01";
const OWNED: [u8; 3] = *b"abc";
const COUNTER: u8 = b'u';
/// Bytes of a value beside its number.
const FILL_BYTES_MAX: u64 = 400;
/// A thread waits up to so long between two operations.
const PAUSE_MS_MAX: u64 = 150;

/// What was asked and answered since the store was opened.
#[derive(Default)]
pub struct Told {
    /// What the store had then.
    pub start: Contents,
    /// The calls.
    pub calls: Vec<Asking>,
    /// Those that are acknowledged, in this order, ...
    acknowledged: Vec<usize>,
    /// ... and how many of these are durable.
    durable: usize,
    now: u64,
    /// When another took its place: what it is answered from then on tells nothing.
    pub place_lost: Option<u64>,
    /// What was left to it is known.
    pub is_begun: bool,
    /// The last number for a value.
    pub last_value: u64,
    /// How much there was of it.
    pub commits: u64,
    /// See there.
    pub conflicts: u64,
    /// See there.
    pub looks: u64,
    /// See there.
    pub flushes: u64,
}

impl Told {
    fn tick(&mut self) -> u64 {
        self.now += 1;
        self.now
    }

    /// A new number for a value.
    fn draw(&mut self) -> u64 {
        self.last_value += 1;
        self.last_value
    }

    fn begin(&mut self, operation: Asked) -> usize {
        let began = self.tick();
        self.calls.push(Call { began, ended: u64::MAX, operation, answer: None });
        self.calls.len() - 1
    }

    fn end(&mut self, call: usize, answer: Answered) {
        self.calls[call].ended = self.tick();
        self.calls[call].answer = Some(answer);
    }

    fn keep(&mut self, call: usize) {
        if let Asked::Commit { is_kept, .. } = &mut self.calls[call].operation {
            *is_kept = true;
        }
    }

    /// The first ones that were acknowledged are durable, up to this number.
    fn note_durable(&mut self, count: usize) {
        self.durable = self.durable.max(count);
    }

    /// The store has been closed: all that was acknowledged survives.
    pub fn note_closed(&mut self) {
        self.note_durable(self.acknowledged.len());
    }

    /// Another process takes its place.
    pub fn note_place_lost(&mut self) {
        self.place_lost = Some(self.now);
    }

    /// The process has ended, or nobody hears it any more: which calls may have been done, and which survive.
    pub fn take_calls(&mut self) -> Vec<Asking> {
        for index in 0..self.durable {
            self.keep(self.acknowledged[index]);
        }
        self.acknowledged.clear();
        self.durable = 0;
        // One that has lost its place may go on.
        let mut calls = if self.place_lost.is_some() { self.calls.clone() } else { std::mem::take(&mut self.calls) };
        if let Some(lost) = self.place_lost {
            // Nothing of it is done from then on.
            calls.retain(|call| call.began <= lost);
            calls.iter_mut().filter(|call| call.ended > lost).for_each(|call| call.answer = None);
        }
        // What was looked at and not seen tells nothing.
        calls.retain(|call| call.answer.is_some() || matches!(call.operation, Asked::Commit { .. }));
        calls
    }
}

/// What batches there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Batches {
    /// None is written through: all views agree on all keys.
    Behind,
    /// Some are. Each has keys of one group, and its counter: views agree on the keys of a group.
    Grouped,
    /// Some are: views agree on a single key only, since two batches without a common key have no order.
    Free,
}

impl Batches {
    /// Is there an order of the calls that explains what they saw, and what was left?
    ///
    /// # Errors
    /// A sentence: there is none.
    pub fn explain(self, start: &Contents, calls: &[Asking], found: &Contents) -> Result<(), String> {
        let is_explained_at = |is_seen: &dyn Fn(&Key) -> bool| {
            is_explained(&contents_at(start, is_seen), &seen_at(calls, is_seen), &contents_at(found, is_seen))
        };
        let is_explained = match self {
            Self::Behind => is_explained(start, calls, found),
            Self::Grouped => GROUPS.iter().all(|group| is_explained_at(&|key| key[1] == *group)),
            Self::Free => keys_of(start, calls, found).iter().all(|key| is_explained_at(&|other| other == key)),
        };
        if is_explained { Ok(()) } else { Err(unexplained(start, calls, found)) }
    }
}

fn keys_of(start: &Contents, calls: &[Asking], found: &Contents) -> BTreeSet<Key> {
    let written = calls.iter().flat_map(|call| match &call.operation {
        Asked::Commit { writes, adds, .. } => {
            writes.iter().map(|(key, _)| key).chain(adds.iter().map(|(key, _)| key)).cloned().collect()
        }
        _ => Vec::new(),
    });
    start.keys().chain(found.keys()).cloned().chain(written).collect()
}

fn unexplained(start: &Contents, calls: &[Asking], found: &Contents) -> String {
    let mut text = format!("no order of {} calls explains what they saw and what was left", calls.len());
    let asking = calls.iter().map(|call| format!("{call:?}"));
    for line in [format!("start {start:?}")].into_iter().chain(asking).chain([format!("found {found:?}")]) {
        crate::scheduler::running().remark(&line);
    }
    text.push_str("; see the lines before");
    text
}

/// A thread.
pub struct Program {
    /// Its number.
    pub number: u64,
    /// The engine.
    pub kv: Arc<dyn Kv>,
    /// What all of them are told.
    pub told: Arc<Mutex<Told>>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// How often something was said to be durable.
    pub said: Arc<AtomicU64>,
    /// What it commits.
    pub batches: Batches,
    /// The engine has a server, which may not answer, or refuse a process that has lost its place; and its views may lose their moment.
    pub is_on_a_server: bool,
}

#[derive(Clone, Copy)]
enum Kind {
    Change,
    Through,
    Fresh,
    Look,
    Flush,
    File,
    Close,
    Pause,
}

fn bytes_of(key: &Key, value: u64) -> Vec<u8> {
    if key[0] == COUNTER {
        return [&[1][..], &value.to_be_bytes(), &[0; 8]].concat();
    }
    let fill = value.wrapping_mul(0x9e37_79b9_7f4a_7c15) % FILL_BYTES_MAX;
    let mut bytes = value.to_be_bytes().to_vec();
    bytes.resize(8 + fill as usize, value as u8);
    bytes
}

/// The number in a value that [`bytes_of`] has made; `None`: it has not.
fn value_of(key: &Key, bytes: &[u8]) -> Option<u64> {
    let at = usize::from(key[0] == COUNTER);
    let value = u64::from_be_bytes(bytes.get(at..at + 8)?.try_into().ok()?);
    (bytes == bytes_of(key, value)).then_some(value)
}

fn complain(text: String) {
    running().complain(text);
}

fn known(key: &Key, bytes: &[u8]) -> u64 {
    value_of(key, bytes).unwrap_or_else(|| {
        complain(format!("{} has bytes that nobody wrote", key.escape_ascii()));
        0
    })
}

fn contents(pairs: Vec<Pair>) -> Contents {
    pairs.into_iter().map(|(key, bytes)| (key.clone(), known(&key, &bytes))).collect()
}

/// All that there is.
///
/// # Errors
/// The engine's.
pub fn look_at_all(kv: &dyn Kv) -> Result<Contents, KvError> {
    Ok(contents(kv.snapshot()?.scan(&[], &[u8::MAX], usize::MAX)?))
}

/// Makes the counters; then threads, with numbers below `count`, do `operations` operations each, and end.
///
/// # Errors
/// A thread panicked.
pub fn run_threads(
    spawner: &dyn Spawner,
    count: u64,
    operations: u64,
    program: impl Fn(u64) -> Program,
) -> Result<(), String> {
    program(0).make_counters();
    let start = |number| {
        let program = program(number);
        spawner.thread("program", Box::new(move || program.run(operations)))
    };
    let threads: Vec<Thread> = (0..count).map(start).collect::<Result<_, _>>().map_err(|error| error.to_string())?;
    threads.into_iter().try_for_each(Thread::join).map_err(|stopped| stopped.to_string())
}

impl Program {
    fn below(end: u64) -> u64 {
        running().below(end)
    }

    /// What an engine without a server never does.
    fn note(&self, failure: &str) {
        match self.is_on_a_server {
            true => running().remark(failure),
            false => complain(failure.to_owned()),
        }
    }

    fn owned(&self) -> Key {
        vec![OWNED[Self::below(3) as usize], GROUPS[Self::below(2) as usize]]
    }

    /// Keys of the owner's, of one group where it must be so.
    fn some_owned(&self, count: u64) -> Vec<Key> {
        let mut keys: Vec<Key> = (0..1 + Self::below(count)).map(|_| self.owned()).collect();
        if self.batches == Batches::Grouped {
            let group = keys[0][1];
            keys.iter_mut().for_each(|key| key[1] = group);
        }
        keys.sort();
        keys.dedup();
        keys
    }

    /// The counters, if they are not there: nothing is added to nothing.
    fn make_counters(&self) {
        for key in GROUPS.map(|group| vec![COUNTER, group]) {
            let batch = Batch {
                checks: vec![(key.clone(), None)],
                writes: vec![(key.clone(), Some(bytes_of(&key, 0)))],
                ..Batch::default()
            };
            let (checks, writes) = (vec![(key.clone(), None)], vec![(key, Some(0))]);
            self.commit(batch, Asked::Commit { checks, writes, adds: Vec::new(), is_kept: false }, false);
        }
    }

    /// Does so much.
    fn run(&self, operations: u64) {
        for _ in 0..operations {
            let through = if self.batches == Batches::Behind { 0 } else { 20 };
            let weights = [
                (Kind::Change, 40),
                (Kind::Through, through),
                (Kind::Fresh, 8),
                (Kind::Look, 25),
                (Kind::Flush, 12),
                (Kind::File, 3),
                (Kind::Close, 1),
                (Kind::Pause, 8),
            ];
            match chosen(&weights, Self::below) {
                Kind::Change => self.change(false),
                Kind::Through => self.change(true),
                Kind::Fresh => self.make(),
                Kind::Look => self.look(),
                Kind::Flush => self.make_durable("flush", |kv| kv.flush()),
                Kind::File => {
                    self.make_durable("file", |kv| kv.history().map_or_else(|| kv.flush(), |history| history.settle()))
                }
                Kind::Close => self.make_durable("close", |kv| kv.close()),
                Kind::Pause => self.clock.block(Duration::from_micros(Self::below(PAUSE_MS_MAX * 1000))),
            }
        }
    }

    /// A view, as it was at one moment.
    fn view<T>(&self, look: impl FnOnce(&dyn Snapshot) -> Result<(Asked, Answered, T), KvError>) -> Option<T> {
        let began = self.told.lock().tick();
        let snapshot = match self.kv.snapshot() {
            Ok(snapshot) => snapshot,
            Err(error) => {
                self.note(&format!("no view: {error}"));
                return None;
            }
        };
        let ended = self.told.lock().tick();
        match look(&*snapshot) {
            Ok((operation, answer, seen)) => {
                let mut told = self.told.lock();
                told.looks += 1;
                // There its moment is one until the second question.
                let ended = if self.is_on_a_server { told.tick() } else { ended };
                running().tell(|| format!("{} sees {operation:?} {answer:?}", self.number));
                told.calls.push(Call { began, ended, operation, answer: Some(answer) });
                Some(seen)
            }
            Err(error) => {
                self.note(&format!("a view fails: {error}"));
                None
            }
        }
    }

    fn values(&self, keys: &[Key]) -> Option<Vec<Option<u64>>> {
        self.view(|view| {
            let found = view.get_many(keys)?;
            let number = |(key, bytes): (&Key, &Option<Vec<u8>>)| bytes.as_ref().map(|bytes| known(key, bytes));
            let values: Vec<Option<u64>> = keys.iter().zip(&found).map(number).collect();
            Ok((Asked::Look(keys.to_vec()), Answered::Values(values.clone()), values))
        })
    }

    /// Looks at everything, and again in another way after a while: a view does not change.
    fn look(&self) {
        let ways = Self::below(4);
        let waits = Self::below(3) == 0;
        self.view(|view| {
            let first = contents(view.scan(&[], &[u8::MAX], usize::MAX)?);
            steps::step();
            if waits {
                self.clock.block(Duration::from_micros(Self::below(PAUSE_MS_MAX * 1000)));
            }
            let mut keys: Vec<Key> =
                OWNED.iter().chain(b"su").flat_map(|kind| GROUPS.map(|group| vec![*kind, group])).collect();
            keys.extend(first.keys().filter(|key| key[0] == b'f').cloned());
            let again: Contents = match ways {
                0 => contents(view.scan(&[], &[u8::MAX], usize::MAX)?),
                1 => {
                    let found = keys.iter().cloned().zip(view.get_many(&keys)?);
                    contents(found.filter_map(|(key, bytes)| Some((key, bytes?))).collect())
                }
                _ => {
                    let mut pairs = Vec::new();
                    for key in keys {
                        pairs.extend(view.get(&key)?.map(|bytes| (key, bytes)));
                        steps::step();
                    }
                    contents(pairs)
                }
            };
            if again != first {
                complain(format!("a view has changed: {first:?}, then {again:?}"));
            }
            Ok((Asked::LookAtAll, Answered::All(first), ()))
        });
    }

    fn commit(&self, batch: Batch, operation: Asked, is_durable: bool) {
        let call = self.told.lock().begin(operation);
        let done = self.kv.commit(batch);
        let mut told = self.told.lock();
        let answer = match &done {
            Ok(()) => Answered::Done,
            Err(KvError::Conflict) => Answered::Conflict,
            // Nothing of it is done.
            Err(KvError::Full { .. }) => {
                told.calls[call].operation = Asked::Look(Vec::new());
                return;
            }
            // It may be done, or not.
            Err(error) => return self.note(&format!("a commit fails: {error}")),
        };
        running().tell(|| format!("{} commits {:?} {answer:?}", self.number, told.calls[call].operation));
        told.end(call, answer);
        if done.is_ok() {
            told.commits += 1;
            told.acknowledged.push(call);
            if is_durable {
                self.said.fetch_add(1, Ordering::Relaxed);
                told.keep(call);
            }
        } else {
            told.conflicts += 1;
        }
    }

    /// Changes some keys, mostly if others still are what it has read; in the file before it returns, if it `goes_through`.
    fn change(&self, goes_through: bool) {
        let mut changed = self.some_owned(3);
        let group = changed[0][1];
        if goes_through {
            changed.push(vec![b's', group]);
        }
        let mut checked = if Self::below(4) == 0 { Vec::new() } else { changed.clone() };
        if Self::below(3) == 0 {
            checked.extend(
                self.some_owned(2).into_iter().filter(|key| self.batches != Batches::Grouped || key[1] == group),
            );
        }
        checked.sort();
        checked.dedup();
        let Some(found) = self.values(&checked) else { return };
        let checks: BTreeMap<Key, Option<u64>> = checked.into_iter().zip(found).collect();
        let mut told = self.told.lock();
        let writes: Vec<(Key, Option<u64>)> = changed
            .into_iter()
            .map(|key| {
                let value = (Self::below(6) > 0).then(|| told.draw());
                (key, value)
            })
            .collect();
        drop(told);
        let adds = self.added(group);
        let slot = |(key, value): (&Key, &Option<u64>)| (key.clone(), value.map(|value| bytes_of(key, value)));
        let batch = Batch {
            checks: checks.iter().map(slot).collect(),
            writes: writes.iter().map(|(key, value)| slot((key, value))).collect(),
            deltas: usage(&adds),
            ..Batch::default()
        };
        let operation = Asked::Commit { checks: checks.into_iter().collect(), writes, adds, is_kept: false };
        self.commit(batch, operation, goes_through);
    }

    /// What a batch adds to the counter of a group.
    fn added(&self, group: u8) -> Vec<(Key, u64)> {
        let adds = self.batches == Batches::Grouped || Self::below(3) == 0;
        if adds { vec![(vec![COUNTER, group], 1 + Self::below(9))] } else { Vec::new() }
    }

    /// Makes a key whose id is used once, and writes one of its owner's with it.
    fn make(&self) {
        let owned = self.owned();
        let mut told = self.told.lock();
        let (id, value) = (told.draw(), told.draw());
        drop(told);
        let group = owned[1];
        let fresh = [&[b'f', group], &id.to_be_bytes()[..]].concat();
        let writes = vec![(fresh.clone(), Some(id)), (owned, Some(value))];
        let slots = writes.iter().map(|(key, value)| (key.clone(), value.map(|value| bytes_of(key, value))));
        let adds = self.added(group);
        let (checks, deltas) = (vec![(fresh.clone(), None)], usage(&adds));
        let batch = Batch { checks, writes: slots.collect(), deltas, ..Batch::default() };
        let operation = Asked::Commit { checks: vec![(fresh, None)], writes, adds, is_kept: false };
        self.commit(batch, operation, false);
    }

    /// All that is acknowledged when this begins is durable when it ends.
    fn make_durable(&self, name: &str, act: impl FnOnce(&dyn Kv) -> Result<(), KvError>) {
        let count = self.told.lock().acknowledged.len();
        match act(&*self.kv) {
            Ok(()) => {
                let mut told = self.told.lock();
                told.flushes += 1;
                told.note_durable(count);
                self.said.fetch_add(1, Ordering::Relaxed);
                running().tell(|| format!("{} did {name}: {count} commits are durable", self.number));
            }
            Err(KvError::Full { .. }) => {}
            Err(error) => self.note(&format!("a {name} fails: {error}")),
        }
    }
}

fn usage(adds: &[(Key, u64)]) -> Vec<(Key, Delta)> {
    adds.iter().map(|(key, added)| (key.clone(), Delta::Usage { inodes: *added as i64, live_bytes: 0 })).collect()
}
