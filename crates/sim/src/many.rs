//! Several mounts on several machines, over a metadata engine that many share: what programs on them see of names is linearizable, what is
//! appended is there once, what is counted under a lock is counted, and in the end nothing is left behind. Mounts are killed, and paused
//! until their session is over. `many_care.rs` has histories of them with workers, commands and faults of nodes.

use crate::ambush::ProcessId;
use crate::client::Programs;
use crate::length::Length;
use crate::linear::{Call, is_linearizable};
use crate::metadata::{MetadataDisk, SILENCE, SimKv};
use crate::names::{Answer, NameOperation, Names};
use crate::scheduler::{Scheduler, env_of, running};
use crate::shared_files::{MACHINES, SharedFiles, Versions};
use crate::world::{
    Places, Plan, SLOW_MS, SLOW_OPERATIONS_PER_MILLE, VOLUME, World, members, node_id, node_record, transfer,
};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use weft_env::{Clock, Env, Runtime};
use weft_format::records::{PolicyRecord, SEGMENT_BYTES, Sizes, Timestamp, VolumeRecord};
use weft_format::{Ino, PolicyId};
use weft_meta::{RenameFlags, Store};
use weft_vfs::open::start_volume;
use weft_vfs::{Caller, Capabilities, Handle, LockRequest, Settings, VfsError, Volume};

pub(crate) const MOUNTS: usize = MACHINES as usize;
const PROGRAMS: usize = 2;
const OPERATIONS: usize = 24;
const NAMES: [&[u8]; 3] = [b"a", b"b", b"c"];
const STEPS_MAX: u64 = 3_000_000;
/// Beside care a program pauses for so long between two operations, and in some cases of a thousand for longer: much time passes there.
const PAUSE_US_MAX: u64 = 20_000;
const LONG_PAUSE_MS_MAX: u64 = 20_000;
/// Of these one is chosen for a history: where programs seldom pause for long, operations of several meet often.
const LONG_PAUSE_PER_MILLE: [u64; 3] = [250, 250, 20];

/// What programs did.
#[derive(Default)]
pub(crate) struct Told {
    calls: Vec<Call<NameOperation, Answer>>,
    /// Of each call.
    callers: Vec<ProcessId>,
    /// Records that were appended, and those of which nobody knows.
    appended: BTreeSet<u32>,
    maybe_appended: BTreeSet<u32>,
    counted: u64,
    maybe_counted: u64,
    /// What programs wrote into whole files.
    pub(crate) versions: Versions,
    /// Operations that succeeded.
    pub(crate) operations: u64,
    /// Programs are to end.
    pub(crate) is_over: bool,
}

pub(crate) struct Mount {
    pub(crate) process: ProcessId,
    pub(crate) volume: Arc<Mutex<Option<Arc<Volume>>>>,
    /// Programs that run on it.
    pub(crate) programs: Arc<AtomicUsize>,
}

pub(crate) struct Many {
    pub(crate) world: World,
    pub(crate) told: Arc<Mutex<Told>>,
    next_token: Arc<AtomicUsize>,
    /// Programs go on until they are to end, and use whole files, too.
    has_care: bool,
    /// How many of a thousand pauses of theirs are long.
    long_pause_per_mille: u64,
}

/// What a history came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// What is not as promised; empty: nothing.
    pub complaints: Vec<String>,
    /// Steps of the scheduler.
    pub steps: u64,
    /// Operations of programs that succeeded.
    pub operations: u64,
    /// The same for two runs of one seed.
    pub digest: String,
}

/// Runs the history of `seed`.
#[must_use]
pub fn run(seed: u64) -> Outcome {
    let scheduler = Scheduler::begin(seed, false);
    let mut many = Many::new(&scheduler, seed, &Length::whole(false), false);
    let ended = many.run();
    let mut complaints = scheduler.take_complaints();
    complaints.extend(ended.err());
    // What programs were answered, and when.
    scheduler.tell(|| format!("{:?}", many.told.lock().calls));
    let (_, digest) = scheduler.told();
    let (steps, operations) = (scheduler.steps(), many.told.lock().operations);
    scheduler.end();
    // What is left of processes must not run.
    std::mem::forget(many);
    Outcome { complaints, steps, operations, digest }
}

