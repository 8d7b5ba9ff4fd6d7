//! What all programs do in one directory at once: they make, link, rename and remove the same few names, in any order, and in some
//! histories directories of these names that are put into each other.
//!
//! No model says what comes of it. Metadata must agree with itself all the same.

use crate::client::{Failure, Files};

/// Their directory.
pub const COMMON: &str = "common";
const NAMES: [&str; 3] = ["x", "y", "below/x"];
const TREE: [&str; 7] = ["x", "y", "below/x", "x/y", "y/x", "x/y/x", "below/x/y"];

/// One operation. `below(end)` is a random number below `end`.
pub fn meddle(files: &impl Files, has_tree: bool, mut below: impl FnMut(u64) -> u64) {
    let names: &[&str] = if has_tree { &TREE } else { &NAMES };
    let mut name = || names[below(names.len() as u64) as usize];
    let (name, other) = (name(), name());
    let done = match below(if has_tree { 10 } else { 6 }) {
        0 | 1 => files.open(name, true).and_then(|open| {
            let written = files.write(&open, 0, &[7; 5_000]);
            let closed = files.close(open);
            written.and(closed)
        }),
        2 => files.unlink(name),
        3 => files.link(name, other),
        4 => files.exchange(name, other),
        5 => files.rename(name, other),
        6 | 7 => files.make_directory(name),
        8 => files.remove_directory(name),
        _ => files.symlink(name, other),
    };
    // Another was first, or a node is away.
    if let Err(Failure::Refused(_) | Failure::Unknown(_) | Failure::Gone(_)) = done {
        files.pause(below(5));
    }
}
