//! Sets of shard files: found among other files, by what their beginnings say.

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use weft_engine::transfers::objects::Coder;
use weft_engine::transfers::shard_files::{
    BEGINNING_BYTES, Beginning, Decoder, ShardBytes, coder, common_header, recognise,
};
use weft_format::VolumeId;
use weft_format::shard_file::ShardFileHeader;

/// The shard files of one encoded file, as far as they were found.
pub struct Set {
    /// As that of shard 0.
    pub header: ShardFileHeader,
    pub coder: Coder,
    /// By shard index.
    pub shards: Vec<Option<ShardFile>>,
}

/// One shard file.
pub struct ShardFile {
    pub path: PathBuf,
    file: File,
    header_is_sound: bool,
}

/// Of the names of shard files.
const EXTENSION: &str = "weft";

/// The name of a shard's file: `photos.tar.03.weft`, with digits enough that names sort by index.
pub fn shard_name(name: &OsStr, index: usize, n: usize) -> PathBuf {
    let digits = (n - 1).to_string().len();
    let mut shard = name.to_owned();
    shard.push(format!(".{index:0digits$}.{EXTENSION}"));
    shard.into()
}

/// What was found.
pub struct Finds {
    /// By the name of the encoded file.
    pub sets: Vec<Set>,
    /// Files in folders that are named as shard files and are none, as far as can be seen.
    pub unrecognised: Vec<PathBuf>,
}

/// A file that was recognised.
struct Found {
    path: PathBuf,
    file: File,
    beginning: Beginning,
}

/// The sets that `paths` hold: shard files, and folders with shard files among others.
pub fn find(paths: &[PathBuf]) -> Result<Finds> {
    let mut unrecognised = Vec::new();
    let mut found: BTreeMap<VolumeId, Vec<Found>> = BTreeMap::new();
    for path in paths {
        let metadata = fs::metadata(path).with_context(|| path.display().to_string())?;
        if !metadata.is_dir() {
            let Some(shard) = look(path)? else {
                bail!(unlike(path));
            };
            found.entry(shard.beginning.set).or_default().push(shard);
            continue;
        }
        let names = || fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>();
        let mut names = names().with_context(|| path.display().to_string())?;
        names.sort();
        for name in names.into_iter().filter(|name| name.is_file()) {
            match look(&name)? {
                Some(shard) => found.entry(shard.beginning.set).or_default().push(shard),
                None if name.extension() == Some(OsStr::new(EXTENSION)) => unrecognised.push(name),
                None => {}
            }
        }
    }
    if found.is_empty() {
        let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
        bail!("there are no shard files in {}", paths.join(", "));
    }
    let mut sets = found.into_values().map(set_of).collect::<Result<Vec<_>>>()?;
    sets.sort_by(|a, b| a.header.name.cmp(&b.header.name));
    Ok(Finds { sets, unrecognised })
}

/// What is said of such a file.
pub fn unlike(path: &Path) -> String {
    format!("{} is not a shard file, or its beginning is damaged beyond recognition", path.display())
}

/// `None`: it is no shard file.
fn look(path: &Path) -> Result<Option<Found>> {
    let named = || path.display().to_string();
    if !fs::metadata(path).with_context(named)?.is_file() {
        bail!("{} is not a file: read pipes and devices with `weft decode --stream`", path.display());
    }
    let file = File::open(path).with_context(named)?;
    let beginning = recognise(&FileBytes(&file).read(0, BEGINNING_BYTES)).with_context(named)?;
    Ok(beginning.map(|beginning| Found { path: path.to_owned(), file, beginning }))
}

fn set_of(found: Vec<Found>) -> Result<Set> {
    let Some(header) = common_header(found.iter().map(|found| &found.beginning)) else {
        let names: Vec<String> = found.iter().map(|found| found.path.display().to_string()).collect();
        bail!("{}: all headers are damaged: find one more shard file of the set", names.join(", "));
    };
    let any = found.first().map(|found| found.path.display().to_string()).unwrap_or_default();
    let coder = coder(&header).context(any)?;
    let mut shards: Vec<Option<ShardFile>> = (0..coder.shape().n).map(|_| None).collect();
    for Found { path, file, beginning } in found {
        let index = beginning.index;
        let Some(place) = shards.get_mut(index.as_usize()) else { continue };
        let header_is_sound = beginning.header == Some(ShardFileHeader { index, ..header.clone() });
        // Of two copies the one with a sound header.
        if place.as_ref().is_none_or(|there| header_is_sound && !there.header_is_sound) {
            *place = Some(ShardFile { path, file, header_is_sound });
        }
    }
    Ok(Set { header, coder, shards })
}

impl ShardFile {
    /// Its bytes, and whether its header is sound.
    fn bytes(&self) -> (FileBytes<'_>, bool) {
        (FileBytes(&self.file), self.header_is_sound)
    }
}

impl Set {
    pub fn name(&self) -> &OsStr {
        OsStr::from_bytes(&self.header.name)
    }

    /// Which shards have a file.
    pub fn there(&self) -> Vec<bool> {
        self.shards.iter().map(Option::is_some).collect()
    }

    /// Reads the set from its beginning.
    pub fn decoder(&self, chosen: Vec<usize>) -> Decoder<FileBytes<'_>> {
        let shards = self.shards.iter().map(|shard| shard.as_ref().map(ShardFile::bytes)).collect();
        Decoder::new(self.header.clone(), self.coder.clone(), shards, chosen)
    }

    /// About how long the encoded file is, by the length of the longest shard file.
    pub fn about_bytes(&self) -> u64 {
        let bytes = |shard: &ShardFile| shard.file.metadata().map_or(0, |metadata| metadata.len());
        let longest = self.shards.iter().flatten().map(bytes).max().unwrap_or(0);
        let geometry = &self.header.geometry;
        longest / geometry.payload_bytes() * geometry.data_bytes
            + longest % geometry.payload_bytes() * geometry.data_bytes / geometry.payload_bytes()
    }
}

/// A shard that is a file. What cannot be read is as good as damaged.
pub struct FileBytes<'a>(&'a File);

impl ShardBytes for FileBytes<'_> {
    fn read(&mut self, offset: u64, length: usize) -> Bytes {
        let file_bytes = self.0.metadata().map_or(0, |metadata| metadata.len());
        let there = file_bytes.saturating_sub(offset).min(length as u64);
        let mut buffer = vec![0; there as usize];
        let length = read_at(self.0, &mut buffer, offset);
        buffer.truncate(length);
        buffer.into()
    }
}

/// Reads as much as there is; how much that was. An error ends the reading: what follows is an erasure.
fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> usize {
    let mut length = 0;
    while length < buffer.len() {
        match file.read_at(&mut buffer[length..], offset + length as u64) {
            Ok(0) => break,
            Ok(more) => length += more,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => {
                tracing::warn!(%error, "a part of a shard file cannot be read");
                break;
            }
        }
    }
    length
}
