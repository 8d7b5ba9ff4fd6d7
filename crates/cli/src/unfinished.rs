//! Files that have no name before they are whole: a kill leaves nothing that could be taken for one.

use anyhow::{Context, Result, bail};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// A file on its way; dropped without a name it is gone.
pub struct Unfinished {
    pub file: File,
    folder: PathBuf,
    /// On file systems without unnamed files: the name until then.
    temporary: Option<PathBuf>,
}

impl Unfinished {
    /// An empty file in `folder`, which is there.
    pub fn in_folder(folder: &Path) -> Result<Self> {
        let folder = if folder == Path::new("") { Path::new(".") } else { folder };
        let named = || folder.display().to_string();
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let (file, temporary) = match rustix::fs::open(folder, flags, Mode::from_raw_mode(0o666)) {
            Ok(file) => (File::from(file), None),
            // EISDIR is how kernels and file systems that do not know O_TMPFILE read it.
            Err(Errno::OPNOTSUPP | Errno::ISDIR) => {
                let temporary = temporary_name(folder);
                let file = OpenOptions::new().read(true).write(true).create_new(true).open(&temporary);
                (file.with_context(named)?, Some(temporary))
            }
            Err(error) => return Err(io::Error::from(error)).with_context(named),
        };
        Ok(Self { file, folder: folder.to_owned(), temporary })
    }

    /// Makes it durable and gives it a name that nothing has.
    pub fn publish(mut self, target: &Path) -> Result<()> {
        let published = self.file.sync_all().and_then(|()| match self.temporary.take() {
            None => self.link(target),
            Some(temporary) => name(&temporary, target).inspect_err(|_| {
                // What has no name that anybody knows is of no use.
                let _ = fs::remove_file(&temporary);
            }),
        });
        match published {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => bail!(already_there(target)),
            published => published.with_context(|| target.display().to_string()),
        }
    }

    /// Makes it durable and puts it in the place of `target`, at once.
    pub fn replace(mut self, target: &Path) -> Result<()> {
        let replace = |unfinished: &mut Self| {
            unfinished.file.sync_all()?;
            if unfinished.temporary.is_none() {
                let temporary = temporary_name(&unfinished.folder);
                unfinished.link(&temporary)?;
                unfinished.temporary = Some(temporary);
            }
            let temporary = unfinished.temporary.take().unwrap_or_default();
            fs::rename(temporary, target)
        };
        replace(&mut self).with_context(|| target.display().to_string())
    }

    fn link(&self, target: &Path) -> io::Result<()> {
        let path = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        Ok(rustix::fs::linkat(CWD, path, CWD, target, AtFlags::SYMLINK_FOLLOW)?)
    }
}

/// Moves a file to a name that nothing has. File systems without unnamed files are of two kinds: FAT and exFAT have no links, and servers
/// may not know of renaming that replaces nothing.
fn name(temporary: &Path, target: &Path) -> io::Result<()> {
    match rustix::fs::renameat_with(CWD, temporary, CWD, target, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            fs::hard_link(temporary, target)?;
            fs::remove_file(temporary)
        }
        renamed => Ok(renamed?),
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            // Nothing more can be done about a name that cannot be removed.
            let _ = fs::remove_file(temporary);
        }
    }
}

/// Makes the names in a folder durable.
pub fn sync_folder(folder: &Path) -> Result<()> {
    let folder = if folder == Path::new("") { Path::new(".") } else { folder };
    File::open(folder).and_then(|folder| folder.sync_all()).with_context(|| folder.display().to_string())
}

/// The sentence for a name that is taken.
pub fn already_there(path: &Path) -> String {
    format!("{} exists already: move it away, or choose another place with -o", path.display())
}

fn temporary_name(folder: &Path) -> PathBuf {
    folder.join(format!(".unfinished-{:016x}", rand::random::<u64>()))
}