impl Many {
    pub(crate) fn new(scheduler: &Rc<Scheduler>, seed: u64, length: &Length, has_care: bool) -> Self {
        let world = World::over(MetadataDisk::shared(scheduler), scheduler, seed, length);
        let kind = if has_care { scheduler.below(LONG_PAUSE_PER_MILLE.len() as u64) as usize } else { 0 };
        let long_pause_per_mille = LONG_PAUSE_PER_MILLE[kind];
        let (told, next_token) = (Arc::default(), Arc::new(AtomicUsize::new(1)));
        Self { world, told, next_token, has_care, long_pause_per_mille }
    }

    pub(crate) fn wait(&self, what: &str, is_done: impl FnMut() -> bool) -> Result<(), String> {
        self.world.wait(what, STEPS_MAX, is_done)
    }

    fn idle(&mut self, time: Duration) {
        self.world.idle(time, STEPS_MAX);
    }

    /// Runs `body` in a process of its own.
    fn at_once(
        &mut self,
        what: &str,
        body: impl FnOnce(ProcessId, &Env) -> Result<(), String> + Send + 'static,
    ) -> Result<(), String> {
        let process = self.world.new_process();
        let (env, _) = env_of(process);
        let done = Arc::new(Mutex::new(None));
        let told = done.clone();
        self.world.scheduler.start(process, "once", move || *told.lock() = Some(body(process, &env)));
        self.wait(what, || done.lock().is_some())?;
        self.world.scheduler.kill(process);
        let done = done.lock().take();
        done.unwrap_or(Ok(())).map_err(|error| format!("{what}: {error}"))
    }

    pub(crate) fn format(&mut self) -> Result<(), String> {
        let (disk, plan) = (self.world.disk.clone(), self.world.plan);
        self.at_once("formatting", move |process, env| format(disk.join(process, env), plan, env))
    }

    fn run(&mut self) -> Result<(), String> {
        self.format()?;
        let scheduler = self.world.scheduler.clone();
        let mut mounts: Vec<Mount> = (0..MOUNTS).map(|number| self.mount(number, PROGRAMS)).collect();
        for _ in 0..scheduler.below(4) {
            self.idle(Duration::from_millis(scheduler.below(400)));
            let place = scheduler.below(MOUNTS as u64) as usize;
            let gone = &mounts[place];
            let is_killed = scheduler.chance(500);
            if is_killed {
                scheduler.kill(gone.process);
            } else {
                scheduler.pause(gone.process, true);
            }
            let silent_ms = scheduler.below(1000);
            self.idle(SILENCE + Duration::from_millis(silent_ms));
            self.end_session(gone.process);
            if !is_killed {
                self.idle(Duration::from_secs(1));
                scheduler.pause(gone.process, false);
                self.idle(Duration::from_secs(5));
                scheduler.kill(gone.process);
            }
            mounts[place] = self.mount(place, PROGRAMS);
        }
        self.idle(Duration::from_secs(60));
        self.end(mounts)?;
        self.check()
    }

    /// Nothing was heard of it for too long.
    pub(crate) fn end_session(&self, process: ProcessId) {
        self.world.disk.evict(process);
        let now = self.world.scheduler.steps();
        // From now on nothing that it had begun is done.
        let mut told = self.told.lock();
        let Told { calls, callers, .. } = &mut *told;
        let begun =
            calls.iter_mut().zip(callers).filter(|(call, caller)| **caller == process && call.ended == u64::MAX);
        begun.for_each(|(call, _)| call.ended = now);
    }

