//! A new, empty volume.

use crate::error::EngineError;
use weft_codes::Code;
use weft_env::Env;
use weft_format::records::{PolicyRecord, Timestamp, VolumeRecord};
use weft_format::{Ino, PolicyId, VolumeId};
use weft_meta::{Access, MetaUrl, SetAttributes, Store};

/// Is there a store at `meta` without a volume? One is left by a process that ends while it makes a volume.
#[must_use]
pub fn is_blank(meta: &MetaUrl, env: &Env) -> bool {
    let has_none = || {
        let kv = meta.open(Access::Shared, None, env).ok()?;
        Some(kv.snapshot().ok()?.scan(&[], &[u8::MAX], 1).ok()?.is_empty())
    };
    meta.exists() && has_none().unwrap_or(false)
}

/// Makes a volume with its metadata at `meta`. Its root directory has this code, and belongs to the user of this process.
///
/// # Errors
/// Something is at `meta` already, or nothing can be made there.
pub fn format(meta: &MetaUrl, code: &dyn Code, write_margin: Option<u16>, env: &Env) -> Result<(), EngineError> {
    let policy = weft_vfs::policy_for(&weft_vfs::policy_text(&PolicyRecord::of(code.spec(), write_margin)))?;
    let now_ms = env.clock.unix_ms();
    let now = Timestamp { seconds: (now_ms / 1000) as i64, nanoseconds: (now_ms % 1000) as u32 * 1_000_000 };
    let volume =
        VolumeRecord { volume: VolumeId(env.rng.next_u128()), created_ms: now_ms, default_policy: PolicyId(0) };
    if !is_blank(meta, env) {
        meta.create()?;
    }
    let store = Store::format(meta.open(Access::Owner, None, env)?, &volume, &policy, now, env)?;
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let owner = SetAttributes { uid: Some(uid), gid: Some(gid), ..SetAttributes::default() };
    store.set_attributes(Ino::ROOT, &owner)?;
    Ok(store.flush()?)
}
