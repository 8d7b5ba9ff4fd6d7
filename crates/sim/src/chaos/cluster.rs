//! Machines: one with the metadata and the mount, one with a worker, and one for each node; each with a network of its own.

use super::disk::Disk;
use super::network::Network;
use super::process::{Process, must, output_of};
use anyhow::{Context, Result, bail};
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// The machine with the mount, ...
const OF_MOUNT: usize = 0;
/// ... the one with the worker, and the first of those of nodes.
const OF_WORKER: usize = 1;
const OF_NODES: usize = 2;

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
    /// Programs on the mount.
    pub programs: usize,
    /// Does the mount care, too?
    pub mount_cares: bool,
    /// After which silence the worker gives a node up.
    pub give_up_after: &'static str,
    /// Do daemons tell one another who is there?
    pub has_gossip: bool,
    /// Does the mount keep what it read on its machine's disk?
    pub has_cache: bool,
    /// The most time between two faults.
    pub between_ms: u64,
}

/// Codes and the nodes that they need.
const CODES: [(&str, usize); 3] = [("rs:3+2", 6), ("rs:2+2", 5), ("replica:3", 5)];

impl Plan {
    /// Chosen at random.
    pub fn of(mut below: impl FnMut(u64) -> u64) -> Self {
        let (code, nodes) = CODES[below(CODES.len() as u64) as usize];
        Self {
            code,
            nodes,
            programs: 2 + below(2) as usize,
            mount_cares: below(2) == 0,
            give_up_after: ["8s", "15m"][below(2) as usize],
            has_gossip: below(2) == 0,
            has_cache: below(2) == 0,
            between_ms: [1_000, 4_000, 10_000][below(3) as usize],
        }
    }
}

/// A process that faults strike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The one behind the mount.
    Mount,
    /// The worker.
    Worker,
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
    mount: Option<Process>,
    worker: Option<Process>,
    nodes: Vec<Node>,
    metadata: Disk,
    /// The last, since processes end before their machines.
    network: Network,
}

impl Cluster {
    /// A volume and its daemons, without a mount and a worker.
    ///
    /// # Errors
    /// Something cannot be made.
    pub fn new(folder: &Path, weft: &Path, plan: &Plan) -> Result<Self> {
        let network = Network::new(OF_NODES + plan.nodes)?;
        fs::create_dir(folder.join("logs"))?;
        fs::create_dir(folder.join("mnt"))?;
        let metadata = Disk::new(folder.join("metadata"), DISK_BYTES)?;
        let (plan, folder, weft) = (plan.clone(), folder.to_owned(), weft.to_owned());
        let mut cluster = Self { plan, folder, weft, mount: None, worker: None, nodes: Vec::new(), metadata, network };
        cluster.must(&["format", "--policy", cluster.plan.code, cluster.meta()])?;
        for number in 0..cluster.plan.nodes {
            let disk = Disk::new(cluster.folder.join(format!("node{number}")), DISK_BYTES)?;
            fs::create_dir(disk.folder().join("shards"))?;
            cluster.nodes.push(Node { disk, daemon: None });
            cluster.start_daemon(number)?;
            let url = format!("weft://{}", cluster.network.address(OF_NODES + number));
            let (name, key) = (format!("node{number}"), key(number));
            cluster.must(&["node", "add", cluster.meta(), &name, &url, "--key", &key, "--weight", "1"])?;
        }
        Ok(cluster)
    }

    /// What is missing of machines of their own, as a sentence.
    pub fn shortcomings(&self) -> Vec<&'static str> {
        let mut sentences = Vec::new();
        if !self.network.has_cables() {
            sentences.push("network namespaces cannot be made: everything is on 127.0.0.1, and nothing is cut off");
        }
        if !self.nodes.iter().all(|node| node.disk.is_own()) || !self.metadata.is_own() {
            sentences.push("ext4 images cannot be mounted: nodes are plain folders, never full or without power");
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

    /// The machine of a process.
    pub fn machine(target: Target) -> usize {
        match target {
            Target::Mount => OF_MOUNT,
            Target::Worker => OF_WORKER,
            Target::Daemon(number) => OF_NODES + number,
        }
    }

    /// Where programs work.
    pub fn mountpoint(&self) -> PathBuf {
        self.folder.join("mnt")
    }

    fn meta(&self) -> &'static str {
        // Commands run in the folder.
        "metadata/meta.db"
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
        command
    }

