//! A rig: a real volume, or a store of objects without one, over real daemons, behind emulated lines or on this machine's own, driven through the program as its users
//! drive it: by commands, or mounted.
//!
//! This is where experiments with real transfers read the clock: the time of a command is that of its process, its start and
//! end included (some hundredths of a second).

use crate::line::{Cable, Line, Relay};
use crate::process::{self, Taken};
use rand::RngCore;
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
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
    /// A server of metadata that several mounts reach: `postgres://USER@HOST:PORT/DATABASE` or `etcd://HOST:PORT`. Volumes are made there
    /// beside each other, and stay.
    pub server: Option<String>,
}

/// A daemon is given this long to say where it listens.
const START: Duration = Duration::from_secs(30);

/// A volume over daemons, or over folders.
pub struct Rig {
    bench: Bench,
    /// Where its metadata is, as commands name it.
    meta: String,
    /// The client's own line, which all its requests share.
    pub client: Arc<Cable>,
    nodes: Vec<Served>,
    started: usize,
    /// Below the client's folder.
    mounted: Vec<String>,
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

    /// The same with metadata on the bench's server, so that several mounts may share the volume.
    ///
    /// # Errors
    /// As [`Rig::start`]; the bench has no server.
    pub fn on_server(bench: &Bench, code: &str, count: usize) -> Result<Rig, String> {
        let server =
            bench.server.as_ref().ok_or("it needs a server that several mounts reach: name one with --server")?;
        let mut rig = Rig::empty(bench, code, Line::unlimited(), |folder| volume_on(server, folder))?;
        (0..count).try_for_each(|_| rig.add_daemon(None))?;
        Ok(rig)
    }

    /// A volume over folders, without daemons, and with its metadata in a file.
    ///
    /// # Errors
    /// As [`Rig::start`].
    pub fn over_folders(bench: &Bench, code: &str, count: usize) -> Result<Rig, String> {
        let rig = Rig::empty(bench, code, Line::unlimited(), |_| META.to_owned())?;
        (0..count).try_for_each(|index| {
            let name = node_name(index);
            rig.weft(["node", "add", META, &name, &folder_name(&name)]).map(drop)
        })?;
        Ok(rig)
    }

    /// A store of objects over a daemon for each of `cables`; all of them know each other.
    ///
    /// # Errors
    /// As [`Rig::start`].
    pub fn of_objects(bench: &Bench, cables: &[Arc<Cable>], client: Line) -> Result<Rig, String> {
        let mut rig = Rig::without_volume(bench, client, |_| String::new())?;
        cables.iter().try_for_each(|cable| rig.add_member(cable.clone()))?;
        let began = Instant::now();
        while rig.alive_count()? < cables.len() {
            if began.elapsed() > START {
                return Err("daemons do not find each other".to_owned());
            }
            thread::sleep(Duration::from_millis(50));
        }
        Ok(rig)
    }

    fn over(
        bench: &Bench,
        code: &str,
        cables: impl Iterator<Item = Option<Arc<Cable>>>,
        client: Line,
    ) -> Result<Rig, String> {
        let mut rig = Rig::empty(bench, code, client, |_| META.to_owned())?;
        cables.into_iter().try_for_each(|cable| rig.add_daemon(cable))?;
        Ok(rig)
    }

    /// A volume without nodes.
    fn empty(bench: &Bench, code: &str, client: Line, meta: impl FnOnce(&Path) -> String) -> Result<Rig, String> {
        let rig = Rig::without_volume(bench, client, meta)?;
        rig.weft(["format", &rig.meta, "--policy", code])?;
        Ok(rig)
    }

    fn without_volume(bench: &Bench, client: Line, meta: impl FnOnce(&Path) -> String) -> Result<Rig, String> {
        let folder = TempDir::with_prefix_in("weft-lab-", &bench.folder).map_err(named("a folder", &bench.folder))?;
        let (bench, client, meta) = (bench.clone(), Cable::new(client), meta(folder.path()));
        Ok(Rig { bench, meta, client, nodes: Vec::new(), started: 0, mounted: Vec::new(), folder })
    }

    fn add_daemon(&mut self, cable: Option<Arc<Cable>>) -> Result<(), String> {
        let served = self.serve_node(cable)?;
        self.weft(["node", "add", &self.meta, &node_name(self.nodes.len()), &served.url()])?;
        self.nodes.push(served);
        Ok(())
    }

