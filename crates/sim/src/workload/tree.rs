//! Operations of directories, symbolic links and attributes, in names of their own: each may be that of anything.
//!
//! A file may be moved from here to the names of the other operations and back.

use super::{NAMES, Operation, SMALL_BYTES};
use crate::model::{Kind, Model, is_in};
use std::ops::RangeInclusive;

/// Names of anything.
const TREE: [&str; 8] = ["t", "u", "t/a", "t/u", "t/u/a", "u/a", "u/t", "u/t/a"];
const TARGETS: [&str; 3] = ["a", "../u/a", "nowhere"];
const MODES: [u16; 4] = [0o600, 0o640, 0o644, 0o755];
/// A note is short, or longer than what a record has room for beside it.
const NOTE_BYTES: RangeInclusive<u64> = 1..=200;

/// What a program does next. `below(end)` is a random number below `end`.
pub fn next(mut below: impl FnMut(u64) -> u64, model: &Model) -> Operation {
    let mut between = |range: RangeInclusive<u64>| range.start() + below(range.end() - range.start() + 1);
    let mut one_of = |names: &[&'static str]| names[between(0..=names.len() as u64 - 1) as usize];
    let (name, mut other, file) = (one_of(&TREE), one_of(&TREE), one_of(&NAMES));
    let target = one_of(&TARGETS);
    let kind = model.kind(name);
    let can_be_made = kind.is_none() && has_parent(model, name);
    match between(0..=999) {
        0..150 if can_be_made => Operation::MakeDirectory(name),
        150..230 if model.is_empty_directory(name) => Operation::RemoveDirectory(name),
        230..290 if can_be_made => Operation::Symlink(name, target),
        290..350 if matches!(kind, Some(Kind::File | Kind::Directory)) => {
            Operation::SetMode(name, MODES[between(0..=MODES.len() as u64 - 1) as usize])
        }
        350..410 if matches!(kind, Some(Kind::File | Kind::Directory)) => {
            Operation::SetNote(name, between(NOTE_BYTES) as u8)
        }
        range @ 410..570 => {
            let mut from = name;
            match range {
                410..440 => from = file,
                440..470 => other = file,
                _ => {}
            }
            match may_rename(model, from, other) {
                true => Operation::Rename(from, other),
                false => Operation::Pause(0),
            }
        }
        570..620 if may_exchange(model, name, other) => Operation::Exchange(name, other),
        620..650 if kind == Some(Kind::File) && model.kind(other).is_none() && has_parent(model, other) => {
            Operation::Link(name, other)
        }
        650..710 if matches!(kind, Some(Kind::File | Kind::Symlink)) => Operation::Unlink(name),
        710..760 => {
            let size = model.bytes(file).map_or(0, <[u8]>::len) as u64;
            if size == 0 {
                return Operation::Pause(0);
            }
            let offset = between(0..=size - 1);
            let length = between(1..=size - offset);
            Operation::Punch { name: file, offset, length }
        }
        760..900 if can_be_made || kind == Some(Kind::File) => {
            let size = model.bytes(name).map_or(0, <[u8]>::len) as u64;
            let (offset, length, fill) = (between(0..=size), between(SMALL_BYTES), between(0..=255) as u8);
            Operation::Write { name, offset, length, fill, is_synced: between(0..=999) < super::SYNCED_PER_MILLE }
        }
        900..930 if kind == Some(Kind::File) => Operation::Sync(name),
        930..960 => Operation::ReadAll,
        _ => Operation::SyncDirectory,
    }
}

/// Is there a directory for it?
fn has_parent(model: &Model, name: &str) -> bool {
    name.rsplit_once('/')
        .is_none_or(|(parent, _)| parent == super::BELOW || model.kind(parent) == Some(Kind::Directory))
}

/// Only files have the names of the other operations.
fn fits(kind: Kind, name: &str) -> bool {
    kind == Kind::File || !NAMES.contains(&name)
}

/// As rename(2) has it.
fn may_rename(model: &Model, from: &str, to: &str) -> bool {
    let Some(kind) = model.kind(from) else { return false };
    let has_room = match (kind, model.kind(to)) {
        (_, None) => has_parent(model, to),
        (Kind::Directory, Some(_)) => model.is_empty_directory(to),
        (_, Some(replaced)) => replaced != Kind::Directory,
    };
    from != to && !is_in(to, from) && has_room && fits(kind, to)
}

fn may_exchange(model: &Model, one: &str, other: &str) -> bool {
    let exist = model.kind(one).is_some() && model.kind(other).is_some();
    one != other && exist && !is_in(one, other) && !is_in(other, one)
}
