//! Everything below a path, one step at a time: no depth overflows a stack, and no loop goes on for ever.

use super::error::refused;
use super::{Entry, FileId, Result, Tree};
use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use weft_format::records::Kind;

/// A directory of a volume has one name, and may have been moved so often during a walk. Without a bound two names of each directory
/// would double the walk with each level.
const ENTERED_MAX: u32 = 16;

/// A step of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visit {
    /// A directory, before its entries.
    Enter,
    /// The same directory, after its entries.
    Leave,
    /// Anything else.
    Other,
}

/// A walk over a tree.
pub struct Walk<'t> {
    tree: &'t dyn Tree,
    /// Where the walk is: the innermost directory that was entered.
    path: PathBuf,
    /// Directories that were entered and not left, the outermost first, with their unvisited entries.
    open: Vec<(Entry, std::vec::IntoIter<(OsString, Entry)>)>,
    /// Those of them.
    within: HashSet<FileId>,
    /// How often each directory of a volume was entered; elsewhere a folder may be mounted in any number of places.
    entered: HashMap<FileId, u32>,
    first: Option<Entry>,
}

impl<'t> Walk<'t> {
    /// A walk over the entry at `path` and everything below it.
    ///
    /// # Errors
    /// Nothing is there, or it cannot be looked at.
    pub fn new(tree: &'t dyn Tree, path: &Path) -> Result<Self> {
        let first = Some(super::require(tree, path)?);
        Ok(Self {
            tree,
            path: path.to_owned(),
            open: Vec::new(),
            within: HashSet::new(),
            entered: HashMap::new(),
            first,
        })
    }

    /// The next step, its path and its kind; `None` at the end.
    ///
    /// # Errors
    /// A directory cannot be listed, is within itself, or has a name that leads elsewhere.
    pub fn step(&mut self) -> Result<Option<(Visit, PathBuf, Entry)>> {
        if let Some(entry) = self.first.take() {
            return self.visit(None, entry).map(Some);
        }
        let Some((_, rest)) = self.open.last_mut() else { return Ok(None) };
        if let Some((name, entry)) = rest.next() {
            return self.visit(Some(&name), entry).map(Some);
        }
        let Some((entry, _)) = self.open.pop() else { return Ok(None) };
        self.within.remove(&entry.id);
        let path = self.path.clone();
        if !self.open.is_empty() {
            self.path.pop();
        }
        Ok(Some((Visit::Leave, path, entry)))
    }

    fn visit(&mut self, name: Option<&OsStr>, entry: Entry) -> Result<(Visit, PathBuf, Entry)> {
        if let Some(name) = name {
            if !is_plain(name) {
                return refused(format!(
                    "{}: the directory has an entry named {name:?}, which is not allowed",
                    self.path.display()
                ));
            }
            self.path.push(name);
        }
        let path = self.path.clone();
        if entry.kind != Kind::Directory {
            if name.is_some() {
                self.path.pop();
            }
            return Ok((Visit::Other, path, entry));
        }
        let is_within_itself = !self.within.insert(entry.id);
        let entered = self.entered.entry(entry.id).or_default();
        *entered += u32::from(self.tree.is_volume());
        if is_within_itself || *entered > ENTERED_MAX {
            return refused(format!(
                "{}: the tree contains this directory more than once, perhaps inside itself: run `weft fsck`, or leave it out",
                path.display()
            ));
        }
        let list = self.tree.list(&path)?;
        self.open.push((entry.clone(), list.into_iter()));
        Ok((Visit::Enter, path, entry))
    }
}

/// Can it be one step of a path and nothing else?
fn is_plain(name: &OsStr) -> bool {
    let bytes = name.as_bytes();
    !matches!(bytes, b"" | b"." | b"..") && bytes.iter().all(|byte| !matches!(byte, b'/' | 0))
}

#[cfg(test)]
#[path = "walk_tests.rs"]
mod tests;
