//! `weft mount META DIR`: in the foreground until interrupted or unmounted, or in the background with `-d`.

use crate::care;
use crate::commands::care::Caring;
use crate::compose::{self, Opened};
use crate::daemon::{self, Outcome};
use crate::ended;
use crate::tidy::Tidying;
use anyhow::{Context, Result, bail};
use std::ffi::OsString;
use std::io::Write;
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use weft_format::Ino;
use weft_gateways::fuse::{self, Detach, MountError, MountSettings, Mounted};
use weft_meta::Access;
use weft_meta::owner::current_owner;
use weft_transfer::{DiskRoom, Profile, Settings};

/// After a signal, programs that still have files open get this long to close them; then their files fail.
const GRACE: Duration = Duration::from_secs(5);

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Metadata file of the volume
    meta: PathBuf,
    /// An empty directory
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Return when it is mounted; `weft umount DIR` ends it
    #[arg(short = 'd', long, visible_alias = "daemon")]
    background: bool,
    #[command(flatten)]
    how: How,
    /// The child that `--background` starts
    #[arg(long, hide = true, conflicts_with = "background")]
    detached: bool,
}

/// How a volume is mounted.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct How {
    /// Let other users in, as far as the files' permissions allow (always so for root)
    #[arg(long)]
    allow_other: bool,
    /// How nodes are asked: `adaptive`, or as in `fastest1,T=20,R=2,P=30` (see `ARCHITECTURE.md`)
    #[arg(long, value_name = "PROFILE", default_value = "adaptive")]
    read_profile: Profile,
    /// Send and receive at most this many bytes per second, all nodes together, as in 10M
    #[arg(long, value_name = "RATE", value_parser = care::parse_rate)]
    bwlimit: Option<NonZeroU64>,
    /// Keep what is read in this folder of a local disk, for nodes that are far or slow
    #[arg(long, value_name = "FOLDER")]
    cache: Option<PathBuf>,
    /// How large that may become, as in 10G
    #[arg(long, value_name = "SIZE", value_parser = care::parse_size, default_value = "10G", requires = "cache")]
    cache_size: Option<NonZeroU64>,
    /// Read shards past daemons on this machine that lend their files (`weft node serve --short-circuit`)
    #[arg(long)]
    short_circuit: bool,
    /// Leave it to others (`weft care`) to keep the volume whole while it is mounted
    #[arg(long)]
    no_care: bool,
    /// Show what the worker is at, nodes in doubt and segments at risk to Prometheus, at this address of this machine
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "no_care")]
    metrics: Option<SocketAddr>,
}

impl How {
    /// The flags that say the same.
    fn flags(&self) -> Vec<OsString> {
        let mut flags: Vec<OsString> = vec![format!("--read-profile={}", self.read_profile).into()];
        if self.allow_other {
            flags.push("--allow-other".into());
        }
        if let Some(bwlimit) = self.bwlimit {
            flags.push(format!("--bwlimit={bwlimit}").into());
        }
        if let Some(room) = self.disk_cache() {
            let mut flag = OsString::from("--cache=");
            flag.push(room.folder);
            flags.extend([flag, format!("--cache-size={}", room.bytes).into()]);
        }
        if self.short_circuit {
            flags.push("--short-circuit".into());
        }
        if self.no_care {
            flags.push("--no-care".into());
        }
        if let Some(metrics) = self.metrics {
            flags.push(format!("--metrics={metrics}").into());
        }
        flags
    }

    /// By absolute path: a mount in the background is elsewhere.
    fn disk_cache(&self) -> Option<DiskRoom> {
        let folder = fuse::mounts::absolute(self.cache.as_ref()?);
        Some(DiskRoom { folder, bytes: self.cache_size.map_or(0, NonZeroU64::get) })
    }
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let meta = fuse::mounts::absolute(&arguments.meta);
    let directory = &arguments.directory;
    if arguments.background {
        match background(&meta, directory, &arguments.how)? {
            Outcome::Ready => {}
            Outcome::Failed(sentence) | Outcome::NoFuse(sentence) => bail!(sentence),
        }
        println!("{} is mounted at {}", arguments.meta.display(), directory.display());
        return Ok(());
    }
    if !arguments.detached {
        let signals = Signals::catch()?;
        let (opened, mounted, mountpoint) = mount(&meta, directory, &arguments.how)?;
        // A mount goes on though nobody reads this.
        let _ = writeln!(
            std::io::stdout(),
            "{} is mounted at {}: Ctrl-C unmounts",
            arguments.meta.display(),
            directory.display()
        );
        return serve(&meta, opened, mounted, &mountpoint, signals, &arguments.how);
    }
    daemon::detach()?;
    let signals = Signals::catch()?;
    match mount(&meta, directory, &arguments.how) {
        Ok((opened, mounted, mountpoint)) => {
            daemon::report(&Outcome::Ready)?;
            serve(&meta, opened, mounted, &mountpoint, signals, &arguments.how)
        }
        Err(error) => {
            let no_fuse = error.downcast_ref().is_some_and(MountError::is_no_fuse);
            let sentence = format!("{error:#}");
            daemon::report(&if no_fuse { Outcome::NoFuse(sentence) } else { Outcome::Failed(sentence) })
        }
    }
}

