//! What strikes a cluster, and what ends it.

use super::Chaos;
use super::cluster::Target;
use super::network::Cut;
use super::phases::{Entry, MountPhase, ProgramPhase};
use crate::weights::chosen;
use anyhow::Result;
use rustix::process::Signal;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// The process with a mount is killed. Of several mounts, its programs may go on with another one.
    KillMount,
    /// It is killed again while it starts.
    KillStartingMount,
    /// The metadata's server is killed.
    KillServer,
    /// A node's daemon is killed.
    KillDaemon,
    /// The worker is killed.
    KillWorker,
    /// Several processes are killed at once.
    KillSeveral,
    /// A process stops for a while and goes on.
    Stop,
    /// A machine is cut off, in one direction or both.
    Cut,
    /// A node's disk is full.
    FillNode,
    /// The metadata's disk is full.
    FillMetadata,
    /// A node's disk is unmounted for a while.
    UnmountDisk,
    /// A node's machine loses its power.
    CutPowerOfNode,
    /// The machine with the metadata loses its power.
    CutPowerOfMetadata,
    /// All machines lose their power at once.
    CutPowerOfAll,
    /// The volume is unmounted properly, and mounted again.
    Remount,
    /// A mount's place is taken away, as `weft session evict` does.
    Evict,
    /// A program goes on with another mount.
    Move,
    /// A node loses or damages what it has, or is as it was some time ago.
    Lose,
    /// The clock of a machine is wrong for a while.
    Jump,
    /// A process stops while more time passes than every lease and every grace time have.
    StopForLong,
    /// Nothing, for a while.
    Calm,
}

/// How often each strikes beside the others.
const WEIGHTS: [(Fault, u64); 21] = [
    (Fault::KillMount, 12),
    (Fault::KillStartingMount, 5),
    (Fault::KillServer, 8),
    (Fault::KillDaemon, 12),
    (Fault::KillWorker, 6),
    (Fault::KillSeveral, 6),
    (Fault::Stop, 14),
    (Fault::Cut, 14),
    (Fault::FillNode, 6),
    (Fault::FillMetadata, 3),
    (Fault::UnmountDisk, 4),
    (Fault::CutPowerOfNode, 8),
    (Fault::CutPowerOfMetadata, 5),
    (Fault::CutPowerOfAll, 5),
    (Fault::Remount, 4),
    (Fault::Evict, 4),
    (Fault::Move, 10),
    (Fault::Lose, 10),
    (Fault::Jump, 5),
    (Fault::StopForLong, 5),
    (Fault::Calm, 4),
];

/// How many of a thousand troubles last long, ...
const LONG_PER_MILLE: u64 = 150;
/// ... longer than the lease, the time until a node is suspected and the time until it may be given up; the others may be shorter.
const LONG_MS: std::ops::Range<u64> = 12_000..30_000;
const SHORT_MS: std::ops::Range<u64> = 100..6_000;
/// A clock is off by so much at most.
const DAY_S: u64 = 86_400;
/// More than the lease of a worker, and the grace of a collector, have.
const LONG_STOP_S: i64 = 2_400;
/// Before a node loses something all is whole for so long: longer than an upload is under way that found nodes away.
const CALM: Duration = Duration::from_secs(5);

/// What ends a trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cure {
    /// A process is started.
    Start(Target),
    /// A process goes on.
    Continue(Target),
    /// A machine's cable is plugged in.
    Plug(Target),
    /// A machine's clock is right.
    SetClock(Target),
    /// A node's disk has room.
    FreeNode(usize),
    /// The metadata's disk has room.
    FreeMetadata,
}

/// Something is wrong until it is cured.
pub struct Trouble {
    /// When.
    pub until: Instant,
    /// By what.
    pub cure: Cure,
}

impl Chaos {
    /// One fault strikes.
    ///
    /// # Errors
    /// Chaos itself cannot go on.
    pub fn strike(&mut self) -> Result<()> {
        let fault = chosen(&WEIGHTS, |end| self.below(end));
        self.make(fault)
    }

