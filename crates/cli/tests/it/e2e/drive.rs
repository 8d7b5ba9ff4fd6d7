//! One volume over folders, and the process that has it mounted.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};

pub struct Drive {
    folder: tempfile::TempDir,
    mount: Option<Child>,
}

impl Drive {
    /// A formatted volume with `node_count` nodes named `n1`, `n2`, ...
    pub fn new(code: &str, node_count: usize) -> Drive {
        Self::with_disks(code, node_count, None, None)
    }

    /// The same, with metadata and every node on a tmpfs of so many MiB, where given.
    pub fn with_disks(code: &str, node_count: usize, meta_mib: Option<u32>, node_mib: Option<u32>) -> Drive {
        let drive = Drive { folder: tempfile::tempdir().expect("a temporary folder"), mount: None };
        std::fs::create_dir(drive.mountpoint()).expect("a mount point");
        std::fs::create_dir(drive.folder.path().join("nodes")).expect("a place for nodes");
        let disk = |path: PathBuf, mib: Option<u32>| {
            if let Some(mib) = mib {
                std::fs::create_dir_all(&path).expect("a folder");
                let options = format!("size={mib}m");
                let status =
                    Command::new("mount").args(["-t", "tmpfs", "-o", &options, "weft-test"]).arg(&path).status();
                assert!(status.expect("mount is there").success(), "a small tmpfs needs root");
            }
        };
        disk(drive.folder.path().join("meta"), meta_mib);
        if meta_mib.is_none() {
            std::fs::create_dir(drive.folder.path().join("meta")).expect("a place for metadata");
        }
        (1..=node_count).for_each(|i| disk(drive.node(i), node_mib));
        drive.weft(&["format", &drive.meta(), "--policy", code]);
        for i in 1..=node_count {
            drive.weft(&["node", "add", &drive.meta(), &format!("n{i}"), &drive.node(i).display().to_string()]);
        }
        drive
    }

    pub fn meta(&self) -> String {
        self.folder.path().join("meta/meta.db").display().to_string()
    }

    pub fn mountpoint(&self) -> PathBuf {
        self.folder.path().join("mnt")
    }

    /// The folder of node `i`, as it was added first.
    pub fn node(&self, i: usize) -> PathBuf {
        self.folder.path().join(format!("nodes/{i}"))
    }

    pub fn elsewhere(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Mounts in a child process and waits until it says so. Nobody mends what a test damages but the test itself.
    pub fn mount(&mut self) {
        self.mount_by(Command::new(env!("CARGO_BIN_EXE_weft")));
    }

    /// The same, by a program that runs `weft` under some restraint.
    pub fn mount_under(&mut self, program: &str, arguments: &[&str]) {
        let mut command = Command::new(program);
        command.args(arguments).arg(env!("CARGO_BIN_EXE_weft"));
        self.mount_by(command);
    }

    fn mount_by(&mut self, mut command: Command) {
        assert!(self.mount.is_none(), "it is mounted");
        let mut child = command
            .args(["mount", "--no-care", &self.meta()])
            .arg(self.mountpoint())
            .stdout(Stdio::piped())
            .spawn()
            .expect("weft starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("it speaks");
        self.mount = Some(child);
        assert!(line.contains("is mounted at"), "the mount says `{line}`");
    }

    /// `kill -9` of the mount's process.
    pub fn kill(&mut self) {
        let mut child = self.mount.take().expect("it is mounted");
        child.kill().expect("it can be killed");
        child.wait().expect("it ends");
    }

    pub fn umount(&mut self) {
        let (said, status) = self.end();
        assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
        assert!(status.success(), "the mount ends well");
    }

    /// Nodes without room may lack the last changes of the metadata: then that is the only thing that is wrong.
    pub fn umount_full(&mut self) {
        let (said, status) = self.end();
        let words = String::from_utf8_lossy(&said.stderr);
        assert_eq!(said.status.success(), status.success(), "{words}");
        assert!(status.success() || words.contains("the nodes lack the last changes of the metadata"), "{words}");
    }

    /// What `weft umount` says, and how the mount ends.
    fn end(&mut self) -> (Output, ExitStatus) {
        let mut child = self.mount.take().expect("it is mounted");
        let mountpoint = self.mountpoint().display().to_string();
        // What another test's thread starts has this test's open files until it becomes another program: soon, on a busy machine.
        let is_in_use = |output: &Output| String::from_utf8_lossy(&output.stderr).contains("is in use");
        let tries = (0..100).map(|_| {
            std::thread::sleep(std::time::Duration::from_millis(20));
            self.try_weft(&["umount", &mountpoint])
        });
        let first = self.try_weft(&["umount", &mountpoint]);
        let last =
            std::iter::once(first).chain(tries).find(|output| !is_in_use(output)).expect("somebody keeps it in use");
        (last, child.wait().expect("it ends"))
    }

    /// Empties the kernel's caches of the mount, so that the next read asks the nodes.
    pub fn remount(&mut self) {
        self.umount();
        self.mount();
    }

    /// Runs `weft`, which must succeed; returns what it printed.
    pub fn weft(&self, arguments: &[&str]) -> String {
        let output = self.try_weft(arguments);
        let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "weft {arguments:?}: {}: {text}", output.status);
        text
    }

    pub fn try_weft(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_weft")).args(arguments).output().expect("weft starts")
    }

    /// The first line of `weft status`.
    pub fn verdict(&self) -> String {
        let output = self.try_weft(&["status", &self.meta()]);
        String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().to_string()
    }
}

impl Drop for Drive {
    fn drop(&mut self) {
        if let Some(mut child) = self.mount.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        // A killed mount leaves its entry behind; without one this says so and changes nothing.
        let detach = |path: &Path| {
            let _ = Command::new("umount").arg("-l").arg(path).stderr(Stdio::null()).status();
        };
        detach(&self.mountpoint());
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let below = mounts.lines().filter_map(|line| line.split(' ').nth(1)).map(Path::new);
        below.filter(|path| path.starts_with(self.folder.path())).for_each(detach);
    }
}

/// All regular files below `folder`.
pub fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            // What nodes know of openings is no file's.
            let is_opening = entry.file_name().to_string_lossy().starts_with(&"f".repeat(32));
            match path.is_dir() {
                true => folders.push(path),
                false if is_opening => {}
                false => found.push(path),
            }
        }
    }
    found.sort();
    found
}
