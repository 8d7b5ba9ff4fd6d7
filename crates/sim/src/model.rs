//! What SEMANTICS.md promises to one program that works alone in a directory of its own, and nothing else.
//!
//! While the mount lives, the directory is what the program made it. After a crash its names are those of some moment, not before the
//! last one that is durable ("in the order in which they were made, replaced and deleted"); each byte of a file has a value that it had
//! at the last fsync or at some moment since; a file that took another's name by rename has what it held then, or newer.

use std::collections::{BTreeMap, BTreeSet};

/// A file, whatever its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileId(pub u32);

/// A name's file, and the version that it has at least where this name was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named {
    /// The file.
    pub file: FileId,
    /// Of its versions.
    pub version_min: usize,
}

/// The names at one moment.
pub type Names = BTreeMap<String, Named>;

/// What is found under a name: which file it is, by a number of its own, and what that holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The same for all names of one file, and for no other file.
    pub ino: u64,
    /// Bytes.
    pub bytes: Vec<u8>,
}

/// What is found in a directory.
pub type Contents = BTreeMap<String, Found>;

/// A change of what a file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// These bytes are at this offset.
    Write(usize, Vec<u8>),
    /// It has this length.
    Size(usize),
}

impl Change {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Change::Write(offset, data) => {
                bytes.resize(bytes.len().max(offset + data.len()), 0);
                bytes[*offset..offset + data.len()].copy_from_slice(data);
            }
            Change::Size(size) => bytes.resize(*size, 0),
        }
    }
}

/// What a file held: a version after each change.
#[derive(Clone, Debug, Default)]
struct History {
    /// The version that was durable last, ...
    synced: usize,
    /// ... what it held, ...
    synced_bytes: Vec<u8>,
    /// ... and each change since.
    changes: Vec<Change>,
    now: Vec<u8>,
}

impl History {
    fn of(bytes: Vec<u8>) -> Self {
        Self { now: bytes.clone(), synced_bytes: bytes, ..Self::default() }
    }

    fn version(&self) -> usize {
        self.synced + self.changes.len()
    }

    fn change(&mut self, change: Change) {
        change.apply(&mut self.now);
        self.changes.push(change);
    }

    fn sync(&mut self, version: usize) {
        let count = version.saturating_sub(self.synced).min(self.changes.len());
        self.changes.drain(..count).for_each(|change| change.apply(&mut self.synced_bytes));
        self.synced += count;
    }

    /// May it be found so, where it has at least this version? Each byte is then one that it had in such a version.
    fn allows(&self, found: &[u8], version_min: usize) -> Result<(), String> {
        let before = version_min.saturating_sub(self.synced).min(self.changes.len());
        let mut held = self.synced_bytes.clone();
        self.changes[..before].iter().for_each(|change| change.apply(&mut held));
        let (mut shortest, mut longest) = (held.len(), held.len());
        let differs = |held: &[u8], at: usize| held.get(at).copied().unwrap_or(0) != found[at];
        let mut wrong: Vec<usize> = (0..found.len()).filter(|at| differs(&held, *at)).collect();
        for change in &self.changes[before..] {
            change.apply(&mut held);
            (shortest, longest) = (shortest.min(held.len()), longest.max(held.len()));
            wrong.retain(|at| differs(&held, *at));
        }
        if found.len() < shortest || found.len() > longest {
            return Err(format!("{} bytes, not {shortest} to {longest}", found.len()));
        }
        match wrong.first() {
            None => Ok(()),
            Some(at) => Err(format!("byte {at} is {}, which it never was since", found[*at])),
        }
    }
}

/// One program's directory.
#[derive(Debug)]
pub struct Model {
    names: Vec<Names>,
    /// The first that a crash may leave.
    synced: usize,
    files: BTreeMap<FileId, History>,
    next: u32,
    /// The last moment is of a change that is under way.
    is_under_way: bool,
}

impl Default for Model {
    fn default() -> Self {
        Self { names: vec![Names::new()], synced: 0, files: BTreeMap::new(), next: 0, is_under_way: false }
    }
}

impl Model {
    /// The names now.
    #[must_use]
    pub fn names(&self) -> &Names {
        self.names.last().expect("there is always one")
    }

    fn moment(&self) -> usize {
        self.names.len() - 1
    }

    /// What the file behind a name holds.
    #[must_use]
    pub fn bytes(&self, name: &str) -> Option<&[u8]> {
        let named = self.names().get(name)?;
        self.files.get(&named.file).map(|history| history.now.as_slice())
    }

    /// The versions of the file behind a name.
    #[must_use]
    pub fn version(&self, name: &str) -> usize {
        self.names().get(name).map_or(0, |named| self.files[&named.file].version())
    }

    /// A file of this name is made, empty.
    pub fn create(&mut self, name: &str) {
        let file = FileId(self.next);
        self.next += 1;
        self.files.insert(file, History::default());
        self.change(|names| {
            names.insert(name.to_owned(), Named { file, version_min: 0 });
        });
    }

    /// The file behind a name holds other bytes.
    pub fn write(&mut self, name: &str, change: Change) {
        let Some(named) = self.names().get(name).copied() else { return };
        self.files.get_mut(&named.file).expect("it was made").change(change);
    }

    /// A name goes.
    pub fn unlink(&mut self, name: &str) {
        self.change(|names| {
            names.remove(name);
        });
    }

    /// Two files swap their names.
    pub fn exchange(&mut self, one: &str, other: &str) {
        self.change(|names| {
            if let (Some(first), Some(second)) = (names.remove(one), names.remove(other)) {
                names.extend([(one.to_owned(), second), (other.to_owned(), first)]);
            }
        });
    }

