//! What mounts and programs do now, and what comes next: programs begin when their mount is there, and go on when what it shows was
//! compared by all of its programs.

use super::cluster::Target;
use super::contenders::Contender;
use super::mounted_files::{MountedFiles, Mountpoint};
use super::process::{GLANCE, start_thread};
use super::programs::{Program, begin, read_and_compare, recover, work};
use super::{AGAIN, Chaos};
use anyhow::Result;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a mount may be refused: longer than any trouble lasts.
const MOUNT_DEADLINE: Duration = Duration::from_secs(90);
/// How long programs may take to see that their mount was killed.
const NOTICE_DEADLINE: Duration = Duration::from_secs(60);
/// A mount may lose its place by what was wrong with it or with the server so long ago.
const BLAMED_FOR: Duration = Duration::from_secs(60);

/// What a mount does.
pub enum MountPhase {
    /// There is none.
    Down,
    /// It starts.
    Starting(Instant),
    /// Programs may use it.
    Up,
}

/// One place where the volume is mounted, again and again.
pub struct Mount {
    /// What it does.
    pub phase: MountPhase,
    /// Where it is.
    pub point: Mountpoint,
    /// When something last was wrong with it.
    pub troubled: Instant,
    /// The program on it that contends for names with those of other mounts.
    pub contender: Option<Contender>,
}

/// What a program begins with on a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// It makes its directories.
    Begin,
    /// It compares what a crash has left.
    Recover,
    /// It comes from another mount, and compares.
    Visit,
}

/// What a program does.
pub enum ProgramPhase {
    /// It waits for its mount.
    Waiting(Entry),
    /// It compares.
    Comparing(JoinHandle<()>),
    /// It has compared, and waits for the others of its mount.
    Compared,
    /// It works.
    Working(JoinHandle<()>),
    /// It was stopped, on a mount that goes on.
    Stopped,
}

/// A program and the mount that it uses.
pub struct Assignment {
    /// The number of the mount.
    pub mount: usize,
    /// What it does.
    pub phase: ProgramPhase,
    is_stopping: Arc<AtomicBool>,
}

impl Assignment {
    /// A program that has not begun.
    pub fn new(mount: usize) -> Self {
        Self { mount, phase: ProgramPhase::Waiting(Entry::Begin), is_stopping: Arc::default() }
    }

    fn is_ready(&self) -> bool {
        !matches!(self.phase, ProgramPhase::Waiting(_) | ProgramPhase::Comparing(_))
    }

    fn has_ended(&self) -> bool {
        self.has_worked() || matches!(&self.phase, ProgramPhase::Comparing(thread) if thread.is_finished())
    }

    /// Has it ended while it worked?
    fn has_worked(&self) -> bool {
        matches!(&self.phase, ProgramPhase::Working(thread) if thread.is_finished())
    }
}

impl Chaos {
    /// What is due happens.
    ///
    /// # Errors
    /// Chaos itself cannot go on.
    pub fn go_on(&mut self) -> Result<()> {
        self.cure_due()?;
        for (target, what) in self.cluster.deserters() {
            match target {
                // A mount may be refused while nodes are away or the metadata's disk is full: it is tried again.
                Target::Mount(number) if matches!(self.mounts[number].phase, MountPhase::Starting(_)) => {
                    self.log.tell(&format!("not mounted: {what}"));
                    std::thread::sleep(AGAIN);
                    self.cluster.abandon_mount(number);
                    self.spawn_mount(number)?;
                }
                // A worker does not begin while the server is away.
                Target::Worker if self.cluster.is_shared() && self.server_troubled.elapsed() < BLAMED_FOR => {
                    self.log.tell(&format!("no worker: {what}"));
                    std::thread::sleep(AGAIN);
                    self.cluster.start_worker()?;
                }
                // Nor the server while its disk is full or processes of the one before are there.
                Target::Server => {
                    self.log.tell(&format!("no server: {what}"));
                    std::thread::sleep(AGAIN);
                    self.cluster.start_server()?;
                }
                _ => self.complain(format!("{target:?}: {what} by itself")),
            }
        }
        for number in 0..self.mounts.len() {
            self.mount_goes_on(number);
        }
        for number in 0..self.assignments.len() {
            self.program_goes_on(number);
        }
        Ok(())
    }

