//! A program on a mount: it does one thing after another in a directory of its own, and its model does the same.

use crate::model::Model;
use crate::scheduler::running;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use weft_env::Clock;
use weft_format::Ino;
use weft_format::records::Kind;
use weft_meta::RenameFlags;
use weft_vfs::{AttributeChange, Caller, Capabilities, Handle, VfsError, Volume};

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
const ROOT: Caller = Caller { uid: 0, gid: 0, groups: Vec::new(), capabilities: Capabilities::all() };
/// Bytes of a small write and of a large one.
const SMALL_MAX: u64 = 20_000;
const LARGE_MAX: u64 = 2 << 20;

/// What the programs of a volume have in common.
#[derive(Default)]
pub struct Programs {
    /// Their models.
    pub models: Vec<Mutex<Model>>,
    /// Operations that succeeded.
    pub operations: AtomicU64,
    /// Fsyncs among them.
    pub fsyncs: AtomicU64,
    /// They are to stop.
    pub is_stopping: AtomicBool,
    /// What is not as promised.
    pub complaints: Mutex<Vec<String>>,
}

impl Programs {
    /// `count` programs, each with an empty directory.
    #[must_use]
    pub fn new(count: usize) -> Arc<Self> {
        Arc::new(Self { models: (0..count).map(|_| Mutex::default()).collect(), ..Self::default() })
    }

    pub(crate) fn complain(&self, complaint: String) {
        running().tell(|| format!("COMPLAINT {complaint}"));
        self.complaints.lock().push(complaint);
    }
}

/// The directory of a program, made if it is missing.
///
/// # Errors
/// The volume's.
pub fn directory(volume: &Volume, number: usize) -> Result<Ino, VfsError> {
    let name = format!("program{number}");
    match volume.lookup(Ino::ROOT, name.as_bytes()) {
        Ok(attributes) => Ok(attributes.ino),
        Err(_) => Ok(volume.make_node(&ROOT, Ino::ROOT, name.as_bytes(), Kind::Directory, 0o755, 0)?.ino),
    }
}

/// All files of a directory.
///
/// # Errors
/// The volume's.
pub fn contents(volume: &Volume, directory: Ino) -> Result<BTreeMap<String, Vec<u8>>, VfsError> {
    let mut found = BTreeMap::new();
    for entry in volume.read_directory(directory, 0, 1000)? {
        if entry.name == b"." || entry.name == b".." {
            continue;
        }
        let handle = volume.open(entry.attributes.ino, libc::O_RDONLY)?;
        let bytes = read_all(volume, handle);
        volume.release(handle);
        found.insert(String::from_utf8_lossy(&entry.name).into_owned(), bytes?);
    }
    Ok(found)
}

fn read_all(volume: &Volume, handle: Handle) -> Result<Vec<u8>, VfsError> {
    let mut all = Vec::new();
    loop {
        let part = volume.read(handle, all.len() as u64, 1 << 20)?;
        if part.is_empty() {
            return Ok(all);
        }
        all.extend_from_slice(&part);
    }
}

