//! How a batch is committed: by one statement, if its checks are of rows that are there; else by a transaction whose requests are all sent
//! together, each of which sees what was committed before it:
//!
//! ```text
//! BEGIN; name the attempt; guards; rows that must stay; what must be absent; ranges -> remove, make, set, add deltas; COMMIT
//! ```
//!
//! A lost connection leaves unknown whether the transaction was committed, or is on its way still. So it names itself: the same attempt is
//! sent again until there is an answer, and the server refuses the name of one that it has committed. The name of an attempt that was sent
//! twice stays as long as the session, and one that is given up is named alone: a copy of it that arrives later changes nothing.

use super::plan::{Columns, Directories, Plan};
use super::server::{Connection, Sql, Step, together};
use super::{Engine, sql};
use crate::deltas::merge;
use crate::engines::remote::failure::Failure;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio_postgres::Statement;
use tokio_postgres::types::ToSql;

/// Values of keys as they are in the transaction.
type Values = BTreeMap<Vec<u8>, Vec<u8>>;

/// Names a transaction.
pub(super) struct Attempt {
    pub session: i64,
    pub number: i64,
    /// Numbers that nobody asks about any more.
    pub answered: Vec<i64>,
}

/// The requests of a transaction, in their order, and what a refusal of each means.
type Steps<'c> = Vec<(Refusal, Step<'c>)>;

/// What it means that the server refuses a request.
type Refusal = fn(&tokio_postgres::Error) -> Failure;

impl Engine {
    /// Commits what is planned, or finds that it was.
    pub(super) async fn commit_plan(&self, plan: &Plan) -> Result<(), Failure> {
        let session = self.session().await?;
        let unsettled = self.attempts.unsettled.lock().clone();
        for number in unsettled {
            self.settle(session, number).await?;
        }
        let mut attempt = self.attempts.next(session);
        let (named, unanswered) = (&attempt, AtomicU32::new(0));
        let sends = &unanswered;
        let outcome = self.server.get(|connection| async move {
            sends.fetch_add(1, Ordering::Relaxed);
            let outcome = run(&connection, plan, named).await;
            if !matches!(outcome, Err(Failure::Lost(_) | Failure::Failed(_))) {
                sends.fetch_sub(1, Ordering::Relaxed);
            }
            (connection, outcome)
        });
        let outcome = outcome.await;
        let answered = std::mem::take(&mut attempt.answered);
        // A copy of it may still be on its way.
        let was_lost = unanswered.into_inner() > 0;
        match outcome {
            Ok(()) => {}
            Err(Failure::Done) => self.await_standby(session).await?,
            Err(failure) => {
                self.attempts.give_back(answered);
                if failure == Failure::Fenced {
                    self.place.lose();
                    return Err(failure);
                }
                if !was_lost {
                    return Err(failure);
                }
                self.attempts.unsettled.lock().push(attempt.number);
                if !self.settle(session, attempt.number).await? {
                    return Err(failure);
                }
                self.await_standby(session).await?;
            }
        }
        // If it may come again it must find its name.
        if !was_lost {
            self.attempts.answered(attempt.number);
        }
        self.note_waiting(plan);
        Ok(())
    }

    /// The commit that was found done may not have waited for a standby: this one does, and is after it.
    async fn await_standby(&self, session: i64) -> Result<(), Failure> {
        self.execute(Sql::Heartbeat, &[&session]).await.map(drop).map_err(unknown)
    }

    /// Of an attempt whose outcome is not known: was it committed? If it was not, it never will be.
    async fn settle(&self, session: i64, number: i64) -> Result<bool, Failure> {
        let settled = self.server.get(|connection| async move {
            let settled = connection.client.query_one(connection.of(Sql::Settle), &[&session, &number]).await;
            let settled = settled.and_then(|row| row.try_get(0)).map_err(|error| Failure::of_attempt(&error));
            (connection, settled)
        });
        let is_given_up: bool = settled.await.map_err(unknown)?;
        self.attempts.unsettled.lock().retain(|unsettled| *unsettled != number);
        Ok(!is_given_up)
    }
}

/// Whatever fails after an attempt was sent says nothing about the attempt.
fn unknown(failure: Failure) -> Failure {
    match failure {
        Failure::Fenced | Failure::Lost(_) => failure,
        failure => Failure::Lost(format!("{failure:?}")),
    }
}