    /// This fault strikes.
    ///
    /// # Errors
    /// Chaos itself cannot go on.
    pub fn make(&mut self, fault: Fault) -> Result<()> {
        let node = self.below(self.cluster.plan.nodes as u64) as usize;
        let mount = self.below(self.mounts.len() as u64) as usize;
        match fault {
            Fault::KillMount => self.kill(&[Target::Mount(mount)]),
            Fault::KillStartingMount => self.kill_starting_mount(mount)?,
            Fault::KillServer | Fault::Evict | Fault::Move if !self.cluster.is_shared() => return Ok(()),
            Fault::KillServer => self.kill(&[Target::Server]),
            Fault::Evict => self.evict(mount),
            Fault::Move => self.move_program()?,
            Fault::KillDaemon => self.kill(&[Target::Daemon(node)]),
            Fault::KillWorker => self.kill(&[Target::Worker]),
            Fault::KillSeveral => {
                let mut targets = self.cluster.targets();
                while targets.len() as u64 > 2 + self.below(3) {
                    targets.swap_remove(self.below(targets.len() as u64) as usize);
                }
                self.kill(&targets);
            }
            Fault::Stop => {
                let target = self.one_of_ours();
                let for_ms = self.duration_ms();
                self.log.tell(&format!("fault: {target:?} stops for {for_ms} ms"));
                self.cluster.signal(target, Signal::STOP);
                self.trouble(for_ms, Cure::Continue(target));
            }
            Fault::Jump | Fault::StopForLong if !self.cluster.clocks().can_be_wrong() => return Ok(()),
            Fault::Jump => {
                let targets = self.cluster.targets();
                let target = targets[self.below(targets.len() as u64) as usize];
                let off_s = self.below(2 * DAY_S) as i64 - DAY_S as i64;
                let for_ms = self.duration_ms();
                self.log.tell(&format!("fault: the clock of {target:?} is off by {off_s} s for {for_ms} ms"));
                let machine = self.cluster.machine(target);
                self.cluster.clocks().set(machine, off_s)?;
                self.trouble(for_ms, Cure::SetClock(target));
            }
            Fault::StopForLong => {
                let target = self.one_of_ours();
                self.log.tell(&format!("fault: {target:?} stops while {LONG_STOP_S} s pass"));
                self.cluster.signal(target, Signal::STOP);
                self.cluster.clocks().pass(LONG_STOP_S)?;
                // The others see their clocks within a second.
                let for_ms = self.duration_ms() + 2_000;
                self.trouble(for_ms, Cure::Continue(target));
            }
            Fault::Cut => {
                if !self.cluster.has_cables() {
                    return Ok(());
                }
                let targets = self.cluster.targets();
                let target = targets[self.below(targets.len() as u64) as usize];
                let cut = [Cut::Both, Cut::Sent, Cut::Received][self.below(3) as usize];
                let for_ms = self.duration_ms();
                self.log.tell(&format!("fault: {target:?} is cut off for {for_ms} ms: {cut:?}"));
                self.cluster.network().cut(self.cluster.machine(target), cut)?;
                self.trouble(for_ms, Cure::Plug(target));
            }
            Fault::FillNode => {
                let for_ms = self.duration_ms();
                self.log.tell(&format!("fault: the disk of node{node} is full for {for_ms} ms"));
                self.cluster.disk(node).fill()?;
                self.trouble(for_ms, Cure::FreeNode(node));
            }
            Fault::FillMetadata => {
                let for_ms = self.duration_ms();
                self.log.tell(&format!("fault: the metadata's disk is full for {for_ms} ms"));
                self.cluster.metadata().fill()?;
                self.trouble(for_ms, Cure::FreeMetadata);
            }
            Fault::UnmountDisk => {
                self.kill(&[Target::Daemon(node)]);
                self.log.tell(&format!("fault: the disk of node{node} is unmounted"));
                self.cluster.disk(node).unmount()?;
            }
            Fault::CutPowerOfNode => self.cut_power(&[Target::Daemon(node)])?,
            Fault::CutPowerOfMetadata if self.cluster.is_shared() => self.cut_power(&[Target::Server])?,
            Fault::CutPowerOfMetadata => self.cut_power(&[Target::Mount(mount), Target::Worker])?,
            Fault::CutPowerOfAll => self.cut_power(&self.cluster.targets())?,
            Fault::Remount => self.remount(mount)?,
            Fault::Lose => {
                if !self.lose_something()? {
                    return Ok(());
                }
            }
            Fault::Calm => {
                self.log.tell("all is well for a while");
                self.cure_all()?;
                let for_ms = self.duration_ms();
                self.wait(Duration::from_millis(for_ms))?;
            }
        }
        *self.struck.entry(fault).or_default() += 1;
        Ok(())
    }

