//! A directory's names, and which file each means: what programs on several mounts are told of them must have an order (`linear.rs`) in which
//! this model answers so.

use crate::linear::Model;
use std::collections::BTreeMap;

/// Names by their numbers, with the files that they mean.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Names(BTreeMap<usize, u32>);

/// What is asked of them.
#[derive(Clone, Copy, Debug)]
pub enum NameOperation {
    /// A new file gets a name, which must be free.
    Create(usize, u32),
    /// A name goes.
    Remove(usize),
    /// A file gets another name, whatever that means.
    Rename(usize, usize),
    /// A file gets one more name, which must be free, whatever names it has.
    Link(u32, usize),
    /// Which file is it?
    Look(usize),
}

/// Which file, or an errno; 0 for a link, of which either of two errors may be told.
pub type Answer = Result<u32, i32>;

impl Model for Names {
    type Operation = NameOperation;
    type Answer = Answer;

    fn apply(&mut self, operation: &NameOperation) -> Answer {
        let file = |names: &Self, name: usize| names.0.get(&name).copied().ok_or(libc::ENOENT);
        match *operation {
            NameOperation::Create(name, new) => match self.0.contains_key(&name) {
                true => Err(libc::EEXIST),
                false => {
                    self.0.insert(name, new);
                    Ok(new)
                }
            },
            NameOperation::Remove(name) => self.0.remove(&name).map(|_| 0).ok_or(libc::ENOENT),
            NameOperation::Rename(from, to) => {
                let moved = file(self, from)?;
                // Two names of one file stay.
                if file(self, to) != Ok(moved) {
                    self.0.remove(&from);
                    self.0.insert(to, moved);
                }
                Ok(0)
            }
            NameOperation::Link(file, to) => {
                if self.0.contains_key(&to) || !self.0.values().any(|found| *found == file) {
                    return Err(0);
                }
                self.0.insert(to, file);
                Ok(0)
            }
            NameOperation::Look(name) => file(self, name),
        }
    }

    fn only_reads(operation: &NameOperation, answer: &Answer) -> bool {
        matches!(operation, NameOperation::Look(_)) || answer.is_err()
    }
}
