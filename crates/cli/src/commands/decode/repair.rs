//! Lost and damaged shard files, byte for byte as they were.

use super::pass::{Pass, missing, pass};
use super::{Answer, answer};
use crate::shard_files::{Set, shard_name};
use crate::unfinished::{Unfinished, sync_folder};
use anyhow::{Context, Result, bail, ensure};
use indicatif::ProgressBar;
use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use weft_format::ShardIndex;
use weft_format::shard_file::{FileHasher, ShardFileHeader, Sibling, Trailer};

/// Rebuilds missing and damaged shard files: the missing ones beside the first that is there.
pub fn repair(set: &Set, bar: &ProgressBar) -> Result<Answer> {
    let found = pass(set, true, bar, |_, _| Ok(()))?;
    let Some(end) = found.end.clone().filter(|_| found.failure.is_none()) else {
        return Ok(answer(set, &found, Vec::new()));
    };
    let Some(siblings) = &end.siblings else {
        let failure = Some("no trailer has the list of shards, which a rebuilt one must have".to_owned());
        return Ok(answer(set, &Pass { failure, ..found }, Vec::new()));
    };
    let mut wanting = missing(set);
    wanting.extend(&found.damaged);
    let targets = targets(set, &wanting, siblings)?;
    let mut unfinished = Vec::new();
    for (shard, target) in wanting.iter().zip(&targets) {
        let mut made = Unfinished::in_folder(target.parent().unwrap_or(Path::new("")))?;
        let header = ShardFileHeader { index: ShardIndex(*shard as u16), ..set.header.clone() };
        made.file.write_all(&header.encode()?).with_context(|| target.display().to_string())?;
        unfinished.push(made);
    }
    let mut digests = vec![FileHasher::default(); wanting.len()];
    if !wanting.is_empty() {
        let again = pass(set, true, bar, |decoder, _| {
            let objects = decoder.rebuild(&wanting)?.into_iter().zip(&mut unfinished).zip(&mut digests).zip(&targets);
            for ((((object, digest), made), hasher), target) in objects {
                hasher.update(&digest.0);
                made.file.write_all(&object).with_context(|| target.display().to_string())?;
            }
            Ok(())
        })?;
        if again.failure.is_some() {
            return Ok(answer(set, &again, Vec::new()));
        }
    }
    for (((mut made, hasher), shard), target) in unfinished.into_iter().zip(digests).zip(&wanting).zip(&targets) {
        let is_same = hasher.finish() == siblings[*shard].digest;
        ensure!(
            is_same,
            "shard {shard} was rebuilt, but its digest is not the one that its siblings name: keep what is left"
        );
        let trailer = Trailer { index: ShardIndex(*shard as u16), ..end.trailer.clone() };
        let trailer = [&trailer.encode()?[..], &Sibling::encode_all(siblings)?].concat();
        made.file.write_all(&trailer).with_context(|| target.display().to_string())?;
        match set.shards[*shard] {
            Some(_) => made.replace(target)?,
            None => made.publish(target)?,
        }
        sync_folder(target.parent().unwrap_or(Path::new("")))?;
    }
    Ok(answer(set, &found, targets))
}

/// Where the rebuilt shards go; nothing else is there.
fn targets(set: &Set, wanting: &[usize], siblings: &[Sibling]) -> Result<Vec<PathBuf>> {
    let beside = set.shards.iter().flatten().find_map(|shard| shard.path.parent()).unwrap_or(Path::new(""));
    let names = sibling_names(set, Some(siblings));
    let target = |shard: &usize| match &set.shards[*shard] {
        Some(damaged) => damaged.path.clone(),
        None => beside.join(&names[*shard]),
    };
    let targets: Vec<PathBuf> = wanting.iter().map(target).collect();
    let taken = |(shard, target): &(&usize, &PathBuf)| set.shards[**shard].is_none() && target.exists();
    if let Some((_, target)) = wanting.iter().zip(&targets).find(taken) {
        bail!("{} exists and is a different file: move it away", target.display());
    }
    Ok(targets)
}

/// The names of all shards' files: those that they were given, or else those that `weft encode` gives.
pub fn sibling_names(set: &Set, siblings: Option<&[Sibling]>) -> Vec<PathBuf> {
    let n = set.shards.len();
    let name = |index: usize| match siblings.map(|siblings| siblings[index].name.as_slice()) {
        Some([]) | None => shard_name(set.name(), index, n),
        Some(name) => OsStr::from_bytes(name).into(),
    };
    (0..n).map(name).collect()
}
