//! What SEMANTICS.md promises to one program that works alone in a directory of its own, and nothing else.
//!
//! While the mount lives, the directory is what the program made it. After a crash its names are those of some moment, not before the
//! last one that is durable ("in the order in which they were made, replaced and deleted"); each byte of a file has a value that it had
//! at the last fsync or at some moment since; a file that took another's name by rename has what it held then, or newer. When the
//! metadata's disk is lost the same holds from an earlier moment on: one that the volume's nodes are known to have.

use std::collections::{BTreeMap, BTreeSet};

/// A file, whatever its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileId(pub u32);

/// What has a name. A directory and a symbolic link count as files, whose bytes are none and the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
}

/// What a file has beside its bytes. It changes in the order in which names do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// The permission bits.
    pub mode: u16,
    /// The extended attribute that programs use.
    pub note: Option<Vec<u8>>,
}

impl Attributes {
    /// Of a new file.
    #[must_use]
    pub fn new(kind: Kind) -> Self {
        let mode = match kind {
            Kind::File => 0o644,
            Kind::Directory => 0o755,
            Kind::Symlink => 0o777,
        };
        Self { mode, note: None }
    }
}

/// A name's file, and the version that it has at least where this name was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// The file.
    pub file: FileId,
    /// What it is.
    pub kind: Kind,
    /// What it has. All names of a file have the same.
    pub attributes: Attributes,
    /// Of its versions.
    pub version_min: usize,
}

/// The names at one moment. A name in a directory is `DIRECTORY/NAME`.
pub type Names = BTreeMap<String, Named>;

/// What is found under a name: which file it is, by a number of its own, and what that holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The same for all names of one file, and for no other file.
    pub ino: u64,
    /// What it is.
    pub kind: Kind,
    /// What it has.
    pub attributes: Attributes,
    /// How many names it has; of a directory how many directories have it or are in it, and itself.
    pub links: u64,
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
    /// The first version that is known still, ...
    base: usize,
    /// ... what the file held then, ...
    base_bytes: Vec<u8>,
    /// ... and each change since.
    changes: Vec<Change>,
    /// The version that was durable last.
    synced: usize,
    now: Vec<u8>,
}

impl History {
    fn of(bytes: Vec<u8>) -> Self {
        Self { now: bytes.clone(), base_bytes: bytes, ..Self::default() }
    }

    fn version(&self) -> usize {
        self.base + self.changes.len()
    }

    fn change(&mut self, change: Change) {
        change.apply(&mut self.now);
        self.changes.push(change);
    }

    /// The last change was not made after all.
    fn take_back(&mut self) {
        self.changes.pop();
        self.now = self.base_bytes.clone();
        self.changes.iter().for_each(|change| change.apply(&mut self.now));
    }

    fn sync(&mut self, version: usize) {
        self.synced = self.synced.max(version.min(self.version()));
    }

    /// It is never again what it was before this version.
    fn forget_before(&mut self, version: usize) {
        let count = version.saturating_sub(self.base).min(self.changes.len());
        self.changes.drain(..count).for_each(|change| change.apply(&mut self.base_bytes));
        self.base += count;
    }

    /// It was found so: that is a version of its own, and durable.
    fn found(&mut self, bytes: &[u8]) {
        self.change(Change::Size(bytes.len()));
        self.change(Change::Write(0, bytes.to_vec()));
        self.synced = self.version();
    }

