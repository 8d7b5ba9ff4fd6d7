//! What a program's thread does on one mount: it compares what is there, or does operations until it is to stop.

use super::log::Log;
use super::mounted_files::MountedFiles;
use crate::client::{self, Failure, Files, Programs};
use crate::model::{Contents, Loss};
use crate::workload;
use rand::{RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A file that cannot be read is read again after this time.
const AGAIN: Duration = Duration::from_millis(500);

/// One program, as its thread has it.
pub struct Program {
    /// Which.
    pub number: usize,
    /// Its directory on the mount.
    pub files: MountedFiles,
    /// All of them, with their models.
    pub programs: Arc<Programs>,
    /// What happened.
    pub log: Arc<Log>,
    /// Decides what it does.
    pub seed: u64,
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
                Err(Failure::Refused(why)) => {
                    self.log.tell(&format!("program {} cannot read: {why}", self.number));
                    std::thread::sleep(AGAIN);
                }
            }
        }
    }
}

/// Makes the program's directories.
pub fn begin(program: &Program) {
    if let Err(error) = program.files.make_directories() {
        program.complain(&format!("cannot make its directories: {error}"));
    }
}

/// What is there must be what the model allows.
pub fn recover(program: &Program) {
    let Some(found) = program.contents() else { return };
    let recovered = program.programs.models[program.number].lock().recover(&found, Loss::Crash);
    if let Err(why) = recovered {
        program.complain(&why);
    }
}

/// What is there must be what the program made it.
pub fn read_and_compare(program: &Program) {
    let Some(found) = program.contents() else { return };
    let compared = program.programs.models[program.number].lock().check_now(&found);
    if let Err(why) = compared {
        program.complain(&format!("at the end: {why}"));
    }
}

/// Does operations until it is to stop.
pub fn work(program: &Program) {
    let Program { number, files, programs, log, seed } = program;
    // Each mount's programs do something else.
    let mut choices = ChaCha8Rng::seed_from_u64(*seed);
    choices.set_stream(u64::MAX - files.mounts_ended() * programs.models.len() as u64 - *number as u64);
    while !programs.is_stopping.load(Ordering::Relaxed) && !files.is_gone() {
        let operation = workload::next(|end| choices.next_u64() % end, &programs.models[*number].lock());
        match client::perform(programs, *number, files, &operation) {
            Ok(()) => {
                programs.operations.fetch_add(1, Ordering::Relaxed);
            }
            Err(Failure::Gone(_)) => return,
            Err(Failure::Refused(why)) => {
                files.count_refused();
                log.tell(&format!("program {number}: {operation:?}: {why}"));
                files.pause(choices.next_u64() % 500);
            }
        }
    }
}