/// Mounts in a process of its own.
pub fn background(meta: &Path, directory: &Path, how: &How) -> Result<Outcome> {
    let meta = fuse::mounts::absolute(meta);
    let directory = std::path::absolute(directory).context("the current directory is gone")?;
    daemon::start(&meta, &directory, &how.flags())
}

fn mount(meta: &Path, directory: &Path, how: &How) -> Result<(Opened, Mounted, PathBuf)> {
    fuse::check_mountpoint(directory, meta)?;
    check_volume(meta)?;
    let mountpoint = fuse::mounts::absolute(directory);
    let transfer = Settings { profile: how.read_profile, bytes_per_second: how.bwlimit, ..Settings::default() };
    let volume = weft_vfs::Settings { short_circuit: how.short_circuit, ..weft_vfs::Settings::default() };
    let opened = Opened::open_as(meta, Some(&mountpoint), volume, transfer, how.disk_cache().as_ref())?;
    let settings = MountSettings {
        mountpoint: mountpoint.clone(),
        source: meta.to_path_buf(),
        allow_other: how.allow_other || rustix::process::geteuid().is_root(),
    };
    let mounted = fuse::mount(Arc::clone(&opened.volume), &settings)?;
    tracing::info!(meta = %meta.display(), mountpoint = %mountpoint.display(), "mounted");
    Ok((opened, mounted, mountpoint))
}

/// A volume that cannot be written is better refused than mounted.
fn check_volume(meta: &Path) -> Result<()> {
    let store = weft_vfs::open::open_store(meta, Access::Shared, None)?;
    let policy = store.policy(store.attributes(Ino::ROOT)?.policy)?;
    compose::require_nodes(meta, &store, &policy.code)
}

/// SIGTERM and SIGINT, caught from before the mount is in service.
struct Signals {
    runtime: Runtime,
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn catch() -> Result<Self> {
        let runtime = compose::runtime()?;
        let entered = runtime.enter();
        let (terminate, interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        drop(entered);
        Ok(Self { runtime, terminate, interrupt })
    }
}

/// Until it is unmounted or a signal says so; then everything is written.
fn serve(meta: &Path, opened: Opened, mounted: Mounted, mountpoint: &Path, signals: Signals, how: &How) -> Result<()> {
    // This process, as `weft umount` finds it.
    let holder = current_owner(meta).ok().flatten();
    let tidying = Tidying::start(&opened.volume, opened.runtime.handle())?;
    let care = || Caring::of_volume(&opened.volume, how.metrics, opened.runtime.handle());
    let caring = (!how.no_care).then(care).transpose()?;
    let Signals { runtime, mut terminate, mut interrupt } = signals;
    runtime.block_on(async {
        let mut ended = tokio::task::spawn_blocking(|| mounted.wait());
        tokio::select! {
            _ = &mut ended => return,
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("a signal asks for the end: unmounting");
        // Lazily: the name is free at once, and who has files open is not cut off before the grace is over.
        match fuse::unmount(mountpoint, Detach::Lazy) {
            Ok(()) | Err(MountError::NotMounted(_)) => {}
            Err(error) => tracing::error!("{error}"),
        }
        if tokio::time::timeout(GRACE, ended).await.is_err() {
            tracing::warn!("programs still have files open; they will get errors");
        }
    });
    drop(tidying);
    if let Some(caring) = caring {
        caring.end(opened.runtime.handle());
    }
    let outcome = opened.close();
    if let Some(holder) = holder
        && let Err(error) = ended::note(meta, &holder, &outcome)
    {
        tracing::warn!("`weft umount` cannot be told how this mount ended: {error}");
    }
    match &outcome {
        Ok(()) => tracing::info!("unmounted, everything is written"),
        Err(error) => tracing::error!("{error:#}"),
    }
    // The session may still wait for programs that have files open.
    runtime.shutdown_background();
    outcome
}
