//! A program on each mount changes the same few names as those on the others. What all of them are told must have an order in which one
//! directory answers so (`names.rs`, `linear.rs`).
//!
//! Names are those of a *round* of some seconds, so that the search for an order stays short. A mount may show for a moment what was there
//! before another has changed it: what changes nothing may have been true so long ago. What changes something counts at its moment.
//!
//! The kernel does nothing, and says that it was done, where it takes two names for one file. So a program renames only to names that
//! were never used, or from a name that it alone has; and links have a name of their own.

use super::AGAIN;
use super::log::Log;
use super::mounted_files::Mountpoint;
use super::process::start_thread;
use super::programs::STALE_MAX;
use crate::linear::{Call, Model, is_linearizable};
use crate::names::{Answer, NameOperation, Names};
use parking_lot::Mutex;
use rand::{RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, fstat, linkat, open};
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long the programs use the same names.
const ROUND: Duration = Duration::from_secs(5);
/// A program pauses for so long at most between two operations.
const PAUSE_MS_MAX: u64 = 150;
/// The names of a round for which all contend. Links go to the last one.
const CONTENDED: [&str; 3] = ["a", "b", "c"];
const LINKED: usize = 2;
/// Where they are on a mount.
const FOLDER: &str = "names";

/// What programs of all mounts were told.
pub struct Told {
    began: Instant,
    rounds: Mutex<BTreeMap<u64, Vec<Call<NameOperation, Answer>>>>,
    /// Files, and names that one program alone has, are numbered.
    next_number: AtomicU32,
}

impl Told {
    /// Of programs that are to begin.
    pub fn new() -> Arc<Self> {
        let next_number = AtomicU32::new(CONTENDED.len() as u32);
        Arc::new(Self { began: Instant::now(), rounds: Mutex::default(), next_number })
    }

    fn now_us(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    fn number(&self) -> u32 {
        self.next_number.fetch_add(1, Ordering::Relaxed)
    }

    /// Calls that were answered.
    pub fn answered_count(&self) -> usize {
        self.rounds.lock().values().flatten().filter(|call| call.answer.is_some()).count()
    }

    /// What no order explains.
    pub fn complaints(&self) -> Vec<String> {
        let rounds = self.rounds.lock();
        let unexplained = rounds.iter().filter(|(_, calls)| !is_explained(calls));
        unexplained
            .map(|(round, calls)| format!("no order of the calls of round {round} explains them: {calls:#?}"))
            .collect()
    }
}

fn is_explained(calls: &[Call<NameOperation, Answer>]) -> bool {
    let stale_us = u64::try_from(STALE_MAX.as_micros()).unwrap_or(u64::MAX);
    let may_be_older = |call: &Call<NameOperation, Answer>| {
        let only_reads = call.answer.is_some_and(|answer| Names::only_reads(&call.operation, &answer));
        let began = if only_reads { call.began.saturating_sub(stale_us) } else { call.began };
        Call { began, ..call.clone() }
    };
    is_linearizable(&Names::default(), &calls.iter().map(may_be_older).collect::<Vec<_>>())
}

/// The program of a mount.
pub struct Contender {
    thread: JoinHandle<()>,
    is_stopping: Arc<AtomicBool>,
}

impl Contender {
    /// Starts it. `life`: a number that no other has.
    pub fn start(point: &Mountpoint, told: &Arc<Told>, log: &Arc<Log>, seed: u64, life: u64) -> Self {
        let is_stopping = Arc::new(AtomicBool::new(false));
        let mut choices = ChaCha8Rng::seed_from_u64(seed);
        choices.set_stream(u64::MAX / 2 - life);
        let (names, stopping) = (MountedNames::new(point, told, log), is_stopping.clone());
        let thread = start_thread(move || {
            if names.make_folder(&stopping) {
                names.contend(&mut choices, &stopping);
            }
        });
        Self { thread, is_stopping }
    }

    /// Starts one that looks at the names of all rounds, and ends.
    pub fn start_last_look(point: &Mountpoint, told: &Arc<Told>, log: &Arc<Log>) -> Self {
        let names = MountedNames::new(point, told, log);
        Self { thread: start_thread(move || names.look_at_all()), is_stopping: Arc::default() }
    }

    /// It is to end; a call that was begun is ended first.
    pub fn stop(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
    }

    /// Has it ended?
    pub fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// Has it ended because its mount changes nothing any more?
    pub fn has_left(&self) -> bool {
        self.has_ended() && !self.is_stopping.load(Ordering::Relaxed)
    }

