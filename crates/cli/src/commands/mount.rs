//! `weft mount META DIR`: in the foreground until interrupted or unmounted, or in the background with `-d`; with `--read-only`
//! beside whoever owns the volume.

mod options;

use crate::amount;
use crate::arguments::{Bandwidth, Meta};
use crate::care;
use crate::commands::guard;
use crate::daemon::{self, Outcome};
use crate::metrics::{self, Endpoint};
use crate::signals::Ending;
use anyhow::{Context, Result, bail};
use options::MountOption;
use std::ffi::OsString;
use std::io::Write;
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use weft_engine::Holder;
use weft_engine::MetaUrl;
use weft_engine::ended;
use weft_engine::transfers::{DiskRoom, Profile, Settings};
use weft_engine::{Engine, Metrics, Options, Threads, VolumeSettings};
use weft_gateways::fuse::{self, Allowed, Detach, MountError, MountSettings, Mounted, Requests};

/// After a signal, programs that still have files open get this long to close them; then their files fail.
const GRACE: Duration = Duration::from_secs(5);

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  weft mount meta.db /mnt/drive -d
  weft mount meta.db /mnt/look -d --read-only
  weft mount postgres://weft@db.example/weft /mnt/drive -d --shared
  weft mount meta.db /mnt/drive -d -o noatime --cache /var/cache/weft")]
pub struct Arguments {
    #[command(flatten)]
    meta: Meta,
    /// An empty directory
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Mount in the background; `weft umount DIR` ends it
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
    /// Give other users access, as far as file permissions allow (always if root mounts)
    #[arg(long)]
    allow_other: bool,
    /// Mount read-only, as `-o ro`. Any number of such mounts may run beside the one that writes; they see its changes within about a second
    #[arg(short, long)]
    read_only: bool,
    /// Mount together with other mounts, on any machines: all of them change the volume. Its metadata must be on a server (docs/metadata.md)
    #[arg(long, conflicts_with = "read_only")]
    shared: bool,
    /// Show names and attributes that another mount has changed for this long at most; 0s: not at all
    #[arg(long, value_name = "TIME", value_parser = care::parse_duration, default_value = "1s", requires = "shared")]
    attribute_cache: u64,
    /// Mount options, as in `-o ro,noexec`: ro, rw, suid, nosuid (default), dev, nodev (default), exec, noexec, atime (as relatime,
    /// default), noatime, allow_other
    #[arg(short = 'o', long, value_name = "OPTION", value_delimiter = ',')]
    options: Vec<MountOption>,
    /// Order of requests to nodes: `adaptive`, or as in `fastest1,T=20,R=2,P=30` (ARCHITECTURE.md)
    #[arg(long, value_name = "PROFILE", default_value = "adaptive")]
    read_profile: Profile,
    #[command(flatten)]
    bandwidth: Bandwidth,
    /// Cache reads in this folder of a local disk, for distant or slow nodes
    #[arg(long, value_name = "FOLDER")]
    cache: Option<PathBuf>,
    /// Size limit of the cache, as in 10G
    #[arg(long, value_name = "SIZE", value_parser = amount::parse_size, default_value = "10G", requires = "cache")]
    cache_size: Option<NonZeroU64>,
    /// Read shard files of daemons on this machine directly (`weft node serve --short-circuit`)
    #[arg(long)]
    short_circuit: bool,
    /// Leave repair, scrub and balance to `weft care`
    #[arg(long)]
    no_care: bool,
    /// Serve metrics for Prometheus at this local address: kernel requests, progress of care, suspected nodes, segments at risk
    #[arg(long, value_name = "HOST:PORT", value_parser = amount::parse_listen)]
    metrics: Option<SocketAddr>,
}