    /// A process of the product. The server is several processes.
    fn one_of_ours(&mut self) -> Target {
        let targets: Vec<Target> =
            self.cluster.targets().into_iter().filter(|target| *target != Target::Server).collect();
        targets[self.below(targets.len() as u64) as usize]
    }

    fn duration_ms(&mut self) -> u64 {
        let range = if self.below(1000) < LONG_PER_MILLE { LONG_MS } else { SHORT_MS };
        range.start + self.below(range.end - range.start)
    }

    fn trouble(&mut self, for_ms: u64, cure: Cure) {
        if let Cure::Start(target) | Cure::Continue(target) | Cure::Plug(target) | Cure::SetClock(target) = cure {
            self.note_trouble(target);
        }
        if cure == Cure::FreeMetadata {
            self.note_trouble(Target::Server);
        }
        self.troubles.push(Trouble { until: Instant::now() + Duration::from_millis(for_ms), cure });
    }

    /// Something begins or ends that a mount may lose its place by.
    fn note_trouble(&mut self, target: Target) {
        let now = Instant::now();
        match target {
            Target::Mount(number) => self.mounts[number].troubled = now,
            Target::Server => self.server_troubled = now,
            Target::Worker | Target::Daemon(_) => {}
        }
    }

    /// All of these are about to end.
    fn note_ends(&self, targets: &[Target]) {
        for target in targets {
            if let Target::Mount(number) = target {
                self.note_end_of_mount(*number);
            }
        }
    }

    /// Kills processes; each is started again some time later.
    fn kill(&mut self, targets: &[Target]) {
        self.log.tell(&format!("fault: killed at once: {targets:?}"));
        self.note_ends(targets);
        // All get the signal before anybody's end is waited for.
        targets.iter().for_each(|target| self.cluster.signal(*target, Signal::KILL));
        targets.iter().for_each(|target| self.end_of(*target));
    }

    /// A process was killed: it is started again some time later.
    pub fn end_of(&mut self, target: Target) {
        self.cluster.kill(target);
        if let Target::Mount(number) = target {
            self.programs_end(number);
            self.mounts[number].phase = MountPhase::Down;
            self.programs_may_move(number);
        }
        let for_ms = self.duration_ms() / 2;
        self.trouble(for_ms, Cure::Start(target));
    }

    /// The programs of a mount that has ended wait for it, or go on with others.
    fn programs_may_move(&mut self, mount: usize) {
        if !self.cluster.is_shared() || self.below(2) == 0 {
            return;
        }
        for number in 0..self.assignments.len() {
            if self.assignments[number].mount == mount {
                let other = self.below(self.mounts.len() as u64) as usize;
                self.log.tell(&format!("program {number} goes on with mount{other}"));
                self.assignments[number].mount = other;
            }
        }
    }