    /// A file has a further name.
    pub fn link(&mut self, name: &str, new: &str) {
        self.change(|names| {
            if let Some(named) = names.get(name).copied() {
                names.insert(new.to_owned(), named);
            }
        });
    }

    /// A name becomes another; what the file holds goes with it. Nothing happens if both are names of one file, as POSIX has it.
    pub fn rename(&mut self, from: &str, to: &str) {
        let file = |name: &str| self.names().get(name).map(|named| named.file);
        if file(from) == file(to) {
            return self.change(|_| {});
        }
        let replaces = self.names().contains_key(to);
        let version = self.version(from);
        self.change(|names| {
            if let Some(mut named) = names.remove(from) {
                if replaces {
                    named.version_min = version;
                }
                names.insert(to.to_owned(), named);
            }
        });
    }

    fn change(&mut self, change: impl FnOnce(&mut Names)) {
        let mut names = self.names().clone();
        change(&mut names);
        self.names.push(names);
        self.is_under_way = true;
    }

    /// The last change of names is made.
    pub fn made(&mut self) {
        self.is_under_way = false;
    }

    /// The last change of names was not made after all.
    pub fn take_back(&mut self) {
        self.names.pop();
        self.is_under_way = false;
    }

    /// The last moment of which everything is made.
    #[must_use]
    pub fn settled_moment(&self) -> usize {
        self.moment() - usize::from(self.is_under_way)
    }

    /// The names of this moment are durable.
    pub fn synced_names(&mut self, moment: usize) {
        self.synced = self.synced.max(moment.min(self.moment()));
        // A file that no later moment names is never compared again.
        let named: BTreeSet<FileId> =
            self.names[self.synced..].iter().flat_map(Names::values).map(|named| named.file).collect();
        self.files.retain(|file, _| named.contains(file));
    }

    /// This version of the file behind a name is durable.
    pub fn synced_bytes(&mut self, name: &str, version: usize) {
        if let Some(named) = self.names().get(name).copied() {
            self.files.get_mut(&named.file).expect("it was made").sync(version);
        }
    }

    /// Everything is durable.
    pub fn synced_all(&mut self) {
        self.synced = self.moment();
        self.files.values_mut().for_each(|history| history.sync(history.version()));
    }

    /// Compares with what is there while the mount that made it lives.
    ///
    /// # Errors
    /// What differs.
    pub fn check_now(&self, found: &Contents) -> Result<(), String> {
        let names: Vec<&String> = self.names().keys().collect();
        if names != found.keys().collect::<Vec<_>>() {
            return Err(format!("names are {:?}, not {names:?}", found.keys().collect::<Vec<_>>()));
        }
        for (name, Found { bytes, .. }) in found {
            let expected = self.bytes(name).unwrap_or_default();
            if bytes != expected {
                return Err(format!("{name}: {}", difference(bytes, expected)));
            }
        }
        same_files(self.names(), found)
    }

    /// Compares with what a crash has left, and takes that over.
    ///
    /// # Errors
    /// What is not allowed.
    pub fn recover(&mut self, found: &Contents) -> Result<(), String> {
        let mut complaints = Vec::new();
        let fits = (self.synced..self.names.len()).rev().find(|moment| match self.fits(*moment, found) {
            Ok(()) => true,
            Err(complaint) => {
                complaints.push(complaint);
                false
            }
        });
        let Some(moment) = fits else {
            complaints.truncate(3);
            return Err(format!("after the crash: {}", complaints.join("; or ")));
        };
        let names = self.names[moment].clone();
        let taken_over = |named: &Named, name: &str| {
            let bytes = found.get(name).map_or(Vec::new(), |found| found.bytes.clone());
            (named.file, History::of(bytes))
        };
        self.files = names.iter().map(|(name, named)| taken_over(named, name)).collect();
        let names = names.into_iter().map(|(name, named)| (name, Named { version_min: 0, ..named })).collect();
        (self.names, self.synced, self.is_under_way) = (vec![names], 0, false);
        Ok(())
    }

    fn fits(&self, moment: usize, found: &Contents) -> Result<(), String> {
        let names = &self.names[moment];
        if !names.keys().eq(found.keys()) {
            let (there, then) = (found.keys().collect::<Vec<_>>(), names.keys().collect::<Vec<_>>());
            return Err(format!("names are {there:?}, at moment {moment} {then:?}"));
        }
        for (name, named) in names {
            let allowed = self.files[&named.file].allows(&found[name].bytes, named.version_min);
            allowed.map_err(|why| format!("{name} at moment {moment}, versions from {}: {why}", named.version_min))?;
        }
        same_files(names, found).map_err(|why| format!("at moment {moment} {why}"))
    }
}

/// Names of one file are that of one, and those of two are not.
fn same_files(names: &Names, found: &Contents) -> Result<(), String> {
    let (mut by_file, mut by_ino) = (BTreeMap::new(), BTreeMap::new());
    for (name, named) in names {
        let ino = found[name].ino;
        let (before, other) = (by_file.insert(named.file, ino), by_ino.insert(ino, named.file));
        if before.is_some_and(|before| before != ino) {
            return Err(format!("{name} has another name, and is another file"));
        }
        if other.is_some_and(|other| other != named.file) {
            return Err(format!("{name} is the file that another name has"));
        }
    }
    Ok(())
}

fn difference(found: &[u8], expected: &[u8]) -> String {
    if found.len() != expected.len() {
        return format!("{} bytes, not {}", found.len(), expected.len());
    }
    let at = found.iter().zip(expected).position(|(one, other)| one != other).unwrap_or(0);
    format!("byte {at} is {}, not {}", found[at], expected[at])
}

#[cfg(test)]
#[path = "model_tests.rs"]
mod tests;
