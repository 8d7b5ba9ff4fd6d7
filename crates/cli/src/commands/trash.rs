//! `weft trash keep|list|restore|purge META`: what was deleted, for a while.

use crate::care::{self, count};
use crate::render;
use crate::tree;
use anyhow::{Context, Result, bail};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use weft_format::Ino;
use weft_format::records::Kind;
use weft_meta::{Deleted, Store};

/// Deleted inodes read at once.
const PAGE: usize = 1024;

#[derive(Debug, clap::Subcommand)]
pub enum Arguments {
    /// Say or choose for how long what is deleted is kept; new volumes keep nothing
    Keep {
        /// Metadata file of the volume
        meta: PathBuf,
        /// As in 12h or 7d; 0 keeps nothing, and lets go of what is kept
        #[arg(value_parser = care::parse_duration)]
        time: Option<u64>,
    },
    /// List what was deleted and can be brought back, the last deleted first
    #[command(visible_alias = "ls")]
    List {
        /// Metadata file of the volume
        meta: PathBuf,
        /// For programs
        #[arg(long)]
        json: bool,
    },
    /// Restore a deleted file, or a directory with everything deleted from it. If several share the name, the most recent is
    /// restored unless --version says which
    Restore {
        /// Metadata file of the volume
        meta: PathBuf,
        /// Its path in the volume, as `list` has it
        #[arg(value_name = "/PATH")]
        path: PathBuf,
        /// Which of several of one path, as `list` has it
        #[arg(long, value_name = "VERSION")]
        version: Option<u64>,
    },
    /// Delete for good what is kept: every version of a path with everything deleted from below it, or all
    Purge {
        /// Metadata file of the volume
        meta: PathBuf,
        /// A path in the volume, as `list` has it
        #[arg(value_name = "/PATH", required_unless_present = "all")]
        path: Option<PathBuf>,
        /// Only this version of the path, as `list` has it
        #[arg(long, value_name = "VERSION", requires = "path")]
        version: Option<u64>,
        /// Everything that is kept
        #[arg(long, conflicts_with = "path")]
        all: bool,
    },
}

#[derive(Serialize)]
struct Line {
    path: String,
    /// The path's bytes in hexadecimal digits, where it is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    path_hex: Option<String>,
    /// Tells several of one path apart.
    version: u64,
    kind: &'static str,
    size: u64,
    deleted_ms: u64,
    /// Until then it can be brought back, unless its room is needed.
    until_ms: u64,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    match arguments {
        Arguments::Keep { meta, time } => keep(meta, *time),
        Arguments::List { meta, json } => list(meta, *json),
        Arguments::Restore { meta, path, version } => restore(meta, path, *version),
        Arguments::Purge { meta, path, version, .. } => purge(meta, path.as_deref(), *version),
    }
}

/// Opens the metadata after its mount on this machine, if there is one, has written its latest deletions. A user who may not enter the
/// mount sees a state that is a moment old.
fn open_current(meta: &Path) -> Result<Store> {
    let holder = weft_meta::owner::current_owner(meta).ok().flatten();
    if let Some(mountpoint) = holder.and_then(|holder| holder.mountpoint)
        && weft_gateways::fuse::mounts::at(&mountpoint)?.is_some_and(|mount| mount.is_ours())
        // An fsync of any directory makes all names durable, and so visible to other processes.
        && let Err(error) = File::open(&mountpoint).and_then(|root| root.sync_all())
    {
        tracing::debug!(mountpoint = %mountpoint.display(), %error, "the mount could not be asked to write");
    }
    Ok(weft_engine::open_store(meta)?)
}

fn keep(meta: &Path, time_ms: Option<u64>) -> Result<()> {
    let store = weft_engine::open_store(meta)?;
    if let Some(time_ms) = time_ms {
        store.set_keep_ms(time_ms)?;
        store.flush()?;
    }
    match store.keep_ms()? {
        0 => println!("What is deleted is not kept"),
        keep_ms => println!("What is deleted is kept for {}", care::duration(keep_ms)),
    }
    Ok(())
}