    /// A last mount sees what there is, and all end as `weft umount` does.
    pub(crate) fn end(&mut self, mounts: Vec<Mount>) -> Result<(), String> {
        let last = self.mount(MOUNTS, 0);
        self.idle(Duration::from_secs(30));
        self.look(&last)?;
        for mount in mounts.into_iter().chain([last]) {
            let (volume, done) = (mount.volume.clone(), Arc::new(Mutex::new(None)));
            let told = done.clone();
            self.world.scheduler.start(mount.process, "unmount", move || {
                let volume = volume.lock().take();
                *told.lock() = Some(volume.map_or(Ok(()), |volume| volume.shut_down()));
            });
            self.wait("unmounting", || done.lock().is_some())?;
            if let Some(Err(error)) = done.lock().take() {
                return Err(format!("unmounting: {error}"));
            }
            self.world.scheduler.kill(mount.process);
            self.world.disk.evict(mount.process);
        }
        Ok(())
    }

    /// Mounts on the machine of this number.
    pub(crate) fn mount(&mut self, number: usize, programs: usize) -> Mount {
        let process = self.world.new_process();
        let (env, runtime) = env_of(process);
        let kv = self.world.disk.join(process, &env);
        let mount = Mount { process, volume: Arc::default(), programs: Arc::default() };
        let (slot, places, told, tokens) =
            (mount.volume.clone(), self.world.places.clone(), self.told.clone(), self.next_token.clone());
        let pace = self.world.programs.clone();
        let (running_programs, has_care, long_pause_per_mille) =
            (mount.programs.clone(), self.has_care, self.long_pause_per_mille);
        self.world.scheduler.tell(|| format!("{process:?} mounts on machine {number}"));
        self.world.scheduler.start(process, "mount", move || {
            let volume = match open(kv, &places, process, &env, &runtime) {
                Ok(volume) => volume,
                // It was gone for too long meanwhile.
                Err(VfsError::Meta(weft_meta::MetaError::Superseded(_))) => return,
                // There is no room, perhaps. The next tries when the session is over.
                Err(error) if has_care => {
                    running().tell(|| format!("{process:?} cannot mount: {error}"));
                    return running().kill(process);
                }
                Err(error) => return running().complain(format!("{process:?} cannot mount: {error}")),
            };
            *slot.lock() = Some(volume.clone());
            for of_mount in 0..programs {
                let program = Program {
                    process,
                    long_pause_per_mille,
                    files: has_care.then(|| SharedFiles::new(volume.clone(), number, of_mount == 0, env.clock.clone())),
                    volume: volume.clone(),
                    pace: pace.clone(),
                    told: told.clone(),
                    tokens: tokens.clone(),
                    clock: env.clock.clone(),
                    inos: Mutex::default(),
                };
                let running_programs = running_programs.clone();
                running_programs.fetch_add(1, Ordering::Relaxed);
                running().start(process, "program", move || {
                    program.run();
                    running_programs.fetch_sub(1, Ordering::Relaxed);
                });
            }
        });
        mount
    }

