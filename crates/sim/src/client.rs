//! A program does one thing after another in a directory of its own, and its model does the same.

use crate::model::{Change, Contents, Model};
use crate::workload::{self, Operation, bytes_of, tree};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// How many of a thousand operations of a program that has a tree are in it.
const TREE_PER_MILLE: u64 = 400;
/// A program that was refused fewer syncs may have been late to see that a fault is over.
const REFUSALS_MIN: u64 = 3;

/// What the programs of a volume have in common.
#[derive(Default)]
pub struct Programs {
    /// Their models.
    pub models: Vec<Mutex<Model>>,
    /// Operations that succeeded.
    pub operations: AtomicU64,
    /// Fsyncs among them.
    pub fsyncs: AtomicU64,
    /// Do they make directories, symbolic links and attributes, too?
    pub have_trees: bool,
    /// They are to stop.
    pub is_stopping: AtomicBool,
    /// They do little: much time is to pass in few steps.
    pub is_slow: AtomicBool,
    /// How many large writes they are to do soon.
    pub large_writes_left: AtomicU64,
    /// Of each program, how many operations that sync succeeded and how many did not since faults stopped.
    pub syncs: Mutex<Vec<(u64, u64)>>,
    /// What is not as promised.
    pub complaints: Mutex<Vec<String>>,
}

impl Programs {
    /// `count` programs, each with an empty directory.
    #[must_use]
    pub fn new(count: usize, have_trees: bool) -> Arc<Self> {
        let models = (0..count).map(|_| Mutex::default()).collect();
        Arc::new(Self { models, have_trees, syncs: Mutex::new(vec![(0, 0); count]), ..Self::default() })
    }

    /// What a program does next. `below(end)` is a random number below `end`.
    pub fn next(&self, number: usize, mut below: impl FnMut(u64) -> u64) -> Operation {
        let model = self.models[number].lock();
        // No number is drawn where there is no choice.
        match self.have_trees && below(1000) < TREE_PER_MILLE {
            true => tree::next(below, &model),
            false => workload::next(below, &model),
        }
    }

    /// Faults have stopped: from now on programs can sync.
    pub fn count_syncs(&self) {
        self.syncs.lock().fill((0, 0));
    }

    /// Is it the turn of a large write?
    pub fn takes_large_write(&self) -> bool {
        self.large_writes_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
    }

    /// A program that could not sync anything since, though it tried several times.
    #[must_use]
    pub fn refused_for_good(&self) -> Option<String> {
        let syncs = self.syncs.lock();
        let program = syncs.iter().position(|(done, refused)| *done == 0 && *refused >= REFUSALS_MIN)?;
        Some(format!("program {program}: none of {} syncs succeeded after the faults had stopped", syncs[program].1))
    }

    /// Something is not as promised.
    pub fn complain(&self, complaint: String) {
        self.complaints.lock().push(complaint);
    }
}

/// Why an operation did not succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It was refused: nothing of it is done.
    Refused(String),
    /// The mount goes on, but nobody knows whether it was done, or how much of what was written before is still there.
    Unknown(String),
    /// The mount is gone: it may have been done or not.
    Gone(String),
}

/// The extended attribute that programs use.
pub const NOTE: &str = "user.note";

/// A program's directory on a mount.
pub trait Files {
    /// An open file.
    type Open;