/// Runs the transaction once.
async fn run(connection: &Connection, plan: &Plan, attempt: &Attempt) -> Result<(), Failure> {
    if plan.is_plain() {
        return run_plain(connection, plan, attempt).await;
    }
    let is_parted = !plan.merged.is_empty();
    let mut steps = opening(connection, plan, attempt);
    if !is_parted {
        closing(connection, plan, &plan.set, &mut steps);
        return all(steps).await;
    }
    let opened = all(steps).await;
    let merged = match opened {
        Ok(()) => take_merged(connection, plan).await,
        Err(failure) => Err(failure),
    };
    match merged {
        Ok(mut set) => {
            set.0.extend_from_slice(&plan.set.0);
            set.1.extend_from_slice(&plan.set.1);
            let mut steps = Vec::new();
            closing(connection, plan, &set, &mut steps);
            all(steps).await
        }
        Err(failure) => {
            connection.client.batch_execute("ROLLBACK").await.map_err(|error| Failure::of(&error))?;
            Err(failure)
        }
    }
}

/// The whole transaction as one statement.
async fn run_plain(connection: &Connection, plan: &Plan, attempt: &Attempt) -> Result<(), Failure> {
    let Directories { keys, masked, are_unlinked } = &plan.directories;
    let parameters: [&(dyn ToSql + Sync); 19] = [
        &attempt.session,
        &attempt.number,
        &attempt.answered,
        &plan.guards,
        &plan.held_to_change.0,
        &plan.held_to_change.1,
        &plan.held.0,
        &plan.held.1,
        keys,
        masked,
        are_unlinked,
        &plan.forgotten,
        &plan.removed,
        &plan.made.0,
        &plan.made.1,
        &plan.set.0,
        &plan.set.1,
        &plan.deltas.0,
        &plan.deltas.1,
    ];
    let committed = connection.client.query(connection.of(Sql::Commit), &parameters).await;
    committed.map(drop).map_err(|error| Failure::of_commit(&error))
}

async fn all(steps: Steps<'_>) -> Result<(), Failure> {
    let (refusals, steps): (Vec<Refusal>, Vec<Step<'_>>) = steps.into_iter().unzip();
    together(steps).await.map_err(|(place, error)| refusals[place](&error))
}

fn execute<'c>(connection: &'c Connection, sql: Sql, parameters: Vec<&'c (dyn ToSql + Sync)>) -> Step<'c> {
    let statement: &Statement = connection.of(sql);
    Box::pin(async move { connection.client.execute(statement, &parameters).await.map(drop) })
}

/// The same for a statement whose last parameter is how many keys there are.
fn execute_counted<'c>(
    connection: &'c Connection,
    sql: Sql,
    keys: &'c [Vec<u8>],
    others: Vec<&'c (dyn ToSql + Sync)>,
) -> Step<'c> {
    let statement: &Statement = connection.of(sql);
    let count = i64::try_from(keys.len()).unwrap_or(i64::MAX);
    Box::pin(async move {
        let mut parameters = others;
        parameters.push(&count);
        connection.client.execute(statement, &parameters).await.map(drop)
    })
}

/// Everything up to the point from which nothing can be changed by others.
fn opening<'c>(connection: &'c Connection, plan: &'c Plan, attempt: &'c Attempt) -> Steps<'c> {
    let named = execute(connection, Sql::Attempt, vec![&attempt.session, &attempt.number, &attempt.answered]);
    let mut steps: Steps<'c> =
        vec![(Failure::of, Box::pin(connection.client.batch_execute(sql::BEGIN))), (Failure::of_attempt, named)];
    if !plan.guards.is_empty() {
        let sql = if plan.alone { Sql::GuardAlone } else { Sql::Guard };
        steps.push((Failure::of, execute(connection, sql, vec![&plan.guards])));
    }
    for (sql, (keys, values)) in [(Sql::HoldToChange, &plan.held_to_change), (Sql::Hold, &plan.held)] {
        if !keys.is_empty() {
            steps.push((Failure::of, execute_counted(connection, sql, keys, vec![keys, values])));
        }
    }
    let directories =
        [(Sql::HoldDirectoriesToChange, &plan.directories_to_change), (Sql::HoldDirectories, &plan.directories)];
    for (sql, Directories { keys, masked, are_unlinked }) in directories {
        if !keys.is_empty() {
            steps.push((Failure::of, execute_counted(connection, sql, keys, vec![keys, masked, are_unlinked])));
        }
    }
    if !plan.absent.is_empty() {
        steps.push((Failure::of, execute(connection, Sql::Absent, vec![&plan.absent])));
    }
    for check in &plan.ranges {
        let statement = connection.of(Sql::Range);
        let step = async move {
            let (keys, values): (Vec<&[u8]>, Vec<&[u8]>) =
                check.found.iter().map(|(key, value)| (&**key, &**value)).unzip();
            let limit = i64::try_from(check.limit).unwrap_or(i64::MAX);
            let parameters: [&(dyn ToSql + Sync); 5] = [&check.range.start, &check.range.end, &limit, &keys, &values];
            connection.client.execute(statement, &parameters).await.map(drop)
        };
        steps.push((Failure::of, Box::pin(step)));
    }
    steps
}

