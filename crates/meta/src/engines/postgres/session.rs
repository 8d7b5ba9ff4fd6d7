//! Sessions: the processes that commit, and the one among them that owns the volume.

use super::Engine;
use super::address::Address;
use super::failure::refusal;
use super::server::{Connection, Sql, Step, together};
use super::sql;
use crate::engines::OpenError;
use crate::engines::remote::failure::Failure;
use crate::engines::remote::place::SILENCE_MAX;
use crate::engines::remote::process::{began, has_ended, this_machine};
use crate::owner::{Holder, OwnerError, Role, Session};
use crate::types::Access;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};
use tokio_postgres::Client;
use tokio_postgres::types::ToSql;

/// One that is no owner, and so in nobody's way, is forgotten after so long.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(3600);
/// A short-lived owner's change is waited for.
const SHORT_LIVED_WAIT: Duration = Duration::from_secs(10);
/// An owner that seems silent is watched for so long by who wants its place.
const WATCH: Duration = Duration::from_secs(7);
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// A mount that is being ended, or has just come and says nothing yet.
const WAIT: Duration = Duration::from_millis(100);

/// A session as its row has it.
struct Found {
    session: i64,
    holder: Holder,
    /// It gave no sign of life for too long, by the server's clock.
    is_silent: bool,
    /// The moment of its last sign of life, as the server writes it.
    sign: String,
    /// Its process on this machine has ended.
    has_ended: bool,
    silent_s: f64,
    role: Role,
}

impl Engine {
    /// What this process may change.
    pub(super) fn role(&self) -> Role {
        match self.access {
            Access::Owner | Access::ShortLived => Role::Owner,
            Access::Member => Role::Member,
            Access::Shared => Role::Helper,
        }
    }

    /// Looks whether there is a store of ours, and takes a place in it if it is to have one.
    pub(super) async fn enter(&self, mountpoint: Option<&Path>) -> Result<(), OpenError> {
        let address = &self.server.address;
        let client = self.server.connect().await.map_err(|error| refusal(address, &error))?;
        recognise(&client, address).await?;
        drop(client);
        let clock = &self.server.env.clock;
        let holder = match self.access {
            Access::Shared => return Ok(()),
            Access::Owner | Access::Member => Holder::this_process(mountpoint, &**clock),
            Access::ShortLived => Holder::short_lived(&**clock),
        };
        let failed = |failure: Failure| OpenError::Engine(self.error(failure));
        let connection = self.server.connection().await.map_err(failed)?;
        let (began, mut watch) = (clock.now(), Watch::default());
        loop {
            let moment = self.place.moment();
            if let Some(session) = insert(&connection, self.role(), &holder).await.map_err(failed)? {
                self.place.signed(moment);
                *self.session.lock().await = Some(session);
                break;
            }
            let found = find_all(&connection).await.map_err(failed)?;
            let Some(found) = found.into_iter().find(|found| self.role().is_kept_out_by(found.role)) else { continue };
            if watch.has_gone(&found, clock.now()) {
                tracing::info!(holder = %found.holder, "it has ended or gives no sign of life; its place is taken");
                displace(&connection, &found).await.map_err(failed)?;
                continue;
            }
            if found.is_silent {
                clock.sleep(LOOK_EVERY).await;
                continue;
            }
            let may_end_soon =
                found.holder.is_short_lived || holder.is_short_lived && found.holder.mountpoint.is_none();
            let wait = if may_end_soon { SHORT_LIVED_WAIT } else { WAIT };
            if clock.now() > began + wait {
                tracing::debug!(silent_s = found.silent_s, "the holder's last sign of life");
                return Err(OwnerError::InUse { place: address.shown.clone(), holder: Some(found.holder) }.into());
            }
            clock.sleep(LOOK_EVERY).await;
        }
        let swept = connection.client.execute(connection.of(Sql::Sweep), &[&FORGOTTEN_AFTER.as_secs_f64()]).await;
        if let Err(error) = swept {
            tracing::debug!(%error, "sessions of long ago stay");
        }
        self.server.put_back(connection);
        Ok(())
    }

    /// All sessions.
    async fn found(&self) -> Result<Vec<Found>, Failure> {
        let found = self.server.get(|connection| async move {
            let found = find_all(&connection).await;
            (connection, found)
        });
        found.await
    }