    /// What is there in the end is what programs were told.
    fn look(&self, mount: &Mount) -> Result<(), String> {
        let (volume, told, done) = (mount.volume.clone(), self.told.clone(), Arc::new(Mutex::new(None)));
        let answered = done.clone();
        let (has_care, clock) = (self.has_care, env_of(mount.process).0.clock);
        self.world.scheduler.start(mount.process, "look", move || {
            let volume = volume.lock().clone();
            let Some(volume) = volume else {
                *answered.lock() = Some(Err("the last mount is not up".into()));
                return;
            };
            let files = has_care.then(|| SharedFiles::new(volume.clone(), MOUNTS, false, clock));
            let read = files.map_or(Ok(()), |files| files.look(|change| change(&mut told.lock().versions)));
            let read = read.map_err(|error| format!("a file cannot be read at the end: {error}"));
            *answered.lock() = Some(read.and_then(|()| look(&volume, &told)));
        });
        self.wait("looking", || done.lock().is_some())?;
        let done = done.lock().take();
        done.unwrap_or(Ok(()))
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        let told = self.told.lock();
        if !is_linearizable(&Names::default(), &told.calls) {
            return Err(format!("no order of these calls explains them: {:#?}", told.calls));
        }
        let store =
            Store::open(Arc::new(self.world.disk.durable()), &Env::system()).map_err(|error| error.to_string())?;
        let report = weft_meta::fsck::check(&store, &mut |_| {}).map_err(|error| error.to_string())?;
        if !report.is_clean() {
            return Err(format!("fsck: {report:#?}"));
        }
        let orphans = store.orphans(10).map_err(|error| error.to_string())?;
        let journal = store.journal(None, 10).map_err(|error| error.to_string())?;
        if !orphans.is_empty() || !journal.is_empty() {
            return Err(format!("left behind: {orphans:?}, {} pages of the journal", journal.len()));
        }
        Ok(())
    }
}

fn format(kv: Arc<SimKv>, plan: Plan, env: &Env) -> Result<(), String> {
    let record = VolumeRecord { volume: VOLUME, created_ms: 0, default_policy: PolicyId(0) };
    let sizes = Sizes { segment_bytes: Some(*SEGMENT_BYTES.start()), ..Sizes::default() };
    let policy = PolicyRecord { sizes, ..PolicyRecord::of(plan.code, None) };
    let told = |error: weft_meta::MetaError| error.to_string();
    let store = Store::format(kv, &record, &policy, Timestamp::default(), env).map_err(told)?;
    (0..plan.places).try_for_each(|number| store.add_node(node_id(number), &node_record(number))).map_err(told)?;
    for name in ["log", "count"] {
        let new = weft_meta::NewInode {
            kind: weft_format::records::Kind::File,
            mode: 0o644,
            uid: 0,
            gid: 0,
            rdev: 0,
            symlink_target: Vec::new(),
        };
        store.create(Ino::ROOT, name.as_bytes(), &new, Timestamp::default()).map_err(told)?;
    }
    Ok(())
}

fn open(
    kv: Arc<SimKv>,
    places: &Arc<Places>,
    process: ProcessId,
    env: &Env,
    runtime: &Runtime,
) -> Result<Arc<Volume>, VfsError> {
    let store = Store::open(kv, env)?.as_member()?;
    let transfer = transfer(&store, places, process, runtime)?;
    let places = places.clone();
    let open_nodes = Box::new(move |store: &Store| members(store, &places, process));
    start_volume(store, transfer, open_nodes, Settings { dirty_bytes: 16 << 20, ..Settings::default() })
}

struct Program {
    process: ProcessId,
    long_pause_per_mille: u64,
    /// Whole files that it uses, too.
    files: Option<SharedFiles>,
    volume: Arc<Volume>,
    /// How much it is to do.
    pace: Arc<Programs>,
    told: Arc<Mutex<Told>>,
    tokens: Arc<AtomicUsize>,
    clock: Arc<dyn Clock>,
    /// Of files that were found.
    inos: Mutex<BTreeMap<u32, Ino>>,
}