fn list(meta: &Path, json: bool) -> Result<()> {
    let store = open_current(meta)?;
    let (bin, keep_ms) = (Bin::read(&store)?, store.keep_ms()?);
    let line = |deleted: &Deleted| -> Result<Line> {
        let (path, path_hex) = render::for_programs(&bin.path(&store, deleted)?);
        Ok(Line {
            path,
            path_hex,
            version: deleted.attributes.ino.0,
            kind: kind_name(deleted.attributes.kind),
            size: deleted.attributes.size,
            deleted_ms: deleted.deleted_ms,
            until_ms: deleted.deleted_ms.saturating_add(keep_ms),
        })
    };
    let lines: Vec<Line> = bin.deleted.iter().rev().map(line).collect::<Result<_>>()?;
    if json {
        println!("{}", serde_json::to_string_pretty(&lines)?);
        return Ok(());
    }
    let header = ["DELETED", "KEPT UNTIL", "KIND", "SIZE", "VERSION", "PATH"].map(str::to_owned).to_vec();
    let row = |line: &Line| {
        let times = (care::moment(line.deleted_ms), care::moment(line.until_ms));
        let (size, version) = (render::bytes(line.size), line.version.to_string());
        vec![times.0, times.1, line.kind.to_owned(), size, version, render::line(&line.path)]
    };
    let rows: Vec<_> = std::iter::once(header).chain(lines.iter().map(row)).collect();
    print!("{}", render::table(&rows, &[3, 4]));
    Ok(())
}

fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::File => "file",
        Kind::Directory => "directory",
        Kind::Symlink => "link",
        Kind::Fifo | Kind::Socket | Kind::CharDevice | Kind::BlockDevice => "special",
    }
}

fn restore(meta: &Path, path: &Path, version: Option<u64>) -> Result<()> {
    let wanted = tree::volume_path(path)?;
    let order = {
        let store = open_current(meta)?;
        let bin = Bin::read(&store)?;
        let Some(found) = bin.find(&store, &wanted, version)? else { bail!(none_kept(meta, &wanted, version)) };
        bin.order(found)
            .into_iter()
            .map(|deleted| Ok((deleted.clone(), bin.path(&store, deleted)?)))
            .collect::<Result<Vec<_>>>()?
    };
    let volume = tree::open(meta)?;
    for (deleted, path) in &order {
        let path = Path::new(OsStr::from_bytes(path)).display();
        let taken =
            || format!("{path} cannot be brought back: see whether there is another of that name, and rename it");
        volume.restore(deleted.deleted_ms, deleted.attributes.ino).with_context(taken)?;
    }
    volume.close()?;
    println!("Brought back {} with {}", render::line(&wanted.to_string_lossy()), count(order.len() as u64, "inode"));
    Ok(())
}

fn none_kept(meta: &Path, path: &Path, version: Option<u64>) -> String {
    let which = version.map_or_else(String::new, |version| format!(" and version {version}"));
    format!("{}: nothing of that name{which} is kept: see `weft trash list {}`", path.display(), meta.display())
}

fn purge(meta: &Path, path: Option<&Path>, version: Option<u64>) -> Result<()> {
    let wanted = path.map(tree::volume_path).transpose()?;
    let chosen = {
        let store = open_current(meta)?;
        let bin = Bin::read(&store)?;
        match &wanted {
            None => bin.deleted,
            Some(path) => {
                let chosen = bin.at_and_below(&store, path, version)?;
                if chosen.is_empty() {
                    bail!(none_kept(meta, path, version));
                }
                chosen
            }
        }
    };
    let volume = tree::open(meta)?;
    // The oldest first: what was deleted from a directory goes before the directory.
    for deleted in &chosen {
        volume.purge(deleted.deleted_ms, deleted.attributes.ino)?;
    }
    volume.close()?;
    println!("Deleted {} for good", count(chosen.len() as u64, "inode"));
    Ok(())
}

/// What is kept, the oldest deletion first.
struct Bin {
    deleted: Vec<Deleted>,
    /// By inode, where in that.
    index: BTreeMap<Ino, usize>,
}

