//! Sessions: the processes that commit, and the one among them that owns the volume. A session is a key that goes with a lease, which the
//! servers end by themselves if it gets no sign of life. Its number is the revision of its key, so none is given out twice.

use super::Engine;
use super::layout::Layout;
use super::protocol::{Compare, Put, Range, Request, Transaction};
use super::server::Server;
use crate::engines::OpenError;
use crate::engines::remote::failure::Failure;
use crate::engines::remote::place::SILENCE_MAX;
use crate::engines::remote::process::{began, has_ended, this_machine};
use crate::owner::{Holder, OwnerError, Role, Session};
use crate::types::Access;
use prost::Message;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

/// A short-lived owner's change is waited for.
const SHORT_LIVED_WAIT: Duration = Duration::from_secs(10);
/// A mount that is being ended, or has just come.
const WAIT: Duration = Duration::from_millis(100);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// What a session's key has.
#[derive(Clone, PartialEq, Eq, Message)]
struct Record {
    #[prost(bytes = "vec", tag = "1")]
    holder: Vec<u8>,
    /// Processes of one machine have the same; empty: that cannot be told.
    #[prost(string, tag = "2")]
    machine: String,
    #[prost(string, tag = "3")]
    process_began: String,
}

/// This process among the others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Own {
    pub session: i64,
    pub role: u8,
    pub lease: i64,
}

/// A session as the servers have it.
struct Known {
    session: i64,
    lease: i64,
    role: Role,
    holder: Holder,
    /// Its process on this machine has ended.
    has_ended: bool,
}