    /// Did it end without a panic?
    pub fn ended_well(self) -> bool {
        self.thread.join().is_ok()
    }
}

/// The mount is gone, or changes nothing any more.
struct Gone;

struct MountedNames {
    folder: PathBuf,
    point: Mountpoint,
    /// How many mounts had ended here when this one began.
    ended_before: u64,
    told: Arc<Told>,
    log: Arc<Log>,
}

impl MountedNames {
    fn new(point: &Mountpoint, told: &Arc<Told>, log: &Arc<Log>) -> Self {
        Self {
            folder: point.folder.join(FOLDER),
            ended_before: point.ended.load(Ordering::SeqCst),
            point: point.clone(),
            told: told.clone(),
            log: log.clone(),
        }
    }

    /// Makes the folder of the names, which all users may use. Is it there?
    fn make_folder(&self, is_stopping: &AtomicBool) -> bool {
        let make = || {
            fs::create_dir_all(&self.folder)?;
            fs::set_permissions(&self.folder, Permissions::from_mode(0o777))
        };
        while !is_stopping.load(Ordering::Relaxed) && !self.is_gone() {
            match make() {
                Ok(()) => return true,
                Err(error) => self.log.tell(&format!("{}: {error}", self.folder.display())),
            }
            std::thread::sleep(AGAIN);
        }
        false
    }

    fn look_at_all(&self) {
        let rounds: Vec<u64> = self.told.rounds.lock().keys().copied().collect();
        for round in rounds {
            for name in 0..CONTENDED.len() {
                if self.call(round, NameOperation::Look(name)).is_err() {
                    return;
                }
            }
        }
    }

    fn contend(&self, choices: &mut ChaCha8Rng, is_stopping: &AtomicBool) {
        let mut below = |end: u64| choices.next_u64() % end;
        // In the round of the name: the file that this program alone has.
        let mut own: Option<(u64, usize)> = None;
        while !is_stopping.load(Ordering::Relaxed) && !self.is_gone() {
            std::thread::sleep(Duration::from_millis(below(PAUSE_MS_MAX)));
            let round = self.told.now_us() / u64::try_from(ROUND.as_micros()).unwrap_or(u64::MAX);
            own = own.filter(|(of, _)| *of == round);
            let name = below(CONTENDED.len() as u64) as usize;
            // Not the name of links.
            let renamed = below(LINKED as u64) as usize;
            let fresh = self.told.number();
            let done = match (below(12), own) {
                (0..=2, _) => self.call(round, NameOperation::Create(name, fresh)).map(drop),
                (3, _) => self.call(round, NameOperation::Remove(name)).map(drop),
                (4..=6, Some((_, mine))) => {
                    own = None;
                    self.call(round, NameOperation::Rename(mine, renamed)).map(drop)
                }
                (4 | 5, None) => {
                    let taken = self.call(round, NameOperation::Rename(renamed, fresh as usize));
                    taken.map(|taken| own = matches!(taken, Some(Ok(_))).then_some((round, fresh as usize)))
                }
                (6, None) => {
                    let made = self.call(round, NameOperation::Create(fresh as usize, fresh));
                    made.map(|made| own = matches!(made, Some(Ok(_))).then_some((round, fresh as usize)))
                }
                (7 | 8, _) => self.link(round, renamed).map(drop),
                _ => self.call(round, NameOperation::Look(name)).map(drop),
            };
            if done.is_err() {
                return;
            }
        }
    }

    /// A name is looked up, and what it means gets another: the first may mean something else by then.
    fn link(&self, round: u64, from: usize) -> Result<Option<Answer>, Gone> {
        let mut found = None;
        let looked = self.tell(round, NameOperation::Look(from), || {
            let (opened, file) = self.look(round, from)?;
            found = Some(opened);
            Ok(file)
        })?;
        let (Some(Ok(file)), Some(found)) = (looked, found) else { return Ok(None) };
        self.tell(round, NameOperation::Link(file, LINKED), || {
            let linked = linkat(&found, "", CWD, self.path(round, LINKED), AtFlags::EMPTY_PATH);
            linked.map(|()| 0).map_err(io::Error::from)
        })
    }

    fn call(&self, round: u64, operation: NameOperation) -> Result<Option<Answer>, Gone> {
        let path = |name| self.path(round, name);
        self.tell(round, operation, || match operation {
            NameOperation::Create(name, file) => create(&path(name), file).map(|()| file),
            NameOperation::Remove(name) => fs::remove_file(path(name)).map(|()| 0),
            NameOperation::Rename(from, to) => fs::rename(path(from), path(to)).map(|()| 0),
            NameOperation::Look(name) => self.look(round, name).map(|(_, file)| file),
            NameOperation::Link(..) => Err(io::ErrorKind::Unsupported.into()),
        })
    }