    /// A program ends on one mount and begins on another, while both go on.
    fn move_program(&mut self) -> Result<()> {
        self.cure_all()?;
        let moved = self.below(self.assignments.len() as u64) as usize;
        if !self.stop_programs(|number, _| number == moved)? {
            return Ok(());
        }
        let from = self.assignments[moved].mount;
        let to = (from + 1 + self.below(self.mounts.len() as u64 - 1) as usize) % self.mounts.len();
        self.log.tell(&format!("program {moved} moves from mount{from} to mount{to}"));
        self.assignments[moved].mount = to;
        self.assignments[moved].phase = ProgramPhase::Waiting(Entry::Visit);
        Ok(())
    }

    /// As a person does who takes a mount for dead.
    fn evict(&mut self, mount: usize) {
        let evicted = self.sessions.as_ref().map(|sessions| sessions.evict(mount));
        self.log.tell(&format!("fault: mount{mount} is evicted: {evicted:?}"));
        self.note_trouble(Target::Mount(mount));
    }

    /// The machines of these processes lose their power: what is not on their disks is gone.
    fn cut_power(&mut self, targets: &[Target]) -> Result<()> {
        self.log.tell(&format!("fault: without power: {targets:?}"));
        // The disk of the metadata is the server's, or else the mount's.
        let has_metadata = targets.iter().any(|target| match target {
            Target::Server => true,
            Target::Mount(_) => !self.cluster.is_shared(),
            Target::Worker | Target::Daemon(_) => false,
        });
        self.note_ends(targets);
        // Nobody may see that disks have gone: without power there is nobody. A server's other processes may, and acknowledge nothing.
        targets.iter().for_each(|target| self.cluster.signal(*target, Signal::STOP));
        if has_metadata {
            self.cluster.metadata().cut_power()?;
        }
        for target in targets {
            if let Target::Daemon(number) = target {
                self.cluster.disk(*number).cut_power()?;
            }
        }
        targets.iter().for_each(|target| self.cluster.signal(*target, Signal::KILL));
        targets.iter().for_each(|target| self.end_of(*target));
        // Disks are mounted again at once, so that their logs are replayed; daemons come back later.
        if has_metadata {
            self.cluster.metadata().unmount()?;
            self.cluster.metadata().mount()?;
        }
        for target in targets {
            if let Target::Daemon(number) = target {
                self.cluster.disk(*number).unmount()?;
                self.cluster.disk(*number).mount()?;
            }
        }
        Ok(())
    }

    fn kill_starting_mount(&mut self, number: usize) -> Result<()> {
        self.kill(&[Target::Mount(number)]);
        for _ in 0..=self.below(3) {
            let for_ms = self.below(1_500);
            self.log.tell(&format!("fault: mount{number} is killed {for_ms} ms after its start"));
            self.spawn_mount(number)?;
            std::thread::sleep(Duration::from_millis(for_ms));
            self.note_end_of_mount(number);
            self.cluster.kill(Target::Mount(number));
        }
        Ok(())
    }

    /// What was wrong for long enough is cured.
    ///
    /// # Errors
    /// It cannot be.
    pub fn cure_due(&mut self) -> Result<()> {
        let now = Instant::now();
        while let Some(at) = self.troubles.iter().position(|trouble| trouble.until <= now) {
            let Trouble { cure, .. } = self.troubles.remove(at);
            self.log.tell(&format!("cure: {cure:?}"));
            match cure {
                Cure::Start(target) => {
                    self.note_trouble(target);
                    match target {
                        Target::Mount(number) => self.start_mount(number)?,
                        Target::Worker => self.cluster.start_worker()?,
                        Target::Server => self.cluster.start_server()?,
                        Target::Daemon(number) => self.cluster.start_daemon(number)?,
                    }
                }
                Cure::Continue(target) => {
                    self.note_trouble(target);
                    self.cluster.signal(target, Signal::CONT);
                }
                Cure::Plug(target) => {
                    self.note_trouble(target);
                    self.cluster.network().plug(self.cluster.machine(target))?;
                }
                Cure::SetClock(target) => {
                    self.note_trouble(target);
                    let machine = self.cluster.machine(target);
                    self.cluster.clocks().set(machine, 0)?;
                }
                Cure::FreeNode(number) => self.cluster.disk(number).free(),
                Cure::FreeMetadata => {
                    self.note_trouble(Target::Server);
                    self.cluster.metadata().free();
                }
            }
        }
        Ok(())
    }

