//! Sessions: the processes that commit, and the one among them that owns the volume.

use super::Engine;
use super::address::Address;
use super::failure::{Failure, refusal};
use super::server::{Connection, Sql};
use super::sql;
use crate::engines::OpenError;
use crate::owner::{Holder, OwnerError, Session};
use crate::types::Access;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio_postgres::Client;

/// Each session says so often that it lives.
pub(super) const SIGN_EVERY: Duration = Duration::from_secs(3);
/// A session that said nothing for so long has lost its place to whoever wants it.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(20);
/// One that is no owner, and so in nobody's way, is forgotten after so long.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(3600);
/// A short-lived owner's change is waited for.
const SHORT_LIVED_WAIT: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// A mount that is being ended, or has just come and says nothing yet.
const WAIT: Duration = Duration::from_millis(100);

/// A session as its row has it.
struct Found {
    session: i64,
    holder: Holder,
    /// It gave no sign of life for too long, or its process on this machine has ended.
    is_gone: bool,
    /// Its process on this machine has ended.
    has_ended: bool,
    silent_s: f64,
    is_owner: bool,
}

impl Engine {
    pub(super) fn is_owner(&self) -> bool {
        self.access != Access::Shared
    }

    /// Looks whether there is a store of ours, and becomes its owner if it is to be that.
    pub(super) async fn enter(&self, mountpoint: Option<&Path>) -> Result<(), OpenError> {
        let address = &self.server.address;
        let client = self.server.connect().await.map_err(|error| refusal(address, &error))?;
        recognise(&client, address).await?;
        drop(client);
        let clock = &self.server.env.clock;
        let holder = match self.access {
            Access::Shared => return Ok(()),
            Access::Owner => Holder::this_process(mountpoint, &**clock),
            Access::ShortLived => Holder::short_lived(&**clock),
        };
        let failed = |failure: Failure| OpenError::Engine(self.error(failure));
        let connection = self.server.connection().await.map_err(failed)?;
        let began = clock.now();
        loop {
            let Some(found) = find_owner(&connection).await.map_err(failed)? else {
                if let Some(session) = insert(&connection, true, &holder).await.map_err(failed)? {
                    *self.session.lock().await = Some(session);
                    break;
                }
                continue;
            };
            if found.is_gone {
                tracing::info!(holder = %found.holder, "the owner gave no sign of life; its place is taken");
                remove(&connection, found.session).await.map_err(failed)?;
                continue;
            }
            let may_end_soon =
                found.holder.is_short_lived || holder.is_short_lived && found.holder.mountpoint.is_none();
            let wait = if may_end_soon { SHORT_LIVED_WAIT } else { WAIT };
            if clock.now() > began + wait {
                tracing::debug!(silent_s = found.silent_s, "the owner's last sign of life");
                return Err(OwnerError::InUse { place: address.shown.clone(), holder: Some(found.holder) }.into());
            }
            clock.sleep(LOOK_EVERY).await;
        }
        let swept = connection.client.execute(connection.of(Sql::Sweep), &[&FORGOTTEN_AFTER.as_secs_f64()]).await;
        swept.map_err(|error| failed(Failure::of(&error)))?;
        self.server.put_back(connection);
        Ok(())
    }

    /// The session of this process: one that owns nothing is made with its first commit.
    pub(super) async fn session(&self) -> Result<i64, Failure> {
        if self.is_fenced.load(Ordering::Acquire) {
            return Err(Failure::Fenced);
        }
        let mut session = self.session.lock().await;
        if let Some(session) = *session {
            return Ok(session);
        }
        if self.is_owner() {
            return Err(Failure::Failed("it is closed".into()));
        }
        let holder = Holder::this_process(None, &*self.server.env.clock);
        let holder = &holder;
        let made = self.server.get(|connection| async move {
            let made = insert(&connection, false, holder).await;
            (connection, made)
        });
        *session = made.await?;
        session.ok_or_else(|| Failure::Failed("it gives no session".into()))
    }

