//! A folder for one test, with the volume in it and the `weft` program to drive it.

pub mod caring;
pub mod faulty_helper;
pub mod network;
pub mod served;

use rustix::process::{Pid, Signal};
use std::ffi::OsStr;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// One test of a program at a time: what one starts holds, until it has become `weft`, copies of descriptors that another
/// has open, and a mount with open files cannot be unmounted.
static ALONE: Mutex<()> = Mutex::new(());

/// Removed, unmounted first, when dropped.
pub struct Sandbox {
    root: TempDir,
    disks: Mutex<Vec<String>>,
    _alone: MutexGuard<'static, ()>,
}

/// What the program said.
pub struct Said {
    pub success: bool,
    /// The exit status; none after a signal.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Sandbox {
    /// An empty folder, in memory where this machine has that: node folders sync every shard.
    pub fn empty() -> Self {
        let memory = Path::new("/dev/shm");
        Self::empty_in(&if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() })
    }

    /// An empty folder in another.
    pub fn empty_in(parent: &Path) -> Self {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let root = tempfile::Builder::new().prefix("weft-test-").tempdir_in(parent).expect("a folder for the test");
        std::fs::create_dir(root.path().join("mnt")).expect("a mount point");
        Self { root, disks: Mutex::default(), _alone: alone }
    }

    /// With a volume of six nodes, not mounted.
    pub fn with_volume(policy: &str) -> Self {
        let sandbox = Self::empty();
        sandbox.make_volume(policy);
        sandbox
    }

    /// Makes a volume of six nodes.
    pub fn make_volume(&self, policy: &str) {
        self.weft(["format", "--policy", policy, self.meta()]).ok();
        for number in 1..=6 {
            let name = number.to_string();
            self.weft(["node", "add", self.meta(), &name, &self.path(&format!("node{number}"))]).ok();
        }
    }

    /// With a mounted volume of six nodes.
    pub fn mounted(policy: &str) -> Self {
        let sandbox = Self::with_volume(policy);
        sandbox.mount();
        sandbox
    }

    pub fn mount(&self) {
        self.mount_by(self.command(["mount", "-d", self.meta(), &self.mnt()]));
    }

    /// Mounts by a command of one's own.
    pub fn mount_by(&self, mut command: Command) {
        assert!(Path::new("/dev/fuse").exists(), "this test needs /dev/fuse: load the kernel module (modprobe fuse)");
        Said::from(command.output().expect("weft runs")).ok();
    }

    pub fn umount(&self) {
        self.weft(["umount", &self.mnt()]).ok();
    }

    pub fn path(&self, name: &str) -> String {
        self.root.path().join(name).to_str().expect("UTF-8").to_owned()
    }

    /// A folder on a disk of its own with `mib` MiB: nobody else uses its room.
    pub fn disk(&self, name: &str, mib: usize) -> String {
        let path = self.path(name);
        std::fs::create_dir(&path).expect("made");
        let options = format!("size={mib}m");
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "weft-test", &path]).status();
        assert!(mount.expect("mount runs").success(), "this test mounts a tmpfs: it needs root");
        self.disks.lock().unwrap_or_else(PoisonError::into_inner).push(path.clone());
        path
    }

    /// The metadata file.
    pub fn meta(&self) -> &'static str {
        // Commands run in the sandbox's folder.
        "meta.db"
    }

    /// The mount point.
    pub fn mnt(&self) -> String {
        self.path("mnt")
    }

    /// A path below the mount point.
    pub fn file(&self, name: &str) -> PathBuf {
        self.root.path().join("mnt").join(name)
    }

    pub fn command<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weft"));
        command.args(arguments).current_dir(self.root.path());
        command
    }

    pub fn weft<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Said {
        self.command(arguments).output().expect("weft runs").into()
    }

    /// Deletes a folder that others may be writing to, as a user does: again, until it is gone.
    pub fn wipe(&self, folder: &str) {
        let folder = self.path(folder);
        until("it is deleted", || std::fs::remove_dir_all(&folder).is_ok() || !Path::new(&folder).exists());
    }

    /// The process that serves the mount.
    pub fn mount_process(&self) -> u32 {
        let text = std::fs::read_to_string(self.path("meta.db-owner")).expect("an owner file");
        let line = text.lines().find_map(|line| line.strip_prefix("process ")).expect("its process");
        line.parse().expect("a number")
    }

    /// What is done while the process that serves the mount stands still.
    pub fn beside_stopped_mount<T>(&self, done: impl FnOnce() -> T) -> T {
        let number = self.mount_process();
        let process = Pid::from_raw(number.cast_signed()).expect("a process");
        let threads = format!("/proc/{number}/task");
        let is_stopped = |stat: String| stat.rsplit(") ").next().is_some_and(|state| state.starts_with('T'));
        rustix::process::kill_process(process, Signal::STOP).expect("stopped");
        until("it stands still", || {
            let mut stats = std::fs::read_dir(&threads).expect("its threads").flatten().map(|thread| {
                // A thread may end meanwhile.
                std::fs::read_to_string(thread.path().join("stat")).is_ok_and(is_stopped)
            });
            stats.all(|stopped| stopped)
        });
        let done = done();
        rustix::process::kill_process(process, Signal::CONT).expect("goes on");
        done
    }

    /// As a crash does, and takes away what it leaves.
    pub fn kill_mount(&self) {
        let process = Pid::from_raw(self.mount_process().cast_signed()).expect("a process");
        rustix::process::kill_process(process, Signal::KILL).expect("killed");
        until("it is gone", || rustix::process::test_kill_process(process).is_err());
        let _ = self.weft(["umount", "--force", &self.mnt()]);
    }
}