impl Program {
    fn run(&self) {
        // Open all the time, as databases have their files: what others write is seen under the lock.
        let count = self
            .volume
            .lookup(Ino::ROOT, b"count")
            .and_then(|found| Ok((found.ino, self.volume.open(found.ino, libc::O_RDWR)?)));
        let Ok(count) = count else { return };
        let mut done = 0;
        while if self.files.is_some() { !self.told.lock().is_over } else { done < OPERATIONS } {
            done += 1;
            let below = |end: usize| running().below(end as u64) as usize;
            self.clock.block(Duration::from_micros(running().below(PAUSE_US_MAX)));
            if let Some(files) = &self.files {
                while self.pace.is_slow.load(Ordering::Relaxed) && !running().chance(SLOW_OPERATIONS_PER_MILLE) {
                    self.clock.block(Duration::from_millis(SLOW_MS));
                }
                let is_large_write = self.pace.takes_large_write();
                if !is_large_write && running().chance(self.long_pause_per_mille) {
                    self.clock.block(Duration::from_millis(running().below(LONG_PAUSE_MS_MAX)));
                }
                if is_large_write || running().chance(500) {
                    files.step(|change| change(&mut self.told.lock().versions));
                    self.told.lock().operations += 1;
                    continue;
                }
            }
            let (one, other) = (below(NAMES.len()), below(NAMES.len()));
            let token = self.tokens.fetch_add(1, Ordering::Relaxed) as u32;
            match below(12) {
                0..=2 => drop(self.name(NameOperation::Create(one, token))),
                3 => drop(self.name(NameOperation::Remove(one))),
                4 | 5 if one != other => drop(self.name(NameOperation::Rename(one, other))),
                6 => self.link(one, other),
                7 | 8 => drop(self.name(NameOperation::Look(one))),
                9 => self.append(token),
                _ => self.count(count),
            }
        }
        self.volume.release(count.1);
        self.volume.forget(count.0, 1);
    }

    fn name(&self, operation: NameOperation) -> Option<Answer> {
        let place = {
            let mut told = self.told.lock();
            told.callers.push(self.process);
            told.calls.push(Call { began: running().steps(), ended: u64::MAX, operation, answer: None });
            told.calls.len() - 1
        };
        let answer = match self.ask(operation) {
            Ok(file) => Ok(file),
            Err(error) if matches!(error.errno(), libc::ENOENT | libc::EEXIST) => match operation {
                NameOperation::Link(..) => Err(0),
                _ => Err(error.errno()),
            },
            // Its session is over, perhaps.
            Err(_) => return None,
        };
        let mut told = self.told.lock();
        told.operations += 1;
        (told.calls[place].answer, told.calls[place].ended) = (Some(answer), running().steps());
        Some(answer)
    }

    fn ask(&self, operation: NameOperation) -> Result<u32, VfsError> {
        let volume = &self.volume;
        match operation {
            NameOperation::Create(name, token) => {
                let caller = Caller { uid: token, gid: 0, groups: Vec::new(), capabilities: Capabilities::empty() };
                let (attributes, handle) =
                    volume.create(&caller, Ino::ROOT, NAMES[name], 0o644, libc::O_RDWR | libc::O_EXCL)?;
                volume.release(handle);
                volume.forget(attributes.ino, 1);
                Ok(token)
            }
            NameOperation::Remove(name) => volume.unlink(Ino::ROOT, NAMES[name]).map(|()| 0),
            NameOperation::Rename(from, to) => {
                volume.rename(Ino::ROOT, NAMES[from], Ino::ROOT, NAMES[to], RenameFlags::default()).map(|()| 0)
            }
            NameOperation::Link(file, to) => {
                let ino = self.inos.lock().get(&file).copied().unwrap_or(Ino::ROOT);
                let linked = volume.link(ino, Ino::ROOT, NAMES[to])?;
                volume.forget(linked.ino, 1);
                Ok(0)
            }
            NameOperation::Look(name) => {
                let attributes = volume.lookup(Ino::ROOT, NAMES[name])?;
                volume.forget(attributes.ino, 1);
                self.inos.lock().insert(attributes.uid, attributes.ino);
                Ok(attributes.uid)
            }
        }
    }

    /// A name is looked up, and then what it meant gets another: the first may mean something else by then.
    fn link(&self, from: usize, to: usize) {
        if let Some(Ok(file)) = self.name(NameOperation::Look(from)) {
            self.name(NameOperation::Link(file, to));
        }
    }

