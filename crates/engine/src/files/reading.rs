//! A volume as a tree to read from, without owning it.

use super::error::{at, refused};
use super::volume::{ENOENT, entry};
use super::{Attributes, Entry, FilesError, Result, Sink, Tree};
use crate::reader::VolumeReader;
use std::ffi::OsString;
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use weft_env::Env;
use weft_format::Ino;
use weft_format::records::{Attributes as Inode, Kind};
use weft_meta::MetaUrl;
use weft_transfer::trace::Event;
use weft_vfs::{ReadFile, Reader};

/// Directory entries asked for at once.
const LIST_COUNT: usize = 1024;

/// The files of a volume that others may own.
pub struct ReaderTree {
    opened: VolumeReader,
}

impl ReaderTree {
    /// Opens the volume with the metadata at `meta`.
    ///
    /// # Errors
    /// Metadata is missing, not ours or of another format; a node of it cannot be opened by this program.
    pub fn open(meta: &MetaUrl, transfer: weft_transfer::Settings) -> Result<Self> {
        Ok(Self { opened: VolumeReader::open(meta, &Env::system(), transfer)? })
    }

    /// Records from now on which node is asked for what.
    pub fn start_trace(&self) {
        self.reader().transfer().start_trace();
    }

    /// The recorded events, in order.
    #[must_use]
    pub fn finish_trace(&self) -> Vec<Event> {
        self.reader().transfer().finish_trace()
    }

    fn reader(&self) -> &Reader {
        self.opened.reader()
    }

    fn find(&self, path: &Path) -> Result<Option<Inode>> {
        let mut found = self.reader().attributes(Ino::ROOT)?;
        for name in path.strip_prefix("/").unwrap_or(path) {
            found = match self.reader().lookup(found.ino, name.as_bytes()) {
                Ok(attributes) => attributes,
                Err(error) if error.errno() == ENOENT => return Ok(None),
                Err(error) => return Err(at(path)(error)),
            };
        }
        Ok(Some(found))
    }

    fn require(&self, path: &Path) -> Result<Inode> {
        self.find(path)?.ok_or_else(|| FilesError::Missing(path.to_owned()))
    }
}

impl Tree for ReaderTree {
    fn entry(&self, path: &Path) -> Result<Option<Entry>> {
        Ok(self.find(path)?.as_ref().map(entry))
    }

    fn list(&self, directory: &Path) -> Result<Vec<(OsString, Entry)>> {
        let ino = self.require(directory)?.ino;
        let mut entries = Vec::new();
        let mut after = 0;
        loop {
            let page = self.reader().read_directory(ino, after, LIST_COUNT);
            let page = page.map_err(at(directory))?;
            let Some(last) = page.last() else { break };
            after = last.cookie;
            entries.extend(page.into_iter().map(|child| (OsString::from_vec(child.name), entry(&child.attributes))));
        }
        entries.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(entries)
    }

    fn read_link(&self, path: &Path) -> Result<PathBuf> {
        let target = self.reader().readlink(self.require(path)?.ino);
        Ok(OsString::from_vec(target.map_err(at(path))?).into())
    }

    fn read(&self, path: &Path) -> Result<Box<dyn Read + '_>> {
        let attributes = self.require(path)?;
        if attributes.kind != Kind::File {
            return refused(format!("{} is not a file", path.display()));
        }
        let file = self.reader().open(attributes.ino);
        Ok(Box::new(Stream { reader: self.reader(), file, offset: 0, path: path.to_path_buf() }))
    }

    fn make_file(&self, path: &Path) -> Result<Box<dyn Sink + '_>> {
        refuse(path)
    }

    fn make_directory(&self, path: &Path) -> Result<()> {
        refuse(path)
    }

    fn make_link(&self, path: &Path, _: &Path) -> Result<()> {
        refuse(path)
    }

    fn make_special(&self, path: &Path, _: Kind) -> Result<()> {
        refuse(path)
    }

    fn set(&self, path: &Path, _: &Attributes) -> Result<()> {
        refuse(path)
    }

    fn rename(&self, from: &Path, _: &Path) -> Result<()> {
        refuse(from)
    }

    fn remove(&self, path: &Path, _: Kind) -> Result<()> {
        refuse(path)
    }

    fn policy(&self, path: &Path) -> Result<String> {
        let policy = self.reader().policy(self.require(path)?.ino);
        policy.map_err(at(path))
    }

    fn set_policy(&self, path: &Path, _: &str) -> Result<()> {
        refuse(path)
    }

    fn restore(&self, _: u64, _: Ino) -> Result<()> {
        refuse(Path::new("/"))
    }

    fn purge(&self, _: u64, _: Ino) -> Result<()> {
        refuse(Path::new("/"))
    }

    fn is_volume(&self) -> bool {
        true
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.reader().close();
        Ok(())
    }
}

fn refuse<T>(path: &Path) -> Result<T> {
    refused(format!("{}: the volume is open for reading only", path.display()))
}

/// A file, read from its beginning.
struct Stream<'r> {
    reader: &'r Reader,
    file: ReadFile,
    offset: u64,
    path: PathBuf,
}

impl Read for Stream<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = u32::try_from(buffer.len()).unwrap_or(u32::MAX);
        let bytes = self.reader.read(&self.file, self.offset, most);
        let bytes = bytes.map_err(|error| io::Error::other(format!("{}: {error}", self.path.display())))?;
        buffer[..bytes.len()].copy_from_slice(&bytes);
        self.offset += bytes.len() as u64;
        Ok(bytes.len())
    }
}
