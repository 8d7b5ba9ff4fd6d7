//! `weft umount DIR`: unmounts, waits until the process behind the mount has written everything and ended, and says what it could
//! not write.

use anyhow::{Result, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::path::PathBuf;
use std::time::Duration;
use weft_engine::ended;
use weft_engine::{Holder, MetaUrl};
use weft_gateways::fuse::{self, Detach, MountError, mounts::Mount};

/// When the process still writes after this, the user is told.
const NOTICE_AFTER: Duration = Duration::from_secs(3);

/// How long a hung process is waited for after its mount was taken away by force.
const FORCE_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  weft umount /mnt/drive")]
pub struct Arguments {
    /// Where the volume is mounted
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Unmount now even if files are open; the mount's process ends when the last one is closed
    #[arg(short, long)]
    lazy: bool,
    /// Abort requests in flight: for a mount that hangs
    #[arg(short, long, conflicts_with = "lazy")]
    force: bool,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let Some(mount) = fuse::mounts::at(&arguments.directory)? else {
        bail!(MountError::NotMounted(arguments.directory.clone()));
    };
    if !mount.is_ours() {
        let (directory, kind) = (mount.mountpoint.display(), &mount.kind);
        bail!("{directory} is a mount of another file system ({kind}): unmount it with `umount {directory}`");
    }
    // Before unmounting: afterwards the number might be another process's.
    let process = process_of(&mount);
    let is_nothing_left = process.is_none() && (mount.is_read_only || mount.is_dead());
    let detach = match (arguments.force, arguments.lazy) {
        (true, _) => Detach::Force,
        (_, true) => Detach::Lazy,
        _ => Detach::WhenUnused,
    };
    fuse::unmount(&mount.mountpoint, detach)?;
    let directory = mount.mountpoint.display();
    let Some((holder, process)) = process else {
        if is_nothing_left || arguments.lazy || arguments.force {
            return Ok(());
        }
        bail!(
            "{directory} is unmounted, but whether everything was written is not known, because its metadata does not say which process \
             served it: fsynced data is safe; see that {} is there, and check the rest",
            MetaUrl::parse(&mount.source).map_or_else(|_| "its metadata".into(), |meta| meta.to_string())
        );
    };
    let pid = holder.process;
    if arguments.lazy {
        return Ok(());
    }
    if arguments.force {
        if !has_ended(&process, Some(FORCE_TIMEOUT))? {
            bail!("process {pid} is still running: end it with `kill -9 {pid}` (fsynced data is safe)");
        }
        return Ok(());
    }
    if !has_ended(&process, Some(NOTICE_AFTER))? {
        eprintln!("unmounted; process {pid} is still writing to the nodes, waiting for it");
        has_ended(&process, None)?;
    }
    match MetaUrl::parse(&mount.source).ok().and_then(|meta| ended::of(&meta, &holder)) {
        Some(Ok(())) => Ok(()),
        Some(Err(sentence)) => bail!("{directory} is unmounted, but {sentence}"),
        None => bail!(
            "{directory} is unmounted, but process {pid} ended without reporting that everything was written: fsynced data is safe, check the rest"
        ),
    }
}

/// The process that serves the mount, if it lives.
fn process_of(mount: &Mount) -> Option<(Holder, OwnedFd)> {
    let meta = MetaUrl::parse(&mount.source).ok()?;
    let holder = weft_engine::holder_here(&meta, |holder| holder.mountpoint.as_ref() == Some(&mount.mountpoint))?;
    let pid = Pid::from_raw(i32::try_from(holder.process).ok()?)?;
    let process = pidfd_open(pid, PidfdFlags::empty()).ok()?;
    Some((holder, process))
}

/// Waits for the end of a process; without a limit it always comes.
fn has_ended(process: &OwnedFd, limit: Option<Duration>) -> Result<bool> {
    let limit = limit.map(|limit| Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: 0 });
    loop {
        match poll(&mut [PollFd::new(process, PollFlags::IN)], limit.as_ref()) {
            Ok(ready) => return Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
