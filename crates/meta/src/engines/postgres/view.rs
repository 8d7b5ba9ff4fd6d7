//! Snapshots. Most operations ask one question, which is one statement and needs no transaction. With a second question a transaction
//! begins, and the first is asked again in it, in the same round trip: if the answer is the same, the transaction's moment is as good as
//! that of the first question. If it is not, the operation runs again, and for a while transactions begin with the first question.

use super::server::{Connection, Server, Sql, Step, together};
use super::{Engine, sql};
use crate::deltas::merge;
use crate::engines::remote::cache::Quiet;
use crate::engines::remote::failure::Failure;
use crate::engines::remote::recall::Recall;
use crate::kv::{Answer, KvError, Link, Pair, Question, Slot, Snapshot, Wanted};
use std::cell::RefCell;
use std::sync::Arc;
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, ToSql, Type};

/// A view of the store at the moment of its first question.
pub(super) struct View<'e> {
    engine: &'e Engine,
    stage: RefCell<Stage>,
    recall: Recall<'e>,
}

/// How far it is.
enum Stage {
    /// Nothing was asked.
    New,
    /// One question was, outside of a transaction.
    Asked(Asked),
    /// In a transaction.
    Begun(Connection),
    /// The transaction is lost.
    Lost,
}

/// A question and its answer.
struct Asked {
    sql: Sql,
    parameters: Parameters,
    answer: Vec<Raw>,
}

/// A row's bytes.
type Raw = Vec<Option<Vec<u8>>>;

/// A column's bytes, of whatever type.
struct Column(Vec<u8>);

impl FromSql<'_> for Column {
    fn from_sql(_: &Type, raw: &[u8]) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Self(raw.to_vec()))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

/// Rows in an order of their own.
fn raw(rows: &[Row]) -> Result<Vec<Raw>, tokio_postgres::Error> {
    let row = |row: &Row| {
        let column = |index| Ok(row.try_get::<_, Option<Column>>(index)?.map(|column| column.0));
        (0..row.len()).map(column).collect()
    };
    let mut raw = rows.iter().map(row).collect::<Result<Vec<Raw>, _>>()?;
    raw.sort_unstable();
    Ok(raw)
}

/// What a statement is given.
type Parameters = Vec<Box<dyn ToSql + Sync + Send>>;

impl<'e> View<'e> {
    pub fn new(engine: &'e Engine) -> Self {
        let recall = Recall::new(engine.cache.as_ref(), &engine.place);
        Self { engine, stage: RefCell::new(Stage::New), recall }
    }

    fn ask(&self, sql: Sql, parameters: Parameters) -> Result<Vec<Row>, KvError> {
        let stage = std::mem::replace(&mut *self.stage.borrow_mut(), Stage::Lost);
        let is_begun = matches!(stage, Stage::Begun(_));
        let (server, begins) = (self.engine.server.clone(), self.engine.begins_views());
        let asked = self.engine.wait_for(async move {
            match stage {
                Stage::New if !begins => ask_once(&server, sql, parameters).await,
                Stage::New => begin(&server, None, sql, &parameters).await,
                Stage::Asked(before) => begin(&server, Some(&before), sql, &parameters).await,
                Stage::Begun(connection) => {
                    let asked = server.with(connection, async |connection| {
                        let rows = query(&connection, sql, &parameters).await.map_err(|error| Failure::of(&error));
                        (connection, rows)
                    });
                    match asked.await {
                        Ok((connection, Ok(rows))) => Ok((Stage::Begun(connection), rows)),
                        // The moment of the view is gone with its transaction.
                        Ok((_, Err(Failure::Lost(_)))) | Err(_) => Err(Failure::Conflict),
                        Ok((_, Err(failure))) => Err(failure),
                    }
                }
                Stage::Lost => Err(Failure::Conflict),
            }
        });
        let (stage, rows) = asked.and_then(|answer| answer).map_err(|failure| {
            if failure == Failure::Conflict {
                self.engine.begin_views();
            }
            self.engine.error(failure)
        })?;
        *self.stage.borrow_mut() = stage;
        // In a transaction the moment is that of before.
        if !is_begun {
            self.recall.hold()?;
        }
        Ok(rows)
    }

    /// Before a question whose answer may be cached: one of a moment to come, not of a transaction that has begun.
    fn quiet(&self) -> Option<Quiet> {
        let is_to_come = matches!(*self.stage.borrow(), Stage::New | Stage::Asked(_));
        if is_to_come { self.recall.quiet() } else { None }
    }

