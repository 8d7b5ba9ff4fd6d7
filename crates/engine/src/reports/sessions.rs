//! The processes that change a volume.

use crate::error::EngineError;
use serde::Serialize;
use weft_env::{Env, SystemClock};
use weft_meta::MetaUrl;

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
    /// It owns the volume.
    pub is_owner: bool,
    /// Where it has the volume mounted.
    pub mountpoint: Option<String>,
    /// When it gave its last sign of life.
    pub seen_ms: u64,
}

/// All of them, the oldest first.
///
/// # Errors
/// The metadata engine cannot be asked.
pub fn session_lines(meta: &MetaUrl) -> Result<Vec<SessionLine>, EngineError> {
    let now_ms = Env::system().clock.unix_ms();
    let sessions = meta.sessions(&SystemClock)?;
    let lines = sessions.into_iter().map(|session| SessionLine {
        id: session.id,
        process: session.holder.process,
        host: session.holder.host,
        started_ms: session.holder.started * 1000,
        is_owner: session.is_owner,
        mountpoint: session.holder.mountpoint.map(|path| path.display().to_string()),
        seen_ms: now_ms.saturating_sub(u64::try_from(session.silent.as_millis()).unwrap_or(u64::MAX)),
    });
    Ok(lines.collect())
}