async fn known(server: &Server, layout: &Layout) -> Result<Vec<Known>, Failure> {
    let (key, range_end) = layout.sessions();
    let found = server.ask(Range { key, range_end, ..Range::default() }).await?;
    let known = found.kvs.iter().filter_map(|row| {
        let (role, lease) = layout.session_of(&row.key)?;
        let record = Record::decode(&row.value[..]).unwrap_or_default();
        let unreadable = Holder { process: 0, host: "?".into(), started: 0, mountpoint: None, is_short_lived: false };
        let holder = Holder::from_text(&record.holder).unwrap_or(unreadable);
        let is_here = this_machine().is_some_and(|here| here == record.machine);
        let has_ended = is_here && has_ended(holder.process, &record.process_began);
        Some(Known { session: row.create_revision, lease, role: Role::of(role), holder, has_ended })
    });
    Ok(known.collect())
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

    /// Takes a place in the store if this process is to have one.
    pub(super) async fn enter(&self, mountpoint: Option<&Path>) -> Result<(), OpenError> {
        let clock = &self.server.env.clock;
        let holder = match self.access {
            Access::Shared => return Ok(()),
            Access::Owner | Access::Member => Holder::this_process(mountpoint, &**clock),
            Access::ShortLived => Holder::short_lived(&**clock),
        };
        let failed = |failure: Failure| OpenError::Engine(self.error(failure));
        let began_at = clock.now();
        loop {
            let moment = self.place.moment();
            if let Some(own) = self.insert(&holder).await.map_err(failed)? {
                self.place.signed(moment);
                *self.own.lock().await = Some(own);
                return Ok(());
            }
            let known = known(&self.server, &self.layout).await.map_err(failed)?;
            let Some(found) = known.into_iter().find(|found| self.role().is_kept_out_by(found.role)) else {
                clock.sleep(LOOK_EVERY).await;
                continue;
            };
            if found.has_ended {
                tracing::info!(holder = %found.holder, "it has ended; its place is taken");
                self.server.revoke(found.lease).await.map_err(failed)?;
                continue;
            }
            let may_end_soon =
                found.holder.is_short_lived || holder.is_short_lived && found.holder.mountpoint.is_none();
            let wait = if may_end_soon { SHORT_LIVED_WAIT } else { WAIT };
            if clock.now() > began_at + wait {
                let place = self.server.address.shown.clone();
                return Err(OwnerError::InUse { place, holder: Some(found.holder) }.into());
            }
            clock.sleep(LOOK_EVERY).await;
        }
    }

    /// `None`: somebody is in the way.
    async fn insert(&self, holder: &Holder) -> Result<Option<Own>, Failure> {
        let lease = self.server.grant(SILENCE_MAX.as_secs().cast_signed()).await?;
        let role = self.role().number();
        let key = self.layout.session(role, lease);
        let record = Record {
            holder: holder.to_text(),
            machine: this_machine().unwrap_or_default(),
            process_began: began(holder.process).unwrap_or_default(),
        };
        let kept_out = [Role::Owner, Role::Member].into_iter().filter(|other| self.role().is_kept_out_by(*other));
        let empty = kept_out.map(|other| {
            let (start, end) = self.layout.sessions_of(other.number());
            Compare::is_empty(start, end)
        });
        let put = Put { key: key.clone(), value: record.encode_to_vec(), lease };
        let question = Range::of(key.clone());
        let outcome = self.server.transact(Transaction {
            // It may have been sent before.
            compare: empty.chain([Compare::is_absent(key)]).collect(),
            success: vec![Request::Put(put).into()],
            failure: vec![question.into()],
        });
        let outcome = outcome.await?;
        if outcome.succeeded {
            return Ok(Some(Own { session: outcome.revision(), role, lease }));
        }
        if let Some(row) = outcome.rows().flatten().next() {
            return Ok(Some(Own { session: row.create_revision, role, lease }));
        }
        self.server.revoke(lease).await?;
        Ok(None)
    }

    /// This process's: one that owns nothing is made with its first commit.
    pub(super) async fn own(&self) -> Result<Own, Failure> {
        if self.place.is_lost() {
            return Err(Failure::Fenced);
        }
        let mut own = self.own.lock().await;
        if let Some(own) = *own {
            return Ok(own);
        }
        if self.role() != Role::Helper {
            return Err(Failure::Failed("it is closed".into()));
        }
        *own = self.insert(&Holder::this_process(None, &*self.server.env.clock)).await?;
        own.ok_or_else(|| Failure::Failed("it gives no session".into()))
    }

    /// The sessions of those that change names. One whose process is known to have ended is ended.
    pub(super) async fn members(&self) -> Result<BTreeSet<i64>, Failure> {
        let mut members = BTreeSet::new();
        for found in known(&self.server, &self.layout).await?.into_iter().filter(|found| found.role != Role::Helper) {
            if found.has_ended {
                self.server.revoke(found.lease).await?;
            } else {
                members.insert(found.session);
            }
        }
        Ok(members)
    }

    /// A sign of life, if this process has a session.
    pub(super) async fn sign(&self) -> Result<(), Failure> {
        let Some(own) = *self.own.lock().await else { return Ok(()) };
        let moment = self.place.moment();
        let signed = self.server.keep_alive(own.lease).await;
        match signed {
            Ok(()) => self.place.signed(moment),
            Err(Failure::Fenced) => self.place.lose(),
            Err(_) => {}
        }
        signed
    }

    /// Ends the session, after what waits of its deltas is folded.
    pub(super) async fn leave(&self) -> Result<(), Failure> {
        // The next readers add up what is not folded.
        let folded = self.fold_waiting().await;
        let Some(own) = self.own.lock().await.take() else { return Ok(()) };
        self.server.revoke(own.lease).await?;
        folded
    }
}

/// Who owns the store or has a part in it: of several the one that has it mounted on this machine.
pub(super) async fn current_owner(server: &Server, layout: &Layout) -> Result<Option<Holder>, Failure> {
    let holders = known(server, layout)
        .await?
        .into_iter()
        .filter(|found| found.role != Role::Helper && !found.has_ended && !found.holder.is_short_lived);
    let is_elsewhere = |holder: &Holder| !(holder.is_here() && holder.mountpoint.is_some());
    Ok(holders.map(|found| found.holder).min_by_key(is_elsewhere))
}

/// All sessions whose processes may still change something.
pub(super) async fn sessions(server: &Server, layout: &Layout) -> Result<Vec<Session>, Failure> {
    let mut sessions = Vec::new();
    for found in known(server, layout).await?.into_iter().filter(|found| !found.has_ended) {
        if let Some(silent) = server.silence(found.lease).await? {
            sessions.push(Session { id: found.session, holder: found.holder, role: found.role, silent });
        }
    }
    Ok(sessions)
}

/// Removes a session; false: there is none.
pub(super) async fn evict(server: &Server, layout: &Layout, id: i64) -> Result<bool, Failure> {
    match known(server, layout).await?.into_iter().find(|found| found.session == id) {
        Some(found) => server.revoke(found.lease).await,
        None => Ok(false),
    }
}