    /// A member of a store of objects. It says that it is at the end of its line, so that begins first.
    fn add_member(&mut self, cable: Arc<Cable>) -> Result<(), String> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
        let listen = listener.map_err(|error| format!("no port is free: {error}"))?;
        let relay = self.relay(listen, &cable)?;
        let (listen, advertised) = (listen.to_string(), relay.address().to_string());
        let join = self.nodes.first().map(Served::url);
        let mut arguments = vec!["--listen", &*listen, "--advertise", &advertised, "--cluster-key", KEY, "--objects"];
        arguments.extend(join.iter().flat_map(|url| ["--join", url]));
        let mut served = self.serve(&arguments)?;
        (served.address, served.line) = (relay.address(), Some((relay, cable)));
        self.nodes.push(served);
        Ok(())
    }

    /// Members that the first one knows to be alive.
    fn alive_count(&self) -> Result<usize, String> {
        let from = self.nodes.first().map_or_else(String::new, Served::url);
        let listed = self.weft(["node", "list", "--from", &from, "--cluster-key", KEY, "--json"])?.stdout;
        let members: Vec<serde_json::Value> = serde_json::from_slice(&listed).map_err(|error| error.to_string())?;
        Ok(members.iter().filter(|member| member["state"] == "alive" && member["node"] != "").count())
    }

    /// Runs `weft object` with these arguments, which gives the bytes that it prints nowhere.
    ///
    /// # Errors
    /// A sentence, where it cannot be started.
    pub fn spawn_object(&self, arguments: &[&str]) -> Result<Child, String> {
        let from = self.nodes.iter().take(3).map(Served::url).collect::<Vec<_>>().join(",");
        self.spawn([&["object"], arguments, &["--from", &from, "--cluster-key", KEY]].concat())
    }

    /// Where the volume's metadata is, as commands name it.
    #[must_use]
    pub fn meta(&self) -> &str {
        &self.meta
    }

    /// Mounts the volume; files are below [`Rig::mount_point`].
    ///
    /// # Errors
    /// What the program said, where it failed.
    pub fn mount(&mut self) -> Result<(), String> {
        self.mount_by(MOUNT_POINT, &[])
    }

    /// Mounts the volume `count` times, all of which change it; files are below [`Rig::mount_points`].
    ///
    /// # Errors
    /// What the program said, where it failed.
    pub fn mount_together(&mut self, count: usize) -> Result<(), String> {
        (0..count).try_for_each(|number| self.mount_by(&format!("{MOUNT_POINT}{number}"), &["--shared"]))
    }

    fn mount_by(&mut self, name: &str, flags: &[&str]) -> Result<(), String> {
        fs::create_dir_all(self.path(name)).map_err(named("a folder", &self.path(name)))?;
        self.weft([&["mount", "--background"], flags, &[&*self.meta, name]].concat())?;
        self.mounted.push(name.to_owned());
        Ok(())
    }

    /// Ends all mounts when everything is on the nodes. What the kernel has kept of the files goes with them.
    ///
    /// # Errors
    /// What the program said, where it failed.
    pub fn umount(&mut self) -> Result<(), String> {
        while let Some(name) = self.mounted.last() {
            self.weft(["umount", name])?;
            self.mounted.pop();
        }
        Ok(())
    }

    /// Where the volume is mounted.
    #[must_use]
    pub fn mount_point(&self) -> PathBuf {
        self.path(MOUNT_POINT)
    }

    /// Where [`Rig::mount_together`] has mounted it.
    #[must_use]
    pub fn mount_points(&self) -> Vec<PathBuf> {
        self.mounted.iter().map(|name| self.path(name)).collect()
    }

    /// The process of the mount of a volume whose metadata is in a file.
    ///
    /// # Errors
    /// A sentence, where no process has it.
    pub fn mount_process(&self) -> Result<u32, String> {
        let path = self.path(&format!("{}-owner", self.meta));
        let text = fs::read_to_string(&path).map_err(named("a note", &path))?;
        let number = text.lines().find_map(|line| line.strip_prefix("process ")?.parse().ok());
        number.ok_or_else(|| format!("{} names no process", path.display()))
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
        let served = self.serve_node(cable)?;
        self.weft(["node", "replace", &self.meta, &node_name(node), &served.url()])?;
        self.nodes[node] = served;
        Ok(())
    }

    /// Deletes the folder of a node of [`Rig::over_folders`], and puts an empty one in its place.
    ///
    /// # Errors
    /// A sentence, where it cannot be deleted or the new one is refused.
    pub fn lose_folder(&self, node: usize) -> Result<(), String> {
        let name = node_name(node);
        let folder = self.path(&folder_name(&name));
        fs::remove_dir_all(&folder).map_err(named("a folder", &folder))?;
        self.weft(["node", "replace", &self.meta, &name, &format!("new-{}", folder_name(&name))]).map(drop)
    }

    /// Takes away the folder of a node of [`Rig::over_folders`], as when its disk is unplugged.
    ///
    /// # Errors
    /// A sentence, where it cannot be taken away.
    pub fn unplug_folder(&self, node: usize) -> Result<(), String> {
        let [folder, unplugged] = self.folder_and_elsewhere(node);
        fs::rename(&folder, unplugged).map_err(named("a folder", &folder))
    }

    /// Brings back what [`Rig::unplug_folder`] took away.
    ///
    /// # Errors
    /// A sentence, where it cannot be brought back.
    pub fn plug_folder(&self, node: usize) -> Result<(), String> {
        let [folder, unplugged] = self.folder_and_elsewhere(node);
        fs::rename(unplugged, &folder).map_err(named("a folder", &folder))
    }

    fn folder_and_elsewhere(&self, node: usize) -> [PathBuf; 2] {
        let name = folder_name(&node_name(node));
        [self.path(&name), self.path(&format!("unplugged-{name}"))]
    }

    /// Runs a command as [`Rig::weft_to_nowhere`] does, and measures its process. Status 2 and 3 say that something is left to do.
    ///
    /// # Errors
    /// What the program said, where it failed.
    pub fn measure<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Result<Taken, String> {
        let complaints = self.path("complaints");
        let file = File::create(&complaints).map_err(named("a file", &complaints))?;
        let mut command = self.command(arguments);
        command.stdout(Stdio::null()).stderr(file);
        let (status, taken) = process::measure(&mut command).map_err(named("the program", &self.bench.program))?;
        match status.code() {
            Some(0 | 2 | 3) => Ok(taken),
            _ => Err(fs::read_to_string(&complaints).unwrap_or_default().trim().to_owned()),
        }
    }

    /// Starts a command as a client on another machine does, whose host has this name, and gives its bytes nowhere.
    ///
    /// # Errors
    /// A sentence, where it cannot be started: only root may give a process a host name of its own.
    pub fn spawn_elsewhere(&self, host: &str, arguments: &[&str]) -> Result<Child, String> {
        let mut command = Command::new("unshare");
        command.args(["--uts", "sh", "-c", "hostname \"$0\" && exec \"$@\"", host]).arg(&self.bench.program);
        self.at_home(command.args(arguments));
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        command.spawn().map_err(|error| format!("`unshare` (util-linux) cannot be run: {error}"))
    }

    fn command<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Command {
        let mut command = Command::new(&self.bench.program);
        self.at_home(command.args(arguments));
        command
    }

    /// In the client's folder, which also has what programs note of volumes on servers.
    fn at_home(&self, command: &mut Command) {
        command.current_dir(self.folder.path()).env("XDG_STATE_HOME", self.path("state")).stdin(Stdio::null());
    }

    /// A daemon of a volume's node, with an empty folder of its own.
    fn serve_node(&mut self, cable: Option<Arc<Cable>>) -> Result<Served, String> {
        let mut served = self.serve(&["--listen", "127.0.0.1:0"])?;
        if let Some(cable) = cable {
            let relay = self.relay(served.address, &cable)?;
            (served.address, served.line) = (relay.address(), Some((relay, cable)));
        }
        Ok(served)
    }

    fn relay(&self, to: SocketAddr, cable: &Arc<Cable>) -> Result<Relay, String> {
        Relay::start(to, [self.client.clone(), cable.clone()])
            .map_err(|error| format!("a line cannot be made: {error}"))
    }

    fn serve(&mut self, arguments: &[&str]) -> Result<Served, String> {
        let (folder, log) = (format!("served{}", self.started), self.path(&format!("served{}.log", self.started)));
        self.started += 1;
        fs::create_dir(self.path(&folder)).map_err(named("a folder", &self.path(&folder)))?;
        let output = File::create(&log).map_err(named("a file", &log))?;
        let mut command = self.command([&["node", "serve", &folder], arguments].concat());
        command.stderr(output.try_clone().map_err(named("a file", &log))?).stdout(output);
        let process = command.spawn().map_err(named("the program", &self.bench.program))?;
        // From here on the daemon ends with it, whatever fails.
        let mut served = Served { process, address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), line: None };
        served.address = listening(&mut served.process, &log)?;
        Ok(served)
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        for name in &self.mounted {
            // Daemons may be gone: what is mounted must not keep the folder.
            let _ = self.command(["umount", "--force", name]).output();
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

/// Metadata in a file of the client's folder.
const META: &str = "meta";

/// The key of a cluster that keeps objects.
const KEY: &str = "cluster-key";

/// A place of its own on a server, named by the rig's folder.
fn volume_on(server: &str, folder: &Path) -> String {
    let name = folder.file_name().map_or_else(String::new, |name| name.to_string_lossy().to_lowercase());
    let name: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if server.starts_with("etcd:") { format!("{server}/{name}") } else { format!("{server}?schema={name}") }
}

fn node_name(index: usize) -> String {
    format!("n{index}")
}

fn folder_name(node: &str) -> String {
    format!("folder-{node}")
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
