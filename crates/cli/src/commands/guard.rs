//! `weft guard`: what a mount starts beside it, so that programs do not wait for ever if it is killed.

use crate::signals::Ending;
use anyhow::{Context, Result};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use weft_gateways::fuse::guard;

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The process that mounts
    process: u32,
    /// The mount's device number
    device: String,
    /// Where it is mounted
    #[arg(value_name = "DIR")]
    mountpoint: PathBuf,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let Arguments { process, device, mountpoint } = arguments;
    // Who ends a service sends signals to all its processes. This one stays until the mount has ended.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let _entered = runtime.enter();
    let _caught = Ending::catch()?;
    guard::guard(*process, device, mountpoint).with_context(|| {
        let mountpoint = mountpoint.display();
        format!("the mount at {mountpoint} is dead and cannot be ended: use `weft umount --force {mountpoint}`")
    })
}

/// Starts one for this process. A mount without it works; who kills it may have to unmount it by force.
pub fn start(mountpoint: &Path) {
    if let Err(error) = try_start(mountpoint) {
        tracing::warn!("nobody looks after the mount at {}: {error:#}", mountpoint.display());
    }
}

fn try_start(mountpoint: &Path) -> Result<()> {
    let Some(device) = guard::device(mountpoint)? else { return Ok(()) };
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["guard", &std::process::id().to_string(), &device]).arg(mountpoint);
    // It keeps no directory and no pipe in use, and a Ctrl-C at the terminal is for the mount alone.
    command.current_dir("/").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    command.spawn()?;
    Ok(())
}