    /// Everything that is wrong is cured now.
    ///
    /// # Errors
    /// It cannot be.
    pub fn cure_all(&mut self) -> Result<()> {
        let now = Instant::now();
        self.troubles.iter_mut().for_each(|trouble| trouble.until = now);
        self.cure_due()
    }

    /// Unmounts as people do. What was there then is durable.
    fn remount(&mut self, mount: usize) -> Result<()> {
        if !matches!(self.mounts[mount].phase, MountPhase::Up) {
            return Ok(());
        }
        let is_calm = self.troubles.is_empty();
        self.log.tell(&format!("fault: mount{mount} is unmounted, and mounted again"));
        if self.unmount_well(mount, is_calm)? {
            let models = self.programs.models.iter().zip(&self.assignments);
            models.filter(|(_, program)| program.mount == mount).for_each(|(model, _)| model.lock().synced_all());
        }
        let for_ms = self.below(1_000);
        self.trouble(for_ms, Cure::Start(Target::Mount(mount)));
        Ok(())
    }

    /// All is cured; waits until redundancy is whole, and stays so for a while.
    fn becomes_whole(&mut self) -> Result<bool> {
        self.cure_all()?;
        if !self.wait_until_whole()? {
            return Ok(false);
        }
        self.wait(CALM)?;
        self.wait_until_whole()
    }

    /// Every code survives two losses, and what is lost in silence is not known: so only one node loses something, until a scrub has
    /// found and repaired it.
    fn lose_something(&mut self) -> Result<bool> {
        if !self.becomes_whole()? {
            return Ok(false);
        }
        let same = self.below(2) == 0;
        let other = self.below(self.cluster.plan.nodes as u64) as usize;
        let victim = match self.victim {
            Some(victim) if same => victim,
            Some(_) => {
                if !self.scrub_until_whole()? || !self.becomes_whole()? {
                    return Ok(false);
                }
                self.copied.unwrap_or(other)
            }
            None => self.copied.unwrap_or(other),
        };
        self.victim = Some(victim);
        let files = self.cluster.shard_files(victim);
        let some = |chaos: &mut Self| (!files.is_empty()).then(|| &files[chaos.below(files.len() as u64) as usize]);
        match self.below(4) {
            0 | 1 if self.copied == Some(victim) => {
                self.log.tell(&format!("fault: node{victim} is as it was some time ago"));
                self.cluster.kill(Target::Daemon(victim));
                self.cluster.put_copy_back(victim)?;
                self.cluster.start_daemon(victim)?;
            }
            0..3 => {
                for _ in 0..=self.below(4) {
                    let Some(file) = some(self) else { break };
                    let at = self.below(u64::MAX);
                    self.log.tell(&format!("fault: {} rots", file.display()));
                    // It may have been removed meanwhile.
                    let _ = flip_bit(file, at);
                }
            }
            _ => {
                for _ in 0..=self.below(8) {
                    let Some(file) = some(self) else { break };
                    self.log.tell(&format!("fault: {} is lost", file.display()));
                    let _ = fs::remove_file(file);
                }
            }
        }
        // Of some node, which may lose something next: what was there then is what it is rolled back to.
        let next = self.below(self.cluster.plan.nodes as u64) as usize;
        self.cluster.copy_shards(next);
        self.copied = Some(next);
        Ok(true)
    }
}

fn flip_bit(file: &Path, at: u64) -> std::io::Result<()> {
    use std::os::unix::fs::FileExt;
    let open = fs::OpenOptions::new().read(true).write(true).open(file)?;
    let bits = open.metadata()?.len() * 8;
    let (at, bit) = ((at % bits) / 8, at % 8);
    let mut byte = [0];
    open.read_exact_at(&mut byte, at)?;
    open.write_all_at(&[byte[0] ^ (1 << bit)], at)
}