    /// Opens a file to write; makes it if `is_new`.
    ///
    /// # Errors
    /// The file system's, here and below.
    fn open(&self, name: &str, is_new: bool) -> Result<Self::Open, Failure>;
    /// Writes.
    fn write(&self, open: &Self::Open, offset: u64, data: &[u8]) -> Result<(), Failure>;
    /// Waits until the file is durable.
    fn fsync(&self, open: &Self::Open) -> Result<(), Failure>;
    /// Closes it. Where several mounts share the volume, that commits what was written.
    fn close(&self, open: Self::Open) -> Result<(), Failure>;
    /// Sets a file's length.
    fn truncate(&self, name: &str, size: u64) -> Result<(), Failure>;
    /// Waits until the names are durable.
    fn sync_directory(&self) -> Result<(), Failure>;
    /// Removes a name.
    fn unlink(&self, name: &str) -> Result<(), Failure>;
    /// Renames, over another file if there is one.
    fn rename(&self, from: &str, to: &str) -> Result<(), Failure>;
    /// Swaps two names.
    fn exchange(&self, one: &str, other: &str) -> Result<(), Failure>;
    /// Gives a file a further name.
    fn link(&self, name: &str, new: &str) -> Result<(), Failure>;
    /// Makes a directory, with the permission bits of [`crate::model::Attributes::new`].
    fn make_directory(&self, name: &str) -> Result<(), Failure>;
    /// Removes an empty one.
    fn remove_directory(&self, name: &str) -> Result<(), Failure>;
    /// Makes a symbolic link.
    fn symlink(&self, name: &str, target: &str) -> Result<(), Failure>;
    /// Sets the permission bits.
    fn set_mode(&self, name: &str, mode: u16) -> Result<(), Failure>;
    /// Sets the extended attribute [`NOTE`].
    fn set_note(&self, name: &str, value: &[u8]) -> Result<(), Failure>;
    /// Makes zeros of bytes, without changing the length.
    fn punch(&self, open: &Self::Open, offset: u64, length: u64) -> Result<(), Failure>;
    /// All that is there, by name.
    fn contents(&self) -> Result<Contents, Failure>;
    /// Waits.
    fn pause(&self, milliseconds: u64);
}

/// Does an operation, and has the model of program `number` do the same.
///
/// # Errors
/// The file system's. What is found that is not as promised is a complaint in `programs`.
pub fn perform<F: Files>(programs: &Programs, number: usize, files: &F, operation: &Operation) -> Result<(), Failure> {
    let model = &programs.models[number];
    match *operation {
        Operation::Write { name, offset, length, fill, is_synced } => {
            let open = opened(model, files, name)?;
            let written = write(model, files, &open, (name, offset), bytes_of(length, fill));
            let synced =
                if written.is_ok() && is_synced { fsync(programs, number, files, &open, name) } else { Ok(()) };
            let closed = files.close(open);
            written.and(synced).and(closed)
        }
        Operation::Rewrite { name, offset, length, start, end, fill } => {
            let open = opened(model, files, name)?;
            let done = write(model, files, &open, (name, offset), bytes_of(length, fill))
                .and_then(|()| fsync(programs, number, files, &open, name))
                .and_then(|()| write(model, files, &open, (name, start), bytes_of(end - start, fill.wrapping_add(1))));
            let closed = files.close(open);
            done.and(closed)
        }
        Operation::Truncate { name, size } => {
            change_bytes(model, name, Change::Size(size as usize), || files.truncate(name, size))
        }
        Operation::Sync(name) => {
            let open = files.open(name, false)?;
            let synced = fsync(programs, number, files, &open, name);
            let closed = files.close(open);
            synced.and(closed)
        }
        Operation::SyncDirectory => {
            let moments = settled_moments(programs);
            files.sync_directory()?;
            names_are_durable(programs, moments);
            Ok(())
        }
        Operation::Unlink(name) => change_names(model, |model| model.unlink(name), || files.unlink(name)),
        Operation::Rename(from, to) => change_names(model, |model| model.rename(from, to), || files.rename(from, to)),
        Operation::Exchange(one, other) => {
            change_names(model, |model| model.exchange(one, other), || files.exchange(one, other))
        }
        Operation::Link(name, new) => change_names(model, |model| model.link(name, new), || files.link(name, new)),
        Operation::MakeDirectory(name) => {
            change_names(model, |model| model.make_directory(name), || files.make_directory(name))
        }
        Operation::RemoveDirectory(name) => {
            change_names(model, |model| model.unlink(name), || files.remove_directory(name))
        }
        Operation::Symlink(name, target) => {
            change_names(model, |model| model.make_symlink(name, target), || files.symlink(name, target))
        }
        Operation::SetMode(name, mode) => {
            let set = |model: &mut Model| model.set_attributes(name, |attributes| attributes.mode = mode);
            change_names(model, set, || files.set_mode(name, mode))
        }
        Operation::SetNote(name, length) => {
            let note = vec![length; usize::from(length)];
            let set = |model: &mut Model| model.set_attributes(name, |attributes| attributes.note = Some(note.clone()));
            change_names(model, set, || files.set_note(name, &note))
        }
        Operation::Punch { name, offset, length } => {
            let open = files.open(name, false)?;
            let zeros = Change::Write(offset as usize, vec![0; length as usize]);
            let punched = change_bytes(model, name, zeros, || files.punch(&open, offset, length));
            let closed = files.close(open);
            punched.and(closed)
        }
        Operation::ReadAll => {
            let found = files.contents()?;
            if let Err(why) = model.lock().check_now(&found) {
                programs.complain(format!("program {number} reads: {why}"));
            }
            Ok(())
        }
        Operation::Pause(milliseconds) => {
            files.pause(milliseconds);
            Ok(())
        }
    }
}

