//! Sets of shard files: found among other files, read a segment at a time.

use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use weft_engine::transfers::objects::{Coder, Survivors};
use weft_format::shard::{HEADER_BYTES, ShardError, ShardHeader};
use weft_format::shard_file::{FILE_HEADER_BYTES, ShardFileHeader};
use weft_format::{ShardIndex, VolumeId};

/// The shard files of one encoded file, as far as they were found.
pub struct Set {
    /// As in any of the files; its index means nothing.
    pub header: ShardFileHeader,
    pub coder: Coder,
    /// By shard index.
    pub shards: Vec<Option<ShardFile>>,
}

/// One shard file.
pub struct ShardFile {
    pub path: PathBuf,
    file: File,
    pub header_is_sound: bool,
}

/// What the beginning of a file says of it.
struct Found {
    set: VolumeId,
    index: ShardIndex,
    header: Option<ShardFileHeader>,
    file: File,
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

/// The sets that `paths` hold: shard files, and folders with shard files among others.
pub fn find(paths: &[PathBuf]) -> Result<Finds> {
    let mut unrecognised = Vec::new();
    let mut found: BTreeMap<VolumeId, Vec<(PathBuf, Found)>> = BTreeMap::new();
    for path in paths {
        let metadata = fs::metadata(path).with_context(|| path.display().to_string())?;
        if !metadata.is_dir() {
            let Some(shard) = look(path)? else {
                bail!(unlike(path));
            };
            found.entry(shard.set).or_default().push((path.clone(), shard));
            continue;
        }
        let names = || fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>();
        let mut names = names().with_context(|| path.display().to_string())?;
        names.sort();
        for name in names.into_iter().filter(|name| name.is_file()) {
            match look(&name)? {
                Some(shard) => found.entry(shard.set).or_default().push((name, shard)),
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

/// `None`: it is no shard file. One whose header is damaged is known by its first object.
fn look(path: &Path) -> Result<Option<Found>> {
    let file = File::open(path).with_context(|| path.display().to_string())?;
    let mut beginning = [0; FILE_HEADER_BYTES + HEADER_BYTES];
    let length = read_at(&file, &mut beginning, 0);
    let beginning = &beginning[..length];
    match ShardFileHeader::decode(beginning) {
        Ok(header) => Ok(Some(Found { set: header.set, index: header.index, header: Some(header), file })),
        Err(error @ ShardError::UnknownVersion { .. }) => Err(error).with_context(|| path.display().to_string()),
        Err(_) => {
            let object = beginning.get(FILE_HEADER_BYTES..).map(ShardHeader::decode);
            let identity = object.and_then(Result::ok).map(|header| header.identity);
            Ok(identity.map(|it| Found { set: it.volume, index: it.key.index, header: None, file }))
        }
    }
}

fn set_of(files: Vec<(PathBuf, Found)>) -> Result<Set> {
    let Some(header) = files.iter().find_map(|(_, found)| found.header.clone()) else {
        let names: Vec<String> = files.iter().map(|(path, _)| path.display().to_string()).collect();
        bail!("{}: all headers are damaged: find one more shard file of the set", names.join(", "));
    };
    let any = files.first().map(|(path, _)| path.display().to_string()).unwrap_or_default();
    let coder = Coder::new(&header.code).with_context(|| any.clone())?;
    let shape = coder.shape();
    let (native_count, alpha) = (header.geometry.native_count as usize, header.geometry.alpha as usize);
    if (native_count, alpha) != (shape.native_count, shape.alpha) {
        bail!(
            "{any} was written with a `{}` that differs from this program's: use the program that wrote it",
            header.code
        );
    }
    let mut shards: Vec<Option<ShardFile>> = (0..shape.n).map(|_| None).collect();
    for (path, found) in files {
        let Some(place) = shards.get_mut(found.index.as_usize()) else { continue };
        let header_is_sound =
            found.header.is_some_and(|other| ShardFileHeader { index: header.index, ..other } == header);
        // Of two copies the one with a sound header.
        if place.as_ref().is_none_or(|there| header_is_sound && !there.header_is_sound) {
            *place = Some(ShardFile { path, file: found.file, header_is_sound });
        }
    }
    Ok(Set { header, coder, shards })
}

impl ShardFile {
    /// Its length; one that cannot be asked has nothing.
    fn bytes(&self) -> u64 {
        self.file.metadata().map_or(0, |metadata| metadata.len())
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

    /// What these shards have of a segment. What cannot be read is as good as damaged.
    pub fn survivors(&self, segment: u64, shards: &[usize]) -> Survivors {
        let range = self.header.object_range(segment);
        let mut objects: Vec<Option<_>> = vec![None; self.shards.len()];
        for &shard in shards {
            if let Some(shard_file) = &self.shards[shard] {
                // A header may claim more than there is, and only what is there is read.
                let there = shard_file.bytes().saturating_sub(range.start).min(range.end - range.start);
                let mut object = vec![0; there as usize];
                let length = read_at(&shard_file.file, &mut object, range.start);
                object.truncate(length);
                objects[shard] = Some(object.into());
            }
        }
        let identity = |index| self.header.object_identity(segment, index);
        self.coder.survivors(self.header.segment_geometry(segment), identity, &objects)
    }

    /// Is anything there of a segment and what follows it? A header may claim more segments than could be counted.
    pub fn reaches(&self, segment: u64) -> bool {
        let start = self.header.object_range(segment).start;
        self.shards.iter().flatten().any(|shard_file| shard_file.bytes() > start)
    }

    /// Is the file as long as it should be, and does its header say what the others' do?
    pub fn is_framed_well(&self, shard: usize) -> bool {
        let shard_file = self.shards[shard].as_ref();
        shard_file.is_some_and(|it| it.header_is_sound && it.bytes() == self.header.shard_file_bytes())
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
