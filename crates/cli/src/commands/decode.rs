//! `weft decode DIR`: files out of shard files, and lost shard files out of the others.

use super::encode::progress_bar;
use crate::arguments::Output;
use crate::care::{DEGRADED, UNREADABLE, count};
use crate::render;
use crate::shard_files::{self, Finds, Set, shard_name};
use crate::unfinished::{Unfinished, already_there, sync_folder};
use anyhow::{Context, Result, bail, ensure};
use indicatif::ProgressBar;
use serde::Serialize;
use std::fs;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use weft_engine::transfers::objects::Survivors;
use weft_format::ShardIndex;
use weft_format::shard_file::{FileHasher, ShardFileHeader};

/// Restore files from their remaining shard files (see `weft encode`)
///
/// Shard files are recognised by their content, not by name or order; damaged parts count as lost. A file gets its name only when it is
/// complete and has the digest of the encoded file. Exit status of --check: 0 if every shard is intact, 2 if some are missing or damaged,
/// 3 if a file cannot be restored.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  weft decode photos.tar.shards
  weft decode --check photos.tar.shards
  weft decode --repair photos.tar.shards")]
pub struct Arguments {
    /// Folders with shard files, or shard files
    #[arg(required = true, value_name = "DIR")]
    paths: Vec<PathBuf>,
    /// File to write, or an existing folder [default: the file's own name, in the current folder]
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["check", "repair"])]
    output: Option<PathBuf>,
    /// Only report which shards are missing or damaged, and whether the others suffice
    #[arg(long)]
    check: bool,
    /// Rebuild missing and damaged shard files instead of the file
    #[arg(long, conflicts_with = "check")]
    repair: bool,
    #[command(flatten)]
    printed: Output,
}

#[derive(Serialize)]
struct Answer {
    file: String,
    code: String,
    file_bytes: u64,
    shard_count: usize,
    missing: Vec<usize>,
    /// Shards that are there and not whole; of those that were read.
    damaged: Vec<usize>,
    /// Can the file be made from what is left?
    decodes: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<String>,
    /// What was written: the file, or rebuilt shard files.
    written: Vec<PathBuf>,
}

pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let Finds { sets, unrecognised } = shard_files::find(&arguments.paths)?;
    if !arguments.printed.json {
        unrecognised.iter().for_each(|path| println!("{}: skipped", shard_files::unlike(path)));
    }
    let targets = if arguments.check || arguments.repair { Vec::new() } else { targets(arguments, &sets)? };
    let mut answers = Vec::new();
    for (position, set) in sets.iter().enumerate() {
        let bar = progress_bar(set.header.file_bytes);
        let answer = match targets.get(position) {
            Some(target) => decode(set, target, &bar),
            None if arguments.repair => repair(set, &bar),
            None => check(set, &bar),
        };
        bar.finish_and_clear();
        let answer = answer.with_context(|| shown(set))?;
        if !arguments.printed.json && (arguments.check || answer.decodes) {
            say(arguments, &answer);
        }
        answers.push(answer);
    }
    if arguments.printed.json {
        println!("{}", serde_json::to_string_pretty(&answers)?);
    }
    if !arguments.check {
        // One file that cannot be made keeps no other from being made.
        let failure = |answer: &Answer| Some(format!("{}: {}", render::line(&answer.file), answer.failure.as_ref()?));
        let failures: Vec<String> = answers.iter().filter_map(failure).collect();
        ensure!(failures.is_empty(), "{}", failures.join("; "));
        return Ok(ExitCode::SUCCESS);
    }
    Ok(
        match answers
            .iter()
            .map(|answer| (answer.decodes, answer.missing.len() + answer.damaged.len()))
            .max_by_key(|(decodes, wanting)| (!decodes, *wanting))
        {
            Some((false, _)) => ExitCode::from(UNREADABLE),
            Some((true, 1..)) => ExitCode::from(DEGRADED),
            _ => ExitCode::SUCCESS,
        },
    )
}

fn shown(set: &Set) -> String {
    render::line(&set.name().to_string_lossy())
}