    /// Ends the session, after what waits of its deltas is folded.
    pub(super) async fn leave(&self) -> Result<(), Failure> {
        self.fold_own().await?;
        let Some(session) = self.session.lock().await.take() else { return Ok(()) };
        self.execute(Sql::Leave, &[&session]).await.map(drop)
    }
}

/// `None`: there is another owner.
async fn insert(connection: &Connection, is_owner: bool, holder: &Holder) -> Result<Option<i64>, Failure> {
    let (text, machine, began) = (holder.to_text(), this_machine(), began(holder.process));
    let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 4] = [&is_owner, &text, &machine, &began];
    match connection.client.query_one(connection.of(Sql::Enter), &parameters).await {
        Ok(row) => row.try_get(0).map(Some).map_err(|error| Failure::of(&error)),
        Err(error) => match Failure::of(&error) {
            Failure::Conflict => Ok(None),
            failure => Err(failure),
        },
    }
}

/// Waits for what the session is committing; what it tries after that is refused.
async fn remove(connection: &Connection, session: i64) -> Result<(), Failure> {
    let removed = connection.client.execute(connection.of(Sql::Leave), &[&session]).await;
    removed.map(drop).map_err(|error| Failure::of(&error))
}

async fn find_owner(connection: &Connection) -> Result<Option<Found>, Failure> {
    let failed = |error: tokio_postgres::Error| Failure::of(&error);
    let row = connection.client.query_opt(connection.of(Sql::Owner), &[]).await.map_err(failed)?;
    row.map(|row| session_of(&row).map_err(failed)).transpose()
}

fn session_of(row: &tokio_postgres::Row) -> Result<Found, tokio_postgres::Error> {
    let (text, machine, process_began): (Vec<u8>, String, String) = (row.try_get(1)?, row.try_get(2)?, row.try_get(3)?);
    let silent_s: f64 = row.try_get(4)?;
    let unreadable = Holder { process: 0, host: "?".into(), started: 0, mountpoint: None, is_short_lived: false };
    let holder = Holder::from_text(&text).unwrap_or(unreadable);
    let has_ended = machine == this_machine() && began(holder.process) != process_began;
    let is_owner = row.try_get(5)?;
    Ok(Found {
        session: row.try_get(0)?,
        is_owner,
        has_ended,
        is_gone: has_ended || silent_s > SILENCE_MAX.as_secs_f64(),
        holder,
        silent_s,
    })
}

/// Who owns the store, if anybody does.
pub(super) async fn current_owner(client: &Client, address: &Address) -> Result<Option<Holder>, tokio_postgres::Error> {
    client.batch_execute(&sql::prepare(&address.schema)).await?;
    let row = client.query_opt(sql::OWNER, &[]).await?;
    let found = row.map(|row| session_of(&row)).transpose()?;
    Ok(found.filter(|found| !found.is_gone).map(|found| found.holder))
}

/// All sessions whose processes may still change something.
pub(super) async fn sessions(client: &Client, address: &Address) -> Result<Vec<Session>, tokio_postgres::Error> {
    client.batch_execute(&sql::prepare(&address.schema)).await?;
    let rows = client.query(sql::SESSIONS, &[]).await?;
    let found = rows.iter().map(session_of).collect::<Result<Vec<Found>, _>>()?;
    let session = |found: Found| Session {
        id: found.session,
        holder: found.holder,
        is_owner: found.is_owner,
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

/// Processes of one machine, and of one space of process numbers on it, have the same.
fn this_machine() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let space = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    format!("{} {}", boot.trim(), space.display())
}

/// When a process began, in the machine's own count; empty: there is no such process, or nothing but its exit status is left of it.
fn began(process: u32) -> String {
    let status = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The second field is the program's name in brackets, and may have brackets in it; the third is the state, the 22nd the time.
    let mut after_name = status.rsplit_once(')').map_or("", |(_, rest)| rest).split_ascii_whitespace();
    match after_name.next() {
        Some("Z" | "X") => String::new(),
        _ => after_name.nth(18).unwrap_or_default().to_owned(),
    }
}
