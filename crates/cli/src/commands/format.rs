//! `weft format META`: a new, empty volume.

use crate::care::count;
use crate::compose;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use weft_format::records::{PolicyRecord, Timestamp, VolumeRecord};
use weft_format::{Ino, PolicyId, VolumeId};
use weft_meta::engines::SqliteKv;
use weft_meta::{Access, SetAttributes, Store, keys};

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Metadata file to make
    meta: PathBuf,
    /// How files are protected, unless a directory says otherwise (`weft codes list`)
    #[arg(long, value_name = "CODE", default_value = "rs:4+2")]
    policy: String,
    /// Losses that what is written must survive at once, though nodes are away or full; without it every shard is stored but for
    /// those of nodes that are away
    #[arg(long, value_name = "COUNT")]
    write_margin: Option<u16>,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let meta = &arguments.meta;
    let (spec, nodes) = format(meta, &arguments.policy, arguments.write_margin)?;
    let nodes = count(nodes as u64, "node");
    println!("Made the volume {} with policy {spec}: add at least {nodes} with", meta.display());
    println!("  weft node add {} NAME FOLDER", meta.display());
    Ok(())
}

/// Makes the volume; gives the canonical spec of its code and the nodes that it needs.
pub fn format(meta: &Path, spec: &str, write_margin: Option<u16>) -> Result<(String, usize)> {
    let code = compose::code(spec)?;
    let policy = weft_vfs::policy_for(&weft_vfs::policy_text(&PolicyRecord::of(code.spec(), write_margin)))?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock is before 1970: set it")?;
    let now_time = Timestamp { seconds: now.as_secs() as i64, nanoseconds: now.subsec_nanos() };
    let volume = VolumeRecord {
        volume: VolumeId(rand::random()),
        created_ms: now.as_millis() as u64,
        default_policy: PolicyId(0),
    };
    SqliteKv::create(meta)?;
    let kv = SqliteKv::open(meta, Access::Owner, keys::SHARED, None)?;
    let store = Store::format(Arc::new(kv), &volume, &policy, now_time)?;
    // Whoever makes a volume may write to it.
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let owner = SetAttributes { uid: Some(uid), gid: Some(gid), ..SetAttributes::default() };
    store.set_attributes(Ino::ROOT, &owner)?;
    store.flush()?;
    Ok((code.spec().to_owned(), code.shape().n))
}