fn say(arguments: &Arguments, answer: &Answer) {
    let shards = |indices: &[usize], what: &str| match indices {
        [] => None,
        [one] => Some(format!("shard {one} is {what}")),
        many => Some(format!("shards {} are {what}", list(many))),
    };
    let name = render::line(&answer.file);
    let troubles: Vec<String> =
        [shards(&answer.missing, "missing"), shards(&answer.damaged, "damaged")].into_iter().flatten().collect();
    let trouble = troubles.join(", ");
    let bytes = render::bytes(answer.file_bytes);
    let paths = arguments.paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" ");
    let mend = format!("repair with `weft decode --repair {paths}`");
    match (answer.written.as_slice(), troubles.is_empty()) {
        ([], true) => println!("{name}: {bytes}, all {} shards are intact", answer.shard_count),
        ([], false) if answer.decodes => println!("{name}: {trouble}; the others suffice: {mend}"),
        ([], false) => println!("{name}: {trouble}; the others do not suffice"),
        (written, _) if arguments.repair => {
            println!("{name}: {trouble}; rebuilt {}", count(written.len() as u64, "shard file"));
        }
        (written, is_whole) => {
            let target = written.first().map_or(String::new(), |path| path.display().to_string());
            println!("{}: {bytes}, as it was encoded", render::line(&target));
            if !is_whole {
                println!("{trouble}: {mend}");
            }
        }
    }
}

/// `1, 3 and 4`.
fn list(indices: &[usize]) -> String {
    let text: Vec<String> = indices.iter().map(usize::to_string).collect();
    match text.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
        None => String::new(),
    }
}

/// Where each set's file goes; none of them is there.
fn targets(arguments: &Arguments, sets: &[Set]) -> Result<Vec<PathBuf>> {
    let mut targets: Vec<PathBuf> = Vec::new();
    for set in sets {
        let target = match &arguments.output {
            None => PathBuf::from(set.name()),
            Some(folder) if folder.is_dir() => folder.join(set.name()),
            Some(file) if sets.len() == 1 => file.clone(),
            Some(file) => {
                bail!("{} is not a folder, but there are {} files to decode: give a folder", file.display(), sets.len())
            }
        };
        if fs::symlink_metadata(&target).is_ok() {
            bail!(already_there(&target));
        }
        if targets.contains(&target) {
            bail!("there are shards of two files named {}: decode the files one by one", shown(set));
        }
        if let Some(parent) = target.parent().filter(|parent| *parent != Path::new(""))
            && !parent.is_dir()
        {
            bail!("the folder {} does not exist: make it with `mkdir -p`", parent.display());
        }
        targets.push(target);
    }
    Ok(targets)
}

/// What a pass over a set has found.
struct Pass {
    damaged: Vec<usize>,
    /// Why the file cannot be made from what is left.
    failure: Option<String>,
}

/// Reads a set: all shards, or those that the data need; `take` gets the file's bytes, in order.
fn pass(set: &Set, all: bool, bar: &ProgressBar, mut take: impl FnMut(&[u8]) -> Result<()>) -> Result<Pass> {
    let (header, there) = (&set.header, set.there());
    let present: Vec<usize> = (0..there.len()).filter(|shard| there[*shard]).collect();
    let mut damaged: Vec<usize> = present.iter().copied().filter(|shard| !set.is_framed_well(*shard)).collect();
    let needed = set.coder.needed(&there);
    let mut failure = (needed.is_none() && header.file_bytes > 0).then(|| too_few(set));
    let chosen = if all { present.clone() } else { needed.unwrap_or_default() };
    let mut hasher = FileHasher::default();
    let mut data = Vec::new();
    for segment in 0..header.segment_count() {
        if failure.is_some() && !all {
            break;
        }
        if !set.reaches(segment) {
            let from = segment * header.geometry.data_bytes;
            failure.get_or_insert_with(|| {
                format!("bytes {from} to {} cannot be decoded: every shard file ends before them", header.file_bytes)
            });
            break;
        }
        let note = |damaged: &mut Vec<usize>, survivors: &Survivors, shards: &[usize]| {
            damaged.extend(shards.iter().copied().filter(|shard| !survivors.is_sound(*shard)));
        };
        data.resize(header.segment_geometry(segment).data_bytes as usize, 0);
        let mut survivors = set.survivors(segment, &chosen);
        note(&mut damaged, &survivors, &chosen);
        let mut outcome = survivors.read(&mut data);
        if outcome.is_err() && chosen.len() < present.len() {
            survivors = set.survivors(segment, &present);
            note(&mut damaged, &survivors, &present);
            outcome = survivors.read(&mut data);
        }
        if let (Err(too_few), None) = (outcome, &failure) {
            let from = segment * header.geometry.data_bytes;
            failure = Some(format!(
                "bytes {} to {} cannot be decoded: shards {} are missing or damaged there, and {} needs one of them",
                from + too_few.data.start,
                from + too_few.data.end,
                list(&too_few.unusable),
                header.code,
            ));
        }
        if failure.is_none() {
            hasher.update(&data);
            take(&data)?;
        }
        bar.inc(data.len() as u64);
    }
    if failure.is_none() && hasher.finish() != header.digest {
        failure =
            Some("the decoded bytes differ from the encoded file (their digest is wrong), so nothing was kept".into());
    }
    damaged.sort_unstable();
    damaged.dedup();
    Ok(Pass { damaged, failure })
}