    /// Takes the places of members that have ended or give no sign of life.
    pub(super) async fn look_after(&self, watch: &mut Watch) -> Result<(), Failure> {
        let found = self.found().await?;
        watch.keep(&found);
        let now = self.server.env.clock.now();
        for found in found.iter().filter(|found| found.role == Role::Member) {
            if watch.has_gone(found, now) {
                tracing::info!(holder = %found.holder, "it has ended or gives no sign of life; its session ends");
                self.execute(Sql::Displace, &[&found.session, &found.sign]).await?;
            }
        }
        Ok(())
    }

    /// The sessions of those that change names.
    pub(super) async fn members(&self) -> Result<BTreeSet<i64>, Failure> {
        Ok(self
            .found()
            .await?
            .into_iter()
            .filter(|found| found.role != Role::Helper)
            .map(|found| found.session)
            .collect())
    }

    /// The session of this process: one that owns nothing is made with its first commit.
    pub(super) async fn session(&self) -> Result<i64, Failure> {
        if self.place.is_lost() {
            return Err(Failure::Fenced);
        }
        let mut session = self.session.lock().await;
        if let Some(session) = *session {
            return Ok(session);
        }
        if self.role() != Role::Helper {
            return Err(Failure::Failed("it is closed".into()));
        }
        let holder = Holder::this_process(None, &*self.server.env.clock);
        let holder = &holder;
        let made = self.server.get(|connection| async move {
            let made = insert(&connection, Role::Helper, holder).await;
            (connection, made)
        });
        *session = made.await?;
        session.ok_or_else(|| Failure::Failed("it gives no session".into()))
    }

    /// Ends the session, after what waits of its deltas is folded.
    pub(super) async fn leave(&self) -> Result<(), Failure> {
        // What is not folded waits for the next owner.
        let folded = self.fold_own().await;
        let Some(session) = self.session.lock().await.take() else { return Ok(()) };
        self.execute(Sql::Leave, &[&session]).await?;
        folded
    }
}

/// Members that may have ended, as this process has seen them.
#[derive(Default)]
pub(super) struct Watch {
    /// The sign of each that is silent, and since when it is known here.
    silent: BTreeMap<i64, (String, Instant)>,
}

impl Watch {
    /// Has its process ended, or given no sign of life although it was watched? The server itself may have been away, or its clock may have
    /// been set: only a sign that does not come is one.
    fn has_gone(&mut self, found: &Found, now: Instant) -> bool {
        if found.has_ended {
            return true;
        }
        let (sign, since) = self.silent.entry(found.session).or_insert_with(|| (found.sign.clone(), now));
        if !found.is_silent || *sign != found.sign {
            self.silent.remove(&found.session);
            return false;
        }
        now > *since + WATCH
    }

    /// Forgets those that are gone.
    fn keep(&mut self, found: &[Found]) {
        self.silent.retain(|session, _| found.iter().any(|found| found.session == *session));
    }
}

/// `None`: somebody is in the way.
async fn insert(connection: &Connection, role: Role, holder: &Holder) -> Result<Option<i64>, Failure> {
    let (text, machine) = (holder.to_text(), this_machine().unwrap_or_default());
    let began = began(holder.process).unwrap_or_default();
    let role = i16::from(role.number());
    let parameters: [&(dyn ToSql + Sync); 4] = [&role, &text, &machine, &began];
    let (client, mut entered) = (&connection.client, None);
    let row = &mut entered;
    let steps: Vec<Step<'_>> = vec![
        Box::pin(client.batch_execute(sql::BEGIN)),
        Box::pin(client.batch_execute(sql::GATE)),
        Box::pin(async move {
            *row = client.query_opt(connection.of(Sql::Enter), &parameters).await?;
            Ok(())
        }),
        Box::pin(client.batch_execute(sql::COMMIT)),
    ];
    if let Err((_, error)) = together(steps).await {
        let _ = client.batch_execute("ROLLBACK").await;
        return match Failure::of(&error) {
            Failure::Conflict => Ok(None),
            failure => Err(failure),
        };
    }
    entered.map(|row| row.try_get(0).map_err(|error| Failure::of(&error))).transpose()
}

/// Takes its place, unless it has given a sign of life meanwhile. Waits for what it is committing; what it tries after that is refused.
async fn displace(connection: &Connection, found: &Found) -> Result<(), Failure> {
    let displaced = connection.client.execute(connection.of(Sql::Displace), &[&found.session, &found.sign]).await;
    displaced.map(drop).map_err(|error| Failure::of(&error))
}