    /// May it be found so, where it has at least this version? Each byte is then one that it had in such a version.
    fn allows(&self, found: &[u8], version_min: usize) -> Result<(), String> {
        let before = version_min.saturating_sub(self.base).min(self.changes.len());
        let mut held = self.base_bytes.clone();
        self.changes[..before].iter().for_each(|change| change.apply(&mut held));
        let (mut shortest, mut longest) = (held.len(), held.len());
        // Where the file ended before, it had no byte: a hole that nobody made is none that it had.
        let differs = |held: &[u8], at: usize| held.get(at) != Some(&found[at]);
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

/// What of a directory was durable at some moment.
#[derive(Clone, Debug)]
pub struct Durable {
    names: usize,
    versions: BTreeMap<FileId, usize>,
}

/// What a directory may have lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// What was not durable.
    Crash,
    /// What the nodes did not have either.
    MetadataDisk,
}

/// One program's directory.
#[derive(Debug)]
pub struct Model {
    names: Vec<Names>,
    /// The first that a crash may leave.
    synced: usize,
    /// The first that the loss of the metadata's disk may leave.
    on_nodes: usize,
    /// Nodes are behind what is durable: what was before is kept until they are known to have something.
    is_behind: bool,
    files: BTreeMap<FileId, History>,
    next: u32,
    /// The last moment is of a change that is under way.
    is_under_way: bool,
}

impl Default for Model {
    fn default() -> Self {
        Self {
            names: vec![Names::new()],
            synced: 0,
            on_nodes: 0,
            is_behind: false,
            files: BTreeMap::new(),
            next: 0,
            is_under_way: false,
        }
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

    /// What a name is that of.
    #[must_use]
    pub fn kind(&self, name: &str) -> Option<Kind> {
        self.names().get(name).map(|named| named.kind)
    }

    /// Is it a directory in which nothing is?
    #[must_use]
    pub fn is_empty_directory(&self, name: &str) -> bool {
        self.kind(name) == Some(Kind::Directory) && !self.names().keys().any(|other| is_in(other, name))
    }

    /// A file of this name is made, empty.
    pub fn create(&mut self, name: &str) {
        self.make(name, Kind::File, &[]);
    }

    /// A directory is made.
    pub fn make_directory(&mut self, name: &str) {
        self.make(name, Kind::Directory, &[]);
    }

    /// A symbolic link is made.
    pub fn make_symlink(&mut self, name: &str, target: &str) {
        self.make(name, Kind::Symlink, target.as_bytes());
    }

    fn make(&mut self, name: &str, kind: Kind, bytes: &[u8]) {
        let file = FileId(self.next);
        self.next += 1;
        self.files.insert(file, History::of(bytes.to_vec()));
        self.change(|names| {
            let named = Named { file, kind, attributes: Attributes::new(kind), version_min: 0 };
            names.insert(name.to_owned(), named);
        });
    }

    /// The file behind a name has other attributes.
    pub fn set_attributes(&mut self, name: &str, set: impl Fn(&mut Attributes)) {
        self.change(|names| {
            let Some(file) = names.get(name).map(|named| named.file) else { return };
            names.values_mut().filter(|named| named.file == file).for_each(|named| set(&mut named.attributes));
        });
    }

    /// The file behind a name holds other bytes.
    pub fn write(&mut self, name: &str, change: Change) {
        let Some(file) = self.names().get(name).map(|named| named.file) else { return };
        self.files.get_mut(&file).expect("it was made").change(change);
    }

    /// The last change of what the file behind a name holds was not made after all.
    pub fn take_back_write(&mut self, name: &str) {
        let Some(file) = self.names().get(name).map(|named| named.file) else { return };
        self.files.get_mut(&file).expect("it was made").take_back();
    }

    /// A name goes: of a directory nothing is in it.
    pub fn unlink(&mut self, name: &str) {
        self.change(|names| {
            names.remove(name);
        });
    }

    /// Two files swap their names. What is in directories goes with them.
    pub fn exchange(&mut self, one: &str, other: &str) {
        self.change(|names| {
            let (first, second) = (taken(names, one), taken(names, other));
            names.extend(second.into_iter().map(|(rest, named)| (format!("{one}{rest}"), named)));
            names.extend(first.into_iter().map(|(rest, named)| (format!("{other}{rest}"), named)));
        });
    }

    /// A file has a further name.
    pub fn link(&mut self, name: &str, new: &str) {
        self.change(|names| {
            if let Some(named) = names.get(name).cloned() {
                names.insert(new.to_owned(), named);
            }
        });
    }

    /// A name becomes another; what the file holds, or what is in the directory, goes with it. Nothing happens if both are names of one file, as POSIX has it.
    pub fn rename(&mut self, from: &str, to: &str) {
        let file = |name: &str| self.names().get(name).map(|named| named.file);
        if file(from) == file(to) {
            return self.change(|_| {});
        }
        let replaces = self.names().contains_key(to);
        let version = self.version(from);
        self.change(|names| {
            for (rest, mut named) in taken(names, from) {
                if replaces && rest.is_empty() {
                    named.version_min = version;
                }
                names.insert(format!("{to}{rest}"), named);
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

    /// From now on nodes may be behind.
    pub fn let_nodes_be_behind(&mut self) {
        self.is_behind = true;
    }

    /// The names of this moment are durable.
    pub fn synced_names(&mut self, moment: usize) {
        self.synced = self.synced.max(moment.min(self.moment()));
        if !self.is_behind {
            self.names_are_on_nodes(self.synced);
        }
    }

    fn names_are_on_nodes(&mut self, moment: usize) {
        self.on_nodes = self.on_nodes.max(moment);
        // A file that no later moment names is never compared again.
        let named: BTreeSet<FileId> =
            self.names[self.on_nodes..].iter().flat_map(Names::values).map(|named| named.file).collect();
        self.files.retain(|file, _| named.contains(file));
    }

    /// This version of the file behind a name is durable.
    pub fn synced_bytes(&mut self, name: &str, version: usize) {
        let Some(file) = self.names().get(name).map(|named| named.file) else { return };
        let history = self.files.get_mut(&file).expect("it was made");
        history.sync(version);
        if !self.is_behind {
            history.forget_before(history.synced);
        }
    }

    /// Everything is durable, on nodes, too.
    pub fn synced_all(&mut self) {
        self.synced = self.moment();
        self.files.values_mut().for_each(|history| history.sync(history.version()));
        self.on_nodes_is(&self.durable());
    }

    /// What is durable now.
    #[must_use]
    pub fn durable(&self) -> Durable {
        let versions = self.files.iter().map(|(file, history)| (*file, history.synced)).collect();
        Durable { names: self.synced, versions }
    }

    /// Nodes have what was durable then. No crash came since.
    pub fn on_nodes_is(&mut self, durable: &Durable) {
        for (file, history) in &mut self.files {
            history.forget_before(durable.versions.get(file).copied().unwrap_or(0));
        }
        self.names_are_on_nodes(durable.names);
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
        same_attributes(self.names(), found)?;
        same_files(self.names(), found)
    }

    /// Compares with what a crash or worse has left, and takes that over.
    ///
    /// # Errors
    /// What is not allowed.
    pub fn recover(&mut self, found: &Contents, loss: Loss) -> Result<(), String> {
        let mut complaints = Vec::new();
        let first = if loss == Loss::Crash { self.synced } else { self.on_nodes };
        let fits = (first..self.names.len()).rev().find(|moment| match self.fits(*moment, found, loss) {
            Ok(()) => true,
            Err(complaint) => {
                complaints.push(complaint);
                false
            }
        });
        let Some(moment) = fits else {
            complaints.truncate(3);
            return Err(format!("after the loss, {loss:?}: {}", complaints.join("; or ")));
        };
        self.is_under_way = false;
        self.names.truncate(moment + 1);
        self.synced = moment;
        let named: BTreeMap<FileId, &String> = self.names().iter().map(|(name, named)| (named.file, name)).collect();
        let bytes = |name: &String| found.get(name).map_or(&[][..], |found| &found.bytes);
        if self.is_behind {
            // What was before may come back when the metadata's disk is lost.
            let found: Vec<_> = named.into_iter().map(|(file, name)| (file, bytes(name))).collect();
            for (file, bytes) in found {
                self.files.get_mut(&file).expect("it was made").found(bytes);
            }
            return Ok(());
        }
        self.files = named.into_iter().map(|(file, name)| (file, History::of(bytes(name).to_vec()))).collect();
        let names = self.names[moment].clone().into_iter();
        let names = names.map(|(name, named)| (name, Named { version_min: 0, ..named })).collect();
        (self.names, self.synced, self.on_nodes) = (vec![names], 0, 0);
        Ok(())
    }

    fn fits(&self, moment: usize, found: &Contents, loss: Loss) -> Result<(), String> {
        let names = &self.names[moment];
        if !names.keys().eq(found.keys()) {
            let (there, then) = (found.keys().collect::<Vec<_>>(), names.keys().collect::<Vec<_>>());
            return Err(format!("names are {there:?}, at moment {moment} {then:?}"));
        }
        for (name, named) in names {
            let history = &self.files[&named.file];
            let durable = if loss == Loss::Crash { history.synced } else { history.base };
            let version_min = named.version_min.max(durable);
            let allowed = history.allows(&found[name].bytes, version_min);
            allowed.map_err(|why| format!("{name} at moment {moment}, versions from {version_min}: {why}"))?;
        }
        let same = same_attributes(names, found).and_then(|()| same_files(names, found));
        same.map_err(|why| format!("at moment {moment} {why}"))
    }
}

/// Is a name in a directory, or below it?
#[must_use]
pub fn is_in(name: &str, directory: &str) -> bool {
    name.strip_prefix(directory).is_some_and(|rest| rest.starts_with('/'))
}

/// Takes a name away and all that are in it; gives what follows it in each, with its file.
fn taken(names: &mut Names, name: &str) -> Vec<(String, Named)> {
    let goes = |other: &&String| *other == name || is_in(other, name);
    let going: Vec<String> = names.keys().filter(goes).cloned().collect();
    going.iter().filter_map(|other| Some((other[name.len()..].to_owned(), names.remove(other)?))).collect()
}

/// Each name is that of what it was made, with its attributes and as many links as it has names.
fn same_attributes(names: &Names, found: &Contents) -> Result<(), String> {
    for (name, named) in names {
        let Found { kind, attributes, links, .. } = &found[name];
        if (kind, attributes) != (&named.kind, &named.attributes) {
            return Err(format!("{name} is {kind:?}, {attributes:?}, not {:?}, {:?}", named.kind, named.attributes));
        }
        let is_subdirectory = |(other, it): &(&String, &Named)| {
            it.kind == Kind::Directory && is_in(other, name) && !other[name.len() + 1..].contains('/')
        };
        let expected = match kind {
            Kind::Directory => 2 + names.iter().filter(is_subdirectory).count(),
            _ => names.values().filter(|other| other.file == named.file).count(),
        };
        if *links != expected as u64 {
            return Err(format!("{name} has {links} links, not {expected}"));
        }
    }
    Ok(())
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
