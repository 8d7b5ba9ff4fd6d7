//! Whole files that programs on several mounts write and read: close to open, and never a mixture.
//!
//! Each machine has a file that one program of it writes in place, all bytes of a version alike. After an fsync or a close everybody
//! who opens the file finds that version or a later one, in each byte, and who has it open finds it a second later. All machines replace one more file by rename: everybody finds one
//! version of it whole, and a handle goes on to read the file that it opened.

use crate::scheduler::running;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use weft_env::Clock;
use weft_format::Ino;
use weft_meta::RenameFlags;
use weft_vfs::{Caller, Capabilities, Handle, VfsError, Volume};

const ROOT: Caller = Caller { uid: 0, gid: 0, groups: Vec::new(), capabilities: Capabilities::all() };
/// A version is so long at most, and at least: some go into the journal and some into segments.
const BYTES_MAX: usize = 200 << 10;
const WORD: usize = 8;
/// Machines that mount the volume.
pub(crate) const MACHINES: u64 = 3;
/// A handle stays open for so long between the halves of what is read.
const HELD_MS_MAX: u64 = 40_000;
const HELD_PER_MILLE: u64 = 200;
const REPLACED: &str = "replaced";
/// An open file shows after this what others have committed, whatever a mount hears of it.
const SHOWN_AFTER: Duration = Duration::from_secs(1);

/// What was written.
#[derive(Debug, Default)]
pub(crate) struct Versions {
    last: u64,
    /// By file: the versions that a program which opens it after this moment finds at least, ascending.
    settled: BTreeMap<String, Vec<(Duration, u64)>>,
    /// Replacements: when each began and ended.
    replacements: BTreeMap<u64, (u64, u64)>,
    /// What was found that is not so.
    pub(crate) complaints: Vec<String>,
}

/// What was read of a file.
#[derive(Default)]
struct Found {
    /// The words of all of it.
    words: Vec<u64>,
    /// The first that was not read right after it was opened, and when that was read.
    later: (usize, Duration),
}

impl Versions {
    /// The oldest version that an opening of the file at this moment may find.
    fn settled_at(&self, name: &str, moment: Duration) -> u64 {
        let settled = self.settled.get(name).map_or(&[][..], Vec::as_slice);
        settled.iter().rev().find(|(at, _)| *at <= moment).map_or(0, |(_, version)| *version)
    }

    fn settle(&mut self, name: &str, version: u64, now: Duration) {
        let settled = self.settled.entry(name.to_owned()).or_default();
        if settled.last().is_none_or(|(_, last)| *last < version) {
            settled.push((now, version));
        }
    }

    fn note_replacement(&mut self, version: u64, time: (u64, u64)) {
        self.replacements.insert(version, time);
    }
}

/// Changes what all programs know.
pub(crate) type Change<'c> = &'c mut dyn FnMut(&mut Versions);

/// The files as a program on a machine uses them.
pub(crate) struct SharedFiles {
    volume: Arc<Volume>,
    machine: usize,
    is_writer: bool,
    clock: Arc<dyn Clock>,
}

impl SharedFiles {
    pub(crate) fn new(volume: Arc<Volume>, machine: usize, is_writer: bool, clock: Arc<dyn Clock>) -> Self {
        Self { volume, machine, is_writer, clock }
    }

    /// One operation. An error of the volume is no complaint: nodes may be away, and the session over.
    pub(crate) fn step(&self, with: impl Fn(Change)) {
        let failed = match running().below(6) {
            0 | 1 if self.is_writer => self.write(&with),
            0 | 2 => self.replace(&with),
            3 => self.read_replaced(&with),
            _ => self.read(&name_of(running().below(MACHINES) as usize), &with),
        };
        if let Err(error) = failed {
            running().tell(|| format!("machine {}: {error}", self.machine));
        }
    }

    fn next(&self, with: &impl Fn(Change)) -> (u64, Vec<u8>) {
        let mut version = 0;
        with(&mut |versions| {
            versions.last += 1;
            version = versions.last;
        });
        let words = if running().chance(500) { BYTES_MAX / WORD } else { 1 + running().below(2_000) as usize };
        (version, version.to_be_bytes().repeat(words))
    }

    fn opened(&self, name: &str) -> Result<(Ino, Handle), VfsError> {
        match self.volume.lookup(Ino::ROOT, name.as_bytes()) {
            Ok(found) => Ok((found.ino, self.volume.open(found.ino, libc::O_RDWR)?)),
            Err(_) => {
                let (made, handle) = self.volume.create(&ROOT, Ino::ROOT, name.as_bytes(), 0o644, libc::O_RDWR)?;
                Ok((made.ino, handle))
            }
        }
    }

    fn close(&self, (ino, handle): (Ino, Handle)) {
        self.volume.release(handle);
        self.volume.forget(ino, 1);
    }

    /// A version in place, as long as the file ever was.
    fn write(&self, with: &impl Fn(Change)) -> Result<(), VfsError> {
        let name = name_of(self.machine);
        let open = self.opened(&name)?;
        let (version, _) = self.next(with);
        let bytes = version.to_be_bytes().repeat(BYTES_MAX / WORD);
        let written = self.volume.write(open.1, 0, &bytes, false).map(drop);
        let settled = written.and_then(|()| self.settle(open.1));
        self.close(open);
        settled?;
        with(&mut |versions| versions.settle(&name, version, running().now()));
        Ok(())
    }

