//! Files of volumes as commands walk them: through the mount on this machine if there is one.

use crate::render;
use anyhow::Result;
use indicatif::ProgressBar;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use weft_engine::files::{self, Progress, Tree};
use weft_engine::{Holder, MetaUrl};
use weft_gateways::fuse::mounts;

/// Where the volume's owner has it mounted on this machine.
pub fn mountpoint(meta: &MetaUrl) -> Result<Option<PathBuf>> {
    let owner = |meta: &MetaUrl| meta.current_owner(&weft_engine::SystemClock).ok().flatten();
    let Some(holder) = owner(meta).filter(Holder::is_here) else { return Ok(None) };
    let Some(mountpoint) = &holder.mountpoint else { return Ok(None) };
    let Some(mount) = mounts::at(mountpoint)?.filter(mounts::Mount::is_ours) else { return Ok(None) };
    // The store may have several names. Another volume may be mounted where the owner of this one has it on another machine.
    let is_it = MetaUrl::parse(&mount.source).is_ok_and(|source| owner(&source).as_ref() == Some(&holder));
    Ok(is_it.then(|| mountpoint.clone()))
}

/// The files of a volume, to be changed.
pub fn open(meta: &MetaUrl, bwlimit: Option<NonZeroU64>) -> Result<Box<dyn Tree>> {
    Ok(files::open(meta, mountpoint(meta)?.as_deref(), bwlimit)?)
}

/// The files of a volume, to be read.
pub fn open_to_read(meta: &MetaUrl, bwlimit: Option<NonZeroU64>) -> Result<Box<dyn Tree>> {
    Ok(files::open_to_read(meta, mountpoint(meta)?.as_deref(), bwlimit)?)
}

/// A copy, on a progress bar.
pub struct Shown<'b>(pub &'b ProgressBar);

impl Progress for Shown<'_> {
    fn begin(&self, from: &Path) {
        self.0.set_message(render::line(&from.to_string_lossy()));
    }

    fn advance(&self, bytes: u64) {
        self.0.inc(bytes);
    }
}
