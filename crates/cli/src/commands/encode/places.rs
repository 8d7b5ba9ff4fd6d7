//! Where the shards of a stream go: what is there already decides how each is opened.

use super::sibling_name;
use crate::shard_outputs::Output;
use crate::unfinished::{already_there, sync_folder};
use anyhow::{Context, Result, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A place for one shard.
#[derive(Debug)]
struct Place<'a> {
    path: &'a Path,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Nothing is there.
    NewFile,
    /// An open file of this process, by its number: what the shell has opened with `5> FILE`.
    OpenFile,
    Pipe,
    Device,
    /// A disk, or a part of one.
    Disk,
}

/// The places for all shards, by index; none of them was touched yet.
#[derive(Debug)]
pub struct Places<'a>(Vec<Place<'a>>);

impl<'a> Places<'a> {
    /// Looks at what is there.
    pub fn find(paths: &'a [PathBuf]) -> Result<Self> {
        let mut places = Vec::new();
        let mut seen: BTreeMap<(u64, u64), &Path> = BTreeMap::new();
        let mut names = BTreeSet::new();
        for path in paths {
            let (kind, there) = match fs::metadata(path) {
                Ok(there) => (kind(path, &there)?, Some((there.dev(), there.ino()))),
                Err(error) if error.kind() == io::ErrorKind::NotFound => (Kind::NewFile, None),
                Err(error) => return Err(error).with_context(|| path.display().to_string()),
            };
            // What goes to /dev/null does not get mixed up there.
            let is_taken = path != Path::new("/dev/null")
                && match there {
                    Some(identity) => seen.insert(identity, path).is_some(),
                    None => !names.insert(path),
                };
            if is_taken {
                bail!("{} is given for two shards: give each its own output", path.display());
            }
            places.push(Place { path, kind });
        }
        Ok(Self(places))
    }

    /// Opens all but named pipes. If one cannot be opened, the new files are removed again.
    pub fn open(&self) -> Result<Vec<Output>> {
        let mut made: Vec<&Path> = Vec::new();
        let mut open = |place: &Place<'a>| {
            let output = open(place)?;
            if place.kind == Kind::NewFile {
                made.push(place.path);
            }
            Ok(output)
        };
        let outputs: Result<Vec<Output>> = self.0.iter().map(&mut open).collect();
        if outputs.is_err() {
            // They are empty; one that cannot be removed stays so.
            made.iter().for_each(|path| drop(fs::remove_file(path)));
        }
        outputs
    }

    /// By shard: the name of its file; empty where it goes elsewhere.
    pub fn names(&self) -> Vec<Vec<u8>> {
        let name = |place: &Place<'_>| match place.kind {
            Kind::NewFile => sibling_name(place.path),
            _ => Vec::new(),
        };
        self.0.iter().map(name).collect()
    }

    /// Makes the names of new files durable.
    pub fn sync(&self) -> Result<()> {
        let new = self.0.iter().filter(|place| place.kind == Kind::NewFile);
        let folders: BTreeSet<&Path> = new.filter_map(|place| place.path.parent()).collect();
        folders.into_iter().try_for_each(sync_folder)
    }
}

/// What is there, if a shard may go there.
fn kind(path: &Path, there: &Metadata) -> Result<Kind> {
    let file_type = there.file_type();
    let is_open = ["/dev/fd", "/proc/self/fd"].iter().any(|folder| path.starts_with(folder))
        || [Path::new("/dev/stdout"), Path::new("/dev/stderr")].contains(&path);
    if file_type.is_dir() {
        bail!("{} is a folder: name a file or a pipe for the shard, or give the folder with --output", path.display());
    }
    if file_type.is_fifo() {
        return Ok(Kind::Pipe);
    }
    if file_type.is_char_device() {
        return Ok(Kind::Device);
    }
    if file_type.is_block_device() {
        return Ok(Kind::Disk);
    }
    match (file_type.is_file(), is_open) {
        (true, true) => Ok(Kind::OpenFile),
        (true, false) => bail!(already_there(path)),
        (false, _) => bail!("{} is a socket, which cannot be opened: name a pipe or a file", path.display()),
    }
}

fn open(place: &Place<'_>) -> Result<Output> {
    let Place { path, kind } = *place;
    let mut options = File::options();
    let opened = match kind {
        Kind::Pipe => return Ok(Output::Pipe(path.to_owned())),
        Kind::NewFile => options.write(true).create_new(true).open(path),
        // It is opened a second time, and has a position of its own then.
        Kind::OpenFile => options.append(true).open(path),
        Kind::Device | Kind::Disk => options.write(true).open(path),
    };
    match opened {
        Ok(file) if kind == Kind::Device => Ok(Output::Device(file)),
        Ok(file) => Ok(Output::File(file)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => bail!(already_there(path)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            bail!("the folder of {} does not exist: make it with `mkdir -p`", path.display())
        }
        Err(error) => Err(error).with_context(|| path.display().to_string()),
    }
}
