//! Machines on a switch, as network namespaces, whose cables can be pulled; or, without namespaces, ports of this machine.

use super::process::must;
use anyhow::Result;
use rustix::process::{Pid, Signal, kill_process};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const DEADLINE: Duration = Duration::from_secs(20);
const PORT: u16 = 7600;

/// Which packets of a machine do not arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Neither those that it sends nor those for it.
    Both,
    /// Those that it sends.
    Sent,
    /// Those for it.
    Received,
}

/// Gone when dropped.
pub struct Network {
    /// The namespace of the switch, and those of machines.
    switch: Option<String>,
    machines: Vec<String>,
    ports: Vec<u16>,
    /// Does each machine have a name of its own?
    has_names: bool,
}

impl Network {
    /// This number of machines, each with a name of its own if `has_names`.
    ///
    /// # Errors
    /// Neither namespaces can be made, nor ports be had.
    pub fn new(machine_count: usize, has_names: bool) -> Result<Self> {
        let switch = Some(format!("chaos{}", std::process::id()));
        let mut network = Self { switch, machines: Vec::new(), ports: vec![PORT; machine_count], has_names };
        if network.make_machines(machine_count).is_ok() {
            return Ok(network);
        }
        drop(network);
        let listeners = (0..machine_count).map(|_| TcpListener::bind("127.0.0.1:0")).collect::<Result<Vec<_>, _>>()?;
        let ports = listeners.iter().map(|listener| Ok(listener.local_addr()?.port())).collect::<Result<_>>()?;
        Ok(Self { switch: None, machines: Vec::new(), ports, has_names: false })
    }

    fn make_machines(&mut self, machine_count: usize) -> Result<()> {
        let switch = self.switch.clone().unwrap_or_default();
        ip(&["netns", "add", &switch])?;
        ip(&["-n", &switch, "link", "add", "switch", "type", "bridge"])?;
        ip(&["-n", &switch, "link", "set", "switch", "up"])?;
        for number in 0..machine_count {
            let machine = format!("{switch}-{number}");
            ip(&["netns", "add", &machine])?;
            self.machines.push(machine.clone());
            let port = port(number);
            ip(&["-n", &switch, "link", "add", &port, "type", "veth", "peer", "name", "eth0", "netns", &machine])?;
            ip(&["-n", &switch, "link", "set", &port, "master", "switch", "up"])?;
            ip(&["-n", &machine, "addr", "add", &format!("10.0.0.{}/24", number + 1), "dev", "eth0"])?;
            ip(&["-n", &machine, "link", "set", "eth0", "up"])?;
            ip(&["-n", &machine, "link", "set", "lo", "up"])?;
        }
        Ok(())
    }

    /// Can cables be pulled?
    pub fn has_cables(&self) -> bool {
        self.switch.is_some()
    }

    /// Where a machine's server listens.
    pub fn address(&self, machine: usize) -> String {
        let port = self.ports[machine];
        if self.has_cables() { format!("10.0.0.{}:{port}", machine + 1) } else { format!("127.0.0.1:{port}") }
    }

    /// A program on a machine. Its files are those of all others, and it ends when chaos does.
    pub fn command(&self, machine: usize, program: &Path) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]);
        if let Some(name) = self.machines.get(machine) {
            command.args(["nsenter", &format!("--net=/run/netns/{name}")]);
            if self.has_names {
                command.args(["unshare", "--uts", "sh", "-c", "hostname \"$0\" && exec \"$@\"", name]);
            }
        }
        command.arg(program);
        command
    }

    /// Kills all processes of a machine.
    ///
    /// # Errors
    /// Those of `ip`.
    pub fn kill_all(&self, machine: usize) -> Result<()> {
        let Some(name) = self.machines.get(machine) else { return Ok(()) };
        for number in ip(&["netns", "pids", name])?.split_whitespace() {
            // One may have ended meanwhile.
            let process = number.parse().ok().and_then(Pid::from_raw);
            process.map(|process| kill_process(process, Signal::KILL));
        }
        Ok(())
    }

    /// From now on packets do not arrive, without an error for the sender.
    ///
    /// # Errors
    /// Those of `ip` and `tc`.
    pub fn cut(&self, machine: usize, cut: Cut) -> Result<()> {
        let Some(switch) = &self.switch else { return Ok(()) };
        match cut {
            Cut::Both => ip(&["-n", switch, "link", "set", &port(machine), "down"]).map(drop),
            Cut::Sent => queue("replace", &self.machines[machine], "eth0"),
            Cut::Received => queue("replace", switch, &port(machine)),
        }
    }

    /// Packets arrive again.
    ///
    /// # Errors
    /// Those of `ip`.
    pub fn plug(&self, machine: usize) -> Result<()> {
        let Some(switch) = &self.switch else { return Ok(()) };
        ip(&["-n", switch, "link", "set", &port(machine), "up"])?;
        // There may be none to remove.
        let _ = queue("delete", &self.machines[machine], "eth0");
        let _ = queue("delete", switch, &port(machine));
        Ok(())
    }
}

/// The switch's end of a machine's cable.
fn port(machine: usize) -> String {
    format!("port{machine}")
}

/// A queue from which nothing is ever sent.
fn queue(what: &str, namespace: &str, device: &str) -> Result<()> {
    ip(&["netns", "exec", namespace, "tc", "qdisc", what, "dev", device, "root", "blackhole"]).map(drop)
}

/// What `ip` prints.
fn ip(arguments: &[&str]) -> Result<String> {
    let mut command = Command::new("ip");
    command.args(arguments);
    must(command, DEADLINE)
}

impl Drop for Network {
    fn drop(&mut self) {
        for namespace in self.machines.iter().chain(&self.switch) {
            let _ = ip(&["netns", "delete", namespace]);
        }
    }
}
