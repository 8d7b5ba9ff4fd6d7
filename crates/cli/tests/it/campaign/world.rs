//! Four disks, a volume over six nodes on three of them (four folders and two daemons), its mount and a worker.

use super::disk::{Disk, place};
use crate::sandbox::any_port;
use rustix::process::{Pid, Signal};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// How long the volume may take to become whole when nothing strikes any more; generous, for busy machines.
const WHOLE_WITHIN: Duration = Duration::from_secs(300);

/// The disk of the daemons; nobody else has files of it open.
const DAEMONS_DISK: usize = 2;

pub struct World {
    // Processes end before the disks below them.
    mount: Option<Child>,
    worker: Option<Child>,
    daemons: Vec<Daemon>,
    meta_disk: Disk,
    node_disks: Vec<Disk>,
    root: tempfile::TempDir,
}

struct Daemon {
    folder: PathBuf,
    address: String,
    process: Option<Child>,
}

impl World {
    pub fn new(code: &str) -> Self {
        let root = tempfile::Builder::new().prefix("weft-campaign-").tempdir_in(place()).expect("a folder");
        let disk = |name: &str, kind: &str| Disk::new(root.path().join(name), kind);
        let meta_disk = disk("meta", "xfs");
        let node_disks = vec![disk("a", "ext4"), disk("b", "xfs"), disk("c", "ext4")];
        std::fs::create_dir(root.path().join("mnt")).expect("a mount point");
        let mut world = Self { mount: None, worker: None, daemons: Vec::new(), meta_disk, node_disks, root };
        world.weft(&["format", &world.meta(), "--policy", code]);
        for (number, disk) in [0, 0, 1, 1].into_iter().enumerate() {
            let folder = world.node_disks[disk].folder.join(format!("node{number}"));
            world.weft(&["node", "add", &world.meta(), &format!("folder{number}"), &folder.display().to_string()]);
        }
        for number in 0..2 {
            let folder = world.node_disks[DAEMONS_DISK].folder.join(format!("node{number}"));
            std::fs::create_dir(&folder).expect("a folder");
            let mut daemon = Daemon { folder, address: any_port(), process: None };
            daemon.start();
            world.weft(&[
                "node",
                "add",
                &world.meta(),
                &format!("daemon{number}"),
                &format!("weft://{}", daemon.address),
            ]);
            world.daemons.push(daemon);
        }
        world
    }

    fn meta(&self) -> String {
        self.meta_disk.folder.join("meta.db").display().to_string()
    }

    pub fn mountpoint(&self) -> PathBuf {
        self.root.path().join("mnt")
    }

    pub fn is_mounted(&self) -> bool {
        self.mount.is_some()
    }