    fn mount_goes_on(&mut self, number: usize) {
        match self.mounts[number].phase {
            MountPhase::Down => {}
            MountPhase::Starting(since) => {
                if since.elapsed() > MOUNT_DEADLINE {
                    let seconds = MOUNT_DEADLINE.as_secs();
                    self.complain(format!("not mounted for {seconds} s, as logs/mount{number}.log says"));
                }
                if self.cluster.is_mounted(number) {
                    self.log.tell(&format!("mount{number} is there after {:.1} s", since.elapsed().as_secs_f64()));
                    self.mounts[number].phase = MountPhase::Up;
                    self.start_contender(number);
                }
            }
            MountPhase::Up => {
                let is_left = |program: &Assignment| {
                    program.mount == number && program.has_worked() && !program.is_stopping.load(Ordering::Relaxed)
                };
                let contender = &self.mounts[number].contender;
                let has_left =
                    contender.as_ref().is_some_and(Contender::has_left) || self.assignments.iter().any(is_left);
                if self.cluster.is_shared() && has_left {
                    self.lose_place(number);
                }
            }
        }
    }

    /// Programs were told that the mount changes nothing any more: it is killed and made again.
    fn lose_place(&mut self, number: usize) {
        self.log.tell(&format!("mount{number} has lost its place"));
        let untroubled = self.mounts[number].troubled.max(self.server_troubled).elapsed();
        if untroubled > BLAMED_FOR {
            let seconds = untroubled.as_secs();
            self.complain(format!("mount{number} has lost its place, and nothing was wrong for {seconds} s"));
        }
        self.places_lost += 1;
        self.note_end_of_mount(number);
        self.end_of(Target::Mount(number));
    }

    fn program_goes_on(&mut self, number: usize) {
        let mount = self.assignments[number].mount;
        if !matches!(self.mounts[mount].phase, MountPhase::Up) {
            return;
        }
        let of_mount = |program: &&Assignment| program.mount == mount;
        let all_are_ready = self.assignments.iter().filter(of_mount).all(Assignment::is_ready);
        match &self.assignments[number].phase {
            ProgramPhase::Waiting(entry) => {
                let what = match entry {
                    Entry::Begin => begin,
                    Entry::Recover => recover,
                    Entry::Visit => read_and_compare,
                };
                let thread = self.start_thread(number, mount, what);
                self.assignments[number].phase = ProgramPhase::Comparing(thread);
            }
            ProgramPhase::Comparing(thread) if thread.is_finished() => {
                self.log.tell(&format!("program {number} has compared what mount{mount} shows"));
                self.join(number);
                self.assignments[number].phase = ProgramPhase::Compared;
            }
            ProgramPhase::Compared if all_are_ready => {
                let thread = self.start_thread(number, mount, work);
                self.assignments[number].phase = ProgramPhase::Working(thread);
            }
            _ => {}
        }
    }

    /// Starts all mounts that are not there, and waits until all programs work.
    ///
    /// # Errors
    /// Chaos itself cannot go on.
    pub fn start_mounts(&mut self) -> Result<()> {
        (0..self.mounts.len()).try_for_each(|number| self.start_mount(number))?;
        self.wait_for_programs()
    }

    /// Starts to mount, if it is not mounted there.
    ///
    /// # Errors
    /// The process cannot be started.
    pub fn start_mount(&mut self, number: usize) -> Result<()> {
        if matches!(self.mounts[number].phase, MountPhase::Down) {
            self.spawn_mount(number)?;
            self.mounts[number].phase = MountPhase::Starting(Instant::now());
        }
        Ok(())
    }

