//! Machines: one for each mount, one with a worker, one with the metadata's server if there are several mounts, and one for each node;
//! each with a network of its own. The metadata of a single mount is a file on a disk of its machine.

use super::clocks::Clocks;
use super::disk::{Disk, FileSystem};
use super::network::Network;
use super::process::{Process, must, output_of};
use super::server::Server;
use anyhow::{Context, Result, bail};
use rustix::process::Signal;
use serde_json::Value;
use std::ffi::{OsStr, OsString};
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// The machine of the first mount, from which commands are given.
const OF_COMMANDS: usize = 0;

const DISK_BYTES: u64 = 1 << 30;
/// Of one command that neither waits for nodes nor for a lease.
const COMMAND_DEADLINE: Duration = Duration::from_secs(60);

/// Of what the cluster consists.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The code of the root directory. Each survives two losses.
    pub code: &'static str,
    /// Nodes: one more than the code has shards.
    pub nodes: usize,
    /// Mounts, each on a machine of its own. Several have their metadata on a server.
    pub mounts: usize,
    /// Programs on all mounts.
    pub programs: usize,
    /// Do mounts care, too?
    pub mount_cares: bool,
    /// After which silence the worker gives a node up.
    pub give_up_after: &'static str,
    /// Do daemons tell one another who is there?
    pub has_gossip: bool,
    /// Do mounts keep what they read on a disk?
    pub has_cache: bool,
    /// Of all disks.
    pub file_system: FileSystem,
    /// The most time between two faults.
    pub between_ms: u64,
}

/// Codes and the nodes that they need.
const CODES: [(&str, usize); 3] = [("rs:3+2", 6), ("rs:2+2", 5), ("replica:3", 5)];

impl Plan {
    /// Chosen at random, for this number of mounts.
    pub fn of(mounts: usize, mut below: impl FnMut(u64) -> u64) -> Self {
        let (code, nodes) = CODES[below(CODES.len() as u64) as usize];
        Self {
            code,
            nodes,
            mounts,
            programs: mounts + 1 + below(2) as usize,
            mount_cares: below(2) == 0,
            give_up_after: ["8s", "15m"][below(2) as usize],
            has_gossip: below(2) == 0,
            has_cache: below(2) == 0,
            between_ms: [1_000, 4_000, 10_000][below(3) as usize],
            file_system: [FileSystem::Ext4, FileSystem::Xfs][below(2) as usize],
        }
    }
}

/// A process that faults strike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The one behind a mount.
    Mount(usize),
    /// The worker.
    Worker,
    /// The metadata's server.
    Server,
    /// A node's daemon.
    Daemon(usize),
}

struct Node {
    disk: Disk,
    daemon: Option<Process>,
}

/// Everything is ended and unmounted when it is dropped.
pub struct Cluster {
    /// Of what it consists.
    pub plan: Plan,
    /// Where everything is.
    folder: PathBuf,
    weft: PathBuf,
    mounts: Vec<Option<Process>>,
    worker: Option<Process>,
    nodes: Vec<Node>,
    /// If there are several mounts.
    server: Option<Server>,
    server_process: Option<Process>,
    metadata: Disk,
    clocks: Clocks,
    /// The last, since processes end before their machines.
    network: Network,
}

/// Gives commands to a volume, from any thread.
#[derive(Clone)]
pub struct Commander {
    /// The program and what starts it on its machine.
    start: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    folder: PathBuf,
    meta: String,
}

impl Commander {
    /// `weft COMMAND META ARGUMENT...`
    ///
    /// # Errors
    /// It does not end in time.
    pub fn ask(&self, command: &[&str], arguments: &[&str], deadline: Duration) -> Result<Output> {
        let mut asked = Command::new(&self.start[0]);
        asked.args(&self.start[1..]).args(command).arg(&self.meta).args(arguments).current_dir(&self.folder);
        asked.envs(self.environment.iter().cloned());
        output_of(asked, deadline)
    }
}

