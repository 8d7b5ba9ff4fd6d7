//! `weft decode`: files, or a stream, out of shard files, and lost shard files out of the others.

mod pass;
mod repair;
mod stream;

use self::pass::{Pass, missing, pass};
use self::repair::{repair, sibling_names};
use super::encode::progress_bar;
use crate::arguments::Output;
use crate::care::{DEGRADED, UNREADABLE, count};
use crate::render;
use crate::shard_files::{self, Finds, Set};
use crate::unfinished::{Unfinished, already_there, sync_folder};
use anyhow::{Context, Result, bail, ensure};
use indicatif::ProgressBar;
use serde::Serialize;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use weft_engine::transfers::shard_files::list;

/// Restore files from their remaining shard files (see `weft encode`)
///
/// Shard files are recognised by their content, not by name or order; damaged parts count as lost. A file gets its name only when it is
/// complete and has the digest of the encoded file. One shard file is enough for --check to tell which others belong to it. Exit status of
/// --check: 0 if every shard is intact, 2 if some are missing or damaged, 3 if a file cannot be restored.
///
/// With --stream, each DIR is a file, pipe or tape with one shard. All are read once, in step and in little memory, and the file is written
/// to standard output as far as it is verified: each part by the checksums of its frames, the whole by its digest at the end. So a
/// reader gets correct bytes, and all of them only if the exit status is 0.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  weft decode photos.tar.shards
  weft decode --check photos.tar.3.weft
  weft decode --repair photos.tar.shards
  weft decode --stream /dev/nst0 /dev/nst2 | tar x
  weft decode --stream <(ssh a cat 0.weft) <(ssh b cat 1.weft) >dump.sql")]
pub struct Arguments {
    /// Folders with shard files, or shard files; with --stream files, pipes or devices with a shard each
    #[arg(required = true, value_name = "DIR")]
    paths: Vec<PathBuf>,
    /// Write one file to standard output
    #[arg(long, conflicts_with_all = ["output", "check", "repair", "json"])]
    stream: bool,
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
    /// Id of the encoding, which all its shards have.
    encoding: String,
    code: String,
    /// Known if the end of a shard was found.
    file_bytes: Option<u64>,
    shard_count: usize,
    /// All shards, by index.
    shards: Vec<Shard>,
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

/// A shard of the encoding.
#[derive(Serialize)]
struct Shard {
    /// The name that it was given, or that it should have.
    name: String,
    /// Where it was found.
    path: Option<PathBuf>,
}

pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    if arguments.stream {
        return stream::run(&arguments.paths);
    }
    let Finds { sets, unrecognised } = shard_files::find(&arguments.paths)?;
    if !arguments.printed.json {
        unrecognised.iter().for_each(|path| println!("{}: skipped", shard_files::unlike(path)));
    }
    let targets = if arguments.check || arguments.repair { Vec::new() } else { targets(arguments, &sets)? };
    let mut answers = Vec::new();
    for (position, set) in sets.iter().enumerate() {
        let bar = progress_bar(set.about_bytes());
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
    let bytes = answer.file_bytes.map_or("unknown length".to_owned(), render::bytes);
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
    if arguments.check && !answer.missing.is_empty() {
        say_siblings(answer);
    }
}

/// Which files belong together.
fn say_siblings(answer: &Answer) {
    println!("  {} shards of {}, encoding {}", answer.shard_count, answer.code, answer.encoding);
    for (index, shard) in answer.shards.iter().enumerate() {
        match &shard.path {
            Some(path) => println!("  shard {index}: {}", render::line(&path.display().to_string())),
            None => println!("  shard {index}: missing; its name was {}", render::line(&shard.name)),
        }
    }
}

/// The sentence for shards of several encodings where one is wanted.
fn two_encodings(sets: &[Set]) -> String {
    let shard = |set: &Set| {
        let path = set.shards.iter().flatten().next().map_or(Path::new(""), |shard| &shard.path);
        format!("{} belongs to {} (encoding {})", path.display(), shown(set), set.header.set)
    };
    let shards: Vec<String> = sets.iter().take(2).map(shard).collect();
    format!("{}: leave one of them out, or give a folder for both files", shards.join(", "))
}

/// Where each set's file goes; none of them is there.
fn targets(arguments: &Arguments, sets: &[Set]) -> Result<Vec<PathBuf>> {
    let mut targets: Vec<PathBuf> = Vec::new();
    for set in sets {
        let target = match &arguments.output {
            None => PathBuf::from(set.name()),
            Some(folder) if folder.is_dir() => folder.join(set.name()),
            Some(file) if sets.len() == 1 => file.clone(),
            Some(file) => bail!("{} is not a folder, and {}", file.display(), two_encodings(sets)),
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

fn answer(set: &Set, pass: &Pass, written: Vec<PathBuf>) -> Answer {
    let names = sibling_names(set, pass.siblings());
    let shard = |(name, shard): (PathBuf, &Option<shard_files::ShardFile>)| Shard {
        name: name.to_string_lossy().into_owned(),
        path: shard.as_ref().map(|shard| shard.path.clone()),
    };
    Answer {
        file: set.name().to_string_lossy().into_owned(),
        encoding: set.header.set.to_string(),
        code: set.header.code.clone(),
        file_bytes: pass.file_bytes,
        shard_count: set.shards.len(),
        shards: names.into_iter().zip(&set.shards).map(shard).collect(),
        missing: missing(set),
        damaged: pass.damaged.clone(),
        decodes: pass.failure.is_none(),
        failure: pass.failure.clone(),
        written,
    }
}

fn check(set: &Set, bar: &ProgressBar) -> Result<Answer> {
    let pass = pass(set, true, bar, |_, _| Ok(()))?;
    Ok(answer(set, &pass, Vec::new()))
}

fn decode(set: &Set, target: &Path, bar: &ProgressBar) -> Result<Answer> {
    let folder = target.parent().unwrap_or(Path::new(""));
    let mut unfinished = Unfinished::in_folder(folder)?;
    let pass =
        pass(set, false, bar, |_, data| unfinished.file.write_all(data).with_context(|| target.display().to_string()))?;
    if pass.failure.is_some() {
        return Ok(answer(set, &pass, Vec::new()));
    }
    unfinished.publish(target)?;
    sync_folder(folder)?;
    Ok(answer(set, &pass, vec![target.to_owned()]))
}
