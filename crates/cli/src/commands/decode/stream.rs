//! `weft decode --stream`: a file out of shards that are streams, to standard output.

use crate::render;
use crate::shard_files::unlike;
use crate::shard_inputs::Input;
use anyhow::{Context, Result, anyhow, bail};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use weft_engine::transfers::objects::Coder;
use weft_engine::transfers::shard_files::{
    BEGINNING_BYTES, Beginning, Decoder, Loss, Next, Trouble, coder, common_header, recognise,
};
use weft_format::VolumeId;
use weft_format::shard_file::ShardFileHeader;

/// Inputs that are shards of one encoding.
struct Shards {
    header: ShardFileHeader,
    coder: Coder,
    inputs: Vec<(Input, Beginning)>,
}

pub fn run(paths: &[PathBuf]) -> Result<ExitCode> {
    let Shards { header, coder, inputs } = recognised(Input::open_all(paths))?;
    let n = coder.shape().n;
    let mut shown: Vec<Option<PathBuf>> = vec![None; n];
    let mut shards: Vec<Option<(Input, bool)>> = (0..n).map(|_| None).collect();
    for (input, beginning) in inputs {
        let index = beginning.index.as_usize();
        if let Some(other) = shown.get(index).and_then(Option::as_ref) {
            let (one, other) = (input.path.display(), other.display());
            bail!("{other} and {one} are both shard {index} of {}: give one of them", name(&header));
        }
        let Some(place) = shards.get_mut(index) else { continue };
        let is_sound = beginning.header == Some(ShardFileHeader { index: beginning.index, ..header.clone() });
        shown[index] = Some(input.path.clone());
        *place = Some((input, is_sound));
    }
    let chosen = (0..n).filter(|shard| shards[*shard].is_some()).collect();
    let mut decoder = Decoder::new(header, coder, shards, chosen);
    let outcome = write(&mut decoder);
    for (shard, trouble) in decoder.troubles() {
        let path = shown[shard].as_deref().unwrap_or(Path::new("")).display();
        match (trouble, decoder.shard(shard).and_then(Input::failure)) {
            (Trouble::GoesOn, _) => {
                eprintln!("weft: {path} (shard {shard}) goes on after its end: the rest was left out")
            }
            (_, Some(failure)) => eprintln!("weft: {path} (shard {shard}) cannot be read to its end: {failure}"),
            (Trouble::EndsAfter { bytes }, _) => {
                eprintln!("weft: {path} (shard {shard}) ends too early, after {bytes} bytes")
            }
            (Trouble::Damaged, _) => eprintln!("weft: {path} (shard {shard}) is damaged"),
        }
    }
    outcome?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the file to standard output, a segment at a time.
fn write(decoder: &mut Decoder<Input>) -> Result<()> {
    // Without the buffer of the standard library.
    let mut out = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    let (mut data, mut written_bytes) = (Vec::new(), 0);
    loop {
        match decoder.next(&mut data) {
            Ok(Next::Segment) => {
                // Not as an error of the system: it would end this command as quietly as one whose reader needs no more.
                out.write_all(&data).map_err(|error| {
                    anyhow!("standard output cannot be written after about {written_bytes} bytes: {error}")
                })?;
                written_bytes = decoder.file_bytes();
            }
            Ok(Next::End(_)) => return Ok(()),
            Err(loss) if written_bytes == 0 => bail!("{loss}; nothing was written"),
            Err(Loss::WrongDigest) => {
                bail!("{}; all {written_bytes} bytes were written: do not use them", Loss::WrongDigest)
            }
            Err(loss) => {
                bail!("{loss}; the {written_bytes} bytes before it were written, and are right by their checksums")
            }
        }
    }
}

/// The inputs that are shards, which are those of one encoding. The others are named, and left out.
fn recognised(inputs: Vec<Input>) -> Result<Shards> {
    let mut found: Vec<(Input, Beginning)> = Vec::new();
    for mut input in inputs {
        let beginning =
            recognise(input.beginning(BEGINNING_BYTES)).with_context(|| input.path.display().to_string())?;
        match (beginning, input.failure()) {
            (Some(beginning), _) => found.push((input, beginning)),
            (None, Some(failure)) => eprintln!("weft: {}: {failure}; it is left out", input.path.display()),
            (None, None) => eprintln!("weft: {}; it is left out", unlike(&input.path)),
        }
    }
    let count = |set: VolumeId| found.iter().filter(|(_, beginning)| beginning.set == set).count();
    // The first of those that are as frequent.
    let Some((first, most)) = found.iter().rev().max_by_key(|(_, beginning)| count(beginning.set)) else {
        bail!("no input is a shard: give those that `weft encode` wrote");
    };
    if let Some((other, beginning)) = found.iter().find(|(_, beginning)| beginning.set != most.set) {
        bail!(
            "{} is {}, and {} is {}: leave one of them out",
            other.path.display(),
            described(beginning),
            first.path.display(),
            described(most),
        );
    }
    let Some(header) = common_header(found.iter().map(|(_, beginning)| beginning)) else {
        bail!("the headers of all inputs are damaged: add one more shard of this encoding");
    };
    let coder = coder(&header).with_context(|| first.path.display().to_string())?;
    Ok(Shards { header, coder, inputs: found })
}

/// `shard 3 of photos.tar (encoding 00ff)`.
fn described(beginning: &Beginning) -> String {
    let Beginning { set, index, header } = beginning;
    let of = header.as_ref().map_or(String::new(), |header| format!(" of {}", name(header)));
    format!("shard {}{of} (encoding {set})", index.0)
}

fn name(header: &ShardFileHeader) -> String {
    render::line(&String::from_utf8_lossy(&header.name))
}
