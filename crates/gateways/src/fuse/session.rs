//! Mounting, and the threads that answer.

use super::adapter::Adapter;
use super::kernel::KernelCache;
use super::requests::Requests;
use super::unmount::{Detach, unmount};
use super::{MountError, mounts};
use fuser::{Config, MountOption, Session, SessionACL};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use weft_meta::MetaUrl;
use weft_vfs::Volume;

/// Requests answered at once. Each waits for nodes most of its time, so there are many more than cores; concurrent fsyncs share
/// one flush, so this is also how many can share it. The kernel wakes the threads in turn, so that more of them cost each
/// request more of its caches, and each keeps what it touched of its buffer, 1 MiB. 32 answered no more than 16 of 32 programs.
const THREADS: usize = 16;

/// What the kernel reads ahead of a sequential reader, in KiB: one whole request.
const READ_AHEAD_KIB: u32 = 1024;

/// How to mount.
#[derive(Clone, Debug)]
pub struct MountSettings {
    /// An empty directory.
    pub mountpoint: PathBuf,
    /// META: what the mount table shows as the source, and how `weft umount` knows the volume.
    pub source: MetaUrl,
    /// What the mount allows.
    pub allowed: Allowed,
    /// How long the kernel may show names and attributes that another mount has changed. Where no other changes the volume it does not count.
    pub keep_attributes: Duration,
}

/// What a mount allows, as the options of mount(8). The default is what is safe where others' files are shown: neither
/// set-user-id nor devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowed {
    /// Changes. Without them the volume must be open for reading only.
    pub write: bool,
    /// Set-user-id and set-group-id of programs have their effect.
    pub suid: bool,
    /// Device files can be opened.
    pub dev: bool,
    /// Programs can be run.
    pub exec: bool,
    /// Access times are noted.
    pub atime: bool,
    /// Users other than the one who mounts may use it. The kernel checks permissions either way.
    pub other_users: bool,
}

impl Default for Allowed {
    fn default() -> Self {
        Self { write: true, suid: false, dev: false, exec: true, atime: true, other_users: false }
    }
}

impl Allowed {
    /// What differs from what mount(2) does by itself.
    fn options(&self) -> Vec<MountOption> {
        let restrictions = [
            (self.write, MountOption::RO),
            (self.suid, MountOption::NoSuid),
            (self.dev, MountOption::NoDev),
            (self.exec, MountOption::NoExec),
            (self.atime, MountOption::NoAtime),
        ];
        // These two fuser restricts unless it is told not to.
        let grants = [(self.suid, MountOption::Suid), (self.dev, MountOption::Dev)];
        let restricted = restrictions.into_iter().filter(|(allowed, _)| !allowed);
        restricted.chain(grants.into_iter().filter(|(allowed, _)| *allowed)).map(|(_, option)| option).collect()
    }
}

/// A mount in service.
pub struct Mounted {
    session: JoinHandle<std::io::Result<()>>,
    requests: Arc<Requests>,
}

impl Mounted {
    /// What the kernel asked so far.
    pub fn requests(&self) -> Arc<Requests> {
        Arc::clone(&self.requests)
    }

    /// Returns when it has been unmounted, by whomever, and the last request is answered.
    pub fn wait(self) {
        match self.session.join() {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!("the FUSE session ended with an error: {error}"),
            Err(_) => tracing::error!("the FUSE session panicked"),
        }
    }
}

/// Can a volume whose META is `source` be mounted here? A dead mount of the same volume is cleared away first.
///
/// # Errors
/// Missing, not a directory, not empty, already mounted, or a dead mount of something else.
pub fn check_mountpoint(mountpoint: &Path, source: &MetaUrl) -> Result<(), MountError> {
    let inaccessible =
        |error: std::io::Error| MountError::Inaccessible { path: mountpoint.to_path_buf(), detail: error.to_string() };
    if let Some(mount) = mounts::at(mountpoint).map_err(inaccessible)? {
        let dead = mount.is_dead();
        if !dead {
            let mounted = mount.source.to_string_lossy().into_owned();
            return Err(MountError::AlreadyMounted { mountpoint: mount.mountpoint, mounted });
        }
        if !(mount.is_ours() && mount.source == source.absolute().to_os_string()) {
            return Err(MountError::Dead(mount.mountpoint));
        }
        tracing::info!(mountpoint = %mount.mountpoint.display(), "clearing away a dead mount of this volume");
        unmount(&mount.mountpoint, Detach::Lazy)?;
    }
    let mut entries = std::fs::read_dir(mountpoint).map_err(|error| match error.kind() {
        ErrorKind::NotFound => MountError::Missing(mountpoint.to_path_buf()),
        ErrorKind::NotADirectory => MountError::NotDirectory(mountpoint.to_path_buf()),
        _ => inaccessible(error),
    })?;
    match entries.next() {
        None => Ok(()),
        Some(_) => Err(MountError::NotEmpty(mountpoint.to_path_buf())),
    }
}

