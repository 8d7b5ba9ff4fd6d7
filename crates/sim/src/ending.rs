//! The last checks of a history: programs can work, a mount that has seen nothing before reads everything, and each shard is what its record
//! says.

use crate::checks::STEPS_TO_HEAL;
use crate::client::{Failure, Files, Programs};
use crate::scheduler::env_of;
use crate::volume_files::VolumeFiles;
use crate::world::World;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use weft_env::{Clock, Env};
use weft_format::records::OPENINGS;
use weft_meta::{MetaError, Store};
use weft_vfs::Volume;

/// A name that no program uses otherwise.
const LAST_NAME: &str = "last";
/// Without faults, a small file is written, synced, read and removed within this time.
const TIME_TO_SUCCEED: Duration = Duration::from_secs(60);

impl World {
    /// After repair, conversion and collection.
    ///
    /// # Errors
    /// What is not as it should be.
    pub(crate) fn check_last(&mut self) -> Result<(), String> {
        self.programs_succeed()?;
        self.unmount(STEPS_TO_HEAL)?;
        if !self.plan.is_brief {
            self.programs.models.iter().for_each(|model| model.lock().synced_all());
            self.start_mount();
            let mount = self.mount.as_ref().ok_or("there is no mount")?;
            let (is_up, programs_running) = (mount.is_up.clone(), mount.programs_running.clone());
            let is_idle = || is_up.load(Ordering::Relaxed) && programs_running.load(Ordering::Relaxed) == 0;
            self.wait("the last mount", STEPS_TO_HEAL, is_idle)?;
            // It reads everything first.
            self.unmount(STEPS_TO_HEAL)?;
        }
        self.tell_openings();
        self.check_shards()?;
        self.check_left()?;
        self.check_metadata()
    }

    /// Each shard of a living segment has the bytes that its record says.
    ///
    /// # Errors
    /// Which have not.
    pub(crate) fn check_shards(&self) -> Result<(), String> {
        let unlike = self.unlike(&self.disk.durable());
        if unlike.is_empty() { Ok(()) } else { Err(format!("shards that are not as their records say: {unlike:?}")) }
    }

    /// Each program makes a file, writes, syncs, reads and removes it.
    fn programs_succeed(&self) -> Result<(), String> {
        let Some(mount) = &self.mount else { return Err("there is no mount".into()) };
        let Some(volume) = mount.volume.lock().clone() else { return Err("the mount has no volume".into()) };
        let (env, _) = env_of(mount.process);
        let count = self.programs.models.len();
        let outcomes: Arc<Mutex<Vec<Result<(), String>>>> = Arc::default();
        for number in 0..count {
            let (volume, programs) = (volume.clone(), self.programs.clone());
            let (clock, outcomes) = (env.clock.clone(), outcomes.clone());
            self.scheduler.start(mount.process, "last program", move || {
                let done = last_file(&volume, &programs, number, &clock);
                outcomes.lock().push(done.map_err(|why| format!("program {number} at the end: {why}")));
            });
        }
        drop(volume);
        let until = self.scheduler.now() + TIME_TO_SUCCEED;
        let is_over = || outcomes.lock().len() == count || self.scheduler.now() >= until;
        self.wait("the last files", STEPS_TO_HEAL, is_over)?;
        let outcomes = outcomes.lock();
        if outcomes.len() < count {
            let seconds = TIME_TO_SUCCEED.as_secs();
            return Err(format!("of {count} programs only {} wrote a last file within {seconds} s", outcomes.len()));
        }
        outcomes.iter().cloned().collect()
    }

    /// Has people told which openings each place has.
    fn tell_openings(&self) {
        for place in self.places.all() {
            let keys = place.keys().into_iter().filter(|key| key.segment == OPENINGS);
            let numbers: Vec<u32> = keys.map(|key| key.generation.0).collect();
            self.scheduler.tell(|| format!("{} has the openings {numbers:?}", place.name()));
        }
    }

    /// Nothing of files is left over after the last unmount.
    fn check_left(&self) -> Result<(), String> {
        let left = || -> Result<_, MetaError> {
            let store = Store::open(Arc::new(self.disk.durable()), &Env::system())?;
            Ok((store.orphans(10)?, store.journal(None, 10)?.len()))
        };
        let (orphans, pages) = left().map_err(|error| error.to_string())?;
        match orphans.is_empty() && pages == 0 {
            true => Ok(()),
            false => Err(format!("left after the last unmount: {orphans:?}, {pages} pages of the journal")),
        }
    }
}

fn last_file(volume: &Volume, programs: &Programs, number: usize, clock: &Arc<dyn Clock>) -> Result<(), String> {
    let bytes = vec![number as u8 + 1; 9_000];
    let work = || -> Result<bool, Failure> {
        let files = VolumeFiles::of_program(volume, programs, number, clock)?;
        let open = files.open(LAST_NAME, true)?;
        let written = files.write(&open, 0, &bytes).and_then(|()| files.fsync(&open));
        let found = written.and_then(|()| files.contents());
        files.close(open)?;
        let found = found?;
        files.unlink(LAST_NAME)?;
        Ok(found.get(LAST_NAME).is_some_and(|found| found.bytes == bytes))
    };
    match work() {
        Ok(true) => Ok(()),
        Ok(false) => Err(format!("the file `{LAST_NAME}` is not as it was written")),
        Err(Failure::Refused(why) | Failure::Unknown(why) | Failure::Gone(why)) => Err(why),
    }
}