/// The changes, and the end.
fn closing<'c>(connection: &'c Connection, plan: &'c Plan, set: &'c Columns, steps: &mut Steps<'c>) {
    if !plan.forgotten.is_empty() {
        steps.push((Failure::of, execute(connection, Sql::Forget, vec![&plan.forgotten])));
    }
    if !plan.removed.is_empty() {
        steps.push((Failure::of, execute(connection, Sql::Remove, vec![&plan.removed])));
    }
    for (sql, (keys, values)) in [(Sql::Make, &plan.made), (Sql::Set, set)] {
        if !keys.is_empty() {
            steps.push((Failure::of, execute(connection, sql, vec![keys, values])));
        }
    }
    let (keys, deltas) = &plan.deltas;
    if !keys.is_empty() {
        steps.push((Failure::of_delta, execute_counted(connection, Sql::Add, keys, vec![keys, deltas])));
    }
    steps.push((Failure::of, Box::pin(connection.client.batch_execute(sql::COMMIT))));
}

/// What becomes of the values that are changed by what they are now. Their rows are locked before their deltas are looked at,
/// because a commit that adds one to a directory holds its row.
async fn take_merged(connection: &Connection, plan: &Plan) -> Result<Columns, Failure> {
    let keys: Vec<Vec<u8>> = plan.merged.iter().map(|(key, _)| key.clone()).collect();
    let mut values = lock(connection, &keys).await?;
    let set = plan.merged.iter().map(|(key, delta)| {
        let value = delta.apply(values.remove(key).as_deref()).map_err(Failure::Damaged)?;
        Ok((key.clone(), value))
    });
    set.collect::<Result<Vec<_>, Failure>>().map(|pairs| pairs.into_iter().unzip())
}

/// Locks rows, and takes the deltas that wait for them: the values with those.
async fn lock(connection: &Connection, keys: &Vec<Vec<u8>>) -> Result<Values, Failure> {
    let failed = |error: tokio_postgres::Error| Failure::of(&error);
    let rows = connection.client.query(connection.of(Sql::Lock), &[keys]).await.map_err(failed)?;
    let mut values = Values::new();
    for row in rows {
        values.insert(row.try_get(0).map_err(failed)?, row.try_get(1).map_err(failed)?);
    }
    let rows = connection.client.query(connection.of(Sql::Take), &[keys]).await.map_err(failed)?;
    let mut deltas: BTreeMap<Vec<u8>, BTreeMap<i64, Vec<u8>>> = BTreeMap::new();
    for row in rows {
        let of_key = deltas.entry(row.try_get(0).map_err(failed)?).or_default();
        of_key.insert(row.try_get(1).map_err(failed)?, row.try_get(2).map_err(failed)?);
    }
    for (key, deltas) in deltas {
        let deltas: Vec<_> = deltas.into_values().collect();
        if let Some(value) = merge(values.remove(&key), &deltas).map_err(Failure::Damaged)? {
            values.insert(key, value);
        }
    }
    Ok(values)
}

/// Applies the deltas that wait for these keys. To lose it with the server's memory is no loss: then they wait again.
pub(super) async fn fold(connection: &Connection, keys: Vec<Vec<u8>>) -> Result<(), Failure> {
    const BEGIN: &str =
        "BEGIN; SET LOCAL idle_in_transaction_session_timeout = '3s'; SET LOCAL synchronous_commit = off";
    let failed = |error: tokio_postgres::Error| Failure::of(&error);
    connection.client.batch_execute(BEGIN).await.map_err(failed)?;
    match lock(connection, &keys).await {
        Ok(values) => {
            let set: Columns = values.into_iter().unzip();
            let steps = vec![
                execute(connection, Sql::Set, vec![&set.0, &set.1]),
                Box::pin(connection.client.batch_execute(sql::COMMIT)) as Step<'_>,
            ];
            together(steps).await.map_err(|(_, error)| Failure::of(&error))
        }
        Err(failure) => {
            connection.client.batch_execute("ROLLBACK").await.map_err(failed)?;
            Err(failure)
        }
    }
}