    /// A command on the mount's machine that must succeed.
    fn must(&self, arguments: &[&str]) -> Result<String> {
        must(self.weft(OF_MOUNT, arguments), COMMAND_DEADLINE)
    }

    /// `weft COMMAND META` on the mount's machine.
    ///
    /// # Errors
    /// It does not end in time.
    pub fn ask(&self, command: &[&str], deadline: Duration) -> Result<Output> {
        output_of(self.weft(OF_MOUNT, &[command, &[self.meta()]].concat()), deadline)
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
        let listen = self.network.address(OF_NODES + number);
        let (folder, key) = (self.shards(number).to_string_lossy().into_owned(), key(number));
        let known = self.network.address(OF_NODES);
        let gossip: &[&str] =
            if self.plan.has_gossip { &["--join", &known, "--cluster-key", "cluster.key"] } else { &[] };
        let arguments = ["node", "serve", &folder, "--listen", &listen, "--plain", "--key", &key];
        let command = self.weft(OF_NODES + number, &[&arguments[..], gossip].concat());
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
            let command = self.weft(OF_WORKER, &[&["care", self.meta()][..], &timeouts].concat());
            self.worker = Some(Process::start(command, "worker", &self.logs())?);
        }
        Ok(())
    }

    /// Starts to mount.
    ///
    /// # Errors
    /// The process cannot be started.
    pub fn start_mount(&mut self) -> Result<()> {
        let care: &[&str] = if self.plan.mount_cares { &[] } else { &["--no-care"] };
        let cache: &[&str] =
            if self.plan.has_cache { &["--cache", "metadata/cache", "--cache-size", "100M"] } else { &[] };
        let command = self.weft(OF_MOUNT, &[&["mount", self.meta(), "mnt"][..], care, cache].concat());
        self.mount = Some(Process::start(command, "mount", &self.logs())?);
        Ok(())
    }

    /// Is something mounted? Asks the kernel only, not the mount.
    pub fn is_mounted(&self) -> bool {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let mountpoint = self.mountpoint();
        mounts.lines().any(|line| line.split(' ').nth(1).is_some_and(|path| Path::new(path) == mountpoint))
    }

    /// Ends the mount of a process that is dead, so that its requests end.
    pub fn abandon_mount(&mut self) {
        self.mount = None;
        while self.is_mounted() {
            let mut command = Command::new("umount");
            command.arg("-l").arg(self.mountpoint());
            if must(command, COMMAND_DEADLINE).is_err() {
                return;
            }
        }
    }

    /// `weft umount`, and the end of the process.
    ///
    /// # Errors
    /// It does not return 0, or the process does not end so.
    pub fn unmount(&mut self, deadline: Duration) -> Result<()> {
        must(self.weft(OF_MOUNT, &["umount", "mnt"]), deadline)?;
        let Some(mut mount) = self.mount.take() else { return Ok(()) };
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
            Target::Mount => &mut self.mount,
            Target::Worker => &mut self.worker,
            Target::Daemon(number) => &mut self.nodes[number].daemon,
        }
    }

    /// Sends a signal.
    pub fn signal(&mut self, target: Target, signal: Signal) {
        if let Some(process) = self.slot(target) {
            process.signal(signal);
        }
    }

    /// Kills a process; of a mount, its requests end.
    pub fn kill(&mut self, target: Target) {
        if let Some(mut process) = self.slot(target).take() {
            process.kill();
        }
        if target == Target::Mount {
            self.abandon_mount();
        }
    }

    /// All that processes may be.
    pub fn targets(&self) -> Vec<Target> {
        [Target::Mount, Target::Worker].into_iter().chain((0..self.nodes.len()).map(Target::Daemon)).collect()
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