    /// Does it, and notes when it began, when it ended and what was answered. `None`: nobody knows whether it was done.
    fn tell(
        &self,
        round: u64,
        operation: NameOperation,
        ask: impl FnOnce() -> io::Result<u32>,
    ) -> Result<Option<Answer>, Gone> {
        let place = {
            let mut rounds = self.told.rounds.lock();
            let calls = rounds.entry(round).or_default();
            calls.push(Call { began: self.told.now_us(), ended: u64::MAX, operation, answer: None });
            calls.len() - 1
        };
        let asked = ask();
        let ended = self.told.now_us();
        let answer = match asked {
            Ok(answer) => Some(Ok(answer)),
            Err(error) => self.answer(operation, &error)?,
        };
        if answer.is_some()
            && let Some(call) = self.told.rounds.lock().get_mut(&round).and_then(|calls| calls.get_mut(place))
        {
            (call.answer, call.ended) = (answer, ended);
        }
        Ok(answer)
    }

    /// What an error says of names; `None`: nothing.
    fn answer(&self, operation: NameOperation, error: &io::Error) -> Result<Option<Answer>, Gone> {
        let errno = error.raw_os_error().unwrap_or(libc::EIO);
        // What is under a mount that has ended answers, too.
        if self.is_gone()
            || matches!(errno, libc::ENOTCONN | libc::ECONNABORTED | libc::ESHUTDOWN | libc::ENODEV | libc::EROFS)
        {
            return Err(Gone);
        }
        Ok(match (errno, operation) {
            (libc::ENOENT | libc::EEXIST, NameOperation::Link(..)) => Some(Err(0)),
            (libc::ENOENT | libc::EEXIST, _) => Some(Err(errno)),
            _ => {
                self.log.tell(&format!("{}: {operation:?}: {error}", self.folder.display()));
                None
            }
        })
    }

    fn is_gone(&self) -> bool {
        self.point.ended.load(Ordering::SeqCst) != self.ended_before
    }

    fn path(&self, round: u64, name: usize) -> PathBuf {
        let name = CONTENDED.get(name).map_or_else(|| name.to_string(), ToString::to_string);
        self.folder.join(format!("{round}-{name}"))
    }

    /// The file that a name means.
    fn look(&self, round: u64, name: usize) -> io::Result<(OwnedFd, u32)> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let found = open(self.path(round, name), flags, Mode::empty())?;
        let file = fstat(&found)?.st_uid;
        Ok((found, file))
    }
}

/// Makes a file that belongs to the user of this number: so who finds it knows which one it is.
fn create(path: &Path, file: u32) -> io::Result<()> {
    let _user = FileUser::new(file);
    OpenOptions::new().write(true).create_new(true).mode(0o644).open(path).map(drop)
}

/// This thread uses files as the user of a number, until it is dropped.
struct FileUser;

impl FileUser {
    #[allow(unsafe_code)]
    fn new(number: u32) -> Self {
        // SAFETY: it concerns what this thread may do with files, and nothing in memory.
        unsafe { libc::setfsuid(number) };
        Self
    }
}

impl Drop for FileUser {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { libc::setfsuid(0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(began_ms: u64, ended_ms: u64, operation: NameOperation, answer: Answer) -> Call<NameOperation, Answer> {
        Call { began: began_ms * 1000, ended: ended_ms * 1000, operation, answer: Some(answer) }
    }

    #[test]
    fn what_only_reads_may_be_a_moment_old_and_what_changes_may_not() {
        use NameOperation::{Create, Look, Remove};
        let made = call(0, 10, Create(0, 7), Ok(7));
        let removed = call(20, 30, Remove(0), Ok(0));
        let stale_ms = STALE_MAX.as_millis() as u64;
        let looked = |after_ms| call(30 + after_ms, 31 + after_ms, Look(0), Ok(7));
        assert!(is_explained(&[made.clone(), removed.clone(), looked(stale_ms - 10)]));
        assert!(!is_explained(&[made.clone(), removed.clone(), looked(stale_ms + 10)]));
        let twice = call(12, 13, Create(0, 8), Ok(8));
        assert!(!is_explained(&[made, twice, removed]), "a name that is there was made");
    }
}