/// Mounts the volume; when this returns it is in service. The caller shuts the volume down after [`Mounted::wait`].
///
/// # Errors
/// The mount point is not fit ([`check_mountpoint`]); there is no FUSE, or not for this user.
pub fn mount(volume: Arc<Volume>, settings: &MountSettings) -> Result<Mounted, MountError> {
    check_mountpoint(&settings.mountpoint, &settings.source)?;
    let mountpoint = mounts::absolute(&settings.mountpoint);
    let config = config(settings);
    let kernel = KernelCache::default();
    let allowed = &settings.allowed;
    let requests = Arc::<Requests>::default();
    let (notes_access, keep) = (allowed.atime && allowed.write, settings.keep_attributes);
    let (keeper, clock) = (kernel.clone(), volume.store().env().clock.clone());
    volume.tell_of_changes(move |changed| keeper.forget_changed(changed, clock.now()));
    let adapter = Adapter::new(volume, kernel.clone(), notes_access, keep, Arc::clone(&requests));
    let session = Session::new(adapter, &mountpoint, &config).map_err(|error| explain(&mountpoint, &error))?;
    kernel.connect(session.notifier());
    let session = std::thread::Builder::new()
        .name("fuse".into())
        .spawn(move || session.run())
        .map_err(|error| failed(&mountpoint, error.to_string()))?;
    read_further_ahead(&mountpoint);
    Ok(Mounted { session, requests })
}

fn config(settings: &MountSettings) -> Config {
    let mut source = settings.source.absolute().to_os_string().to_string_lossy().into_owned();
    if !rustix::process::geteuid().is_root() {
        // fusermount3 takes options separated by commas.
        source = source.replace('\\', "\\\\").replace(',', "\\,");
    }
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName(source),
        // Not `Subtype`: fuser forgets it where root mounts without the helper.
        MountOption::CUSTOM("subtype=weft".into()),
        MountOption::DefaultPermissions,
    ];
    config.mount_options.extend(settings.allowed.options());
    config.acl = if settings.allowed.other_users { SessionACL::All } else { SessionACL::Owner };
    config.n_threads = Some(THREADS);
    config.clone_fd = true;
    config
}

/// The kernel offers 128 KiB and lets only root say more. Without it sequential reads are slower, not wrong.
fn read_further_ahead(mountpoint: &Path) {
    let Ok(Some(mount)) = mounts::at(mountpoint) else { return };
    let setting = format!("/sys/class/bdi/{}/read_ahead_kb", mount.device);
    if let Err(error) = std::fs::write(&setting, READ_AHEAD_KIB.to_string()) {
        tracing::debug!("{setting} stays as it is: {error}");
    }
}

/// What fuser says, as a sentence with its mend.
fn explain(mountpoint: &Path, error: &std::io::Error) -> MountError {
    let detail = error.to_string();
    if detail.contains("user_allow_other") {
        return MountError::AllowOtherDenied;
    }
    match (error.kind(), Path::new("/dev/fuse").exists()) {
        (_, false) => MountError::NoFuse { detail: "/dev/fuse does not exist".into() },
        (ErrorKind::NotFound, true) => MountError::NoHelper,
        (ErrorKind::PermissionDenied, true) => MountError::DeviceDenied,
        // ENODEV, ENXIO: a device file without a driver behind it.
        _ if matches!(error.raw_os_error(), Some(libc::ENODEV | libc::ENXIO)) => MountError::NoFuse { detail },
        _ => failed(mountpoint, detail.trim().to_owned()),
    }
}

fn failed(mountpoint: &Path, detail: String) -> MountError {
    MountError::Failed { operation: "mount", mountpoint: mountpoint.to_path_buf(), detail }
}