    /// Before that its answers are of another moment than the cache's.
    fn was_asked(&self) -> bool {
        !matches!(*self.stage.borrow(), Stage::New)
    }

    fn value(&self, value: Option<Vec<u8>>, deltas: Option<Vec<Vec<u8>>>) -> Result<Option<Vec<u8>>, KvError> {
        let merged = merge(value, &deltas.unwrap_or_default());
        merged.map_err(|detail| self.engine.error(Failure::Damaged(detail)))
    }
}

async fn query(connection: &Connection, sql: Sql, parameters: &Parameters) -> Result<Vec<Row>, tokio_postgres::Error> {
    let parameters: Vec<&(dyn ToSql + Sync)> =
        parameters.iter().map(|parameter| &**parameter as &(dyn ToSql + Sync)).collect();
    connection.client.query(connection.of(sql), &parameters).await
}

/// The first question.
async fn ask_once(server: &Server, sql: Sql, parameters: Parameters) -> Result<(Stage, Vec<Row>), Failure> {
    let asked = &parameters;
    let rows = server.get(|connection| async move {
        let rows = query(&connection, sql, asked).await;
        (connection, rows.map_err(|error| Failure::of(&error)))
    });
    let rows = rows.await?;
    let answer = raw(&rows).map_err(|error| Failure::of(&error))?;
    Ok((Stage::Asked(Asked { sql, parameters, answer }), rows))
}

/// A transaction, and a question in it; before that the one that was asked outside.
async fn begin(
    server: &Server,
    before: Option<&Asked>,
    sql: Sql,
    parameters: &Parameters,
) -> Result<(Stage, Vec<Row>), Failure> {
    let asked = server.persist(|connection| async move {
        let (mut again, mut rows) = (Vec::new(), Vec::new());
        let mut steps: Vec<Step<'_>> = vec![Box::pin(connection.client.batch_execute(sql::BEGIN_VIEW))];
        if let Some(before) = before {
            let (connection, again) = (&connection, &mut again);
            steps.push(Box::pin(async move {
                *again = raw(&query(connection, before.sql, &before.parameters).await?)?;
                Ok(())
            }));
        }
        let (asking, answer) = (&connection, &mut rows);
        steps.push(Box::pin(async move {
            *answer = query(asking, sql, parameters).await?;
            Ok(())
        }));
        let answered = together(steps).await.map_err(|(_, error)| Failure::of(&error));
        if answered.is_err() {
            // One that cannot end its transaction is closed, and not kept.
            let _ = connection.client.batch_execute("ROLLBACK").await;
        }
        (connection, answered.map(|()| (again, rows)))
    });
    let (connection, (again, rows)) = asked.await?;
    if before.is_some_and(|before| before.answer != again) {
        if connection.client.batch_execute(sql::COMMIT).await.is_ok() {
            server.put_back(connection);
        }
        return Err(Failure::Conflict);
    }
    Ok((Stage::Begun(connection), rows))
}