impl Bin {
    fn read(store: &Store) -> Result<Self> {
        let mut deleted: Vec<Deleted> = Vec::new();
        loop {
            let after = deleted.last().map(|last| (last.deleted_ms, last.attributes.ino));
            let page = store.deleted(after, PAGE)?;
            let is_last = page.len() < PAGE;
            deleted.extend(page);
            if is_last {
                return Ok(Self::of(deleted));
            }
        }
    }

    fn of(deleted: Vec<Deleted>) -> Self {
        let index = deleted.iter().enumerate().map(|(at, deleted)| (deleted.attributes.ino, at)).collect();
        Self { deleted, index }
    }

    fn get(&self, ino: Ino) -> Option<&Deleted> {
        self.index.get(&ino).map(|at| &self.deleted[*at])
    }

    /// The directories that it was in and that are deleted too, the outermost first.
    fn above(&self, deleted: &Deleted) -> Vec<&Deleted> {
        let (mut above, mut seen) = (Vec::new(), BTreeSet::from([deleted.attributes.ino]));
        let mut parent = deleted.parent;
        // Damaged metadata may have directories that are within themselves.
        while let Some(up) = self.get(parent).filter(|up| seen.insert(up.attributes.ino)) {
            above.push(up);
            parent = up.parent;
        }
        above.reverse();
        above
    }

    /// Where it was.
    fn path(&self, store: &Store, deleted: &Deleted) -> Result<Vec<u8>> {
        let above = self.above(deleted);
        let top = above.first().map_or(deleted.parent, |top| top.parent);
        // One whose directory is gone for good cannot be brought back, and says so.
        let mut path = store.path_of(top)?.unwrap_or_else(|| b"(deleted)".to_vec());
        for name in above.into_iter().chain([deleted]).map(|deleted| &deleted.name) {
            if path.last() != Some(&b'/') {
                path.push(b'/');
            }
            path.extend(name);
        }
        Ok(path)
    }

    /// The last deleted of a path, or the one of this version.
    fn find(&self, store: &Store, path: &Path, version: Option<u64>) -> Result<Option<&Deleted>> {
        let name = path.file_name().map(OsStr::as_bytes);
        let is_version = |deleted: &&Deleted| version.is_none_or(|version| version == deleted.attributes.ino.0);
        let named = self.deleted.iter().rev().filter(|deleted| Some(deleted.name.as_slice()) == name);
        for deleted in named.filter(is_version) {
            if self.path(store, deleted)? == path.as_os_str().as_bytes() {
                return Ok(Some(deleted));
            }
        }
        Ok(None)
    }

    /// Every version of a path, or this one, and everything deleted from below it.
    fn at_and_below(&self, store: &Store, path: &Path, version: Option<u64>) -> Result<Vec<Deleted>> {
        let mut chosen = Vec::new();
        for deleted in &self.deleted {
            let at = PathBuf::from(OsStr::from_bytes(&self.path(store, deleted)?));
            let is_chosen = match version {
                Some(version) => at == path && deleted.attributes.ino.0 == version,
                None => at.starts_with(path),
            };
            let is_below = |above: &Deleted| version == Some(above.attributes.ino.0);
            if is_chosen || (at.starts_with(path) && self.above(deleted).into_iter().any(is_below)) {
                chosen.push(deleted.clone());
            }
        }
        Ok(chosen)
    }

    /// What to bring back for one to be back with all that was deleted from it, each after the directory that it is in. Of several
    /// of one name in one directory only the last.
    fn order<'b>(&'b self, wanted: &'b Deleted) -> Vec<&'b Deleted> {
        let mut order = self.above(wanted);
        order.push(wanted);
        let (mut next, mut names) = (order.len() - 1, BTreeSet::new());
        while let Some(directory) = order.get(next).map(|deleted| deleted.attributes.ino) {
            let below = self.deleted.iter().rev().filter(|deleted| deleted.parent == directory);
            order.extend(below.filter(|deleted| names.insert((directory, &deleted.name))));
            next += 1;
        }
        order
    }
}

#[cfg(test)]
#[path = "trash_tests.rs"]
mod tests;
