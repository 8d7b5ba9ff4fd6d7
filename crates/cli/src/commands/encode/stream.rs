//! `weft encode --stream`: standard input into shards that are files, pipes or tapes.

use super::places::Places;
use super::{Arguments, encoded, make_folder, shard_paths};
use crate::care::DEGRADED;
use crate::render;
use crate::shard_outputs::{self, Lost};
use anyhow::{Result, anyhow, bail};
use indicatif::ProgressBar;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use weft_engine::transfers::objects::Coder;
use weft_engine::transfers::shard_files::{Encoder, list};
use weft_format::VolumeId;
use weft_format::shard_file::MAX_NAME_BYTES;

/// Of streams that have no other.
const NAME: &str = "stream";

pub fn run(arguments: &Arguments, coder: Coder) -> Result<ExitCode> {
    let name = arguments.name.as_deref().unwrap_or(OsStr::new(NAME));
    if Path::new(name).file_name() != Some(name) || name.len() > MAX_NAME_BYTES {
        let shown = render::line(&name.to_string_lossy());
        bail!("{shown} cannot be the name of a file: give one of 1 to {MAX_NAME_BYTES} bytes without `/`");
    }
    let paths = outputs(arguments, &coder, name)?;
    let set = VolumeId(rand::random());
    let encoder = Encoder::new(coder.clone(), set, name.as_bytes().to_owned())?;
    let places = Places::find(&paths)?;
    if let Some(folder) = &arguments.output {
        make_folder(folder)?;
    }
    let (outputs, names) = (places.open()?, places.names());
    let tell = |lost: Lost| {
        let why =
            render::sentence(&anyhow!("shard {} ({}) is lost: {}", lost.shard, paths[lost.shard].display(), lost.why));
        if !lost.is_bearable {
            bail!("{why}; the file cannot be restored from the other shards, so the encoding has ended");
        }
        eprintln!("weft: {why}; the encoding goes on without it");
        Ok(())
    };
    // Without the buffer of the standard library.
    let input = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let written = shard_outputs::write(encoder, input, outputs, names, &ProgressBar::hidden(), tell)?;
    places.sync()?;
    let encoded = encoded(&coder, set, Path::new(name), &paths, written);
    if arguments.printed.json {
        println!("{}", serde_json::to_string_pretty(&encoded)?);
    } else {
        // Standard output may be one of the shards.
        let shards = encoded.shards.len() - encoded.lost.len();
        let (file_bytes, shard_bytes) = (render::bytes(encoded.file_bytes), render::bytes(encoded.shard_bytes));
        let name = render::line(&name.to_string_lossy());
        let state = match encoded.lost.as_slice() {
            [] if encoded.tolerance == 0 => "none of them may be lost".to_owned(),
            [] => format!("any {} of them may be lost", encoded.tolerance),
            [one] => format!("shard {one} is lost already"),
            several => format!("shards {} are lost already", list(several)),
        };
        eprintln!("{name}: {file_bytes} in {shards} shards of {shard_bytes}; {state}");
    }
    Ok(if encoded.lost.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(DEGRADED) })
}

/// Where the shards go, by index.
fn outputs(arguments: &Arguments, coder: &Coder, name: &OsStr) -> Result<Vec<PathBuf>> {
    let n = coder.shape().n;
    let code = coder.spec();
    match (&arguments.output, arguments.files.len()) {
        (None, 0) => bail!("{code} has {n} shards: name an output for each, or a folder with --output"),
        (Some(folder), 0) => shard_paths(folder, name, n),
        (Some(_), _) => bail!("give an output for each shard, or a folder for all of them with --output, not both"),
        (None, given) if given == n => Ok(arguments.files.clone()),
        (None, given) => bail!(
            "{code} has {n} shards, and {given} outputs are given: name one for each shard (/dev/null drops a shard)"
        ),
    }
}
