//! `weft encode`: files, or a stream, into shard files, without a volume.

mod places;
mod stream;

use crate::arguments::Output as Printed;
use crate::compose;
use crate::render;
use crate::shard_files::shard_name;
use crate::shard_outputs::{self, Output, Written};
use crate::unfinished::{Unfinished, already_there, sync_folder};
use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use weft_engine::transfers::objects::Coder;
use weft_engine::transfers::shard_files::Encoder;
use weft_format::VolumeId;
use weft_format::shard_file::MAX_NAME_BYTES;

/// Cut files, or a stream, into shard files, some of which may be lost; no volume is needed
///
/// `weft decode` restores the file from the remaining shard files, whatever their names and order. With --stream, standard input is read
/// once, to its end, and each shard is written in order to a file, pipe or tape, in little memory. A slow output slows the others down. An
/// output that fails, such as a pipe whose reader ends, is named and left out, as long as the other shards suffice. Exit status of
/// --stream: 0 if every shard is whole, 2 if some are lost and the others suffice, 1 if they do not. An encoding that is interrupted
/// leaves shards without an end, which `weft decode` does not take for whole.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  weft encode --code rs:4+2 photos.tar
  weft encode --code rs:4+2 photos.tar --output /mnt/shards
  tar c photos | weft encode --stream --code raid5:3 /dev/nst0 /dev/nst1 /dev/nst2
  tar c photos | weft encode --stream --code rs:4+2 --output /mnt/shards --name photos.tar
  pg_dumpall | weft encode --stream --code raid5:3 >(ssh a 'cat >0.weft') >(ssh b 'cat >1.weft') 2.weft")]
pub struct Arguments {
    /// Code, as in rs:4+2 or lrc:6+2+2 (`weft codes list`)
    #[arg(long, value_name = "CODE")]
    code: String,
    /// Files to encode; with --stream the outputs: a new file, a pipe or a device for each shard, by index
    #[arg(required_unless_present = "stream", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Encode standard input
    #[arg(long)]
    stream: bool,
    /// Folder for the shards of all files, made if missing [default: FILE.shards for each FILE]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Name of the stream, which the decoded file gets [default: stream]
    #[arg(long, value_name = "NAME", requires = "stream")]
    name: Option<std::ffi::OsString>,
    #[command(flatten)]
    printed: Printed,
}

#[derive(Serialize)]
struct Encoded {
    file: PathBuf,
    /// Id of the encoding, which all its shards have.
    encoding: String,
    code: String,
    file_bytes: u64,
    shard_bytes: u64,
    /// How many shards may be lost, whichever they are.
    tolerance: usize,
    shards: Vec<PathBuf>,
    /// Indices of the shards that could not be written to their end.
    lost: Vec<usize>,
}

/// A file to be encoded, and where its shards go.
struct Job<'a> {
    source: &'a Path,
    name: &'a OsStr,
    folder: PathBuf,
    shards: Vec<PathBuf>,
}

pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let coder = Coder::new(compose::code(&arguments.code)?.spec())?;
    if arguments.stream {
        return stream::run(arguments, coder);
    }
    let jobs = jobs(arguments, coder.shape().n)?;
    let bar = progress_bar(0);
    let mut encoded = Vec::new();
    for job in &jobs {
        encoded.push(encode(&coder, job, &bar)?);
    }
    bar.finish_and_clear();
    if arguments.printed.json {
        println!("{}", serde_json::to_string_pretty(&encoded)?);
        return Ok(ExitCode::SUCCESS);
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
    Ok(ExitCode::SUCCESS)
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
        let shards = shard_paths(&folder, name, n)?;
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

/// Where the shards of a file of this name go.
fn shard_paths(folder: &Path, name: &OsStr, n: usize) -> Result<Vec<PathBuf>> {
    let shards: Vec<PathBuf> = (0..n).map(|index| folder.join(shard_name(name, index, n))).collect();
    let longest = shards.iter().filter_map(|shard| Some(shard.file_name()?.len())).max();
    if longest.is_some_and(|bytes| bytes > MAX_NAME_BYTES) {
        bail!(
            "{}: the name is too long for shard names made from it: choose a shorter name",
            render::line(&name.to_string_lossy())
        );
    }
    Ok(shards)
}

fn make_folder(folder: &Path) -> Result<()> {
    match fs::create_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            bail!("{} cannot be made: make its parent folder with `mkdir -p`", folder.display())
        }
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(error).with_context(|| folder.display().to_string())
        }
        _ => Ok(()),
    }
}

/// The name of a shard's file, for its siblings.
fn sibling_name(shard: &Path) -> Vec<u8> {
    shard.file_name().unwrap_or_default().as_bytes().to_owned()
}

fn encode(coder: &Coder, job: &Job<'_>, bar: &ProgressBar) -> Result<Encoded> {
    let shown = || job.source.display().to_string();
    let source = File::open(job.source).with_context(shown)?;
    bar.set_length(source.metadata().with_context(shown)?.len());
    bar.set_position(0);
    make_folder(&job.folder)?;
    let set = VolumeId(rand::random());
    let encoder = Encoder::new(coder.clone(), set, job.name.as_bytes().to_owned())?;
    let unfinished = job.shards.iter().map(|_| Unfinished::in_folder(&job.folder)).collect::<Result<Vec<_>>>()?;
    let output = |unfinished: &Unfinished| Ok(Output::File(unfinished.file.try_clone()?));
    let outputs = unfinished.iter().map(output).collect::<Result<Vec<_>>>()?;
    let names = job.shards.iter().map(|shard| sibling_name(shard)).collect();
    // Every shard or none gets its name, so that one that cannot be written ends the encoding.
    let written = shard_outputs::write(encoder, source, outputs, names, bar, |lost| {
        Err(lost.why).with_context(|| job.shards[lost.shard].display().to_string())
    });
    let written = written.with_context(shown)?;
    for (unfinished, shard) in unfinished.into_iter().zip(&job.shards) {
        unfinished.publish(shard)?;
    }
    sync_folder(&job.folder)?;
    Ok(encoded(coder, set, job.source, &job.shards, written))
}

fn encoded(coder: &Coder, set: VolumeId, file: &Path, shards: &[PathBuf], written: Written) -> Encoded {
    let Written { file_bytes, shard_bytes, lost } = written;
    Encoded {
        file: file.to_owned(),
        encoding: set.to_string(),
        code: coder.spec().to_owned(),
        file_bytes,
        shard_bytes,
        tolerance: coder.shape().tolerance,
        shards: shards.to_vec(),
        lost,
    }
}