fn column<'r, T: FromSql<'r>>(row: &'r Row, index: usize) -> Result<T, Failure> {
    row.try_get(index).map_err(|error| Failure::Failed(error.to_string()))
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
        let quiet = self.quiet();
        let mut values = vec![None; keys.len()];
        for row in self.ask(Sql::Get, vec![Box::new(keys.to_vec())])? {
            let read = || Ok((column::<i64>(&row, 0)?, column(&row, 1)?, column(&row, 2)?));
            let (place, value, deltas) = read().map_err(|failure: Failure| self.engine.error(failure))?;
            let value = self.value(Some(value), deltas)?;
            // Places are counted from 1.
            if let Some(slot) = usize::try_from(place - 1).ok().and_then(|place| values.get_mut(place)) {
                *slot = value;
            }
        }
        self.recall.fill(keys.iter().zip(&values).map(|(key, value)| (&**key, value.as_deref())), quiet);
        Ok(values)
    }

    fn fetch(&self, question: Question) -> Result<Answer, KvError> {
        const KEY: i32 = 0;
        const KEYS_LINK: i32 = 1;
        const PAIR: i32 = 2;
        let Question { keys, range } = question;
        if keys.is_empty() && range.is_none() {
            return Ok(Answer::default());
        }
        if range.is_none()
            && !self.was_asked()
            && let Some(answer) = self.recall.answer(&keys)?
        {
            return Ok(answer);
        }
        let quiet = self.quiet();
        let links: Vec<_> = keys.iter().filter_map(|wanted| Some((wanted.key.clone(), wanted.link.clone()?))).collect();
        let mut parameters = parameters_of_keys(keys);
        let (range, limit, link) = match range {
            Some(wanted) => (wanted.range, bounded(wanted.limit), Some(wanted.link)),
            None => (Vec::new()..Vec::new(), 0, None),
        };
        let (table, start, length) = link.as_ref().map_or((None, None, None), link_parameters);
        parameters.extend([Box::new(range.start) as _, Box::new(range.end) as _, Box::new(limit) as _]);
        parameters.extend([Box::new(table) as _, Box::new(start) as _, Box::new(length) as _]);
        let mut answer = Answer::default();
        let mut linked: Vec<Slot> = Vec::new();
        for row in self.ask(Sql::Fetch, parameters)? {
            let read = || Ok((column::<i32>(&row, 0)?, column(&row, 1)?, column(&row, 2)?, column(&row, 3)?));
            let (part, key, value, deltas) = read().map_err(|failure: Failure| self.engine.error(failure))?;
            let key: Vec<u8> = key;
            match (part, self.value(value, deltas)?) {
                (KEY | KEYS_LINK, value) => answer.slots.push((key, value)),
                (PAIR, Some(value)) => answer.pairs.push(((key, value), None)),
                (_, value) => {
                    let of_pair = column(&row, 4).map_err(|failure| self.engine.error(failure))?;
                    linked.push((of_pair, value));
                }
            }
        }
        answer.pairs.sort_unstable();
        for (key, value) in linked {
            if let Ok(place) = answer.pairs.binary_search_by(|((found, _), _)| found.cmp(&key)) {
                answer.pairs[place].1 = value;
            }
        }
        // What a key names may be missing.
        let named = |(key, link): (Vec<u8>, Link)| {
            let (_, value) = answer.slots.iter().find(|(found, _)| *found == key)?;
            link.of(value.as_deref()?)
        };
        for key in links.into_iter().filter_map(named).collect::<Vec<_>>() {
            if !answer.slots.iter().any(|(found, _)| *found == key) {
                answer.slots.push((key, None));
            }
        }
        self.recall.fill(answer.slots.iter().map(|(key, value)| (&**key, value.as_deref())), quiet);
        Ok(answer)
    }

    fn scan(&self, start: &[u8], end: &[u8], limit: usize) -> Result<Vec<Pair>, KvError> {
        if start >= end || limit == 0 {
            return Ok(Vec::new());
        }
        let parameters: Parameters = vec![Box::new(start.to_vec()), Box::new(end.to_vec()), Box::new(bounded(limit))];
        let mut pairs = Vec::new();
        for row in self.ask(Sql::Scan, parameters)? {
            let read = || Ok((column(&row, 0)?, column(&row, 1)?, column(&row, 2)?));
            let (key, value, deltas) = read().map_err(|failure: Failure| self.engine.error(failure))?;
            if let Some(value) = self.value(Some(value), deltas)? {
                pairs.push((key, value));
            }
        }
        Ok(pairs)
    }
}

fn bounded(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// Its table, where it starts (from 1 on) and how long it is.
fn link_parameters(link: &Link) -> (Option<i32>, Option<i32>, Option<i32>) {
    let number = |number: usize| i32::try_from(number).ok();
    (Some(i32::from(link.table)), number(link.at.start + 1), number(link.at.len()))
}

fn parameters_of_keys(wanted: Vec<Wanted>) -> Parameters {
    let mut keys = Vec::with_capacity(wanted.len());
    let (mut tables, mut starts, mut lengths) = (Vec::new(), Vec::new(), Vec::new());
    for Wanted { key, link } in wanted {
        keys.push(key);
        let (table, start, length) = link.as_ref().map_or((None, None, None), link_parameters);
        tables.push(table);
        starts.push(start);
        lengths.push(length);
    }
    vec![Box::new(keys), Box::new(tables), Box::new(starts), Box::new(lengths)]
}

impl Drop for View<'_> {
    fn drop(&mut self) {
        let Stage::Begun(connection) = std::mem::replace(self.stage.get_mut(), Stage::Lost) else { return };
        let server: Arc<Server> = self.engine.server.clone();
        self.engine.start(async move {
            // One that fails is closed, and not kept.
            if connection.client.batch_execute(sql::COMMIT).await.is_ok() {
                server.put_back(connection);
            }
        });
    }
}
