//! A cluster of etcd, as Debian has it.

use super::{Identity, Port, START_MAX};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use weft_env::{Clock, SystemClock};

/// Members that find each other.
pub struct Etcd {
    folder: tempfile::TempDir,
    members: Vec<Member>,
    /// Files of a certificate and its key: clients use TLS.
    tls: Option<[PathBuf; 2]>,
}

struct Member {
    port: Port,
    peer_port: Port,
    child: Option<Child>,
}

impl Etcd {
    /// `count` new members, and an empty store.
    ///
    /// # Panics
    /// etcd is not installed, or does not start.
    #[must_use]
    pub fn start(count: usize) -> Self {
        Self::with(count, &[])
    }

    /// The same with further options for each member.
    ///
    /// # Panics
    /// As [`Self::start`].
    #[must_use]
    pub fn with(count: usize, options: &[&str]) -> Self {
        Self::start_with(count, options, None)
    }

    /// `count` new members that clients reach with TLS.
    ///
    /// # Panics
    /// As [`Self::start`].
    #[must_use]
    pub fn with_tls(count: usize, identity: &Identity) -> Self {
        Self::start_with(count, &[], Some(identity))
    }

    fn start_with(count: usize, options: &[&str], identity: Option<&Identity>) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let tls = identity.map(|identity| identity.write_to(folder.path()));
        let member = |_| Member { port: Port::reserve(), peer_port: Port::reserve(), child: None };
        let members = (0..count).map(member).collect();
        let mut cluster = Self { folder, members, tls };
        for member in 0..count {
            cluster.spawn(member, options);
        }
        cluster.await_leader();
        cluster
    }

    fn name(member: usize) -> String {
        format!("member{member}")
    }

    fn spawn(&mut self, member: usize, options: &[&str]) {
        let names = (0..self.members.len())
            .map(|other| format!("{}=http://127.0.0.1:{}", Self::name(other), self.members[other].peer_port.number));
        let cluster = names.collect::<Vec<_>>().join(",");
        let peer_port = self.members[member].peer_port.number;
        let (client, peer) = (self.endpoint(member), format!("http://127.0.0.1:{peer_port}"));
        let folder = self.folder.path().join(Self::name(member));
        let log = self.folder.path().join(format!("log{member}"));
        let log = File::options().create(true).append(true).open(log).expect("a log");
        let mut command = Command::new("etcd");
        command.args(["--name", &Self::name(member), "--data-dir"]).arg(folder);
        command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        command.args(["--initial-cluster", &cluster, "--initial-cluster-state", "new", "--logger", "zap"]);
        if let Some([certificate, key]) = &self.tls {
            command.arg("--cert-file").arg(certificate).arg("--key-file").arg(key);
        }
        command.args(options);
        let output = log.try_clone().expect("a log");
        let child = command.stdin(Stdio::null()).stdout(output).stderr(log).spawn();
        self.members[member].child = Some(child.expect("etcd runs: install etcd-server"));
    }

    fn endpoint(&self, member: usize) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://127.0.0.1:{}", self.members[member].port.number)
    }

    fn await_leader(&self) {
        let deadline = SystemClock.now() + START_MAX;
        while self.leader().is_none() {
            assert!(SystemClock.now() < deadline, "no leader is chosen: {}", self.log(0));
            SystemClock.block(Duration::from_millis(50));
        }
    }

    fn log(&self, member: usize) -> String {
        std::fs::read_to_string(self.folder.path().join(format!("log{member}"))).unwrap_or_default()
    }

    /// Which member leads, if a running one knows.
    ///
    /// # Panics
    /// There is no `etcdctl`.
    #[must_use]
    pub fn leader(&self) -> Option<usize> {
        (0..self.members.len()).find(|member| {
            let has_process = self.members[*member].child.is_some();
            // id, version, size, is it the leader
            has_process && self.try_ctl(*member, &["endpoint", "status"]).is_ok_and(|line| line.contains(", true,"))
        })
    }

    /// Ends a member as a power cut would.
    pub fn kill(&mut self, member: usize) {
        if let Some(mut child) = self.members[member].child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Starts it again.
    pub fn resume(&mut self, member: usize) {
        self.spawn(member, &[]);
    }

    /// It does nothing until [`Self::wake`].
    ///
    /// # Panics
    /// It does not run.
    pub fn pause(&self, member: usize) {
        self.signal(member, Signal::STOP);
    }

    /// It goes on.
    ///
    /// # Panics
    /// It does not run.
    pub fn wake(&self, member: usize) {
        self.signal(member, Signal::CONT);
    }

    fn signal(&self, member: usize, signal: Signal) {
        let child = self.members[member].child.as_ref().expect("it runs");
        kill_process(Pid::from_child(child), signal).expect("a signal");
    }

    /// What a member listens on for clients.
    #[must_use]
    pub fn port(&self, member: usize) -> u16 {
        self.members[member].port.number
    }

    /// The address of a store with this name.
    #[must_use]
    pub fn url(&self, name: &str) -> String {
        let hosts: Vec<String> =
            self.members.iter().map(|member| format!("127.0.0.1:{}", member.port.number)).collect();
        let query = if self.tls.is_some() { "?tls=on" } else { "" };
        format!("etcd://{}/{name}{query}", hosts.join(","))
    }

    /// What etcd's own program says to this, of the first member.
    ///
    /// # Panics
    /// It fails.
    pub fn ctl(&self, arguments: &[&str]) -> String {
        self.try_ctl(0, arguments).unwrap_or_else(|why| panic!("etcdctl {arguments:?}: {why}"))
    }

    fn try_ctl(&self, member: usize, arguments: &[&str]) -> Result<String, String> {
        let mut command = Command::new("etcdctl");
        command.env("ETCDCTL_API", "3").args(["--dial-timeout=2s", "--command-timeout=3s", "--endpoints"]);
        command.arg(self.endpoint(member));
        if self.tls.is_some() {
            command.args(["--insecure-transport=false", "--insecure-skip-tls-verify"]);
        }
        let output = command.args(arguments).output().expect("etcdctl runs: install etcd-client");
        let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        if output.status.success() { Ok(said(&output.stdout)) } else { Err(said(&output.stderr)) }
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        (0..self.members.len()).for_each(|member| self.kill(member));
    }
}