async fn find_all(connection: &Connection) -> Result<Vec<Found>, Failure> {
    let failed = |error: tokio_postgres::Error| Failure::of(&error);
    let rows = connection.client.query(connection.of(Sql::Sessions), &[]).await.map_err(failed)?;
    rows.iter().map(session_of).collect::<Result<_, _>>().map_err(failed)
}

fn session_of(row: &tokio_postgres::Row) -> Result<Found, tokio_postgres::Error> {
    let (text, machine, process_began): (Vec<u8>, String, String) = (row.try_get(1)?, row.try_get(2)?, row.try_get(3)?);
    let silent_s: f64 = row.try_get(4)?;
    let unreadable = Holder { process: 0, host: "?".into(), started: 0, mountpoint: None, is_short_lived: false };
    let holder = Holder::from_text(&text).unwrap_or(unreadable);
    let is_here = this_machine().is_some_and(|here| here == machine);
    let has_ended = is_here && has_ended(holder.process, &process_began);
    let role: i16 = row.try_get(5)?;
    let role = Role::of(u8::try_from(role).unwrap_or_default());
    Ok(Found {
        session: row.try_get(0)?,
        role,
        has_ended,
        is_silent: silent_s > SILENCE_MAX.as_secs_f64(),
        sign: row.try_get(6)?,
        holder,
        silent_s,
    })
}

/// Who owns the store or has a part in it: of several the one that has it mounted on this machine.
pub(super) async fn current_owner(client: &Client, address: &Address) -> Result<Option<Holder>, tokio_postgres::Error> {
    client.batch_execute(&sql::prepare(&address.schema)).await?;
    let rows = client.query(sql::SESSIONS, &[]).await?;
    let found = rows.iter().map(session_of).collect::<Result<Vec<Found>, _>>()?;
    let holders = found.into_iter().filter(|found| found.role != Role::Helper && !found.is_silent && !found.has_ended);
    let is_elsewhere = |holder: &Holder| !(holder.is_here() && holder.mountpoint.is_some());
    Ok(holders.map(|found| found.holder).min_by_key(is_elsewhere))
}

/// All sessions whose processes may still change something.
pub(super) async fn sessions(client: &Client, address: &Address) -> Result<Vec<Session>, tokio_postgres::Error> {
    client.batch_execute(&sql::prepare(&address.schema)).await?;
    let rows = client.query(sql::SESSIONS, &[]).await?;
    let found = rows.iter().map(session_of).collect::<Result<Vec<Found>, _>>()?;
    let session = |found: Found| Session {
        id: found.session,
        holder: found.holder,
        role: found.role,
        silent: Duration::try_from_secs_f64(found.silent_s).unwrap_or_default(),
    };
    Ok(found.into_iter().filter(|found| !found.has_ended).map(session).collect())
}

/// Removes a session; false: there is none.
pub(super) async fn evict(client: &Client, address: &Address, id: i64) -> Result<bool, tokio_postgres::Error> {
    client.batch_execute(&sql::prepare(&address.schema)).await?;
    Ok(client.execute(sql::LEAVE, &[&id]).await? > 0)
}

/// Is it a store that this program knows?
pub(super) async fn recognise(client: &Client, address: &Address) -> Result<(), OpenError> {
    let refused = |error: tokio_postgres::Error| refusal(address, &error);
    let schema = &address.schema;
    let found =
        client.query_opt("SELECT to_regclass($1)::text", &[&format!("{schema}.store")]).await.map_err(refused)?;
    if found.and_then(|row| row.try_get::<_, Option<String>>(0).ok().flatten()).is_none() {
        return Err(OpenError::Missing(address.shown.clone()));
    }
    let row = client.query_opt(&format!("SELECT format FROM {schema}.store"), &[]).await.map_err(refused)?;
    let format: Option<i32> = row.and_then(|row| row.try_get(0).ok());
    let (place, known) = (address.shown.clone(), sql::FORMAT_VERSION);
    match format {
        Some(found) if found == known => Ok(()),
        Some(found) if found > known => Err(OpenError::Newer { place, found, known }),
        Some(found) if found > 0 => Err(OpenError::Older { place, found, known }),
        _ => Err(OpenError::NotOurs(place)),
    }
}