    /// Starts the process of a mount.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn spawn_mount(&mut self, number: usize) -> Result<()> {
        self.cluster.start_mount(number)?;
        if let (Some(sessions), Some(process)) = (&self.sessions, self.cluster.mount_process(number)) {
            sessions.note_life(number, process);
        }
        Ok(())
    }

    /// Starts a thread of a program on a mount, which need not be the program's own.
    pub fn start_thread(&mut self, number: usize, mount: usize, what: fn(&Program)) -> JoinHandle<()> {
        self.lives += 1;
        let is_stopping = Arc::new(AtomicBool::new(false));
        self.assignments[number].is_stopping = is_stopping.clone();
        let program = Program {
            number,
            files: MountedFiles::of_program(&self.mounts[mount].point, number, &self.counts, &self.log),
            programs: self.programs.clone(),
            sessions: self.sessions.clone(),
            log: self.log.clone(),
            seed: self.seed,
            life: self.lives,
            is_stopping,
        };
        start_thread(move || what(&program))
    }

    /// Starts the program that contends for names on a mount, if there are several mounts and it has none.
    fn start_contender(&mut self, number: usize) {
        if !self.cluster.is_shared() || self.mounts[number].contender.is_some() {
            return;
        }
        self.lives += 1;
        let mount = &mut self.mounts[number];
        mount.contender = Some(Contender::start(&mount.point, &self.told, &self.log, self.seed, self.lives));
    }

    /// Waits for the end of the program that contends for names on a mount.
    pub fn contender_ends(&mut self, number: usize) {
        let Some(contender) = self.mounts[number].contender.take() else { return };
        contender.stop();
        let began = Instant::now();
        while !contender.has_ended() && began.elapsed() < NOTICE_DEADLINE {
            std::thread::sleep(GLANCE);
        }
        if !contender.has_ended() {
            self.complain(format!("the program that contends for names on mount{number} hangs"));
        } else if !contender.ended_well() {
            self.complain(format!("the program that contends for names on mount{number} panicked"));
        }
    }

    /// From now on any error may come from the end of the mount: nobody knows what was done.
    pub fn note_end_of_mount(&self, number: usize) {
        self.mounts[number].point.ended.fetch_add(1, Ordering::SeqCst);
        self.sessions.iter().for_each(|sessions| sessions.note_end(number));
    }

    /// Waits for the programs of a mount that has ended. They begin again with what is left.
    pub fn programs_end(&mut self, mount: usize) {
        self.contender_ends(mount);
        let began = Instant::now();
        for number in 0..self.assignments.len() {
            if self.assignments[number].mount != mount {
                continue;
            }
            let program = &self.assignments[number];
            let is_running = matches!(&program.phase, ProgramPhase::Working(_) | ProgramPhase::Comparing(_));
            while is_running && !self.assignments[number].has_ended() && began.elapsed() < NOTICE_DEADLINE {
                std::thread::sleep(GLANCE);
            }
            self.join(number);
            let entry = match self.assignments[number].phase {
                ProgramPhase::Waiting(Entry::Begin) => Entry::Begin,
                _ => Entry::Recover,
            };
            self.assignments[number].phase = ProgramPhase::Waiting(entry);
        }
    }

    /// The end of a program's thread, if it has one.
    fn join(&mut self, number: usize) {
        let phase = std::mem::replace(&mut self.assignments[number].phase, ProgramPhase::Stopped);
        match phase {
            ProgramPhase::Working(thread) | ProgramPhase::Comparing(thread) if !thread.is_finished() => {
                self.complain(format!("program {number} hangs"));
            }
            ProgramPhase::Working(thread) | ProgramPhase::Comparing(thread) => {
                if thread.join().is_err() {
                    self.complain(format!("program {number} panicked"));
                }
            }
            other => self.assignments[number].phase = other,
        }
    }

    /// Has these programs end on mounts that go on. Did they?
    ///
    /// # Errors
    /// Chaos itself cannot go on.
    pub fn stop_programs(&mut self, is_meant: impl Fn(usize, &Assignment) -> bool) -> Result<bool> {
        self.wait_for_programs()?;
        let meant: Vec<usize> =
            (0..self.assignments.len()).filter(|number| is_meant(*number, &self.assignments[*number])).collect();
        for number in &meant {
            self.assignments[*number].is_stopping.store(true, Ordering::Relaxed);
        }
        let have_ended = self.wait_until("programs end", |chaos| {
            Ok(meant.iter().all(|number| chaos.assignments[*number].has_worked()))
        })?;
        if have_ended {
            meant.into_iter().for_each(|number| self.join(number));
        }
        Ok(have_ended)
    }

    /// Waits until all programs work.
    ///
    /// # Errors
    /// Chaos itself cannot go on.
    pub fn wait_for_programs(&mut self) -> Result<()> {
        let works = |program: &Assignment| matches!(program.phase, ProgramPhase::Working(_));
        self.wait_until("programs run", |chaos| Ok(chaos.assignments.iter().all(works))).map(drop)
    }
}
