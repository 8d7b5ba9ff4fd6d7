//! `weft encode CODE FILE...`: files into shard files, without a volume.

use crate::arguments::Output;
use crate::compose;
use crate::render;
use crate::shard_files::shard_name;
use crate::unfinished::{Unfinished, already_there, sync_folder};
use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use weft_engine::transfers::objects::Coder;
use weft_format::geometry::Geometry;
use weft_format::shard_file::{FileHasher, MAX_NAME_BYTES, ShardFileHeader};
use weft_format::{SegmentId, ShardIndex, VolumeId};

/// Cut files into shard files, some of which may be lost; no volume is needed
///
/// `weft decode` restores the file from the remaining shard files, whatever their names and order.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  weft encode rs:4+2 photos.tar
  weft encode rs:4+2 photos.tar --output /mnt/shards")]
pub struct Arguments {
    /// Code, as in rs:4+2 or lrc:6+2+2 (`weft codes list`)
    #[arg(value_name = "CODE")]
    code: String,
    /// Files to encode
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Folder for the shards of all files, made if missing [default: FILE.shards for each FILE]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    #[command(flatten)]
    printed: Output,
}

#[derive(Serialize)]
struct Encoded {
    file: PathBuf,
    code: String,
    file_bytes: u64,
    shard_bytes: u64,
    /// How many shards may be lost, whichever they are.
    tolerance: usize,
    shards: Vec<PathBuf>,
}

/// A file to be encoded, and where its shards go.
struct Job<'a> {
    source: &'a Path,
    name: &'a OsStr,
    folder: PathBuf,
    shards: Vec<PathBuf>,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let coder = Coder::new(compose::code(&arguments.code)?.spec())?;
    let jobs = jobs(arguments, coder.shape().n)?;
    let bar = progress_bar(0);
    let mut encoded = Vec::new();
    for job in &jobs {
        encoded.push(encode(&coder, job, &bar)?);
    }
    bar.finish_and_clear();
    if arguments.printed.json {
        println!("{}", serde_json::to_string_pretty(&encoded)?);
        return Ok(());
    }
    for (job, encoded) in jobs.iter().zip(&encoded) {
        println!(
            "{}: {} shards of {} in {}; any {} of them may be lost",
            render::line(&encoded.file.display().to_string()),
            encoded.shards.len(),
            render::bytes(encoded.shard_bytes),
            render::line(&job.folder.display().to_string()),
            encoded.tolerance,
        );
    }
    Ok(())
}

/// A bar over so many bytes.
pub fn progress_bar(bytes: u64) -> ProgressBar {
    let style =
        ProgressStyle::with_template("{wide_bar} {binary_bytes} of {binary_total_bytes}  {binary_bytes_per_sec}");
    ProgressBar::new(bytes).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// What is to be done, once nothing is known to stand in its way.
fn jobs(arguments: &Arguments, n: usize) -> Result<Vec<Job<'_>>> {
    let mut names = BTreeSet::new();
    let mut jobs = Vec::new();
    for source in &arguments.files {
        let shown = source.display();
        if fs::metadata(source).with_context(|| shown.to_string())?.is_dir() {
            bail!("{shown} is a folder: encode its files, or an archive of it");
        }
        let name = source.file_name().with_context(|| format!("{shown} has no name"))?;
        let folder = arguments.output.clone().unwrap_or_else(|| {
            let mut own = source.clone().into_os_string();
            own.push(".shards");
            own.into()
        });
        let shards: Vec<PathBuf> = (0..n).map(|index| folder.join(shard_name(name, index, n))).collect();
        let longest = shards.iter().filter_map(|shard| Some(shard.file_name()?.len())).max();
        if longest.is_some_and(|bytes| bytes > MAX_NAME_BYTES) {
            bail!("{shown}: the name is too long for shard names made from it: give the file a shorter name");
        }
        if let Some(taken) = shards.iter().find(|shard| fs::symlink_metadata(shard).is_ok()) {
            bail!(already_there(taken));
        }
        if !names.insert(shards.clone()) {
            bail!("{shown}: shards of two files with one name cannot be in one folder: encode the files one by one");
        }
        jobs.push(Job { source, name, folder, shards });
    }
    Ok(jobs)
}