impl How {
    /// The flags that say the same.
    fn flags(&self) -> Vec<OsString> {
        let mut flags: Vec<OsString> = vec![format!("--read-profile={}", self.read_profile).into()];
        if self.allow_other {
            flags.push("--allow-other".into());
        }
        if self.read_only {
            flags.push("--read-only".into());
        }
        if self.shared {
            flags.extend(["--shared".into(), format!("--attribute-cache={}ms", self.attribute_cache).into()]);
        }
        flags.extend(self.options.iter().map(|option| format!("--options={}", option.word()).into()));
        if let Some(bwlimit) = self.bandwidth.bwlimit {
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

    /// What the mount allows.
    fn allowed(&self) -> Allowed {
        let mut allowed = options::allowed(&self.options);
        allowed.write &= !self.read_only;
        allowed.other_users |= self.allow_other || rustix::process::geteuid().is_root();
        allowed
    }

    /// By absolute path: a mount in the background is elsewhere.
    fn disk_cache(&self) -> Option<DiskRoom> {
        let folder = fuse::mounts::absolute(self.cache.as_ref()?);
        Some(DiskRoom { folder, bytes: self.cache_size.map_or(0, NonZeroU64::get) })
    }
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let meta = arguments.meta.absolute();
    let directory = &arguments.directory;
    if arguments.background {
        match background(&meta, directory, &arguments.how)? {
            Outcome::Ready => {}
            Outcome::Failed(sentence) | Outcome::NoFuse(sentence) => bail!(sentence),
        }
        println!("{} is mounted at {}", arguments.meta, directory.display());
        return Ok(());
    }
    if !arguments.detached {
        let signals = Signals::catch()?;
        let service = mount(&meta, directory, &arguments.how)?;
        // A mount goes on though nobody reads this.
        let _ =
            writeln!(std::io::stdout(), "{} is mounted at {}: Ctrl-C unmounts", arguments.meta, directory.display());
        return service.run(signals);
    }
    daemon::detach()?;
    let signals = Signals::catch()?;
    match mount(&meta, directory, &arguments.how) {
        Ok(service) => {
            daemon::report(&Outcome::Ready)?;
            service.run(signals)
        }
        Err(error) => {
            let no_fuse = error.downcast_ref().is_some_and(MountError::is_no_fuse);
            let sentence = format!("{error:#}");
            daemon::report(&if no_fuse { Outcome::NoFuse(sentence) } else { Outcome::Failed(sentence) })
        }
    }
}

/// Mounts in a process of its own.
pub fn background(meta: &MetaUrl, directory: &Path, how: &How) -> Result<Outcome> {
    let meta = meta.absolute();
    let directory = std::path::absolute(directory).context("the current directory does not exist any more")?;
    daemon::start(&meta, &directory, &how.flags())
}

/// A volume in service: its mount, and what works beside it.
struct Service {
    meta: MetaUrl,
    /// This process, as `weft umount` finds it; missing where the volume is only read.
    owner: Option<Holder>,
    engine: Engine,
    mounted: Mounted,
    mountpoint: PathBuf,
    _endpoint: Option<Endpoint>,
}

/// What a mount shows to Prometheus: the kernel's requests, and what its worker shows, if it has one.
fn shown(of_worker: Option<Metrics>, requests: Arc<Requests>) -> Metrics {
    Arc::new(move || {
        let mut text = of_worker.as_ref().map_or_else(|| Ok(String::new()), |metrics| metrics())?;
        text.push_str(&requests.text());
        Ok(text)
    })
}

/// When it returns everything is in service, or nothing is: a failure leaves no mount behind.
fn mount(meta: &MetaUrl, directory: &Path, how: &How) -> Result<Service> {
    let allowed = how.allowed();
    if (allowed.suid || allowed.dev) && !rustix::process::geteuid().is_root() {
        bail!("only root may mount with `suid` or `dev`: leave them out, or mount as root");
    }
    fuse::check_mountpoint(directory, meta)?;
    if allowed.write {
        // A volume that cannot be written is better refused than mounted.
        weft_engine::nodes::require(meta, None)?;
    }
    let listener = how.metrics.map(metrics::listen).transpose()?;
    let mountpoint = fuse::mounts::absolute(directory);
    // A volume that is only read has its owner to empty its trash and to care for it.
    let options = Options {
        mountpoint: allowed.write.then(|| mountpoint.clone()),
        volume: VolumeSettings { read_only: !allowed.write, is_shared: how.shared, ..VolumeSettings::default() },
        transfer: Settings {
            profile: how.read_profile,
            bytes_per_second: how.bandwidth.bwlimit,
            ..Settings::default()
        },
        disk_cache: how.disk_cache(),
        short_circuit: how.short_circuit,
        empties_trash: allowed.write,
        is_replicated: allowed.write,
        is_cared_for: allowed.write && !how.no_care,
    };
    let engine = Engine::open(meta, &weft_engine::Env::system(), options)?;
    let keep_attributes = Duration::from_millis(how.attribute_cache);
    let settings = MountSettings { mountpoint: mountpoint.clone(), source: meta.clone(), allowed, keep_attributes };
    let mounted = match fuse::mount(Arc::clone(engine.volume()), &settings) {
        Ok(mounted) => mounted,
        Err(error) => {
            close_unused(engine);
            return Err(error.into());
        }
    };
    guard::start(&mountpoint);
    let shown = shown(engine.metrics(), mounted.requests());
    match listener.map(|listener| Endpoint::start(listener, shown, engine.handle())).transpose() {
        Ok(_endpoint) => {
            tracing::info!(meta = %meta, mountpoint = %mountpoint.display(), "mounted");
            let is_this = |holder: &Holder| holder.process == std::process::id();
            let owner = allowed.write.then(|| weft_engine::holder_here(meta, is_this)).flatten();
            Ok(Service { meta: meta.clone(), owner, engine, mounted, mountpoint, _endpoint })
        }
        Err(error) => {
            fuse::unmount(&mountpoint, Detach::Lazy)?;
            mounted.wait();
            close_unused(engine);
            Err(error)
        }
    }
}

/// Nobody has changed anything, and why it could not be mounted matters more.
fn close_unused(engine: Engine) {
    if let Err(error) = engine.close() {
        tracing::warn!("{:#}", anyhow::Error::from(error));
    }
}

/// Signals that ask for the end, caught from before the mount is in service.
struct Signals {
    runtime: Threads,
    ending: Ending,
}

impl Signals {
    fn catch() -> Result<Self> {
        let runtime = weft_engine::runtime()?;
        let entered = runtime.enter();
        let ending = Ending::catch()?;
        drop(entered);
        Ok(Self { runtime, ending })
    }
}

impl Service {
    /// Until it is unmounted or a signal says so; then everything is written.
    fn run(self, signals: Signals) -> Result<()> {
        let Self { meta, owner, engine, mounted, mountpoint, _endpoint } = self;
        let Signals { runtime, mut ending } = signals;
        runtime.block_on(async {
            let mut ended = tokio::task::spawn_blocking(|| mounted.wait());
            tokio::select! {
                _ = &mut ended => return,
                () = ending.asked() => {}
            }
            tracing::info!("received a signal: unmounting");
            // Lazily: the name is free at once, and who has files open is not cut off before the grace is over.
            match fuse::unmount(&mountpoint, Detach::Lazy) {
                Ok(()) | Err(MountError::NotMounted(_)) => {}
                Err(error) => tracing::error!("{error}"),
            }
            if tokio::time::timeout(GRACE, ended).await.is_err() {
                tracing::warn!("programs still have files open; they will get errors");
            }
        });
        let outcome = engine.close().map_err(anyhow::Error::from);
        let lost = outcome.as_ref().err().map(|error| format!("{error:#}"));
        if let Some(owner) = owner
            && let Err(error) = ended::note(&meta, &owner, lost.as_deref().map_or(Ok(()), Err))
        {
            tracing::warn!("the outcome of this mount could not be written down for `weft umount`: {error}");
        }
        match &outcome {
            Ok(()) => tracing::info!("unmounted; everything is written"),
            Err(error) => tracing::error!("{error:#}"),
        }
        // The session may still wait for programs that have files open.
        runtime.leave();
        outcome
    }
}
