//! The processes that change a volume.

use crate::error::EngineError;
use crate::open_store;
use serde::Serialize;
use std::collections::BTreeMap;
use weft_env::{Env, SystemClock};
use weft_meta::MetaUrl;
use weft_meta::owner::Role;

/// One of them.
#[derive(Clone, Debug, Serialize)]
pub struct SessionLine {
    /// What `weft session evict` takes; 0: the engine has no sessions.
    pub id: i64,
    /// Its process.
    pub process: u32,
    /// The host that it runs on.
    pub host: String,
    /// Since when.
    pub started_ms: u64,
    /// `owner`: it changes everything, alone. `member`: it changes everything, together with others. `helper`: it changes records of nodes and
    /// segments.
    pub role: &'static str,
    /// Where it has the volume mounted.
    pub mountpoint: Option<String>,
    /// When it gave its last sign of life.
    pub seen_ms: u64,
    /// Locks of programs on files, as far as other machines mind them.
    pub lock_count: u64,
}

/// All of them, the oldest first.
///
/// # Errors
/// The metadata engine cannot be asked.
pub fn session_lines(meta: &MetaUrl) -> Result<Vec<SessionLine>, EngineError> {
    let locks = if meta.has_sessions() { open_store(meta, &Env::system())?.lock_counts()? } else { BTreeMap::new() };
    lines(meta, &locks)
}

pub(super) fn lines(meta: &MetaUrl, locks: &BTreeMap<i64, u64>) -> Result<Vec<SessionLine>, EngineError> {
    let now_ms = Env::system().clock.unix_ms();
    let sessions = meta.sessions(&SystemClock)?;
    let lines = sessions.into_iter().map(|session| SessionLine {
        id: session.id,
        process: session.holder.process,
        host: session.holder.host,
        started_ms: session.holder.started * 1000,
        role: match session.role {
            Role::Owner => "owner",
            Role::Member => "member",
            Role::Helper => "helper",
        },
        mountpoint: session.holder.mountpoint.map(|path| path.display().to_string()),
        lock_count: locks.get(&session.id).copied().unwrap_or(0),
        seen_ms: now_ms.saturating_sub(u64::try_from(session.silent.as_millis()).unwrap_or(u64::MAX)),
    });
    Ok(lines.collect())
}
