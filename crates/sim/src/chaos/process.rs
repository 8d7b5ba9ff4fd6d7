//! A process that chaos has started, commands that must end in time, and what keeps them apart from the programs.

use anyhow::{Context, Result, bail};
use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{File, OpenOptions};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often something is looked at that takes time.
pub const GLANCE: Duration = Duration::from_millis(20);

/// Killed when dropped.
pub struct Process {
    name: String,
    child: Child,
}

impl Process {
    /// Starts it; what it says goes to `NAME.log` in the folder of logs.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(mut command: Command, name: &str, logs: &Path) -> Result<Self> {
        let log = log_file(&logs.join(format!("{name}.log")))?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        // A Ctrl-C at the terminal is for chaos alone, which then ends everything in order.
        let child = command.process_group(0).spawn().with_context(|| format!("{command:?} cannot be started"))?;
        Ok(Self { name: name.to_owned(), child })
    }

    /// What it is called in the log.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal; nothing happens if it has ended.
    pub fn signal(&self, signal: Signal) {
        let _ = kill_process(Pid::from_child(&self.child), signal);
    }

    /// Ends it at once, and waits until nothing of it is left.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// How it has ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Waits for its end.
    pub fn wait(&mut self, deadline: Duration) -> Option<ExitStatus> {
        let began = Instant::now();
        while began.elapsed() < deadline {
            if let Some(status) = self.ended() {
                return Some(status);
            }
            std::thread::sleep(GLANCE);
        }
        None
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

fn log_file(path: &Path) -> Result<File> {
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .with_context(|| format!("{} cannot be made", path.display()))
}

/// Runs a command to its end, which must come before the deadline.
///
/// # Errors
/// It cannot be started, or does not end in time.
pub fn output_of(mut command: Command, deadline: Duration) -> Result<Output> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .with_context(|| format!("{command:?} cannot be started"))?;
    let watched = Pid::from_child(&child);
    // Its pipes are read by a thread, so that a command that says much does not wait for us.
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let readers = [std::thread::spawn(move || read_all(stdout)), std::thread::spawn(move || read_all(stderr))];
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if began.elapsed() > deadline {
            let _ = kill_process(watched, Signal::KILL);
            let _ = child.wait();
            bail!("{} has not ended after {} s", words(&command), deadline.as_secs());
        }
        std::thread::sleep(GLANCE);
    };
    let [stdout, stderr] = readers.map(|reader| reader.join().unwrap_or_default());
    Ok(Output { status, stdout, stderr })
}

fn read_all(pipe: Option<impl std::io::Read>) -> Vec<u8> {
    let mut all = Vec::new();
    if let Some(mut pipe) = pipe {
        let _ = pipe.read_to_end(&mut all);
    }
    all
}

/// Runs a command that must succeed; gives what it printed.
///
/// # Errors
/// It does not.
pub fn must(command: Command, deadline: Duration) -> Result<String> {
    let name = words(&command);
    let Output { status, stdout, stderr } = output_of(command, deadline)?;
    if !status.success() {
        bail!("{name} ended with {status}: {}", String::from_utf8_lossy(&stderr).trim());
    }
    Ok(String::from_utf8_lossy(&stdout).into_owned())
}

/// The command as one would type it.
pub fn words(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// From now on mounts of this thread, and of those that it starts, are their own, and end with them. Another process that makes a namespace of mounts gets
/// copies of all otherwise, and a disk whose power was cut stays as it is as long as a copy is there.
///
/// # Errors
/// The kernel's.
#[allow(unsafe_code)]
pub fn own_mounts() -> std::io::Result<()> {
    // SAFETY: nothing of this process depends on which namespace it is in.
    if unsafe { libc::unshare(libc::CLONE_NEWNS) } != 0 {
        return Err(std::io::Error::last_os_error());
    }
    Ok(mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?)
}

/// Starts a thread of a program.
pub fn start_thread(what: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    let (begun, begins) = channel();
    let thread = std::thread::spawn(move || {
        own_descriptors().expect("a thread may have its own descriptors");
        // Without a receiver the run is over.
        let _ = begun.send(());
        what();
    });
    // A process that is started meanwhile has pipes that the thread would keep open.
    let _ = begins.recv();
    thread
}

/// From now on descriptors are this thread's own. A process that another thread starts would get them otherwise, and close them as it starts:
/// each close of a file waits for its mount.
///
/// # Errors
/// The kernel's.
#[allow(unsafe_code)]
fn own_descriptors() -> std::io::Result<()> {
    // SAFETY: descriptors that are open now stay the same in both tables, and none that is opened later leaves its thread.
    let answer = unsafe { libc::unshare(libc::CLONE_FILES) };
    if answer == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}