fn missing(set: &Set) -> Vec<usize> {
    set.there().iter().enumerate().filter(|(_, there)| !**there).map(|(shard, _)| shard).collect()
}

/// The sentence for a set of which too little is left.
fn too_few(set: &Set) -> String {
    let (missing, n) = (missing(set), set.shards.len());
    let (code, tolerance) = (&set.header.code, set.coder.shape().tolerance);
    let which = if missing.len() == 1 { "shard" } else { "shards" };
    format!(
        "{which} {} of {n} are missing, and {code} survives the loss of only {tolerance} for sure: find more of them",
        list(&missing)
    )
}

fn answer(set: &Set, pass: &Pass, written: Vec<PathBuf>) -> Answer {
    Answer {
        file: set.name().to_string_lossy().into_owned(),
        code: set.header.code.clone(),
        file_bytes: set.header.file_bytes,
        shard_count: set.shards.len(),
        missing: missing(set),
        damaged: pass.damaged.clone(),
        decodes: pass.failure.is_none(),
        failure: pass.failure.clone(),
        written,
    }
}

fn check(set: &Set, bar: &ProgressBar) -> Result<Answer> {
    let pass = pass(set, true, bar, |_| Ok(()))?;
    Ok(answer(set, &pass, Vec::new()))
}

fn decode(set: &Set, target: &Path, bar: &ProgressBar) -> Result<Answer> {
    let folder = target.parent().unwrap_or(Path::new(""));
    let mut unfinished = Unfinished::in_folder(folder)?;
    let pass =
        pass(set, false, bar, |data| unfinished.file.write_all(data).with_context(|| target.display().to_string()))?;
    if pass.failure.is_some() {
        return Ok(answer(set, &pass, Vec::new()));
    }
    unfinished.publish(target)?;
    sync_folder(folder)?;
    Ok(answer(set, &pass, vec![target.to_owned()]))
}

/// Makes missing and damaged shard files anew, byte for byte as they were: the missing ones beside the first that is there.
fn repair(set: &Set, bar: &ProgressBar) -> Result<Answer> {
    let header = &set.header;
    let pass = pass(set, true, bar, |_| Ok(()))?;
    if pass.failure.is_some() {
        return Ok(answer(set, &pass, Vec::new()));
    }
    let mut wanting = missing(set);
    wanting.extend(&pass.damaged);
    let beside = set.shards.iter().flatten().find_map(|shard| shard.path.parent()).unwrap_or(Path::new(""));
    let place = |shard: &usize| match &set.shards[*shard] {
        Some(damaged) => damaged.path.clone(),
        None => beside.join(shard_name(set.name(), *shard, set.shards.len())),
    };
    let targets: Vec<PathBuf> = wanting.iter().map(place).collect();
    let taken = |(shard, target): &(&usize, &PathBuf)| set.shards[**shard].is_none() && target.exists();
    if let Some((_, target)) = wanting.iter().zip(&targets).find(taken) {
        bail!("{} exists and is a different file: move it away", target.display());
    }
    let mut unfinished = Vec::new();
    for (shard, target) in wanting.iter().zip(&targets) {
        let made = Unfinished::in_folder(target.parent().unwrap_or(Path::new("")))?;
        let header = ShardFileHeader { index: ShardIndex(*shard as u16), ..header.clone() };
        made.file.write_all_at(&header.encode()?, 0).with_context(|| target.display().to_string())?;
        unfinished.push(made);
    }
    let present: Vec<usize> = (0..set.shards.len()).filter(|shard| set.shards[*shard].is_some()).collect();
    bar.set_position(0);
    for segment in 0..if wanting.is_empty() { 0 } else { header.segment_count() } {
        let identity = |index| header.object_identity(segment, index);
        let objects = set.survivors(segment, &present).rebuild(identity, &wanting)?;
        for ((unfinished, object), target) in unfinished.iter().zip(objects).zip(&targets) {
            let start = header.object_range(segment).start;
            unfinished.file.write_all_at(&object, start).with_context(|| target.display().to_string())?;
        }
        bar.inc(header.segment_geometry(segment).data_bytes);
    }
    for ((unfinished, shard), target) in unfinished.into_iter().zip(&wanting).zip(&targets) {
        match set.shards[*shard] {
            Some(_) => unfinished.replace(target)?,
            None => unfinished.publish(target)?,
        }
        sync_folder(target.parent().unwrap_or(Path::new("")))?;
    }
    Ok(answer(set, &pass, targets))
}
