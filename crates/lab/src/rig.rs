//! A rig: a real volume over real daemons, behind emulated lines or on this machine's own, driven through the program as its users
//! drive it: by commands, or mounted.
//!
//! This is where experiments with real transfers read the clock: the time of a command is that of its process, its start and
//! end included (some hundredths of a second).

use crate::line::{Cable, Line, Relay};
use rand::RngCore;
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// What an experiment with real transfers is measured with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bench {
    /// The program `weft`.
    pub program: PathBuf,
    /// A folder for volumes and nodes; what is made in it is removed again.
    pub folder: PathBuf,
}

/// A daemon is given this long to say where it listens.
const START: Duration = Duration::from_secs(30);

/// A volume over daemons.
pub struct Rig {
    bench: Bench,
    /// The client's own line, which all its requests share.
    pub client: Arc<Cable>,
    nodes: Vec<Served>,
    started: usize,
    is_mounted: bool,
    // Last, so that it is removed after the daemons have ended.
    folder: TempDir,
}

/// A daemon, at the end of a line or not. It is killed when it is dropped.
struct Served {
    process: Child,
    /// Where the client reaches it.
    address: SocketAddr,
    line: Option<(Relay, Arc<Cable>)>,
}

impl Drop for Served {
    fn drop(&mut self) {
        // One that has ended already cannot be killed.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What a command did.
pub struct Done {
    /// From its start to its end.
    pub seconds: f64,
    /// What it printed.
    pub stdout: Vec<u8>,
}

impl Rig {
    /// A volume with the policy `code` over a daemon for each of `cables`, used by a client with a line of its own.
    ///
    /// # Errors
    /// A sentence, where a daemon or the volume cannot be made.
    pub fn start(bench: &Bench, code: &str, cables: &[Arc<Cable>], client: Line) -> Result<Rig, String> {
        Rig::over(bench, code, cables.iter().cloned().map(Some), client)
    }

    /// The same over `count` daemons without emulated lines: this machine is the limit.
    ///
    /// # Errors
    /// As [`Rig::start`].
    pub fn without_lines(bench: &Bench, code: &str, count: usize) -> Result<Rig, String> {
        Rig::over(bench, code, (0..count).map(|_| None), Line::unlimited())
    }

    fn over(
        bench: &Bench,
        code: &str,
        cables: impl Iterator<Item = Option<Arc<Cable>>>,
        client: Line,
    ) -> Result<Rig, String> {
        let folder = TempDir::with_prefix_in("weft-lab-", &bench.folder).map_err(named("a folder", &bench.folder))?;
        let (bench, client) = (bench.clone(), Cable::new(client));
        let mut rig = Rig { bench, client, nodes: Vec::new(), started: 0, is_mounted: false, folder };
        rig.weft(["format", "meta", "--policy", code])?;
        for (index, cable) in cables.enumerate() {
            let served = rig.serve(cable)?;
            rig.weft(["node", "add", "meta", &node_name(index), &served.url()])?;
            rig.nodes.push(served);
        }
        Ok(rig)
    }

    /// Mounts the volume; files are below [`Rig::mount_point`].
    ///
    /// # Errors
    /// What the program said, where it failed.
    pub fn mount(&mut self) -> Result<(), String> {
        fs::create_dir_all(self.mount_point()).map_err(named("a folder", &self.mount_point()))?;
        self.weft(["mount", "--background", "meta", MOUNT_POINT])?;
        self.is_mounted = true;
        Ok(())
    }

    /// Ends the mount when everything is on the nodes. What the kernel has kept of the files goes with it.
    ///
    /// # Errors
    /// What the program said, where it failed.
    pub fn umount(&mut self) -> Result<(), String> {
        self.weft(["umount", MOUNT_POINT])?;
        self.is_mounted = false;
        Ok(())
    }

    /// Where the volume is mounted.
    #[must_use]
    pub fn mount_point(&self) -> PathBuf {
        self.path(MOUNT_POINT)
    }

    /// A path of a file of the client.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Makes a file of the client, of `count` random bytes: neither a disk nor a line can make them fewer.
    ///
    /// # Errors
    /// A sentence.
    pub fn write_random(&self, name: &str, count: usize, random: &mut impl RngCore) -> Result<(), String> {
        let mut bytes = vec![0; count];
        random.fill_bytes(&mut bytes);
        fs::write(self.path(name), bytes).map_err(named("a file", &self.path(name)))
    }

    /// Runs a command of the program in the client's folder; `meta` is the volume.
    ///
    /// # Errors
    /// What the program said, where it failed.
    pub fn weft<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Result<Done, String> {
        let began = Instant::now();
        let output = self.command(arguments).output().map_err(named("the program", &self.bench.program))?;
        let seconds = began.elapsed().as_secs_f64();
        said(output).map(|stdout| Done { seconds, stdout })
    }

    /// Runs a command as [`Rig::weft`] does, and drops what it prints, which may be the bytes of a file.
    ///
    /// # Errors
    /// What the program said, where it failed.
    pub fn weft_to_nowhere<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Result<f64, String> {
        let began = Instant::now();
        let child = self.spawn(arguments)?;
        child.wait_with_output().map_err(named("the program", &self.bench.program)).and_then(said)?;
        Ok(began.elapsed().as_secs_f64())
    }

    /// Starts a command whose bytes go nowhere.
    ///
    /// # Errors
    /// A sentence, where it cannot be started.
    pub fn spawn<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Result<Child, String> {
        let mut command = self.command(arguments);
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        command.spawn().map_err(named("the program", &self.bench.program))
    }

    /// Kills the daemon of a node; its line leads nowhere from now on.
    ///
    /// # Errors
    /// A sentence, where the process cannot be ended.
    pub fn kill(&mut self, node: usize) -> Result<(), String> {
        let process = &mut self.nodes[node].process;
        process.kill().and_then(|()| process.wait()).map_err(|error| format!("a daemon cannot be ended: {error}"))?;
        Ok(())
    }

    /// Stops the daemon of a node: it takes connections and answers nothing, as a machine does that hangs.
    ///
    /// # Errors
    /// A sentence, where the process cannot be stopped.
    pub fn silence(&mut self, node: usize) -> Result<(), String> {
        let process = Pid::from_child(&self.nodes[node].process);
        kill_process(process, Signal::STOP).map_err(|error| format!("a daemon cannot be stopped: {error}"))
    }

    /// Puts an empty daemon in the place of a node, behind the same line.
    ///
    /// # Errors
    /// A sentence, where it cannot be started or is refused.
    pub fn replace(&mut self, node: usize) -> Result<(), String> {
        let cable = self.nodes[node].line.as_ref().map(|(_, cable)| cable.clone());
        let served = self.serve(cable)?;
        self.weft(["node", "replace", "meta", &node_name(node), &served.url()])?;
        self.nodes[node] = served;
        Ok(())
    }

    fn command<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Command {
        let mut command = Command::new(&self.bench.program);
        command.args(arguments).current_dir(self.folder.path()).stdin(Stdio::null());
        command
    }

    /// A daemon with an empty folder of its own.
    fn serve(&mut self, cable: Option<Arc<Cable>>) -> Result<Served, String> {
        let (folder, log) = (format!("served{}", self.started), self.path(&format!("served{}.log", self.started)));
        self.started += 1;
        fs::create_dir(self.path(&folder)).map_err(named("a folder", &self.path(&folder)))?;
        let output = File::create(&log).map_err(named("a file", &log))?;
        let mut command = self.command(["node", "serve", &folder, "--listen", "127.0.0.1:0"]);
        command.stderr(output.try_clone().map_err(named("a file", &log))?).stdout(output);
        let process = command.spawn().map_err(named("the program", &self.bench.program))?;
        // From here on the daemon ends with it, whatever fails.
        let mut served = Served { process, address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), line: None };
        served.address = listening(&mut served.process, &log)?;
        if let Some(cable) = cable {
            let relay = Relay::start(served.address, [self.client.clone(), cable.clone()]);
            let relay = relay.map_err(|error| format!("a line cannot be made: {error}"))?;
            served.address = relay.address();
            served.line = Some((relay, cable));
        }
        Ok(served)
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        if self.is_mounted {
            // Daemons may be gone: what is mounted must not keep the folder.
            let _ = self.command(["umount", "--force", MOUNT_POINT]).output();
        }
    }
}

impl Served {
    fn url(&self) -> String {
        format!("weft://{}", self.address)
    }
}

/// Below the client's folder.
const MOUNT_POINT: &str = "mnt";

fn node_name(index: usize) -> String {
    format!("n{index}")
}

/// Waits until a daemon says where it listens.
fn listening(process: &mut Child, log: &Path) -> Result<SocketAddr, String> {
    let began = Instant::now();
    loop {
        let text = fs::read_to_string(log).map_err(named("a file", log))?;
        if let Some(address) = text.lines().find_map(address) {
            return Ok(address);
        }
        let has_ended = process.try_wait().map_err(|error| error.to_string())?.is_some();
        if has_ended || began.elapsed() > START {
            return Err(format!("a daemon does not listen: {}", text.trim()));
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// The address in `Serving file:///... at weft://127.0.0.1:7600 (...)`.
fn address(line: &str) -> Option<SocketAddr> {
    line.split_whitespace().find_map(|word| word.strip_prefix("weft://"))?.parse().ok()
}

/// What a command printed. Status 2 with a report: it did its work, and something is left to do.
fn said(output: Output) -> Result<Vec<u8>, String> {
    match output.status.code() {
        Some(0) => Ok(output.stdout),
        Some(2) if !output.stdout.is_empty() => Ok(output.stdout),
        _ => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
    }
}

fn named(what: &str, path: &Path) -> impl FnOnce(io::Error) -> String {
    let text = format!("{what} ({})", path.display());
    move |error| format!("{text} cannot be used: {error}")
}
