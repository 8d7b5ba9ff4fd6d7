//! What a program's thread does on one mount: it compares what is there, or does operations until it is to stop.

use super::log::Log;
use super::mounted_files::MountedFiles;
use super::sessions::Sessions;
use crate::client::{self, Failure, Files, Programs};
use crate::model::{Contents, Loss};
use rand::{RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A file that cannot be read is read again, and sessions are looked at again, after this time.
const AGAIN: Duration = Duration::from_millis(500);
/// How long a mount may show what was there before another has changed it, with `--attribute-cache` as it is by default, and a moment more.
pub const STALE_MAX: Duration = Duration::from_millis(1_500);
/// How long the session of a killed mount may last while the server answers: 30 seconds are promised, on a machine that is not busy.
const SESSION_DEADLINE: Duration = Duration::from_secs(120);

/// One program, as its thread has it.
pub struct Program {
    /// Which.
    pub number: usize,
    /// Its directory on the mount.
    pub files: MountedFiles,
    /// All of them, with their models.
    pub programs: Arc<Programs>,
    /// Those of the mounts, if there are several.
    pub sessions: Option<Sessions>,
    /// What happened.
    pub log: Arc<Log>,
    /// Decides what it does, ...
    pub seed: u64,
    /// ... together with this number, which no other thread has.
    pub life: u64,
    /// It is to stop.
    pub is_stopping: Arc<AtomicBool>,
}

impl Program {
    fn complain(&self, why: &str) {
        let complaint = format!("program {} {why}", self.number);
        self.log.tell(&format!("COMPLAINT {complaint}"));
        self.programs.complain(complaint);
    }

    /// All that is there; read again until it can be, or the mount is gone.
    fn contents(&self) -> Option<Contents> {
        loop {
            match self.files.contents() {
                Ok(found) => return Some(found),
                Err(Failure::Gone(_)) => return None,
                Err(Failure::Refused(why) | Failure::Unknown(why)) => {
                    self.log.tell(&format!("program {} cannot read: {why}", self.number));
                    std::thread::sleep(AGAIN);
                }
            }
        }
    }

    /// Waits until mounts that were killed have no sessions any more: until then a change that they had asked for may come.
    fn wait_for_the_dead(&self) {
        let Some(sessions) = &self.sessions else { return };
        let mut began = Instant::now();
        while !self.files.is_gone() {
            match sessions.are_over() {
                Ok(true) => return,
                Ok(false) => {}
                Err(why) => {
                    self.log.tell(&format!("program {} cannot see sessions: {why}", self.number));
                    began = Instant::now();
                }
            }
            if began.elapsed() > SESSION_DEADLINE {
                let seconds = SESSION_DEADLINE.as_secs();
                return self.complain(&format!("waits: the session of a killed mount is there after {seconds} s"));
            }
            std::thread::sleep(AGAIN);
        }
    }
}

/// Makes the program's directories.
pub fn begin(program: &Program) {
    if let Err(error) = program.files.make_directories() {
        program.complain(&format!("cannot make its directories: {error}"));
    }
}

/// What is there must be what the model allows after a crash.
pub fn recover(program: &Program) {
    program.wait_for_the_dead();
    take_over(program);
}

/// What is there is what the program goes on with, if the model allows it.
fn take_over(program: &Program) {
    let Some(found) = program.contents() else { return };
    let recovered = program.programs.models[program.number].lock().recover(&found, Loss::Crash);
    if let Err(why) = recovered {
        program.complain(&why);
    }
}

/// What is there must be what the program made it, on whichever mount.
pub fn read_and_compare(program: &Program) {
    if program.files.is_shared() {
        std::thread::sleep(STALE_MAX);
    }
    let Some(found) = program.contents() else { return };
    let compared = program.programs.models[program.number].lock().check_now(&found);
    if let Err(why) = compared {
        program.complain(&format!("has stopped, and finds: {why}"));
    }
}

/// Does operations until it is to stop.
pub fn work(program: &Program) {
    let Program { number, files, programs, log, seed, life, is_stopping, .. } = program;
    // Each thread does something else. The first streams are those of faults.
    let mut choices = ChaCha8Rng::seed_from_u64(*seed);
    choices.set_stream(u64::MAX - life);
    while !is_stopping.load(Ordering::Relaxed) && !files.is_gone() {
        let operation = programs.next(*number, |end| choices.next_u64() % end);
        match client::perform(programs, *number, files, &operation) {
            Ok(()) => {
                programs.operations.fetch_add(1, Ordering::Relaxed);
                if files.is_shared() {
                    // Each change of names is committed before its operation returns.
                    let mut model = programs.models[*number].lock();
                    let moment = model.settled_moment();
                    model.synced_names(moment);
                }
            }
            Err(Failure::Gone(_)) => return,
            Err(Failure::Refused(why)) => {
                files.count_refused();
                log.tell(&format!("program {number}: {operation:?}: {why}"));
                files.pause(choices.next_u64() % 500);
            }
            Err(Failure::Unknown(why)) => {
                files.count_refused();
                log.tell(&format!("program {number}: {operation:?}: {why}; it looks what was done"));
                take_over(program);
            }
        }
    }
}