impl Cluster {
    /// A volume and its daemons, without mounts and a worker.
    ///
    /// # Errors
    /// Something cannot be made.
    pub fn new(folder: &Path, weft: &Path, plan: &Plan) -> Result<Self> {
        let is_shared = plan.mounts > 1;
        let machines = plan.mounts + 2 + plan.nodes;
        let mut cluster = Self {
            plan: plan.clone(),
            folder: folder.to_owned(),
            weft: weft.to_owned(),
            mounts: (0..plan.mounts).map(|_| None).collect(),
            worker: None,
            nodes: Vec::new(),
            server: None,
            server_process: None,
            network: Network::new(machines, is_shared)?,
            metadata: Disk::new(folder.join("metadata"), DISK_BYTES, plan.file_system)?,
            clocks: Clocks::new(folder.join("clocks"), machines)?,
        };
        fs::create_dir(cluster.logs())?;
        (0..plan.mounts).try_for_each(|number| fs::create_dir(cluster.mountpoint(number)))?;
        if is_shared {
            // The server has a user of its own.
            fs::set_permissions(folder, Permissions::from_mode(0o711))?;
            let (machine, disk) = (cluster.machine(Target::Server), cluster.metadata.folder());
            let (server, process) = Server::make(&cluster.network, machine, disk, &cluster.logs())?;
            (cluster.server, cluster.server_process) = (Some(server), Some(process));
        }
        let meta = cluster.meta();
        cluster.must(&["format", "--policy", cluster.plan.code, &meta])?;
        for number in 0..cluster.plan.nodes {
            let disk = Disk::new(cluster.folder.join(format!("node{number}")), DISK_BYTES, plan.file_system)?;
            fs::create_dir(disk.folder().join("shards"))?;
            cluster.nodes.push(Node { disk, daemon: None });
            cluster.start_daemon(number)?;
            let url = format!("weft://{}", cluster.address(number));
            let (name, key) = (format!("node{number}"), key(number));
            cluster.must(&["node", "add", &meta, &name, &url, "--key", &key, "--weight", "1"])?;
        }
        Ok(cluster)
    }

    /// Where a node's daemon listens.
    fn address(&self, number: usize) -> String {
        self.network.address(self.machine(Target::Daemon(number)))
    }

