//! A volume whose metadata is on a server of an engine, and what tests do with it.

use crate::sandbox::{Said, Sandbox};
use rustix::process::Pid;
use std::fs;
use std::path::Path;
use std::process::Command;

/// A server, and a volume of six nodes on it.
pub struct Served<S> {
    pub server: S,
    pub sandbox: Sandbox,
    pub url: String,
}

impl<S> Served<S> {
    pub fn on(server: S, url: String) -> Self {
        let volume = Self { server, sandbox: Sandbox::empty(), url };
        volume.weft(&["format", "--policy", "rs:4+2", &volume.url]).ok();
        for number in 1..=6 {
            let node = volume.sandbox.path(&format!("node{number}"));
            volume.weft(&["node", "add", &volume.url, &number.to_string(), &node]).ok();
        }
        volume
    }

    /// What programs note of the volume is in the sandbox, too.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.sandbox.command(arguments);
        command.env("XDG_STATE_HOME", self.sandbox.path("state"));
        command
    }

    pub fn weft(&self, arguments: &[&str]) -> Said {
        self.command(arguments).output().expect("weft runs").into()
    }

    pub fn mount(&self) {
        self.sandbox.mount_by(self.command(&["mount", "-d", &self.url, &self.sandbox.mnt()]));
    }

    pub fn umount(&self) {
        self.weft(&["umount", &self.sandbox.mnt()]).ok();
    }

    /// As `weft session list` has them.
    pub fn sessions(&self) -> Vec<serde_json::Value> {
        let text = self.weft(&["session", "list", "--json", &self.url]).ok();
        serde_json::from_str(&text).expect("JSON")
    }

    /// The process that has it mounted.
    pub fn owner(&self) -> Pid {
        let sessions = self.sessions();
        let owner = sessions.iter().find(|session| session["role"] != "helper").expect("an owner");
        process_of(owner).expect("a number")
    }
}

/// The process of a session.
pub fn process_of(session: &serde_json::Value) -> Option<Pid> {
    session["process"].as_i64().and_then(|process| i32::try_from(process).ok()).and_then(Pid::from_raw)
}

pub fn write_synced(path: &Path, content: &[u8]) -> std::io::Result<()> {
    fs::write(path, content)?;
    fs::File::open(path)?.sync_all()
}

pub fn remove_shards(node: &str) {
    let folders = fs::read_dir(node).expect("listed").map(|entry| entry.expect("an entry").path());
    folders.filter(|path| path.is_dir()).for_each(|path| fs::remove_dir_all(path).expect("removed"));
}

pub fn run(folder: &Path, program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).current_dir(folder).output().expect("it runs");
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}