    /// As fsync does it, or as close does.
    fn settle(&self, handle: Handle) -> Result<(), VfsError> {
        if running().chance(500) { self.volume.fsync(handle) } else { self.volume.flush(handle) }
    }

    /// A version in a new file, which takes the other's name.
    fn replace(&self, with: &impl Fn(Change)) -> Result<(), VfsError> {
        let (version, bytes) = self.next(with);
        let new = format!("new{version}");
        let began = running().steps();
        with(&mut |versions| versions.note_replacement(version, (began, u64::MAX)));
        let open = self.opened(&new)?;
        let written = self.volume.write(open.1, 0, &bytes, false).map(drop);
        let settled = written.and_then(|()| self.settle(open.1));
        self.close(open);
        settled?;
        self.volume.rename(Ino::ROOT, new.as_bytes(), Ino::ROOT, REPLACED.as_bytes(), RenameFlags::default())?;
        let ended = running().steps();
        with(&mut |versions| versions.note_replacement(version, (began, ended)));
        Ok(())
    }

    /// The versions of all words of a file.
    fn words(&self, name: &str) -> Result<Option<Found>, VfsError> {
        let Ok(found) = self.volume.lookup(Ino::ROOT, name.as_bytes()) else { return Ok(None) };
        let handle = self.volume.open(found.ino, libc::O_RDONLY)?;
        let read = || {
            let mut bytes = self.volume.read(handle, 0, (BYTES_MAX / 2) as u32)?.to_vec();
            if running().chance(HELD_PER_MILLE) {
                self.clock.block(Duration::from_millis(running().below(HELD_MS_MAX)));
            }
            let later = (bytes.len() / WORD, running().now());
            bytes.extend_from_slice(&self.volume.read(handle, bytes.len() as u64, BYTES_MAX as u32)?);
            Ok((bytes, later))
        };
        let read: Result<(Vec<u8>, _), VfsError> = read();
        self.close((found.ino, handle));
        let (bytes, later) = read?;
        let word = |word: &[u8]| word.try_into().map_or(u64::MAX, u64::from_be_bytes);
        Ok(Some(Found { words: bytes.chunks(WORD).map(word).collect(), later }))
    }

    fn read(&self, name: &str, with: &impl Fn(Change)) -> Result<(), VfsError> {
        let (machine, mut settled) = (self.machine, 0);
        with(&mut |versions| settled = versions.settled_at(name, running().now()));
        let Found { words, later: (first_later, read_later) } = self.words(name)?.unwrap_or_default();
        let is_short = settled > 0 && words.len() != BYTES_MAX / WORD;
        with(&mut |versions| {
            let shown = versions.settled_at(name, read_later.saturating_sub(SHOWN_AFTER));
            let wrong =
                |words: &[u64], least| words.iter().copied().find(|word| !(least..=versions.last).contains(word));
            if let Some(wrong) = wrong(&words, settled) {
                versions.complaints.push(format!(
                    "machine {machine} opens {name} after version {settled} was settled, and finds {wrong}"
                ));
            } else if let Some(wrong) = wrong(&words[first_later.min(words.len())..], shown) {
                versions.complaints.push(format!(
                    "machine {machine} has {name} open more than a second after version {shown} was settled, and finds {wrong}"
                ));
            } else if is_short {
                versions.complaints.push(format!("{name} has version {settled} and only {} words", words.len()));
            }
        });
        Ok(())
    }

    fn read_replaced(&self, with: &impl Fn(Change)) -> Result<(), VfsError> {
        let began = running().steps();
        let Some(Found { words, .. }) = self.words(REPLACED)? else { return Ok(()) };
        let first = words.first().copied().unwrap_or_default();
        with(&mut |versions| {
            let of = |version| versions.replacements.get(&version).copied();
            let complaint = if words.iter().any(|word| *word != first) {
                Some("a mixture of versions".to_owned())
            } else {
                let newer = |(own_began, own_ended): (u64, u64)| {
                    versions
                        .replacements
                        .iter()
                        .find(|(_, (other, ended))| *other > own_ended && *ended < began && own_began < *other)
                };
                match of(first) {
                    None => Some(format!("{first}, which nobody wrote")),
                    Some(own) => {
                        newer(own).map(|(newer, _)| format!("version {first} after version {newer} took its name"))
                    }
                }
            };
            if let Some(complaint) = complaint {
                versions.complaints.push(format!("machine {} reads {REPLACED}: {complaint}", self.machine));
            }
        });
        Ok(())
    }

    /// At the end everything can be read.
    pub(crate) fn look(&self, with: impl Fn(Change)) -> Result<(), VfsError> {
        (0..MACHINES as usize).try_for_each(|machine| self.read(&name_of(machine), &with))?;
        self.read_replaced(&with)
    }
}

fn name_of(machine: usize) -> String {
    format!("machine{machine}")
}