    /// What is missing of machines of their own, as a sentence.
    pub fn shortcomings(&self) -> Vec<&'static str> {
        let mut sentences = Vec::new();
        if !self.network.has_cables() {
            sentences.push("network namespaces cannot be made: everything is on 127.0.0.1, and nothing is cut off");
        }
        if !self.nodes.iter().all(|node| node.disk.is_own()) || !self.metadata.is_own() {
            sentences.push("images of disks cannot be mounted: nodes are plain folders, never full or without power");
        }
        if !self.clocks.can_be_wrong() {
            sentences.push("libfaketime is not installed: clocks are right");
        }
        sentences
    }

    /// Can machines be cut off?
    pub fn has_cables(&self) -> bool {
        self.network.has_cables()
    }

    /// The network.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// The clocks of its machines.
    pub fn clocks(&mut self) -> &mut Clocks {
        &mut self.clocks
    }

    /// Do several machines mount the volume?
    pub fn is_shared(&self) -> bool {
        self.plan.mounts > 1
    }

    /// The machine of a process.
    pub fn machine(&self, target: Target) -> usize {
        match target {
            Target::Mount(number) => number,
            Target::Worker => self.plan.mounts,
            Target::Server => self.plan.mounts + 1,
            Target::Daemon(number) => self.plan.mounts + 2 + number,
        }
    }

    /// Where programs work.
    pub fn mountpoint(&self, number: usize) -> PathBuf {
        self.folder.join(format!("mnt{number}"))
    }

    fn meta(&self) -> String {
        // Commands run in the folder.
        self.server.as_ref().map_or_else(|| "metadata/meta.db".to_owned(), |server| server.url(&self.network))
    }

    fn logs(&self) -> PathBuf {
        self.folder.join("logs")
    }

    /// A node's folder of shards.
    pub fn shards(&self, number: usize) -> PathBuf {
        self.nodes[number].disk.folder().join("shards")
    }

    /// A node's disk.
    pub fn disk(&mut self, number: usize) -> &mut Disk {
        &mut self.nodes[number].disk
    }

    /// The metadata's disk.
    pub fn metadata(&mut self) -> &mut Disk {
        &mut self.metadata
    }

    fn weft(&self, machine: usize, arguments: &[&str]) -> Command {
        let mut command = self.network.command(machine, &self.weft);
        command.args(arguments).current_dir(&self.folder);
        self.clocks.give(machine, &mut command);
        command
    }

    /// A command that must succeed.
    fn must(&self, arguments: &[&str]) -> Result<String> {
        must(self.weft(OF_COMMANDS, arguments), COMMAND_DEADLINE)
    }

    /// Gives commands on the first mount's machine.
    pub fn commander(&self) -> Commander {
        let command = self.weft(OF_COMMANDS, &[]);
        let start = std::iter::once(command.get_program()).chain(command.get_args()).map(OsStr::to_owned).collect();
        let environment = command.get_envs().filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())));
        Commander { start, environment: environment.collect(), folder: self.folder.clone(), meta: self.meta() }
    }

    /// `weft COMMAND META` on the first mount's machine.
    ///
    /// # Errors
    /// It does not end in time.
    pub fn ask(&self, command: &[&str], deadline: Duration) -> Result<Output> {
        self.commander().ask(command, &[], deadline)
    }

    /// Starts a node's daemon on its disk, if it does not run.
    ///
    /// # Errors
    /// It does not answer.
    pub fn start_daemon(&mut self, number: usize) -> Result<()> {
        if self.nodes[number].daemon.is_some() {
            return Ok(());
        }
        self.nodes[number].disk.mount()?;
        let (listen, known) = (self.address(number), self.address(0));
        let (folder, key) = (self.shards(number).to_string_lossy().into_owned(), key(number));
        let gossip: &[&str] =
            if self.plan.has_gossip { &["--join", &known, "--cluster-key", "cluster.key"] } else { &[] };
        let arguments = ["node", "serve", &folder, "--listen", &listen, "--plain", "--key", &key];
        let command = self.weft(self.machine(Target::Daemon(number)), &[&arguments[..], gossip].concat());
        let mut daemon = Process::start(command, &format!("node{number}"), &self.logs())?;
        let began = Instant::now();
        // The first one makes the key, which is needed to add the node.
        while !self.folder.join(&key).exists() {
            if let Some(status) = daemon.ended() {
                bail!("the daemon of node{number} ended with {status}");
            }
            if began.elapsed() > COMMAND_DEADLINE {
                bail!("the daemon of node{number} makes no key");
            }
            std::thread::sleep(super::process::GLANCE);
        }
        self.nodes[number].daemon = Some(daemon);
        Ok(())
    }

    /// Starts the worker, if it does not run.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start_worker(&mut self) -> Result<()> {
        if self.worker.is_none() {
            let timeouts =
                ["--give-up-after", self.plan.give_up_after, "--scrub-every", "45s", "--balance-every", "10s"];
            let command = self.weft(self.machine(Target::Worker), &[&["care", &self.meta()][..], &timeouts].concat());
            self.worker = Some(Process::start(command, "worker", &self.logs())?);
        }
        Ok(())
    }

    /// Starts the metadata's server on its disk, if there is one and it does not run.
    ///
    /// # Errors
    /// The process cannot be started.
    pub fn start_server(&mut self) -> Result<()> {
        if let (Some(server), None) = (&self.server, &self.server_process) {
            self.metadata.mount()?;
            self.server_process = Some(server.start(&self.network, &self.logs())?);
        }
        Ok(())
    }

    /// Starts to mount.
    ///
    /// # Errors
    /// The process cannot be started.
    pub fn start_mount(&mut self, number: usize) -> Result<()> {
        let care: &[&str] = if self.plan.mount_cares { &[] } else { &["--no-care"] };
        let shared: &[&str] = if self.is_shared() { &["--shared"] } else { &[] };
        // On the machine's disk, which is the metadata's if the metadata is there.
        let folder = if self.is_shared() { format!("cache{number}") } else { "metadata/cache".to_owned() };
        let cache: &[&str] = if self.plan.has_cache { &["--cache", &folder, "--cache-size", "100M"] } else { &[] };
        let (meta, mountpoint, name) = (self.meta(), format!("mnt{number}"), format!("mount{number}"));
        let arguments = [&["mount", &meta, &mountpoint][..], shared, care, cache].concat();
        let command = self.weft_of_mount(number, &arguments);
        self.mounts[number] = Some(Process::start(command, &name, &self.logs())?);
        Ok(())
    }

    /// The process behind a mount.
    pub fn mount_process(&self, number: usize) -> Option<u32> {
        self.mounts[number].as_ref().map(Process::id)
    }

    /// Is something mounted? Asks the kernel only, not the mount.
    pub fn is_mounted(&self, number: usize) -> bool {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let mountpoint = self.mountpoint(number);
        mounts.lines().any(|line| line.split(' ').nth(1).is_some_and(|path| Path::new(path) == mountpoint))
    }

    /// Ends the mount of a process that is dead, so that its requests end.
    pub fn abandon_mount(&mut self, number: usize) {
        self.mounts[number] = None;
        while self.is_mounted(number) {
            let mut command = Command::new("umount");
            command.arg("-l").arg(self.mountpoint(number));
            if must(command, COMMAND_DEADLINE).is_err() {
                return;
            }
        }
    }

    /// A command on the machine of a mount, which keeps what it notes of its mounts in a folder of its own.
    fn weft_of_mount(&self, number: usize, arguments: &[&str]) -> Command {
        let mut command = self.weft(self.machine(Target::Mount(number)), arguments);
        command.env("XDG_STATE_HOME", self.folder.join(format!("state{number}")));
        command
    }

    /// `weft umount`, and the end of the process.
    ///
    /// # Errors
    /// It does not return 0, or the process does not end so.
    pub fn unmount(&mut self, number: usize, deadline: Duration) -> Result<()> {
        let mountpoint = format!("mnt{number}");
        must(self.weft_of_mount(number, &["umount", &mountpoint]), deadline)?;
        let Some(mut mount) = self.mounts[number].take() else { return Ok(()) };
        match mount.wait(COMMAND_DEADLINE) {
            Some(status) if status.success() => Ok(()),
            Some(status) => bail!("the mount's process ended with {status} after an unmount that returned 0"),
            None => bail!("the mount's process did not end after an unmount that returned 0"),
        }
    }

    /// Ends the worker as a signal does.
    ///
    /// # Errors
    /// It does not end well.
    pub fn end_worker(&mut self) -> Result<()> {
        let Some(mut worker) = self.worker.take() else { return Ok(()) };
        worker.signal(Signal::TERM);
        match worker.wait(COMMAND_DEADLINE) {
            Some(status) if status.success() => Ok(()),
            Some(status) => bail!("the worker ended with {status} after SIGTERM"),
            None => bail!("the worker did not end after SIGTERM"),
        }
    }

    fn slot(&mut self, target: Target) -> &mut Option<Process> {
        match target {
            Target::Mount(number) => &mut self.mounts[number],
            Target::Worker => &mut self.worker,
            Target::Server => &mut self.server_process,
            Target::Daemon(number) => &mut self.nodes[number].daemon,
        }
    }

    /// Sends a signal.
    pub fn signal(&mut self, target: Target, signal: Signal) {
        if let Some(process) = self.slot(target) {
            process.signal(signal);
        }
    }

    /// Kills a process; of a mount, its requests end, and of the server, its other processes, which may wait for one another for ever.
    pub fn kill(&mut self, target: Target) {
        if let Some(mut process) = self.slot(target).take() {
            process.kill();
        }
        if target == Target::Server {
            // What is left is seen where its disk is unmounted.
            let _ = self.network.kill_all(self.machine(target));
        }
        if let Target::Mount(number) = target {
            self.abandon_mount(number);
        }
    }

    /// All that processes may be.
    pub fn targets(&self) -> Vec<Target> {
        let mounts = (0..self.mounts.len()).map(Target::Mount);
        let server = self.server.as_ref().map(|_| Target::Server);
        mounts.chain([Target::Worker]).chain(server).chain((0..self.nodes.len()).map(Target::Daemon)).collect()
    }

    /// The processes that have ended, though nobody has ended them, with what became of them.
    pub fn deserters(&mut self) -> Vec<(Target, String)> {
        let mut deserters = Vec::new();
        for target in self.targets() {
            if let Some(process) = self.slot(target)
                && let Some(status) = process.ended()
            {
                deserters.push((target, format!("{} ended with {status}", process.name())));
                *self.slot(target) = None;
            }
        }
        deserters
    }

    /// Why redundancy is not whole; `None` if it is.
    ///
    /// # Errors
    /// `weft status` does not end in time.
    pub fn lack(&self) -> Result<Option<String>> {
        let Output { status, stdout, stderr } = self.ask(&["status", "--json"], COMMAND_DEADLINE)?;
        let report: Value = serde_json::from_slice(&stdout).unwrap_or_default();
        if !status.success() || report["survives_losses"].as_u64().is_some_and(|losses| losses < 2) {
            let summary = report["summary"].as_str().map(str::to_owned);
            return Ok(Some(summary.unwrap_or_else(|| String::from_utf8_lossy(&stderr).trim().to_owned())));
        }
        let away = |node: &&Value| node["answers"] != true || node["is_given_up"] == true;
        let away = report["nodes"].as_array().context("no nodes")?.iter().filter(away).count();
        Ok((away > 0).then(|| format!("{away} nodes are away")))
    }

    /// The files of shards of a node, in an order of their own; without records of openings.
    pub fn shard_files(&self, number: usize) -> Vec<PathBuf> {
        let mut files = Vec::new();
        for folder in fs::read_dir(self.shards(number)).into_iter().flatten().flatten() {
            let is_of_segments = folder.path().is_dir() && folder.file_name() != "ff";
            let inside = is_of_segments.then(|| fs::read_dir(folder.path()).ok()).flatten();
            files.extend(inside.into_iter().flatten().flatten().map(|entry| entry.path()));
        }
        files.retain(|path| path.metadata().is_ok_and(|facts| facts.is_file() && facts.size() > 0));
        files.sort();
        files
    }

    /// Where a copy of a node's folder is kept.
    fn copy(&self) -> PathBuf {
        self.folder.join("copy")
    }

    /// Copies a node's folder while it is in use, instead of the copy before.
    pub fn copy_shards(&self, number: usize) {
        let _ = fs::remove_dir_all(self.copy());
        let mut command = Command::new("cp");
        command.arg("-a").arg(self.shards(number)).arg(self.copy());
        // A file that is removed meanwhile is not in the copy.
        let _ = output_of(command, COMMAND_DEADLINE);
    }

    /// Puts the copy in the place of a node's folder, whose daemon must be down.
    ///
    /// # Errors
    /// It cannot be copied.
    pub fn put_copy_back(&self, number: usize) -> Result<()> {
        let shards = self.shards(number);
        fs::remove_dir_all(&shards)?;
        let mut command = Command::new("cp");
        command.arg("-a").arg(self.copy()).arg(&shards);
        must(command, COMMAND_DEADLINE)?;
        // Who brings a copy back waits until the disk has it.
        Ok(rustix::fs::syncfs(fs::File::open(shards)?)?)
    }
}

fn key(number: usize) -> String {
    format!("node{number}.key")
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for target in self.targets() {
            self.kill(target);
        }
    }
}