/// Set when dropped: threads that go by it end also where the test fails.
pub struct SetAtEnd<'f>(pub &'f AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        // Whatever state a failed test has left; nothing to do where nothing is mounted.
        for mountpoint in ["mnt", "try/mnt", "look1", "look2"] {
            let _ = self.command(["umount", "--force", mountpoint]).output();
        }
        for disk in self.disks.get_mut().unwrap_or_else(PoisonError::into_inner).drain(..) {
            let _ = Command::new("umount").arg("--lazy").arg(disk).output();
        }
    }
}

impl From<Output> for Said {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        Self {
            success: output.status.success(),
            code: output.status.code(),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }
}

impl Said {
    /// It worked; gives what it printed.
    #[track_caller]
    pub fn ok(self) -> String {
        assert!(self.success, "weft failed: {}", self.stderr);
        self.stdout
    }

    /// It failed with one sentence; gives that.
    #[track_caller]
    pub fn sentence(self) -> String {
        assert!(!self.success, "weft did not fail, it said: {}", self.stdout);
        let sentence = self.stderr.strip_prefix("weft: ").unwrap_or_else(|| panic!("not by weft: {}", self.stderr));
        let sentence = sentence.strip_suffix('\n').expect("a whole line");
        assert!(!sentence.contains('\n'), "more than one line: {sentence}");
        sentence.to_owned()
    }
}

/// Where a daemon of this process may listen, at a port that the system chooses. No other test has the address, so that it can be
/// listened at again.
pub fn any_port() -> String {
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    format!("127.{high}.{middle}.{low}:0")
}

/// An address of this machine at which nothing listens yet.
pub fn free_address() -> String {
    let free = TcpListener::bind(any_port()).and_then(|free| free.local_addr());
    free.expect("a free port").to_string()
}

/// The whole answer to a GET, head included; `None` if there is none.
pub fn http_get(address: &str, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {address}\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

/// Waits until it is so, and says how long; generous, for busy machines.
#[track_caller]
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) -> Duration {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(90), "never: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
    began.elapsed()
}
