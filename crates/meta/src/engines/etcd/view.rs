//! Snapshots: the first question is answered by the newest revision, and every later one by the same.

use super::Engine;
use super::layout::{Bounds, Row};
use super::protocol::{Found, Operation, Range, Transaction};
use crate::deltas::merge;
use crate::engines::remote::failure::Failure;
use crate::engines::remote::recall::Recall;
use crate::kv::{Answer, KvError, Pair, Question, Snapshot};
use std::cell::Cell;

/// Questions of one request: etcd's default.
const QUESTIONS_MAX: usize = 128;
/// Rows of one answer to a scan.
const ROWS_MAX: usize = 1000;
/// Deltas that wait for the keys of a scan, more or less.
const ROWS_MORE: usize = 16;
/// Who reads a key with more deltas than this has them folded.
const DELTAS_MAX: usize = 8;

/// A view of the store at the revision of its first question.
pub(super) struct View<'e> {
    engine: &'e Engine,
    revision: Cell<Option<i64>>,
    recall: Recall<'e>,
}

/// The rows of one key, put together.
struct Rows {
    key: Vec<u8>,
    value: Option<Vec<u8>>,
    /// With the revision of each.
    deltas: Vec<(i64, Vec<u8>)>,
}

impl<'e> View<'e> {
    pub fn new(engine: &'e Engine) -> Self {
        Self { engine, revision: Cell::new(None), recall: Recall::new(engine.cache.as_ref(), &engine.place) }
    }

    /// What there is in each range, up to the limit.
    fn ask(&self, ranges: Vec<(Bounds, usize)>) -> Result<Vec<Found>, KvError> {
        let mut found = Vec::with_capacity(ranges.len());
        for ranges in ranges.chunks(QUESTIONS_MAX) {
            let revision = self.revision.get().unwrap_or_default();
            let questions = ranges.iter().map(|((start, end), limit)| {
                let limit = i64::try_from(*limit).unwrap_or_default();
                let range = Range { key: start.clone(), range_end: end.clone(), limit, revision, ..Range::default() };
                Operation::from(range)
            });
            let transaction = Transaction { success: questions.collect(), ..Transaction::default() };
            let server = self.engine.server.clone();
            let outcome = self.engine.wait_for(async move { server.transact(transaction).await });
            let outcome = outcome.and_then(|outcome| outcome).map_err(|failure| self.engine.error(failure))?;
            if self.revision.get().is_none() {
                self.revision.set(Some(outcome.revision()));
                self.recall.hold()?;
            }
            found.extend(outcome.found());
        }
        Ok(found)
    }

    /// The rows of an answer, key by key.
    fn rows(&self, found: Found) -> Result<Vec<Rows>, KvError> {
        let mut keys: Vec<Rows> = Vec::new();
        for row in found.kvs {
            let made = row.create_revision;
            let (key, row) = self.engine.layout.row(&row.key, &row.value).ok_or_else(|| {
                self.engine.error(Failure::Damaged(format!("the row {} is none of WeftFS", row.key.escape_ascii())))
            })?;
            if keys.last().is_none_or(|last| last.key != key) {
                keys.push(Rows { key, value: None, deltas: Vec::new() });
            }
            let Some(rows) = keys.last_mut() else { continue };
            match row {
                Row::Value(value) => rows.value = Some(value),
                Row::Delta(delta) => rows.deltas.push((made, delta)),
            }
        }
        Ok(keys)
    }

    fn value(&self, rows: Rows) -> Result<Option<Vec<u8>>, KvError> {
        if rows.deltas.len() > DELTAS_MAX {
            self.engine.note_waiting([rows.key.clone()]);
        }
        if let Some(value) = &rows.value
            && !rows.deltas.is_empty()
        {
            self.engine.note_base(&rows.key, value);
        }
        // In their order: what is taken away was added before.
        let mut deltas = rows.deltas;
        deltas.sort_unstable();
        let deltas: Vec<Vec<u8>> = deltas.into_iter().map(|(_, delta)| delta).collect();
        merge(rows.value, &deltas).map_err(|detail| self.engine.error(Failure::Damaged(detail)))
    }

    fn was_asked(&self) -> bool {
        self.revision.get().is_some()
    }
}

impl Snapshot for View<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, KvError> {
        Ok(self.get_many(&[key.to_vec()])?.pop().flatten())
    }

    fn get_many(&self, keys: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>, KvError> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        if !self.was_asked()
            && let Some(values) = self.recall.values(keys.iter().map(Vec::as_slice))?
        {
            return Ok(values);
        }
        // What a view of an older moment finds is not kept.
        let quiet = if self.was_asked() { None } else { self.recall.quiet() };
        let ranges = keys.iter().map(|key| (self.engine.layout.with_deltas(key), 0)).collect();
        let found = self.ask(ranges)?;
        let value = |found| self.rows(found)?.pop().map_or(Ok(None), |rows| self.value(rows));
        let values = found.into_iter().map(value).collect::<Result<Vec<_>, _>>()?;
        self.recall.fill(keys.iter().zip(&values).map(|(key, value)| (&**key, value.as_deref())), quiet);
        Ok(values)
    }

    fn fetch(&self, question: Question) -> Result<Answer, KvError> {
        if question.range.is_none()
            && !self.was_asked()
            && let Some(answer) = self.recall.answer(&question.keys)?
        {
            return Ok(answer);
        }
        crate::kv::fetch_by_parts(self, question)
    }

    fn scan(&self, start: &[u8], end: &[u8], limit: usize) -> Result<Vec<Pair>, KvError> {
        if start >= end || limit == 0 {
            return Ok(Vec::new());
        }
        let (mut start, end) = self.engine.layout.range(start, end);
        let mut pairs = Vec::new();
        loop {
            let rows_max = (limit - pairs.len()).saturating_add(ROWS_MORE).min(ROWS_MAX);
            let found = self.ask(vec![((start, end.clone()), rows_max)])?.pop().unwrap_or_default();
            let has_more = found.more;
            let mut rows = self.rows(found)?;
            // More deltas of the last key may follow.
            let last = if has_more { rows.pop() } else { None };
            for rows in rows {
                let key = rows.key.clone();
                if let Some(value) = self.value(rows)?
                    && pairs.len() < limit
                {
                    pairs.push((key, value));
                }
            }
            let Some(last) = last.filter(|_| pairs.len() < limit) else { return Ok(pairs) };
            start = match last.deltas.len() < rows_max - 1 {
                true => self.engine.layout.value(&last.key),
                // It alone has more than an answer takes.
                false => {
                    let key = last.key;
                    let found = self.ask(vec![(self.engine.layout.with_deltas(&key), 0)])?.pop().unwrap_or_default();
                    if let Some(rows) = self.rows(found)?.pop()
                        && let Some(value) = self.value(rows)?
                    {
                        pairs.push((key.clone(), value));
                    }
                    self.engine.layout.after(&key)
                }
            };
            if pairs.len() == limit {
                return Ok(pairs);
            }
        }
    }
}