    fn append(&self, token: u32) {
        self.told.lock().maybe_appended.insert(token);
        let append = || {
            let ino = self.volume.lookup(Ino::ROOT, b"log")?.ino;
            let handle = self.volume.open(ino, libc::O_WRONLY | libc::O_APPEND)?;
            let done = self.volume.append(handle, &token.to_be_bytes(), false);
            self.volume.release(handle);
            self.volume.forget(ino, 1);
            done
        };
        if append().is_ok() {
            let mut told = self.told.lock();
            told.maybe_appended.remove(&token);
            told.appended.insert(token);
        }
    }

    fn count(&self, (ino, handle): (Ino, Handle)) {
        let count = || {
            // What is seen now is not what is so under the lock.
            self.volume.read(handle, 0, 8)?;
            let wanted = LockRequest { owner: handle.0, handle, pid: 0, first: 0, last: u64::MAX, is_exclusive: true };
            while self.volume.lock(ino, wanted)?.is_some() {
                self.clock.block(Duration::from_millis(3));
            }
            self.told.lock().maybe_counted += 1;
            let before = number(&self.volume.read(handle, 0, 8)?);
            self.volume.write(handle, 0, &(before + 1).to_be_bytes(), false)?;
            // What was written under a lock is committed before it is given up.
            self.volume.unlock(ino, wanted)?;
            Ok::<(), VfsError>(())
        };
        if count().is_ok() {
            let mut told = self.told.lock();
            told.maybe_counted -= 1;
            told.counted += 1;
        }
    }
}

fn number(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_be_bytes)
}

fn look(volume: &Volume, told: &Mutex<Told>) -> Result<(), String> {
    let read = |name: &[u8]| {
        let ino = volume.lookup(Ino::ROOT, name)?.ino;
        let handle = volume.open(ino, libc::O_RDONLY)?;
        let bytes = volume.read(handle, 0, 1 << 20)?;
        volume.release(handle);
        Ok::<_, VfsError>(bytes)
    };
    let failed = |error: VfsError| format!("the last look: {error}");
    let (log, count) = (read(b"log").map_err(failed)?, number(&read(b"count").map_err(failed)?));
    let mut told = told.lock();
    let records: Vec<u32> = log.chunks(4).map(|record| record.try_into().map_or(0, u32::from_be_bytes)).collect();
    let once: BTreeSet<u32> = records.iter().copied().collect();
    if once.len() != records.len() {
        return Err(format!("a record was appended twice: {records:?}"));
    }
    let (lost, strange): (Vec<_>, Vec<_>) = (
        told.appended.difference(&once).collect(),
        once.iter().filter(|record| !told.appended.contains(record) && !told.maybe_appended.contains(record)).collect(),
    );
    if !lost.is_empty() || !strange.is_empty() {
        return Err(format!("appended and lost: {lost:?}; there, and never appended: {strange:?}"));
    }
    if !(told.counted..=told.counted + told.maybe_counted).contains(&count) {
        return Err(format!("{} were counted and {} perhaps, and {count} are", told.counted, told.maybe_counted));
    }
    for (name, text) in NAMES.into_iter().enumerate() {
        let began = running().steps();
        let found = volume.lookup(Ino::ROOT, text).map(|found| found.uid).map_err(|error| error.errno());
        let (operation, ended) = (NameOperation::Look(name), running().steps());
        told.calls.push(Call { began, ended, operation, answer: Some(found) });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    /// A short run; `weft-sim many` has the long ones.
    #[test]
    fn several_mounts_are_one_volume() {
        for seed in 0..20 {
            let complaints = super::run(seed).complaints;
            assert!(complaints.is_empty(), "seed {seed}: {complaints:#?}");
        }
    }

    #[test]
    fn one_seed_gives_one_history() {
        for seed in 0..3 {
            assert_eq!(super::run(seed), super::run(seed), "seed {seed}");
        }
        assert_ne!(super::run(0).digest, super::run(1).digest);
    }
}