fn encode(coder: &Coder, job: &Job<'_>, bar: &ProgressBar) -> Result<Encoded> {
    let source = File::open(job.source).with_context(|| job.source.display().to_string())?;
    let known_bytes = source.metadata().with_context(|| job.source.display().to_string())?.len();
    bar.set_length(known_bytes);
    bar.set_position(0);
    match fs::create_dir(&job.folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            bail!("{} cannot be made: make its parent folder with `mkdir -p`", job.folder.display())
        }
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            return Err(error).with_context(|| job.folder.display().to_string());
        }
        _ => {}
    }
    let geometry = coder.segment_geometry(SegmentId(0))?;
    let mut header = ShardFileHeader {
        set: VolumeId(rand::random()),
        index: ShardIndex(0),
        code: coder.spec().to_owned(),
        name: job.name.as_bytes().to_owned(),
        file_bytes: 0,
        digest: [0; 32],
        geometry,
    };
    let unfinished = job.shards.iter().map(|_| Unfinished::in_folder(&job.folder)).collect::<Result<Vec<_>>>()?;
    // One thread reads and hashes while this one encodes and writes.
    let (send, receive) = sync_channel(1);
    std::thread::scope(|scope| {
        let reading = scope.spawn(move || read(&source, geometry.data_bytes, &send));
        let written = write(coder, &mut header, &unfinished, receive, bar);
        let digest = reading.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        header.digest = digest.with_context(|| job.source.display().to_string())?;
        written.with_context(|| job.folder.display().to_string())
    })?;
    for ((index, unfinished), shard) in unfinished.into_iter().enumerate().zip(&job.shards) {
        let header = ShardFileHeader { index: ShardIndex(index as u16), ..header.clone() };
        unfinished.file.write_all_at(&header.encode()?, 0).with_context(|| shard.display().to_string())?;
        unfinished.publish(shard)?;
    }
    sync_folder(&job.folder)?;
    Ok(Encoded {
        file: job.source.to_owned(),
        code: header.code.clone(),
        file_bytes: header.file_bytes,
        shard_bytes: header.shard_file_bytes(),
        tolerance: coder.shape().tolerance,
        shards: job.shards.clone(),
    })
}

/// Sends the file a segment at a time; its digest.
fn read(source: &File, segment_bytes: u64, send: &SyncSender<Vec<u8>>) -> std::io::Result<[u8; 32]> {
    let mut hasher = FileHasher::default();
    loop {
        let mut data = Vec::with_capacity(segment_bytes as usize);
        source.take(segment_bytes).read_to_end(&mut data)?;
        hasher.update(&data);
        // Nobody takes more where writing has failed, which tells why.
        if data.is_empty() || send.send(data).is_err() {
            return Ok(hasher.finish());
        }
    }
}

/// Writes the objects of each segment to the shards; counts the file's bytes.
fn write(
    coder: &Coder,
    header: &mut ShardFileHeader,
    shards: &[Unfinished],
    receive: Receiver<Vec<u8>>,
    bar: &ProgressBar,
) -> Result<()> {
    for (segment, data) in receive.into_iter().enumerate() {
        let data_bytes = data.len() as u64;
        header.file_bytes += data_bytes;
        let geometry = Geometry { data_bytes, ..header.geometry };
        let objects = coder.encode(header.set, SegmentId(segment as u128), geometry, data.into())?;
        let start = header.object_range(segment as u64).start;
        for (shard, object) in shards.iter().zip(objects) {
            shard.file.write_all_at(&object, start)?;
        }
        bar.inc(data_bytes);
    }
    Ok(())
}