    pub fn mount(&mut self) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weft"));
        command.args(["mount", &self.meta()]).arg(self.mountpoint()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("weft starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("it speaks");
        self.mount = Some(child);
        assert!(line.contains("is mounted at"), "the mount says `{line}`");
        if self.worker.is_none() {
            let mut command = Command::new(env!("CARGO_BIN_EXE_weft"));
            command.args(["care", &self.meta()]).stdout(Stdio::null()).stderr(Stdio::null());
            self.worker = Some(command.spawn().expect("weft starts"));
        }
    }

    pub fn umount(&mut self) {
        let mut child = self.mount.take().expect("it is mounted");
        self.weft(&["umount", &self.mountpoint().display().to_string()]);
        assert!(child.wait().expect("it ends").success(), "the mount ends well");
    }

    pub fn kill_mount(&mut self) {
        end(self.mount.take());
    }

    pub fn stop_mount(&mut self, pause: Duration) {
        pause_process(self.mount.as_ref(), pause);
    }

    pub fn kill_worker(&mut self, pause: Duration) {
        end(self.worker.take());
        std::thread::sleep(pause);
    }

    pub fn stop_worker(&mut self, pause: Duration) {
        pause_process(self.worker.as_ref(), pause);
    }

    pub fn kill_daemon(&mut self, index: usize, pause: Duration) {
        let count = self.daemons.len();
        let daemon = &mut self.daemons[index % count];
        end(daemon.process.take());
        std::thread::sleep(pause);
        daemon.start();
    }

    pub fn stop_daemon(&mut self, index: usize, pause: Duration) {
        pause_process(self.daemons[index % self.daemons.len()].process.as_ref(), pause);
    }

    /// The power of the machine that serves the daemons.
    pub fn cut_daemons(&mut self, pause: Duration) {
        self.node_disks[DAEMONS_DISK].cut();
        self.daemons.iter_mut().for_each(|daemon| end(daemon.process.take()));
        std::thread::sleep(pause);
        self.node_disks[DAEMONS_DISK].restore();
        self.daemons.iter_mut().for_each(Daemon::start);
    }

    /// The power of everything.
    pub fn cut_all(&mut self) {
        let disks = || self.node_disks.iter().chain([&self.meta_disk]);
        disks().for_each(Disk::cut);
        end(self.mount.take());
        end(self.worker.take());
        self.daemons.iter_mut().for_each(|daemon| end(daemon.process.take()));
        disks().for_each(Disk::restore);
        self.daemons.iter_mut().for_each(Daemon::start);
    }

    /// Everything gets another code, in the background.
    pub fn convert(&self, code: &str) {
        self.weft(&["policy", "set", &self.meta(), "/", code, "--convert"]);
    }

    pub fn check_metadata(&self) {
        self.weft(&["fsck", &self.meta()]);
    }

    /// Takes away at once what nothing needs any more: the room is small, and mounts live for seconds only.
    pub fn collect(&mut self) {
        end(self.worker.take());
        self.weft(&["gc", &self.meta(), "--grace", "0"]);
    }

    pub fn scrub(&self) {
        self.weft(&["scrub", &self.meta()]);
    }

    /// Waits until `weft status` has nothing to say against the volume.
    pub fn becomes_whole(&self) {
        let began = Instant::now();
        loop {
            let output = self.try_weft(&["status", &self.meta()]);
            if output.status.success() {
                return;
            }
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(!said.contains("LOST"), "everything reads, and status says: {said}");
            assert!(began.elapsed() < WHOLE_WITHIN, "it does not become whole: {said}");
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Runs `weft`, which must succeed.
    fn weft(&self, arguments: &[&str]) {
        let output = self.try_weft(arguments);
        let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "weft {arguments:?}: {}: {text}", output.status);
    }

    fn try_weft(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_weft")).args(arguments).output().expect("weft starts")
    }
}

impl Daemon {
    /// Starts it where it was before.
    fn start(&mut self) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weft"));
        command.args(["node", "serve"]).arg(&self.folder).args(["--listen", &self.address]).stdout(Stdio::piped());
        let mut child = command.spawn().expect("weft starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("it speaks");
        self.process = Some(child);
        let address = line.split("weft://").nth(1).and_then(|rest| rest.split([' ', '/', '\n']).next());
        self.address = address.unwrap_or_else(|| panic!("the daemon says `{line}`")).to_owned();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        end(self.process.take());
    }
}

impl Drop for World {
    fn drop(&mut self) {
        end(self.mount.take());
        end(self.worker.take());
        self.daemons.clear();
        let _ = Command::new("umount").arg("-l").arg(self.mountpoint()).stderr(Stdio::null()).status();
    }
}

fn end(process: Option<Child>) {
    if let Some(mut process) = process {
        let _ = process.kill();
        let _ = process.wait();
    }
}

fn pause_process(process: Option<&Child>, pause: Duration) {
    let Some(process) = process else { return };
    let id = Pid::from_child(process);
    rustix::process::kill_process(id, Signal::STOP).expect("stopped");
    std::thread::sleep(pause);
    rustix::process::kill_process(id, Signal::CONT).expect("goes on");
}