/// Runs operations until [`Programs::is_stopping`] is set.
pub fn run(programs: &Programs, number: usize, volume: &Volume, clock: &dyn Clock) {
    let Ok(directory) = directory(volume, number) else { return };
    while !programs.is_stopping.load(Ordering::Relaxed) {
        if let Err(error) = act(programs, number, volume, directory, clock) {
            running().tell(|| format!("program {number}: {error}"));
            clock.block(Duration::from_millis(running().below(500)));
        } else {
            programs.operations.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn act(programs: &Programs, number: usize, volume: &Volume, directory: Ino, clock: &dyn Clock) -> Result<(), VfsError> {
    let scheduler = running();
    let model = &programs.models[number];
    let name = NAMES[scheduler.below(NAMES.len() as u64) as usize];
    let other = NAMES[scheduler.below(NAMES.len() as u64) as usize];
    let exists = |name: &str| model.lock().names().contains_key(name);
    match scheduler.below(100) {
        0..45 => write(programs, number, volume, directory, name),
        45..52 if exists(name) => truncate(programs, number, volume, directory, name),
        52..66 if exists(name) => sync(programs, number, volume, directory, name),
        66..74 if exists(name) => {
            change_names(model, |model| model.unlink(name), || volume.unlink(directory, name.as_bytes()))
        }
        74..84 if exists(name) && name != other => change_names(
            model,
            |model| model.rename(name, other),
            || volume.rename(directory, name.as_bytes(), directory, other.as_bytes(), RenameFlags::default()),
        ),
        84..92 => {
            let found = contents(volume, directory)?;
            if let Err(why) = model.lock().check_now(&found) {
                programs.complain(format!("program {number} reads: {why}"));
            }
            Ok(())
        }
        _ => {
            clock.block(Duration::from_millis(scheduler.below(2500)));
            Ok(())
        }
    }
}

/// Changes names; the model has the change from the beginning, since a crash may come at any moment.
fn change_names(
    model: &Mutex<Model>,
    in_model: impl FnOnce(&mut Model),
    in_volume: impl FnOnce() -> Result<(), VfsError>,
) -> Result<(), VfsError> {
    in_model(&mut model.lock());
    let done = in_volume();
    let mut model = model.lock();
    if done.is_ok() {
        model.made()
    } else {
        model.take_back()
    }
    done
}

fn opened(
    programs: &Programs,
    number: usize,
    volume: &Volume,
    directory: Ino,
    name: &str,
) -> Result<(Ino, Handle), VfsError> {
    let model = &programs.models[number];
    if model.lock().names().contains_key(name) {
        let ino = volume.lookup(directory, name.as_bytes())?.ino;
        return Ok((ino, volume.open(ino, libc::O_RDWR)?));
    }
    model.lock().create(name);
    match volume.create(&ROOT, directory, name.as_bytes(), 0o644, libc::O_RDWR) {
        Ok((attributes, handle)) => {
            model.lock().made();
            Ok((attributes.ino, handle))
        }
        Err(error) => {
            model.lock().take_back();
            Err(error)
        }
    }
}

fn write(programs: &Programs, number: usize, volume: &Volume, directory: Ino, name: &str) -> Result<(), VfsError> {
    let scheduler = running();
    let (ino, handle) = opened(programs, number, volume, directory, name)?;
    let length = scheduler.below(if scheduler.chance(40) { LARGE_MAX } else { SMALL_MAX }) + 1;
    let size = programs.models[number].lock().bytes(name).map_or(0, |bytes| bytes.len() as u64);
    let offset = if scheduler.chance(500) { size } else { scheduler.below(size + 5000) };
    let data: Vec<u8> = (0..length).map(|at| (scheduler.steps() as u8).wrapping_add((at >> 6) as u8)).collect();
    // Into the model first: what is under way may be seen after a crash.
    programs.models[number].lock().write(name, |bytes| overwrite(bytes, offset as usize, &data));
    let written = volume.write(handle, offset, &data, false);
    let synced =
        if written.is_ok() && scheduler.chance(100) { fsync(programs, number, volume, handle, name) } else { Ok(()) };
    volume.release(handle);
    volume.forget(ino, 1);
    written.and(synced)
}

fn overwrite(bytes: &mut Vec<u8>, offset: usize, data: &[u8]) {
    bytes.resize(bytes.len().max(offset + data.len()), 0);
    bytes[offset..offset + data.len()].copy_from_slice(data);
}

fn truncate(programs: &Programs, number: usize, volume: &Volume, directory: Ino, name: &str) -> Result<(), VfsError> {
    let ino = volume.lookup(directory, name.as_bytes())?.ino;
    let size = running().below(30_000);
    programs.models[number].lock().write(name, |bytes| bytes.resize(size as usize, 0));
    let change = AttributeChange { size: Some(size), ..AttributeChange::default() };
    let changed = volume.set_attributes(ino, &change).map(drop);
    volume.forget(ino, 1);
    changed
}

fn sync(programs: &Programs, number: usize, volume: &Volume, directory: Ino, name: &str) -> Result<(), VfsError> {
    let ino = volume.lookup(directory, name.as_bytes())?.ino;
    let handle = volume.open(ino, libc::O_RDWR)?;
    let synced = fsync(programs, number, volume, handle, name);
    volume.release(handle);
    volume.forget(ino, 1);
    synced
}

/// What is durable after it: this file's bytes as they are now, and all names that are made now, everybody's.
fn fsync(programs: &Programs, number: usize, volume: &Volume, handle: Handle, name: &str) -> Result<(), VfsError> {
    let moments: Vec<usize> = programs.models.iter().map(|model| model.lock().settled_moment()).collect();
    let version = programs.models[number].lock().version(name);
    volume.fsync(handle)?;
    programs.fsyncs.fetch_add(1, Ordering::Relaxed);
    programs.models[number].lock().synced_bytes(name, version);
    for (model, moment) in programs.models.iter().zip(moments) {
        model.lock().synced_names(moment);
    }
    Ok(())
}