fn write<F: Files>(
    model: &Mutex<Model>,
    files: &F,
    open: &F::Open,
    (name, offset): (&str, u64),
    data: Vec<u8>,
) -> Result<(), Failure> {
    change_bytes(model, name, Change::Write(offset as usize, data.clone()), || files.write(open, offset, &data))
}

/// Changes what a file holds; the model has the change from the beginning: what is under way may be seen after a crash. What is refused is not
/// done, not even in part: files of programs have so few extents that a cut is one transaction.
fn change_bytes(
    model: &Mutex<Model>,
    name: &str,
    change: Change,
    in_files: impl FnOnce() -> Result<(), Failure>,
) -> Result<(), Failure> {
    model.lock().write(name, change);
    let done = in_files();
    if let Err(Failure::Refused(_)) = &done {
        model.lock().take_back_write(name);
    }
    done
}

/// Changes names; the model has the change from the beginning, since a crash may come at any moment.
fn change_names<T>(
    model: &Mutex<Model>,
    in_model: impl FnOnce(&mut Model),
    in_files: impl FnOnce() -> Result<T, Failure>,
) -> Result<T, Failure> {
    in_model(&mut model.lock());
    let done = in_files();
    match &done {
        Ok(_) => model.lock().made(),
        Err(Failure::Refused(_)) => model.lock().take_back(),
        // It may have been done: what is found says.
        Err(Failure::Unknown(_) | Failure::Gone(_)) => {}
    }
    done
}

fn opened<F: Files>(model: &Mutex<Model>, files: &F, name: &str) -> Result<F::Open, Failure> {
    let exists = model.lock().names().contains_key(name);
    if exists {
        return files.open(name, false);
    }
    change_names(model, |model| model.create(name), || files.open(name, true))
}

/// What is durable after it: this file's bytes as they are now, and all names that are made now, everybody's.
fn fsync<F: Files>(programs: &Programs, number: usize, files: &F, open: &F::Open, name: &str) -> Result<(), Failure> {
    let moments = settled_moments(programs);
    let version = programs.models[number].lock().version(name);
    files.fsync(open)?;
    programs.fsyncs.fetch_add(1, Ordering::Relaxed);
    programs.models[number].lock().synced_bytes(name, version);
    names_are_durable(programs, moments);
    Ok(())
}

fn settled_moments(programs: &Programs) -> Vec<usize> {
    programs.models.iter().map(|model| model.lock().settled_moment()).collect()
}

fn names_are_durable(programs: &Programs, moments: Vec<usize>) {
    for (model, moment) in programs.models.iter().zip(moments) {
        model.lock().synced_names(moment);
    }
}
